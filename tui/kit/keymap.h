/* SPDX-License-Identifier: MIT */
/*
 * Keys as data: one table a view. Dispatch, hints and help are read from the same rows, so
 * none of them can be wrong.
 */
#pragma once

#include "tui/kit/input.h"
#include "tui/kit/surface.h"

#define UI_BINDING_KEYS 3

struct ui_binding {
    uint32_t keys[UI_BINDING_KEYS]; /* 0 = none */
    int action;                     /* never 0 */
    const char *hint;               /* short, for the bottom row; NULL = only in help */
    const char *help;
};

struct ui_keymap {
    const struct ui_binding *rows;
    size_t n;
};

/* 0 when the key means nothing here. Keys with Alt never mean anything. */
int ui_keymap_action(const struct ui_keymap *m, const struct ui_event *ev);
/* "j", "Enter", "^L"; `ascii` has no influence: names are words. */
const char *ui_key_name(uint32_t key, char out[12]);
/* "j  Down" of a row. */
void ui_binding_keys(const struct ui_binding *b, char *out, size_t n);
/* Hints "Enter review  Tab pane" from x on, as many as fit before column end. */
int ui_hints(struct ui_surface s, int y, int x, int end, const struct ui_keymap *m);

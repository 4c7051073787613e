/* SPDX-License-Identifier: MIT */
/* One line of text that a person types: edited by character, capped, never wrapped. */
#pragma once

#include "tui/kit/input.h"
#include "tui/kit/surface.h"

struct ui_field {
    char *text; /* UTF-8, NUL-terminated */
    size_t len, cap;
    size_t at; /* cursor, bytes */
    bool no_paste;
};

void ui_field_init(struct ui_field *f, size_t max);
void ui_field_free(struct ui_field *f);
void ui_field_set(struct ui_field *f, const char *text);
/* True if the event was the field's: letters, movement, deletion, paste. */
bool ui_field_event(struct ui_field *f, const struct ui_event *ev);
/* Draws it and puts the terminal's cursor there. */
void ui_field_draw(const struct ui_field *f, struct ui_surface s, int y, int x, int cols);

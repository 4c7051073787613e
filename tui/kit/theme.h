/* SPDX-License-Identifier: MIT */
/*
 * Themes: what each role looks like. A file (themes/README.md) gives a role a colour as
 * #rrggbb, a 256-colour index, one of 16 names, or several of these, and attributes; the
 * terminal's ability decides which is used. Without colours a fixed table of attributes
 * keeps every role apart.
 */
#pragma once

#include "tui/kit/surface.h"

struct ui_color {
    bool rgb_set;
    uint8_t r, g, b;
    int16_t index; /* of 256; -1 = not given */
    int8_t basic;  /* of 16; -1 = not given */
};

struct ui_look {
    struct ui_color color; /* nothing given = the terminal's own */
    uint16_t attr;         /* UI_BOLD ... */
};

struct ui_theme {
    char name[32];
    bool dark;
    struct ui_look roles[UI_ROLE_COUNT_];
    struct ui_look selected; /* its colour is a background */
    char warning[160];       /* contrast too low, in words; "" = fine */
};

enum ui_depth { UI_DEPTH_MONO, UI_DEPTH_16, UI_DEPTH_256, UI_DEPTH_RGB };

/* Pure, fuzzed. BG_ERR_CONFIG names file, line and column. */
BG_CHECK bool ui_theme_parse(struct ui_theme *t, const char *name, const char *p, size_t n,
                             struct bg_error *err);
/* NAME from the user's folder, else the installed or the source tree's themes/; a name with
 * a slash is a file. Without any file `mono` still exists. */
BG_CHECK bool ui_theme_load(struct ui_theme *t, const char *name, const char *config_dir,
                            struct bg_error *err);
void ui_theme_mono(struct ui_theme *t);
const char *ui_role_name(enum ui_role r);
/* Attributes for a terminal without colours. */
uint16_t ui_mono_attr(enum ui_role r);
/* The colour to use at this depth: -1 = the terminal's own; else an index, or 0xrrggbb at
 * UI_DEPTH_RGB. */
int ui_color_at(const struct ui_color *c, enum ui_depth depth);
/* WCAG contrast, times 100. */
int ui_contrast(const struct ui_color *a, const struct ui_color *b);

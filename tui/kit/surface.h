/* SPDX-License-Identifier: MIT */
/*
 * What is on the screen, as cells of our own: views draw into a grid through clipped
 * surfaces, term.c brings the grid to the terminal. No byte from outside reaches a cell but
 * through the review renderer, and nothing that is drawn here can leave its rectangle.
 */
#pragma once

#include "core/base/text.h"

/* What a cell means; a theme says how that looks. */
enum ui_role {
    UI_TEXT,
    UI_MUTED,
    UI_TITLE,
    UI_ACCENT,
    UI_KEY,
    UI_BORDER,
    UI_BORDER_FOCUS,
    UI_OK,
    UI_WARN,
    UI_HIGH,
    UI_ERR,
    UI_HIDDEN,
    UI_KEYWORD,
    UI_STRING,
    UI_NUMBER,
    UI_COMMENT,
    UI_NAME,
    UI_ROLE_COUNT_
};

/* A style: a role in the low byte, these above it. */
typedef uint16_t ui_style;
enum {
    UI_BOLD = 0x100,
    UI_DIM = 0x200,
    UI_REVERSE = 0x400,
    UI_UNDERLINE = 0x800,
    UI_SELECTED = 0x1000, /* the selected row's background */
};
#define UI_ROLE_OF(style) ((enum ui_role)((style)&0xff))

enum ui_cell_kind { UI_CELL_NARROW, UI_CELL_WIDE, UI_CELL_TAIL };

#define UI_CELL_CPS 4 /* more marks than that are escaped by the renderer */

struct ui_cell {
    uint32_t cp[UI_CELL_CPS]; /* base and marks; 0 = none */
    ui_style style;
    uint8_t kind;
};

enum ui_border { UI_BORDER_LINE, UI_BORDER_ROUND, UI_BORDER_ASCII };

struct ui_grid {
    int h, w;
    struct ui_cell *cells;
    bool ascii; /* the terminal's character set is no UTF-8 */
    enum ui_border border;
    int cursor_y, cursor_x; /* -1 = hidden */
};

struct ui_rect {
    int y, x, h, w;
};

/* A rectangle of the grid with its own origin; everything outside is cut off. */
struct ui_surface {
    struct ui_grid *g;
    struct ui_rect r;
};

void ui_grid_size(struct ui_grid *g, int h, int w); /* empties it; 1..1000 each way */
void ui_grid_clear(struct ui_grid *g);
void ui_grid_free(struct ui_grid *g);
struct ui_surface ui_whole(struct ui_grid *g);
struct ui_surface ui_sub(struct ui_surface s, int y, int x, int h, int w);

/* Our own marks, with a form for terminals without UTF-8. */
enum ui_glyph {
    UI_G_SELECT,
    UI_G_WRAP,
    UI_G_RULE,
    UI_G_CUT,
    UI_G_DOT,
    UI_G_INTO,
    UI_G_RUN,
    UI_G_START,
    UI_G_IDLE,
    UI_G_LOST,
    UI_G_CLOSED,
    UI_G_COUNT_
};
const char *ui_glyph(const struct ui_grid *g, enum ui_glyph which);

/* Writes words of our own (UTF-8, no controls) at y, x; returns the column after them. */
int ui_text(struct ui_surface s, int y, int x, ui_style style, const char *words);
BG_PRINTF(5, 6)
int ui_textf(struct ui_surface s, int y, int x, ui_style style, const char *fmt, ...);
/* Untrusted bytes on one line, at most cols columns; a cut is marked. */
int ui_safe(struct ui_surface s, int y, int x, int cols, ui_style style, const char *p,
            size_t n);
/* Words right-aligned to end before column x; returns where they begin. */
int ui_right(struct ui_surface s, int y, int x, ui_style style, const char *words);
/* One token of the review renderer; style is the plain one. Returns the column after it. */
int ui_token(struct ui_surface s, int y, int x, const struct bg_tok *t, ui_style style);
void ui_fill(struct ui_surface s, int y, int x, int cols, ui_style style,
             const char *glyph);
void ui_erase(struct ui_surface s);
/* Adds or sets attribute bits of one row. */
void ui_mark_row(struct ui_surface s, int y, ui_style bits);
/* A countdown: width cells, `part` of `whole` filled, in eighths. */
void ui_bar(struct ui_surface s, int y, int x, int cols, int64_t part, int64_t whole,
            ui_style style);

/* A pane: a frame with its title in the border, or (boxed false) one title line. Returns
 * what is inside. */
struct ui_pane {
    const char *title; /* our own words */
    const char *note;  /* beside the title, muted; or NULL */
    const char *hint;  /* in the bottom border; or NULL */
    bool focus;
    bool boxed;
};
struct ui_surface ui_pane(struct ui_surface s, const struct ui_pane *p);

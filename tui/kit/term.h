/* SPDX-License-Identifier: MIT */
/*
 * The terminal: modes in and out on every way the program can end, the grid brought to the
 * screen through curses, title and bell. At most one is open at a time (curses and the
 * fatal signals know only one).
 */
#pragma once

#include "tui/kit/surface.h"
#include "tui/kit/theme.h"

struct ui_term;

struct ui_term_opts {
    int in, out;      /* the terminal; not owned */
    const char *term; /* TERM */
    bool no_color;
    bool mouse;
    enum ui_border border;
};

/* NULL with err when curses does not know the terminal. Call with SIGWINCH, SIGTSTP, SIGINT
 * and SIGTERM already watched, so that curses leaves them alone. */
BG_CHECK struct ui_term *ui_term_open(const struct ui_term_opts *o, struct bg_error *err);
void ui_term_close(struct ui_term *t); /* the terminal is as it was; NULL is fine */
struct ui_grid *ui_term_grid(struct ui_term *t);
enum ui_depth ui_term_depth(const struct ui_term *t);
void ui_term_theme(struct ui_term *t, const struct ui_theme *theme); /* copied */
/* Asks the kernel for the size; true if it changed (the grid is empty then). */
bool ui_term_resize(struct ui_term *t);
/* Brings what differs to the screen; writes nothing when nothing does. */
void ui_term_flush(struct ui_term *t);
void ui_term_redraw(struct ui_term *t); /* the next flush paints everything */
void ui_term_sync(struct ui_term *t, bool known);
void ui_term_mouse(struct ui_term *t, bool on);
void ui_term_title(struct ui_term *t, const char *words); /* our own words, ASCII */
void ui_term_bell(struct ui_term *t);
void ui_term_flush_input(struct ui_term *t); /* what was typed so far is lost */
/* Out of and back into our modes, around a stop. */
void ui_term_leave(struct ui_term *t);
void ui_term_enter(struct ui_term *t);

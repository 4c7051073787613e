/* SPDX-License-Identifier: MIT */
/*
 * Several byte fields one after another, each under a heading, wrapped to the width, every
 * byte shown. It knows which bytes have been on screen: by their place in the source, so a
 * new width forgets nothing and counts nothing twice. Rows are not stored; every so often
 * the state of the walk is, so a megabyte opens at once and costs little.
 */
#pragma once

#include "tui/kit/hilite.h"
#include "tui/kit/surface.h"

struct ui_span {
    size_t from, to;
};

/* Places of one field: 0 is its heading, then its bytes, then its end. */
struct ui_seen {
    struct ui_span *spans; /* sorted, apart */
    size_t n;
    size_t total;
};

struct ui_field_src {
    const char *label; /* our own words and escaped names */
    const char *note;  /* "38 lines, 1204 bytes"; or NULL */
    const char *p;
    size_t n;
    bool hex;
    bool numbers; /* line numbers in the gutter */
    bool bare;    /* no heading; the label, if any, stands before the text */
    enum ui_lang lang;
    struct ui_seen seen;
};

struct ui_mark; /* a place the walk has been at */

struct ui_pager {
    struct ui_field_src *fields; /* borrowed */
    size_t n;
    bool ascii;
    int width, height; /* of the last layout and draw */
    size_t rows;       /* wrapped rows in all */
    size_t top;        /* first row shown */
    struct ui_mark *marks;
    size_t n_marks;
};

void ui_pager_init(struct ui_pager *p, struct ui_field_src *fields, size_t n, bool ascii);
void ui_pager_free(struct ui_pager *p);
/* Wraps `n` of the fields to a width; the first byte shown stays the first byte shown. */
void ui_pager_layout(struct ui_pager *p, int width, size_t n);
void ui_pager_scroll(struct ui_pager *p, long rows); /* clamped */
void ui_pager_to(struct ui_pager *p, size_t row);
/* Draws from `top` and, if `count`, remembers what was shown whole. */
void ui_pager_draw(struct ui_pager *p, struct ui_surface s, size_t n, bool count);

bool ui_seen_all(const struct ui_seen *s);
void ui_seen_free(struct ui_seen *s);
/* Of all fields: percent seen (100 only when whole), and the row, line and field of the
 * first place not seen. False when all was seen. */
struct ui_unseen {
    int percent;
    size_t field;
    uint32_t line; /* 0: the heading */
    size_t row;
};
bool ui_pager_unseen(struct ui_pager *p, struct ui_unseen *out);

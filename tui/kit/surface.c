/* SPDX-License-Identifier: MIT */
/* Cells, clipping and the few shapes that every screen is made of. */
#include "tui/kit/surface.h"

#include <stdio.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"

#define SIDE_MAX 1000

/* ---- the grid ---- */

static const struct ui_cell blank = {.cp = {' '}, .style = UI_TEXT};

void ui_grid_clear(struct ui_grid *g)
{
    for (int i = 0; i < g->h * g->w; i++)
        g->cells[i] = blank;
    g->cursor_y = g->cursor_x = -1;
}

static int clamp(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

void ui_grid_size(struct ui_grid *g, int h, int w)
{
    g->h = clamp(h, 1, SIDE_MAX);
    g->w = clamp(w, 1, SIDE_MAX);
    g->cells = bg_xrealloc(g->cells, (size_t)g->h * (size_t)g->w, sizeof *g->cells);
    ui_grid_clear(g);
}

void ui_grid_free(struct ui_grid *g)
{
    free(g->cells);
    g->cells = NULL;
    g->h = g->w = 0;
}

struct ui_surface ui_whole(struct ui_grid *g)
{
    return (struct ui_surface){g, {0, 0, g->h, g->w}};
}

struct ui_surface ui_sub(struct ui_surface s, int y, int x, int h, int w)
{
    int y0 = clamp(y, 0, s.r.h), x0 = clamp(x, 0, s.r.w);
    int y1 = clamp(y + h, y0, s.r.h), x1 = clamp(x + w, x0, s.r.w);
    return (struct ui_surface){s.g, {s.r.y + y0, s.r.x + x0, y1 - y0, x1 - x0}};
}

/* ---- cells ---- */

static struct ui_cell *cell_at(struct ui_surface s, int y, int x)
{
    if (y < 0 || x < 0 || y >= s.r.h || x >= s.r.w)
        return NULL;
    return &s.g->cells[(s.r.y + y) * s.g->w + s.r.x + x];
}

/* A half of a wide character that lost its other half becomes a blank. */
static void unpair(struct ui_surface s, int y, int x)
{
    struct ui_surface all = ui_whole(s.g);
    struct ui_cell *c = cell_at(s, y, x);
    if (c && c->kind == UI_CELL_TAIL) {
        struct ui_cell *left = cell_at(all, s.r.y + y, s.r.x + x - 1);
        if (left)
            *left = (struct ui_cell){.cp = {' '}, .style = left->style};
    } else if (c && c->kind == UI_CELL_WIDE) {
        struct ui_cell *right = cell_at(all, s.r.y + y, s.r.x + x + 1);
        if (right)
            *right = (struct ui_cell){.cp = {' '}, .style = right->style};
    }
}

static void add_mark(struct ui_surface s, int y, int x, uint32_t cp)
{
    struct ui_cell *c = cell_at(s, y, x - 1);
    if (c && c->kind == UI_CELL_TAIL)
        c = cell_at(s, y, x - 2);
    for (int i = 1; c && i < UI_CELL_CPS; i++)
        if (!c->cp[i]) {
            c->cp[i] = cp;
            return;
        }
}

/* Puts one character; what does not fit is left out whole. Returns its columns. */
static int put(struct ui_surface s, int y, int x, uint32_t cp, ui_style style)
{
    int cols = bg_cp_width(cp);
    if (cols < 0 || (s.g->ascii && cp > 126)) {
        cp = '?';
        cols = 1;
    }
    if (cols == 0) {
        add_mark(s, y, x, cp);
        return 0;
    }
    struct ui_cell *c = cell_at(s, y, x);
    if (!c)
        return cols;
    unpair(s, y, x);
    if (cols == 2) {
        struct ui_cell *tail = cell_at(s, y, x + 1);
        if (!tail) {
            *c = (struct ui_cell){.cp = {' '}, .style = style};
            return cols;
        }
        unpair(s, y, x + 1);
        *tail = (struct ui_cell){.style = style, .kind = UI_CELL_TAIL};
    }
    *c = (struct ui_cell){
        .cp = {cp}, .style = style, .kind = cols == 2 ? UI_CELL_WIDE : UI_CELL_NARROW};
    return cols;
}

static int put_text(struct ui_surface s, int y, int x, ui_style style, const char *p,
                    size_t n)
{
    while (n) {
        uint32_t cp;
        int len = bg_utf8_decode(p, n, &cp);
        if (len <= 0) {
            cp = '?';
            len = 1;
        }
        x += put(s, y, x, cp, style);
        p += len;
        n -= (size_t)len;
    }
    return x;
}

int ui_text(struct ui_surface s, int y, int x, ui_style style, const char *words)
{
    return put_text(s, y, x, style, words, strlen(words));
}

int ui_textf(struct ui_surface s, int y, int x, ui_style style, const char *fmt, ...)
{
    char buf[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf, sizeof buf, fmt, ap);
    va_end(ap);
    return ui_text(s, y, x, style, buf);
}

int ui_right(struct ui_surface s, int y, int x, ui_style style, const char *words)
{
    int begin = x - bg_text_cols(words, strlen(words));
    ui_text(s, y, begin, style, words);
    return begin;
}

static ui_style token_style(const struct bg_tok *t, ui_style style)
{
    ui_style keep = style & UI_SELECTED;
    switch (t->style) {
    case BG_TOK_HIDDEN:
        return UI_HIDDEN | UI_REVERSE | keep;
    case BG_TOK_BLANK:
        return UI_HIDDEN | keep;
    case BG_TOK_SUSPECT:
        return UI_HIDDEN | UI_UNDERLINE | keep;
    case BG_TOK_TAB:
    case BG_TOK_TRAILING:
        return UI_BORDER | keep;
    case BG_TOK_PLAIN:
    case BG_TOK_NEWLINE:
        break;
    }
    return style;
}

int ui_token(struct ui_surface s, int y, int x, const struct bg_tok *t, ui_style style)
{
    return put_text(s, y, x, token_style(t, style), t->text, t->text_len);
}

int ui_safe(struct ui_surface s, int y, int x, int cols, ui_style style, const char *p,
            size_t n)
{
    static const struct bg_tok nl = {
        .text = "\\n", .text_len = 2, .cols = 2, .style = BG_TOK_HIDDEN};
    struct bg_toks it;
    struct bg_tok t;
    int end = x + cols, from = x;
    const char *cut = ui_glyph(s.g, UI_G_CUT);
    int room = end - (int)bg_text_cols(cut, strlen(cut));
    if (cols <= 0)
        return x;
    bg_toks_init(&it, p, n, s.g->ascii);
    while (bg_toks_next(&it, &t)) {
        const struct bg_tok *show = t.style == BG_TOK_NEWLINE ? &nl : &t;
        bool last = t.off + t.len == n;
        if (x + show->cols > (last ? end : room)) {
            /* A last line break is no part of a line. */
            if (last && t.style == BG_TOK_NEWLINE)
                break;
            ui_text(s, y,
                    x < room      ? x
                    : room < from ? from
                                  : room,
                    UI_MUTED | (style & UI_SELECTED), cut);
            return end;
        }
        if (!(last && t.style == BG_TOK_NEWLINE))
            x = ui_token(s, y, x, show, style);
    }
    return x;
}

void ui_fill(struct ui_surface s, int y, int x, int cols, ui_style style, const char *glyph)
{
    for (int i = 0; i < cols; i++)
        ui_text(s, y, x + i, style, glyph);
}

void ui_erase(struct ui_surface s)
{
    for (int y = 0; y < s.r.h; y++)
        ui_fill(s, y, 0, s.r.w, UI_TEXT, " ");
}

void ui_mark_row(struct ui_surface s, int y, ui_style bits)
{
    for (int x = 0; x < s.r.w; x++) {
        struct ui_cell *c = cell_at(s, y, x);
        if (c)
            c->style |= bits;
    }
}

/* ---- shapes ---- */

const char *ui_glyph(const struct ui_grid *g, enum ui_glyph which)
{
    static const struct {
        const char *utf8, *ascii;
    } glyphs[UI_G_COUNT_] = {
        [UI_G_SELECT] = {"▸", ">"}, [UI_G_WRAP] = {"↳", "\\"},  [UI_G_RULE] = {"─", "-"},
        [UI_G_CUT] = {"…", "~"},    [UI_G_DOT] = {"·", "|"},    [UI_G_INTO] = {"›", ">"},
        [UI_G_RUN] = {"●", "*"},    [UI_G_START] = {"◐", "~"},  [UI_G_IDLE] = {"○", "o"},
        [UI_G_LOST] = {"◌", "?"},   [UI_G_CLOSED] = {"✕", "x"},
    };
    return g->ascii ? glyphs[which].ascii : glyphs[which].utf8;
}

void ui_bar(struct ui_surface s, int y, int x, int cols, int64_t part, int64_t whole,
            ui_style style)
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
    if (whole <= 0)
        whole = 1;
    part = part < 0 ? 0 : part > whole ? whole : part;
    int64_t fill = part * cols * 8 / whole;
    for (int i = 0; i < cols; i++) {
        int64_t e = fill - (int64_t)i * 8;
        e = e < 0 ? 0 : e > 8 ? 8 : e;
        if (s.g->ascii)
            ui_text(s, y, x + i, style, e >= 4 ? "#" : ".");
        else
            ui_text(s, y, x + i, style, eighths[e]);
    }
}

struct corners {
    const char *tl, *tr, *bl, *br, *h, *v;
};

static const struct corners *corners_of(const struct ui_grid *g, bool focus)
{
    static const struct corners line = {"┌", "┐", "└", "┘", "─", "│"},
                                round = {"╭", "╮", "╰", "╯", "─", "│"},
                                plain = {"+", "+", "+", "+", "-", "|"},
                                strong = {"+", "+", "+", "+", "=", "|"};
    if (g->ascii || g->border == UI_BORDER_ASCII)
        return focus ? &strong : &plain;
    return g->border == UI_BORDER_ROUND ? &round : &line;
}

/* Focus is told by a mark and by weight as well as by colour. */
static void pane_title(struct ui_surface s, const struct ui_pane *p)
{
    int x = 2;
    ui_style title = p->focus ? UI_ACCENT | UI_BOLD : UI_TITLE;
    x = ui_text(s, 0, x, title, " ");
    if (p->focus) {
        x = ui_text(s, 0, x, title, ui_glyph(s.g, UI_G_SELECT));
        x = ui_text(s, 0, x, title, " ");
    }
    x = ui_text(s, 0, x, title, p->title);
    if (p->note && *p->note) {
        x = ui_text(s, 0, x, UI_MUTED, "  ");
        x = ui_text(s, 0, x, UI_MUTED, p->note);
    }
    ui_text(s, 0, x, title, " ");
}

struct ui_surface ui_pane(struct ui_surface s, const struct ui_pane *p)
{
    const struct corners *k = corners_of(s.g, p->focus);
    ui_style edge = p->focus ? UI_BORDER_FOCUS : UI_BORDER;
    int h = s.r.h, w = s.r.w;
    if (!p->boxed || h < 3 || w < 4) {
        ui_fill(s, 0, 0, w, edge, k->h);
        struct ui_surface inside_title = ui_sub(s, 0, 0, 1, w);
        pane_title(inside_title, p);
        if (p->hint && w > 40) {
            int x = ui_right(s, 0, w - 2, UI_MUTED, p->hint);
            ui_text(s, 0, x - 1, edge, " ");
            ui_text(s, 0, w - 2, edge, " ");
        }
        return ui_sub(s, 1, 0, h - 1, w);
    }
    ui_fill(s, 0, 1, w - 2, edge, k->h);
    ui_fill(s, h - 1, 1, w - 2, edge, k->h);
    for (int y = 1; y < h - 1; y++) {
        ui_text(s, y, 0, edge, k->v);
        ui_text(s, y, w - 1, edge, k->v);
    }
    ui_text(s, 0, 0, edge, k->tl);
    ui_text(s, 0, w - 1, edge, k->tr);
    ui_text(s, h - 1, 0, edge, k->bl);
    ui_text(s, h - 1, w - 1, edge, k->br);
    pane_title(ui_sub(s, 0, 0, 1, w - 1), p);
    if (p->hint) {
        int x = ui_right(s, h - 1, w - 3, UI_MUTED, p->hint);
        ui_text(s, h - 1, x - 1, UI_MUTED, " ");
        ui_text(s, h - 1, w - 3, UI_MUTED, " ");
    }
    return ui_sub(s, 1, 1, h - 2, w - 2);
}

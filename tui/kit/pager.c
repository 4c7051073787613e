/* SPDX-License-Identifier: MIT */
/*
 * One walk serves layout, drawing and finding: it yields row after row, and with a surface
 * it draws as it goes. MARK_EVERY rows it is copied away.
 */
#include "tui/kit/pager.h"

#include <stdio.h>

#include "core/base/mem.h"

#define MARK_EVERY 128
#define HEX_BYTES 16
#define TEXT_MIN 12  /* columns; an escape is at most 10 */
#define COUNT_MIN 40 /* narrower than this nothing counts as seen */
#define LABEL_COLS 18

struct walk {
    size_t field;
    size_t place; /* next place of the field */
    uint32_t line;
    bool mid_line;
    struct bg_toks toks;
    struct ui_hilite hl;
    struct bg_tok held; /* read but not placed: it begins the next row */
    bool has_held;
};

struct ui_mark {
    struct walk walk;
};

struct row {
    size_t field, from, to; /* places */
    uint32_t line;          /* 0: heading */
    bool wrapped;
};

/* ---- what was seen ---- */

static void seen_add(struct ui_seen *s, size_t from, size_t to)
{
    size_t i = 0;
    while (i < s->n && s->spans[i].to < from)
        i++;
    if (i < s->n && s->spans[i].from <= from && s->spans[i].to >= to)
        return;
    size_t k = i;
    while (k < s->n && s->spans[k].from <= to) {
        from = s->spans[k].from < from ? s->spans[k].from : from;
        to = s->spans[k].to > to ? s->spans[k].to : to;
        k++;
    }
    if (k == i)
        s->spans = bg_xrealloc(s->spans, s->n + 1, sizeof *s->spans);
    memmove(&s->spans[i + 1], &s->spans[k], (s->n - k) * sizeof *s->spans);
    s->spans[i] = (struct ui_span){from, to};
    s->n = s->n - (k - i) + 1;
}

bool ui_seen_all(const struct ui_seen *s)
{
    return s->n == 1 && s->spans[0].from == 0 && s->spans[0].to >= s->total;
}

void ui_seen_free(struct ui_seen *s)
{
    free(s->spans);
    *s = (struct ui_seen){0};
}

/* ---- the walk ---- */

static int gutter(const struct ui_field_src *f)
{
    return f->bare ? (f->label ? LABEL_COLS : 1) : f->hex ? 11 : f->numbers ? 7 : 3;
}

static int text_width(const struct ui_pager *p, const struct ui_field_src *f)
{
    int w = p->width - gutter(f) - 1;
    return w < TEXT_MIN ? TEXT_MIN : w;
}

static size_t hex_bytes(const struct ui_pager *p, const struct ui_field_src *f)
{
    return text_width(p, f) >= HEX_BYTES * 3 ? HEX_BYTES : 4;
}

static void walk_field(struct walk *w, const struct ui_pager *p, size_t field)
{
    *w = (struct walk){.field = field, .line = 1};
    if (field >= p->n)
        return;
    const struct ui_field_src *f = &p->fields[field];
    bg_toks_init(&w->toks, f->p, f->n, p->ascii);
    ui_hilite_init(&w->hl, f->lang, f->p, f->n);
}

static void draw_gutter(const struct ui_field_src *f, const struct row *r,
                        struct ui_surface *s, int y)
{
    if (!s || (f->bare && !f->label))
        return;
    if (f->bare && r->from == 0)
        ui_safe(*s, y, 1, LABEL_COLS - 2, UI_MUTED, f->label, strlen(f->label));
    else if (r->wrapped)
        ui_text(*s, y, gutter(f) - 2, UI_BORDER, ui_glyph(s->g, UI_G_WRAP));
    else if (f->numbers)
        ui_textf(*s, y, 0, UI_MUTED, "%5u", r->line);
}

static void heading(const struct ui_field_src *f, struct ui_surface *s, int y)
{
    if (!s)
        return;
    ui_fill(*s, y, 0, s->r.w, UI_BORDER, ui_glyph(s->g, UI_G_RULE));
    int x = ui_text(*s, y, 1, UI_TITLE | UI_BOLD, " ");
    x = ui_text(*s, y, x, UI_TITLE | UI_BOLD, f->label);
    if (f->note) {
        x = ui_text(*s, y, x, UI_MUTED, "  ");
        x = ui_text(*s, y, x, UI_MUTED, f->note);
    }
    ui_text(*s, y, x, UI_TITLE, " ");
}

static void hex_row(struct walk *w, const struct ui_pager *p, const struct ui_field_src *f,
                    struct row *r, struct ui_surface *s, int y)
{
    size_t at = w->place - 1, n = hex_bytes(p, f);
    draw_gutter(f, r, s, y);
    n = n < f->n - at ? n : f->n - at;
    if (s) {
        int x = gutter(f), width = (int)hex_bytes(p, f);
        if (!f->bare)
            ui_textf(*s, y, 1, UI_MUTED, "%08zx", at);
        for (size_t i = 0; i < n; i++) {
            unsigned char c = (unsigned char)f->p[at + i];
            ui_textf(*s, y, x + 3 * (int)i, UI_TEXT, "%02x", c);
            ui_textf(*s, y, x + 3 * width + 1 + (int)i, UI_MUTED, "%c",
                     c >= 0x20 && c < 0x7f ? c : '.');
        }
    }
    r->line = (uint32_t)(at / hex_bytes(p, f)) + 1;
    w->place += n;
}

static bool next_token(struct walk *w, struct bg_tok *t)
{
    if (w->has_held) {
        *t = w->held;
        w->has_held = false;
        return true;
    }
    return bg_toks_next(&w->toks, t);
}

/* Our own sentences break between words; what is to be decided on never does, its columns
 * mean something. */
static bool breaks_words(const struct ui_field_src *f)
{
    return f->lang == UI_LANG_FACTS;
}

static void text_row(struct walk *w, const struct ui_pager *p, const struct ui_field_src *f,
                     struct row *r, struct ui_surface *s, int y)
{
    int x = gutter(f), end = x + text_width(p, f), word_x = 0;
    struct walk word; /* as it was at the last blank of this row */
    struct bg_tok t;
    r->line = w->line;
    r->wrapped = w->mid_line;
    draw_gutter(f, r, s, y);
    w->mid_line = false;
    while (next_token(w, &t)) {
        if (t.style == BG_TOK_NEWLINE) {
            w->place = t.off + t.len + 1;
            w->line++;
            return;
        }
        if (x + t.cols > end && x > gutter(f)) {
            w->held = t;
            w->has_held = true;
            if (word_x) {
                *w = word;
                if (s)
                    ui_fill(*s, y, word_x, end - word_x, UI_TEXT, " ");
            }
            w->mid_line = true;
            return;
        }
        if (s)
            x = ui_token(*s, y, x, &t, ui_hilite_at(&w->hl, t.off + t.len - 1));
        else
            x += t.cols;
        w->place = t.off + t.len + 1;
        if (breaks_words(f) && t.text[0] == ' ') {
            word = *w;
            word_x = x;
        }
    }
}

/* One row; false when everything was walked. */
static bool next_row(struct walk *w, const struct ui_pager *p, struct row *r,
                     struct ui_surface *s, int y)
{
    if (w->field >= p->n)
        return false;
    const struct ui_field_src *f = &p->fields[w->field];
    *r = (struct row){.field = w->field, .from = w->place};
    if (w->place == 0 && !f->bare) {
        heading(f, s, y);
        w->place = 1;
    } else if (f->n == 0) {
        draw_gutter(f, r, s, y);
        if (s)
            ui_text(*s, y, gutter(f), UI_MUTED, "(empty)");
        w->place = 1;
    } else if (f->hex) {
        w->place = w->place ? w->place : 1;
        hex_row(w, p, f, r, s, y);
    } else {
        w->place = w->place ? w->place : 1;
        text_row(w, p, f, r, s, y);
    }
    bool done = r->from + (r->from == 0 && f->bare) >= 1 && w->place > f->n;
    /* A heading alone ends nothing, not even an empty field. */
    if (r->from == 0 && !f->bare)
        done = false;
    r->to = done ? f->n + 2 : w->place;
    if (done)
        walk_field(w, p, w->field + 1);
    return true;
}

/* ---- layout ---- */

void ui_pager_init(struct ui_pager *p, struct ui_field_src *fields, size_t n, bool ascii)
{
    *p = (struct ui_pager){.fields = fields, .n = n, .ascii = ascii};
    for (size_t i = 0; i < n; i++)
        fields[i].seen.total = fields[i].n + 2;
}

void ui_pager_free(struct ui_pager *p)
{
    free(p->marks);
    *p = (struct ui_pager){0};
}

static void push_mark(struct ui_pager *p, struct walk *w)
{
    if ((p->n_marks & (p->n_marks + 1)) == 0 || p->n_marks == 0)
        p->marks = bg_xrealloc(p->marks, (p->n_marks + 1) * 2, sizeof *p->marks);
    /* The walk's own colours catch up here, or every mark would begin at the first byte. */
    if (w->field < p->n && w->place > 1)
        (void)ui_hilite_at(&w->hl, w->place - 2);
    p->marks[p->n_marks++].walk = *w;
}

static void walk_at(struct ui_pager *p, struct walk *w, size_t row)
{
    struct row r;
    size_t m = row / MARK_EVERY;
    if (m >= p->n_marks) {
        walk_field(w, p, p->n);
        return;
    }
    *w = p->marks[m].walk;
    for (size_t i = m * MARK_EVERY; i < row; i++)
        if (!next_row(w, p, &r, NULL, 0))
            return;
    if (w->field < p->n && w->place > 1)
        (void)ui_hilite_at(&w->hl, w->place - 2);
}

/* The row that shows this place. */
static size_t row_of(struct ui_pager *p, size_t field, size_t place, uint32_t *line)
{
    size_t lo = 0, hi = p->n_marks;
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        const struct walk *w = &p->marks[mid].walk;
        if (w->field < field || (w->field == field && w->place <= place))
            lo = mid;
        else
            hi = mid;
    }
    if (!p->n_marks)
        return 0;
    struct walk w = p->marks[lo].walk;
    struct row r = {0};
    size_t row = lo * MARK_EVERY;
    for (; next_row(&w, p, &r, NULL, 0); row++)
        if (r.field == field && r.to > place)
            break;
    if (line)
        *line = r.line;
    return row;
}

void ui_pager_layout(struct ui_pager *p, int width, size_t n)
{
    struct walk w;
    struct row r = {0};
    if (width == p->width && n == p->n)
        return;
    size_t field = 0, place = 0;
    bool moved = p->rows > 0;
    if (moved) {
        walk_at(p, &w, p->top);
        field = w.field;
        place = w.place;
    }
    p->width = width;
    p->n = n;
    p->n_marks = 0;
    p->rows = 0;
    walk_field(&w, p, 0);
    for (;; p->rows++) {
        if (p->rows % MARK_EVERY == 0)
            push_mark(p, &w);
        if (!next_row(&w, p, &r, NULL, 0))
            break;
    }
    if (moved)
        p->top = row_of(p, field, place, NULL);
}

void ui_pager_to(struct ui_pager *p, size_t row)
{
    size_t most = p->rows > (size_t)p->height ? p->rows - (size_t)p->height : 0;
    p->top = row < most ? row : most;
}

void ui_pager_scroll(struct ui_pager *p, long rows)
{
    if (rows < 0 && (size_t)-rows > p->top)
        p->top = 0;
    else
        ui_pager_to(p, p->top + (size_t)rows);
}

void ui_pager_draw(struct ui_pager *p, struct ui_surface s, size_t n, bool count)
{
    struct walk w;
    struct row r;
    p->height = s.r.h;
    ui_pager_layout(p, s.r.w, n);
    ui_pager_to(p, p->top);
    walk_at(p, &w, p->top);
    for (int y = 0; y < s.r.h; y++) {
        if (!next_row(&w, p, &r, &s, y))
            break;
        if (count && s.r.w >= COUNT_MIN)
            seen_add(&p->fields[r.field].seen, r.from, r.to);
    }
}

/* ---- what is missing ---- */

bool ui_pager_unseen(struct ui_pager *p, struct ui_unseen *out)
{
    size_t total = 0, seen = 0;
    bool found = false;
    *out = (struct ui_unseen){.percent = 100};
    for (size_t i = 0; i < p->n; i++) {
        const struct ui_seen *s = &p->fields[i].seen;
        total += s->total;
        for (size_t k = 0; k < s->n; k++)
            seen += s->spans[k].to - s->spans[k].from;
        if (found || ui_seen_all(s))
            continue;
        found = true;
        out->field = i;
        out->row =
            row_of(p, i, s->n && s->spans[0].from == 0 ? s->spans[0].to : 0, &out->line);
    }
    if (found) {
        int percent = (int)(seen * 100 / (total ? total : 1));
        out->percent = percent > 99 ? 99 : percent;
    }
    return found;
}

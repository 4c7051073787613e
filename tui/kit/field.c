/* SPDX-License-Identifier: MIT */
#include "tui/kit/field.h"

#include "core/base/mem.h"
#include "core/base/utf8.h"

void ui_field_init(struct ui_field *f, size_t max)
{
    *f = (struct ui_field){.cap = max, .text = bg_xcalloc(1, max + 1)};
}

void ui_field_free(struct ui_field *f)
{
    free(f->text);
    *f = (struct ui_field){0};
}

static void insert(struct ui_field *f, const char *p, size_t n)
{
    if (f->len + n > f->cap)
        return;
    memmove(f->text + f->at + n, f->text + f->at, f->len - f->at + 1);
    memcpy(f->text + f->at, p, n);
    f->len += n;
    f->at += n;
}

void ui_field_set(struct ui_field *f, const char *text)
{
    f->len = f->at = 0;
    f->text[0] = '\0';
    insert(f, text, bg_utf8_prefix(text, strlen(text), f->cap));
}

static void insert_cp(struct ui_field *f, uint32_t cp)
{
    char utf8[4];
    int n = bg_utf8_encode(cp, utf8);
    /* Only what shows: a reason with hidden characters would be a trick on its reader. */
    if (n > 0 && bg_cp_width(cp) > 0)
        insert(f, utf8, (size_t)n);
}

static void paste(struct ui_field *f, const char *p, size_t n)
{
    while (n) {
        uint32_t cp;
        int len = bg_utf8_decode(p, n, &cp);
        if (len <= 0)
            len = 1;
        else
            insert_cp(f, cp == '\n' || cp == '\t' ? ' ' : cp);
        p += len;
        n -= (size_t)len;
    }
}

static size_t before(const struct ui_field *f)
{
    size_t at = f->at;
    while (at > 0 && ((unsigned char)f->text[--at] & 0xc0) == 0x80)
        ;
    return at;
}

static size_t after(const struct ui_field *f)
{
    size_t at = f->at;
    if (at < f->len)
        at++;
    while (at < f->len && ((unsigned char)f->text[at] & 0xc0) == 0x80)
        at++;
    return at;
}

static void cut(struct ui_field *f, size_t from, size_t to)
{
    memmove(f->text + from, f->text + to, f->len - to + 1);
    f->len -= to - from;
    f->at = from;
}

static bool edit_key(struct ui_field *f, uint32_t key)
{
    switch (key) {
    case UI_KEY_BACKSPACE:
        cut(f, before(f), f->at);
        return true;
    case UI_KEY_DELETE:
        cut(f, f->at, after(f));
        return true;
    case UI_KEY_LEFT:
        f->at = before(f);
        return true;
    case UI_KEY_RIGHT:
        f->at = after(f);
        return true;
    case UI_KEY_HOME:
    case UI_CTRL('a'):
        f->at = 0;
        return true;
    case UI_KEY_END:
    case UI_CTRL('e'):
        f->at = f->len;
        return true;
    case UI_CTRL('u'):
        cut(f, 0, f->at);
        return true;
    default:
        return false;
    }
}

bool ui_field_event(struct ui_field *f, const struct ui_event *ev)
{
    if (ev->type == UI_EV_PASTE && !f->no_paste) {
        paste(f, ev->text, ev->len);
        return true;
    }
    if (ev->type != UI_EV_KEY || ev->alt)
        return false;
    if (edit_key(f, ev->key))
        return true;
    if (ev->key < 0x20 || ev->key >= UI_KEY_ENTER)
        return false;
    insert_cp(f, ev->key);
    return true;
}

void ui_field_draw(const struct ui_field *f, struct ui_surface s, int y, int x, int cols)
{
    if (cols < 2)
        return;
    /* The cursor stays inside: what is left of it gives way. */
    size_t from = 0;
    while (bg_text_cols(f->text + from, f->at - from) >= cols) {
        from++;
        while (from < f->at && ((unsigned char)f->text[from] & 0xc0) == 0x80)
            from++;
    }
    struct ui_surface in = ui_sub(s, y, x, 1, cols);
    for (int i = 0; i < cols; i++)
        ui_text(in, 0, i, UI_TEXT | UI_UNDERLINE, " ");
    ui_text(in, 0, 0, UI_TEXT | UI_UNDERLINE, f->text + from);
    s.g->cursor_y = in.r.y;
    s.g->cursor_x = in.r.x + bg_text_cols(f->text + from, f->at - from);
}

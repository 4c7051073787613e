/* SPDX-License-Identifier: MIT */
/* The help, from the live key tables: it can't be wrong. */
#include "tui/app.h"
#include "tui/kit/dialog.h"

#define HELP_COLS 66
#define KEYS_COLS 14

struct help {
    struct ui_surface s;
    int y; /* where the next line would go, scrolled */
};

static void line(struct help *h, const struct ui_binding *b)
{
    char keys[40];
    if (h->y >= 0 && h->y < h->s.r.h) {
        ui_binding_keys(b, keys, sizeof keys);
        ui_text(h->s, h->y, 1, UI_KEY, keys);
        ui_text(h->s, h->y, KEYS_COLS, UI_TEXT, b->help);
    }
    h->y++;
}

static void words(struct help *h, ui_style style, const char *text)
{
    if (h->y >= 0 && h->y < h->s.r.h)
        ui_text(h->s, h->y, 1, style, text);
    h->y++;
}

static int rows_of(const struct view_ops *v, const struct ui_keymap *global)
{
    int n = (int)v->keys.n + (int)global->n + 4;
    for (const char *const *p = v->notes; *p; p++)
        n++;
    return n;
}

void help_draw(struct ui_surface s, const struct view_ops *v,
               const struct ui_keymap *global, int *scroll)
{
    int rows = rows_of(v, global);
    struct ui_surface in =
        ui_dialog_open(s, &(struct ui_dialog){.title = v->title,
                                              .hint = "j k scroll   Esc close",
                                              .cols = HELP_COLS,
                                              .rows = rows});
    int most = rows - in.r.h > 0 ? rows - in.r.h : 0;
    *scroll = *scroll < 0 ? 0 : *scroll > most ? most : *scroll;
    struct help h = {in, -*scroll};
    words(&h, UI_MUTED, "here");
    for (size_t i = 0; i < v->keys.n; i++)
        line(&h, &v->keys.rows[i]);
    words(&h, UI_TEXT, "");
    words(&h, UI_MUTED, "everywhere");
    for (size_t i = 0; i < global->n; i++)
        line(&h, &global->rows[i]);
    words(&h, UI_TEXT, "");
    for (const char *const *p = v->notes; *p; p++)
        words(&h, UI_TITLE, *p);
}

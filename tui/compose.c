/* SPDX-License-Identifier: MIT */
/* A frame: status row, the view, hints, and whatever lies over them. Also the : line. */
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "tui/app_priv.h"
#include "tui/kit/dialog.h"

static ui_style level_style(int level)
{
    return level == 1 ? UI_OK : level == 2 ? UI_WARN : level == 3 ? UI_ERR : UI_TEXT;
}

static int64_t oldest_age(const struct app *a, size_t *n)
{
    bg_autofree uint64_t *ids = model_pending(&a->model, n);
    const struct request *r = *n ? model_request(&a->model, ids[0]) : NULL;
    return r && r->requested_ms >= 0 ? app_now(a) - r->requested_ms : 0;
}

void app_pending_words(const struct app *a, char *out, size_t n)
{
    size_t count;
    char age[16];
    bg_duration_clock(oldest_age(a, &count), age, sizeof age);
    if (count)
        snprintf(out, n, "%zu pending, oldest %s", count, age);
    else
        snprintf(out, n, "nothing pending");
}

/* ---- rows ---- */

/* Returns the column it begins at. */
static int status_right(struct app *a, struct ui_surface row)
{
    size_t n;
    char pending[64];
    int x = row.r.w - 1;
    bool narrow = row.r.w < 80;
    oldest_age(a, &n);
    app_pending_words(a, pending, sizeof pending);
    if (n)
        app_again(a, 1000);
    if (!a->online) {
        x = ui_right(row, 0, x, UI_ERR | UI_BOLD,
                     a->was_online ? "NO CONNECTION" : "connecting");
    } else if (*a->provider && !(narrow && a->provider_ok)) {
        x = ui_right(row, 0, x, a->provider_ok ? UI_MUTED : UI_ERR,
                     !a->provider_known ? "checking"
                     : a->provider_ok   ? "ok"
                                        : "unavailable");
        bg_autofree char *name = bg_text_safe_line(a->provider, strlen(a->provider), 20);
        x = ui_right(row, 0, x - 1, UI_MUTED, name);
    }
    if (a->distrusted)
        x = ui_right(row, 0, x - (x < row.r.w - 1), UI_HIGH | UI_BOLD, "POLICY INVALID");
    if (x < row.r.w - 1) {
        ui_text(row, 0, x - 2, UI_BORDER, ui_glyph(row.g, UI_G_DOT));
        x -= 3;
    }
    return ui_right(row, 0, x, n ? UI_WARN | UI_BOLD : UI_MUTED, pending);
}

static void status(struct app *a, const struct view_ops *const *views,
                   struct ui_surface row)
{
    size_t n;
    oldest_age(a, &n);
    struct ui_surface left = ui_sub(row, 0, 0, 1, status_right(a, row) - 1);
    int x = ui_text(left, 0, 1, UI_TITLE | UI_BOLD, "boxgate") + 2;
    for (int v = 0; v < VIEW_COUNT_; v++) {
        ui_style s = (int)a->view == v ? UI_ACCENT | UI_BOLD | UI_UNDERLINE : UI_MUTED;
        x = ui_textf(left, 0, x, s, "%d %s", v + 1, views[v]->title);
        if (v == VIEW_APPROVAL && n)
            x = ui_textf(left, 0, x, UI_WARN | UI_BOLD, "(%zu)", n);
        x += 2;
    }
}

/* Where its first row ends: at a blank, if there is one. */
static size_t first_row(const char *text, int cols)
{
    size_t n = strlen(text), cut = 0;
    for (size_t i = 0; i < n && bg_text_cols(text, i) <= cols; i++)
        if (text[i] == ' ')
            cut = i;
    return cut;
}

/* Two rows when one is not enough: what went wrong is said whole. */
static void message(struct app *a, struct ui_surface all)
{
    ui_style style = level_style(a->message_level);
    int w = all.r.w, y = all.r.h - 1;
    const char *text = a->message;
    size_t cut = bg_text_cols(text, strlen(text)) > w - 2 ? first_row(text, w - 2) : 0;
    if (cut) {
        ui_fill(all, y - 1, 0, w, UI_TEXT, " ");
        ui_safe(all, y - 1, 1, w - 2, style, text, cut);
        text += cut + 1;
    }
    ui_safe(all, y, 1, w - 2, style, text, strlen(text));
}

static void bottom(struct app *a, const struct view_ops *v, struct ui_surface all)
{
    int w = all.r.w;
    struct ui_surface row = ui_sub(all, all.r.h - 1, 0, 1, w);
    if (a->command_on) {
        int x = ui_text(row, 0, 1, UI_KEY, ":");
        ui_field_draw(&a->command, row, 0, x, w - x - 1);
    } else if (*a->message) {
        message(a, all);
    } else if (a->help) {
        ui_text(row, 0, 1, UI_MUTED, "j k scroll   any other key closes");
    } else {
        int x = ui_hints(row, 0, 1, w - 24, &v->keys);
        ui_hints(row, 0, x, w - 1, &app_global_keys);
    }
}

/* ---- over everything ---- */

static void quit_box(struct app *a, struct ui_surface all)
{
    size_t n;
    oldest_age(a, &n);
    struct ui_surface in =
        ui_dialog_open(all, &(struct ui_dialog){.title = "Leave the console?",
                                                .hint = "y leave   any other key stays",
                                                .cols = 52,
                                                .rows = 4});
    ui_textf(in, 0, 0, UI_TEXT, "%zu request%s for a decision.", n,
             n == 1 ? " waits" : "s wait");
    ui_text(in, 1, 0, UI_TEXT, "Leaving decides nothing. With no console open they");
    ui_text(in, 2, 0, UI_TEXT, "are denied after a while (approvals.noConsoleMs).");
}

/* Below the smallest size: what matters in as few cells as there are. */
static void small_screen(struct app *a, struct ui_surface s)
{
    char words[64];
    size_t n;
    oldest_age(a, &n);
    app_pending_words(a, words, sizeof words);
    if (n)
        app_again(a, 1000);
    if (s.r.h == 1 || s.r.w < 12) {
        ui_textf(s, 0, 0, n ? UI_WARN | UI_BOLD : UI_TEXT,
                 s.r.w < 30 ? "%zu pending"
                            : "%zu pending; %dx%d is too small, need %dx%d; q quit",
                 n, s.r.w, s.r.h, APP_MIN_W, APP_MIN_H);
        return;
    }
    int y = 0;
    ui_textf(s, y++, 0, UI_TITLE | UI_BOLD, "boxgate: %dx%d is too small", s.r.w, s.r.h);
    if (s.r.h > 3)
        ui_textf(s, y++, 0, UI_MUTED, "need %dx%d", APP_MIN_W, APP_MIN_H);
    ui_text(s, y++, 0, n ? UI_WARN | UI_BOLD : UI_TEXT, words);
    ui_text(s, y++, 0, UI_MUTED, a->online ? "nothing is approved here" : "no connection");
    ui_text(s, s.r.h - 1 > y ? y + 1 : y, 0, UI_MUTED, "q quit   ^L redraw");
}

void app_compose(struct app *a, const struct view_ops *const *views)
{
    struct ui_grid *g = ui_term_grid(a->term);
    const struct view_ops *v = views[a->view];
    ui_grid_clear(g);
    struct ui_surface all = ui_whole(g);
    if (app_small(a)) {
        small_screen(a, all);
        return;
    }
    int h = g->h, w = g->w;
    if (v->status)
        v->status(a, a->state[a->view], ui_sub(all, 0, 0, 1, w));
    else
        status(a, views, ui_sub(all, 0, 0, 1, w));
    v->draw(a, a->state[a->view], ui_sub(all, 1, 0, h - 2, w));
    bottom(a, v, all);
    if (a->help)
        help_draw(ui_sub(all, 1, 0, h - 2, w), v, &app_global_keys, &a->help_scroll);
    if (a->quit_asked)
        quit_box(a, all);
}

/* ---- the : line ---- */

static void command_theme(struct app *a, const char *name)
{
    struct bg_error err = {0};
    if (!*name)
        app_say(a, 0,
                ":theme NAME, for example dark, light, mono, high-contrast, deuteranopia");
    else if (app_theme(a, name, &err))
        app_say(a, 1, "theme %s for now; console.theme in config.yaml keeps it", name);
    else
        app_say(a, 3, "%s", err.msg);
}

static void run_command(struct app *a, char *line)
{
    while (*line == ' ')
        line++;
    char *arg = line + strcspn(line, " ");
    if (*arg)
        *arg++ = '\0';
    while (*arg == ' ')
        arg++;
    if (!strcmp(line, "theme")) {
        command_theme(a, arg);
    } else if (!strcmp(line, "mouse")) {
        app_mouse(a, *arg ? !strcmp(arg, "on") : !a->mouse);
    } else if (!strcmp(line, "help")) {
        a->help = true;
        a->help_scroll = 0;
    } else if (!strcmp(line, "q") || !strcmp(line, "quit")) {
        struct ui_event ev = {.type = UI_EV_KEY, .key = UI_CTRL('c')};
        app_key(a, &ev);
    } else if (*line) {
        app_say(a, 3, "no command %s; there are: theme, mouse, help, q", line);
    }
}

void app_command_event(struct app *a, const struct ui_event *ev)
{
    if (ui_field_event(&a->command, ev))
        return;
    if (ev->type != UI_EV_KEY)
        return;
    a->command_on =
        ev->key != UI_KEY_ENTER && ev->key != UI_KEY_ESC && ev->key != UI_CTRL('c');
    if (ev->key == UI_KEY_ENTER) {
        bg_autofree char *line = bg_xstrdup(a->command.text);
        run_command(a, line);
    }
}

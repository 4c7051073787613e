/* SPDX-License-Identifier: MIT */
/*
 * From the terminal's bytes to actions: what came together is told apart from what a person
 * typed, the view in front is asked first, then the table of keys that hold everywhere.
 */
#include <errno.h>
#include <signal.h>

#include "core/base/mem.h"
#include "tui/app_priv.h"

enum {
    ACT_DASH = 1000,
    ACT_APPROVE,
    ACT_HELP,
    ACT_COMMAND,
    ACT_REDRAW,
    ACT_MOUSE,
    ACT_BACK,
    ACT_QUIT,
    ACT_STOP,
    ACT_DIE
};

static const struct ui_binding global_rows[] = {
    {{':'}, ACT_COMMAND, "command", "command: :theme NAME, :mouse, :help, :q"},
    {{'?', UI_KEY_F1}, ACT_HELP, "help", "this help"},
    {{'q', UI_KEY_ESC}, ACT_BACK, "quit", "back, then quit"},
    {{'1'}, ACT_DASH, NULL, "dashboard"},
    {{'2'}, ACT_APPROVE, NULL, "review, oldest request first"},
    {{'M'}, ACT_MOUSE, NULL, "mouse on or off"},
    {{UI_CTRL('l')}, ACT_REDRAW, NULL, "draw everything again"},
    {{UI_CTRL('z')}, ACT_STOP, NULL, "suspend; deadlines go on"},
    {{UI_CTRL('c')}, ACT_QUIT, NULL, "quit (asks when requests wait)"},
    {{UI_CTRL('\\')}, ACT_DIE, NULL, "quit at once; decides nothing"},
};
const struct ui_keymap app_global_keys = {global_rows, bg_countof(global_rows)};

/* ---- keys ---- */

bool app_small(const struct app *a)
{
    const struct ui_grid *g = ui_term_grid(a->term);
    return g->w < APP_MIN_W || g->h < APP_MIN_H;
}

void app_finish(struct app *a, int code)
{
    a->done = true;
    a->exit_code = code;
    bg_loop_stop(a->loop);
}

static void quit(struct app *a)
{
    size_t pending;
    free(model_pending(&a->model, &pending));
    if (pending && !app_small(a) && !a->quit_asked) {
        a->quit_asked = true;
        return;
    }
    app_finish(a, 0);
}

static void review_oldest(struct app *a)
{
    size_t n;
    bg_autofree uint64_t *ids = model_pending(&a->model, &n);
    if (n)
        app_review(a, ids[0]);
    else
        app_say(a, 0, "nothing waits for a decision");
}

static void global_action(struct app *a, int action)
{
    switch (action) {
    case ACT_DASH:
        app_show(a, VIEW_DASH);
        break;
    case ACT_APPROVE:
        if (a->view != VIEW_APPROVAL)
            review_oldest(a);
        break;
    case ACT_HELP:
        a->help = true;
        a->help_scroll = 0;
        break;
    case ACT_COMMAND:
        ui_field_set(&a->command, "");
        a->command_on = true;
        break;
    case ACT_REDRAW:
        ui_term_redraw(a->term);
        break;
    case ACT_MOUSE:
        app_mouse(a, !a->mouse);
        break;
    case ACT_BACK:
        if (a->view != VIEW_DASH)
            app_show(a, VIEW_DASH);
        else
            quit(a);
        break;
    case ACT_QUIT:
        quit(a);
        break;
    case ACT_STOP:
        app_suspend(a);
        break;
    case ACT_DIE:
        app_finish(a, 128 + SIGQUIT);
        break;
    default:
        break;
    }
}

void app_mouse(struct app *a, bool on)
{
    a->mouse = on;
    ui_term_mouse(a->term, on);
    app_say(a, 0,
            on ? "mouse on: wheel scrolls, click selects; it never decides. Shift-drag "
                 "selects text"
               : "mouse off");
}

static void small_key(struct app *a, const struct ui_event *ev)
{
    int action = ui_keymap_action(&app_global_keys, ev);
    if (action == ACT_BACK || action == ACT_QUIT)
        app_finish(a, 0);
    else if (action == ACT_REDRAW || action == ACT_STOP || action == ACT_DIE)
        global_action(a, action);
}

static void quit_key(struct app *a, const struct ui_event *ev)
{
    /* Not by what was typed before the question was there. */
    bool answer = ev->type == UI_EV_KEY && (ev->key == 'y' || ev->key == UI_CTRL('c'));
    if (answer && !ev->burst && !ev->alt)
        app_finish(a, 0);
    else if (ev->type == UI_EV_KEY)
        a->quit_asked = false;
}

static void help_key(struct app *a, const struct ui_event *ev)
{
    if (ev->type != UI_EV_KEY)
        return;
    switch (ev->key) {
    case 'j':
    case UI_KEY_DOWN:
        a->help_scroll++;
        break;
    case 'k':
    case UI_KEY_UP:
        a->help_scroll--;
        break;
    case ' ':
    case UI_KEY_PGDN:
        a->help_scroll += 10;
        break;
    case UI_KEY_PGUP:
        a->help_scroll -= 10;
        break;
    default:
        a->help = false;
    }
}

void app_key(struct app *a, const struct ui_event *ev)
{
    global_action(a, ui_keymap_action(&app_global_keys, ev));
}

static void view_key(struct app *a, const struct ui_event *ev)
{
    const struct view_ops *v = app_views[a->view];
    if (v->event(a, a->state[a->view], ev))
        return;
    int action = ui_keymap_action(&v->keys, ev);
    if (action) {
        v->action(a, a->state[a->view], action, ev);
        return;
    }
    app_key(a, ev);
}

static void dispatch(struct app *a, const struct ui_event *ev)
{
    if (ev->type == UI_EV_FOCUS) {
        a->focused = ev->on;
        return;
    }
    if (ev->type == UI_EV_SYNC) {
        ui_term_sync(a->term, ev->on);
        return;
    }
    if (ev->type == UI_EV_KEY) {
        *a->message = '\0';
        a->dirty = true;
    }
    a->key_dirty = true;
    bool covered = app_covered(a);
    if (app_small(a))
        small_key(a, ev);
    else if (a->command_on)
        app_command_event(a, ev);
    else if (a->quit_asked)
        quit_key(a, ev);
    else if (a->help)
        help_key(a, ev);
    else
        view_key(a, ev);
    if (covered && !app_covered(a))
        app_show(a, a->view); /* in front again: what it has armed begins anew */
    a->dirty = true;
}

/* ---- reading the terminal ---- */

struct batch {
    struct app *a;
    size_t keys;
    bool burst;
};

static void count_event(void *data, const struct ui_event *ev)
{
    struct batch *b = data;
    b->keys += ev->type == UI_EV_KEY;
}

static void take_event(void *data, const struct ui_event *ev)
{
    struct batch *b = data;
    struct ui_event own = *ev;
    own.burst = b->burst;
    if (!b->a->done)
        dispatch(b->a, &own);
}

/* What came in one read came together; so did what follows too fast for a person. */
static void feed(struct app *a, const char *p, size_t n)
{
    struct batch b = {.a = a};
    struct ui_input probe = a->input;
    bg_buf_init(&probe.paste, UI_PASTE_MAX);
    ui_input_feed(&probe, p, n, count_event, &b);
    bg_buf_free(&probe.paste);
    int64_t now = app_mono(a);
    b.burst = b.keys > 1 || (b.keys && now - a->last_key_ms < UI_BURST_MS);
    if (b.keys)
        a->last_key_ms = now;
    ui_input_feed(&a->input, p, n, take_event, &b);
    int wait = ui_input_wait(&a->input);
    if (wait)
        bg_timer_start(a->esc_timer, wait, 0);
    else
        bg_timer_stop(a->esc_timer);
}

void app_on_esc_timer(struct bg_timer *t BG_UNUSED, void *data)
{
    struct app *a = data;
    struct batch b = {.a = a};
    a->last_key_ms = app_mono(a);
    ui_input_timeout(&a->input, take_event, &b);
}

void app_on_tty(struct bg_poll *p BG_UNUSED, int fd, unsigned events BG_UNUSED, void *data)
{
    struct app *a = data;
    char buf[4096];
    ssize_t n = read(fd, buf, sizeof buf);
    if (n > 0)
        feed(a, buf, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        app_finish(a, 128 + SIGHUP); /* the terminal is gone: nothing is decided */
}

/* SPDX-License-Identifier: MIT */
/*
 * Terminal in, model in, frames out. One redraw a turn of the loop, 30 a second at most for
 * what the server says, at once for keys; nothing at all while nothing changes.
 */
#include "tui/app.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "tui/app_priv.h"
#include "tui/gate.h"

#define FRAME_MS 33

const struct view_ops *const app_views[VIEW_COUNT_] = {
    [VIEW_DASH] = &view_dash, [VIEW_APPROVAL] = &view_approval};

/* ---- small things for views ---- */

const struct model *app_model(const struct app *a)
{
    return &a->model;
}

int64_t app_now(const struct app *a)
{
    return a->o.wall() + a->clock_offset;
}

int64_t app_mono(const struct app *a)
{
    return a->o.mono();
}

int64_t app_arm_ms(const struct app *a)
{
    return a->arm_ms;
}

bool app_online(const struct app *a)
{
    return a->online;
}

bool app_covered(const struct app *a)
{
    return a->help || a->command_on || a->quit_asked || app_small(a);
}

bool app_in_front(const struct app *a, enum view_id v)
{
    return a->view == v && !app_covered(a);
}

void app_call(struct app *a, const char *method, cJSON *params, bg_rpc_fn cb, void *data)
{
    a->o.link.call(a->o.link.data, method, params, cb, data);
}

void app_dirty(struct app *a)
{
    a->dirty = true;
}

void app_again(struct app *a, int64_t in_ms)
{
    if (a->again_ms < 0 || in_ms < a->again_ms)
        a->again_ms = in_ms;
}

void app_flush_input(struct app *a)
{
    ui_term_flush_input(a->term);
}

void app_say(struct app *a, int level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(a->message, sizeof a->message, fmt, ap);
    va_end(ap);
    a->message_level = level;
    a->dirty = true;
}

bool app_ascii(const struct app *a)
{
    return ui_term_grid(a->term)->ascii;
}

struct approval *app_approval(struct app *a)
{
    return a->state[VIEW_APPROVAL];
}

void app_show(struct app *a, enum view_id v)
{
    a->view = v;
    a->dirty = true;
    app_views[v]->front(a, a->state[v]);
}

void app_review(struct app *a, uint64_t id)
{
    approval_open(a, a->state[VIEW_APPROVAL], id);
    app_show(a, VIEW_APPROVAL);
}

/* ---- the model changes ---- */

static void run_notify(struct app *a, size_t pending);

static void title(struct app *a, size_t pending)
{
    char words[32] = "boxgate";
    if (pending)
        snprintf(words, sizeof words, "boxgate (%zu)", pending);
    ui_term_title(a->term, words);
}

static void changed(struct app *a, bool quiet)
{
    size_t pending;
    free(model_pending(&a->model, &pending));
    title(a, pending);
    if (a->model.arrived > a->rung) {
        if (!quiet && !a->focused && a->o.bell)
            ui_term_bell(a->term);
        if (!quiet)
            run_notify(a, pending);
        a->rung = a->model.arrived;
    }
    for (int v = 0; v < VIEW_COUNT_; v++)
        app_views[v]->changed(a, a->state[v]);
    a->dirty = true;
}

static void on_sessions(void *data, const cJSON *result, const struct bg_error *err)
{
    struct app *a = data;
    if (!err)
        model_set_sessions(&a->model, result, app_now(a));
    changed(a, true);
}

static void on_requests(void *data, const cJSON *result, const struct bg_error *err)
{
    struct app *a = data;
    if (!err)
        model_set_requests(&a->model, result, app_now(a));
    else
        app_say(a, 3, "the list of requests could not be read: %s", err->msg);
    changed(a, !a->listed);
    a->listed = true;
}

static void read_lists(struct app *a)
{
    app_call(a, "approval.list", bg_jo(), on_requests, a);
    app_call(a, "session.list", bg_jo(), on_sessions, a);
}

static void on_subscribed(void *data, const cJSON *result BG_UNUSED,
                          const struct bg_error *err)
{
    if (err)
        app_say(data, 3, "no events: %s", err->msg);
}

static void subscribe(struct app *a)
{
    static const char *const topics[] = {"approval", "session", "server", "policy"};
    cJSON *p = bg_jo(), *t = bg_ja();
    for (size_t i = 0; i < bg_countof(topics); i++)
        cJSON_AddItemToArray(t, cJSON_CreateString(topics[i]));
    bg_jset(p, "topics", t);
    app_call(a, "events.subscribe", p, on_subscribed, a);
}

/* `available` is null while the server still tries what its provider can do. */
static void provider_words(struct app *a, const cJSON *p)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(p, "name");
    const cJSON *ok = cJSON_GetObjectItemCaseSensitive(p, "available");
    const cJSON *why = cJSON_GetObjectItemCaseSensitive(p, "whyNot");
    free(a->provider);
    a->provider = bg_xstrdup(cJSON_IsString(name) ? name->valuestring : "");
    a->provider_known = cJSON_IsBool(ok);
    a->provider_ok = !cJSON_IsFalse(ok);
    if (!a->provider_ok && cJSON_IsString(why)) {
        bg_autofree char *safe =
            bg_text_safe_line(why->valuestring, strlen(why->valuestring), 0);
        app_say(a, 3, "no sandbox can run: %s; see: boxgate doctor", safe);
    }
}

static void on_policy(void *data, const cJSON *result, const struct bg_error *err)
{
    struct app *a = data;
    a->distrusted =
        !err && cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(result, "distrusted"));
    if (a->distrusted)
        app_say(a, 3,
                "policy.yaml is not trusted: denies stay, allows are off; see: boxgate "
                "policy check");
    app_dirty(a);
}

void app_connected(struct app *a, const cJSON *hello)
{
    const cJSON *t = cJSON_GetObjectItemCaseSensitive(hello, "serverTime");
    const cJSON *arm = cJSON_GetObjectItemCaseSensitive(hello, "armMs");
    int64_t server = cJSON_IsString(t) ? bg_time_parse(t->valuestring) : -1;
    a->clock_offset = server < 0 ? 0 : server - a->o.wall();
    a->arm_ms = gate_arm_ms(cJSON_IsNumber(arm) ? arm->valuedouble : -1);
    if (a->was_online) {
        app_say(a, 1, "connected again");
        model_reconnected(&a->model);
    }
    a->online = a->was_online = true;
    provider_words(a, cJSON_GetObjectItemCaseSensitive(hello, "provider"));
    subscribe(a);
    read_lists(a);
    app_call(a, "policy.get", bg_jo(), on_policy, a);
    changed(a, true);
}

void app_event(struct app *a, const char *topic, const char *type, const cJSON *data)
{
    if (!strcmp(topic, "server") && !strcmp(type, "provider"))
        provider_words(a, data);
    if (model_event(&a->model, topic, type, data, app_now(a))) {
        app_say(a, 2, "the server dropped events; reading everything again");
        read_lists(a);
    }
    if (!strcmp(topic, "policy"))
        app_call(a, "policy.get", bg_jo(), on_policy, a);
    changed(a, false);
}

void app_disconnected(struct app *a, const struct bg_error *err)
{
    a->online = false;
    app_say(a, 3, "connection lost: %s. Nothing can be decided; trying again every second",
            err->msg);
    changed(a, true);
}

/* ---- signals ---- */

void app_resized(struct app *a)
{
    bool covered = app_covered(a);
    ui_term_resize(a->term);
    if (covered && !app_covered(a))
        app_show(a, a->view); /* in front again */
    a->dirty = a->key_dirty = true;
}

static void on_signal(int signo, void *data)
{
    struct app *a = data;
    if (signo == SIGWINCH) {
        app_resized(a);
    } else if (signo == SIGTSTP) {
        app_suspend(a);
    } else if (signo != SIGCONT) {
        app_finish(a, 128 + signo);
    } else {
        ui_term_enter(a->term); /* a shell may have changed the modes meanwhile */
        app_show(a, a->view);
    }
}

static const int watched[APP_SIGNALS] = {SIGWINCH, SIGTERM, SIGINT, SIGHUP,
                                         SIGQUIT,  SIGCONT, SIGTSTP};

void app_suspend(struct app *a)
{
    struct bg_signal **stop = &a->signals[APP_SIGNALS - 1];
    ui_term_leave(a->term);
    bg_signal_free(*stop); /* the default action is what we want now */
    kill(getpid(), SIGTSTP);
    /* Here again after SIGCONT (at once where nobody does job control). */
    *stop = bg_signal_new(a->loop, SIGTSTP, on_signal, a);
    ui_term_enter(a->term);
    ui_term_flush_input(a->term);
    app_show(a, a->view);
    app_say(a, 2, "back; deadlines went on meanwhile");
}

/* ---- frames ---- */

static void on_frame_timer(struct bg_timer *t BG_UNUSED, void *data)
{
    struct app *a = data;
    a->frame_due = true;
    a->dirty = true;
}

static void on_again_timer(struct bg_timer *t BG_UNUSED, void *data)
{
    app_dirty(data);
}

/* Before the loop waits: at most one frame a turn. */
static void on_prepare(void *data)
{
    struct app *a = data;
    if (!a->dirty || a->done)
        return;
    int64_t since = app_mono(a) - a->drawn_ms;
    if (!a->key_dirty && !a->frame_due && a->drawn_ms && since < FRAME_MS) {
        if (!bg_timer_active(a->frame_timer))
            bg_timer_start(a->frame_timer, FRAME_MS - since, 0);
        return;
    }
    app_draw(a);
}

void app_draw(struct app *a)
{
    a->dirty = a->key_dirty = a->frame_due = false;
    a->drawn_ms = app_mono(a);
    a->again_ms = -1;
    bg_timer_stop(a->frame_timer);
    app_compose(a, app_views);
    ui_term_flush(a->term);
    if (a->again_ms >= 0)
        bg_timer_start(a->again_timer, a->again_ms > 0 ? a->again_ms : 1, 0);
    else
        bg_timer_stop(a->again_timer);
}

/* ---- the notify command ---- */

static void on_notified(struct bg_child *c, int exit_code, int term_signal, void *data)
{
    struct app *a = data;
    if (exit_code || term_signal)
        app_say(a, 2, "notifyCommand ended with %d",
                term_signal ? 128 + term_signal : exit_code);
    bg_child_free(c);
    a->notifier = NULL;
}

/* Counts only, never a word of what an agent wrote. */
static void run_notify(struct app *a, size_t pending)
{
    struct bg_error err = {0};
    if (!a->o.notify || !a->o.notify[0] || a->notifier || a->focused)
        return;
    bg_autofree char *count = bg_xasprintf("BOXGATE_PENDING=%zu", pending);
    const char *keep[] = {"PATH",
                          "HOME",
                          "DISPLAY",
                          "DBUS_SESSION_BUS_ADDRESS",
                          "XDG_RUNTIME_DIR",
                          "WAYLAND_DISPLAY",
                          "TMUX"};
    char **env = NULL;
    bg_strv_push(&env, count);
    for (size_t i = 0; i < bg_countof(keep); i++) {
        const char *v = getenv(keep[i]);
        if (v) {
            bg_autofree char *kv = bg_xasprintf("%s=%s", keep[i], v);
            bg_strv_push(&env, kv);
        }
    }
    int fds[3] = {-1, -1, -1};
    struct bg_child_opts c = {
        .file = a->o.notify[0], .argv = a->o.notify, .env = env, .fds = fds, .n_fds = 3};
    a->notifier = bg_child_spawn(a->loop, &c, on_notified, a, &err);
    if (!a->notifier)
        app_say(a, 2, "notifyCommand: %s", err.msg);
    bg_strv_free(env);
}

/* ---- beginning and end ---- */

static bool set_theme(struct app *a, const char *name, struct bg_error *err)
{
    struct ui_theme t;
    if (!ui_theme_load(&t, *name ? name : "dark", a->o.config_dir, err))
        return false;
    ui_term_theme(a->term, &t);
    if (*t.warning)
        app_say(a, 2, "%s", t.warning);
    return true;
}

bool app_theme(struct app *a, const char *name, struct bg_error *err)
{
    return set_theme(a, name, err);
}

static void first_theme(struct app *a)
{
    struct bg_error err = {0};
    if (set_theme(a, a->o.theme, &err))
        return;
    struct ui_theme mono;
    ui_theme_mono(&mono);
    if (!*a->o.theme || !set_theme(a, "dark", NULL))
        ui_term_theme(a->term, &mono);
    app_say(a, 2, "%s", err.msg);
}

static void close_handles(struct app *a)
{
    for (size_t i = 0; i < APP_SIGNALS; i++)
        if (a->signals[i])
            bg_signal_free(a->signals[i]);
    bg_poll_free(a->poll);
    bg_timer_free(a->esc_timer);
    bg_timer_free(a->frame_timer);
    bg_timer_free(a->again_timer);
    bg_prepare_free(a->prepare);
    if (a->notifier)
        bg_child_free(a->notifier);
}

struct app *app_new(struct bg_loop *loop, const struct app_opts *o, struct bg_error *err)
{
    struct app *a = bg_xcalloc(1, sizeof *a);
    a->loop = loop;
    a->o = *o;
    a->o.wall = o->wall ? o->wall : bg_wall_ms;
    a->o.mono = o->mono ? o->mono : bg_mono_ms;
    a->arm_ms = BG_ARM_MS;
    a->mouse = o->mouse;
    model_init(&a->model);
    ui_input_init(&a->input);
    ui_field_init(&a->command, 200);
    for (size_t i = 0; i < APP_SIGNALS; i++)
        a->signals[i] = bg_signal_new(loop, watched[i], on_signal, a);
    struct ui_term_opts to = {.in = o->in,
                              .out = o->out,
                              .term = o->term,
                              .no_color = o->no_color,
                              .mouse = o->mouse,
                              .border = o->border};
    a->term = ui_term_open(&to, err);
    a->poll = a->term ? bg_poll_new(loop, o->in, app_on_tty, a) : NULL;
    if (a->term && !a->poll)
        bg_fail(err, BG_ERR_IO, errno, "the terminal cannot be read");
    if (!a->poll) {
        app_free(a);
        return NULL;
    }
    a->esc_timer = bg_timer_new(loop, app_on_esc_timer, a);
    a->frame_timer = bg_timer_new(loop, on_frame_timer, a);
    a->again_timer = bg_timer_new(loop, on_again_timer, a);
    a->prepare = bg_prepare_new(loop, on_prepare, a);
    bg_poll_set(a->poll, BG_READ);
    for (int v = 0; v < VIEW_COUNT_; v++)
        a->state[v] = app_views[v]->open(a);
    ui_term_flush_input(a->term);
    first_theme(a);
    app_show(a, VIEW_DASH);
    return a;
}

void app_free(struct app *a)
{
    if (!a)
        return;
    close_handles(a);
    for (int v = 0; v < VIEW_COUNT_; v++)
        if (a->state[v])
            app_views[v]->close(a->state[v]);
    ui_term_close(a->term);
    ui_input_free(&a->input);
    ui_field_free(&a->command);
    model_free(&a->model);
    free(a->provider);
    free(a);
}

bool app_done(const struct app *a)
{
    return a->done;
}

int app_exit_code(const struct app *a)
{
    return a->exit_code;
}

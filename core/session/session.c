/* SPDX-License-Identifier: MIT */
/*
 * The registry, the transition table, the two timers, and the end of a session. A session
 * is freed in one place only: session_settle, when its sandbox is gone, nothing is being
 * made and no run is left.
 */
#include "core/session/session.h"

#include <assert.h>

#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/values.h"
#include "core/session/session_int.h"

enum { INSTANCE_BYTES = 16, RANDOM_ID_BYTES = 4 };

const char *bg_session_state_name(enum bg_session_state s)
{
    static const char *const names[] = {"open", "creating", "live",
                                        "lost", "closing",  "closed"};

    return (size_t)s < bg_countof(names) ? names[s] : "unknown";
}

void session_changed(struct bg_session *s)
{
    if (s->ss->ev && s->ss->ev->changed && s->state != BG_SESSION_CLOSED)
        s->ss->ev->changed(s->ss->data, s);
}

void session_set_state(struct bg_session *s, enum bg_session_state to)
{
#define TO(x) (1u << BG_SESSION_##x)
    static const unsigned allowed[] = {
        [BG_SESSION_OPEN] = TO(CREATING) | TO(CLOSING),
        [BG_SESSION_CREATING] = TO(OPEN) | TO(LIVE) | TO(CLOSING),
        [BG_SESSION_LIVE] = TO(LOST) | TO(CLOSING),
        [BG_SESSION_LOST] = TO(CLOSED),
        [BG_SESSION_CLOSING] = TO(CLOSED),
        [BG_SESSION_CLOSED] = 0,
    };
#undef TO
    assert(allowed[s->state] & (1u << to));
    s->state = to;
    session_changed(s);
}

bool session_ending(const struct bg_session *s)
{
    return s->state == BG_SESSION_LOST || s->state == BG_SESSION_CLOSING ||
           s->state == BG_SESSION_CLOSED;
}

void session_end_error(const struct bg_session *s, struct bg_error *err)
{
    if (s->lost_why.code != BG_OK)
        *err = s->lost_why;
    else
        bg_fail(err, BG_ERR_DESTROYED, 0, "session %s was closed (%s)", s->id, s->reason);
}

/* ---- timers ---- */

void session_touch(struct bg_session *s)
{
    s->used_wall_ms = bg_wall_ms();
    if (s->holds > 0 || s->n_runs > 0 || session_ending(s))
        bg_timer_stop(s->idle);
    else if (s->spec->auto_destroy && s->spec->idle_ms != BG_UNLIMITED)
        bg_timer_start(s->idle, s->spec->idle_ms, 0);
}

static void on_idle(struct bg_timer *t, void *data)
{
    (void)t;
    bg_session_close(data, "idle", NULL, NULL);
}

static void on_ttl(struct bg_timer *t, void *data)
{
    (void)t;
    bg_session_close(data, "ttl", NULL, NULL);
}

void bg_session_hold(struct bg_session *s)
{
    s->holds++;
    session_touch(s);
}

void bg_session_release(struct bg_session *s)
{
    assert(s->holds > 0);
    s->holds--;
    session_touch(s);
}

/* ---- what was lost, so that the next of that name can say so ---- */

static bool same_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static void remember_lost(const struct bg_session *s)
{
    struct lost_name *l = &s->ss->lost[s->ss->lost_next++ % SESSION_LOST_REMEMBERED];

    free(l->id);
    free(l->run_id);
    *l = (struct lost_name){s->owner, bg_xstrdup(s->id), bg_xstrdup(s->run_id)};
}

static bool was_lost(struct bg_sessions *ss, uint32_t owner, const char *id,
                     const char *run_id)
{
    for (size_t i = 0; i < SESSION_LOST_REMEMBERED; i++) {
        struct lost_name *l = &ss->lost[i];
        if (l->owner == owner && (same_text(l->id, id) || same_text(l->run_id, run_id))) {
            free(l->id);
            free(l->run_id);
            *l = (struct lost_name){0};
            return true;
        }
    }
    return false;
}

/* ---- the end ---- */

static void free_session(struct bg_session *s)
{
    bg_timer_free(s->idle);
    bg_timer_free(s->ttl);
    bg_spec_free(s->spec);
    free(s->id);
    free(s->run_id);
    free(s);
}

static void drop(struct bg_session *s)
{
    struct bg_sessions *ss = s->ss;

    for (struct bg_session **at = &ss->first; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    ss->count--;
}

static void tell_shut(struct bg_sessions *ss)
{
    bg_done_fn shut = ss->shut;

    if (!shut || ss->count > 0)
        return;
    ss->shut = NULL;
    shut(ss->shut_data, NULL);
}

static void gone(struct bg_session *s)
{
    struct bg_sessions *ss = s->ss;
    struct close_waiter *w = s->waiters;

    s->state = BG_SESSION_CLOSED;
    drop(s);
    if (s->lost_why.code != BG_OK)
        remember_lost(s);
    if (ss->ev && ss->ev->closed)
        ss->ev->closed(ss->data, s, s->reason);
    free_session(s);
    while (w) {
        struct close_waiter *next = w->next;
        w->done(w->data, NULL);
        free(w);
        w = next;
    }
    tell_shut(ss);
}

static void on_destroyed(void *data, const struct bg_error *err)
{
    struct bg_session *s = data;

    (void)err; /* the provider has logged it and sweep will come by; the session is over */
    s->destroying = false;
    s->sandbox = NULL;
    session_settle(s);
}

void session_settle(struct bg_session *s)
{
    if (!session_ending(s) || s->making || s->settling || s->destroying ||
        s->inspecting > 0)
        return;
    if (s->sandbox) {
        s->destroying = true;
        s->ss->ops->destroy(s->sandbox, on_destroyed, s);
    } else if (s->n_runs == 0) {
        gone(s);
    }
}

static void settle_deferred(void *data)
{
    struct bg_session *s = data;

    s->settling = false;
    session_settle(s);
}

/* Never from inside the caller's call: at the earliest in the next turn. */
static void begin_end(struct bg_session *s)
{
    struct bg_error err;

    bg_timer_stop(s->idle);
    bg_timer_stop(s->ttl);
    session_end_error(s, &err);
    runs_fail_waiting(s, &err);
    if (!s->making) {
        s->settling = true;
        bg_loop_defer(s->ss->loop, settle_deferred, s);
    }
}

void session_lose(struct bg_session *s, const struct bg_error *why)
{
    if (s->state != BG_SESSION_LIVE)
        return;
    s->lost_why = *why;
    s->reason = "lost";
    session_set_state(s, BG_SESSION_LOST);
    begin_end(s);
}

static void add_waiter(struct bg_session *s, bg_done_fn done, void *data)
{
    struct close_waiter *w = bg_xmalloc(sizeof *w);
    struct close_waiter **at = &s->waiters;

    *w = (struct close_waiter){NULL, done, data};
    while (*at)
        at = &(*at)->next;
    *at = w;
}

/* The texts outlive the session; an unknown reason counts as a plain close. */
static const char *known_reason(const char *reason)
{
    static const char *const known[] = {"close", "idle", "ttl", "lost", "server stop"};

    for (size_t i = 0; i < bg_countof(known); i++)
        if (same_text(known[i], reason))
            return known[i];
    return known[0];
}

void bg_session_close(struct bg_session *s, const char *reason, bg_done_fn done, void *data)
{
    if (done)
        add_waiter(s, done, data);
    if (session_ending(s))
        return;
    s->reason = known_reason(reason);
    session_set_state(s, BG_SESSION_CLOSING);
    begin_end(s);
}

/* ---- the registry ---- */

struct bg_sessions *bg_sessions_new(struct bg_loop *loop, const struct bg_provider_ops *ops,
                                    struct bg_provider *p,
                                    const struct bg_sessions_events *ev, void *data)
{
    struct bg_sessions *ss = bg_xcalloc(1, sizeof *ss);

    ss->loop = loop;
    ss->ops = ops;
    ss->provider = p;
    ss->ev = ev;
    ss->data = data;
    return ss;
}

static void shut_deferred(void *data)
{
    tell_shut(data);
}

void bg_sessions_shutdown(struct bg_sessions *ss, bg_done_fn done, void *data)
{
    ss->shut = done;
    ss->shut_data = data;
    for (struct bg_session *s = ss->first; s; s = s->next)
        bg_session_close(s, "server stop", NULL, NULL);
    if (ss->count == 0)
        bg_loop_defer(ss->loop, shut_deferred, ss);
}

void bg_sessions_free(struct bg_sessions *ss)
{
    if (!ss)
        return;
    assert(ss->count == 0);
    for (size_t i = 0; i < SESSION_LOST_REMEMBERED; i++) {
        free(ss->lost[i].id);
        free(ss->lost[i].run_id);
    }
    free(ss);
}

static char *random_id(struct bg_sessions *ss)
{
    char hex[2 * RANDOM_ID_BYTES + 1];

    for (;;) {
        bg_random_hex(hex, RANDOM_ID_BYTES);
        char *id = bg_xasprintf("run-%s", hex);
        if (!bg_session_find(ss, id))
            return id;
        free(id);
    }
}

static bool may_open(struct bg_sessions *ss, const char *id, const char *run_id,
                     uint32_t owner, struct bg_error *err)
{
    if (ss->shut)
        return bg_fail(err, BG_ERR_DESTROYED, 0, "the server is stopping");
    if (id && !bg_id_valid(id))
        return bg_fail(
            err, BG_ERR_USAGE, 0,
            "`%.64s` is no session id: letters, digits, dot, dash, underscore, at most %d",
            id, BG_ID_MAX);
    if (id && bg_session_find(ss, id))
        return bg_fail(err, BG_ERR_CONFLICT, 0, "session %s exists", id);
    if (run_id && bg_session_find_run(ss, owner, run_id))
        return bg_fail(err, BG_ERR_CONFLICT, 0, "this run has a session already");
    if (ss->count >= BG_SESSIONS_MAX)
        return bg_fail(err, BG_ERR_LIMIT, 0, "%d sessions are open", BG_SESSIONS_MAX);
    return true;
}

struct bg_session *bg_session_open(struct bg_sessions *ss, const char *id,
                                   const char *run_id, uint32_t owner_uid,
                                   struct bg_spec *spec, bool once, struct bg_error *err)
{
    struct bg_session *s;

    if (!may_open(ss, id, run_id, owner_uid, err)) {
        bg_spec_free(spec);
        return NULL;
    }
    s = bg_xcalloc(1, sizeof *s);
    s->ss = ss;
    s->id = id ? bg_xstrdup(id) : random_id(ss);
    s->run_id = bg_xstrdup(run_id);
    s->owner = owner_uid;
    s->spec = spec;
    s->once = once;
    s->fresh = true;
    s->reset = was_lost(ss, owner_uid, s->id, run_id);
    s->opened_wall_ms = bg_wall_ms();
    bg_random_hex(s->instance, INSTANCE_BYTES);
    s->idle = bg_timer_new(ss->loop, on_idle, s);
    s->ttl = bg_timer_new(ss->loop, on_ttl, s);
    if (spec->auto_destroy && spec->ttl_ms != BG_UNLIMITED)
        bg_timer_start(s->ttl, spec->ttl_ms, 0);
    for (struct bg_session **at = &ss->first;; at = &(*at)->next) {
        if (!*at) {
            *at = s;
            break;
        }
    }
    ss->count++;
    session_touch(s);
    if (ss->ev && ss->ev->opened)
        ss->ev->opened(ss->data, s);
    session_changed(s);
    return s;
}

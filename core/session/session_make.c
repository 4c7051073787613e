/* SPDX-License-Identifier: MIT */
/*
 * Making a session's sandbox: record, create, then either every waiting run goes on or
 * every one of them is told why not, and the session is open again. One creation at a time.
 */
#include "core/base/digest.h"
#include "core/session/session_int.h"

enum { REF_BYTES = 16 };

static void on_lost(void *data, struct bg_sandbox *sb, const struct bg_error *why)
{
    struct bg_session *s = data;

    if (sb == s->sandbox)
        session_lose(s, why);
}

static void on_changed(void *data, struct bg_sandbox *sb, const char *what)
{
    struct bg_session *s = data;

    (void)sb;
    (void)what;
    s->changed_outside = true;
    session_changed(s);
}

static void make_failed(struct bg_session *s, const struct bg_error *err)
{
    struct bg_error why = *err;

    s->making = false;
    s->ref[0] = '\0';
    if (session_ending(s)) {
        session_settle(s);
        return;
    }
    session_set_state(s, BG_SESSION_OPEN); /* not cached: the next run tries again */
    runs_fail_waiting(s, &why);
    session_touch(s);
}

static void on_created(void *data, struct bg_sandbox *sb, const struct bg_error *err)
{
    struct bg_session *s = data;

    if (!sb) {
        make_failed(s, err);
        return;
    }
    s->making = false;
    s->sandbox = sb;
    if (session_ending(s)) { /* closed meanwhile */
        session_settle(s);
        return;
    }
    session_set_state(s, BG_SESSION_LIVE);
    runs_go(s);
}

static void create(struct bg_session *s)
{
    static const struct bg_sandbox_events events = {.lost = on_lost, .changed = on_changed};
    const struct bg_create_opts o = {
        .id = s->id, .ref = s->ref, .spec = s->spec, .events = &events, .events_data = s};

    s->ss->ops->create(s->ss->provider, &o, on_created, s);
}

static void on_recorded(void *data, const struct bg_error *err)
{
    struct bg_session *s = data;
    struct bg_error closed;

    if (err) {
        make_failed(s, err);
    } else if (session_ending(s)) {
        session_end_error(s, &closed);
        make_failed(s, &closed);
    } else {
        create(s);
    }
}

void session_make(struct bg_session *s)
{
    session_set_state(s, BG_SESSION_CREATING);
    s->making = true;
    bg_random_hex(s->ref, REF_BYTES);
    if (s->ss->ev && s->ss->ev->record)
        s->ss->ev->record(s->ss->data, s, s->ref, on_recorded, s);
    else
        create(s);
}

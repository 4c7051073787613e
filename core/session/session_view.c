/* SPDX-License-Identifier: MIT */
/* Finding sessions and reading what they are. */
#include "core/base/clock.h"
#include "core/session/session_int.h"

struct bg_session *bg_session_find(struct bg_sessions *ss, const char *id)
{
    for (struct bg_session *s = ss->first; s; s = s->next)
        if (strcmp(s->id, id) == 0)
            return s;
    return NULL;
}

struct bg_session *bg_session_find_run(struct bg_sessions *ss, uint32_t owner_uid,
                                       const char *run_id)
{
    for (struct bg_session *s = ss->first; s; s = s->next)
        if (s->owner == owner_uid && s->run_id && strcmp(s->run_id, run_id) == 0)
            return s;
    return NULL;
}

struct bg_session *bg_session_find_instance(struct bg_sessions *ss, const char *instance)
{
    for (struct bg_session *s = ss->first; s; s = s->next)
        if (strcmp(s->instance, instance) == 0)
            return s;
    return NULL;
}

struct bg_session *bg_session_next(struct bg_sessions *ss, struct bg_session *after)
{
    return after ? after->next : ss->first;
}

size_t bg_sessions_count(const struct bg_sessions *ss)
{
    return ss->count;
}

const char *bg_session_id(const struct bg_session *s)
{
    return s->id;
}

const char *bg_session_instance(const struct bg_session *s)
{
    return s->instance;
}

const char *bg_session_run_id(const struct bg_session *s)
{
    return s->run_id;
}

uint32_t bg_session_owner(const struct bg_session *s)
{
    return s->owner;
}

const char *bg_session_ref(const struct bg_session *s)
{
    return s->ref[0] ? s->ref : NULL;
}

enum bg_session_state bg_session_state(const struct bg_session *s)
{
    return s->state;
}

const struct bg_spec *bg_session_spec(const struct bg_session *s)
{
    return s->spec;
}

bool bg_session_fresh(const struct bg_session *s)
{
    return s->fresh;
}

bool bg_session_changed_outside(const struct bg_session *s)
{
    return s->changed_outside;
}

bool bg_session_once(const struct bg_session *s)
{
    return s->once;
}

static int64_t idle_ms(const struct bg_session *s)
{
    int64_t ms = bg_wall_ms() - s->used_wall_ms;

    return s->holds > 0 || s->n_runs > 0 || ms < 0 ? 0 : ms;
}

cJSON *bg_session_json(const struct bg_session *s)
{
    const struct bg_sandbox *sb = s->sandbox;
    cJSON *o = bg_jo();

    bg_jset_str(o, "id", s->id);
    bg_jset_str(o, "state", bg_session_state_name(s->state));
    bg_jset_str(o, "instance", s->instance);
    bg_jset_str(o, "runId", s->run_id);
    bg_jset_int(o, "owner", s->owner);
    bg_jset_str(o, "profile", s->spec->profile);
    bg_jset_str(o, "provider", s->spec->provider);
    bg_jset_str(o, "image", s->spec->image);
    bg_jset_str(o, "imageId", s->spec->image_id);
    bg_jset_str(o, "network", s->spec->network);
    bg_jset_str(o, "name", sb ? sb->name : NULL);
    bg_jset_time(o, "createdAt", s->opened_wall_ms);
    bg_jset_time(o, "startedAt", sb ? sb->started_wall_ms : -1);
    bg_jset_time(o, "usedAt", s->used_wall_ms);
    bg_jset_int(o, "idleMs", idle_ms(s));
    bg_jset_bool(o, "once", s->once);
    bg_jset_bool(o, "fresh", s->fresh);
    bg_jset_bool(o, "changedOutside", s->changed_outside);
    bg_jset_int(o, "running", (int64_t)s->n_runs);
    bg_jset_int(o, "calls", (int64_t)s->runs_done);
    /* A request holds its session until it is final, so also while it runs. */
    bg_jset_int(o, "pending", (int64_t)(s->holds > s->n_runs ? s->holds - s->n_runs : 0));
    bg_jset_strv(o, "notEnforced", sb ? sb->not_enforced : s->spec->not_enforced);
    bg_jset(o, "spec", bg_spec_json(s->spec, false));
    return o;
}

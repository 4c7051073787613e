/* SPDX-License-Identifier: MIT */
/* Using a live sandbox: that it is still the one that was approved, commands, figures. */
#include "core/provider/local/local.h"

struct answer {
    bg_done_fn done;
    void *data;
    struct bg_error err;
};

static void give_answer(void *data)
{
    struct answer *a = data;

    a->done(a->data, a->err.code == BG_OK ? NULL : &a->err);
    free(a);
}

static bool binding_holds(const struct local_sandbox *s, const struct bg_spec *spec,
                          struct bg_error *err)
{
    struct bg_sha256 sum = bg_spec_sha256(spec);
    char **lost = NULL;
    uint32_t uid = 0;
    bool same;

    if (s->state != LOCAL_LIVE || s->exited)
        return bg_fail(err, BG_ERR_DESTROYED, 0, "the sandbox is gone");
    if (!s->has_spec || !bg_sha256_eq(&sum, &s->spec_sum) ||
        !bg_sha256_eq(&spec->guest_sha256, &s->p->guest_sum))
        return bg_fail(err, BG_ERR_BINDING, 0, "the sandbox was made from other options");
    if (local_start_time(s->record.child) != s->record.child_start ||
        local_parent_of(s->record.child) != s->monitor)
        return bg_fail(err, BG_ERR_BINDING, 0,
                       "the sandbox's first process is another one");
    if (!local_uid_of(s->record.child, &uid) ||
        uid != (s->p->host.root ? s->uid.uid : geteuid()))
        return bg_fail(err, BG_ERR_BINDING, 0, "the sandbox runs under another uid");
    local_cgroup_check(&s->group, &s->plan.limits, s->record.child, &lost);
    same = bg_strv_len(lost) == bg_strv_len(s->base.not_enforced);
    if (!same)
        bg_fail(err, BG_ERR_BINDING, 0, "the %s limit is not the one that was set",
                lost ? lost[0] : "");
    bg_strv_free(lost);
    return same;
}

void local_sandbox_inspect(struct bg_sandbox *sb, const struct bg_spec *spec,
                           bg_done_fn done, void *data)
{
    struct local_sandbox *s = (struct local_sandbox *)sb;
    struct answer *a = bg_xcalloc(1, sizeof *a);

    a->done = done;
    a->data = data;
    if (!binding_holds(s, spec, &a->err))
        bg_log(s->p->env.log, BG_LOG_WARN, "sandbox %s: %s", s->id, a->err.msg);
    bg_loop_defer(s->p->env.loop, give_answer, a);
}

/* Adds what the host knows better: kills for memory. */
struct local_exec {
    struct local_sandbox *s; /* valid as long as the exec: the channel ends before it */
    const struct bg_exec_events *ev;
    void *data;
    uint64_t oom_before;
    bool oom_known;
};

static void exec_started(void *data, struct bg_exec *x)
{
    struct local_exec *e = data;

    if (e->ev->started)
        e->ev->started(e->data, x);
}

static void exec_output(void *data, struct bg_exec *x, enum bg_stream st, const char *p,
                        size_t n)
{
    struct local_exec *e = data;

    if (e->ev->output)
        e->ev->output(e->data, x, st, p, n);
}

static void exec_gap(void *data, struct bg_exec *x, enum bg_stream st, uint64_t bytes)
{
    struct local_exec *e = data;

    if (e->ev->gap)
        e->ev->gap(e->data, x, st, bytes);
}

static void exec_done(void *data, struct bg_exec *x, const struct bg_exec_result *r,
                      const struct bg_error *err)
{
    struct local_exec e = *(struct local_exec *)data;
    struct bg_exec_result mine;
    uint64_t now;

    free(data);
    if (r) {
        mine = *r;
        if (e.oom_known && local_cgroup_oom(&e.s->group, &now))
            mine.oom = now > e.oom_before;
        r = &mine;
    }
    e.ev->done(e.data, x, r, err);
}

struct bg_exec *local_sandbox_exec(struct bg_sandbox *sb, const struct bg_exec_spec *x,
                                   const struct bg_exec_events *ev, void *data)
{
    static const struct bg_exec_events events = {
        .started = exec_started, .output = exec_output, .gap = exec_gap, .done = exec_done};
    struct local_sandbox *s = (struct local_sandbox *)sb;
    struct local_exec *e = bg_xmalloc(sizeof *e);

    *e = (struct local_exec){.s = s, .ev = ev, .data = data};
    e->oom_known = local_cgroup_oom(&s->group, &e->oom_before);
    return bg_exec_start(s->ch, x, &events, e);
}

struct stats_call {
    struct local_sandbox *s;
    void (*cb)(void *data, const struct bg_guest_stats *s, const struct bg_error *err);
    void *data;
};

static void on_stats(void *data, const struct bg_guest_stats *st,
                     const struct bg_error *err)
{
    struct stats_call c = *(struct stats_call *)data;
    struct bg_guest_stats mine;

    free(data);
    if (st) {
        mine = *st;
        /* Inside there is no /sys: the guest can only add up what it sees. */
        if (local_cgroup_memory(&c.s->group, &mine.mem_bytes) &&
            c.s->plan.limits.memory_mb != BG_UNLIMITED)
            mine.mem_limit = (uint64_t)c.s->plan.limits.memory_mb << 20;
        st = &mine;
    }
    c.cb(c.data, st, err);
}

void local_sandbox_stats(struct bg_sandbox *sb,
                         void (*cb)(void *data, const struct bg_guest_stats *s,
                                    const struct bg_error *err),
                         void *data)
{
    struct local_sandbox *s = (struct local_sandbox *)sb;
    struct stats_call *c = bg_xmalloc(sizeof *c);

    *c = (struct stats_call){.s = s, .cb = cb, .data = data};
    bg_channel_stats(s->ch, on_stats, c);
}

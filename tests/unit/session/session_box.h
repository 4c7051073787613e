/* SPDX-License-Identifier: MIT */
/* For tests with sessions on real sandboxes (local ones, or those of BOX_ENGINE): a
 * registry, what its events told, one call to run a script in a session to its end. */
#pragma once

#include <fcntl.h>

#include "core/session/session_int.h"
#ifdef BOX_ENGINE
#include "tests/engine/container_box.h"
#else
#define BOX_ENGINE "local"
#include "tests/unit/provider/local_box.h"
#endif

static struct box_env env;
static struct bg_sessions *all;

/* What the events told. */
static struct {
    size_t records, closed;
    char reason[32], ref[64];
    bool refuse; /* the next record fails */
} seen;

struct told {
    bg_done_fn done;
    void *data;
    bool refuse;
};

static inline void tell_recorded(void *data)
{
    struct told *t = data;
    struct bg_error err;

    bg_fail(&err, BG_ERR_AUDIT, 0, "the store is full");
    t->done(t->data, t->refuse ? &err : NULL);
    free(t);
}

static inline void on_record(void *data, struct bg_session *s, const char *ref,
                             bg_done_fn done, void *done_data)
{
    struct told *t = bg_xmalloc(sizeof *t);

    (void)data;
    assert_string_equal(bg_session_ref(s), ref);
    assert_int_equal(bg_session_state(s), BG_SESSION_CREATING);
    seen.records++;
    snprintf(seen.ref, sizeof seen.ref, "%s", ref);
    *t = (struct told){done, done_data, seen.refuse};
    bg_loop_defer(env.loop, tell_recorded, t);
}

static inline void on_closed(void *data, struct bg_session *s, const char *reason)
{
    (void)data;
    assert_int_equal(bg_session_state(s), BG_SESSION_CLOSED);
    seen.closed++;
    snprintf(seen.reason, sizeof seen.reason, "%s", reason);
}

static const struct bg_sessions_events events = {.closed = on_closed, .record = on_record};

static inline int set_up(void **state)
{
    const struct bg_provider_report *r;

    (void)state;
    box_open(&env);
    r = env.ops->report(env.provider);
    if (!r->available) {
        printf("%s: %s; %s\n", BOX_ENGINE, r->why_not, r->remedy);
        return -1;
    }
    all = bg_sessions_new(env.loop, env.ops, env.provider, &events, NULL);
    return 0;
}

static inline int tear_down(void **state)
{
    struct box_flag f = {0};

    (void)state;
    if (!all) /* the set-up has said why */
        return 0;
    bg_sessions_shutdown(all, box_done, &f);
    assert_true(box_wait(env.loop, &f.done));
    bg_sessions_free(all);
    assert_int_equal(box_traces(&env), 0);
    assert_int_equal(box_processes(&env), 0);
    box_close(&env);
    return 0;
}

static inline struct bg_spec *a_spec(void)
{
    struct bg_spec *s = box_spec(&env);
    struct bg_error err;

    assert_true(box_prepare(&env, s, &err));
    return s;
}

static inline struct bg_session *open_session(const char *id)
{
    struct bg_error err;
    struct bg_session *s = bg_session_open(all, id, NULL, 1000, a_spec(), false, &err);

    if (!s)
        printf("open: %s\n", err.msg);
    assert_non_null(s);
    return s;
}

static inline void close_session(struct bg_session *s)
{
    struct box_flag f = {0};

    bg_session_close(s, "close", box_done, &f);
    assert_false(f.done);
    assert_true(box_wait(env.loop, &f.done));
    assert_int_equal(f.err.code, BG_OK);
}

/* ---- one run ---- */

struct run {
    bool started, done, close_at_start;
    struct bg_run_result r; /* buffers are copies */
    struct bg_error err;
    struct bg_run *live;
};

static inline void on_started(void *data, struct bg_run *r)
{
    struct run *u = data;

    u->started = true;
    if (u->close_at_start)
        bg_session_close(bg_run_session(r), "close", NULL, NULL);
}

static inline void on_done(void *data, struct bg_run *r, const struct bg_run_result *res,
                           const struct bg_error *err)
{
    struct run *u = data;

    (void)r;
    assert_false(u->done);
    u->r = *res;
    bg_buf_init(&u->r.out, BG_INPUT_MAX + 16);
    bg_buf_init(&u->r.err, BG_INPUT_MAX + 16);
    bg_buf_put(&u->r.out, res->out.data, res->out.len);
    bg_buf_put(&u->r.err, res->err.data, res->err.len);
    u->err = err ? *err : (struct bg_error){0};
    u->live = NULL;
    u->done = true;
}

static const struct bg_run_events run_events = {.started = on_started, .done = on_done};

static inline void run_clear(struct run *u)
{
    bg_buf_free(&u->r.out);
    bg_buf_free(&u->r.err);
}

static inline void begin(struct bg_session *s, struct run *u,
                         const struct bg_run_spec *spec)
{
    bool close_at_start = u->close_at_start;

    *u = (struct run){.close_at_start = close_at_start};
    u->live = bg_session_run(s, spec, &run_events, u);
    assert_false(u->done); /* never from inside */
}

static inline struct bg_run_spec sh_spec(char *argv[4], const char *script)
{
    argv[0] = (char *)"sh";
    argv[1] = (char *)"-c";
    argv[2] = (char *)script;
    argv[3] = NULL;
    return (struct bg_run_spec){.argv = argv,
                                .timeout_ms = 15000,
                                .max_output_bytes = BG_MAX_OUTPUT_BYTES,
                                .flow = BG_FLOW_TAIL};
}

static inline void begin_sh(struct bg_session *s, struct run *u, const char *script,
                            int64_t timeout_ms)
{
    char *argv[4];
    struct bg_run_spec spec = sh_spec(argv, script);

    spec.timeout_ms = timeout_ms;
    begin(s, u, &spec);
}

static inline void sh(struct bg_session *s, struct run *u, const char *script)
{
    begin_sh(s, u, script, 15000);
    assert_true(box_wait(env.loop, &u->done));
    if (u->err.code != BG_OK)
        printf("%s: %s\n", script, u->err.msg);
}

static inline size_t live_sandboxes(void)
{
    return box_live(&env);
}

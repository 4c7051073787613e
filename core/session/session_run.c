/* SPDX-License-Identifier: MIT */
/*
 * One command in a session: wait for the sandbox, inspect it, start, collect the first
 * bytes of each stream, tell the end once. What stops it before or in the middle for a
 * reason that is not the program's own is an error, never an exit status.
 */
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/utf8.h"
#include "core/base/values.h"
#include "core/session/session_int.h"

enum { UTF8_LOOKAHEAD = 3, EXIT_ABORTED = 137, EXIT_TIMED_OUT = 124 };

static void free_run(struct bg_run *r)
{
    bg_timer_free(r->overdue);
    bg_strv_free(r->argv);
    bg_strv_free(r->env);
    free(r->cwd);
    free(r->input);
    bg_buf_free(&r->res.out);
    bg_buf_free(&r->res.err);
    free(r);
}

/* Cuts at the cap, between characters; up to three bytes past it were kept to see one. */
static bool cut(struct bg_buf *b, size_t cap, uint64_t produced)
{
    if (produced <= cap)
        return false;
    b->len = bg_utf8_prefix(b->data, b->len, cap);
    b->data[b->len] = '\0';
    return true;
}

/* The last word; r is gone after. */
static void finish(struct bg_run *r)
{
    struct bg_session *s = r->s;
    struct bg_run_result *res = &r->res;
    bool failed = r->err.code != BG_OK;

    for (struct bg_run **at = &s->runs; *at; at = &(*at)->next) {
        if (*at == r) {
            *at = r->next;
            break;
        }
    }
    res->out_truncated |= cut(&res->out, r->max_output, res->out_bytes);
    res->err_truncated |= cut(&res->err, r->max_output, res->err_bytes);
    if (!failed) {
        res->reset = s->reset;
        s->reset = false;
    }
    r->ev->done(r->data, r, res, failed ? &r->err : NULL);
    free_run(r);
    s->n_runs--; /* not before done(): it keeps s in being */
    s->runs_done++;
    session_touch(s);
    session_changed(s);
    if (s->once)
        bg_session_close(s, "close", NULL, NULL);
    session_settle(s);
}

static void finish_deferred(void *data)
{
    finish(data);
}

static void run_fail(struct bg_run *r, const struct bg_error *err)
{
    if (r->state == RUN_FINISHING)
        return;
    r->state = RUN_FINISHING;
    r->err = *err;
    bg_loop_defer(r->s->ss->loop, finish_deferred, r);
}

/* ---- the program's events ---- */

static void on_started(void *data, struct bg_exec *x)
{
    struct bg_run *r = data;

    (void)x;
    r->res.exec.started = true;
    if (r->ev->started)
        r->ev->started(r->data, r);
}

static void on_output(void *data, struct bg_exec *x, enum bg_stream st, const char *p,
                      size_t n)
{
    struct bg_run *r = data;
    bool out = st == BG_STDOUT;

    (void)x;
    bg_buf_add_some(out ? &r->res.out : &r->res.err, p, n);
    *(out ? &r->res.out_bytes : &r->res.err_bytes) += n;
    if (r->ev->output)
        r->ev->output(r->data, r, st, p, n);
}

static void on_gap(void *data, struct bg_exec *x, enum bg_stream st, uint64_t bytes)
{
    struct bg_run *r = data;
    bool out = st == BG_STDOUT;

    (void)x;
    *(out ? &r->res.out_bytes : &r->res.err_bytes) += bytes;
    *(out ? &r->res.out_truncated : &r->res.err_truncated) = true;
}

static void take_result(struct bg_run *r, const struct bg_exec_result *x)
{
    bool started = r->res.exec.started || x->started;

    r->res.exec = *x;
    r->res.exec.started = started;
    r->res.aborted = r->killed && x->killed;
    if (r->res.aborted)
        r->res.exec.exit_code = EXIT_ABORTED;
    else if (x->timed_out)
        r->res.exec.exit_code = EXIT_TIMED_OUT;
}

static void on_done(void *data, struct bg_exec *x, const struct bg_exec_result *res,
                    const struct bg_error *err)
{
    struct bg_run *r = data;

    (void)x;
    r->exec = NULL;
    r->state = RUN_FINISHING;
    if (res)
        take_result(r, res);
    if (session_ending(r->s))
        session_end_error(r->s, &r->err); /* whatever number it ended with */
    else if (err)
        r->err = *err;
    else if (r->res.exec.supervisor_lost)
        bg_fail(
            &r->err, BG_ERR_PROCESS, 0,
            "the command's supervisor was killed from inside the sandbox; nobody can say "
            "how the command ended");
    finish(r);
}

/* ---- starting ---- */

static void on_overdue(struct bg_timer *t, void *data)
{
    struct bg_run *r = data;
    struct bg_error err;

    (void)t;
    bg_fail(&err, BG_ERR_DESTROYED, 0,
            "the sandbox did not end the command at its deadline and was removed");
    session_lose(r->s, &err);
}

static void start(struct bg_run *r)
{
    static const struct bg_exec_events events = {
        .started = on_started, .output = on_output, .gap = on_gap, .done = on_done};
    struct bg_session *s = r->s;
    struct bg_exec_spec x = {
        .argv = r->argv,
        .env = r->env,
        .cwd = r->cwd,
        .root_len = strlen(s->spec->workdir),
        .input = r->input,
        .input_len = r->input_len,
        .deadline_ms = r->timeout_ms > UINT32_MAX ? 0 : (uint32_t)r->timeout_ms,
        .flow = r->flow,
        .uid = BG_SANDBOX_UID,
        .gid = BG_SANDBOX_UID,
    };
    unsigned uid, gid;

    if (sscanf(s->spec->user, "%u:%u", &uid, &gid) == 2) {
        x.uid = uid;
        x.gid = gid;
    }
    r->state = RUN_STARTED;
    s->fresh = false;
    s->used_wall_ms = bg_wall_ms();
    if (x.deadline_ms > 0) {
        r->overdue = bg_timer_new(s->ss->loop, on_overdue, r);
        bg_timer_start(r->overdue, r->timeout_ms + BG_GRACE_MS, 0);
    }
    r->exec = s->ss->ops->exec(s->sandbox, &x, &events, r);
    free(r->input); /* the provider has its copy */
    r->input = NULL;
    session_changed(s);
}

static void on_inspected(void *data, const struct bg_error *err)
{
    struct bg_run *r = data;
    struct bg_session *s = r->s;
    struct bg_error why;

    s->inspecting--;
    if (r->killed) {
        bg_fail(&why, BG_ERR_CANCELLED, 0, "cancelled before it started");
        run_fail(r, &why);
    } else if (session_ending(s)) {
        session_end_error(s, &why);
        run_fail(r, &why);
    } else if (err) {
        why = *err;
        run_fail(r, &why);
        if (why.code == BG_ERR_DESTROYED)
            session_lose(s, &why);
    } else {
        start(r);
    }
    session_settle(s);
}

static void add_env(struct bg_run *r)
{
    struct bg_session *s = r->s;
    const struct bg_provider_ops *ops = s->ss->ops;
    char *const *image = ops->base_env ? ops->base_env(s->sandbox) : NULL;
    char **base = session_base_env(s->spec->workdir);
    char **under = session_env(base, image, NULL);
    char **call = r->env;

    r->env = session_env(under, s->spec->env, call);
    bg_strv_free(base);
    bg_strv_free(under);
    bg_strv_free(call);
}

static void run_go(struct bg_run *r)
{
    r->state = RUN_INSPECTING;
    r->s->inspecting++;
    add_env(r);
    r->s->ss->ops->inspect(r->s->sandbox, r->s->spec, on_inspected, r);
}

void runs_go(struct bg_session *s)
{
    for (struct bg_run *r = s->runs; r; r = r->next)
        if (r->state == RUN_WAITING)
            run_go(r);
}

void runs_fail_waiting(struct bg_session *s, const struct bg_error *err)
{
    for (struct bg_run *r = s->runs; r; r = r->next)
        if (r->state == RUN_WAITING)
            run_fail(r, err);
}

static bool check(struct bg_run *r, const struct bg_run_spec *spec, struct bg_error *err)
{
    size_t n = bg_strv_len(spec->argv);

    if (n == 0 || spec->argv[0][0] == '\0')
        return bg_fail(err, BG_ERR_USAGE, 0, "no command given");
    if (n > BG_ARGS_MAX)
        return bg_fail(err, BG_ERR_LIMIT, 0, "more than %d arguments", BG_ARGS_MAX);
    for (size_t i = 0; i < n; i++)
        if (strlen(spec->argv[i]) > BG_ARG_BYTES_MAX)
            return bg_fail(err, BG_ERR_LIMIT, 0, "an argument is longer than %d bytes",
                           BG_ARG_BYTES_MAX);
    if (spec->input_len > BG_INPUT_MAX)
        return bg_fail(err, BG_ERR_LIMIT, 0, "the input is longer than %d bytes",
                       BG_INPUT_MAX);
    if (!session_env_check(spec->env, err))
        return false;
    r->cwd = session_cwd(r->s->spec->workdir, spec->cwd, err);
    return r->cwd != NULL;
}

static struct bg_run *new_run(struct bg_session *s, const struct bg_run_spec *spec)
{
    struct bg_run *r = bg_xcalloc(1, sizeof *r);
    int64_t cap = spec->max_output_bytes;

    r->s = s;
    r->flow = spec->flow;
    r->timeout_ms = spec->timeout_ms;
    r->max_output = cap < 0 || cap > BG_INPUT_MAX ? BG_INPUT_MAX : (size_t)cap;
    bg_buf_init(&r->res.out, r->max_output + UTF8_LOOKAHEAD);
    bg_buf_init(&r->res.err, r->max_output + UTF8_LOOKAHEAD);
    for (struct bg_run **at = &s->runs;; at = &(*at)->next) {
        if (!*at) {
            *at = r; /* at the end: first come, first started */
            break;
        }
    }
    s->n_runs++;
    bg_timer_stop(s->idle);
    return r;
}

struct bg_run *bg_session_run(struct bg_session *s, const struct bg_run_spec *spec,
                              const struct bg_run_events *ev, void *data)
{
    struct bg_run *r = new_run(s, spec);
    struct bg_error err;

    r->ev = ev;
    r->data = data;
    if (session_ending(s)) {
        session_end_error(s, &err);
        run_fail(r, &err);
        return r;
    }
    if (!check(r, spec, &err)) {
        run_fail(r, &err);
        return r;
    }
    r->argv = bg_strv_dup(spec->argv);
    r->env = spec->env ? bg_strv_dup(spec->env) : NULL;
    r->input = spec->input_len ? bg_xmemdup(spec->input, spec->input_len) : NULL;
    r->input_len = spec->input_len;
    if (s->state == BG_SESSION_LIVE)
        run_go(r);
    else if (s->state == BG_SESSION_OPEN)
        session_make(s);
    session_changed(s);
    return r;
}

void bg_run_consumed(struct bg_run *r, enum bg_stream s, size_t n)
{
    if (r->exec)
        bg_exec_consumed(r->exec, s, n);
}

struct bg_session *bg_run_session(const struct bg_run *r)
{
    return r->s;
}

void bg_run_kill(struct bg_run *r)
{
    struct bg_error err;

    r->killed = true;
    if (r->exec)
        bg_exec_kill(r->exec, 0);
    if (r->state == RUN_WAITING) {
        bg_fail(&err, BG_ERR_CANCELLED, 0, "cancelled before it started");
        run_fail(r, &err);
    }
}

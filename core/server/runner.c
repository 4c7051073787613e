/* SPDX-License-Identifier: MIT */
/*
 * What the approvals ask the server for: find or open the session and resolve its spec
 * (prepare), run the approved bytes in it (run), stop them (kill). Everything that runs is
 * taken from the request itself; nothing is looked up again between the decision and the
 * start.
 */
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/server/server_priv.h"

/* What the server hangs on a request. */
struct job {
    struct bg_server *srv;
    uint64_t request;
    struct bg_spec *spec; /* while it is being prepared for a session not yet open */
    char *open_id;        /* id asked for, or NULL */
    char *run_id;
    bool once;
    char *instance; /* of the session this request holds, or NULL */
    struct bg_run *run;
    struct out_pipe *pipe[2];
    int pipe_fd[2];
    uint64_t pipe_left[2]; /* bytes that may still pass, when not lossless */
    bool lossless;
};

static struct job *job_of(struct bg_request *r, struct bg_server *s)
{
    struct job *j = bg_request_user(r);
    if (j)
        return j;
    j = bg_xcalloc(1, sizeof *j);
    j->srv = s;
    j->request = bg_request_id(r);
    j->pipe_fd[0] = j->pipe_fd[1] = -1;
    bg_request_set_user(r, j);
    return j;
}

void runner_set_origin(struct bg_request *r, struct bg_server *s, const char *run_id,
                       int out, int err)
{
    struct job *j = job_of(r, s);
    j->run_id = bg_xstrdup(run_id);
    j->pipe_fd[0] = out;
    j->pipe_fd[1] = err;
}

/* The job's request, or NULL once it is final: then a callback that still holds the job is
 * the last one to see it and frees it. */
static struct bg_request *request_of(const struct job *j)
{
    struct bg_server *s = j->srv;
    struct bg_request *r = s->approvals ? bg_approvals_get(s->approvals, j->request) : NULL;
    return r && bg_request_user(r) == j ? r : NULL;
}

static void close_pipes(struct job *j)
{
    for (int i = 0; i < 2; i++) {
        if (j->pipe[i])
            out_pipe_finish(j->pipe[i]);
        else if (j->pipe_fd[i] >= 0)
            close(j->pipe_fd[i]);
        j->pipe[i] = NULL;
        j->pipe_fd[i] = -1;
    }
}

/* ---- prepare ---- */

static bool own(const struct bg_session *ses, const struct bg_request *r,
                const char *run_id)
{
    if (bg_session_owner(ses) != bg_request_actor(r)->uid)
        return false;
    const char *theirs = bg_session_run_id(ses);
    return !run_id || (theirs && !strcmp(theirs, run_id));
}

static const char *principal(const struct bg_request *r, char out[32])
{
    snprintf(out, 32, "uid:%u", bg_request_actor(r)->uid);
    return out;
}

static bool root_user(const struct bg_spec *sp)
{
    return sp->user && (!strcmp(sp->user, "root") || !strcmp(sp->user, "0") ||
                        !strncmp(sp->user, "0:", 2));
}

static bool caps_none(const struct bg_spec *sp)
{
    for (char **c = sp->drop_capabilities; c && *c; c++)
        if (!strcmp(*c, "ALL"))
            return true;
    return false;
}

static bool unlimited(const struct bg_limits *l)
{
    return l->memory_mb == BG_UNLIMITED || l->cpus_milli == BG_UNLIMITED ||
           l->pids == BG_UNLIMITED || l->max_timeout_ms == BG_UNLIMITED ||
           l->timeout_ms == BG_UNLIMITED || l->run_timeout_ms == BG_UNLIMITED ||
           l->max_output_bytes == BG_UNLIMITED;
}

static int64_t effective_timeout(const struct bg_body *b, const struct bg_limits *l)
{
    int64_t t = b->timeout_ms                ? b->timeout_ms
                : b->kind == BG_REQ_RUN_CODE ? l->run_timeout_ms
                                             : l->timeout_ms;
    return t < l->max_timeout_ms ? t : l->max_timeout_ms;
}

static void fill_facts(struct bg_facts *f, const struct bg_request *r,
                       const struct bg_session *ses)
{
    const struct bg_spec *sp = bg_session_spec(ses);
    const struct bg_body *b = bg_request_body(r);
    f->kind = bg_request_kind_name(b->kind);
    f->language = b->language;
    f->cwd = b->cwd;
    f->timeout_ms = effective_timeout(b, &sp->limits);
    f->provider = sp->provider;
    f->image_id = sp->image_id;
    f->network = sp->network;
    f->mounts_any = sp->n_mounts > 0;
    for (size_t i = 0; i < sp->n_mounts; i++)
        f->mounts_rw |= !sp->mounts[i].read_only;
    f->caps_none = caps_none(sp);
    f->no_new_privileges = sp->no_new_privileges;
    f->unlimited = unlimited(&sp->limits);
    f->fresh = bg_session_fresh(ses);
    f->changed_outside = bg_session_changed_outside(ses);
    f->memory_mb = sp->limits.memory_mb;
    f->pids = sp->limits.pids;
    f->cpus_milli = sp->limits.cpus_milli;
    f->now_wall_ms = bg_wall_ms();
}

static void fail_request(struct bg_request *r, enum bg_errc code, const char *text)
{
    struct bg_error err = {0};
    bg_fail(&err, code, 0, "%s", text);
    bg_request_prepared(r, NULL, &err);
}

/* A language needs a row in the config, and its interpreter where that can be known now. */
static char **code_argv(struct bg_server *s, const struct bg_session *ses,
                        const struct bg_body *b, struct bg_error *err)
{
    const struct bg_language *l = bg_config_language(s->config, b->language);
    const struct bg_spec *sp = bg_session_spec(ses);
    if (!l) {
        bg_fail(err, BG_ERR_LANGUAGE, 0, "no language \"%s\"; see: boxgate config show",
                b->language);
        return NULL;
    }
    if (s->ops->has_program && s->ops->has_program(s->provider, sp, l->argv[0]) == 0) {
        bg_fail(err, BG_ERR_LANGUAGE, 0, "%s: the image %s has no %s", b->language,
                sp->image, l->argv[0]);
        return NULL;
    }
    return bg_strv_dup(l->argv);
}

/* The session exists: bind the request to it. */
static void bind_session(struct job *j, struct bg_request *r, struct bg_session *ses)
{
    const struct bg_body *b = bg_request_body(r);
    const struct bg_spec *sp = bg_session_spec(ses);
    struct bg_error err = {0};
    struct bg_prepared p = {0};
    char who[32];
    /* Held from here on: a request that fails below lets go of it like any other. */
    bg_session_hold(ses);
    j->instance = bg_xstrdup(bg_session_instance(ses));
    p.bind.argv =
        b->kind == BG_REQ_RUN_CODE ? code_argv(j->srv, ses, b, &err) : bg_strv_dup(b->argv);
    if (!p.bind.argv) {
        bg_request_prepared(r, NULL, &err);
        return;
    }
    if (!server_project_policy(bg_request_actor(r), &p.project, &err)) {
        bg_strv_free(p.bind.argv);
        bg_request_prepared(r, NULL, &err);
        return;
    }
    p.bind.uid = bg_request_actor(r)->uid;
    snprintf(p.bind.instance, sizeof p.bind.instance, "%s", bg_session_instance(ses));
    p.bind.spec = bg_spec_sha256(sp);
    p.bind.workdir = sp->workdir;
    fill_facts(&p.facts, r, ses);
    p.facts.principal = principal(r, who);
    p.bind.timeout_ms = p.facts.timeout_ms;
    p.spec_env = sp->env;
    p.root_user = root_user(sp);
    p.may_merge = j->pipe_fd[0] < 0;
    p.spec_json = bg_spec_json(sp, false);
    p.session_id = (char *)bg_session_id(ses);
    bg_request_prepared(r, &p, NULL);
    bg_strv_free(p.bind.argv);
}

static void on_prepared(void *data, const struct bg_error *err)
{
    struct job *j = data;
    struct bg_server *s = j->srv;
    struct bg_request *r = request_of(j);
    struct bg_spec *spec = bg_steal(j->spec);
    struct bg_error e = {0};
    if (!r) {
        bg_spec_free(spec);
        free(j);
        return;
    }
    if (err) {
        bg_spec_free(spec);
        bg_request_prepared(r, NULL, err);
        return;
    }
    /* Another request may have opened the session meanwhile: one session, not two. */
    struct bg_session *ses =
        j->open_id  ? bg_session_find(s->sessions, j->open_id)
        : j->run_id ? bg_session_find_run(s->sessions, bg_request_actor(r)->uid, j->run_id)
                    : NULL;
    if (ses && !own(ses, r, j->run_id)) {
        bg_spec_free(spec);
        fail_request(r, BG_ERR_NOT_FOUND, "no such session of yours");
        return;
    }
    if (ses)
        bg_spec_free(spec);
    else
        ses = bg_session_open(s->sessions, j->open_id, j->run_id, bg_request_actor(r)->uid,
                              spec, j->once, &e);
    if (!ses)
        bg_request_prepared(r, NULL, &e);
    else
        bind_session(j, r, ses);
}

static void on_progress(void *data, const char *text, int64_t done, int64_t total)
{
    struct job *j = data;
    cJSON *row = bg_jo();
    bg_jset_int(row, "id", (int64_t)j->request);
    bg_jset_str(row, "text", text);
    bg_jset_int(row, "done", done);
    bg_jset_int(row, "total", total);
    event_emit(j->srv, TOPIC_APPROVAL, "progress", row);
}

static void open_session(struct job *j, struct bg_request *r, const char *profile)
{
    struct bg_server *s = j->srv;
    struct bg_error err = {0};
    const char *name = profile ? profile : s->config->profile;
    const struct bg_profile *p = bg_config_profile(s->config, name);
    if (!p || !p->agents) {
        bg_fail(&err, BG_ERR_NOT_FOUND, 0,
                p ? "profile \"%s\" is not open to agents"
                  : "no profile \"%s\"; see: boxgate config show",
                name);
        bg_request_prepared(r, NULL, &err);
        return;
    }
    j->spec = bg_spec_from_profile(p, s->paths, s->config->engine.endpoint, &err);
    if (!j->spec) {
        bg_request_prepared(r, NULL, &err);
        return;
    }
    s->ops->prepare(s->provider, j->spec, on_progress, on_prepared, j);
}

static void prepare(void *data, struct bg_request *r)
{
    struct bg_server *s = data;
    struct job *j = job_of(r, s);
    const struct bg_body *b = bg_request_body(r);
    const char *run_id = j->run_id;
    struct bg_session *ses = NULL;
    struct bg_error err = {0};
    if (!s->provider_known)
        return; /* runner_provider_known comes back to it */
    if (!s->provider_ready) {
        const char *why = s->ops->report(s->provider)->why_not;
        bg_fail(&err, BG_ERR_UNAVAILABLE, 0, "%s; see: boxgate doctor",
                why ? why : "the provider is not available");
        bg_request_prepared(r, NULL, &err);
        return;
    }
    if (b->session)
        ses = bg_session_find(s->sessions, b->session);
    else if (run_id)
        ses = bg_session_find_run(s->sessions, bg_request_actor(r)->uid, run_id);
    if (ses) {
        if (!own(ses, r, run_id))
            fail_request(r, BG_ERR_NOT_FOUND, "no such session of yours");
        else if (bg_session_state(ses) >= BG_SESSION_LOST)
            fail_request(r, BG_ERR_DESTROYED, "the session is closed or lost");
        else
            bind_session(j, r, ses);
        return;
    }
    /* Only `boxgate run --session ID` opens an unknown id (contract.md 1). */
    if (b->session && (b->kind != BG_REQ_RUN_CODE || run_id)) {
        bg_fail(&err, BG_ERR_NOT_FOUND, 0,
                "no session \"%s\"; open it first: boxgate session create --id %s",
                b->session, b->session);
        bg_request_prepared(r, NULL, &err);
        return;
    }
    j->open_id = bg_xstrdup(b->session);
    j->once = !b->session && !run_id;
    open_session(j, r, b->profile);
}

void runner_provider_known(struct bg_server *s)
{
    for (struct bg_request *r = bg_approvals_next(s->approvals, NULL), *next; r; r = next) {
        next = bg_approvals_next(s->approvals, r);
        const struct job *j = bg_request_user(r);
        if (bg_request_state(r) == BG_RS_PREPARING && j && !j->spec)
            prepare(s, r);
    }
}

/* ---- run ---- */

static void took_out(void *data, size_t n)
{
    struct job *j = data;
    if (j->run && j->lossless)
        bg_run_consumed(j->run, BG_STDOUT, n);
}

static void took_err(void *data, size_t n)
{
    struct job *j = data;
    if (j->run && j->lossless)
        bg_run_consumed(j->run, BG_STDERR, n);
}

static void on_started(void *data, struct bg_run *run BG_UNUSED)
{
    struct job *j = data;
    struct bg_request *r = request_of(j);
    if (r)
        bg_request_started(r);
}

static void on_output(void *data, struct bg_run *run BG_UNUSED, enum bg_stream st,
                      const char *p, size_t n)
{
    struct job *j = data;
    struct out_pipe *op = j->pipe[st == BG_STDERR];
    uint64_t *left = &j->pipe_left[st == BG_STDERR];
    if (!j->lossless) {
        n = n < *left ? n : (size_t)*left;
        *left -= n;
    }
    if (op && n)
        out_pipe_write(op, p, n);
}

static void set_stream(cJSON *o, const char *key, const struct bg_buf *b)
{
    bg_jset_bytes(o, key, b->data ? b->data : "", b->len);
}

static cJSON *result_json(const struct bg_run_result *res, bool infra)
{
    cJSON *o = bg_jo();
    const struct bg_exec_result *x = &res->exec;
    bg_jset_bool(o, "started", x->started);
    set_stream(o, "stdout", &res->out);
    set_stream(o, "stderr", &res->err);
    if (infra)
        bg_jset(o, "exitCode", cJSON_CreateNull());
    else
        bg_jset_int(o, "exitCode", x->exit_code);
    bg_jset_int(o, "signal", x->signal);
    bg_jset_int(o, "durationMs", x->duration_ms);
    bg_jset_bool(o, "timedOut", x->timed_out);
    bg_jset_bool(o, "aborted", res->aborted);
    bg_jset_bool(o, "oom", x->oom);
    bg_jset_int(o, "leftover", x->leftover);
    bg_jset_bool(o, "reset", res->reset);
    bg_jset_bool(o, "stdoutTruncated", res->out_truncated);
    bg_jset_bool(o, "stderrTruncated", res->err_truncated);
    bg_jset_int(o, "stdoutBytes", (int64_t)res->out_bytes);
    bg_jset_int(o, "stderrBytes", (int64_t)res->err_bytes);
    bg_jset_bool(o, "untrusted", true);
    return o;
}

/* What the audit keeps of a run: how it ended, never what it printed. */
static cJSON *summary_json(const cJSON *result)
{
    cJSON *s = cJSON_Duplicate(result, true);
    cJSON_DeleteItemFromObjectCaseSensitive(s, "stdout");
    cJSON_DeleteItemFromObjectCaseSensitive(s, "stderr");
    cJSON_DeleteItemFromObjectCaseSensitive(s, "untrusted");
    return s;
}

static enum bg_request_state final_state(const struct bg_run_result *res,
                                         const struct bg_error *err)
{
    if (err && (res->exec.started || err->code == BG_ERR_DESTROYED))
        return BG_RS_LOST;
    if (err)
        return BG_RS_FAILED;
    if (res->exec.timed_out)
        return BG_RS_TIMED_OUT;
    if (res->aborted || res->exec.killed)
        return BG_RS_KILLED;
    return BG_RS_DONE;
}

static void on_done(void *data, struct bg_run *run BG_UNUSED,
                    const struct bg_run_result *res, const struct bg_error *err)
{
    struct job *j = data;
    struct bg_request *r = request_of(j);
    j->run = NULL;
    close_pipes(j);
    if (!r) {
        free(j);
        return;
    }
    cJSON *result = result_json(res, err != NULL);
    if (err)
        bg_jset_str(result, "error", bg_errc_name(err->code));
    bg_request_finished(r, final_state(res, err), err ? err->msg : NULL, result,
                        summary_json(result));
}

static const struct bg_run_events run_events = {on_started, on_output, on_done};

static void open_pipes(struct job *j, size_t cap)
{
    for (int i = 0; i < 2; i++)
        if (j->pipe_fd[i] >= 0)
            j->pipe[i] = out_pipe_new(j->srv->loop, bg_steal_fd(&j->pipe_fd[i]), cap,
                                      i ? took_err : took_out, j);
}

static void run(void *data, struct bg_request *r)
{
    struct bg_server *s = data;
    struct job *j = job_of(r, s);
    const struct bg_body *b = bg_request_body(r);
    const struct bg_binding *bind = bg_request_binding(r);
    struct bg_session *ses = bg_session_find_instance(s->sessions, bind->instance);
    if (!ses || bg_session_state(ses) >= BG_SESSION_LOST) {
        bg_request_finished(r, BG_RS_LOST, "the session is gone", NULL, NULL);
        return;
    }
    struct bg_sha256 now = bg_spec_sha256(bg_session_spec(ses));
    if (!bg_sha256_eq(&now, &bind->spec)) {
        bg_request_finished(r, BG_RS_FAILED,
                            "binding_changed: the sandbox is not the one that was approved",
                            NULL, NULL);
        return;
    }
    int64_t cap = bg_session_spec(ses)->limits.max_output_bytes;
    bool pipes = j->pipe_fd[0] >= 0;
    j->lossless = pipes && b->kind == BG_REQ_EXEC;
    j->pipe_left[0] = j->pipe_left[1] = (uint64_t)cap;
    open_pipes(j, j->lossless ? 0 : cap == BG_UNLIMITED ? BG_STREAM_CREDIT : (size_t)cap);
    struct bg_run_spec spec = {
        .argv = bind->argv,
        .env = b->env,
        .cwd = b->cwd,
        .input = b->kind == BG_REQ_RUN_CODE ? b->code : b->input,
        .input_len = b->kind == BG_REQ_RUN_CODE ? b->code_len : b->input_len,
        .timeout_ms = bind->timeout_ms,
        .max_output_bytes = j->lossless ? 0 : cap,
        .flow = j->lossless ? BG_FLOW_LOSSLESS : BG_FLOW_TAIL,
    };
    j->run = bg_session_run(ses, &spec, &run_events, j);
}

static void kill_run(void *data BG_UNUSED, struct bg_request *r)
{
    struct job *j = bg_request_user(r);
    if (j && j->run)
        bg_run_kill(j->run);
}

/* ---- telling ---- */

cJSON *runner_request_json(struct bg_server *s, struct bg_request *r, bool full)
{
    cJSON *o = bg_request_json(r, full);
    const struct bg_binding *bind = bg_request_binding(r);
    const struct bg_session *ses =
        bind && *bind->instance ? bg_session_find_instance(s->sessions, bind->instance)
                                : NULL;
    if (!full || !ses)
        return o;
    bg_autojson cJSON *row = bg_session_json(ses);
    /* As they are now; the request's own are of the moment it was prepared. */
    static const char *const take[] = {"changedOutside", "notEnforced"};
    for (size_t i = 0; i < bg_countof(take); i++) {
        cJSON_DeleteItemFromObjectCaseSensitive(o, take[i]);
        bg_jset(o, take[i], cJSON_DetachItemFromObjectCaseSensitive(row, take[i]));
    }
    return o;
}

static void changed(void *data, struct bg_request *r)
{
    struct bg_server *s = data;
    server_touch(s);
    event_emit(s, TOPIC_APPROVAL, "changed", runner_request_json(s, r, false));
    waiters_changed(s, r);
}

static void final(void *data, struct bg_request *r)
{
    struct bg_server *s = data;
    struct job *j = bg_request_user(r);
    server_touch(s);
    event_emit(s, TOPIC_APPROVAL, "final", runner_request_json(s, r, false));
    waiters_final(s, r);
    if (!j)
        return;
    close_pipes(j);
    struct bg_session *ses =
        j->instance ? bg_session_find_instance(s->sessions, j->instance) : NULL;
    if (ses) {
        bool once = bg_session_once(ses);
        bg_session_release(ses);
        if (once)
            bg_session_close(ses, "close", NULL, NULL);
    }
    free(bg_steal(j->instance));
    free(bg_steal(j->open_id));
    free(bg_steal(j->run_id));
    bg_request_set_user(r, NULL);
    /* While the provider still resolves the spec (or the run still reports), its callback
     * has j. A pull may take long: it ends with the request. */
    if (j->spec && s->ops->cancel_prepare)
        s->ops->cancel_prepare(s->provider, j);
    else if (!j->spec && !j->run)
        free(j);
}

const struct bg_approvals_events runner_events = {prepare, run, kill_run, changed, final};

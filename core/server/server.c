/* SPDX-License-Identifier: MIT */
/*
 * Start, recovery, stop. Order matters: the instance lock before anything is touched, the
 * audit and what it says of the last server before a socket exists, sockets last; and
 * backwards at the end.
 */
#include "core/server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/server/server_priv.h"

/* ---- what sessions tell ---- */

static void session_changed(void *data, struct bg_session *ses)
{
    event_emit(data, TOPIC_SESSION, "changed", bg_session_json(ses));
}

static void session_opened(void *data, struct bg_session *ses)
{
    struct bg_server *s = data;
    struct bg_audit_batch *b = bg_audit_batch_new(s->audit);
    cJSON *m = bg_jo();
    bg_jset_str(m, "session", bg_session_id(ses));
    bg_jset_str(m, "instance", bg_session_instance(ses));
    bg_jset_int(m, "owner", bg_session_owner(ses));
    bg_jset_str(m, "runId", bg_session_run_id(ses));
    bg_jset_str(m, "profile", bg_session_spec(ses)->profile);
    bg_audit_add(b, BG_AUDIT_SESSION_OPEN, 0, NULL, m);
    bg_audit_commit(b, NULL, NULL);
}

static void session_closed(void *data, struct bg_session *ses, const char *reason)
{
    struct bg_server *s = data;
    struct bg_audit_batch *b = bg_audit_batch_new(s->audit);
    cJSON *m = bg_jo(), *row = bg_session_json(ses);
    bg_jset_str(m, "session", bg_session_id(ses));
    bg_jset_str(m, "instance", bg_session_instance(ses));
    bg_jset_str(m, "reason", reason);
    bg_audit_add(b, BG_AUDIT_SESSION_CLOSED, 0, NULL, m);
    const char *ref = bg_session_ref(ses);
    if (ref)
        bg_audit_drop_sandbox(b, ref);
    bg_audit_commit(b, NULL, NULL);
    bg_jset_str(row, "state", "closed");
    bg_jset_str(row, "reason", reason);
    event_emit(s, TOPIC_SESSION, "closed", row);
    server_touch(s);
}

static void session_record(void *data, struct bg_session *ses, const char *ref,
                           bg_done_fn done, void *done_data)
{
    struct bg_server *s = data;
    struct bg_audit_batch *b = bg_audit_batch_new(s->audit);
    cJSON *m = bg_jo();
    bg_jset_str(m, "session", bg_session_id(ses));
    bg_jset_str(m, "instance", bg_session_instance(ses));
    bg_jset_str(m, "ref", ref);
    bg_jset(m, "spec", bg_spec_json(bg_session_spec(ses), false));
    bg_audit_add(b, BG_AUDIT_SANDBOX_CREATE, 0, NULL, m);
    bg_audit_add_sandbox(b, ref, bg_session_spec(ses)->provider, bg_session_id(ses));
    bg_audit_commit(b, done, done_data);
}

static const struct bg_sessions_events session_events = {
    .changed = session_changed,
    .opened = session_opened,
    .closed = session_closed,
    .record = session_record,
};

/* ---- idle end and stop ---- */

bool server_busy(const struct bg_server *s)
{
    for (struct bg_request *r = NULL; (r = bg_approvals_next(s->approvals, r));)
        if (!bg_request_state_final(bg_request_state(r)))
            return true;
    return false;
}

static void on_idle(struct bg_timer *t BG_UNUSED, void *data)
{
    struct bg_server *s = data;
    if (s->conns || bg_sessions_count(s->sessions) || server_busy(s))
        return; /* server_touch starts the clock again when the last of them goes */
    bg_log(s->log, BG_LOG_INFO, "nothing to do for %d s, ending",
           BG_AUTOSTART_EXIT_MS / 1000);
    server_stop(s);
}

void server_touch(struct bg_server *s)
{
    if (s->opts.autostarted && s->idle_timer && !s->stopping)
        bg_timer_start(s->idle_timer, BG_AUTOSTART_EXIT_MS, 0);
}

static void sessions_gone(void *data, const struct bg_error *err BG_UNUSED)
{
    struct bg_server *s = data;
    bg_loop_stop(s->loop);
}

static void stop_turn(void *data)
{
    struct bg_server *s = data;
    bg_sessions_shutdown(s->sessions, sessions_gone, s);
}

void server_stop(struct bg_server *s)
{
    if (s->stopping)
        return;
    s->stopping = true;
    bg_log(s->log, BG_LOG_INFO, "stopping");
    for (int i = 0; i < 2; i++) {
        bg_poll_free(s->listen[i].poll);
        s->listen[i].poll = NULL;
        if (s->listen[i].fd >= 0)
            close(s->listen[i].fd);
        s->listen[i].fd = -1;
    }
    unlink(s->paths->agent_sock);
    unlink(s->paths->operator_sock);
    event_emit(s, TOPIC_SERVER, "stopping", NULL);
    bg_loop_defer(s->loop, stop_turn, s);
}

static void on_signal(int signo, void *data)
{
    struct bg_server *s = data;
    bg_log(s->log, BG_LOG_INFO, "signal %d", signo);
    server_stop(s);
}

/* ---- listening ---- */

static void on_accept(struct bg_poll *p BG_UNUSED, int fd, unsigned ev BG_UNUSED,
                      void *data)
{
    struct bg_server *s = data;
    int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (c >= 0)
        conn_accept(s, c, fd == s->listen[1].fd);
}

static bool listen_both(struct bg_server *s, struct bg_error *err)
{
    const char *const paths[2] = {s->paths->agent_sock, s->paths->operator_sock};
    for (int i = 0; i < 2; i++) {
        s->listen[i].fd = bg_unix_listen(paths[i], 0600, err);
        if (s->listen[i].fd < 0)
            return false;
        s->listen[i].poll = bg_poll_new(s->loop, s->listen[i].fd, on_accept, s);
        bg_poll_set(s->listen[i].poll, BG_READ);
    }
    return true;
}

/* ---- start ---- */

/* The holder wrote its runtime folder into the lock: who looks into another one (another
 * XDG_RUNTIME_DIR or TMPDIR than at the start) has to be told where the server is. */
static bool lock_held(struct bg_server *s, struct bg_error *err)
{
    char where[PATH_MAX] = "";
    ssize_t n = pread(s->lock_fd, where, sizeof where - 1, 0);
    bool elsewhere = n > 0 && strcmp(where, s->paths->runtime) != 0;
    return bg_fail(
        err, BG_ERR_CONFLICT, 0, "another server already serves %s%s%s%s", s->paths->state,
        elsewhere ? "; its sockets are in " : "; see: boxgate server status",
        elsewhere ? where : "",
        elsewhere ? ": use the XDG_RUNTIME_DIR or TMPDIR it was started with" : "");
}

/* One server per state folder; the lock lives as long as the process. */
static bool take_lock(struct bg_server *s, struct bg_error *err)
{
    bg_autofree char *path = bg_path_join(s->paths->state, "instance.lock");
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0)
        return bg_fail(err, BG_ERR_IO, errno, "open %s", path);
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB))
        return lock_held(s, err);
    /* Only a help for people: a full disk is no reason not to start. */
    if (ftruncate(s->lock_fd, 0) ||
        pwrite(s->lock_fd, s->paths->runtime, strlen(s->paths->runtime), 0) < 0)
        bg_log(s->log, BG_LOG_WARN, "cannot write %s", path);
    return true;
}

/* The state folder's own id, made once: what labels and sweeps are bound to. */
static bool read_instance(struct bg_server *s, struct bg_error *err)
{
    bg_autofree char *path = bg_path_join(s->paths->state, "instance");
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, 64);
    struct bg_error e = {0};
    if (bg_read_file(path, 64, true, &b, &e) && b.len >= 32) {
        memcpy(s->instance, b.data, 32);
        if (strspn(s->instance, "0123456789abcdef") == 32)
            return true;
        return bg_fail(
            err, BG_ERR_CONFIG, 0,
            "%s does not hold an instance id; remove it if no sandbox of it is left", path);
    }
    if (e.code != BG_ERR_NOT_FOUND && e.code != BG_OK) {
        if (err)
            *err = e;
        return false;
    }
    bg_random_hex(s->instance, 16);
    return bg_write_file_atomic(path, s->instance, 32, 0600, err);
}

static bool load_files(struct bg_server *s, struct bg_error *err)
{
    s->config = bg_config_load(s->paths->config_file, err);
    if (!s->config)
        return false;
    s->ops = bg_provider_ops_for(s->config->provider);
    if (!s->ops)
        return bg_fail(err, BG_ERR_CONFIG, 0,
                       "no provider chosen; run: boxgate init --provider local");
    server_first_policy(s);
    s->guest_path = bg_guest_find(err);
    return s->guest_path != NULL;
}

static void recovered_request(void *data, const struct bg_audit_open_request *r)
{
    struct bg_server *s = data;
    bg_approvals_recover(s->approvals, r);
}

static void recovered_sandbox(void *data, const char *ref, const char *provider,
                              const char *info)
{
    struct bg_server *s = data;
    bg_log(s->log, BG_LOG_INFO, "a sandbox was left by an earlier server: %s %s", provider,
           info);
    bg_strv_push(&s->left_refs, ref);
}

static void recovered_uses(void *data, const char *rule, int64_t used)
{
    struct bg_server *s = data;
    bg_approvals_uses(s->approvals, rule, used);
}

/* What the last server left is gone; its records may go too. */
static void on_swept(void *data, char *const *names, const struct bg_error *err)
{
    struct bg_server *s = data;
    for (; names && *names; names++)
        bg_log(s->log, BG_LOG_INFO, "removed what an earlier server left: %s", *names);
    if (err) {
        bg_log(s->log, BG_LOG_WARN, "sweep: %s", err->msg);
        return; /* the records stay for the next try */
    }
    struct bg_audit_batch *b = bg_audit_batch_new(s->audit);
    for (char **ref = s->left_refs; ref && *ref; ref++) {
        cJSON *m = bg_jo();
        bg_jset_str(m, "ref", *ref);
        bg_jset_str(m, "reason", "left by an earlier server");
        bg_audit_add(b, BG_AUDIT_SANDBOX_GONE, 0, NULL, m);
        bg_audit_drop_sandbox(b, *ref);
    }
    bg_audit_commit(b, NULL, NULL);
    bg_strv_free(s->left_refs);
    s->left_refs = NULL;
}

static void on_provider(void *data, const struct bg_provider_report *r)
{
    struct bg_server *s = data;
    s->provider_known = true;
    s->provider_ready = r->available;
    runner_provider_known(s);
    methods_provider_known(s);
    event_emit(s, TOPIC_SERVER, "provider", server_provider(s));
    if (!r->available) {
        bg_log(s->log, BG_LOG_ERROR, "provider %s is not available: %s", s->ops->kind,
               r->why_not ? r->why_not : "?");
        return;
    }
    bg_log(s->log, BG_LOG_INFO, "provider %s ready",
           r->version ? r->version : s->ops->kind);
    s->ops->sweep(s->provider, false, false, on_swept, s);
}

static void audit_server(struct bg_server *s, enum bg_audit_event e)
{
    struct bg_audit_batch *b = bg_audit_batch_new(s->audit);
    cJSON *m = bg_jo();
    bg_jset_str(m, "version", BG_VERSION);
    bg_jset_int(m, "pid", getpid());
    bg_jset_str(m, "instance", s->instance);
    bg_audit_add(b, e, 0, NULL, m);
    bg_audit_commit(b, NULL, NULL);
}

static bool open_all(struct bg_server *s, struct bg_error *err)
{
    static const struct bg_audit_recovery rec = {
        .request = recovered_request, .sandbox = recovered_sandbox, .uses = recovered_uses};
    static const int signals[3] = {SIGTERM, SIGINT, SIGHUP};
    if (!take_lock(s, err) || !read_instance(s, err) || !load_files(s, err))
        return false;
    s->audit = bg_audit_open(s->loop, s->paths->state, s->log, err);
    if (!s->audit)
        return false;
    s->approvals =
        bg_approvals_new(s->loop, s->config, s->audit, s->log, &runner_events, s);
    bg_approvals_set_policy(s->approvals, s->policy);
    if (!bg_audit_recover(s->audit, &rec, s, err))
        return false;
    bg_audit_prune_blobs(s->audit, bg_wall_ms() - s->config->blob_days * INT64_C(86400000));
    struct bg_provider_env env = {
        .loop = s->loop,
        .config = s->config,
        .paths = s->paths,
        .log = s->log,
        .guest_path = s->guest_path,
        .instance = s->instance,
    };
    s->provider = s->ops->open(&env, on_provider, s);
    s->sessions = bg_sessions_new(s->loop, s->ops, s->provider, &session_events, s);
    for (size_t i = 0; i < 3; i++)
        s->sigs[i] = bg_signal_new(s->loop, signals[i], on_signal, s);
    s->idle_timer = bg_timer_new(s->loop, on_idle, s);
    audit_server(s, BG_AUDIT_SERVER_START);
    return listen_both(s, err);
}

static void close_all(struct bg_server *s)
{
    methods_stop(s);
    conn_closed_all(s);
    bg_approvals_free(s->approvals);
    s->approvals = NULL;
    if (s->sessions)
        bg_sessions_free(s->sessions);
    if (s->provider)
        s->ops->close(s->provider);
    if (s->audit) {
        audit_server(s, BG_AUDIT_SERVER_STOP);
        bg_audit_close(s->audit);
    }
    for (size_t i = 0; i < 3; i++)
        bg_signal_free(s->sigs[i]);
    bg_timer_free(s->idle_timer);
    for (int i = 0; i < 2; i++) {
        bg_poll_free(s->listen[i].poll);
        if (s->listen[i].fd >= 0)
            close(s->listen[i].fd);
    }
    event_ring_free(s->ring);
    bg_strv_free(s->left_refs);
    bg_policy_free(s->policy);
    bg_config_free(s->config);
    free(s->guest_path);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
}

static void say_ready(struct bg_server *s, const struct bg_error *err)
{
    bg_autofree char *line =
        err ? bg_xasprintf("%s: %s\n", bg_errc_name(err->code), err->msg)
            : bg_xstrdup("ok\n");
    if (s->opts.ready_fd >= 0) {
        if (write(s->opts.ready_fd, line, strlen(line)) < 0)
            bg_log(s->log, BG_LOG_WARN, "whoever started this server is gone");
        close(s->opts.ready_fd);
        s->opts.ready_fd = -1;
    } else if (err) {
        fprintf(stderr, "boxgate: %s\n", err->msg);
    }
}

static int exit_code_of(const struct bg_error *err)
{
    return err->code == BG_ERR_CONFIG ? 2 : 1;
}

/* About three descriptors a sandbox and one a client; the usual soft limit of 1,024 is
 * short of that at BG_SESSIONS_MAX. */
static void raise_file_limit(void)
{
    struct rlimit rl;
    if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_cur >= BG_SERVER_FILES)
        return;
    rl.rlim_cur = rl.rlim_max < BG_SERVER_FILES ? rl.rlim_max : BG_SERVER_FILES;
    setrlimit(RLIMIT_NOFILE, &rl);
}

int bg_server_main(const struct bg_server_opts *o)
{
    struct bg_error err = {0};
    struct bg_server *s = bg_xcalloc(1, sizeof *s);
    s->opts = *o;
    s->paths = o->paths;
    s->lock_fd = s->listen[0].fd = s->listen[1].fd = -1;
    s->started_ms = bg_mono_ms();
    bg_digest_init();
    /* Code and answers pass through this memory; no other process of the uid may read it.
     */
    prctl(PR_SET_DUMPABLE, 0);
    /* A full or limited disk is an error the audit reports (and then denies), not a death.
     */
    signal(SIGXFSZ, SIG_IGN);
    raise_file_limit();
    umask(077);
    bool ok = bg_paths_create(o->paths, &err);
    if (ok) {
        bg_autofree char *log = bg_path_join(o->paths->state, "server.log");
        s->log = bg_log_open(o->foreground ? NULL : log, BG_LOG_INFO, &err);
        ok = s->log != NULL;
    }
    s->loop = bg_loop_new();
    s->ring = event_ring_new();
    ok = ok && open_all(s, &err);
    say_ready(s, ok ? NULL : &err);
    if (ok) {
        bg_log(s->log, BG_LOG_INFO, "boxgate %s serves %s", BG_VERSION, s->paths->runtime);
        server_touch(s);
        bg_loop_run(s->loop);
    } else {
        s->exit_code = exit_code_of(&err);
        bg_log(s->log, BG_LOG_ERROR, "%s", err.msg);
    }
    close_all(s);
    bg_loop_free(s->loop);
    bg_log_close(s->log);
    int code = s->exit_code;
    free(s);
    return code;
}

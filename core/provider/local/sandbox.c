/* SPDX-License-Identifier: MIT */
/*
 * One bubblewrap sandbox from its record to its last trace.
 *
 *   CREATING -> LIVE -> (LOST ->) ENDING -> gone
 *   CREATING -> ENDING -> create's callback with the error
 *
 * ENDING is a loop of small steps on a timer: kill what is left, look, remove what is
 * empty. No callback of ours runs inside a call, and nothing is freed but at the end of
 * ENDING.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/base/clock.h"
#include "core/provider/local/local.h"

enum { STDERR_MAX = 4096, INFO_MAX = 4096, END_STEP_MS = 2 };

/* ---- the end ---- */

static void drop_polls(struct local_sandbox *s)
{
    bg_poll_free(s->info_poll);
    s->info_poll = NULL;
    if (s->info_fd >= 0)
        close(bg_steal_fd(&s->info_fd));
}

static void unlink_self(struct local_sandbox *s)
{
    for (struct local_sandbox **at = &s->p->sandboxes; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            return;
        }
    }
}

static void free_sandbox(struct local_sandbox *s)
{
    unlink_self(s);
    drop_polls(s);
    bg_poll_free(s->exit_poll);
    bg_timer_free(s->timer);
    if (s->pidfd >= 0)
        close(s->pidfd);
    if (s->err_fd >= 0)
        close(s->err_fd);
    local_cgroup_clear(&s->group);
    local_plan_clear(&s->plan);
    local_record_clear(&s->record);
    bg_buf_free(&s->info);
    bg_buf_free(&s->errtext);
    free(s->outer);
    free(s->link_dir);
    free(s->base.ref);
    free(s->base.name);
    bg_strv_free(s->base.not_enforced);
    free(s);
}

static void remove_traces(struct local_sandbox *s)
{
    struct bg_error err;

    bg_channel_free(s->ch); /* unlinks its socket */
    s->ch = NULL;
    if (s->outer && !bg_rm_rf(s->outer, &err))
        bg_log(s->p->env.log, BG_LOG_WARN, "%s", err.msg);
    local_uid_release(&s->uid);
    if (s->recorded)
        local_record_remove(s->p->record_dir, s->id);
}

static void finish(struct local_sandbox *s, const struct bg_error *err)
{
    bg_create_fn created = s->created;
    bg_done_fn destroyed = s->destroyed;
    void *created_data = s->created_data, *destroyed_data = s->destroyed_data;
    struct bg_error why = s->why;

    remove_traces(s);
    free_sandbox(s);
    if (created)
        created(created_data, NULL, &why);
    if (destroyed)
        destroyed(destroyed_data, err);
}

static void kill_monitor(struct local_sandbox *s)
{
    local_kill_children(s->monitor);
    syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
}

/* When bwrap has to be ended from outside: its child isn't known (after a moment in which
 * it would tell), or it lingers after the child. */
static bool monitor_overdue(const struct local_sandbox *s, int64_t elapsed)
{
    if (s->record.child > 0)
        return elapsed > BG_KILL_MS / 2;
    return elapsed > BG_KILL_MS / 4 || !s->info_poll;
}

/* True when nothing of it runs any more. */
static bool kill_round(struct local_sandbox *s, int64_t elapsed)
{
    bool overdue = monitor_overdue(s, elapsed);

    if (s->monitor > 0 && !s->exited)
        s->exited = waitpid(s->monitor, &s->status, WNOHANG) != 0;
    /* PID 1 of the sandbox: the kernel kills everything in there with it, and bwrap outside
     * reaps it and ends by itself. */
    if (local_kill_exact(s->record.child, s->record.child_start, SIGKILL) && !overdue)
        return false;
    if (s->monitor > 0 && !s->exited) {
        if (overdue)
            kill_monitor(s);
        return false;
    }
    if (s->monitor > 0 && s->record.child <= 0)
        local_kill_session(s->monitor, s->record.monitor_start);
    return !s->group_made || local_cgroup_kill(&s->group) == 0;
}

static void end_step(struct local_sandbox *s)
{
    int64_t elapsed = bg_mono_ms() - s->ending_since;
    struct bg_error err;

    if (kill_round(s, elapsed) && (!s->group_made || local_cgroup_remove(&s->group))) {
        finish(s, NULL);
    } else if (elapsed > BG_LOCAL_GONE_MS) {
        bg_fail(&err, BG_ERR_INTERNAL, 0, "processes of sandbox %s could not be ended",
                s->id);
        bg_log(s->p->env.log, BG_LOG_ERROR, "%s", err.msg);
        s->recorded = false; /* the record stays for the next sweep */
        finish(s, &err);
    } else {
        bg_timer_start(s->timer, END_STEP_MS, 0);
    }
}

static void begin_end(struct local_sandbox *s)
{
    if (s->state == LOCAL_ENDING)
        return;
    s->state = LOCAL_ENDING;
    s->ending_since = bg_mono_ms();
    bg_timer_start(s->timer, 0, 0);
}

static void fail_create(struct local_sandbox *s, const struct bg_error *err)
{
    s->why = *err;
    begin_end(s);
}

/* ---- lost ---- */

static void lose(struct local_sandbox *s, const struct bg_error *why)
{
    struct bg_error copy = *why;

    if (s->state != LOCAL_LIVE)
        return;
    s->state = LOCAL_LOST;
    local_kill_exact(s->record.child, s->record.child_start, SIGKILL);
    bg_channel_fail(s->ch, &copy);
    if (s->events && s->events->lost)
        s->events->lost(s->events_data, &s->base, &copy);
}

static void read_stderr(struct local_sandbox *s)
{
    char buf[512];
    ssize_t n;

    while (s->err_fd >= 0 && (n = read(s->err_fd, buf, sizeof buf)) > 0)
        bg_buf_add_some(&s->errtext, buf, (size_t)n);
}

static void monitor_ended(struct local_sandbox *s)
{
    struct bg_error err;
    uint64_t oom = 0;
    int len;

    switch (s->state) {
    case LOCAL_CREATING:
        read_stderr(s);
        len = (int)strcspn(s->errtext.data, "\n");
        bg_fail(&err, BG_ERR_UNAVAILABLE, 0, "the sandbox did not start%s%.*s",
                len ? ": " : "", len, s->errtext.data);
        free(s->p->last_stderr);
        s->p->last_stderr = bg_xstrdup(s->errtext.data);
        fail_create(s, &err);
        break;
    case LOCAL_LIVE:
        if (local_cgroup_oom(&s->group, &oom) && oom > s->group.oom_seen)
            bg_fail(&err, BG_ERR_DESTROYED, 0,
                    "the sandbox was killed by its memory limit");
        else
            bg_fail(&err, BG_ERR_DESTROYED, 0,
                    "the sandbox ended or was killed from outside");
        lose(s, &err);
        break;
    case LOCAL_ENDING:
        bg_timer_start(s->timer, 0, 0);
        break;
    case LOCAL_LOST:
        break;
    }
}

static void monitor_readable(struct bg_poll *poll, int fd, unsigned events, void *data)
{
    struct local_sandbox *s = data;

    (void)fd;
    (void)events;
    if (waitpid(s->monitor, &s->status, WNOHANG) == 0)
        return;
    s->exited = true;
    bg_poll_set(poll, 0);
    monitor_ended(s);
}

/* ---- coming up ---- */

static bool parse_info(struct local_sandbox *s, pid_t *child)
{
    bg_autojson cJSON *j = bg_json_parse(s->info.data, s->info.len, INFO_MAX, NULL);
    const cJSON *pid = cJSON_GetObjectItemCaseSensitive(j, "child-pid");

    if (!cJSON_IsNumber(pid) || pid->valuedouble < 2 || pid->valuedouble > INT32_MAX)
        return false;
    *child = (pid_t)pid->valuedouble;
    return true;
}

static void child_known(struct local_sandbox *s, pid_t child)
{
    struct bg_error err;

    s->record.child_start = local_start_time(child);
    if (local_parent_of(child) != s->monitor || s->record.child_start == 0)
        return; /* it is gone already; the monitor's end tells why */
    s->record.child = child;
    if (s->state != LOCAL_CREATING)
        return;
    if (!local_record_write(s->p->record_dir, &s->record, &err))
        fail_create(s, &err);
    else
        bg_channel_expect_pid(s->ch, child);
}

static void on_info(struct bg_poll *poll, int fd, unsigned events, void *data)
{
    struct local_sandbox *s = data;
    char buf[512];
    ssize_t n = read(fd, buf, sizeof buf);
    pid_t child;

    (void)poll;
    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        bg_buf_add_some(&s->info, buf, (size_t)n);
        return;
    }
    drop_polls(s); /* the end: bwrap wrote all it had */
    if (parse_info(s, &child))
        child_known(s, child);
}

static void channel_ready(void *data, struct bg_channel *ch)
{
    struct local_sandbox *s = data;
    bg_create_fn created = s->created;
    struct bg_error err;

    (void)ch;
    if (s->state != LOCAL_CREATING)
        return; /* dialled again */
    bg_timer_stop(s->timer);
    local_cgroup_adopt(&s->group, &s->p->cgs, s->record.child);
    local_cgroup_check(&s->group, &s->plan.limits, s->record.child, &s->base.not_enforced);
    if (!local_cgroup_oom(&s->group, &s->group.oom_seen))
        s->group.oom_seen = 0;
    if (s->plan.limits.strict && s->base.not_enforced) {
        bg_fail(&err, BG_ERR_UNAVAILABLE, 0,
                "strictLimits: the %s limit can't be enforced here",
                s->base.not_enforced[0]);
        fail_create(s, &err);
        return;
    }
    close(bg_steal_fd(&s->err_fd));
    s->state = LOCAL_LIVE;
    s->base.started_wall_ms = bg_wall_ms();
    s->created = NULL;
    created(s->created_data, &s->base, NULL);
}

static void channel_lost(void *data, struct bg_channel *ch, const struct bg_error *err)
{
    struct local_sandbox *s = data;

    (void)ch;
    if (s->state == LOCAL_CREATING)
        fail_create(s, err);
    else
        lose(s, err);
}

static void on_timer(struct bg_timer *t, void *data)
{
    struct local_sandbox *s = data;
    struct bg_error err;

    (void)t;
    if (s->state == LOCAL_ENDING) {
        end_step(s);
    } else if (s->state == LOCAL_CREATING) {
        if (s->why.code == BG_OK)
            bg_fail(&s->why, BG_ERR_TIMEOUT, 0, "the sandbox did not come up within %d s",
                    BG_LOCAL_CREATE_MS / 1000);
        err = s->why;
        fail_create(s, &err);
    }
}

/* ---- making ---- */

static bool make_link(struct local_sandbox *s, struct bg_error *err)
{
    if (!bg_dir_private(s->p->record_dir, err))
        return false;
    if (s->p->host.root) {
        char inner[2 * LOCAL_ID_LEN + 1];
        bg_random_hex(inner, LOCAL_ID_LEN / 2);
        s->outer = bg_xasprintf("%s/" LOCAL_LINK_PREFIX "%.16s-%s", s->p->link_parent,
                                s->p->env.instance, s->id);
        s->link_dir = bg_path_join(s->outer, inner);
    } else {
        if (!bg_dir_private(s->p->link_parent, err))
            return false;
        s->outer = bg_path_join(s->p->link_parent, s->id);
        s->link_dir = bg_xstrdup(s->outer);
    }
    s->base.name = bg_xstrdup(s->outer);
    s->record = (struct local_record){
        .ref = bg_xstrdup(s->id),
        .link = bg_xstrdup(s->outer),
        .group = bg_xasprintf(LOCAL_GROUP_PREFIX "%.16s-%s", s->p->env.instance, s->id),
        .maker = getpid(),
        .maker_start = local_start_time(getpid())};
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        if (s->p->cgs.base[i] && s->p->cgs.mode != LOCAL_CG_SCOPE)
            s->record.dirs[i] = bg_path_join(s->p->cgs.base[i], s->record.group);
    if (!local_record_write(s->p->record_dir, &s->record, err))
        return false;
    s->recorded = true;
    /* chmod: the umask must not decide who gets in. */
    if (s->p->host.root && (mkdir(s->outer, 0711) != 0 || chmod(s->outer, 0711) != 0))
        return bg_fail(err, BG_ERR_IO, errno, "making %s", s->outer);
    if (mkdir(s->link_dir, 0755) != 0 || chmod(s->link_dir, 0755) != 0)
        return bg_fail(err, BG_ERR_IO, errno, "making %s", s->link_dir);
    return true;
}

static bool make_channel(struct local_sandbox *s, struct bg_error *err)
{
    static const struct bg_channel_events events = {.ready = channel_ready,
                                                    .lost = channel_lost};
    bg_autofree char *sock = bg_path_join(s->link_dir, "s");
    const struct bg_channel_opts o = {
        .sock_path = sock,
        .linger_ms = (uint32_t)s->p->env.config->linger_ms,
        .linger_empty_ms = BG_LINGER_EMPTY_MS,
    };

    s->ch = bg_channel_listen(s->p->env.loop, &o, &events, s, err);
    return s->ch != NULL;
}

/* The child's descriptors; all but 0 to 2 are closed by the caller. */
static bool open_fds(const struct local_sandbox *s, int fds[LOCAL_FD_COUNT],
                     struct bg_error *err)
{
    for (int i = LOCAL_FD_GUEST; i < LOCAL_FD_INFO; i++) {
        bool dns = i == LOCAL_FD_NSSWITCH && s->plan.network_host;
        fds[i] = local_data_reopen(dns ? s->p->nsswitch_dns : s->p->data[i], err);
        if (fds[i] < 0)
            return false;
    }
    return true;
}

/* The end for writing can be read too: so a server that dies in the middle of a creation
 * does not make bwrap's write fail, which would leave its child waiting for ever. */
static int reopen_both_ways(int fd)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

static bool open_pipes(struct local_sandbox *s, int *info_w, int *err_w,
                       struct bg_error *err)
{
    int info[2] = {-1, -1}, text[2] = {-1, -1};
    bool ok = pipe2(info, O_CLOEXEC) == 0 && pipe2(text, O_CLOEXEC) == 0;

    s->info_fd = info[0];
    s->err_fd = text[0];
    *err_w = text[1];
    if (ok) {
        *info_w = reopen_both_ways(info[1]);
        close(info[1]);
    }
    if (!ok || *info_w < 0 || fcntl(info[0], F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(text[0], F_SETFL, O_NONBLOCK) != 0)
        return bg_fail(err, BG_ERR_IO, errno, "making a pipe");
    return true;
}

static bool run_bwrap(struct local_sandbox *s, const int *fds, struct bg_error *err)
{
    static char *const no_env[] = {NULL};
    bool scope = s->p->cgs.mode == LOCAL_CG_SCOPE;
    const struct local_argv_in in = {.host = &s->p->host,
                                     .plan = &s->plan,
                                     .link_dir = s->link_dir,
                                     .uid = s->uid.uid,
                                     .scope = scope ? s->record.group : NULL};
    bool limited =
        s->p->cgs.base[LOCAL_CTL_MEMORY] || s->plan.limits.memory_mb == BG_UNLIMITED;
    int join[LOCAL_CTL_COUNT];
    size_t n_join;
    bool ok;

    if (!local_cgroup_join_fds(&s->group, join, &n_join, err))
        return false;
    char **argv = local_argv(&in);
    const struct local_spawn sp = {.argv = argv,
                                   .env =
                                       s->p->host.user_env ? s->p->host.user_env : no_env,
                                   .fds = fds,
                                   .n_fds = LOCAL_FD_COUNT,
                                   .join = join,
                                   .n_join = n_join,
                                   .data_mb = limited ? 0 : s->plan.limits.memory_mb};
    ok = local_spawn(&sp, &s->monitor, &s->pidfd, err);
    bg_strv_free(argv);
    while (n_join > 0)
        close(join[--n_join]);
    return ok;
}

static bool start_bwrap(struct local_sandbox *s, struct bg_error *err)
{
    int fds[LOCAL_FD_COUNT];
    bool ok;

    for (size_t i = 0; i < LOCAL_FD_COUNT; i++)
        fds[i] = -1;
    fds[0] = fds[1] = open("/dev/null", O_RDWR | O_CLOEXEC);
    ok = open_pipes(s, &fds[LOCAL_FD_INFO], &fds[2], err) && open_fds(s, fds, err) &&
         run_bwrap(s, fds, err);
    fds[1] = -1; /* the same as 0 */
    for (size_t i = 0; i < LOCAL_FD_COUNT; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return ok;
}

static bool watch(struct local_sandbox *s, struct bg_error *err)
{
    s->record.monitor = s->monitor;
    s->record.monitor_start = local_start_time(s->monitor);
    s->exit_poll = bg_poll_new(s->p->env.loop, s->pidfd, monitor_readable, s);
    s->info_poll = bg_poll_new(s->p->env.loop, s->info_fd, on_info, s);
    if (!s->exit_poll || !s->info_poll)
        return bg_fail(err, BG_ERR_IO, errno, "watching the sandbox");
    bg_poll_set(s->exit_poll, BG_READ);
    bg_poll_set(s->info_poll, BG_READ);
    return local_record_write(s->p->record_dir, &s->record, err);
}

static bool make(struct local_sandbox *s, struct bg_error *err)
{
    struct local *p = s->p;

    if (!make_link(s, err))
        return false;
    if (p->host.root &&
        !local_uid_take(&s->uid, LOCAL_UID_DIR, p->env.config->local_uid_base, err))
        return false;
    if (!local_cgroup_make(&s->group, &p->cgs, s->record.group, &s->plan.limits, err))
        return false;
    s->group_made = true;
    return make_channel(s, err) && start_bwrap(s, err) && watch(s, err);
}

void local_sandbox_create(struct local *p, const char *ref, const struct local_plan *plan,
                          const struct bg_spec *spec, const struct bg_create_opts *o,
                          bg_create_fn done, void *data)
{
    struct local_sandbox *s = bg_xcalloc(1, sizeof *s);

    *s = (struct local_sandbox){.base = {.ops = &bg_provider_local, .ref = bg_xstrdup(ref)},
                                .p = p,
                                .next = p->sandboxes,
                                .plan = *plan,
                                .uid = {.fd = -1},
                                .pidfd = -1,
                                .info_fd = -1,
                                .err_fd = -1,
                                .created = done,
                                .created_data = data};
    p->sandboxes = s;
    snprintf(s->id, sizeof s->id, "%.*s", LOCAL_ID_LEN, ref);
    bg_buf_init(&s->info, INFO_MAX);
    bg_buf_init(&s->errtext, STDERR_MAX);
    if (o) {
        s->events = o->events;
        s->events_data = o->events_data;
    }
    if (spec) {
        s->has_spec = true;
        s->spec_sum = bg_spec_sha256(spec);
    }
    s->timer = bg_timer_new(p->env.loop, on_timer, s);
    bg_timer_start(s->timer, BG_LOCAL_CREATE_MS, 0);
    if ((spec && !bg_spec_mounts_check(spec, &s->why)) || !make(s, &s->why))
        bg_timer_start(s->timer, 0, 0); /* told from the loop, not from in here */
}

void local_sandbox_destroy(struct bg_sandbox *sb, bg_done_fn done, void *data)
{
    struct local_sandbox *s = (struct local_sandbox *)sb;
    struct bg_error err;

    s->destroyed = done;
    s->destroyed_data = data;
    bg_channel_shutdown(s->ch);
    bg_fail(&err, BG_ERR_DESTROYED, 0, "the sandbox was closed");
    bg_channel_fail(s->ch, &err);
    begin_end(s);
}

char **local_live_refs(const struct local *p)
{
    char **refs = NULL;

    for (const struct local_sandbox *s = p->sandboxes; s; s = s->next)
        bg_strv_push(&refs, s->id);
    return refs;
}

/* SPDX-License-Identifier: MIT */
/*
 * From a whole EXEC request to a running supervisor: the blob becomes argv, environment and
 * cwd in place, four pipes are made, one fork. What fails here never started.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/guest/guest.h"

struct pipes {
    int in[2], out[2], err[2], status[2];
};

void guest_start_unmap(struct guest_exec *e)
{
    if (e->blob)
        munmap(e->blob, e->blob_size);
    e->blob = NULL;
}

void guest_start_fail(struct guest_exec *e, enum gp_err err, int sys)
{
    e->error = (struct gp_error){.err = (uint32_t)err, .sys = sys};
    e->tell_error = true;
}

size_t guest_start_error_text(const struct gp_error *err, char *buf, size_t cap)
{
    static const char *const texts[] = {
        [GP_ERR_NOENT] = "command not found",
        [GP_ERR_ACCES] = "not executable",
        [GP_ERR_CWD] = "working directory can't be entered",
        [GP_ERR_LIMIT] = "command limit reached",
        [GP_ERR_BAD] = "malformed request",
        [GP_ERR_UNKNOWN] = "no such command",
        [GP_ERR_OTHER] = "the command could not be started",
    };
    const char *text = texts[err->err];
    char *end = buf + cap;
    uint64_t n = err->err == GP_ERR_LIMIT ? GUEST_SLOTS : 0;
    if (n && err->sys == EAGAIN) {
        text = "process limit reached";
        n = guest_stats_pids_max();
    } else if (n && err->sys) {
        text = "open file limit reached";
        n = 0;
    }
    if (err->err == GP_ERR_CWD && err->sys == EXDEV)
        text = "working directory leaves the work folder by a link";
    char *p = guest_put_text(buf, end, text);
    if (n) {
        p = guest_put_text(p, end, " (");
        p = guest_put_number(p, end, n);
        p = guest_put_text(p, end, ")");
    } else if (err->err == GP_ERR_OTHER && err->sys == E2BIG) {
        p = guest_put_text(p, end, ": arguments and environment too long");
    } else if (err->err == GP_ERR_OTHER && err->sys == EPERM) {
        p = guest_put_text(p, end, ": not permitted");
    }
    return (size_t)(p - buf);
}

/*
 * Takes one string off the blob. The NUL after it goes where the next length stands, so
 * that length is read first: *next carries it from call to call.
 */
static char *take(struct guest_exec *e, uint32_t *at, uint32_t *next)
{
    uint32_t left = e->req.total - *at;
    if (*next > left)
        return NULL;
    char *s = e->blob + *at;
    uint32_t n = *next;
    *at += n;
    left -= n;
    if (left >= 4) {
        memcpy(next, e->blob + *at, 4);
        *at += 4;
    } else if (left > 0) {
        return NULL;
    } else {
        *next = UINT32_MAX; /* nothing follows: a further take fails */
    }
    s[n] = 0;
    return memchr(s, 0, n) ? NULL : s;
}

static bool take_all(struct guest_exec *e, char **list, uint32_t count, uint32_t *at,
                     uint32_t *next)
{
    for (uint32_t i = 0; i < count; i++)
        if (!(list[i] = take(e, at, next)))
            return false;
    list[count] = NULL;
    return true;
}

static bool parse(struct guest_exec *e, struct guest_child *c)
{
    /* The pointers stand behind the blob and its last NUL, aligned; guest_exec mapped for
     * it. */
    size_t at_ptr = ((size_t)e->req.total + 1 + 15) & ~(size_t)15;
    c->argv = (char **)(void *)(e->blob + at_ptr);
    c->envp = c->argv + e->req.argc + 1;
    uint32_t at = 4, next;
    memcpy(&next, e->blob, 4);
    if (!take_all(e, c->argv, e->req.argc, &at, &next) ||
        !take_all(e, c->envp, e->req.envc, &at, &next))
        return false;
    c->cwd = take(e, &at, &next);
    c->root = e->req.root;
    return c->cwd && c->cwd[0] == '/' && c->root <= strlen(c->cwd) && at == e->req.total &&
           next == UINT32_MAX;
}

static void close_pair(int p[2])
{
    for (int i = 0; i < 2; i++)
        if (p[i] >= 0)
            close(p[i]);
}

static bool make_pipes(struct pipes *p)
{
    if (pipe2(p->in, O_CLOEXEC) < 0 || pipe2(p->out, O_CLOEXEC) < 0 ||
        pipe2(p->err, O_CLOEXEC) < 0 || pipe2(p->status, O_CLOEXEC) < 0)
        return false;
    /* Only our ends: every end is its own description, the program's stays blocking. */
    fcntl(p->in[1], F_SETFL, O_NONBLOCK);
    fcntl(p->out[0], F_SETFL, O_NONBLOCK);
    fcntl(p->err[0], F_SETFL, O_NONBLOCK);
    fcntl(p->status[0], F_SETFL, O_NONBLOCK);
    fcntl(p->out[0], F_SETPIPE_SZ, GUEST_PIPE_BYTES);
    fcntl(p->err[0], F_SETPIPE_SZ, GUEST_PIPE_BYTES);
    return true;
}

static void close_pipes(struct pipes *p)
{
    close_pair(p->in);
    close_pair(p->out);
    close_pair(p->err);
    close_pair(p->status);
}

bool guest_start(struct guest_exec *e)
{
    struct guest_child c = {.blob = e->blob, .blob_size = e->blob_size};
    struct pipes p = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    if (!parse(e, &c)) {
        guest_start_fail(e, GP_ERR_BAD, 0);
        return false;
    }
    if (!make_pipes(&p)) {
        guest_start_fail(e, GP_ERR_LIMIT, errno);
        close_pipes(&p);
        return false;
    }
    uid_t uid = getuid();
    c.change_user = uid == 0 && (e->req.uid != uid || e->req.gid != getgid());
    c.uid = e->req.uid;
    c.gid = e->req.gid;
    c.in = p.in[0];
    c.out = p.out[1];
    c.err = p.err[1];
    c.status = p.status[1];
    e->oom_before = guest_stats_oom_kills();
    e->began_at = g.now;
    e->super = fork();
    if (e->super == 0)
        guest_supervise(&c);
    if (e->super < 0) {
        guest_start_fail(e, errno == EAGAIN ? GP_ERR_LIMIT : GP_ERR_OTHER, errno);
        e->super = 0;
        close_pipes(&p);
        return false;
    }
    close(p.in[0]);
    close(p.out[1]);
    close(p.err[1]);
    close(p.status[1]);
    e->status_fd = p.status[0];
    if (!guest_watch(e->status_fd, GUEST_W_STATUS, guest_exec_slot(e), EPOLLIN))
        kill(e->super, SIGKILL); /* nobody would hear it: better lost than endless */
    guest_drain_open(e, p.in[1], p.out[0], p.err[0]);
    return true;
}

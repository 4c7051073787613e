/* SPDX-License-Identifier: MIT */
/*
 * The supervisor of one command, forked from PID 1 without an exec, and the program's steps
 * before its execve. The supervisor is a subreaper: whatever the program forks, in whatever
 * session, stays below it. It reports on a pipe no program can reach (it is not dumpable
 * and holds nothing else), and stays as long as it has descendants.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/guest/guest.h"

#define STATUS_FD 3
/* What the engines give a container that names no PATH. */
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Kernels before 5.9 and some filters lack close_range; there the table is small anyway. */
static void close_from(unsigned first)
{
    if (syscall(SYS_close_range, first, ~0u, 0) == 0)
        return;
    for (unsigned fd = first; fd < 65536; fd++)
        close((int)fd);
}

static const char *env_path(char **envp)
{
    for (; *envp; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0)
            return *envp + 5;
    return DEFAULT_PATH;
}

/*
 * execve along PATH, as a shell finds a command, but never through a shell. A place that
 * has the file and refuses it is remembered: "not executable" says more than "not found".
 */
static int exec_along(const struct guest_child *c)
{
    static char buf[PATH_MAX];
    const char *name = c->argv[0];
    size_t len = strlen(name);
    if (strchr(name, '/')) {
        execve(name, c->argv, c->envp);
        return errno;
    }
    if (len == 0 || len > NAME_MAX)
        return ENOENT;
    int err = ENOENT;
    for (const char *p = env_path(c->envp);;) {
        const char *end = strchrnul(p, ':');
        size_t n = (size_t)(end - p);
        if (n + len + 2 <= sizeof buf) {
            memcpy(buf, p, n);
            if (n > 0)
                buf[n++] = '/';
            memcpy(buf + n, name, len + 1);
            execve(buf, c->argv, c->envp);
            if (errno == EACCES)
                err = EACCES;
            else if (errno != ENOENT && errno != ENOTDIR)
                return errno;
        }
        if (!*end)
            return err;
        p = end + 1;
    }
}

/* Raw calls: this runs in memory shared with the supervisor, and libc's would tell threads.
 */
static int change_user(const struct guest_child *c)
{
    if (!c->change_user)
        return 0;
    if (syscall(SYS_setgroups, 0, NULL) < 0 ||
        syscall(SYS_setresgid, c->gid, c->gid, c->gid) < 0 ||
        syscall(SYS_setresuid, c->uid, c->uid, c->uid) < 0)
        return errno;
    /* A change of ids may make memory readable again (fs.suid_dumpable); exec resets it. */
    return prctl(PR_SET_DUMPABLE, 0) < 0 ? errno : 0;
}

/*
 * Into cwd, and to see where that is: text alone says nothing of a link on the way. The
 * folder that was entered is the one that is looked at, so nobody can swap it in between.
 */
static int enter(const struct guest_child *c)
{
    char root[PATH_MAX], here[PATH_MAX];
    char after = c->cwd[c->root];

    if (c->root == 0)
        return chdir(c->cwd) < 0 ? errno : 0;
    c->cwd[c->root] = 0;
    bool there = chdir(c->cwd) == 0 && syscall(SYS_getcwd, root, sizeof root) > 0;
    c->cwd[c->root] = after;
    if (!there || chdir(c->cwd) < 0 || syscall(SYS_getcwd, here, sizeof here) < 0)
        return errno;
    size_t n = root[1] ? strlen(root) : 0;
    return strncmp(here, root, n) == 0 && (!here[n] || here[n] == '/') ? 0 : EXDEV;
}

/* In the child: returns only when something failed. */
static void become(const struct guest_child *c, volatile struct guest_report *r)
{
    r->a = GUEST_STEP_USER;
    r->b = change_user(c);
    if (r->b)
        return;
    setsid();
    umask(022);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    r->a = GUEST_STEP_CWD;
    r->b = enter(c);
    if (r->b)
        return;
    r->a = GUEST_STEP_EXEC;
    r->b = exec_along(c);
}

struct spawn {
    const struct guest_child *c;
    volatile struct guest_report r; /* written by the child, in memory both share */
};

static int child_main(void *data)
{
    struct spawn *s = data;
    become(s->c, &s->r);
    s->r.kind = GUEST_R_FAILED; /* an execve that worked never comes back to write this */
    return 127;
}

/*
 * The program's process shares our memory until its execve, and we wait for that, as
 * posix_spawn does: no page tables to copy, and what failed is simply there to read.
 */
static pid_t spawn(struct spawn *s)
{
    static char stack[32768] __attribute__((aligned(16)));
    pid_t pid =
        clone(child_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, s);
    if (pid < 0) {
        s->r.kind = GUEST_R_FAILED;
        s->r.a = GUEST_STEP_FORK;
        s->r.b = errno;
    }
    return pid;
}

static void report(const struct guest_report *r)
{
    ssize_t n = write(STATUS_FD, r, sizeof *r);
    (void)n; /* PID 1 reads an end without a report as a lost supervisor */
}

/* Reaps until nobody is left. __WALL: a program may have made children with other signals.
 */
static void stay(pid_t main_pid)
{
    for (;;) {
        int st;
        pid_t pid = waitpid(-1, &st, __WALL);
        if (pid < 0 && errno == ECHILD)
            return;
        if (pid != main_pid || pid <= 0)
            continue;
        int other;
        pid_t more;
        do
            more = waitpid(-1, &other, WNOHANG | __WALL);
        while (more > 0);
        struct guest_report r = {GUEST_R_DONE, st, more < 0};
        report(&r);
    }
}

_Noreturn void guest_supervise(const struct guest_child *c)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    /* The four are above 3 and ours; 0 to 2 are PID 1's own and become the program's. */
    if (dup2(c->in, 0) < 0 || dup2(c->out, 1) < 0 || dup2(c->err, 2) < 0 ||
        (c->status != STATUS_FD && dup3(c->status, STATUS_FD, O_CLOEXEC) < 0))
        _exit(1);
    close_from(STATUS_FD + 1);

    struct spawn s = {.c = c};
    pid_t pid = spawn(&s);
    prctl(PR_SET_DUMPABLE, 0); /* the child's change of ids was one of this memory too */
    close(0);
    close(1);
    close(2);
    munmap(c->blob, c->blob_size);
    bool failed = s.r.kind == GUEST_R_FAILED;
    struct guest_report r = {GUEST_R_STARTED, pid, 0};
    if (failed)
        r = (struct guest_report){GUEST_R_FAILED, s.r.a, s.r.b};
    report(&r);
    stay(failed ? 0 : pid);
    _exit(0);
}

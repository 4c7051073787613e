/* SPDX-License-Identifier: MIT */
/*
 * Starting bwrap so that it is born inside its cgroups: between fork and exec the child
 * writes itself into them, which the loop's general child helper can't do. The parent holds
 * a pidfd: its end shows by poll, and a signal can never hit a recycled pid.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/provider/local/local.h"

enum { FD_PARK = 64 }; /* above every descriptor number the child is given */

/* Async-signal-safe only: it runs between fork and exec. */
static void child_fds(const struct local_spawn *s)
{
    int parked[LOCAL_FD_COUNT];

    /* First away from the low numbers, so that no dup2 overwrites a source. */
    for (size_t i = 0; i < s->n_fds; i++) {
        parked[i] = fcntl(s->fds[i], F_DUPFD, FD_PARK);
        if (parked[i] < 0)
            _exit(126);
    }
    for (size_t i = 0; i < s->n_fds; i++)
        if (dup2(parked[i], (int)i) < 0)
            _exit(126);
    if (syscall(SYS_close_range, (unsigned)s->n_fds, ~0u, 0) != 0)
        _exit(126);
}

/* A server that the kernel should spare must not pass that on. Raising is always allowed.
 */
static void child_oom_score(void)
{
    int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    char sign = '0';

    if (fd >= 0 && read(fd, &sign, 1) == 1 && sign == '-' && write(fd, "0", 1) != 1)
        _exit(126);
    if (fd >= 0)
        close(fd);
}

static void child_limits(const struct local_spawn *s)
{
    struct rlimit core = {0, 0};

    child_oom_score();
    setrlimit(RLIMIT_CORE, &core); /* the host's core handler must not see what runs here */
    if (s->data_mb > 0) {
        struct rlimit data = {(rlim_t)s->data_mb << 20, (rlim_t)s->data_mb << 20};
        if (setrlimit(RLIMIT_DATA, &data) != 0)
            _exit(126);
    }
}

static void child_signals(void)
{
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int i = 1; i < NSIG; i++)
        sigaction(i, &dfl, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

__attribute__((noreturn)) static void child_run(const struct local_spawn *s)
{
    for (size_t i = 0; i < s->n_join; i++)
        if (write(s->join[i], "0", 1) != 1)
            _exit(126);
    child_signals();
    setsid();
    umask(022);
    child_limits(s);
    if (chdir("/") != 0)
        _exit(126);
    child_fds(s);
    execve(s->argv[0], s->argv, s->env);
    _exit(127);
}

bool local_spawn(const struct local_spawn *s, pid_t *pid, int *pidfd, struct bg_error *err)
{
    sigset_t all, old;
    pid_t child;
    int saved;

    /* No handler of ours may run in the child before it has put them away. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    child = fork();
    if (child == 0)
        child_run(s);
    saved = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (child < 0)
        return bg_fail(err, BG_ERR_UNAVAILABLE, saved, "starting %s", s->argv[0]);
    *pidfd = (int)syscall(SYS_pidfd_open, child, 0); /* not reaped yet: it is that child */
    if (*pidfd < 0) {
        saved = errno;
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        return bg_fail(err, BG_ERR_UNAVAILABLE, saved, "watching %s", s->argv[0]);
    }
    *pid = child;
    return true;
}

/* The part of /proc/PID/stat after the command's name, which may hold anything. */
static bool stat_tail(pid_t pid, char *buf, size_t size, const char **tail)
{
    char path[32];
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    bg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, buf, size - 1) : -1;
    if (n <= 0)
        return false;
    buf[n] = '\0';
    *tail = strrchr(buf, ')');
    return *tail && (*tail)[1] == ' ';
}

uint64_t local_start_time(pid_t pid)
{
    char buf[1024];
    const char *tail;
    unsigned long long start = 0;
    char state;

    /* "S PPID PGRP SESSION TTY TPGID FLAGS MINFLT CMINFLT MAJFLT CMAJFLT UTIME STIME CUTIME
     * CSTIME PRIORITY NICE THREADS ITREAL START" */
    if (pid <= 0 || !stat_tail(pid, buf, sizeof buf, &tail) ||
        sscanf(tail + 2,
               "%c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
               "%llu",
               &state, &start) != 2 ||
        state == 'Z' || state == 'X')
        return 0;
    return start;
}

pid_t local_parent_of(pid_t pid)
{
    char buf[1024];
    const char *tail;
    int ppid = 0;

    if (pid <= 0 || !stat_tail(pid, buf, sizeof buf, &tail) ||
        sscanf(tail + 2, "%*c %d", &ppid) != 1)
        return 0;
    return ppid;
}

bool local_uid_of(pid_t pid, uint32_t *uid)
{
    char path[32], line[256];
    bool found = false;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "Uid: %u", uid) == 1;
    if (f)
        fclose(f);
    return found;
}

bool local_kill_exact(pid_t pid, uint64_t start, int signo)
{
    bg_autoclose int fd = -1;

    if (pid <= 1 || start == 0)
        return false;
    fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 || local_start_time(pid) != start) /* the pidfd pins the pid from here on */
        return false;
    return syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0) == 0;
}

/* bwrap's child waits for its parent before it becomes anything; a parent killed just then
 * leaves it waiting for ever, known to nobody. It still is in the session that the parent
 * led, and the kernel gives no pid anew that names a session in use. */
void local_kill_session(pid_t leader, uint64_t leader_start)
{
    uint64_t now = local_start_time(leader);
    DIR *d = now == 0 || now == leader_start ? opendir("/proc") : NULL;
    struct dirent *e;

    while (leader > 1 && d && (e = readdir(d))) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        char buf[1024];
        const char *tail;
        int session = 0;
        if (pid > 1 && stat_tail(pid, buf, sizeof buf, &tail) &&
            sscanf(tail + 2, "%*c %*d %*d %d", &session) == 1 && session == leader &&
            strstr(buf, "(bwrap)"))
            kill(pid, SIGKILL);
    }
    if (d)
        closedir(d);
}

void local_kill_children(pid_t pid)
{
    char path[64];
    FILE *f;
    int child;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    f = fopen(path, "re");
    while (f && fscanf(f, "%d", &child) == 1)
        if (child > 1 && local_parent_of(child) == pid)
            kill(child, SIGKILL);
    if (f)
        fclose(f);
}

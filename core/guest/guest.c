/* SPDX-License-Identifier: MIT */
/*
 * boxgate-guest: PID 1 of a sandbox. Sets itself up so that programs of the same uid can
 * neither read nor signal it, then runs the loop: wait, note what is ready, let each part
 * take its turn. Ends by SHUTDOWN, a TERM from outside, or when no server came for too
 * long.
 */
#include "core/guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct guest g;

int64_t guest_clock(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

char *guest_put_text(char *d, char *end, const char *s)
{
    while (*s && d < end)
        *d++ = *s++;
    return d;
}

char *guest_put_number(char *d, char *end, uint64_t v)
{
    char tmp[20];
    size_t n = 0;
    do {
        tmp[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    while (n && d < end)
        *d++ = tmp[--n];
    return d;
}

bool guest_watch(int fd, enum guest_watch what, uint32_t slot, uint32_t events)
{
    struct epoll_event ev = {.events = events | EPOLLET,
                             .data.u64 = (uint64_t)what << 32 | slot};
    return epoll_ctl(g.ep, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Takes the token out of the environment and out of the memory /proc/1/environ shows. */
static void take_token(uint8_t token[GP_TOKEN_LEN])
{
    char *s = getenv("BOXGATE_TOKEN");
    if (!s)
        return;
    size_t n = strlen(s);
    bool ok = n == 2 * GP_TOKEN_LEN;
    for (size_t i = 0; ok && i < GP_TOKEN_LEN; i++) {
        int hi = hex_digit(s[2 * i]), lo = hex_digit(s[2 * i + 1]);
        ok = hi >= 0 && lo >= 0;
        token[i] = (uint8_t)(ok ? hi << 4 | lo : 0);
    }
    if (!ok)
        memset(token, 0, GP_TOKEN_LEN);
    explicit_bzero(s, n);
    unsetenv("BOXGATE_TOKEN");
}

/* fds 0 to 2 must be taken, or a pipe of a command would become the guest's own stdio. */
static void fill_stdio(void)
{
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2)
        fd = dup(fd);
    if (fd > 2)
        close(fd);
}

/* Blocked, so they queue for the signalfd; ignored ones a runtime left are set back, since
 * children inherit them. SIGPIPE stays ignored here only. */
static bool set_signals(void)
{
    /* By the bare call: the C library refuses to touch 32 and 33, which it keeps for
     * itself, and a posix_spawn on the way here leaves just these two ignored. All zero =
     * default. */
    static const unsigned long dfl[4];
    for (int s = 1; s < NSIG; s++)
        syscall(SYS_rt_sigaction, s, dfl, NULL, sizeof dfl[0]);
    signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return false;
    g.sig = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return g.sig >= 0;
}

static bool set_up(void)
{
    g.pid = getpid();
    g.init = g.pid == 1;
    g.proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g.ep = epoll_create1(EPOLL_CLOEXEC);
    /* Without it, orphans of a lost supervisor would leave our tree when we are not PID 1.
     */
    if (!g.init && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return false;
    if (g.ep < 0 || !set_signals() || !guest_watch(g.sig, GUEST_W_SIG, 0, EPOLLIN))
        return false;
    umask(022);
    guest_stats_init();
    return true;
}

/*
 * TERM and INT count only from outside the sandbox: kill() from there has si_pid 0. A
 * program inside can forge si_pid 0 by rt_sigqueueinfo, but not together with SI_USER.
 */
static bool from_outside(const struct signalfd_siginfo *si)
{
    if (!g.init)
        return true;
    return si->ssi_pid == 0 && (si->ssi_code == SI_USER || si->ssi_code == SI_KERNEL);
}

static void read_signals(void)
{
    struct signalfd_siginfo si;
    while (read(g.sig, &si, sizeof si) == (ssize_t)sizeof si) {
        if (si.ssi_signo == SIGCHLD) {
            g.child_died = true;
        } else if (from_outside(&si)) {
            guest_kill_all();
            _exit(0);
        }
    }
}

static void note(const struct epoll_event *ev)
{
    uint32_t slot = (uint32_t)ev->data.u64;
    struct guest_exec *e = &g.slots[slot];
    /* A number: an event of a slot that was freed since only costs one read that finds
     * nothing. */
    switch ((int)(ev->data.u64 >> 32)) {
    case GUEST_W_SIG:
        read_signals();
        break;
    case GUEST_W_LINK:
        guest_link_event(ev->events);
        break;
    case GUEST_W_STATUS:
        e->status_ready = true;
        break;
    case GUEST_W_STDIN:
        e->in.ready = true;
        break;
    case GUEST_W_OUT:
        e->out[0].ready = true;
        break;
    case GUEST_W_ERR:
        e->out[1].ready = true;
        break;
    default:
        break;
    }
}

static int64_t sooner(int64_t a, int64_t b)
{
    if (a < 0)
        return b;
    return b < 0 || a < b ? a : b;
}

/* Ms until something is due without any event; ends the program when nobody came. */
static int wait_ms(bool busy)
{
    bool expired = false;
    int64_t ms = guest_link_wait(&expired);
    if (expired) {
        guest_kill_all();
        _exit(0);
    }
    if (busy)
        return 0;
    ms = sooner(ms, guest_exec_wait());
    ms = sooner(ms, guest_kill_wait());
    ms = sooner(ms, guest_drain_wait());
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

static _Noreturn void run(void)
{
    for (;;) {
        g.now = guest_clock();
        guest_link_turn();
        if (g.child_died)
            guest_exec_reap();
        guest_kill_turn();
        guest_exec_turn();
        bool busy = guest_drain_turn();
        busy |= guest_exec_turn();
        guest_link_flush();

        struct epoll_event ev[32];
        g.now = guest_clock();
        int n = epoll_wait(g.ep, ev, 32, wait_ms(busy));
        for (int i = 0; i < n; i++)
            note(&ev[i]);
    }
}

static int say(int fd, const char *text, int code)
{
    ssize_t n = write(fd, text, strlen(text));
    return n < 0 ? 2 : code;
}

int main(int argc, char **argv)
{
    prctl(PR_SET_DUMPABLE, 0);
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        return say(1, "boxgate-guest protocol 1\n", 0);
    uint8_t token[GP_TOKEN_LEN] = {0};
    take_token(token);
    fill_stdio();
    const char *path = getpid() == 1 ? NULL : getenv("BOXGATE_LINK");
    if (getpid() != 1 && !path)
        return say(2, "boxgate-guest: runs inside a sandbox, started by boxgate\n", 2);
    if (!set_up())
        return say(2, "boxgate-guest: the kernel refuses epoll, signalfd or prctl\n", 3);
    guest_link_init(path ? path : GP_LINK_SOCK, token);
    run();
}

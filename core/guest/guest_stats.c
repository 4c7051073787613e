/* SPDX-License-Identifier: MIT */
/*
 * Numbers about the sandbox out of its cgroup files, v2 or v1, where they can be seen from
 * inside; else out of /proc. The memory counters are the only source an "out of memory" may
 * come from. Their files stay open: they are read at both ends of every command.
 */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/guest/guest.h"

#define CG "/sys/fs/cgroup"

static char self_cgroup[4096]; /* /proc/self/cgroup as it was at the start */
static int oom_fd = -1;

static ssize_t read_file(int fd, char *buf, size_t cap)
{
    ssize_t n = fd < 0 ? -1 : pread(fd, buf, cap - 1, 0);
    if (n >= 0)
        buf[n] = 0;
    return n;
}

/* The decimal number behind word (at the beginning of a line), or at the very start. */
static bool number_after(const char *text, const char *word, uint64_t *out)
{
    const char *p = text;
    size_t n = strlen(word);
    while (n && p && strncmp(p, word, n) != 0) {
        p = strchr(p, '\n');
        p = p ? p + 1 : NULL;
    }
    if (!p)
        return false;
    p += n;
    while (*p == ' ')
        p++;
    if (*p < '0' || *p > '9')
        return false;
    for (*out = 0; *p >= '0' && *p <= '9'; p++)
        *out = *out * 10 + (uint64_t)(*p - '0');
    return true;
}

static bool number_in(int fd, const char *word, uint64_t *out)
{
    char buf[4096];
    return read_file(fd, buf, sizeof buf) > 0 && number_after(buf, word, out);
}

bool guest_stats_number(const char *path, uint64_t *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = number_in(fd, "", out);
    if (fd >= 0)
        close(fd);
    return ok;
}

/*
 * The path of our group in the hierarchy of a controller ("" = v2). Inside a container that
 * path may be the host's and lead nowhere, so callers try the mount itself after it.
 */
static size_t own_path(const char *controller, char *d, size_t cap)
{
    char want[32];
    char *w = guest_put_text(want, want + 1, ":");
    w = guest_put_text(w, want + 24, controller);
    *guest_put_text(w, want + 30, ":") = 0;
    const char *p = strstr(self_cgroup, want);
    if (!p)
        return 0;
    p += strlen(want);
    size_t n = strcspn(p, "\n");
    if (n >= cap)
        return 0;
    memcpy(d, p, n);
    return n;
}

static int open_in(const char *mount, const char *controller, const char *file)
{
    char path[PATH_MAX], *end = path + sizeof path - 1;
    char *base = guest_put_text(path, end, mount);
    char *p = base + own_path(controller, base, (size_t)(end - base) - 64);
    p = guest_put_text(p, end, "/");
    *guest_put_text(p, end, file) = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    p = guest_put_text(base, end, "/");
    *guest_put_text(p, end, file) = 0;
    return open(path, O_RDONLY | O_CLOEXEC);
}

static bool number_of(const char *mount, const char *controller, const char *file,
                      const char *word, uint64_t *out)
{
    int fd = open_in(mount, controller, file);
    bool ok = number_in(fd, word, out);
    if (fd >= 0)
        close(fd);
    return ok;
}

void guest_stats_init(void)
{
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    if (read_file(fd, self_cgroup, sizeof self_cgroup) < 0)
        self_cgroup[0] = 0;
    if (fd >= 0)
        close(fd);
    oom_fd = open_in(CG, "", "memory.events");
    if (oom_fd < 0)
        oom_fd = open_in(CG "/memory", "memory", "memory.oom_control");
}

uint64_t guest_stats_oom_kills(void)
{
    uint64_t n = 0;
    return number_in(oom_fd, "oom_kill ", &n) ? n : 0;
}

uint64_t guest_stats_pids_max(void)
{
    uint64_t n;
    struct rlimit r;
    if (number_of(CG, "", "pids.max", "", &n) ||
        number_of(CG "/pids", "pids", "pids.max", "", &n))
        return n;
    if (getrlimit(RLIMIT_NPROC, &r) == 0 && r.rlim_cur != RLIM_INFINITY)
        return r.rlim_cur;
    return 0;
}

static uint64_t cpu_us(uint64_t ticks)
{
    uint64_t n;
    struct rusage u;
    if (number_of(CG, "", "cpu.stat", "usage_usec ", &n))
        return n;
    if (number_of(CG "/cpuacct", "cpuacct", "cpuacct.usage", "", &n) ||
        number_of(CG "/cpu,cpuacct", "cpu,cpuacct", "cpuacct.usage", "", &n))
        return n / 1000;
    n = ticks * (1000000 / (uint64_t)sysconf(_SC_CLK_TCK));
    if (getrusage(RUSAGE_CHILDREN, &u) == 0)
        n += (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
             (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    return n;
}

void guest_stats_fill(struct gp_stats *s)
{
    uint64_t ticks = 0, pages = 0, v1 = 0;
    memset(s, 0, sizeof *s);
    struct guest_procs ps = guest_proc_scan(NULL);
    for (size_t i = 0; i < ps.n; i++) {
        const struct guest_proc *p = &ps.v[i];
        if (p->top <= 0 || guest_proc_gone(p))
            continue;
        if (!guest_exec_of(p->top))
            g.strays = true;
        s->processes += p->pid != p->top || !guest_exec_of(p->pid);
        ticks += p->ticks;
        pages += p->pages;
    }
    s->execs = guest_exec_live();
    s->cpu_us = cpu_us(ticks);
    if (!number_of(CG, "", "memory.current", "", &s->mem_bytes) &&
        !number_of(CG "/memory", "memory", "memory.usage_in_bytes", "", &s->mem_bytes))
        s->mem_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    /* v1 writes a huge number for "none". */
    if (!number_of(CG, "", "memory.max", "", &s->mem_limit) &&
        number_of(CG "/memory", "memory", "memory.limit_in_bytes", "", &v1) &&
        v1 < (uint64_t)1 << 60)
        s->mem_limit = v1;
}

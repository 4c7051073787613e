/* SPDX-License-Identifier: MIT */
/*
 * One look at /proc: who is there, whose child, and below which child of the guest. Raw
 * getdents and a small parser, because this runs on the kill path: no heap, no fork, and a
 * process table that changes while it is read is the normal case.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/guest/guest.h"

static struct guest_proc table[GUEST_PROCS];

bool guest_proc_gone(const struct guest_proc *p)
{
    return p->state == 'Z' || p->state == 'X' || p->state == 'x';
}

static const char *number(const char *p, const char *end, uint64_t *v)
{
    *v = 0;
    while (p < end && *p == ' ')
        p++;
    while (p < end && *p >= '0' && *p <= '9')
        *v = *v * 10 + (uint64_t)(*p++ - '0');
    return p;
}

static const char *skip(const char *p, const char *end, int fields)
{
    while (fields-- > 0) {
        while (p < end && *p == ' ')
            p++;
        while (p < end && *p != ' ')
            p++;
    }
    return p;
}

/* A name may hold anything, brackets too; after the last bracket there are only numbers. */
static bool parse_stat(const char *buf, size_t n, struct guest_proc *out)
{
    const char *end = buf + n, *p = memrchr(buf, ')', n);
    if (!p || end - p < 5)
        return false;
    uint64_t v, w;
    out->state = p[2];
    p = number(p + 3, end, &v);
    out->ppid = (pid_t)v;
    p = number(skip(p, end, 9), end, &v); /* fields 14 and 15: utime, stime */
    p = number(p, end, &w);
    out->ticks = (uint32_t)(v + w);
    number(skip(p, end, 8), end, &v); /* field 24: rss */
    out->pages = (uint32_t)v;
    return true;
}

static bool read_stat(const char *name, struct guest_proc *out)
{
    char path[32], buf[768];
    char *p = guest_put_text(path, path + 20, name);
    *guest_put_text(p, path + sizeof path - 1, "/stat") = 0;
    int fd = openat(g.proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, buf, sizeof buf);
    close(fd);
    return n > 0 && parse_stat(buf, (size_t)n, out);
}

static struct guest_proc *find(struct guest_procs *ps, pid_t pid)
{
    size_t lo = 0, hi = ps->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (ps->v[mid].pid < pid)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < ps->n && ps->v[lo].pid == pid ? &ps->v[lo] : NULL;
}

/*
 * Climbs to the child of the guest. A parent that is not in the table went away between two
 * reads: the process is then below somebody else, and only another look can say whom.
 */
static void place(struct guest_procs *ps, struct guest_proc *p)
{
    struct guest_proc *q = p;
    pid_t top = -1;
    for (size_t steps = 0; q && steps <= ps->n; steps++) {
        if (q->top != -1)
            top = q->top;
        else if (q->ppid == g.pid)
            top = q->pid;
        else if (q->pid == g.pid || q->ppid == 0)
            top = 0;
        if (top != -1)
            break;
        q = find(ps, q->ppid);
    }
    if (top == -1) {
        ps->whole = false;
        return;
    }
    while (p && p->top == -1) { /* remember it for all that were passed */
        p->top = top;
        p = p == q ? NULL : find(ps, p->ppid);
    }
}

static struct guest_proc *add(struct guest_procs *ps, const char *name)
{
    uint64_t pid;
    if (*name < '0' || *name > '9')
        return NULL;
    number(name, name + strlen(name), &pid);
    if (ps->n == GUEST_PROCS) {
        ps->whole = false;
        return NULL;
    }
    struct guest_proc *p = &ps->v[ps->n];
    *p = (struct guest_proc){.pid = (pid_t)pid, .top = -1};
    /* The kernel lists pids ascending; find() rests on it, so anything else is left out. */
    if ((ps->n && ps->v[ps->n - 1].pid >= p->pid) || !read_stat(name, p))
        return NULL;
    ps->n++;
    return p;
}

struct guest_procs guest_proc_scan(void (*seen)(const struct guest_proc *p))
{
    static char buf[8192] __attribute__((aligned(8)));
    struct guest_procs ps = {.v = NULL, .n = 0, .whole = true};
    if (g.proc < 0 || lseek(g.proc, 0, SEEK_SET) < 0)
        return ps;
    ps.v = table;
    long n;
    while ((n = syscall(SYS_getdents64, g.proc, buf, sizeof buf)) > 0)
        for (long at = 0; at < n;) {
            struct dirent64 *d = (void *)(buf + at);
            struct guest_proc *p = add(&ps, d->d_name);
            if (p && seen && !guest_proc_gone(p))
                seen(p);
            at += d->d_reclen;
        }
    if (n < 0 || ps.n == 0)
        return (struct guest_procs){.v = NULL};
    for (size_t i = 0; i < ps.n; i++)
        place(&ps, &ps.v[i]);
    return ps;
}

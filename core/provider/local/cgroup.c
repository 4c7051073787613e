/* SPDX-License-Identifier: MIT */
/*
 * One sandbox's cgroups: made below the server's own, limits set, joined by the child
 * before it executes anything, read back after start, emptied and removed at the end. v1,
 * v2 and a systemd scope differ in file names only; where the folders lie is
 * cgroup_find.c's work.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "core/provider/local/local.h"

enum { CPU_PERIOD_US = 100000, CPU_QUOTA_MIN_US = 1000 };
static const char *const ctl_names[LOCAL_CTL_COUNT] = {"memory", "pids", "cpu"};

static bool put(const char *dir, const char *file, const char *text)
{
    bg_autofree char *path = bg_path_join(dir, file);
    bg_autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
    size_t n = strlen(text);

    return fd >= 0 && write(fd, text, n) == (ssize_t)n;
}

static bool get(const char *dir, const char *file, char *out, size_t size)
{
    bg_autofree char *path = bg_path_join(dir, file);
    bg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;

    if (n < 0)
        return false;
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return true;
}

int64_t local_pids_limit(const struct bg_limits *l)
{
    /* The guest, one supervisor per managed process, one for the call, bwrap's monitor. */
    return l->pids == BG_UNLIMITED ? BG_UNLIMITED : l->pids + l->max_processes + 3;
}

static int64_t cpu_quota(const struct bg_limits *l)
{
    int64_t us = l->cpus_milli * (CPU_PERIOD_US / 1000);

    return us < CPU_QUOTA_MIN_US ? CPU_QUOTA_MIN_US : us;
}

static bool set_memory(const struct local_cgroup *g, bool memsw, int64_t mb)
{
    char bytes[32];

    if (mb == BG_UNLIMITED)
        return true;
    snprintf(bytes, sizeof bytes, "%" PRId64, mb << 20);
    if (g->mode == LOCAL_CG_V2)
        return put(g->dir[LOCAL_CTL_MEMORY], "memory.max", bytes) &&
               (put(g->dir[LOCAL_CTL_MEMORY], "memory.swap.max", "0") || errno == ENOENT);
    if (!put(g->dir[LOCAL_CTL_MEMORY], "memory.limit_in_bytes", bytes))
        return false;
    /* memory + swap = memory. Without swap accounting, don't swap what is in here. */
    return memsw ? put(g->dir[LOCAL_CTL_MEMORY], "memory.memsw.limit_in_bytes", bytes)
                 : put(g->dir[LOCAL_CTL_MEMORY], "memory.swappiness", "0");
}

static bool set_pids(const struct local_cgroup *g, const struct bg_limits *l)
{
    char n[32];

    if (l->pids == BG_UNLIMITED)
        return true;
    snprintf(n, sizeof n, "%" PRId64, local_pids_limit(l));
    return put(g->dir[LOCAL_CTL_PIDS], "pids.max", n);
}

static bool set_cpu(const struct local_cgroup *g, const struct bg_limits *l)
{
    char text[64];

    if (l->cpus_milli == BG_UNLIMITED)
        return true;
    if (g->mode == LOCAL_CG_V2) {
        snprintf(text, sizeof text, "%" PRId64 " %d", cpu_quota(l), CPU_PERIOD_US);
        return put(g->dir[LOCAL_CTL_CPU], "cpu.max", text);
    }
    snprintf(text, sizeof text, "%" PRId64, cpu_quota(l));
    return put(g->dir[LOCAL_CTL_CPU], "cpu.cfs_quota_us", text);
}

static bool set_limit(const struct local_cgroup *g, enum local_ctl c, bool memsw,
                      const struct bg_limits *l)
{
    switch (c) {
    case LOCAL_CTL_MEMORY:
        return set_memory(g, memsw, l->memory_mb);
    case LOCAL_CTL_PIDS:
        return set_pids(g, l);
    case LOCAL_CTL_CPU:
        return set_cpu(g, l);
    case LOCAL_CTL_COUNT:
        break;
    }
    return false;
}

/* v2 has one folder for all three. */
static bool first_of(const struct local_cgroup *g, size_t i)
{
    return g->dir[i] && (g->mode == LOCAL_CG_V1 || i == 0);
}

bool local_cgroup_make(struct local_cgroup *g, const struct local_cgroups *c,
                       const char *name, const struct bg_limits *l, struct bg_error *err)
{
    *g = (struct local_cgroup){.mode = c->mode};
    if (c->mode != LOCAL_CG_V1 && c->mode != LOCAL_CG_V2)
        return true;
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++) {
        if (!c->base[i])
            continue;
        g->dir[i] = bg_path_join(c->base[i], name);
        if (first_of(g, i) && mkdir(g->dir[i], 0755) != 0) {
            bg_fail(err, BG_ERR_UNAVAILABLE, errno, "making the %s cgroup", ctl_names[i]);
            free(g->dir[i]);
            g->dir[i] = NULL; /* not ours: must not be removed */
            goto fail;
        }
        if (!set_limit(g, (enum local_ctl)i, c->memsw, l)) {
            bg_fail(err, BG_ERR_UNAVAILABLE, errno, "setting the %s limit", ctl_names[i]);
            goto fail;
        }
    }
    return true;
fail:
    if (!local_cgroup_remove(g))
        bg_error_prefix(err, "half-made cgroup left");
    local_cgroup_clear(g);
    return false;
}

bool local_cgroup_join_fds(const struct local_cgroup *g, int fds[LOCAL_CTL_COUNT],
                           size_t *n, struct bg_error *err)
{
    /* v1: "0" to `tasks` moves one thread and needs no machine-wide lock; cgroup.procs
     * takes it and stalls for 5 to 17 ms now and then (seen). The joiner has one thread
     * anyway. */
    const char *file = g->mode == LOCAL_CG_V1 ? "tasks" : "cgroup.procs";

    *n = 0;
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++) {
        if (g->mode == LOCAL_CG_SCOPE || !first_of(g, i))
            continue;
        bg_autofree char *path = bg_path_join(g->dir[i], file);
        fds[*n] = open(path, O_WRONLY | O_CLOEXEC);
        if (fds[*n] < 0) {
            bg_fail(err, BG_ERR_UNAVAILABLE, errno, "opening the %s cgroup", ctl_names[i]);
            while (*n > 0)
                close(fds[--*n]);
            return false;
        }
        ++*n;
    }
    return true;
}

void local_cgroup_adopt(struct local_cgroup *g, const struct local_cgroups *c, pid_t pid)
{
    char proc[48], line[512];

    snprintf(proc, sizeof proc, "/proc/%d", (int)pid);
    if (g->mode != LOCAL_CG_SCOPE || !get(proc, "cgroup", line, sizeof line) ||
        strncmp(line, "0::/", 4) != 0 || !strstr(line, LOCAL_GROUP_PREFIX))
        return;
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++) {
        free(g->dir[i]);
        g->dir[i] = bg_path_join(c->base[i], line + 4);
    }
}

static bool joined(const struct local_cgroup *g, enum local_ctl c, pid_t pid)
{
    bg_autofree char *path = bg_path_join(g->dir[c], "cgroup.procs");
    FILE *f = fopen(path, "re");
    char line[32];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        found = strtol(line, NULL, 10) == pid;
    if (f)
        fclose(f);
    return found;
}

static bool in_force(const struct local_cgroup *g, enum local_ctl c,
                     const struct bg_limits *l)
{
    bool v1 = g->mode == LOCAL_CG_V1;
    char text[64];

    switch (c) {
    case LOCAL_CTL_MEMORY:
        /* The kernel rounds to pages; a MiB is a multiple of every page size. */
        return get(g->dir[c], v1 ? "memory.limit_in_bytes" : "memory.max", text,
                   sizeof text) &&
               strtoll(text, NULL, 10) == l->memory_mb << 20;
    case LOCAL_CTL_PIDS:
        return get(g->dir[c], "pids.max", text, sizeof text) &&
               strtoll(text, NULL, 10) == local_pids_limit(l);
    case LOCAL_CTL_CPU:
        return get(g->dir[c], v1 ? "cpu.cfs_quota_us" : "cpu.max", text, sizeof text) &&
               text[0] >= '0' && text[0] <= '9' &&
               strtoll(text, NULL, 10) <= cpu_quota(l) + CPU_QUOTA_MIN_US;
    case LOCAL_CTL_COUNT:
        break;
    }
    return false;
}

void local_cgroup_check(const struct local_cgroup *g, const struct bg_limits *l, pid_t pid,
                        char ***not_enforced)
{
    const int64_t asked[LOCAL_CTL_COUNT] = {l->memory_mb, l->pids, l->cpus_milli};

    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++) {
        if (asked[i] == BG_UNLIMITED)
            continue;
        if (!g->dir[i] || !joined(g, (enum local_ctl)i, pid) ||
            !in_force(g, (enum local_ctl)i, l))
            bg_strv_push(not_enforced, ctl_names[i]);
    }
}

bool local_cgroup_oom(const struct local_cgroup *g, uint64_t *count)
{
    bool v1 = g->mode == LOCAL_CG_V1;
    char line[128];
    bool found = false;
    FILE *f;

    if (!g->dir[LOCAL_CTL_MEMORY])
        return false;
    bg_autofree char *path =
        bg_path_join(g->dir[LOCAL_CTL_MEMORY], v1 ? "memory.oom_control" : "memory.events");
    f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "oom_kill ", 9) == 0) {
            *count = strtoull(line + 9, NULL, 10);
            found = true;
        }
    }
    if (f)
        fclose(f);
    return found;
}

bool local_cgroup_memory(const struct local_cgroup *g, uint64_t *bytes)
{
    bool v1 = g->mode == LOCAL_CG_V1;
    char text[32];

    if (!g->dir[LOCAL_CTL_MEMORY] ||
        !get(g->dir[LOCAL_CTL_MEMORY], v1 ? "memory.usage_in_bytes" : "memory.current",
             text, sizeof text))
        return false;
    *bytes = strtoull(text, NULL, 10);
    return true;
}

static size_t kill_listed(const char *dir)
{
    bg_autofree char *path = bg_path_join(dir, "cgroup.procs");
    FILE *f = fopen(path, "re");
    char line[32];
    size_t n = 0;

    while (f && fgets(line, sizeof line, f)) {
        long pid = strtol(line, NULL, 10);
        if (pid <= 1 || pid == getpid()) /* 0: a process of another pid namespace */
            continue;
        n++;
        kill((pid_t)pid, SIGKILL);
    }
    if (f)
        fclose(f);
    return n;
}

size_t local_cgroup_kill(const struct local_cgroup *g)
{
    size_t most = 0;

    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++) {
        size_t n;
        if (!first_of(g, i))
            continue;
        if (g->mode != LOCAL_CG_V1)
            put(g->dir[i], "cgroup.kill", "1"); /* Linux 5.14; the loop below does it too */
        n = kill_listed(g->dir[i]);
        most = n > most ? n : most;
    }
    return most;
}

bool local_cgroup_remove(const struct local_cgroup *g)
{
    bool gone = true;

    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        if (g->mode != LOCAL_CG_SCOPE && first_of(g, i) && rmdir(g->dir[i]) != 0 &&
            errno != ENOENT)
            gone = false;
    return gone;
}

void local_cgroup_clear(struct local_cgroup *g)
{
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        free(g->dir[i]);
    *g = (struct local_cgroup){0};
}

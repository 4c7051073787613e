/* SPDX-License-Identifier: MIT */
/*
 * The kernel's word about a container's first process, where its pid is ours to see: an
 * engine may say one thing and a runtime do another (a rootless Podman without cgroups
 * accepts every limit and holds none).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "core/provider/container/container.h"
#include "core/provider/local/local.h"

enum { STATUS_MAX = 16384 };

static bool status_of(pid_t pid, struct bg_buf *b)
{
    char path[48];

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    bg_buf_init(b, STATUS_MAX);
    return bg_read_file(path, STATUS_MAX, false, b, NULL);
}

static bool field(const char *status, const char *name, int base, uint64_t *v)
{
    const char *p = strstr(status, name);

    if (!p)
        return false;
    *v = strtoull(p + strlen(name), NULL, base);
    return true;
}

const char *container_proc_mismatch(pid_t pid, const struct bg_spec *spec, bool rootless)
{
    bg_autobuf struct bg_buf b;
    size_t digits = strspn(spec->user, "0123456789");
    bool number = digits > 0 && (!spec->user[digits] || spec->user[digits] == ':');
    uint64_t v;

    if (!status_of(pid, &b))
        return "first process";
    if (field(b.data, "\nCapBnd:\t", 16, &v) && v != 0)
        for (char **c = spec->drop_capabilities; c && *c; c++)
            if (strcmp(*c, "ALL") == 0)
                return "capabilities";
    if (spec->no_new_privileges && field(b.data, "\nNoNewPrivs:\t", 10, &v) && v != 1)
        return "no-new-privileges";
    /* In a user namespace its number is another one. */
    if (!rootless && number && field(b.data, "\nUid:\t", 10, &v) &&
        v != strtoull(spec->user, NULL, 10) && v < 65536)
        return "user";
    /* A name from the image's own list of users may stand for root, and begin with 0. */
    if (!rootless && !number && field(b.data, "\nUid:\t", 10, &v) && v == 0)
        return "user";
    return NULL;
}

static bool known(char *const *v, const char *name)
{
    for (; v && *v; v++)
        if (strcmp(*v, name) == 0)
            return true;
    return false;
}

void container_proc_limits(pid_t pid, const struct bg_limits *l, char ***not_enforced)
{
    struct bg_limits mine = *l;
    struct local_cgroup g;
    char **missing = NULL;

    mine.max_processes--; /* no monitor of bubblewrap's in there */
    if (local_cgroup_of(&g, pid))
        local_cgroup_check(&g, &mine, pid, &missing);
    for (char **m = missing; m && *m; m++)
        if (!known(*not_enforced, *m))
            bg_strv_push(not_enforced, *m);
    bg_strv_free(missing);
    local_cgroup_clear(&g);
}

/* SPDX-License-Identifier: MIT */
/* For tests with real local sandboxes: what box.h needs, and what is left on the machine.
 */
#pragma once

#include "core/provider/local/local.h"
#include "tests/unit/provider/box.h"

enum {
    BOX_CREATE_MS = 800, /* a sandbox is up and a short command over by then */
    BOX_MANY = 50,       /* at once */
    BOX_TIMES = 21,
    BOX_FDS_KEPT = 0, /* by whatever is kept open between sandboxes */
};

static inline void box_open(struct box_env *e)
{
    box_begin(e, &bg_provider_local);
    box_provider(e);
}

/* Link folders, cgroups, records and uid locks with this instance's mark. */
static inline size_t box_traces(const struct box_env *e)
{
    const struct local *p = (const struct local *)e->provider;
    bg_autofree char *mark = bg_xstrndup(e->instance, LOCAL_ID_LEN);
    size_t n = box_count_named(p->record_dir, "") > 2 ? 1 : 0; /* "." and ".." */

    n += box_count_named(p->host.root ? "/run" : "/nonexistent", mark);
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        if (p->cgs.base[i])
            n += box_count_named(p->cgs.base[i], mark);
    if (!p->host.root && box_count_named(p->link_parent, "") > 2)
        n++;
    return n;
}

/* Processes of this instance's sandboxes: as root by their cgroup, as a user bwrap's
 * monitors by the link folder in their command line. */
static inline size_t box_processes(const struct box_env *e)
{
    const struct local *p = (const struct local *)e->provider;
    bg_autofree char *mark = bg_xstrndup(e->instance, LOCAL_ID_LEN);
    bool grouped = p->cgs.base[LOCAL_CTL_MEMORY] != NULL;
    DIR *d = opendir("/proc");
    struct dirent *ent;
    size_t n = 0;

    while (d && (ent = readdir(d)))
        if (ent->d_name[0] >= '0' && ent->d_name[0] <= '9')
            n += box_file_holds(ent->d_name, grouped ? "cgroup" : "cmdline",
                                p->host.root ? mark : p->link_parent);
    if (d)
        closedir(d);
    return n;
}

/* Records of live sandboxes. */
static inline size_t box_live(const struct box_env *e)
{
    return box_count_named(((const struct local *)e->provider)->record_dir, "") - 2;
}

/* As if from outside. */
static inline void box_kill(const struct box_env *e, struct bg_sandbox *sb)
{
    (void)e;
    kill(((struct local_sandbox *)sb)->record.child, SIGKILL);
}

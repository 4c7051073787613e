/* SPDX-License-Identifier: MIT */
/*
 * What a dead server left: by its records, then by cgroups and link folders that carry the
 * instance in their names. Of other instances nothing that still runs is touched, and even
 * their empty leftovers only when asked (`--foreign`).
 */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/provider/local/local.h"

static bool is_live(const struct local_sweep *s, const char *name)
{
    for (char *const *l = s->live; l && *l; l++)
        if (strstr(name, *l))
            return true;
    return false;
}

BG_PRINTF(2, 3) static void note(struct local_sweep *s, const char *fmt, ...)
{
    char line[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    bg_strv_push(&s->names, line);
}

/* "PREFIX<instance>-<ref>": ours, another's, or nothing of boxgate's at all. */
enum owner { OWNER_NONE, OWNER_SELF, OWNER_OTHER };
static enum owner owner_of(const struct local_sweep *s, const char *prefix,
                           const char *name)
{
    size_t n = strlen(prefix), i = strnlen(s->instance, LOCAL_ID_LEN);

    if (strncmp(name, prefix, n) != 0)
        return OWNER_NONE;
    if (strncmp(name + n, s->instance, i) == 0 && name[n + i] == '-')
        return OWNER_SELF;
    /* Another instance's name has the same shape: hex, a dash, hex. */
    i = strspn(name + n, "0123456789abcdef");
    if (i < 8 || name[n + i] != '-' || name[n + i + 1] == '\0')
        return OWNER_NONE;
    return OWNER_OTHER;
}

static struct local_cgroup group_named(const struct local_sweep *s, const char *name)
{
    struct local_cgroup g = {.mode = s->cgs->mode};

    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        if (s->cgs->base[i] && g.mode != LOCAL_CG_SCOPE)
            g.dir[i] = bg_path_join(s->cgs->base[i], name);
    return g;
}

/* Where the record says it lies; a group that is not ours by name is left alone. v1 and v2
 * differ here by how many folders there are: three, or one three times. */
static struct local_cgroup group_of(const struct local_sweep *s,
                                    const struct local_record *r)
{
    bool one = r->dirs[0] && r->dirs[1] && strcmp(r->dirs[0], r->dirs[1]) == 0;
    struct local_cgroup g = {.mode = one ? LOCAL_CG_V2 : LOCAL_CG_V1};

    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        if (r->dirs[i] && owner_of(s, LOCAL_GROUP_PREFIX, r->group) == OWNER_SELF)
            g.dir[i] = bg_xstrdup(r->dirs[i]);
    return g;
}

static void pause_ms(long ms)
{
    struct timespec t = {.tv_nsec = ms * 1000000};

    nanosleep(&t, NULL);
}

/* Kills in rounds until the group is empty and gone, or time is up. */
static bool end_group(struct local_cgroup *g, int64_t until)
{
    for (;;) {
        size_t left = local_cgroup_kill(g);
        if (left == 0 && local_cgroup_remove(g))
            return true;
        if (bg_mono_ms() > until)
            return false;
        pause_ms(2);
    }
}

/* Only what we can have made: PREFIX... directly below the parent, a directory, ours. */
static void remove_link(const struct local_sweep *s, const char *link)
{
    size_t n = strlen(s->link_parent);
    struct stat st;

    if (strncmp(link, s->link_parent, n) != 0 || link[n] != '/' ||
        strchr(link + n + 1, '/') || lstat(link, &st) != 0 || !S_ISDIR(st.st_mode) ||
        st.st_uid != geteuid())
        return;
    if (!bg_rm_rf(link, &(struct bg_error){0}))
        errno = 0; /* what is left shows at the next sweep */
}

static void sweep_record(struct local_sweep *s, const char *ref)
{
    int64_t until = bg_mono_ms() + BG_LOCAL_SWEEP_MS;
    struct local_record r;
    struct local_cgroup g;
    struct bg_error err;
    bool ended;

    if (!local_record_read(s->record_dir, ref, &r, &err)) {
        note(s, "unreadable record %s removed", ref);
        if (!s->dry_run)
            local_record_remove(s->record_dir, ref);
        return;
    }
    note(s, "sandbox %s", ref);
    if (!s->dry_run) {
        /* The child is PID 1 of the sandbox: everything in it dies with it. */
        local_kill_exact(r.child, r.child_start, SIGKILL);
        if (r.monitor_start && local_start_time(r.monitor) == r.monitor_start)
            local_kill_children(r.monitor);
        local_kill_exact(r.monitor, r.monitor_start, SIGKILL);
        local_kill_session(r.monitor, r.monitor_start);
        while (local_start_time(r.child) == r.child_start && r.child_start &&
               bg_mono_ms() < until)
            pause_ms(2);
        g = group_of(s, &r);
        ended = end_group(&g, until);
        local_cgroup_clear(&g);
        remove_link(s, r.link);
        if (ended)
            local_record_remove(s->record_dir, ref);
        else
            note(s, "cgroup %s could not be emptied; the next sweep tries again", r.group);
    }
    local_record_clear(&r);
}

static bool held(char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

/* Names in dir, each once, without those of live sandboxes. */
static void list(const struct local_sweep *s, const char *dir, char ***names)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' && !is_live(s, e->d_name) && !held(*names, e->d_name))
            bg_strv_push(names, e->d_name);
    if (d)
        closedir(d);
}

static void one_record(struct local_sweep *s, const char *name)
{
    if (bg_id_valid(name))
        sweep_record(s, name);
}

static bool group_empty(const struct local_cgroup *g)
{
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++) {
        char line[8];
        if (!g->dir[i])
            continue;
        bg_autofree char *path = bg_path_join(g->dir[i], "cgroup.procs");
        FILE *f = fopen(path, "re");
        bool some = f && fgets(line, sizeof line, f);
        if (f)
            fclose(f);
        if (some)
            return false;
    }
    return true;
}

static void one_group(struct local_sweep *s, const char *name)
{
    enum owner o = owner_of(s, LOCAL_GROUP_PREFIX, name);
    struct local_cgroup g;
    bool empty;

    if (o == OWNER_NONE || (o == OWNER_OTHER && !s->foreign))
        return;
    g = group_named(s, name);
    empty = group_empty(&g);
    if (o == OWNER_SELF)
        note(s, "cgroup %s", name);
    else
        note(s, "another instance's cgroup %s%s", name, empty ? "" : " (in use, left)");
    if (!s->dry_run && (o == OWNER_SELF || empty) &&
        !end_group(&g, bg_mono_ms() + BG_LOCAL_SWEEP_MS))
        note(s, "cgroup %s could not be emptied", name);
    local_cgroup_clear(&g);
}

/* A listening socket shows in /proc/net/unix by its path. */
static bool link_in_use(const char *link)
{
    FILE *f = fopen("/proc/net/unix", "re");
    char line[512];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        found = strstr(line, link) != NULL;
    if (f)
        fclose(f);
    return found || !f;
}

/* The sandbox that the folder belongs to may live without its server. */
static bool group_runs(const struct local_sweep *s, const char *link)
{
    bg_autofree char *name =
        bg_xasprintf(LOCAL_GROUP_PREFIX "%s", link + strlen(LOCAL_LINK_PREFIX));
    struct local_cgroup g = group_named(s, name);
    bool runs = !group_empty(&g);

    local_cgroup_clear(&g);
    return runs;
}

static void one_link(struct local_sweep *s, const char *name)
{
    enum owner o = s->link_private ? OWNER_SELF : owner_of(s, LOCAL_LINK_PREFIX, name);
    bg_autofree char *path = bg_path_join(s->link_parent, name);
    bool used;
    if (o == OWNER_NONE || (o == OWNER_OTHER && !s->foreign))
        return;
    used = o == OWNER_OTHER && (link_in_use(path) || group_runs(s, name));
    if (o == OWNER_SELF)
        note(s, "link folder %s", path);
    else
        note(s, "another instance's link folder %s%s", path, used ? " (in use, left)" : "");
    if (!s->dry_run && !used)
        remove_link(s, path);
}

/* What another living process is making or using stays, whatever its name. */
static void spare(struct local_sweep *s, const char *ref)
{
    struct local_record r;
    struct bg_error err;

    if (!local_record_read(s->record_dir, ref, &r, &err))
        return;
    if (r.maker > 0 && r.maker != getpid() && r.maker_start &&
        local_start_time(r.maker) == r.maker_start)
        bg_strv_push(&s->live, ref);
    local_record_clear(&r);
}

void local_sweep_list(struct local_sweep *s)
{
    bool groups = s->cgs->mode == LOCAL_CG_V1 || s->cgs->mode == LOCAL_CG_V2;
    char **all = NULL;

    list(s, s->record_dir, &all);
    for (char **ref = all; ref && *ref; ref++)
        spare(s, *ref);
    bg_strv_free(all);
    list(s, s->record_dir, &s->records);
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        if (groups && s->cgs->base[i] && (i == 0 || s->cgs->mode == LOCAL_CG_V1))
            list(s, s->cgs->base[i], &s->groups);
    list(s, s->link_parent, &s->links);
}

void local_sweep_run(struct local_sweep *s)
{
    for (char **n = s->records; n && *n; n++)
        one_record(s, *n);
    for (char **n = s->groups; n && *n; n++)
        one_group(s, *n);
    for (char **n = s->links; n && *n; n++)
        one_link(s, *n);
}

void local_sweep_clear(struct local_sweep *s)
{
    bg_strv_free(s->records);
    bg_strv_free(s->groups);
    bg_strv_free(s->links);
    bg_strv_free(s->live);
    bg_strv_free(s->names);
}

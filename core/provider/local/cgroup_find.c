/* SPDX-License-Identifier: MIT */
/*
 * Where sandboxes' cgroups can be made. v1: below the server's own path of each controller.
 * v2 as root: below the nearest folder that can give memory, pids and cpu to its children
 * (the server steps aside into a leaf when it is alone in its folder). v2 as a user: a
 * systemd scope. Else nothing, and the limits are reported as not enforced.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "core/provider/local/local.h"

static const char *const ctl_names[LOCAL_CTL_COUNT] = {"memory", "pids", "cpu"};

/* True if the comma-separated list holds the word. */
static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ", \n");
        if (len == n && memcmp(p, word, n) == 0)
            return true;
        p += len + (p[len] != '\0');
    }
    return false;
}

/* A process's path in a v1 hierarchy (ctl) or in v2 (NULL), from /proc/PROC/cgroup. */
static char *path_in(const char *root_dir, const char *proc, const char *ctl)
{
    bg_autofree char *file = bg_xasprintf("%s/proc/%s/cgroup", root_dir, proc);
    FILE *f = fopen(file, "re");
    char line[1024];
    char *found = NULL;

    while (f && !found && fgets(line, sizeof line, f)) {
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        list++;
        path[strcspn(path, "\n")] = '\0';
        if (ctl ? listed(list, ctl) : *list == '\0')
            found = bg_xstrdup(path);
    }
    if (f)
        fclose(f);
    return found;
}

/* Mount point of a v1 controller or of v2, with what of the hierarchy is mounted there:
 * "ID PARENT MAJ:MIN ROOT POINT OPTIONS ... - TYPE SOURCE SUPER". */
static bool mount_of(const char *root_dir, const char *ctl, char root[512], char point[512])
{
    bg_autofree char *file = bg_xasprintf("%s/proc/self/mountinfo", root_dir);
    FILE *f = fopen(file, "re");
    char line[2048];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f)) {
        const char *tail = strstr(line, " - ");
        char type[32], super[512];
        if (!tail || sscanf(line, "%*s %*s %*s %511s %511s", root, point) != 2 ||
            sscanf(tail + 3, "%31s %*s %511s", type, super) != 2)
            continue;
        found = ctl ? strcmp(type, "cgroup") == 0 && listed(super, ctl)
                    : strcmp(type, "cgroup2") == 0;
    }
    if (f)
        fclose(f);
    return found;
}

/* Joins mount point and path; NULL when the path lies outside of what is mounted. */
static char *folder_of(const char *root_dir, const char *proc, const char *ctl)
{
    char root[512], point[512];
    bg_autofree char *own = path_in(root_dir, proc, ctl);
    const char *rel = own;
    size_t n;

    if (!own || !mount_of(root_dir, ctl, root, point) || strstr(own, ".."))
        return NULL;
    n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (n > 0) {
        if (strncmp(own, root, n) != 0)
            return NULL;
        rel = own + n;
    }
    return bg_xasprintf("%s%s%s", root_dir, point, strcmp(rel, "/") == 0 ? "" : rel);
}

static void find_v1(struct local_cgroups *c, const char *root_dir)
{
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++) {
        char *dir = folder_of(root_dir, "self", ctl_names[i]);
        if (dir && access(dir, W_OK) == 0) {
            c->base[i] = dir;
            c->mode = LOCAL_CG_V1;
        } else {
            free(dir);
        }
    }
    if (c->base[LOCAL_CTL_MEMORY]) {
        bg_autofree char *memsw =
            bg_path_join(c->base[LOCAL_CTL_MEMORY], "memory.memsw.limit_in_bytes");
        c->memsw = access(memsw, F_OK) == 0;
    }
}

static bool write_in(const char *dir, const char *name, const char *text)
{
    bg_autofree char *path = bg_path_join(dir, name);
    bg_autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);

    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool gives_all(const char *dir)
{
    bg_autofree char *path = bg_path_join(dir, "cgroup.subtree_control");
    char text[256];
    bg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

    if (n < 0)
        return false;
    text[n] = '\0';
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        if (!listed(text, ctl_names[i]))
            return false;
    return true;
}

static bool enable_all(const char *dir)
{
    if (gives_all(dir))
        return true;
    return write_in(dir, "cgroup.subtree_control", "+memory +pids +cpu") && gives_all(dir);
}

static bool alone_in(const char *dir)
{
    bg_autofree char *path = bg_path_join(dir, "cgroup.procs");
    FILE *f = fopen(path, "re");
    char line[32];
    bool self = false, other = false;

    while (f && fgets(line, sizeof line, f)) {
        bool me = strtol(line, NULL, 10) == getpid();
        self |= me;
        other |= !me;
    }
    if (f)
        fclose(f);
    return self && !other;
}

/* A folder with processes can't give controllers to children: step into a leaf. */
static void step_aside(const char *dir)
{
    bg_autofree char *leaf = bg_path_join(dir, "boxgate-server");

    if (alone_in(dir) && (mkdir(leaf, 0755) == 0 || errno == EEXIST))
        write_in(leaf, "cgroup.procs", "0");
}

static void find_v2(struct local_cgroups *c, const char *root_dir)
{
    char root[512], point[512];
    bg_autofree char *dir = folder_of(root_dir, "self", NULL);
    size_t top;

    if (!dir || !mount_of(root_dir, NULL, root, point))
        return;
    top = strlen(root_dir) + strlen(point);
    step_aside(dir);
    while (!enable_all(dir)) {
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= top || !slash)
            return;
        *slash = '\0';
    }
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        c->base[i] = bg_xstrdup(dir);
    c->mode = LOCAL_CG_V2;
}

static void find_scope(struct local_cgroups *c, const char *root_dir)
{
    char root[512], point[512];

    if (!mount_of(root_dir, NULL, root, point))
        return;
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        c->base[i] = bg_xasprintf("%s%s", root_dir, point);
    c->mode = LOCAL_CG_SCOPE;
}

void local_cgroups_find(struct local_cgroups *c, const struct local_host *h,
                        const char *root_dir)
{
    *c = (struct local_cgroups){.mode = LOCAL_CG_NONE};
    find_v1(c, root_dir);
    if (c->mode != LOCAL_CG_NONE)
        return;
    if (h->root)
        find_v2(c, root_dir);
    else if (h->systemd_run)
        find_scope(c, root_dir);
}

void local_cgroups_clear(struct local_cgroups *c)
{
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        free(c->base[i]);
    *c = (struct local_cgroups){0};
}

bool local_cgroup_of(struct local_cgroup *g, pid_t pid)
{
    char proc[24];

    *g = (struct local_cgroup){.mode = LOCAL_CG_V1};
    snprintf(proc, sizeof proc, "%d", (int)pid);
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        g->dir[i] = folder_of("", proc, ctl_names[i]);
    if (g->dir[LOCAL_CTL_MEMORY] || g->dir[LOCAL_CTL_PIDS] || g->dir[LOCAL_CTL_CPU])
        return true;
    g->mode = LOCAL_CG_V2;
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        g->dir[i] = folder_of("", proc, NULL);
    return g->dir[0] != NULL;
}

/* SPDX-License-Identifier: MIT */
/*
 * From a spec to the body of a create call, and from an inspect back: is that the container
 * that was asked for? Pure.
 *
 * Seen: Docker's own default for a tmpfs is noexec, root's and unbounded, so everything is
 * written out. Podman 4 knows no uid and gid of a tmpfs, so there the folder is everybody's
 * (there is one user in the sandbox), and it would copy what the image has in that place
 * unless told not to. With a read-only root it adds /run and /var/tmp, unbounded, unless
 * they are given a size.
 */
#include <ctype.h>
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/provider/container/container.h"

enum { NAME_FOLDED = 30, NAME_HASH = 4, MODE_SHARED = 01777, PODMAN_EXTRA_MB = 1 };
static const char *const podman_extra[] = {"/run", "/var/tmp"};

const char *container_arch(void)
{
#if defined(__x86_64__)
    return "amd64";
#elif defined(__aarch64__)
    return "arm64";
#elif defined(__i386__)
    return "386";
#elif defined(__arm__)
    return "arm";
#elif defined(__riscv) && __riscv_xlen == 64
    return "riscv64";
#elif defined(__powerpc64__)
    return "ppc64le";
#elif defined(__s390x__)
    return "s390x";
#else
    return "";
#endif
}

char *container_name(const char *instance, const char *id)
{
    struct bg_hasher *h = bg_hasher_new();
    struct bg_sha256 sum;
    char folded[NAME_FOLDED + 1], hex[2 * NAME_HASH + 1];
    size_t n = 0;

    bg_hasher_field(h, "instance", instance, strlen(instance));
    bg_hasher_field(h, "id", id, strlen(id));
    sum = bg_hasher_end(h);
    bg_hex(sum.b, NAME_HASH, hex);
    for (; n < NAME_FOLDED && id[n]; n++)
        folded[n] = (char)tolower((unsigned char)id[n]);
    folded[n] = '\0';
    return bg_xasprintf("boxgate-%s-%s", folded, hex);
}

bool container_is_copy(const struct bg_container_row *r)
{
    const char *given = bg_container_row_label(r, LABEL_NAME);

    return given ? strcmp(given, r->name) != 0 : strncmp(r->name, "boxgate-", 8) != 0;
}

/* ---- what can be asked ---- */

static bool below(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static bool target_free(const char *path)
{
    static const char *const taken[] = {"/proc", "/sys", "/dev", "/.boxgate"};
    bg_autofree char *padded = bg_xasprintf("%s/", path);

    if (path[0] != '/' || path[1] == '\0' || strstr(path, "//") || strstr(padded, "/../") ||
        strstr(padded, "/./") || path[strlen(path) - 1] == '/')
        return false;
    for (size_t i = 0; i < bg_countof(taken); i++)
        if (below(path, taken[i]))
            return false;
    return true;
}

static bool targets_free(const struct bg_spec *s, struct bg_error *err)
{
    if (!target_free(s->workdir) || strcmp(s->workdir, "/tmp") == 0)
        return bg_fail(err, BG_ERR_PATH, 0, "workdir %s can't be used in a container",
                       s->workdir);
    for (size_t i = 0; i < s->n_mounts; i++) {
        const char *to = s->mounts[i].container;
        if (!target_free(to) || strcmp(to, s->workdir) == 0 || strcmp(to, "/tmp") == 0)
            return bg_fail(err, BG_ERR_PATH, 0, "nothing can be mounted at %s", to);
    }
    return true;
}

bool container_spec_possible(const struct bg_spec *s, struct bg_error *err)
{
    if (s->storage != BG_STORAGE_MEMORY || s->workspace_persistent)
        return bg_fail(err, BG_ERR_UNSUPPORTED, 0,
                       "workspace storage `volume` is not supported yet: use `memory`");
    return targets_free(s, err);
}

/* "0", "0:0", "root", "root:root", "" */
static bool is_root(const char *user)
{
    size_t n = strcspn(user, ":");

    return n == 0 || (n == 4 && memcmp(user, "root", 4) == 0) || strspn(user, "0") == n;
}

char *container_user(const char *asked, const char *image_user)
{
    if (*asked)
        return bg_xstrdup(is_root(asked) ? "0:0" : asked);
    return bg_xstrdup(is_root(image_user) ? BG_USER_DEFAULT : image_user);
}

int64_t container_pids_limit(const struct bg_limits *l)
{
    /* The guest, one supervisor per managed process, one for the call. */
    return l->pids == BG_UNLIMITED ? BG_UNLIMITED : l->pids + l->max_processes + 2;
}

/* ---- the body ---- */

static void push_str(cJSON *a, const char *s)
{
    cJSON_AddItemToArray(a, cJSON_CreateString(s));
}

static cJSON *one_string(const char *s)
{
    cJSON *a = bg_ja();

    push_str(a, s);
    return a;
}

static cJSON *list_of(char *const *v)
{
    cJSON *a = bg_ja();

    for (; v && *v; v++)
        push_str(a, *v);
    return a;
}

static void tmpfs(cJSON *o, const struct container_make *m, const char *path, int64_t mb,
                  unsigned mode)
{
    unsigned uid, gid;
    char rest;
    bool numeric = sscanf(m->spec->user, "%u:%u%c", &uid, &gid, &rest) == 2;
    bg_autofree char *owner = NULL;

    if (m->podman) {
        owner = bg_xstrdup(",notmpcopyup");
        mode = MODE_SHARED;
    } else if (numeric) {
        owner = bg_xasprintf(",uid=%u,gid=%u", uid, gid);
    } else {
        mode = MODE_SHARED; /* a name of the image's: its number is not known here */
    }
    bg_autofree char *text = bg_xasprintf("rw,exec,nosuid,nodev,size=%lldm,mode=%04o%s",
                                          (long long)mb, mode, owner ? owner : "");
    bg_jset_str(o, path, text);
}

static void set_limits(cJSON *host, const struct bg_limits *l)
{
    if (l->memory_mb != BG_UNLIMITED) {
        bg_jset_int(host, "Memory", l->memory_mb << 20);
        bg_jset_int(host, "MemorySwap", l->memory_mb << 20);
    }
    if (l->cpus_milli != BG_UNLIMITED)
        bg_jset_int(host, "NanoCpus", l->cpus_milli * 1000000);
    bg_jset_int(host, "PidsLimit", l->pids == BG_UNLIMITED ? -1 : container_pids_limit(l));
}

static void add_bind(cJSON *a, const char *from, const char *to, bool read_only)
{
    cJSON *o = bg_jo();

    bg_jset_str(o, "Type", "bind");
    bg_jset_str(o, "Source", from);
    bg_jset_str(o, "Target", to);
    bg_jset_bool(o, "ReadOnly", read_only);
    cJSON_AddItemToArray(a, o);
}

static size_t extras(const struct container_make *m)
{
    return m->podman && m->spec->readonly_rootfs ? bg_countof(podman_extra) : 0;
}

static void set_mounts(cJSON *host, const struct container_make *m)
{
    cJSON *mounts = bg_ja(), *in_memory = bg_jo();

    if (m->selinux) { /* only this form can relabel, and only our own folders are */
        bg_autofree char *link = bg_xasprintf("%s:" CONTAINER_LINK ":ro,z", m->link_dir);
        bg_autofree char *guest =
            bg_xasprintf("%s:" CONTAINER_GUEST ":ro,z", m->guest_path);
        cJSON *binds = one_string(link);
        push_str(binds, guest);
        bg_jset(host, "Binds", binds);
    } else {
        add_bind(mounts, m->link_dir, CONTAINER_LINK, true);
        add_bind(mounts, m->guest_path, CONTAINER_GUEST, true);
    }
    for (size_t i = 0; i < m->spec->n_mounts; i++)
        add_bind(mounts, m->spec->mounts[i].host, m->spec->mounts[i].container,
                 m->spec->mounts[i].read_only);
    bg_jset(host, "Mounts", mounts);
    tmpfs(in_memory, m, m->spec->workdir, m->spec->workspace_mb, 0755);
    tmpfs(in_memory, m, "/tmp", m->spec->tmp_mb, 01777);
    for (size_t i = 0; i < extras(m); i++)
        tmpfs(in_memory, m, podman_extra[i], PODMAN_EXTRA_MB, 01777);
    bg_jset(host, "Tmpfs", in_memory);
}

static cJSON *host_config(const struct container_make *m)
{
    const struct bg_spec *s = m->spec;
    cJSON *o = bg_jo(), *log = bg_jo(), *restart = bg_jo();

    bg_jset_bool(o, "Init", false);
    bg_jset_bool(o, "AutoRemove", false);
    bg_jset_bool(o, "Privileged", false);
    bg_jset_str(log, "Type", "none");
    bg_jset(o, "LogConfig", log);
    bg_jset_str(restart, "Name", "no");
    bg_jset(o, "RestartPolicy", restart);
    bg_jset_str(o, "NetworkMode", s->network);
    bg_jset_str(o, "IpcMode", "private");
    bg_jset(o, "CapDrop", list_of(s->drop_capabilities));
    if (s->no_new_privileges)
        bg_jset(o, "SecurityOpt", one_string("no-new-privileges"));
    bg_jset_bool(o, "ReadonlyRootfs", s->readonly_rootfs);
    bg_jset_int(o, "ShmSize", (int64_t)BG_SHM_MB << 20);
    set_limits(o, &s->limits);
    set_mounts(o, m);
    return o;
}

static void set_pair(cJSON *o, const char *prefix, const char *pair)
{
    const char *eq = strchr(pair, '=');
    bg_autofree char *key = bg_xasprintf("%s%.*s", prefix, (int)(eq - pair), pair);

    bg_jset_str(o, key, eq + 1);
}

static cJSON *labels(const struct container_make *m)
{
    cJSON *o = bg_jo();

    for (char **l = m->spec->labels; l && *l; l++)
        set_pair(o, "", *l);
    for (char **l = m->spec->metadata; l && *l; l++)
        set_pair(o, "boxgate.meta.", *l);
    bg_jset_str(o, LABEL_SANDBOX, "1");
    bg_jset_str(o, LABEL_INSTANCE, m->instance);
    bg_jset_str(o, LABEL_REF, m->ref);
    if (m->name)
        bg_jset_str(o, LABEL_NAME, m->name);
    bg_jset_time(o, "boxgate.created", bg_wall_ms());
    return o;
}

static cJSON *no_health(void)
{
    cJSON *o = bg_jo();

    bg_jset(o, "Test", one_string("NONE"));
    return o;
}

cJSON *container_body(const struct container_make *m)
{
    cJSON *o = bg_jo(), *env = bg_ja();

    if (m->token) {
        bg_autofree char *pair = bg_xasprintf("BOXGATE_TOKEN=%s", m->token);
        push_str(env, pair);
    }
    bg_jset_str(o, "Image", m->spec->image_id);
    bg_jset(o, "Entrypoint", one_string(CONTAINER_GUEST));
    bg_jset(o, "Cmd", bg_ja());
    bg_jset(o, "Env", env); /* values of the profile never go here */
    bg_jset_str(o, "User", m->spec->user);
    bg_jset_str(o, "WorkingDir", m->spec->workdir);
    /* With the machine's network comes the machine's name, or Podman refuses. */
    if (strcmp(m->spec->network, "host") != 0)
        bg_jset_str(o, "Hostname", "boxgate");
    bg_jset(o, "Healthcheck", no_health());
    bg_jset_str(o, "StopSignal", "SIGTERM");
    bg_jset_bool(o, "Tty", false);
    bg_jset_bool(o, "OpenStdin", false);
    bg_jset(o, "Labels", labels(m));
    bg_jset(o, "HostConfig", host_config(m));
    return o;
}

cJSON *container_probe_body(const char *image_id, const char *instance)
{
    cJSON *o = bg_jo(), *host = bg_jo(), *marks = bg_jo();

    bg_jset_str(o, "Image", image_id);
    bg_jset(o, "Entrypoint", one_string(CONTAINER_GUEST)); /* an image may have none */
    bg_jset(o, "Healthcheck", no_health());
    bg_jset_str(host, "NetworkMode", "none");
    bg_jset(host, "CapDrop", one_string("ALL"));
    bg_jset(o, "HostConfig", host);
    bg_jset_str(marks, LABEL_SANDBOX, "1");
    bg_jset_str(marks, LABEL_INSTANCE, instance);
    bg_jset(o, "Labels", marks);
    return o;
}

/* ---- and back ---- */

static bool has(char *const *v, const char *s)
{
    for (; v && *v; v++)
        if (strcmp(*v, s) == 0)
            return true;
    return false;
}

static bool mounts_match(const struct bg_container_info *i, const struct container_make *m)
{
    bg_autofree char *link = bg_xasprintf("bind|%s|" CONTAINER_LINK "|ro", m->link_dir);
    bg_autofree char *guest = bg_xasprintf("bind|%s|" CONTAINER_GUEST "|ro", m->guest_path);

    if (bg_strv_len(i->mounts) != 2 + m->spec->n_mounts || !has(i->mounts, link) ||
        !has(i->mounts, guest))
        return false;
    for (size_t n = 0; n < m->spec->n_mounts; n++) {
        const struct bg_spec_mount *x = &m->spec->mounts[n];
        bg_autofree char *line = bg_xasprintf("bind|%s|%s|%s", x->host, x->container,
                                              x->read_only ? "ro" : "rw");
        if (!has(i->mounts, line))
            return false;
    }
    return true;
}

static bool tmpfs_matches(const struct bg_container_info *i, const char *path, int64_t mb)
{
    bg_autofree char *begin = bg_xasprintf("%s=", path);
    bg_autofree char *size = bg_xasprintf("size=%lldm", (long long)mb);

    for (char **t = i->tmpfs; t && *t; t++)
        if (strncmp(*t, begin, strlen(begin)) == 0)
            return strstr(*t, size) != NULL;
    return false;
}

/* Podman writes ALL as the list of what it would have left. */
static bool caps_match(const struct bg_container_info *i, const struct bg_spec *s)
{
    enum { DEFAULT_CAPS = 11 };
    bool all = has(s->drop_capabilities, "ALL");

    if (i->cap_add)
        return false;
    if (all)
        return has(i->cap_drop, "ALL") || bg_strv_len(i->cap_drop) >= DEFAULT_CAPS;
    return bg_strv_len(i->cap_drop) >= bg_strv_len(s->drop_capabilities);
}

/* The setting stays "none" when somebody disconnects that and connects another. */
static bool network_matches(const struct bg_container_info *i, const char *asked)
{
    if (strcmp(asked, "none") == 0)
        for (char **n = i->networks; n && *n; n++)
            if (strcmp(*n, "none") != 0)
                return false;
    return strcmp(i->network, asked) == 0 || has(i->networks, asked);
}

/* An engine that can't hold a limit says 0; another number is somebody else's. */
static bool limit_matches(int64_t asked, int64_t got, const char *name,
                          char ***not_enforced)
{
    if (asked == BG_UNLIMITED || got == asked)
        return true;
    if (got > 0)
        return false;
    bg_strv_push(not_enforced, name);
    return true;
}

const char *container_mismatch(const struct bg_container_info *i,
                               const struct container_make *m, char ***not_enforced)
{
    const struct bg_spec *s = m->spec;
    const struct bg_limits *l = &s->limits;
    int64_t memory = l->memory_mb == BG_UNLIMITED ? BG_UNLIMITED : l->memory_mb << 20;
    int64_t cpus = l->cpus_milli == BG_UNLIMITED ? BG_UNLIMITED : l->cpus_milli * 1000000;
    const char *ref = bg_container_label(i, LABEL_REF);
    const struct {
        const char *name;
        bool same;
    } parts[] = {
        {"mark", ref && strcmp(ref, m->ref) == 0},
        {"image", strcmp(i->image, s->image_id) == 0},
        {"user", strcmp(i->user, s->user) == 0},
        {"command", bg_strv_len(i->entrypoint) == 1 &&
                        strcmp(i->entrypoint[0], CONTAINER_GUEST) == 0 && !i->cmd},
        {"network", network_matches(i, s->network)},
        {"mounts", mounts_match(i, m)},
        {"folders in memory", bg_strv_len(i->tmpfs) == 2 + extras(m) &&
                                  tmpfs_matches(i, s->workdir, s->workspace_mb) &&
                                  tmpfs_matches(i, "/tmp", s->tmp_mb)},
        {"capabilities", caps_match(i, s)},
        {"privileges", !i->privileged && !i->modes && i->devices == 0},
        {"no-new-privileges", !s->no_new_privileges ||
                                  has(i->security, "no-new-privileges") ||
                                  has(i->security, "no-new-privileges:true")},
        {"read-only root", i->readonly_rootfs == s->readonly_rootfs},
        {"memory limit", limit_matches(memory, i->memory, "memory", not_enforced)},
        {"cpu limit", limit_matches(cpus, i->nano_cpus, "cpu", not_enforced)},
        {"pids limit",
         limit_matches(container_pids_limit(l), i->pids_limit, "pids", not_enforced)},
    };

    for (size_t n = 0; n < bg_countof(parts); n++)
        if (!parts[n].same)
            return parts[n].name;
    if (memory != BG_UNLIMITED && i->memory == memory && i->memory_swap != memory)
        bg_strv_push(not_enforced, "swap");
    return NULL;
}

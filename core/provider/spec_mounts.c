/* SPDX-License-Identifier: MIT */
/*
 * A spec from a profile. The part that matters is mounts: a source is resolved once, bound
 * by (path, dev, ino, mode) and refused where it would hand the sandbox a piece of the
 * machine's control: pseudo file systems, engine sockets, boxgate's own state.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/provider/spec.h"

/* a is b or lies below it. */
static bool within(const char *a, const char *b)
{
    size_t n = strlen(b);
    if (n == 1 && *b == '/')
        return true;
    return !strncmp(a, b, n) && (a[n] == '/' || a[n] == '\0');
}

/* realpath of the longest part that exists, the rest as written; a folder not made yet
 * counts. */
static char *resolve_any(const char *path)
{
    bg_autofree char *head = bg_xstrdup(path);
    for (;;) {
        bg_autofree char *real = realpath(*head ? head : "/", NULL);
        if (real)
            return bg_xasprintf("%s%s", strcmp(real, "/") ? real : "", path + strlen(head));
        char *slash = strrchr(head, '/');
        if (!slash)
            return bg_xstrdup(path);
        *slash = '\0';
    }
}

static bool refuse_system(const char *real, const char *shown, struct bg_error *err)
{
    static const char *const dirs[] = {"/proc", "/sys", "/dev", "/run"};
    if (!strcmp(real, "/"))
        return bg_fail(err, BG_ERR_CONFIG, 0,
                       "mount %s: the whole file system is never mounted", shown);
    for (size_t i = 0; i < bg_countof(dirs); i++)
        if (within(real, dirs[i]))
            return bg_fail(err, BG_ERR_CONFIG, 0,
                           "mount %s: %s is never mounted into a sandbox", shown, dirs[i]);
    return true;
}

static bool refuse_socket_at(const char *real, const char *shown, const char *socket,
                             struct bg_error *err)
{
    bg_autofree char *at = resolve_any(socket);
    if (!within(at, real))
        return true;
    return bg_fail(err, BG_ERR_CONFIG, 0, "mount %s: it holds the engine's socket %s",
                   shown, socket);
}

/* Whoever reaches an engine's socket is root on the machine; so no folder above one either.
 */
static bool refuse_engine(const char *real, const char *shown, const char *endpoint,
                          struct bg_error *err)
{
    static const char *const usual[] = {"/var/run/docker.sock",
                                        "/var/run/podman/podman.sock"};
    static const char *const homes[] = {".docker/run/docker.sock",
                                        ".docker/desktop/docker.sock"};
    const char *home = getenv("HOME");
    for (size_t i = 0; i < bg_countof(usual); i++)
        if (!refuse_socket_at(real, shown, usual[i], err))
            return false;
    for (size_t i = 0; home && *home == '/' && i < bg_countof(homes); i++) {
        bg_autofree char *socket = bg_path_join(home, homes[i]);
        if (access(socket, F_OK) == 0 && !refuse_socket_at(real, shown, socket, err))
            return false;
    }
    if (!endpoint || !*endpoint)
        return true;
    if (!strncmp(endpoint, "unix://", 7))
        endpoint += 7;
    return *endpoint != '/' || refuse_socket_at(real, shown, endpoint, err);
}

static bool refuse_own(const char *real, const char *shown, const struct bg_paths *paths,
                       struct bg_error *err)
{
    const char *const own[] = {paths->config, paths->state, paths->runtime, paths->cache};
    for (size_t i = 0; i < bg_countof(own); i++) {
        bg_autofree char *dir = resolve_any(own[i]);
        if (within(real, dir) || within(dir, real))
            return bg_fail(err, BG_ERR_CONFIG, 0, "mount %s: boxgate's own folder %s is %s",
                           shown, dir, within(real, dir) ? "it or above it" : "below it");
    }
    return true;
}

static bool resolve_mount(const struct bg_mount *m, struct bg_spec_mount *out,
                          struct bg_error *err)
{
    struct stat st;
    out->host = realpath(m->host, NULL);
    if (!out->host || lstat(out->host, &st) != 0)
        return bg_fail(err, BG_ERR_CONFIG, errno, "mount %s", m->host);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return bg_fail(err, BG_ERR_CONFIG, 0,
                       "mount %s: only folders and plain files can be mounted", m->host);
    out->container = bg_xstrdup(m->container);
    out->read_only = m->read_only;
    out->dev = st.st_dev;
    out->ino = st.st_ino;
    out->mode = st.st_mode;
    return true;
}

static bool take_mounts(struct bg_spec *s, const struct bg_profile *p,
                        const struct bg_paths *paths, const char *endpoint,
                        struct bg_error *err)
{
    s->mounts = p->n_mounts ? bg_xcalloc(p->n_mounts, sizeof *s->mounts) : NULL;
    for (size_t i = 0; i < p->n_mounts; i++) {
        struct bg_spec_mount *m = &s->mounts[s->n_mounts++];
        const char *shown = p->mounts[i].host;
        if (!resolve_mount(&p->mounts[i], m, err) || !refuse_system(m->host, shown, err) ||
            !refuse_engine(m->host, shown, endpoint, err) ||
            !refuse_own(m->host, shown, paths, err))
            return false;
    }
    return true;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The profile's variables with the manifest's on top, sorted: one order, one hash. */
static char **merged_env(const struct bg_profile *p)
{
    char **env = p->manifest.env ? bg_strv_dup(p->manifest.env) : NULL;
    for (size_t i = 0; p->env && p->env[i]; i++) {
        size_t name = strcspn(p->env[i], "=") + 1;
        bool replaced = false;
        for (size_t k = 0; p->manifest.env && p->manifest.env[k]; k++)
            replaced |= !strncmp(p->manifest.env[k], p->env[i], name);
        if (!replaced)
            bg_strv_push(&env, p->env[i]);
    }
    if (env)
        qsort(env, bg_strv_len(env), sizeof *env, by_bytes);
    return env;
}

static char **sorted(char *const *v)
{
    char **out = v ? bg_strv_dup(v) : NULL;
    if (out)
        qsort(out, bg_strv_len(out), sizeof *out, by_bytes);
    return out;
}

struct bg_spec *bg_spec_from_profile(const struct bg_profile *p,
                                     const struct bg_paths *paths, const char *endpoint,
                                     struct bg_error *err)
{
    struct bg_spec *s = bg_xcalloc(1, sizeof *s);
    s->profile = bg_xstrdup(p->name);
    s->provider = bg_xstrdup("");
    s->endpoint = bg_xstrdup("");
    s->image = bg_xstrdup(p->image);
    s->image_id = bg_xstrdup("");
    s->workdir = bg_xstrdup(p->workdir);
    s->user = bg_xstrdup(p->user);
    s->network = bg_xstrdup(p->network);
    s->env = merged_env(p);
    s->n_ports = p->n_ports;
    s->ports = p->n_ports ? bg_xmemdup(p->ports, p->n_ports * sizeof *p->ports) : NULL;
    s->ports_via = bg_xstrdup(p->ports_via);
    s->limits = p->limits;
    s->readonly_rootfs = p->readonly_rootfs;
    s->no_new_privileges = p->no_new_privileges;
    s->drop_capabilities = sorted(p->drop_capabilities);
    s->workspace_persistent = p->workspace_persistent;
    s->destroy_workspace = p->destroy_workspace;
    s->workspace_id = bg_xstrdup(p->workspace_id);
    s->storage = p->storage;
    s->workspace_mb = p->workspace_mb;
    s->tmp_mb = p->tmp_mb;
    s->labels = sorted(p->labels);
    s->metadata = sorted(p->metadata);
    s->idle_ms = p->idle_ms;
    s->ttl_ms = p->ttl_ms;
    s->auto_destroy = p->auto_destroy;
    if (take_mounts(s, p, paths, endpoint, err))
        return s;
    bg_spec_free(s);
    return NULL;
}

bool bg_spec_mounts_check(const struct bg_spec *s, struct bg_error *err)
{
    for (size_t i = 0; i < s->n_mounts; i++) {
        const struct bg_spec_mount *m = &s->mounts[i];
        struct stat st;
        bg_autofree char *real = realpath(m->host, NULL);
        if (!real || lstat(m->host, &st) != 0)
            return bg_fail(err, BG_ERR_BINDING, errno, "mount %s is gone", m->host);
        if (strcmp(real, m->host) || st.st_dev != m->dev || st.st_ino != m->ino ||
            st.st_mode != m->mode)
            return bg_fail(err, BG_ERR_BINDING, 0,
                           "mount %s is not what was bound any more", m->host);
    }
    return true;
}

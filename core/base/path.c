/* SPDX-License-Identifier: MIT */
/*
 * Where boxgate keeps things, and folders nobody else can have prepared: what is made or
 * opened is checked through its descriptor, never by name a second time.
 */
#include "core/base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "core/base/mem.h"
#include "core/base/values.h"

/* ---- the four folders ---- */

static const char *os_getenv(const char *name)
{
    return getenv(name);
}

typedef const char *(*getenv_fn)(const char *);

/* An XDG folder; relative values are void by that specification. */
static char *xdg_dir(getenv_fn env, const char *var, const char *below_home)
{
    const char *v = env(var), *home = env("HOME");
    if (v && v[0] == '/')
        return bg_path_join(v, "boxgate");
    if (!home || home[0] != '/')
        return NULL;
    bg_autofree char *base = bg_path_join(home, below_home);
    return bg_path_join(base, "boxgate");
}

static char *runtime_dir(getenv_fn env)
{
    const char *run = env("XDG_RUNTIME_DIR"), *tmp = env("TMPDIR");
    struct stat st;
    if (run && run[0] == '/' && lstat(run, &st) == 0 && S_ISDIR(st.st_mode) &&
        st.st_uid == geteuid() && !(st.st_mode & 077))
        return bg_path_join(run, "boxgate");
    bg_autofree char *name = bg_xasprintf("boxgate-%u", (unsigned)geteuid());
    return bg_path_join(tmp && tmp[0] == '/' ? tmp : "/tmp", name);
}

static bool fill_folders(struct bg_paths *p, getenv_fn env, struct bg_error *err)
{
    const char *home = env("BOXGATE_HOME");
    if (home && home[0]) {
        if (home[0] != '/')
            return bg_fail(err, BG_ERR_USAGE, 0,
                           "BOXGATE_HOME must be an absolute path, it is \"%s\"", home);
        p->config = bg_path_join(home, "config");
        p->state = bg_path_join(home, "state");
        p->runtime = bg_path_join(home, "run");
        p->cache = bg_path_join(home, "cache");
        return true;
    }
    p->config = xdg_dir(env, "XDG_CONFIG_HOME", ".config");
    p->state = xdg_dir(env, "XDG_STATE_HOME", ".local/state");
    p->cache = xdg_dir(env, "XDG_CACHE_HOME", ".cache");
    p->runtime = runtime_dir(env);
    if (!p->config || !p->state || !p->cache)
        return bg_fail(err, BG_ERR_USAGE, 0,
                       "HOME is not set to an absolute path; set HOME or BOXGATE_HOME");
    return true;
}

bool bg_paths_init(struct bg_paths *p, const char *(*env)(const char *),
                   struct bg_error *err)
{
    struct sockaddr_un sun;
    size_t most = sizeof sun.sun_path - 1 - BG_RUNTIME_NAME_MAX;
    *p = (struct bg_paths){0};
    if (!fill_folders(p, env ? env : os_getenv, err)) {
        bg_paths_free(p);
        return false;
    }
    size_t len = strlen(p->runtime);
    if (len > most) {
        bg_fail(err, BG_ERR_PATH, 0,
                "the runtime folder's path has %zu bytes, sockets allow at most %zu; set a "
                "shorter BOXGATE_HOME or TMPDIR: %s",
                len, most, p->runtime);
        bg_paths_free(p);
        return false;
    }
    p->config_file = bg_path_join(p->config, "config.yaml");
    p->policy_file = bg_path_join(p->config, "policy.yaml");
    p->agent_sock = bg_path_join(p->runtime, "agent.sock");
    p->operator_sock = bg_path_join(p->runtime, "operator.sock");
    return true;
}

void bg_paths_free(struct bg_paths *p)
{
    free(p->config);
    free(p->state);
    free(p->runtime);
    free(p->cache);
    free(p->config_file);
    free(p->policy_file);
    free(p->agent_sock);
    free(p->operator_sock);
    *p = (struct bg_paths){0};
}

bool bg_paths_create(const struct bg_paths *p, struct bg_error *err)
{
    return bg_dir_private(p->config, err) && bg_dir_private(p->state, err) &&
           bg_dir_private(p->cache, err) && bg_dir_private(p->runtime, err);
}

/* ---- making folders ---- */

static bool mkdir_one(const char *path, mode_t mode, struct bg_error *err)
{
    if (mkdir(path, mode) == 0 || errno == EEXIST)
        return true;
    int e = errno;
    struct stat st;
    /* Read-only parents and automounts refuse even what is there. */
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return true;
    return bg_fail(err, e == EACCES || e == EPERM ? BG_ERR_FORBIDDEN : BG_ERR_IO, e,
                   "cannot make the folder %s", path);
}

bool bg_mkdir_p(const char *path, mode_t mode, struct bg_error *err)
{
    bg_autofree char *part = bg_xstrdup(path);
    for (char *s = part + strspn(part, "/"); *s;) {
        s += strcspn(s, "/");
        char *after = s + strspn(s, "/");
        *s = '\0';
        if (!mkdir_one(part, mode, err))
            return false;
        if (*after)
            *s = '/';
        s = after;
    }
    struct stat st;
    if (stat(path, &st))
        return bg_fail(err, BG_ERR_IO, errno, "cannot look at %s", path);
    if (!S_ISDIR(st.st_mode))
        return bg_fail(err, BG_ERR_PATH, 0, "%s is in the way, it is no folder", path);
    return true;
}

static bool foreign(const char *path, uid_t owner, struct bg_error *err)
{
    return bg_fail(err, BG_ERR_FORBIDDEN, 0,
                   "%s belongs to uid %u, not to you (uid %u); remove or rename it", path,
                   (unsigned)owner, (unsigned)geteuid());
}

static bool why_not_opened(const char *path, int e, struct bg_error *err)
{
    struct stat st;
    bool seen = lstat(path, &st) == 0;
    if (seen && S_ISLNK(st.st_mode))
        return bg_fail(err, BG_ERR_FORBIDDEN, 0,
                       "%s is a symbolic link; remove it, or name the real folder", path);
    if (seen && st.st_uid != geteuid())
        return foreign(path, st.st_uid, err);
    if (e == ENOTDIR)
        return bg_fail(err, BG_ERR_PATH, 0, "%s is in the way, it is no folder", path);
    return bg_fail(err, e == EACCES ? BG_ERR_FORBIDDEN : BG_ERR_IO, e,
                   "cannot open the folder %s", path);
}

bool bg_dir_private(const char *path, struct bg_error *err)
{
    struct stat st;
    /* A link must be named as such, so mkdir -p stops one level above. */
    bg_autofree char *own = bg_xstrdup(path);
    for (size_t n = strlen(own); n > 1 && own[n - 1] == '/'; n--)
        own[n - 1] = '\0'; /* "link/" would follow the link */
    char *slash = strrchr(own, '/');
    if (slash && slash != own) {
        bg_autofree char *parent = bg_xstrndup(own, (size_t)(slash - own));
        if (!bg_mkdir_p(parent, 0700, err))
            return false;
    }
    if (mkdir(own, 0700) && errno != EEXIST)
        return bg_fail(err,
                       errno == EACCES || errno == EPERM ? BG_ERR_FORBIDDEN : BG_ERR_IO,
                       errno, "cannot make the folder %s", own);
    bg_autoclose int fd = open(own, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return why_not_opened(own, errno, err);
    if (fstat(fd, &st))
        return bg_fail(err, BG_ERR_IO, errno, "cannot look at %s", own);
    if (st.st_uid != geteuid())
        return foreign(own, st.st_uid, err);
    if (st.st_mode & 077)
        return bg_fail(err, BG_ERR_FORBIDDEN, 0,
                       "%s has mode %04o, others may enter it; run: chmod 700 %s", own,
                       (unsigned)(st.st_mode & 07777), own);
    return true;
}

/* ---- names ---- */

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool bg_id_valid(const char *id)
{
    if (!id || !is_alnum(id[0]))
        return false;
    size_t n = 1;
    for (; id[n]; n++)
        if (n == BG_ID_MAX || !(is_alnum(id[n]) || strchr("._-", id[n])))
            return false;
    return true;
}

bool bg_env_name_valid(const char *name)
{
    if (!name || !name[0] || (name[0] >= '0' && name[0] <= '9'))
        return false;
    size_t n = 0;
    for (; name[n]; n++)
        if (n == BG_ENV_NAME_MAX || !(is_alnum(name[n]) || name[n] == '_'))
            return false;
    return true;
}

char *bg_path_join(const char *a, const char *b)
{
    size_t n = strlen(a);
    bool root = n > 0;
    while (n > 0 && a[n - 1] == '/')
        n--;
    b += strspn(b, "/");
    return bg_xasprintf("%.*s%s%s", (int)n, a, root ? "/" : "", b);
}

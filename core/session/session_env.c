/* SPDX-License-Identifier: MIT */
/* Environment and working directory of a command: plain functions on text. */
#include <string.h>

#include "core/base/path.h"
#include "core/base/values.h"
#include "core/session/session_int.h"

static size_t name_len(const char *pair)
{
    return strcspn(pair, "=");
}

static bool same_name(const char *a, const char *b)
{
    size_t n = name_len(a);

    return n == name_len(b) && memcmp(a, b, n) == 0;
}

static void put_pair(char ***env, const char *pair)
{
    for (char **e = *env; e && *e; e++) {
        if (same_name(*e, pair)) {
            free(*e);
            *e = bg_xstrdup(pair);
            return;
        }
    }
    bg_strv_push(env, pair);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **session_env(char *const *base, char *const *profile, char *const *call)
{
    char *const *const lists[] = {base, profile, call};
    char **env = NULL;

    for (size_t i = 0; i < bg_countof(lists); i++)
        for (char *const *p = lists[i]; p && *p; p++)
            put_pair(&env, *p);
    if (env)
        qsort(env, bg_strv_len(env), sizeof *env, by_bytes);
    return env;
}

char **session_base_env(const char *workdir)
{
    bg_autofree char *home = bg_xasprintf("HOME=%s", workdir);
    char **env = NULL;

    bg_strv_push(&env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    bg_strv_push(&env, home);
    bg_strv_push(&env, "USER=boxgate");
    bg_strv_push(&env, "LANG=C.UTF-8");
    return env;
}

bool session_env_check(char *const *env, struct bg_error *err)
{
    size_t n = 0;

    for (char *const *e = env; e && *e; e++, n++) {
        size_t len = name_len(*e);
        bg_autofree char *name = bg_xstrndup(*e, len);
        if ((*e)[len] != '=' || !bg_env_name_valid(name))
            return bg_fail(err, BG_ERR_USAGE, 0,
                           "`%.64s` is no name of an environment variable", name);
        if (strlen(*e) - len - 1 > BG_ENV_VALUE_MAX)
            return bg_fail(err, BG_ERR_LIMIT, 0, "the value of %s is longer than %d bytes",
                           name, BG_ENV_VALUE_MAX);
    }
    if (n > BG_ENV_MAX)
        return bg_fail(err, BG_ERR_LIMIT, 0, "more than %d environment variables",
                       BG_ENV_MAX);
    return true;
}

/* Drops the last component of what follows the first `keep` bytes; false when none is left.
 */
static bool go_up(struct bg_buf *b, size_t keep)
{
    if (b->len <= keep)
        return false;
    while (b->len > keep && b->data[b->len - 1] != '/')
        b->len--;
    if (b->len > keep)
        b->len--;
    b->data[b->len] = '\0';
    return true;
}

char *session_cwd(const char *workdir, const char *cwd, struct bg_error *err)
{
    size_t keep = strlen(workdir);
    bg_autobuf struct bg_buf b;

    bg_buf_init(&b, 4096);
    bg_buf_puts(&b, workdir);
    if (cwd && *cwd == '/') {
        bg_fail(err, BG_ERR_PATH, 0, "the working directory %.200s must be relative to %s",
                cwd, workdir);
        return NULL;
    }
    for (const char *p = cwd ? cwd : ""; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && memcmp(p, "..", 2) == 0) {
            if (!go_up(&b, keep)) {
                bg_fail(err, BG_ERR_PATH, 0, "the working directory %.200s leaves %s", cwd,
                        workdir);
                return NULL;
            }
        } else if (n > 0 && !(n == 1 && *p == '.')) {
            bg_buf_putc(&b, '/');
            bg_buf_put(&b, p, n);
        }
        p += n + (p[n] == '/');
    }
    if (bg_buf_overflowed(&b)) {
        bg_fail(err, BG_ERR_PATH, 0, "the working directory is too long");
        return NULL;
    }
    return bg_buf_steal(&b);
}

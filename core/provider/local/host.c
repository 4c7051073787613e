/* SPDX-License-Identifier: MIT */
/*
 * What the host offers a sandbox: the programs, the shape of / (merged /usr or not), and
 * the few files of /etc that interpreters and TLS need. Nothing of anybody's home.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "core/provider/local/local.h"

char *local_find_program(const char *root_dir, const char *name)
{
    const char *p = LOCAL_PATH;

    if (strchr(name, '/')) {
        char *path = bg_xasprintf("%s%s", root_dir, name);
        if (name[0] == '/' && access(path, X_OK) == 0)
            return path;
        free(path);
        return NULL;
    }
    while (*p) {
        size_t n = strcspn(p, ":");
        char *path = bg_xasprintf("%s%.*s/%s", root_dir, (int)n, p, name);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
        p += n + (p[n] == ':');
    }
    return NULL;
}

/* /bin, /sbin, /lib, /lib32, /lib64, /libx32 ... as links into /usr or as folders. */
static void find_top(struct local_host *h, const char *root_dir, const char *name)
{
    bg_autofree char *path = bg_xasprintf("%s/%s", root_dir, name);
    char target[256];
    struct stat st;
    ssize_t n;

    if (lstat(path, &st) != 0)
        return;
    if (S_ISDIR(st.st_mode)) {
        bg_autofree char *inside = bg_xasprintf("/%s", name);
        bg_strv_push(&h->dirs, inside);
        return;
    }
    n = S_ISLNK(st.st_mode) ? readlink(path, target, sizeof target - 1) : -1;
    if (n <= 0)
        return;
    target[n] = '\0';
    bg_autofree char *link = bg_xasprintf("%s=%s", name, target);
    bg_strv_push(&h->links, link);
}

static void find_etc(struct local_host *h, const char *root_dir, const char *name)
{
    bg_autofree char *inside = bg_xasprintf("/etc/%s", name);
    bg_autofree char *path = bg_xasprintf("%s%s", root_dir, inside);

    if (access(path, R_OK) == 0)
        bg_strv_push(&h->etc, inside);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* /etc/python3, /etc/python3.11 and the like; sorted, so that argv is the same every time.
 */
static void find_python(struct local_host *h, const char *root_dir)
{
    bg_autofree char *etc = bg_xasprintf("%s/etc", root_dir);
    char **names = NULL;
    struct dirent *e;
    DIR *d = opendir(etc);

    if (!d)
        return;
    while ((e = readdir(d)))
        if (strncmp(e->d_name, "python3", 7) == 0)
            bg_strv_push(&names, e->d_name);
    closedir(d);
    if (names)
        qsort(names, bg_strv_len(names), sizeof *names, by_name);
    for (char **n = names; n && *n; n++)
        find_etc(h, root_dir, *n);
    bg_strv_free(names);
}

/* A scope needs the user's own systemd; its bus is a socket below XDG_RUNTIME_DIR. */
static void find_scope(struct local_host *h, const char *root_dir)
{
    const char *run = getenv("XDG_RUNTIME_DIR");

    if (h->root || !run)
        return;
    bg_autofree char *bus = bg_xasprintf("%s%s/systemd/private", root_dir, run);
    if (access(bus, F_OK) != 0)
        return;
    h->systemd_run = local_find_program(root_dir, "systemd-run");
    bg_autofree char *var = bg_xasprintf("XDG_RUNTIME_DIR=%s", run);
    bg_strv_push(&h->user_env, var);
}

void local_host_find(struct local_host *h, const char *root_dir)
{
    static const char *const top[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    static const char *const etc[] = {"ld.so.cache",  "ld.so.conf", "ld.so.conf.d",
                                      "alternatives", "ssl/certs",  "ssl/openssl.cnf",
                                      "localtime"};

    *h = (struct local_host){.root = geteuid() == 0};
    h->bwrap = local_find_program(root_dir, "bwrap");
    h->setpriv = local_find_program(root_dir, "setpriv");
    find_scope(h, root_dir);
    for (size_t i = 0; i < bg_countof(top); i++)
        find_top(h, root_dir, top[i]);
    for (size_t i = 0; i < bg_countof(etc); i++)
        find_etc(h, root_dir, etc[i]);
    find_python(h, root_dir);
}

void local_host_clear(struct local_host *h)
{
    free(h->bwrap);
    free(h->setpriv);
    free(h->systemd_run);
    bg_strv_free(h->links);
    bg_strv_free(h->dirs);
    bg_strv_free(h->etc);
    bg_strv_free(h->user_env);
    *h = (struct local_host){0};
}

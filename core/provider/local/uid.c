/* SPDX-License-Identifier: MIT */
/*
 * As root every sandbox runs under a uid of its own, so that two of them share nothing the
 * kernel counts or checks by uid. A uid is taken by locking a file named after it; the lock
 * is machine-wide. A file whose lock is free but which is still there belongs to a server
 * that died: its sandbox may live on for the linger time, so the uid is free only when no
 * process has it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "core/provider/local/local.h"

/* Whose uid a process has. One that ended and waits to be looked at has none any more (its
 * parent may never look); with threads left it has not ended. */
static bool uid_held(pid_t pid, uint32_t *uid)
{
    char path[32], line[256];
    bool zombie = false, found = false;
    unsigned threads = 0;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && threads == 0 && fgets(line, sizeof line, f)) {
        zombie |= strncmp(line, "State:\tZ", 8) == 0;
        found |= sscanf(line, "Uid: %u", uid) == 1;
        if (sscanf(line, "Threads: %u", &threads) != 1)
            threads = 0;
    }
    if (f)
        fclose(f);
    return found && (!zombie || threads != 1);
}

/* The uids from base on that are in use: one byte each; NULL when it can't be told. */
static unsigned char *uids_in_use(uint32_t base, size_t n)
{
    DIR *d = opendir("/proc");
    unsigned char *used = d ? bg_xcalloc(n, 1) : NULL;
    struct dirent *e;

    while (d && (e = readdir(d))) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        uint32_t u;
        if (pid > 0 && uid_held(pid, &u) && u >= base && u - base < n)
            used[u - base] = 1;
    }
    if (d)
        closedir(d);
    return used;
}

static bool uid_in_use(uint32_t uid)
{
    bg_autofree unsigned char *used = uids_in_use(uid, 1);

    return !used || used[0];
}

/* True when path, locked through fd, is still the file of that name. */
static bool same_file(const char *path, int fd)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* *used is filled once a file is found that a dead server left: with many of those each
 * would cost a look at every process. Who is free by it is looked at again, locked. */
static bool try_uid(struct local_uid *u, const char *dir, uint32_t base, uint32_t i,
                    unsigned char **used)
{
    uint32_t uid = base + i;
    bg_autofree char *path = bg_xasprintf("%s/%u", dir, uid);
    bool made = true;
    bg_autoclose int fd =
        open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0) {
        made = false;
        fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    }
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 || !same_file(path, fd))
        return false;
    if (!made && !*used)
        *used = uids_in_use(base, BG_LOCAL_UIDS);
    if (!made && (!*used || (*used)[i] || uid_in_use(uid)))
        return false;
    u->uid = uid;
    u->fd = bg_steal_fd(&fd);
    u->path = bg_steal(path);
    return true;
}

bool local_uid_take(struct local_uid *u, const char *dir, uint32_t base,
                    struct bg_error *err)
{
    bg_autofree unsigned char *used = NULL;

    *u = (struct local_uid){.fd = -1};
    if (!bg_dir_private(dir, err))
        return false;
    for (uint32_t i = 0; i < BG_LOCAL_UIDS && i < UINT32_MAX - base; i++)
        if (try_uid(u, dir, base, i, &used))
            return true;
    return bg_fail(err, BG_ERR_LIMIT, 0, "no free uid from local.uidBase %u on", base);
}

void local_uid_release(struct local_uid *u)
{
    if (u->fd < 0)
        return;
    unlink(u->path); /* while the lock is held */
    close(u->fd);
    free(u->path);
    *u = (struct local_uid){.fd = -1};
}

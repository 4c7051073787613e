/* SPDX-License-Identifier: MIT */
/*
 * As root every sandbox runs under a uid of its own, so that two of them share nothing the
 * kernel counts or checks by uid. A uid is taken by locking a file named after it; the lock
 * is machine-wide. A file whose lock is free but which is still there belongs to a server
 * that died: its sandbox may live on for the linger time, so the uid is free only when no
 * process has it.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "core/provider/local_internal.h"

static bool uid_in_use(uint32_t uid)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    bool found = false;

    while (d && !found && (e = readdir(d))) {
        uint32_t u;
        if (isdigit((unsigned char)e->d_name[0]))
            found = local_uid_of((pid_t)strtol(e->d_name, NULL, 10), &u) && u == uid;
    }
    if (d)
        closedir(d);
    return found || !d; /* unknown counts as used */
}

/* True when path, locked through fd, is still the file of that name. */
static bool same_file(const char *path, int fd)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

static bool try_uid(struct local_uid *u, const char *dir, uint32_t uid)
{
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
    if (!made && uid_in_use(uid))
        return false;
    u->uid = uid;
    u->fd = bg_steal_fd(&fd);
    u->path = bg_steal(path);
    return true;
}

bool local_uid_take(struct local_uid *u, const char *dir, uint32_t base,
                    struct bg_error *err)
{
    *u = (struct local_uid){.fd = -1};
    if (!bg_dir_private(dir, err))
        return false;
    for (uint32_t i = 0; i < BG_LOCAL_UIDS && i < UINT32_MAX - base; i++)
        if (try_uid(u, dir, base + i))
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

/* SPDX-License-Identifier: MIT */
/*
 * Unix sockets by pathname, never abstract: a name in the file system honours the 0700
 * folder it is in, an abstract one is open to everybody in the network namespace.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/rpc/rpc.h"

static bool fill_addr(struct sockaddr_un *sa, const char *path, struct bg_error *err)
{
    *sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof sa->sun_path)
        return bg_fail(err, BG_ERR_CONFIG, 0,
                       "socket path is longer than %zu bytes: %s; set BOXGATE_HOME to a "
                       "shorter folder",
                       sizeof sa->sun_path - 1, path);
    memcpy(sa->sun_path, path, strlen(path) + 1);
    return true;
}

int bg_unix_listen(const char *path, mode_t mode, struct bg_error *err)
{
    struct sockaddr_un sa;
    if (!fill_addr(&sa, path, err))
        return -1;
    bg_autofree char *dir = bg_xstrdup(path);
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    if (!bg_dir_private(dir, err))
        return -1;
    bg_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        bg_fail(err, BG_ERR_IO, errno, "socket");
        return -1;
    }
    /* Whoever holds the start lock is the only one here, so a name in the way is a stale
     * one. */
    if (unlink(path) && errno != ENOENT) {
        bg_fail(err, BG_ERR_IO, errno, "remove stale %s", path);
        return -1;
    }
    mode_t old = umask(0777 & ~mode);
    int rc = bind(fd, (struct sockaddr *)&sa, sizeof sa);
    int e = errno;
    umask(old);
    if (rc) {
        bg_fail(err, BG_ERR_IO, e, "bind %s", path);
        return -1;
    }
    if (listen(fd, 64)) {
        bg_fail(err, BG_ERR_IO, errno, "listen %s", path);
        return -1;
    }
    return bg_steal_fd(&fd);
}

int bg_unix_connect(const char *path, struct bg_error *err)
{
    struct sockaddr_un sa;
    if (!fill_addr(&sa, path, err))
        return -1;
    bg_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        bg_fail(err, BG_ERR_IO, errno, "socket");
        return -1;
    }
    int rc;
    do {
        rc = connect(fd, (struct sockaddr *)&sa, sizeof sa);
    } while (rc && errno == EINTR);
    if (rc) {
        bg_fail(err, BG_ERR_UNAVAILABLE, errno, "connect %s", path);
        return -1;
    }
    return bg_steal_fd(&fd);
}

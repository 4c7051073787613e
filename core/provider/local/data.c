/* SPDX-License-Identifier: MIT */
/*
 * Bytes that every sandbox gets as files: kept in sealed memfds, so they can't change
 * between the digest and the copy bwrap makes; opened anew for each sandbox, since bwrap
 * reads a descriptor from its offset to its end.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "core/provider/local/local.h"

int local_data_fd(const char *name, const void *p, size_t n, struct bg_error *err)
{
    bg_autoclose int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t at = 0;

    while (fd >= 0 && at < n) {
        ssize_t w = write(fd, (const char *)p + at, n - at);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            break;
        at += (size_t)w;
    }
    if (fd < 0 || at < n ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) != 0) {
        bg_fail(err, BG_ERR_IO, errno, "keeping %s in memory", name);
        return -1;
    }
    return bg_steal_fd(&fd);
}

int local_data_reopen(int fd, struct bg_error *err)
{
    char path[32];
    int copy;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    copy = open(path, O_RDONLY | O_CLOEXEC);
    if (copy < 0)
        bg_fail(err, BG_ERR_IO, errno, "opening prepared data again (is /proc mounted?)");
    return copy;
}

int local_data_file(const char *path, size_t max, struct bg_sha256 *sum,
                    struct bg_error *err)
{
    bg_autobuf struct bg_buf b;

    bg_buf_init(&b, max);
    if (!bg_read_file(path, max, false, &b, err))
        return -1;
    *sum = bg_sha256(b.data, b.len);
    return local_data_fd("boxgate-guest", b.data, b.len, err);
}

const char *local_etc_passwd(void)
{
    return "root:x:0:0:root:/root:/usr/sbin/nologin\n"
           "boxgate:x:1000:1000:boxgate:/workspace:/bin/sh\n"
           "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
}

const char *local_etc_group(void)
{
    return "root:x:0:\nboxgate:x:1000:\nnogroup:x:65534:\n";
}

const char *local_etc_hosts(void)
{
    return "127.0.0.1 localhost boxgate\n::1 localhost ip6-localhost\n";
}

const char *local_etc_nsswitch(bool network_host)
{
    return network_host ? "passwd: files\ngroup: files\nhosts: files dns\n"
                        : "passwd: files\ngroup: files\nhosts: files\n";
}

/* SPDX-License-Identifier: MIT */
/*
 * Whole files, and removing trees that a sandboxed program has shaped: any depth, any
 * modes, any links, and no step that follows one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "core/base/digest.h"
#include "core/base/mem.h"
#include "core/base/path.h"

/* ---- reading and writing ---- */

static bool check_owner(const char *path, const struct stat *st, struct bg_error *err)
{
    if (st->st_uid != geteuid())
        return bg_fail(err, BG_ERR_FORBIDDEN, 0,
                       "%s belongs to uid %u, not to you (uid %u); it is not read", path,
                       (unsigned)st->st_uid, (unsigned)geteuid());
    if (st->st_mode & 022)
        return bg_fail(err, BG_ERR_FORBIDDEN, 0,
                       "%s has mode %04o, others may write it; run: chmod go-w %s", path,
                       (unsigned)(st->st_mode & 07777), path);
    return true;
}

static bool read_all(int fd, const char *path, size_t max, struct bg_buf *out,
                     struct bg_error *err)
{
    size_t begin = out->len;
    char chunk[16384];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bg_fail(err, BG_ERR_IO, errno, "cannot read %s", path);
        if (n == 0)
            return true;
        if ((size_t)n > max - (out->len - begin))
            return bg_fail(err, BG_ERR_LIMIT, 0, "%s has more than %zu bytes", path, max);
        if (!bg_buf_add(out, chunk, (size_t)n, err)) {
            bg_error_prefix(err, "%s", path);
            return false;
        }
    }
}

bool bg_read_file(const char *path, size_t max, bool owner_only, struct bg_buf *out,
                  struct bg_error *err)
{
    /* O_NONBLOCK: a FIFO under that name must not stop us. */
    int flags =
        O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (owner_only ? O_NOFOLLOW : 0);
    bg_autoclose int fd = open(path, flags);
    struct stat st;
    if (fd < 0) {
        enum bg_errc code = errno == ENOENT || errno == ENOTDIR ? BG_ERR_NOT_FOUND
                            : errno == EACCES || errno == EPERM ? BG_ERR_FORBIDDEN
                                                                : BG_ERR_IO;
        if (errno == ELOOP && owner_only)
            return bg_fail(err, BG_ERR_FORBIDDEN, 0,
                           "%s is a symbolic link; it is not followed", path);
        return bg_fail(err, code, errno, "cannot open %s", path);
    }
    if (fstat(fd, &st))
        return bg_fail(err, BG_ERR_IO, errno, "cannot look at %s", path);
    if (!S_ISREG(st.st_mode))
        return bg_fail(err, BG_ERR_PATH, 0, "%s is no regular file", path);
    if (owner_only && !check_owner(path, &st, err))
        return false;
    size_t begin = out->len;
    if (read_all(fd, path, max, out, err))
        return true;
    out->len = begin; /* all or nothing */
    if (out->cap)
        out->data[begin] = '\0';
    return false;
}

static bool write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return false;
        p += w;
        n -= (size_t)w;
    }
    return true;
}

bool bg_write_file_atomic(const char *path, const void *p, size_t n, mode_t mode,
                          struct bg_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t dir_len = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    bg_autofree char *dir = dir_len ? bg_xstrndup(path, dir_len) : bg_xstrdup(".");
    const char *name = slash ? slash + 1 : path;
    char rnd[17], tmp[32];
    bg_random_hex(rnd, 8);
    snprintf(tmp, sizeof tmp, ".tmp-%s", rnd);

    bg_autoclose int dfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dfd < 0)
        return bg_fail(err, errno == ENOENT ? BG_ERR_NOT_FOUND : BG_ERR_IO, errno,
                       "cannot open the folder %s", dir);
    bg_autoclose int fd =
        openat(dfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return bg_fail(err, errno == EACCES ? BG_ERR_FORBIDDEN : BG_ERR_IO, errno,
                       "cannot make a file in %s", dir);
    if (!write_all(fd, p, n) || fchmod(fd, mode ? mode : 0600) || fsync(fd) ||
        renameat(dfd, tmp, dfd, name)) {
        bg_fail(err, BG_ERR_IO, errno, "cannot write %s", path);
        unlinkat(dfd, tmp, 0);
        return false;
    }
    /* The new name must survive a crash too. */
    if (fsync(dfd))
        return bg_fail(err, BG_ERR_IO, errno, "cannot sync the folder %s", dir);
    return true;
}

/* ---- removing trees ---- */

/* Folders deeper than this are moved to the top first, so depth costs neither stack nor
 * descriptors. */
#define RM_DEPTH 24

struct rm {
    const char *path; /* for messages */
    int top;          /* descriptor of the tree's root */
    unsigned long moved;
    uint32_t dev_major, dev_minor;
    struct bg_error *err;
};

/* Opens a folder for emptying: never through a link, never what is mounted there. Gives
 * itself the rights it lacks. -1 with the error set. */
static int rm_open(struct rm *rm, int at, const char *name)
{
    bg_autoclose int fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct statx sx;
    if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_MODE, &sx)) {
        bg_fail(rm->err, BG_ERR_IO, errno, "cannot remove %s: open %s", rm->path, name);
        return -1;
    }
    bool mounted = sx.stx_attributes & STATX_ATTR_MOUNT_ROOT;
    if (rm->top >= 0 && (mounted || sx.stx_dev_major != rm->dev_major ||
                         sx.stx_dev_minor != rm->dev_minor)) {
        bg_fail(rm->err, BG_ERR_PATH, 0,
                "cannot remove %s: something is mounted on %s in it", rm->path, name);
        return -1;
    }
    rm->dev_major = sx.stx_dev_major;
    rm->dev_minor = sx.stx_dev_minor;
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if ((sx.stx_mode & 0700) != 0700)
        (void)chmod(self,
                    0700); /* by descriptor; if it fails, so does what follows, aloud */
    int dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        bg_fail(rm->err, BG_ERR_IO, errno, "cannot remove %s: read %s", rm->path, name);
    return dir;
}

static bool rm_tree(struct rm *rm, int fd, int depth);

static bool rm_subdir(struct rm *rm, int at, const char *name, int depth)
{
    bg_autoclose int fd = rm_open(rm, at, name);
    if (fd < 0)
        return false;
    if (depth >= RM_DEPTH) {
        /* Random, so that no sandboxed program has put something under that name. */
        char to[33];
        bg_random_hex(to, 16);
        rm->moved++;
        if (renameat(at, name, rm->top, to))
            return bg_fail(rm->err, BG_ERR_IO, errno, "cannot remove %s: move %s", rm->path,
                           name);
        return true;
    }
    if (!rm_tree(rm, fd, depth + 1))
        return false;
    if (unlinkat(at, name, AT_REMOVEDIR) && errno != ENOENT)
        return bg_fail(rm->err, BG_ERR_IO, errno, "cannot remove %s: %s", rm->path, name);
    return true;
}

static bool rm_entry(struct rm *rm, int at, const char *name, int depth)
{
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT || bg_fail(rm->err, BG_ERR_IO, errno,
                                          "cannot remove %s: look at %s", rm->path, name);
    if (S_ISDIR(st.st_mode))
        return rm_subdir(rm, at, name, depth);
    if (unlinkat(at, name, 0) && errno != ENOENT)
        return bg_fail(rm->err, BG_ERR_IO, errno, "cannot remove %s: %s", rm->path, name);
    return true;
}

/* Empties the folder fd (borrowed). */
static bool rm_tree(struct rm *rm, int fd, int depth)
{
    /* Not a duplicate of fd: that would share its position with the pass before. */
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = own < 0 ? NULL : fdopendir(own);
    if (!d) {
        bg_fail(rm->err, BG_ERR_IO, errno, "cannot remove %s", rm->path);
        if (own >= 0)
            close(own);
        return false;
    }
    bool ok = true;
    struct dirent *e;
    while (ok && (e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            ok = rm_entry(rm, fd, e->d_name, depth);
    closedir(d);
    return ok;
}

bool bg_rm_rf(const char *path, struct bg_error *err)
{
    bg_autofree char *own = bg_xstrdup(path);
    for (size_t n = strlen(own); n > 1 && own[n - 1] == '/'; n--)
        own[n - 1] = '\0'; /* "link/" would follow the link */
    struct rm rm = {.path = own, .top = -1, .err = err};
    struct stat st;
    if (lstat(own, &st))
        return errno == ENOENT || bg_fail(err, BG_ERR_IO, errno, "cannot look at %s", own);
    if (!S_ISDIR(st.st_mode))
        return unlink(own) == 0 || errno == ENOENT ||
               bg_fail(err, BG_ERR_IO, errno, "cannot remove %s", own);
    bg_autoclose int top = rm_open(&rm, AT_FDCWD, own);
    if (top < 0)
        return false;
    rm.top = top;
    for (;;) {
        unsigned long moved = rm.moved;
        if (!rm_tree(&rm, top, 0))
            return false;
        if (rmdir(own) == 0 || errno == ENOENT)
            return true;
        /* What was moved up during the pass may have been missed by it. */
        if (errno != ENOTEMPTY || moved == rm.moved)
            return bg_fail(err, BG_ERR_IO, errno, "cannot remove %s", own);
    }
}

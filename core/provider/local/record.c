/* SPDX-License-Identifier: MIT */
/*
 * A small file per live sandbox in the runtime folder, written before anything is made
 * outside of it. It need not survive a reboot (nothing of the sandbox does), so it is never
 * synced.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include "core/provider/local/local.h"

enum { RECORD_MAX = 16384 };

void local_record_clear(struct local_record *r)
{
    free(r->ref);
    free(r->link);
    free(r->group);
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        free(r->dirs[i]);
    *r = (struct local_record){0};
}

bool local_record_write(const char *dir, const struct local_record *r, struct bg_error *err)
{
    bg_autofree char *path = bg_path_join(dir, r->ref);
    bg_autofree char *tmp = bg_xasprintf("%s.new", path);
    bg_autoclose int fd =
        open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bg_autobuf struct bg_buf b;

    bg_buf_init(&b, RECORD_MAX);
    bg_buf_printf(&b, "link=%s\ngroup=%s\n", r->link, r->group);
    bg_buf_printf(&b, "maker=%d %" PRIu64 "\n", (int)r->maker, r->maker_start);
    bg_buf_printf(&b, "monitor=%d %" PRIu64 "\n", (int)r->monitor, r->monitor_start);
    bg_buf_printf(&b, "child=%d %" PRIu64 "\n", (int)r->child, r->child_start);
    for (size_t i = 0; i < LOCAL_CTL_COUNT; i++)
        if (r->dirs[i])
            bg_buf_printf(&b, "cgroup=%zu %s\n", i, r->dirs[i]);
    if (bg_buf_overflowed(&b))
        return bg_fail(err, BG_ERR_LIMIT, 0, "the record of sandbox %s is too long",
                       r->ref);
    if (fd < 0 || write(fd, b.data, b.len) != (ssize_t)b.len || rename(tmp, path) != 0)
        return bg_fail(err, BG_ERR_IO, errno, "recording the sandbox in %s", dir);
    return true;
}

/* "I PATH", the path ending in the group's own name: nothing else may be emptied by it. */
static bool read_dir(struct local_record *r, const char *text)
{
    char *path;
    size_t i = strtoul(text, &path, 10);
    const char *slash = strrchr(text, '/');

    if (*path != ' ' || path[1] != '/' || i >= LOCAL_CTL_COUNT || r->dirs[i] || !r->group ||
        strcmp(slash + 1, r->group) != 0 || strstr(path, "/../"))
        return false;
    r->dirs[i] = bg_xstrdup(path + 1);
    return true;
}

static bool read_line(struct local_record *r, const char *line)
{
    int pid;

    if (strncmp(line, "link=", 5) == 0)
        r->link = r->link ? r->link : bg_xstrdup(line + 5);
    else if (strncmp(line, "group=", 6) == 0)
        r->group = r->group ? r->group : bg_xstrdup(line + 6);
    else if (sscanf(line, "maker=%d %" SCNu64, &pid, &r->maker_start) == 2)
        r->maker = pid;
    else if (sscanf(line, "monitor=%d %" SCNu64, &pid, &r->monitor_start) == 2)
        r->monitor = pid;
    else if (sscanf(line, "child=%d %" SCNu64, &pid, &r->child_start) == 2)
        r->child = pid;
    else
        return strncmp(line, "cgroup=", 7) == 0 && read_dir(r, line + 7);
    return true;
}

bool local_record_read(const char *dir, const char *ref, struct local_record *r,
                       struct bg_error *err)
{
    bg_autofree char *path = bg_path_join(dir, ref);
    bg_autobuf struct bg_buf b;
    char *save = NULL;

    *r = (struct local_record){0};
    bg_buf_init(&b, RECORD_MAX);
    if (!bg_read_file(path, RECORD_MAX, true, &b, err))
        return false;
    for (char *line = strtok_r(b.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save))
        if (!read_line(r, line))
            break;
    if (!r->link || !r->group) {
        local_record_clear(r);
        return bg_fail(err, BG_ERR_IO, 0, "%s is no record of a sandbox", path);
    }
    r->ref = bg_xstrdup(ref);
    return true;
}

void local_record_remove(const char *dir, const char *ref)
{
    bg_autofree char *path = bg_path_join(dir, ref);

    unlink(path);
}

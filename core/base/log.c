/* SPDX-License-Identifier: MIT */
/* The server's log: one write a line, so that lines never mix, and rotation by rename. */
#include "core/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/base/values.h"

struct bg_log {
    char *path; /* NULL: stderr */
    int fd;     /* -1 after a rotation that failed: lines are dropped until the next try */
    enum bg_log_level max;
    off_t size; /* bytes in the file */
};

#define RAW_MAX 4096     /* bytes of one formatted message; the rest is cut */
#define LINE_BYTES 32768 /* its safe rendering with time and level */

static bool open_file(struct bg_log *log, struct bg_error *err)
{
    int flags =
        O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    bg_autoclose int fd = open(log->path, flags, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return bg_fail(err, BG_ERR_IO, errno, "cannot open the log %s", log->path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return bg_fail(err, BG_ERR_FORBIDDEN, 0, "the log %s is not a file of yours",
                       log->path);
    /* An older log may have been made with wider rights. */
    if ((st.st_mode & 077) && fchmod(fd, 0600))
        return bg_fail(err, BG_ERR_IO, errno, "cannot set the mode of the log %s",
                       log->path);
    log->size = st.st_size;
    log->fd = bg_steal_fd(&fd);
    return true;
}

struct bg_log *bg_log_open(const char *path, enum bg_log_level max, struct bg_error *err)
{
    struct bg_log *log = bg_xcalloc(1, sizeof *log);
    log->max = max;
    log->path = bg_xstrdup(path);
    log->fd = STDERR_FILENO;
    if (path && !open_file(log, err)) {
        free(log->path);
        free(log);
        return NULL;
    }
    return log;
}

void bg_log_close(struct bg_log *log)
{
    if (!log)
        return;
    if (log->path && log->fd >= 0)
        close(log->fd);
    free(log->path);
    free(log);
}

/* server.log becomes .1, .1 becomes .2 and so on; the last is overwritten. */
static void rotate(struct bg_log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
    for (int i = BG_LOG_FILES - 2; i >= 0; i--) {
        bg_autofree char *from =
            i ? bg_xasprintf("%s.%d", log->path, i) : bg_xstrdup(log->path);
        bg_autofree char *to = bg_xasprintf("%s.%d", log->path, i + 1);
        rename(from, to); /* one that is missing is fine */
    }
    open_file(log, NULL);
}

static const char *level_name(enum bg_log_level lv)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    return names[lv];
}

void bg_log(struct bg_log *log, enum bg_log_level lv, const char *fmt, ...)
{
    if (!log || lv > log->max)
        return;
    char raw[RAW_MAX], now[BG_TIME_LEN];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    bg_time_format(bg_wall_ms(), now);

    bg_autobuf struct bg_buf line;
    bg_buf_init(&line, LINE_BYTES);
    bg_buf_printf(&line, "%s %s ", now, level_name(lv));
    bg_text_safe(&line, raw, strlen(raw), 0);
    if (n >= (int)sizeof raw)
        bg_buf_puts(&line, " [cut]");
    bg_buf_putc(&line, '\n');
    if (bg_buf_overflowed(&line))
        line.data[line.len - 1] = '\n';

    if (log->path && (log->fd < 0 || log->size + (off_t)line.len > BG_LOG_BYTES))
        rotate(log);
    /* There is nowhere to report a log that cannot be written. */
    ssize_t w = log->fd < 0 ? -1 : write(log->fd, line.data, line.len);
    if (w > 0)
        log->size += w;
}

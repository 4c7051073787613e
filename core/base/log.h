/* SPDX-License-Identifier: MIT */
/*
 * The server's log: server.log in the state folder, 0600, four files of 4 MiB. Never code,
 * env values or program output; every argument passes the renderer of text.h, so a log can
 * be read on a terminal.
 */
#pragma once

#include "core/base/error.h"

enum bg_log_level { BG_LOG_ERROR, BG_LOG_WARN, BG_LOG_INFO, BG_LOG_DEBUG };

struct bg_log;

/* NULL path: stderr. Opened with O_NOFOLLOW; rotates by rename. */
BG_CHECK struct bg_log *bg_log_open(const char *path, enum bg_log_level max,
                                    struct bg_error *err);
void bg_log_close(struct bg_log *log); /* NULL is fine */
/* log NULL: dropped. One line "TIME LEVEL text". */
BG_PRINTF(3, 4) void bg_log(struct bg_log *log, enum bg_log_level lv, const char *fmt, ...);

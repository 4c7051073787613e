/* SPDX-License-Identifier: MIT */
/*
 * One event loop, one thread (libuv inside; no header but this folder's sources includes
 * uv.h). Callbacks run on the loop and never from inside the call that registered them.
 * Freeing a handle inside its own callback is allowed; its callback never runs after
 * bg_*_free returns.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"

struct bg_loop;
struct bg_timer;
struct bg_poll;
struct bg_signal;
struct bg_idle;
struct bg_child;

/* Also ignores SIGPIPE for the whole process; children get default signals all the same. */
struct bg_loop *bg_loop_new(void);
/* Closes what is left; aborts in sanitizer builds if a handle was never freed. What was
 * deferred still runs, works still out are waited for and get their `done`. */
void bg_loop_free(struct bg_loop *loop);
/* Until bg_loop_stop or nothing is left to wait for. */
void bg_loop_run(struct bg_loop *loop);
void bg_loop_stop(struct bg_loop *loop);
/* One turn; timeout_ms < 0 waits for ever, 0 polls. For tests and for a caller's own loop.
 */
void bg_loop_turn(struct bg_loop *loop, int timeout_ms);

/* ---- timers: one shot unless every_ms > 0 ---- */
typedef void (*bg_timer_fn)(struct bg_timer *t, void *data);
struct bg_timer *bg_timer_new(struct bg_loop *loop, bg_timer_fn fn, void *data);
void bg_timer_start(struct bg_timer *t, int64_t after_ms, int64_t every_ms); /* restarts */
void bg_timer_stop(struct bg_timer *t);
bool bg_timer_active(const struct bg_timer *t);
void bg_timer_free(struct bg_timer *t); /* NULL is fine */

/* Runs fn once in the next turn (at the latest in bg_loop_free), before the loop waits.
 * Can't be cancelled: look data up by id if it may be gone by then. */
void bg_loop_defer(struct bg_loop *loop, void (*fn)(void *data), void *data);

/* ---- file descriptors; level-triggered; at most one watcher per fd ---- */
enum { BG_READ = 1, BG_WRITE = 2, BG_HUP = 4 };
typedef void (*bg_poll_fn)(struct bg_poll *p, int fd, unsigned events, void *data);
/* Does not own fd and leaves its flags alone. Free the watcher before closing fd. NULL with
 * errno set when fd can't be watched (EPERM: a regular file) or another active watcher has
 * it (EEXIST). An error condition is told as every event asked for, with BG_HUP. Begins
 * paused. */
struct bg_poll *bg_poll_new(struct bg_loop *loop, int fd, bg_poll_fn fn, void *data);
void bg_poll_set(struct bg_poll *p, unsigned events); /* 0 = pause */
void bg_poll_free(struct bg_poll *p);                 /* NULL is fine */

/* ---- signals; a watched signal keeps bg_loop_run waiting ---- */
typedef void (*bg_signal_fn)(int signo, void *data);
struct bg_signal *bg_signal_new(struct bg_loop *loop, int signo, bg_signal_fn fn,
                                void *data);
void bg_signal_free(struct bg_signal *s);

/* ---- before the loop waits: for drawing once per turn ---- */
struct bg_idle *bg_prepare_new(struct bg_loop *loop, void (*fn)(void *data), void *data);
void bg_prepare_free(struct bg_idle *p);

/* ---- workers: blocking work (disk syncs, regex, realpath) off the loop ---- */
/* `work` runs on another thread and touches only `data`; `done` runs on the loop. */
void bg_work(struct bg_loop *loop, void (*work)(void *data), void (*done)(void *data),
             void *data);
/* A serial queue: works of one queue run one after another in order. */
struct bg_serial;
struct bg_serial *bg_serial_new(struct bg_loop *loop);
void bg_serial_add(struct bg_serial *s, void (*work)(void *data), void (*done)(void *data),
                   void *data);
void bg_serial_free(
    struct bg_serial *s); /* waits for what is queued; their `done` run before it returns */

/* ---- child processes ---- */
struct bg_child_opts {
    const char *file; /* absolute, or looked up in PATH of env */
    char *const *argv;
    char *const *env; /* NULL = empty environment */
    const char *cwd;  /* NULL = "/" */
    /* fds[i] becomes descriptor i in the child; -1 = /dev/null for 0..2. Everything else is
     * closed; to be sure of that a spawn sets O_CLOEXEC on every descriptor of this process
     * from 3 on. At most 64. The caller keeps (and closes) its own copies. */
    const int *fds;
    size_t n_fds;
    bool new_session;
};
typedef void (*bg_child_fn)(struct bg_child *c, int exit_code, int term_signal, void *data);
BG_CHECK struct bg_child *bg_child_spawn(struct bg_loop *loop,
                                         const struct bg_child_opts *o, bg_child_fn on_exit,
                                         void *data, struct bg_error *err);
pid_t bg_child_pid(const struct bg_child *c);
bool bg_child_kill(struct bg_child *c, int signo); /* false once it has been reaped */
/* Forgets it: on_exit is not called any more, the process is still reaped when it ends. */
void bg_child_free(struct bg_child *c);

/* SPDX-License-Identifier: MIT */
/*
 * The loop itself: turns, deferred calls and the end. libuv frees nothing at once, so
 * bg_loop_free keeps turning until the last close callback has run.
 */
#include "core/loop/loop.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/loop/loop_int.h"

#if defined(__SANITIZE_ADDRESS__)
#define LEAKED_HANDLES_ABORT 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAKED_HANDLES_ABORT 1
#endif
#endif
#ifndef LEAKED_HANDLES_ABORT
#define LEAKED_HANDLES_ABORT 0
#endif

void bg_loop_panic(const char *what, int uv_code)
{
    fprintf(stderr, "boxgate: loop: %s%s%s\n", what, uv_code ? ": " : "",
            uv_code ? uv_strerror(uv_code) : "");
    abort();
}

static void on_closed(uv_handle_t *h)
{
    free(h->data); /* NULL for the loop's own two */
}

void bg_loop_close_handle(uv_handle_t *h)
{
    if (!uv_is_closing(h))
        uv_close(h, on_closed);
}

static void run_deferred(struct bg_loop *loop)
{
    struct deferred *d = loop->first;
    /* Cut off first: what these defer belongs to the next turn. */
    loop->first = NULL;
    loop->last = &loop->first;
    uv_idle_stop(&loop->idle);
    while (d) {
        struct deferred *next = d->next;
        d->fn(d->data);
        free(d);
        d = next;
    }
}

static void on_idle(uv_idle_t *h)
{
    run_deferred((struct bg_loop *)h->loop->data);
}

void bg_loop_defer(struct bg_loop *loop, void (*fn)(void *data), void *data)
{
    struct deferred *d = bg_xmalloc(sizeof *d);
    *d = (struct deferred){.fn = fn, .data = data};
    *loop->last = d;
    loop->last = &d->next;
    /* An active idle handle also keeps the loop from waiting. */
    if (!uv_is_closing((uv_handle_t *)&loop->idle))
        uv_idle_start(&loop->idle, on_idle);
}

struct bg_loop *bg_loop_new(void)
{
    struct bg_loop *loop = bg_xcalloc(1, sizeof *loop);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    int rc = uv_loop_init(&loop->uv);
    if (rc)
        bg_loop_panic("no event loop", rc);
    loop->uv.data = loop;
    loop->last = &loop->first;
    uv_idle_init(&loop->uv, &loop->idle);
    uv_timer_init(&loop->uv, &loop->turn_timer);
    return loop;
}

static void run(struct bg_loop *loop, uv_run_mode mode)
{
    if (loop->inside)
        bg_loop_panic("run from inside a callback", 0);
    loop->inside = true;
    uv_run(&loop->uv, mode);
    loop->inside = false;
}

void bg_loop_run(struct bg_loop *loop)
{
    if (!loop->stop_asked) {
        loop->running = true;
        run(loop, UV_RUN_DEFAULT);
        loop->running = false;
    }
    loop->stop_asked = false;
}

void bg_loop_stop(struct bg_loop *loop)
{
    /* Outside bg_loop_run libuv would keep the wish and skip a later turn. */
    if (loop->running)
        uv_stop(&loop->uv);
    else
        loop->stop_asked = true;
}

static void on_turn_over(uv_timer_t *t BG_UNUSED)
{
}

void bg_loop_turn(struct bg_loop *loop, int timeout_ms)
{
    if (timeout_ms > 0) {
        uv_update_time(&loop->uv);
        uv_timer_start(&loop->turn_timer, on_turn_over, (uint64_t)timeout_ms, 0);
    }
    run(loop, timeout_ms == 0 ? UV_RUN_NOWAIT : UV_RUN_ONCE);
    uv_timer_stop(&loop->turn_timer);
}

struct leftovers {
    struct bg_loop *loop;
    int handles;
};

static void close_leftover(uv_handle_t *h, void *arg)
{
    struct leftovers *left = arg;
    bool own = h == (uv_handle_t *)&left->loop->idle ||
               h == (uv_handle_t *)&left->loop->turn_timer;
    if (uv_is_closing(h))
        return;
    /* A process that nobody waits for any more is no leak; init will reap it. */
    bool forgotten = h->type == UV_PROCESS && !uv_has_ref(h);
    if (!own && !forgotten) {
        left->handles++;
        fprintf(stderr, "boxgate: loop: a %s handle was never freed\n",
                uv_handle_type_name(h->type));
    }
    if (h->type == UV_ASYNC)
        bg_serial_free(h->data);
    else
        bg_loop_close_handle(h);
}

void bg_loop_free(struct bg_loop *loop)
{
    if (!loop)
        return;
    struct leftovers left = {.loop = loop};
    /* Rounds: close callbacks and the `done` of works still out may defer more. */
    for (;;) {
        while (loop->first)
            run_deferred(loop);
        uv_walk(&loop->uv, close_leftover, &left);
        if (left.handles && LEAKED_HANDLES_ABORT)
            abort();
        if (!loop->first && uv_loop_close(&loop->uv) == 0)
            break;
        run(loop, UV_RUN_ONCE);
    }
    free(loop);
}

/* SPDX-License-Identifier: MIT */
/* Timers, descriptors, signals and the hook before waiting: thin owners of one uv handle
 * each. */
#include <errno.h>
#include <fcntl.h>

#include "core/base/mem.h"
#include "core/loop/loop_int.h"

struct bg_timer {
    uv_timer_t uv;
    bg_timer_fn fn;
    void *data;
};

struct bg_poll {
    uv_poll_t uv;
    bg_poll_fn fn;
    void *data;
    int fd;
    unsigned events; /* asked for; 0 = paused */
};

struct bg_signal {
    uv_signal_t uv;
    bg_signal_fn fn;
    void *data;
};

struct bg_idle {
    uv_prepare_t uv;
    void (*fn)(void *data);
    void *data;
};

/* ---- timers ---- */

static void on_timer(uv_timer_t *h)
{
    struct bg_timer *t = h->data;
    struct bg_loop *loop = h->loop->data;
    loop->in_timer = true;
    t->fn(t, t->data);
    loop->in_timer = false;
}

struct bg_timer *bg_timer_new(struct bg_loop *loop, bg_timer_fn fn, void *data)
{
    struct bg_timer *t = bg_xcalloc(1, sizeof *t);
    t->fn = fn;
    t->data = data;
    uv_timer_init(&loop->uv, &t->uv);
    t->uv.data = t;
    return t;
}

void bg_timer_start(struct bg_timer *t, int64_t after_ms, int64_t every_ms)
{
    const struct bg_loop *loop = t->uv.loop->data;
    uint64_t after = after_ms > 0 ? (uint64_t)after_ms : 0;
    uint64_t every = every_ms > 0 ? (uint64_t)every_ms : 0;
    uint64_t now = uv_hrtime() / 1000000, then = uv_now(&loop->uv);
    /* The loop's clock stands still during callbacks; a long one would make us fire early.
     */
    after += now > then ? now - then : 0;
    /* libuv would run what is due now in this same round again, and never come to wait. */
    if (!after && loop->in_timer)
        after = 1;
    uv_timer_start(&t->uv, on_timer, after, every);
}

void bg_timer_stop(struct bg_timer *t)
{
    uv_timer_stop(&t->uv);
}

bool bg_timer_active(const struct bg_timer *t)
{
    return uv_is_active((const uv_handle_t *)&t->uv);
}

void bg_timer_free(struct bg_timer *t)
{
    if (t)
        bg_loop_close_handle((uv_handle_t *)&t->uv);
}

/* ---- descriptors ---- */

static void on_poll(uv_poll_t *h, int status, int events);

static void poll_arm(struct bg_poll *p)
{
    int ev = (p->events & BG_READ ? UV_READABLE : 0) |
             (p->events & BG_WRITE ? UV_WRITABLE : 0) |
             (p->events & BG_HUP ? UV_DISCONNECT : 0);
    if (ev)
        uv_poll_start(&p->uv, ev, on_poll);
    else
        uv_poll_stop(&p->uv);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
    struct bg_poll *p = h->data;
    unsigned ev = (events & UV_READABLE ? BG_READ : 0u) |
                  (events & UV_WRITABLE ? BG_WRITE : 0u) |
                  (events & UV_DISCONNECT ? BG_HUP : 0u);
    if (status < 0) {
        /* An error condition: libuv stopped watching and does not say which. Let the
         * owner's own read or write tell, and go on watching as a level-triggered watcher
         * must. */
        poll_arm(p);
        ev = p->events | BG_HUP;
    }
    p->fn(p, p->fd, ev, p->data);
}

struct bg_poll *bg_poll_new(struct bg_loop *loop, int fd, bg_poll_fn fn, void *data)
{
    struct bg_poll *p = bg_xcalloc(1, sizeof *p);
    p->fn = fn;
    p->data = data;
    p->fd = fd;
    int flags = fcntl(fd, F_GETFL);
    int rc = flags < 0 ? -errno : uv_poll_init(&loop->uv, &p->uv, fd);
    if (rc) {
        free(p);
        errno = -rc;
        return NULL;
    }
    /* libuv makes it non-blocking; on a terminal that would outlive us in the user's shell.
     */
    if (!(flags & O_NONBLOCK))
        fcntl(fd, F_SETFL, flags);
    p->uv.data = p;
    return p;
}

void bg_poll_set(struct bg_poll *p, unsigned events)
{
    if (p->events == events)
        return;
    p->events = events;
    poll_arm(p);
}

void bg_poll_free(struct bg_poll *p)
{
    /* uv_close also takes the fd out of epoll, before it returns. */
    if (p)
        bg_loop_close_handle((uv_handle_t *)&p->uv);
}

/* ---- signals ---- */

static void on_signal(uv_signal_t *h, int signo)
{
    struct bg_signal *s = h->data;
    s->fn(signo, s->data);
}

struct bg_signal *bg_signal_new(struct bg_loop *loop, int signo, bg_signal_fn fn,
                                void *data)
{
    struct bg_signal *s = bg_xcalloc(1, sizeof *s);
    s->fn = fn;
    s->data = data;
    uv_signal_init(&loop->uv, &s->uv);
    s->uv.data = s;
    int rc = uv_signal_start(&s->uv, on_signal, signo);
    if (rc)
        bg_loop_panic("signal", rc);
    return s;
}

void bg_signal_free(struct bg_signal *s)
{
    if (s)
        bg_loop_close_handle((uv_handle_t *)&s->uv);
}

/* ---- before the loop waits ---- */

static void on_prepare(uv_prepare_t *h)
{
    struct bg_idle *p = h->data;
    p->fn(p->data);
}

struct bg_idle *bg_prepare_new(struct bg_loop *loop, void (*fn)(void *data), void *data)
{
    struct bg_idle *p = bg_xcalloc(1, sizeof *p);
    p->fn = fn;
    p->data = data;
    uv_prepare_init(&loop->uv, &p->uv);
    p->uv.data = p;
    uv_prepare_start(&p->uv, on_prepare);
    uv_unref((uv_handle_t *)&p->uv); /* waits for nothing itself */
    return p;
}

void bg_prepare_free(struct bg_idle *p)
{
    if (p)
        bg_loop_close_handle((uv_handle_t *)&p->uv);
}

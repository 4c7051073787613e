/* SPDX-License-Identifier: MIT */
/*
 * The connection to one guest: reading and cutting frames, sending, what a malformed frame
 * costs, and the way from one link to the next. What frames mean is in exec_link.c and
 * stats.c.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/guest/channel_int.h"

/* ---- callbacks and the end ---- */

static void link_send(struct bg_channel *ch);

void channel_enter(struct bg_channel *ch)
{
    ch->depth++;
}

void channel_leave(struct bg_channel *ch)
{
    if (--ch->depth)
        return;
    if (ch->fd < 0) {
        /* Kept until now: an owner may have ended the link while it looked at bytes in
         * there. */
        free(ch->in);
        ch->in = NULL;
        ch->in_cap = 0;
    }
    if (ch->dead)
        free(ch);
    else if (ch->fd >= 0)
        link_send(ch);
}

/* Nothing is told to the owner. */
static void link_close(struct bg_channel *ch)
{
    if (ch->fd < 0)
        return;
    bg_poll_free(ch->poll);
    ch->poll = NULL;
    close(ch->fd);
    ch->fd = -1;
    ch->in_len = 0;
    exec_link_down(ch);
    bg_buf_free(&ch->out);
    ch->out_sent = 0;
    stats_fail_all(ch, false);
}

void channel_lose(struct bg_channel *ch, const struct bg_error *err)
{
    if (ch->lost || ch->failed)
        return;
    ch->lost = true;
    ch->why = *err;
    link_close(ch);
    bg_door_shut(ch->door);
    if (ch->ev.lost)
        ch->ev.lost(ch->data, ch, &ch->why);
}

/* True when this one was one too many. */
static bool strike(struct bg_channel *ch, const char *why)
{
    int64_t now = bg_mono_ms();
    for (int i = STRIKES - 1; i > 0; i--)
        ch->strikes[i] = ch->strikes[i - 1];
    ch->strikes[0] = now;
    int64_t oldest = ch->strikes[STRIKES - 1];
    if (!oldest || now - oldest > STRIKE_WINDOW_MS)
        return false;
    struct bg_error err;
    bg_fail(
        &err, BG_ERR_PROTOCOL, 0,
        "the sandbox's guest can't be trusted any more: %s, the third fault in a minute",
        why);
    channel_lose(ch, &err);
    return true;
}

static void link_down(struct bg_channel *ch)
{
    struct bg_error err;
    link_close(ch);
    if (!ch->shut && !bg_door_open(ch->door, &err)) {
        channel_lose(ch, &err);
        return;
    }
    if (ch->ev.down)
        ch->ev.down(ch->data, ch);
}

/* ---- sending ---- */

void channel_put(struct bg_channel *ch, enum gp_type type, uint32_t id, unsigned flags,
                 const void *payload, size_t n)
{
    struct gp_head h = {.len = (uint32_t)n,
                        .id = id,
                        .type = (uint16_t)type,
                        .flags = (uint16_t)flags,
                        .epoch = ch->epoch};
    if (ch->fd < 0 || ch->deaf)
        return;
    if (!bg_frame_put(&ch->out, &h, payload)) {
        /* It has not read for a megabyte of small frames: shut down, reading tells the
         * rest. */
        ch->deaf = true;
        shutdown(ch->fd, SHUT_RDWR);
        return;
    }
    ch->queued += sizeof h + n;
}

/* False when the socket takes no more now. */
static bool link_flush(struct bg_channel *ch)
{
    while (ch->out_sent < ch->out.len) {
        ssize_t r = send(ch->fd, ch->out.data + ch->out_sent, ch->out.len - ch->out_sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0 && errno == EAGAIN)
            return false;
        if (r < 0) {
            /* What it said before it went is still to be read. */
            ch->deaf = true;
            break;
        }
        ch->out_sent += (size_t)r;
        ch->written += (uint64_t)r;
    }
    bg_buf_clear(&ch->out);
    ch->out_sent = 0;
    return true;
}

static void link_send(struct bg_channel *ch)
{
    bool flowing = true;
    do {
        exec_pump(ch);
        if (!ch->out.len)
            break;
        flowing = link_flush(ch);
    } while (flowing && !ch->deaf);
    if (!ch->out.len && ch->out.cap > LINK_READ_SMALL)
        bg_buf_shrink(&ch->out);
    bg_poll_set(ch->poll, flowing ? BG_READ : BG_READ | BG_WRITE);
}

/* ---- receiving ---- */

static bool link_frame(struct bg_channel *ch, const struct gp_head *h,
                       const unsigned char *p)
{
    if (h->epoch != ch->epoch)
        return false;
    switch (h->type) {
    case GP_HELLO:
        return false;
    case GP_PONG:
        return h->id == 0;
    case GP_STATS:
        return stats_frame(ch, h, p);
    default:
        return exec_frame(ch, h, p) || (h->type == GP_ERROR && stats_frame(ch, h, p));
    }
}

/* Handles the whole frames in the buffer and keeps the rest; false = malformed. */
static bool link_cut(struct bg_channel *ch)
{
    size_t at = 0;
    struct gp_head h;
    int whole;
    while ((whole = bg_frame_parse(ch->in + at, ch->in_len - at, &h)) == 1) {
        if (!link_frame(ch, &h, ch->in + at + sizeof h))
            return false;
        if (ch->dead || ch->fd < 0)
            return true;
        at += sizeof h + h.len;
    }
    ch->in_len -= at;
    memmove(ch->in, ch->in + at, ch->in_len);
    return whole == 0;
}

/* An idle link keeps little; one that fills its buffer gets room for large reads. */
static void link_fit_buffer(struct bg_channel *ch, bool busy)
{
    size_t want = busy || ch->in_len >= LINK_READ_SMALL ? LINK_READ_MAX : LINK_READ_SMALL;
    if (want == ch->in_cap)
        return;
    ch->in = bg_xrealloc(ch->in, want, 1);
    ch->in_cap = want;
}

static void on_link(struct bg_poll *poll BG_UNUSED, int fd, unsigned events, void *data)
{
    struct bg_channel *ch = data;
    if (!(events & (BG_READ | BG_HUP))) {
        link_send(ch);
        return;
    }
    channel_enter(ch);
    ssize_t r = recv(fd, ch->in + ch->in_len, ch->in_cap - ch->in_len, MSG_DONTWAIT);
    if (r > 0) {
        ch->in_len += (size_t)r;
        bool full = ch->in_len == ch->in_cap;
        if (!link_cut(ch)) {
            if (!strike(ch, "a malformed frame"))
                link_down(ch);
        } else if (!ch->dead && ch->fd >= 0) {
            link_fit_buffer(ch, full || r > LINK_READ_SMALL);
        }
    } else if (r == 0 || (errno != EAGAIN && errno != EINTR)) {
        link_down(ch);
    }
    channel_leave(ch);
}

/* ---- the door's news ---- */

static void on_admitted(void *data, int fd)
{
    struct bg_channel *ch = data;
    channel_enter(ch);
    ch->fd = fd;
    if (++ch->epoch == 0)
        ch->epoch = 1;
    ch->deaf = false;
    ch->queued = ch->written = 0;
    bg_buf_init(&ch->out, LINK_OUT_MAX);
    link_fit_buffer(ch, false);
    ch->poll = bg_poll_new(ch->loop, fd, on_link, ch);
    if (ch->poll) {
        struct gp_welcome w = {.magic = GP_MAGIC,
                               .epoch = ch->epoch,
                               .linger_ms = ch->linger_ms,
                               .linger_empty_ms = ch->linger_empty_ms};
        channel_put(ch, GP_WELCOME, 0, 0, &w, sizeof w);
        exec_link_up(ch);
        if (ch->ev.ready)
            ch->ev.ready(ch->data, ch);
    } else {
        link_down(ch);
    }
    channel_leave(ch);
}

static void on_refused(void *data, const char *why)
{
    struct bg_channel *ch = data;
    channel_enter(ch);
    strike(ch, why);
    channel_leave(ch);
}

/* ---- the owner's side ---- */

static void on_soon(struct bg_timer *t BG_UNUSED, void *data)
{
    struct bg_channel *ch = data;
    channel_enter(ch);
    exec_run_over(ch);
    channel_leave(ch);
}

struct bg_channel *bg_channel_listen(struct bg_loop *loop, const struct bg_channel_opts *o,
                                     const struct bg_channel_events *ev, void *data,
                                     struct bg_error *err)
{
    static const struct bg_door_events door_events = {on_admitted, on_refused};
    if (o->expect_pid < 0 && !o->token) {
        bg_fail(err, BG_ERR_USAGE, 0, "a guest needs a pid or a token to be known by");
        return NULL;
    }
    struct bg_channel *ch = bg_xcalloc(1, sizeof *ch);
    ch->loop = loop;
    ch->ev = *ev;
    ch->data = data;
    ch->linger_ms = o->linger_ms;
    ch->linger_empty_ms = o->linger_empty_ms;
    ch->fd = -1;
    bg_random(&ch->epoch, sizeof ch->epoch);
    bg_random(&ch->next_id, sizeof ch->next_id);
    ch->soon = bg_timer_new(loop, on_soon, ch);
    ch->door = bg_door_new(loop, o, &door_events, ch);
    if (!bg_door_open(ch->door, err)) {
        bg_channel_free(ch);
        return NULL;
    }
    return ch;
}

void bg_channel_expect_pid(struct bg_channel *ch, pid_t pid)
{
    bg_door_expect(ch->door, pid);
}

bool bg_channel_up(const struct bg_channel *ch)
{
    return ch->fd >= 0;
}

size_t bg_channel_execs(const struct bg_channel *ch)
{
    return ch->execs;
}

uint32_t channel_new_id(struct bg_channel *ch)
{
    do
        ch->next_id++;
    while (ch->next_id == 0 || exec_find(ch, ch->next_id));
    return ch->next_id;
}

void bg_channel_fail(struct bg_channel *ch, const struct bg_error *err)
{
    channel_enter(ch);
    ch->failed = true;
    ch->why = *err;
    link_close(ch);
    bg_door_shut(ch->door);
    for (struct bg_exec *x = ch->first; x; x = x->next)
        exec_end_soon(x, err);
    channel_leave(ch);
}

void bg_channel_shutdown(struct bg_channel *ch)
{
    channel_enter(ch);
    ch->shut = true;
    if (ch->fd < 0)
        bg_door_shut(ch->door);
    channel_put(ch, GP_SHUTDOWN, 0, 0, NULL, 0);
    channel_leave(ch);
}

void bg_channel_free(struct bg_channel *ch)
{
    struct bg_error err;
    if (!ch)
        return;
    channel_enter(ch);
    link_close(ch);
    ch->dead = true;
    bg_door_free(ch->door);
    bg_fail(&err, BG_ERR_DESTROYED, 0, "the session is closed");
    exec_finish_all(ch, &err);
    stats_fail_all(ch, true);
    bg_timer_free(ch->soon);
    channel_leave(ch);
}

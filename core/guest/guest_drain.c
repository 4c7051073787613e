/* SPDX-License-Identifier: MIT */
/*
 * Bytes between a command's pipes and the link. Output goes out only within credit: without
 * it the pipe fills and the program waits. While the link is down nobody could give credit,
 * so the pipes are drained into a ring that keeps the last GP_STREAM_RING bytes; the next
 * link hears of the gap first. A tail stream does the same when the server takes nothing
 * for long.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/guest/guest.h"

#define BURST \
    4 /* frames of one stream before the others and the kernel's events have a turn */

static char *map(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void unmap(char **p, size_t n)
{
    if (*p)
        munmap(*p, n);
    *p = NULL;
}

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void guest_drain_open(struct guest_exec *e, int in, int out, int err)
{
    uint32_t slot = guest_exec_slot(e);
    uint32_t credit = e->req.credit < GP_CREDIT_MAX ? e->req.credit : GP_CREDIT_MAX;
    e->in = (struct guest_stdin){.fd = in, .ready = true};
    e->out[0] = (struct guest_stream){.fd = out, .ready = true, .credit = credit};
    e->out[1] = (struct guest_stream){.fd = err, .ready = true, .credit = credit};
    guest_watch(in, GUEST_W_STDIN, slot, EPOLLOUT);
    guest_watch(out, GUEST_W_OUT, slot, EPOLLIN);
    guest_watch(err, GUEST_W_ERR, slot, EPOLLIN);
}

void guest_drain_free(struct guest_exec *e)
{
    shut(&e->in.fd);
    unmap(&e->in.ring, GP_CREDIT);
    for (int i = 0; i < 2; i++) {
        shut(&e->out[i].fd);
        unmap(&e->out[i].ring, GP_STREAM_RING);
    }
}

bool guest_drain_done(const struct guest_exec *e)
{
    for (int i = 0; i < 2; i++)
        if (e->out[i].fd >= 0 || e->out[i].len || e->out[i].dropped)
            return false;
    return true;
}

void guest_drain_finish(struct guest_exec *e)
{
    e->drained = true;
    for (int i = 0; i < 2; i++) {
        struct guest_stream *s = &e->out[i];
        int n = 0;
        if (s->fd < 0)
            continue;
        if (ioctl(s->fd, FIONREAD, &n) < 0 || n <= 0)
            shut(&s->fd);
        s->ready = s->last = true;
        s->rest = (uint32_t)n;
    }
}

void guest_drain_credit(struct guest_exec *e, int which, uint32_t bytes)
{
    struct guest_stream *s = &e->out[which];
    s->credit = bytes > GP_CREDIT_MAX - s->credit ? GP_CREDIT_MAX : s->credit + bytes;
}

/* ---- output ---- */

/* How many bytes may be read at once; the drain's end cuts it. */
static uint32_t limit(const struct guest_stream *s, uint32_t n)
{
    return s->last && s->rest < n ? s->rest : n;
}

/* After a read: true when it brought bytes. Closes on end, and when the drain has its rest.
 */
static bool took(struct guest_stream *s, ssize_t n)
{
    if (n < 0 && errno == EINTR)
        return false;
    if (n < 0 && errno == EAGAIN) {
        s->ready = false;
        if (s->last)
            shut(&s->fd);
        return false;
    }
    if (n > 0 && s->last)
        s->rest -= (uint32_t)n;
    if (n <= 0 || (s->last && s->rest == 0))
        shut(&s->fd);
    return n > 0;
}

/* Reads straight into the ring, over its oldest bytes. */
static bool keep(struct guest_stream *s)
{
    if (!s->ring)
        s->ring = map(GP_STREAM_RING);
    static char spill[4096];
    uint32_t end = (s->start + s->len) % GP_STREAM_RING;
    char *to = s->ring ? s->ring + end : spill;
    uint32_t n = s->ring ? GP_STREAM_RING - end : (uint32_t)sizeof spill;
    ssize_t got = read(s->fd, to, limit(s, n));
    if (!took(s, got))
        return false;
    if (!s->ring) {
        s->dropped += (uint64_t)got;
        return true;
    }
    s->len += (uint32_t)got;
    if (s->len > GP_STREAM_RING) {
        uint32_t over = s->len - GP_STREAM_RING;
        s->dropped += over;
        s->start = (s->start + over) % GP_STREAM_RING;
        s->len = GP_STREAM_RING;
    }
    return true;
}

void guest_drain_unsend(struct guest_exec *e, int which, const char *p, uint32_t n)
{
    struct guest_stream *s = &e->out[which];
    if (!s->ring && !(s->ring = map(GP_STREAM_RING))) {
        s->dropped += n;
        return;
    }
    /* Older than all that is kept: it takes what room there is, its own oldest bytes go. */
    uint32_t room = GP_STREAM_RING - s->len;
    if (n > room) {
        s->dropped += n - room;
        p += n - room;
        n = room;
    }
    s->start = (s->start + GP_STREAM_RING - n) % GP_STREAM_RING;
    s->len += n;
    for (uint32_t i = 0; i < n; i++)
        s->ring[(s->start + i) % GP_STREAM_RING] = p[i];
}

static void tell_gap(struct guest_exec *e, int which)
{
    unsigned char b[16] = {(unsigned char)(which + 1)};
    memcpy(b + 8, &e->out[which].dropped, 8);
    guest_link_send(GP_GAP, e->id, b, sizeof b);
    e->out[which].dropped = 0;
}

static void send_kept(struct guest_exec *e, int which, char *buf)
{
    struct guest_stream *s = &e->out[which];
    uint32_t n = s->len < s->credit ? s->len : s->credit;
    if (n > GP_STREAM_RING - s->start)
        n = GP_STREAM_RING - s->start;
    memcpy(buf, s->ring + s->start, n);
    s->start = (s->start + n) % GP_STREAM_RING;
    s->len -= n;
    s->credit -= n;
    if (s->len == 0)
        unmap(&s->ring, GP_STREAM_RING);
    guest_link_data_send(guest_exec_slot(e), which, n);
}

/* A tail program must not wait for ever for a server that hangs. */
static bool patience_over(const struct guest_exec *e, struct guest_stream *s)
{
    if (!(e->flags & GP_F_TAIL))
        return false;
    if (!s->stuck_at)
        s->stuck_at = g.now;
    return g.now - s->stuck_at >= GUEST_TAIL_MS;
}

/* One step of one stream; true when another may follow at once. */
static bool pump(struct guest_exec *e, int which)
{
    struct guest_stream *s = &e->out[which];
    bool pending = s->len || s->dropped;
    if (!pending && (s->fd < 0 || !s->ready))
        return false;
    if (!guest_link_up())
        return s->fd >= 0 && s->ready && keep(s);
    if (e->phase == GUEST_STARTING || e->tell_started)
        return false; /* a program can be quicker than the word that it runs */
    char *buf = s->credit ? guest_link_data() : NULL;
    /* Told when bytes can follow it, or none will; else a long gap would be many short
     * ones. */
    if (s->dropped && (buf || (s->fd < 0 && !s->len))) {
        if (!guest_link_room())
            return false;
        tell_gap(e, which);
        return true;
    }
    if (!buf)
        return patience_over(e, s) && s->fd >= 0 && s->ready && keep(s);
    s->stuck_at = 0;
    if (s->len) {
        send_kept(e, which, buf);
        return true;
    }
    uint32_t n = s->credit < GP_FRAME_MAX ? s->credit : GP_FRAME_MAX;
    ssize_t got = read(s->fd, buf, limit(s, n));
    if (!took(s, got))
        return false;
    s->credit -= (uint32_t)got;
    guest_link_data_send(guest_exec_slot(e), which, (uint32_t)got);
    return true;
}

/* ---- stdin ---- */

/* Nobody reads any more: what is kept goes, and no credit is given for more. */
static void stdin_over(struct guest_stdin *in)
{
    shut(&in->fd);
    unmap(&in->ring, GP_CREDIT);
    in->len = 0;
}

static ssize_t feed(struct guest_stdin *in, const char *p, uint32_t n)
{
    if (!in->ready || n == 0)
        return 0;
    ssize_t put = write(in->fd, p, n);
    if (put >= 0) {
        in->owed += (uint32_t)put;
        return put;
    }
    if (errno == EAGAIN)
        in->ready = false;
    else if (errno != EINTR)
        stdin_over(in);
    return 0;
}

static void feed_kept(struct guest_stdin *in)
{
    while (in->fd >= 0 && in->len && in->ready) {
        uint32_t n = GP_CREDIT - in->start;
        ssize_t put = feed(in, in->ring + in->start, n < in->len ? n : in->len);
        if (in->fd < 0 || put <= 0)
            return;
        in->start = (in->start + (uint32_t)put) % GP_CREDIT;
        in->len -= (uint32_t)put;
    }
    if (in->len == 0)
        unmap(&in->ring, GP_CREDIT);
    if (in->fd >= 0 && in->len == 0 && in->eof)
        stdin_over(in);
}

static bool store(struct guest_stdin *in, const char *p, uint32_t n)
{
    if (n > GP_CREDIT - in->len || (!in->ring && !(in->ring = map(GP_CREDIT))))
        return false;
    uint32_t end = (in->start + in->len) % GP_CREDIT;
    uint32_t first = GP_CREDIT - end < n ? GP_CREDIT - end : n;
    memcpy(in->ring + end, p, first);
    memcpy(in->ring, p + first, n - first);
    in->len += n;
    return true;
}

bool guest_drain_stdin(struct guest_exec *e, const char *p, uint32_t n, bool eof)
{
    struct guest_stdin *in = &e->in;
    if (in->fd < 0 || in->frozen || in->eof)
        return true; /* late bytes for a program that has closed its side are no fault */
    feed_kept(in);
    if (in->fd >= 0 && in->len == 0) {
        ssize_t put = feed(in, p, n);
        p += put;
        n -= (uint32_t)put;
    }
    if (in->fd >= 0 && n && !store(in, p, n))
        return false;
    in->eof = eof;
    if (in->fd >= 0)
        feed_kept(in);
    return true;
}

static void pump_stdin(struct guest_exec *e)
{
    struct guest_stdin *in = &e->in;
    if (in->fd < 0)
        return;
    if (in->len && in->ready)
        feed_kept(in);
    /* A quarter at a time: a frame per write would cost more than the bytes. */
    if (in->fd >= 0 && !in->eof && !in->frozen && in->owed >= GP_CREDIT / 4 &&
        guest_link_up() && guest_link_room()) {
        guest_link_send(GP_STDIN_CREDIT, e->id, &in->owed, 4);
        in->owed = 0;
    }
}

bool guest_drain_turn(void)
{
    bool busy = false;
    for (size_t i = 0; i < g.slots_used; i++) {
        struct guest_exec *e = &g.slots[i];
        if (e->phase < GUEST_STARTING || e->phase > GUEST_ENDED)
            continue;
        pump_stdin(e);
        /* Output before the word that it started would be malformed. */
        if (e->phase == GUEST_STARTING || (e->tell_started && guest_link_up()))
            continue;
        for (int w = 0; w < 2; w++)
            for (int k = 0; k < BURST && pump(e, w); k++)
                busy = busy || k == BURST - 1;
    }
    return busy;
}

int64_t guest_drain_wait(void)
{
    int64_t ms = -1;
    for (size_t i = 0; i < g.slots_used; i++)
        for (int w = 0; w < 2; w++) {
            const struct guest_stream *s = &g.slots[i].out[w];
            if (!s->stuck_at || s->fd < 0 || !s->ready)
                continue;
            int64_t left = s->stuck_at + GUEST_TAIL_MS - g.now;
            left = left < 1 ? 1 : left;
            ms = ms < 0 || left < ms ? left : ms;
        }
    return ms;
}

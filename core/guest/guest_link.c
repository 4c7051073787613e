/* SPDX-License-Identifier: MIT */
/*
 * The link to the server: dial, greet, frames in and out. Control frames have a queue of
 * their own and go before data; of data there is at most one frame under way. A link that
 * breaks a rule or breaks off is closed and dialled again; nothing on it is resumed.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/guest/guest.h"

static struct {
    int fd;  /* -1 = none */
    bool up; /* WELCOME came */
    bool readable, writable;
    bool stalled; /* whole frames may wait in the buffer for room in the queue */
    uint32_t epoch;
    const char *path;
    uint8_t token[GP_TOKEN_LEN];

    int64_t dial_at;
    int64_t pause_ms; /* before the dial after the next one */
    int64_t down_at;  /* when the link went, or the last command ended without one */
    int64_t linger_ms, linger_empty_ms;
    bool had_execs;

    size_t in_len, in_at;       /* bytes in the buffer; where the next frame begins */
    size_t queue_at, queue_len; /* queue[at, at + len) waits */
    uint32_t data_at, data_len; /* of the data frame, head and payload; 0 = none */
    uint32_t data_slot;
    int data_which;

    char queue[GUEST_QUEUE];
    char in[sizeof(struct gp_head) + GP_FRAME_MAX];
    char data[sizeof(struct gp_head) + GP_FRAME_MAX];
} l = {.fd = -1};

void guest_link_init(const char *path, const uint8_t token[GP_TOKEN_LEN])
{
    l.path = path;
    memcpy(l.token, token, GP_TOKEN_LEN);
    l.pause_ms = GUEST_REDIAL_MS;
    l.linger_ms = l.linger_empty_ms = GUEST_FIRST_LINGER_MS;
    l.down_at = l.dial_at = guest_clock();
}

bool guest_link_up(void)
{
    return l.up;
}

void guest_link_event(uint32_t events)
{
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
        l.readable = true;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        l.writable = true;
}

static void down(void)
{
    if (l.fd >= 0)
        close(l.fd);
    l.fd = -1;
    if (l.up) {
        l.up = false;
        l.down_at = g.now;
        if (l.data_len) /* the server drops a half frame, so its bytes are still ours to
                           tell */
            guest_drain_unsend(&g.slots[l.data_slot], l.data_which,
                               l.data + sizeof(struct gp_head),
                               l.data_len - (uint32_t)sizeof(struct gp_head));
        guest_exec_link_down();
    }
    l.in_len = l.in_at = l.queue_at = l.queue_len = 0;
    l.data_len = l.data_at = 0;
    l.stalled = l.readable = l.writable = false;
    l.dial_at = g.now + l.pause_ms;
    l.pause_ms =
        l.pause_ms * 2 < GUEST_REDIAL_MAX_MS ? l.pause_ms * 2 : GUEST_REDIAL_MAX_MS;
}

/* ---- out ---- */

bool guest_link_room(void)
{
    return GUEST_QUEUE - l.queue_len >= GUEST_ROOM;
}

void guest_link_send2(uint16_t type, uint32_t id, const void *p, size_t n, const void *q,
                      size_t m)
{
    struct gp_head h = {.len = (uint32_t)(n + m), .id = id, .type = type, .epoch = l.epoch};
    if (l.fd < 0 || sizeof h + n + m > GUEST_QUEUE - l.queue_len)
        return;
    if (l.queue_at + l.queue_len + sizeof h + n + m > GUEST_QUEUE) {
        memmove(l.queue, l.queue + l.queue_at, l.queue_len);
        l.queue_at = 0;
    }
    char *to = l.queue + l.queue_at + l.queue_len;
    memcpy(to, &h, sizeof h);
    if (n)
        memcpy(to + sizeof h, p, n);
    if (m)
        memcpy(to + sizeof h + n, q, m);
    l.queue_len += sizeof h + n + m;
}

void guest_link_send(uint16_t type, uint32_t id, const void *p, size_t n)
{
    guest_link_send2(type, id, p, n, NULL, 0);
}

/* Writes of p what the socket takes; false when it takes no more. */
static bool put(const char *p, size_t n, size_t *done)
{
    while (*done < n && l.writable) {
        ssize_t k = send(l.fd, p + *done, n - *done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k > 0) {
            *done += (size_t)k;
        } else if (errno != EINTR) {
            l.writable = false;
            l.readable |= errno != EAGAIN; /* broken: the read finds the same and closes */
        }
    }
    return *done == n;
}

bool guest_link_flush(void)
{
    if (l.fd < 0)
        return false;
    if (l.data_len) {
        size_t done = l.data_at;
        bool all = put(l.data, l.data_len, &done);
        l.data_at = all ? 0 : (uint32_t)done;
        l.data_len = all ? 0 : l.data_len;
        if (!all)
            return false;
    }
    size_t done = 0;
    bool all = put(l.queue + l.queue_at, l.queue_len, &done);
    l.queue_at = all ? 0 : l.queue_at + done;
    l.queue_len -= done;
    return all;
}

char *guest_link_data(void)
{
    return l.up && guest_link_flush() ? l.data + sizeof(struct gp_head) : NULL;
}

void guest_link_data_send(uint32_t slot, int which, uint32_t n)
{
    struct gp_head h = {.len = n,
                        .id = g.slots[slot].id,
                        .type = which ? GP_STDERR : GP_STDOUT,
                        .epoch = l.epoch};
    memcpy(l.data, &h, sizeof h);
    l.data_at = 0;
    l.data_len = (uint32_t)sizeof h + n;
    l.data_slot = slot;
    l.data_which = which;
    guest_link_flush();
}

/* ---- in ---- */

bool guest_link_sending(uint32_t slot)
{
    return l.data_len && l.data_slot == slot;
}

static bool welcome(const struct gp_head *h, const char *p)
{
    struct gp_welcome w;
    if (l.up || h->len < sizeof w)
        return false;
    memcpy(&w, p, sizeof w);
    if (w.magic != GP_MAGIC)
        return false;
    l.up = true;
    l.epoch = w.epoch;
    l.linger_ms = w.linger_ms;
    l.linger_empty_ms = w.linger_empty_ms;
    l.pause_ms = GUEST_REDIAL_MS;
    guest_exec_link_up();
    return true;
}

static bool on_stdin(const struct gp_head *h, const char *p)
{
    struct guest_exec *e = guest_exec_find(h->id);
    return !e || guest_drain_stdin(e, p, h->len, h->flags & GP_F_EOF);
}

static bool on_credit(const struct gp_head *h, const char *p)
{
    uint32_t bytes;
    if (h->len < 8 || p[0] < 1 || p[0] > 2)
        return false;
    memcpy(&bytes, p + 4, 4);
    struct guest_exec *e = guest_exec_find(h->id);
    if (e)
        guest_drain_credit(e, p[0] - 1, bytes);
    return true;
}

static bool on_kill(const struct gp_head *h, const char *p)
{
    struct gp_kill k;
    if (h->len < sizeof k)
        return false;
    memcpy(&k, p, sizeof k);
    struct guest_exec *e = guest_exec_find(h->id);
    if (e) {
        e->kill_asked = true;
        guest_kill_begin(e, GP_WHY_KILLED, k.grace_ms);
    } else {
        guest_link_send(GP_KILLED, h->id, &(uint32_t){0}, 4);
    }
    return true;
}

static bool on_frame(const struct gp_head *h, const char *p)
{
    struct gp_stats st;
    if (h->type == GP_WELCOME)
        return welcome(h, p);
    if (!l.up || h->type < GP_WELCOME || h->type > GP_SHUTDOWN)
        return false;
    if (h->epoch != l.epoch)
        return true; /* of an earlier link: not meant for this one */
    switch (h->type) {
    case GP_EXEC:
        guest_exec_frame(h, p);
        return true;
    case GP_STDIN:
        return on_stdin(h, p);
    case GP_CREDIT_OUT:
        return on_credit(h, p);
    case GP_KILL:
        return on_kill(h, p);
    case GP_QUERY:
        guest_exec_query(h->id);
        return true;
    case GP_GET_STATS:
        guest_stats_fill(&st);
        guest_link_send(GP_STATS, h->id, &st, sizeof st);
        return true;
    case GP_FORGET:
        guest_exec_forget(h->id);
        return true;
    case GP_PING:
        guest_link_send(GP_PONG, h->id, NULL, 0);
        return true;
    case GP_SHUTDOWN:
        guest_kill_all();
        _exit(0);
    default:
        return false;
    }
}

/* All whole frames in the buffer, as long as there is room for their answers. */
static bool take_frames(void)
{
    struct gp_head h;
    l.stalled = false;
    while (l.in_len - l.in_at >= sizeof h) {
        l.stalled = !guest_link_room();
        if (l.stalled)
            break;
        memcpy(&h, l.in + l.in_at, sizeof h);
        if (h.len > GP_FRAME_MAX)
            return false;
        if (l.in_len - l.in_at - sizeof h < h.len)
            break;
        const char *p = l.in + l.in_at + sizeof h;
        l.in_at += sizeof h + h.len;
        if (!on_frame(&h, p))
            return false;
    }
    if (l.in_at == l.in_len) {
        l.in_at = l.in_len = 0;
    } else if (l.in_at) {
        memmove(l.in, l.in + l.in_at, l.in_len - l.in_at);
        l.in_len -= l.in_at;
        l.in_at = 0;
    }
    return true;
}

static void receive(void)
{
    /* A turn takes a few buffers at most, so that a busy server can't hold off the rest. */
    for (int i = 0; i < 8 && l.fd >= 0; i++) {
        if (l.in_len < sizeof l.in && l.readable) {
            ssize_t n = recv(l.fd, l.in + l.in_len, sizeof l.in - l.in_len, MSG_DONTWAIT);
            if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
                down();
                return;
            }
            if (n < 0 && errno == EAGAIN)
                l.readable = false;
            l.in_len += n > 0 ? (size_t)n : 0;
        }
        if (!take_frames()) {
            down();
            return;
        }
        guest_link_flush();
        if (l.stalled || !l.readable)
            return;
    }
}

/* ---- dialling ---- */

static void hello(void)
{
    uint64_t pid_max = 0;
    guest_stats_number("/proc/sys/kernel/pid_max", &pid_max);
    struct gp_hello h = {.magic = GP_MAGIC,
                         .version = GP_VERSION,
                         .pid_max = (uint32_t)pid_max,
                         .execs = guest_exec_live()};
    memcpy(h.token, l.token, sizeof h.token);
    l.epoch = 0;
    guest_link_send(GP_HELLO, 0, &h, sizeof h);
}

static void dial(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(l.path);
    l.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l.fd < 0 || n >= sizeof a.sun_path) {
        down();
        return;
    }
    memcpy(a.sun_path, l.path, n);
    if (connect(l.fd, (struct sockaddr *)&a, sizeof a) < 0 ||
        !guest_watch(l.fd, GUEST_W_LINK, 0, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) {
        down();
        return;
    }
    int big = 1 << 20; /* cut to the system's limit */
    setsockopt(l.fd, SOL_SOCKET, SO_SNDBUF, &big, sizeof big);
    l.readable = l.writable = true;
    hello();
}

void guest_link_turn(void)
{
    if (l.fd < 0 && g.now >= l.dial_at)
        dial();
    if (l.fd >= 0)
        receive();
}

int64_t guest_link_wait(bool *expired)
{
    /* What could go on without an event: frames that found no room, input not yet read. */
    bool more = l.stalled ? guest_link_room() : l.readable;
    if (l.fd >= 0 && more)
        return 0;
    if (l.up)
        return -1;
    bool execs = guest_exec_supers() > 0;
    if (l.had_execs && !execs)
        l.down_at = g.now; /* what ended just now is worth the shorter wait, from now on */
    l.had_execs = execs;
    int64_t end = l.down_at + (execs ? l.linger_ms : l.linger_empty_ms);
    *expired = g.now >= end;
    int64_t next = l.fd < 0 && l.dial_at < end ? l.dial_at : end;
    return next > g.now ? next - g.now : 0;
}

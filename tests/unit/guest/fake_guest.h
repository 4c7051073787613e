/* SPDX-License-Identifier: MIT */
/*
 * A guest by script: it dials the channel's real socket from this process and sends exactly
 * the frames a test wants. While it waits it turns the loop, so both sides run in one
 * thread.
 */
#pragma once

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/guest/channel.h"
#include "core/guest/protocol.h"

enum { WAIT_MS = 10000 };

struct fake {
    int fd;
    uint32_t epoch;
    struct gp_head h; /* of the frame read last, its payload in p */
    unsigned char p[GP_FRAME_MAX];
};

/* What the owner of a channel was told. */
struct news {
    int ready, down, lost;
    struct bg_error err;
};

/* What the owner of a command was told. */
struct told {
    int started, done, gaps;
    uint64_t bytes[2], gap_bytes;
    char head[2][64]; /* the first bytes of each stream */
    bool ok;
    struct bg_exec_result result;
    struct bg_error err;
};

static struct bg_loop *loop;
static struct bg_channel *ch;
static struct news news;
static char dir[64], path[80];

#define UNTIL(cond)                                    \
    do {                                               \
        int64_t end_ = bg_mono_ms() + WAIT_MS;         \
        bool ok_;                                      \
        while (!(ok_ = (cond)) && bg_mono_ms() < end_) \
            bg_loop_turn(loop, 20);                    \
        if (!ok_)                                      \
            fail_msg("waited in vain: %s", #cond);     \
    } while (0)

static inline void on_ready(void *data BG_UNUSED, struct bg_channel *c BG_UNUSED)
{
    news.ready++;
}

static inline void on_down(void *data BG_UNUSED, struct bg_channel *c BG_UNUSED)
{
    news.down++;
}

static inline void on_lost(void *data BG_UNUSED, struct bg_channel *c BG_UNUSED,
                           const struct bg_error *err)
{
    news.lost++;
    news.err = *err;
}

static const struct bg_channel_events channel_events = {on_ready, on_down, on_lost};

static inline void listen_for(pid_t pid, const unsigned char *token)
{
    struct bg_error err;
    struct bg_channel_opts o = {.sock_path = path,
                                .expect_pid = pid,
                                .token = token,
                                .linger_ms = 7000,
                                .linger_empty_ms = 3000};
    ch = bg_channel_listen(loop, &o, &channel_events, NULL, &err);
    if (!ch)
        fail_msg("%s", err.msg);
}

static inline int fake_setup(void **state BG_UNUSED)
{
    loop = bg_loop_new();
    news = (struct news){0};
    ch = NULL;
    strcpy(dir, "/tmp/bg-link-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/s", dir);
    return 0;
}

static inline int fake_teardown(void **state BG_UNUSED)
{
    bg_channel_free(ch);
    bg_loop_free(loop);
    assert_int_equal(rmdir(dir), 0); /* the socket's name is gone */
    return 0;
}

static inline int dial(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    strcpy(a.sun_path, path);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static inline void fake_bytes(struct fake *f, const void *p, size_t n)
{
    int64_t end = bg_mono_ms() + WAIT_MS;
    while (n && bg_mono_ms() < end) {
        ssize_t r = send(f->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (r < 0 && errno != EAGAIN)
            return; /* hung up on: a test looks at the news */
        if (r < 0) {
            bg_loop_turn(loop, 1);
            continue;
        }
        p = (const char *)p + r;
        n -= (size_t)r;
    }
    assert_int_equal(n, 0);
}

static inline void fake_head(struct fake *f, struct gp_head h, const void *p)
{
    unsigned char frame[sizeof h + GP_FRAME_MAX];
    memcpy(frame, &h, sizeof h);
    if (p)
        memcpy(frame + sizeof h, p, h.len);
    fake_bytes(f, frame, sizeof h + (p ? h.len : 0));
}

static inline void fake_send(struct fake *f, enum gp_type type, uint32_t id, const void *p,
                             size_t n)
{
    fake_head(f,
              (struct gp_head){
                  .len = (uint32_t)n, .id = id, .type = (uint16_t)type, .epoch = f->epoch},
              p);
}

static inline bool fake_read(struct fake *f, void *p, size_t n)
{
    int64_t end = bg_mono_ms() + WAIT_MS;
    while (n && bg_mono_ms() < end) {
        ssize_t r = recv(f->fd, p, n, MSG_DONTWAIT);
        if (r == 0 || (r < 0 && errno != EAGAIN))
            return false;
        if (r < 0) {
            bg_loop_turn(loop, 20);
            continue;
        }
        p = (char *)p + r;
        n -= (size_t)r;
    }
    return n == 0;
}

/* The next frame; false at the end of the link. */
static inline bool fake_next(struct fake *f)
{
    if (!fake_read(f, &f->h, sizeof f->h))
        return false;
    assert_true(f->h.len <= GP_FRAME_MAX);
    assert_true(fake_read(f, f->p, f->h.len));
    return true;
}

static inline void fake_expect(struct fake *f, enum gp_type type)
{
    assert_true(fake_next(f));
    assert_int_equal(f->h.type, type);
    assert_int_equal(f->h.epoch, f->epoch);
}

static inline void fake_hello(struct fake *f, const unsigned char *token)
{
    struct gp_hello hello = {.magic = GP_MAGIC, .version = GP_VERSION};
    if (token)
        memcpy(hello.token, token, GP_TOKEN_LEN);
    f->epoch = 0;
    fake_send(f, GP_HELLO, 0, &hello, sizeof hello);
}

/* Dials, says hello and reads WELCOME. */
static inline void fake_link(struct fake *f)
{
    struct gp_welcome w;
    f->fd = dial();
    fake_hello(f, NULL);
    assert_true(fake_next(f));
    assert_int_equal(f->h.type, GP_WELCOME);
    memcpy(&w, f->p, sizeof w);
    assert_int_equal(w.magic, GP_MAGIC);
    f->epoch = w.epoch;
    assert_int_equal(f->h.epoch, w.epoch);
}

/* ---- a command's owner ---- */

static inline void told_started(void *data, struct bg_exec *x BG_UNUSED)
{
    ((struct told *)data)->started++;
}

static inline void told_output(void *data, struct bg_exec *x BG_UNUSED, enum bg_stream s,
                               const char *p, size_t n)
{
    struct told *t = data;
    uint64_t *have = &t->bytes[s - BG_STDOUT];
    for (size_t i = 0; i < n && *have + i < sizeof t->head[0] - 1; i++)
        t->head[s - BG_STDOUT][*have + i] = p[i];
    *have += n;
}

static inline void told_gap(void *data, struct bg_exec *x BG_UNUSED,
                            enum bg_stream s BG_UNUSED, uint64_t bytes)
{
    struct told *t = data;
    t->gaps++;
    t->gap_bytes += bytes;
}

static inline void told_done(void *data, struct bg_exec *x BG_UNUSED,
                             const struct bg_exec_result *r, const struct bg_error *err)
{
    struct told *t = data;
    assert_true(!r != !err);
    t->done++;
    t->ok = r != NULL;
    if (r)
        t->result = *r;
    else
        t->err = *err;
}

static const struct bg_exec_events told_events = {told_started, told_output, told_gap,
                                                  told_done};

/* A vector of literals, which execve's own type takes for writable. */
#define STRV(...) ((char *const *)(const char *const[]){__VA_ARGS__, NULL})
#define SPEC(...)            \
    (&(struct bg_exec_spec){ \
        .argv = STRV("prog", "arg"), .env = STRV("A=1"), .cwd = "/w", __VA_ARGS__})

static inline struct bg_exec *start(const struct bg_exec_spec *spec, struct told *t)
{
    *t = (struct told){0};
    return bg_exec_start(ch, spec, &told_events, t);
}

static inline void fake_started(struct fake *f, uint32_t id)
{
    struct gp_started s = {.pid = 7};
    fake_send(f, GP_STARTED, id, &s, sizeof s);
}

static inline void fake_exit(struct fake *f, uint32_t id, int code, int sig,
                             enum gp_why why)
{
    struct gp_exit e = {.code = code, .signal = sig, .why = why, .duration_ms = 12};
    fake_send(f, GP_EXIT, id, &e, sizeof e);
}

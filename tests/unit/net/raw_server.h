/* SPDX-License-Identifier: MIT */
/*
 * A server of raw bytes on a Unix socket, on the test's own loop: it reads a request's head
 * and body, then sends what the test wrote for it and closes, or goes silent.
 */
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/loop/loop.h"

enum { RAW_CONNS = 8, RAW_WAIT_MS = 10000 };

struct raw_reply {
    const char *path;   /* begins with; "" = any */
    const char *method; /* NULL = any */
    const char *bytes;
    size_t n;        /* 0 = strlen */
    bool stays_open; /* not closed after it */
    int64_t delay_ms;
};

struct raw_server;
struct raw_conn {
    struct raw_server *s;
    int fd;
    struct bg_poll *poll;
    struct bg_timer *later;
    const struct raw_reply *reply;
    struct bg_buf in;
};

struct raw_server {
    struct bg_loop *loop;
    char dir[32], path[64];
    int fd;
    struct bg_poll *poll;
    struct raw_conn conns[RAW_CONNS];
    const struct raw_reply *replies; /* the last has path NULL */
    struct bg_buf seen;              /* request lines, one each */
    size_t connections;
};

static inline void raw_drop(struct raw_conn *c)
{
    if (c->fd < 0)
        return;
    bg_poll_free(c->poll);
    bg_timer_free(c->later);
    c->later = NULL;
    close(c->fd);
    bg_buf_free(&c->in);
    c->fd = -1;
}

static inline void raw_send(struct raw_conn *c)
{
    const struct raw_reply *r = c->reply;
    ssize_t w = send(c->fd, r->bytes, r->n ? r->n : strlen(r->bytes), MSG_NOSIGNAL);

    (void)w;
    if (!r->stays_open)
        raw_drop(c);
}

static inline void raw_later(struct bg_timer *t, void *data)
{
    (void)t;
    raw_send(data);
}

static inline void raw_answer(struct raw_conn *c)
{
    char method[16] = "";
    const char *path = strchr(c->in.data, ' ') + 1;
    const struct raw_reply *r = c->s->replies;

    snprintf(method, sizeof method, "%.*s", (int)strcspn(c->in.data, " "), c->in.data);
    bg_buf_put(&c->s->seen, c->in.data, strcspn(c->in.data, "\r"));
    bg_buf_putc(&c->s->seen, '\n');
    for (; r && r->path; r++)
        if (strncmp(path, r->path, strlen(r->path)) == 0 &&
            (!r->method || strcmp(r->method, method) == 0))
            break;
    bg_buf_clear(&c->in);
    if (!r || !r->path) {
        raw_drop(c);
        return;
    }
    c->reply = r;
    if (r->delay_ms == 0) {
        raw_send(c);
        return;
    }
    c->later = bg_timer_new(c->s->loop, raw_later, c);
    bg_timer_start(c->later, r->delay_ms, 0);
}

static inline void raw_readable(struct bg_poll *p, int fd, unsigned events, void *data)
{
    struct raw_conn *c = data;
    char buf[4096];
    ssize_t n = recv(fd, buf, sizeof buf, MSG_DONTWAIT);

    (void)p;
    (void)events;
    if (n <= 0) {
        raw_drop(c);
        return;
    }
    bg_buf_add_some(&c->in, buf, (size_t)n);
    char *end = strstr(c->in.data, "\r\n\r\n");
    if (!end)
        return;
    const char *length = strstr(c->in.data, "Content-Length: ");
    size_t body = length ? strtoul(length + 16, NULL, 10) : 0;
    if (c->in.len >= (size_t)(end + 4 - c->in.data) + body)
        raw_answer(c);
}

static inline void raw_knock(struct bg_poll *p, int fd, unsigned events, void *data)
{
    struct raw_server *s = data;
    int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void)p;
    (void)events;
    for (size_t i = 0; c >= 0 && i < RAW_CONNS; i++) {
        if (s->conns[i].fd < 0) {
            s->connections++;
            s->conns[i].fd = c;
            bg_buf_init(&s->conns[i].in, 1 << 20);
            s->conns[i].poll = bg_poll_new(s->loop, c, raw_readable, &s->conns[i]);
            bg_poll_set(s->conns[i].poll, BG_READ);
            return;
        }
    }
    if (c >= 0)
        close(c);
}

static inline void raw_start(struct raw_server *s, struct bg_loop *loop)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    *s = (struct raw_server){.loop = loop};
    strcpy(s->dir, "/tmp/bg-raw-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    snprintf(s->path, sizeof s->path, "%s/a socket", s->dir); /* a space, as in C076 */
    strcpy(a.sun_path, s->path);
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s->fd, 8), 0);
    for (size_t i = 0; i < RAW_CONNS; i++)
        s->conns[i] = (struct raw_conn){.s = s, .fd = -1};
    bg_buf_init(&s->seen, 1 << 20);
    s->poll = bg_poll_new(loop, s->fd, raw_knock, s);
    bg_poll_set(s->poll, BG_READ);
}

static inline void raw_stop(struct raw_server *s)
{
    for (size_t i = 0; i < RAW_CONNS; i++)
        raw_drop(&s->conns[i]);
    bg_poll_free(s->poll);
    close(s->fd);
    bg_buf_free(&s->seen);
    assert_true(bg_rm_rf(s->dir, NULL));
}

static inline bool raw_wait(struct bg_loop *loop, const bool *flag)
{
    int64_t until = bg_mono_ms() + RAW_WAIT_MS;

    while (!*flag && bg_mono_ms() < until)
        bg_loop_turn(loop, 50);
    return *flag;
}

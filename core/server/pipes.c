/* SPDX-License-Identifier: MIT */
/*
 * A program's output into a pipe that a client passed: the exact bytes, never blocking the
 * loop. Lossless: nothing is queued beyond what the link's credit allows, because `took`
 * gives credit back only for bytes the pipe has taken. Capped: at most cap bytes wait, the
 * rest is dropped, so a slow reader never holds the program.
 */
#include <errno.h>
#include <fcntl.h>

#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/server/server_priv.h"

struct out_pipe {
    struct bg_poll *poll;
    int fd;
    struct bg_buf q;
    size_t head; /* bytes of q already written */
    size_t cap;
    bool broken, finishing;
    void (*took)(void *data, size_t n);
    void *data;
};

static void free_pipe(struct out_pipe *p)
{
    bg_poll_free(p->poll);
    if (p->fd >= 0)
        close(p->fd);
    bg_buf_free(&p->q);
    free(p);
}

/* Frees p when it is done. */
static void finish_if_empty(struct out_pipe *p)
{
    if (p->finishing && p->q.len == p->head)
        free_pipe(p);
}

static void give_back(struct out_pipe *p, size_t n)
{
    if (p->took && n)
        p->took(p->data, n);
}

static void reader_gone(struct out_pipe *p)
{
    size_t left = p->q.len - p->head;
    p->broken = true;
    bg_poll_free(p->poll);
    p->poll = NULL;
    close(p->fd);
    p->fd = -1;
    bg_buf_clear(&p->q);
    p->head = 0;
    give_back(p, left);
}

static void flush(struct out_pipe *p)
{
    size_t sent = 0;
    while (p->q.len > p->head) {
        ssize_t w = write(p->fd, p->q.data + p->head, p->q.len - p->head);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (w < 0) {
            give_back(p, sent);
            reader_gone(p);
            return;
        }
        p->head += (size_t)w;
        sent += (size_t)w;
    }
    if (p->head == p->q.len) {
        bg_buf_clear(&p->q);
        p->head = 0;
    } else if (p->head >= BG_STREAM_CREDIT) {
        bg_buf_consume(&p->q, p->head);
        p->head = 0;
    }
    bg_poll_set(p->poll, p->q.len ? BG_WRITE : 0);
    give_back(p, sent);
}

static void on_writable(struct bg_poll *poll BG_UNUSED, int fd BG_UNUSED,
                        unsigned ev BG_UNUSED, void *data)
{
    struct out_pipe *p = data;
    flush(p);
    finish_if_empty(p);
}

struct out_pipe *out_pipe_new(struct bg_loop *loop, int fd, size_t cap,
                              void (*took)(void *data, size_t n), void *data)
{
    struct out_pipe *p = bg_xcalloc(1, sizeof *p);
    p->fd = fd;
    p->cap = cap;
    p->took = took;
    p->data = data;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    bg_buf_init(&p->q, cap ? cap : 2 * (size_t)BG_STREAM_CREDIT + BG_FRAME_MAX);
    p->poll = bg_poll_new(loop, fd, on_writable, p);
    return p;
}

/* Straight into the pipe while nothing waits; the usual case copies nothing. */
static size_t write_through(struct out_pipe *p, const char *b, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t w = write(p->fd, b + done, n - done);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return done;
        if (w < 0) {
            reader_gone(p);
            return n;
        }
        done += (size_t)w;
    }
    return done;
}

void out_pipe_write(struct out_pipe *p, const char *b, size_t n)
{
    size_t done = 0;
    if (p->broken) {
        give_back(p, n);
        return;
    }
    if (p->q.len == p->head)
        done = write_through(p, b, n);
    give_back(p, done);
    if (done == n || p->broken)
        return;
    size_t kept = bg_buf_add_some(&p->q, b + done, n - done);
    /* Past the cap (never in lossless mode, where credit bounds the queue). */
    give_back(p, n - done - kept);
    bg_poll_set(p->poll, BG_WRITE);
}

void out_pipe_finish(struct out_pipe *p)
{
    p->finishing = true;
    p->took = NULL;
    finish_if_empty(p);
}

/* SPDX-License-Identifier: MIT */
/*
 * Blocking work off the loop. bg_work uses libuv's pool. A serial queue has its own thread,
 * so that a disk sync never waits behind a slow regex, and so that bg_serial_free can wait
 * for it without turning the loop.
 */
#include <pthread.h>
#include <signal.h>

#include "core/base/mem.h"
#include "core/loop/loop_int.h"

/* ---- the pool ---- */

struct pool_job {
    uv_work_t uv;
    void (*work)(void *data);
    void (*done)(void *data);
    void *data;
};

static void pool_work(uv_work_t *r)
{
    struct pool_job *j = r->data;
    j->work(j->data);
}

static void pool_done(uv_work_t *r, int status BG_UNUSED)
{
    struct pool_job *j = r->data;
    if (j->done)
        j->done(j->data);
    free(j);
}

void bg_work(struct bg_loop *loop, void (*work)(void *data), void (*done)(void *data),
             void *data)
{
    struct pool_job *j = bg_xcalloc(1, sizeof *j);
    *j = (struct pool_job){.work = work, .done = done, .data = data};
    j->uv.data = j;
    int rc = uv_queue_work(&loop->uv, &j->uv, pool_work, pool_done);
    if (rc)
        bg_loop_panic("worker", rc);
}

/* ---- serial queues ---- */

struct job {
    struct job *next;
    void (*work)(void *data);
    void (*done)(void *data);
    void *data;
};

struct fifo {
    struct job *first;
    struct job **last;
};

struct bg_serial {
    uv_async_t uv;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below but `out` */
    pthread_cond_t wake;  /* the thread: there is work, or the end */
    pthread_cond_t idle;  /* bg_serial_free: a work is done */
    struct fifo todo, ready;
    bool ending;
    size_t out; /* added and not yet `done`; loop thread only */
};

static void fifo_push(struct fifo *f, struct job *j)
{
    j->next = NULL;
    if (!f->first)
        f->last = &f->first;
    *f->last = j;
    f->last = &j->next;
}

static struct job *fifo_pop(struct fifo *f)
{
    struct job *j = f->first;
    if (j)
        f->first = j->next;
    return j;
}

static void *serial_thread(void *arg)
{
    struct bg_serial *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct job *j = fifo_pop(&s->todo);
        if (!j) {
            if (s->ending)
                break;
            pthread_cond_wait(&s->wake, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        j->work(j->data);
        pthread_mutex_lock(&s->lock);
        fifo_push(&s->ready, j);
        pthread_cond_signal(&s->idle);
        uv_async_send(&s->uv);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static struct job *serial_take_ready(struct bg_serial *s, bool wait)
{
    pthread_mutex_lock(&s->lock);
    while (wait && !s->ready.first)
        pthread_cond_wait(&s->idle, &s->lock);
    struct job *j = fifo_pop(&s->ready);
    pthread_mutex_unlock(&s->lock);
    return j;
}

static void serial_finish(struct bg_serial *s, struct job *j)
{
    if (--s->out == 0)
        uv_unref((uv_handle_t *)&s->uv);
    if (j->done)
        j->done(j->data);
    free(j);
}

static void on_serial_ready(uv_async_t *h)
{
    struct bg_serial *s = h->data;
    /* A `done` may free the queue: then nothing is ready any more, and s lives on until
     * libuv's close callback. */
    for (struct job *j; (j = serial_take_ready(s, false));)
        serial_finish(s, j);
}

struct bg_serial *bg_serial_new(struct bg_loop *loop)
{
    struct bg_serial *s = bg_xcalloc(1, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    pthread_cond_init(&s->idle, NULL);
    int rc = uv_async_init(&loop->uv, &s->uv, on_serial_ready);
    if (rc)
        bg_loop_panic("serial queue", rc);
    s->uv.data = s;
    uv_unref((uv_handle_t *)&s->uv); /* keeps the loop alive only while work is out */
    /* Signals are the loop thread's business. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&s->thread, NULL, serial_thread, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        bg_loop_panic("serial queue's thread", -rc);
    return s;
}

void bg_serial_add(struct bg_serial *s, void (*work)(void *data), void (*done)(void *data),
                   void *data)
{
    struct job *j = bg_xmalloc(sizeof *j);
    *j = (struct job){.work = work, .done = done, .data = data};
    if (s->out++ == 0)
        uv_ref((uv_handle_t *)&s->uv);
    pthread_mutex_lock(&s->lock);
    fifo_push(&s->todo, j);
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

void bg_serial_free(struct bg_serial *s)
{
    if (!s)
        return;
    while (s->out)
        serial_finish(s, serial_take_ready(s, true));
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->idle);
    pthread_cond_destroy(&s->wake);
    bg_loop_close_handle((uv_handle_t *)&s->uv);
}

/* SPDX-License-Identifier: MIT */
/*
 * Commands as their owner sees them: start, kill, consume, and done() exactly once. A
 * command that ends outside a callback is marked `over` and told in the next turn.
 */
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/guest/channel_int.h"

struct bg_exec *exec_find(struct bg_channel *ch, uint32_t id)
{
    struct bg_exec *x = ch->first;
    while (x && x->id != id)
        x = x->next;
    return x;
}

static void exec_link_in(struct bg_channel *ch, struct bg_exec *x)
{
    x->prev = ch->last;
    x->next = NULL;
    if (ch->last)
        ch->last->next = x;
    else
        ch->first = x;
    ch->last = x;
    ch->execs++;
}

static void exec_unlink(struct bg_channel *ch, struct bg_exec *x)
{
    if (x->prev)
        x->prev->next = x->next;
    else
        ch->first = x->next;
    if (x->next)
        x->next->prev = x->prev;
    else
        ch->last = x->prev;
    ch->execs--;
}

/* ---- the end ---- */

void exec_finish(struct bg_exec *x, const struct bg_exec_result *r,
                 const struct bg_error *err)
{
    struct bg_channel *ch = x->ch;
    exec_unlink(ch, x);
    if (x->flow == BG_FLOW_LOSSLESS)
        ch->reserved -= 2 * (uint64_t)x->head.credit;
    bg_timer_free(x->backstop);
    x->ev.done(x->data, x, r, err);
    bg_buf_free(&x->blob);
    free(x->input);
    free(x);
}

void exec_end_soon(struct bg_exec *x, const struct bg_error *err)
{
    if (x->over)
        return;
    x->over = true;
    if (err)
        x->error = *err;
    bg_timer_start(x->ch->soon, 0, 0);
}

void exec_killed_unsent(struct bg_exec *x)
{
    x->result = (struct bg_exec_result){.exit_code = 128 + 9, .signal = 9, .killed = true};
    exec_end_soon(x, NULL);
}

static struct bg_exec *first_over(struct bg_channel *ch)
{
    struct bg_exec *x = ch->first;
    while (x && !x->over)
        x = x->next;
    return x;
}

void exec_run_over(struct bg_channel *ch)
{
    struct bg_exec *x;
    /* From the head each time: done() may start, end or free anything. No more than there
     * are now, so that one who starts anew in done() has to wait for the next turn. */
    for (size_t n = ch->execs; n && !ch->dead && (x = first_over(ch)); n--)
        exec_finish(x, x->error.code ? NULL : &x->result, x->error.code ? &x->error : NULL);
}

void exec_finish_all(struct bg_channel *ch, const struct bg_error *err)
{
    while (ch->first)
        exec_finish(ch->first, NULL, err);
}

/* The guest let the time pass in which it must have ended the command: it can't be relied
 * on. */
static void on_backstop(struct bg_timer *t BG_UNUSED, void *data)
{
    struct bg_exec *x = data;
    struct bg_channel *ch = x->ch;
    struct bg_error err;
    if (x->over)
        return;
    channel_enter(ch);
    bg_fail(&err, x->kill_wanted ? BG_ERR_DESTROYED : BG_ERR_TIMEOUT, 0,
            "the sandbox did not end %s in time", x->name);
    exec_finish(x, NULL, &err);
    if (!ch->dead)
        channel_lose(ch, &err);
    channel_leave(ch);
}

/* ---- start ---- */

static bool put_string(struct bg_buf *b, const char *s, struct bg_error *err)
{
    uint32_t n = (uint32_t)strnlen(s, GP_EXEC_MAX + 1);
    return bg_buf_add(b, &n, sizeof n, err) && bg_buf_add(b, s, n, err);
}

static bool encode(struct bg_exec *x, const struct bg_exec_spec *s, struct bg_error *err)
{
    if (!s->argv || !s->argv[0] || !s->cwd)
        return bg_fail(err, BG_ERR_USAGE, 0, "no command");
    if (s->input_len > BG_INPUT_MAX)
        return bg_fail(err, BG_ERR_LIMIT, 0, "input is larger than %d bytes", BG_INPUT_MAX);
    bool fits = true;
    for (char *const *p = s->argv; fits && *p; p++, x->head.argc++)
        fits = put_string(&x->blob, *p, NULL);
    for (char *const *p = s->env; fits && p && *p; p++, x->head.envc++)
        fits = put_string(&x->blob, *p, NULL);
    if (!fits || !put_string(&x->blob, s->cwd, NULL))
        return bg_fail(err, BG_ERR_LIMIT, 0,
                       "arguments and environment are larger than %u bytes", GP_EXEC_MAX);
    x->head.total = (uint32_t)x->blob.len;
    return true;
}

/* A tail keeps nothing here; lossless streams share the session's credit. */
static bool reserve(struct bg_exec *x, struct bg_error *err)
{
    struct bg_channel *ch = x->ch;
    uint64_t window = GP_CREDIT;
    if (x->flow == BG_FLOW_LOSSLESS) {
        uint64_t share = (BG_SESSION_CREDIT - ch->reserved) / 4;
        if (share < window)
            window = share;
        if (window < WINDOW_MIN)
            return bg_fail(err, BG_ERR_LIMIT, 0,
                           "too many commands of this session stream their output at once");
        ch->reserved += 2 * window;
    }
    x->head.credit = (uint32_t)window;
    x->out[0].credit = x->out[1].credit = x->head.credit;
    return true;
}

static bool accept_exec(struct bg_exec *x, const struct bg_exec_spec *s,
                        struct bg_error *err)
{
    struct bg_channel *ch = x->ch;
    if (ch->failed || ch->lost) {
        *err = ch->why;
        return false;
    }
    if (ch->shut)
        return bg_fail(err, BG_ERR_DESTROYED, 0, "the session is closed");
    if (ch->execs > GP_REMEMBER)
        return bg_fail(err, BG_ERR_LIMIT, 0, "more than %d commands at once", GP_REMEMBER);
    return encode(x, s, err) && reserve(x, err);
}

struct bg_exec *bg_exec_start(struct bg_channel *ch, const struct bg_exec_spec *spec,
                              const struct bg_exec_events *ev, void *data)
{
    struct bg_error err;
    struct bg_exec *x = bg_xcalloc(1, sizeof *x);
    x->ch = ch;
    x->id = channel_new_id(ch);
    x->ev = *ev;
    x->data = data;
    x->flow = spec->flow;
    x->head.deadline_ms = spec->deadline_ms;
    x->head.root = (uint32_t)spec->root_len;
    x->head.uid = spec->uid;
    x->head.gid = spec->gid;
    x->input_credit = GP_CREDIT;
    x->backstop = bg_timer_new(ch->loop, on_backstop, x);
    bg_buf_init(&x->blob, GP_EXEC_MAX);
    exec_link_in(ch, x);
    if (!accept_exec(x, spec, &err)) {
        exec_end_soon(x, &err);
        return x;
    }
    size_t n = strnlen(spec->argv[0], sizeof x->name - 1);
    memcpy(x->name, spec->argv[0], n);
    x->input = spec->input_len ? bg_xmemdup(spec->input, spec->input_len) : NULL;
    x->input_len = spec->input_len;
    channel_enter(ch);
    channel_leave(ch); /* sends it, if the link is up and no callback is on the stack */
    return x;
}

uint32_t bg_exec_id(const struct bg_exec *x)
{
    return x->id;
}

void bg_exec_consumed(struct bg_exec *x, enum bg_stream s, size_t n)
{
    struct exec_stream *st = &x->out[s - BG_STDOUT];
    st->held -= n < st->held ? n : st->held;
    channel_enter(x->ch);
    exec_grant(x, s - BG_STDOUT);
    channel_leave(x->ch);
}

/* ---- kill ---- */

void bg_exec_kill(struct bg_exec *x, uint32_t grace_ms)
{
    struct bg_channel *ch = x->ch;
    if (x->over || (x->kill_wanted && grace_ms >= x->kill_grace_ms))
        return;
    x->kill_wanted = true;
    x->kill_sent = false;
    x->kill_grace_ms = grace_ms;
    if (x->state == EXEC_NEW && !x->blob_sent) {
        x->result =
            (struct bg_exec_result){.exit_code = 128 + 9, .signal = 9, .killed = true};
        exec_end_soon(x, NULL);
        return;
    }
    int64_t wait = (int64_t)grace_ms + BG_KILL_MS + BACKSTOP_SLACK_MS;
    int64_t at = bg_mono_ms() + wait;
    if (!x->backstop_at || at < x->backstop_at) {
        x->backstop_at = at;
        bg_timer_start(x->backstop, wait, 0);
    }
    channel_enter(ch);
    exec_kill_now(x);
    channel_leave(ch);
}

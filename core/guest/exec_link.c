/* SPDX-License-Identifier: MIT */
/*
 * Commands and the wire: which frames are sent for them and when, and what each frame of
 * the guest may say in which state. Returning false from a handler means: malformed.
 */
#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/guest/channel_int.h"

/* ---- sending ---- */

static bool room(const struct bg_channel *ch)
{
    return ch->fd >= 0 && !ch->deaf && ch->out.len - ch->out_sent < LINK_OUT_SOFT;
}

void exec_kill_now(struct bg_exec *x)
{
    if (!x->kill_wanted || x->kill_sent || x->asked || x->state == EXEC_NEW ||
        x->ch->fd < 0)
        return;
    struct gp_kill k = {.grace_ms = x->kill_grace_ms};
    channel_put(x->ch, GP_KILL, x->id, 0, &k, sizeof k);
    x->kill_sent = true;
}

static void start_deadline(struct bg_exec *x)
{
    if (!x->head.deadline_ms || x->backstop_at)
        return;
    int64_t wait = (int64_t)x->head.deadline_ms + BG_KILL_MS + BACKSTOP_SLACK_MS;
    x->backstop_at = bg_mono_ms() + wait;
    bg_timer_start(x->backstop, wait, 0);
}

/* One EXEC frame; the first carries the head. */
static void put_exec(struct bg_exec *x)
{
    unsigned char frame[GP_FRAME_MAX];
    size_t at = 0, left = x->blob.len - x->blob_sent;
    bool first = x->blob_sent == 0;
    if (first) {
        memcpy(frame, &x->head, sizeof x->head);
        at = sizeof x->head;
    }
    size_t n = left < sizeof frame - at ? left : sizeof frame - at;
    memcpy(frame + at, x->blob.data + x->blob_sent, n);
    x->blob_sent += n;
    unsigned flags =
        (x->flow == BG_FLOW_TAIL ? GP_F_TAIL : 0u) | (n < left ? GP_F_MORE : 0u);
    channel_put(x->ch, GP_EXEC, x->id, flags, frame, at + n);
    if (n < left)
        return;
    x->state = EXEC_SENT;
    x->blob_mark = x->ch->queued;
    start_deadline(x);
    exec_kill_now(x);
}

static bool has_input(const struct bg_exec *x)
{
    return x->state != EXEC_NEW && !x->over && !x->asked && !x->input_over &&
           (x->input_credit || x->input_sent == x->input_len);
}

static void put_input(struct bg_exec *x)
{
    size_t n = x->input_len - x->input_sent;
    if (n > GP_FRAME_MAX)
        n = GP_FRAME_MAX;
    if (n > x->input_credit)
        n = x->input_credit;
    x->input_over = x->input_sent + n == x->input_len;
    channel_put(x->ch, GP_STDIN, x->id, x->input_over ? GP_F_EOF : 0,
                n ? x->input + x->input_sent : NULL, n);
    x->input_sent += n;
    x->input_credit -= (uint32_t)n;
}

void exec_pump(struct bg_channel *ch)
{
    for (struct bg_exec *x = ch->first; x; x = x->next)
        while (x->state == EXEC_NEW && !x->over && room(ch))
            put_exec(x);
    /* A frame for each in turn, so that one large input does not hold up the others. */
    for (bool any = true; any && room(ch);) {
        any = false;
        for (struct bg_exec *x = ch->first; x && room(ch); x = x->next)
            if (has_input(x)) {
                put_input(x);
                any = true;
            }
    }
}

void exec_grant(struct bg_exec *x, unsigned stream)
{
    struct exec_stream *st = &x->out[stream];
    uint64_t out = st->credit + st->held, window = x->head.credit;
    /* Small steps would cost a frame each; a quarter keeps the program running. */
    if (out >= window || window - out < window / 4 || x->state != EXEC_LIVE || x->asked ||
        x->ch->fd < 0)
        return;
    struct {
        uint8_t stream, pad[3];
        uint32_t bytes;
    } c = {.stream = (uint8_t)(stream + BG_STDOUT), .bytes = (uint32_t)(window - out)};
    channel_put(x->ch, GP_CREDIT_OUT, x->id, 0, &c, sizeof c);
    st->credit += c.bytes;
}

/* ---- from one link to the next ---- */

void exec_link_up(struct bg_channel *ch)
{
    for (struct bg_exec *x = ch->first; x; x = x->next) {
        if (x->state == EXEC_NEW || x->over)
            continue;
        x->asked = true;
        if (x->state == EXEC_SENT)
            x->start_unheard = true;
        x->kill_sent = false;
        x->out[0].credit = x->out[1].credit = x->head.credit;
        channel_put(ch, GP_QUERY, x->id, 0, NULL, 0);
    }
}

void exec_link_down(struct bg_channel *ch)
{
    for (struct bg_exec *x = ch->first; x; x = x->next) {
        bool unheard = x->state == EXEC_NEW ||
                       (x->state == EXEC_SENT && !x->asked && x->blob_mark > ch->written);
        x->asked = false;
        if (unheard) {
            /* Its last EXEC frame never went out whole, so nothing can have run. */
            x->state = EXEC_NEW;
            x->blob_sent = 0;
            x->input_sent = 0;
            x->input_over = false;
            x->input_credit = GP_CREDIT;
            if (x->kill_wanted)
                exec_killed_unsent(x);
        } else {
            x->input_over = true; /* never closed over a hole; see protocol.h */
        }
    }
}

/* ---- what the guest says ---- */

static void mark_started(struct bg_exec *x)
{
    if (x->state == EXEC_LIVE)
        return;
    x->state = EXEC_LIVE;
    bg_buf_free(&x->blob);
    if (x->ev.started)
        x->ev.started(x->data, x);
}

/* After a new link the word STARTED may have been lost with the old one. */
static bool may_speak(struct bg_exec *x)
{
    if (x->state == EXEC_SENT && x->start_unheard)
        mark_started(x);
    return x->ch->dead || x->state == EXEC_LIVE;
}

static bool on_started(struct bg_exec *x)
{
    if (x->state != EXEC_SENT && !x->start_unheard)
        return false;
    x->start_unheard = false;
    mark_started(x);
    return true;
}

static bool on_output(struct bg_exec *x, const struct gp_head *h, const unsigned char *p)
{
    struct bg_channel *ch = x->ch;
    unsigned i = h->type == GP_STDOUT ? 0 : 1;
    if (!may_speak(x))
        return false;
    if (ch->dead || ch->fd < 0)
        return true;
    if (h->len > x->out[i].credit)
        return false;
    x->out[i].credit -= h->len;
    if (x->flow == BG_FLOW_LOSSLESS)
        x->out[i].held += h->len;
    if (x->ev.output && !x->over)
        x->ev.output(x->data, x, BG_STDOUT + i, (const char *)p, h->len);
    if (!ch->dead)
        exec_grant(x, i);
    return true;
}

static bool on_gap(struct bg_exec *x, const unsigned char *p)
{
    uint64_t bytes;
    memcpy(&bytes, p + 8, sizeof bytes);
    if ((p[0] != BG_STDOUT && p[0] != BG_STDERR) || !may_speak(x))
        return false;
    if (!x->ch->dead && !x->over && x->ev.gap)
        x->ev.gap(x->data, x, p[0], bytes);
    return true;
}

/* The guest's claim as a result; false if it makes no sense. */
static bool read_exit(const struct gp_exit *e, struct bg_exec_result *r)
{
    if (e->why > GP_WHY_OOM || e->signal < 0 || e->signal > 64 || e->code > 255 ||
        (e->code < 0 && !e->signal && e->why == GP_WHY_EXITED))
        return false;
    *r = (struct bg_exec_result){
        .exit_code = e->signal ? 128 + e->signal : e->code,
        .signal = e->signal,
        .timed_out = e->why == GP_WHY_DEADLINE,
        .killed = e->why == GP_WHY_KILLED,
        /* Also one of its children's: the program itself may have survived it. */
        .oom = e->why == GP_WHY_OOM || e->oom_kills > 0,
        .supervisor_lost = e->why == GP_WHY_SUPERVISOR_LOST,
        .started = true,
        .leftover = e->leftover,
        .duration_ms = e->duration_ms,
    };
    if (r->timed_out)
        r->exit_code = 124;
    else if (r->killed || r->supervisor_lost || r->exit_code < 0)
        r->exit_code = 128 + 9; /* whatever it says: never a success */
    return true;
}

static bool finish_with(struct bg_exec *x, const struct gp_exit *e)
{
    struct bg_exec_result r;
    if (!read_exit(e, &r))
        return false;
    if (!x->over) {
        channel_put(x->ch, GP_FORGET, x->id, 0, NULL, 0);
        exec_finish(x, &r, NULL);
    }
    return true;
}

static bool on_exit_frame(struct bg_exec *x, const unsigned char *p)
{
    struct gp_exit e;
    memcpy(&e, p, sizeof e);
    if (!may_speak(x))
        return false;
    return x->ch->dead || finish_with(x, &e);
}

static bool on_state(struct bg_exec *x, const unsigned char *p)
{
    struct gp_state s;
    struct bg_error err;
    memcpy(&s, p, sizeof s);
    if (!x->asked || s.kind > GP_STATE_DONE)
        return false;
    x->asked = false;
    if (s.kind != GP_STATE_UNKNOWN)
        mark_started(x);
    if (x->ch->dead || x->ch->fd < 0)
        return true;
    if (s.kind == GP_STATE_DONE)
        return finish_with(x, &s.exit);
    if (s.kind == GP_STATE_UNKNOWN) {
        bg_fail(&err, BG_ERR_DESTROYED, 0,
                "the link to the sandbox was lost; %s may have run", x->name);
        exec_finish(x, NULL, &err);
        return true;
    }
    exec_kill_now(x);
    exec_grant(x, 0);
    exec_grant(x, 1);
    return true;
}

static bool on_error(struct bg_exec *x, const struct gp_head *h, const unsigned char *p)
{
    struct gp_error e;
    struct bg_error err;
    memcpy(&e, p, sizeof e);
    const char *text = (const char *)p + sizeof e;
    int n = (int)(h->len - sizeof e);
    if (x->state != EXEC_SENT && !x->start_unheard)
        return false;
    switch (e.err) {
    case GP_ERR_NOENT:
        bg_fail(&err, BG_ERR_COMMAND, 0, "command not found: %s", x->name);
        err.sys = ENOENT;
        break;
    case GP_ERR_ACCES:
        bg_fail(&err, BG_ERR_COMMAND, 0, "not executable: %s", x->name);
        err.sys = EACCES;
        break;
    case GP_ERR_CWD:
        bg_fail(&err, BG_ERR_PATH, 0, "%s: %.*s",
                e.sys == EXDEV ? "the working folder is not below the sandbox's own"
                               : "no such working folder in the sandbox",
                n, text);
        break;
    case GP_ERR_LIMIT:
        bg_fail(&err, BG_ERR_LIMIT, 0, "process limit reached: %.*s", n, text);
        break;
    default:
        bg_fail(&err, BG_ERR_COMMAND, 0, "can't start %s: %.*s", x->name, n, text);
    }
    exec_finish(x, NULL, &err);
    return true;
}

static bool on_input_credit(struct bg_exec *x, const unsigned char *p)
{
    uint32_t n;
    memcpy(&n, p, sizeof n);
    uint32_t space = GP_CREDIT_MAX - x->input_credit;
    x->input_credit += n < space ? n : space;
    return x->state != EXEC_NEW;
}

static bool on_killed(struct bg_channel *ch, const unsigned char *p)
{
    uint32_t left;
    memcpy(&left, p, sizeof left);
    if (left) {
        struct bg_error err;
        bg_fail(&err, BG_ERR_DESTROYED, 0, "%u processes of the sandbox survived a kill",
                left);
        channel_lose(ch, &err);
    }
    return true;
}

bool exec_frame(struct bg_channel *ch, const struct gp_head *h, const unsigned char *p)
{
    struct bg_exec *x = exec_find(ch, h->id);
    if (h->type == GP_KILLED)
        return on_killed(ch, p);
    /* Answers to what we asked before we learned of its end. */
    if (!x)
        return h->type == GP_STATE || h->type == GP_STDIN_CREDIT;
    switch (h->type) {
    case GP_STARTED:
        return on_started(x);
    case GP_STDOUT:
    case GP_STDERR:
        return on_output(x, h, p);
    case GP_GAP:
        return on_gap(x, p);
    case GP_EXIT:
        return on_exit_frame(x, p);
    case GP_STATE:
        return on_state(x, p);
    case GP_ERROR:
        return on_error(x, h, p);
    case GP_STDIN_CREDIT:
        return on_input_credit(x, p);
    default:
        return false;
    }
}

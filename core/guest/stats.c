/* SPDX-License-Identifier: MIT */
/* Questions for the guest's counters: each gets one answer, within a second. */
#include <string.h>

#include "core/base/mem.h"
#include "core/guest/channel_int.h"

struct stats_call {
    struct stats_call *next;
    struct bg_channel *ch;
    uint32_t id;
    void (*cb)(void *data, const struct bg_guest_stats *s, const struct bg_error *err);
    void *data;
    struct bg_timer *timer;
};

static void stats_end(struct stats_call *c, const struct bg_guest_stats *s,
                      const struct bg_error *err)
{
    struct bg_channel *ch = c->ch;
    struct stats_call **at = &ch->calls;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    ch->n_calls--;
    bg_timer_free(c->timer);
    c->cb(c->data, s, err);
    free(c);
}

static void stats_no_answer(struct stats_call *c)
{
    struct bg_error err;
    if (c->ch->dead || c->ch->fd < 0)
        bg_fail(&err, BG_ERR_DESTROYED, 0, "no link to the sandbox");
    else if (!c->id)
        bg_fail(&err, BG_ERR_LIMIT, 0, "too many questions to the sandbox at once");
    else
        bg_fail(&err, BG_ERR_TIMEOUT, 0, "the sandbox's guest does not answer");
    stats_end(c, NULL, &err);
}

static void on_stats_timer(struct bg_timer *t BG_UNUSED, void *data)
{
    struct stats_call *c = data;
    struct bg_channel *ch = c->ch;
    channel_enter(ch);
    stats_no_answer(c);
    channel_leave(ch);
}

void bg_channel_stats(struct bg_channel *ch,
                      void (*cb)(void *data, const struct bg_guest_stats *s,
                                 const struct bg_error *err),
                      void *data)
{
    struct stats_call *c = bg_xcalloc(1, sizeof *c);
    bool ask = ch->fd >= 0 && ch->n_calls < STATS_PENDING_MAX;
    *c = (struct stats_call){.next = ch->calls, .ch = ch, .cb = cb, .data = data};
    ch->calls = c;
    ch->n_calls++;
    c->timer = bg_timer_new(ch->loop, on_stats_timer, c);
    bg_timer_start(c->timer, ask ? STATS_ANSWER_MS : 0, 0);
    if (!ask)
        return;
    channel_enter(ch);
    c->id = channel_new_id(ch);
    channel_put(ch, GP_GET_STATS, c->id, 0, NULL, 0);
    channel_leave(ch);
}

bool stats_frame(struct bg_channel *ch, const struct gp_head *h, const unsigned char *p)
{
    struct stats_call *c = ch->calls;
    while (c && (!h->id || c->id != h->id))
        c = c->next;
    if (!c) /* an answer that came too late is no fault */
        return h->type == GP_STATS;
    if (h->type == GP_ERROR) {
        struct bg_error err;
        bg_fail(&err, BG_ERR_IO, 0, "the sandbox's guest can't read its counters");
        stats_end(c, NULL, &err);
        return true;
    }
    struct gp_stats g;
    memcpy(&g, p, sizeof g);
    struct bg_guest_stats s = {.cpu_us = g.cpu_us,
                               .mem_bytes = g.mem_bytes,
                               .mem_limit = g.mem_limit,
                               .processes = g.processes,
                               .execs = g.execs};
    stats_end(c, &s, NULL);
    return true;
}

void stats_fail_all(struct bg_channel *ch, bool now)
{
    if (!now) {
        for (struct stats_call *c = ch->calls; c; c = c->next)
            bg_timer_start(c->timer, 0, 0);
        return;
    }
    while (ch->calls)
        stats_no_answer(ch->calls);
}

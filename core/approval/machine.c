/* SPDX-License-Identifier: MIT */
/*
 * Every way a request can change, one row each; what has no row can't happen. APPROVED
 * means that the decision was handed to the audit; RUNNING is entered only from there,
 * once, by the one caller that has seen the claim become durable (queue.c). Final states
 * have no rows.
 *
 * Two states are only written, never lived in: what a crash left behind ends as LOST (not
 * claimed) or INTERRUPTED (claimed) straight from the store.
 */
#include "core/approval/machine.h"

#include "core/base/mem.h"

static const struct {
    enum bg_request_state from;
    enum bg_request_event event;
    enum bg_request_state to;
} rows[] = {
    {BG_RS_RECEIVED, BG_RE_PREPARE, BG_RS_PREPARING},
    {BG_RS_RECEIVED, BG_RE_CANCEL, BG_RS_CANCELLED},
    {BG_RS_RECEIVED, BG_RE_DENY, BG_RS_DENIED},

    {BG_RS_PREPARING, BG_RE_UNPREPARED, BG_RS_FAILED},
    {BG_RS_PREPARING, BG_RE_ASK, BG_RS_PENDING},
    {BG_RS_PREPARING, BG_RE_APPROVE, BG_RS_APPROVED},
    {BG_RS_PREPARING, BG_RE_DENY, BG_RS_DENIED},
    {BG_RS_PREPARING, BG_RE_CANCEL, BG_RS_CANCELLED},

    {BG_RS_PENDING, BG_RE_APPROVE, BG_RS_APPROVED},
    {BG_RS_PENDING, BG_RE_DENY, BG_RS_DENIED},
    {BG_RS_PENDING, BG_RE_EXPIRE, BG_RS_EXPIRED},
    {BG_RS_PENDING, BG_RE_CANCEL, BG_RS_CANCELLED},

    {BG_RS_APPROVED, BG_RE_RUN, BG_RS_RUNNING},
    {BG_RS_APPROVED, BG_RE_DENY, BG_RS_DENIED}, /* the decision could not be recorded */
    {BG_RS_APPROVED, BG_RE_EXPIRE, BG_RS_EXPIRED},
    {BG_RS_APPROVED, BG_RE_CANCEL, BG_RS_CANCELLED},

    {BG_RS_RUNNING, BG_RE_DONE, BG_RS_DONE},
    {BG_RS_RUNNING, BG_RE_FAILED, BG_RS_FAILED},
    {BG_RS_RUNNING, BG_RE_TIMED_OUT, BG_RS_TIMED_OUT},
    {BG_RS_RUNNING, BG_RE_KILLED, BG_RS_KILLED},
    {BG_RS_RUNNING, BG_RE_LOST, BG_RS_LOST},
    {BG_RS_RUNNING, BG_RE_INTERRUPTED, BG_RS_INTERRUPTED},
};

bool bg_request_move(enum bg_request_state *s, enum bg_request_event e)
{
    for (size_t i = 0; i < bg_countof(rows); i++)
        if (rows[i].from == *s && rows[i].event == e) {
            *s = rows[i].to;
            return true;
        }
    return false;
}

static const char *const state_names[BG_RS_COUNT_] = {
    [BG_RS_RECEIVED] = "received", [BG_RS_PREPARING] = "preparing",
    [BG_RS_PENDING] = "pending",   [BG_RS_APPROVED] = "approved",
    [BG_RS_RUNNING] = "running",   [BG_RS_DENIED] = "denied",
    [BG_RS_EXPIRED] = "expired",   [BG_RS_CANCELLED] = "cancelled",
    [BG_RS_LOST] = "lost",         [BG_RS_DONE] = "done",
    [BG_RS_FAILED] = "failed",     [BG_RS_TIMED_OUT] = "timed_out",
    [BG_RS_KILLED] = "killed",     [BG_RS_INTERRUPTED] = "interrupted",
};

static const char *const event_names[BG_RE_COUNT_] = {
    [BG_RE_PREPARE] = "prepare",
    [BG_RE_UNPREPARED] = "unprepared",
    [BG_RE_ASK] = "ask",
    [BG_RE_APPROVE] = "approve",
    [BG_RE_DENY] = "deny",
    [BG_RE_EXPIRE] = "expire",
    [BG_RE_CANCEL] = "cancel",
    [BG_RE_RUN] = "run",
    [BG_RE_DONE] = "done",
    [BG_RE_FAILED] = "failed",
    [BG_RE_TIMED_OUT] = "timed_out",
    [BG_RE_KILLED] = "killed",
    [BG_RE_LOST] = "lost",
    [BG_RE_INTERRUPTED] = "interrupted",
};

const char *bg_request_state_name(enum bg_request_state s)
{
    return (unsigned)s < BG_RS_COUNT_ ? state_names[s] : "unknown";
}

const char *bg_request_event_name(enum bg_request_event e)
{
    return (unsigned)e < BG_RE_COUNT_ ? event_names[e] : "unknown";
}

bool bg_request_state_final(enum bg_request_state s)
{
    return s >= BG_RS_DENIED;
}

/* SPDX-License-Identifier: MIT */
/* The transition table of a request (contract.md 4). Only this folder and its tests include
 * it. */
#pragma once

#include "core/approval/approval.h"

enum bg_request_event {
    BG_RE_PREPARE,    /* its spec is being resolved */
    BG_RE_UNPREPARED, /* that failed */
    BG_RE_ASK,        /* an operator is asked */
    BG_RE_APPROVE,    /* by an operator, or by a rule */
    BG_RE_DENY,       /* by operator, policy, memory, nobody, audit */
    BG_RE_EXPIRE,     /* nobody decided in pendingMs, or nobody claimed it in detachMs */
    BG_RE_CANCEL,
    BG_RE_RUN, /* claimed, durable, attached */
    BG_RE_DONE,
    BG_RE_FAILED,
    BG_RE_TIMED_OUT,
    BG_RE_KILLED,
    BG_RE_LOST,
    BG_RE_INTERRUPTED,
    BG_RE_COUNT_
};
const char *bg_request_event_name(enum bg_request_event e);
/* False: the table has no such row; *s is as it was. */
BG_CHECK bool bg_request_move(enum bg_request_state *s, enum bg_request_event e);

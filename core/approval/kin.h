/* SPDX-License-Identifier: MIT */
/*
 * Who decides must not be who asked (contract.md 1). One uid can't be told apart by its
 * credentials, so the process tree is looked at: a decision is refused when the decider or
 * one of its ancestors is the requester, or the requester's parent (the agent that started
 * `boxgate run`), unless that parent starts everybody's processes: PID 1 or a session
 * manager.
 *
 * This stops an agent that asks and then answers itself. It does not stop a process of the
 * same uid that hides its descent (double fork): the README says what the real boundary is.
 */
#pragma once

#include "core/approval/approval.h"

struct bg_kin {
    bool known; /* false: it was gone, or hidden, before it could be looked at */
    int32_t pid, parent;
    uint64_t start, parent_start;
    bool parent_counts;
};

/* At submit, while the requester lives. */
void bg_kin_look(struct bg_kin *k, const struct bg_actor *who);
/* False with SELF_APPROVAL, also when the relation can't be told. */
BG_CHECK bool bg_kin_apart(const struct bg_kin *requester, const struct bg_actor *decider,
                           struct bg_error *err);

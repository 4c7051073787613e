/* SPDX-License-Identifier: MIT */
/*
 * May this key approve? The one place that says so, without a screen: the item has been in
 * front long enough, everything was seen, the connection holds, nothing changed, and for
 * HIGH the digits were typed. Default: no.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum gate_block {
    GATE_OPEN,
    GATE_OFFLINE, /* no connection: no decision of any kind */
    GATE_LOADING, /* approve only: the document is not there, or could not be shown */
    GATE_OVER,    /* decided, expired or gone */
    GATE_SENT,    /* an answer is under way */
    GATE_ARMING,  /* in front for less than armMs: no decision of any kind */
    GATE_UNSEEN,  /* approve only */
};

struct gate {
    int64_t front_ms; /* monotonic; when the item came to the front */
    int64_t arm_ms;
    int64_t hold_ms; /* monotonic; not armed before this; 0 = no more than arm_ms asks */
    bool online, loaded, pending, sent, seen_all;
    unsigned discarded; /* keys that came too soon or in a burst */
};

/* The item was put in front (again): what was typed until now does not count. */
void gate_front(struct gate *g, int64_t now_ms);
/* It came to the front by itself, because the one before was answered. A key that is still
 * held begins to repeat up to two thirds of a second later: that answers nothing. */
void gate_followed(struct gate *g, int64_t now_ms);
/* A decision key that came too soon: whoever leans on it is not armed until it is quiet. */
void gate_pressed(struct gate *g, int64_t now_ms);
/* What a server says of armMs, within what makes sense. */
int64_t gate_arm_ms(double said);
/* Left to wait until armed; 0 = armed. */
int64_t gate_arming(const struct gate *g, int64_t now_ms);
enum gate_block gate_deny(const struct gate *g, int64_t now_ms);
enum gate_block gate_approve(const struct gate *g, int64_t now_ms);
/* The typed digits of a HIGH request, exactly the first ones of the hash. */
bool gate_digits(const char *typed, const char *sha256);

/* SPDX-License-Identifier: MIT */
#include "tui/gate.h"

#include <string.h>

#include "core/base/values.h"

void gate_front(struct gate *g, int64_t now_ms)
{
    g->front_ms = now_ms;
    g->discarded = 0;
}

void gate_followed(struct gate *g, int64_t now_ms)
{
    g->hold_ms = now_ms + 2 * g->arm_ms;
}

void gate_pressed(struct gate *g, int64_t now_ms)
{
    g->discarded++;
    g->front_ms = now_ms;
}

int64_t gate_arm_ms(double said)
{
    return said >= 0 && said <= BG_CFG_MS_MAX ? (int64_t)said : BG_ARM_MS;
}

int64_t gate_arming(const struct gate *g, int64_t now_ms)
{
    int64_t armed = g->front_ms + g->arm_ms;
    int64_t left = (armed > g->hold_ms ? armed : g->hold_ms) - now_ms;
    return left > 0 ? left : 0;
}

enum gate_block gate_deny(const struct gate *g, int64_t now_ms)
{
    if (!g->online)
        return GATE_OFFLINE;
    if (!g->pending)
        return GATE_OVER;
    if (g->sent)
        return GATE_SENT;
    return gate_arming(g, now_ms) ? GATE_ARMING : GATE_OPEN;
}

enum gate_block gate_approve(const struct gate *g, int64_t now_ms)
{
    enum gate_block b = gate_deny(g, now_ms);
    if (b != GATE_OPEN)
        return b;
    return !g->loaded ? GATE_LOADING : g->seen_all ? GATE_OPEN : GATE_UNSEEN;
}

bool gate_digits(const char *typed, const char *sha256)
{
    return strlen(typed) == BG_HIGH_DIGITS && strlen(sha256) == 64 &&
           !memcmp(typed, sha256, BG_HIGH_DIGITS);
}

/* SPDX-License-Identifier: MIT */
/*
 * What was denied: the same bytes of the same principal are denied again without asking, in
 * any session, for denyMemoryMs. The hash holds the uid, so a key is one principal's. The
 * count stays after the time is over ("denied before"); the table is bounded, the oldest
 * goes.
 */
#pragma once

#include "core/base/digest.h"

struct bg_deny_entry {
    struct bg_sha256 hash;
    uint32_t uid;
    uint32_t count;   /* denials in all */
    int64_t until_ms; /* monotonic */
};
struct bg_deny_memory {
    struct bg_deny_entry *e; /* oldest first */
    size_t n;
};

void bg_deny_free(struct bg_deny_memory *m);
void bg_deny_add(struct bg_deny_memory *m, const struct bg_sha256 *hash, uint32_t uid,
                 int64_t until_ms);
/* True if it is still remembered; counts this denial. */
bool bg_deny_hit(struct bg_deny_memory *m, const struct bg_sha256 *hash, int64_t now_ms);
uint32_t bg_deny_count(const struct bg_deny_memory *m, const struct bg_sha256 *hash);
/* How many of this principal's were still remembered. */
size_t bg_deny_forget(struct bg_deny_memory *m, uint32_t uid, int64_t now_ms);

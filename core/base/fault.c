/* SPDX-License-Identifier: MIT */
/* See fault.h. Hits are counted per process, over all threads. */
#include "core/base/fault.h"

#ifdef BG_FAULT
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

void bg_fault_point(const char *name)
{
    static atomic_long hits;
    const char *at = getenv("BG_FAULT_AT");
    if (!at)
        return;
    const char *colon = strchr(at, ':');
    size_t n = colon ? (size_t)(colon - at) : strlen(at);
    if (strlen(name) != n || memcmp(at, name, n) != 0)
        return;
    long want = colon ? strtol(colon + 1, NULL, 10) : 1;
    if (atomic_fetch_add(&hits, 1) + 1 == want)
        raise(SIGKILL);
}
#endif

/* SPDX-License-Identifier: MIT */
/* See fault.h. Hits are counted per process, over all threads. */
#include "core/base/fault.h"

#ifdef BG_FAULT
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
    char *end = NULL;
    long want = colon ? strtol(colon + 1, &end, 10) : 1;
    long ms = end && *end == ':' ? strtol(end + 1, NULL, 10) : 0;
    if (atomic_fetch_add(&hits, 1) + 1 == want) {
        struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
        nanosleep(&t, NULL);
        raise(SIGKILL);
    }
}
#endif

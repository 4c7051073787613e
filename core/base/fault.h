/* SPDX-License-Identifier: MIT */
/*
 * Crash points for FAULT=1 builds: BG_FAULT_AT=name:N in the environment makes the N-th hit
 * of bg_fault_point("name") end the process by SIGKILL, as a power failure would; name:N:MS
 * waits before that, as a slow disk would: what must not go on meanwhile shows. Other
 * builds compile the calls to nothing.
 */
#pragma once

#ifdef BG_FAULT
void bg_fault_point(const char *name); /* any thread */
#else
static inline void bg_fault_point(const char *name)
{
    (void)name;
}
#endif

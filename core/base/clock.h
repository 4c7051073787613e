/* SPDX-License-Identifier: MIT */
/* Time: a monotonic clock for durations, the wall clock for records. */
#pragma once

#include <stddef.h>
#include <stdint.h>

int64_t bg_mono_ms(void);
int64_t bg_mono_us(void);
int64_t bg_wall_ms(void); /* since 1970, UTC */

#define BG_TIME_LEN 25 /* "2026-11-30T15:42:07.123Z" and the NUL */
void bg_time_format(int64_t wall_ms, char out[BG_TIME_LEN]);
/* RFC 3339 date or date-time in UTC ("2027-01-31" or "...Z"); -1 if it is neither. */
int64_t bg_time_parse(const char *s);
/* "1:42", "2:10:07"; negative shows as "0:00". out >= 16 bytes. */
void bg_duration_clock(int64_t ms, char *out, size_t n);

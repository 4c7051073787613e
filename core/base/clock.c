/* SPDX-License-Identifier: MIT */
/* Clocks, RFC 3339 in UTC, and durations for people. */
#include "core/base/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LAST_MS INT64_C(253402300799999) /* the end of the year 9999 */

static int64_t now_us(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t bg_mono_us(void)
{
    return now_us(CLOCK_MONOTONIC);
}

int64_t bg_mono_ms(void)
{
    return bg_mono_us() / 1000;
}

int64_t bg_wall_ms(void)
{
    return now_us(CLOCK_REALTIME) / 1000;
}

void bg_time_format(int64_t wall_ms, char out[BG_TIME_LEN])
{
    wall_ms = wall_ms < 0 ? 0 : wall_ms > LAST_MS ? LAST_MS : wall_ms;
    time_t sec = (time_t)(wall_ms / 1000);
    struct tm tm;
    gmtime_r(&sec, &tm);
    size_t n = strftime(out, BG_TIME_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, BG_TIME_LEN - n, ".%03dZ", (int)(wall_ms % 1000));
}

/* Exactly `n` digits at *s, which moves on; -1 otherwise. */
static int digits(const char **s, int n)
{
    int v = 0;
    for (int i = 0; i < n; i++, (*s)++) {
        if (**s < '0' || **s > '9')
            return -1;
        v = v * 10 + (**s - '0');
    }
    return v;
}

static bool skip(const char **s, char c)
{
    if (**s != c)
        return false;
    (*s)++;
    return true;
}

/* "T15:42:07[.123]Z" to the end; false if it is not. */
static bool parse_clock(const char *s, struct tm *tm, int *ms)
{
    if (!skip(&s, 'T') || (tm->tm_hour = digits(&s, 2)) < 0 || !skip(&s, ':') ||
        (tm->tm_min = digits(&s, 2)) < 0 || !skip(&s, ':') ||
        (tm->tm_sec = digits(&s, 2)) < 0)
        return false;
    if (tm->tm_hour > 23 || tm->tm_min > 59 || tm->tm_sec > 59)
        return false;
    if (skip(&s, '.')) {
        int n = 0, scale = 100;
        for (; *s >= '0' && *s <= '9' && n < 9; s++, n++, scale /= 10)
            *ms += (*s - '0') * scale;
        if (n == 0)
            return false;
    }
    return skip(&s, 'Z') && !*s;
}

int64_t bg_time_parse(const char *s)
{
    struct tm tm = {0};
    int ms = 0, year, month, day;
    if (!s || (year = digits(&s, 4)) < 1970 || !skip(&s, '-') ||
        (month = digits(&s, 2)) < 1 || !skip(&s, '-') || (day = digits(&s, 2)) < 1 ||
        month > 12 || day > 31)
        return -1;
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    tm.tm_mday = day;
    if (*s && !parse_clock(s, &tm, &ms))
        return -1;
    time_t t = timegm(&tm);
    if (tm.tm_mon != month - 1 || tm.tm_mday != day)
        return -1; /* a day that the month does not have */
    return (int64_t)t * 1000 + ms;
}

void bg_duration_clock(int64_t ms, char *out, size_t n)
{
    const int64_t most = INT64_C(99999) * 3600; /* keeps the text below 16 bytes */
    int64_t s = ms < 0 ? 0 : ms / 1000;
    s = s > most ? most : s;
    int h = (int)(s / 3600), m = (int)(s / 60 % 60), sec = (int)(s % 60);
    if (h)
        snprintf(out, n, "%d:%02d:%02d", h, m, sec);
    else
        snprintf(out, n, "%d:%02d", m, sec);
}

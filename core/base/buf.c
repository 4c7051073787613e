/* SPDX-License-Identifier: MIT */
/*
 * Capped byte buffers. An empty buffer owns no memory: cap is 0 and data points to a shared
 * NUL that is never written.
 */
#include "core/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"

#define FIRST_CAP 64

static char empty[1];

void bg_buf_init(struct bg_buf *b, size_t max)
{
    size_t top = PTRDIFF_MAX - 1;
    *b = (struct bg_buf){.data = empty, .max = max < top ? max : top};
}

void bg_buf_free(struct bg_buf *b)
{
    if (b->cap)
        free(b->data);
    bg_buf_init(b, b->max);
}

void bg_buf_clear(struct bg_buf *b)
{
    b->len = 0;
    b->over = false;
    if (b->cap)
        b->data[0] = '\0';
}

/* Moves the bytes to an allocation of exactly cap + 1; cap >= len. */
static bool resize(struct bg_buf *b, size_t cap)
{
    char *p = realloc(b->cap ? b->data : NULL, cap + 1);
    if (!p)
        return false;
    b->data = p;
    b->cap = cap;
    p[b->len] = '\0';
    return true;
}

void bg_buf_shrink(struct bg_buf *b)
{
    if (b->len == 0) {
        bool over = b->over;
        bg_buf_free(b);
        b->over = over;
    } else if (b->cap > b->len && !resize(b, b->len)) {
        return; /* the old block is still good */
    }
}

char *bg_buf_reserve(struct bg_buf *b, size_t n)
{
    if (n > b->max - b->len)
        return NULL;
    size_t want = b->len + n;
    if (b->cap && want <= b->cap)
        return b->data + b->len;
    size_t cap = b->cap ? b->cap : FIRST_CAP;
    while (cap < want)
        cap = cap > b->max / 2 ? b->max : cap * 2;
    if (cap > b->max)
        cap = b->max;
    /* A cap of 0 marks the shared NUL, so a buffer of max 0 gets one spare byte. */
    return resize(b, cap ? cap : 1) ? b->data + b->len : NULL;
}

/* n bytes were written at data + len. */
static void grown(struct bg_buf *b, size_t n)
{
    b->len += n;
    b->data[b->len] = '\0';
}

bool bg_buf_add(struct bg_buf *b, const void *p, size_t n, struct bg_error *err)
{
    if (n == 0)
        return true;
    char *to = bg_buf_reserve(b, n);
    if (!to)
        return bg_fail(err, BG_ERR_LIMIT, 0, "more than %zu bytes", b->max);
    memcpy(to, p, n);
    grown(b, n);
    return true;
}

size_t bg_buf_add_some(struct bg_buf *b, const void *p, size_t n)
{
    size_t room = b->max - b->len;
    if (n > room)
        n = room;
    return bg_buf_add(b, p, n, NULL) ? n : 0;
}

void bg_buf_put(struct bg_buf *b, const void *p, size_t n)
{
    if (bg_buf_add_some(b, p, n) < n)
        b->over = true;
}

void bg_buf_puts(struct bg_buf *b, const char *s)
{
    bg_buf_put(b, s, strlen(s));
}

void bg_buf_putc(struct bg_buf *b, char c)
{
    bg_buf_put(b, &c, 1);
}

void bg_buf_printf(struct bg_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *to = n > 0 ? bg_buf_reserve(b, (size_t)n) : NULL;
    if (to) {
        vsnprintf(to, (size_t)n + 1, fmt, again);
        grown(b, (size_t)n);
    } else if (n > 0) {
        bg_autofree char *whole = bg_xmalloc((size_t)n + 1);
        vsnprintf(whole, (size_t)n + 1, fmt, again);
        bg_buf_put(b, whole, (size_t)n);
    }
    va_end(again);
}

bool bg_buf_overflowed(const struct bg_buf *b)
{
    return b->over;
}

void bg_buf_consume(struct bg_buf *b, size_t n)
{
    if (n > b->len)
        n = b->len;
    if (n == 0)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = '\0';
}

char *bg_buf_steal(struct bg_buf *b)
{
    char *p = b->cap ? b->data : bg_xstrndup("", 0);
    bg_buf_init(b, b->max);
    return p;
}

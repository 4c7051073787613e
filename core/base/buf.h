/* SPDX-License-Identifier: MIT */
/*
 * struct bg_buf: bytes that grow up to a cap named at birth. Binary-safe; a NUL is kept
 * after the last byte, so data can be read as a C string (data is never NULL after
 * bg_buf_init). struct bg_str: a borrowed view for parsers.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "core/base/error.h"

struct bg_buf {
    char *data;
    size_t len;
    size_t cap;
    size_t max; /* bytes, the NUL apart; append fails with BG_ERR_LIMIT beyond it */
    bool over;  /* a put ran into max; bg_buf_clear forgets it */
};

struct bg_str {
    const char *p;
    size_t n;
};

#define BG_STR(lit) ((struct bg_str){(lit), sizeof(lit) - 1})

void bg_buf_init(struct bg_buf *b, size_t max);
void bg_buf_free(struct bg_buf *b); /* safe twice and on a zeroed struct */
void bg_buf_clear(struct bg_buf *b);
void bg_buf_shrink(struct bg_buf *b); /* gives spare memory back */

/* All-or-nothing: on false nothing was appended. */
BG_CHECK bool bg_buf_add(struct bg_buf *b, const void *p, size_t n, struct bg_error *err);
/* As much as fits; returns the bytes taken. */
size_t bg_buf_add_some(struct bg_buf *b, const void *p, size_t n);
/* For output whose size we decide ourselves: running into the cap sets a sticky overflow
 * (len = max, bg_buf_overflowed) instead of an error at every call. */
void bg_buf_puts(struct bg_buf *b, const char *s);
void bg_buf_putc(struct bg_buf *b, char c);
void bg_buf_put(struct bg_buf *b, const void *p, size_t n);
BG_PRINTF(2, 3) void bg_buf_printf(struct bg_buf *b, const char *fmt, ...);
bool bg_buf_overflowed(const struct bg_buf *b);

/* Room for n bytes at data+len, which the caller then fills and adds to len; NULL past max.
 */
char *bg_buf_reserve(struct bg_buf *b, size_t n);
void bg_buf_consume(struct bg_buf *b, size_t n); /* drops the first n bytes */
char *bg_buf_steal(struct bg_buf *b); /* the bytes, malloc'ed; b is empty after */

static inline struct bg_str bg_buf_str(const struct bg_buf *b)
{
    return (struct bg_str){b->data ? b->data : "", b->len};
}
static inline struct bg_str bg_str_from(const char *s)
{
    return (struct bg_str){s ? s : "", s ? strlen(s) : 0};
}
static inline bool bg_str_eq(struct bg_str a, struct bg_str b)
{
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

#define bg_autobuf __attribute__((cleanup(bg_buf_free)))

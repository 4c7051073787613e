/* SPDX-License-Identifier: MIT */
/*
 * Allocation and ownership. Small allocations abort when memory is out; anything whose size
 * the outside controls goes through a capped struct bg_buf, which reports an error instead.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/error.h"

void *bg_xmalloc(size_t n);
void *bg_xcalloc(size_t count, size_t size); /* aborts on overflow too */
void *bg_xrealloc(void *p, size_t count, size_t size);
char *bg_xstrdup(const char *s); /* NULL gives NULL */
char *bg_xstrndup(const char *s, size_t n);
void *bg_xmemdup(const void *p, size_t n);
BG_PRINTF(1, 2) char *bg_xasprintf(const char *fmt, ...);

/* NULL-terminated string vectors. */
char **bg_strv_dup(char *const *v);
void bg_strv_free(char **v);
size_t bg_strv_len(char *const *v);
void bg_strv_push(char ***v, const char *s); /* *v may be NULL; copies s */

static inline void bg_freep_(void *p)
{
    free(*(void **)p);
}
static inline void bg_closep_(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
static inline void *bg_steal_(void *pp)
{
    void *p = *(void **)pp;
    *(void **)pp = NULL;
    return p;
}
static inline int bg_steal_fd(int *fd)
{
    int f = *fd;
    *fd = -1;
    return f;
}

#define bg_autofree __attribute__((cleanup(bg_freep_)))
#define bg_autoclose __attribute__((cleanup(bg_closep_)))
/* Hands ownership of p to the caller and nulls p. */
#define bg_steal(p) ((__typeof__(p))bg_steal_(&(p)))
#define bg_countof(a) (sizeof(a) / sizeof *(a))

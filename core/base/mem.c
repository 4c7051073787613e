/* SPDX-License-Identifier: MIT */
/* Allocation that aborts when memory is out, and NULL-terminated string vectors. */
#include "core/base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void *check(void *p)
{
    if (!p) {
        static const char text[] = "boxgate: out of memory\n";
        ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
        (void)n;
        abort();
    }
    return p;
}

void *bg_xmalloc(size_t n)
{
    return check(malloc(n ? n : 1));
}

void *bg_xcalloc(size_t count, size_t size)
{
    return check(count && size ? calloc(count, size) : calloc(1, 1));
}

void *bg_xrealloc(void *p, size_t count, size_t size)
{
    return check(count && size ? reallocarray(p, count, size) : realloc(p, 1));
}

char *bg_xstrdup(const char *s)
{
    return s ? check(strdup(s)) : NULL;
}

char *bg_xstrndup(const char *s, size_t n)
{
    if (!s)
        return NULL;
    /* s need not end within n bytes, so it is never read as a C string. */
    size_t len = strnlen(s, n);
    char *p = bg_xmalloc(len + 1);
    memcpy(p, s, len);
    p[len] = '\0';
    return p;
}

void *bg_xmemdup(const void *p, size_t n)
{
    void *copy = bg_xmalloc(n);
    if (n)
        memcpy(copy, p, n);
    return copy;
}

char *bg_xasprintf(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    return check(n < 0 ? NULL : s);
}

size_t bg_strv_len(char *const *v)
{
    size_t n = 0;
    while (v && v[n])
        n++;
    return n;
}

char **bg_strv_dup(char *const *v)
{
    if (!v)
        return NULL;
    size_t n = bg_strv_len(v);
    char **copy = bg_xcalloc(n + 1, sizeof *copy);
    for (size_t i = 0; i < n; i++)
        copy[i] = bg_xstrdup(v[i]);
    return copy;
}

void bg_strv_free(char **v)
{
    for (size_t i = 0; v && v[i]; i++)
        free(v[i]);
    free(v);
}

void bg_strv_push(char ***v, const char *s)
{
    size_t n = bg_strv_len(*v);
    *v = bg_xrealloc(*v, n + 2, sizeof **v);
    (*v)[n] = bg_xstrdup(s);
    (*v)[n + 1] = NULL;
}

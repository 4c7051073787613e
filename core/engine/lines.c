/* SPDX-License-Identifier: MIT */
/* Cuts a stream into lines; one that is too long is read past, not kept. */
#include "core/engine/engine_int.h"

void engine_lines_init(struct engine_lines *l)
{
    *l = (struct engine_lines){0};
    bg_buf_init(&l->buf, BG_ENGINE_LINE_MAX);
}

void engine_lines_free(struct engine_lines *l)
{
    bg_buf_free(&l->buf);
}

void engine_lines_add(struct engine_lines *l, const char *p, size_t n,
                      void (*line)(void *data, const char *p, size_t n), void *data)
{
    while (n > 0) {
        const char *end = memchr(p, '\n', n);
        size_t part = end ? (size_t)(end - p) : n;

        if (!l->skipping && !bg_buf_add(&l->buf, p, part, NULL)) {
            l->skipping = true;
            bg_buf_clear(&l->buf);
        }
        p += part;
        n -= part;
        if (!end)
            return;
        p++;
        n--;
        if (!l->skipping && l->buf.len > 0)
            line(data, l->buf.data, l->buf.len);
        l->skipping = false;
        bg_buf_clear(&l->buf);
    }
}

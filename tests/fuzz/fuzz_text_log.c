/* SPDX-License-Identifier: MIT */
/*
 * The log renderer on any bytes: only printable text comes out, and where the stream is cut
 * into chunks makes no difference. The first byte of the input chooses the cuts.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/text_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
    if (!what)
        abort();
}

struct seen {
    struct bg_buf out; /* events: style changes, text, line ends */
    struct bg_sgr sgr;
};

static void on_text(void *data, const char *p, size_t n, const struct bg_sgr *sgr)
{
    struct seen *s = data;
    require(n > 0 && check_printable(p, n));
    require(sgr->fg <= 256 && sgr->bg <= 256);
    if (memcmp(sgr, &s->sgr, sizeof *sgr) != 0)
        bg_buf_printf(&s->out, "\x1b%d,%d,%d%d%d%d;", sgr->fg, sgr->bg, sgr->bold, sgr->dim,
                      sgr->underline, sgr->reverse);
    s->sgr = *sgr;
    bg_buf_put(&s->out, p, n);
}

static void on_newline(void *data)
{
    bg_buf_putc(&((struct seen *)data)->out, '\n');
}

static void on_restart(void *data)
{
    bg_buf_putc(&((struct seen *)data)->out, '\r');
}

static uint64_t feed(struct seen *s, const char *p, size_t n, size_t chunk)
{
    struct bg_log_sink sink = {on_text, on_newline, on_restart, s};
    struct bg_logtext t;
    memset(s, 0, sizeof *s);
    bg_buf_init(&s->out, 64 * n + 64);
    bg_logtext_init(&t);
    for (size_t i = 0; i < n; i += chunk)
        bg_logtext_feed(&t, p + i, n - i < chunk ? n - i : chunk, &sink);
    bg_logtext_end(&t, &sink);
    return t.dropped;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *p = (const char *)data + 1;
    struct seen whole, cut;
    uint64_t a = feed(&whole, p, size - 1, size);
    uint64_t b = feed(&cut, p, size - 1, 1 + data[0] % 9u);
    require(a == b && a <= size);
    require(whole.out.len == cut.out.len &&
            memcmp(whole.out.data, cut.out.data, cut.out.len) == 0);
    bg_buf_free(&whole.out);
    bg_buf_free(&cut.out);
    return 0;
}

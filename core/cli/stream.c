/* SPDX-License-Identifier: MIT */
/*
 * A program's output to our stdout or stderr: exact bytes, or on a terminal what the log
 * renderer leaves of them. Never blocks in write, so that Ctrl-C is heard while a reader
 * sleeps: a descriptor that poll calls writable takes WRITE_STEP bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>

#include "core/base/values.h"
#include "core/cli/job.h"

#define WRITE_STEP PIPE_BUF
/* The renderer makes at most this much of one read: colour before every character. */
#define GROWTH 24

struct cli_stream {
    int from, to;
    bool render, color;
    bool ended, broken;
    uint64_t bytes;
    struct bg_poll *in, *out;
    struct bg_buf q;
    size_t head;
    struct bg_logtext text;
    struct bg_sgr sgr; /* as the terminal has it */
    bool line_open;
    void (*gone)(void *data);
    void *data;
};

/* ---- the log renderer's sink ---- */

static void put_color(struct bg_buf *b, unsigned role, unsigned base, unsigned bright)
{
    if (role >= 17)
        bg_buf_printf(b, ";%u;5;%u", base + 8, role - 17);
    else if (role >= 9)
        bg_buf_printf(b, ";%u", bright + role - 9);
    else if (role)
        bg_buf_printf(b, ";%u", base + role - 1);
}

static void set_style(struct cli_stream *s, const struct bg_sgr *g)
{
    const struct bg_sgr *o = &s->sgr;
    if (!s->color ||
        (o->fg == g->fg && o->bg == g->bg && o->bold == g->bold && o->dim == g->dim &&
         o->underline == g->underline && o->reverse == g->reverse))
        return;
    bg_buf_puts(&s->q, "\x1b[0");
    bg_buf_puts(&s->q, g->bold ? ";1" : "");
    bg_buf_puts(&s->q, g->dim ? ";2" : "");
    bg_buf_puts(&s->q, g->underline ? ";4" : "");
    bg_buf_puts(&s->q, g->reverse ? ";7" : "");
    put_color(&s->q, g->fg, 30, 90);
    put_color(&s->q, g->bg, 40, 100);
    bg_buf_putc(&s->q, 'm');
    s->sgr = *g;
}

static void sink_text(void *data, const char *p, size_t n, const struct bg_sgr *sgr)
{
    struct cli_stream *s = data;
    set_style(s, sgr);
    bg_buf_put(&s->q, p, n);
    s->line_open = true;
}

static void sink_newline(void *data)
{
    struct cli_stream *s = data;
    static const struct bg_sgr plain;
    set_style(s, &plain);
    bg_buf_putc(&s->q, '\n');
    s->line_open = false;
}

/* What was printed stays readable: the line is begun below, not over it. */
static void sink_restart(void *data)
{
    struct cli_stream *s = data;
    if (s->line_open)
        sink_newline(s);
}

static void queue(struct cli_stream *s, const char *p, size_t n)
{
    struct bg_log_sink sink = {sink_text, sink_newline, sink_restart, s};
    if (s->render)
        bg_logtext_feed(&s->text, p, n, &sink);
    else
        bg_buf_put(&s->q, p, n);
}

/* ---- moving ---- */

static bool all_written(const struct cli_stream *s)
{
    return s->head == s->q.len;
}

static void break_off(struct cli_stream *s)
{
    s->broken = true;
    bg_buf_clear(&s->q);
    s->head = 0;
    if (s->gone)
        s->gone(s->data);
}

static bool writable(int fd)
{
    struct pollfd p = {fd, POLLOUT, 0};
    return poll(&p, 1, 0) == 1;
}

static void flush(struct cli_stream *s)
{
    while (!all_written(s) && writable(s->to)) {
        size_t n = s->q.len - s->head;
        ssize_t w = write(s->to, s->q.data + s->head, n < WRITE_STEP ? n : WRITE_STEP);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0 && errno == EAGAIN)
            break;
        if (w < 0) {
            break_off(s);
            break;
        }
        s->head += (size_t)w;
    }
    if (all_written(s)) {
        bg_buf_clear(&s->q);
        s->head = 0;
    }
    if (s->out)
        bg_poll_set(s->out, all_written(s) ? 0 : BG_WRITE);
    if (s->in)
        bg_poll_set(s->in, all_written(s) ? BG_READ : 0);
}

static void end_of_input(struct cli_stream *s)
{
    struct bg_log_sink sink = {sink_text, sink_newline, sink_restart, s};
    static const struct bg_sgr plain;
    if (s->ended)
        return;
    s->ended = true;
    if (s->render) {
        bg_logtext_end(&s->text, &sink);
        set_style(s, &plain);
    }
}

static void on_readable(struct bg_poll *p BG_UNUSED, int fd, unsigned ev BG_UNUSED,
                        void *data)
{
    struct cli_stream *s = data;
    char chunk[BG_STREAM_CREDIT];
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        bg_poll_free(s->in);
        s->in = NULL;
        close(s->from);
        s->from = -1;
    } else {
        s->bytes += (uint64_t)n;
        if (!s->broken)
            queue(s, chunk, (size_t)n);
    }
    flush(s);
}

static void on_writable(struct bg_poll *p BG_UNUSED, int fd BG_UNUSED,
                        unsigned ev BG_UNUSED, void *data)
{
    flush(data);
}

struct cli_stream *cli_stream_new(struct bg_loop *loop, int from, int to, bool raw,
                                  void (*gone)(void *data), void *data)
{
    struct cli_stream *s = bg_xcalloc(1, sizeof *s);
    s->from = from;
    s->to = to;
    s->render = !raw && isatty(to);
    s->color = s->render && cli_color(to);
    s->gone = gone;
    s->data = data;
    bg_buf_init(&s->q, (size_t)BG_JSON_LINE_MAX * GROWTH);
    bg_logtext_init(&s->text);
    s->out = bg_poll_new(loop, to, on_writable, s); /* NULL: a file, always writable */
    if (from >= 0) {
        fcntl(from, F_SETFL, fcntl(from, F_GETFL) | O_NONBLOCK);
        s->in = bg_poll_new(loop, from, on_readable, s);
        bg_poll_set(s->in, BG_READ);
    }
    return s;
}

void cli_stream_put(struct cli_stream *s, const char *p, size_t n)
{
    if (s->broken || s->ended)
        return;
    queue(s, p, n);
    flush(s);
}

void cli_stream_finish(struct cli_stream *s)
{
    end_of_input(s);
    flush(s);
}

bool cli_stream_done(const struct cli_stream *s)
{
    return s->from < 0 && (s->broken || (s->ended && all_written(s)));
}

bool cli_stream_piped(const struct cli_stream *s)
{
    return s->from >= 0;
}

uint64_t cli_stream_bytes(const struct cli_stream *s)
{
    return s->bytes;
}

void cli_stream_free(struct cli_stream *s)
{
    if (!s)
        return;
    bg_poll_free(s->in);
    bg_poll_free(s->out);
    if (s->from >= 0)
        close(s->from);
    bg_buf_free(&s->q);
    free(s);
}

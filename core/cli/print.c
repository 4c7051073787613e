/* SPDX-License-Identifier: MIT */
/*
 * Output of the commands. Whatever reaches stdout has been through the review renderer or,
 * as JSON, holds ASCII only; a program's own output is cmd_run's business.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "core/base/utf8.h"
#include "core/base/values.h"
#include "core/cli/util.h"

#define CELL_GAP 2

void cli_buf(struct bg_buf *b)
{
    bg_buf_init(b, 8 * (size_t)BG_JSON_LINE_MAX);
}

void cli_out(struct bg_buf *b)
{
    for (size_t at = 0; at < b->len;) {
        ssize_t n = write(STDOUT_FILENO, b->data + at, b->len - at);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {STDOUT_FILENO, POLLOUT, 0};
            poll(&p, 1, -1);
        } else if (n < 0 && errno == EPIPE) {
            _exit(BG_EXIT_INTERRUPTED); /* nobody reads any more: nothing left to say */
        } else if (n < 0 && errno != EINTR) {
            cli_note("cannot write to standard output: %s", strerror(errno));
            _exit(BG_EXIT_FAILED);
        } else if (n > 0) {
            at += (size_t)n;
        }
    }
    bg_buf_free(b);
}

bool cli_color(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

/* ---- JSON ---- */

static void put_escaped(struct bg_buf *b, uint32_t cp)
{
    if (cp > 0xffff) {
        cp -= 0x10000;
        bg_buf_printf(b, "\\u%04x\\u%04x", (unsigned)(0xd800 + (cp >> 10)),
                      (unsigned)(0xdc00 + (cp & 0x3ff)));
    } else {
        bg_buf_printf(b, "\\u%04x", (unsigned)cp);
    }
}

/* cJSON writes UTF-8 as it is. Outside ASCII it can only stand inside strings, where an
 * escape means the same. */
void cli_put_json(struct bg_buf *b, const cJSON *j, bool pretty)
{
    bg_autofree char *s = pretty ? bg_json_print_pretty(j) : bg_json_print(j);
    size_t left = strlen(s);
    for (const char *p = s; left;) {
        uint32_t cp = 0xfffd;
        int used = bg_utf8_decode(p, left, &cp);
        if (used < 1)
            used = 1;
        if (cp < 0x7f)
            bg_buf_putc(b, (char)cp);
        else
            put_escaped(b, cp);
        p += used;
        left -= (size_t)used;
    }
    bg_buf_putc(b, '\n');
}

void cli_out_json(const cJSON *j)
{
    struct bg_buf b;
    cli_buf(&b);
    cli_put_json(&b, j, true);
    cli_out(&b);
}

/* ---- tables ---- */

void cli_table_init(struct cli_table *t, const char *const *heads)
{
    memset(t, 0, sizeof *t);
    while (heads[t->cols])
        t->cols++;
    cli_table_row(t, heads);
}

void cli_table_row(struct cli_table *t, const char *const *cells)
{
    size_t at = t->rows++ * t->cols;
    t->cells = bg_xrealloc(t->cells, t->rows * t->cols, sizeof *t->cells);
    for (size_t i = 0; i < t->cols; i++) {
        const char *c = cells[i] && *cells[i] ? cells[i] : "-";
        t->cells[at + i] =
            bg_text_safe_line(c, strlen(c), i + 1 == t->cols ? t->last_max : 0);
    }
}

static int column_width(const struct cli_table *t, size_t col)
{
    int widest = 0;
    for (size_t r = 0; r < t->rows; r++) {
        const char *c = t->cells[r * t->cols + col];
        int w = bg_text_cols(c, strlen(c));
        widest = w > widest ? w : widest;
    }
    return widest;
}

void cli_table_out(struct cli_table *t)
{
    struct bg_buf b;
    cli_buf(&b);
    for (size_t r = 0; r < t->rows; r++) {
        for (size_t i = 0; i < t->cols; i++) {
            char *c = t->cells[r * t->cols + i];
            int pad = column_width(t, i) + CELL_GAP - bg_text_cols(c, strlen(c));
            bg_buf_puts(&b, c);
            while (i + 1 < t->cols && pad-- > 0)
                bg_buf_putc(&b, ' ');
        }
        bg_buf_putc(&b, '\n');
    }
    for (size_t i = 0; i < t->rows * t->cols; i++)
        free(t->cells[i]);
    free(t->cells);
    cli_out(&b);
}

/* ---- looking into answers ---- */

const char *cli_str(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(v) ? v->valuestring : "";
}

double cli_num(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

bool cli_true(const cJSON *o, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, key));
}

void cli_put(cJSON *o, const char *key, cJSON *v)
{
    cJSON_DeleteItemFromObjectCaseSensitive(o, key);
    bg_jset(o, key, v);
}

char *cli_span(double ms)
{
    long long s = ms > 0 ? (long long)(ms / 1000) : 0;
    if (s < 60)
        return bg_xasprintf("%lld s", s);
    if (s < 3600)
        return bg_xasprintf("%lld m %lld s", s / 60, s % 60);
    return bg_xasprintf("%lld h %lld m", s / 3600, s / 60 % 60);
}

char *cli_pending_line(const cJSON *row)
{
    const char *lang = cli_str(row, "language");
    bg_autofree char *left = cli_span(cli_num(row, "leftMs"));
    bg_autofree char *line =
        bg_xasprintf("#%04.0f %s %s%s%s, %.0f lines, %s%s left", cli_num(row, "id"),
                     cli_str(row, "session"), cli_str(row, "kind"), *lang ? " " : "", lang,
                     cli_num(row, "lines"), cli_true(row, "high") ? "HIGH, " : "", left);
    return bg_text_safe_line(line, strlen(line), 0);
}

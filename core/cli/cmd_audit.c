/* SPDX-License-Identifier: MIT */
/* audit tail, verify, export: read from the store itself, with or without a server. */
#include <inttypes.h>
#include <stdio.h>

#include "core/audit/audit.h"
#include "core/base/values.h"
#include "core/cli/util.h"

#define TAIL_DEFAULT 20
#define TAIL_MAX 1000000

static struct bg_audit_reader *open_store(struct bg_error *err)
{
    struct bg_paths paths;
    bg_digest_init();
    if (!bg_paths_init(&paths, NULL, err))
        return NULL;
    struct bg_audit_reader *r = NULL;
    if (access(paths.state, F_OK))
        bg_fail(err, BG_ERR_NOT_FOUND, 0, "there is no audit store at %s", paths.state);
    else
        r = bg_audit_reader_open(paths.state, err);
    bg_paths_free(&paths);
    return r;
}

/* ---- tail ---- */

/* A line a person reads: maps stand as {...}, and a hash with the digits that name it. */
static void put_member(struct bg_buf *b, const cJSON *v)
{
    if (cJSON_IsObject(v) && v->child) {
        bg_buf_printf(b, " %s={...}", v->string);
        return;
    }
    bg_autofree char *s = cJSON_IsString(v) ? bg_xstrdup(v->valuestring) : bg_json_print(v);
    bg_buf_printf(b, " %s=", v->string);
    bool hash = strlen(s) == BG_SHA256_HEX && !s[strspn(s, "0123456789abcdef")];
    bg_text_safe(b, s, hash ? BG_SHA_PREFIX_MIN : strlen(s), 0);
}

/* "12 2026-11-30T15:42:07.123Z request.decided #0144 decision=approve ..." */
static void put_line(struct bg_buf *b, const cJSON *o)
{
    static const char *const head[] = {"seq", "time", "event", "id", "sha256"};
    const cJSON *v;
    bg_buf_printf(b, "%.0f ", cli_num(o, "seq"));
    bg_text_safe(b, cli_str(o, "time"), strlen(cli_str(o, "time")), 0);
    bg_buf_putc(b, ' ');
    bg_text_safe(b, cli_str(o, "event"), strlen(cli_str(o, "event")), 0);
    if (cli_num(o, "id") > 0)
        bg_buf_printf(b, " #%04.0f", cli_num(o, "id"));
    cJSON_ArrayForEach(v, o)
    {
        bool shown = cJSON_IsNull(v);
        for (size_t i = 0; i < bg_countof(head); i++)
            shown |= !strcmp(v->string, head[i]);
        if (!shown)
            put_member(b, v);
    }
    bg_buf_putc(b, '\n');
}

struct tail {
    cJSON *rows; /* --json */
    struct bg_buf out;
};

static bool on_row(void *data, int64_t seq, const char *line, size_t n,
                   const char *hash BG_UNUSED)
{
    struct tail *t = data;
    struct bg_error err = {0};
    cJSON *o = bg_json_parse(line, n, BG_JSON_LINE_MAX, &err);
    if (!o) {
        bg_buf_printf(&t->out, "%" PRId64 " (not readable: %s)\n", seq, err.msg);
    } else if (t->rows) {
        cJSON_AddItemToArray(t->rows, o);
    } else {
        put_line(&t->out, o);
        cJSON_Delete(o);
    }
    return true;
}

static int run_tail(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_error err = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    const char *v = cli_value(&a, "lines");
    long n = v ? strtol(v, NULL, 10) : TAIL_DEFAULT;
    if (v && (v[strspn(v, "0123456789")] || n < 1 || n > TAIL_MAX))
        return cli_usage(cmd, "-n takes a number from 1 to %d", TAIL_MAX);
    struct bg_audit_reader *r = open_store(&err);
    if (!r)
        return cli_fail(&err);
    bg_autojson cJSON *rows = cli_flag(&a, "json") ? bg_ja() : NULL;
    struct tail t = {.rows = rows};
    cli_buf(&t.out);
    bool ok = bg_audit_reader_tail(r, n, on_row, &t, &err);
    bg_audit_reader_close(r);
    if (rows && ok)
        cli_out_json(rows);
    cli_out(&t.out);
    return ok ? BG_EXIT_OK : cli_fail(&err);
}

static const struct bg_opt tail_opts[] = {
    {"lines", 'n', "N", "how many records (20)"},
    {"json", 'j', NULL, "as JSON"},
    {0},
};

const struct bg_cmd cmd_audit_tail = {
    .name = "audit tail",
    .args = "[-n N] [--json]",
    .summary = "print the newest records",
    .help =
        "Shortened to be read: hashes to 16 digits, what is nested to {...}; --json and\n"
        "audit export have all of it. No server is needed.",
    .opts = tail_opts,
    .run = run_tail,
};

/* ---- verify ---- */

static int run_verify(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_error err = {0};
    int64_t rows = 0;
    char head[BG_SHA256_HEX + 1] = "";
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    struct bg_audit_reader *r = open_store(&err);
    if (!r)
        return cli_fail(&err);
    bool ok = bg_audit_reader_verify(r, &rows, head, &err);
    bg_audit_reader_close(r);
    if (!ok) {
        cli_fail(&err);
        return BG_EXIT_FAILED;
    }
    struct bg_buf b;
    cli_buf(&b);
    bg_buf_printf(&b, "audit: ok, %" PRId64 " records, head %s\n", rows, head);
    cli_out(&b);
    return BG_EXIT_OK;
}

const struct bg_cmd cmd_audit_verify = {
    .name = "audit verify",
    .args = "",
    .summary = "check the whole chain of records; exit 1 if one was changed",
    .help =
        "Removing the newest records can't show in the chain itself: note the head that\n"
        "this prints, and keep it elsewhere. No server is needed.",
    .run = run_verify,
};

/* ---- export ---- */

static bool export_row(void *data BG_UNUSED, int64_t seq BG_UNUSED, const char *line,
                       size_t n, const char *hash BG_UNUSED)
{
    struct bg_buf b;
    struct bg_error err = {0};
    cli_buf(&b);
    if (isatty(STDOUT_FILENO)) {
        bg_autojson cJSON *o = bg_json_parse(line, n, BG_JSON_LINE_MAX, &err);
        if (o)
            cli_put_json(&b, o, false);
    } else {
        bg_buf_put(&b, line, n);
        bg_buf_putc(&b, '\n');
    }
    cli_out(&b);
    return true;
}

static int run_export(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_error err = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    if (!cli_flag(&a, "jsonl"))
        return cli_usage(cmd, "say in which form: --jsonl");
    struct bg_audit_reader *r = open_store(&err);
    if (!r)
        return cli_fail(&err);
    bool ok = bg_audit_reader_from(r, 1, export_row, NULL, &err);
    bg_audit_reader_close(r);
    return ok ? BG_EXIT_OK : cli_fail(&err);
}

static const struct bg_opt export_opts[] = {
    {"jsonl", 0, NULL, "one JSON object a line"},
    {0},
};

const struct bg_cmd cmd_audit_export = {
    .name = "audit export",
    .args = "--jsonl",
    .summary = "print every record",
    .help =
        "The lines are the exact bytes the chain is made of: hash = SHA-256 of the hash\n"
        "before it, the line's length as 8 bytes big-endian, and the line. No server is\n"
        "needed.",
    .opts = export_opts,
    .run = run_export,
};

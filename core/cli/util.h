/* SPDX-License-Identifier: MIT */
/*
 * What the commands share: options over a command's own table, one connection to the
 * server, output that is safe on a terminal, tables, JSON, and the exit code of an error.
 * Private to core/cli.
 */
#pragma once

#include "core/base/digest.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/base/values.h"
#include "core/cli/commands.h"
#include "core/client/client.h"

/* ---- arguments ---- */

#define CLI_SET_MAX (BG_ENV_MAX + 16)

struct cli_args {
    const struct bg_cmd *cmd;
    struct {
        const struct bg_opt *opt;
        const char *value; /* NULL for a flag */
    } set[CLI_SET_MAX];
    size_t n_set;
    int argc; /* what is left: operands, borrowed from argv */
    char **argv;
};

/* False: the mistake was told on stderr, exit with BG_EXIT_USAGE. max < 0 = any number. */
BG_CHECK bool cli_parse(struct cli_args *a, const struct bg_cmd *cmd, int argc, char **argv,
                        int min, int max);
bool cli_flag(const struct cli_args *a, const char *name);
const char *cli_value(const struct cli_args *a,
                      const char *name); /* the last one or NULL */
/* Each value of a repeated option; *at begins with 0. NULL at the end. */
const char *cli_each(const struct cli_args *a, const char *name, size_t *at);
/* "boxgate: TEXT; see: boxgate help COMMAND" and BG_EXIT_USAGE. */
BG_PRINTF(2, 3) int cli_usage(const struct bg_cmd *cmd, const char *fmt, ...);

extern const struct bg_opt cli_json_opt[]; /* of a command with --json and nothing else */

BG_CHECK bool cli_duration(const char *s, int64_t *ms);   /* "60s", "500ms", "2m", "1h" */
BG_CHECK bool cli_request_id(const char *s, int64_t *id); /* "144", "#0144" */
/* A file, or standard input for "-"; at most max bytes. */
BG_CHECK bool cli_read(const char *file, size_t max, struct bg_buf *out,
                       struct bg_error *err);

/* ---- errors ---- */

BG_PRINTF(1, 2) void cli_note(const char *fmt, ...); /* "boxgate: ..." on stderr, safe */
int cli_exit_of(enum bg_errc code);
/* approve, deny, show have codes of their own (contract.md 9). */
int cli_exit_of_decision(enum bg_errc code);
int cli_fail(const struct bg_error *err); /* tells it; cli_exit_of */

/* ---- the server ---- */

struct cli_conn {
    struct bg_paths paths;
    struct bg_loop *loop;
    struct bg_client *client;
};
/* No server and no usable config: says that (the user's next step), also with start. */
BG_CHECK bool cli_connect(struct cli_conn *k, enum bg_role role, const char *name,
                          bool start, const struct bg_client_events *ev, void *data,
                          struct bg_error *err);
void cli_close(struct cli_conn *k); /* also of a connection that failed, and twice */
/* One call on a connection of its own; params is taken. */
BG_CHECK cJSON *cli_ask(enum bg_role role, const char *name, bool start, const char *method,
                        cJSON *params, struct bg_error *err);

/* ---- output ---- */

/* Everything to stdout; a reader that left ends the program quietly with 130, any
 * other trouble with a message and 1. Frees b. */
void cli_out(struct bg_buf *b);
void cli_buf(struct bg_buf *b);
/* Pretty JSON and a line break, ASCII only: harmless on a terminal, the same value. */
void cli_out_json(const cJSON *j);
void cli_put_json(struct bg_buf *b, const cJSON *j, bool pretty);
bool cli_color(int fd); /* a terminal, and NO_COLOR unset */

struct cli_table {
    size_t cols, rows;
    char **cells;
    int last_max; /* columns the last cell of a row may take; 0: any */
};
void cli_table_init(struct cli_table *t, const char *const *heads); /* NULL-terminated */
/* Untrusted text is fine; missing cells (NULL) show as "-". Exactly the table's columns. */
void cli_table_row(struct cli_table *t, const char *const *cells);
void cli_table_out(struct cli_table *t); /* to stdout, and frees it */

/* ---- looking into answers ---- */

const char *cli_str(const cJSON *o, const char *key); /* "" when missing */
double cli_num(const cJSON *o, const char *key);
bool cli_true(const cJSON *o, const char *key);
void cli_put(cJSON *o, const char *key, cJSON *v); /* replaces */
/* "3 m 18 s"; of whole seconds, two units at most. */
char *cli_span(double ms);
/* "#0144 job-1 run_code python, 38 lines, HIGH, 3 m 18 s left" */
char *cli_pending_line(const cJSON *row);

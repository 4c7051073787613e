/* SPDX-License-Identifier: MIT */
/*
 * One table of commands drives parsing, help and completion. A command is one file
 * cmd_NAME.c with one `const struct bg_cmd`. tui/main.c joins the tables and dispatches.
 */
#pragma once

#include "core/base/json.h"
#include "core/base/path.h"

/* Exit codes of contract.md 9. */
enum {
    BG_EXIT_OK = 0,
    BG_EXIT_FAILED = 1,
    BG_EXIT_USAGE = 2,
    BG_EXIT_NOT_FOUND = 3,
    BG_EXIT_DECIDED = 4,
    BG_EXIT_MISMATCH = 5,
    BG_EXIT_EXPIRED = 6,
    BG_EXIT_REFUSED = 7,
    BG_EXIT_INTERNAL = 70,
    BG_EXIT_TIMEOUT = 124,
    BG_EXIT_NOT_RUN = 125,
    BG_EXIT_INTERRUPTED = 130,
};

struct bg_opt {
    const char *name; /* long, without dashes */
    char letter;      /* or 0 */
    const char *arg;  /* "ID", or NULL = a flag */
    const char *help; /* NULL: between our own programs, not shown */
};

struct bg_cmd {
    const char *name;          /* "approve", "server stop" for a second word */
    const char *args;          /* "ID --sha HEX [--ack HAZARD,...]" */
    const char *summary;       /* one line */
    const char *help;          /* paragraphs with examples; NULL = none */
    const struct bg_opt *opts; /* ends with name NULL; --help is everybody's */
    int (*run)(const struct bg_cmd *cmd, int argc,
               char **argv); /* argv[0] = the command's name */
    bool hidden;
};

extern const struct bg_cmd *const bg_cli_cmds[]; /* NULL-terminated */

/* Dispatches argv over the given tables (NULL-terminated array of tables); handles help,
 * --version, unknown commands (nearest name), and a missing command via `fallback`. */
int bg_cli_main(int argc, char **argv, const struct bg_cmd *const *const *tables,
                int (*fallback)(int argc, char **argv));

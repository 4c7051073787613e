/* SPDX-License-Identifier: MIT */
/* sessions, session create, session show, session rm. */
#include <stdio.h>

#include "core/cli/util.h"

static void print_table(const cJSON *rows)
{
    static const char *const heads[] = {"ID",   "STATE",   "PROVIDER", "PROFILE", "CALLS",
                                        "IDLE", "PENDING", "CREATED",  NULL};
    struct cli_table t;
    const cJSON *row;
    cli_table_init(&t, heads);
    cJSON_ArrayForEach(row, rows)
    {
        bg_autofree char *calls = bg_xasprintf("%.0f", cli_num(row, "calls"));
        bg_autofree char *idle = cli_span(cli_num(row, "idleMs"));
        bg_autofree char *pending = bg_xasprintf("%.0f", cli_num(row, "pending"));
        const char *cells[] = {cli_str(row, "id"),
                               cli_str(row, "state"),
                               cli_str(row, "provider"),
                               cli_str(row, "profile"),
                               calls,
                               idle,
                               pending,
                               cli_str(row, "createdAt")};
        cli_table_row(&t, cells);
    }
    cli_table_out(&t);
}

/* One call as operator; the answer, or NULL with the exit code. */
static cJSON *ask(const char *method, cJSON *params, bool start, int *code)
{
    struct bg_error err = {0};
    cJSON *res = cli_ask(BG_ROLE_OPERATOR, "boxgate-session", start, method, params, &err);
    *code = res ? BG_EXIT_OK : cli_fail(&err);
    return res;
}

static int run_sessions(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    int code;
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    bg_autojson cJSON *rows = ask("session.list", bg_jo(), false, &code);
    if (rows && cli_flag(&a, "json"))
        cli_out_json(rows);
    else if (rows && cJSON_GetArraySize(rows))
        print_table(rows);
    else if (rows)
        cli_note("no session is open");
    return code;
}

const struct bg_cmd cmd_sessions = {
    .name = "sessions",
    .args = "[--json]",
    .summary = "list the open sessions",
    .opts = cli_json_opt,
    .run = run_sessions,
};

/* ---- session create ---- */

static int run_create(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    int code;
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    const char *id = cli_value(&a, "id"), *profile = cli_value(&a, "profile");
    if (id && !bg_id_valid(id))
        return cli_usage(cmd, "not a valid session id: %s", id);
    cJSON *p = bg_jo();
    if (id)
        bg_jset_str(p, "id", id);
    if (profile)
        bg_jset_str(p, "profile", profile);
    bg_autojson cJSON *row = ask("session.create", p, true, &code);
    if (row && cli_flag(&a, "json")) {
        cli_out_json(row);
    } else if (row) {
        struct bg_buf b;
        cli_buf(&b);
        bg_text_safe(&b, cli_str(row, "id"), strlen(cli_str(row, "id")), 0);
        bg_buf_putc(&b, '\n');
        cli_out(&b);
    }
    return code;
}

static const struct bg_opt create_opts[] = {
    {"id", 'i', "ID", "its name; letters, digits, . _ -; else a random one"},
    {"profile", 'p', "NAME", "a profile of config.yaml; else the default one"},
    {"json", 'j', NULL, "as JSON"},
    {0},
};

const struct bg_cmd cmd_session_create = {
    .name = "session create",
    .args = "[--id ID] [--profile NAME] [--json]",
    .summary = "open a session; prints its id",
    .help = "Its sandbox is made when something runs in it first.\n"
            "\n"
            "example:\n"
            "  boxgate session create --id job-1",
    .opts = create_opts,
    .run = run_create,
};

/* ---- session show ---- */

static void put_value(struct bg_buf *b, const cJSON *v)
{
    if (cJSON_IsString(v)) {
        bg_text_safe(b, v->valuestring, strlen(v->valuestring), 0);
    } else {
        bg_autofree char *s = bg_json_print(v);
        bg_text_safe(b, s, strlen(s), 0);
    }
    bg_buf_putc(b, '\n');
}

static void print_session(const cJSON *row)
{
    struct bg_buf b;
    const cJSON *v;
    cli_buf(&b);
    cJSON_ArrayForEach(v, row)
    {
        if (cJSON_IsNull(v) || !strcmp(v->string, "spec"))
            continue;
        bg_buf_printf(&b, "%s: ", v->string);
        put_value(&b, v);
    }
    cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(row, "spec"))
    {
        bg_buf_printf(&b, "spec %s: ", v->string);
        put_value(&b, v);
    }
    cli_out(&b);
}

static int run_show(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    int code;
    if (!cli_parse(&a, cmd, argc, argv, 1, 1))
        return BG_EXIT_USAGE;
    cJSON *p = bg_jo();
    bg_jset_str(p, "session", a.argv[0]);
    bg_autojson cJSON *row = ask("session.get", p, false, &code);
    if (row && cli_flag(&a, "json"))
        cli_out_json(row);
    else if (row)
        print_session(row);
    return code;
}

const struct bg_cmd cmd_session_show = {
    .name = "session show",
    .args = "ID [--json]",
    .summary = "show a session: its state and what its sandbox is made of",
    .opts = cli_json_opt,
    .run = run_show,
};

/* ---- session rm ---- */

static int run_rm(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_error err = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 1))
        return BG_EXIT_USAGE;
    bool all = cli_flag(&a, "all");
    if (all == (a.argc == 1))
        return cli_usage(cmd, "name one session, or say --all");
    cJSON *p = bg_jo();
    if (all)
        bg_jset_bool(p, "all", true);
    else
        bg_jset_str(p, "session", a.argv[0]);
    bg_autojson cJSON *res =
        cli_ask(BG_ROLE_OPERATOR, "boxgate-session", false, "session.close", p, &err);
    if (res)
        cli_note("%.0f closed", cli_num(res, "closed"));
    /* Without a server there is no session: closing what is gone is fine. */
    return res || err.code == BG_ERR_UNAVAILABLE ? BG_EXIT_OK : cli_fail(&err);
}

static const struct bg_opt rm_opts[] = {
    {"all", 0, NULL, "every session"},
    {0},
};

const struct bg_cmd cmd_session_rm = {
    .name = "session rm",
    .args = "ID | --all",
    .summary = "close a session; what runs in it is killed, its files are gone",
    .help = "Closing a session that is gone already is fine.",
    .opts = rm_opts,
    .run = run_rm,
};

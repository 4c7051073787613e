/* SPDX-License-Identifier: MIT */
/* approve and deny. Neither ever reads standard input: an end of file, a pipe or a paste is
 * no decision. */
#include <stdio.h>

#include "core/base/values.h"
#include "core/cli/util.h"
#include "core/client/review.h"

struct decision {
    const struct bg_cmd *cmd;
    bool approve;
    int64_t id;
    const char *sha256; /* NULL: deny what is pending under that id */
    const char *reason, *note;
    cJSON *ack;
};

static bool sha_ok(const char *s)
{
    size_t n = strlen(s);
    return n >= BG_SHA_PREFIX_MIN && n <= BG_SHA256_HEX &&
           strspn(s, "0123456789abcdef") == n;
}

static char *hazard_names(void)
{
    struct bg_buf b;
    bg_buf_init(&b, 4096);
    for (int h = 0; h < BG_HZ_COUNT_; h++)
        bg_buf_printf(&b, "%s%s", h ? ", " : "", bg_hazard_name((enum bg_hazard)h));
    return bg_buf_steal(&b);
}

static bool add_acks(struct decision *d, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        enum bg_hazard h;
        if (!bg_hazard_from_name(list, n, &h)) {
            bg_autofree char *all = hazard_names();
            cli_usage(d->cmd, "no hazard is called \"%.*s\"; they are: %s", (int)n, list,
                      all);
            return false;
        }
        cJSON_AddItemToArray(d->ack, cJSON_CreateString(bg_hazard_name(h)));
        list += n + (list[n] == ',');
    }
    return true;
}

static bool read_args(struct decision *d, const struct cli_args *a)
{
    size_t at = 0;
    d->sha256 = cli_value(a, "sha");
    d->note = cli_value(a, "note");
    d->reason = d->approve ? NULL : cli_value(a, "reason");
    if (!cli_request_id(a->argv[0], &d->id))
        cli_usage(d->cmd, "not the number of a request: %s", a->argv[0]);
    else if (d->approve && !d->sha256)
        cli_usage(d->cmd, "approve needs --sha: what boxgate show %lld prints last",
                  (long long)d->id);
    else if (d->sha256 && !sha_ok(d->sha256))
        cli_usage(d->cmd, "--sha takes %d to %d hex digits of the hash", BG_SHA_PREFIX_MIN,
                  BG_SHA256_HEX);
    else if ((d->reason && strlen(d->reason) > BG_REASON_MAX) ||
             (d->note && strlen(d->note) > BG_REASON_MAX))
        cli_usage(d->cmd, "at most %d bytes of reason or note", BG_REASON_MAX);
    else {
        for (const char *v; d->approve && (v = cli_each(a, "ack", &at));)
            if (!add_acks(d, v))
                return false;
        return true;
    }
    return false;
}

static cJSON *get_row(struct cli_conn *k, int64_t id, struct bg_error *err)
{
    cJSON *p = bg_jo();
    bg_jset_int(p, "id", id);
    return bg_client_ask(k->client, "approval.get", p, err);
}

/* On a terminal the decision's object is printed above its outcome. */
static bool show_first(const cJSON *row, struct bg_error *err)
{
    struct bg_review *r = bg_review_build(row, err);
    if (!r)
        return false;
    struct bg_buf b;
    cli_buf(&b);
    bg_review_print(r, &b, cli_color(STDOUT_FILENO), false);
    bg_review_free(r);
    cli_out(&b);
    return true;
}

static int refused(const struct decision *d, const cJSON *row, const struct bg_error *err)
{
    cli_note("%s", err->msg);
    if (err->code == BG_ERR_HAZARDS) {
        bg_autofree char *all =
            bg_json_join(cJSON_GetObjectItemCaseSensitive(row, "hazards"), "");
        cli_note("read it (boxgate show %lld), then name every hazard: --ack %s",
                 (long long)d->id, all);
    }
    return cli_exit_of_decision(err->code);
}

static void tell(const struct decision *d, const cJSON *row)
{
    struct bg_buf b;
    cli_buf(&b);
    bg_buf_printf(&b, "%s: #%04lld", d->approve ? "approved" : "denied", (long long)d->id);
    if (d->approve && row && !cli_true(row, "attached"))
        bg_buf_puts(&b, ", but its requester has left: it runs only if that one claims it");
    else if (d->reason)
        bg_buf_puts(&b, ", reason sent");
    bg_buf_putc(&b, '\n');
    cli_out(&b);
}

static int decide(struct cli_conn *k, const struct decision *d)
{
    struct bg_error err = {0};
    bool terminal = d->approve && isatty(STDOUT_FILENO);
    bg_autojson cJSON *row = get_row(k, d->id, &err);
    if (!row || (terminal && !show_first(row, &err)))
        return refused(d, row, &err);
    cJSON *p = bg_jo();
    bg_jset_int(p, "id", d->id);
    bg_jset_str(p, "sha256", d->sha256 ? d->sha256 : cli_str(row, "sha256"));
    bg_jset_str(p, "decision", d->approve ? "approve" : "deny");
    bg_jset_str(p, "scope", "once");
    if (d->reason)
        bg_jset_str(p, "reason", d->reason);
    if (d->note)
        bg_jset_str(p, "note", d->note);
    if (cJSON_GetArraySize(d->ack))
        bg_jset(p, "ackHazards", cJSON_Duplicate(d->ack, true));
    bg_autojson cJSON *res = bg_client_ask(k->client, "approval.decide", p, &err);
    if (!res)
        return refused(d, row, &err);
    tell(d, row);
    return BG_EXIT_OK;
}

static int run(const struct bg_cmd *cmd, int argc, char **argv, bool approve)
{
    struct cli_args a;
    struct cli_conn k;
    struct bg_error err = {0};
    bg_autojson cJSON *ack = bg_ja();
    struct decision d = {.cmd = cmd, .approve = approve, .ack = ack};
    if (!cli_parse(&a, cmd, argc, argv, 1, 1) || !read_args(&d, &a))
        return BG_EXIT_USAGE;
    int code;
    if (cli_connect(&k, BG_ROLE_OPERATOR, approve ? "boxgate-approve" : "boxgate-deny",
                    false, NULL, NULL, &err))
        code = decide(&k, &d);
    else
        code = cli_fail(&err);
    cli_close(&k);
    return code;
}

static int run_approve(const struct bg_cmd *cmd, int argc, char **argv)
{
    return run(cmd, argc, argv, true);
}

static int run_deny(const struct bg_cmd *cmd, int argc, char **argv)
{
    return run(cmd, argc, argv, false);
}

static const struct bg_opt approve_opts[] = {
    {"sha", 's', "HEX", "at least 16 digits of the hash that boxgate show prints"},
    {"ack", 'a', "HAZARD,...", "for HIGH: every hazard, by name"},
    {"note", 'n', "TEXT", "for the record only"},
    {0},
};

const struct bg_cmd cmd_approve = {
    .name = "approve",
    .args = "ID --sha HEX [--ack HAZARD,...] [--note TEXT]",
    .summary = "approve a pending request",
    .help =
        "The hash binds the decision to the bytes you read: get it with boxgate show.\n"
        "Approve in another terminal than the one that asks.\n"
        "\n"
        "Exit code: 0 approved, 2 usage, 3 not found, 4 already decided, 5 another hash,\n"
        "6 expired, 7 refused.\n"
        "\n"
        "examples:\n"
        "  boxgate approve 144 --sha 9f86d081884c7d65\n"
        "  boxgate approve 144 --sha 9f86d081884c7d65 --ack bidi,env",
    .opts = approve_opts,
    .run = run_approve,
};

static const struct bg_opt deny_opts[] = {
    {"reason", 'r', "TEXT", "told to whoever asked"},
    {"sha", 's', "HEX", "deny only if the hash begins with this"},
    {"note", 'n', "TEXT", "for the record only"},
    {0},
};

const struct bg_cmd cmd_deny = {
    .name = "deny",
    .args = "ID [--reason TEXT] [--sha HEX] [--note TEXT]",
    .summary = "deny a pending request",
    .help =
        "The same bytes from the same user are then denied for a while without asking;\n"
        "boxgate forget-deny ends that. Exit codes as in boxgate approve.\n"
        "\n"
        "example:\n"
        "  boxgate deny 144 --reason 'Read /data, but do not write copies.'",
    .opts = deny_opts,
    .run = run_deny,
};

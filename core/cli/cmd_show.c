/* SPDX-License-Identifier: MIT */
/* show: one request with every byte that would run, and the hash that approve wants. */
#include <stdio.h>

#include "core/cli/util.h"
#include "core/client/review.h"

static void put_outcome(struct bg_buf *b, const cJSON *row)
{
    static const struct {
        const char *key, *label;
    } texts[] = {{"decision", "decision"},
                 {"decidedBy", "decided by"},
                 {"rule", "rule"},
                 {"reason", "reason"},
                 {"finishedAt", "finished"}};
    for (size_t i = 0; i < bg_countof(texts); i++) {
        const char *v = cli_str(row, texts[i].key);
        if (!*v)
            continue;
        bg_buf_printf(b, "%s: ", texts[i].label);
        bg_text_safe(b, v, strlen(v), 0);
        bg_buf_putc(b, '\n');
    }
    if (cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(row, "exitCode")))
        bg_buf_printf(b, "exit code: %.0f\n", cli_num(row, "exitCode"));
}

/* A request that failed before its sandbox was known: nothing is bound, nothing can run. */
static int print_unbound(const cJSON *row)
{
    struct bg_buf b;
    cli_buf(&b);
    bg_buf_printf(&b, "request: #%04.0f ", cli_num(row, "id"));
    const char *const words[] = {cli_str(row, "kind"), cli_str(row, "state")};
    bg_text_safe(&b, words[0], strlen(words[0]), 0);
    bg_buf_puts(&b, ", ");
    bg_text_safe(&b, words[1], strlen(words[1]), 0);
    bg_buf_puts(&b, "; it never came so far that anything could be decided\n");
    put_outcome(&b, row);
    cli_out(&b);
    return BG_EXIT_OK;
}

static int print(const cJSON *row, bool json)
{
    struct bg_error err = {0};
    const cJSON *bound = cJSON_GetObjectItemCaseSensitive(row, "bound");
    if (!json && cJSON_GetArraySize(bound) == 0 && strcmp(cli_str(row, "state"), "pending"))
        return print_unbound(row);
    struct bg_review *r = bg_review_build(row, &err);
    if (!r) {
        cli_note("%s", err.msg);
        return cli_exit_of_decision(err.code);
    }
    if (json) {
        cli_out_json(row);
    } else {
        struct bg_buf b;
        cli_buf(&b);
        bg_review_print(r, &b, cli_color(STDOUT_FILENO), true);
        put_outcome(&b, row);
        cli_out(&b);
    }
    bg_review_free(r);
    return BG_EXIT_OK;
}

static int run(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_error err = {0};
    int64_t id;
    if (!cli_parse(&a, cmd, argc, argv, 1, 1))
        return BG_EXIT_USAGE;
    if (!cli_request_id(a.argv[0], &id))
        return cli_usage(cmd, "not the number of a request: %s", a.argv[0]);
    cJSON *p = bg_jo();
    bg_jset_int(p, "id", id);
    bg_autojson cJSON *row =
        cli_ask(BG_ROLE_OBSERVER, "boxgate-show", false, "approval.get", p, &err);
    if (row)
        return print(row, cli_flag(&a, "json"));
    cli_note("%s", err.msg);
    return cli_exit_of_decision(err.code);
}

static const struct bg_opt opts[] = {
    {"json", 'j', NULL, "as the server gives it, byte fields in base64"},
    {0},
};

const struct bg_cmd cmd_show = {
    .name = "show",
    .args = "ID [--json]",
    .summary = "show a request: every byte, its risks, where it would run, its hash",
    .help =
        "Hidden and deceptive characters are written out, nothing is cut. The last line\n"
        "is the hash for boxgate approve; this side has computed it again from the bytes\n"
        "it shows.\n"
        "\n"
        "example:\n"
        "  boxgate show 144",
    .opts = opts,
    .run = run,
};

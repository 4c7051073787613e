/* SPDX-License-Identifier: MIT */
/* pending: what waits for a decision, once or as it comes. */
#include <signal.h>
#include <stdio.h>

#include "core/base/values.h"
#include "core/cli/util.h"

#define FIRST_LINE_COLS 48
#define SIGNALS 3

static void print_table(const cJSON *rows)
{
    static const char *const heads[] = {
        "ID", "SESSION", "KIND", "LANGUAGE", "LINES", "LEFT", "RISK", "FIRST LINE", NULL};
    struct cli_table t;
    const cJSON *row;
    cli_table_init(&t, heads);
    t.last_max = FIRST_LINE_COLS;
    cJSON_ArrayForEach(row, rows)
    {
        bg_autofree char *id = bg_xasprintf("#%04.0f", cli_num(row, "id"));
        bg_autofree char *lines = bg_xasprintf("%.0f", cli_num(row, "lines"));
        bg_autofree char *left = cli_span(cli_num(row, "leftMs"));
        const char *cells[] = {id,
                               cli_str(row, "session"),
                               cli_str(row, "kind"),
                               cli_str(row, "language"),
                               lines,
                               left,
                               cli_true(row, "high") ? "HIGH" : "",
                               cli_str(row, "firstLine")};
        cli_table_row(&t, cells);
    }
    cli_table_out(&t);
}

static int list(struct cli_conn *k, bool json)
{
    struct bg_error err = {0};
    bg_autojson cJSON *rows = bg_client_ask(k->client, "approval.list", bg_jo(), &err);
    if (!rows)
        return cli_fail(&err);
    if (json)
        cli_out_json(rows);
    else if (cJSON_GetArraySize(rows))
        print_table(rows);
    else
        cli_note("nothing is pending");
    return BG_EXIT_OK;
}

/* ---- watch ---- */

struct watch {
    bool json;
    int64_t *seen; /* printed and not yet final */
    size_t n_seen;
    bool gone, interrupted;
    struct bg_error why;
};

static bool known(const struct watch *w, int64_t id)
{
    for (size_t i = 0; i < w->n_seen; i++)
        if (w->seen[i] == id)
            return true;
    return false;
}

static void forget(struct watch *w, int64_t id)
{
    for (size_t i = 0; i < w->n_seen; i++)
        if (w->seen[i] == id)
            w->seen[i] = w->seen[--w->n_seen];
}

static void look_at(struct watch *w, const cJSON *row)
{
    int64_t id = (int64_t)cli_num(row, "id");
    struct bg_buf b;
    if (strcmp(cli_str(row, "state"), "pending")) {
        forget(w, id);
        return;
    }
    if (known(w, id))
        return;
    w->seen = bg_xrealloc(w->seen, w->n_seen + 1, sizeof *w->seen);
    w->seen[w->n_seen++] = id;
    cli_buf(&b);
    if (w->json) {
        cli_put_json(&b, row, false);
    } else {
        bg_autofree char *line = cli_pending_line(row);
        bg_buf_printf(&b, "%s\n", line);
    }
    cli_out(&b);
}

static void on_event(void *data, const char *topic, const char *type BG_UNUSED,
                     const cJSON *row)
{
    if (!strcmp(topic, "approval") && cJSON_IsObject(row))
        look_at(data, row);
}

static void on_closed(void *data, const struct bg_error *err)
{
    struct watch *w = data;
    w->gone = true;
    w->why = *err;
}

static void on_signal(int signo BG_UNUSED, void *data)
{
    struct watch *w = data;
    w->interrupted = true;
}

static bool subscribe(struct cli_conn *k, struct watch *w, struct bg_error *err)
{
    cJSON *p = bg_jo(), *topics = bg_ja();
    const cJSON *row;
    cJSON_AddItemToArray(topics, cJSON_CreateString("approval"));
    bg_jset(p, "topics", topics);
    bg_autojson cJSON *res = bg_client_ask(k->client, "events.subscribe", p, err);
    if (!res)
        return false;
    bg_autojson cJSON *rows = bg_client_ask(k->client, "approval.list", bg_jo(), err);
    cJSON_ArrayForEach(row, rows)
    {
        look_at(w, row);
    }
    return rows != NULL;
}

static int watch(struct cli_conn *k, struct watch *w)
{
    struct bg_error err = {0};
    if (!subscribe(k, w, &err))
        return cli_fail(&err);
    struct bg_signal *sigs[SIGNALS] = {bg_signal_new(k->loop, SIGINT, on_signal, w),
                                       bg_signal_new(k->loop, SIGTERM, on_signal, w),
                                       bg_signal_new(k->loop, SIGHUP, on_signal, w)};
    while (!w->gone && !w->interrupted)
        bg_loop_turn(k->loop, -1);
    for (size_t i = 0; i < SIGNALS; i++)
        bg_signal_free(sigs[i]);
    if (w->interrupted)
        return BG_EXIT_INTERRUPTED;
    cli_note("the server has stopped");
    return BG_EXIT_FAILED;
}

static int run(const struct bg_cmd *cmd, int argc, char **argv)
{
    static const struct bg_client_events events = {on_event, on_closed};
    struct cli_args a;
    struct cli_conn k;
    struct bg_error err = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    bool watching = cli_flag(&a, "watch"), json = cli_flag(&a, "json");
    struct watch w = {.json = json};
    int code;
    /* A look is an observer's; who watches is there to decide. */
    if (!cli_connect(&k, watching ? BG_ROLE_OPERATOR : BG_ROLE_OBSERVER, "boxgate-pending",
                     watching, &events, &w, &err))
        code = cli_fail(&err);
    else
        code = watching ? watch(&k, &w) : list(&k, json);
    cli_close(&k);
    free(w.seen);
    return code;
}

static const struct bg_opt opts[] = {
    {"watch", 'w', NULL, "a line for every new request, until Ctrl-C"},
    {"json", 'j', NULL, "an array of objects; with --watch one object a line"},
    {0},
};

const struct bg_cmd cmd_pending = {
    .name = "pending",
    .args = "[--watch] [--json]",
    .summary = "list what waits for a decision",
    .help =
        "While --watch runs, an operator counts as present: requests wait for a decision\n"
        "instead of being denied because nobody is there.\n"
        "\n"
        "examples:\n"
        "  boxgate pending\n"
        "  boxgate pending --watch",
    .opts = opts,
    .run = run,
};

/* SPDX-License-Identifier: MIT */
/* Submit, wait, pass the output on, say how it ended. */
#include "core/cli/job.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "core/base/values.h"

#define SIGNALS 3
#define CANCEL_MS 2000 /* a server that does not answer a cancel is not waited for */

struct run {
    struct cli_job *job;
    struct cli_conn conn;
    struct cli_stream *streams[2];
    bool streaming;
    int64_t id; /* 0 until the server said it */
    char sha256[BG_SHA256_HEX + 1];
    bool told;
    cJSON *answer; /* the final one */
    struct bg_error err;
    int interrupts;
    bool cancelling, cancelled;
    struct bg_timer *cancel_timer;
    struct bg_signal *sigs[SIGNALS];
};

static bool is_final(const char *state)
{
    static const char *const names[] = {"denied",    "expired", "cancelled",
                                        "lost",      "done",    "failed",
                                        "timed_out", "killed",  "interrupted"};
    for (size_t i = 0; i < bg_countof(names); i++)
        if (!strcmp(state, names[i]))
            return true;
    return false;
}

/* ---- taking it back ---- */

static void on_cancelled(void *data, const cJSON *res BG_UNUSED,
                         const struct bg_error *err BG_UNUSED)
{
    struct run *r = data;
    r->cancelled = true;
}

static void on_cancel_late(struct bg_timer *t BG_UNUSED, void *data)
{
    on_cancelled(data, NULL, NULL);
}

static cJSON *reference(const struct run *r)
{
    cJSON *p = bg_jo();
    bg_jset_int(p, "approvalId", r->id);
    bg_jset_str(p, "sha256", r->sha256);
    return p;
}

static void cancel(struct run *r)
{
    if (r->cancelling || !r->id || r->answer || r->err.code)
        return;
    r->cancelling = true;
    bg_client_call(r->conn.client, "request.cancel", reference(r), NULL, 0, on_cancelled,
                   r);
}

static void interrupt(struct run *r)
{
    /* Twice: at once. Before the server named the request there is nothing to take back;
     * leaving detaches it, and a detached request never runs. */
    if (r->interrupts++ > 0)
        r->cancelled = true;
    bg_timer_start(r->cancel_timer, CANCEL_MS, 0);
    cancel(r);
}

static void on_signal(int signo BG_UNUSED, void *data)
{
    interrupt(data);
}

static void on_reader_gone(void *data)
{
    interrupt(data);
}

/* ---- waiting ---- */

static void tell_where(struct run *r)
{
    if (r->told)
        return;
    r->told = true;
    cli_note("#%04lld waits for a decision; to see it: boxgate show %lld, or the console: "
             "boxgate",
             (long long)r->id, (long long)r->id);
}

static void on_answer(void *data, const cJSON *res, const struct bg_error *err)
{
    struct run *r = data;
    if (err) {
        r->err = *err;
        return;
    }
    const char *state = cli_str(res, "state");
    r->id = (int64_t)cli_num(res, "approvalId");
    snprintf(r->sha256, sizeof r->sha256, "%s", cli_str(res, "sha256"));
    if (is_final(state)) {
        r->answer = cJSON_Duplicate(res, true);
        return;
    }
    if (!strcmp(state, "pending"))
        tell_where(r);
    if (r->interrupts)
        cancel(r);
    cJSON *p = reference(r);
    bg_jset_int(p, "waitMs", BG_WAIT_MAX_MS);
    bg_client_call(r->conn.client, "request.wait", p, NULL, 0, on_answer, r);
}

static bool submit(struct run *r)
{
    int pipes[2][2], ends[2];
    bg_jset_int(r->job->params, "waitMs", 0);
    cJSON *params = bg_steal(r->job->params);
    if (r->job->json) {
        bg_client_call(r->conn.client, "request.submit", params, NULL, 0, on_answer, r);
        return true;
    }
    for (int i = 0; i < 2; i++) {
        if (pipe2(pipes[i], O_CLOEXEC)) {
            cJSON_Delete(params);
            while (i-- > 0) {
                close(pipes[i][0]);
                close(pipes[i][1]);
            }
            return bg_fail(&r->err, BG_ERR_IO, 0, "no pipe can be made");
        }
        /* Fewer switches between server and command; refused above the user's share: fine.
         */
        fcntl(pipes[i][1], F_SETPIPE_SZ, BG_PIPE_BYTES);
    }
    r->streaming = true;
    for (int i = 0; i < 2; i++) {
        ends[i] = pipes[i][1];
        r->streams[i] = cli_stream_new(r->conn.loop, pipes[i][0], STDOUT_FILENO + i,
                                       r->job->raw, on_reader_gone, r);
    }
    bg_client_call(r->conn.client, "request.submit", params, ends, 2, on_answer, r);
    close(ends[0]);
    close(ends[1]);
    return true;
}

/* A request that was merged with one already waiting has no use for our pipes; what it
 * printed stands in the answer then. */
static void put_field(struct cli_stream *s, const cJSON *result, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(result, key);
    if (cli_stream_bytes(s) == 0 && cJSON_IsString(v)) {
        cli_stream_put(s, v->valuestring, strlen(v->valuestring));
    } else if (cli_stream_bytes(s) == 0 && cJSON_IsObject(v)) {
        bg_autobuf struct bg_buf b;
        bg_buf_init(&b, BG_JSON_LINE_MAX);
        if (bg_base64_decode(bg_str_from(cli_str(v, "base64")), &b, NULL))
            cli_stream_put(s, b.data, b.len);
    }
    cli_stream_finish(s);
}

static bool streams_done(const struct run *r)
{
    return !r->streaming ||
           (cli_stream_done(r->streams[0]) && cli_stream_done(r->streams[1]));
}

static bool pipes_open(const struct run *r)
{
    return r->streaming &&
           (cli_stream_piped(r->streams[0]) || cli_stream_piped(r->streams[1]));
}

static void wait_end(struct run *r)
{
    while (!r->cancelled && ((!r->answer && !r->err.code) || pipes_open(r)))
        bg_loop_turn(r->conn.loop, -1);
    if (!r->streaming)
        return;
    const cJSON *result = cJSON_GetObjectItemCaseSensitive(r->answer, "result");
    put_field(r->streams[0], result, "stdout");
    put_field(r->streams[1], result, "stderr");
    while (!r->cancelled && !streams_done(r))
        bg_loop_turn(r->conn.loop, -1);
}

/* ---- the end ---- */

static int exit_code(const struct run *r, const char *state, const cJSON *result)
{
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(result, "exitCode");
    if (!strcmp(state, "timed_out"))
        return BG_EXIT_TIMEOUT;
    if (r->interrupts)
        return BG_EXIT_INTERRUPTED;
    if ((!strcmp(state, "done") || !strcmp(state, "killed")) && cJSON_IsNumber(code))
        return code->valueint;
    return BG_EXIT_NOT_RUN;
}

static void out_result(const struct run *r, const char *state, const char *reason,
                       const cJSON *result)
{
    bg_autojson cJSON *o = result ? cJSON_Duplicate(result, true) : bg_jo();
    cJSON_DeleteItemFromObjectCaseSensitive(o, "sha256");
    cli_put(o, "status", cJSON_CreateString(state));
    cli_put(o, "started", cJSON_CreateBool(cli_true(result, "started")));
    cli_put(o, "reason", *reason ? cJSON_CreateString(reason) : cJSON_CreateNull());
    if (r->id)
        cli_put(o, "approvalId", cJSON_CreateNumber((double)r->id));
    if (r->answer)
        cli_put(o, "session", cJSON_CreateString(cli_str(r->answer, "session")));
    if (!cJSON_GetObjectItemCaseSensitive(o, "exitCode"))
        bg_jset(o, "exitCode", cJSON_CreateNull());
    cli_out_json(o);
}

static void tell_cut(const cJSON *result, const char *stream)
{
    char cut[32], all[32];
    snprintf(cut, sizeof cut, "%sTruncated", stream);
    snprintf(all, sizeof all, "%sBytes", stream);
    if (cli_true(result, cut))
        cli_note("%s was cut: the program printed %.0f bytes in all", stream,
                 cli_num(result, all));
}

static const char *reason_of(const struct run *r, const char *state, const cJSON *result)
{
    const char *why = r->err.code ? r->err.msg : cli_str(r->answer, "reason");
    if (*why)
        return why;
    if (cli_true(result, "oom"))
        return "the sandbox ran out of memory";
    if (!strcmp(state, "timed_out"))
        return "the program took longer than its timeout";
    return "";
}

static int finish(struct run *r)
{
    const cJSON *result = cJSON_GetObjectItemCaseSensitive(r->answer, "result");
    bool config = r->err.code == BG_ERR_CONFIG || r->err.code == BG_ERR_USAGE;
    const char *state = r->answer       ? cli_str(r->answer, "state")
                        : r->interrupts ? "cancelled"
                        : r->id         ? "lost"
                                        : "failed";
    const char *reason = reason_of(r, state, result);
    int code = exit_code(r, state, result);
    bool done = !strcmp(state, "done");
    if (!r->job->json && done && !strcmp(r->job->name, "boxgate-run")) {
        tell_cut(result, "stdout");
        tell_cut(result, "stderr");
    }
    if (r->job->json)
        out_result(r, state, reason, result);
    if (config && !r->id)
        return cli_fail(&r->err);
    if (!done)
        cli_note("%s: %s", state, *reason ? reason : "no reason given");
    return code;
}

static void begin(struct run *r)
{
    static const int signals[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    r->cancel_timer = bg_timer_new(r->conn.loop, on_cancel_late, r);
    for (size_t i = 0; i < SIGNALS; i++)
        r->sigs[i] = bg_signal_new(r->conn.loop, signals[i], on_signal, r);
    if (submit(r))
        wait_end(r);
}

static void end(struct run *r)
{
    for (size_t i = 0; i < SIGNALS; i++)
        bg_signal_free(r->sigs[i]);
    bg_timer_free(r->cancel_timer);
    cli_stream_free(r->streams[0]);
    cli_stream_free(r->streams[1]);
    cJSON_Delete(r->answer);
    cJSON_Delete(r->job->params);
    cli_close(&r->conn);
}

int cli_job_run(struct cli_job *job)
{
    struct run r = {.job = job};
    if (cli_connect(&r.conn, BG_ROLE_AGENT, job->name, true, NULL, NULL, &r.err))
        begin(&r);
    int code = finish(&r);
    end(&r);
    return code;
}

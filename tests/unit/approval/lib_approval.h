/* SPDX-License-Identifier: MIT */
/*
 * A queue on a real audit store, with a server that only notes what it was told. The
 * requester is a real process that is no relative of this one.
 */
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/approval/approval.h"
#include "core/approval/queue.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/values.h"
#include "tests/test.h"

#define WAITER 7
#define INSTANCE "0123456789abcdef0123456789abcdef"

struct env {
    char dir[64];
    struct bg_loop *loop;
    struct bg_config *c;
    struct bg_audit *a;
    struct bg_approvals *q;
    struct bg_actor asker, op;
    int kin_pipe;
    pid_t kin_pid;
    /* how the next ones are prepared */
    bool hold_prepare; /* not answered by itself */
    bool may_merge;
    const char *network; /* NULL = none */
    const char *instance;
    /* what was told */
    int prepares, runs, kills, finals, changes;
    uint64_t last_run, last_final;
};

static inline uint64_t start_of(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}

/* us -> M -> the requester: neither it nor its parent is an ancestor of ours. */
static inline void start_asker(struct env *e)
{
    int up[2], down[2];
    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    e->kin_pid = fork();
    if (e->kin_pid == 0) {
        close(down[1]);
        pid_t child = fork();
        char c;
        if (child) {
            ssize_t n = write(up[1], &child, sizeof child);
            _exit(n > 0 && waitpid(child, NULL, 0) ? 0 : 1);
        }
        _exit(read(down[0], &c, 1) == 0 ? 0 : 1); /* until we are gone */
    }
    close(down[0]);
    close(up[1]);
    pid_t asker = 0;
    assert_int_equal(read(up[0], &asker, sizeof asker), sizeof asker);
    close(up[0]);
    e->kin_pipe = down[1];
    e->asker =
        (struct bg_actor){.uid = geteuid(), .pid = asker, .start_time = start_of(asker)};
    e->asker.client = (char *)"test-agent 1";
    assert_true(e->asker.start_time > 0);
}

static inline void prepare_one(struct env *e, struct bg_request *r)
{
    const struct bg_body *b = bg_request_body(r);
    char *interpreter[] = {(char *)"python3", (char *)"-", NULL};
    struct bg_prepared p = {.may_merge = e->may_merge, .session_id = (char *)"s1"};
    p.bind.workdir = (char *)"/workspace";
    p.bind.argv = b->kind == BG_REQ_EXEC ? b->argv : interpreter;
    p.bind.timeout_ms = b->timeout_ms ? b->timeout_ms : 60000;
    snprintf(p.bind.instance, sizeof p.bind.instance, "%s",
             e->instance ? e->instance : INSTANCE);
    p.facts.provider = "local";
    p.facts.image_id = "host";
    p.facts.network = e->network ? e->network : "none";
    p.facts.caps_none = p.facts.no_new_privileges = true;
    p.spec_json = bg_jo();
    bg_request_prepared(r, &p, NULL);
}

static inline void on_prepare(void *data, struct bg_request *r)
{
    struct env *e = data;
    e->prepares++;
    if (!e->hold_prepare)
        prepare_one(e, r);
}

static inline void on_run(void *data, struct bg_request *r)
{
    struct env *e = data;
    e->runs++;
    e->last_run = bg_request_id(r);
    assert_int_equal(bg_request_state(r), BG_RS_RUNNING);
    assert_true(bg_request_attached(r));
}

static inline void on_kill(void *data, struct bg_request *r)
{
    struct env *e = data;
    e->kills++;
    bg_request_finished(r, BG_RS_KILLED, "cancelled", NULL, NULL);
}

static inline void on_changed(void *data, struct bg_request *r)
{
    struct env *e = data;
    e->changes++;
    assert_non_null(r);
}

static inline void on_final(void *data, struct bg_request *r)
{
    struct env *e = data;
    e->finals++;
    e->last_final = bg_request_id(r);
    assert_true(bg_request_state_final(bg_request_state(r)));
    assert_non_null(bg_request_result(r));
}

static const struct bg_approvals_events events = {.prepare = on_prepare,
                                                  .run = on_run,
                                                  .kill = on_kill,
                                                  .changed = on_changed,
                                                  .final = on_final};

static inline int env_setup(void **state)
{
    struct env *e = bg_xcalloc(1, sizeof *e);
    struct bg_error err = {0};
    *state = e;
    bg_digest_init();
    strcpy(e->dir, "/tmp/boxgate-approval.XXXXXX");
    if (!mkdtemp(e->dir))
        return -1;
    start_asker(e);
    e->op = (struct bg_actor){.uid = geteuid(),
                              .pid = getpid(),
                              .start_time = start_of(getpid()),
                              .client = (char *)"boxgate-console 1",
                              .interactive = true};
    e->c = bg_config_defaults();
    e->may_merge = true;
    e->loop = bg_loop_new();
    e->a = bg_audit_open(e->loop, e->dir, NULL, &err);
    if (!e->a)
        return -1;
    e->q = bg_approvals_new(e->loop, e->c, e->a, NULL, &events, e);
    return 0;
}

static inline int env_teardown(void **state)
{
    struct env *e = *state;
    struct bg_error err;
    bg_approvals_free(e->q);
    bg_audit_close(e->a);
    bg_config_free(e->c);
    bg_loop_free(e->loop);
    close(e->kin_pipe);
    waitpid(e->kin_pid, NULL, 0);
    int rc = bg_rm_rf(e->dir, &err) ? 0 : -1;
    free(e);
    return rc;
}

static inline struct bg_body *body_of(const char *json)
{
    struct bg_error err = {0};
    bg_autojson cJSON *j = bg_json_parse(json, strlen(json), BG_JSON_LINE_MAX, &err);
    if (!j)
        fail_msg("%s: %s", json, err.msg);
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(j, "kind");
    struct bg_body *b = bg_body_parse(kind->valuestring, j, &err);
    if (!b)
        fail_msg("%s: %s", json, err.msg);
    return b;
}

static inline struct bg_body *code_body(const char *code, const char *call_id)
{
    bg_autojson cJSON *p = bg_jo(), *b = bg_jo();
    bg_jset_str(p, "kind", "run_code");
    if (call_id)
        bg_jset_str(p, "callId", call_id);
    bg_jset_str(b, "code", code);
    bg_jset_str(b, "language", "python");
    bg_jset(p, "body", bg_steal(b));
    bg_autofree char *text = bg_json_print(p);
    return body_of(text);
}

/* Turns until nothing is to be done at once. */
static inline void settle(struct env *e)
{
    for (int i = 0; i < 3; i++)
        bg_loop_turn(e->loop, 0);
}

static inline struct bg_request *ask_as(struct env *e, const char *code,
                                        const char *call_id, uint64_t waiter)
{
    struct bg_error err = {0};
    bool existing;
    struct bg_request *r = bg_approvals_submit(e->q, code_body(code, call_id), &e->asker,
                                               waiter, false, &existing, &err);
    if (!r)
        fail_msg("%s", err.msg);
    settle(e);
    return r;
}

/* A pending request with a waiter. */
static inline struct bg_request *ask(struct env *e, const char *code)
{
    struct bg_request *r = ask_as(e, code, NULL, WAITER);
    assert_int_equal(bg_request_state(r), BG_RS_PENDING);
    return r;
}

static inline void on_done(void *data, const struct bg_error *err)
{
    *(int *)data = err ? (int)err->code : 1000;
}

/* Until *flag; fails after 10 s. */
static inline void wait_flag(struct env *e, const int *flag)
{
    for (int64_t end = bg_mono_ms() + 10000; !*flag;) {
        assert_true(bg_mono_ms() < end);
        bg_loop_turn(e->loop, 20);
    }
}

static inline void wait_state(struct env *e, struct bg_request *r, enum bg_request_state s)
{
    for (int64_t end = bg_mono_ms() + 10000; bg_request_state(r) != s;) {
        if (bg_mono_ms() > end)
            fail_msg("still %s", bg_request_state_name(bg_request_state(r)));
        bg_loop_turn(e->loop, 20);
    }
}

static inline struct bg_decide decision(const struct bg_request *r, bool approve)
{
    return (struct bg_decide){.id = bg_request_id(r),
                              .rev = bg_request_rev(r),
                              .sha256 = bg_request_sha256(r),
                              .approve = approve};
}

/* 0 = accepted */
static inline enum bg_errc decide(struct env *e, const struct bg_decide *d)
{
    struct bg_error err = {0};
    return bg_approvals_decide(e->q, d, &e->op, NULL, NULL, &err) ? BG_OK : err.code;
}

/* Decides, and waits until it is durable. */
static inline void decide_wait(struct env *e, struct bg_request *r, bool approve)
{
    struct bg_decide d = decision(r, approve);
    struct bg_error err = {0};
    int flag = 0;
    if (!bg_approvals_decide(e->q, &d, &e->op, on_done, &flag, &err))
        fail_msg("%s", err.msg);
    wait_flag(e, &flag);
    assert_int_equal(flag, 1000);
}

static inline void finish(struct bg_request *r)
{
    cJSON *res = bg_jo();
    bg_jset_int(res, "exitCode", 0);
    bg_jset_str(res, "stdout", "45\n");
    bg_request_started(r);
    bg_request_finished(r, BG_RS_DONE, NULL, res, NULL);
}

/* The audit's lines with this event, in order, as one text. */
struct lines {
    struct bg_buf text;
    const char *event;
    int n;
};

static inline bool take_line(void *data, int64_t seq, const char *line, size_t n,
                             const char *hash)
{
    struct lines *l = data;
    bg_autofree char *z = bg_xstrndup(line, n);
    assert_true(seq > 0 && *hash);
    if (!l->event || strstr(z, l->event)) {
        l->n++;
        bg_buf_puts(&l->text, z);
        bg_buf_putc(&l->text, '\n');
    }
    return true;
}

/* What the store holds once everything that was handed over is on disk. */
static inline int audit_lines(struct env *e, const char *event, char **text)
{
    struct bg_error err = {0};
    int flag = 0;
    struct bg_audit_batch *b = bg_audit_batch_new(e->a);
    bg_audit_commit(b, on_done, &flag);
    wait_flag(e, &flag);
    struct lines l = {.event = event};
    bg_buf_init(&l.text, 1 << 22);
    struct bg_audit_reader *r = bg_audit_reader_open(e->dir, &err);
    assert_non_null(r);
    assert_true(bg_audit_reader_from(r, 1, take_line, &l, &err));
    bg_audit_reader_close(r);
    if (text)
        *text = bg_buf_steal(&l.text);
    bg_buf_free(&l.text);
    return l.n;
}

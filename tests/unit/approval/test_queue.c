/* SPDX-License-Identifier: MIT */
/* Decisions: bound to bytes, made once, durable before anything runs. */
#include <sys/resource.h>

#include "tests/unit/approval/lib_approval.h"

static void approved_runs_once_after_the_record(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(45)");
    struct bg_decide d = decision(r, true);
    int flag = 0;
    struct bg_error err;
    assert_true(bg_approvals_decide(e->q, &d, &e->op, on_done, &flag, &err));
    assert_int_equal(bg_request_state(r), BG_RS_APPROVED);
    assert_int_equal(e->runs, 0); /* not before it is on disk */
    wait_flag(e, &flag);
    assert_int_equal(flag, 1000);
    assert_int_equal(e->runs, 1);
    assert_int_equal(e->last_run, bg_request_id(r));
    assert_int_equal(audit_lines(e, "request.claimed", NULL), 1);
    finish(r);
    assert_int_equal(bg_request_state(r), BG_RS_DONE);
    assert_int_equal(e->finals, 1);
    bg_autofree char *text = NULL;
    audit_lines(e, NULL, &text);
    static const char *const order[] = {"request.received", "request.pending",
                                        "request.decided",  "request.claimed",
                                        "request.started",  "request.finished"};
    const char *p = text;
    for (size_t i = 0; i < bg_countof(order); i++)
        assert_non_null(p = strstr(p, order[i]));
    assert_null(strstr(text, "print(45)")); /* code is a blob, never in a line */
    assert_non_null(strstr(text, "\"by\":\"operator\""));
}

static void denied_never_runs_and_carries_the_reason(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(1)");
    struct bg_decide d = decision(r, false);
    d.reason = "not on this machine";
    assert_int_equal(decide(e, &d), BG_OK);
    assert_int_equal(bg_request_state(r), BG_RS_DENIED);
    assert_string_equal(bg_request_reason(r), "not on this machine");
    const cJSON *res = bg_request_result(r);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(res, "status")->valuestring,
                        "denied");
    assert_true(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(res, "started")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(res, "exitCode")));
    audit_lines(e, NULL, NULL);
    assert_int_equal(e->runs, 0);
    assert_int_equal(e->finals, 1);
}

static void a_wrong_or_short_hash_decides_nothing(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(1)");
    char sha[BG_SHA256_HEX + 2];
    struct bg_decide d = decision(r, true);
    d.rev = 0;
    d.sha256 = sha;
    for (size_t n = 0; n < BG_SHA_PREFIX_MIN; n++) { /* right digits, too few */
        snprintf(sha, sizeof sha, "%.*s", (int)n, bg_request_sha256(r));
        assert_int_equal(decide(e, &d), BG_ERR_HASH_MISMATCH);
    }
    for (size_t i = 0; i < BG_SHA256_HEX; i++) { /* one digit wrong */
        snprintf(sha, sizeof sha, "%s", bg_request_sha256(r));
        sha[i] = sha[i] == '0' ? '1' : '0';
        assert_int_equal(decide(e, &d), BG_ERR_HASH_MISMATCH);
    }
    snprintf(sha, sizeof sha, "%s0", bg_request_sha256(r));
    assert_int_equal(decide(e, &d), BG_ERR_HASH_MISMATCH);
    d.sha256 = NULL;
    assert_int_equal(decide(e, &d), BG_ERR_HASH_MISMATCH);
    d = decision(r, true);
    d.rev = 2;
    assert_int_equal(decide(e, &d), BG_ERR_HASH_MISMATCH);
    assert_int_equal(bg_request_state(r), BG_RS_PENDING);
    assert_true(audit_lines(e, "\"why\":\"hash_mismatch\"", NULL) > 64);
    d.rev = 0;
    d.sha256 = sha;
    snprintf(sha, sizeof sha, "%.*s", BG_SHA_PREFIX_MIN, bg_request_sha256(r));
    assert_int_equal(decide(e, &d), BG_OK);
}

static void a_second_decision_is_told_who_was_first(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(1)");
    struct bg_decide yes = decision(r, true), no = decision(r, false);
    struct bg_error err = {0};
    assert_int_equal(decide(e, &yes), BG_OK);
    /* While the first is on its way to the disk, and after. */
    assert_false(bg_approvals_decide(e->q, &no, &e->op, NULL, NULL, &err));
    assert_int_equal(err.code, BG_ERR_ALREADY_DECIDED);
    assert_non_null(strstr(err.msg, "approved by uid"));
    assert_non_null(strstr(err.msg, "boxgate-console 1"));
    wait_state(e, r, BG_RS_RUNNING);
    assert_int_equal(decide(e, &no), BG_ERR_ALREADY_DECIDED);
    finish(r);
    assert_int_equal(decide(e, &yes), BG_ERR_ALREADY_DECIDED);
    assert_int_equal(e->runs, 1);
}

static void two_deciders_1000_rounds_one_winner(void **state)
{
    struct env *e = *state;
    for (int i = 0; i < 1000; i++) {
        bg_autofree char *code = bg_xasprintf("print(%d)", i);
        struct bg_request *r = ask(e, code);
        bool first = i % 2, second = i % 3 == 0;
        struct bg_decide a = decision(r, first), b = decision(r, second);
        enum bg_errc ra = decide(e, &a);
        if (i % 5 == 0) /* sometimes the commit lands in between */
            settle(e);
        enum bg_errc rb = decide(e, &b);
        assert_int_equal(ra, BG_OK);
        assert_int_equal(rb, BG_ERR_ALREADY_DECIDED);
        int runs = e->runs;
        wait_state(e, r, first ? BG_RS_RUNNING : BG_RS_DENIED);
        if (first)
            finish(r);
        assert_true(e->runs - runs <= 1);
    }
    assert_int_equal(e->runs, 500);
    assert_int_equal(e->finals, 1000);
}

static void a_hazard_must_be_named(void **state)
{
    struct env *e = *state;
    e->network = "bridge";
    struct bg_request *r = ask(e, "x = '\xe2\x80\xae'");
    struct bg_decide d = decision(r, true);
    struct bg_error err = {0};
    assert_false(bg_approvals_decide(e->q, &d, &e->op, NULL, NULL, &err));
    assert_int_equal(err.code, BG_ERR_HAZARDS);
    assert_non_null(strstr(err.msg, "bidi"));
    assert_non_null(strstr(err.msg, "network"));
    d.ack = BG_HZ_BIT(BG_HZ_BIDI);
    assert_int_equal(decide(e, &d), BG_ERR_HAZARDS);
    d.ack |= BG_HZ_BIT(BG_HZ_NETWORK);
    assert_int_equal(decide(e, &d), BG_OK);
}

static void only_the_scope_once(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(1)");
    struct bg_decide d = decision(r, true);
    d.scope = BG_SCOPE_SESSION;
    assert_int_equal(decide(e, &d), BG_ERR_UNSUPPORTED);
    d.scope = BG_SCOPE_RULE;
    assert_int_equal(decide(e, &d), BG_ERR_UNSUPPORTED);
    assert_int_equal(bg_request_state(r), BG_RS_PENDING);
}

static void headless_and_pin_close_what_they_say(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(1)");
    struct bg_decide d = decision(r, true);
    e->op.interactive = false;
    e->c->operator_headless = false;
    assert_int_equal(decide(e, &d), BG_ERR_FORBIDDEN);
    e->c->operator_headless = true;
    e->c->operator_pin = true;
    assert_int_equal(decide(e, &d), BG_ERR_UNSUPPORTED);
    e->c->operator_pin = false;
    assert_int_equal(decide(e, &d), BG_OK);
}

static void a_reason_has_a_cap(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(1)");
    char reason[BG_REASON_MAX + 2];
    memset(reason, 'a', sizeof reason);
    reason[BG_REASON_MAX + 1] = 0;
    struct bg_decide d = decision(r, false);
    d.reason = reason;
    assert_int_equal(decide(e, &d), BG_ERR_USAGE);
    d.reason = "\xff";
    assert_int_equal(decide(e, &d), BG_ERR_USAGE);
    d.reason = reason + 1;
    assert_int_equal(decide(e, &d), BG_OK);
}

static void unknown_and_unprepared_ids(void **state)
{
    struct env *e = *state;
    e->hold_prepare = true;
    struct bg_request *r = ask_as(e, "print(1)", NULL, WAITER);
    assert_int_equal(bg_request_state(r), BG_RS_PREPARING);
    struct bg_decide d = decision(r, true);
    assert_int_equal(decide(e, &d), BG_ERR_NOT_FOUND);
    d.id = 999;
    assert_int_equal(decide(e, &d), BG_ERR_NOT_FOUND);
    /* A request that ended while it was prepared: the late answer changes nothing. */
    struct bg_error err;
    assert_true(bg_request_cancel(e->q, bg_request_id(r), "", e->asker.uid, &err));
    assert_int_equal(bg_request_state(r), BG_RS_CANCELLED);
    prepare_one(e, r);
    assert_int_equal(bg_request_state(r), BG_RS_CANCELLED);
}

static void a_failed_preparation_says_why(void **state)
{
    struct env *e = *state;
    e->hold_prepare = true;
    struct bg_request *r = ask_as(e, "print(1)", NULL, WAITER);
    struct bg_error err = {0};
    bg_fail(&err, BG_ERR_LANGUAGE, 0, "no python here");
    bg_request_prepared(r, NULL, &err);
    assert_int_equal(bg_request_state(r), BG_RS_FAILED);
    assert_string_equal(bg_request_reason(r), "no python here");
    assert_int_equal(audit_lines(e, "\"state\":\"failed\"", NULL), 1);
}

/* ---- audit ---- */

static void set_limit(rlim_t n)
{
    struct rlimit rl;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &rl), 0);
    rl.rlim_cur = n;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &rl), 0);
}

static void no_audit_no_run(void **state)
{
    struct env *e = *state;
    signal(SIGXFSZ, SIG_IGN);
    struct bg_request *a = ask(e, "print(1)"), *b = ask(e, "print(2)");
    struct bg_decide yes = decision(a, true), no = decision(b, false);
    struct bg_error err = {0};
    int done_a = 0, done_b = 0;
    audit_lines(e, NULL, NULL);
    set_limit(1);
    assert_true(bg_approvals_decide(e->q, &yes, &e->op, on_done, &done_a, &err));
    wait_flag(e, &done_a);
    assert_int_equal(done_a, BG_ERR_AUDIT);
    assert_int_equal(bg_request_state(a), BG_RS_DENIED);
    assert_non_null(strstr(bg_request_reason(a), "audit"));
    assert_true(bg_approvals_decide(e->q, &no, &e->op, on_done, &done_b, &err));
    wait_flag(e, &done_b);
    assert_int_equal(done_b, BG_ERR_AUDIT);
    assert_int_equal(bg_request_state(b), BG_RS_DENIED);
    /* A new one is denied as soon as its record fails. */
    struct bg_request *c = ask_as(e, "print(3)", NULL, WAITER);
    wait_state(e, c, BG_RS_DENIED);
    set_limit(RLIM_INFINITY);
    struct bg_request *d = ask(e, "print(4)");
    decide_wait(e, d, true);
    assert_int_equal(e->runs, 1);
    assert_int_equal(e->last_run, bg_request_id(d));
}

static void recovery_runs_nothing(void **state)
{
    struct env *e = *state;
    struct bg_audit_open_request o = {.id = 40, .decided = true};
    bg_approvals_recover(e->q, &o);
    o = (struct bg_audit_open_request){.id = 41, .decided = true, .claimed = true};
    strcpy(o.sha256, "abcd");
    bg_approvals_recover(e->q, &o);
    bg_autofree char *text = NULL;
    assert_int_equal(audit_lines(e, "request.finished", &text), 2);
    assert_non_null(strstr(text, "\"id\":40,\"state\":\"lost\""));
    assert_non_null(
        strstr(text, "\"id\":41,\"sha256\":\"abcd\",\"state\":\"interrupted\""));
    assert_int_equal(e->runs, 0);
}

static void stopping_cancels_what_waits(void **state)
{
    struct env *e = *state;
    ask(e, "print(1)");
    struct bg_request *b = ask(e, "print(2)");
    ask_as(e, "print(2)", NULL, 8); /* joins */
    decide_wait(e, ask(e, "print(3)"), true);
    struct bg_decide d = decision(b, true);
    assert_int_equal(decide(e, &d), BG_OK); /* on its way to the disk */
    bg_approvals_free(e->q);
    e->q = NULL;
    assert_int_equal(e->finals, 3);
    assert_int_equal(e->runs, 1);
    assert_int_equal(audit_lines(e, "the server stopped", NULL), 3);
    assert_int_equal(e->runs, 1);
}

/* ---- caps and memory ---- */

static void caps_hold_per_connection_uid_and_in_all(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    bool existing;
    uint64_t waiter = 100;
    uint32_t uid = e->asker.uid;
    int n = 0;
    for (int i = 0; i < BG_PENDING_PER_CONN; i++, n++) {
        bg_autofree char *code = bg_xasprintf("print(%d)", n);
        ask_as(e, code, NULL, waiter);
    }
    assert_null(bg_approvals_submit(e->q, code_body("one more", NULL), &e->asker, waiter,
                                    false, &existing, &err));
    assert_int_equal(err.code, BG_ERR_LIMIT);
    for (; n < BG_PENDING_PER_UID; n++) {
        bg_autofree char *code = bg_xasprintf("print(%d)", n);
        ask_as(e, code, NULL, ++waiter);
    }
    assert_null(bg_approvals_submit(e->q, code_body("one more", NULL), &e->asker, ++waiter,
                                    false, &existing, &err));
    assert_int_equal(err.code, BG_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "uid"));
    for (; n < BG_PENDING_MAX; n++) {
        bg_autofree char *code = bg_xasprintf("print(%d)", n);
        e->asker.uid = uid + (uint32_t)n;
        ask_as(e, code, NULL, ++waiter);
    }
    e->asker.uid = uid + 5000;
    assert_null(bg_approvals_submit(e->q, code_body("one more", NULL), &e->asker, ++waiter,
                                    false, &existing, &err));
    assert_int_equal(err.code, BG_ERR_LIMIT);
    assert_int_equal(bg_approvals_pending(e->q), BG_PENDING_MAX);
}

static void what_is_final_is_bounded(void **state)
{
    struct env *e = *state;
    bg_autofree char *big = bg_xmalloc(1 << 20);
    memset(big, 'x', (1 << 20) - 1);
    big[(1 << 20) - 1] = 0;
    for (int i = 0; i < BG_FINAL_KEPT + 20; i++) {
        bg_autofree char *code = bg_xasprintf("print(%d)", i);
        struct bg_request *r = ask(e, code);
        decide_wait(e, r, true);
        cJSON *res = bg_jo();
        bg_jset_str(res, "stdout", i < 20 ? big : "");
        bg_request_finished(r, BG_RS_DONE, NULL, res, NULL);
    }
    settle(e);
    size_t kept = 0, bytes = 0;
    for (struct bg_request *r = NULL; (r = bg_approvals_next(e->q, r)); kept++) {
        const cJSON *out = cJSON_GetObjectItemCaseSensitive(bg_request_result(r), "stdout");
        bytes += out ? strlen(out->valuestring) : 0;
    }
    assert_int_equal(kept, BG_FINAL_KEPT);
    assert_true(bytes <= BG_RESULTS_KEPT_BYTES);
    assert_null(bg_approvals_get(e->q, 1));
}

static void a_final_one_goes_after_detach_ms(void **state)
{
    struct env *e = *state;
    e->c->detach_ms = 60;
    struct bg_request *r = ask(e, "print(1)");
    uint64_t id = bg_request_id(r);
    decide_wait(e, r, false);
    assert_non_null(bg_approvals_get(e->q, id));
    for (int64_t end = bg_mono_ms() + 5000; bg_approvals_get(e->q, id);) {
        assert_true(bg_mono_ms() < end);
        bg_loop_turn(e->loop, 20);
    }
}

static void json_has_every_member_of_the_schema(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(1)\nprint(2)\n");
    bg_autojson cJSON *j = bg_request_json(r, true);
    static const char *const members[] = {
        "id",          "rev",   "sha256",   "kind",        "session",        "profile",
        "language",    "state", "attached", "seen",        "waiting",        "high",
        "hazards",     "lines", "bytes",    "firstLine",   "purpose",        "client",
        "uid",         "pid",   "exe",      "requestedAt", "expiresAt",      "timeoutMs",
        "leftMs",      "bound", "notes",    "spec",        "specSha256",     "instance",
        "argv",        "cwd",   "policy",   "earlierRuns", "changedOutside", "notEnforced",
        "deniedBefore"};
    for (size_t i = 0; i < bg_countof(members); i++)
        if (!cJSON_HasObjectItem(j, members[i]))
            fail_msg("no %s", members[i]);
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(j, "lines")->valueint, 2);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(j, "firstLine")->valuestring,
                        "print(1)");
    /* The client can hash what it shows. */
    struct bg_hasher *h = bg_hasher_new();
    bg_hasher_add(h, "boxgate-req-v1", sizeof "boxgate-req-v1");
    const cJSON *f;
    cJSON_ArrayForEach(f, cJSON_GetObjectItemCaseSensitive(j, "bound"))
    {
        bg_autobuf struct bg_buf b;
        struct bg_error err;
        const char *text = cJSON_GetObjectItemCaseSensitive(f, "base64")->valuestring;
        bg_buf_init(&b, 1 << 20);
        assert_true(bg_base64_decode(bg_str_from(text), &b, &err));
        bg_hasher_field(h, cJSON_GetObjectItemCaseSensitive(f, "name")->valuestring, b.data,
                        b.len);
    }
    struct bg_sha256 d = bg_hasher_end(h);
    char hex[BG_SHA256_HEX + 1];
    bg_sha256_hex(&d, hex);
    assert_string_equal(hex, bg_request_sha256(r));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, env_setup, env_teardown)
    const struct CMUnitTest tests[] = {
        T(approved_runs_once_after_the_record),
        T(denied_never_runs_and_carries_the_reason),
        T(a_wrong_or_short_hash_decides_nothing),
        T(a_second_decision_is_told_who_was_first),
        T(two_deciders_1000_rounds_one_winner),
        T(a_hazard_must_be_named),
        T(only_the_scope_once),
        T(headless_and_pin_close_what_they_say),
        T(a_reason_has_a_cap),
        T(unknown_and_unprepared_ids),
        T(a_failed_preparation_says_why),
        T(no_audit_no_run),
        T(recovery_runs_nothing),
        T(stopping_cancels_what_waits),
        T(caps_hold_per_connection_uid_and_in_all),
        T(what_is_final_is_bounded),
        T(a_final_one_goes_after_detach_ms),
        T(json_has_every_member_of_the_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Who waits and who is there: detach and claim, merging, call ids, deny memory, the clocks,
 * and what a policy decides by itself.
 */
#include "tests/unit/approval/lib_approval.h"

static struct bg_request *attach(struct env *e, struct bg_request *r, uint64_t waiter)
{
    struct bg_request *out = NULL;
    struct bg_error err = {0};
    if (!bg_request_attach(e->q, bg_request_id(r), bg_request_sha256(r), e->asker.uid,
                           waiter, &out, &err))
        fail_msg("%s", err.msg);
    return out;
}

static int waiting(const struct bg_request *r)
{
    bg_autojson cJSON *j = bg_request_json(r, false);
    return cJSON_GetObjectItemCaseSensitive(j, "waiting")->valueint;
}

/* ---- detach and claim ---- */

static void decided_after_the_requester_left_waits_for_its_claim(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(1)");
    bg_approvals_waiter_gone(e->q, WAITER);
    assert_false(bg_request_attached(r));
    assert_int_equal(bg_request_state(r), BG_RS_PENDING);
    decide_wait(e, r, true);
    assert_int_equal(bg_request_state(r), BG_RS_APPROVED);
    assert_int_equal(audit_lines(e, "request.claimed", NULL), 0);
    assert_int_equal(e->runs, 0);
    assert_ptr_equal(attach(e, r, 9), r);
    assert_int_equal(e->runs, 0); /* the claim is not on disk yet */
    wait_state(e, r, BG_RS_RUNNING);
    assert_int_equal(audit_lines(e, "request.claimed", NULL), 1);
    assert_int_equal(e->runs, 1);
    attach(e, r, 10); /* a second claim runs nothing */
    audit_lines(e, NULL, NULL);
    assert_int_equal(e->runs, 1);
}

static void left_during_the_commit_does_not_run(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(1)");
    struct bg_decide d = decision(r, true);
    assert_int_equal(decide(e, &d), BG_OK);
    bg_approvals_waiter_gone(e->q, WAITER);
    audit_lines(e, NULL, NULL);
    assert_int_equal(bg_request_state(r), BG_RS_APPROVED);
    assert_int_equal(e->runs, 0);
    attach(e, r, 9);
    wait_state(e, r, BG_RS_RUNNING);
    assert_int_equal(e->runs, 1);
}

static void back_before_the_decision_is_durable(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(1)");
    bg_approvals_waiter_gone(e->q, WAITER);
    struct bg_decide d = decision(r, true);
    assert_int_equal(decide(e, &d), BG_OK);
    attach(e, r, 9);
    wait_state(e, r, BG_RS_RUNNING);
    assert_int_equal(audit_lines(e, "request.claimed", NULL), 1);
    assert_int_equal(e->runs, 1);
}

static void only_the_same_principal_with_the_same_hash_claims(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(1)"), *out = NULL;
    struct bg_error err = {0};
    uint64_t id = bg_request_id(r);
    char sha[BG_SHA256_HEX + 1];
    snprintf(sha, sizeof sha, "%s", bg_request_sha256(r));
    bg_approvals_waiter_gone(e->q, WAITER);
    decide_wait(e, r, true);
    assert_false(bg_request_attach(e->q, id, sha, e->asker.uid + 1, 9, &out, &err));
    assert_int_equal(err.code, BG_ERR_FORBIDDEN);
    assert_false(bg_request_cancel(e->q, id, sha, e->asker.uid + 1, &err));
    assert_int_equal(err.code, BG_ERR_FORBIDDEN);
    sha[63] ^= 1;
    assert_false(bg_request_attach(e->q, id, sha, e->asker.uid, 9, &out, &err));
    assert_int_equal(err.code, BG_ERR_HASH_MISMATCH);
    sha[20] = 0; /* a prefix is for operators only */
    assert_false(bg_request_attach(e->q, id, sha, e->asker.uid, 9, &out, &err));
    assert_int_equal(err.code, BG_ERR_HASH_MISMATCH);
    assert_false(bg_request_attach(e->q, 999, sha, e->asker.uid, 9, &out, &err));
    assert_int_equal(err.code, BG_ERR_NOT_FOUND);
    audit_lines(e, NULL, NULL);
    assert_int_equal(e->runs, 0);
}

static void unclaimed_it_lapses(void **state)
{
    struct env *e = *state;
    e->c->detach_ms = 80;
    struct bg_request *pending = ask(e, "print(1)");
    struct bg_request *approved = ask_as(e, "print(2)", NULL, 8);
    decide_wait(e, ask_as(e, "print(3)", NULL, 9), false);
    bg_approvals_waiter_gone(e->q, WAITER);
    bg_approvals_waiter_gone(e->q, 8);
    decide_wait(e, approved, true);
    wait_state(e, pending, BG_RS_EXPIRED);
    wait_state(e, approved, BG_RS_EXPIRED);
    assert_non_null(strstr(bg_request_reason(approved), "the approval was not used"));
    struct bg_decide d = decision(approved, true);
    assert_int_equal(decide(e, &d), BG_ERR_EXPIRED);
    assert_int_equal(e->runs, 0);
}

static void a_result_waits_for_who_comes_back(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print(1)");
    decide_wait(e, r, true);
    bg_approvals_waiter_gone(e->q, WAITER);
    finish(r);
    const cJSON *res = bg_request_result(attach(e, r, 9));
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(res, "stdout")->valuestring,
                        "45\n");
}

static void cancel_ends_it_wherever_it_is(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    struct bg_request *pending = ask(e, "print(1)"), *committing = ask(e, "print(2)");
    struct bg_request *running = ask(e, "print(3)");
    decide_wait(e, running, true);
    struct bg_decide d = decision(committing, true);
    assert_int_equal(decide(e, &d), BG_OK);
    struct bg_request *const all[] = {pending, committing, running};
    for (size_t i = 0; i < bg_countof(all); i++)
        for (int twice = 0; twice < 2; twice++) /* the second changes nothing */
            assert_true(bg_request_cancel(e->q, bg_request_id(all[i]),
                                          bg_request_sha256(all[i]), e->asker.uid, &err));
    audit_lines(e, NULL, NULL);
    assert_int_equal(bg_request_state(pending), BG_RS_CANCELLED);
    assert_int_equal(bg_request_state(committing), BG_RS_CANCELLED);
    assert_int_equal(bg_request_state(running), BG_RS_KILLED);
    assert_int_equal(e->runs, 1);
    assert_int_equal(e->kills, 1);
    assert_int_equal(e->finals, 3);
}

/* ---- call ids and merging ---- */

static void the_same_call_id_attaches_or_conflicts(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    bool existing = false;
    struct bg_request *r = ask_as(e, "print(1)", "toolu_1", WAITER);
    bg_approvals_waiter_gone(e->q, WAITER);
    e->instance =
        "ffffffffffffffffffffffffffffffff"; /* a session of its own would be new */
    assert_ptr_equal(bg_approvals_submit(e->q, code_body("print(1)", "toolu_1"), &e->asker,
                                         8, false, &existing, &err),
                     r);
    assert_true(existing);
    assert_true(bg_request_attached(r));
    assert_int_equal(e->prepares, 1);
    assert_null(bg_approvals_submit(e->q, code_body("print(1) ", "toolu_1"), &e->asker, 8,
                                    false, &existing, &err));
    assert_int_equal(err.code, BG_ERR_CONFLICT);
    e->asker.uid++; /* call ids are the principal's */
    struct bg_request *other = bg_approvals_submit(e->q, code_body("print(1)", "toolu_1"),
                                                   &e->asker, 9, false, &existing, &err);
    assert_non_null(other);
    assert_ptr_not_equal(other, r);
    assert_false(existing);
}

static void a_call_id_finds_its_result_again(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    bool existing = false;
    struct bg_request *r = ask_as(e, "print(1)", "toolu_1", WAITER);
    decide_wait(e, r, true);
    bg_approvals_waiter_gone(e->q, WAITER);
    finish(r);
    assert_ptr_equal(bg_approvals_submit(e->q, code_body("print(1)", "toolu_1"), &e->asker,
                                         8, false, &existing, &err),
                     r);
    assert_int_equal(bg_request_state(r), BG_RS_DONE);
    assert_int_equal(e->runs, 1);
}

static void identical_pending_requests_are_one_question_and_one_run(void **state)
{
    struct env *e = *state;
    struct bg_request *a = ask(e, "print(1)"), *b = ask_as(e, "print(1)", NULL, 8);
    struct bg_request *c = ask_as(e, "print(1)", NULL, 9), *other = ask(e, "print(1) ");
    assert_int_equal(waiting(a), 3);
    assert_int_equal(bg_approvals_pending(e->q), 2);
    assert_ptr_equal(bg_approvals_next(e->q, a), other); /* followers are no rows */
    assert_ptr_equal(bg_approvals_get(e->q, bg_request_id(b)), b);
    bg_approvals_waiter_gone(e->q, WAITER);
    bg_approvals_waiter_gone(e->q, 9);
    assert_int_equal(waiting(a), 1);
    assert_true(bg_request_attached(a)); /* b still waits */
    decide_wait(e, a, true);
    assert_int_equal(e->runs, 1);
    assert_int_equal(bg_request_state(b), BG_RS_RUNNING);
    finish(a);
    struct bg_request *const all[] = {a, b, c};
    for (size_t i = 0; i < bg_countof(all); i++) {
        assert_int_equal(bg_request_state(all[i]), BG_RS_DONE);
        const cJSON *out =
            cJSON_GetObjectItemCaseSensitive(bg_request_result(all[i]), "stdout");
        assert_string_equal(out->valuestring, "45\n");
    }
    assert_int_equal(e->finals, 3);
    assert_int_equal(audit_lines(e, "\"state\":\"done\"", NULL), 3);
    /* Final results are not for new calls. */
    struct bg_request *d = ask_as(e, "print(1)", NULL, 8);
    assert_int_equal(bg_request_state(d), BG_RS_PENDING);
}

static void another_session_or_pipes_of_its_own_do_not_merge(void **state)
{
    struct env *e = *state;
    ask(e, "print(1)");
    e->instance = "ffffffffffffffffffffffffffffffff";
    ask_as(e, "print(1)", NULL, 8);
    assert_int_equal(bg_approvals_pending(e->q), 2);
    e->instance = NULL;
    e->may_merge = false;
    ask_as(e, "print(1)", NULL, 9);
    assert_int_equal(bg_approvals_pending(e->q), 3);
}

static void when_the_first_is_cancelled_the_next_is_asked_about(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    struct bg_request *a = ask(e, "print(1)"), *b = ask_as(e, "print(1)", NULL, 8);
    struct bg_request *c = ask_as(e, "print(1)", NULL, 9);
    const char *sha = bg_request_sha256(a);
    assert_true(bg_request_cancel(e->q, bg_request_id(a), sha, e->asker.uid, &err));
    assert_int_equal(bg_request_state(b), BG_RS_PENDING);
    assert_ptr_equal(bg_approvals_next(e->q, a), b);
    assert_int_equal(waiting(b), 2);
    assert_true(bg_request_cancel(e->q, bg_request_id(c), sha, e->asker.uid, &err));
    assert_int_equal(waiting(b), 1);
    decide_wait(e, b, true);
    assert_int_equal(e->last_run, bg_request_id(b));
    assert_int_equal(e->runs, 1);
}

static void a_retry_claims_what_was_approved_meanwhile(void **state)
{
    struct env *e = *state;
    struct bg_request *a = ask(e, "print(1)");
    bg_approvals_waiter_gone(e->q, WAITER);
    decide_wait(e, a, true);
    struct bg_request *b = ask_as(e, "print(1)", NULL, 8);
    wait_state(e, a, BG_RS_RUNNING);
    assert_int_equal(e->runs, 1);
    finish(a);
    assert_int_equal(bg_request_state(b), BG_RS_DONE);
}

static void a_decision_for_a_follower_is_one_for_its_lead(void **state)
{
    struct env *e = *state;
    struct bg_request *a = ask(e, "print(1)"), *b = ask_as(e, "print(1)", NULL, 8);
    struct bg_decide d = decision(b, false);
    assert_int_equal(decide(e, &d), BG_OK);
    assert_int_equal(bg_request_state(a), BG_RS_DENIED);
    assert_int_equal(bg_request_state(b), BG_RS_DENIED);
    d = decision(a, true);
    assert_int_equal(decide(e, &d), BG_ERR_ALREADY_DECIDED);
}

/* ---- deny memory ---- */

static void denied_bytes_are_denied_again_until_forgotten(void **state)
{
    struct env *e = *state;
    decide_wait(e, ask(e, "print(1)"), false);
    e->instance = "ffffffffffffffffffffffffffffffff"; /* another session changes nothing */
    for (int i = 1; i <= 3; i++) {
        struct bg_request *r = ask_as(e, "print(1)", NULL, WAITER);
        assert_int_equal(bg_request_state(r), BG_RS_DENIED);
        bg_autofree char *count = bg_xasprintf("denied before (%d times)", i);
        assert_non_null(strstr(bg_request_reason(r), count));
    }
    assert_int_equal(audit_lines(e, "\"by\":\"memory\"", NULL), 3);
    assert_int_equal(bg_request_state(ask(e, "print(1) ")), BG_RS_PENDING);
    e->asker.uid++; /* another principal is asked about */
    assert_int_equal(bg_request_state(ask_as(e, "print(1)", NULL, WAITER)), BG_RS_PENDING);
    e->asker.uid--;
    assert_int_equal(bg_approvals_forget_deny(e->q, e->asker.uid + 1), 0);
    assert_int_equal(bg_approvals_forget_deny(e->q, e->asker.uid), 1);
    assert_int_equal(bg_request_state(ask_as(e, "print(1)", NULL, WAITER)), BG_RS_PENDING);
    assert_int_equal(audit_lines(e, "deny.forgotten", NULL), 2);
}

static void deny_memory_ends_but_is_counted(void **state)
{
    struct env *e = *state;
    e->c->deny_memory_ms = 1;
    decide_wait(e, ask(e, "print(1)"), false);
    int64_t end = bg_mono_ms() + 3;
    while (bg_mono_ms() < end)
        bg_loop_turn(e->loop, 1);
    struct bg_request *r = ask(e, "print(1)");
    bg_autojson cJSON *j = bg_request_json(r, true);
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(j, "deniedBefore")->valueint, 1);
}

static void deny_memory_is_bounded(void **state)
{
    (void)state;
    struct bg_deny_memory m = {0};
    struct bg_sha256 first = bg_sha256("0", 1), h = first;
    for (int i = 0; i <= BG_DENY_ENTRIES; i++) {
        h = bg_sha256(&i, sizeof i);
        bg_deny_add(&m, i ? &h : &first, 1, 1000);
    }
    assert_int_equal(m.n, BG_DENY_ENTRIES);
    assert_false(bg_deny_hit(&m, &first, 0));
    assert_true(bg_deny_hit(&m, &h, 0));
    assert_false(bg_deny_hit(&m, &h, 1000));
    bg_deny_free(&m);
}

/* ---- clocks ---- */

static void c089_nobody_decides_in_time(void **state)
{
    struct env *e = *state;
    e->c->pending_ms = 60;
    bg_approvals_operators(e->q, 1);
    struct bg_request *r = ask(e, "print(1)");
    wait_state(e, r, BG_RS_EXPIRED);
    struct bg_decide d = decision(r, true);
    assert_int_equal(decide(e, &d), BG_ERR_EXPIRED); /* late */
    audit_lines(e, NULL, NULL);
    assert_int_equal(e->runs, 0);
    assert_int_equal(e->finals, 1);
    assert_int_equal(audit_lines(e, "\"state\":\"expired\"", NULL), 1);
}

/* The clock decides, not when its timer gets a turn. */
static void a_decision_past_the_time_is_too_late(void **state)
{
    struct env *e = *state;
    e->c->pending_ms = 20;
    struct bg_request *r = ask(e, "print(1)");
    struct bg_decide d = decision(r, true);
    usleep(30000);
    assert_int_equal(decide(e, &d), BG_ERR_EXPIRED);
    assert_int_equal(bg_request_state(r), BG_RS_EXPIRED);
}

static void extended_it_lives_longer(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    e->c->pending_ms = 50;
    struct bg_request *r = ask(e, "print(1)");
    int64_t begin = bg_mono_ms();
    assert_true(bg_approvals_extend(e->q, bg_request_id(r), bg_request_rev(r), 150, &err));
    assert_false(bg_approvals_extend(e->q, bg_request_id(r), 5, 150, &err));
    assert_int_equal(err.code, BG_ERR_HASH_MISMATCH);
    assert_false(bg_approvals_extend(e->q, bg_request_id(r), 0, BG_WAIT_MAX_MS, &err));
    assert_int_equal(err.code, BG_ERR_USAGE);
    assert_false(bg_approvals_extend(e->q, bg_request_id(r), 0, -5, &err));
    wait_state(e, r, BG_RS_EXPIRED);
    assert_true(bg_mono_ms() - begin >= 190);
    assert_false(bg_approvals_extend(e->q, bg_request_id(r), 0, 50, &err));
    assert_int_equal(err.code, BG_ERR_EXPIRED);
}

static void c089_nobody_is_there(void **state)
{
    struct env *e = *state;
    e->c->no_console_ms = 80;
    int64_t begin = bg_mono_ms();
    struct bg_request *r = ask(e, "print(1)");
    wait_state(e, r, BG_RS_DENIED);
    assert_true(bg_mono_ms() - begin >= 79);
    assert_int_equal(audit_lines(e, "\"by\":\"nobody\"", NULL), 1);
    /* With somebody there nothing ends; after they left it is counted from then. */
    bg_approvals_operators(e->q, 2);
    r = ask(e, "print(2)");
    for (int64_t end = bg_mono_ms() + 200; bg_mono_ms() < end;)
        bg_loop_turn(e->loop, 20);
    assert_int_equal(bg_request_state(r), BG_RS_PENDING);
    bg_approvals_operators(e->q, 1);
    bg_approvals_operators(e->q, 0);
    begin = bg_mono_ms();
    wait_state(e, r, BG_RS_DENIED);
    assert_true(bg_mono_ms() - begin >= 79);
}

static void no_wait_is_denied_at_once_when_nobody_is_there(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    bool existing;
    struct bg_request *r = bg_approvals_submit(e->q, code_body("print(1)", NULL), &e->asker,
                                               WAITER, true, &existing, &err);
    settle(e);
    assert_int_equal(bg_request_state(r), BG_RS_DENIED);
    bg_approvals_operators(e->q, 1);
    r = bg_approvals_submit(e->q, code_body("print(1)", NULL), &e->asker, WAITER, true,
                            &existing, &err);
    settle(e);
    assert_int_equal(bg_request_state(r), BG_RS_PENDING);
    bg_approvals_operators(e->q, 0);
    wait_state(e, r, BG_RS_DENIED);
}

/* ---- policy ---- */

static struct bg_policy *policy(const char *rules)
{
    struct bg_error err = {0};
    bg_autofree char *text = bg_xasprintf("version: 1\nrules:\n%s", rules);
    struct bg_policy *p = bg_policy_parse("policy.yaml", text, strlen(text), &err);
    if (!p)
        fail_msg("%s", err.msg);
    return p;
}

#define ALLOW                                                                             \
    "  - id: lab\n    decision: allow\n    kinds: [run_code]\n    languages: [python]\n"  \
    "    uses: 2\n"                                                                       \
    "    sandbox: {provider: local, imageId: [host], network: none, mounts: none, caps: " \
    "none,"                                                                               \
    " noNewPrivileges: true}\n"

static void a_rule_approves_durably_as_often_as_it_says(void **state)
{
    struct env *e = *state;
    struct bg_policy *p = policy(ALLOW);
    bg_approvals_set_policy(e->q, p);
    for (int i = 0; i < 2; i++) {
        bg_autofree char *code = bg_xasprintf("print(%d)", i);
        struct bg_request *r = ask_as(e, code, NULL, WAITER);
        wait_state(e, r, BG_RS_RUNNING);
        finish(r);
    }
    assert_int_equal(bg_request_state(ask_as(e, "print(9)", NULL, WAITER)), BG_RS_PENDING);
    bg_autofree char *text = NULL;
    assert_int_equal(audit_lines(e, "\"by\":\"policy\"", &text), 2);
    assert_non_null(strstr(text, "\"rule\":\"lab\""));
    assert_int_equal(audit_lines(e, "request.claimed", NULL), 2);
    /* The count outlives a reload. */
    struct bg_policy *again = policy(ALLOW);
    bg_approvals_set_policy(e->q, again);
    assert_int_equal(bg_request_state(ask_as(e, "print(8)", NULL, 8)), BG_RS_PENDING);
    bg_approvals_set_policy(e->q, NULL);
    bg_policy_free(p);
    bg_policy_free(again);
}

static void a_hazard_makes_the_rule_ask(void **state)
{
    struct env *e = *state;
    struct bg_policy *p = policy(ALLOW);
    bg_approvals_set_policy(e->q, p);
    struct bg_request *r = ask(e, "x = '\xe2\x80\xae'");
    bg_autojson cJSON *j = bg_request_json(r, true);
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, "policy");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(v, "downgraded")));
    bg_approvals_set_policy(e->q, NULL);
    bg_policy_free(p);
}

static void c088_a_new_deny_reaches_what_waits(void **state)
{
    struct env *e = *state;
    struct bg_request *r = ask(e, "print('id_rsa')"), *ok = ask(e, "print(1)");
    struct bg_policy *p = policy("  - {id: words, decision: deny, codeContains: [id_rsa], "
                                 "message: \"no keys\"}\n");
    bg_approvals_set_policy(e->q, p);
    assert_int_equal(bg_request_state(r), BG_RS_DENIED);
    assert_string_equal(bg_request_reason(r), "no keys");
    assert_int_equal(bg_request_state(ok), BG_RS_PENDING);
    r = ask_as(e, "open('id_rsa')", NULL, WAITER);
    assert_int_equal(bg_request_state(r), BG_RS_DENIED);
    assert_int_equal(audit_lines(e, "\"by\":\"policy\"", NULL), 2);
    bg_approvals_set_policy(e->q, NULL);
    bg_policy_free(p);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, env_setup, env_teardown)
    const struct CMUnitTest tests[] = {
        T(decided_after_the_requester_left_waits_for_its_claim),
        T(left_during_the_commit_does_not_run),
        T(back_before_the_decision_is_durable),
        T(only_the_same_principal_with_the_same_hash_claims),
        T(unclaimed_it_lapses),
        T(a_result_waits_for_who_comes_back),
        T(cancel_ends_it_wherever_it_is),
        T(the_same_call_id_attaches_or_conflicts),
        T(a_call_id_finds_its_result_again),
        T(identical_pending_requests_are_one_question_and_one_run),
        T(another_session_or_pipes_of_its_own_do_not_merge),
        T(when_the_first_is_cancelled_the_next_is_asked_about),
        T(a_retry_claims_what_was_approved_meanwhile),
        T(a_decision_for_a_follower_is_one_for_its_lead),
        T(denied_bytes_are_denied_again_until_forgotten),
        T(deny_memory_ends_but_is_counted),
        T(deny_memory_is_bounded),
        T(c089_nobody_decides_in_time),
        T(a_decision_past_the_time_is_too_late),
        T(extended_it_lives_longer),
        T(c089_nobody_is_there),
        T(no_wait_is_denied_at_once_when_nobody_is_there),
        T(a_rule_approves_durably_as_often_as_it_says),
        T(a_hazard_makes_the_rule_ask),
        T(c088_a_new_deny_reaches_what_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* What a guest must not send, what a new link means for live commands, counters. */
#include "core/base/values.h"
#include "tests/test.h"
#include "tests/unit/guest/linked.h"

/* ---- malformed ---- */

/* A frame of a live command: type, flags, length, and what else is wrong with it. */
struct bad {
    const char *what;
    int type, flags;
    uint32_t len;
    int id_off, epoch_off;
    int exit_before, fill_before; /* send EXIT, or use up the credit, first */
    uint32_t word[3];             /* how its payload begins */
};

static void send_bad(const struct bad *b, uint32_t id)
{
    static unsigned char p[GP_FRAME_MAX];
    memset(p, 0, sizeof p);
    if (b->exit_before)
        fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
    for (int i = 0; i < b->fill_before; i++)
        fake_send(&f, GP_STDOUT, id, p, sizeof p);
    memcpy(p, b->word, sizeof b->word);
    fake_head(&f,
              (struct gp_head){.len = b->len,
                               .id = id + (uint32_t)b->id_off,
                               .type = (uint16_t)b->type,
                               .flags = (uint16_t)b->flags,
                               .epoch = f.epoch + (uint32_t)b->epoch_off},
              b->len <= sizeof p ? p : NULL);
}

static void each_malformed_frame_closes_the_link(void **state)
{
    static const struct bad bad[] = {
        {"garbage", 0xdead, .flags = 0xbeef, .len = 0xffffffff},
        {"unknown type", 40, .flags = 0},
        {"a type of the server's", GP_KILL, .len = 4},
        {"oversized", GP_STDOUT, .len = GP_FRAME_MAX + 1},
        {"short", GP_STDIN_CREDIT, .len = 3},
        {"long", GP_STARTED, .len = 5},
        {"epoch of before", GP_STDOUT, .len = 5, .epoch_off = -1},
        {"flags", GP_STDOUT, .flags = GP_F_EOF, .len = 5},
        {"empty output", GP_STDOUT, .flags = 0},
        {"second hello", GP_HELLO, .len = sizeof(struct gp_hello)},
        {"second start", GP_STARTED, .len = sizeof(struct gp_started)},
        {"unknown id", GP_STDOUT, .len = 5, .id_off = 1},
        {"output after exit", GP_STDOUT, .len = 5, .exit_before = 1},
        {"second exit", GP_EXIT, .len = sizeof(struct gp_exit), .exit_before = 1},
        {"beyond its credit", GP_STDOUT, .len = 1, .fill_before = 4},
        {"exit: reason", GP_EXIT, .len = sizeof(struct gp_exit), .word = {0, 0, 17}},
        {"exit: signal", GP_EXIT, .len = sizeof(struct gp_exit), .word = {0, 1000}},
        {"exit: code", GP_EXIT, .len = sizeof(struct gp_exit), .word = {256}},
        {"unasked state", GP_STATE, .len = sizeof(struct gp_state)},
        {"late error", GP_ERROR, .len = sizeof(struct gp_error)},
        {"gap of no stream", GP_GAP, .len = 16, .word = {3}},
        {"pong with an id", GP_PONG, .flags = 0},
    };
    for (size_t i = 0; i < bg_countof(bad); i++) {
        uint32_t id = run_live(SPEC(.flow = BG_FLOW_LOSSLESS));
        UNTIL(t.started);
        send_bad(&bad[i], id);
        for (int64_t end = bg_mono_ms() + 1000; !news.down && bg_mono_ms() < end;)
            bg_loop_turn(loop, 20);
        if (!news.down)
            fail_msg("let pass: %s", bad[i].what);
        assert_int_equal(t.done, bad[i].exit_before); /* no end is made up */
        assert_int_equal(news.lost, 0);
        assert_true(t.bytes[0] <= GP_CREDIT);
        teardown(state);
        assert_int_equal(setup(state), 0); /* a new channel, without the strike */
    }
}

static void output_or_exit_before_started_closes_the_link(void **state)
{
    for (int i = 0; i < 2; i++) {
        uint32_t id = run(SPEC(.uid = 1));
        if (i)
            fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
        else
            fake_send(&f, GP_STDOUT, id, "x", 1);
        UNTIL(news.down);
        assert_int_equal(t.done, 0);
        assert_int_equal(t.bytes[0], 0);
        teardown(state);
        assert_int_equal(setup(state), 0);
    }
}

static void the_third_malformed_frame_loses_the_session(void **state BG_UNUSED)
{
    static const struct bad bad = {"unknown type", 40, .flags = 0};
    run_live(SPEC(.uid = 1));
    for (int i = 1; i <= 3; i++) {
        send_bad(&bad, 1);
        UNTIL(i < 3 ? news.down == i : news.lost == 1);
        close(f.fd);
        f.fd = -1;
        if (i < 3) {
            assert_int_equal(news.lost, 0);
            fake_link(&f);
        }
    }
    assert_int_equal(news.down, 2);
    assert_int_equal(news.err.code, BG_ERR_PROTOCOL);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(t.done, 0);
    bg_channel_fail(ch, &news.err);
    UNTIL(t.done);
}

static void late_answers_are_no_fault(void **state BG_UNUSED)
{
    uint32_t n = 1, none = 0;
    uint32_t id = run_live(SPEC(.uid = 1));
    struct gp_stats s = {0};
    fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
    fake_send(&f, GP_STDIN_CREDIT, id, &n, sizeof n);
    fake_send(&f, GP_KILLED, id, &none, sizeof none);
    fake_send(&f, GP_STATS, 12345, &s, sizeof s);
    fake_send(&f, GP_PONG, 0, NULL, 0);
    fake_expect(&f, GP_FORGET);
    id = run_live(SPEC(.uid = 1));
    fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
    UNTIL(t.done);
    assert_int_equal(news.down, 0);
}

/* ---- a new link ---- */

static void relink(void)
{
    int before = news.down;
    close(f.fd);
    UNTIL(news.down == before + 1);
    fake_link(&f);
}

static void answer_state(uint32_t id, enum gp_state_kind kind)
{
    struct gp_state s = {.kind = kind, .exit = {.code = 4, .duration_ms = 9}};
    fake_expect(&f, GP_QUERY);
    assert_int_equal(f.h.id, id);
    fake_send(&f, GP_STATE, id, &s, sizeof s);
}

static void live_goes_on(void **state BG_UNUSED)
{
    uint32_t id = run_live(SPEC(.uid = 1));
    UNTIL(t.started);
    relink();
    answer_state(id, GP_STATE_LIVE);
    struct {
        uint8_t stream, pad[7];
        uint64_t bytes;
    } gap = {.stream = BG_STDOUT, .bytes = 77};
    fake_send(&f, GP_GAP, id, &gap, sizeof gap);
    fake_send(&f, GP_STDOUT, id, "more", 4);
    fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
    UNTIL(t.done);
    assert_int_equal(t.started, 1);
    assert_int_equal(t.gaps, 1);
    assert_int_equal(t.gap_bytes, 77);
    assert_string_equal(t.head[0], "more");
    assert_true(t.ok);
}

static void done_finishes_from_the_state(void **state BG_UNUSED)
{
    uint32_t id = run(SPEC(.uid = 1)); /* STARTED went down with the link */
    relink();
    answer_state(id, GP_STATE_DONE);
    fake_expect(&f, GP_FORGET);
    assert_int_equal(t.started, 1);
    assert_int_equal(t.done, 1);
    assert_int_equal(t.result.exit_code, 4);
}

static void ring_and_exit_may_come_before_the_answer(void **state BG_UNUSED)
{
    struct gp_state s = {.kind = GP_STATE_DONE};
    uint32_t id = run(SPEC(.uid = 1)); /* STARTED went down with the link */
    relink();
    fake_send(&f, GP_STDOUT, id, "ring", 4);
    fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
    fake_expect(&f, GP_QUERY);
    fake_send(&f, GP_STATE, id, &s, sizeof s);
    fake_expect(&f, GP_FORGET);
    assert_int_equal(t.done, 1);
    assert_int_equal(t.started, 1);
    assert_string_equal(t.head[0], "ring");
    id = run_live(SPEC(.uid = 1)); /* the late STATE was no fault */
    fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
    UNTIL(t.done);
    assert_int_equal(news.down, 1);
}

/* LIVE and then STARTED: the guest had not come to say it on the old link. */
static void started_may_follow_the_answer_once(void **state BG_UNUSED)
{
    uint32_t id = run(SPEC(.uid = 1));
    relink();
    answer_state(id, GP_STATE_LIVE);
    fake_started(&f, id);
    fake_send(&f, GP_STDOUT, id, "x", 1);
    UNTIL(t.bytes[0]);
    assert_int_equal(t.started, 1);
    fake_started(&f, id);
    UNTIL(news.down == 2);
    assert_int_equal(t.started, 1);
}

static void unknown_may_have_run(void **state BG_UNUSED)
{
    uint32_t id = run_live(SPEC(.uid = 1));
    UNTIL(t.started);
    relink();
    answer_state(id, GP_STATE_UNKNOWN);
    UNTIL(t.done);
    assert_false(t.ok);
    assert_int_equal(t.err.code, BG_ERR_DESTROYED);
    assert_non_null(strstr(t.err.msg, "may have run"));
}

static void a_kill_waits_for_the_answer(void **state BG_UNUSED)
{
    struct bg_exec *x = start(SPEC(.uid = 1), &t);
    uint32_t id = bg_exec_id(x);
    fake_expect(&f, GP_EXEC);
    fake_expect(&f, GP_STDIN);
    fake_started(&f, id);
    UNTIL(t.started);
    close(f.fd);
    UNTIL(news.down);
    bg_exec_kill(x, 100);
    fake_link(&f);
    answer_state(id, GP_STATE_LIVE);
    fake_expect(&f, GP_KILL);
    fake_exit(&f, id, -1, 15, GP_WHY_KILLED);
    UNTIL(t.done);
    assert_true(t.result.killed);
}

/* The guest reads nothing, so a large EXEC can't have gone out whole: it is sent again. */
static void an_unsent_command_comes_again_with_the_next_link(void **state BG_UNUSED)
{
    enum { BIG = 3000000 };
    char *big = bg_xmalloc(BIG + 1);
    memset(big, 'e', BIG);
    big[BIG] = 0;
    uint32_t id = bg_exec_id(
        start(&(struct bg_exec_spec){.argv = STRV("a"), .env = STRV(big), .cwd = "/"}, &t));
    bg_loop_turn(loop, 10);
    relink();
    size_t got = 0;
    do {
        fake_expect(&f, GP_EXEC); /* no QUERY before it */
        assert_int_equal(f.h.id, id);
        got += f.h.len;
    } while (f.h.flags & GP_F_MORE);
    assert_true(got > BIG);
    fake_expect(&f, GP_STDIN);
    fake_started(&f, id);
    fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
    UNTIL(t.done);
    assert_true(t.ok);
    free(big);
}

static void use_up_credit(uint32_t id, uint64_t want)
{
    static const unsigned char zeros[GP_FRAME_MAX];
    for (int i = 0; i < 4; i++)
        fake_send(&f, GP_STDOUT, id, zeros, sizeof zeros);
    UNTIL(t.bytes[0] == want);
}

static void credit_begins_anew_with_a_link(void **state BG_UNUSED)
{
    struct bg_exec *x = start(SPEC(.flow = BG_FLOW_LOSSLESS), &t);
    uint32_t id = bg_exec_id(x), n;
    fake_expect(&f, GP_EXEC);
    fake_expect(&f, GP_STDIN);
    fake_started(&f, id);
    use_up_credit(id, GP_CREDIT);
    relink();
    answer_state(id, GP_STATE_LIVE);
    use_up_credit(id, 2 * GP_CREDIT);
    /* The old link's bytes are no credit on the new one. */
    bg_exec_consumed(x, BG_STDOUT, GP_CREDIT);
    bg_exec_consumed(x, BG_STDOUT, GP_CREDIT / 2);
    fake_expect(&f, GP_CREDIT_OUT);
    memcpy(&n, f.p + 4, sizeof n);
    assert_int_equal(n, GP_CREDIT / 2);
}

/* ---- counters ---- */

struct answer {
    int calls;
    struct bg_guest_stats s;
    enum bg_errc code;
};

static void on_stats(void *data, const struct bg_guest_stats *s, const struct bg_error *err)
{
    struct answer *a = data;
    a->calls++;
    a->code = err ? err->code : BG_OK;
    if (s)
        a->s = *s;
}

static void counters_are_answered_once(void **state BG_UNUSED)
{
    struct answer a = {0}, b = {0};
    struct gp_stats s = {.cpu_us = 5, .mem_bytes = 6, .mem_limit = 7, .processes = 8};
    struct gp_error e = {.err = GP_ERR_OTHER};
    bg_channel_stats(ch, on_stats, &a);
    bg_channel_stats(ch, on_stats, &b);
    fake_expect(&f, GP_GET_STATS);
    fake_send(&f, GP_STATS, f.h.id, &s, sizeof s);
    fake_expect(&f, GP_GET_STATS);
    fake_send(&f, GP_ERROR, f.h.id, &e, sizeof e);
    UNTIL(b.calls);
    assert_int_equal(a.calls, 1);
    assert_int_equal(a.code, BG_OK);
    assert_int_equal(a.s.cpu_us, 5);
    assert_int_equal(a.s.processes, 8);
    assert_int_equal(b.calls, 1);
    assert_int_equal(b.code, BG_ERR_IO);
}

static void counters_without_an_answer_fail(void **state BG_UNUSED)
{
    struct answer a[20] = {{0}}, down = {0}, last = {0};
    for (int i = 0; i < 20; i++)
        bg_channel_stats(ch, on_stats, &a[i]);
    UNTIL(a[19].calls); /* too many at once */
    assert_int_equal(a[19].code, BG_ERR_LIMIT);
    assert_int_equal(a[0].calls, 0);
    UNTIL(a[0].calls); /* a second later */
    assert_int_equal(a[0].code, BG_ERR_TIMEOUT);
    close(f.fd);
    UNTIL(news.down);
    bg_channel_stats(ch, on_stats, &down);
    assert_int_equal(down.calls, 0);
    UNTIL(down.calls);
    assert_int_equal(down.code, BG_ERR_DESTROYED);
    bg_channel_stats(ch, on_stats, &last);
    bg_channel_free(ch);
    ch = NULL;
    assert_int_equal(last.calls, 1);
    for (int i = 0; i < 20; i++)
        assert_int_equal(a[i].calls, 1);
    f.fd = -1;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(each_malformed_frame_closes_the_link),
        T(output_or_exit_before_started_closes_the_link),
        T(the_third_malformed_frame_loses_the_session),
        T(late_answers_are_no_fault),
        T(live_goes_on),
        T(done_finishes_from_the_state),
        T(ring_and_exit_may_come_before_the_answer),
        T(started_may_follow_the_answer_once),
        T(unknown_may_have_run),
        T(a_kill_waits_for_the_answer),
        T(an_unsent_command_comes_again_with_the_next_link),
        T(credit_begins_anew_with_a_link),
        T(counters_are_answered_once),
        T(counters_without_an_answer_fail),
    };
    return cmocka_run_group_tests_name("relink", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Commands over the link: frames, credit, kill, results, deadlines, the end. */
#include "core/base/values.h"
#include "tests/test.h"
#include "tests/unit/guest/linked.h"

/* ---- one command ---- */

static void a_command_from_start_to_done(void **state BG_UNUSED)
{
    static const char blob[] = "\4\0\0\0prog\3\0\0\0arg\3\0\0\0A=1\2\0\0\0/w";
    struct gp_exec e;
    struct bg_exec *x = start(SPEC(.deadline_ms = 5000, .uid = 1000, .gid = 100), &t);
    uint32_t id = bg_exec_id(x);
    assert_int_not_equal(id, 0);
    assert_int_equal(bg_channel_execs(ch), 1);
    fake_expect(&f, GP_EXEC);
    assert_int_equal(f.h.id, id);
    assert_int_equal(f.h.flags, 0);
    memcpy(&e, f.p, sizeof e);
    assert_int_equal(e.argc, 2);
    assert_int_equal(e.envc, 1);
    assert_int_equal(e.deadline_ms, 5000);
    assert_int_equal(e.uid, 1000);
    assert_int_equal(e.gid, 100);
    assert_int_equal(e.credit, BG_STREAM_CREDIT);
    assert_int_equal(e.total, sizeof blob - 1);
    assert_int_equal(f.h.len, sizeof e + sizeof blob - 1);
    assert_memory_equal(f.p + sizeof e, blob, sizeof blob - 1);
    fake_expect(&f, GP_STDIN);
    assert_int_equal(f.h.len, 0);
    assert_int_equal(f.h.flags, GP_F_EOF);
    fake_started(&f, id);
    fake_send(&f, GP_STDOUT, id, "out", 3);
    fake_send(&f, GP_STDERR, id, "error", 5);
    fake_exit(&f, id, 3, 0, GP_WHY_EXITED);
    fake_expect(&f, GP_FORGET);
    assert_int_equal(f.h.id, id);
    assert_int_equal(t.started, 1);
    assert_string_equal(t.head[0], "out");
    assert_string_equal(t.head[1], "error");
    assert_int_equal(t.done, 1);
    assert_true(t.ok && t.result.started);
    assert_int_equal(t.result.exit_code, 3);
    assert_int_equal(t.result.duration_ms, 12);
    assert_int_equal(bg_channel_execs(ch), 0);
}

static void ends_become_results(void **state BG_UNUSED)
{
    static const struct {
        int code, sig;
        enum gp_why why;
        int exit_code;
        bool timed_out, killed, oom, supervisor_lost;
    } c[] = {
        {0, 0, GP_WHY_EXITED, 0, .killed = false},
        {-1, 11, GP_WHY_EXITED, 139, .killed = false},
        {-1, 9, GP_WHY_DEADLINE, 124, .timed_out = true},
        {0, 0, GP_WHY_DEADLINE, 124, .timed_out = true},
        {-1, 9, GP_WHY_KILLED, 137, .killed = true},
        {0, 0, GP_WHY_KILLED, 137, .killed = true},
        {-1, 9, GP_WHY_OOM, 137, .oom = true},
        {0, 0, GP_WHY_SUPERVISOR_LOST, 137, .supervisor_lost = true},
    };
    for (size_t i = 0; i < bg_countof(c); i++) {
        uint32_t id = run_live(SPEC(.uid = 1));
        fake_exit(&f, id, c[i].code, c[i].sig, c[i].why);
        fake_expect(&f, GP_FORGET);
        assert_int_equal(t.done, 1);
        assert_int_equal(t.result.exit_code, c[i].exit_code);
        assert_int_equal(t.result.timed_out, c[i].timed_out);
        assert_int_equal(t.result.killed, c[i].killed);
        assert_int_equal(t.result.oom, c[i].oom);
        assert_int_equal(t.result.supervisor_lost, c[i].supervisor_lost);
    }
}

static void a_refused_command_is_a_typed_error(void **state BG_UNUSED)
{
    static const struct {
        enum gp_err err;
        enum bg_errc code;
        int sys;
    } c[] = {
        {GP_ERR_NOENT, BG_ERR_COMMAND, ENOENT}, {GP_ERR_ACCES, BG_ERR_COMMAND, EACCES},
        {GP_ERR_CWD, BG_ERR_PATH, 0},           {GP_ERR_LIMIT, BG_ERR_LIMIT, 0},
        {GP_ERR_BAD, BG_ERR_COMMAND, 0},        {99, BG_ERR_COMMAND, 0},
    };
    for (size_t i = 0; i < bg_countof(c); i++) {
        struct gp_error e = {.err = c[i].err, .sys = 2};
        char p[sizeof e + 6];
        memcpy(p, &e, sizeof e);
        memcpy(p + sizeof e, "a\033[31m", 6);
        fake_send(&f, GP_ERROR, run(SPEC(.uid = 1)), p, sizeof p);
        UNTIL(t.done);
        assert_false(t.ok);
        assert_int_equal(t.err.code, c[i].code);
        assert_int_equal(t.err.sys, c[i].sys);
        assert_null(strchr(t.err.msg, '\033'));
        assert_int_equal(t.started, 0);
    }
    assert_int_equal(news.down, 0);
}

static void what_cant_be_sent_is_refused_in_the_next_turn(void **state BG_UNUSED)
{
    struct told u[4];
    char *big = bg_xmalloc(BG_INPUT_MAX + 2);
    memset(big, 'x', BG_INPUT_MAX + 1);
    big[BG_INPUT_MAX + 1] = 0;
    start(&(struct bg_exec_spec){.argv = STRV(NULL), .cwd = "/"}, &u[0]);
    start(SPEC(.input = big, .input_len = BG_INPUT_MAX + 1), &u[1]);
    start(&(struct bg_exec_spec){.argv = STRV("a", big), .cwd = "/"}, &u[2]);
    bg_channel_shutdown(ch);
    start(SPEC(.uid = 1), &u[3]);
    for (int i = 0; i < 4; i++)
        assert_int_equal(u[i].done, 0);
    UNTIL(u[3].done);
    assert_int_equal(u[0].err.code, BG_ERR_USAGE);
    assert_int_equal(u[1].err.code, BG_ERR_LIMIT);
    assert_int_equal(u[2].err.code, BG_ERR_LIMIT);
    assert_int_equal(u[3].err.code, BG_ERR_DESTROYED);
    fake_expect(&f, GP_SHUTDOWN); /* and no EXEC before it */
    free(big);
}

static void a_large_blob_is_split(void **state BG_UNUSED)
{
    enum { BIG = 3000000 };
    char *big = bg_xmalloc(BIG + 1);
    memset(big, 'e', BIG);
    big[BIG] = 0;
    struct bg_exec_spec s = {.argv = STRV("a"), .env = STRV(big), .cwd = "/"};
    uint32_t id = bg_exec_id(start(&s, &t));
    uint32_t second = bg_exec_id(bg_exec_start(ch, &s, &told_events, &t));
    for (int i = 0; i < 2; i++) {
        struct gp_exec e;
        size_t got = 0;
        do { /* the second begins only after the first is whole */
            fake_expect(&f, GP_EXEC);
            assert_int_equal(f.h.id, i ? second : id);
            if (!got)
                memcpy(&e, f.p, sizeof e);
            got += f.h.len;
        } while (f.h.flags & GP_F_MORE);
        assert_int_equal(e.total, 4 + 1 + 4 + BIG + 4 + 1);
        assert_int_equal(got, sizeof e + e.total);
    }
    free(big);
}

/* ---- credit ---- */

static size_t take_input(bool *eof)
{
    fake_expect(&f, GP_STDIN);
    *eof = f.h.flags & GP_F_EOF;
    return f.h.len;
}

static void input_flows_as_credit_comes(void **state BG_UNUSED)
{
    enum { BIG = 600000 };
    char *in = bg_xcalloc(1, BIG);
    bool eof = false;
    size_t got = 0;
    uint32_t more = 100000;
    uint32_t id = bg_exec_id(start(SPEC(.input = in, .input_len = BIG), &t));
    free(in); /* was copied */
    fake_expect(&f, GP_EXEC);
    fake_started(&f, id);
    while (got < GP_CREDIT)
        got += take_input(&eof);
    assert_int_equal(got, GP_CREDIT);
    assert_false(eof);
    while (!eof) {
        size_t before = got;
        fake_send(&f, GP_STDIN_CREDIT, id, &more, sizeof more);
        while (!eof && got < before + more)
            got += take_input(&eof);
        assert_true(got <= before + more);
    }
    assert_int_equal(got, BIG);
}

static void c001_a_program_that_never_reads_its_input(void **state BG_UNUSED)
{
    enum { FIVE_MIB = 5 << 20 };
    char *in = bg_xcalloc(1, FIVE_MIB);
    uint32_t id = bg_exec_id(start(SPEC(.input = in, .input_len = FIVE_MIB), &t));
    fake_started(&f, id);
    fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
    UNTIL(t.done);
    assert_true(t.ok);
    assert_int_equal(t.result.exit_code, 0);
    assert_false(t.result.timed_out);
    assert_int_equal(news.down, 0);
    /* The same, but the guest hangs up with the input half sent: no SIGPIPE, no end made
     * up. */
    start(SPEC(.input = in, .input_len = FIVE_MIB), &t);
    free(in);
    close(f.fd);
    f.fd = -1;
    UNTIL(news.down == 1);
    assert_int_equal(t.done, 0);
}

static void fill(uint32_t id, enum gp_type type, size_t n)
{
    static const char bytes[GP_FRAME_MAX];
    for (size_t step; n; n -= step) {
        step = n < sizeof bytes ? n : sizeof bytes;
        fake_send(&f, type, id, bytes, step);
    }
}

static uint32_t take_credit(uint32_t id, enum bg_stream s)
{
    uint32_t n;
    fake_expect(&f, GP_CREDIT_OUT);
    assert_int_equal(f.h.id, id);
    assert_int_equal(f.p[0], s);
    memcpy(&n, f.p + 4, sizeof n);
    return n;
}

/* A slow owner: what it holds never exceeds the credit it was opened with. */
static void lossless_credit_follows_what_the_owner_takes(void **state BG_UNUSED)
{
    struct bg_exec *x = start(SPEC(.flow = BG_FLOW_LOSSLESS), &t);
    uint32_t id = bg_exec_id(x);
    size_t granted = GP_CREDIT, sent = 0, taken = 0;
    fake_expect(&f, GP_EXEC);
    fake_expect(&f, GP_STDIN);
    fake_started(&f, id);
    for (int round = 0; round < 40; round++) {
        fill(id, GP_STDOUT, granted - sent);
        sent = granted;
        UNTIL(t.bytes[0] == sent);
        assert_true(t.bytes[0] - taken <= GP_CREDIT);
        bg_exec_consumed(x, BG_STDOUT, GP_CREDIT / 8); /* too little for a frame */
        bg_exec_consumed(x, BG_STDOUT, GP_CREDIT / 2);
        taken += GP_CREDIT / 8 + GP_CREDIT / 2;
        granted += take_credit(id, BG_STDOUT);
        assert_int_equal(granted, taken + GP_CREDIT);
    }
    fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
    UNTIL(t.done);
}

static void a_tail_is_always_credited(void **state BG_UNUSED)
{
    struct bg_exec *x = start(SPEC(.flow = BG_FLOW_TAIL), &t);
    uint32_t id = bg_exec_id(x);
    fake_expect(&f, GP_EXEC);
    assert_int_equal(f.h.flags, GP_F_TAIL);
    fake_expect(&f, GP_STDIN);
    fake_started(&f, id);
    for (size_t sent = 0, credit = GP_CREDIT; sent < 10 * GP_CREDIT; sent += 65536) {
        assert_true(sent + 65536 <= credit);
        fill(id, GP_STDERR, 65536);
        credit += take_credit(id, BG_STDERR);
    }
    fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
    UNTIL(t.done);
}

static void streams_of_a_session_share_its_credit(void **state BG_UNUSED)
{
    static struct told u[64];
    uint64_t sum = 0;
    int n = 0;
    for (; n < 64; n++) {
        struct gp_exec e;
        start(SPEC(.flow = BG_FLOW_LOSSLESS), &u[n]);
        bg_loop_turn(loop, 0);
        if (u[n].done)
            break;
        fake_expect(&f, GP_EXEC);
        memcpy(&e, f.p, sizeof e);
        sum += 2 * e.credit;
        fake_expect(&f, GP_STDIN);
    }
    assert_true(n >= 8 && n < 64);
    assert_int_equal(u[n].err.code, BG_ERR_LIMIT);
    assert_true(sum <= BG_SESSION_CREDIT);
    run_live(SPEC(.flow = BG_FLOW_TAIL)); /* keeps nothing, needs no share */
}

/* ---- kill and time ---- */

static void kill_is_asked_of_the_guest(void **state BG_UNUSED)
{
    struct bg_exec *x = start(SPEC(.uid = 1), &t);
    uint32_t id = bg_exec_id(x), none = 0;
    struct gp_kill k;
    fake_expect(&f, GP_EXEC);
    fake_expect(&f, GP_STDIN);
    fake_started(&f, id);
    bg_exec_kill(x, 5000);
    bg_exec_kill(x, 6000); /* nothing new */
    bg_exec_kill(x, 0);
    fake_expect(&f, GP_KILL);
    memcpy(&k, f.p, sizeof k);
    assert_int_equal(k.grace_ms, 5000);
    fake_expect(&f, GP_KILL);
    memcpy(&k, f.p, sizeof k);
    assert_int_equal(k.grace_ms, 0);
    fake_send(&f, GP_KILLED, id, &none, sizeof none);
    fake_exit(&f, id, -1, 9, GP_WHY_KILLED);
    UNTIL(t.done);
    assert_true(t.result.killed);
    assert_int_equal(t.result.exit_code, 137);
}

static void kill_before_it_was_sent_runs_nothing(void **state BG_UNUSED)
{
    close(f.fd);
    UNTIL(news.down);
    struct bg_exec *x = start(SPEC(.uid = 1), &t);
    bg_exec_kill(x, 0);
    assert_int_equal(t.done, 0);
    UNTIL(t.done);
    assert_true(t.ok && t.result.killed && !t.result.started);
    fake_link(&f);
    uint32_t id = run_live(SPEC(.uid = 1)); /* the first frame is that one's */
    fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
    UNTIL(t.done);
}

static void survivors_of_a_kill_lose_the_session(void **state BG_UNUSED)
{
    uint32_t id = run_live(SPEC(.uid = 1)), left = 2;
    fake_send(&f, GP_KILLED, id, &left, sizeof left);
    UNTIL(news.lost == 1);
    assert_int_equal(news.err.code, BG_ERR_DESTROYED);
    assert_int_equal(t.done, 0); /* the provider says when it is gone */
    bg_channel_fail(ch, &news.err);
    assert_int_equal(t.done, 0);
    UNTIL(t.done == 1);
    assert_int_equal(t.err.code, BG_ERR_DESTROYED);
}

static void a_deadline_the_guest_ignores_is_held_here(void **state BG_UNUSED)
{
    int64_t begin = bg_mono_ms();
    run_live(SPEC(.deadline_ms = 50));
    UNTIL(t.done);
    assert_true(bg_mono_ms() - begin >= 50 + BG_KILL_MS);
    assert_int_equal(t.err.code, BG_ERR_TIMEOUT);
    assert_int_equal(news.lost, 1);
    assert_false(bg_channel_up(ch));
}

/* ---- the end ---- */

static void end_the_channel(void *data BG_UNUSED, struct bg_exec *x BG_UNUSED,
                            const struct bg_exec_result *r BG_UNUSED,
                            const struct bg_error *err BG_UNUSED)
{
    t.done++;
    struct bg_channel *c = ch;
    ch = NULL;
    bg_channel_free(c);
}

static void freeing_tells_every_command(void **state BG_UNUSED)
{
    struct told u;
    run_live(SPEC(.uid = 1));
    start(SPEC(.uid = 1), &u);
    bg_channel_free(ch);
    ch = NULL;
    assert_int_equal(t.done, 1);
    assert_int_equal(t.err.code, BG_ERR_DESTROYED);
    assert_int_equal(u.done, 1);
}

static void the_channel_may_be_freed_in_done(void **state BG_UNUSED)
{
    static const struct bg_exec_events ev = {.done = end_the_channel};
    struct told u;
    t = (struct told){0};
    uint32_t id = bg_exec_id(bg_exec_start(ch, SPEC(.uid = 1), &ev, &t));
    start(SPEC(.uid = 1), &u);
    fake_started(&f, id);
    fake_exit(&f, id, 0, 0, GP_WHY_EXITED);
    UNTIL(t.done);
    assert_int_equal(t.done, 1);
    assert_int_equal(u.done, 1);
}

static void fail_inside(void *data, struct bg_exec *x, enum bg_stream s, const char *p,
                        size_t n)
{
    struct bg_error err;
    bg_fail(&err, BG_ERR_DESTROYED, 0, "gone");
    bg_channel_fail(ch, &err);
    told_output(data, x, s, p, n); /* its bytes are still there */
}

static void failing_inside_output_ends_all_in_the_next_turn(void **state BG_UNUSED)
{
    struct bg_exec_events ev = told_events;
    struct told u;
    ev.output = fail_inside;
    t = (struct told){0};
    uint32_t id = bg_exec_id(bg_exec_start(ch, SPEC(.uid = 1), &ev, &t));
    fake_started(&f, id);
    fake_send(&f, GP_STDOUT, id, "out", 3);
    fake_exit(&f, id, 0, 0, GP_WHY_EXITED); /* too late */
    UNTIL(t.done);
    assert_string_equal(t.head[0], "out");
    assert_false(t.ok);
    start(SPEC(.uid = 1), &u);
    UNTIL(u.done);
    assert_string_equal(u.err.msg, "gone");
    assert_int_equal(news.down + news.lost, 0);
}

static void start_again(void *data, struct bg_exec *x BG_UNUSED,
                        const struct bg_exec_result *r,
                        const struct bg_error *err BG_UNUSED)
{
    static const struct bg_exec_events ev = {.done = start_again};
    assert_null(r);
    if (++*(int *)data < 5)
        bg_exec_start(ch, SPEC(.uid = 1), &ev, data);
}

static void starting_again_in_done_lets_the_loop_go_on(void **state BG_UNUSED)
{
    static const struct bg_exec_events ev = {.done = start_again};
    struct bg_error err;
    int n = 0;
    bg_fail(&err, BG_ERR_DESTROYED, 0, "gone");
    bg_channel_fail(ch, &err);
    bg_exec_start(ch, SPEC(.uid = 1), &ev, &n);
    while (n < 5) {
        int before = n;
        UNTIL(n > before);
        assert_true(n <= before + 2); /* a turn looks at timers before and after it waits */
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_command_from_start_to_done),
        T(ends_become_results),
        T(a_refused_command_is_a_typed_error),
        T(what_cant_be_sent_is_refused_in_the_next_turn),
        T(a_large_blob_is_split),
        T(input_flows_as_credit_comes),
        T(c001_a_program_that_never_reads_its_input),
        T(lossless_credit_follows_what_the_owner_takes),
        T(a_tail_is_always_credited),
        T(streams_of_a_session_share_its_credit),
        T(kill_is_asked_of_the_guest),
        T(kill_before_it_was_sent_runs_nothing),
        T(survivors_of_a_kill_lose_the_session),
        T(a_deadline_the_guest_ignores_is_held_here),
        T(freeing_tells_every_command),
        T(the_channel_may_be_freed_in_done),
        T(failing_inside_output_ends_all_in_the_next_turn),
        T(starting_again_in_done_lets_the_loop_go_on),
    };
    return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}

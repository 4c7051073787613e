/* SPDX-License-Identifier: MIT */
/* Every end of a session, and that nothing is left after it, on whatever session_box.h
 * stands on. */
#pragma once

#include "tests/unit/session/session_box.h"

/* ---- ends ---- */

static void with_times(int64_t idle_ms, int64_t ttl_ms, struct bg_session **s)
{
    struct bg_spec *spec = a_spec();
    struct bg_error err;

    spec->idle_ms = idle_ms;
    spec->ttl_ms = ttl_ms;
    *s = bg_session_open(all, "timed", NULL, 0, spec, false, &err);
    assert_non_null(*s);
    seen.closed = 0;
    seen.reason[0] = '\0';
}

static bool wait_closed(void)
{
    int64_t until = bg_mono_ms() + BOX_WAIT_MS;

    while (seen.closed == 0 && bg_mono_ms() < until)
        bg_loop_turn(env.loop, 50);
    return seen.closed == 1;
}

static void av20_ttl_in_a_run_is_no_exit_status(void **state)
{
    struct bg_session *s;
    struct run u = {0};

    (void)state;
    with_times(BG_IDLE_MS, BOX_CREATE_MS, &s);
    begin_sh(s, &u, "echo partial; sleep 20", 30000);
    assert_true(box_wait(env.loop, &u.done));
    assert_int_equal(u.err.code, BG_ERR_DESTROYED);
    assert_non_null(strstr(u.err.msg, "ttl"));
    assert_string_equal(u.r.out.data, "partial\n");
    assert_true(u.r.exec.started);
    run_clear(&u);
    assert_true(wait_closed());
    assert_string_equal(seen.reason, "ttl");
    assert_null(bg_session_find(all, "timed"));
    assert_int_equal(live_sandboxes(), 0);
}

static void c034_close_in_a_run_names_the_reason(void **state)
{
    struct bg_session *s = open_session(NULL);
    struct run u = {.close_at_start = true};

    (void)state;
    seen.closed = 0;
    begin_sh(s, &u, "sleep 20", 30000);
    assert_true(box_wait(env.loop, &u.done));
    assert_int_equal(u.err.code, BG_ERR_DESTROYED);
    assert_non_null(strstr(u.err.msg, "close"));
    run_clear(&u);
    assert_true(wait_closed());
}

static void av19_idle_sessions_end_but_not_held_or_running_ones(void **state)
{
    struct bg_session *s;
    struct run u = {0};

    (void)state;
    with_times(300, BG_TTL_MS, &s);
    bg_session_hold(s);
    box_turn_for(env.loop, 700);
    assert_int_equal(seen.closed, 0);
    begin_sh(s, &u, "sleep 0.8; echo end", 15000);
    bg_session_release(s);
    assert_true(box_wait(env.loop, &u.done));
    assert_int_equal(u.err.code, BG_OK);
    assert_string_equal(u.r.out.data, "end\n");
    run_clear(&u);
    assert_int_equal(seen.closed, 0);
    assert_true(wait_closed());
    assert_string_equal(seen.reason, "idle");
}

static void without_auto_destroy_no_timer_runs(void **state)
{
    struct bg_spec *spec = a_spec();
    struct bg_error err;
    struct bg_session *s;

    (void)state;
    spec->auto_destroy = false;
    spec->idle_ms = 50;
    spec->ttl_ms = 100;
    s = bg_session_open(all, NULL, NULL, 0, spec, false, &err);
    seen.closed = 0;
    box_turn_for(env.loop, 300);
    assert_int_equal(seen.closed, 0);
    close_session(s);
}

static void c113_close_twice_and_during_creation(void **state)
{
    struct bg_session *s = open_session(NULL);
    struct box_flag a = {0}, b = {0};
    struct run u = {0};

    (void)state;
    begin_sh(s, &u, "true", 15000);
    assert_int_equal(bg_session_state(s), BG_SESSION_CREATING);
    bg_loop_turn(env.loop, 0); /* the record is told, the creation under way */
    bg_session_close(s, "close", box_done, &a);
    bg_session_close(s, "close", box_done, &b);
    assert_true(box_wait(env.loop, &u.done));
    assert_int_equal(u.err.code, BG_ERR_DESTROYED);
    assert_false(u.r.exec.started);
    run_clear(&u);
    assert_true(box_wait(env.loop, &a.done) && b.done);
    assert_int_equal(a.err.code, BG_OK);
    assert_int_equal(live_sandboxes(), 0);
    assert_int_equal(bg_sessions_count(all), 0);
}

static void c037_av07_a_lost_session_ends_and_the_next_says_reset(void **state)
{
    struct bg_session *s = open_session("phoenix");
    struct bg_error err;
    struct run u = {0};

    (void)state;
    seen.closed = 0;
    begin_sh(s, &u, "sleep 20", 30000);
    assert_true(box_wait(env.loop, &u.started));
    box_kill(&env, s->sandbox);
    assert_true(box_wait(env.loop, &u.done));
    assert_int_equal(u.err.code, BG_ERR_DESTROYED);
    assert_non_null(strstr(u.err.msg, "from outside"));
    run_clear(&u);
    assert_true(wait_closed());
    assert_string_equal(seen.reason, "lost");
    s = bg_session_open(all, "phoenix", NULL, 1000, a_spec(), false, &err);
    assert_non_null(s);
    sh(s, &u, "true");
    assert_true(u.r.reset);
    run_clear(&u);
    sh(s, &u, "true");
    assert_false(u.r.reset);
    run_clear(&u);
    close_session(s);
}

static void a_once_session_ends_after_its_run(void **state)
{
    struct bg_error err;
    struct bg_session *s = bg_session_open(all, NULL, NULL, 0, a_spec(), true, &err);
    struct run u = {0};

    (void)state;
    seen.closed = 0;
    sh(s, &u, "echo once");
    assert_string_equal(u.r.out.data, "once\n");
    run_clear(&u);
    assert_true(wait_closed());
    assert_int_equal(live_sandboxes(), 0);
}

static void json_tells_what_it_is(void **state)
{
    struct bg_session *s = open_session("shown");
    struct run u = {0};

    (void)state;
    sh(s, &u, "true");
    run_clear(&u);
    bg_autojson cJSON *j = bg_session_json(s);
    assert_string_equal(cJSON_GetObjectItem(j, "id")->valuestring, "shown");
    assert_string_equal(cJSON_GetObjectItem(j, "state")->valuestring, "live");
    assert_string_equal(cJSON_GetObjectItem(j, "provider")->valuestring, BOX_ENGINE);
    assert_int_equal(cJSON_GetObjectItem(j, "calls")->valueint, 1);
    assert_int_equal(cJSON_GetObjectItem(j, "pending")->valueint, 0);
    assert_non_null(cJSON_GetStringValue(cJSON_GetObjectItem(j, "createdAt")));
    bg_session_hold(s);
    bg_autojson cJSON *held = bg_session_json(s);
    assert_int_equal(cJSON_GetObjectItem(held, "pending")->valueint, 1);
    assert_int_equal(cJSON_GetObjectItem(held, "idleMs")->valueint, 0);
    bg_session_release(s);
    close_session(s);
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Many at once, then none: no process, folder, cgroup or descriptor stays. */
static void many_sessions_leave_nothing(void **state)
{
    enum { N = BOX_MANY };
    size_t fds = box_count_fds();
    struct bg_session *s[N];
    struct run u[N] = {{0}};
    struct box_flag f[N] = {{0}};

    (void)state;
    for (size_t i = 0; i < N; i++)
        s[i] = open_session(NULL);
    for (size_t i = 0; i < N; i++)
        begin_sh(s[i], &u[i], "sleep 100 & echo up", 15000);
    for (size_t i = 0; i < N; i++) {
        assert_true(box_wait(env.loop, &u[i].done));
        assert_int_equal(u[i].err.code, BG_OK);
        assert_string_equal(u[i].r.out.data, "up\n");
        run_clear(&u[i]);
    }
    assert_int_equal(live_sandboxes(), N);
    for (size_t i = 0; i < N; i++)
        bg_session_close(s[i], "close", box_done, &f[i]);
    for (size_t i = 0; i < N; i++)
        assert_true(box_wait(env.loop, &f[i].done));
    assert_int_equal(box_traces(&env), 0);
    assert_int_equal(box_processes(&env), 0);
    assert_in_range(box_count_fds(), fds - BOX_FDS_KEPT, fds + BOX_FDS_KEPT);
}

static void create_and_first_run_is_fast(void **state)
{
    int64_t times[BOX_TIMES] = {0};

    (void)state;
    for (size_t i = 0; i < bg_countof(times); i++) {
        struct bg_session *s = open_session(NULL);
        char *const argv[] = {(char *)"true", NULL};
        const struct bg_run_spec spec = {.argv = argv,
                                         .timeout_ms = 5000,
                                         .max_output_bytes = 100,
                                         .flow = BG_FLOW_TAIL};
        struct run u = {0};
        int64_t t0 = bg_mono_us();
        begin(s, &u, &spec);
        assert_true(box_wait(env.loop, &u.done));
        times[i] = bg_mono_us() - t0;
        assert_int_equal(u.r.exec.exit_code, 0);
        run_clear(&u);
        close_session(s);
    }
    qsort(times, bg_countof(times), sizeof *times, by_time);
    print_message("create and first run: min %.1f, p50 %.1f, max %.1f ms\n",
                  (double)times[0] / 1000, (double)times[BOX_TIMES / 2] / 1000,
                  (double)times[BOX_TIMES - 1] / 1000);
    /* the bar itself is bench's: this machine may be busy */
    assert_true(times[0] < 1000 * BOX_CREATE_MS);
}

/* C113, the whole: one creating, one running, one idle; all end within ten seconds. */
static void c113_shutdown_ends_everything(void **state)
{
    struct bg_session *idle = open_session(NULL), *running = open_session(NULL),
                      *making = open_session(NULL);
    struct run a = {0}, b = {0}, c = {0};
    struct box_flag f = {0};
    int64_t t0;

    (void)state;
    sh(idle, &a, "true");
    run_clear(&a);
    begin_sh(running, &b, "sleep 100", 200000);
    assert_true(box_wait(env.loop, &b.started));
    begin_sh(making, &c, "sleep 100", 200000);
    t0 = bg_mono_ms();
    bg_sessions_shutdown(all, box_done, &f);
    assert_true(box_wait(env.loop, &f.done));
    assert_true(bg_mono_ms() - t0 < 10000);
    assert_true(b.done && c.done);
    assert_int_equal(b.err.code, BG_ERR_DESTROYED);
    assert_non_null(strstr(b.err.msg, "server stop"));
    assert_int_equal(c.err.code, BG_ERR_DESTROYED);
    run_clear(&b);
    run_clear(&c);
    assert_int_equal(bg_sessions_count(all), 0);
    assert_int_equal(live_sandboxes(), 0);
}

static const struct CMUnitTest session_ends[] = {
    cmocka_unit_test(av20_ttl_in_a_run_is_no_exit_status),
    cmocka_unit_test(c034_close_in_a_run_names_the_reason),
    cmocka_unit_test(av19_idle_sessions_end_but_not_held_or_running_ones),
    cmocka_unit_test(without_auto_destroy_no_timer_runs),
    cmocka_unit_test(c113_close_twice_and_during_creation),
    cmocka_unit_test(c037_av07_a_lost_session_ends_and_the_next_says_reset),
    cmocka_unit_test(a_once_session_ends_after_its_run),
    cmocka_unit_test(json_tells_what_it_is),
    cmocka_unit_test(many_sessions_leave_nothing),
    cmocka_unit_test(create_and_first_run_is_fast),
    cmocka_unit_test(c113_shutdown_ends_everything),
};

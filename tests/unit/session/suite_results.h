/* SPDX-License-Identifier: MIT */
/* Results of runs in sessions, and creation that is shared and never cached when it
 * fails, on whatever session_box.h stands on. */
#pragma once

#include <errno.h>

#include "tests/unit/session/session_box.h"

/* ---- results ---- */

static void streams_and_codes_are_apart(void **state)
{
    struct bg_session *s = open_session(NULL);
    struct run u = {0};

    (void)state;
    assert_true(bg_session_fresh(s));
    assert_int_equal(strncmp(bg_session_id(s), "run-", 4), 0);
    sh(s, &u, "echo out; echo err >&2; exit 42");
    assert_int_equal(u.err.code, BG_OK);
    assert_true(u.started && u.r.exec.started);
    assert_int_equal(u.r.exec.exit_code, 42);
    assert_string_equal(u.r.out.data, "out\n");
    assert_string_equal(u.r.err.data, "err\n");
    assert_false(u.r.out_truncated || u.r.exec.timed_out || u.r.aborted || u.r.reset);
    assert_false(bg_session_fresh(s));
    run_clear(&u);
    sh(s, &u, "echo kept > f");
    run_clear(&u);
    sh(s, &u,
       "cat f; env | cut -d= -f1 | grep -v '^PWD$\\|^_$\\|^SHLVL$\\|^OLDPWD$' | sort; echo "
       "$HOME $LANG");
    assert_string_equal(u.r.out.data, "kept\nHOME\nLANG\nPATH\nUSER\n/workspace C.UTF-8\n");
    run_clear(&u);
    close_session(s);
}

static void c109_pipelines_and_failures_are_the_programs_own(void **state)
{
    static const struct {
        const char *script, *out;
        int code;
    } t[] = {{"seq 2 | wc -l", "2\n", 0},
             {"false", "", 1},
             {"grep x /dev/null", "", 1},
             {"exit 42", "", 42}};
    struct bg_session *s = open_session(NULL);
    struct run u = {0};

    (void)state;
    for (size_t i = 0; i < bg_countof(t); i++) {
        sh(s, &u, t[i].script);
        assert_string_equal(u.r.out.data, t[i].out);
        assert_int_equal(u.r.exec.exit_code, t[i].code);
        run_clear(&u);
    }
    close_session(s);
}

static void env_and_cwd_arrive(void **state)
{
    struct bg_session *s = open_session(NULL);
    char *argv[4];
    char *const call[] = {(char *)"A=x\ny", (char *)"LANG=C", NULL};
    struct bg_run_spec spec = sh_spec(argv, "printf %s \"$A\"; echo \"|$LANG|$PWD\"");
    struct run u = {0};

    (void)state;
    sh(s, &u, "mkdir -p a/b");
    run_clear(&u);
    spec.env = call;
    spec.cwd = "a/./b";
    begin(s, &u, &spec);
    assert_true(box_wait(env.loop, &u.done));
    assert_string_equal(u.r.out.data, "x\ny|C|/workspace/a/b\n");
    run_clear(&u);
    close_session(s);
}

static void with_input(struct bg_session *s, struct run *u, const char *script,
                       const char *input, size_t n, int64_t cap)
{
    char *argv[4];
    struct bg_run_spec spec = sh_spec(argv, script);

    spec.input = input;
    spec.input_len = n;
    spec.max_output_bytes = cap;
    begin(s, u, &spec);
    assert_true(box_wait(env.loop, &u->done));
    assert_int_equal(u->err.code, BG_OK);
}

static void bad_calls_are_errors(void **state)
{
    struct bg_session *s = open_session(NULL);
    char *argv[4];
    char *const bad_env[] = {(char *)"=x", NULL}, *const none[] = {NULL};
    struct bg_run_spec cwd = sh_spec(argv, "true"), e = cwd, empty = cwd, missing = cwd;
    struct run u = {0};

    (void)state;
    cwd.cwd = "../etc";
    e.env = bad_env;
    empty.argv = none;
    missing.cwd = "not/there";
    const struct {
        const struct bg_run_spec *spec;
        enum bg_errc code;
    } t[] = {{&cwd, BG_ERR_PATH},
             {&e, BG_ERR_USAGE},
             {&empty, BG_ERR_USAGE},
             {&missing, BG_ERR_PATH}};
    for (size_t i = 0; i < bg_countof(t); i++) {
        begin(s, &u, t[i].spec);
        assert_true(box_wait(env.loop, &u.done));
        assert_int_equal(u.err.code, t[i].code);
        assert_false(u.r.exec.started);
        run_clear(&u);
    }
    close_session(s);
}

/* A link may lead about in the workspace, never out of it. */
static void c040_a_cwd_leaves_by_no_link(void **state)
{
    static const struct {
        const char *cwd;
        enum bg_errc code;
    } t[] = {{"e", BG_ERR_PATH},
             {"d/up", BG_ERR_PATH},
             {"d/up/tmp", BG_ERR_PATH},
             {"twin", BG_ERR_PATH},
             {"in", BG_OK},
             {"d", BG_OK},
             {"gone", BG_ERR_PATH},
             {"d/up/workspace", BG_OK}};
    struct bg_session *s = open_session(NULL);
    struct run u = {0};

    (void)state;
    sh(s, &u,
       "mkdir d; ln -s /etc e; ln -s ../.. d/up; ln -s d in; ln -s nowhere gone; "
       "mkdir /tmp/workspace2; ln -s /tmp/workspace2 twin");
    run_clear(&u);
    for (size_t i = 0; i < bg_countof(t); i++) {
        char *argv[4];
        struct bg_run_spec spec = sh_spec(argv, "pwd -P");
        spec.cwd = t[i].cwd;
        begin(s, &u, &spec);
        assert_true(box_wait(env.loop, &u.done));
        assert_int_equal(u.err.code, t[i].code);
        assert_int_equal(u.r.exec.started, t[i].code == BG_OK);
        assert_int_equal(strncmp(u.r.out.data, "/workspace", u.r.out.len ? 10 : 0), 0);
        run_clear(&u);
    }
    close_session(s);
}

/* What did not start is an error of its own; no word of it reaches the program's streams.
 */
static void c005_start_failures_are_no_output(void **state)
{
    static const struct {
        const char *program, *cwd;
        enum bg_errc code;
        int sys;
    } t[] = {{"nope-cmd", NULL, BG_ERR_COMMAND, ENOENT},
             {"/tmp", NULL, BG_ERR_COMMAND, EACCES},
             {"true", "nope", BG_ERR_PATH, 0}};
    struct bg_session *s = open_session(NULL);
    struct run u = {0};

    (void)state;
    for (size_t i = 0; i < bg_countof(t); i++) {
        char *const argv[] = {(char *)t[i].program, NULL};
        const struct bg_run_spec spec = {
            .argv = argv, .cwd = t[i].cwd, .timeout_ms = 5000, .max_output_bytes = 1000};
        begin(s, &u, &spec);
        assert_true(box_wait(env.loop, &u.done));
        assert_int_equal(u.err.code, t[i].code);
        assert_int_equal(u.err.sys, t[i].sys);
        assert_false(u.r.exec.started);
        assert_int_equal(u.r.out.len + u.r.err.len, 0);
        run_clear(&u);
    }
    close_session(s);
}

static void c041_the_end_of_input_is_told(void **state)
{
    static const struct {
        const char *script, *in, *out;
    } t[] = {{"cat", "abc\n", "abc\n"},
             {"wc -c", "", "0\n"},
             {"cat", NULL, ""},
             {"head -n 1", "1\n2\n3\n", "1\n"}};
    struct bg_session *s = open_session(NULL);
    struct run u = {0};

    (void)state;
    for (size_t i = 0; i < bg_countof(t); i++) {
        with_input(s, &u, t[i].script, t[i].in, t[i].in ? strlen(t[i].in) : 0, 1000);
        assert_int_equal(u.r.exec.exit_code, 0);
        assert_string_equal(u.r.out.data ? u.r.out.data : "", t[i].out);
        assert_in_range(u.r.exec.duration_ms, 0, 1000);
        run_clear(&u);
    }
    close_session(s);
}

/* No terminal, so no echo and no CR; bytes that look like an engine's frame are bytes. */
static void c064_c125_streams_are_plain_pipes(void **state)
{
    static const char frame[] = "\1\0\0\0\0\0\0\5zz\n";
    struct bg_session *s = open_session(NULL);
    struct run u = {0};

    (void)state;
    with_input(s, &u, "cat", frame, sizeof frame - 1, 1000);
    assert_int_equal(u.r.out.len, sizeof frame - 1);
    assert_memory_equal(u.r.out.data, frame, sizeof frame - 1);
    run_clear(&u);
    with_input(s, &u, "cat; cat >&2; for i in 0 1 2; do test -t $i && echo tty; done; true",
               "ping\n", 5, 1000);
    assert_string_equal(u.r.out.data, "ping\n");
    assert_int_equal(u.r.err.len, 0);
    run_clear(&u);
    close_session(s);
}

/* Little CPU makes answers late, not lost. */
static void c122_a_starved_sandbox_is_not_lost(void **state)
{
    struct bg_spec *spec = a_spec();
    struct bg_error err;
    struct run busy = {0}, u = {0};

    (void)state;
    spec->limits.cpus_milli = 100;
    struct bg_session *s = bg_session_open(all, NULL, NULL, 1000, spec, false, &err);
    assert_non_null(s);
    begin_sh(s, &busy, "while :; do :; done", 30000);
    assert_true(box_wait(env.loop, &busy.started));
    sh(s, &u, "echo ok");
    assert_int_equal(u.err.code, BG_OK);
    assert_string_equal(u.r.out.data, "ok\n");
    assert_int_equal(bg_session_state(s), BG_SESSION_LIVE);
    run_clear(&u);
    bg_run_kill(busy.live);
    assert_true(box_wait(env.loop, &busy.done));
    assert_true(busy.r.aborted);
    run_clear(&busy);
    close_session(s);
}

static void c079_a_full_workspace_says_so(void **state)
{
    struct bg_session *s = open_session(NULL);
    struct run u = {0};

    (void)state;
    sh(s, &u, "head -c 200000000 /dev/zero > big; rm big; echo still > here; cat here");
    assert_non_null(strstr(u.r.err.data, "No space left"));
    assert_string_equal(u.r.out.data, "still\n");
    assert_false(u.r.exec.oom);
    run_clear(&u);
    close_session(s);
}

static void c002_cat_of_8_mib_does_not_block(void **state)
{
    struct bg_session *s = open_session(NULL);
    const size_t n = BG_INPUT_MAX, cap = 1 << 20;
    bg_autofree char *in = bg_xmalloc(n);
    struct run u = {0};

    (void)state;
    memset(in, 'y', n);
    with_input(s, &u, "cat", in, n, (int64_t)cap);
    assert_int_equal(u.r.exec.exit_code, 0);
    assert_int_equal(u.r.out.len, cap);
    assert_memory_equal(u.r.out.data, in, cap);
    assert_true(u.r.out_truncated);
    assert_int_equal(u.r.out_bytes, n);
    run_clear(&u);
    close_session(s);
}

static void c001_a_command_that_reads_nothing(void **state)
{
    struct bg_session *s = open_session(NULL);
    const size_t n = 5 << 20;
    bg_autofree char *in = bg_xmalloc(n);
    struct run u = {0};

    (void)state;
    memset(in, 'x', n);
    with_input(s, &u, "true", in, n, 1000);
    assert_int_equal(u.r.exec.exit_code, 0);
    assert_false(u.r.exec.timed_out);
    run_clear(&u);
    close_session(s);
}

static void c107_long_code_arrives_byte_by_byte(void **state)
{
    struct bg_session *s = open_session(NULL);
    const size_t n = 200000;
    bg_autofree char *in = bg_xmalloc(n);
    char hex[BG_SHA256_HEX + 1];
    struct bg_sha256 sum;
    struct run u = {0};

    (void)state;
    for (size_t i = 0; i < n; i++)
        in[i] = "'\"$`\\\n-c\377"[i % 9];
    sum = bg_sha256(in, n);
    bg_sha256_hex(&sum, hex);
    with_input(s, &u, "sha256sum | cut -d' ' -f1 | tr -d '\\n'", in, n, 1000);
    assert_string_equal(u.r.out.data, hex);
    run_clear(&u);
    close_session(s);
}

static void c065_utf8_is_never_split(void **state)
{
    struct bg_session *s = open_session(NULL);
    struct run u = {0};

    (void)state;
    for (size_t cap = 9; cap <= 13; cap++) {
        char *argv[4];
        struct bg_run_spec spec = sh_spec(
            argv, "printf 'a\\342\\202\\254\\342\\202\\254\\360\\237\\230\\200\\303\\244'");
        spec.max_output_bytes = (int64_t)cap;
        begin(s, &u, &spec);
        assert_true(box_wait(env.loop, &u.done));
        /* 1 + 3 + 3 + 4 + 2 = 13 bytes */
        assert_int_equal(u.r.out.len, cap == 13 ? 13 : cap >= 11 ? 11 : 7);
        assert_int_equal(u.r.out_truncated, cap < 13);
        assert_int_equal(u.r.out_bytes, 13);
        run_clear(&u);
    }
    close_session(s);
}

static void c010_a_background_child_does_not_hold_the_call(void **state)
{
    struct bg_session *s = open_session(NULL);
    struct run u = {0};
    int64_t t0 = bg_mono_ms();

    (void)state;
    sh(s, &u, "(sleep 30; echo late) & echo done");
    assert_true(bg_mono_ms() - t0 < 3000);
    assert_string_equal(u.r.out.data, "done\n");
    assert_int_equal(u.r.exec.exit_code, 0);
    assert_true(u.r.exec.leftover >= 1);
    run_clear(&u);
    close_session(s); /* with it still running */
}

static void c062_av05_time_outs_are_ours_alone(void **state)
{
    static const struct {
        const char *script;
        int64_t timeout_ms;
        int code, signal;
        bool timed_out;
    } t[] = {
        {"sleep 5", 400, 124, 9, true},      {"trap '' TERM; sleep 5", 400, 124, 9, true},
        {"exit 124", 5000, 124, 0, false},   {"exit 137", 5000, 137, 0, false},
        {"kill -9 $$", 5000, 137, 9, false}, {"sleep 0.1", 5000, 0, 0, false},
    };
    struct bg_session *s = open_session(NULL);
    struct run u = {0};

    (void)state;
    for (size_t i = 0; i < bg_countof(t); i++) {
        begin_sh(s, &u, t[i].script, t[i].timeout_ms);
        assert_true(box_wait(env.loop, &u.done));
        assert_int_equal(u.err.code, BG_OK);
        assert_int_equal(u.r.exec.exit_code, t[i].code);
        assert_int_equal(u.r.exec.timed_out, t[i].timed_out);
        if (!t[i].timed_out)
            assert_int_equal(u.r.exec.signal, t[i].signal);
        assert_false(u.r.aborted || u.r.exec.oom);
        run_clear(&u);
    }
    sh(s, &u, "grep -l '^Name:.sleep' /proc/[0-9]*/status 2>/dev/null | wc -l");
    assert_string_equal(u.r.out.data, "0\n"); /* AV04: nothing of them lives on */
    run_clear(&u);
    close_session(s);
}

static void an_aborted_run_is_137(void **state)
{
    struct bg_session *s = open_session(NULL);
    struct run u = {0};

    (void)state;
    begin_sh(s, &u, "echo begun; sleep 60", 30000);
    assert_true(box_wait(env.loop, &u.started));
    bg_run_kill(u.live);
    assert_true(box_wait(env.loop, &u.done));
    assert_int_equal(u.err.code, BG_OK);
    assert_int_equal(u.r.exec.exit_code, 137);
    assert_true(u.r.aborted);
    assert_false(u.r.exec.timed_out || u.r.exec.oom);
    run_clear(&u);
    close_session(s);
}

static void a_run_killed_before_its_sandbox_never_starts(void **state)
{
    struct bg_session *s = open_session(NULL);
    struct run u = {0};

    (void)state;
    begin_sh(s, &u, "echo ran > /workspace/f", 30000);
    bg_run_kill(u.live);
    assert_true(box_wait(env.loop, &u.done));
    assert_int_equal(u.err.code, BG_ERR_CANCELLED);
    assert_false(u.r.exec.started);
    run_clear(&u);
    sh(s, &u, "ls");
    assert_string_equal(u.r.out.data, "");
    run_clear(&u);
    close_session(s);
}

static void a_killed_supervisor_is_no_result(void **state)
{
    struct bg_session *s = open_session(NULL);
    struct run u = {0};

    (void)state;
    begin_sh(s, &u, "kill -9 $PPID; sleep 20", 10000);
    assert_true(box_wait(env.loop, &u.done));
    assert_int_equal(u.err.code, BG_ERR_PROCESS);
    assert_true(u.r.exec.started);
    run_clear(&u);
    close_session(s);
}

/* ---- creation ---- */

static void c035_first_calls_share_one_sandbox(void **state)
{
    struct bg_session *s = open_session("shared");
    size_t records = seen.records;
    struct run u[8] = {{0}};

    (void)state;
    for (size_t i = 0; i < bg_countof(u); i++)
        begin_sh(s, &u[i], "echo $$ >> /workspace/pids; echo ok", 15000);
    for (size_t i = 0; i < bg_countof(u); i++) {
        assert_true(box_wait(env.loop, &u[i].done));
        assert_int_equal(u[i].err.code, BG_OK);
        if (u[i].r.out.len == 0)
            printf("run %zu: exit %d, signal %d, %s\n", i, u[i].r.exec.exit_code,
                   u[i].r.exec.signal, u[i].r.err.data);
        assert_string_equal(u[i].r.out.data, "ok\n");
        run_clear(&u[i]);
    }
    assert_int_equal(seen.records, records + 1);
    assert_int_equal(live_sandboxes(), 1);
    sh(s, &u[0], "wc -l < pids");
    assert_string_equal(u[0].r.out.data, "8\n");
    run_clear(&u[0]);
    close_session(s);
    assert_int_equal(live_sandboxes(), 0);
}

static void a_failed_creation_is_not_cached(void **state)
{
    struct bg_session *s = open_session(NULL);
    struct run u[2] = {{0}};

    (void)state;
    seen.refuse = true;
    begin_sh(s, &u[0], "true", 5000);
    begin_sh(s, &u[1], "true", 5000);
    for (size_t i = 0; i < 2; i++) {
        assert_true(box_wait(env.loop, &u[i].done));
        assert_int_equal(u[i].err.code, BG_ERR_AUDIT);
        assert_false(u[i].r.exec.started);
        run_clear(&u[i]);
    }
    assert_int_equal(bg_session_state(s), BG_SESSION_OPEN);
    assert_int_equal(live_sandboxes(), 0);
    seen.refuse = false;
    sh(s, &u[0], "echo now");
    assert_string_equal(u[0].r.out.data, "now\n");
    assert_int_equal(bg_session_state(s), BG_SESSION_LIVE);
    assert_string_equal(bg_session_ref(s), seen.ref);
    run_clear(&u[0]);
    close_session(s);
}

static void c017_av02_ids_are_taken_once_and_never_folded(void **state)
{
    struct bg_session *s = open_session("Team-A");
    struct bg_session *r;
    struct bg_error err;

    (void)state;
    assert_null(bg_session_open(all, "Team-A", NULL, 1, a_spec(), false, &err));
    assert_int_equal(err.code, BG_ERR_CONFLICT);
    assert_null(bg_session_open(all, "Team A/x", NULL, 1, a_spec(), false, &err));
    assert_int_equal(err.code, BG_ERR_USAGE);
    assert_ptr_equal(bg_session_find(all, "Team-A"), s);
    assert_null(bg_session_find(all, "team-a"));
    r = bg_session_open(all, "team-a", "r1", 7, a_spec(), false, &err);
    assert_non_null(r);
    assert_ptr_equal(bg_session_find_run(all, 7, "r1"), r);
    assert_null(bg_session_find_run(all, 8, "r1"));
    assert_null(bg_session_open(all, NULL, "r1", 7, a_spec(), false, &err));
    assert_int_equal(err.code, BG_ERR_CONFLICT);
    assert_ptr_equal(bg_session_find_instance(all, bg_session_instance(r)), r);
    close_session(s);
    close_session(r);
}

static const struct CMUnitTest session_results[] = {
    cmocka_unit_test(streams_and_codes_are_apart),
    cmocka_unit_test(c109_pipelines_and_failures_are_the_programs_own),
    cmocka_unit_test(env_and_cwd_arrive),
    cmocka_unit_test(bad_calls_are_errors),
    cmocka_unit_test(c040_a_cwd_leaves_by_no_link),
    cmocka_unit_test(c005_start_failures_are_no_output),
    cmocka_unit_test(c041_the_end_of_input_is_told),
    cmocka_unit_test(c064_c125_streams_are_plain_pipes),
    cmocka_unit_test(c122_a_starved_sandbox_is_not_lost),
    cmocka_unit_test(c079_a_full_workspace_says_so),
    cmocka_unit_test(c002_cat_of_8_mib_does_not_block),
    cmocka_unit_test(c001_a_command_that_reads_nothing),
    cmocka_unit_test(c107_long_code_arrives_byte_by_byte),
    cmocka_unit_test(c065_utf8_is_never_split),
    cmocka_unit_test(c010_a_background_child_does_not_hold_the_call),
    cmocka_unit_test(c062_av05_time_outs_are_ours_alone),
    cmocka_unit_test(an_aborted_run_is_137),
    cmocka_unit_test(a_run_killed_before_its_sandbox_never_starts),
    cmocka_unit_test(a_killed_supervisor_is_no_result),
    cmocka_unit_test(c035_first_calls_share_one_sandbox),
    cmocka_unit_test(a_failed_creation_is_not_cached),
    cmocka_unit_test(c017_av02_ids_are_taken_once_and_never_folded),
};

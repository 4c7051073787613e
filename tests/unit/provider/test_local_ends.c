/* SPDX-License-Identifier: MIT */
/*
 * A sandbox from its first command to its end, however it comes, and that nothing is left.
 */
#include <signal.h>
#include <sys/wait.h>

#include "tests/test.h"
#include "tests/unit/provider/local_shared.h"

struct stats_seen {
    bool done;
    struct bg_guest_stats s;
};

static void on_box_stats(void *data, const struct bg_guest_stats *s,
                         const struct bg_error *err)
{
    struct stats_seen *seen = data;

    assert_null(err);
    seen->s = *s;
    seen->done = true;
}

static void stats_come_from_the_host(void **state)
{
    struct stats_seen seen = {0};

    (void)state;
    sh_prints("head -c 8000000 /dev/zero > /workspace/f", "");
    bg_provider_local.stats(box, on_box_stats, &seen);
    assert_true(box_wait(env.loop, &seen.done));
    if (have_cgroups()) {
        assert_int_equal(seen.s.mem_limit, (uint64_t)BG_MEMORY_MB << 20);
        assert_in_range(seen.s.mem_bytes, 8000000, (uint64_t)BG_MEMORY_MB << 20);
    }
    assert_int_equal(seen.s.execs, 0);
    sh_prints("rm /workspace/f", "");
}

struct lost_seen {
    bool lost;
    struct bg_error why;
};

static void on_lost(void *data, struct bg_sandbox *sb, const struct bg_error *why)
{
    struct lost_seen *l = data;

    (void)sb;
    assert_false(l->lost);
    l->lost = true;
    l->why = *why;
}

/* C037: killed from outside in the middle of a run. */
static void c037_killed_from_outside_is_lost(void **state)
{
    static const struct bg_sandbox_events ev = {.lost = on_lost};
    char *const argv[] = {(char *)"sleep", (char *)"60", NULL};
    struct lost_seen seen = {0};
    struct bg_error err;
    struct box_run r;
    struct bg_sandbox *sb = box_make(&env, spec, &ev, &seen, &err);

    (void)state;
    assert_non_null(sb);
    box_start(sb, &r, argv, NULL, 30000);
    assert_true(box_wait(env.loop, &r.started));
    kill(((struct local_sandbox *)sb)->record.child, SIGKILL);
    assert_true(box_wait(env.loop, &seen.lost));
    assert_int_equal(seen.why.code, BG_ERR_DESTROYED);
    assert_true(box_wait(env.loop, &r.done));
    assert_int_equal(r.error.code, BG_ERR_DESTROYED);
    box_run_clear(&r);
    assert_true(box_destroy(&env, sb));
}

static void c008_a_timed_out_call_leaves_nothing(void **state)
{
    char *const argv[] = {
        (char *)"sh", (char *)"-c",
        (char *)"trap '' TERM; setsid sleep 300 & sleep 300 & echo begun; wait", NULL};
    struct box_run r;
    int64_t begin = bg_mono_ms();

    (void)state;
    box_start(box, &r, argv, NULL, 700);
    assert_true(box_wait(env.loop, &r.done));
    assert_in_range(bg_mono_ms() - begin, 690, 2500);
    assert_int_equal(r.r.exit_code, 124);
    assert_true(r.r.timed_out);
    assert_string_equal(r.out.data, "begun\n");
    box_run_clear(&r);
    sh_prints("grep -l '^Name:.sleep' /proc/[0-9]*/status 2>/dev/null | wc -l", "0\n");
}

static void av08_a_missing_command_is_an_error(void **state)
{
    char *const argv[] = {(char *)"no-such-command", NULL};
    struct box_run r;

    (void)state;
    box_start(box, &r, argv, NULL, 5000);
    assert_true(box_wait(env.loop, &r.done));
    assert_int_equal(r.error.code, BG_ERR_COMMAND);
    assert_int_equal(r.out.len, 0);
    box_run_clear(&r);
}

/* A quick program writes before its supervisor has said that it runs. */
static void quick_output_is_never_lost(void **state)
{
    char *const argv[] = {(char *)"echo", (char *)"ok", NULL};

    (void)state;
    for (size_t round = 0; round < 25; round++) {
        struct box_run r[8];
        for (size_t i = 0; i < bg_countof(r); i++)
            box_start(box, &r[i], argv, NULL, 15000);
        for (size_t i = 0; i < bg_countof(r); i++) {
            assert_true(box_wait(env.loop, &r[i].done));
            assert_int_equal(r[i].error.code, BG_OK);
            assert_true(r[i].started);
            assert_string_equal(r[i].out.data, "ok\n");
            box_run_clear(&r[i]);
        }
    }
}

static void two_sandboxes_share_no_uid(void **state)
{
    struct bg_error err;
    struct bg_sandbox *other = box_make(&env, spec, NULL, NULL, &err);
    struct local_sandbox *a = (struct local_sandbox *)box,
                         *b = (struct local_sandbox *)other;
    uint32_t ua, ub;

    (void)state;
    assert_non_null(other);
    assert_true(local_uid_of(a->record.child, &ua) && local_uid_of(b->record.child, &ub));
    if (is_root()) {
        assert_int_not_equal(ua, ub);
        assert_in_range(ua, BG_LOCAL_UID_BASE, BG_LOCAL_UID_BASE + BG_LOCAL_UIDS);
    } else {
        assert_int_equal(ua, geteuid());
    }
    assert_true(box_destroy(&env, other));
}

static void sweep_done(void *data, char *const *names, const struct bg_error *err)
{
    struct box_run *r = data;

    assert_null(err);
    for (; *names; names++) {
        bg_buf_puts(&r->out, *names);
        bg_buf_putc(&r->out, '\n');
    }
    r->done = true;
}

static void sweep(bool foreign, bool dry_run, struct box_run *r)
{
    *r = (struct box_run){0};
    bg_buf_init(&r->out, 65536);
    bg_provider_local.sweep(env.provider, foreign, dry_run, sweep_done, r);
    assert_true(box_wait(env.loop, &r->done));
}

/* A second server with the same folders; on the caller's stack, for a process that ends. */
static void open_again(struct box_env *e)
{
    *e = (struct box_env){
        .ops = &bg_provider_local, .loop = bg_loop_new(), .config = env.config};
    const struct bg_provider_env pe = {.loop = e->loop,
                                       .config = env.config,
                                       .paths = &env.paths,
                                       .guest_path = env.guest,
                                       .instance = env.instance};
    e->provider = bg_provider_local.open(&pe, box_opened, e);
}

/* A server with the same folders, in a process that ends in the middle of a creation. */
static void die_after(int64_t us)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct box_env e;
        int64_t until = bg_mono_us() + us;
        open_again(&e); /* the trial run is a creation, too */
        while (bg_mono_us() < until)
            bg_loop_turn(e.loop, 1);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

/* C110: bwrap's child waits for its parent; whoever dies when, nothing may wait for ever.
 */
static void c110_a_server_that_dies_in_a_creation_leaves_nothing(void **state)
{
    struct box_run r;
    size_t alone = box_processes(&env);
    int64_t until;

    (void)state;
    for (int64_t us = 0; us < 30000; us += 1500)
        die_after(us);
    sweep(false, false, &r);
    box_run_clear(&r);
    for (until = bg_mono_ms() + 5000; box_processes(&env) != alone && bg_mono_ms() < until;)
        box_turn_for(env.loop, 20);
    assert_int_equal(box_processes(&env), alone);
    sh_prints("echo still here", "still here\n");
}

/* A server that dies at once: its sandbox stays, and the next one with the same folders
 * finds and removes it, but not what is live. */
static void c110_sweep_removes_a_dead_servers_sandbox_only(void **state)
{
    struct local *p = (struct local *)env.provider;
    int up[2];
    pid_t pid;
    char mark = 0;
    struct box_run r;

    (void)state;
    assert_int_equal(pipe2(up, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        struct box_env e;
        struct bg_error err;
        open_again(&e);
        if (box_wait(e.loop, &e.opened) && box_make(&e, spec, NULL, NULL, &err))
            mark = 'y';
        _exit(write(up[1], &mark, 1) == 1 ? 0 : 1); /* dies with the sandbox up */
    }
    close(up[1]);
    assert_int_equal(read(up[0], &mark, 1), 1);
    close(up[0]);
    waitpid(pid, NULL, 0);
    assert_int_equal(mark, 'y');
    assert_int_equal(box_processes(&env), is_root() ? 4 : 2);
    sweep(false, true, &r); /* dry: only names */
    assert_non_null(strstr(r.out.data, "sandbox "));
    assert_true(box_count_named(p->record_dir, "") == 4);
    box_run_clear(&r);
    sweep(false, false, &r);
    assert_non_null(strstr(r.out.data, "sandbox "));
    assert_null(strstr(r.out.data, ((struct local_sandbox *)box)->id));
    box_run_clear(&r);
    assert_true(box_count_named(p->record_dir, "") == 3); /* ., .., the live one */
    sh_prints("echo still here", "still here\n");
    sweep(false, false, &r);
    assert_string_equal(r.out.data, "");
    box_run_clear(&r);
}

static void c110_sweep_leaves_other_instances(void **state)
{
    const char *theirs = "/run/" LOCAL_LINK_PREFIX "0123456789abcdef-00112233445566ff";
    struct stat st;
    struct box_run r;

    (void)state;
    rmdir(theirs); /* of a run that failed */
    assert_int_equal(mkdir(theirs, 0711), 0);
    sweep(false, false, &r);
    assert_string_equal(r.out.data, "");
    box_run_clear(&r);
    assert_int_equal(stat(theirs, &st), 0);
    sweep(true, true, &r);
    assert_non_null(strstr(r.out.data, theirs));
    box_run_clear(&r);
    assert_int_equal(rmdir(theirs), 0);
}

/* Twenty in a row: nothing may stay behind, not even a descriptor. */
static void nothing_is_left_behind(void **state)
{
    size_t fds = box_count_fds(), traces = box_traces(&env);
    int64_t times[20];

    (void)state;
    for (size_t i = 0; i < bg_countof(times); i++) {
        struct bg_error err;
        struct box_run r;
        int64_t begin = bg_mono_us();
        struct bg_sandbox *sb = box_make(&env, spec, NULL, NULL, &err);
        char *const argv[] = {(char *)"true", NULL};

        assert_non_null(sb);
        box_start(sb, &r, argv, NULL, 5000);
        assert_true(box_wait(env.loop, &r.done));
        times[i] = bg_mono_us() - begin;
        assert_int_equal(r.r.exit_code, 0);
        box_run_clear(&r);
        assert_true(box_destroy(&env, sb));
    }
    for (size_t i = 0; i < bg_countof(times); i++)
        for (size_t j = i + 1; j < bg_countof(times); j++)
            if (times[j] < times[i]) {
                int64_t t = times[i];
                times[i] = times[j];
                times[j] = t;
            }
    print_message("create and first run: p50 %.1f ms, max %.1f ms\n",
                  (double)times[10] / 1000, (double)times[19] / 1000);
    assert_int_equal(box_count_fds(), fds);
    assert_int_equal(box_traces(&env), traces);
}

#define FOR_EVERYBODY                                                           \
    cmocka_unit_test(stats_come_from_the_host),                                 \
        cmocka_unit_test(c037_killed_from_outside_is_lost),                     \
        cmocka_unit_test(c008_a_timed_out_call_leaves_nothing),                 \
        cmocka_unit_test(av08_a_missing_command_is_an_error),                   \
        cmocka_unit_test(quick_output_is_never_lost),                           \
        cmocka_unit_test(two_sandboxes_share_no_uid),                           \
        cmocka_unit_test(c110_sweep_removes_a_dead_servers_sandbox_only),       \
        cmocka_unit_test(c110_a_server_that_dies_in_a_creation_leaves_nothing), \
        cmocka_unit_test(nothing_is_left_behind)

int main(void)
{
    const struct CMUnitTest user_tests[] = {FOR_EVERYBODY};
    const struct CMUnitTest tests[] = {
        FOR_EVERYBODY,
        cmocka_unit_test(c110_sweep_leaves_other_instances),
        cmocka_unit_test(as_a_plain_user),
    };

    if (!is_root())
        return cmocka_run_group_tests_name("as a plain user", user_tests, set_up,
                                           tear_down);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

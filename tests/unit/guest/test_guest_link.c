/* SPDX-License-Identifier: MIT */
/* The real guest program, started as a plain process, over the real link. */
#include <fcntl.h>
#include <signal.h>

#include "core/base/values.h"
#include "core/guest/channel_int.h"
#include "tests/test.h"
#include "tests/unit/guest/fake_guest.h"

static struct bg_child *guest;
static int guest_ended;
static struct told t;

static void on_guest_exit(struct bg_child *c BG_UNUSED, int code BG_UNUSED,
                          int sig BG_UNUSED, void *data BG_UNUSED)
{
    guest_ended++;
}

static int setup(void **state)
{
    struct bg_error err;
    const char *prog = getenv("BOXGATE_GUEST");
    if (!prog || access(prog, X_OK) || fake_setup(state))
        return -1;
    bg_autofree char *link = bg_xasprintf("BOXGATE_LINK=%s", path);
    struct bg_child_opts o = {.file = prog, .argv = STRV(prog), .env = STRV(link)};
    listen_for(0, NULL);
    guest_ended = 0;
    guest = bg_child_spawn(loop, &o, on_guest_exit, NULL, &err);
    if (!guest)
        fail_msg("%s", err.msg);
    bg_channel_expect_pid(ch, bg_child_pid(guest));
    UNTIL(news.ready == 1);
    return 0;
}

static int teardown(void **state)
{
    bg_channel_shutdown(ch);
    UNTIL(guest_ended);
    bg_child_free(guest);
    assert_int_equal(news.lost, 0);
    return fake_teardown(state);
}

/* argv and env live as long as the program: a command copies them only when it starts. */
static struct bg_exec_spec sh(const char *script)
{
    static const char *argv[] = {"/bin/sh", "-c", NULL, NULL};
    static const char *env[] = {"PATH=/usr/bin:/bin", NULL};
    argv[2] = script;
    return (struct bg_exec_spec){.argv = (char *const *)argv,
                                 .env = (char *const *)env,
                                 .cwd = "/",
                                 .deadline_ms = 20000,
                                 .flow = BG_FLOW_TAIL,
                                 .uid = getuid(),
                                 .gid = getgid()};
}

static struct bg_exec *start_sh(const char *script)
{
    struct bg_exec_spec spec = sh(script);
    return start(&spec, &t);
}

static void start_with_input(const char *script, size_t n)
{
    struct bg_exec_spec spec = sh(script);
    bg_autofree char *in = bg_xcalloc(1, n);
    spec.input = in;
    spec.input_len = n;
    start(&spec, &t);
}

static void output_exit_and_cwd(void **state BG_UNUSED)
{
    start_sh("cd /usr; pwd; echo no >&2; exit 7");
    UNTIL(t.done);
    assert_true(t.ok);
    assert_int_equal(t.started, 1);
    assert_string_equal(t.head[0], "/usr\n");
    assert_string_equal(t.head[1], "no\n");
    assert_int_equal(t.result.exit_code, 7);
    start_sh("kill -SEGV $$");
    UNTIL(t.done);
    assert_int_equal(t.result.exit_code, 139);
    assert_int_equal(t.result.signal, SIGSEGV);
}

static void what_cant_start_is_an_error(void **state BG_UNUSED)
{
    struct bg_exec_spec s = {.argv = STRV("no-such-program"), .cwd = "/"};
    start(&s, &t);
    UNTIL(t.done);
    assert_int_equal(t.err.code, BG_ERR_COMMAND);
    assert_int_equal(t.err.sys, ENOENT);
    s.argv = STRV("/etc/passwd");
    start(&s, &t);
    UNTIL(t.done);
    assert_int_equal(t.err.code, BG_ERR_COMMAND);
    assert_int_equal(t.err.sys, EACCES);
    s.argv = STRV("/bin/true");
    s.cwd = "/no/such/folder";
    start(&s, &t);
    UNTIL(t.done);
    assert_int_equal(t.err.code, BG_ERR_PATH);
    assert_int_equal(t.started, 0);
}

/* Short programs in numbers: no frame of one may come in a state it must not. */
static void many_short_commands(void **state BG_UNUSED)
{
    static struct told u[16];
    for (int round = 0; round < 20; round++) {
        struct bg_exec_spec spec = sh("echo hi");
        for (size_t i = 0; i < bg_countof(u); i++)
            start(&spec, &u[i]);
        for (size_t i = 0; i < bg_countof(u); i++) {
            UNTIL(u[i].done);
            if (!u[i].ok)
                fail_msg("%s", u[i].err.msg);
            assert_int_equal(u[i].result.exit_code, 0);
            assert_string_equal(u[i].head[0], "hi\n");
        }
    }
    assert_int_equal(news.down, 0);
}

static void c001_input_nobody_reads(void **state BG_UNUSED)
{
    enum { FIVE_MIB = 5 << 20 };
    start_with_input("exit 0", FIVE_MIB);
    UNTIL(t.done);
    assert_true(t.ok);
    assert_int_equal(t.result.exit_code, 0);
    assert_int_equal(news.down, 0);
}

static void c002_input_comes_back_as_output(void **state BG_UNUSED)
{
    start_with_input("cat", BG_INPUT_MAX);
    UNTIL(t.done);
    assert_true(t.ok);
    assert_int_equal(t.bytes[0], BG_INPUT_MAX);
}

static void a_slow_owner_blocks_the_program(void **state BG_UNUSED)
{
    enum { TOTAL = 4 << 20 };
    struct bg_exec_spec spec = sh("head -c 4194304 /dev/zero");
    spec.flow = BG_FLOW_LOSSLESS;
    struct bg_exec *x = start(&spec, &t);
    uint64_t taken = 0;
    while (taken < TOTAL) {
        uint64_t want = TOTAL - taken < GP_CREDIT ? TOTAL - taken : GP_CREDIT;
        UNTIL(t.bytes[0] - taken == want);
        bg_loop_turn(loop, 5); /* nothing more comes */
        assert_int_equal(t.bytes[0] - taken, want);
        bg_exec_consumed(x, BG_STDOUT, want);
        taken += want;
    }
    UNTIL(t.done);
    assert_int_equal(t.result.exit_code, 0);
}

static void deadline_and_kill(void **state BG_UNUSED)
{
    int64_t begin = bg_mono_ms();
    struct bg_exec_spec spec = sh("trap '' TERM; sleep 100 & sleep 100");
    spec.deadline_ms = 200;
    start(&spec, &t);
    UNTIL(t.done);
    assert_true(t.ok && t.result.timed_out);
    assert_int_equal(t.result.exit_code, 124);
    assert_int_equal(t.result.leftover, 0);
    struct bg_exec *x = start_sh("sleep 100 & echo on; sleep 100");
    UNTIL(t.bytes[0]);
    bg_exec_kill(x, 0);
    UNTIL(t.done);
    assert_true(t.ok && t.result.killed);
    assert_int_equal(t.result.exit_code, 137);
    assert_true(bg_mono_ms() - begin < 8000);
}

/* The command goes on while there is no link; what it says meanwhile arrives with the next.
 */
static void a_live_command_outlasts_its_link(void **state BG_UNUSED)
{
    static const char script[] = "echo a; until [ -e \"$0\" ]; do sleep .02; done; echo b";
    bg_autofree char *flag = bg_xasprintf("%s/go", dir);
    struct bg_exec_spec spec = sh("");
    spec.argv = STRV("/bin/sh", "-c", script, flag);
    start(&spec, &t);
    UNTIL(t.bytes[0] == 2);
    shutdown(ch->fd, SHUT_RDWR);
    UNTIL(news.down == 1);
    bg_autoclose int fd = open(flag, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    UNTIL(t.done);
    unlink(flag);
    if (!t.ok)
        fail_msg("%s", t.err.msg);
    assert_int_equal(news.ready, 2);
    assert_int_equal(t.started, 1);
    assert_int_equal(t.result.exit_code, 0);
    assert_string_equal(t.head[0], "a\nb\n");
    assert_int_equal(t.gaps, 0);
}

/* Again and again in the middle of much output: all of it comes, or the gap is told. */
static void output_over_lost_links_is_whole_or_told(void **state BG_UNUSED)
{
    start_sh("i=0; while [ $i -lt 3000 ]; do echo 123456789; i=$((i+1)); done");
    for (int i = 1; i <= 4 && !t.done; i++) {
        uint64_t before = t.bytes[0];
        UNTIL(t.bytes[0] > before || t.done);
        if (ch->fd >= 0)
            shutdown(ch->fd, SHUT_RDWR);
        UNTIL(news.ready == i + 1);
    }
    UNTIL(t.done);
    if (!t.ok)
        fail_msg("%s", t.err.msg);
    assert_int_equal(t.result.exit_code, 0);
    assert_true(t.bytes[0] + t.gap_bytes <= 30000);
}

static void on_stats(void *data, const struct bg_guest_stats *s, const struct bg_error *err)
{
    *(struct bg_guest_stats *)data = s ? *s : (struct bg_guest_stats){.execs = 99};
    assert_null(err);
}

static void counters(void **state BG_UNUSED)
{
    struct bg_guest_stats s = {.execs = 77};
    start_sh("echo on; exec sleep 100");
    UNTIL(t.bytes[0]);
    bg_channel_stats(ch, on_stats, &s);
    UNTIL(s.execs != 77);
    assert_int_equal(s.execs, 1);
    assert_true(s.processes >= 1);
    assert_true(s.mem_bytes > 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(output_exit_and_cwd),
        T(what_cant_start_is_an_error),
        T(many_short_commands),
        T(c001_input_nobody_reads),
        T(c002_input_comes_back_as_output),
        T(a_slow_owner_blocks_the_program),
        T(deadline_and_kill),
        T(a_live_command_outlasts_its_link),
        T(output_over_lost_links_is_whole_or_told),
        T(counters),
    };
    return cmocka_run_group_tests_name("guest link", tests, NULL, NULL);
}

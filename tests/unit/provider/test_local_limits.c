/* SPDX-License-Identifier: MIT */
/*
 * Which limits hold, what is said of those that do not, and that an inspection sees a
 * change.
 */
#include <fcntl.h>

#include "tests/test.h"
#include "tests/unit/provider/local_shared.h"

/* Skips the test where no cgroup holds a limit. */
static struct bg_spec *spec_with_cgroups(void)
{
    if (!have_cgroups()) {
        print_message("no cgroups for this user: limits are reported as not enforced\n");
        skip();
    }
    return box_spec(&env);
}

static void c025_memory_limit_kills_and_is_told(void **state)
{
    struct bg_spec *s = spec_with_cgroups();
    struct bg_sandbox *sb;
    struct box_run r;

    (void)state;
    s->limits.memory_mb = 64;
    s->workspace_mb = 8;
    s->tmp_mb = 8;
    sb = box_of(s);
    box_sh(&env, sb, &r, "exec python3 -c 'x = bytearray(200 << 20)'");
    assert_int_equal(r.r.exit_code, 137);
    assert_true(r.r.oom);
    box_run_clear(&r);
    box_sh(&env, sb, &r,
           "sh -c \"exec python3 -c 'x = bytearray(200 << 20)'\"; echo inner $?");
    assert_string_equal(r.out.data, "inner 137\n");
    assert_int_equal(r.r.exit_code, 0);
    assert_true(r.r.oom);
    box_run_clear(&r);
    box_sh(&env, sb, &r, "kill -9 $$");
    assert_int_equal(r.r.exit_code, 137);
    assert_int_equal(r.r.signal, 9);
    assert_false(r.r.oom);
    box_run_clear(&r);
    assert_true(box_destroy(&env, sb));
    bg_spec_free(s);
}

static void pids_limit_stops_forks(void **state)
{
    struct bg_spec *s = spec_with_cgroups();
    struct bg_sandbox *sb;
    struct box_run r;

    (void)state;
    s->limits.pids = 20;
    sb = box_of(s);
    box_python(&env, sb, &r,
               "import os, time\n"
               "n = 0\n"
               "try:\n"
               "    while n < 100:\n"
               "        if os.fork() == 0:\n"
               "            time.sleep(60)\n"
               "        n += 1\n"
               "except BlockingIOError:\n"
               "    print(15 <= n <= 25)\n");
    assert_string_equal(r.out.data, "True\n");
    assert_true(r.r.leftover >= 15);
    box_run_clear(&r);
    assert_true(box_destroy(&env, sb)); /* with all of those still in it */
    bg_spec_free(s);
}

static void cpu_quota_holds(void **state)
{
    struct bg_spec *s = spec_with_cgroups();
    struct bg_sandbox *sb;
    struct box_run r;

    (void)state;
    s->limits.cpus_milli = 200;
    sb = box_of(s);
    box_python(&env, sb, &r,
               "import time\n"
               "w, c = time.monotonic(), time.process_time()\n"
               "while time.monotonic() - w < 1.5: pass\n"
               "print((time.process_time() - c) / (time.monotonic() - w) < 0.4)\n");
    assert_string_equal(r.out.data, "True\n");
    box_run_clear(&r);
    assert_true(box_destroy(&env, sb));
    bg_spec_free(s);
}

/* Where no cgroup holds the sum, each process is still held for itself. */
static void one_process_is_bounded_in_any_case(void **state)
{
    (void)state;
    python_prints("import resource\n"
                  "try:\n"
                  "    x = bytearray(600 << 20)\n"
                  "    print('got it')\n"
                  "except MemoryError:\n"
                  "    print('refused')\n"
                  "print(resource.getrlimit(resource.RLIMIT_CORE))\n",
                  have_cgroups() ? "" : "refused\n(0, 0)\n");
}

/* A server that is spared by the kernel makes no sandbox that is. */
static void no_sandbox_is_spared_for_memory(void **state)
{
    (void)state;
    sh_prints("test $(cat /proc/self/oom_score_adj) -ge 0 && echo not spared",
              "not spared\n");
}

static void strict_limits_refuse_what_cannot_be_held(void **state)
{
    struct bg_spec *s = box_spec(&env);
    struct bg_error err;

    (void)state;
    s->limits.strict = true;
    assert_int_equal(box_prepare(&env, s, &err), have_cgroups());
    if (!have_cgroups())
        assert_int_equal(err.code, BG_ERR_UNAVAILABLE);
    bg_spec_free(s);
}

static void inspect_is(const struct bg_spec *s, enum bg_errc code)
{
    struct box_flag f = {0};

    bg_provider_local.inspect(box, s, box_done, &f);
    assert_false(f.done);
    assert_true(box_wait(env.loop, &f.done));
    assert_int_equal(f.err.code, code);
}

static void inspect_finds_other_options(void **state)
{
    struct bg_spec *other = bg_spec_dup(spec);

    (void)state;
    inspect_is(spec, BG_OK);
    other->limits.memory_mb++;
    inspect_is(other, BG_ERR_BINDING);
    bg_spec_free(other);
}

static void inspect_finds_a_changed_limit(void **state)
{
    struct local_sandbox *s = (struct local_sandbox *)box;

    (void)state;
    if (!have_cgroups()) {
        print_message("no cgroup for this user\n");
        skip();
    }
    bg_autofree char *file = bg_path_join(s->group.dir[LOCAL_CTL_PIDS], "pids.max");
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "5000", 4), 4);
    inspect_is(spec, BG_ERR_BINDING);
    bg_autofree char *old =
        bg_xasprintf("%lld", (long long)local_pids_limit(&spec->limits));
    assert_int_equal(write(fd, old, strlen(old)), (ssize_t)strlen(old));
    close(fd);
    inspect_is(spec, BG_OK);
}

#define FOR_EVERYBODY                                               \
    cmocka_unit_test(one_process_is_bounded_in_any_case),           \
        cmocka_unit_test(no_sandbox_is_spared_for_memory),          \
        cmocka_unit_test(strict_limits_refuse_what_cannot_be_held), \
        cmocka_unit_test(inspect_finds_other_options)

int main(void)
{
    const struct CMUnitTest user_tests[] = {FOR_EVERYBODY};
    const struct CMUnitTest tests[] = {
        FOR_EVERYBODY,
        cmocka_unit_test(c025_memory_limit_kills_and_is_told),
        cmocka_unit_test(pids_limit_stops_forks),
        cmocka_unit_test(cpu_quota_holds),
        cmocka_unit_test(inspect_finds_a_changed_limit),
        cmocka_unit_test(as_a_plain_user),
    };

    if (!is_root())
        return cmocka_run_group_tests_name("as a plain user", user_tests, set_up,
                                           tear_down);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

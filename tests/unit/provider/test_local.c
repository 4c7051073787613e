/* SPDX-License-Identifier: MIT */
/*
 * What a local sandbox says it is, and what is visible inside.
 */
#include "tests/test.h"
#include "tests/unit/provider/local_shared.h"

/* ---- what a report and a spec say ---- */

static void report_tells_what_holds(void **state)
{
    const struct bg_provider_report *r = bg_provider_local.report(env.provider);

    (void)state;
    assert_true(r->available);
    assert_string_equal(r->name, "local");
    assert_non_null(strstr(r->version, "bubblewrap 0."));
    assert_null(r->why_not);
    if (have_cgroups()) {
        assert_null(r->not_enforced);
        assert_string_equal(r->enforced[0], "memory");
    } else {
        assert_string_equal(r->not_enforced[0], "memory");
    }
}

static void prepared_spec_is_complete(void **state)
{
    (void)state;
    assert_string_equal(spec->provider, "local");
    assert_string_equal(spec->image_id, "host");
    assert_string_equal(spec->user, "1000:1000");
    assert_true(spec->guest && spec->readonly_rootfs && spec->no_new_privileges);
    assert_int_equal(bg_strv_len(spec->not_enforced), bg_strv_len(box->not_enforced));
}

static void impossible_specs_are_refused(void **state)
{
    struct bg_error err;
    struct bg_spec *s = box_spec(&env);

    (void)state;
    free(s->network);
    s->network = bg_xstrdup("bridge");
    assert_false(box_prepare(&env, s, &err));
    assert_int_equal(err.code, BG_ERR_UNSUPPORTED);
    bg_spec_free(s);

    s = box_spec(&env);
    s->storage = BG_STORAGE_VOLUME;
    assert_false(box_prepare(&env, s, &err));
    assert_int_equal(err.code, BG_ERR_UNSUPPORTED);
    bg_spec_free(s);

    s = box_spec(&env);
    free(s->workdir);
    s->workdir = bg_xstrdup("/usr/lib");
    assert_false(box_prepare(&env, s, &err));
    assert_int_equal(err.code, BG_ERR_PATH);
    bg_spec_free(s);

    s = box_spec(&env);
    free(s->user);
    s->user = bg_xstrdup("root");
    assert_false(box_prepare(&env, s, &err));
    assert_int_equal(err.code, BG_ERR_UNSUPPORTED);
    bg_spec_free(s);
}

static void programs_are_those_of_the_host(void **state)
{
    (void)state;
    assert_int_equal(bg_provider_local.has_program(env.provider, spec, "python3"), 1);
    assert_int_equal(bg_provider_local.has_program(env.provider, spec, "/bin/sh"), 1);
    assert_int_equal(bg_provider_local.has_program(env.provider, spec, "no-such-prog"), 0);
    assert_int_equal(bg_provider_local.has_program(env.provider, spec, "../bin/sh"), 0);
}

/* ---- what is visible inside ---- */

static void identity_and_privileges(void **state)
{
    (void)state;
    sh_prints("id -u; id -g; id -un; hostname; pwd",
              "1000\n1000\nboxgate\nboxgate\n/workspace\n");
    sh_prints(
        "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t'",
        "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\n"
        "CapBnd:0000000000000000\nCapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n");
    sh_prints("cat /proc/1/comm; ls /proc/1/fd 2>/dev/null | wc -l", "guest\n0\n");
}

static void root_is_read_only_and_bare(void **state)
{
    (void)state;
    sh_prints("for d in / /usr /etc /dev /.boxgate /.boxgate/link; do "
              "touch $d/x 2>/dev/null && echo $d writable; done; echo end",
              "end\n");
    sh_prints("for d in /home /root /opt /var /run /sys /srv /mnt /boot; do "
              "test -e $d && echo $d visible; done; echo end",
              "end\n");
    sh_prints(
        "ls /etc/shadow /etc/hostname /etc/ssh /etc/passwd- 2>/dev/null; "
        "grep -c . /etc/passwd; rm /.boxgate/link/* 2>/dev/null && echo gone; echo end",
        "3\nend\n");
    sh_prints("echo x > /.boxgate/guest 2>/dev/null && echo written; "
              "chmod 777 /.boxgate/guest 2>/dev/null && echo changed; echo end",
              "end\n");
}

static void folders_have_their_sizes(void **state)
{
    (void)state;
    sh_prints("df -k --output=size /workspace /tmp /dev/shm | tail -n +2 | tr -d ' '",
              "180224\n65536\n16384\n");
    sh_prints("touch /tmp/a /dev/shm/b /workspace/c && stat -c %a /tmp /workspace; "
              "rm /tmp/a /dev/shm/b /workspace/c",
              "1777\n755\n");
    sh_prints("head -c 20000000 /dev/zero > /dev/shm/f 2>/dev/null || echo full; "
              "rm -f /dev/shm/f",
              "full\n");
    sh_prints("printf '#!/bin/sh\\necho ran\\n' > p && chmod +x p && ./p; rm p", "ran\n");
}

static void there_is_no_network(void **state)
{
    (void)state;
    python_prints(
        "import os, socket\n"
        "print(sorted(os.listdir('/proc/self/net'))[0] != '')\n"
        "print([l.split(':')[0].strip() for l in open('/proc/net/dev').readlines()[2:]])\n"
        "try:\n"
        "    socket.create_connection(('1.1.1.1', 80), 2)\n"
        "    print('connected')\n"
        "except OSError as e:\n"
        "    print(e.errno)\n",
        "True\n['lo']\n101\n");
}

static void processes_of_the_host_are_invisible(void **state)
{
    (void)state;
    sh_prints("ls /proc | grep -c '^[0-9]' | awk '{print ($1 < 10) ? \"few\" : $1}'",
              "few\n");
}

static void no_descriptor_leaks_in(void **state)
{
    (void)state;
    python_prints(
        "import os\nprint(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:4])\n",
        "[0, 1, 2, 3]\n"); /* 3 is the listing itself */
}

static void nested_user_namespaces_are_refused(void **state)
{
    (void)state;
    sh_prints("unshare -U true 2>/dev/null; echo $?; unshare -r true 2>/dev/null; echo $?",
              "1\n1\n");
}

#define FOR_EVERYBODY                                                                      \
    cmocka_unit_test(report_tells_what_holds),                                             \
        cmocka_unit_test(prepared_spec_is_complete),                                       \
        cmocka_unit_test(impossible_specs_are_refused),                                    \
        cmocka_unit_test(programs_are_those_of_the_host),                                  \
        cmocka_unit_test(identity_and_privileges),                                         \
        cmocka_unit_test(root_is_read_only_and_bare),                                      \
        cmocka_unit_test(folders_have_their_sizes), cmocka_unit_test(there_is_no_network), \
        cmocka_unit_test(processes_of_the_host_are_invisible),                             \
        cmocka_unit_test(no_descriptor_leaks_in),                                          \
        cmocka_unit_test(nested_user_namespaces_are_refused)

int main(void)
{
    const struct CMUnitTest user_tests[] = {FOR_EVERYBODY};
    const struct CMUnitTest tests[] = {
        FOR_EVERYBODY,
        cmocka_unit_test(as_a_plain_user),
    };

    if (!is_root())
        return cmocka_run_group_tests_name("as a plain user", user_tests, set_up,
                                           tear_down);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

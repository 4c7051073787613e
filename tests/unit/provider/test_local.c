/* SPDX-License-Identifier: MIT */
/*
 * Real bubblewrap sandboxes: what is visible inside, what is refused, which limits hold,
 * and that nothing is left of them. Runs as root and, started again by itself, as a plain
 * user.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/test.h"
#include "tests/unit/provider/local_box.h"

static struct box_env env;
static struct bg_spec *spec;
static struct bg_sandbox *box; /* shared by the tests that leave it as it was */

static bool is_root(void)
{
    return geteuid() == 0;
}

static bool have_cgroups(void)
{
    return ((struct local *)env.provider)->cgs.base[LOCAL_CTL_MEMORY] != NULL;
}

static int set_up(void **state)
{
    const struct bg_provider_report *r;
    struct bg_error err;

    (void)state;
    box_open(&env);
    r = bg_provider_local.report(env.provider);
    if (!r->available) {
        printf("local provider: %s; %s\n", r->why_not, r->remedy);
        return -1;
    }
    spec = box_spec(&env);
    if (!box_prepare(&env, spec, &err))
        return -1;
    box = box_make(&env, spec, NULL, NULL, &err);
    if (!box)
        printf("create: %s\n", err.msg);
    return box ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    if (!box) /* the set-up has said why */
        return 0;
    assert_true(box_destroy(&env, box));
    assert_int_equal(box_traces(&env), 0);
    assert_int_equal(box_processes(&env), 0);
    bg_spec_free(spec);
    box_close(&env);
    return 0;
}

/* Runs a script and compares all of its stdout. */
static void sh_prints(const char *script, const char *want)
{
    struct box_run r;

    box_sh(&env, box, &r, script);
    if (strcmp(r.out.data, want) != 0)
        printf("stderr: %s; error: %s\n", r.err.data, r.error.msg);
    assert_string_equal(r.out.data, want);
    box_run_clear(&r);
}

static void python_prints(const char *program, const char *want)
{
    struct box_run r;

    box_python(&env, box, &r, program);
    if (strcmp(r.out.data, want) != 0)
        printf("exit %d, stderr: %s; error: %s\n", r.r.exit_code, r.err.data, r.error.msg);
    assert_string_equal(r.out.data, want);
    box_run_clear(&r);
}

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

/* ---- limits ---- */

static void c025_memory_limit_kills_and_is_told(void **state)
{
    struct bg_spec *s = box_spec(&env);
    struct bg_sandbox *sb;
    struct bg_error err;
    struct box_run r;

    (void)state;
    if (!have_cgroups()) {
        print_message(
            "no memory cgroup for this user: limits are reported as not enforced\n");
        bg_spec_free(s);
        skip();
    }
    s->limits.memory_mb = 64;
    s->workspace_mb = 8;
    s->tmp_mb = 8;
    assert_true(box_prepare(&env, s, &err));
    sb = box_make(&env, s, NULL, NULL, &err);
    assert_non_null(sb);
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
    struct bg_spec *s = box_spec(&env);
    struct bg_sandbox *sb;
    struct bg_error err;
    struct box_run r;

    (void)state;
    if (!have_cgroups()) {
        print_message("no pids cgroup for this user\n");
        bg_spec_free(s);
        skip();
    }
    s->limits.pids = 20;
    assert_true(box_prepare(&env, s, &err));
    sb = box_make(&env, s, NULL, NULL, &err);
    assert_non_null(sb);
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
    struct bg_spec *s = box_spec(&env);
    struct bg_sandbox *sb;
    struct bg_error err;
    struct box_run r;

    (void)state;
    if (!have_cgroups()) {
        print_message("no cpu cgroup for this user\n");
        bg_spec_free(s);
        skip();
    }
    s->limits.cpus_milli = 200;
    assert_true(box_prepare(&env, s, &err));
    sb = box_make(&env, s, NULL, NULL, &err);
    assert_non_null(sb);
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

/* ---- life cycle ---- */

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

/* A server with the same folders, in a process that ends in the middle of a creation. */
static void die_after(int64_t us)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct box_env e = {.loop = bg_loop_new(), .config = env.config};
        const struct bg_provider_env pe = {.loop = e.loop,
                                           .config = env.config,
                                           .paths = &env.paths,
                                           .guest_path = env.guest,
                                           .instance = env.instance};
        int64_t until = bg_mono_us() + us;
        bg_provider_local.open(&pe, box_opened, &e); /* the trial run is a creation, too */
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
        struct box_env e = {.loop = bg_loop_new(), .config = env.config};
        const struct bg_provider_env pe = {.loop = e.loop,
                                           .config = env.config,
                                           .paths = &env.paths,
                                           .guest_path = env.guest,
                                           .instance = env.instance};
        struct bg_error err;
        e.provider = bg_provider_local.open(&pe, box_opened, &e);
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

/* The same as a plain user, in a process of its own. */
static void as_a_plain_user(void **state)
{
    char self[4096];
    ssize_t n;
    int status = -1;
    pid_t pid;

    (void)state;
    n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    pid = fork();
    if (pid == 0) {
        execlp("setpriv", "setpriv", "--reuid", "65534", "--regid", "65534",
               "--clear-groups", "--inh-caps=-all", "--", self, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
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
        cmocka_unit_test(nested_user_namespaces_are_refused),                              \
        cmocka_unit_test(one_process_is_bounded_in_any_case),                              \
        cmocka_unit_test(no_sandbox_is_spared_for_memory),                                 \
        cmocka_unit_test(strict_limits_refuse_what_cannot_be_held),                        \
        cmocka_unit_test(inspect_finds_other_options),                                     \
        cmocka_unit_test(stats_come_from_the_host),                                        \
        cmocka_unit_test(c037_killed_from_outside_is_lost),                                \
        cmocka_unit_test(c008_a_timed_out_call_leaves_nothing),                            \
        cmocka_unit_test(av08_a_missing_command_is_an_error),                              \
        cmocka_unit_test(quick_output_is_never_lost),                                      \
        cmocka_unit_test(two_sandboxes_share_no_uid),                                      \
        cmocka_unit_test(c110_sweep_removes_a_dead_servers_sandbox_only),                  \
        cmocka_unit_test(c110_a_server_that_dies_in_a_creation_leaves_nothing),            \
        cmocka_unit_test(nothing_is_left_behind)

int main(void)
{
    const struct CMUnitTest user_tests[] = {FOR_EVERYBODY};
    const struct CMUnitTest tests[] = {
        FOR_EVERYBODY,
        cmocka_unit_test(c025_memory_limit_kills_and_is_told),
        cmocka_unit_test(pids_limit_stops_forks),
        cmocka_unit_test(cpu_quota_holds),
        cmocka_unit_test(inspect_finds_a_changed_limit),
        cmocka_unit_test(c110_sweep_leaves_other_instances),
        cmocka_unit_test(as_a_plain_user),
    };

    if (geteuid() != 0)
        return cmocka_run_group_tests_name("as a plain user", user_tests, set_up,
                                           tear_down);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

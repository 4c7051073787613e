/* SPDX-License-Identifier: MIT */
/*
 * The local provider's parts alone: where cgroups lie, uids that nobody shares, records,
 * what a sweep takes and leaves, processes known by pid and start time, and what bwrap
 * really says where it can't work.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/base/clock.h"
#include "core/provider/local/local.h"
#include "tests/test.h"

static char tree[64];

static void put(const char *rel, const char *text)
{
    bg_autofree char *path = bg_path_join(tree, rel);
    char *slash = strrchr(path, '/');
    struct bg_error err;

    *slash = '\0';
    assert_true(bg_mkdir_p(path, 0755, &err));
    *slash = '/';
    assert_true(bg_write_file_atomic(path, text, strlen(text), 0644, &err));
}

static int set_up(void **state)
{
    (void)state;
    bg_digest_init();
    strcpy(tree, "/tmp/bg-parts-XXXXXX");
    return mkdtemp(tree) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return bg_rm_rf(tree, NULL) ? 0 : -1;
}

/* ---- where cgroups lie ---- */

static void base_is(const struct local_cgroups *c, enum local_ctl i, const char *rel)
{
    bg_autofree char *want = bg_path_join(tree, rel);

    assert_non_null(c->base[i]);
    assert_string_equal(c->base[i], want);
}

static void v1_lies_below_the_servers_own_path(void **state)
{
    const struct local_host root = {.root = true};
    struct local_cgroups c;

    (void)state;
    put("proc/self/cgroup",
        "9:name=systemd:/\n8:pids:/\n4:memory:/box/inner\n2:cpu,cpuacct:/a\n0::/\n");
    put("proc/self/mountinfo",
        "30 29 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
        "31 29 0:27 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "32 29 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 29 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("sys/fs/cgroup/pids/pids.max", "");
    put("sys/fs/cgroup/memory/inner/memory.memsw.limit_in_bytes", "");
    put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "");
    local_cgroups_find(&c, &root, tree);
    assert_int_equal(c.mode, LOCAL_CG_V1);
    base_is(&c, LOCAL_CTL_MEMORY, "sys/fs/cgroup/memory/inner"); /* less the mount's root */
    base_is(&c, LOCAL_CTL_PIDS, "sys/fs/cgroup/pids");
    base_is(&c, LOCAL_CTL_CPU, "sys/fs/cgroup/cpu/a");
    assert_true(c.memsw);
    local_cgroups_clear(&c);
    /* A path outside of what is mounted here is none. */
    put("proc/self/cgroup", "4:memory:/other\n");
    local_cgroups_find(&c, &root, tree);
    assert_int_equal(c.mode, LOCAL_CG_NONE);
    local_cgroups_clear(&c);
}

static void v2_lies_where_controllers_are_given(void **state)
{
    const struct local_host root = {.root = true}, user = {.root = false},
                            bus = {.root = false,
                                   .systemd_run = (char *)"/usr/bin/systemd-run"};
    struct local_cgroups c;

    (void)state;
    put("proc/self/cgroup", "0::/sys.slice/x.service\n");
    put("proc/self/mountinfo", "33 29 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("sys/fs/cgroup/cgroup.subtree_control", "cpuset cpu io memory pids\n");
    put("sys/fs/cgroup/sys.slice/cgroup.subtree_control", "cpu memory pids\n");
    put("sys/fs/cgroup/sys.slice/x.service/cgroup.procs", "1\n");
    local_cgroups_find(&c, &root, tree);
    assert_int_equal(c.mode, LOCAL_CG_V2);
    base_is(&c, LOCAL_CTL_MEMORY, "sys/fs/cgroup/sys.slice");
    base_is(&c, LOCAL_CTL_CPU, "sys/fs/cgroup/sys.slice");
    local_cgroups_clear(&c);
    /* A user has none of it, but may have a scope. */
    local_cgroups_find(&c, &user, tree);
    assert_int_equal(c.mode, LOCAL_CG_NONE);
    local_cgroups_clear(&c);
    local_cgroups_find(&c, &bus, tree);
    assert_int_equal(c.mode, LOCAL_CG_SCOPE);
    base_is(&c, LOCAL_CTL_MEMORY, "sys/fs/cgroup");
    local_cgroups_clear(&c);
}

static void without_cgroups_every_limit_is_not_enforced(void **state)
{
    const struct bg_limits l = {.memory_mb = 64, .pids = BG_UNLIMITED, .cpus_milli = 500};
    const struct local_cgroups none = {.mode = LOCAL_CG_NONE};
    struct local_cgroup g;
    char **missing = NULL;
    struct bg_error err;
    uint64_t n;

    (void)state;
    assert_true(local_cgroup_make(&g, &none, "boxgate-x-y", &l, &err));
    local_cgroup_check(&g, &l, getpid(), &missing);
    assert_int_equal(bg_strv_len(missing), 2); /* what is unlimited can't be missing */
    assert_string_equal(missing[0], "memory");
    assert_string_equal(missing[1], "cpu");
    assert_false(local_cgroup_oom(&g, &n));
    assert_true(local_cgroup_remove(&g));
    bg_strv_free(missing);
    local_cgroup_clear(&g);
}

/* ---- the filters ---- */

static void filters_compile_and_are_sealed(void **state)
{
    (void)state;
    for (int f = 0; f < LOCAL_FILTER_COUNT; f++) {
        struct bg_error err;
        struct stat st;
        bg_autoclose int fd = local_seccomp_fd((enum local_filter)f, &err);
        bg_autoclose int again = fd >= 0 ? local_data_reopen(fd, &err) : -1;
        assert_true(fd >= 0 && again >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        assert_true(st.st_size > 0 && st.st_size % 8 == 0); /* whole instructions */
        assert_true(st.st_size / 8 <= 4096);                /* the kernel's limit */
        assert_int_equal(write(fd, "x", 1), -1);
    }
}

/* ---- uids ---- */

static void no_uid_is_given_twice(void **state)
{
    bg_autofree char *dir = bg_path_join(tree, "uid");
    struct local_uid a, b, c;
    struct bg_error err;

    (void)state;
    assert_true(local_uid_take(&a, dir, 500000, &err));
    assert_int_equal(a.uid, 500000);
    assert_true(local_uid_take(&b, dir, 500000, &err));
    assert_int_equal(b.uid, 500001);
    local_uid_release(&a);
    assert_true(local_uid_take(&c, dir, 500000, &err));
    assert_int_equal(c.uid, 500000); /* free again */
    local_uid_release(&c);
    local_uid_release(&b);
    local_uid_release(&b); /* twice is fine */
    assert_int_equal(rmdir(dir), 0);
}

/* A server that died: its lock is free, but the sandbox's processes may live on. */
static void a_uid_with_processes_is_not_free(void **state)
{
    bg_autofree char *dir = bg_path_join(tree, "uid2");
    bg_autofree char *stale = bg_xasprintf("%s/%u", dir, (unsigned)geteuid());
    bg_autofree char *unused = bg_xasprintf("%s/%u", dir, (unsigned)geteuid() + 400000);
    struct local_uid u;
    struct bg_error err;

    (void)state;
    assert_true(bg_dir_private(dir, &err));
    assert_true(bg_write_file_atomic(stale, "", 0, 0600, &err));
    assert_true(bg_write_file_atomic(unused, "", 0, 0600, &err));
    assert_true(local_uid_take(&u, dir, geteuid(), &err)); /* this test has that uid */
    assert_int_equal(u.uid, geteuid() + 1);
    local_uid_release(&u);
    assert_true(local_uid_take(&u, dir, geteuid() + 400000, &err));
    assert_int_equal(u.uid, geteuid() + 400000);
    local_uid_release(&u);
}

static void *sleep_on(void *unused)
{
    pause();
    return unused;
}

/* A child with that uid whose first thread has ended: of one thread, or with another left.
 */
static pid_t ended_child(uint32_t uid, bool thread_left)
{
    pthread_t t;
    pid_t pid = fork();
    if (pid == 0) {
        if (setresuid(uid, uid, uid) != 0 ||
            (thread_left && pthread_create(&t, NULL, sleep_on, NULL) != 0))
            _exit(1);
        if (!thread_left)
            _exit(0);
        pthread_exit(NULL);
    }
    while (local_start_time(pid) != 0) /* until it is a zombie by name */
        usleep(1000);
    return pid;
}

static void a_uid_of_the_dead_is_free(void **state)
{
    enum { BASE = 510000 };
    bg_autofree char *dir = bg_path_join(tree, "uid4");
    struct local_uid u;
    struct bg_error err;

    (void)state;
    if (geteuid() != 0) {
        print_message("needs root\n");
        skip();
    }
    assert_true(bg_dir_private(dir, &err));
    for (int thread_left = 0; thread_left < 2; thread_left++) {
        bg_autofree char *stale = bg_xasprintf("%s/%d", dir, BASE);
        assert_true(bg_write_file_atomic(stale, "", 0, 0600, &err));
        pid_t pid = ended_child(BASE, thread_left);
        assert_true(local_uid_take(&u, dir, BASE, &err));
        assert_int_equal(u.uid, BASE + thread_left);
        local_uid_release(&u);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

static void the_last_uid_is_never_minus_one(void **state)
{
    bg_autofree char *dir = bg_path_join(tree, "uid3");
    struct local_uid u[3];
    struct bg_error err;

    (void)state;
    assert_true(local_uid_take(&u[0], dir, UINT32_MAX - 2, &err));
    assert_true(local_uid_take(&u[1], dir, UINT32_MAX - 2, &err));
    assert_int_equal(u[1].uid, UINT32_MAX - 1);
    assert_false(local_uid_take(&u[2], dir, UINT32_MAX - 2, &err));
    assert_int_equal(err.code, BG_ERR_LIMIT);
    local_uid_release(&u[0]);
    local_uid_release(&u[1]);
}

/* ---- processes ---- */

static pid_t sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        execlp("sleep", "sleep", "100", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void a_pid_alone_is_not_enough_to_kill(void **state)
{
    pid_t pid = sleeper();
    uint64_t start = local_start_time(pid);
    int status;

    (void)state;
    assert_true(start > 0);
    assert_int_equal(local_parent_of(pid), getpid());
    assert_false(local_kill_exact(pid, start + 1, SIGKILL));
    assert_false(local_kill_exact(pid, 0, SIGKILL));
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    assert_true(local_kill_exact(pid, start, SIGKILL));
    assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_int_equal(local_start_time(pid), 0); /* a zombie is gone */
    waitpid(pid, &status, 0);
    assert_int_equal(local_start_time(pid), 0);
    assert_false(local_kill_exact(1, local_start_time(1), 0));
}

/* ---- records and sweeping ---- */

static struct local_sweep a_sweep(const char *records, const char *links,
                                  const struct local_cgroups *c)
{
    return (struct local_sweep){.instance = "aaaabbbbccccddddeeeeffff00001111",
                                .record_dir = records,
                                .link_parent = links,
                                .cgs = c};
}

static void records_survive_a_round_trip(void **state)
{
    bg_autofree char *dir = bg_path_join(tree, "rec");
    const struct local_record r = {
        .ref = (char *)"0123abcd",
        .link = (char *)"/run/x",
        .group = (char *)"boxgate-a-b",
        .dirs = {(char *)"/sys/fs/cgroup/a b/boxgate-a-b", NULL, (char *)"/c/boxgate-a-b"},
        .maker = 7,
        .maker_start = 8,
        .monitor = 12,
        .child = 34,
        .monitor_start = 56,
        .child_start = UINT64_MAX};
    struct local_record got;
    struct bg_error err;

    (void)state;
    assert_true(bg_dir_private(dir, &err));
    assert_true(local_record_write(dir, &r, &err));
    assert_true(local_record_read(dir, "0123abcd", &got, &err));
    assert_string_equal(got.link, "/run/x");
    assert_string_equal(got.group, "boxgate-a-b");
    assert_string_equal(got.dirs[0], "/sys/fs/cgroup/a b/boxgate-a-b");
    assert_null(got.dirs[1]);
    assert_string_equal(got.dirs[2], "/c/boxgate-a-b");
    assert_int_equal(got.monitor, 12);
    assert_int_equal(got.child, 34);
    assert_true(got.child_start == UINT64_MAX && got.monitor_start == 56);
    assert_true(got.maker == 7 && got.maker_start == 8);
    local_record_clear(&got);
    local_record_remove(dir, "0123abcd");
    assert_false(local_record_read(dir, "0123abcd", &got, &err));
    put("rec/bad", "nonsense\n");
    assert_false(local_record_read(dir, "bad", &got, &err));
    /* A folder that is not the group's own is not believed. */
    put("rec/bad", "link=/l\ngroup=boxgate-a-b\ncgroup=0 /sys/fs/cgroup/other\n");
    assert_true(local_record_read(dir, "bad", &got, &err));
    assert_null(got.dirs[0]);
    local_record_clear(&got);
    local_record_remove(dir, "bad");
}

/* C110: pids were given anew since, a link path that is not ours, another instance's
 * folder. */
static void c110_sweep_believes_no_pid_and_no_path(void **state)
{
    bg_autofree char *records = bg_path_join(tree, "sw/rec"),
                     *links = bg_path_join(tree, "sw/links");
    bg_autofree char *victim = bg_path_join(tree, "sw/precious");
    bg_autofree char *mine =
        bg_path_join(tree, "sw/links/boxgate-link-aaaabbbbccccdddd-1111");
    bg_autofree char *other =
        bg_path_join(tree, "sw/links/boxgate-link-0000111122223333-1111");
    bg_autofree char *named = bg_path_join(tree, "sw/links/boxgate-link-notes");
    const struct local_cgroups none = {.mode = LOCAL_CG_NONE};
    struct local_sweep s = a_sweep(records, links, &none);
    pid_t pid = sleeper();
    const struct local_record r = {.ref = (char *)"feed",
                                   .link = victim,
                                   .group = (char *)"boxgate-aaaabbbbccccdddd-feed",
                                   .monitor = pid,
                                   .child = pid,
                                   .monitor_start = 1, /* another process had that pid */
                                   .child_start = 1};
    struct bg_error err;
    struct stat st;

    (void)state;
    put("sw/precious/f", "x");
    put("sw/links/boxgate-link-aaaabbbbccccdddd-1111/f", "x");
    put("sw/links/boxgate-link-0000111122223333-1111/f", "x");
    put("sw/links/boxgate-link-notes/f", "x");
    assert_true(bg_dir_private(records, &err));
    assert_true(local_record_write(records, &r, &err));
    local_sweep_list(&s);
    local_sweep_run(&s);
    assert_int_equal(bg_strv_len(s.names), 2);
    local_sweep_clear(&s);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* alive */
    assert_int_equal(stat(victim, &st), 0);
    assert_int_equal(stat(other, &st), 0);
    assert_int_equal(stat(named, &st), 0);
    assert_int_equal(stat(mine, &st), -1);
    s = a_sweep(records, links, &none);
    s.foreign = true;
    local_sweep_list(&s);
    local_sweep_run(&s);
    assert_int_equal(bg_strv_len(s.names), 1);
    local_sweep_clear(&s);
    assert_int_equal(stat(other, &st), -1);
    assert_int_equal(stat(named, &st), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static size_t swept(const char *records, const char *links)
{
    const struct local_cgroups none = {.mode = LOCAL_CG_NONE};
    struct local_sweep s = a_sweep(records, links, &none);
    s.link_private = true;
    local_sweep_list(&s);
    local_sweep_run(&s);
    size_t n = bg_strv_len(s.names);
    local_sweep_clear(&s);
    return n;
}

/* A doctor's trial while a server starts in the same folders. */
static void c110_sweep_spares_what_a_living_process_makes(void **state)
{
    bg_autofree char *records = bg_path_join(tree, "sp/rec"),
                     *links = bg_path_join(tree, "sp/links"),
                     *link = bg_path_join(links, "cafe");
    pid_t pid = sleeper();
    struct local_record r = {.ref = (char *)"cafe",
                             .link = link,
                             .group = (char *)"boxgate-0000111122223333-cafe",
                             .maker = pid,
                             .maker_start = local_start_time(pid)};
    struct bg_error err;
    struct stat st;

    (void)state;
    put("sp/links/cafe/f", "x");
    assert_true(bg_dir_private(records, &err));
    assert_true(local_record_write(records, &r, &err));
    assert_int_equal(swept(records, links), 0);
    assert_int_equal(stat(link, &st), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(swept(records, links), 2);
    assert_int_equal(stat(link, &st), -1);
}

/* ---- obstacles, for real ---- */

/* Runs a shell line in namespaces of its own and gives what it wrote to stderr. */
static void stderr_of(const char *line, char *text, size_t size)
{
    int p[2];
    ssize_t n, at = 0;
    pid_t pid;

    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        dup2(p[1], 2);
        execlp("sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    close(p[1]);
    while ((n = read(p[0], text + at, size - 1 - (size_t)at)) > 0)
        at += n;
    text[at] = '\0';
    close(p[0]);
    waitpid(pid, NULL, 0);
}

#define BWRAP                                                                    \
    "bwrap --unshare-all --unshare-user --disable-userns --uid 1000 --gid 1000 " \
    "--ro-bind / / --proc /proc true"

static void real_obstacles_get_their_remedy(void **state)
{
    static const struct {
        const char *line, *why;
    } t[] = {
        {"exec unshare -U --map-root-user sh -c "
         "'echo 0 > /proc/sys/user/max_user_namespaces; exec " BWRAP "'",
         "max_user_namespaces"},
        /* as a container masks it */
        {"exec unshare -Urm sh -c 'mount -t tmpfs x /proc/fs; exec " BWRAP "'", "masked"},
        {"exec bwrap --no-such-option true", "too old"},
    };
    struct local_host h;

    (void)state;
    local_host_find(&h, "");
    for (size_t i = 0; i < bg_countof(t); i++) {
        char text[1024];
        struct local_trial_facts f = {.host = &h,
                                      .guest_found = true,
                                      .stderr_text = text,
                                      .apparmor_userns = -1,
                                      .userns_clone = -1,
                                      .max_userns = 1000};
        stderr_of(t[i].line, text, sizeof text);
        bg_autofree char *why = NULL, *remedy = NULL;
        local_trial_advice(&f, &why, &remedy);
        if (!strstr(why, t[i].why))
            printf("%s: %s\n", t[i].line, why);
        assert_non_null(strstr(why, t[i].why));
        assert_true(strlen(remedy) > 10);
    }
    local_host_clear(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v1_lies_below_the_servers_own_path),
        cmocka_unit_test(v2_lies_where_controllers_are_given),
        cmocka_unit_test(without_cgroups_every_limit_is_not_enforced),
        cmocka_unit_test(filters_compile_and_are_sealed),
        cmocka_unit_test(no_uid_is_given_twice),
        cmocka_unit_test(a_uid_with_processes_is_not_free),
        cmocka_unit_test(a_uid_of_the_dead_is_free),
        cmocka_unit_test(the_last_uid_is_never_minus_one),
        cmocka_unit_test(a_pid_alone_is_not_enough_to_kill),
        cmocka_unit_test(records_survive_a_round_trip),
        cmocka_unit_test(c110_sweep_believes_no_pid_and_no_path),
        cmocka_unit_test(c110_sweep_spares_what_a_living_process_makes),
        cmocka_unit_test(real_obstacles_get_their_remedy),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

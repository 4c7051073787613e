/* SPDX-License-Identifier: MIT */
/* core/loop: children (descriptors, environment, signals, reaping) and workers. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/loop/loop.h"
#include "tests/test.h"

/* A vector of literals, which execve's own type takes for writable. */
#define STRV(...) ((char *const *)(const char *const[]){__VA_ARGS__, NULL})

static struct bg_loop *loop;

static int setup(void **state BG_UNUSED)
{
    loop = bg_loop_new();
    return 0;
}

static int teardown(void **state BG_UNUSED)
{
    bg_loop_free(loop);
    return 0;
}

struct end {
    int calls, code, signal;
};

static void on_end(struct bg_child *c, int code, int sig, void *data)
{
    struct end *e = data;
    e->calls++;
    e->code = code;
    e->signal = sig;
    assert_false(bg_child_kill(c, SIGKILL));
    bg_child_free(c);
}

/* Runs sh -c script with stdout in a pipe, wherever that lies; returns the output. */
static const char *sh(const char *script, char *const *env, const char *cwd, struct end *e)
{
    static char out[4096];
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    int fds[] = {-1, p[1], -1};
    struct bg_child_opts o = {.file = "/bin/sh",
                              .argv = STRV("sh", "-c", script),
                              .env = env,
                              .cwd = cwd,
                              .fds = fds,
                              .n_fds = 3};
    struct bg_child *c = bg_child_spawn(loop, &o, on_end, e, NULL);
    assert_non_null(c);
    assert_true(bg_child_pid(c) > 0);
    close(p[1]);
    size_t n = 0;
    for (ssize_t r; (r = read(p[0], out + n, sizeof out - 1 - n)) > 0;)
        n += (size_t)r;
    out[n] = 0;
    close(p[0]);
    while (!e->calls)
        bg_loop_turn(loop, 1000);
    return out;
}

static void child_reports_its_exit_once(void **state BG_UNUSED)
{
    struct end e = {0};
    assert_string_equal(sh("pwd; exit 7", NULL, NULL, &e), "/\n");
    assert_int_equal(e.calls, 1);
    assert_int_equal(e.code, 7);
    assert_int_equal(e.signal, 0);
    e = (struct end){0};
    assert_string_equal(sh("pwd; kill -9 $$", NULL, "/usr", &e), "/usr\n");
    assert_int_equal(e.signal, SIGKILL);
}

static void child_has_only_its_descriptors(void **state BG_UNUSED)
{
    struct end e = {0};
    bg_autoclose int leaky =
        dup2(STDERR_FILENO, 77); /* without O_CLOEXEC, as others may do */
    assert_int_equal(leaky, 77);
    int inherit[2];
    assert_int_equal(pipe2(inherit, O_CLOEXEC), 0);
    /* 3 is the shell's own, for the folder. */
    assert_string_equal(
        sh("echo /proc/self/fd/*", NULL, NULL, &e),
        "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n");
    close(inherit[0]);
    close(inherit[1]);
}

static void child_descriptors_may_cross(void **state BG_UNUSED)
{
    struct end e = {0};
    int a[2], b[2];
    assert_int_equal(pipe2(a, O_CLOEXEC), 0);
    assert_int_equal(pipe2(b, O_CLOEXEC), 0);
    /* The child's 1 is our b, its 5 is our a, 3 and 4 are gaps. */
    int fds[] = {-1, b[1], 2, -1, -1, a[1]};
    struct bg_child_opts o = {
        .file = "/bin/sh",
        .argv =
            STRV("sh", "-c", "echo five >&5; echo one; echo x 2>/dev/null >&4 || echo gap"),
        .fds = fds,
        .n_fds = 6};
    struct bg_child *c = bg_child_spawn(loop, &o, on_end, &e, NULL);
    assert_non_null(c);
    close(a[1]);
    close(b[1]);
    while (!e.calls)
        bg_loop_turn(loop, 1000);
    char buf[64] = "";
    assert_int_equal(read(a[0], buf, sizeof buf - 1), 5);
    assert_string_equal(buf, "five\n");
    memset(buf, 0, sizeof buf);
    assert_int_equal(read(b[0], buf, sizeof buf - 1), 8);
    assert_string_equal(buf, "one\ngap\n");
    close(a[0]);
    close(b[0]);
}

static void child_environment_is_the_given_one(void **state BG_UNUSED)
{
    struct end e = {0};
    char *const *env = STRV("PATH=/usr/bin:/bin", "A=b c");
    assert_string_equal(sh("env | grep -v '^_=' | grep -v '^PWD=' | sort", env, NULL, &e),
                        "A=b c\nPATH=/usr/bin:/bin\n");
}

static void child_is_found_in_the_path_of_its_own_environment(void **state BG_UNUSED)
{
    char dir[] = "/tmp/bg-child-XXXXXX";
    assert_non_null(mkdtemp(dir));
    bg_autofree char *prog = bg_xasprintf("%s/bg-test-prog", dir);
    bg_autoclose int fd = open(prog, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
    assert_true(write(fd, "#!/bin/sh\nexit 9\n", 17) == 17);
    close(bg_steal_fd(&fd));
    bg_autofree char *path = bg_xasprintf("PATH=/nowhere:%s", dir);
    struct end e = {0};
    struct bg_error err = {0};
    struct bg_child_opts o = {
        .file = "bg-test-prog", .argv = STRV("bg-test-prog"), .env = STRV(path)};
    assert_non_null(bg_child_spawn(loop, &o, on_end, &e, &err));
    while (!e.calls)
        bg_loop_turn(loop, 1000);
    assert_int_equal(e.code, 9);
    o.env = STRV("PATH=/nowhere");
    assert_null(bg_child_spawn(loop, &o, on_end, &e, &err));
    assert_int_equal(err.code, BG_ERR_COMMAND);
    assert_int_equal(err.sys, ENOENT);
    unlink(prog);
    rmdir(dir);
}

static void child_has_default_signals_and_may_lead_a_session(void **state BG_UNUSED)
{
    struct end e = {0};
    signal(SIGUSR2, SIG_IGN);
    /* Nothing ignored, nothing blocked, though we ignore SIGPIPE and SIGUSR2. Signals 32
     * and 33 are the C library's own: whoever make started has them ignored, and no libc
     * call changes that. By exec, because a shell that waits blocks some. */
    const char *out = sh("exec grep -E '^Sig(Ign|Blk)' /proc/self/status", NULL, NULL, &e);
    unsigned long long blocked = 1, ignored = 1;
    assert_int_equal(sscanf(out, "SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
    assert_true(blocked == 0);
    assert_true((ignored & ~0x180000000ULL) == 0);
    signal(SIGUSR2, SIG_DFL);
    struct bg_child_opts o = {.file = "sleep",
                              .argv = STRV("sleep", "100"),
                              .env = STRV("PATH=/bin:/usr/bin"),
                              .new_session = true};
    e = (struct end){0};
    struct bg_child *c = bg_child_spawn(loop, &o, on_end, &e, NULL);
    assert_int_equal(getsid(bg_child_pid(c)), bg_child_pid(c));
    assert_true(bg_child_kill(c, SIGTERM));
    while (!e.calls)
        bg_loop_turn(loop, 1000);
    assert_int_equal(e.signal, SIGTERM);
}

static void forgotten_child_is_reaped_and_not_told(void **state BG_UNUSED)
{
    struct end e = {0};
    struct bg_child_opts o = {.file = "/bin/sh", .argv = STRV("sh", "-c", "exit 3")};
    struct bg_child *c = bg_child_spawn(loop, &o, on_end, &e, NULL);
    pid_t pid = bg_child_pid(c);
    bg_child_free(c);
    bg_child_free(NULL);
    for (int i = 0; i < 500 && kill(pid, 0) == 0; i++)
        bg_loop_turn(loop, 10);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    assert_int_equal(e.calls, 0);
}

/* ---- workers ---- */

struct task {
    struct bg_serial *s;
    int *next; /* written by works, one after another */
    int seen, dones;
    pthread_t thread;
};

static void task_work(void *data)
{
    struct task *t = data;
    t->thread = pthread_self();
    usleep(500);
    t->seen = ++*t->next;
}

static void task_done(void *data)
{
    ((struct task *)data)->dones++;
}

static void task_done_and_free_queue(void *data)
{
    struct task *t = data;
    t->dones++;
    bg_serial_free(t->s);
}

static void work_runs_elsewhere_and_done_here(void **state BG_UNUSED)
{
    int next = 0;
    struct task t = {.next = &next};
    bg_work(loop, task_work, task_done, &t);
    bg_loop_run(loop);
    assert_int_equal(t.dones, 1);
    assert_int_equal(t.seen, 1);
    assert_false(pthread_equal(t.thread, pthread_self()));
}

static void serial_works_keep_their_order(void **state BG_UNUSED)
{
    int next = 0;
    struct task t[32];
    struct bg_serial *s = bg_serial_new(loop);
    for (int i = 0; i < 32; i++) {
        t[i] = (struct task){.next = &next};
        bg_serial_add(s, task_work, task_done, &t[i]);
    }
    bg_loop_run(loop); /* ends when all are done, with the queue still there */
    for (int i = 0; i < 32; i++) {
        assert_int_equal(t[i].seen, i + 1);
        assert_int_equal(t[i].dones, 1);
    }
    bg_serial_free(s);
    bg_serial_free(NULL);
}

static void serial_free_waits_and_delivers(void **state BG_UNUSED)
{
    int next = 0;
    struct task t[8];
    struct bg_serial *s = bg_serial_new(loop);
    for (int i = 0; i < 8; i++) {
        t[i] = (struct task){.next = &next};
        bg_serial_add(s, task_work, task_done, &t[i]);
    }
    bg_serial_free(s);
    for (int i = 0; i < 8; i++)
        assert_int_equal(t[i].dones, 1);
}

static void serial_freed_in_a_done_delivers_the_rest(void **state BG_UNUSED)
{
    int next = 0;
    struct task t[8];
    struct bg_serial *s = bg_serial_new(loop);
    for (int i = 0; i < 8; i++) {
        t[i] = (struct task){.next = &next, .s = s};
        bg_serial_add(s, task_work, i == 2 ? task_done_and_free_queue : task_done, &t[i]);
    }
    bg_loop_run(loop);
    for (int i = 0; i < 8; i++)
        assert_int_equal(t[i].dones, 1);
}

static void loop_free_waits_for_works(void **state BG_UNUSED)
{
    int next = 0;
    struct task t = {.next = &next};
    struct bg_loop *other = bg_loop_new();
    bg_work(other, task_work, task_done, &t);
    bg_loop_free(other);
    assert_int_equal(t.dones, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(child_reports_its_exit_once),
        T(child_has_only_its_descriptors),
        T(child_descriptors_may_cross),
        T(child_environment_is_the_given_one),
        T(child_is_found_in_the_path_of_its_own_environment),
        T(child_has_default_signals_and_may_lead_a_session),
        T(forgotten_child_is_reaped_and_not_told),
        T(work_runs_elsewhere_and_done_here),
        T(serial_works_keep_their_order),
        T(serial_free_waits_and_delivers),
        T(serial_freed_in_a_done_delivers_the_rest),
        T(loop_free_waits_for_works),
    };
    return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}

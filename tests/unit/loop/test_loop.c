/* SPDX-License-Identifier: MIT */
/* core/loop: turns, timers, deferred calls, descriptors, signals; freeing inside callbacks.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/loop/loop.h"
#include "tests/test.h"

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

/* ---- timers ---- */

static void count_and_free(struct bg_timer *t, void *data)
{
    ++*(int *)data;
    bg_timer_free(t);
}

static void count_to_three(struct bg_timer *t, void *data)
{
    if (++*(int *)data == 3)
        bg_timer_stop(t);
}

static void timer_frees_itself_in_its_callback(void **state BG_UNUSED)
{
    int n = 0;
    bg_timer_start(bg_timer_new(loop, count_and_free, &n), 1, 1);
    bg_loop_run(loop);
    assert_int_equal(n, 1);
}

static void timer_repeats_until_stopped(void **state BG_UNUSED)
{
    int n = 0;
    struct bg_timer *t = bg_timer_new(loop, count_to_three, &n);
    assert_false(bg_timer_active(t));
    bg_timer_start(t, 1, 1);
    assert_true(bg_timer_active(t));
    bg_loop_run(loop);
    assert_int_equal(n, 3);
    assert_false(bg_timer_active(t));
    bg_timer_free(t);
    bg_timer_free(NULL);
}

static void freed_timer_never_fires(void **state BG_UNUSED)
{
    int n = 0;
    struct bg_timer *t = bg_timer_new(loop, count_and_free, &n);
    bg_timer_start(t, 0, 0);
    bg_timer_free(t);
    for (int i = 0; i < 3; i++)
        bg_loop_turn(loop, 2);
    assert_int_equal(n, 0);
}

static void timer_counts_from_the_call_not_from_the_turn(void **state BG_UNUSED)
{
    int n = 0;
    bg_loop_turn(loop, 0);
    usleep(30000); /* the loop's own clock is stale now */
    int64_t before = bg_mono_us();
    bg_timer_start(bg_timer_new(loop, count_and_free, &n), 20, 0);
    bg_loop_run(loop);
    assert_int_equal(n, 1);
    assert_true(bg_mono_us() - before >= 18000);
}

static void count_and_rearm(struct bg_timer *t, void *data)
{
    ++*(int *)data;
    usleep(2000);
    bg_timer_start(t, 0, 0);
}

static void timer_armed_anew_in_its_callback_lets_the_loop_go_on(void **state BG_UNUSED)
{
    int n = 0;
    struct bg_timer *t = bg_timer_new(loop, count_and_rearm, &n);
    bg_timer_start(t, 0, 0);
    for (int turn = 1; turn <= 3; turn++) {
        int before = n;
        while (n == before)
            bg_loop_turn(loop, 100);
        assert_true(n <= before + 2); /* timers are looked at before and after the wait */
    }
    bg_timer_free(t);
}

/* ---- turns ---- */

static void turn_waits_no_longer_than_asked(void **state BG_UNUSED)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    int64_t before = bg_mono_us();
    bg_loop_turn(loop, 20);
    assert_true(bg_mono_us() - before >= 18000);
    before = bg_mono_us();
    bg_loop_turn(loop, 0);
    assert_true(bg_mono_us() - before < 18000);
    close(fds[0]);
    close(fds[1]);
}

static void stop_the_loop(struct bg_timer *t BG_UNUSED, void *data BG_UNUSED)
{
    bg_loop_stop(loop);
}

static void stop_ends_run_and_not_a_later_turn(void **state BG_UNUSED)
{
    int n = 0;
    struct bg_timer *t = bg_timer_new(loop, stop_the_loop, NULL);
    bg_timer_start(t, 1, 1);
    bg_loop_run(loop);
    bg_timer_stop(t);
    bg_loop_stop(loop);
    struct bg_timer *u = bg_timer_new(loop, count_to_three, &n);
    bg_timer_start(u, 1, 1);
    while (n < 3)
        bg_loop_turn(loop, 50);
    bg_timer_start(u, 1, 1);
    bg_loop_run(loop); /* was asked to stop before it began */
    assert_int_equal(n, 3);
    bg_timer_free(t);
    bg_timer_free(u);
}

/* ---- deferred ---- */

static char order[16];
static char one[] = "1", two[] = "2", three[] = "3", d_mark[] = "d", p_mark[] = "p";

static void note(void *data)
{
    strcat(order, data);
}

static void note_and_defer(void *data)
{
    strcat(order, data);
    bg_loop_defer(loop, note, three);
}

static void deferred_run_in_order_and_later_ones_in_the_next_turn(void **state BG_UNUSED)
{
    order[0] = 0;
    bg_loop_defer(loop, note_and_defer, one);
    bg_loop_defer(loop, note, two);
    assert_string_equal(order, "");
    bg_loop_turn(loop, -1);
    assert_string_equal(order, "12");
    bg_loop_turn(loop, -1);
    assert_string_equal(order, "123");
}

static void deferred_still_runs_when_the_loop_is_freed(void **state BG_UNUSED)
{
    struct bg_loop *saved = loop;
    loop = bg_loop_new();
    order[0] = 0;
    bg_loop_defer(loop, note_and_defer, one);
    bg_loop_free(loop);
    assert_string_equal(order, "13");
    loop = saved;
}

static void prepare_runs_each_turn_and_keeps_nothing_alive(void **state BG_UNUSED)
{
    order[0] = 0;
    struct bg_idle *p = bg_prepare_new(loop, note, p_mark);
    bg_loop_run(loop);
    assert_string_equal(order, "");
    bg_loop_defer(loop, note, d_mark);
    bg_loop_turn(loop, -1);
    assert_string_equal(order, "dp");
    bg_prepare_free(p);
    bg_loop_defer(loop, note, d_mark);
    bg_loop_turn(loop, -1);
    assert_string_equal(order, "dpd");
}

/* ---- descriptors ---- */

struct seen {
    int calls;
    unsigned events;
    bool free_it, close_it;
};

static void on_event(struct bg_poll *p, int fd, unsigned events, void *data)
{
    struct seen *s = data;
    s->calls++;
    s->events |= events;
    if (s->free_it)
        bg_poll_free(p);
    if (s->close_it)
        close(fd);
}

static void poll_tells_readable_until_read(void **state BG_UNUSED)
{
    int fds[2];
    struct seen s = {0};
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct bg_poll *p = bg_poll_new(loop, fds[0], on_event, &s);
    assert_non_null(p);
    assert_false(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(write(fds[1], "x", 1), 1);
    bg_loop_turn(loop, 5);
    assert_int_equal(s.calls, 0); /* begins paused */
    bg_poll_set(p, BG_READ);
    assert_null(bg_poll_new(loop, fds[0], on_event, &s));
    assert_int_equal(errno, EEXIST);
    bg_loop_turn(loop, 1000);
    bg_loop_turn(loop, 1000);
    assert_int_equal(s.calls, 2);
    assert_int_equal(s.events, BG_READ);
    bg_poll_set(p, 0);
    bg_loop_turn(loop, 5);
    assert_int_equal(s.calls, 2);
    bg_poll_free(p);
    close(fds[0]);
    close(fds[1]);
}

static void poll_tells_hang_up_and_error(void **state BG_UNUSED)
{
    int fds[2];
    struct seen s = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    struct bg_poll *p = bg_poll_new(loop, fds[0], on_event, &s);
    bg_poll_set(p, BG_HUP);
    close(fds[1]);
    bg_loop_turn(loop, 1000);
    assert_true(s.events & BG_HUP);
    bg_poll_free(p);
    close(fds[0]);
    /* The reader of a pipe goes: an error condition for its writer. */
    s = (struct seen){0};
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    close(fds[0]);
    p = bg_poll_new(loop, fds[1], on_event, &s);
    bg_poll_set(p, BG_WRITE);
    bg_loop_turn(loop, 1000);
    bg_loop_turn(loop, 1000);
    assert_int_equal(s.calls, 2);
    assert_int_equal(s.events, BG_WRITE | BG_HUP);
    assert_int_equal(write(fds[1], "x", 1), -1); /* and no SIGPIPE */
    assert_int_equal(errno, EPIPE);
    bg_poll_free(p);
    close(fds[1]);
}

static void poll_refuses_a_regular_file(void **state BG_UNUSED)
{
    bg_autoclose int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_null(bg_poll_new(loop, fd, on_event, NULL));
    assert_int_equal(errno, EPERM);
    assert_null(bg_poll_new(loop, -1, on_event, NULL));
    assert_int_equal(errno, EBADF);
}

/* The fd number comes back at once for another file, in the same batch of events. */
static void poll_freed_in_callback_then_fd_reused(void **state BG_UNUSED)
{
    int a[2], b[2];
    assert_int_equal(pipe2(a, O_CLOEXEC), 0);
    struct seen s = {.free_it = true, .close_it = true}, t = {0};
    struct bg_poll *p = bg_poll_new(loop, a[0], on_event, &s);
    bg_poll_set(p, BG_READ);
    assert_int_equal(write(a[1], "x", 1), 1);
    bg_loop_turn(loop, 1000);
    assert_int_equal(s.calls, 1);
    assert_int_equal(pipe2(b, O_CLOEXEC), 0);
    assert_int_equal(b[0], a[0]);
    p = bg_poll_new(loop, b[0], on_event, &t);
    assert_non_null(p);
    bg_poll_set(p, BG_READ);
    bg_loop_turn(loop, 5);
    assert_int_equal(t.calls, 0);
    assert_int_equal(write(b[1], "x", 1), 1);
    bg_loop_turn(loop, 1000);
    assert_int_equal(t.calls, 1);
    bg_poll_free(p);
    close(a[1]);
    close(b[0]);
    close(b[1]);
}

struct pair {
    struct bg_poll *poll[2];
    int calls;
};

static void free_both(struct bg_poll *p BG_UNUSED, int fd BG_UNUSED,
                      unsigned events BG_UNUSED, void *data)
{
    struct pair *pr = data;
    pr->calls++;
    for (int i = 0; i < 2; i++) {
        bg_poll_free(pr->poll[i]);
        pr->poll[i] = NULL;
    }
}

/* Both are ready in one batch; the first callback frees the second's watcher too. */
static void freed_watcher_is_not_called_in_the_same_batch(void **state BG_UNUSED)
{
    int a[2], b[2];
    struct pair pr = {0};
    assert_int_equal(pipe2(a, O_CLOEXEC), 0);
    assert_int_equal(pipe2(b, O_CLOEXEC), 0);
    pr.poll[0] = bg_poll_new(loop, a[0], free_both, &pr);
    pr.poll[1] = bg_poll_new(loop, b[0], free_both, &pr);
    bg_poll_set(pr.poll[0], BG_READ);
    bg_poll_set(pr.poll[1], BG_READ);
    assert_int_equal(write(a[1], "x", 1), 1);
    assert_int_equal(write(b[1], "x", 1), 1);
    bg_loop_turn(loop, 1000);
    bg_loop_turn(loop, 5);
    assert_int_equal(pr.calls, 1);
    close(a[0]);
    close(a[1]);
    close(b[0]);
    close(b[1]);
}

/* ---- signals ---- */

static struct bg_signal *watched;

static void on_usr1(int signo, void *data)
{
    *(int *)data = signo;
    bg_signal_free(watched);
}

static void signal_is_told_on_the_loop(void **state BG_UNUSED)
{
    int got = 0;
    watched = bg_signal_new(loop, SIGUSR1, on_usr1, &got);
    kill(getpid(), SIGUSR1);
    assert_int_equal(got, 0);
    bg_loop_run(loop);
    assert_int_equal(got, SIGUSR1);
    bg_signal_free(NULL);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(timer_frees_itself_in_its_callback),
        T(timer_repeats_until_stopped),
        T(freed_timer_never_fires),
        T(timer_counts_from_the_call_not_from_the_turn),
        T(timer_armed_anew_in_its_callback_lets_the_loop_go_on),
        T(turn_waits_no_longer_than_asked),
        T(stop_ends_run_and_not_a_later_turn),
        T(deferred_run_in_order_and_later_ones_in_the_next_turn),
        T(deferred_still_runs_when_the_loop_is_freed),
        T(prepare_runs_each_turn_and_keeps_nothing_alive),
        T(poll_tells_readable_until_read),
        T(poll_tells_hang_up_and_error),
        T(poll_refuses_a_regular_file),
        T(poll_freed_in_callback_then_fd_reused),
        T(freed_watcher_is_not_called_in_the_same_batch),
        T(signal_is_told_on_the_loop),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}

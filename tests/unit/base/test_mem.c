/* SPDX-License-Identifier: MIT */
/* Allocation helpers, ownership macros and string vectors. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "core/base/mem.h"
#include "tests/test.h"

static void allocations_are_never_null(void **state)
{
    (void)state;
    bg_autofree void *a = bg_xmalloc(0);
    bg_autofree char *b = bg_xcalloc(0, 8);
    bg_autofree char *c = bg_xrealloc(NULL, 0, 8);
    bg_autofree char *d = bg_xcalloc(3, 1);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    assert_memory_equal(d, "\0\0\0", 3);
    c = bg_xrealloc(c, 4, 4);
    assert_non_null(c);
}

static void strings(void **state)
{
    (void)state;
    assert_null(bg_xstrdup(NULL));
    assert_null(bg_xstrndup(NULL, 3));
    bg_autofree char *a = bg_xstrndup("abcdef", 3);
    assert_string_equal(a, "abc");
    bg_autofree char *b = bg_xasprintf("%s-%d", "x", 7);
    assert_string_equal(b, "x-7");
    bg_autofree char *c = bg_xmemdup("a\0b", 3);
    assert_memory_equal(c, "a\0b", 3);
    bg_autofree char *d = bg_xmemdup(NULL, 0);
    assert_non_null(d);
}

static void vectors(void **state)
{
    (void)state;
    char **v = NULL;
    assert_int_equal(bg_strv_len(v), 0);
    assert_null(bg_strv_dup(NULL));
    bg_strv_push(&v, "one");
    bg_strv_push(&v, "two");
    assert_int_equal(bg_strv_len(v), 2);
    char **w = bg_strv_dup(v);
    bg_strv_free(v);
    assert_string_equal(w[0], "one");
    assert_string_equal(w[1], "two");
    assert_null(w[2]);
    bg_strv_free(w);
    bg_strv_free(NULL);
}

static void stealing_leaves_nothing(void **state)
{
    (void)state;
    bg_autofree char *s = bg_xstrdup("mine");
    char *t = bg_steal(s);
    assert_null(s);
    assert_string_equal(t, "mine");
    free(t);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    {
        bg_autoclose int own = fd;
        assert_true(own >= 0);
    }
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    int a = 5;
    assert_int_equal(bg_steal_fd(&a), 5);
    assert_int_equal(a, -1);
}

static void overflow_aborts(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        free(bg_xrealloc(NULL, (size_t)-1, 16));
        _exit(0);
    }
    int st = 0;
    assert_int_equal(waitpid(pid, &st, 0), pid);
    assert_false(WIFEXITED(st) && WEXITSTATUS(st) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_never_null),
        cmocka_unit_test(strings),
        cmocka_unit_test(vectors),
        cmocka_unit_test(stealing_leaves_nothing),
        cmocka_unit_test(overflow_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

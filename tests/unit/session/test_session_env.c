/* SPDX-License-Identifier: MIT */
/* Environment and working directory of a command, as text. */
#include "core/session/session_int.h"
#include "tests/test.h"

static void later_names_win_and_all_is_sorted(void **state)
{
    char *const base[] = {(char *)"PATH=/usr/bin", (char *)"HOME=/workspace", NULL};
    char *const profile[] = {(char *)"A=1", (char *)"HOME=/x", NULL};
    char *const call[] = {(char *)"A=2", (char *)"AB=a\nb=c", (char *)"E=", NULL};
    char **env = session_env(base, profile, call);

    (void)state;
    assert_string_equal(env[0], "A=2");
    assert_string_equal(env[1], "AB=a\nb=c");
    assert_string_equal(env[2], "E=");
    assert_string_equal(env[3], "HOME=/x");
    assert_string_equal(env[4], "PATH=/usr/bin");
    assert_null(env[5]);
    bg_strv_free(env);
    assert_null(session_env(NULL, NULL, NULL));
}

static void base_has_four(void **state)
{
    char **env = session_base_env("/work");

    (void)state;
    assert_int_equal(bg_strv_len(env), 4);
    assert_string_equal(env[1], "HOME=/work");
    bg_strv_free(env);
}

static void c059_names_are_checked(void **state)
{
    static const char *const bad[] = {"=z", "A", "1A=x", "A B=x", "A-B=x", "\xff=x", ""};
    struct bg_error err;

    (void)state;
    for (size_t i = 0; i < bg_countof(bad); i++) {
        char *const env[] = {(char *)bad[i], NULL};
        assert_false(session_env_check(env, &err));
        assert_int_equal(err.code, BG_ERR_USAGE);
    }
    char *const good[] = {(char *)"X=a\nb", (char *)"_=1", (char *)"A=B=c", NULL};
    assert_true(session_env_check(good, &err));
    assert_true(session_env_check(NULL, &err));
}

static void cwd_stays_below_workdir(void **state)
{
    static const struct {
        const char *cwd, *want; /* NULL = refused */
    } t[] = {
        {NULL, "/workspace"},
        {"", "/workspace"},
        {".", "/workspace"},
        {"a", "/workspace/a"},
        {"a/b/", "/workspace/a/b"},
        {"./a//b", "/workspace/a/b"},
        {"a/../b", "/workspace/b"},
        {"a/..", "/workspace"},
        {"..", NULL},
        {"a/../..", NULL},
        {"/workspace", NULL},
        {"/", NULL},
        {"...", "/workspace/..."},
        {"a/../../workspace", NULL},
        {"..a", "/workspace/..a"},
    };
    struct bg_error err;

    (void)state;
    for (size_t i = 0; i < bg_countof(t); i++) {
        bg_autofree char *got = session_cwd("/workspace", t[i].cwd, &err);
        if (t[i].want) {
            assert_non_null(got);
            assert_string_equal(got, t[i].want);
        } else {
            assert_null(got);
            assert_int_equal(err.code, BG_ERR_PATH);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_names_win_and_all_is_sorted),
        cmocka_unit_test(base_has_four),
        cmocka_unit_test(c059_names_are_checked),
        cmocka_unit_test(cwd_stays_below_workdir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

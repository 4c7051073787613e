/* SPDX-License-Identifier: MIT */
/* Errors are set once, readable, and safe on a terminal. */
#include <errno.h>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "tests/test.h"

static void fail_fills_all(void **state)
{
    (void)state;
    struct bg_error e = {0};
    assert_false(bg_fail(&e, BG_ERR_PATH, ENOENT, "cannot open %s", "/x"));
    assert_int_equal(e.code, BG_ERR_PATH);
    assert_int_equal(e.sys, ENOENT);
    assert_string_equal(e.msg, "cannot open /x: No such file or directory");
    assert_false(bg_fail(NULL, BG_ERR_PATH, 0, "nobody cares"));
}

static void failure_never_has_code_ok(void **state)
{
    (void)state;
    struct bg_error e = {0};
    bg_fail(&e, BG_OK, 0, "x");
    assert_int_equal(e.code, BG_ERR_INTERNAL);
    bg_fail(&e, BG_ERR_COUNT_, 0, "x");
    assert_int_equal(e.code, BG_ERR_INTERNAL);
    bg_fail(&e, BG_ERR_IO, 99999, "x");
    assert_string_equal(e.msg, "x: error 99999");
}

static void untrusted_bytes_become_question_marks(void **state)
{
    (void)state;
    struct bg_error e = {0};
    bg_fail(&e, BG_ERR_USAGE, 0,
            "a\x1b[31mb\nc\td\x7f\xc2\x9b"
            "e\xe2\x80\xae"
            "f\xff"
            "g");
    assert_string_equal(e.msg, "a?[31mb c d??e?f?g");
    bg_fail(&e, BG_ERR_USAGE, 0, "gr\xc3\xbc\xc3\x9f \xe6\x97\xa5 \xf0\x9f\x98\x80");
    assert_string_equal(e.msg, "gr\xc3\xbc\xc3\x9f \xe6\x97\xa5 \xf0\x9f\x98\x80");
    bg_fail(&e, BG_ERR_USAGE, 0, "%s",
            "\xe2\x80\x8b|\xef\xbb\xbf|\xf3\xa0\x81\x81|\xe2\x80\xa8");
    assert_string_equal(e.msg, "?|?|?|?");
}

static void long_texts_are_cut_but_keep_the_cause(void **state)
{
    (void)state;
    struct bg_error e = {0};
    char big[4000];
    for (size_t i = 0; i < sizeof big - 1; i++)
        big[i] = i % 2 ? '\xbc' : '\xc3';
    big[sizeof big - 1] = '\0';
    bg_fail(&e, BG_ERR_IO, EACCES, "cannot open %s", big);
    assert_true(strlen(e.msg) < sizeof e.msg);
    assert_true(strlen(e.msg) > sizeof e.msg - 8);
    assert_true(bg_utf8_valid(e.msg, strlen(e.msg)));
    assert_non_null(strstr(e.msg, "...: Permission denied"));
    bg_error_prefix(&e, "%s", big);
    assert_true(bg_utf8_valid(e.msg, strlen(e.msg)));
    assert_non_null(strstr(e.msg, "...: cannot open"));
}

static void four_byte_hidden_text_still_ends(void **state)
{
    (void)state;
    struct bg_error e = {0};
    char big[4000] = "";
    for (size_t i = 0; i + 4 < sizeof big; i += 4)
        memcpy(big + i, "\xf3\xa0\x81\x81", 5);
    bg_fail(&e, BG_ERR_IO, 0, "%s", big);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    assert_string_equal(e.msg + strlen(e.msg) - 4, "?...");
}

static void prefix_adds_context(void **state)
{
    (void)state;
    struct bg_error e = {0};
    bg_error_prefix(&e, "start");
    assert_string_equal(e.msg, "");
    bg_fail(&e, BG_ERR_PORT, 0, "no such port");
    bg_error_prefix(&e, "session %s", "a1\n");
    assert_string_equal(e.msg, "session a1 : no such port");
    assert_int_equal(e.code, BG_ERR_PORT);
    bg_error_prefix(NULL, "x");
}

static void a_message_may_quote_itself(void **state)
{
    (void)state;
    struct bg_error e = {0};
    bg_fail(&e, BG_ERR_PORT, 0, "inner");
    bg_fail(&e, BG_ERR_IO, 0, "outer (%s)", e.msg);
    assert_string_equal(e.msg, "outer (inner)");
}

static void names_go_both_ways(void **state)
{
    (void)state;
    for (int i = BG_OK; i < BG_ERR_COUNT_; i++) {
        const char *name = bg_errc_name((enum bg_errc)i);
        assert_non_null(name);
        assert_string_not_equal(name, "unknown");
        assert_int_equal(bg_errc_from_name(name), i);
    }
    assert_string_equal(bg_errc_name(BG_ERR_HASH_MISMATCH), "hash_mismatch");
    assert_string_equal(bg_errc_name(BG_ERR_COUNT_), "unknown");
    assert_string_equal(bg_errc_name((enum bg_errc) - 1), "unknown");
    assert_int_equal(bg_errc_from_name("nope"), BG_ERR_INTERNAL);
    assert_int_equal(bg_errc_from_name(NULL), BG_ERR_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_fills_all),
        cmocka_unit_test(failure_never_has_code_ok),
        cmocka_unit_test(untrusted_bytes_become_question_marks),
        cmocka_unit_test(long_texts_are_cut_but_keep_the_cause),
        cmocka_unit_test(four_byte_hidden_text_still_ends),
        cmocka_unit_test(prefix_adds_context),
        cmocka_unit_test(a_message_may_quote_itself),
        cmocka_unit_test(names_go_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

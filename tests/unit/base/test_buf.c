/* SPDX-License-Identifier: MIT */
/* Capped buffers: what fits, what does not, and that the NUL is always there. */
#include <stdlib.h>

#include "core/base/buf.h"
#include "core/base/mem.h"
#include "tests/test.h"

static void starts_empty_and_readable(void **state)
{
    (void)state;
    struct bg_buf b = {0};
    bg_buf_free(&b);
    bg_buf_init(&b, 10);
    assert_string_equal(b.data, "");
    bg_buf_clear(&b);
    bg_buf_shrink(&b);
    bg_buf_consume(&b, 5);
    assert_true(bg_buf_add(&b, NULL, 0, NULL));
    assert_string_equal(b.data, "");
    bg_buf_free(&b);
    bg_buf_free(&b);
}

static void add_is_all_or_nothing(void **state)
{
    (void)state;
    struct bg_buf b;
    struct bg_error e = {0};
    bg_buf_init(&b, 5);
    assert_true(bg_buf_add(&b, "abc", 3, &e));
    assert_int_equal(e.code, BG_OK);
    assert_false(bg_buf_add(&b, "def", 3, &e));
    assert_int_equal(e.code, BG_ERR_LIMIT);
    assert_string_equal(b.data, "abc");
    assert_true(bg_buf_add(&b, "de", 2, NULL));
    assert_string_equal(b.data, "abcde");
    assert_false(bg_buf_overflowed(&b));
    assert_int_equal(bg_buf_add_some(&b, "x", 1), 0);
    bg_buf_free(&b);
}

static void add_some_takes_what_fits(void **state)
{
    (void)state;
    struct bg_buf b;
    bg_buf_init(&b, 4);
    assert_int_equal(bg_buf_add_some(&b, "abcdef", 6), 4);
    assert_string_equal(b.data, "abcd");
    assert_false(bg_buf_overflowed(&b));
    bg_buf_free(&b);
}

static void put_overflow_is_sticky_until_clear(void **state)
{
    (void)state;
    struct bg_buf b;
    bg_buf_init(&b, 6);
    bg_buf_puts(&b, "abc");
    bg_buf_putc(&b, 'd');
    assert_false(bg_buf_overflowed(&b));
    bg_buf_printf(&b, "%d", 12345);
    assert_true(bg_buf_overflowed(&b));
    assert_string_equal(b.data, "abcd12");
    assert_int_equal(b.len, b.max);
    bg_buf_consume(&b, 6);
    assert_true(bg_buf_overflowed(&b));
    bg_buf_clear(&b);
    assert_false(bg_buf_overflowed(&b));
    bg_buf_printf(&b, "%s", "");
    bg_buf_printf(&b, "%06d", 7);
    assert_false(bg_buf_overflowed(&b));
    assert_string_equal(b.data, "000007");
    bg_buf_free(&b);
}

static void is_binary_safe_and_grows(void **state)
{
    (void)state;
    struct bg_buf b;
    bg_buf_init(&b, 100000);
    for (int i = 0; i < 100000; i++)
        bg_buf_putc(&b, (char)i);
    assert_int_equal(b.len, 100000);
    assert_false(bg_buf_overflowed(&b));
    for (int i = 0; i < 100000; i++)
        assert_int_equal(b.data[i], (char)i);
    assert_int_equal(b.data[b.len], 0);
    assert_true(b.cap <= b.max);
    bg_buf_consume(&b, 99998);
    assert_int_equal(b.len, 2);
    bg_buf_shrink(&b);
    assert_int_equal(b.cap, 2);
    assert_int_equal(b.data[1], (char)99999);
    bg_buf_clear(&b);
    bg_buf_shrink(&b);
    assert_int_equal(b.cap, 0);
    bg_buf_free(&b);
}

static void reserve_then_fill(void **state)
{
    (void)state;
    struct bg_buf b;
    bg_buf_init(&b, 8);
    assert_null(bg_buf_reserve(&b, 9));
    assert_null(bg_buf_reserve(&b, SIZE_MAX));
    char *p = bg_buf_reserve(&b, 8);
    assert_non_null(p);
    memcpy(p, "12345678", 8);
    b.len += 8;
    assert_null(bg_buf_reserve(&b, 1));
    assert_non_null(bg_buf_reserve(&b, 0));
    bg_buf_free(&b);
    bg_buf_init(&b, 0);
    assert_non_null(bg_buf_reserve(&b, 0));
    assert_false(bg_buf_add(&b, "x", 1, NULL));
    bg_buf_free(&b);
}

static void steal_empties(void **state)
{
    (void)state;
    struct bg_buf b;
    bg_buf_init(&b, 8);
    bg_autofree char *none = bg_buf_steal(&b);
    assert_string_equal(none, "");
    bg_buf_puts(&b, "hi");
    bg_autofree char *hi = bg_buf_steal(&b);
    assert_string_equal(hi, "hi");
    assert_int_equal(b.len, 0);
    bg_buf_puts(&b, "12345678");
    assert_string_equal(b.data, "12345678");
    bg_buf_free(&b);
}

static void views(void **state)
{
    (void)state;
    struct bg_buf zero = {0};
    assert_true(bg_str_eq(bg_buf_str(&zero), BG_STR("")));
    assert_true(bg_str_eq(bg_str_from("ab"), BG_STR("ab")));
    assert_false(bg_str_eq(bg_str_from("ab"), BG_STR("abc")));
    assert_int_equal(bg_str_from(NULL).n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_empty_and_readable),
        cmocka_unit_test(add_is_all_or_nothing),
        cmocka_unit_test(add_some_takes_what_fits),
        cmocka_unit_test(put_overflow_is_sticky_until_clear),
        cmocka_unit_test(is_binary_safe_and_grows),
        cmocka_unit_test(reserve_then_fill),
        cmocka_unit_test(steal_empties),
        cmocka_unit_test(views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

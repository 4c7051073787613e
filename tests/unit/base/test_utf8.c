/* SPDX-License-Identifier: MIT */
/* UTF-8 as Unicode defines it: every code point there and back, nothing else accepted. */
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "tests/test.h"

static void every_code_point_round_trips(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x110010; cp++) {
        char s[4];
        uint32_t back = 0;
        int n = bg_utf8_encode(cp, s);
        if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) {
            assert_int_equal(n, 0);
            continue;
        }
        if (bg_utf8_decode(s, (size_t)n, &back) != n || back != cp)
            fail_msg("U+%04X", (unsigned)cp);
        for (int cut = 1; cut < n; cut++)
            if (bg_utf8_decode(s, (size_t)cut, &back) != -1)
                fail_msg("U+%04X cut at %d", (unsigned)cp, cut);
    }
}

static void malformed_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\xaf",
                                      "\xc1\xbf",
                                      "\xe0\x80\xaf",
                                      "\xe0\x9f\xbf",
                                      "\xf0\x80\x80\xaf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xfe",
                                      "\xff",
                                      "\xc3(",
                                      "\xe2\x82(",
                                      "\xf0\x9f\x98(",
                                      "\xc3",
                                      "\xe2\x82",
                                      "\xf0\x9f\x98"};
    for (size_t i = 0; i < bg_countof(bad); i++)
        assert_false(bg_utf8_valid(bad[i], strlen(bad[i])));
    assert_true(bg_utf8_valid("", 0));
    assert_true(bg_utf8_valid("a\0b", 3));
    assert_true(bg_utf8_valid("\xef\xbf\xbf\xf4\x8f\xbf\xbf", 7));
}

static void exhaustive_two_bytes(void **state)
{
    (void)state;
    int valid = 0;
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            char s[2] = {(char)a, (char)b};
            valid += bg_utf8_valid(s, 2);
        }
    assert_int_equal(valid, 128 * 128 + 30 * 64);
}

static void prefix_ends_on_a_boundary(void **state)
{
    (void)state;
    const char *s = "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80z"; /* ends at 1 3 6 10 11 */
    static const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (size_t max = 0; max < bg_countof(want); max++)
        assert_int_equal(bg_utf8_prefix(s, 11, max), want[max]);
    assert_int_equal(bg_utf8_prefix("\x80\x80\x80\x80\x80", 5, 4), 4);
    assert_int_equal(bg_utf8_prefix("\xf0\xf0\xf0\xf0\xf0", 5, 4), 4);
}

static void lossy_replaces_maximal_subparts(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } all[] = {
        {"plain", "plain"},
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        /* Unicode's own example, table 3-8. */
        {"a\xf1\x80\x80\xe1\x80\xc2"
         "b\x80"
         "c\x80\xbf"
         "d",
         "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
         "b\xef\xbf\xbd"
         "c\xef\xbf\xbd\xef\xbf\xbd"
         "d"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"x\xe2\x82", "x\xef\xbf\xbd"},
        {"\xc3\xbc", "\xc3\xbc"},
    };
    for (size_t i = 0; i < bg_countof(all); i++) {
        bg_autobuf struct bg_buf b;
        bg_buf_init(&b, 100);
        bg_utf8_lossy(&b, all[i].in, strlen(all[i].in));
        assert_string_equal(b.data, all[i].out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_round_trips),
        cmocka_unit_test(malformed_is_refused),
        cmocka_unit_test(exhaustive_two_bytes),
        cmocka_unit_test(prefix_ends_on_a_boundary),
        cmocka_unit_test(lossy_replaces_maximal_subparts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

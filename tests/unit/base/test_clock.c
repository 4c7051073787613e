/* SPDX-License-Identifier: MIT */
/* Times for records and durations for people. */
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "tests/test.h"

static void formats_and_parses(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } all[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {INT64_C(1796053327123), "2026-11-30T15:42:07.123Z"},
        {INT64_C(1709164800001), "2024-02-29T00:00:00.001Z"},
        {INT64_C(253402300799999), "9999-12-31T23:59:59.999Z"},
    };
    for (size_t i = 0; i < bg_countof(all); i++) {
        char out[BG_TIME_LEN];
        bg_time_format(all[i].ms, out);
        assert_string_equal(out, all[i].text);
        assert_int_equal(bg_time_parse(out), all[i].ms);
    }
}

static void out_of_range_is_clamped(void **state)
{
    (void)state;
    char out[BG_TIME_LEN];
    bg_time_format(INT64_MIN, out);
    assert_string_equal(out, "1970-01-01T00:00:00.000Z");
    bg_time_format(INT64_MAX, out);
    assert_string_equal(out, "9999-12-31T23:59:59.999Z");
}

static void dates_and_fractions(void **state)
{
    (void)state;
    assert_int_equal(bg_time_parse("2027-01-31"), INT64_C(1801353600000));
    assert_int_equal(bg_time_parse("2027-01-31T00:00:00Z"), INT64_C(1801353600000));
    assert_int_equal(bg_time_parse("2027-01-31T00:00:00.5Z"), INT64_C(1801353600500));
    assert_int_equal(bg_time_parse("2027-01-31T00:00:00.123456789Z"),
                     INT64_C(1801353600123));
}

static void refuses_the_rest(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "2027",
                                      "2027-1-31",
                                      "2027-02-29",
                                      "2027-13-01",
                                      "2027-00-10",
                                      "2027-01-00",
                                      "2027-04-31",
                                      "1969-12-31",
                                      "2027-01-31T",
                                      "2027-01-31T10:00Z",
                                      "2027-01-31T10:00:00",
                                      "2027-01-31T24:00:00Z",
                                      "2027-01-31T10:60:00Z",
                                      "2027-01-31T10:00:60Z",
                                      "2027-01-31T10:00:00.Z",
                                      "2027-01-31T10:00:00+01:00",
                                      "2027-01-31T10:00:00Zx",
                                      "2027-01-31 10:00:00Z",
                                      " 2027-01-31",
                                      "2027-01-31T10:00:00.1234567890Z",
                                      "2027-01-31t10:00:00z"};
    for (size_t i = 0; i < bg_countof(bad); i++)
        assert_int_equal(bg_time_parse(bad[i]), -1);
    assert_int_equal(bg_time_parse(NULL), -1);
}

static void durations(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } all[] = {{-1, "0:00"},         {0, "0:00"},         {999, "0:00"},
               {102000, "1:42"},     {3599999, "59:59"},  {3600000, "1:00:00"},
               {7807000, "2:10:07"}, {INT64_MIN, "0:00"}, {INT64_MAX, "99999:00:00"}};
    for (size_t i = 0; i < bg_countof(all); i++) {
        char out[16];
        bg_duration_clock(all[i].ms, out, sizeof out);
        assert_string_equal(out, all[i].text);
    }
}

static void clocks_run(void **state)
{
    (void)state;
    int64_t a = bg_mono_us(), ms = bg_mono_ms(), b = bg_mono_us();
    assert_true(a / 1000 <= ms && ms <= b / 1000);
    assert_true(bg_wall_ms() > INT64_C(1700000000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_and_parses),  cmocka_unit_test(out_of_range_is_clamped),
        cmocka_unit_test(dates_and_fractions), cmocka_unit_test(refuses_the_rest),
        cmocka_unit_test(durations),           cmocka_unit_test(clocks_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

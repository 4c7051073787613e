/* SPDX-License-Identifier: MIT */
/* What the scan says of a whole text, and that its time grows with the size alone. */
#include <stdlib.h>
#include <time.h>

#include "core/base/text.h"
#include "core/base/values.h"
#include "tests/test.h"

static struct bg_scan scan;
#define HZ(name) BG_HZ_BIT(BG_HZ_##name)
#define SCAN(lit) bg_text_scan(lit, sizeof(lit) - 1, &scan)

static void lines_and_columns(void **state)
{
    (void)state;
    SCAN("");
    assert_true(scan.lines == 0 && scan.longest_cols == 0 && scan.longest_line == 0);
    assert_true(scan.utf8 && !scan.crlf && scan.hazards == 0);
    SCAN("a\nbcd\n");
    assert_true(scan.lines == 2 && scan.longest_cols == 3 && scan.longest_line == 2);
    SCAN("\u6a21\u6a21\nx");
    assert_true(scan.lines == 2 && scan.longest_cols == 4 && scan.longest_line == 1);
    SCAN("\n\n");
    assert_int_equal(scan.lines, 2);
    SCAN("a\nb\r\n");
    assert_true(scan.crlf && scan.hazards == 0);
    SCAN("a\xff");
    assert_false(scan.utf8);
}

static void hazards_with_lines(void **state)
{
    (void)state;
    SCAN("ok\n\u202ea\u202eb\n\nx\u200b \u2066\n\u202e");
    assert_int_equal(scan.hazards, HZ(BIDI) | HZ(INVISIBLE));
    assert_int_equal(scan.counts[BG_HZ_BIDI], 4);
    assert_int_equal(scan.first[BG_HZ_BIDI], 2);
    assert_int_equal(scan.counts[BG_HZ_INVISIBLE], 1);
    assert_int_equal(scan.first[BG_HZ_INVISIBLE], 4);
    assert_int_equal(scan.first[BG_HZ_ANSI], 0);
    static const struct bg_scan_note want[] = {
        {BG_HZ_BIDI, 2}, {BG_HZ_INVISIBLE, 4}, {BG_HZ_BIDI, 4}, {BG_HZ_BIDI, 5}};
    assert_int_equal(scan.n_notes, 4);
    assert_memory_equal(scan.notes, want, sizeof want);
}

static void notes_are_capped_and_counts_are_not(void **state)
{
    (void)state;
    enum { LINES = BG_SCAN_NOTES_MAX + 50 };
    char text[2 * LINES];
    for (size_t i = 0; i < LINES; i++)
        memcpy(text + 2 * i, "\x01\n", 2);
    bg_text_scan(text, sizeof text, &scan);
    assert_int_equal(scan.n_notes, BG_SCAN_NOTES_MAX);
    assert_int_equal(scan.counts[BG_HZ_CONTROL], LINES);
    assert_int_equal(scan.lines, LINES);
}

static void long_lines_and_padding_count_once(void **state)
{
    (void)state;
    static char text[10000];
    memset(text, 'z', sizeof text);
    text[5000] = '\n';
    memset(text + 6000, ' ', 100);
    memset(text + 7000, ' ', 100);
    bg_text_scan(text, sizeof text, &scan);
    assert_int_equal(scan.hazards, HZ(LONG_LINE) | HZ(PADDING));
    assert_int_equal(scan.counts[BG_HZ_LONG_LINE], 2);
    assert_int_equal(scan.counts[BG_HZ_PADDING], 2);
    assert_true(scan.longest_cols == 5000 && scan.longest_line == 1);
}

static void tags_are_decoded_aloud(void **state)
{
    (void)state;
    SCAN("hi\U000e0001\U000e0072\U000e006d\U000e0020\U000e002f\U000e007f");
    assert_int_equal(scan.hazards, HZ(TAG_SMUGGLING));
    assert_string_equal(scan.hidden_ascii, "rm /");
    char many[4 * 400];
    for (size_t i = 0; i < 400; i++)
        memcpy(many + 4 * i, "\U000e0041", 4);
    bg_text_scan(many, sizeof many, &scan);
    assert_int_equal(strlen(scan.hidden_ascii), sizeof scan.hidden_ascii - 1);
    assert_string_equal(scan.hidden_ascii + sizeof scan.hidden_ascii - 5, "A...");
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A megabyte of the worst each branch can get; quadratic work would take minutes. The limit
 * is generous, for builds with sanitizers and busy machines (10 to 45 ms without). */
static void any_megabyte_is_linear(void **state)
{
    (void)state;
    static const struct {
        const char *p;
        size_t n;
    } patterns[] = {
        {"a", 1},         {" ", 1},      {"\t", 1},
        {" \n", 2},       {"\r", 1},     {"\xff", 1},
        {"a\u043f", 3},   {"\u0301", 2}, {"\xf0\x9f\xa7", 3},
        {"\\n\u043f", 4}, {"\x1b", 1},   {"\U000e0041", 4},
        {"a ", 2},
    };
    size_t n = BG_CODE_MAX;
    char *text = malloc(n);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        for (size_t k = 0; k < n; k++)
            text[k] = patterns[i].p[k % patterns[i].n];
        double begin = cpu_ms();
        bg_text_scan(text, n, &scan);
        double took = cpu_ms() - begin;
        if (took > 2000)
            fail_msg("pattern %zu took %.0f ms", i, took);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_and_columns),
        cmocka_unit_test(hazards_with_lines),
        cmocka_unit_test(notes_are_capped_and_counts_are_not),
        cmocka_unit_test(long_lines_and_padding_count_once),
        cmocka_unit_test(tags_are_decoded_aloud),
        cmocka_unit_test(any_megabyte_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

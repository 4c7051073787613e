/* SPDX-License-Identifier: MIT */
/* The log renderer: what survives of program output, whole and cut at every byte. */
#include "tests/test.h"
#include "tests/text_check.h"

static struct bg_buf
    shown; /* events: text, "{style}", "|" for a line end, "<" for a restart */
static struct bg_sgr style;

static void on_text(void *data, const char *p, size_t n, const struct bg_sgr *s)
{
    (void)data;
    assert_true(n > 0 && check_printable(p, n));
    if (memcmp(s, &style, sizeof style) != 0)
        bg_buf_printf(&shown, "{%d %d%s%s%s%s}", s->fg, s->bg, s->bold ? "b" : "",
                      s->dim ? "d" : "", s->underline ? "u" : "", s->reverse ? "r" : "");
    style = *s;
    bg_buf_put(&shown, p, n);
}

static void on_newline(void *data)
{
    (void)data;
    bg_buf_putc(&shown, '|');
}

static void on_restart(void *data)
{
    (void)data;
    bg_buf_putc(&shown, '<');
}

static const struct bg_log_sink sink = {on_text, on_newline, on_restart, NULL};

static uint64_t feed(const char *p, size_t n, size_t cut, size_t cut2)
{
    struct bg_logtext t;
    bg_buf_clear(&shown);
    style = (struct bg_sgr){0};
    bg_logtext_init(&t);
    bg_logtext_feed(&t, p, cut, &sink);
    bg_logtext_feed(&t, p + cut, cut2 - cut, &sink);
    bg_logtext_feed(&t, p + cut2, n - cut2, &sink);
    bg_logtext_end(&t, &sink);
    return t.dropped;
}

/* Whole, and in three chunks for every pair of cuts. */
static void check(const char *p, size_t n, const char *want, uint64_t dropped)
{
    for (size_t a = 0; a <= n; a++)
        for (size_t b = a; b <= n; b += n > 100 ? 97 : 1) {
            uint64_t lost = feed(p, n, a, b);
            assert_string_equal(shown.data, want);
            if (lost != dropped)
                fail_msg("%s: cut at %zu and %zu: %d dropped", want, a, b, (int)lost);
        }
}
#define LOG(in, want, dropped) check(in, sizeof(in) - 1, want, dropped)

static void plain_text(void **state)
{
    (void)state;
    LOG("", "", 0);
    LOG("ab\ncd", "ab|cd", 0);
    LOG("a\r\nb\r\r\nc", "a|b|c", 0);
    LOG("a  \n  b \t\nc d", "a|  b|c d", 0);
    LOG("a\u00a0b\u3000c", "a b c", 0);
    LOG("a\u2028b\u2029c", "a|b|c", 0);
}

/* C029: progress bars, tabs, control bytes and bad UTF-8. Backspaces are dropped, not
 * applied: what a program printed is never taken back. */
static void c029_progress_tabs_controls(void **state)
{
    (void)state;
    LOG("10%\r20%\r30%\n", "10%<20%<30%|", 0);
    LOG("done\r", "done", 0);
    LOG("a\tb", "a       b", 0);
    LOG("\u6a21\u6a21\u6a21\u6a21\tb", "\u6a21\u6a21\u6a21\u6a21        b", 0);
    LOG("abc  \rd\te", "abc<d       e", 0);
    LOG("x\b\by", "xy", 2);
    LOG("\0\x07\x0b", "\\x00", 2);
    LOG("\xc3(", "\ufffd(", 0);
}

/* C007, C065: a character cut by a chunk is whole; one cut by the end is one mark. */
static void c007_c065_cut_characters(void **state)
{
    (void)state;
    LOG("\xe2\x82\xac\n", "\u20ac|", 0);
    LOG("abc\xe2\x82", "abc\ufffd", 0);
    LOG("\xe2\x82z\xf0\x9f\xa7\xff", "\ufffdz\ufffd\ufffd", 0);
    LOG("\xf0\x9f\xa7\xaa\xed\xa0\x80", "\U0001f9ea\ufffd\ufffd\ufffd", 0);
}

/* C013: title, clipboard, queries, DCS: to the terminator, and nothing is left of them. */
static void c013_sequences_are_consumed(void **state)
{
    (void)state;
    LOG("a\x1b]52;c;QUJD\x07z", "az", 12);
    LOG("a\x1b]0;pwn\x1b\\z", "az", 9);
    LOG("a\x1bP$q\"p\x1b\\b\x1b_x\x1b\\c\x1b^x\x1b\\d\x1bXx\x1b\\e", "abcde", 23);
    LOG("a\x1b[6n\x1b[c\x1b[21t\x1b[?1049hb\x1b"
        "c\x1b(0\x1b"
        "7d",
        "abd", 27);
    LOG("a\x1b[2K\x1b[1A\rb", "a<b", 8);
    LOG("\x9b"
        "2J",
        "\ufffd2J", 0);
    LOG("a\xc2\x9b"
        "2Jb\xc2\x9d"
        "0;t\xc2\x9c"
        "c\xc2\x85"
        "d",
        "abcd", 13);
    LOG("a\x1b[31\nb", "a|b", 4);
    LOG("a\x1b[31\x18"
        "b\x1b]0;x\x1a"
        "c",
        "abc", 11);
    LOG("a\x1b]0;t\x1b[1mb", "a{0 0b}b", 5);
    LOG("a\x1b", "a", 1);
    LOG("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink", 22);
}

static void unterminated_sequence_is_given_up(void **state)
{
    (void)state;
    static char text[BG_TEXT_SEQUENCE_MAX + 10];
    memset(text, 'q', sizeof text);
    memcpy(text, "\x1b]0;", 4);
    memcpy(text + sizeof text - 4, "\nend", 4);
    static const size_t cuts[] = {0, 1, 2, 4, 4095, 4096, 4097, sizeof text};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        uint64_t dropped = feed(text, sizeof text, cuts[i], sizeof text);
        assert_string_equal(shown.data, "qqqqqq|end");
        assert_int_equal(dropped, BG_TEXT_SEQUENCE_MAX);
    }
}

static void colours_survive(void **state)
{
    (void)state;
    LOG("\x1b[1;31mred\x1b[0m.", "{2 0b}red{0 0}.", 0);
    LOG("\x1b[2;4;7;97;107mx\x1b[22;24;27;39;49my", "{16 16dur}x{0 0}y", 0);
    LOG("\x1b[38;5;200;48;5;7mx", "{201 8}x", 0);
    LOG("\x1b[38:5:9m\x1b[48:5:3mx\x1b[mz", "{10 4}x{0 0}z", 0);
    LOG("\x1b[38;2;1;4;7mx\x1b[38:2::1:4:7my", "xy", 0);
    LOG("\x1b[38;2;1;4;7;1mx", "{0 0b}x", 0);
    LOG("\x1b[4:3mx\x1b[4:0my", "{0 0u}x{0 0}y", 0);
    /* Blink, conceal, italics and unknown ones are nothing to us. */
    LOG("\x1b[3;5;8;9;53;999999999999mx", "x", 0);
    LOG("\x1b[38;5;300mx\x1b[38;5my\x1b[38mz", "xyz", 0);
    /* Private and intermediate forms of m are no SGR. */
    LOG("\x1b[>4;2mx\x1b[?1my\x1b[1 mz", "xyz", 17);
    LOG("\xc2\x9b"
        "31mx",
        "{2 0}x", 0);
    /* Held-back spaces keep the style they were written in. */
    LOG("\x1b[41ma  \x1b[0m b \n", "{0 2}a  {0 0} b|", 0);
    char many[200] = "\x1b[";
    for (size_t i = 2; i < sizeof many - 4; i += 2)
        memcpy(many + i, "1;", 2);
    strcat(many, "mx");
    uint64_t dropped = feed(many, strlen(many), 0, strlen(many));
    assert_string_equal(shown.data, "x");
    assert_int_equal(dropped, strlen(many) - 1);
}

static void hidden_characters(void **state)
{
    (void)state;
    LOG("a\u202eb\u200bc\ufe0fd\U000e0041e", "abcde", 13);
    LOG("a\ue000\ufdd0\u0378b", "a\ufffd\ufffd\ufffdb", 0);
    LOG("e\u0301\u0302\u0303x", "e\u0301\u0302x", 2);
    LOG("\u0301a \u0301\n\u0301b\r\u0301", "a|b", 8);
}

static void long_lines(void **state)
{
    (void)state;
    static char text[90000 + 1];
    memset(text, 'z', sizeof text);
    text[sizeof text - 1] = '\n';
    uint64_t dropped = feed(text, sizeof text, 40000, 40001);
    assert_int_equal(dropped, 0);
    assert_int_equal(shown.len, sizeof text);
    memset(text, ' ', sizeof text - 1);
    text[sizeof text - 1] = 'x';
    feed(text, sizeof text, 1, 2);
    assert_int_equal(shown.len, sizeof text);
}

static int setup(void **state)
{
    (void)state;
    bg_buf_init(&shown, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bg_buf_free(&shown);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text),
        cmocka_unit_test(c029_progress_tabs_controls),
        cmocka_unit_test(c007_c065_cut_characters),
        cmocka_unit_test(c013_sequences_are_consumed),
        cmocka_unit_test(unterminated_sequence_is_given_up),
        cmocka_unit_test(colours_survive),
        cmocka_unit_test(hidden_characters),
        cmocka_unit_test(long_lines),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: MIT */
/* The review renderer, class by class of README "What is shown", and its string form. */
#include "tests/test.h"
#include "tests/text_check.h"

/* Renders the tokens of s one after another; a line break as "|" (CRLF: "^|"). */
static uint32_t render(const char *p, size_t n, bool ascii, char *out, size_t size)
{
    struct bg_toks t;
    struct bg_tok tok;
    uint32_t hazards = 0;
    size_t at = 0, off = 0;
    bg_toks_init(&t, p, n, ascii);
    while (bg_toks_next(&t, &tok)) {
        assert_int_equal(tok.off, off);
        off += tok.len;
        assert_int_equal(bg_text_cols(tok.text, tok.text_len), tok.cols);
        assert_true(check_printable(tok.text, tok.text_len));
        assert_true(at + sizeof tok.text + 3 < size);
        memcpy(out + at, tok.text, tok.text_len);
        at += tok.text_len;
        if (tok.style == BG_TOK_NEWLINE && tok.crlf)
            out[at++] = '^';
        if (tok.style == BG_TOK_NEWLINE)
            out[at++] = '|';
        hazards |= tok.hazards;
    }
    assert_int_equal(off, n);
    out[at] = '\0';
    return hazards;
}

struct sample {
    const char *in;
    size_t n;
    const char *shown;
    uint32_t hazards;
};
#define SAMPLE(in, shown, hazards)         \
    {                                      \
        in, sizeof(in) - 1, shown, hazards \
    }
#define HZ(name) BG_HZ_BIT(BG_HZ_##name)

static void check_samples(const struct sample *s, size_t count)
{
    char out[4096];
    for (size_t i = 0; i < count; i++) {
        uint32_t hazards = render(s[i].in, s[i].n, false, out, sizeof out);
        assert_string_equal(out, s[i].shown);
        if (hazards != s[i].hazards)
            fail_msg("%s: hazards %x, not %x", s[i].shown, hazards, s[i].hazards);
    }
}
#define CHECK(samples) check_samples(samples, sizeof(samples) / sizeof *(samples))

static void controls(void **state)
{
    (void)state;
    static const struct sample s[] = {
        SAMPLE("a\nb", "a|b", 0),
        SAMPLE("\0\x01\x08\x0b\x1f\x7f", "\\x00\\x01\\x08\\x0b\\x1f\\x7f", HZ(CONTROL)),
        SAMPLE("safe\rrm", "safe\\rrm", HZ(CR_OVERWRITE)),
        SAMPLE("a\r\nb\r", "a^|b\\r", HZ(CR_OVERWRITE)),
        SAMPLE("a\r\nb\r\n", "a^|b^|", 0),
        SAMPLE("a\r\r\n", "a\\r^|", HZ(CR_OVERWRITE)),
        SAMPLE("\xc2\x85", "\\u{85}", HZ(CONTROL)),
        SAMPLE("\u2028\u2029", "\\u{2028}\\u{2029}", HZ(CONTROL)),
    };
    CHECK(s);
}

/* C013: sequences in code are shown, never obeyed. */
static void c013_escape_sequences(void **state)
{
    (void)state;
    static const struct sample s[] = {
        SAMPLE("print(1)#\x1b[2K\x1b[1A\rprint(2)", "print(1)#\\x1b[2K\\x1b[1A\\rprint(2)",
               HZ(ANSI) | HZ(CR_OVERWRITE)),
        SAMPLE("\x1b]52;c;QUJD\x07", "\\x1b]52;c;QUJD\\x07", HZ(ANSI) | HZ(CONTROL)),
        SAMPLE("\x9b"
               "2J",
               "\\x9b2J", HZ(NOT_UTF8) | HZ(ANSI)),
        SAMPLE("\xc2\x9b"
               "2J\xc2\x9dx",
               "\\u{9b}2J\\u{9d}x", HZ(ANSI)),
        SAMPLE("\x1bP...\x1b\\", "\\x1bP...\\x1b\\", HZ(ANSI)),
    };
    CHECK(s);
}

static void invisible_things(void **state)
{
    (void)state;
    static const struct sample s[] = {
        SAMPLE("\u061c\u200e\u200f\u202a\u202e\u2066\u2069",
               "\\u{61c}\\u{200e}\\u{200f}\\u{202a}\\u{202e}\\u{2066}\\u{2069}", HZ(BIDI)),
        SAMPLE("a\u200bb\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e\u17b4",
               "a\\u{200b}b\\u{200c}\\u{200d}\\u{2060}\\u{feff}\\u{ad}\\u{34f}\\u{180e}\\u{"
               "17b4}",
               HZ(INVISIBLE)),
        SAMPLE("\ufe0f\U000e0100\U000e01ef", "\\u{fe0f}\\u{e0100}\\u{e01ef}",
               HZ(INVISIBLE)),
        SAMPLE("\u115f\u1160\u3164\uffa0\ufff0\U0001d173",
               "\\u{115f}\\u{1160}\\u{3164}\\u{ffa0}\\u{fff0}\\u{1d173}", HZ(INVISIBLE)),
        SAMPLE("\U000e0001\U000e0041\U000e0080", "\\u{e0001}\\u{e0041}\\u{e0080}",
               HZ(TAG_SMUGGLING)),
        SAMPLE("\U0001f469\u200d\U0001f467", "\U0001f469\\u{200d}\U0001f467",
               HZ(INVISIBLE)),
        SAMPLE("\ue000\U000f0000\ufdd0\uffff\u0378",
               "\\u{e000}\\u{f0000}\\u{fdd0}\\u{ffff}\\u{378}", HZ(UNASSIGNED)),
    };
    CHECK(s);
}

static void blanks(void **state)
{
    (void)state;
    char spaces[42] = {0}, tabs[10] = {0};
    static const struct sample s[] = {
        SAMPLE("a\u00a0b\u3000\u2800", "a\u2423b\u2423\u2423", HZ(BLANK)),
        SAMPLE("a \n b\t\n  ", "a\u00b7| b\u2192 |\u00b7\u00b7", 0),
        SAMPLE("a \r\n", "a\u00b7^|", 0),
        SAMPLE("\ta\tbcd\te", "\u2192   a\u2192  bcd\u2192e", 0),
        SAMPLE("\u6a21\tx", "\u6a21\u2192 x", 0),
    };
    CHECK(s);
    char out[4096];
    memset(spaces, ' ', 41);
    assert_int_equal(render(spaces, 40, false, out, sizeof out), 0);
    assert_int_equal(render(spaces, 41, false, out, sizeof out), HZ(PADDING));
    memset(tabs, '\t', 9);
    assert_int_equal(render(tabs, 8, false, out, sizeof out), 0);
    assert_int_equal(render(tabs, 9, false, out, sizeof out), HZ(PADDING));
    char far[122];
    memset(far, 'x', sizeof far);
    far[119] = '\t';
    assert_int_equal(render(far, sizeof far, false, out, sizeof out), 0);
    far[119] = 'x';
    far[120] = '\t';
    assert_int_equal(render(far, sizeof far, false, out, sizeof out), HZ(PADDING));
}

static void combining_marks(void **state)
{
    (void)state;
    static const struct sample s[] = {
        SAMPLE("e\u0301\u0302", "e\u0301\u0302", 0),
        SAMPLE("e\u0301\u0302\u0303x\u0301", "e\u0301\u0302\\u{303}x\u0301", HZ(COMBINING)),
        /* Nothing to stand on: it would change the cell before it. */
        SAMPLE("\u0301", "\\u{301}", HZ(COMBINING)),
        SAMPLE("a\n\u0301", "a|\\u{301}", HZ(COMBINING)),
        SAMPLE("a \u0301", "a \\u{301}", HZ(COMBINING)),
        SAMPLE("a\x01\u0301", "a\\x01\\u{301}", HZ(COMBINING) | HZ(CONTROL)),
    };
    CHECK(s);
}

static void invalid_utf8(void **state)
{
    (void)state;
    static const struct sample s[] = {
        SAMPLE("\xc0\xaf", "\\xc0\\xaf", HZ(NOT_UTF8)),
        SAMPLE("\xed\xa0\x80", "\\xed\\xa0\\x80", HZ(NOT_UTF8)),
        SAMPLE("\xf4\x91\x80\x80", "\\xf4\\x91\\x80\\x80", HZ(NOT_UTF8)),
        SAMPLE("\xe2\x82z\xc3", "\\xe2\\x82z\\xc3", HZ(NOT_UTF8)),
        SAMPLE("\xff", "\\xff", HZ(NOT_UTF8)),
    };
    CHECK(s);
}

/* The letters that are underlined, as code points are told by their bytes. */
static void check_suspects(const char *in, const char *want)
{
    struct bg_toks t;
    struct bg_tok tok;
    char got[64] = "";
    bg_toks_init(&t, in, strlen(in), false);
    while (bg_toks_next(&t, &tok)) {
        assert_true((tok.style == BG_TOK_SUSPECT) ==
                    ((tok.hazards & HZ(MIXED_SCRIPT)) != 0));
        if (tok.style == BG_TOK_SUSPECT)
            strncat(got, in + tok.off, tok.len);
    }
    assert_string_equal(got, want);
}

static void mixed_scripts(void **state)
{
    (void)state;
    check_suspects("p\u0430ypal paypal", "\u0430");
    check_suspects("\u043f\u0440\u0438 ok", "");
    check_suspects("user_\u0438mya", "\u0438");
    check_suspects("\u03bfs", "\u03bf");
    check_suspects("\u0585s \u13a1x", "\u0585\u13a1");
    check_suspects("\uff45val \U0001d41eval", "\uff45\U0001d41e");
    check_suspects("API\u30ad\u30fc \u4f7f\u7528x", "");
    check_suspects("caf\u00e9 na\u00efve", "");
    /* The n of \n belongs to the escape of the language, not to the word. */
    check_suspects("\"\\n\u0418\u0442\u043e\u0433\"", "");
    check_suspects("\"\\n\u0418t\"", "\u0418");
}

static void expand_key_is_pure_ascii(void **state)
{
    (void)state;
    char out[512];
    const char *s = "caf\u00e9\tx \u6a21 \n\\t";
    assert_int_equal(render(s, strlen(s), true, out, sizeof out), 0);
    assert_string_equal(out, "caf\\u{e9}\\tx \\u{6a21}\\x20|\\t");
    /* The same hazards as in the usual view. */
    s = "e\u0301\u0302\u0303 p\u0430y \u00a0";
    uint32_t plain = render(s, strlen(s), false, out, sizeof out);
    assert_int_equal(render(s, strlen(s), true, out, sizeof out), plain);
}

/* C011: the act at column 5900 is there, and the line is named. */
static void c011_long_line(void **state)
{
    (void)state;
    static char text[6000], out[16384];
    memset(text, 'z', sizeof text);
    text[2000] = '\n';
    assert_int_equal(render(text, 2001, false, out, sizeof out), 0);
    text[2000] = 'z';
    assert_int_equal(render(text, 2001, false, out, sizeof out), HZ(LONG_LINE));
    assert_int_equal(strlen(out), 2001);
    memset(text, ' ', 6000);
    memcpy(text + 5900, "os.remove(p)", 12);
    assert_int_equal(render(text, 6000, false, out, sizeof out),
                     HZ(LONG_LINE) | HZ(PADDING));
    assert_non_null(strstr(out, " os.remove(p)\u00b7"));
}

static void check_safe(const char *in, size_t n, unsigned flags, const char *want)
{
    struct bg_buf out;
    bg_buf_init(&out, 65536);
    bg_text_safe(&out, in, n, flags);
    assert_string_equal(out.data, want);
    bg_buf_free(&out);
}
#define SAFE(in, flags, want) check_safe(in, sizeof(in) - 1, flags, want)

static void safe_text(void **state)
{
    (void)state;
    SAFE("", 0, "");
    SAFE("a\nb\r\nc", 0, "a\\nb\\r\\nc");
    SAFE("a\nb\r\nc", BG_SAFE_MULTILINE, "a\nb\\r\nc");
    SAFE("a\u00a0b", 0, "a\\u{a0}b");
    SAFE("x\u202ey\tz ", 0, "x\\u{202e}y\u2192 z\u00b7");
    SAFE("\u00e9", BG_SAFE_ASCII, "\\u{e9}");
    SAFE("a\x1b[31mb\x07\x08", BG_SAFE_COLOR,
         "a\x1b[7m\\x1b\x1b[0m[31mb\x1b[7m\\x07\\x08\x1b[0m");
    SAFE("p\u0430y ", BG_SAFE_COLOR, "p\x1b[4m\u0430\x1b[0my\x1b[2m\u00b7\x1b[0m");
}

/* A source that spells one of our marks is told from the thing itself. */
static void plain_text_is_injective(void **state)
{
    (void)state;
    SAFE("\x1b", 0, "\\x1b");
    SAFE("\\x1b \\X1b \\xg", 0, "\\x5cx1b \\X1b \\xg");
    SAFE("\\u{41} \\u0041", 0, "\\x5cu{41} \\u0041");
    SAFE("\\r\\n", 0, "\\x5cr\\x5cn");
    SAFE("\\r\\n\\t", BG_SAFE_MULTILINE, "\\x5cr\\n\\t");
    SAFE("\\\x1b", 0, "\\\\x1b");
    SAFE("\u2192", 0, "\\u{2192}");
    SAFE("a\u00b7b\u00b7", 0, "a\u00b7b\\u{b7}");
    SAFE("\\x1b \u2192", BG_SAFE_COLOR, "\\x1b \u2192");
    /* All texts of a few bytes over an alphabet of trouble read back. */
    static const char alphabet[] = "\\xrnu{}1 \t\r\n\xc2\xb7\x1b";
    enum { LETTERS = sizeof alphabet - 1, LENGTH = 5 };
    for (unsigned i = 0; i < LETTERS * LETTERS * LETTERS * LETTERS * LETTERS; i++) {
        char in[LENGTH];
        for (unsigned k = 0, v = i; k < LENGTH; k++, v /= LETTERS)
            in[k] = alphabet[v % LETTERS];
        unsigned flags = i % 2 ? BG_SAFE_MULTILINE : 0;
        struct bg_buf out;
        size_t n;
        bg_buf_init(&out, 256);
        bg_text_safe(&out, in, sizeof in, flags);
        char *back = check_read_back(out.data, out.len, flags, &n);
        if (n != sizeof in || memcmp(in, back, n) != 0)
            fail_msg("not read back: %s", out.data);
        free(back);
        bg_buf_free(&out);
    }
}

static void check_line(const char *in, int max, const char *want)
{
    char *line = bg_text_safe_line(in, strlen(in), max);
    assert_string_equal(line, want);
    free(line);
}

static void safe_line(void **state)
{
    (void)state;
    check_line("", 5, "");
    check_line("abc", 3, "abc");
    check_line("abcd", 3, "ab\u2026");
    check_line("abcd", 0, "abcd");
    check_line("abcd", 1, "\u2026");
    check_line("a\u6a21\u6a21", 4, "a\u6a21\u2026");
    check_line("\u6a21\u6a21", 3, "\u6a21\u2026");
    check_line("a\nb\x1b", 0, "a\\nb\\x1b");
    check_line("ab\x1b[31m", 4, "ab\u2026");
    check_line("ae\u0301bc", 3, "ae\u0301\u2026");
    check_line("ae\u0301b", 3, "ae\u0301b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controls),
        cmocka_unit_test(c013_escape_sequences),
        cmocka_unit_test(invisible_things),
        cmocka_unit_test(blanks),
        cmocka_unit_test(combining_marks),
        cmocka_unit_test(invalid_utf8),
        cmocka_unit_test(mixed_scripts),
        cmocka_unit_test(expand_key_is_pure_ascii),
        cmocka_unit_test(c011_long_line),
        cmocka_unit_test(safe_text),
        cmocka_unit_test(plain_text_is_injective),
        cmocka_unit_test(safe_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

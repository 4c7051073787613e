/* SPDX-License-Identifier: MIT */
/* The strict front: what two readers could understand differently does not get past it. */
#include <locale.h>
#include <stdlib.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/utf8.h"
#include "core/base/values.h"
#include "tests/test.h"

#define MAX BG_JSON_HELLO_MAX

static void refuse_n(const char *text, size_t n, enum bg_errc code, const char *part)
{
    struct bg_error e = {0};
    cJSON *j = bg_json_parse(text, n, MAX, &e);
    if (j) {
        cJSON_Delete(j);
        fail_msg("accepted: %.80s", text);
    }
    assert_int_equal(e.code, code);
    if (!strstr(e.msg, part))
        fail_msg("\"%s\" lacks \"%s\"", e.msg, part);
}

static void refuse(const char *text, const char *part)
{
    refuse_n(text, strlen(text), BG_ERR_PROTOCOL, part);
}

static cJSON *accept(const char *text)
{
    struct bg_error e = {0};
    cJSON *j = bg_json_parse(text, strlen(text), MAX, &e);
    if (!j)
        fail_msg("refused: %.80s: %s", text, e.msg);
    assert_int_equal(e.code, BG_OK);
    return j;
}

/* What parsing and printing makes of a text. */
static void prints(const char *text, const char *want)
{
    bg_autojson cJSON *j = accept(text);
    bg_autofree char *s = bg_json_print(j);
    assert_string_equal(s, want);
}

static void accepts_plain_json(void **state)
{
    (void)state;
    prints(" {\"a\" : [1, -2.5, true, false, null, \"x\"] }\r\n\t",
           "{\"a\":[1,-2.5,true,false,null,\"x\"]}");
    prints("{}", "{}");
    prints("[ ]", "[]");
    prints("[[],{}]", "[[],{}]");
    prints("\"top\"", "\"top\"");
    prints("-0", "0");
    prints("[0.1,1e3,1E+2,1.5e-7]", "[0.1,1000,100,1.5e-07]");
    prints("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u001f\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u001f\"");
    prints("\"\\ud83d\\ude00\\u00fc\"", "\"\xf0\x9f\x98\x80\xc3\xbc\"");
    prints("{\"a\":{\"x\":1},\"b\":{\"x\":1}}", "{\"a\":{\"x\":1},\"b\":{\"x\":1}}");
}

static void refuses_bad_grammar(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "[",
                                      "}",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "[1,]",
                                      "[,1]",
                                      "[1 2]",
                                      "{1:2}",
                                      "{a:1}",
                                      "'x'",
                                      "tru",
                                      "nul",
                                      "True",
                                      "NaN",
                                      "-",
                                      "+1",
                                      ".5",
                                      "1.",
                                      "1e",
                                      "1e+",
                                      "-x",
                                      "0x10",
                                      "Infinity",
                                      "-Infinity",
                                      "\"",
                                      "\"\\",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\u12g4\"",
                                      "{\"a\":1 \"b\":2}",
                                      "{\"a\" 1}",
                                      "[1]]",
                                      "{}{}",
                                      "// c\n1",
                                      "[1/**/]",
                                      "\v1",
                                      "{,}"};
    for (size_t i = 0; i < bg_countof(bad); i++)
        refuse(bad[i], "at byte ");
}

static void errors_name_the_byte(void **state)
{
    (void)state;
    refuse("{\"a\":1,}", "expected a field name at byte 7");
    refuse("[01]", "a number with a leading zero at byte 1");
    refuse("{} x", "something after the value at byte 3");
    refuse("", "expected a value, found the end at byte 0");
}

static void c020_duplicate_or_other_case_field(void **state)
{
    (void)state;
    refuse("{\"code\":\"print(1)\",\"code\":\"os.system('id')\"}",
           "duplicate field \"code\" at byte 19");
    refuse("{\"a\":[{\"x\":1,\"y\":2,\"x\":3}]}", "duplicate field \"x\"");
    /* The same name behind an escape. */
    refuse("{\"code\":1,\"c\\u006fde\":2}", "duplicate field \"c\\u006fde\"");
    refuse("{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}", "duplicate field");
    refuse("{\"a\\/\":1,\"a/\":2}", "duplicate field");
    refuse("{\"\":1,\"\":2}", "duplicate field \"\"");
    /* Other case is another name, which nobody asked for. */
    bg_autojson cJSON *j = accept("{\"CODE\":\"os.system('id')\",\"code\":\"print(1)\"}");
    struct bg_error e = {0};
    struct bg_jr r;
    bg_jr_begin(&r, j, "params", &e);
    assert_string_equal(bg_jr_str(&r, "code"), "print(1)");
    assert_false(bg_jr_end(&r));
    assert_string_equal(e.msg, "params: unknown field \"CODE\"");
}

static void duplicates_among_many_are_found(void **state)
{
    (void)state;
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, 1 << 20);
    bg_buf_puts(&b, "{\"k2999\":0");
    for (int i = 0; i < 3000; i++)
        bg_buf_printf(&b, ",\"k%d\":{\"k%d\":1}", i, i);
    bg_buf_puts(&b, "}");
    refuse_n(b.data, b.len, BG_ERR_PROTOCOL, "duplicate field \"k2999\"");
    b.data[2] = 'q';
    assert_true(bg_json_check(b.data, b.len, MAX, NULL));
}

static void nul_cannot_cut_a_string(void **state)
{
    (void)state;
    refuse("{\"code\":\"a\\u0000b\"}", "\\u0000 in a string at byte 10");
    refuse("{\"a\\u0000\":1}", "\\u0000 in a string");
    refuse_n("\"a\0b\"", 5, BG_ERR_PROTOCOL, "a raw control byte");
    refuse_n("1\0", 2, BG_ERR_PROTOCOL, "something after the value");
}

static void raw_controls_and_bad_utf8(void **state)
{
    (void)state;
    refuse("\"a\nb\"", "a raw control byte in a string at byte 2");
    refuse("\"a\tb\"", "a raw control byte");
    refuse("\"\x1b\"", "a raw control byte");
    refuse("\"\xff\xfe\"", "invalid UTF-8 at byte 1");
    refuse("\"\xc0\xaf\"", "invalid UTF-8");
    refuse("\"\xed\xa0\x80\"", "invalid UTF-8");
    refuse("\"\xe2\x82\"", "invalid UTF-8");
    refuse("\xef\xbb\xbf{}", "expected a value at byte 0");
    refuse("\"\\ud800\"", "a lone surrogate");
    refuse("\"\\udc00\"", "a lone surrogate");
    refuse("\"\\ud800\\ud800\"", "a lone surrogate");
    refuse("\"\\ud800\\n\"", "a lone surrogate");
    refuse("\"\\ud800\\u0041\"", "a lone surrogate");
    refuse("\"\\ud800\\udc0\"", "a lone surrogate");
}

static void c106_numbers(void **state)
{
    (void)state;
    refuse("{\"timeoutMs\":1e400}", "a number out of range at byte 13");
    refuse("-1e400", "out of range");
    refuse("9007199254740993", "an integer past 2^53");
    refuse("-9007199254740993", "an integer past 2^53");
    refuse("1234567890123456789", "an integer past 2^53");
    refuse("007", "a leading zero");
    refuse("-01", "a leading zero");
    refuse("1.000000000000000000000000000000000000000000000000000000000000000001",
           "more than 63 characters");
    prints("9007199254740992", "9007199254740992");
    prints("-9007199254740992", "-9007199254740992");
    prints("9007199254740991", "9007199254740991");
    prints("1e308", "1e+308");
    prints("9007199254740993.15", "9007199254740994.0");
}

static void c106_depth(void **state)
{
    (void)state;
    char *deep = bg_xmalloc(100000);
    memset(deep, '[', 100000);
    struct bg_error e = {0};
    assert_false(bg_json_check(deep, 100000, 100000, &e));
    assert_int_equal(e.code, BG_ERR_LIMIT);
    assert_non_null(strstr(e.msg, "more than 64 levels at byte 64"));
    memset(deep + BG_JSON_DEPTH_MAX, ']', BG_JSON_DEPTH_MAX);
    assert_true(bg_json_check(deep, 2 * BG_JSON_DEPTH_MAX, MAX, NULL));
    free(deep);
    /* Breadth is no depth. */
    prints("[[],[],[[]],[{}]]", "[[],[],[[]],[{}]]");
}

static void c106_size_and_trailing_bytes(void **state)
{
    (void)state;
    size_t n = 20 * 1024 * 1024;
    char *big = bg_xmalloc(n);
    memset(big, 'a', n);
    big[0] = big[n - 1] = '"';
    struct bg_error e = {0};
    assert_false(bg_json_check(big, n, BG_JSON_LINE_MAX, &e));
    assert_int_equal(e.code, BG_ERR_LIMIT);
    assert_true(bg_json_check(big, n, n, NULL));
    free(big);
    refuse("{\"a\":1} garbage", "something after the value at byte 8");
    assert_true(bg_json_check("[]  ", 4, 4, NULL));
    assert_false(bg_json_check("[]   ", 5, 4, NULL));
}

static void c106_fields_name_their_range(void **state)
{
    (void)state;
    static const char *const bad[] = {"-1",     "0",     "0.5",  "\"30000\"",
                                      "300001", "1e300", "true", "[]"};
    for (size_t i = 0; i < bg_countof(bad); i++) {
        bg_autofree char *text = bg_xasprintf("{\"timeoutMs\":%s}", bad[i]);
        bg_autojson cJSON *j = accept(text);
        struct bg_error e = {0};
        struct bg_jr r;
        bg_jr_begin(&r, j, "params", &e);
        assert_int_equal(bg_jr_int_opt(&r, "timeoutMs", 1, 300000, 7), 7);
        assert_false(bg_jr_end(&r));
        assert_int_equal(e.code, BG_ERR_USAGE);
        assert_string_equal(e.msg,
                            "params.timeoutMs: expected a whole number from 1 to 300000");
    }
    bg_autojson cJSON *j = accept("{\"containerPort\":65536,\"n\":3e2,\"z\":-0}");
    struct bg_error e = {0};
    struct bg_jr r;
    bg_jr_begin(&r, j, "params", &e);
    assert_int_equal(bg_jr_int(&r, "n", 0, INT64_MAX), 300);
    assert_int_equal(bg_jr_int(&r, "z", 0, 1), 0);
    bg_jr_int(&r, "containerPort", 1, 65535);
    assert_string_equal(e.msg,
                        "params.containerPort: expected a whole number from 1 to 65535");
}

static void reader_types(void **state)
{
    (void)state;
    bg_autojson cJSON *j =
        accept("{\"s\":\"x\",\"b\":true,\"o\":{\"k\":1},\"a\":[1],\"n\":null}");
    struct bg_error e = {0};
    struct bg_jr r;
    bg_jr_begin(&r, j, "params", &e);
    assert_string_equal(bg_jr_str(&r, "s"), "x");
    assert_string_equal(bg_jr_str_opt(&r, "n", "dflt"), "dflt");
    assert_string_equal(bg_jr_str_opt(&r, "missing", "dflt"), "dflt");
    assert_true(bg_jr_bool_opt(&r, "b", false));
    assert_true(bg_jr_bool_opt(&r, "missing", true));
    assert_non_null(bg_jr_obj(&r, "o"));
    assert_null(bg_jr_obj_opt(&r, "missing"));
    assert_int_equal(cJSON_GetArraySize(bg_jr_arr_opt(&r, "a")), 1);
    assert_true(bg_jr_end(&r));
    assert_int_equal(e.code, BG_OK);
}

static void reader_keeps_the_first_error(void **state)
{
    (void)state;
    bg_autojson cJSON *j = accept("{\"code\":5,\"x\":1}");
    struct bg_error e = {0};
    struct bg_jr r;
    bg_jr_begin(&r, j, "params", &e);
    assert_null(bg_jr_str(&r, "code"));
    assert_null(bg_jr_str(&r, "gone"));
    assert_null(bg_jr_obj(&r, "x"));
    assert_false(bg_jr_end(&r));
    assert_string_equal(e.msg, "params.code: expected string");
}

static void reader_refuses_wrong_types_and_missing(void **state)
{
    (void)state;
    bg_autojson cJSON *j = accept("{\"s\":\"x\",\"n\":null}");
    struct {
        const char *want;
        int which;
    } all[] = {{"p.m: missing", 0},
               {"p.n: missing", 1},
               {"p.s: expected true or false", 2},
               {"p.s: expected object", 3},
               {"p.s: expected array", 4}};
    for (size_t i = 0; i < bg_countof(all); i++) {
        struct bg_error e = {0};
        struct bg_jr r;
        bg_jr_begin(&r, j, "p", &e);
        switch (all[i].which) {
        case 0:
            bg_jr_str(&r, "m");
            break;
        case 1:
            bg_jr_int(&r, "n", 0, 1);
            break;
        case 2:
            bg_jr_bool_opt(&r, "s", false);
            break;
        case 3:
            bg_jr_obj_opt(&r, "s");
            break;
        default:
            bg_jr_arr_opt(&r, "s");
        }
        assert_string_equal(e.msg, all[i].want);
    }
    struct bg_error e = {0};
    struct bg_jr r;
    bg_jr_begin(&r, NULL, "p", &e);
    assert_null(bg_jr_str(&r, "m"));
    assert_false(bg_jr_end(&r));
    assert_string_equal(e.msg, "p: expected object");
}

static void reader_caps_the_members(void **state)
{
    (void)state;
    for (int n = 256; n <= 257; n++) {
        bg_autojson cJSON *o = bg_jo();
        for (int i = 0; i < n; i++) {
            char key[16];
            snprintf(key, sizeof key, "k%d", i);
            bg_jset_int(o, key, i);
        }
        struct bg_error e = {0};
        struct bg_jr r;
        bg_jr_begin(&r, o, "p", &e);
        for (int i = 0; i < n; i++) {
            char key[16];
            snprintf(key, sizeof key, "k%d", i);
            bg_jr_int_opt(&r, key, 0, 1000, -1);
        }
        assert_int_equal(bg_jr_end(&r), n == 256);
        assert_string_equal(e.msg, n == 256 ? "" : "p: more than 256 fields");
    }
}

static char *bytes_of(const char *text, size_t max, size_t *n, struct bg_error *e)
{
    bg_autojson cJSON *j = accept(text);
    struct bg_jr r;
    *e = (struct bg_error){0};
    bg_jr_begin(&r, j, "p", e);
    char *got = bg_jr_bytes(&r, "f", max, n);
    assert_int_equal(bg_jr_end(&r), got != NULL);
    return got;
}

static void byte_fields(void **state)
{
    (void)state;
    static const char *const bad[] = {"{\"f\":1}",
                                      "{\"f\":{}}",
                                      "{\"f\":{\"base64\":1}}",
                                      "{\"f\":{\"Base64\":\"\"}}",
                                      "{\"f\":{\"base64\":\"Zg==\",\"x\":1}}",
                                      "{\"f\":{\"base64\":\"Zg\"}}",
                                      "{\"f\":\"12345\"}",
                                      "{\"f\":{\"base64\":\"MTIzNDU=\"}}",
                                      "{}",
                                      "{\"f\":null}"};
    struct bg_error e;
    size_t n = 99;
    bg_autofree char *a = bytes_of("{\"f\":\"h\xc3\xbc\"}", 3, &n, &e);
    assert_int_equal(n, 3);
    assert_string_equal(a, "h\xc3\xbc");
    bg_autofree char *b = bytes_of("{\"f\":{\"base64\":\"AP8=\"}}", 2, &n, &e);
    assert_int_equal(n, 2);
    assert_memory_equal(b, "\0\xff", 3);
    bg_autofree char *c = bytes_of("{\"f\":\"\"}", 0, &n, &e);
    assert_string_equal(c, "");
    assert_int_equal(n, 0);
    for (size_t i = 0; i < bg_countof(bad); i++) {
        n = 99;
        assert_null(bytes_of(bad[i], 4, &n, &e));
        assert_int_equal(n, 0);
        assert_memory_equal(e.msg, "p.f: ", 5);
    }
    assert_null(bytes_of("{\"f\":{\"base64\":\"MTIzNDU=\"}}", 4, &n, &e));
    assert_string_equal(e.msg, "p.f: more than 4 bytes");
}

static void building(void **state)
{
    (void)state;
    bg_autojson cJSON *o = bg_jo();
    bg_jset_str(o, "s", "a\"b");
    bg_jset_str(o, "none", NULL);
    bg_jset_str(o, "bad",
                "a\xff"
                "b");
    bg_jset_int(o, "i", INT64_C(-1234567890123456));
    bg_jset_int(o, "big", INT64_MAX);
    bg_jset_bool(o, "t", true);
    bg_jset_time(o, "at", 0);
    bg_jset_time(o, "never", -1);
    bg_jset_bytes(o, "text", "hi", 2);
    bg_jset_bytes(o, "bin", "\0\xff", 2);
    bg_jset_bytes(o, "empty", NULL, 0);
    bg_jset(o, "arr", bg_ja());
    bg_autofree char *s = bg_json_print(o);
    assert_string_equal(
        s, "{\"s\":\"a\\\"b\",\"none\":null,\"bad\":\"a\xef\xbf\xbd"
           "b\",\"i\":-1234567890123456,"
           "\"big\":9007199254740992,\"t\":true,\"at\":\"1970-01-01T00:00:00.000Z\","
           "\"never\":null,"
           "\"text\":\"hi\",\"bin\":{\"base64\":\"AP8=\"},\"empty\":\"\",\"arr\":[]}");
    /* What we print, we accept. */
    assert_true(bg_json_check(s, strlen(s), MAX, NULL));
}

static void pretty(void **state)
{
    (void)state;
    bg_autojson cJSON *j = accept("{\"a\":[1,{}],\"b\":{\"c\":[]}}");
    bg_autofree char *s = bg_json_print_pretty(j);
    assert_string_equal(
        s, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {\n    \"c\": []\n  }\n}");
}

static void doubles_keep_every_digit(void **state)
{
    (void)state;
    static const char *const same[] = {"0.1",
                                       "0.30000000000000004",
                                       "1.7976931348623157e+308",
                                       "4.94065645841247e-324",
                                       "123456.789",
                                       "1234567890.1234567"};
    for (size_t i = 0; i < bg_countof(same); i++)
        prints(same[i], same[i]);
}

/* A locale with a decimal comma: one that is here, else one made in dir. */
static bool comma_locale(const char *dir)
{
    char cmd[256];
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8"))
        return true;
    snprintf(cmd, sizeof cmd,
             "localedef --no-archive -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s/log 2>&1", dir,
             dir);
    return system(cmd) == 0 && setenv("LOCPATH", dir, 1) == 0 &&
           setlocale(LC_NUMERIC, "de_DE.UTF-8");
}

static void numbers_ignore_the_locale(void **state)
{
    (void)state;
    char dir[] = "/tmp/bg-locale-XXXXXX";
    assert_non_null(mkdtemp(dir));
    bool found = comma_locale(dir);
    if (found)
        prints("[1.5,2.25e-7]", "[1.5,2.25e-07]");
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    assert_true(bg_rm_rf(dir, NULL));
    if (!found) {
        print_message("no locale with a decimal comma, and localedef can't make one\n");
        skip();
    }
}

static void big_integers_are_kept_as_text(void **state)
{
    static const char text[] =
        "{\"timeNano\":1796064259399613094,\"n\":9007199254740992,\"a\":[-9007199254740993,"
        "18446744073709551615,1.5]}";
    struct bg_error err;

    (void)state;
    bg_autojson cJSON *j = bg_json_parse_big(text, strlen(text), 4096, &err);
    assert_non_null(j);
    bg_autofree char *out = bg_json_print(j);
    assert_string_equal(out, "{\"timeNano\":\"1796064259399613094\",\"n\":9007199254740992,"
                             "\"a\":[\"-9007199254740993\",\"18446744073709551615\",1.5]}");
    assert_null(bg_json_parse_big("[1,", 3, 4096, &err));
    assert_null(bg_json_parse_big("1e999", 5, 4096, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_plain_json),
        cmocka_unit_test(refuses_bad_grammar),
        cmocka_unit_test(errors_name_the_byte),
        cmocka_unit_test(c020_duplicate_or_other_case_field),
        cmocka_unit_test(duplicates_among_many_are_found),
        cmocka_unit_test(nul_cannot_cut_a_string),
        cmocka_unit_test(raw_controls_and_bad_utf8),
        cmocka_unit_test(c106_numbers),
        cmocka_unit_test(c106_depth),
        cmocka_unit_test(c106_size_and_trailing_bytes),
        cmocka_unit_test(c106_fields_name_their_range),
        cmocka_unit_test(reader_types),
        cmocka_unit_test(reader_keeps_the_first_error),
        cmocka_unit_test(reader_refuses_wrong_types_and_missing),
        cmocka_unit_test(reader_caps_the_members),
        cmocka_unit_test(byte_fields),
        cmocka_unit_test(building),
        cmocka_unit_test(pretty),
        cmocka_unit_test(doubles_keep_every_digit),
        cmocka_unit_test(numbers_ignore_the_locale),
        cmocka_unit_test(big_integers_are_kept_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

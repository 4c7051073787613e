/* SPDX-License-Identifier: MIT */
/* Known digests, the framing of hashed fields, and base64 without slack. */
#include <stdlib.h>

#include "core/base/digest.h"
#include "core/base/mem.h"
#include "tests/test.h"

static void known_digests(void **state)
{
    (void)state;
    char hex[BG_SHA256_HEX + 1];
    struct bg_sha256 d = bg_sha256("abc", 3);
    bg_sha256_hex(&d, hex);
    assert_string_equal(hex,
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    d = bg_sha256("", 0);
    bg_sha256_hex(&d, hex);
    assert_string_equal(hex,
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void streaming_equals_whole(void **state)
{
    (void)state;
    struct bg_hasher *h = bg_hasher_new();
    bg_hasher_add(h, "a", 1);
    bg_hasher_add(h, "bc", 2);
    struct bg_sha256 a = bg_hasher_end(h), b = bg_sha256("abc", 3);
    assert_true(bg_sha256_eq(&a, &b));
}

static void fields_are_framed(void **state)
{
    (void)state;
    static const char bytes[] = "\x00\x04"
                                "code"
                                "\x00\x00\x00\x00\x00\x00\x00\x02"
                                "hi";
    struct bg_hasher *h = bg_hasher_new();
    bg_hasher_field(h, "code", "hi", 2);
    struct bg_sha256 a = bg_hasher_end(h), b = bg_sha256(bytes, sizeof bytes - 1);
    assert_true(bg_sha256_eq(&a, &b));
    /* Moving a byte from one field to the next is another digest. */
    struct bg_hasher *x = bg_hasher_new(), *y = bg_hasher_new();
    bg_hasher_field(x, "a", "12", 2);
    bg_hasher_field(x, "b", "3", 1);
    bg_hasher_field(y, "a", "1", 1);
    bg_hasher_field(y, "b", "23", 2);
    a = bg_hasher_end(x);
    b = bg_hasher_end(y);
    assert_false(bg_sha256_eq(&a, &b));
}

static void hex_both_ways(void **state)
{
    (void)state;
    struct bg_sha256 d = bg_sha256("abc", 3), e;
    char hex[BG_SHA256_HEX + 1];
    bg_sha256_hex(&d, hex);
    assert_true(bg_sha256_from_hex(hex, &e));
    assert_true(bg_sha256_eq(&d, &e));
    hex[0] = 'B';
    assert_true(bg_sha256_from_hex(hex, &e));
    assert_true(bg_sha256_eq(&d, &e));
    hex[63] = 'g';
    assert_false(bg_sha256_from_hex(hex, &e));
    hex[63] = '\0';
    assert_false(bg_sha256_from_hex(hex, &e));
    assert_false(bg_sha256_from_hex(NULL, &e));
}

static void random_differs(void **state)
{
    (void)state;
    char a[33], b[33];
    bg_random_hex(a, 16);
    bg_random_hex(b, 16);
    assert_int_equal(strlen(a), 32);
    assert_string_not_equal(a, b);
    assert_true(bg_equal_ct("ab", "ab", 2));
    assert_false(bg_equal_ct("ab", "ac", 2));
}

static bool decodes(const char *s, const char *want, size_t n)
{
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, 64);
    return bg_base64_decode(bg_str_from(s), &b, NULL) && b.len == n &&
           !memcmp(b.data, want, n) && b.data[b.len] == '\0';
}

static void base64_round_trip(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE="};
    for (size_t i = 0; i < bg_countof(texts); i++) {
        bg_autofree char *t = bg_base64("foobar", i);
        assert_string_equal(t, texts[i]);
        assert_true(decodes(t, "foobar", i));
    }
    assert_true(decodes("AP8+Pw==", "\0\xff>?", 4));
}

static void base64_is_strict(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "Zg",   "Zg=",  "Z",        "Zg==\n", "Zm 9v", "Zm9v\nZm9",     "Zh==",      "Zm9=",
        "====", "=Zg=", "Zg==Zg==", "Zm-_",   "Zg=v",  "Z\xf2\x38\x61", "\xc3\xbcZg"};
    for (size_t i = 0; i < bg_countof(bad); i++) {
        bg_autobuf struct bg_buf b;
        struct bg_error e = {0};
        bg_buf_init(&b, 64);
        bg_buf_puts(&b, "keep");
        assert_false(bg_base64_decode(bg_str_from(bad[i]), &b, &e));
        assert_int_equal(e.code, BG_ERR_PROTOCOL);
        assert_string_equal(b.data, "keep");
    }
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, 64);
    assert_false(bg_base64_decode((struct bg_str){"Zm\0v", 4}, &b, NULL));
}

static void base64_respects_the_cap(void **state)
{
    (void)state;
    bg_autobuf struct bg_buf b;
    struct bg_error e = {0};
    bg_buf_init(&b, 4);
    assert_true(bg_base64_decode(BG_STR("Zm9vYg=="), &b, NULL));
    bg_buf_clear(&b);
    assert_false(bg_base64_decode(BG_STR("Zm9vYmE="), &b, &e));
    assert_int_equal(e.code, BG_ERR_LIMIT);
}

int main(void)
{
    bg_digest_init();
    bg_digest_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_digests),     cmocka_unit_test(streaming_equals_whole),
        cmocka_unit_test(fields_are_framed), cmocka_unit_test(hex_both_ways),
        cmocka_unit_test(random_differs),    cmocka_unit_test(base64_round_trip),
        cmocka_unit_test(base64_is_strict),  cmocka_unit_test(base64_respects_the_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

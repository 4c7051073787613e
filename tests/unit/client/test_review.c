/* SPDX-License-Identifier: MIT */
/* The review document: it exists only for the bytes that the hash binds, and believes those
 * bytes, not what the row says of them. */
#include <stdlib.h>

#include "core/base/digest.h"
#include "core/base/mem.h"
#include "core/client/review.h"
#include "tests/test.h"

static const char *const names[] = {"kind", "code", "argv", "argv"};

/* approval.get's answer for these bytes, with the right hash. */
static cJSON *answer(const char *kind, const char *code, const char *row_kind)
{
    const char *const bytes[] = {kind, code, "python3", "-"};
    char hex[BG_SHA256_HEX + 1];
    cJSON *o = bg_jo(), *bound = bg_ja();
    struct bg_hasher *h = bg_hasher_new();
    bg_hasher_add(h, "boxgate-req-v1", sizeof "boxgate-req-v1");
    for (size_t i = 0; i < bg_countof(names); i++) {
        cJSON *f = bg_jo();
        bg_autofree char *b64 = bg_base64(bytes[i], strlen(bytes[i]));
        bg_jset_str(f, "name", names[i]);
        bg_jset_str(f, "base64", b64);
        cJSON_AddItemToArray(bound, f);
        bg_hasher_field(h, names[i], bytes[i], strlen(bytes[i]));
    }
    struct bg_sha256 d = bg_hasher_end(h);
    bg_sha256_hex(&d, hex);
    bg_jset_int(o, "id", 7);
    bg_jset_int(o, "rev", 1);
    bg_jset_str(o, "kind", row_kind);
    bg_jset_str(o, "sha256", hex);
    bg_jset(o, "bound", bound);
    bg_jset(o, "hazards", bg_ja());
    return o;
}

static void test_what_is_bound_is_shown(void **state)
{
    (void)state;
    bg_autojson cJSON *a = answer("run_code", "print(1)\n", "run_code");
    struct bg_error err = {0};
    struct bg_review *r = bg_review_build(a, &err);
    assert_non_null(r);
    assert_int_equal(r->n_fields, 1);
    assert_string_equal(r->fields[0].bytes, "print(1)\n");
    assert_false(r->high);
    bg_review_free(r);
}

static void test_other_bytes_than_the_hash_binds_give_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < bg_countof(names); i++) {
        bg_autojson cJSON *a = answer("run_code", "print(1)\n", "run_code");
        cJSON *f = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(a, "bound"), (int)i);
        struct bg_error err = {0};
        bg_jset_str(f, "base64", "eA==");
        assert_null(bg_review_build(a, &err));
        assert_int_equal(err.code, BG_ERR_HASH_MISMATCH);
    }
    bg_autojson cJSON *a = answer("run_code", "print(1)\n", "run_code");
    struct bg_error err = {0};
    cJSON_DeleteItemFromArray(cJSON_GetObjectItemCaseSensitive(a, "bound"), 3);
    assert_null(bg_review_build(a, &err));
    assert_int_equal(err.code, BG_ERR_HASH_MISMATCH);
}

static void test_a_row_that_lies_about_its_kind(void **state)
{
    (void)state;
    /* As run_code the arguments would be taken for the interpreter's and not be shown. */
    bg_autojson cJSON *a = answer("exec", "", "run_code");
    struct bg_error err = {0};
    struct bg_review *r = bg_review_build(a, &err);
    assert_non_null(r);
    assert_int_equal(r->n_fields, 2);
    assert_string_equal(r->fields[0].bytes, "python3");
    bg_review_free(r);
}

static void test_a_hazard_the_row_hides_is_told(void **state)
{
    (void)state;
    bg_autojson cJSON *a = answer("run_code", "x = '\u202e'\n", "run_code");
    struct bg_error err = {0};
    struct bg_review *r = bg_review_build(a, &err);
    assert_non_null(r);
    assert_true(r->high);
    assert_true(r->hazards & BG_HZ_BIT(BG_HZ_BIDI));
    assert_non_null(r->risks);
    assert_non_null(strstr(r->risks[0], "code line 1"));
    bg_review_free(r);
}

static void test_wild_numbers_name_nothing(void **state)
{
    (void)state;
    static const double wild[] = {-1, 1e300, 1e16};
    for (size_t i = 0; i < bg_countof(wild); i++) {
        bg_autojson cJSON *a = answer("run_code", "print(1)\n", "run_code");
        struct bg_error err = {0};
        bg_jset(a, "id", cJSON_CreateNumber(wild[i]));
        bg_jset(a, "rev", cJSON_CreateNumber(wild[i]));
        struct bg_review *r = bg_review_build(a, &err);
        assert_non_null(r);
        assert_int_equal(r->id, 0);
        assert_int_equal(r->rev, 0);
        bg_review_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_bound_is_shown),
        cmocka_unit_test(test_other_bytes_than_the_hash_binds_give_nothing),
        cmocka_unit_test(test_a_row_that_lies_about_its_kind),
        cmocka_unit_test(test_a_hazard_the_row_hides_is_told),
        cmocka_unit_test(test_wild_numbers_name_nothing),
    };
    bg_digest_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Attacks on the console: keys that nobody meant, servers that answer nonsense or are
 * another one than before.
 */
#include <locale.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "tests/screen/lib_samples.h"

static struct screen *open_with(size_t n)
{
    struct screen *s = screen_new(24, 80);
    for (size_t i = 0; i < n; i++)
        cJSON_AddItemToArray(s->requests, sample_low(148 + (int64_t)i));
    screen_open(s);
    screen_type(s, "\r");
    screen_tick(s, 700);
    return s;
}

/* A keyboard that repeats: silent for `delay` after the press, then again and again. */
static void hold_key(struct screen *s, const char *key, int64_t delay, int64_t ms)
{
    screen_type(s, key);
    screen_tick(s, delay);
    for (int64_t t = delay; t < ms; t += 33) {
        screen_type(s, key);
        screen_tick(s, 33);
    }
}

static void a_key_that_is_held_answers_once(void **state)
{
    (void)state;
    static const int64_t delays[] = {200, 400, 500, 660, 900};
    for (size_t i = 0; i < bg_countof(delays); i++) {
        struct screen *s = open_with(3);
        hold_key(s, "a", delays[i], 4000);
        assert_int_equal(screen_decisions(s), 1);
        assert_true(screen_has(s, "discarded"));
        screen_tick(s, 1300); /* let go: the next press is meant */
        screen_type(s, "a");
        assert_int_equal(screen_decisions(s), 2);
        screen_free(s);
    }
    struct screen *s = open_with(3);
    hold_key(s, "x", 300, 4000);
    assert_int_equal(screen_decisions(s), 1);
    screen_free(s);
}

static void say_hello(struct screen *s, double arm_ms)
{
    bg_autojson cJSON *hello = bg_jo();
    cJSON_AddNumberToObject(hello, "armMs", arm_ms);
    app_connected(s->app, hello);
    screen_settle(s);
}

static void lose(struct screen *s)
{
    struct bg_error err;
    bg_fail(&err, BG_ERR_UNAVAILABLE, 0, "gone");
    app_disconnected(s->app, &err);
    screen_settle(s);
}

static void no_server_switches_the_arming_off(void **state)
{
    (void)state;
    static const double arms[] = {1e300, 9.2e18, -1, -1e300};
    for (size_t i = 0; i < bg_countof(arms); i++) {
        struct screen *s = open_with(2);
        say_hello(s, arms[i]);
        screen_type(s, "n");
        screen_tick(s, 30);
        screen_type(s, "a");
        assert_int_equal(screen_decisions(s), 0);
        screen_free(s);
    }
}

static void set_rev(cJSON *row, double rev)
{
    cJSON_ReplaceItemInObjectCaseSensitive(row, "rev", cJSON_CreateNumber(rev));
}

/* Numbers begin anew in a server of another state folder. */
static void another_server_counts_anew(void **state)
{
    (void)state;
    static const char other[] = "import shutil; shutil.rmtree('/data')\n";
    struct screen *s = screen_new(24, 80);
    cJSON *row = sample_low(148);
    set_rev(row, 7);
    cJSON_AddItemToArray(s->requests, row);
    screen_open(s);
    screen_type(s, "\r");
    screen_tick(s, 700);
    assert_true(screen_has(s, "all seen"));
    lose(s);
    cJSON_DeleteItemFromArray(s->requests, 0);
    row = screen_request(148, "other", "python", other, sizeof other - 1, NULL);
    set_rev(row, 1);
    cJSON_AddItemToArray(s->requests, row);
    say_hello(s, 600);
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 0);
    assert_true(screen_has(s, "shutil.rmtree"));
    screen_type(s, "q");
    assert_true(screen_has(s, "other"));
    screen_free(s);
}

/* The same code, but it would run elsewhere: read again, armed again. */
static void another_server_with_the_same_bytes(void **state)
{
    (void)state;
    struct screen *s = open_with(1);
    lose(s);
    cJSON *row = cJSON_GetArrayItem(s->requests, 0);
    cJSON_ReplaceItemInObjectCaseSensitive(row, "session", cJSON_CreateString("prod-db"));
    say_hello(s, 600);
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 0);
    assert_true(screen_has(s, "prod-db"));
    screen_free(s);
}

/* ---- rows of every shape ---- */

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static cJSON *nonsense(uint32_t *seed)
{
    static const double numbers[] = {0,     -1,  1e300,        -1e300,       9.3e18,
                                     -9e18, 1.5, 4294967296.0, 2147483648.0, 1e17};
    static const char *const words[] = {"",
                                        "pending",
                                        "\033]0;x\007",
                                        "2026-01-01T00:00:00Z",
                                        "9999-12-31T23:59:59.999Z",
                                        "\xc2\x9bJ",
                                        "a\tb\nc"};
    switch (draw(seed) % 7) {
    case 0:
        return cJSON_CreateNull();
    case 1:
        return cJSON_CreateBool(draw(seed) & 1);
    case 2:
    case 3:
        return cJSON_CreateNumber(numbers[draw(seed) % bg_countof(numbers)]);
    case 4:
        return cJSON_CreateString(words[draw(seed) % bg_countof(words)]);
    case 5:
        return cJSON_CreateArray();
    default:
        return cJSON_CreateObject();
    }
}

static void spoil(cJSON *o, uint32_t *seed)
{
    for (int k = 0; k < 2; k++) {
        int n = cJSON_GetArraySize(o), i = n ? (int)(draw(seed) % (uint32_t)n) : 0;
        cJSON *c = n ? cJSON_GetArrayItem(o, i) : NULL;
        if (!c)
            return;
        if (c->child && draw(seed) % 3) {
            spoil(c, seed);
        } else if (draw(seed) % 4 == 0) {
            cJSON_DeleteItemFromArray(o, i);
        } else if (cJSON_IsObject(o)) {
            bg_autofree char *key = bg_xstrdup(c->string);
            cJSON_ReplaceItemInObjectCaseSensitive(o, key, nonsense(seed));
        } else {
            cJSON_ReplaceItemInArray(o, i, nonsense(seed));
        }
    }
}

static void rows_of_any_shape_break_nothing(void **state)
{
    (void)state;
    static const char *const keys = "\r nXu\t \003q:\033j?k";
    uint32_t seed = 2;
    struct screen *s = screen_new(30, 120);
    sample_fill(s);
    screen_open(s);
    for (int round = 0; round < 400; round++) {
        int n = cJSON_GetArraySize(s->requests);
        bg_autojson cJSON *row =
            cJSON_Duplicate(cJSON_GetArrayItem(s->requests, round % n), true);
        bg_autojson cJSON *ses =
            cJSON_Duplicate(cJSON_GetArrayItem(s->sessions, round % 4), true);
        spoil(row, &seed);
        spoil(ses, &seed);
        screen_event(s, "approval", "changed", row);
        screen_event(s, "session", "changed", ses);
        if (round % 40 == 39) /* what approval.get answers, too */
            spoil(cJSON_GetArrayItem(s->requests, 0), &seed);
        char key[2] = {keys[draw(&seed) % strlen(keys)], '\0'};
        screen_type(s, key);
        screen_tick(s, 50);
        if (app_done(s->app))
            break;
    }
    assert_int_equal(screen_decisions(s), 0);
    assert_null(strstr(s->raw.data, "\033]0;x"));
    screen_free(s);
}

static void ten_thousand_rows(void **state)
{
    (void)state;
    struct screen *s = screen_new(24, 80);
    cJSON *one = sample_low(1);
    cJSON_DeleteItemFromObjectCaseSensitive(one, "bound");
    for (int i = 1; i <= 10000; i++) {
        cJSON *row = cJSON_Duplicate(one, true);
        cJSON_ReplaceItemInObjectCaseSensitive(row, "id", cJSON_CreateNumber(i));
        cJSON_AddItemToArray(s->requests, row);
    }
    cJSON_Delete(one);
    screen_open(s);
    screen_type(s, "G\r");
    assert_false(app_done(s->app));
    assert_true(screen_has(s, "can't be approved"));
    screen_free(s);
}

int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_is_held_answers_once),
        cmocka_unit_test(no_server_switches_the_arming_off),
        cmocka_unit_test(another_server_counts_anew),
        cmocka_unit_test(another_server_with_the_same_bytes),
        cmocka_unit_test(rows_of_any_shape_break_nothing),
        cmocka_unit_test(ten_thousand_rows),
    };
    return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Saved screens: dashboard, review, boxes and help at the sizes people have. */
#include <locale.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "tests/screen/lib_samples.h"

static const struct {
    int rows, cols;
} sizes[] = {{24, 80}, {40, 120}, {50, 200}, {16, 60}, {8, 30}};

static void named(struct screen *s, const char *what, const char *suffix)
{
    bg_autofree char *name = bg_xasprintf("%s-%dx%d%s", what, s->cols, s->rows, suffix);
    screen_expect(s, name);
}

static void dashboard(void **state)
{
    (void)state;
    for (size_t i = 0; i < bg_countof(sizes); i++) {
        struct screen *s = screen_new(sizes[i].rows, sizes[i].cols);
        sample_fill(s);
        screen_open(s);
        named(s, "dash", "");
        screen_free(s);
    }
}

static void empty_dashboard(void **state)
{
    (void)state;
    struct screen *s = screen_new(24, 80);
    screen_open(s);
    named(s, "empty", "");
    screen_free(s);
}

static void review(void **state)
{
    (void)state;
    for (size_t i = 0; i + 1 < bg_countof(sizes); i++) {
        struct screen *s = screen_new(sizes[i].rows, sizes[i].cols);
        sample_fill(s);
        screen_open(s);
        screen_type(s, "\r");
        named(s, "review", "-first");
        screen_tick(s, 700);
        screen_type(s, "G");
        named(s, "review", "-end");
        screen_free(s);
    }
}

static void exec_request(void **state)
{
    (void)state;
    static const char *const argv[] = {"/usr/bin/python3", "-m", "pytest",
                                       "tests dir",        "",   NULL};
    static const char *const env[] = {"PYTHONPATH=/workspace/lib", "LANG=C", NULL};
    struct screen *s = screen_new(24, 80);
    cJSON_AddItemToArray(s->requests, screen_exec(149, "job-2", argv, env));
    screen_open(s);
    screen_type(s, "\r");
    screen_tick(s, 700);
    named(s, "exec", "");
    screen_free(s);
}

static void boxes(void **state)
{
    (void)state;
    struct screen *s = screen_new(24, 80);
    sample_fill(s);
    screen_open(s);
    screen_type(s, "q");
    named(s, "quit", "");
    screen_type(s, "n\r");
    screen_tick(s, 700);
    screen_type(s, "  a");
    screen_type(s, "9f");
    named(s, "digits", "");
    screen_type(s, "\003X");
    screen_type(s, "\t\t");
    named(s, "reason", "");
    screen_type(s, "\003?");
    named(s, "help-review", "");
    screen_type(s, " ");
    screen_type(s, " ");
    named(s, "help-review", "-end");
    screen_free(s);
}

static void ascii_and_mono(void **state)
{
    (void)state;
    setlocale(LC_ALL, "C");
    struct screen *s = screen_new(24, 80);
    snprintf(s->term, sizeof s->term, "linux");
    s->no_color = true;
    sample_fill(s);
    screen_open(s);
    named(s, "ascii-dash", "");
    screen_type(s, "\r");
    screen_tick(s, 700);
    named(s, "ascii-review", "");
    for (size_t i = 0; i < s->raw.len; i++)
        assert_true((unsigned char)s->raw.data[i] < 0x80);
    screen_free(s);
    setlocale(LC_ALL, "C.UTF-8");
}

int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    setenv("TZ", "UTC", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dashboard), cmocka_unit_test(empty_dashboard),
        cmocka_unit_test(review),    cmocka_unit_test(exec_request),
        cmocka_unit_test(boxes),     cmocka_unit_test(ascii_and_mono),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

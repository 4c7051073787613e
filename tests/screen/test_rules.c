/* SPDX-License-Identifier: MIT */
/* What may approve and what never does, through the real keys of a real terminal. */
#include <locale.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "tests/screen/lib_samples.h"

/* One request, its review open and armed unless the test says otherwise. */
static struct screen *open_one(int rows, int cols, cJSON *request)
{
    struct screen *s = screen_new(rows, cols);
    cJSON_AddItemToArray(s->requests, request);
    screen_open(s);
    screen_type(s, "\r");
    return s;
}

static struct screen *open_armed(int rows, int cols, cJSON *request)
{
    struct screen *s = open_one(rows, cols, request);
    screen_tick(s, 700);
    return s;
}

static void approves(void **state)
{
    (void)state;
    cJSON *row = sample_low(148);
    struct screen *s = open_armed(24, 80, row);
    assert_true(screen_has(s, "all seen"));
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 1);
    const cJSON *d = cJSON_GetArrayItem(s->decided, 0);
    assert_string_equal(screen_verb(s, 0), "approve");
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(d, "id")->valueint, 148);
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(d, "rev")->valueint, 1);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(d, "sha256")->valuestring,
                        screen_sha(row));
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(d, "scope")->valuestring, "once");
    assert_true(screen_has(s, "#0148 approved"));
    screen_free(s);
}

static void c014_keys_in_the_first_moments_are_discarded(void **state)
{
    (void)state;
    struct screen *s = open_one(24, 80, sample_low(148));
    screen_type(s, "ax");
    assert_int_equal(screen_decisions(s), 0);
    assert_true(screen_has(s, "2 key presses discarded"));
    screen_tick(s, 700);
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 1);
    screen_free(s);
}

static void c014_typed_ahead_is_flushed(void **state)
{
    (void)state;
    struct screen *s = screen_new(24, 80);
    cJSON_AddItemToArray(s->requests, sample_low(148));
    screen_open(s);
    screen_burst(s, "\raaa\ra");
    screen_tick(s, 700);
    assert_int_equal(screen_decisions(s), 0);
    screen_free(s);
}

static void a_burst_is_no_answer(void **state)
{
    (void)state;
    struct screen *s = open_armed(24, 80, sample_low(148));
    screen_burst(s, "aa");
    screen_burst(s, "ls\na\n");
    screen_burst(s, "xX");
    assert_int_equal(screen_decisions(s), 0);
    assert_true(screen_has(s, "discarded"));
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 1);
    screen_free(s);
}

static void c014_a_paste_is_no_answer(void **state)
{
    (void)state;
    struct screen *s = open_armed(24, 80, sample_low(148));
    screen_burst(s, "\033[200~a\033[201~");
    screen_burst(s, "\033[200~x\ra\n\033[201~");
    assert_int_equal(screen_decisions(s), 0);
    assert_true(screen_has(s, "a paste is no answer"));
    screen_free(s);
}

static void enter_alone_mouse_and_alt_never_approve(void **state)
{
    (void)state;
    struct screen *s = open_armed(24, 80, sample_low(148));
    screen_type(s, "\r\r\n");
    screen_burst(s, "\033a");
    for (int y = 1; y <= 24; y++)
        for (int x = 1; x <= 80; x += 3) {
            char click[32];
            snprintf(click, sizeof click, "\033[<0;%d;%dM", x, y);
            screen_burst(s, click);
        }
    assert_int_equal(screen_decisions(s), 0);
    screen_free(s);
}

static void c011_locked_until_every_row_was_on_screen(void **state)
{
    (void)state;
    struct screen *s = open_armed(24, 80, sample_lines(150, 400));
    screen_type(s, "a");
    assert_true(screen_has(s, "LOCKED"));
    /* The end alone is not the whole. */
    screen_type(s, "Ga");
    assert_int_equal(screen_decisions(s), 0);
    screen_type(s, "g");
    for (int i = 0; i < 21; i++)
        screen_type(s, " ");
    assert_false(screen_has(s, "all seen"));
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 0);
    for (int i = 0; i < 4; i++)
        screen_type(s, " ");
    assert_true(screen_has(s, "all seen"));
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 1);
    screen_free(s);
}

static void c011_the_end_of_a_long_line_counts(void **state)
{
    (void)state;
    static char code[6000];
    memset(code, 'x', sizeof code);
    memcpy(code + 5900, "; os.remove('/data/x')", 22);
    struct screen *s =
        open_armed(24, 80, screen_request(151, "job", "python", code, sizeof code, NULL));
    assert_false(screen_has(s, "os.remove"));
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 0);
    for (int i = 0; i < 8; i++)
        screen_type(s, " ");
    assert_true(screen_has(s, "all seen"));
    screen_type(s, "a"); /* such a line is a hazard of its own */
    assert_true(screen_has(s, "long_line"));
    screen_free(s);
}

static void keys_that_skip_rows_without_drawing_show_nothing(void **state)
{
    (void)state;
    struct screen *s = open_armed(24, 80, sample_lines(150, 200));
    screen_burst(s, "            "); /* one read: only the last place was drawn */
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 0);
    assert_true(screen_has(s, "unread from"));
    screen_free(s);
}

static void a_new_width_keeps_what_was_seen(void **state)
{
    (void)state;
    struct screen *s = open_armed(24, 80, sample_lines(150, 60));
    for (int i = 0; i < 5; i++)
        screen_type(s, " ");
    assert_true(screen_has(s, "all seen"));
    screen_size(s, 24, 61);
    assert_true(screen_has(s, "all seen"));
    screen_size(s, 40, 120); /* the request's facts have a pane now, and fit */
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 1);
    screen_free(s);
}

static void a_new_width_does_not_invent_reading(void **state)
{
    (void)state;
    static char code[4000];
    memset(code, 'y', sizeof code);
    struct screen *s =
        open_armed(60, 200, screen_request(151, "job", "sh", code, sizeof code, NULL));
    assert_true(screen_has(s, "all seen"));
    screen_free(s);
    s = open_armed(16, 60, screen_request(151, "job", "sh", code, sizeof code, NULL));
    screen_size(s, 16, 99);
    screen_size(s, 16, 60);
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 0);
    screen_free(s);
}

static void nothing_counts_as_seen_behind_a_box_or_on_a_small_screen(void **state)
{
    (void)state;
    struct screen *s = open_armed(24, 80, sample_lines(150, 30));
    screen_type(s, "?");
    screen_size(s, 60, 80); /* all of it would fit, but help lies over it */
    screen_type(s, "?");    /* closes: now it counts */
    assert_true(screen_has(s, "all seen"));
    screen_free(s);
    s = open_one(24, 50, sample_low(148));
    screen_tick(s, 700);
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 0);
    assert_true(screen_has(s, "too small"));
    screen_free(s);
}

static void what_lay_under_a_box_arms_again(void **state)
{
    (void)state;
    struct screen *s = open_armed(24, 80, sample_low(148));
    screen_type(s, "??a");
    assert_int_equal(screen_decisions(s), 0);
    assert_true(screen_has(s, "1 key press discarded"));
    screen_tick(s, 700);
    screen_size(s, 5, 5);
    screen_size(s, 24, 80);
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 0);
    screen_tick(s, 700);
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 1);
    screen_free(s);
}

static void high_needs_its_digits_typed(void **state)
{
    (void)state;
    cJSON *row = sample_high(144);
    struct screen *s = open_armed(40, 120, row);
    char digits[5] = "", wrong[5] = "0000", paste[32];
    memcpy(digits, screen_sha(row), 4);
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 0);
    assert_true(screen_has(s, "Type "));
    screen_type(s, "\r");
    assert_true(screen_has(s, "not those digits"));
    screen_type(s, wrong);
    screen_type(s, "\r");
    assert_int_equal(screen_decisions(s), 0);
    snprintf(paste, sizeof paste, "\033[200~%s\r\033[201~", digits);
    screen_burst(s, paste);
    screen_type(s, "\r");
    assert_int_equal(screen_decisions(s), 0);
    assert_true(screen_has(s, "not those digits"));
    snprintf(paste, sizeof paste, "%s\r", digits);
    screen_burst(s, paste); /* a paste by a terminal that does not mark it */
    assert_int_equal(screen_decisions(s), 0);
    screen_type(s, "\025"); /* begin again */
    screen_type(s, digits);
    screen_type(s, "\r");
    assert_int_equal(screen_decisions(s), 1);
    const cJSON *ack =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(s->decided, 0), "ackHazards");
    assert_string_equal(cJSON_GetArrayItem(ack, 0)->valuestring, "bidi");
    screen_free(s);
}

static void denies_and_gives_reasons(void **state)
{
    (void)state;
    struct screen *s = open_armed(24, 80, sample_high(144));
    screen_type(s, "x"); /* unread is fine: deny is the default */
    assert_string_equal(screen_verb(s, 0), "deny");
    screen_free(s);
    s = open_armed(24, 80, sample_high(144));
    screen_type(s, "d");
    assert_int_equal(screen_decisions(s), 0);
    screen_type(s, "X");
    screen_type(s, "not now, ");
    screen_burst(s, "\033[200~read\nfirst\033[201~");
    screen_type(s, "\r");
    assert_string_equal(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(s->decided, 0), "reason")
            ->valuestring,
        "not now, read first");
    screen_free(s);
}

static void another_one_decided(void **state)
{
    (void)state;
    cJSON *row = sample_low(148);
    struct screen *s = open_armed(24, 80, row);
    bg_autojson cJSON *done = cJSON_Duplicate(row, true);
    cJSON_ReplaceItemInObjectCaseSensitive(done, "state", cJSON_CreateString("denied"));
    bg_jset_str(done, "decidedBy", "bob uid 1001");
    bg_jset_str(done, "reason", "no");
    screen_event(s, "approval", "final", done);
    screen_tick(s, 100);
    assert_true(screen_has(s, "denied by bob uid 1001: no"));
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 0);
    assert_true(screen_has(s, "too late"));
    screen_free(s);
}

static void a_refusal_is_shown(void **state)
{
    (void)state;
    struct screen *s = open_armed(24, 80, sample_low(148));
    bg_fail(&s->refuse, BG_ERR_ALREADY_DECIDED, 0, "already denied by bob");
    screen_type(s, "a");
    assert_true(screen_has(s, "not approved: already denied by bob"));
    screen_free(s);
}

static void other_bytes_begin_again(void **state)
{
    (void)state;
    struct screen *s = open_armed(24, 80, sample_low(148));
    static const char code[] = "print('other')\n";
    cJSON *other = screen_request(148, "job-1", "python", code, sizeof code - 1, NULL);
    cJSON_ReplaceItemInObjectCaseSensitive(other, "rev", cJSON_CreateNumber(2));
    cJSON_ReplaceItemInArray(s->requests, 0, other);
    screen_event(s, "approval", "changed", other);
    screen_tick(s, 50);
    assert_true(screen_has(s, "print('other')"));
    screen_type(s, "a"); /* it came to the front just now */
    assert_int_equal(screen_decisions(s), 0);
    screen_free(s);
}

static void bytes_that_are_not_the_hash_are_not_shown(void **state)
{
    (void)state;
    cJSON *row = sample_low(148);
    cJSON *f = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(row, "bound"), 1);
    cJSON_ReplaceItemInObjectCaseSensitive(f, "base64", cJSON_CreateString("cHJpbnQoMSk="));
    struct screen *s = open_armed(24, 80, row);
    assert_true(screen_has(s, "can't be shown"));
    screen_type(s, "a");
    assert_int_equal(screen_decisions(s), 0);
    screen_type(s, "x");
    assert_string_equal(screen_verb(s, 0), "deny");
    screen_free(s);
}

static void no_decision_without_connection(void **state)
{
    (void)state;
    struct screen *s = open_armed(24, 80, sample_low(148));
    struct bg_error err = {0};
    bg_fail(&err, BG_ERR_UNAVAILABLE, 0, "the server closed the connection");
    app_disconnected(s->app, &err);
    screen_tick(s, 50);
    assert_true(screen_has(s, "NO CONNECTION"));
    screen_type(s, "ax");
    assert_int_equal(screen_decisions(s), 0);
    screen_free(s);
}

static void new_requests_move_nothing(void **state)
{
    (void)state;
    struct screen *s = screen_new(24, 80);
    cJSON_AddItemToArray(s->requests, sample_low(146));
    cJSON_AddItemToArray(s->requests, sample_low(148));
    screen_open(s);
    screen_type(s, "j"); /* on 148 */
    bg_autojson cJSON *older = sample_low(140), *newer = sample_low(149);
    screen_event(s, "approval", "new", older);
    screen_event(s, "approval", "new", newer);
    screen_tick(s, 100);
    assert_true(screen_has(s, "▸ #0148"));
    screen_type(s, "\r");
    screen_tick(s, 700);
    bg_autojson cJSON *later = sample_low(150);
    screen_event(s, "approval", "new", later);
    screen_tick(s, 100);
    assert_true(screen_has(s, "Approve #0148"));
    screen_free(s);
}

static void bell_and_title(void **state)
{
    (void)state;
    struct screen *s = screen_new(24, 80);
    screen_open(s);
    bg_buf_clear(&s->raw);
    bg_autojson cJSON *one = sample_low(146), *two = sample_low(147);
    screen_event(s, "approval", "new", one);
    screen_event(s, "approval", "changed", one);
    screen_tick(s, 100);
    assert_non_null(strstr(s->raw.data, "\033]2;boxgate (1)\033\\"));
    assert_non_null(memchr(s->raw.data, '\a', s->raw.len));
    assert_ptr_equal(memchr(s->raw.data, '\a', s->raw.len),
                     memrchr(s->raw.data, '\a', s->raw.len));
    screen_burst(s, "\033[I"); /* the terminal has the focus */
    bg_buf_clear(&s->raw);
    screen_event(s, "approval", "new", two);
    screen_tick(s, 100);
    assert_null(memchr(s->raw.data, '\a', s->raw.len));
    assert_non_null(strstr(s->raw.data, "boxgate (2)"));
    screen_free(s);
}

static void c013_no_byte_of_a_request_reaches_the_terminal(void **state)
{
    (void)state;
    static const char evil[] = "print(1)#\033[2K\033[1A\rprint(2)\033]0;pwn\007\302\2332J\n"
                               "\033]52;c;QUJD\007\033P1\033\\";
    cJSON *row =
        screen_request(148, "s\033]0;pwn\007", "p\033[2Jy", evil, sizeof evil - 1, NULL);
    cJSON_ReplaceItemInObjectCaseSensitive(row, "purpose",
                                           cJSON_CreateString("\033]0;pwn\007"));
    cJSON_ReplaceItemInObjectCaseSensitive(row, "client",
                                           cJSON_CreateString("\033]0;pwn\007"));
    struct screen *s = screen_new(40, 120);
    cJSON_AddItemToArray(s->requests, row);
    cJSON_AddItemToArray(s->sessions, screen_session("x\033]0;pwn\007", "live", "\033[2J"));
    screen_open(s);
    screen_type(s, "\r");
    screen_tick(s, 700);
    screen_type(s, "Gn?");
    assert_null(strstr(s->raw.data, "\033]0;"));
    assert_null(strstr(s->raw.data, "\033]52"));
    assert_null(strstr(s->raw.data, "\033P1"));
    assert_null(memmem(s->raw.data, s->raw.len, "\302\233", 2));
    screen_free(s);
}

static void c116_idle_writes_nothing(void **state)
{
    (void)state;
    struct screen *s = screen_new(40, 120);
    cJSON_AddItemToArray(s->sessions, screen_session("job-1", "live", "none"));
    screen_open(s);
    size_t before = s->bytes;
    for (int i = 0; i < 30; i++) {
        app_dirty(s->app);
        screen_settle(s);
    }
    bg_loop_turn(s->loop, 300);
    screen_settle(s);
    assert_int_equal(s->bytes, before);
    screen_free(s);
}

static void every_size(void **state)
{
    (void)state;
    static const int sizes[][2] = {{1, 1},    {2, 2},    {1, 80},  {24, 1},
                                   {5, 20},   {15, 59},  {16, 60}, {16, 100},
                                   {17, 160}, {60, 300}, {3, 200}, {24, 80}};
    static const char *const keys[] = {"\r", "a",    "\003", "?", "?",
                                       "X",  "\003", "q",    ":", "\003"};
    struct screen *s = screen_new(24, 80);
    sample_fill(s);
    screen_open(s);
    for (size_t k = 0; k < bg_countof(keys); k++) {
        for (size_t i = 0; i < bg_countof(sizes); i++)
            screen_size(s, sizes[i][0], sizes[i][1]);
        screen_tick(s, 700);
        screen_type(s, keys[k]);
    }
    assert_false(app_done(s->app));
    assert_int_equal(screen_decisions(s), 0);
    screen_free(s);
}

static void other_terminals(void **state)
{
    (void)state;
    static const char *const terms[] = {"linux", "xterm-256color", "tmux-256color",
                                        "screen", "vt100"};
    for (size_t i = 0; i < bg_countof(terms); i++) {
        struct screen *s = screen_new(24, 80);
        snprintf(s->term, sizeof s->term, "%s", terms[i]);
        sample_fill(s);
        screen_open(s);
        screen_type(s, "\r");
        screen_tick(s, 700);
        assert_true(screen_has(s, "import os, subprocess, base64"));
        screen_free(s);
    }
}

static void leaving_asks_and_decides_nothing(void **state)
{
    (void)state;
    struct screen *s = screen_new(24, 80);
    cJSON_AddItemToArray(s->requests, sample_low(148));
    screen_open(s);
    screen_type(s, "q");
    assert_true(screen_has(s, "Leave the console?"));
    screen_type(s, "\r");
    assert_false(app_done(s->app));
    screen_type(s, "qy");
    assert_true(app_done(s->app));
    assert_int_equal(app_exit_code(s->app), 0);
    assert_int_equal(screen_decisions(s), 0);
    screen_free(s);
}

static void the_command_line(void **state)
{
    (void)state;
    struct screen *s = screen_new(24, 80);
    screen_open(s);
    screen_type(s, ":theme nope\r");
    assert_true(screen_has(s, "no theme named nope"));
    screen_type(s, ":theme light\r");
    assert_true(screen_has(s, "theme light for now"));
    screen_type(s, ":nope\r");
    assert_true(screen_has(s, "no command nope"));
    screen_type(s, ":mouse on\r");
    assert_non_null(strstr(s->raw.data, "\033[?1000h"));
    screen_type(s, ":q\r");
    assert_true(app_done(s->app));
    screen_free(s);
}

int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    setenv("TZ", "UTC", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(approves),
        cmocka_unit_test(c014_keys_in_the_first_moments_are_discarded),
        cmocka_unit_test(c014_typed_ahead_is_flushed),
        cmocka_unit_test(a_burst_is_no_answer),
        cmocka_unit_test(c014_a_paste_is_no_answer),
        cmocka_unit_test(enter_alone_mouse_and_alt_never_approve),
        cmocka_unit_test(c011_locked_until_every_row_was_on_screen),
        cmocka_unit_test(c011_the_end_of_a_long_line_counts),
        cmocka_unit_test(keys_that_skip_rows_without_drawing_show_nothing),
        cmocka_unit_test(a_new_width_keeps_what_was_seen),
        cmocka_unit_test(a_new_width_does_not_invent_reading),
        cmocka_unit_test(nothing_counts_as_seen_behind_a_box_or_on_a_small_screen),
        cmocka_unit_test(what_lay_under_a_box_arms_again),
        cmocka_unit_test(high_needs_its_digits_typed),
        cmocka_unit_test(denies_and_gives_reasons),
        cmocka_unit_test(another_one_decided),
        cmocka_unit_test(a_refusal_is_shown),
        cmocka_unit_test(other_bytes_begin_again),
        cmocka_unit_test(bytes_that_are_not_the_hash_are_not_shown),
        cmocka_unit_test(no_decision_without_connection),
        cmocka_unit_test(new_requests_move_nothing),
        cmocka_unit_test(bell_and_title),
        cmocka_unit_test(c013_no_byte_of_a_request_reaches_the_terminal),
        cmocka_unit_test(c116_idle_writes_nothing),
        cmocka_unit_test(every_size),
        cmocka_unit_test(other_terminals),
        cmocka_unit_test(leaving_asks_and_decides_nothing),
        cmocka_unit_test(the_command_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

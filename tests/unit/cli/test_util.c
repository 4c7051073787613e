/* SPDX-License-Identifier: MIT */
/* The small parts of the commands: options, times, numbers, exit codes, JSON that is
 * harmless on a terminal, and the passing on of a program's bytes. */
#include <fcntl.h>

#include "core/cli/job.h"
#include "tests/test.h"

static const struct bg_opt opts[] = {
    {"lang", 'l', "L", "x"}, {"env", 'e', "K=V", "x"}, {"json", 'j', NULL, "x"}, {0}};
static const struct bg_cmd cmd = {.name = "try", .args = "A B", .opts = opts};

/* The mistakes below are told on stderr; nobody needs to read them here. */
static bool parse(struct cli_args *a, int min, int max, const char **argv)
{
    int argc = 0, keep = dup(2), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    while (argv[argc])
        argc++;
    dup2(null, 2);
    bool ok = cli_parse(a, &cmd, argc, (char **)argv, min, max);
    fflush(stderr);
    dup2(keep, 2);
    close(keep);
    close(null);
    return ok;
}

#define ARGV(...) ((const char *[]){"try", __VA_ARGS__, NULL})

static void options(void **state)
{
    (void)state;
    struct cli_args a;
    size_t at = 0;
    assert_true(
        parse(&a, 1, 2, ARGV("one", "--lang", "c", "-e", "A=1", "--env=B=2", "-j", "two")));
    assert_int_equal(a.argc, 2);
    assert_string_equal(a.argv[1], "two");
    assert_string_equal(cli_value(&a, "lang"), "c");
    assert_string_equal(cli_each(&a, "env", &at), "A=1");
    assert_string_equal(cli_each(&a, "env", &at), "B=2");
    assert_null(cli_each(&a, "env", &at));
    assert_true(cli_flag(&a, "json"));
    assert_true(parse(&a, 1, -1, ARGV("s", "--", "cmd", "--json", "-x")));
    assert_false(cli_flag(&a, "json"));
    assert_int_equal(a.argc, 4);
    assert_string_equal(a.argv[3], "-x");
    assert_true(parse(&a, 0, 0, ARGV("--lang", "a", "--lang", "b")));
    assert_string_equal(cli_value(&a, "lang"), "b");
}

static void wrong_options(void **state)
{
    (void)state;
    struct cli_args a;
    assert_false(parse(&a, 0, 0, ARGV("--nosuch")));
    assert_false(parse(&a, 0, 0, ARGV("-x")));
    assert_false(parse(&a, 0, 0, ARGV("--lang")));
    assert_false(parse(&a, 0, 0, ARGV("--json=yes")));
    assert_false(parse(&a, 0, 0, ARGV("operand")));
    assert_false(parse(&a, 1, 1, ARGV("--json")));
}

static void times_and_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        int64_t ms;
    } good[] = {{"60s", 60000},  {"500ms", 500}, {"2m", 120000},
                {"1h", 3600000}, {"3", 3000},    {"007s", 7000}};
    static const char *const bad[] = {"",
                                      "0",
                                      "0s",
                                      "-1s",
                                      "1d",
                                      "1 s",
                                      "s",
                                      "1.5s",
                                      "+1s",
                                      "1ss",
                                      "99999999999999999999s",
                                      "9999999h"};
    int64_t v;
    for (size_t i = 0; i < bg_countof(good); i++) {
        assert_true(cli_duration(good[i].s, &v));
        assert_int_equal(v, good[i].ms);
    }
    for (size_t i = 0; i < bg_countof(bad); i++)
        assert_false(cli_duration(bad[i], &v));
    assert_true(cli_request_id("#0144", &v));
    assert_int_equal(v, 144);
    assert_true(cli_request_id("7", &v));
    assert_false(cli_request_id("0", &v));
    assert_false(cli_request_id("#", &v));
    assert_false(cli_request_id("", &v));
    assert_false(cli_request_id("1x", &v));
    assert_false(cli_request_id("-1", &v));
    assert_false(cli_request_id("9999999999999999", &v));
}

/* contract.md 9: each refusal of a decision has a code of its own. */
static void exit_codes(void **state)
{
    (void)state;
    assert_int_equal(cli_exit_of_decision(BG_ERR_NOT_FOUND), 3);
    assert_int_equal(cli_exit_of_decision(BG_ERR_ALREADY_DECIDED), 4);
    assert_int_equal(cli_exit_of_decision(BG_ERR_HASH_MISMATCH), 5);
    assert_int_equal(cli_exit_of_decision(BG_ERR_EXPIRED), 6);
    assert_int_equal(cli_exit_of_decision(BG_ERR_HAZARDS), 7);
    assert_int_equal(cli_exit_of_decision(BG_ERR_SELF_APPROVAL), 7);
    assert_int_equal(cli_exit_of_decision(BG_ERR_AUDIT), 7);
    assert_int_equal(cli_exit_of(BG_ERR_CONFIG), 2);
    assert_int_equal(cli_exit_of(BG_ERR_UNAVAILABLE), 1);
    assert_int_equal(cli_exit_of(BG_ERR_INTERNAL), 70);
    for (int e = BG_OK + 1; e < BG_ERR_COUNT_; e++) /* an error is never a success */
        assert_int_not_equal(cli_exit_of_decision((enum bg_errc)e), 0);
}

static void json_is_ascii_and_the_same(void **state)
{
    (void)state;
    struct bg_buf b;
    struct bg_error err = {0};
    const char *text = "a\xe2\x80\xae\xc2\x9b\x7f\xf0\x9f\x98\x80\\u0041";
    bg_autojson cJSON *o = bg_jo();
    bg_jset_str(o, "k\xc3\xa9", text);
    cli_buf(&b);
    cli_put_json(&b, o, false);
    for (size_t i = 0; i < b.len; i++)
        assert_true(b.data[i] == '\n' || (b.data[i] >= 0x20 && b.data[i] < 0x7f));
    bg_autojson cJSON *back = bg_json_parse(b.data, b.len, 4096, &err);
    assert_non_null(back);
    assert_string_equal(cli_str(back, "k\xc3\xa9"), text);
    bg_buf_free(&b);
}

static void pending_lines_hide_nothing(void **state)
{
    (void)state;
    bg_autojson cJSON *o = bg_jo();
    bg_jset_int(o, "id", 144);
    bg_jset_str(o, "session", "a\x1b[2J\xe2\x80\xae");
    bg_jset_str(o, "kind", "run_code");
    bg_jset_str(o, "language", "python");
    bg_jset_int(o, "lines", 38);
    bg_jset_int(o, "leftMs", 198000);
    bg_jset_bool(o, "high", true);
    bg_autofree char *line = cli_pending_line(o);
    assert_string_equal(line, "#0144 a\\x1b[2J\\u{202e} run_code python, 38 lines, HIGH, "
                              "3 m 18 s left");
}

static void count(void *data)
{
    ++*(int *)data;
}

/* More than a pipe holds, with a reader that sleeps at first: nothing lost, nothing spun.
 */
static void a_slow_reader_gets_every_byte(void **state)
{
    (void)state;
    enum { N = 300000 };
    int in[2], out[2], gone = 0;
    size_t got = 0, sent = 0;
    struct bg_loop *loop = bg_loop_new();
    assert_int_equal(pipe2(in, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    struct cli_stream *s = cli_stream_new(loop, in[0], out[1], false, count, &gone);
    while (sent < N || got < sent) {
        char b[5000];
        memset(b, 'x', sizeof b);
        ssize_t w = sent < N ? write(in[1], b, sizeof b) : 0;
        sent += w > 0 ? (size_t)w : 0;
        if (sent >= N && in[1] >= 0) {
            close(in[1]);
            in[1] = -1;
        }
        bg_loop_turn(loop, 0);
        if (w <= 0) {
            ssize_t r = read(out[0], b, sizeof b);
            assert_true(r > 0);
            got += (size_t)r;
        }
    }
    assert_int_equal(got, sent);
    assert_int_equal(cli_stream_bytes(s), sent);
    cli_stream_finish(s);
    while (!cli_stream_done(s))
        bg_loop_turn(loop, 100);
    assert_int_equal(gone, 0);
    cli_stream_free(s);
    close(out[0]);
    close(out[1]);
    bg_loop_free(loop);
}

static void a_reader_that_left_is_told_once(void **state)
{
    (void)state;
    int out[2], gone = 0;
    struct bg_loop *loop = bg_loop_new();
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    struct cli_stream *s = cli_stream_new(loop, -1, out[1], false, count, &gone);
    close(out[0]);
    cli_stream_put(s, "more", 4);
    cli_stream_put(s, "more", 4);
    cli_stream_finish(s);
    assert_true(cli_stream_done(s));
    assert_int_equal(gone, 1);
    cli_stream_free(s);
    close(out[1]);
    bg_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options),
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(times_and_numbers),
        cmocka_unit_test(exit_codes),
        cmocka_unit_test(json_is_ascii_and_the_same),
        cmocka_unit_test(pending_lines_hide_nothing),
        cmocka_unit_test(a_slow_reader_gets_every_byte),
        cmocka_unit_test(a_reader_that_left_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

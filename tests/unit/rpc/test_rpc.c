/* SPDX-License-Identifier: MIT */
/* One JSON-RPC connection over a real socket pair: framing, caps, ids, descriptors, both
 * ends. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/rpc/rpc.h"
#include "tests/test.h"

struct end {
    struct bg_rpc *c;
    int requests, closed;
    char last[256], id[64];
    struct bg_error why;
    int fds_seen;
    bool free_in_request;
};

static struct bg_loop *loop;

static void on_request(void *data, struct bg_rpc *c, struct bg_rpc_msg *m)
{
    struct end *e = data;
    e->requests++;
    snprintf(e->last, sizeof e->last, "%s", m->method);
    snprintf(e->id, sizeof e->id, "%s", m->id_raw ? m->id_raw : "");
    for (int i = 0; i < 2; i++)
        if (m->fds[i] >= 0 && write(m->fds[i], "x", 1) == 1)
            e->fds_seen++;
    if (e->free_in_request) {
        bg_rpc_free(c);
        return;
    }
    if (!strcmp(m->method, "fail")) {
        struct bg_error err = {0};
        bg_fail(&err, BG_ERR_HASH_MISMATCH, 0, "other bytes");
        bg_rpc_error(c, m->id_raw, &err);
        return;
    }
    cJSON *r = bg_jo();
    bg_jset_str(r, "echo", m->method);
    bg_rpc_reply(c, m->id_raw, r);
}

static void on_closed(void *data, struct bg_rpc *c, const struct bg_error *err)
{
    struct end *e = data;
    (void)c;
    e->closed++;
    e->why = *err;
}

static const struct bg_rpc_events events = {on_request, on_closed};

static void turns(int n)
{
    for (int i = 0; i < n; i++)
        bg_loop_turn(loop, 1);
}

static void pair(struct end *e, int *raw)
{
    int sv[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
    *e = (struct end){0};
    e->c = bg_rpc_new(loop, sv[0], &events, e);
    *raw = sv[1];
    fcntl(*raw, F_SETFL, O_NONBLOCK);
}

static void say(int fd, const char *s)
{
    assert_int_equal(write(fd, s, strlen(s)), (ssize_t)strlen(s));
}

static const char *hear(int fd)
{
    static char buf[65536];
    turns(5);
    ssize_t n = read(fd, buf, sizeof buf - 1);
    buf[n < 0 ? 0 : n] = '\0';
    return buf;
}

static void test_ids_are_echoed_raw(void **state)
{
    (void)state;
    static const char *const ids[] = {"0",       "-3",   "9007199254740991",
                                      "\"a-1\"", "\"\"", "\"\\u0041\""};
    static const char *const back[] = {"0",       "-3",   "9007199254740991",
                                       "\"a-1\"", "\"\"", "\"A\""};
    for (size_t i = 0; i < bg_countof(ids); i++) {
        struct end e;
        int raw;
        char msg[256], want[128];
        pair(&e, &raw);
        snprintf(msg, sizeof msg, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"m\"}\n",
                 ids[i]);
        snprintf(want, sizeof want,
                 "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"echo\":\"m\"}}\n", back[i]);
        say(raw, msg);
        assert_string_equal(hear(raw), want);
        bg_rpc_free(e.c);
        close(raw);
    }
}

static void test_broken_lines_end_the_connection(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\n",
        "[]\n",
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}]\n",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"m\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"m\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"m\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[]}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"m\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"} x\n",
        "{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"method\":\"m\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\u0000b\"}\n",
        "Content-Length: 5\n",
    };
    for (size_t i = 0; i < bg_countof(bad); i++) {
        struct end e;
        int raw;
        pair(&e, &raw);
        say(raw, bad[i]);
        const char *answer = hear(raw);
        assert_non_null(strstr(answer, "\"error\""));
        assert_int_equal(e.requests, 0);
        assert_int_equal(e.closed, 1);
        bg_rpc_free(e.c);
        close(raw);
    }
}

static void test_long_line_before_hello(void **state)
{
    (void)state;
    struct end e;
    int raw;
    pair(&e, &raw);
    char chunk[8192];
    memset(chunk, ' ', sizeof chunk);
    for (int i = 0; i < 40 && !e.closed; i++) {
        if (write(raw, chunk, sizeof chunk) < 0)
            break;
        turns(2);
    }
    assert_int_equal(e.closed, 1);
    assert_int_equal(e.why.code, BG_ERR_LIMIT);
    bg_rpc_free(e.c);
    close(raw);
}

static void test_split_and_joined_lines(void **state)
{
    (void)state;
    struct end e;
    int raw;
    pair(&e, &raw);
    const char *two = "{\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\n{\"jsonrpc\":\"2.0\","
                      "\"method\":\"two\"}\n";
    for (const char *p = two; *p; p++) {
        assert_int_equal(write(raw, p, 1), 1);
        turns(1);
    }
    assert_int_equal(e.requests, 2);
    say(raw, two);
    turns(3);
    assert_int_equal(e.requests, 4);
    assert_string_equal(hear(raw), ""); /* notifications are not answered */
    bg_rpc_free(e.c);
    close(raw);
}

struct answer {
    int calls;
    bool ok;
    struct bg_error err;
};

static void on_answer(void *data, const cJSON *result, const struct bg_error *err)
{
    struct answer *a = data;
    a->calls++;
    a->ok = result && !err;
    if (err)
        a->err = *err;
}

static void test_both_ends(void **state)
{
    (void)state;
    int sv[2], pipefd[2];
    struct end s = {0}, k = {0};
    struct answer a = {0}, b = {0}, gone = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
    assert_int_equal(pipe2(pipefd, O_CLOEXEC), 0);
    s.c = bg_rpc_new(loop, sv[0], &events, &s);
    k.c = bg_rpc_new(loop, sv[1], &events, &k);
    int fds[2] = {pipefd[1], pipefd[1]};
    bg_rpc_call(k.c, "plain", NULL, NULL, 0, on_answer, &a);
    bg_rpc_call(k.c, "fail", NULL, fds, 2, on_answer, &b);
    turns(6);
    assert_int_equal(a.calls, 1);
    assert_true(a.ok);
    assert_int_equal(b.calls, 1);
    assert_int_equal(b.err.code, BG_ERR_HASH_MISMATCH);
    assert_string_equal(b.err.msg, "other bytes");
    assert_int_equal(s.fds_seen, 2); /* with the second line, not the first */
    assert_string_equal(s.last, "fail");
    close(pipefd[0]);
    close(pipefd[1]);
    bg_rpc_free(s.c);
    bg_rpc_call(k.c, "late", NULL, NULL, 0, on_answer, &gone);
    turns(6);
    assert_int_equal(gone.calls, 1); /* a lost peer answers every open call */
    assert_false(gone.ok);
    assert_int_equal(k.closed, 1);
    bg_rpc_free(k.c);
}

static void test_free_inside_request(void **state)
{
    (void)state;
    struct end e;
    int raw;
    pair(&e, &raw);
    e.free_in_request = true;
    say(raw,
        "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n");
    turns(4);
    assert_int_equal(e.requests, 1);
    assert_int_equal(e.closed, 0);
    close(raw);
}

static void test_a_reader_that_never_reads(void **state)
{
    (void)state;
    struct end e;
    int raw;
    pair(&e, &raw);
    bg_autofree char *big = bg_xmalloc(1 << 20);
    memset(big, 'a', (1 << 20) - 1);
    big[(1 << 20) - 1] = '\0';
    for (int i = 0; i < 64 && !e.closed; i++) {
        cJSON *p = bg_jo();
        bg_jset_str(p, "x", big);
        bg_rpc_notify(e.c, "event", p);
        turns(1);
    }
    assert_int_equal(e.closed, 1);
    assert_int_equal(e.why.code, BG_ERR_LIMIT);
    bg_rpc_free(e.c);
    close(raw);
}

static int setup(void **state)
{
    (void)state;
    loop = bg_loop_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    turns(2);
    bg_loop_free(loop);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_are_echoed_raw),
        cmocka_unit_test(test_broken_lines_end_the_connection),
        cmocka_unit_test(test_long_line_before_hello),
        cmocka_unit_test(test_split_and_joined_lines),
        cmocka_unit_test(test_both_ends),
        cmocka_unit_test(test_free_inside_request),
        cmocka_unit_test(test_a_reader_that_never_reads),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

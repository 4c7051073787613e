/* SPDX-License-Identifier: MIT */
/* HTTP over a Unix socket against a server of raw bytes: every way it can go wrong. */
#include "core/net/http.h"
#include "tests/test.h"
#include "tests/unit/net/raw_server.h"

static struct bg_loop *loop;
static struct raw_server server;
static struct bg_http *http;

struct got {
    bool done;
    int status;
    struct bg_buf body, chunks;
    struct bg_error err;
    struct bg_http_call *cancel_at_chunk;
    bool free_at_done;
};

static void on_chunk(void *data, const char *p, size_t n)
{
    struct got *g = data;

    bg_buf_put(&g->chunks, p, n);
    if (g->cancel_at_chunk)
        bg_http_cancel(g->cancel_at_chunk);
    g->cancel_at_chunk = NULL;
}

static void on_done(void *data, const struct bg_http_answer *a, const struct bg_error *err)
{
    struct got *g = data;

    assert_false(g->done);
    g->done = true;
    assert_true(!a != !err);
    if (a) {
        g->status = a->status;
        bg_buf_put(&g->body, a->body.data ? a->body.data : "", a->body.len);
    } else {
        g->err = *err;
    }
    if (g->free_at_done) {
        bg_http_free(http);
        http = NULL;
    }
}

static const struct bg_http_events events = {.chunk = on_chunk, .done = on_done};

static int set_up(void **state)
{
    (void)state;
    loop = bg_loop_new();
    raw_start(&server, loop);
    http = bg_http_new(loop, server.path, "the engine");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bg_http_free(http);
    raw_stop(&server);
    bg_loop_free(loop);
    return 0;
}

static struct bg_http_call *begin(struct got *g, const struct bg_http_request *r)
{
    bool free_at_done = g->free_at_done;

    *g = (struct got){.free_at_done = free_at_done};
    bg_buf_init(&g->body, 1 << 20);
    bg_buf_init(&g->chunks, 1 << 20);
    return bg_http_start(http, r, &events, g);
}

static void get(struct got *g, const char *path)
{
    begin(g, &(struct bg_http_request){
                 .method = "GET", .path = path, .timeout_ms = 300, .max = 1000});
    assert_false(g->done); /* never from inside */
    assert_true(raw_wait(loop, &g->done));
}

static void clear(struct got *g)
{
    bg_buf_free(&g->body);
    bg_buf_free(&g->chunks);
}

static void c076_a_socket_with_a_space_whatever_the_proxy(void **state)
{
    static const struct raw_reply replies[] = {
        {.path = "/ok", .bytes = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"},
        {.path = NULL}};
    struct got g = {0};

    (void)state;
    setenv("HTTP_PROXY", "http://127.0.0.1:9", 1);
    setenv("http_proxy", "http://127.0.0.1:9", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:9", 1);
    server.replies = replies;
    get(&g, "/ok?x=%20y");
    assert_int_equal(g.status, 200);
    assert_string_equal(g.body.data, "hi");
    assert_string_equal(server.seen.data, "GET /ok?x=%20y HTTP/1.1\n");
    clear(&g);
    unsetenv("HTTP_PROXY");
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
}

static void any_status_is_an_answer(void **state)
{
    static const struct raw_reply replies[] = {
        {.path = "/500", .bytes = "HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nbad"},
        {.path = "/302",
         .bytes =
             "HTTP/1.1 302 Go\r\nLocation: http://other/\r\nContent-Length: 0\r\n\r\n"},
        {.path = "/204", .bytes = "HTTP/1.1 204 None\r\n\r\n"},
        {.path = NULL}};
    struct got g = {0};

    (void)state;
    server.replies = replies;
    get(&g, "/500");
    assert_int_equal(g.status, 500);
    assert_string_equal(g.body.data, "bad");
    clear(&g);
    get(&g, "/302"); /* followed nowhere */
    assert_int_equal(g.status, 302);
    clear(&g);
    get(&g, "/204");
    assert_int_equal(g.status, 204);
    clear(&g);
}

static void a_post_carries_its_body(void **state)
{
    static const struct raw_reply replies[] = {
        {.path = "/p", .bytes = "HTTP/1.1 201 OK\r\nContent-Length: 0\r\n\r\n"},
        {.path = NULL}};
    struct got g = {0};

    (void)state;
    server.replies = replies;
    begin(&g, &(struct bg_http_request){.method = "POST",
                                        .path = "/p",
                                        .body = "{\"a\":1}",
                                        .timeout_ms = 2000,
                                        .max = 10,
                                        .once = true});
    assert_true(raw_wait(loop, &g.done));
    assert_int_equal(g.status, 201);
    clear(&g);
}

static void what_is_no_whole_answer_is_unavailable(void **state)
{
    static const char big[3000] = "HTTP/1.1 200 OK\r\nContent-Length: 2900\r\n\r\n";
    static const struct raw_reply replies[] = {
        {.path = "/garbage", .bytes = "\x16\x03\x01 what is this\r\n\r\n"},
        {.path = "/cut", .bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfew"},
        {.path = "/head", .bytes = "HTTP/1.1 200 OK\r\nX-A"},
        {.path = "/chunk",
         .bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab"},
        {.path = "/silent", .bytes = "HTTP/1.1 200 OK\r\n", .stays_open = true},
        {.path = "/big", .bytes = big, .n = sizeof big},
        {.path = NULL}};
    static const char *const paths[] = {"/garbage", "/cut",  "/head", "/chunk",
                                        "/silent",  "/gone", "/big"};

    (void)state;
    server.replies = replies;
    for (size_t i = 0; i < bg_countof(paths); i++) {
        struct got g = {0};
        int64_t begun = bg_mono_ms();
        get(&g, paths[i]);
        if (g.err.code != BG_ERR_UNAVAILABLE)
            print_message("%s: status %d, %s\n", paths[i], g.status, g.err.msg);
        assert_int_equal(g.err.code, BG_ERR_UNAVAILABLE);
        assert_non_null(strstr(g.err.msg, "the engine"));
        assert_true(bg_mono_ms() - begun < 5000);
        clear(&g);
    }
}

static void too_many_headers_end_the_call(void **state)
{
    struct bg_buf b;
    struct got g = {0};

    (void)state;
    bg_buf_init(&b, 1 << 20);
    bg_buf_puts(&b, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 700; i++)
        bg_buf_printf(&b, "X-Header-%d: 01234567890123456789\r\n", i);
    bg_buf_puts(&b, "Content-Length: 0\r\n\r\n");
    const struct raw_reply replies[] = {{.path = "/h", .bytes = b.data}, {.path = NULL}};
    server.replies = replies;
    get(&g, "/h");
    assert_int_equal(g.err.code, BG_ERR_UNAVAILABLE);
    assert_non_null(strstr(g.err.msg, "headers"));
    clear(&g);
    bg_buf_free(&b);
}

static void nobody_there_is_unavailable(void **state)
{
    struct bg_http *none = bg_http_new(loop, "/nonexistent/s", "the engine at nowhere");
    struct got g = {0};

    (void)state;
    bg_http_start(none, &(struct bg_http_request){.method = "GET", .path = "/", .max = 10},
                  &events, &g);
    assert_true(raw_wait(loop, &g.done));
    assert_int_equal(g.err.code, BG_ERR_UNAVAILABLE);
    assert_string_equal(g.err.msg, "the engine at nowhere can't be reached");
    bg_http_free(none);
}

static const struct raw_reply stream[] = {
    {.path = "/s",
     .bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n",
     .stays_open = true},
    {.path = "/no", .bytes = "HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\nnope"},
    {.path = NULL}};

static void a_stream_comes_in_pieces_and_can_be_cancelled(void **state)
{
    struct bg_http_request r = {.method = "GET", .path = "/s", .max = 100, .stream = true};
    struct got g = {0};

    (void)state;
    server.replies = stream;
    g.cancel_at_chunk = NULL;
    struct bg_http_call *c = begin(&g, &r);
    g.cancel_at_chunk = c;
    for (int64_t until = bg_mono_ms() + 3000; g.chunks.len < 3 && bg_mono_ms() < until;)
        bg_loop_turn(loop, 20);
    assert_string_equal(g.chunks.data, "one");
    bg_loop_turn(loop, 0);
    assert_false(g.done);
    clear(&g);
    r.path = "/no";
    begin(&g, &r);
    assert_true(raw_wait(loop, &g.done));
    assert_int_equal(g.status, 404);
    assert_string_equal(g.body.data, "nope");
    assert_int_equal(g.chunks.len, 0);
    clear(&g);
}

static void a_call_cancelled_at_once_leaves_nothing(void **state)
{
    struct got g = {0};

    (void)state;
    server.replies = stream;
    bg_http_cancel(
        begin(&g, &(struct bg_http_request){.method = "GET", .path = "/no", .max = 10}));
    for (int i = 0; i < 5; i++)
        bg_loop_turn(loop, 5);
    assert_false(g.done);
    clear(&g);
}

static void everything_may_be_freed_inside_a_callback(void **state)
{
    struct got g = {.free_at_done = true}, other = {0};

    (void)state;
    server.replies = stream;
    begin(&g, &(struct bg_http_request){.method = "GET", .path = "/no", .max = 10});
    begin(&other, &(struct bg_http_request){
                      .method = "GET", .path = "/s", .max = 10, .stream = true});
    assert_true(raw_wait(loop, &g.done));
    bg_loop_turn(loop, 5);
    assert_false(other.done);
    clear(&g);
    clear(&other);
}

static void many_at_once(void **state)
{
    static const struct raw_reply replies[] = {
        {.path = "/", .bytes = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"},
        {.path = NULL}};
    struct got g[8] = {{0}};

    (void)state;
    server.replies = replies;
    for (size_t i = 0; i < bg_countof(g); i++)
        begin(&g[i], &(struct bg_http_request){
                         .method = "GET", .path = "/", .timeout_ms = 3000, .max = 10});
    for (size_t i = 0; i < bg_countof(g); i++) {
        assert_true(raw_wait(loop, &g[i].done));
        assert_string_equal(g[i].body.data, "hi");
        clear(&g[i]);
    }
}

static void names_are_encoded(void **state)
{
    struct bg_buf b;

    (void)state;
    bg_buf_init(&b, 100);
    bg_http_encode(&b, "a/b:c d%\xc3\xa9~");
    assert_string_equal(b.data, "a%2Fb%3Ac%20d%25%C3%A9~");
    bg_buf_free(&b);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(c076_a_socket_with_a_space_whatever_the_proxy),
        T(any_status_is_an_answer),
        T(a_post_carries_its_body),
        T(what_is_no_whole_answer_is_unavailable),
        T(too_many_headers_end_the_call),
        T(nobody_there_is_unavailable),
        T(a_stream_comes_in_pieces_and_can_be_cancelled),
        T(a_call_cancelled_at_once_leaves_nothing),
        T(everything_may_be_freed_inside_a_callback),
        T(many_at_once),
        T(names_are_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

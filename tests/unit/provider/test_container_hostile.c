/* SPDX-License-Identifier: MIT */
/*
 * Strangers at the engine and in the image: copies of our containers, users and search
 * paths that are not what they look like. The engine is a server of raw bytes.
 */
#include "core/provider/container/container.h"
#include "tests/test.h"
#include "tests/unit/net/raw_server.h"
#include "tests/unit/provider/box.h"

static struct box_env env;
static struct raw_server server;

#define HEAD "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
static const char version[] = HEAD "{\"Version\":\"20.10\",\"ApiVersion\":\"1.41\","
                                   "\"MinAPIVersion\":\"1.12\"}";
static const char info[] = HEAD "{\"MemoryLimit\":true,\"PidsLimit\":true,"
                                "\"SwapLimit\":true,\"CpuCfsQuota\":true,"
                                "\"CpuCfsPeriod\":true}";
static const char silent[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char created[] =
    "HTTP/1.1 201 OK\r\nConnection: close\r\n\r\n{\"Id\":\"c1\",\"Warnings\":[]}";
static const char removed[] = "HTTP/1.1 204 OK\r\nConnection: close\r\n\r\n";
static const char missing[] =
    "HTTP/1.1 404 No\r\nConnection: close\r\n\r\n{\"message\":\"no\"}";
#define OPENING                                                                     \
    {.path = "/version", .bytes = version}, {.path = "/v1.41/info", .bytes = info}, \
    {                                                                               \
        .path = "/v1.41/events", .bytes = silent, .stays_open = true                \
    }

static int set_up(void **state)
{
    (void)state;
    box_begin(&env, &bg_provider_container);
    raw_start(&server, env.loop);
    free(env.config->engine.endpoint);
    env.config->engine.endpoint = bg_xasprintf("unix://%s", server.path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    env.ops->close(env.provider);
    raw_stop(&server);
    bg_loop_free(env.loop);
    bg_config_free(env.config);
    bg_paths_free(&env.paths);
    free(env.guest);
    assert_true(bg_rm_rf(env.home, NULL));
    return 0;
}

/* ---- copies ---- */

struct swept {
    bool done;
    struct bg_buf lines;
};

static void on_swept(void *data, char *const *names, const struct bg_error *err)
{
    struct swept *w = data;

    assert_null(err);
    for (; *names; names++)
        bg_buf_printf(&w->lines, "%s\n", *names);
    w->done = true;
}

/* docker commit keeps the labels, and whoever runs that image has them too. */
static void a_copy_of_our_container_is_never_removed(void **state)
{
    static const char row[] = "{\"Id\":\"%s\",\"Names\":[\"/%s\"],\"State\":\"%s\","
                              "\"Labels\":{\"boxgate.instance\":\"%s\",\"boxgate.ref\":"
                              "\"feedfeedfeedfeedfeedfeedfeedfeed\"%s}}";
    static const char named[] = ",\"boxgate.name\":\"boxgate-a-01234567\"";
    struct bg_buf b;
    struct swept w = {0};

    (void)state;
    bg_buf_init(&b, 65536);
    bg_buf_puts(&b, HEAD "[");
    bg_buf_printf(&b, row, "left1", "boxgate-a-01234567", "exited", env.instance, named);
    bg_buf_puts(&b, ",");
    bg_buf_printf(&b, row, "copy1", "eager_turing", "running", env.instance, named);
    bg_buf_puts(&b, ",");
    bg_buf_printf(&b, row, "copy2", "boxgate-mine", "exited", env.instance, named);
    bg_buf_puts(&b, ",");
    bg_buf_printf(&b, row, "copy3", "db", "running", env.instance, "");
    bg_buf_puts(&b, ",");
    bg_buf_printf(&b, row, "copy4", "web", "exited", "00", "");
    bg_buf_puts(&b, "]");
    const struct raw_reply replies[] = {
        OPENING,
        {.path = "/v1.41/containers/json", .bytes = b.data},
        {.path = "/v1.41/containers/", .method = "DELETE", .bytes = removed},
        {.path = NULL}};
    server.replies = replies;
    box_provider(&env);
    bg_buf_init(&w.lines, 65536);
    env.ops->sweep(env.provider, true, false, on_swept, &w);
    assert_true(box_wait(env.loop, &w.done));
    assert_non_null(strstr(server.seen.data, "DELETE /v1.41/containers/left1"));
    assert_null(strstr(server.seen.data, "DELETE /v1.41/containers/copy"));
    assert_non_null(strstr(w.lines.data, "eager_turing (a copy, or renamed: left)"));
    server.replies = NULL;
    bg_buf_free(&b);
    bg_buf_free(&w.lines);
}

/* ---- images ---- */

static void a_search_path_without_end_is_cut(void **state)
{
    struct bg_buf b;
    struct bg_error err = {0};

    (void)state;
    bg_buf_init(&b, 1 << 20);
    bg_buf_puts(&b, HEAD "{\"Id\":\"sha256:abc\",\"Os\":\"linux\",\"Config\":{\"User\":"
                         "\"\",\"Env\":[\"PATH=/bin");
    for (int i = 0; i < 2000; i++)
        bg_buf_printf(&b, ":/d%d", i);
    bg_buf_puts(&b, "\"]}}");
    const struct raw_reply replies[] = {
        OPENING,
        {.path = "/v1.41/images/", .method = "GET", .bytes = b.data, .n = b.len},
        {.path = "/v1.41/containers/create", .bytes = created},
        {.path = "/v1.41/containers/c1/archive", .bytes = missing},
        {.path = "/v1.41/containers/c1", .method = "DELETE", .bytes = removed},
        {.path = NULL}};
    server.replies = replies;
    box_provider(&env);
    struct bg_spec *s = box_spec(&env);
    assert_true(box_prepare(&env, s, &err));
    size_t asked = 0;
    for (const char *p = server.seen.data; (p = strstr(p, "HEAD ")); p++)
        asked++;
    assert_true(asked > 32);
    assert_true(asked <= 32 * 32);
    bg_spec_free(s);
    server.replies = NULL;
    bg_buf_free(&b);
}

/* ---- users ---- */

/* This process stands for the container's first one. */
static void a_user_that_only_looks_like_a_number(void **state)
{
    static const char *const names[] = {"+0", "-0", "0app", "0x0", "root2", "0app:5"};
    struct bg_spec s = {0};

    (void)state;
    if (getuid() != 0) {
        print_message("needs root\n");
        skip();
    }
    for (size_t i = 0; i < bg_countof(names); i++) {
        s.user = (char *)names[i];
        const char *wrong = container_proc_mismatch(getpid(), &s, false);
        assert_non_null(wrong);
        assert_string_equal(wrong, "user");
    }
    s.user = (char *)"0:0";
    assert_null(container_proc_mismatch(getpid(), &s, false));
    s.user = (char *)"1000:1000";
    assert_non_null(container_proc_mismatch(getpid(), &s, false));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_copy_of_our_container_is_never_removed),
        T(a_search_path_without_end_is_cut),
        cmocka_unit_test(a_user_that_only_looks_like_a_number),
    };
    return cmocka_run_group_tests_name("container_hostile", tests, NULL, NULL);
}

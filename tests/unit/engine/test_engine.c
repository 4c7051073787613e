/* SPDX-License-Identifier: MIT */
/* Finding an engine, agreeing on a version, and answers that are not what they should be:
 * pure parts, and calls against a server of raw bytes. */
#include <sys/stat.h>

#include "core/base/digest.h"
#include "core/engine/engine_int.h"
#include "tests/test.h"
#include "tests/unit/net/raw_server.h"

/* ---- versions ---- */

static int negotiate(int min, int max, struct bg_error *err)
{
    const struct engine_version v = {.version = (char *)"9.9", .api_min = min, .api = max};

    return engine_negotiate(&v, err);
}

static void c038_versions_meet_or_say_why_not(void **state)
{
    struct bg_error err;

    (void)state;
    assert_int_equal(negotiate(12, 41, &err), 41);                /* Docker 20.10 */
    assert_int_equal(negotiate(24, 41, &err), 41);                /* Podman */
    assert_int_equal(negotiate(44, 52, &err), BG_ENGINE_API_MAX); /* Docker 29 */
    assert_int_equal(negotiate(24, 45, &err), 45);
    assert_int_equal(negotiate(12, 40, &err), 0);
    assert_non_null(strstr(err.msg, "1.40"));
    assert_non_null(strstr(err.msg, "1.41"));
    assert_int_equal(negotiate(60, 70, &err), 0);
    assert_non_null(strstr(err.msg, "1.60"));
    assert_int_equal(err.code, BG_ERR_UNAVAILABLE);
}

static void c076_endpoints(void **state)
{
    static const struct {
        const char *endpoint, *path;
        enum bg_errc code;
    } t[] = {{"unix:///tmp/x y.sock", "/tmp/x y.sock", BG_OK},
             {"/plain/path", "/plain/path", BG_OK},
             {"unix://relative", NULL, BG_ERR_CONFIG},
             {"relative", NULL, BG_ERR_CONFIG},
             {"tcp://127.0.0.1:2375", NULL, BG_ERR_UNSUPPORTED},
             {"ssh://h", NULL, BG_ERR_UNSUPPORTED},
             {"npipe:////./pipe/docker", NULL, BG_ERR_UNSUPPORTED}};

    (void)state;
    for (size_t i = 0; i < bg_countof(t); i++) {
        struct bg_error err = {0};
        bg_autofree char *path = bg_engine_socket(t[i].endpoint, &err);
        assert_int_equal(err.code, t[i].code);
        if (t[i].path)
            assert_string_equal(path, t[i].path);
        else
            assert_null(path);
    }
}

/* ---- discovery on a made-up machine ---- */

static char root[32];
static const char *env_path, *env_runtime, *env_home;

static const char *fake_env(const char *name)
{
    if (strcmp(name, "PATH") == 0)
        return env_path;
    if (strcmp(name, "XDG_RUNTIME_DIR") == 0)
        return env_runtime;
    if (strcmp(name, "HOME") == 0)
        return env_home;
    fail_msg("%s was read", name); /* DOCKER_HOST above all */
    return NULL;
}

static void put_socket(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    bg_autofree char *full = bg_xasprintf("%s%s", root, path);
    bg_autofree char *dir = bg_xstrndup(full, (size_t)(strrchr(full, '/') - full));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(bg_mkdir_p(dir, 0755, NULL));
    strcpy(a.sun_path, full);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    close(fd);
}

static void put_file(const char *path, const char *text, mode_t mode)
{
    bg_autofree char *full = bg_xasprintf("%s%s", root, path);
    bg_autofree char *dir = bg_xstrndup(full, (size_t)(strrchr(full, '/') - full));

    assert_true(bg_mkdir_p(dir, 0755, NULL));
    assert_true(bg_write_file_atomic(full, text, strlen(text), mode, NULL));
}

static int new_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/bg-disc-XXXXXX");
    assert_non_null(mkdtemp(root));
    env_path = "/usr/bin";
    env_runtime = NULL;
    env_home = NULL;
    return 0;
}

static int drop_root(void **state)
{
    (void)state;
    assert_true(bg_rm_rf(root, NULL));
    return 0;
}

static bool find(struct engine_places *p, const char *runtime, const char *endpoint,
                 uint32_t uid, struct bg_error *err)
{
    const struct bg_engine_opts o = {
        .runtime = runtime, .endpoint = endpoint, .program = ""};
    const struct engine_look look = {.root = root, .env = fake_env, .uid = uid};

    return engine_places_find(p, &o, &look, err);
}

static void podman_first_when_it_is_installed(void **state)
{
    struct engine_places p;
    struct bg_error err;

    (void)state;
    put_file("/usr/bin/podman", "", 0755);
    put_socket("/run/podman/podman.sock");
    put_socket("/run/docker.sock");
    put_socket("/run/user/1000/podman/podman.sock");
    assert_true(find(&p, "auto", "", 0, &err));
    assert_int_equal(p.n, 1);
    assert_string_equal(p.v[0].socket, "/run/podman/podman.sock");
    assert_true(p.service);
    engine_places_clear(&p);
    assert_true(find(&p, "auto", "", 1000, &err));
    assert_int_equal(p.n, 1);
    assert_string_equal(p.v[0].socket, "/run/user/1000/podman/podman.sock");
    engine_places_clear(&p);
    assert_true(find(&p, "docker", "", 0, &err));
    assert_string_equal(p.v[0].socket, "/run/docker.sock");
    assert_false(p.service);
    engine_places_clear(&p);
}

static void docker_by_context_then_the_usual_places(void **state)
{
    struct engine_places p;
    struct bg_error err;
    struct bg_sha256 sum = bg_sha256("mine", 4);
    char hex[BG_SHA256_HEX + 1];

    (void)state;
    env_home = "/home/u";
    env_runtime = "/run/user/1000";
    put_socket("/run/docker.sock");
    put_socket("/run/user/1000/docker.sock");
    put_file("/home/u/.docker/config.json", "{\"currentContext\":\"mine\",\"auths\":{}}",
             0600);
    bg_sha256_hex(&sum, hex);
    bg_autofree char *meta =
        bg_xasprintf("/home/u/.docker/contexts/meta/%s/meta.json", hex);
    put_file(meta, "{\"Endpoints\":{\"docker\":{\"Host\":\"unix:///srv/my.sock\"}}}", 0600);
    assert_true(find(&p, "auto", "", 1000, &err));
    assert_int_equal(p.n, 3);
    assert_string_equal(p.v[0].socket, "/srv/my.sock");
    assert_non_null(strstr(p.v[0].why, "mine"));
    assert_string_equal(p.v[1].socket, "/run/docker.sock");
    assert_string_equal(p.v[2].socket, "/run/user/1000/docker.sock");
    engine_places_clear(&p);
}

static void nothing_there_is_said(void **state)
{
    struct engine_places p;
    struct bg_error err;

    (void)state;
    assert_false(find(&p, "auto", "", 0, &err));
    assert_int_equal(err.code, BG_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "Podman is not installed"));
    engine_places_clear(&p);
    assert_false(find(&p, "podman", "", 0, &err));
    engine_places_clear(&p);
    assert_false(find(&p, "auto", "tcp://1.2.3.4:5", 0, &err));
    assert_int_equal(err.code, BG_ERR_UNSUPPORTED);
    engine_places_clear(&p);
    assert_true(find(&p, "docker", "unix:///a/b", 0, &err)); /* tried, there or not */
    assert_int_equal(p.n, 1);
    engine_places_clear(&p);
}

/* ---- calls ---- */

static struct bg_loop *loop;
static struct raw_server server;
static struct bg_engine *engine;

static int set_up(void **state)
{
    (void)state;
    loop = bg_loop_new();
    raw_start(&server, loop);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bg_engine_close(engine);
    engine = NULL;
    raw_stop(&server);
    bg_loop_free(loop);
    return 0;
}

struct got {
    bool done, there;
    struct bg_error err;
    char id[80];
    int64_t progress_done, progress_total;
    size_t progress, events;
    char action[32], last[64];
};

static void on_plain(void *data, const struct bg_error *err)
{
    struct got *g = data;

    assert_false(g->done);
    g->done = true;
    g->err = err ? *err : (struct bg_error){0};
}

static void on_created(void *data, const char *id, char *const *warnings,
                       const struct bg_error *err)
{
    struct got *g = data;

    (void)warnings;
    snprintf(g->id, sizeof g->id, "%s", id ? id : "");
    on_plain(data, err);
}

static void on_inspected(void *data, const struct bg_container_info *i,
                         const struct bg_error *err)
{
    assert_true(!i != !err);
    on_plain(data, err);
}

static void on_listed(void *data, const struct bg_container_row *rows, size_t n,
                      const struct bg_error *err)
{
    (void)rows;
    (void)n;
    on_plain(data, err);
}

static void on_has(void *data, bool there, const struct bg_error *err)
{
    ((struct got *)data)->there = there;
    on_plain(data, err);
}

static void on_progress(void *data, const char *text, int64_t done, int64_t total)
{
    struct got *g = data;

    g->progress++;
    g->progress_done = done;
    g->progress_total = total;
    snprintf(g->last, sizeof g->last, "%s", text);
}

#define JSON(body) "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" body
#define ERR(status, body) "HTTP/1.1 " status " No\r\nConnection: close\r\n\r\n" body
#define VERSION                                                                        \
    {.path = "/version",                                                               \
     .bytes = JSON("{\"Version\":\"20.10\",\"ApiVersion\":\"1.41\",\"MinAPIVersion\":" \
                   "\"1.12\",\"Arch\":\"amd64\"}")},                                   \
    {                                                                                  \
        .path = "/v1.41/info", .bytes = JSON("{\"MemoryLimit\":true}")                 \
    }

static void open_engine(struct got *g, const struct raw_reply *replies)
{
    bg_autofree char *endpoint = bg_xasprintf("unix://%s", server.path);
    const struct bg_engine_opts o = {.loop = loop,
                                     .runtime = "auto",
                                     .endpoint = endpoint,
                                     .program = "",
                                     .runtime_dir = server.dir,
                                     .call_ms = 400};

    *g = (struct got){0};
    server.replies = replies;
    engine = bg_engine_open(&o, on_plain, g);
    assert_false(g->done);
    assert_true(raw_wait(loop, &g->done));
}

static void an_engine_opens_with_its_facts(void **state)
{
    static const struct raw_reply replies[] = {VERSION, {.path = NULL}};
    struct got g;

    (void)state;
    open_engine(&g, replies);
    assert_int_equal(g.err.code, BG_OK);
    const struct bg_engine_facts *f = bg_engine_facts(engine);
    assert_string_equal(f->api, "1.41");
    assert_string_equal(f->version, "20.10");
    assert_true(f->memory && f->same_pids);
    assert_false(f->podman || f->swap || f->pids);
}

static void what_is_no_engine_is_unavailable(void **state)
{
    static const struct {
        struct raw_reply replies[2];
        const char *part;
    } t[] = {
        {{{.path = "/", .bytes = ERR("500", "{\"message\":\"on fire\"}")}}, "on fire"},
        {{{.path = "/", .bytes = JSON("<html>")}}, "/version"},
        {{{.path = "/", .bytes = JSON("[]")}}, "version"},
        {{{.path = "/", .bytes = JSON("{\"ApiVersion\":\"1.39\"}")}}, "1.39"},
        {{{.path = "/",
           .bytes = JSON("{\"ApiVersion\":\"1.90\",\"MinAPIVersion\":\"1.80\"}")}},
         "1.80"},
        {{{.path = "/", .bytes = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"}}, "cut"},
    };

    (void)state;
    for (size_t i = 0; i < bg_countof(t); i++) {
        struct got g;
        open_engine(&g, t[i].replies);
        assert_int_equal(g.err.code, BG_ERR_UNAVAILABLE);
        if (!strstr(g.err.msg, t[i].part))
            print_message("%s\n", g.err.msg);
        assert_non_null(strstr(g.err.msg, t[i].part));
        assert_non_null(strstr(g.err.msg, server.path));
        bg_engine_close(engine);
        engine = NULL;
    }
}

static void calls_tell_apart_what_went_wrong(void **state)
{
    static const struct raw_reply replies[] = {
        VERSION,
        {.path = "/v1.41/containers/create?name=taken",
         .bytes = ERR("500", "{\"message\":\"the name is already in use by x\"}")},
        {.path = "/v1.41/containers/create?name=ok",
         .bytes = JSON("{\"Id\":\"abc\",\"Warnings\":[\"w\"]}")},
        {.path = "/v1.41/containers/create?name=odd", .bytes = JSON("{\"Warnings\":null}")},
        {.path = "/v1.41/containers/gone/json", .bytes = ERR("404", "{}")},
        {.path = "/v1.41/containers/bad/json", .bytes = JSON("{\"Id\":\"bad\"}")},
        {.path = "/v1.41/containers/json", .bytes = JSON("{}")},
        {.path = "/v1.41/containers/h/archive?path=%2Fbin%2Fsh", .bytes = JSON("")},
        {.path = "/v1.41/containers/h/", .bytes = ERR("404", "")},
        {.path = NULL}};
    struct got g;

    (void)state;
    open_engine(&g, replies);
    const struct {
        const char *name;
        enum bg_errc code;
    } create[] = {{"taken", BG_ERR_CONFLICT}, {"ok", BG_OK}, {"odd", BG_ERR_UNAVAILABLE}};
    for (size_t i = 0; i < bg_countof(create); i++) {
        g.done = false;
        bg_container_create(engine, create[i].name, bg_jo(), 400, on_created, &g);
        assert_true(raw_wait(loop, &g.done));
        assert_int_equal(g.err.code, create[i].code);
        assert_string_equal(g.id, create[i].code ? "" : "abc");
    }
    const struct {
        const char *name;
        enum bg_errc code;
    } inspect[] = {{"gone", BG_ERR_NOT_FOUND}, {"bad", BG_ERR_UNAVAILABLE}};
    for (size_t i = 0; i < bg_countof(inspect); i++) {
        g.done = false;
        bg_container_inspect(engine, inspect[i].name, 400, on_inspected, &g);
        assert_true(raw_wait(loop, &g.done));
        assert_int_equal(g.err.code, inspect[i].code);
    }
    g.done = false;
    bg_container_list(engine, "boxgate.instance=x", on_listed, &g);
    assert_true(raw_wait(loop, &g.done));
    assert_int_equal(g.err.code, BG_ERR_UNAVAILABLE);
    for (int i = 0; i < 2; i++) {
        g.done = false;
        bg_container_has(engine, "h", i ? "/bin/no" : "/bin/sh", on_has, &g);
        assert_true(raw_wait(loop, &g.done));
        assert_int_equal(g.err.code, BG_OK);
        assert_int_equal(g.there, !i);
    }
}

static void c113_gone_counts_as_removed(void **state)
{
    static const struct raw_reply replies[] = {
        VERSION,
        {.path = "/v1.41/containers/c?force", .bytes = ERR("404", "{}")},
        {.path = NULL}};
    struct got g;

    (void)state;
    open_engine(&g, replies);
    g.done = false;
    bg_container_remove(engine, "c", on_plain, &g);
    assert_true(raw_wait(loop, &g.done));
    assert_int_equal(g.err.code, BG_OK);
}

static void a_pull_tells_its_progress_and_its_error(void **state)
{
    static const struct raw_reply replies[] = {
        VERSION,
        {.path = "/v1.41/images/create?fromImage=host%3A5000%2Fa%2Fb&tag=1",
         .bytes = JSON("{\"status\":\"Pulling from a/b\",\"id\":\"1\"}\n"
                       "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":30,"
                       "\"total\":100},\"id\":\"x\"}\nwhat is this\n"
                       "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":50,"
                       "\"total\":300},\"id\":\"y\"}\n"
                       "{\"status\":\"Extracting\",\"progressDetail\":{\"current\":1,"
                       "\"total\":9},\"id\":\"y\"}\n{\"status\":\"done\"}")},
        {.path = "/v1.41/images/create?fromImage=no&tag=latest",
         .bytes =
             JSON("{\"errorDetail\":{\"message\":\"no such thing\"},\"error\":\"e\"}")},
        {.path = "/v1.41/images/create?fromImage=a%40sha256%3Ab ",
         .bytes = ERR("500", "{\"message\":\"net down\"}")},
        {.path = NULL}};
    struct got g;

    (void)state;
    open_engine(&g, replies);
    g.done = false;
    bg_image_pull(engine, "host:5000/a/b:1", on_progress, on_plain, &g);
    assert_true(raw_wait(loop, &g.done));
    assert_int_equal(g.err.code, BG_OK);
    assert_int_equal(g.progress_done, 80);
    assert_int_equal(g.progress_total, 400);
    assert_string_equal(g.last, "done");
    g.done = false;
    bg_image_pull(engine, "no", on_progress, on_plain, &g);
    assert_true(raw_wait(loop, &g.done));
    assert_int_equal(g.err.code, BG_ERR_UNAVAILABLE);
    assert_non_null(strstr(g.err.msg, "no such thing"));
    g.done = false;
    bg_image_pull(engine, "a@sha256:b", on_progress, on_plain, &g);
    assert_true(raw_wait(loop, &g.done));
    assert_non_null(strstr(g.err.msg, "net down"));
}

static void a_pull_can_be_cancelled(void **state)
{
    static const struct raw_reply replies[] = {
        VERSION,
        {.path = "/v1.41/images/create",
         .bytes = "HTTP/1.1 200 OK\r\n\r\n{\"status\":\"slow\"}\n",
         .stays_open = true},
        {.path = NULL}};
    struct got g;

    (void)state;
    open_engine(&g, replies);
    g = (struct got){0};
    struct bg_engine_op *op = bg_image_pull(engine, "slow", on_progress, on_plain, &g);
    for (int64_t until = bg_mono_ms() + 5000; !g.progress && bg_mono_ms() < until;)
        bg_loop_turn(loop, 20);
    assert_int_equal(g.progress, 1);
    bg_engine_cancel(op);
    bg_loop_turn(loop, 0);
    assert_false(g.done);
}

static void on_event(void *data, const struct bg_engine_event *ev)
{
    struct got *g = data;

    g->events++;
    snprintf(g->action, sizeof g->action, "%s", ev->action);
    snprintf(g->id, sizeof g->id, "%s", ev->container);
}

static void on_broken(void *data)
{
    ((struct got *)data)->there = false;
}

static void events_come_and_a_broken_stream_is_asked_for_again(void **state)
{
    static const struct raw_reply replies[] = {
        VERSION,
        {.path = "/v1.41/events",
         .bytes =
             JSON("{\"Action\":\"exec_start: rm -rf \\\"x\\\"\",\"Type\":\"container\","
                  "\"Actor\":{\"ID\":\"c1\"},\"timeNano\":1796064259399613094}\n{}\n")},
        {.path = NULL}};
    static const struct bg_engine_watch_events events = {.event = on_event,
                                                         .broken = on_broken};
    struct got g;

    (void)state;
    open_engine(&g, replies);
    g = (struct got){.there = true};
    bg_engine_watch(engine, &events, &g);
    for (int64_t until = bg_mono_ms() + 8000; g.events < 2 && bg_mono_ms() < until;)
        bg_loop_turn(loop, 20);
    assert_int_equal(g.events, 2);
    assert_string_equal(g.action, "exec_start");
    assert_string_equal(g.id, "c1");
    assert_false(g.there);
}

static void closing_ends_what_is_under_way(void **state)
{
    static const struct raw_reply replies[] = {
        VERSION,
        {.path = "/v1.41/", .bytes = "HTTP/1.1 200 OK\r\n", .stays_open = true},
        {.path = NULL}};
    struct got g;

    (void)state;
    open_engine(&g, replies);
    g.done = false;
    bg_container_remove(engine, "c", on_plain, &g);
    bg_container_inspect(engine, "c", 400, on_inspected, &g);
    bg_image_pull(engine, "i", on_progress, on_plain, &g);
    bg_loop_turn(loop, 20);
    bg_engine_close(engine);
    engine = NULL;
    for (int i = 0; i < 5; i++)
        bg_loop_turn(loop, 5);
    assert_false(g.done);
}

static void our_own_podman_service(void **state)
{
    static const char script[] = "#!/bin/sh\nexit 7\n";
    struct got g = {0};

    (void)state;
    bg_autofree char *program = bg_path_join(server.dir, "podman");
    assert_true(bg_write_file_atomic(program, script, strlen(script), 0755, NULL));
    const struct bg_engine_opts o = {.loop = loop, .runtime_dir = server.dir};
    struct engine_service *s = engine_service_start(&o, program, on_plain, &g);
    assert_true(raw_wait(loop, &g.done));
    assert_int_equal(g.err.code, BG_ERR_UNAVAILABLE);
    assert_non_null(strstr(g.err.msg, "exit 7"));
    engine_service_stop(s);
}

int main(void)
{
#define D(f) cmocka_unit_test_setup_teardown(f, new_root, drop_root)
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c038_versions_meet_or_say_why_not),
        cmocka_unit_test(c076_endpoints),
        D(podman_first_when_it_is_installed),
        D(docker_by_context_then_the_usual_places),
        D(nothing_there_is_said),
        T(an_engine_opens_with_its_facts),
        T(what_is_no_engine_is_unavailable),
        T(calls_tell_apart_what_went_wrong),
        T(c113_gone_counts_as_removed),
        T(a_pull_tells_its_progress_and_its_error),
        T(a_pull_can_be_cancelled),
        T(events_come_and_a_broken_stream_is_asked_for_again),
        T(closing_ends_what_is_under_way),
        T(our_own_podman_service),
    };
    bg_digest_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

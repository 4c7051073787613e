/* SPDX-License-Identifier: MIT */
/*
 * The container provider without containers: what it asks of an engine, how it judges the
 * answer, and an engine (a server of raw bytes) that is slow, wrong or gone. With real
 * engines: tests/engine.
 */
#include "core/provider/container/container.h"
#include "tests/test.h"
#include "tests/unit/net/raw_server.h"
#include "tests/unit/provider/box.h"

/* ---- pure parts ---- */

static struct bg_spec *plain_spec(void)
{
    struct bg_config *c = bg_config_defaults();
    struct bg_paths paths = {.config = (char *)"/nonexistent/c",
                             .state = (char *)"/nonexistent/s",
                             .runtime = (char *)"/nonexistent/r",
                             .cache = (char *)"/nonexistent/k"};
    struct bg_spec *s = bg_spec_from_profile(&c->profiles[0], &paths, "", NULL);

    assert_non_null(s);
    free(s->user);
    s->user = bg_xstrdup("1000:1000");
    free(s->image_id);
    s->image_id = bg_xstrdup("sha256:abc");
    bg_config_free(c);
    return s;
}

static void names_tell_ids_apart(void **state)
{
    bg_autofree char *a = container_name("i1", "Team-A");
    bg_autofree char *b = container_name("i1", "team-a");
    bg_autofree char *c = container_name("i2", "team-a");
    bg_autofree char *d = container_name(
        "i1", "a-very-long-name-of-a-session-that-goes-on-and-on-and-on.0123456789");

    (void)state;
    assert_int_equal(strncmp(a, "boxgate-team-a-", 15), 0);
    assert_int_equal(strlen(a), 15 + 8);
    assert_string_not_equal(a, b); /* C017: folded alike, hashed apart */
    assert_string_not_equal(b, c);
    assert_int_equal(strlen(d), 8 + 30 + 1 + 8);
}

static void users(void **state)
{
    static const struct {
        const char *asked, *image, *got;
    } t[] = {
        {"", "", "1000:1000"},   {"", "root", "1000:1000"}, {"", "0:0", "1000:1000"},
        {"", "0", "1000:1000"},  {"", "node", "node"},      {"", "1001", "1001"},
        {"root", "node", "0:0"}, {"0", "node", "0:0"},      {"2000:3000", "", "2000:3000"}};

    (void)state;
    for (size_t i = 0; i < bg_countof(t); i++) {
        bg_autofree char *got = container_user(t[i].asked, t[i].image);
        assert_string_equal(got, t[i].got);
    }
}

static const cJSON *at(const cJSON *o, const char *path)
{
    bg_autofree char *copy = bg_xstrdup(path);
    char *save = NULL;

    for (char *k = strtok_r(copy, ">", &save); k && o; k = strtok_r(NULL, ">", &save))
        o = cJSON_GetObjectItemCaseSensitive(o, k);
    return o;
}

static void body_is(const cJSON *body, const char *path, const char *want)
{
    const cJSON *v = at(body, path);
    bg_autofree char *got = v ? bg_json_print(v) : bg_xstrdup("(nothing)");

    if (strcmp(got, want) != 0)
        print_message("%s\n", path);
    assert_string_equal(got, want);
}

static void the_body_leaves_nothing_to_the_engine(void **state)
{
    struct bg_spec *s = plain_spec();
    struct container_make m = {
        .spec = s, .instance = "inst", .ref = "ref1", .link_dir = "/l", .guest_path = "/g"};

    (void)state;
    bg_strv_push(&s->env, "TOKEN=s3cret-demo");
    bg_strv_push(&s->labels, "team=a");
    bg_strv_push(&s->metadata, "why=x");
    bg_autojson cJSON *b = container_body(&m);
    body_is(b, "Entrypoint", "[\"/.boxgate/guest\"]");
    body_is(b, "Cmd", "[]");
    body_is(b, "Env", "[]");
    body_is(b, "Healthcheck>Test", "[\"NONE\"]");
    body_is(b, "User", "\"1000:1000\"");
    body_is(b, "Tty", "false");
    body_is(b, "OpenStdin", "false");
    body_is(b, "Labels>boxgate.instance", "\"inst\"");
    body_is(b, "Labels>boxgate.meta.why", "\"x\"");
    body_is(b, "Labels>team", "\"a\"");
    body_is(b, "HostConfig>Init", "false");
    body_is(b, "HostConfig>NetworkMode", "\"none\"");
    body_is(b, "HostConfig>CapDrop", "[\"ALL\"]");
    body_is(b, "HostConfig>SecurityOpt", "[\"no-new-privileges\"]");
    body_is(b, "HostConfig>LogConfig>Type", "\"none\"");
    body_is(b, "HostConfig>Memory", "536870912");
    body_is(b, "HostConfig>MemorySwap", "536870912");
    body_is(b, "HostConfig>NanoCpus", "1000000000");
    body_is(b, "HostConfig>PidsLimit", "262");
    body_is(b, "HostConfig>ShmSize", "16777216");
    body_is(
        b, "HostConfig>Tmpfs",
        "{\"/workspace\":\"rw,exec,nosuid,nodev,size=176m,mode=0755,uid=1000,gid=1000\","
        "\"/tmp\":\"rw,exec,nosuid,nodev,size=64m,mode=1777,uid=1000,gid=1000\"}");
    bg_autofree char *text = bg_json_print(b);
    assert_null(strstr(text, "s3cret-demo"));
    bg_spec_free(s);
}

static void bodies_for_others(void **state)
{
    struct bg_spec *s = plain_spec();
    struct container_make m = {.spec = s,
                               .instance = "i",
                               .ref = "r",
                               .link_dir = "/l",
                               .guest_path = "/g",
                               .token = "00ff",
                               .podman = true,
                               .selinux = true};

    (void)state;
    s->limits.memory_mb = s->limits.cpus_milli = s->limits.pids = BG_UNLIMITED;
    s->no_new_privileges = false;
    free(s->network);
    s->network = bg_xstrdup("host");
    bg_autojson cJSON *b = container_body(&m);
    body_is(b, "Env", "[\"BOXGATE_TOKEN=00ff\"]");
    body_is(b, "Hostname", "(nothing)");
    body_is(b, "HostConfig>Memory", "(nothing)");
    body_is(b, "HostConfig>NanoCpus", "(nothing)");
    body_is(b, "HostConfig>PidsLimit", "-1");
    body_is(b, "HostConfig>SecurityOpt", "(nothing)");
    body_is(b, "HostConfig>Binds",
            "[\"/l:/.boxgate/link:ro,z\",\"/g:/.boxgate/guest:ro,z\"]");
    body_is(b, "HostConfig>Tmpfs>/workspace",
            "\"rw,exec,nosuid,nodev,size=176m,mode=1777,notmpcopyup\"");
    bg_spec_free(s);
}

static struct bg_container_info good_info(void)
{
    struct bg_container_info i = {
        .image = bg_xstrdup("sha256:abc"),
        .user = bg_xstrdup("1000:1000"),
        .network = bg_xstrdup("none"),
        .memory = 512 << 20,
        .memory_swap = 512 << 20,
        .nano_cpus = 1000000000,
        .pids_limit = 262,
    };

    bg_strv_push(&i.labels, "boxgate.ref=r");
    bg_strv_push(&i.entrypoint, "/.boxgate/guest");
    bg_strv_push(&i.mounts, "bind|/g|/.boxgate/guest|ro");
    bg_strv_push(&i.mounts, "bind|/l|/.boxgate/link|ro");
    bg_strv_push(&i.tmpfs, "/tmp=rw,exec,size=64m");
    bg_strv_push(&i.tmpfs, "/workspace=rw,exec,size=176m");
    bg_strv_push(&i.cap_drop, "ALL");
    bg_strv_push(&i.security, "no-new-privileges");
    return i;
}

static void spoil(struct bg_container_info *i, size_t how)
{
    switch (how) {
    case 0:
        i->privileged = true;
        break;
    case 1:
        bg_strv_push(&i->cap_add, "SYS_ADMIN");
        break;
    case 2:
        bg_strv_push(&i->mounts, "bind|/etc|/host|rw");
        break;
    case 3:
        bg_strv_push(&i->modes, "PidMode=host");
        break;
    case 4:
        i->devices = 1;
        break;
    case 5:
        i->network[0] = 'N';
        break;
    case 6:
        i->memory *= 2;
        break;
    case 7:
        i->security[0][0] = 'x';
        break;
    case 8:
        i->image[8] = 'z';
        break;
    case 9:
        i->user[0] = '0';
        break;
    case 10:
        bg_strv_push(&i->cmd, "sh");
        break;
    case 11: /* connected by somebody before we looked */
        bg_strv_push(&i->networks, "bridge");
        break;
    default:
        i->tmpfs[0][strlen(i->tmpfs[0]) - 2] = '0';
        break;
    }
}

static void any_other_container_is_found_out(void **state)
{
    struct bg_spec *s = plain_spec();
    const struct container_make m = {
        .spec = s, .instance = "i", .ref = "r", .link_dir = "/l", .guest_path = "/g"};
    char **lost = NULL;

    (void)state;
    struct bg_container_info good = good_info();
    assert_null(container_mismatch(&good, &m, &lost));
    assert_null(lost);
    for (size_t how = 0; how < 13; how++) {
        struct bg_container_info i = good_info();
        spoil(&i, how);
        if (!container_mismatch(&i, &m, &lost))
            print_message("way %zu\n", how);
        assert_non_null(container_mismatch(&i, &m, &lost));
        bg_container_info_clear(&i);
    }
    bg_strv_free(lost);
    bg_container_info_clear(&good);
    bg_spec_free(s);
}

static void c077_limits_the_engine_dropped_are_told(void **state)
{
    struct bg_spec *s = plain_spec();
    const struct container_make m = {
        .spec = s, .instance = "i", .ref = "r", .link_dir = "/l", .guest_path = "/g"};
    struct bg_container_info i = good_info();
    char **lost = NULL;

    (void)state;
    i.memory = i.memory_swap = 0;
    i.pids_limit = 0;
    assert_null(container_mismatch(&i, &m, &lost));
    assert_int_equal(bg_strv_len(lost), 2);
    assert_string_equal(lost[0], "memory");
    assert_string_equal(lost[1], "pids");
    bg_strv_free(lost);
    bg_container_info_clear(&i);
    bg_spec_free(s);
}

/* What an engine says it set is not what holds: this process is in no such group. */
static void c077_limits_are_read_back_from_the_kernel(void **state)
{
    const struct bg_limits l = {.memory_mb = 64, .pids = 64, .cpus_milli = BG_UNLIMITED};
    char **lost = NULL;

    (void)state;
    for (int i = 0; i < 2; i++) { /* each is named once */
        container_proc_limits(getpid(), &l, &lost);
        assert_int_equal(bg_strv_len(lost), 2);
        assert_string_equal(lost[0], "memory");
        assert_string_equal(lost[1], "pids");
    }
    bg_strv_free(lost);
}

/* ---- an engine of raw bytes ---- */

static struct box_env env;
static struct raw_server server;

static const char version[] =
    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"Version\":\"20.10\",\"ApiVersion\":"
    "\"1.41\",\"MinAPIVersion\":\"1.12\"}";
static const char info[] =
    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"MemoryLimit\":true,\"PidsLimit\":true,"
    "\"SwapLimit\":true,\"CpuCfsQuota\":true,\"CpuCfsPeriod\":true}";
static const char image[] =
    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"Id\":\"sha256:abc\",\"Os\":\"linux\","
    "\"Config\":{\"User\":\"\",\"Env\":[\"PATH=/bin\"]}}";
static const char created[] =
    "HTTP/1.1 201 OK\r\nConnection: close\r\n\r\n{\"Id\":\"c1\",\"Warnings\":[]}";
static const char removed[] = "HTTP/1.1 204 OK\r\nConnection: close\r\n\r\n";
static const char found[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
static const char silent[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char forbidden[] =
    "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n{\"message\":\"crun: setrlimit "
    "RLIMIT_NOFILE: OCI permission denied\"}";
static const char listed[] = "HTTP/1.1 200 OK\r\nConnection: "
                             "close\r\n\r\n[{\"Id\":\"late1\",\"Names\":[\"/boxgate-x\"]}]";
#define OPENING                                                                     \
    {.path = "/version", .bytes = version}, {.path = "/v1.41/info", .bytes = info}, \
        {.path = "/v1.41/events", .bytes = silent, .stays_open = true},             \
        {.path = "/v1.41/images/", .method = "GET", .bytes = image},                \
        {.path = "/v1.41/containers/create?name=boxgate-probe", .bytes = created},  \
    {                                                                               \
        .path = "/v1.41/containers/c1/archive", .bytes = found                      \
    }

static int set_up(void **state)
{
    (void)state;
    box_begin(&env, &bg_provider_container);
    raw_start(&server, env.loop);
    bg_autofree char *endpoint = bg_xasprintf("unix://%s", server.path);
    free(env.config->engine.endpoint);
    env.config->engine.endpoint = bg_steal(endpoint);
    env.config->engine.call_ms = 500;
    env.config->engine.create_ms = 600;
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

static bool seen_line(const char *line)
{
    int64_t until = bg_mono_ms() + BOX_WAIT_MS;

    while (!strstr(server.seen.data, line) && bg_mono_ms() < until)
        bg_loop_turn(env.loop, 20);
    return strstr(server.seen.data, line) != NULL;
}

static struct bg_sandbox *try_make(struct bg_error *err)
{
    struct bg_spec *s = box_spec(&env);

    assert_true(box_prepare(&env, s, err));
    struct bg_sandbox *sb = box_make(&env, s, NULL, NULL, err);
    bg_spec_free(s);
    return sb;
}

static void c112_a_late_create_is_removed_by_its_id(void **state)
{
    static const struct raw_reply replies[] = {
        OPENING,
        {.path = "/v1.41/containers/create", .bytes = created, .delay_ms = 1500},
        {.path = "/v1.41/containers/c1", .method = "DELETE", .bytes = removed},
        {.path = NULL}};
    struct bg_error err;
    int64_t begun;

    (void)state;
    server.replies = replies;
    box_provider(&env);
    begun = bg_mono_ms();
    assert_null(try_make(&err));
    assert_int_equal(err.code, BG_ERR_TIMEOUT);
    assert_true(bg_mono_ms() - begun < 1400); /* told before the engine is done */
    bg_buf_clear(&server.seen);
    assert_true(seen_line("DELETE /v1.41/containers/c1?force=true&v=true HTTP/1.1\n"));
    box_turn_for(env.loop, 50);
    assert_int_equal(box_count_named(((struct container *)env.provider)->link_parent, ""),
                     2);
}

static void av22_a_create_that_was_cut_off_is_found_by_its_mark(void **state)
{
    static const struct raw_reply replies[] = {
        OPENING,
        {.path = "/v1.41/containers/create", .bytes = "HTTP/1.1 201 OK\r\n"},
        {.path =
             "/v1.41/containers/json?all=true&filters=%7B%22label%22%3A%5B%22boxgate.ref",
         .bytes = listed},
        {.path = "/v1.41/containers/late1", .method = "DELETE", .bytes = removed},
        {.path = "/v1.41/containers/c1", .method = "DELETE", .bytes = removed},
        {.path = NULL}};
    struct bg_error err;

    (void)state;
    server.replies = replies;
    box_provider(&env);
    assert_null(try_make(&err));
    assert_int_equal(err.code, BG_ERR_UNAVAILABLE);
    assert_true(seen_line("DELETE /v1.41/containers/late1?force=true&v=true"));
    /* Never by name: that could be somebody else's. */
    assert_null(strstr(server.seen.data, "DELETE /v1.41/containers/boxgate-"));
}

static void c124_a_start_that_fails_leaves_nothing_and_names_the_engine(void **state)
{
    static const struct raw_reply replies[] = {
        OPENING,
        {.path = "/v1.41/containers/create", .bytes = created},
        {.path = "/v1.41/containers/c1/start", .bytes = forbidden},
        {.path = "/v1.41/containers/c1", .method = "DELETE", .bytes = removed},
        {.path = NULL}};
    struct bg_error err;

    (void)state;
    server.replies = replies;
    box_provider(&env);
    assert_null(try_make(&err));
    assert_int_equal(err.code, BG_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "OCI permission denied")); /* its own words */
    assert_non_null(strstr(err.msg, "Docker 20.10"));
    assert_non_null(strstr(err.msg, "ulimits"));
    assert_true(seen_line("DELETE /v1.41/containers/c1?force"));
}

static void answers_that_are_no_container(void **state)
{
    static const char garbage[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<html>";
    static const struct raw_reply replies[] = {
        OPENING,
        {.path = "/v1.41/containers/create", .bytes = created},
        {.path = "/v1.41/containers/c1/start", .bytes = removed},
        {.path = "/v1.41/containers/c1/json", .bytes = garbage},
        {.path = "/v1.41/containers/c1", .method = "DELETE", .bytes = removed},
        {.path = NULL}};
    struct bg_error err;

    (void)state;
    server.replies = replies;
    box_provider(&env);
    assert_null(try_make(&err));
    assert_int_equal(err.code, BG_ERR_UNAVAILABLE);
    assert_true(seen_line("DELETE /v1.41/containers/c1?force"));
}

static void a_pull_is_cancelled_and_closing_cancels(void **state)
{
    static const struct raw_reply replies[] = {
        {.path = "/version", .bytes = version},
        {.path = "/v1.41/info", .bytes = info},
        {.path = "/v1.41/events", .bytes = silent, .stays_open = true},
        {.path = "/v1.41/images/create", .bytes = silent, .stays_open = true},
        {.path = "/v1.41/images/",
         .bytes = "HTTP/1.1 404 No\r\nConnection: close\r\n\r\n{}"},
        {.path = NULL}};
    struct box_flag f = {0}, g = {0};

    (void)state;
    server.replies = replies;
    box_provider(&env);
    struct bg_spec *s = box_spec(&env), *t = box_spec(&env);
    env.ops->prepare(env.provider, s, NULL, box_done, &f);
    env.ops->prepare(env.provider, t, NULL, box_done, &g);
    assert_true(seen_line("POST /v1.41/images/create?fromImage=node&tag=22-bookworm"));
    env.ops->cancel_prepare(env.provider, &f);
    assert_true(f.done);
    assert_int_equal(f.err.code, BG_ERR_CANCELLED);
    assert_false(g.done);
    container_prepares_end((struct container *)env.provider); /* as closing does */
    assert_int_equal(g.err.code, BG_ERR_CANCELLED);
    bg_spec_free(s);
    bg_spec_free(t);
}

static void strict_limits_refuse_what_the_engine_cannot_hold(void **state)
{
    static const char weak[] =
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"MemoryLimit\":"
        "true,\"CpuCfsQuota\":true,\"CpuCfsPeriod\":true}";
    static const struct raw_reply replies[] = {
        {.path = "/version", .bytes = version},
        {.path = "/v1.41/info", .bytes = weak},
        {.path = "/v1.41/events", .bytes = silent, .stays_open = true},
        {.path = "/v1.41/images/", .bytes = image},
        {.path = "/v1.41/containers/create", .bytes = created},
        {.path = "/v1.41/containers/c1/archive", .bytes = found},
        {.path = "/v1.41/containers/c1", .method = "DELETE", .bytes = removed},
        {.path = NULL}};
    struct bg_error err;

    (void)state;
    server.replies = replies;
    box_provider(&env);
    struct bg_spec *s = box_spec(&env);
    assert_true(box_prepare(&env, s, &err));
    assert_int_equal(bg_strv_len(s->not_enforced), 2); /* pids, swap */
    assert_string_equal(s->not_enforced[0], "pids");
    s->limits.strict = true;
    assert_false(box_prepare(&env, s, &err));
    assert_int_equal(err.code, BG_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "pids"));
    bg_spec_free(s);
}

static void what_cannot_be_used_says_why(void **state)
{
    static const char desktop[] = "HTTP/1.1 200 OK\r\nConnection: "
                                  "close\r\n\r\n{\"OperatingSystem\":\"Docker Desktop\"}";
    static const struct raw_reply replies[] = {{.path = "/version", .bytes = version},
                                               {.path = "/v1.41/info", .bytes = desktop},
                                               {.path = NULL}};
    struct bg_error err;

    (void)state;
    server.replies = replies;
    box_provider(&env);
    const struct bg_provider_report *r = env.ops->report(env.provider);
    assert_false(r->available);
    assert_non_null(strstr(r->why_not, "virtual machine"));
    assert_non_null(r->remedy);
    struct bg_spec *s = box_spec(&env);
    assert_false(box_prepare(&env, s, &err));
    assert_int_equal(err.code, BG_ERR_UNAVAILABLE);
    bg_spec_free(s);
    env.ops->close(env.provider);
    free(env.config->engine.guest);
    env.config->engine.guest = bg_xstrdup("off");
    box_provider(&env);
    assert_non_null(strstr(env.ops->report(env.provider)->why_not, "engine.guest"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_tell_ids_apart),
        cmocka_unit_test(users),
        cmocka_unit_test(the_body_leaves_nothing_to_the_engine),
        cmocka_unit_test(bodies_for_others),
        cmocka_unit_test(any_other_container_is_found_out),
        cmocka_unit_test(c077_limits_the_engine_dropped_are_told),
        cmocka_unit_test(c077_limits_are_read_back_from_the_kernel),
        T(c112_a_late_create_is_removed_by_its_id),
        T(av22_a_create_that_was_cut_off_is_found_by_its_mark),
        T(c124_a_start_that_fails_leaves_nothing_and_names_the_engine),
        T(answers_that_are_no_container),
        T(a_pull_is_cancelled_and_closing_cancels),
        T(strict_limits_refuse_what_the_engine_cannot_hold),
        T(what_cannot_be_used_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

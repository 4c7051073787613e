/* SPDX-License-Identifier: MIT */
/* What only containers have: images, an engine that others use too, and an engine that
 * fails. On the engine BOX_ENGINE. */
#pragma once

#include <sys/wait.h>

#include "tests/engine/container_box.h"

static struct box_env env;

static int open_box(void **state)
{
    (void)state;
    box_open(&env);
    const struct bg_provider_report *r = env.ops->report(env.provider);
    if (!r->available) {
        printf("%s: %s; %s\n", BOX_ENGINE, r->why_not, r->remedy);
        return -1;
    }
    assert_string_equal(r->name, BOX_ENGINE);
    return 0;
}

static int close_box(void **state)
{
    (void)state;
    assert_int_equal(box_traces(&env), 0);
    assert_int_equal(box_processes(&env), 0);
    box_close(&env);
    return 0;
}

/* ---- somebody else at the same engine ---- */

static int touch(const struct bg_sandbox *sb, const char *method, const char *what)
{
    bg_autofree char *path = bg_xasprintf("/containers/%s%s", sb->name, what);

    return box_stranger(&env, method, path, "{}");
}

struct watcher {
    bool lost;
    struct bg_error why;
    char changed[32];
};

static void on_lost(void *data, struct bg_sandbox *sb, const struct bg_error *why)
{
    struct watcher *w = data;

    (void)sb;
    assert_false(w->lost);
    w->lost = true;
    w->why = *why;
}

static void on_changed(void *data, struct bg_sandbox *sb, const char *what)
{
    (void)sb;
    snprintf(((struct watcher *)data)->changed, sizeof((struct watcher *)data)->changed,
             "%s", what);
}

static const struct bg_sandbox_events watch = {.lost = on_lost, .changed = on_changed};

static struct bg_spec *prepared(void)
{
    struct bg_spec *s = box_spec(&env);
    struct bg_error err;

    assert_true(box_prepare(&env, s, &err));
    return s;
}

static struct bg_sandbox *made(struct bg_spec *s, struct watcher *w)
{
    struct bg_error err;
    struct bg_sandbox *sb = box_make(&env, s, &watch, w, &err);

    if (!sb)
        printf("create: %s\n", err.msg);
    assert_non_null(sb);
    return sb;
}

static enum bg_errc inspected(struct bg_sandbox *sb, const struct bg_spec *s,
                              struct bg_error *err)
{
    struct box_flag f = {0};

    env.ops->inspect(sb, s, box_done, &f);
    assert_false(f.done);
    assert_true(box_wait(env.loop, &f.done));
    *err = f.err;
    return f.err.code;
}

static void prints(struct bg_sandbox *sb, const char *script, const char *out)
{
    struct box_run r;

    box_sh(&env, sb, &r, script);
    if (r.error.code != BG_OK)
        printf("%s: %s\n", script, r.error.msg);
    assert_string_equal(r.out.data, out);
    box_run_clear(&r);
}

static bool wait_text(const char *text, const char *want)
{
    int64_t until = bg_mono_ms() + BOX_WAIT_MS;

    while (strcmp(text, want) != 0 && bg_mono_ms() < until)
        bg_loop_turn(env.loop, 20);
    return strcmp(text, want) == 0;
}

/* ---- what is inside ---- */

static void the_sandbox_is_what_was_asked(void **state)
{
    struct bg_spec *s = prepared();
    struct watcher w = {0};
    struct bg_sandbox *sb = made(s, &w);
    struct bg_error err;

    (void)state;
    assert_string_equal(s->provider, BOX_ENGINE);
    assert_string_equal(s->user, "1000:1000"); /* the image's is root */
    assert_null(s->not_enforced);
    assert_null(sb->not_enforced);
    assert_int_equal(inspected(sb, s, &err), BG_OK);
    prints(sb, "id -u; id -g; ls /sys/class/net; pwd", "1000\n1000\nlo\n/workspace\n");
    prints(sb, "grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr -d '\\t'",
           "CapEff:0000000000000000\nCapBnd:0000000000000000\nNoNewPrivs:1\n");
    prints(sb, "touch /workspace/a /tmp/b /dev/shm/c && echo ok", "ok\n");
    prints(sb, "df -m --output=size /workspace /tmp /dev/shm | tail -n 3 | tr -d ' '",
           "176\n64\n16\n");
    prints(sb, "printf '#!/bin/sh\\necho runs\\n' > x; chmod +x x; ./x", "runs\n");
    prints(sb, "cat /proc/1/comm; kill -9 1; echo still", "guest\nstill\n");
    assert_false(w.lost);
    assert_string_equal(w.changed, "");
    assert_true(box_destroy(&env, sb));
    bg_spec_free(s);
}

static void read_only_root_user_and_no_env_in_the_config(void **state)
{
    struct bg_spec *s = box_spec(&env);
    struct watcher w = {0};
    struct bg_error err;

    (void)state;
    s->readonly_rootfs = true;
    free(s->user);
    s->user = bg_xstrdup("1234:4321");
    bg_strv_push(&s->env, "SECRET=s3cret-demo");
    assert_true(box_prepare(&env, s, &err));
    struct bg_sandbox *sb = made(s, &w);
    prints(sb, "id -u; id -g; touch /etc/x 2>/dev/null || echo refused; touch f && echo ok",
           "1234\n4321\nrefused\nok\n");
    /* C058: values go over the link, never into what others can look at. */
    for (char **e = ((struct container_sandbox *)sb)->info.env; e && *e; e++)
        assert_null(strstr(*e, "s3cret-demo"));
    for (char **l = ((struct container_sandbox *)sb)->info.labels; l && *l; l++)
        assert_null(strstr(*l, "s3cret-demo"));
    assert_true(box_destroy(&env, sb));
    bg_spec_free(s);
}

static void c025_memory_and_pids_limits_hold(void **state)
{
    struct bg_spec *s = box_spec(&env);
    struct watcher w = {0};
    struct bg_error err;
    struct box_run r;

    (void)state;
    s->limits.memory_mb = 64;
    s->workspace_mb = 8;
    s->tmp_mb = 8;
    s->limits.pids = 20;
    s->limits.strict = true;
    assert_true(box_prepare(&env, s, &err));
    struct bg_sandbox *sb = made(s, &w);
    assert_null(sb->not_enforced);
    box_sh(&env, sb, &r, "exec python3 -c 'x = bytearray(200 << 20)'");
    assert_int_equal(r.r.exit_code, 137);
    assert_true(r.r.oom);
    box_run_clear(&r);
    box_sh(&env, sb, &r,
           "sh -c \"exec python3 -c 'x = bytearray(200 << 20)'\"; echo inner $?");
    assert_string_equal(r.out.data, "inner 137\n");
    assert_int_equal(r.r.exit_code, 0);
    assert_true(r.r.oom);
    box_run_clear(&r);
    box_sh(&env, sb, &r, "kill -9 $$");
    assert_int_equal(r.r.exit_code, 137);
    assert_false(r.r.oom);
    box_run_clear(&r);
    box_python(&env, sb, &r,
               "import os, time\n"
               "n = 0\n"
               "try:\n"
               "    while n < 100:\n"
               "        if os.fork() == 0:\n"
               "            time.sleep(60)\n"
               "        n += 1\n"
               "except BlockingIOError:\n"
               "    print(15 <= n <= 25)\n");
    assert_string_equal(r.out.data, "True\n");
    box_run_clear(&r);
    assert_true(box_destroy(&env, sb));
    bg_spec_free(s);
}

/* ---- images ---- */

static void use_image(struct bg_spec *s, const char *image)
{
    free(s->image);
    s->image = bg_xstrdup(image);
}

static void an_image_without_a_shell_works(void **state)
{
    struct bg_spec *s = box_spec(&env);
    struct watcher w = {0};
    struct bg_error err;
    struct box_run r;
    char *const argv[] = {(char *)"/hello", NULL}, *const sh[] = {(char *)"sh", NULL};

    (void)state;
    use_image(s, "boxgate-test/noshell:1");
    assert_true(box_prepare(&env, s, &err));
    assert_int_equal(env.ops->has_program(env.provider, s, "python3"), 0);
    assert_int_equal(env.ops->has_program(env.provider, s, "sh"), 0);
    struct bg_sandbox *sb = made(s, &w);
    box_start(sb, &r, argv, NULL, 5000);
    assert_true(box_wait(env.loop, &r.done));
    assert_string_equal(r.out.data, "hello\n");
    box_run_clear(&r);
    box_start(sb, &r, sh, NULL, 5000);
    assert_true(box_wait(env.loop, &r.done));
    assert_int_equal(r.error.code, BG_ERR_COMMAND);
    assert_string_equal(r.out.data, ""); /* AV08: no text of ours in there */
    box_run_clear(&r);
    assert_true(box_destroy(&env, sb));
    bg_spec_free(s);
}

static void programs_of_an_image_are_known_before_it_runs(void **state)
{
    struct bg_spec *s = prepared();

    (void)state;
    assert_int_equal(env.ops->has_program(env.provider, s, "python3"), 1);
    assert_int_equal(env.ops->has_program(env.provider, s, "bash"), 1);
    assert_int_equal(env.ops->has_program(env.provider, s, "node"), 0);
    assert_int_equal(env.ops->has_program(env.provider, s, "unheard-of"), -1);
    bg_spec_free(s);
}

static void images_that_cannot_be_used(void **state)
{
    static const struct {
        const char *image, *part;
        enum bg_errc code;
    } t[] = {{"boxgate-test/arm64:1", "architecture", BG_ERR_UNSUPPORTED},
             {"boxgate-test/nowhere:1", "pull: never", BG_ERR_UNAVAILABLE},
             {"Not A Name", "", BG_ERR_UNAVAILABLE}};

    (void)state;
    for (size_t i = 0; i < bg_countof(t); i++) {
        struct bg_spec *s = box_spec(&env);
        struct bg_error err;
        use_image(s, t[i].image);
        assert_false(box_prepare(&env, s, &err));
        if (err.code != t[i].code)
            printf("%s: %s\n", t[i].image, err.msg);
        assert_non_null(strstr(err.msg, t[i].part));
        assert_int_equal(err.code, t[i].code);
        bg_spec_free(s);
    }
}

/* The private engine has no network: a pull fails, with the engine's own reason. */
static void a_pull_that_fails_says_why(void **state)
{
    struct bg_profile *p = &env.config->profiles[0];
    struct bg_spec *s = box_spec(&env);
    struct bg_error err;

    (void)state;
    use_image(s, "boxgate-test/nowhere:1");
    p->pull = BG_PULL_MISSING;
    assert_false(box_prepare(&env, s, &err));
    p->pull = BG_PULL_NEVER;
    assert_int_equal(err.code, BG_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "pulling boxgate-test/nowhere:1"));
    bg_spec_free(s);
}

static void what_is_not_built_yet_is_refused(void **state)
{
    struct bg_spec *s = box_spec(&env);
    struct bg_error err;

    (void)state;
    s->storage = BG_STORAGE_VOLUME;
    assert_false(box_prepare(&env, s, &err));
    assert_int_equal(err.code, BG_ERR_UNSUPPORTED);
    s->storage = BG_STORAGE_MEMORY;
    free(s->workdir);
    s->workdir = bg_xstrdup("/proc/x");
    assert_false(box_prepare(&env, s, &err));
    assert_int_equal(err.code, BG_ERR_PATH);
    bg_spec_free(s);
}

static void an_unknown_network_is_an_error_that_leaves_nothing(void **state)
{
    struct bg_spec *s = box_spec(&env);
    struct bg_error err;

    (void)state;
    free(s->network);
    s->network = bg_xstrdup("no-such-network");
    assert_true(box_prepare(&env, s, &err));
    assert_null(box_make(&env, s, &watch, NULL, &err));
    if (!strstr(err.msg, "no-such-network"))
        printf("%s\n", err.msg);
    assert_non_null(strstr(err.msg, "no-such-network"));
    assert_int_equal(box_traces(&env), 0);
    bg_spec_free(s);
}

/* ---- others ---- */

static void c017_av02_a_taken_name_is_left_alone(void **state)
{
    bg_autofree char *name = container_name(env.instance, "test");
    bg_autofree char *create = bg_xasprintf("/containers/create?name=%s", name);
    bg_autofree char *look = bg_xasprintf("/containers/%s/json", name);
    bg_autofree char *drop = bg_xasprintf("/containers/%s?force=1", name);
    struct bg_spec *s = prepared();
    struct bg_error err;

    (void)state;
    assert_int_equal(box_stranger(&env, "POST", create,
                                  "{\"Image\":\"" BOX_IMAGE "\",\"Cmd\":[\"true\"]}"),
                     201);
    assert_null(box_make(&env, s, &watch, NULL, &err));
    assert_int_equal(err.code, BG_ERR_CONFLICT);
    assert_int_equal(box_stranger(&env, "GET", look, ""), 200); /* still theirs */
    assert_int_equal(box_stranger(&env, "DELETE", drop, ""), 204);
    bg_spec_free(s);
}

static void c037_removed_from_outside_is_lost(void **state)
{
    struct bg_spec *s = prepared();
    struct watcher w = {0};
    struct bg_sandbox *sb = made(s, &w);
    struct box_run r;
    char *const argv[] = {(char *)"sleep", (char *)"30", NULL};

    (void)state;
    box_start(sb, &r, argv, NULL, 60000);
    assert_true(box_wait(env.loop, &r.started));
    assert_int_equal(touch(sb, "DELETE", "?force=1"), 204);
    assert_true(box_wait(env.loop, &w.lost));
    assert_int_equal(w.why.code, BG_ERR_DESTROYED);
    assert_non_null(strstr(w.why.msg, "outside"));
    assert_true(box_wait(env.loop, &r.done));
    assert_int_equal(r.error.code, BG_ERR_DESTROYED); /* AV07: never a result */
    box_run_clear(&r);
    assert_true(box_destroy(&env, sb));
    bg_spec_free(s);
}

static void c037_paused_is_said_and_restarted_is_lost(void **state)
{
    struct bg_spec *s = prepared();
    struct watcher w = {0};
    struct bg_sandbox *sb = made(s, &w);
    struct bg_error err;

    (void)state;
    assert_int_equal(touch(sb, "POST", "/pause"), 204);
    assert_int_equal(inspected(sb, s, &err), BG_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "paused"));
    assert_true(wait_text(w.changed, "pause"));
    assert_int_equal(touch(sb, "POST", "/unpause"), 204);
    assert_true(wait_text(w.changed, "unpause"));
    assert_int_equal(inspected(sb, s, &err), BG_OK);
    prints(sb, "echo on", "on\n");
    assert_int_equal(touch(sb, "POST", "/restart?t=0"), 204);
    assert_true(box_wait(env.loop, &w.lost));
    assert_true(box_destroy(&env, sb));
    bg_spec_free(s);
}

static void an_exec_by_others_is_noticed(void **state)
{
    struct bg_spec *s = prepared();
    struct watcher w = {0};
    struct bg_sandbox *sb = made(s, &w);
    bg_autofree char *command = bg_xasprintf(
        "%s -%s %s exec %s true", BOX_ENGINE, strcmp(BOX_ENGINE, "docker") ? "-url" : "H",
        bg_engine_facts(((struct container *)env.provider)->engine)->endpoint, sb->name);

    (void)state;
    assert_int_equal(system(command), 0);
    assert_true(
        wait_text(w.changed, strcmp(BOX_ENGINE, "docker") ? "exec" : "exec_create"));
    assert_false(w.lost);
    assert_true(box_destroy(&env, sb));
    bg_spec_free(s);
}

static void another_spec_is_not_this_sandbox(void **state)
{
    struct bg_spec *s = prepared(), *other = bg_spec_dup(s);
    struct watcher w = {0};
    struct bg_sandbox *sb = made(s, &w);
    struct bg_error err;

    (void)state;
    other->limits.memory_mb *= 2;
    assert_int_equal(inspected(sb, other, &err), BG_ERR_BINDING);
    assert_int_equal(inspected(sb, s, &err), BG_OK);
    ((struct container_sandbox *)sb)->info.memory++; /* as if the engine said another */
    assert_int_equal(inspected(sb, s, &err), BG_ERR_BINDING);
    assert_non_null(strstr(err.msg, "memory limit"));
    ((struct container_sandbox *)sb)->info.memory--;
    assert_true(box_destroy(&env, sb));
    bg_spec_free(other);
    bg_spec_free(s);
}

/* Where pids can't be compared the guest shows a token, and the engine's word must do. */
static void a_token_where_pids_tell_nothing(void **state)
{
    struct bg_engine_facts *f = (struct bg_engine_facts *)bg_engine_facts(
        ((struct container *)env.provider)->engine);
    struct bg_spec *s = prepared();
    struct watcher w = {0};
    struct bg_error err;

    (void)state;
    assert_true(f->same_pids);
    f->same_pids = false;
    struct bg_sandbox *sb = made(s, &w);
    prints(sb, "cat /proc/1/environ 2>/dev/null | grep -c TOKEN; env | grep -c TOKEN",
           "0\n0\n");
    assert_int_equal(inspected(sb, s, &err), BG_OK);
    assert_int_equal(touch(sb, "POST", "/kill"), 204);
    assert_true(box_wait(env.loop, &w.lost));
    f->same_pids = true;
    assert_true(box_destroy(&env, sb));
    bg_spec_free(s);
}

/* ---- an engine that does not answer ---- */

static pid_t engine_pid(void)
{
    char out[64];

    box_tool("engine pid " BOX_ENGINE, out, sizeof out);
    return (pid_t)atoi(out);
}

/* A stop reaches one thread after another; one that still runs would answer. */
static void wait_stopped(pid_t pid)
{
    char of[16], tasks[32], file[300];
    bool all = false;

    snprintf(of, sizeof of, "%d", (int)pid);
    snprintf(tasks, sizeof tasks, "/proc/%d/task", (int)pid);
    for (int64_t until = bg_mono_ms() + BOX_WAIT_MS; !all && bg_mono_ms() < until;) {
        DIR *d = opendir(tasks);
        struct dirent *ent;
        assert_non_null(d);
        for (all = true; (ent = readdir(d));) {
            snprintf(file, sizeof file, "task/%s/status", ent->d_name);
            all &= ent->d_name[0] == '.' || box_file_holds(of, file, "State:\tT");
        }
        closedir(d);
    }
    assert_true(all);
}

static void av23_a_hanging_engine_is_unavailable_and_nothing_more(void **state)
{
    struct bg_spec *s = prepared();
    struct watcher w = {0};
    struct bg_sandbox *sb = made(s, &w);
    pid_t pid = engine_pid();
    int64_t call_ms = env.config->engine.call_ms;
    struct bg_error err;

    (void)state;
    env.config->engine.call_ms = 700;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    wait_stopped(pid);
    enum bg_errc code = inspected(sb, s, &err);
    prints(sb, "echo the guest needs no engine", "the guest needs no engine\n");
    assert_int_equal(kill(pid, SIGCONT), 0);
    env.config->engine.call_ms = call_ms;
    assert_int_equal(code, BG_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "did not answer"));
    assert_int_equal(inspected(sb, s, &err), BG_OK);
    assert_false(w.lost);
    assert_true(box_destroy(&env, sb));
    bg_spec_free(s);
}

/* ---- sweeping ---- */

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

static void sweep(bool foreign, bool dry_run, struct swept *w)
{
    *w = (struct swept){0};
    bg_buf_init(&w->lines, 65536);
    env.ops->sweep(env.provider, foreign, dry_run, on_swept, w);
    assert_false(w->done);
    assert_true(box_wait(env.loop, &w->done));
}

static void c110_sweep_takes_what_a_dead_server_left(void **state)
{
    static const char theirs[] =
        "{\"Image\":\"" BOX_IMAGE
        "\",\"Cmd\":[\"true\"],\"Labels\":{\"boxgate.sandbox\":\"1\","
        "\"boxgate.instance\":\"0123456789abcdef0123456789abcdef\"}}";
    bg_autofree char *left =
        bg_xasprintf("{\"Image\":\"" BOX_IMAGE
                     "\",\"Cmd\":[\"true\"],\"Labels\":{\"boxgate.sandbox\":\"1\","
                     "\"boxgate.instance\":\"%s\",\"boxgate.ref\":"
                     "\"feedfeedfeedfeedfeedfeedfeedfeed\"}}",
                     env.instance);
    struct bg_spec *s = prepared();
    struct watcher w = {0};
    struct bg_sandbox *sb = made(s, &w);
    struct swept out;

    (void)state;
    assert_int_equal(
        box_stranger(&env, "POST", "/containers/create?name=boxgate-left-1", left), 201);
    assert_int_equal(
        box_stranger(&env, "POST", "/containers/create?name=boxgate-theirs-1", theirs),
        201);
    sweep(false, true, &out);
    assert_non_null(strstr(out.lines.data, "boxgate-left-1"));
    assert_null(strstr(out.lines.data, "theirs"));
    bg_buf_free(&out.lines);
    assert_int_equal(box_stranger(&env, "GET", "/containers/boxgate-left-1/json", ""), 200);
    sweep(false, false, &out);
    assert_non_null(strstr(out.lines.data, "boxgate-left-1"));
    assert_null(strstr(out.lines.data, sb->name));
    bg_buf_free(&out.lines);
    assert_int_equal(box_stranger(&env, "GET", "/containers/boxgate-left-1/json", ""), 404);
    assert_int_equal(box_stranger(&env, "GET", "/containers/boxgate-theirs-1/json", ""),
                     200);
    sweep(true, false, &out);
    assert_non_null(
        strstr(out.lines.data, "another instance's container boxgate-theirs-1"));
    bg_buf_free(&out.lines);
    assert_int_equal(box_stranger(&env, "GET", "/containers/boxgate-theirs-1/json", ""),
                     404);
    prints(sb, "echo still here", "still here\n");
    assert_true(box_destroy(&env, sb));
    bg_spec_free(s);
}

static const struct CMUnitTest container_suite[] = {
    cmocka_unit_test(the_sandbox_is_what_was_asked),
    cmocka_unit_test(read_only_root_user_and_no_env_in_the_config),
    cmocka_unit_test(c025_memory_and_pids_limits_hold),
    cmocka_unit_test(an_image_without_a_shell_works),
    cmocka_unit_test(programs_of_an_image_are_known_before_it_runs),
    cmocka_unit_test(images_that_cannot_be_used),
    cmocka_unit_test(a_pull_that_fails_says_why),
    cmocka_unit_test(what_is_not_built_yet_is_refused),
    cmocka_unit_test(an_unknown_network_is_an_error_that_leaves_nothing),
    cmocka_unit_test(c017_av02_a_taken_name_is_left_alone),
    cmocka_unit_test(c037_removed_from_outside_is_lost),
    cmocka_unit_test(c037_paused_is_said_and_restarted_is_lost),
    cmocka_unit_test(an_exec_by_others_is_noticed),
    cmocka_unit_test(another_spec_is_not_this_sandbox),
    cmocka_unit_test(a_token_where_pids_tell_nothing),
    cmocka_unit_test(av23_a_hanging_engine_is_unavailable_and_nothing_more),
    cmocka_unit_test(c110_sweep_takes_what_a_dead_server_left),
};

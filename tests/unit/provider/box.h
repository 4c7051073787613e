/* SPDX-License-Identifier: MIT */
/*
 * For tests with real sandboxes of any provider: one in throw-away folders, one call to get
 * a sandbox, one to run a command in it to its end. Every wait has a limit and fails the
 * test.
 */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/mem.h"
#include "core/provider/provider.h"

enum { BOX_WAIT_MS = 60000 };

struct box_env {
    const struct bg_provider_ops *ops;
    struct bg_loop *loop;
    struct bg_config *config;
    struct bg_paths paths;
    char home[64];
    char instance[33];
    char *guest;
    struct bg_provider *provider;
    bool opened;
};

struct box_run {
    struct bg_buf out, err;
    struct bg_exec_result r;
    struct bg_error error;
    bool started, done;
};

static char box_home[64];
static inline const char *box_getenv(const char *name)
{
    return strcmp(name, "BOXGATE_HOME") == 0 ? box_home : NULL;
}

static inline void box_opened(void *data, const struct bg_provider_report *r)
{
    (void)r;
    ((struct box_env *)data)->opened = true;
}

/* Turns the loop until *flag; false when it never came. */
static inline bool box_wait(struct bg_loop *loop, const bool *flag)
{
    int64_t until = bg_mono_ms() + BOX_WAIT_MS;

    while (!*flag && bg_mono_ms() < until)
        bg_loop_turn(loop, 50);
    return *flag;
}

static inline void box_turn_for(struct bg_loop *loop, int64_t ms)
{
    for (int64_t until = bg_mono_ms() + ms; bg_mono_ms() < until;)
        bg_loop_turn(loop, (int)(until - bg_mono_ms()));
}

/* The folders and the loop; config may be changed before box_provider. */
static inline void box_begin(struct box_env *e, const struct bg_provider_ops *ops)
{
    struct bg_error err;

    *e = (struct box_env){.ops = ops};
    bg_digest_init();
    strcpy(e->home, "/tmp/bg-box-XXXXXX");
    assert_non_null(mkdtemp(e->home));
    strcpy(box_home, e->home);
    assert_true(bg_paths_init(&e->paths, box_getenv, &err));
    assert_true(bg_paths_create(&e->paths, &err));
    bg_random_hex(e->instance, 16);
    e->guest = bg_guest_find(&err);
    assert_non_null(e->guest);
    e->config = bg_config_defaults();
    e->loop = bg_loop_new();
}

static inline void box_provider(struct box_env *e)
{
    const struct bg_provider_env env = {.loop = e->loop,
                                        .config = e->config,
                                        .paths = &e->paths,
                                        .guest_path = e->guest,
                                        .instance = e->instance};

    e->opened = false;
    e->provider = e->ops->open(&env, box_opened, e);
    assert_false(e->opened); /* never from inside */
    assert_true(box_wait(e->loop, &e->opened));
}

static inline void box_close(struct box_env *e)
{
    e->ops->close(e->provider);
    bg_loop_free(e->loop);
    bg_config_free(e->config);
    bg_paths_free(&e->paths);
    free(e->guest);
    assert_true(bg_rm_rf(e->home, NULL));
}

/* A spec of the default profile, prepared. */
struct box_flag {
    bool done;
    struct bg_error err;
    struct bg_sandbox *sb;
};

static inline void box_done(void *data, const struct bg_error *err)
{
    struct box_flag *f = data;

    f->done = true;
    f->err = err ? *err : (struct bg_error){0};
}

static inline void box_created(void *data, struct bg_sandbox *sb,
                               const struct bg_error *err)
{
    struct box_flag *f = data;

    f->sb = sb;
    box_done(data, err);
}

static inline struct bg_spec *box_spec(struct box_env *e)
{
    const struct bg_profile *p = bg_config_profile(e->config, "default");
    struct bg_error err;
    struct bg_spec *s = bg_spec_from_profile(p, &e->paths, "", &err);

    assert_non_null(s);
    return s;
}

static inline bool box_prepare(struct box_env *e, struct bg_spec *s, struct bg_error *err)
{
    struct box_flag f = {0};

    e->ops->prepare(e->provider, s, NULL, box_done, &f);
    assert_false(f.done); /* never from inside the call */
    assert_true(box_wait(e->loop, &f.done));
    *err = f.err;
    return f.err.code == BG_OK;
}

static inline struct bg_sandbox *box_make(struct box_env *e, struct bg_spec *s,
                                          const struct bg_sandbox_events *ev, void *data,
                                          struct bg_error *err)
{
    struct box_flag f = {0};
    char ref[33];

    bg_random_hex(ref, 16);
    const struct bg_create_opts o = {
        .id = "test", .ref = ref, .spec = s, .events = ev, .events_data = data};
    e->ops->create(e->provider, &o, box_created, &f);
    assert_false(f.done);
    assert_true(box_wait(e->loop, &f.done));
    *err = f.err;
    return f.sb;
}

static inline bool box_destroy(struct box_env *e, struct bg_sandbox *sb)
{
    struct box_flag f = {0};

    e->ops->destroy(sb, box_done, &f);
    assert_false(f.done);
    return box_wait(e->loop, &f.done) && f.err.code == BG_OK;
}

static inline void box_run_started(void *data, struct bg_exec *x)
{
    (void)x;
    ((struct box_run *)data)->started = true;
}

static inline void box_run_output(void *data, struct bg_exec *x, enum bg_stream s,
                                  const char *p, size_t n)
{
    struct box_run *r = data;

    (void)x;
    bg_buf_add_some(s == BG_STDOUT ? &r->out : &r->err, p, n);
}

static inline void box_run_done(void *data, struct bg_exec *x,
                                const struct bg_exec_result *res,
                                const struct bg_error *err)
{
    struct box_run *r = data;

    (void)x;
    r->r = res ? *res : (struct bg_exec_result){0};
    r->error = err ? *err : (struct bg_error){0};
    r->done = true;
}

static const struct bg_exec_events box_run_events = {
    .started = box_run_started, .output = box_run_output, .done = box_run_done};

static char *const box_env_vars[] = {(char *)"PATH=/usr/local/bin:/usr/bin:/bin",
                                     (char *)"HOME=/workspace", NULL};

static inline struct bg_exec *box_start(struct bg_sandbox *sb, struct box_run *r,
                                        char *const *argv, const char *input,
                                        uint32_t deadline_ms)
{
    const struct bg_exec_spec x = {.argv = argv,
                                   .env = box_env_vars,
                                   .cwd = "/workspace",
                                   .input = input,
                                   .input_len = input ? strlen(input) : 0,
                                   .deadline_ms = deadline_ms,
                                   .flow = BG_FLOW_TAIL,
                                   .uid = 1000,
                                   .gid = 1000};

    *r = (struct box_run){0};
    bg_buf_init(&r->out, 1 << 20);
    bg_buf_init(&r->err, 1 << 20);
    /* exec copies what it is given */
    /* cppcheck-suppress returnDanglingLifetime */
    return sb->ops->exec(sb, &x, &box_run_events, r);
}

static inline void box_run_clear(struct box_run *r)
{
    bg_buf_free(&r->out);
    bg_buf_free(&r->err);
}

/* sh -c SCRIPT to its end. */
static inline void box_sh(struct box_env *e, struct bg_sandbox *sb, struct box_run *r,
                          const char *script)
{
    char *const argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)script, NULL};

    box_start(sb, r, argv, NULL, 15000);
    assert_true(box_wait(e->loop, &r->done));
}

/* python3 - with the program on stdin. */
static inline void box_python(struct box_env *e, struct bg_sandbox *sb, struct box_run *r,
                              const char *program)
{
    char *const argv[] = {(char *)"python3", (char *)"-", NULL};

    box_start(sb, r, argv, program, 15000);
    assert_true(box_wait(e->loop, &r->done));
}

static inline size_t box_count_named(const char *dir, const char *part)
{
    DIR *d = opendir(dir);
    struct dirent *ent;
    size_t n = 0;

    while (d && (ent = readdir(d)))
        n += strstr(ent->d_name, part) != NULL;
    if (d)
        closedir(d);
    return n;
}

static inline size_t box_count_fds(void)
{
    return box_count_named("/proc/self/fd", "");
}

static inline bool box_file_holds(const char *pid, const char *file, const char *word)
{
    char path[300], text[32768];
    size_t n = 0;
    ssize_t got;

    snprintf(path, sizeof path, "/proc/%s/%s", pid, file);
    bg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && n < sizeof text && (got = read(fd, text + n, sizeof text - n)) > 0)
        n += (size_t)got;
    return memmem(text, n, word, strlen(word)) != NULL;
}

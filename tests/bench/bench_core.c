/* SPDX-License-Identifier: MIT */
/*
 * The session API, timed from inside one process as a C program that links the library
 * would use it. Reads one order a line from stdin and answers with one line, so that a
 * driver can take other paths in turn with it, sample by sample:
 *
 *   open N            N sessions of the default profile, each with its sandbox -> "ok"
 *   name I            -> the engine's name of the sandbox
 *   run I ARGV...     one command in session I, to its end    -> "ns NANOSECONDS"
 *   all ARGV...       the same in all sessions at once        -> "ns NANOSECONDS"
 *   stream I ARGV...  lossless, taken as fast as it comes     -> "ns NANOSECONDS BYTES"
 *   close             ends all sessions -> "ok"
 *
 * What can't be done is "no REASON". Folders and provider are those of BOXGATE_HOME.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/digest.h"
#include "core/session/session.h"

enum { LINE_MAX_BYTES = 4096, SESSIONS_MAX = 64, ARGS_MAX = 16, OUTPUT_MAX = 1 << 20 };

struct bench {
    struct bg_loop *loop;
    struct bg_paths paths;
    struct bg_config *config;
    const struct bg_provider_ops *ops;
    struct bg_provider *provider;
    struct bg_sessions *registry;
    struct bg_session *sessions[SESSIONS_MAX];
    size_t n;
    size_t left;         /* of what is waited for */
    uint64_t bytes;      /* of output */
    bool consume;        /* it is a lossless stream */
    struct bg_error err; /* of the first that failed */
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void turn_until_none_left(struct bench *b)
{
    while (b->left > 0)
        bg_loop_turn(b->loop, -1);
}

static void fail(struct bench *b, const struct bg_error *err)
{
    if (b->err.code == BG_OK)
        b->err = *err;
}

/* ---- provider and sessions ---- */

static void opened(void *data, const struct bg_provider_report *r)
{
    struct bench *b = data;
    if (!r->available)
        bg_fail(&b->err, BG_ERR_UNAVAILABLE, 0, "%s", r->why_not ? r->why_not : "?");
    b->left--;
}

static bool start(struct bench *b)
{
    bg_digest_init();
    b->loop = bg_loop_new();
    if (!bg_paths_init(&b->paths, NULL, &b->err) || !bg_paths_create(&b->paths, &b->err))
        return false;
    b->config = bg_config_load(b->paths.config_file, &b->err);
    if (!b->config)
        return false;
    b->ops = bg_provider_ops_for(b->config->provider);
    if (!b->ops)
        return bg_fail(&b->err, BG_ERR_UNSUPPORTED, 0, "this build has no such provider");
    char *guest = bg_guest_find(&b->err);
    if (!guest)
        return false;
    const struct bg_provider_env env = {.loop = b->loop,
                                        .config = b->config,
                                        .paths = &b->paths,
                                        .guest_path = guest,
                                        .instance = "be0c4000000000000000000000000000"};
    b->left = 1;
    b->provider = b->ops->open(&env, opened, b);
    turn_until_none_left(b);
    b->registry = bg_sessions_new(b->loop, b->ops, b->provider, NULL, NULL);
    return b->err.code == BG_OK;
}

static void prepared(void *data, const struct bg_error *err)
{
    struct bench *b = data;
    if (err)
        fail(b, err);
    b->left--;
}

static void open_one(struct bench *b)
{
    const struct bg_profile *p = bg_config_profile(b->config, b->config->profile);
    struct bg_spec *spec =
        bg_spec_from_profile(p, &b->paths, b->config->engine.endpoint, &b->err);
    if (!spec)
        return;
    b->left = 1;
    b->ops->prepare(b->provider, spec, NULL, prepared, b);
    turn_until_none_left(b);
    if (b->err.code != BG_OK) {
        bg_spec_free(spec);
        return;
    }
    struct bg_session *s =
        bg_session_open(b->registry, NULL, NULL, 0, spec, false, &b->err);
    if (s)
        b->sessions[b->n++] = s;
}

/* ---- runs ---- */

static void on_output(void *data, struct bg_run *r, enum bg_stream s, const char *p,
                      size_t n)
{
    struct bench *b = data;
    (void)p;
    b->bytes += n;
    if (b->consume)
        bg_run_consumed(r, s, n);
}

static void on_done(void *data, struct bg_run *r, const struct bg_run_result *res,
                    const struct bg_error *err)
{
    struct bench *b = data;
    struct bg_error e = {0};
    (void)r;
    if (err)
        fail(b, err);
    else if (res->exec.exit_code != 0)
        fail(b,
             (bg_fail(&e, BG_ERR_PROCESS, 0, "it ended with %d", res->exec.exit_code), &e));
    b->left--;
}

static void begin(struct bench *b, size_t i, char *const *argv)
{
    static const struct bg_run_events events = {.output = on_output, .done = on_done};
    const struct bg_run_spec spec = {
        .argv = argv,
        .timeout_ms = 120000,
        .max_output_bytes = b->consume ? 0 : OUTPUT_MAX,
        .flow = b->consume ? BG_FLOW_LOSSLESS : BG_FLOW_TAIL,
    };
    b->left++;
    bg_session_run(b->sessions[i], &spec, &events, b);
}

/* ---- orders ---- */

static bool order_open(struct bench *b, size_t n)
{
    char program[] = "true", *argv[] = {program, NULL};
    while (b->n < n && b->err.code == BG_OK)
        open_one(b);
    for (size_t i = 0; i < b->n && b->err.code == BG_OK; i++) {
        begin(b, i, argv);
        turn_until_none_left(b);
    }
    if (b->err.code == BG_OK)
        puts("ok");
    return b->err.code == BG_OK;
}

static void order_run(struct bench *b, size_t from, size_t to, char *const *argv)
{
    uint64_t began = now_ns();
    b->bytes = 0;
    for (size_t i = from; i < to; i++)
        begin(b, i, argv);
    turn_until_none_left(b);
    if (b->err.code == BG_OK)
        printf("ns %llu %llu\n", (unsigned long long)(now_ns() - began),
               (unsigned long long)b->bytes);
}

static void order_name(struct bench *b, size_t i)
{
    cJSON *row = bg_session_json(b->sessions[i]);
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(row, "name");
    puts(cJSON_IsString(name) ? name->valuestring : "");
    cJSON_Delete(row);
}

static void gone(void *data, const struct bg_error *err)
{
    struct bench *b = data;
    (void)err;
    b->left--;
}

static void order_close(struct bench *b)
{
    b->left = b->n;
    for (size_t i = 0; i < b->n; i++)
        bg_session_close(b->sessions[i], "close", gone, b);
    turn_until_none_left(b);
    b->n = 0;
    puts("ok");
}

static void obey(struct bench *b, char *line)
{
    char *word[ARGS_MAX + 1] = {NULL}, *save = NULL;
    size_t n = 0;
    for (char *w = strtok_r(line, " \n", &save); w && n < ARGS_MAX;
         w = strtok_r(NULL, " \n", &save))
        word[n++] = w;
    size_t i = n > 1 ? strtoul(word[1], NULL, 10) : 0;
    b->err = (struct bg_error){0};
    b->consume = n > 0 && !strcmp(word[0], "stream");
    if (n == 2 && !strcmp(word[0], "open") && i <= SESSIONS_MAX)
        order_open(b, i);
    else if (n == 1 && !strcmp(word[0], "close"))
        order_close(b);
    else if (n > 1 && !strcmp(word[0], "all"))
        order_run(b, 0, b->n, word + 1);
    else if (n == 2 && !strcmp(word[0], "name") && i < b->n)
        order_name(b, i);
    else if (n > 2 && (b->consume || !strcmp(word[0], "run")) && i < b->n)
        order_run(b, i, i + 1, word + 2);
    else
        bg_fail(&b->err, BG_ERR_USAGE, 0, "no such order");
    if (b->err.code != BG_OK)
        printf("no %s\n", b->err.msg);
    fflush(stdout);
}

static void shut(void *data, const struct bg_error *err)
{
    gone(data, err);
}

int main(void)
{
    struct bench b = {0};
    char line[LINE_MAX_BYTES];
    if (!start(&b)) {
        printf("no %s\n", b.err.msg);
        return 1;
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        obey(&b, line);
    b.left = 1;
    bg_sessions_shutdown(b.registry, shut, &b);
    turn_until_none_left(&b);
    bg_sessions_free(b.registry);
    b.ops->close(b.provider);
    bg_loop_free(b.loop);
    bg_config_free(b.config);
    bg_paths_free(&b.paths);
    return 0;
}

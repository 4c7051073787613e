/* SPDX-License-Identifier: MIT */
/*
 * One real sandbox that the tests of a file share and leave as it was, what runs in it, and
 * the same file run again as a plain user.
 */
#pragma once

#include <signal.h>

#include "tests/unit/provider/local_box.h"

static struct box_env env;
static struct bg_spec *spec;
static struct bg_sandbox *box;

static inline bool is_root(void)
{
    return geteuid() == 0;
}

static inline bool have_cgroups(void)
{
    return ((struct local *)env.provider)->cgs.base[LOCAL_CTL_MEMORY] != NULL;
}

static inline int set_up(void **state)
{
    const struct bg_provider_report *r;
    struct bg_error err;

    (void)state;
    box_open(&env);
    r = bg_provider_local.report(env.provider);
    if (!r->available) {
        printf("local provider: %s; %s\n", r->why_not, r->remedy);
        return -1;
    }
    spec = box_spec(&env);
    if (!box_prepare(&env, spec, &err))
        return -1;
    box = box_make(&env, spec, NULL, NULL, &err);
    if (!box)
        printf("create: %s\n", err.msg);
    return box ? 0 : -1;
}

static inline int tear_down(void **state)
{
    (void)state;
    if (!box) /* the set-up has said why */
        return 0;
    assert_true(box_destroy(&env, box));
    assert_int_equal(box_traces(&env), 0);
    assert_int_equal(box_processes(&env), 0);
    bg_spec_free(spec);
    box_close(&env);
    return 0;
}

/* Runs a script and compares all of its stdout. */
static inline void sh_prints(const char *script, const char *want)
{
    struct box_run r;

    box_sh(&env, box, &r, script);
    if (strcmp(r.out.data, want) != 0)
        printf("stderr: %s; error: %s\n", r.err.data, r.error.msg);
    assert_string_equal(r.out.data, want);
    box_run_clear(&r);
}

static inline void python_prints(const char *program, const char *want)
{
    struct box_run r;

    box_python(&env, box, &r, program);
    if (strcmp(r.out.data, want) != 0)
        printf("exit %d, stderr: %s; error: %s\n", r.r.exit_code, r.err.data, r.error.msg);
    assert_string_equal(r.out.data, want);
    box_run_clear(&r);
}

/* A sandbox of its own, which box_destroy ends. */
static inline struct bg_sandbox *box_of(struct bg_spec *s)
{
    struct bg_error err;

    assert_true(box_prepare(&env, s, &err));
    struct bg_sandbox *sb = box_make(&env, s, NULL, NULL, &err);
    assert_non_null(sb);
    return sb;
}

/* The same as a plain user, in a process of its own. */
static inline void as_a_plain_user(void **state)
{
    char self[4096];
    ssize_t n;
    int status = -1;
    pid_t pid;

    (void)state;
    n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    pid = fork();
    if (pid == 0) {
        execlp("setpriv", "setpriv", "--reuid", "65534", "--regid", "65534",
               "--clear-groups", "--inh-caps=-all", "--", self, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/* SPDX-License-Identifier: MIT */
/*
 * SIGKILL at any moment, and in FAULT=1 builds at every crash point, with an operator
 * approving and an agent that waits: whatever ran has a durable decision and claim, what
 * has none is lost, the chain holds.
 */
#include "tests/unit/approval/lib_approval.h"

#define KILLS 60

#ifdef BG_FAULT
static const char *const points[] = {
    "audit.begin",     "audit.commit",       "audit.committed", "audit.head",
    "approval.commit", "approval.committed", "approval.run",    "approval.ran",
    "approval.finish", "approval.finished",
};
#define HITS 14 /* more than any point is passed in one life */
#endif

static void touch(struct env *e, struct bg_request *r)
{
    bg_autofree char *path = bg_xasprintf("%s/ran-%d", e->dir, (int)bg_request_id(r));
    FILE *f = fopen(path, "wxe"); /* x: a second run of the same request is an error */
    if (!f)
        _exit(9);
    fclose(f);
}

static void run_and_touch(void *data, struct bg_request *r)
{
    touch(data, r);
    finish(r);
}

static bool open_all(struct env *e)
{
    static const struct bg_approvals_events ev = {.prepare = on_prepare,
                                                  .run = run_and_touch,
                                                  .kill = on_kill,
                                                  .changed = on_changed,
                                                  .final = on_final};
    struct bg_error err;
    e->loop = bg_loop_new();
    e->a = bg_audit_open(e->loop, e->dir, NULL, &err);
    if (!e->a)
        return false;
    e->q = bg_approvals_new(e->loop, e->c, e->a, NULL, &ev, e);
    return true;
}

/* One life: three requests, one of them denied. The parent decides when it ends. */
static void live(struct env *e)
{
    e->op.pid = getpid();
    e->op.start_time = start_of(getpid());
    if (!open_all(e))
        _exit(8);
    for (int i = 0; i < 3; i++) {
        bg_autofree char *code = bg_xasprintf("print(%d, %d)", i, (int)getpid());
        struct bg_request *r = ask(e, code);
        decide_wait(e, r, i != 1);
    }
    bg_approvals_free(e->q);
    bg_audit_close(e->a);
    _exit(0);
}

struct found {
    struct env *e;
    int lost, interrupted;
};

static void on_open_request(void *data, const struct bg_audit_open_request *o)
{
    struct found *f = data;
    bg_autofree char *ran = bg_xasprintf("%s/ran-%d", f->e->dir, (int)o->id);
    bool there = access(ran, F_OK) == 0;
    assert_true(!there || (o->claimed && o->decided));
    *(o->claimed ? &f->interrupted : &f->lost) += 1;
    bg_approvals_recover(f->e->q, o);
}

/* Every marker has its decision and claim in the record. */
static void check_markers(struct env *e)
{
    bg_autofree char *text = NULL;
    audit_lines(e, NULL, &text);
    for (int id = 1; id < 4000; id++) {
        bg_autofree char *ran = bg_xasprintf("%s/ran-%d", e->dir, id);
        if (access(ran, F_OK) != 0)
            continue;
        bg_autofree char *decided =
            bg_xasprintf("\"event\":\"request.decided\",\"id\":%d,", id);
        bg_autofree char *claimed =
            bg_xasprintf("\"event\":\"request.claimed\",\"id\":%d,", id);
        const char *at = strstr(text, decided);
        assert_non_null(at);
        assert_true(strncmp(strstr(at, "\"decision\""), "\"decision\":\"approve\"", 20) ==
                    0);
        assert_non_null(strstr(text, claimed));
    }
}

static void recover(struct env *e, struct found *f)
{
    struct bg_error err = {0};
    char hex[BG_SHA256_HEX + 1];
    int64_t rows;
    const struct bg_audit_recovery r = {.request = on_open_request};
    assert_true(open_all(e));
    assert_true(bg_audit_recover(e->a, &r, f, &err));
    check_markers(e);
    struct bg_audit_reader *rd = bg_audit_reader_open(e->dir, &err);
    assert_non_null(rd);
    if (!bg_audit_reader_verify(rd, &rows, hex, &err))
        fail_msg("%s", err.msg);
    bg_audit_reader_close(rd);
    bg_approvals_free(e->q);
    bg_audit_close(e->a);
    bg_loop_free(e->loop);
}

static int setup(void **state)
{
    int rc = env_setup(state);
    struct env *e = *state;
    if (rc)
        return rc;
    bg_approvals_free(e->q);
    bg_audit_close(e->a);
    bg_loop_free(e->loop);
    return 0;
}

static int teardown(void **state)
{
    struct env *e = *state;
    e->q = NULL;
    e->a = NULL;
    e->loop = bg_loop_new();
    return env_teardown(state);
}

static bool one_life(struct env *e, const char *at, unsigned kill_after_us)
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("BG_FAULT_AT", at, 1);
        live(e);
    }
    if (kill_after_us) {
        usleep(kill_after_us);
        kill(pid, SIGKILL);
    }
    int st;
    assert_int_equal(waitpid(pid, &st, 0), pid);
    if (WIFEXITED(st) && WEXITSTATUS(st))
        fail_msg("%s ended with %d", at, WEXITSTATUS(st));
    return WIFSIGNALED(st);
}

static void killed_at_any_moment(void **state)
{
    struct env *e = *state;
    struct found f = {.e = e};
    int died = 0;
    srandom(3);
    for (int i = 0; i < KILLS; i++) {
        died += one_life(e, "none", 1 + (unsigned)random() % 60000);
        recover(e, &f);
    }
    assert_true(died > 0);
}

#ifdef BG_FAULT
static void killed_at_every_point(void **state)
{
    struct env *e = *state;
    struct found f = {.e = e};
    int died = 0;
    for (size_t p = 0; p < bg_countof(points); p++)
        for (int hit = 1; hit <= HITS; hit++) {
            bg_autofree char *at = bg_xasprintf("%s:%d", points[p], hit);
            died += one_life(e, at, 0);
            recover(e, &f);
        }
    /* All points were hit, and both kinds of left-overs were seen. */
    assert_true(died > (int)bg_countof(points) * 2);
    assert_true(f.lost > 0 && f.interrupted > 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_at_any_moment, setup, teardown),
#ifdef BG_FAULT
        cmocka_unit_test_setup_teardown(killed_at_every_point, setup, teardown),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

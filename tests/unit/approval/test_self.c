/* SPDX-License-Identifier: MIT */
/*
 * Real process trees: who may decide on whose request. Processes report through a pipe and
 * live until its other end is closed.
 */
#include <errno.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "tests/unit/approval/lib_approval.h"

struct tree {
    int up[2], down[2];
    pid_t root;
};

/* Says its pid and stays until everything is over. */
static void stay(struct tree *t)
{
    char c;
    pid_t me = getpid();
    if (write(t->up[1], &me, sizeof me) == sizeof me)
        while (read(t->down[0], &c, 1) > 0)
            ;
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    _exit(0);
}

static void tree_open(struct tree *t)
{
    assert_int_equal(pipe(t->up), 0);
    assert_int_equal(pipe(t->down), 0);
}

static void tree_close(struct tree *t)
{
    close(t->down[1]);
    waitpid(t->root, NULL, 0);
    close(t->up[0]);
    close(t->up[1]);
    close(t->down[0]);
}

static pid_t next_pid(struct tree *t)
{
    pid_t p = 0;
    assert_int_equal(read(t->up[0], &p, sizeof p), sizeof p);
    return p;
}

static struct bg_actor actor(pid_t pid)
{
    return (struct bg_actor){.uid = geteuid(), .pid = pid, .start_time = start_of(pid)};
}

static enum bg_errc between(const struct bg_actor *asker, const struct bg_actor *decider,
                            struct bg_error *err)
{
    struct bg_kin k;
    bg_kin_look(&k, asker);
    err->code = BG_OK;
    return bg_kin_apart(&k, decider, err) ? BG_OK : err->code;
}

/* agent -> two children: `boxgate run` and `boxgate approve`; the second has a child too.
 */
static void an_agent_can_not_approve_what_it_asked(void **state)
{
    (void)state;
    struct tree t;
    struct bg_error err;
    tree_open(&t);
    t.root = fork();
    if (t.root == 0) {
        close(t.down[1]);
        if (fork() == 0)
            stay(&t);
        if (fork() == 0) {
            if (fork() == 0)
                stay(&t);
            stay(&t);
        }
        stay(&t);
    }
    struct bg_actor agent = {0}, others[3];
    size_t n = 0;
    for (int i = 0; i < 4; i++) {
        struct bg_actor a = actor(next_pid(&t));
        if (a.pid == t.root)
            agent = a;
        else
            others[n++] = a;
    }
    assert_int_equal(n, 3);
    struct bg_actor me = actor(getpid());
    for (size_t i = 0; i < n; i++) {
        /* The agent asked itself (MCP); a child of it decides. */
        assert_int_equal(between(&agent, &others[i], &err), BG_ERR_SELF_APPROVAL);
        assert_non_null(strstr(err.msg, "another terminal"));
        /* It decides itself on what it asked for itself. */
        assert_int_equal(between(&others[i], &others[i], &err), BG_ERR_SELF_APPROVAL);
    }
    assert_int_equal(between(&agent, &agent, &err), BG_ERR_SELF_APPROVAL);
    /* Started by the agent: run and approve are siblings. */
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            struct bg_kin k;
            bg_kin_look(&k, &others[i]);
            if (k.parent != agent.pid)
                continue;
            assert_int_equal(between(&others[i], &others[j], &err), BG_ERR_SELF_APPROVAL);
            assert_int_equal(between(&others[i], &me, &err), BG_OK);
        }
    tree_close(&t);
}

static void strangers_decide(void **state)
{
    struct env *e = *state;
    struct bg_error err;
    assert_int_equal(between(&e->asker, &e->op, &err), BG_OK);
}

/* Our own child asks, we (its parent) decide: the same program started both. */
static void the_parent_of_the_requester_is_kin(void **state)
{
    (void)state;
    struct tree t;
    struct bg_error err;
    tree_open(&t);
    t.root = fork();
    if (t.root == 0) {
        close(t.down[1]);
        stay(&t);
    }
    struct bg_actor child = actor(next_pid(&t)), me = actor(getpid());
    assert_int_equal(between(&child, &me, &err), BG_ERR_SELF_APPROVAL);
    assert_non_null(strstr(err.msg, "same program"));
    tree_close(&t);
}

static void a_reused_pid_is_nobodys_kin_and_nobodys_decider(void **state)
{
    struct env *e = *state;
    struct bg_error err;
    struct bg_actor old = e->op;
    old.start_time--;
    /* As the decider: the process that connected is gone. */
    assert_int_equal(between(&e->asker, &old, &err), BG_ERR_SELF_APPROVAL);
    /* As the requester: what it was started by can't be told any more. */
    old = e->asker;
    old.start_time--;
    assert_int_equal(between(&old, &e->op, &err), BG_ERR_SELF_APPROVAL);
    assert_non_null(strstr(err.msg, "must ask again"));
    /* Out of sight (another pid namespace). */
    old.pid = 0;
    assert_int_equal(between(&old, &e->op, &err), BG_ERR_SELF_APPROVAL);
    assert_int_equal(between(&e->asker, &old, &err), BG_ERR_SELF_APPROVAL);
}

/* An agent that calls itself "sshd", and makes itself unreadable, is still an agent. */
static void a_name_makes_no_session_manager(void **state)
{
    (void)state;
    struct bg_error err;
    for (int dumpable = 0; dumpable < 2; dumpable++) {
        struct tree t;
        tree_open(&t);
        t.root = fork();
        if (t.root == 0) {
            close(t.down[1]);
            prctl(PR_SET_NAME, "sshd");
            if (!dumpable)
                prctl(PR_SET_DUMPABLE, 0);
            if (fork() == 0)
                stay(&t);
            if (fork() == 0)
                stay(&t);
            while (wait(NULL) > 0)
                ;
            _exit(0);
        }
        struct bg_actor a = actor(next_pid(&t)), b = actor(next_pid(&t));
        assert_int_equal(between(&a, &b, &err), BG_ERR_SELF_APPROVAL);
        tree_close(&t);
    }
}

/* What a session manager starts is not kin for that: a real one of that name, owned by
 * root. */
static void below_a_session_manager_all_are_strangers(void **state)
{
    (void)state;
    struct stat st;
    if (geteuid() != 0 || stat("/bin/sh", &st) != 0) {
        print_message("needs root and a shell\n");
        skip();
    }
    char dir[] = "/tmp/boxgate-tmux.XXXXXX";
    struct bg_error err;
    assert_non_null(mkdtemp(dir));
    for (int writable = 0; writable < 2; writable++) {
        bg_autofree char *exe = bg_path_join(dir, "tmux");
        bg_autobuf struct bg_buf b;
        bg_buf_init(&b, 1 << 24);
        assert_true(bg_read_file("/bin/sh", 1 << 24, false, &b, &err));
        assert_true(bg_write_file_atomic(exe, b.data, b.len, writable ? 0777 : 0755, &err));
        assert_int_equal(chmod(exe, writable ? 0777 : 0755), 0);
        struct tree t;
        tree_open(&t);
        t.root = fork();
        if (t.root == 0) {
            close(t.down[1]);
            dup2(t.down[0], 0);
            dup2(t.up[1], 1);
            /* Two panes; each prints where it is and reads until the end. */
            execl(exe, "tmux", "-c",
                  "for i in 1 2; do sh -c 'echo $$; read x' <&3 & done 3<&0; wait", NULL);
            _exit(127);
        }
        FILE *f = fdopen(dup(t.up[0]), "r");
        int one = 0, two = 0;
        assert_int_equal(fscanf(f, "%d %d", &one, &two), 2);
        fclose(f);
        struct bg_actor a = actor(one), c = actor(two);
        assert_int_equal(between(&a, &c, &err), writable ? BG_ERR_SELF_APPROVAL : BG_OK);
        tree_close(&t);
    }
    assert_true(bg_rm_rf(dir, &err));
}

/* Through the queue: refused, recorded, still pending; for approve and for deny alike. */
static void the_refusal_is_recorded_and_decides_nothing(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    struct bg_request *r = ask(e, "print(1)");
    struct bg_decide d = decision(r, true);
    struct bg_actor self = e->asker;
    for (int approve = 0; approve < 2; approve++)
        for (int interactive = 0; interactive < 2; interactive++) {
            d.approve = approve;
            self.interactive = interactive;
            assert_false(bg_approvals_decide(e->q, &d, &self, NULL, NULL, &err));
            assert_int_equal(err.code, BG_ERR_SELF_APPROVAL);
        }
    assert_int_equal(bg_request_state(r), BG_RS_PENDING);
    assert_int_equal(audit_lines(e, "\"why\":\"self_approval\"", NULL), 4);
    decide_wait(e, r, true);
    assert_int_equal(e->runs, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, env_setup, env_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_can_not_approve_what_it_asked),
        T(strangers_decide),
        cmocka_unit_test(the_parent_of_the_requester_is_kin),
        T(a_reused_pid_is_nobodys_kin_and_nobodys_decider),
        cmocka_unit_test(a_name_makes_no_session_manager),
        cmocka_unit_test(below_a_session_manager_all_are_strangers),
        T(the_refusal_is_recorded_and_decides_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Full disk, read-only folder, foreign and newer files, migration, SIGKILL between writes:
 * the caller always hears of it, and what was acknowledged is there afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/base/values.h"
#include "tests/unit/audit/lib_audit.h"

#define NOBODY 65534
#define KILL_ROUNDS 200

/* In a child a line on stderr is the verdict; cmocka's jumps belong to the parent. */
#define CHECK(cond)                                                    \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            return false;                                              \
        }                                                              \
    } while (0)

static int in_child(struct env *e, bool unprivileged, bool (*fn)(struct env *e))
{
    pid_t pid = fork();
    if (pid == 0) {
        if (unprivileged && geteuid() == 0 &&
            (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)))
            _exit(2);
        struct bg_loop *old = e->loop;
        e->loop = bg_loop_new();
        bool ok = fn(e);
        bg_loop_free(e->loop);
        e->loop = old;
        _exit(ok ? 0 : 1);
    }
    int st = 0;
    assert_int_equal(waitpid(pid, &st, 0), pid);
    assert_true(WIFEXITED(st));
    return WEXITSTATUS(st);
}

static cJSON *big(size_t n)
{
    bg_autofree char *s = bg_xmalloc(n + 1);
    memset(s, 'x', n);
    s[n] = 0;
    cJSON *m = bg_jo();
    bg_jset_str(m, "pad", s);
    return m;
}

static bool set_limit(rlim_t n)
{
    struct rlimit rl;
    CHECK(getrlimit(RLIMIT_FSIZE, &rl) == 0);
    rl.rlim_cur = n;
    return setrlimit(RLIMIT_FSIZE, &rl) == 0;
}

/* ---- full ---- */

static bool fill_by_limit(struct env *e)
{
    struct bg_error err = {0};
    signal(SIGXFSZ, SIG_IGN);
    CHECK(e->a = bg_audit_open(e->loop, e->dir, NULL, &err));
    CHECK(put(e, BG_AUDIT_POLICY, 0, NULL) == BG_OK);
    CHECK(bg_audit_writable(e->a));
    CHECK(set_limit(200 * 1024));
    struct bg_audit_batch *b = bg_audit_batch_new(e->a);
    bg_audit_add(b, BG_AUDIT_POLICY, 0, NULL, NULL); /* would fit; the other does not */
    bg_audit_add(b, BG_AUDIT_POLICY, 0, NULL, big(400 * 1024));
    CHECK(commit_wait(e, b) == BG_ERR_AUDIT);
    CHECK(!bg_audit_writable(e->a));
    CHECK(set_limit(RLIM_INFINITY));
    CHECK(put(e, BG_AUDIT_POLICY, 0, NULL) == BG_OK);
    CHECK(bg_audit_writable(e->a));
    env_close(e);
    int64_t rows = 0;
    CHECK(strcmp(verify(e->dir, &rows), "") == 0);
    CHECK(rows == 2); /* all or nothing */
    return true;
}

static void a_file_size_limit_is_an_audit_error_and_heals(void **state)
{
    assert_int_equal(in_child(*state, false, fill_by_limit), 0);
}

static bool fill_a_tmpfs(struct env *e)
{
    struct bg_error err = {0};
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", e->dir, "tmpfs", 0, "size=1m,mode=0700")) {
        fprintf(stderr, "no tmpfs can be mounted: %s\n", strerror(errno));
        _exit(77);
    }
    CHECK(e->a = bg_audit_open(e->loop, e->dir, NULL, &err));
    enum bg_errc code = BG_OK;
    int n = 0;
    for (; code == BG_OK && n < 100; n++)
        code = put(e, BG_AUDIT_POLICY, 0, big(60 * 1024));
    CHECK(code == BG_ERR_AUDIT && n < 100);
    CHECK(!bg_audit_writable(e->a));
    CHECK(put(e, BG_AUDIT_POLICY, 0, big(60 * 1024)) == BG_ERR_AUDIT); /* and stays so */
    env_close(e);
    int64_t rows = 0;
    CHECK(strcmp(verify(e->dir, &rows), "") == 0);
    CHECK(rows == n - 1);
    return true;
}

static void a_full_disk_is_an_audit_error(void **state)
{
    int rc = in_child(*state, false, fill_a_tmpfs);
    if (rc == 77) {
        print_message("no right to mount a small disk\n");
        skip();
    }
    assert_int_equal(rc, 0);
}

/* ---- permissions ---- */

static bool read_only_folder(struct env *e)
{
    struct bg_error err = {0};
    int64_t rows = 0;
    /* Reading works all the same: nobody holds it and there is no -wal. */
    CHECK(strcmp(verify(e->dir, &rows), "") == 0);
    CHECK(rows == 3);
    CHECK(!bg_audit_open(e->loop, e->dir, NULL, &err));
    CHECK(err.code == BG_ERR_AUDIT);
    /* Records that are only in the -wal must not be silently left out. */
    CHECK(chmod(e->dir, 0700) == 0);
    bg_autofree char *wal = bg_xasprintf("%s/audit.db-wal", e->dir);
    CHECK(bg_write_file_atomic(wal, "something", 9, 0600, &err));
    CHECK(chmod(e->dir, 0500) == 0);
    CHECK(strcmp(verify(e->dir, &rows), "") != 0);
    CHECK(chmod(e->dir, 0700) == 0);
    return true;
}

static void a_read_only_folder_refuses_the_server_and_serves_a_reader(void **state)
{
    struct env *e = *state;
    env_open(e);
    put_rows(e, 3);
    env_close(e);
    if (geteuid() == 0) {
        static const char *const names[] = {"", "/audit.db", "/audit.head"};
        for (size_t i = 0; i < bg_countof(names); i++) {
            bg_autofree char *p = bg_xasprintf("%s%s", e->dir, names[i]);
            assert_int_equal(chown(p, NOBODY, NOBODY), 0);
        }
    }
    assert_int_equal(chmod(e->dir, 0500), 0);
    assert_int_equal(in_child(e, true, read_only_folder), 0);
}

static void refused(struct env *e, const char *reason)
{
    struct bg_error err = {0};
    assert_null(bg_audit_open(e->loop, e->dir, NULL, &err));
    assert_int_equal(err.code, BG_ERR_AUDIT);
    if (!strstr(err.msg, reason))
        fail_msg("expected \"%s\", got \"%s\"", reason, err.msg);
}

static void foreign_files_are_refused(void **state)
{
    struct env *e = *state;
    bg_autofree char *db = bg_path_join(e->dir, "audit.db");
    bg_autofree char *other = bg_path_join(e->dir, "other");
    struct bg_error err;
    assert_int_equal(symlink(other, db), 0);
    refused(e, "can't open");
    assert_int_equal(unlink(db), 0);
    assert_int_equal(mkfifo(db, 0600), 0);
    refused(e, "plain file");
    assert_int_equal(unlink(db), 0);
    assert_true(bg_write_file_atomic(other, "", 0, 0600, &err));
    assert_int_equal(link(other, db), 0);
    refused(e, "plain file");
    assert_int_equal(unlink(db), 0);
    assert_true(bg_write_file_atomic(db, "", 0, 0640, &err));
    refused(e, "chmod 600");
    static const char text[] = "not a database at all, and long enough to be seen as none, "
                               "for its header alone has a hundred bytes of fixed meaning";
    assert_true(bg_write_file_atomic(db, text, sizeof text, 0600, &err));
    refused(e, "not a database");
    assert_int_equal(unlink(db), 0);
    sql(e->dir, "CREATE TABLE theirs (x)");
    assert_int_equal(chmod(db, 0600), 0);
    refused(e, "another program's");
    if (geteuid() == 0) {
        assert_int_equal(chown(db, NOBODY, NOBODY), 0);
        refused(e, "another user");
    }
}

/* ---- schema ---- */

static void a_newer_store_is_refused_by_name_and_left_alone(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    env_open(e);
    put_rows(e, 1);
    env_close(e);
    sql(e->dir, "PRAGMA user_version = 7");
    bg_autofree char *db = bg_path_join(e->dir, "audit.db");
    bg_autobuf struct bg_buf before, after;
    bg_buf_init(&before, 1 << 20);
    bg_buf_init(&after, 1 << 20);
    assert_true(bg_read_file(db, 1 << 20, true, &before, &err));
    refused(e, "schema 7");
    refused(e, BG_VERSION);
    char known[32];
    snprintf(known, sizeof known, "knows schema %d", BG_AUDIT_SCHEMA);
    refused(e, known);
    assert_non_null(strstr(verify(e->dir, NULL), "schema 7"));
    assert_true(bg_read_file(db, 1 << 20, true, &after, &err));
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.data, after.data, before.len);
}

static bool migrate_with(struct env *e, const char *step, struct bg_error *err)
{
    const char *steps[BG_AUDIT_SCHEMA + 1];
    memcpy(steps, bg_store_schema.sql, sizeof *steps * BG_AUDIT_SCHEMA);
    steps[BG_AUDIT_SCHEMA] = step;
    const struct bg_store_steps to = {steps, BG_AUDIT_SCHEMA + 1};
    struct bg_store s;
    bool ok = bg_store_open(&s, e->dir, &to, NULL, err);
    if (ok)
        bg_store_close(&s);
    return ok;
}

static void migration_keeps_a_copy_and_is_all_or_nothing(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    env_open(e);
    put_rows(e, 3);
    env_close(e);
    assert_false(migrate_with(e, "CREATE TABLE extra (x); CREATE TABLE audit (x)", &err));
    assert_int_equal(err.code, BG_ERR_AUDIT);
    env_open(e); /* still the old schema, and whole */
    put_rows(e, 1);
    env_close(e);
    if (!migrate_with(e, "CREATE TABLE extra (x)", &err))
        fail_msg("%s", err.msg);
    refused(e, "use a newer boxgate");
    bg_autofree char *copy = bg_xasprintf("%s/audit.db.schema%d", e->dir, BG_AUDIT_SCHEMA);
    bg_autofree char *db = bg_path_join(e->dir, "audit.db");
    struct stat st;
    assert_int_equal(stat(copy, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(rename(copy, db), 0);
    int64_t rows = 0;
    assert_string_equal(verify(e->dir, &rows), "");
    assert_int_equal(rows, 4);
}

/* ---- SIGKILL ---- */

struct writer {
    struct bg_audit *a;
    int fd;
    uint32_t acknowledged;
};

static void next_row(struct writer *w);

static void on_row(void *data, const struct bg_error *err)
{
    struct writer *w = data;
    if (err)
        _exit(3);
    w->acknowledged++;
    if (write(w->fd, &w->acknowledged, sizeof w->acknowledged) != sizeof w->acknowledged)
        _exit(4);
    next_row(w);
}

static void next_row(struct writer *w)
{
    struct bg_error err;
    struct bg_audit_batch *b = bg_audit_batch_new(w->a);
    uint64_t id = bg_audit_next_id(w->a, &err);
    bg_audit_add(b, BG_AUDIT_RECEIVED, id, NULL, NULL);
    bg_audit_add(b, BG_AUDIT_FINISHED, id, NULL, NULL);
    bg_audit_add_blob(b, &id, sizeof id);
    bg_audit_commit(b, on_row, w);
}

static void write_until_killed(const char *dir, int fd)
{
    struct bg_error err;
    struct bg_loop *loop = bg_loop_new();
    struct writer w = {.a = bg_audit_open(loop, dir, NULL, &err), .fd = fd};
    if (!w.a)
        _exit(5);
    for (int i = 0; i < 3; i++)
        next_row(&w);
    bg_loop_run(loop);
    _exit(6);
}

/* One life of a writer; how many batches it was told are durable. */
static uint32_t live_and_die(const char *dir, unsigned after_us)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0)
        write_until_killed(dir, fds[1]);
    close(fds[1]);
    uint32_t n = 0, last = 0;
    /* The first answer shows that it is at work; then the blow falls at a random moment. */
    if (read(fds[0], &n, sizeof n) == sizeof n)
        last = n;
    usleep(after_us);
    kill(pid, SIGKILL);
    while (read(fds[0], &n, sizeof n) == sizeof n)
        last = n;
    int st;
    waitpid(pid, &st, 0);
    close(fds[0]);
    assert_true(WIFSIGNALED(st));
    return last;
}

static void killed_between_writes_the_chain_still_holds(void **state)
{
    struct env *e = *state;
    uint64_t acknowledged = 0;
    srandom(1);
    for (int i = 0; i < KILL_ROUNDS; i++) {
        acknowledged += live_and_die(e->dir, (unsigned)random() % 6000);
        int64_t rows = 0;
        /* A reader first, as after a real crash: the -wal is still there. */
        assert_string_equal(verify(e->dir, &rows), "");
        assert_true((uint64_t)rows >= acknowledged * 2);
        assert_int_equal(rows % 2, 0); /* a batch is whole or not there */
    }
    env_open(e);
    assert_int_equal(put(e, BG_AUDIT_POLICY, 0, NULL), BG_OK);
    env_close(e);
    assert_string_equal(verify(e->dir, NULL), "");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, env_setup, env_teardown)
    const struct CMUnitTest tests[] = {
        T(a_file_size_limit_is_an_audit_error_and_heals),
        T(a_full_disk_is_an_audit_error),
        T(a_read_only_folder_refuses_the_server_and_serves_a_reader),
        T(foreign_files_are_refused),
        T(a_newer_store_is_refused_by_name_and_left_alone),
        T(migration_keeps_a_copy_and_is_all_or_nothing),
        T(killed_between_writes_the_chain_still_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* What is written can be read and proved; what was changed is found; ids never come back.
 */
#include <fcntl.h>
#include <sys/wait.h>

#include "core/base/clock.h"
#include "core/base/values.h"
#include "tests/unit/audit/lib_audit.h"

struct seen {
    int n;
    int64_t last;
    char line[4096];
    char hash[BG_SHA256_HEX + 1];
    int stop_after;
};

static bool see(void *data, int64_t seq, const char *line, size_t n, const char *hash)
{
    struct seen *s = data;
    s->n++;
    s->last = seq;
    snprintf(s->line, sizeof s->line, "%.*s", (int)n, line);
    snprintf(s->hash, sizeof s->hash, "%s", hash);
    return s->n != s->stop_after;
}

static struct bg_audit_reader *reader(struct env *e)
{
    struct bg_error err = {0};
    struct bg_audit_reader *r = bg_audit_reader_open(e->dir, &err);
    if (!r)
        fail_msg("%s", err.msg);
    return r;
}

static void a_row_has_its_members_in_order(void **state)
{
    struct env *e = *state;
    struct bg_error err;
    env_open(e);
    cJSON *m = bg_jo();
    bg_jset_str(m, "zeta", "first");
    bg_jset_str(m, "alpha", "tab\t\"q\" \xc3\xa4");
    struct bg_audit_batch *b = bg_audit_batch_new(e->a);
    bg_audit_add(b, BG_AUDIT_PENDING, 144, "ab12", m);
    assert_int_equal(commit_wait(e, b), BG_OK);
    struct bg_audit_reader *r = reader(e);
    struct seen s = {0};
    assert_true(bg_audit_reader_tail(r, 10, see, &s, &err));
    assert_int_equal(s.n, 1);
    char time[BG_TIME_LEN];
    assert_int_equal(sscanf(s.line, "{\"seq\":1,\"time\":\"%24[^\"]\"", time), 1);
    assert_true(bg_time_parse(time) > 0);
    bg_autofree char *want =
        bg_xasprintf("{\"seq\":1,\"time\":\"%s\",\"event\":\"request.pending\",\"id\":144,"
                     "\"sha256\":\"ab12\","
                     "\"zeta\":\"first\",\"alpha\":\"tab\\t\\\"q\\\" \xc3\xa4\"}",
                     time);
    assert_string_equal(s.line, want);
    bg_audit_reader_close(r);
}

static void the_chain_is_what_the_contract_says(void **state)
{
    struct env *e = *state;
    struct bg_error err;
    env_open(e);
    put_rows(e, 2);
    struct bg_audit_reader *r = reader(e);
    struct seen one = {.stop_after = 1}, two = {0};
    assert_true(bg_audit_reader_from(r, 1, see, &one, &err));
    assert_int_equal(one.n, 1);
    assert_true(bg_audit_reader_from(r, 2, see, &two, &err));
    assert_int_equal(two.n, 1);
    /* SHA-256(prev, u64be length, line), first prev all zero. */
    unsigned char buf[32 + 8 + 4096] = {0};
    const struct seen *rows[] = {&one, &two};
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(rows[i]->line);
        buf[38] = (unsigned char)(n >> 8);
        buf[39] = (unsigned char)n;
        memcpy(buf + 40, rows[i]->line, n);
        struct bg_sha256 d = bg_sha256(buf, 40 + n);
        char hex[BG_SHA256_HEX + 1];
        bg_sha256_hex(&d, hex);
        assert_string_equal(rows[i]->hash, hex);
        memcpy(buf, d.b, 32);
    }
    int64_t rows_n;
    char head[BG_SHA256_HEX + 1];
    assert_true(bg_audit_reader_verify(r, &rows_n, head, &err));
    assert_int_equal(rows_n, 2);
    assert_string_equal(head, two.hash);
    bg_audit_reader_close(r);
    env_close(e);
    struct bg_store_head h;
    bg_autofree char *path = bg_path_join(e->dir, "audit.head");
    assert_true(bg_store_read_head(path, &h, &err));
    assert_int_equal(h.seq, 2);
}

static void tail_gives_the_newest_in_order(void **state)
{
    struct env *e = *state;
    struct bg_error err;
    env_open(e);
    put_rows(e, 7);
    struct bg_audit_reader *r = reader(e);
    struct seen s = {0};
    assert_true(bg_audit_reader_tail(r, 3, see, &s, &err));
    assert_int_equal(s.n, 3);
    assert_int_equal(s.last, 7);
    bg_audit_reader_close(r);
}

static void files_are_private(void **state)
{
    struct env *e = *state;
    umask(0);
    env_open(e);
    put_rows(e, 1);
    static const char *const names[] = {"audit.db", "audit.db-wal", "audit.db-shm",
                                        "audit.head"};
    for (size_t i = 0; i < bg_countof(names); i++) {
        struct stat st;
        bg_autofree char *p = bg_path_join(e->dir, names[i]);
        assert_int_equal(stat(p, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    umask(022);
}

/* ---- tampering ---- */

static void tampered(struct env *e, const char *change, const char *reason)
{
    sql(e->dir, change);
    const char *why = verify(e->dir, NULL);
    if (!strstr(why, reason))
        fail_msg("%s: expected \"%s\", got \"%s\"", change, reason, why);
}

static void every_kind_of_tampering_is_found(void **state)
{
    struct env *e = *state;
    static const struct {
        const char *sql, *reason;
    } kinds[] = {
        {"UPDATE audit SET line = cast(replace(cast(line AS TEXT), '\"n\":2', '\"n\":9') "
         "AS BLOB)"
         " WHERE seq = 3",
         "row 3: its text or its hash was changed"},
        {"DELETE FROM audit WHERE seq = 3", "row 3: is missing"},
        {"DELETE FROM audit WHERE seq = 1", "row 1: is missing"},
        {"DELETE FROM audit WHERE seq = 3; UPDATE audit SET seq = seq - 1 WHERE seq > 3",
         "row 3: does not follow"},
        {"UPDATE audit SET seq = 100 WHERE seq = 2; UPDATE audit SET seq = 2 WHERE seq = 3;"
         "UPDATE audit SET seq = 3 WHERE seq = 100",
         "row 2: does not follow"},
        {"INSERT INTO audit SELECT 7, event, id, sha256, line, prev, hash FROM audit WHERE "
         "seq = 6",
         "row 7: does not follow"},
        {"INSERT INTO audit SELECT 7, event, id, sha256, line, hash, zeroblob(32) FROM "
         "audit"
         " WHERE seq = 6",
         "row 7: its text or its hash was changed"},
        {"UPDATE audit SET hash = zeroblob(32) WHERE seq = 4",
         "row 4: its text or its hash"},
        {"UPDATE audit SET hash = zeroblob(32) WHERE seq = 6",
         "row 6: its text or its hash"},
        {"UPDATE audit SET prev = zeroblob(32) WHERE seq = 4", "row 4: does not follow"},
        {"UPDATE audit SET event = 'request.done' WHERE seq = 4", "row 4: its columns"},
        {"UPDATE audit SET id = 12 WHERE seq = 4", "row 4: its columns"},
        {"UPDATE audit SET sha256 = 'ff' WHERE seq = 4", "row 4: its columns"},
        {"DELETE FROM audit WHERE seq >= 5", "row 5: is missing (audit.head names row 6)"},
        {"DELETE FROM audit", "row 1: is missing (audit.head names row 6)"},
    };
    env_open(e);
    put_rows(e, 6);
    env_close(e);
    assert_string_equal(verify(e->dir, NULL), "");
    bg_autofree char *db = bg_path_join(e->dir, "audit.db");
    struct bg_error err;
    bg_autobuf struct bg_buf whole;
    bg_buf_init(&whole, 1 << 20);
    assert_true(bg_read_file(db, 1 << 20, true, &whole, &err));
    for (size_t i = 0; i < bg_countof(kinds); i++) {
        tampered(e, kinds[i].sql, kinds[i].reason);
        assert_true(bg_write_file_atomic(db, whole.data, whole.len, 0600, &err));
        assert_string_equal(verify(e->dir, NULL), "");
    }
}

/* Rewriting the whole chain from a row on shows against the head. */
static void a_recomputed_chain_shows_against_the_head(void **state)
{
    struct env *e = *state;
    struct bg_error err;
    env_open(e);
    put_rows(e, 3);
    env_close(e);
    bg_autofree char *head = bg_path_join(e->dir, "audit.head");
    bg_autobuf struct bg_buf kept;
    bg_buf_init(&kept, 256);
    assert_true(bg_read_file(head, 255, true, &kept, &err));
    sql(e->dir, "DELETE FROM audit WHERE seq = 3");
    assert_int_equal(unlink(head), 0);
    env_open(e);
    put_rows(e, 1);
    env_close(e);
    bg_autofree char *bad = bg_xasprintf("%s.bad", head);
    assert_int_equal(access(bad, F_OK), 0);
    assert_int_equal(unlink(bad), 0);
    assert_string_equal(verify(e->dir, NULL),
                        ""); /* without the old head nothing shows: said */
    assert_true(bg_write_file_atomic(head, kept.data, kept.len, 0600, &err));
    assert_non_null(strstr(verify(e->dir, NULL), "row 3: audit.head names another hash"));
}

static void removal_while_stopped_is_kept_as_evidence(void **state)
{
    struct env *e = *state;
    env_open(e);
    put_rows(e, 4);
    env_close(e);
    sql(e->dir, "DELETE FROM audit WHERE seq > 2");
    env_open(e);
    put_rows(e, 3);
    env_close(e);
    assert_non_null(strstr(verify(e->dir, NULL), "audit.head did not fit"));
}

static void a_damaged_or_missing_head_is_reported(void **state)
{
    struct env *e = *state;
    struct bg_error err;
    env_open(e);
    put_rows(e, 2);
    env_close(e);
    bg_autofree char *head = bg_path_join(e->dir, "audit.head");
    static const char *const texts[] = {"", "2", "2 abc\n", "-1 00\n", "x y\n"};
    for (size_t i = 0; i < bg_countof(texts); i++) {
        assert_true(bg_write_file_atomic(head, texts[i], strlen(texts[i]), 0600, &err));
        assert_non_null(strstr(verify(e->dir, NULL), "audit.head is damaged"));
    }
    unlink(head);
    assert_string_not_equal(verify(e->dir, NULL), "");
}

/* ---- ids and recovery ---- */

static void ids_never_come_back(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    env_open(e);
    for (uint64_t i = 1; i <= 10; i++)
        assert_int_equal(bg_audit_next_id(e->a, &err), i);
    env_close(e);
    env_open(e);
    assert_int_equal(bg_audit_next_id(e->a, &err), 11); /* no gap after a clean end */
    env_close(e);
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) { /* a crash: ids were given out, nothing was written */
        struct bg_loop *loop = bg_loop_new();
        struct bg_audit *a = bg_audit_open(loop, e->dir, NULL, &err);
        uint64_t id = 0;
        for (int i = 0; a && i < 50; i++)
            id = bg_audit_next_id(a, &err);
        _exit(write(fds[1], &id, sizeof id) == sizeof id ? 0 : 1);
    }
    uint64_t last = 0;
    assert_int_equal(read(fds[0], &last, sizeof last), sizeof last);
    waitpid(pid, NULL, 0);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(last, 61);
    env_open(e);
    assert_true(bg_audit_next_id(e->a, &err) > last);
}

static void ids_are_reserved_on_as_they_go(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    env_open(e);
    uint64_t last = 0;
    for (int i = 0; i < 2000; i++) {
        uint64_t id = bg_audit_next_id(e->a, &err);
        assert_true(id > last);
        last = id;
        if (i % 50 == 0)
            assert_int_equal(put(e, BG_AUDIT_RECEIVED, id, NULL), BG_OK);
    }
    /* More than are reserved at once: refused, never invented; then there are new ones. */
    while (bg_audit_next_id(e->a, &err))
        ;
    assert_int_equal(err.code, BG_ERR_AUDIT);
    put_rows(e, 1);
    assert_true(bg_audit_next_id(e->a, &err) > last);
}

struct recovered {
    char text[1024];
    int n;
};

static void got_request(void *data, const struct bg_audit_open_request *r)
{
    struct recovered *g = data;
    size_t at = strlen(g->text);
    snprintf(g->text + at, sizeof g->text - at, "%d:%.4s:%d%d ", (int)r->id, r->sha256,
             r->decided, r->claimed);
}

static void got_sandbox(void *data, const char *ref, const char *provider, const char *info)
{
    struct recovered *g = data;
    size_t at = strlen(g->text);
    snprintf(g->text + at, sizeof g->text - at, "%s/%s/%s ", ref, provider, info);
}

static void got_uses(void *data, const char *rule, int64_t used)
{
    struct recovered *g = data;
    size_t at = strlen(g->text);
    snprintf(g->text + at, sizeof g->text - at, "%s=%d ", rule, (int)used);
}

static void recovery_finds_what_is_open(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    env_open(e);
    struct bg_audit_batch *b = bg_audit_batch_new(e->a);
    for (uint64_t id = 1; id <= 5; id++)
        bg_audit_add(b, BG_AUDIT_RECEIVED, id, NULL, NULL);
    for (uint64_t id = 2; id <= 5; id++)
        bg_audit_add(b, BG_AUDIT_PENDING, id, "abcd", NULL);
    for (uint64_t id = 3; id <= 5; id++)
        bg_audit_add(b, BG_AUDIT_DECIDED, id, "abcd", NULL);
    for (uint64_t id = 4; id <= 5; id++)
        bg_audit_add(b, BG_AUDIT_CLAIMED, id, "abcd", NULL);
    bg_audit_add(b, BG_AUDIT_FINISHED, 5, "abcd", NULL);
    bg_audit_add_sandbox(b, "r1", "local", "{}");
    bg_audit_add_sandbox(b, "r2", "docker", "{\"id\":1}");
    bg_audit_drop_sandbox(b, "r1");
    bg_audit_set_uses(b, "lab", 3);
    bg_audit_set_uses(b, "lab", 4);
    assert_int_equal(commit_wait(e, b), BG_OK);
    env_close(e);
    env_open(e);
    struct recovered g = {0};
    const struct bg_audit_recovery r = {got_request, got_sandbox, got_uses};
    assert_true(bg_audit_recover(e->a, &r, &g, &err));
    assert_string_equal(g.text,
                        "1::00 2:abcd:00 3:abcd:10 4:abcd:11 r2/docker/{\"id\":1} lab=4 ");
}

/* ---- blobs ---- */

static bool blob_is(struct env *e, const char *hex, const char *want, struct bg_error *err)
{
    bg_autobuf struct bg_buf out;
    bg_buf_init(&out, 1 << 20);
    struct bg_audit_reader *r = reader(e);
    bool ok = bg_audit_reader_blob(r, hex, &out, err);
    bg_audit_reader_close(r);
    return ok && strcmp(out.data, want) == 0;
}

static void blobs_are_found_by_their_hash_and_pruned(void **state)
{
    struct env *e = *state;
    struct bg_error err = {0};
    char hex[BG_SHA256_HEX + 1];
    struct bg_sha256 d = bg_sha256("print(1)", 8);
    bg_sha256_hex(&d, hex);
    env_open(e);
    for (int i = 0; i < 2; i++) {
        struct bg_audit_batch *b = bg_audit_batch_new(e->a);
        bg_audit_add_blob(b, "print(1)", 8);
        bg_audit_add_blob(b, "", 0);
        assert_int_equal(commit_wait(e, b), BG_OK);
    }
    assert_true(blob_is(e, hex, "print(1)", &err));
    bg_audit_prune_blobs(e->a, bg_wall_ms() - 60000);
    put_rows(e, 1);
    assert_true(blob_is(e, hex, "print(1)", &err));
    sql(e->dir, "UPDATE blob SET bytes = cast('print(2)' AS BLOB)");
    assert_false(blob_is(e, hex, "print(2)", &err));
    assert_int_equal(err.code, BG_ERR_AUDIT);
    bg_audit_prune_blobs(e->a, bg_wall_ms() + 60000);
    put_rows(e, 1);
    assert_false(blob_is(e, hex, "print(1)", &err));
    assert_int_equal(err.code, BG_ERR_NOT_FOUND);
}

/* ---- order ---- */

struct order {
    struct env *e;
    char text[32];
};

static void mark_a(void *data, const struct bg_error *err)
{
    struct order *o = data;
    strcat(o->text, err ? "!" : "a");
}

static void mark_b(void *data, const struct bg_error *err)
{
    struct order *o = data;
    strcat(o->text, err ? "!" : "b");
    /* From inside an answer, as the queue does it. */
    struct bg_audit_batch *b = bg_audit_batch_new(o->e->a);
    bg_audit_add(b, BG_AUDIT_POLICY, 0, NULL, NULL);
    bg_audit_commit(b, mark_a, o);
}

static void answers_come_in_order_and_all_before_close_returns(void **state)
{
    struct env *e = *state;
    env_open(e);
    struct order o = {.e = e};
    for (int i = 0; i < 5; i++) {
        struct bg_audit_batch *b = bg_audit_batch_new(e->a);
        bg_audit_add(b, BG_AUDIT_POLICY, 0, NULL, NULL);
        bg_audit_commit(b, i == 1 ? mark_b : mark_a, &o);
    }
    assert_string_equal(o.text, ""); /* never from inside the call */
    env_close(e);
    assert_string_equal(o.text, "abaaaa");
    int64_t rows = 0;
    assert_string_equal(verify(e->dir, &rows), "");
    assert_int_equal(rows, 6);
}

static void event_names_are_stable_and_unique(void **state)
{
    (void)state;
    for (int i = 0; i < BG_AUDIT_EVENT_COUNT_; i++) {
        assert_non_null(bg_audit_event_name((enum bg_audit_event)i));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(bg_audit_event_name((enum bg_audit_event)i),
                                    bg_audit_event_name((enum bg_audit_event)j));
    }
    assert_string_equal(bg_audit_event_name(BG_AUDIT_DECIDED), "request.decided");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, env_setup, env_teardown)
    const struct CMUnitTest tests[] = {
        T(a_row_has_its_members_in_order),
        T(the_chain_is_what_the_contract_says),
        T(tail_gives_the_newest_in_order),
        T(files_are_private),
        T(every_kind_of_tampering_is_found),
        T(a_recomputed_chain_shows_against_the_head),
        T(removal_while_stopped_is_kept_as_evidence),
        T(a_damaged_or_missing_head_is_reported),
        T(ids_never_come_back),
        T(ids_are_reserved_on_as_they_go),
        T(recovery_finds_what_is_open),
        T(blobs_are_found_by_their_hash_and_pruned),
        T(answers_come_in_order_and_all_before_close_returns),
        T(event_names_are_stable_and_unique),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

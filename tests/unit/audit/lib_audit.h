/* SPDX-License-Identifier: MIT */
/* A store in a folder of its own, and waiting for commits; shared by the tests of this
 * folder. */
#pragma once

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/audit/audit.h"
#include "core/audit/store.h"
#include "core/base/mem.h"
#include "core/base/path.h"
#include "tests/test.h"

struct env {
    char dir[64];
    struct bg_loop *loop;
    struct bg_audit *a;
};

static inline int env_setup(void **state)
{
    struct env *e = bg_xcalloc(1, sizeof *e);
    strcpy(e->dir, "/tmp/boxgate-audit.XXXXXX");
    if (!mkdtemp(e->dir))
        return -1;
    bg_digest_init();
    e->loop = bg_loop_new();
    *state = e;
    return 0;
}

static inline void env_close(struct env *e)
{
    bg_audit_close(e->a);
    e->a = NULL;
}

static inline int env_teardown(void **state)
{
    struct env *e = *state;
    struct bg_error err;
    env_close(e);
    bg_loop_free(e->loop);
    int rc = bg_rm_rf(e->dir, &err) ? 0 : -1;
    free(e);
    return rc;
}

static inline void env_open(struct env *e)
{
    struct bg_error err = {0};
    e->a = bg_audit_open(e->loop, e->dir, NULL, &err);
    if (!e->a)
        fail_msg("%s", err.msg);
}

struct waited {
    bool done;
    enum bg_errc code;
};

static inline void on_durable(void *data, const struct bg_error *err)
{
    struct waited *w = data;
    w->done = true;
    w->code = err ? err->code : BG_OK;
}

static inline enum bg_errc commit_wait(struct env *e, struct bg_audit_batch *b)
{
    struct waited w = {0};
    bg_audit_commit(b, on_durable, &w);
    while (!w.done)
        bg_loop_turn(e->loop, -1);
    return w.code;
}

/* One row; members may be NULL. */
static inline enum bg_errc put(struct env *e, enum bg_audit_event ev, uint64_t id,
                               cJSON *members)
{
    struct bg_audit_batch *b = bg_audit_batch_new(e->a);
    bg_audit_add(b, ev, id, NULL, members);
    return commit_wait(e, b);
}

static inline void put_rows(struct env *e, int n)
{
    for (int i = 0; i < n; i++) {
        cJSON *m = bg_jo();
        bg_jset_int(m, "n", i);
        assert_int_equal(put(e, BG_AUDIT_SERVER_START, 0, m), BG_OK);
    }
}

/* "" when it verifies, else the reason. */
static inline const char *verify(const char *dir, int64_t *rows)
{
    static struct bg_error err;
    char hex[BG_SHA256_HEX + 1];
    int64_t n = -1;
    struct bg_audit_reader *r = bg_audit_reader_open(dir, &err);
    if (!r)
        return err.msg;
    bool ok = bg_audit_reader_verify(r, &n, hex, &err);
    bg_audit_reader_close(r);
    if (rows)
        *rows = n;
    return ok ? "" : err.msg;
}

static inline void sql(const char *dir, const char *text)
{
    sqlite3 *db;
    bg_autofree char *path = bg_path_join(dir, "audit.db");
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", text, sqlite3_errmsg(db));
    sqlite3_close(db);
}

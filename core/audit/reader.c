/* SPDX-License-Identifier: MIT */
/*
 * The reading side: read-only, beside a live server or without one.
 *
 * A WAL store needs its -shm file even to be read. Where it is there or can be made, SQLite
 * does so itself. Where it can't (a read-only copy, a folder of somebody else), the file is
 * opened as immutable, but only when there is no -wal with content: then no server holds it
 * and the file is whole. Otherwise the store is refused rather than read without its newest
 * records.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/audit/store.h"
#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/values.h"

struct bg_audit_reader {
    sqlite3 *db;
    char *path, *head_path;
};

void bg_audit_reader_close(struct bg_audit_reader *r)
{
    if (!r)
        return;
    sqlite3_close(r->db);
    free(r->path);
    free(r->head_path);
    free(r);
}

/* Opens and reads a page, so that what can't be read shows now. */
static bool try_open(struct bg_audit_reader *r, bool immutable, int *version,
                     struct bg_error *err)
{
    sqlite3_close(r->db);
    r->db = NULL;
    bg_autobuf struct bg_buf uri;
    bg_buf_init(&uri, 16384);
    bg_buf_puts(&uri, "file:");
    for (const char *p = r->path; *p; p++)
        if (strchr("%?#", *p))
            bg_buf_printf(&uri, "%%%02x", (unsigned char)*p);
        else
            bg_buf_putc(&uri, *p);
    bg_buf_puts(&uri, immutable ? "?immutable=1" : "?mode=ro");
    if (sqlite3_open_v2(uri.data, &r->db,
                        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOFOLLOW,
                        NULL) != SQLITE_OK)
        return bg_store_fail(r->db, err, "can't open the audit store");
    sqlite3_busy_timeout(r->db, BG_STORE_BUSY_MS);
    return bg_store_version(r->db, BG_AUDIT_SCHEMA, version, err);
}

static bool wal_is_empty(const char *path)
{
    bg_autofree char *wal = bg_xasprintf("%s-wal", path);
    struct stat st;
    return lstat(wal, &st) ? errno == ENOENT : st.st_size == 0;
}

struct bg_audit_reader *bg_audit_reader_open(const char *state_dir, struct bg_error *err)
{
    struct bg_audit_reader *r = bg_xcalloc(1, sizeof *r);
    int version = 0;
    r->path = bg_store_path(state_dir, "audit.db", err);
    struct stat st;
    if (!r->path)
        goto fail;
    if (lstat(r->path, &st)) {
        bg_fail(err, errno == ENOENT ? BG_ERR_NOT_FOUND : BG_ERR_AUDIT, errno,
                "there is no audit store at %s", r->path);
        goto fail;
    }
    r->head_path = bg_store_path(state_dir, "audit.head", err);
    if (!r->head_path)
        goto fail;
    bool ok = try_open(r, false, &version, err);
    if (!ok && sqlite3_errcode(r->db) != SQLITE_OK && wal_is_empty(r->path))
        ok = try_open(r, true, &version, err);
    if (ok && version < BG_AUDIT_SCHEMA)
        ok = bg_fail(err, BG_ERR_AUDIT, 0,
                     "the audit store has schema %d, this boxgate (" BG_VERSION
                     ") reads schema %d: start the server once, it brings it up to date",
                     version, BG_AUDIT_SCHEMA);
    if (ok)
        return r;
fail:
    bg_audit_reader_close(r);
    return NULL;
}

static bool each(struct bg_audit_reader *r, const char *sql, int64_t arg,
                 bg_audit_row_fn cb, void *data, struct bg_error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(r->db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_bind_int64(st, 1, arg);
        while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
            char hex[2 * BG_SHA256_LEN + 1] = "";
            if (sqlite3_column_bytes(st, 2) == BG_SHA256_LEN)
                bg_hex(sqlite3_column_blob(st, 2), BG_SHA256_LEN, hex);
            const char *line = sqlite3_column_blob(st, 1);
            size_t n = (size_t)sqlite3_column_bytes(st, 1);
            if (!cb(data, sqlite3_column_int64(st, 0), line ? line : "", n, hex)) {
                rc = SQLITE_DONE;
                break;
            }
        }
    }
    bool ok = rc == SQLITE_DONE || bg_store_fail(r->db, err, "can't read the audit store");
    sqlite3_finalize(st);
    return ok;
}

bool bg_audit_reader_tail(struct bg_audit_reader *r, int64_t n, bg_audit_row_fn cb,
                          void *data, struct bg_error *err)
{
    return each(
        r,
        "SELECT * FROM (SELECT seq, line, hash FROM audit ORDER BY seq DESC LIMIT ?)"
        " ORDER BY seq",
        n < 0 ? 0 : n, cb, data, err);
}

bool bg_audit_reader_from(struct bg_audit_reader *r, int64_t first_seq, bg_audit_row_fn cb,
                          void *data, struct bg_error *err)
{
    return each(r, "SELECT seq, line, hash FROM audit WHERE seq >= ? ORDER BY seq",
                first_seq, cb, data, err);
}

/* ---- verify ---- */

struct check {
    struct bg_audit_reader *r;
    struct bg_store_head head; /* what audit.head says */
    bool head_seen;
    int64_t seq;
    struct bg_sha256 prev;
};

static bool bad_row(struct bg_error *err, int64_t seq, const char *what)
{
    return bg_fail(err, BG_ERR_AUDIT, 0, "row %" PRId64 ": %s", seq, what);
}

static bool column_is(sqlite3_stmt *st, int c, const void *p, size_t n)
{
    return (size_t)sqlite3_column_bytes(st, c) == n &&
           memcmp(sqlite3_column_blob(st, c), p, n) == 0;
}

static bool member_is_text(const cJSON *line, const char *key, sqlite3_stmt *st, int column)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(line, key);
    const char *have = (const char *)sqlite3_column_text(st, column);
    if (!m || !have)
        return !m && !have;
    return cJSON_IsString(m) && strcmp(m->valuestring, have) == 0;
}

/* The columns are copies of what the line says; a search by column must not find other
 * things. */
static bool columns_agree(sqlite3_stmt *st, const char *line, size_t n, int64_t seq)
{
    bg_autojson cJSON *j = bg_json_parse(line, n, SIZE_MAX, NULL);
    const cJSON *s = cJSON_GetObjectItemCaseSensitive(j, "seq");
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(j, "id");
    int64_t want_id = cJSON_IsNumber(id) ? (int64_t)id->valuedouble : 0;
    return cJSON_IsNumber(s) && (int64_t)s->valuedouble == seq &&
           member_is_text(j, "event", st, 1) && sqlite3_column_int64(st, 2) == want_id &&
           member_is_text(j, "sha256", st, 3);
}

/* Columns: seq event id sha256 line prev hash. */
static bool check_row(struct check *c, sqlite3_stmt *st, struct bg_error *err)
{
    int64_t seq = sqlite3_column_int64(st, 0);
    if (seq != c->seq + 1)
        return bg_fail(err, BG_ERR_AUDIT, 0,
                       "row %" PRId64 ": is missing (the next one is %" PRId64 ")",
                       c->seq + 1, seq);
    const char *line = sqlite3_column_blob(st, 4);
    size_t n = (size_t)sqlite3_column_bytes(st, 4);
    if (!column_is(st, 5, c->prev.b, BG_SHA256_LEN))
        return bad_row(err, seq, "does not follow the row before it");
    struct bg_sha256 hash = bg_store_link(&c->prev, line ? line : "", n);
    if (!column_is(st, 6, hash.b, BG_SHA256_LEN))
        return bad_row(err, seq, "its text or its hash was changed");
    if (!line || !columns_agree(st, line, n, seq))
        return bad_row(err, seq, "its columns do not say what its text says");
    c->seq = seq;
    c->prev = hash;
    if (c->head.seq == seq) {
        c->head_seen = true;
        if (!bg_sha256_eq(&c->head.hash, &hash))
            return bad_row(err, seq, "audit.head names another hash for it");
    }
    return true;
}

static bool check_rows(struct check *c, struct bg_error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(c->r->db,
                                "SELECT seq, event, id, sha256, line, prev, hash FROM audit"
                                " ORDER BY seq",
                                -1, &st, NULL);
    bool ok = true;
    if (rc == SQLITE_OK)
        while (ok && (rc = sqlite3_step(st)) == SQLITE_ROW)
            ok = check_row(c, st, err);
    if (ok && rc != SQLITE_DONE)
        ok = bg_store_fail(c->r->db, err, "can't read the audit store");
    sqlite3_finalize(st);
    return ok;
}

bool bg_audit_reader_verify(struct bg_audit_reader *r, int64_t *rows,
                            char head_hex[BG_SHA256_HEX + 1], struct bg_error *err)
{
    struct check c = {.r = r};
    bg_autofree char *bad = bg_xasprintf("%s.bad", r->head_path);
    struct stat st;
    if (lstat(bad, &st) == 0)
        return bg_fail(err, BG_ERR_AUDIT, 0,
                       "an earlier start found that audit.head did not fit the store; it "
                       "is kept as %s",
                       bad);
    /* The head first: a live server only ever moves the rows ahead of it. */
    if (!bg_store_read_head(r->head_path, &c.head, err)) {
        if (err && err->code != BG_ERR_AUDIT)
            err->code = BG_ERR_AUDIT;
        return false;
    }
    c.head_seen = c.head.seq == 0;
    if (!check_rows(&c, err))
        return false;
    if (!c.head_seen)
        return bg_fail(err, BG_ERR_AUDIT, 0,
                       "row %" PRId64 ": is missing (audit.head names row %" PRId64
                       "): the newest records were removed",
                       c.seq + 1, c.head.seq);
    *rows = c.seq;
    bg_sha256_hex(&c.prev, head_hex);
    return true;
}

bool bg_audit_reader_blob(struct bg_audit_reader *r, const char *sha256_hex,
                          struct bg_buf *out, struct bg_error *err)
{
    sqlite3_stmt *st = NULL;
    int rc =
        sqlite3_prepare_v2(r->db, "SELECT bytes FROM blob WHERE sha256 = ?", -1, &st, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_bind_text(st, 1, sha256_hex, -1, SQLITE_STATIC);
        rc = sqlite3_step(st);
    }
    bool ok = false;
    if (rc == SQLITE_ROW) {
        const void *p = sqlite3_column_blob(st, 0);
        size_t n = (size_t)sqlite3_column_bytes(st, 0);
        struct bg_sha256 want, have = bg_sha256(p ? p : "", n);
        if (!bg_sha256_from_hex(sha256_hex, &want) || !bg_sha256_eq(&want, &have))
            bg_fail(err, BG_ERR_AUDIT, 0, "blob %s: its bytes were changed", sha256_hex);
        else
            ok = bg_buf_add(out, p ? p : "", n, err);
    } else if (rc == SQLITE_DONE) {
        bg_fail(err, BG_ERR_NOT_FOUND, 0, "blob %s: not kept (any more)", sha256_hex);
    } else {
        bg_store_fail(r->db, err, "can't read the audit store");
    }
    sqlite3_finalize(st);
    return ok;
}

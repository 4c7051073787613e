/* SPDX-License-Identifier: MIT */
/*
 * Opening the store, its schema, and appending to the chain. The file is made by us, 0600,
 * before SQLite sees it; a symlink, another owner or access for others is refused.
 */
#include "core/audit/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/values.h"

#define APPLICATION_ID 0x42474154 /* "BGAT" */
#define WAL_KEEP_BYTES 4194304

static const char *const steps[] = {
    "CREATE TABLE audit (seq INTEGER PRIMARY KEY, event TEXT NOT NULL, id INTEGER NOT NULL,"
    " sha256 TEXT, line BLOB NOT NULL, prev BLOB NOT NULL, hash BLOB NOT NULL) STRICT;"
    "CREATE INDEX audit_id ON audit (id) WHERE id > 0;"
    "CREATE TABLE blob (sha256 TEXT PRIMARY KEY, created INTEGER NOT NULL,"
    " bytes BLOB NOT NULL) STRICT;"
    "CREATE INDEX blob_created ON blob (created);"
    "CREATE TABLE sandbox (ref TEXT PRIMARY KEY, provider TEXT NOT NULL, info TEXT NOT "
    "NULL,"
    " created INTEGER NOT NULL) STRICT;"
    "CREATE TABLE uses (rule TEXT PRIMARY KEY, used INTEGER NOT NULL) STRICT;"
    /* What the rows say is open, kept beside them so that a start need not read them all.
     */
    "CREATE TABLE open_request (id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL DEFAULT '',"
    " decided INTEGER NOT NULL DEFAULT 0, claimed INTEGER NOT NULL DEFAULT 0) STRICT;"
    "CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;"
    "INSERT INTO counter VALUES ('nextId', 1);",
};
_Static_assert(bg_countof(steps) == BG_AUDIT_SCHEMA, "one step per schema number");
const struct bg_store_steps bg_store_schema = {steps, bg_countof(steps)};

static const char *const statements[BG_STORE_STMTS_] = {
    [BG_STORE_INSERT] = "INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?)",
    [BG_STORE_OPEN] = "INSERT OR IGNORE INTO open_request (id) VALUES (?)",
    [BG_STORE_SHA] = "UPDATE open_request SET sha256 = ?2 WHERE id = ?1",
    [BG_STORE_DECIDED] = ("UPDATE open_request SET decided = 1,"
                          " sha256 = coalesce(nullif(?2, ''), sha256) WHERE id = ?1"),
    [BG_STORE_CLAIMED] = "UPDATE open_request SET claimed = 1 WHERE id = ?",
    [BG_STORE_FINISHED] = "DELETE FROM open_request WHERE id = ?",
    [BG_STORE_BLOB] = ("INSERT INTO blob VALUES (?, ?, ?) ON CONFLICT (sha256) DO UPDATE"
                       " SET created = max(created, excluded.created)"),
    [BG_STORE_SANDBOX] = "INSERT OR REPLACE INTO sandbox VALUES (?, ?, ?, ?)",
    [BG_STORE_GONE] = "DELETE FROM sandbox WHERE ref = ?",
    [BG_STORE_USES] = "INSERT OR REPLACE INTO uses VALUES (?, ?)",
    [BG_STORE_PRUNE] = "DELETE FROM blob WHERE created < ?",
    [BG_STORE_IDS] = "UPDATE counter SET value = ? WHERE name = 'nextId'",
};

bool bg_store_fail(sqlite3 *db, struct bg_error *err, const char *what)
{
    return bg_fail(err, BG_ERR_AUDIT, 0, "%s: %s", what, sqlite3_errmsg(db));
}

static bool exec_sql(sqlite3 *db, const char *sql, const char *what, struct bg_error *err)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ||
           bg_store_fail(db, err, what);
}

/* Of a query that gives one integer. */
static bool query_int(sqlite3 *db, const char *sql, int64_t *out, struct bg_error *err)
{
    sqlite3_stmt *st = NULL;
    bool ok = sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK &&
              sqlite3_step(st) == SQLITE_ROW;
    if (ok)
        *out = sqlite3_column_int64(st, 0);
    else
        bg_store_fail(db, err, "can't read the audit store");
    sqlite3_finalize(st);
    return ok;
}

char *bg_store_path(const char *dir, const char *name, struct bg_error *err)
{
    /* SQLite's NOFOLLOW refuses a symlink anywhere in the path; one above the state folder
     * (/home -> /usr/home) is the administrator's business. */
    bg_autofree char *real = realpath(dir, NULL);
    if (!real) {
        bg_fail(err, BG_ERR_AUDIT, errno, "can't open the state folder %s", dir);
        return NULL;
    }
    return bg_path_join(real, name);
}

/* Makes the file, or checks the one there is. */
static bool prepare_file(const char *path, struct bg_error *err)
{
    bg_autoclose int fd =
        open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        return bg_fail(err, BG_ERR_AUDIT, errno, "can't open %s", path);
    struct stat st;
    if (fstat(fd, &st))
        return bg_fail(err, BG_ERR_AUDIT, errno, "can't look at %s", path);
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
        return bg_fail(err, BG_ERR_AUDIT, 0, "%s is not a plain file of its own", path);
    if (st.st_uid != geteuid())
        return bg_fail(err, BG_ERR_AUDIT, 0, "%s belongs to another user (uid %u)", path,
                       st.st_uid);
    if (st.st_mode & 077)
        return bg_fail(err, BG_ERR_AUDIT, 0, "%s is open to others; run: chmod 600 %s",
                       path, path);
    return true;
}

bool bg_store_version(sqlite3 *db, int newest, int *version, struct bg_error *err)
{
    int64_t v, app, tables;
    if (!query_int(db, "PRAGMA user_version", &v, err) ||
        !query_int(db, "PRAGMA application_id", &app, err) ||
        !query_int(db, "SELECT count(*) FROM sqlite_schema", &tables, err))
        return false;
    if (tables && app != APPLICATION_ID)
        return bg_fail(err, BG_ERR_AUDIT, 0,
                       "the audit store is another program's database");
    if (v > newest)
        return bg_fail(err, BG_ERR_AUDIT, 0,
                       "the audit store has schema %" PRId64 ", this boxgate (" BG_VERSION
                       ") knows schema %d: use a newer boxgate",
                       v, newest);
    *version = (int)v;
    return true;
}

/* A copy beside it, audit.db.schemaN, before anything is changed; an older copy is
 * replaced. */
static bool copy_before(struct bg_store *s, int version, struct bg_error *err)
{
    bg_autofree char *to = bg_xasprintf("%s.schema%d", s->path, version);
    if (unlink(to) && errno != ENOENT)
        return bg_fail(err, BG_ERR_AUDIT, errno, "can't replace %s", to);
    bg_autoclose int fd =
        open(to, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return bg_fail(err, BG_ERR_AUDIT, errno, "can't make %s", to);
    sqlite3_stmt *st = NULL;
    bool ok = sqlite3_prepare_v2(s->db, "VACUUM INTO ?", -1, &st, NULL) == SQLITE_OK &&
              sqlite3_bind_text(st, 1, to, -1, SQLITE_STATIC) == SQLITE_OK &&
              sqlite3_step(st) == SQLITE_DONE;
    if (!ok)
        bg_store_fail(s->db, err, "can't copy the audit store before changing it");
    sqlite3_finalize(st);
    if (ok && fsync(fd))
        return bg_fail(err, BG_ERR_AUDIT, errno, "can't write %s", to);
    return ok;
}

static bool migrate(struct bg_store *s, const struct bg_store_steps *to, struct bg_log *log,
                    struct bg_error *err)
{
    int version;
    if (!bg_store_version(s->db, to->n, &version, err))
        return false;
    if (version == to->n)
        return true;
    if (version > 0 && !copy_before(s, version, err))
        return false;
    if (!exec_sql(s->db, "BEGIN IMMEDIATE", "can't change the audit store", err))
        return false;
    bool ok = true;
    for (int v = version; ok && v < to->n; v++)
        ok = exec_sql(s->db, to->sql[v], "can't bring the audit store up to date", err);
    char pragma[96];
    snprintf(pragma, sizeof pragma,
             "PRAGMA user_version = %d; PRAGMA application_id = %d; COMMIT", to->n,
             APPLICATION_ID);
    ok = ok && exec_sql(s->db, pragma, "can't bring the audit store up to date", err);
    if (!ok && !sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    if (ok && version > 0)
        bg_log(log, BG_LOG_INFO, "audit store: schema %d to %d, copy kept", version, to->n);
    return ok;
}

static bool load_head(struct bg_store *s, struct bg_error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(
        s->db, "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1", -1, &st, NULL);
    rc = rc == SQLITE_OK ? sqlite3_step(st) : rc;
    bool ok = rc == SQLITE_DONE;
    s->seq = 0;
    memset(&s->head, 0, sizeof s->head);
    if (rc == SQLITE_ROW && sqlite3_column_bytes(st, 1) == BG_SHA256_LEN) {
        s->seq = sqlite3_column_int64(st, 0);
        memcpy(s->head.b, sqlite3_column_blob(st, 1), BG_SHA256_LEN);
        ok = true;
    }
    if (!ok)
        bg_store_fail(s->db, err, "can't read the head of the audit");
    sqlite3_finalize(st);
    s->stale = !ok;
    return ok;
}

/* Does the row the head file names exist, with that hash? */
static bool head_matches(struct bg_store *s, const struct bg_store_head *h)
{
    if (h->seq == 0)
        return true;
    sqlite3_stmt *st = NULL;
    bool ok = sqlite3_prepare_v2(s->db, "SELECT hash FROM audit WHERE seq = ?", -1, &st,
                                 NULL) == SQLITE_OK &&
              sqlite3_bind_int64(st, 1, h->seq) == SQLITE_OK &&
              sqlite3_step(st) == SQLITE_ROW &&
              sqlite3_column_bytes(st, 0) == BG_SHA256_LEN &&
              memcmp(sqlite3_column_blob(st, 0), h->hash.b, BG_SHA256_LEN) == 0;
    sqlite3_finalize(st);
    return ok;
}

/* A head that does not fit is evidence: it is set aside (verify reports it), never
 * overwritten. */
static bool check_head(struct bg_store *s, struct bg_log *log, struct bg_error *err)
{
    struct bg_store_head h;
    struct bg_error why;
    bool read = bg_store_read_head(s->head_path, &h, &why);
    if (!read && why.code == BG_ERR_NOT_FOUND && s->seq == 0)
        return bg_store_write_head(s, err);
    if (!(read && head_matches(s, &h))) {
        bg_autofree char *bad = bg_xasprintf("%s.bad", s->head_path);
        if (access(bad, F_OK) != 0 && rename(s->head_path, bad) != 0 && errno == ENOENT &&
            !bg_write_file_atomic(bad, "missing\n", 8, 0600, err))
            return false;
        bg_log(log, BG_LOG_ERROR,
               "audit.head does not fit the store (newest row %" PRId64 "): %s; kept as %s",
               s->seq, read ? "records were removed or changed" : why.msg, bad);
    }
    return bg_store_write_head(s, err);
}

static bool prepare_statements(struct bg_store *s, struct bg_error *err)
{
    for (int i = 0; i < BG_STORE_STMTS_; i++)
        if (sqlite3_prepare_v3(s->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &s->stmt[i], NULL) != SQLITE_OK)
            return bg_store_fail(s->db, err, "the audit store is damaged");
    return true;
}

static bool set_pragmas(struct bg_store *s, struct bg_error *err)
{
    char sql[160];
    sqlite3_busy_timeout(s->db, BG_STORE_BUSY_MS);
    snprintf(
        sql, sizeof sql,
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF;"
        "PRAGMA journal_size_limit = %d",
        WAL_KEEP_BYTES);
    return exec_sql(s->db, sql, "can't set the audit store up", err);
}

bool bg_store_open(struct bg_store *s, const char *dir, const struct bg_store_steps *to,
                   struct bg_log *log, struct bg_error *err)
{
    memset(s, 0, sizeof *s);
    s->path = bg_store_path(dir, "audit.db", err);
    s->head_path = s->path ? bg_store_path(dir, "audit.head", err) : NULL;
    bool ok = s->head_path && prepare_file(s->path, err);
    if (ok && sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW,
                              NULL) != SQLITE_OK)
        ok = bg_store_fail(s->db, err, "can't open the audit store");
    /* The version first: a newer store is left exactly as it is. */
    int version;
    ok = ok && bg_store_version(s->db, to->n, &version, err) && set_pragmas(s, err) &&
         migrate(s, to, log, err) && load_head(s, err) && prepare_statements(s, err) &&
         check_head(s, log, err);
    if (!ok)
        bg_store_close(s);
    return ok;
}

void bg_store_close(struct bg_store *s)
{
    for (int i = 0; i < BG_STORE_STMTS_; i++)
        sqlite3_finalize(s->stmt[i]);
    sqlite3_close(s->db);
    free(s->path);
    free(s->head_path);
    memset(s, 0, sizeof *s);
}

bool bg_store_begin(struct bg_store *s, struct bg_error *err)
{
    if (s->stale && !load_head(s, err))
        return false;
    return exec_sql(s->db, "BEGIN IMMEDIATE", "the audit can't be written", err);
}

bool bg_store_commit(struct bg_store *s, struct bg_error *err)
{
    return exec_sql(s->db, "COMMIT", "the audit can't be written", err);
}

void bg_store_rollback(struct bg_store *s)
{
    if (!sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    s->stale = true;
}

bool bg_store_run(struct bg_store *s, int i, struct bg_error *err)
{
    sqlite3_stmt *st = s->stmt[i];
    bool ok = sqlite3_step(st) == SQLITE_DONE;
    if (!ok)
        bg_store_fail(s->db, err, "the audit can't be written");
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return ok;
}

/* What the event changes about which requests are open. */
static bool track(struct bg_store *s, enum bg_audit_event e, uint64_t id,
                  const char *sha256, struct bg_error *err)
{
    static const int of[BG_AUDIT_EVENT_COUNT_] = {[BG_AUDIT_RECEIVED] = BG_STORE_OPEN,
                                                  [BG_AUDIT_PENDING] = BG_STORE_SHA,
                                                  [BG_AUDIT_DECIDED] = BG_STORE_DECIDED,
                                                  [BG_AUDIT_CLAIMED] = BG_STORE_CLAIMED,
                                                  [BG_AUDIT_FINISHED] = BG_STORE_FINISHED};
    if (id == 0 || of[e] == 0)
        return true;
    sqlite3_bind_int64(s->stmt[of[e]], 1, (int64_t)id);
    if (of[e] == BG_STORE_SHA || of[e] == BG_STORE_DECIDED)
        sqlite3_bind_text(s->stmt[of[e]], 2, sha256 ? sha256 : "", -1, SQLITE_STATIC);
    return bg_store_run(s, of[e], err);
}

struct bg_sha256 bg_store_link(const struct bg_sha256 *prev, const char *line, size_t n)
{
    unsigned char len[8];
    for (int i = 0; i < 8; i++)
        len[i] = (unsigned char)((uint64_t)n >> (56 - 8 * i));
    struct bg_hasher *h = bg_hasher_new();
    bg_hasher_add(h, prev->b, BG_SHA256_LEN);
    bg_hasher_add(h, len, sizeof len);
    bg_hasher_add(h, line, n);
    return bg_hasher_end(h);
}

bool bg_store_append(struct bg_store *s, enum bg_audit_event e, uint64_t id,
                     const char *sha256, const char *tail, struct bg_error *err)
{
    bg_autofree char *line = bg_xasprintf("{\"seq\":%" PRId64 ",%s", s->seq + 1, tail);
    size_t n = strlen(line);
    struct bg_sha256 hash = bg_store_link(&s->head, line, n);
    sqlite3_stmt *st = s->stmt[BG_STORE_INSERT];
    sqlite3_bind_int64(st, 1, s->seq + 1);
    sqlite3_bind_text(st, 2, bg_audit_event_name(e), -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, (int64_t)id);
    sqlite3_bind_text(st, 4, sha256, -1, SQLITE_STATIC);
    sqlite3_bind_blob64(st, 5, line, n, SQLITE_STATIC);
    sqlite3_bind_blob(st, 6, s->head.b, BG_SHA256_LEN, SQLITE_STATIC);
    sqlite3_bind_blob(st, 7, hash.b, BG_SHA256_LEN, SQLITE_STATIC);
    if (!bg_store_run(s, BG_STORE_INSERT, err) || !track(s, e, id, sha256, err))
        return false;
    s->seq++;
    s->head = hash;
    return true;
}

bool bg_store_write_head(const struct bg_store *s, struct bg_error *err)
{
    char hex[BG_SHA256_HEX + 1], text[BG_SHA256_HEX + 32];
    bg_sha256_hex(&s->head, hex);
    int n = snprintf(text, sizeof text, "%" PRId64 " %s\n", s->seq, hex);
    return bg_write_file_atomic(s->head_path, text, (size_t)n, 0600, err);
}

bool bg_store_read_head(const char *path, struct bg_store_head *out, struct bg_error *err)
{
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, 256);
    if (!bg_read_file(path, 255, false, &b, err))
        return false;
    char *end = NULL;
    errno = 0;
    long long seq = strtoll(b.data, &end, 10);
    size_t rest = b.len - (size_t)(end - b.data);
    if (errno || seq < 0 || end == b.data || *end != ' ' || rest != BG_SHA256_HEX + 2 ||
        end[rest - 1] != '\n')
        return bg_fail(err, BG_ERR_AUDIT, 0, "audit.head is damaged");
    end[rest - 1] = 0;
    out->seq = seq;
    if (!bg_sha256_from_hex(end + 1, &out->hash))
        return bg_fail(err, BG_ERR_AUDIT, 0, "audit.head is damaged");
    return true;
}

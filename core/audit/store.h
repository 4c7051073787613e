/* SPDX-License-Identifier: MIT */
/*
 * The database under the audit: opening, migration, the chain. Used by one thread at a
 * time: the opener's at start and end, the serial worker's in between. Nobody outside this
 * folder (and its test) includes it.
 */
#pragma once

#include <sqlite3.h>

#include "core/audit/audit.h"

#define BG_STORE_BUSY_MS 5000 /* for another process that holds the file */

/* Moves a store from schema N to N + 1; the first one makes it. */
struct bg_store_steps {
    const char *const *sql;
    int n; /* = the newest schema */
};
extern const struct bg_store_steps bg_store_schema;

enum {
    BG_STORE_INSERT,
    BG_STORE_OPEN,
    BG_STORE_SHA,
    BG_STORE_DECIDED,
    BG_STORE_CLAIMED,
    BG_STORE_FINISHED,
    BG_STORE_BLOB,
    BG_STORE_SANDBOX,
    BG_STORE_GONE,
    BG_STORE_USES,
    BG_STORE_PRUNE,
    BG_STORE_IDS,
    BG_STORE_STMTS_
};

struct bg_store {
    sqlite3 *db;
    sqlite3_stmt *stmt[BG_STORE_STMTS_];
    char *path, *head_path;
    int64_t seq; /* of the newest row */
    struct bg_sha256 head;
    bool stale; /* a transaction failed: seq and head are read again before the next */
};

/* Real path of dir + "/" + name; NULL with err. */
char *bg_store_path(const char *dir, const char *name, struct bg_error *err);
/* *s is zeroed first; on false nothing is left open. */
BG_CHECK bool bg_store_open(struct bg_store *s, const char *dir,
                            const struct bg_store_steps *steps, struct bg_log *log,
                            struct bg_error *err);
void bg_store_close(struct bg_store *s);
/* "what: sqlite's words" as BG_ERR_AUDIT; false. */
bool bg_store_fail(sqlite3 *db, struct bg_error *err, const char *what);
/* Schema of an open database; refuses a newer one than `newest` and a file that isn't ours.
 */
BG_CHECK bool bg_store_version(sqlite3 *db, int newest, int *version, struct bg_error *err);

BG_CHECK bool bg_store_begin(struct bg_store *s, struct bg_error *err);
BG_CHECK bool bg_store_commit(struct bg_store *s, struct bg_error *err);
void bg_store_rollback(struct bg_store *s);
/* Appends a row inside a transaction. tail = the canonical JSON after `{"seq":N,`. */
BG_CHECK bool bg_store_append(struct bg_store *s, enum bg_audit_event e, uint64_t id,
                              const char *sha256, const char *tail, struct bg_error *err);
/* Runs a prepared statement with no result rows; resets it. */
BG_CHECK bool bg_store_run(struct bg_store *s, int stmt, struct bg_error *err);
BG_CHECK bool bg_store_write_head(const struct bg_store *s, struct bg_error *err);

/* audit.head: "SEQ HASH\n". */
struct bg_store_head {
    int64_t seq;
    struct bg_sha256 hash;
};
BG_CHECK bool bg_store_read_head(const char *path, struct bg_store_head *out,
                                 struct bg_error *err);
/* SHA-256(prev, u64be n, line) */
struct bg_sha256 bg_store_link(const struct bg_sha256 *prev, const char *line, size_t n);

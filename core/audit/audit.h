/* SPDX-License-Identifier: MIT */
/*
 * The record: SQLite (WAL, STRICT tables), a hash-chained table `audit`, content-addressed
 * blobs and the records of sandboxes. Only the server writes, through one serial worker; a
 * caller waits for its callback, the loop never does. What can't be written is denied
 * (contract.md 7).
 *
 * Chain: hash = SHA-256(prev hash, u64be length, line); line = canonical JSON, fixed member
 * order. The head also goes to state/audit.head; the removal of the newest records shows
 * only against a head kept elsewhere, and verify says so.
 */
#pragma once

#include "core/base/digest.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/loop/loop.h"

struct bg_audit;

enum bg_audit_event {
    BG_AUDIT_SERVER_START,
    BG_AUDIT_SERVER_STOP,
    BG_AUDIT_RECEIVED,
    BG_AUDIT_PENDING,
    BG_AUDIT_DECIDED,
    BG_AUDIT_CLAIMED,
    BG_AUDIT_STARTED,
    BG_AUDIT_FINISHED, /* every final state, with `state` */
    BG_AUDIT_REFUSED,  /* a decision or connection that was refused: self_approval,
                          hash_mismatch, forbidden */
    BG_AUDIT_SESSION_OPEN,
    BG_AUDIT_SANDBOX_CREATE,
    BG_AUDIT_SANDBOX_GONE,
    BG_AUDIT_SESSION_CLOSED,
    BG_AUDIT_POLICY,
    BG_AUDIT_FORGET_DENY,
    BG_AUDIT_EVENT_COUNT_
};
const char *
bg_audit_event_name(enum bg_audit_event e); /* "server.start", "request.decided", ... */

typedef void (*bg_audit_fn)(void *data,
                            const struct bg_error *err); /* err NULL = durable */

/* One transaction of one or more events; all or nothing. */
struct bg_audit_batch;
struct bg_audit_batch *bg_audit_batch_new(struct bg_audit *a);
/* members: an object whose members follow seq, time, event, id, sha256 in the order given;
 * taken. id 0 = none. sha256 NULL = none. */
void bg_audit_add(struct bg_audit_batch *b, enum bg_audit_event e, uint64_t id,
                  const char *sha256, cJSON *members);
/* Content-addressed; the same bytes are stored once. */
void bg_audit_add_blob(struct bg_audit_batch *b, const void *p, size_t n);
/* A sandbox's record, before it is made; removed when it is gone. `info` is what sweep
 * needs. */
void bg_audit_add_sandbox(struct bg_audit_batch *b, const char *ref, const char *provider,
                          const char *info);
void bg_audit_drop_sandbox(struct bg_audit_batch *b, const char *ref);
void bg_audit_set_uses(struct bg_audit_batch *b, const char *rule, int64_t used);
/* Takes b. done (may be NULL) runs on the loop after the commit is on disk, or with
 * BG_ERR_AUDIT. */
void bg_audit_commit(struct bg_audit_batch *b, bg_audit_fn done, void *data);

/* What a start finds; for recovery. Called once per row, in order. */
struct bg_audit_open_request {
    uint64_t id;
    char sha256[BG_SHA256_HEX + 1];
    bool decided, claimed; /* neither finished */
};
struct bg_audit_recovery {
    void (*request)(
        void *data,
        const struct bg_audit_open_request *r); /* requests without `finished` */
    void (*sandbox)(void *data, const char *ref, const char *provider, const char *info);
    void (*uses)(void *data, const char *rule, int64_t used);
};

/* Opens or creates state/audit.db; migrates forward in one transaction after a copy; a
 * newer schema is refused, naming both versions. */
BG_CHECK struct bg_audit *bg_audit_open(struct bg_loop *loop, const char *state_dir,
                                        struct bg_log *log, struct bg_error *err);
BG_CHECK bool bg_audit_recover(struct bg_audit *a, const struct bg_audit_recovery *r,
                               void *data, struct bg_error *err);
/* Never used again, also not after a crash (reserved in blocks on disk). 0 with err on
 * failure. */
uint64_t bg_audit_next_id(struct bg_audit *a, struct bg_error *err);
bool bg_audit_writable(const struct bg_audit *a); /* the last commit worked */
void bg_audit_prune_blobs(struct bg_audit *a, int64_t older_than_wall_ms);
void bg_audit_close(struct bg_audit *a); /* waits for what is queued */

/* ---- reading, also without a server: read-only, of a store that may be live ---- */
struct bg_audit_reader;
BG_CHECK struct bg_audit_reader *bg_audit_reader_open(const char *state_dir,
                                                      struct bg_error *err);
/* The last n rows in order; cb false stops. line is the canonical JSON. */
typedef bool (*bg_audit_row_fn)(void *data, int64_t seq, const char *line, size_t n,
                                const char *hash_hex);
BG_CHECK bool bg_audit_reader_tail(struct bg_audit_reader *r, int64_t n, bg_audit_row_fn cb,
                                   void *data, struct bg_error *err);
BG_CHECK bool bg_audit_reader_from(struct bg_audit_reader *r, int64_t first_seq,
                                   bg_audit_row_fn cb, void *data, struct bg_error *err);
/* rows checked and the head; false with BG_ERR_AUDIT naming the first bad row and what is
 * wrong. */
BG_CHECK bool bg_audit_reader_verify(struct bg_audit_reader *r, int64_t *rows,
                                     char head_hex[BG_SHA256_HEX + 1],
                                     struct bg_error *err);
BG_CHECK bool bg_audit_reader_blob(struct bg_audit_reader *r, const char *sha256_hex,
                                   struct bg_buf *out, struct bg_error *err);
void bg_audit_reader_close(struct bg_audit_reader *r);

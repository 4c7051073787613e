/* SPDX-License-Identifier: MIT */
/*
 * The writing side. Batches are collected on the loop; one work at a time takes everything
 * that is waiting and writes it as one transaction, so one sync serves all that came
 * meanwhile. The worker thread touches only `flight` and the store; the loop touches
 * neither while a work runs.
 *
 * audit.head is written when nothing else waits, and at the latest every HEAD_EVERY rows:
 * it may lag behind the table, never run ahead of it.
 */
#include "core/audit/audit.h"

#include <stdio.h>

#include "core/audit/store.h"
#include "core/base/clock.h"
#include "core/base/fault.h"
#include "core/base/mem.h"

#define IDS_AHEAD 256 /* ids reserved on disk beyond the newest one given out */
#define HEAD_EVERY 64 /* rows */

static const char *const event_names[BG_AUDIT_EVENT_COUNT_] = {
    [BG_AUDIT_SERVER_START] = "server.start",
    [BG_AUDIT_SERVER_STOP] = "server.stop",
    [BG_AUDIT_RECEIVED] = "request.received",
    [BG_AUDIT_PENDING] = "request.pending",
    [BG_AUDIT_DECIDED] = "request.decided",
    [BG_AUDIT_CLAIMED] = "request.claimed",
    [BG_AUDIT_STARTED] = "request.started",
    [BG_AUDIT_FINISHED] = "request.finished",
    [BG_AUDIT_REFUSED] = "refused",
    [BG_AUDIT_SESSION_OPEN] = "session.open",
    [BG_AUDIT_SANDBOX_CREATE] = "sandbox.create",
    [BG_AUDIT_SANDBOX_GONE] = "sandbox.gone",
    [BG_AUDIT_SESSION_CLOSED] = "session.closed",
    [BG_AUDIT_POLICY] = "policy",
    [BG_AUDIT_FORGET_DENY] = "deny.forgotten",
};

enum op_kind { OP_ROW, OP_BLOB, OP_SANDBOX, OP_GONE, OP_USES, OP_PRUNE };

struct op {
    enum op_kind kind;
    enum bg_audit_event event;
    uint64_t id;
    char *sha256; /* of the request, or of the blob */
    char *a, *b, *c;
    void *bytes;
    size_t len;
    int64_t number; /* wall ms, or a count */
};

struct bg_audit_batch {
    struct bg_audit_batch *next;
    struct bg_audit *audit;
    struct op *ops;
    size_t n, cap;
    bg_audit_fn done;
    void *data;
};

struct flight {
    struct bg_audit_batch *first; /* NULL: only the head is written */
    int64_t ids_to;               /* reserve up to here, 0 = as it is */
    bool head;
    bool failed, head_failed;
    struct bg_error err;
};

struct bg_audit {
    struct bg_loop *loop;
    struct bg_serial *serial;
    struct bg_log *log;
    struct bg_store store;
    struct bg_audit_batch *first, **last; /* waiting */
    struct flight flight;
    bool flying, closing, writable;
    bool head_due, ids_wanted;
    int64_t head_seq;        /* the row audit.head names */
    int64_t next_id, ids_to; /* ids_to: reserved on disk, exclusive */
};

const char *bg_audit_event_name(enum bg_audit_event e)
{
    return (unsigned)e < BG_AUDIT_EVENT_COUNT_ ? event_names[e] : "unknown";
}

/* ---- batches ---- */

struct bg_audit_batch *bg_audit_batch_new(struct bg_audit *a)
{
    struct bg_audit_batch *b = bg_xcalloc(1, sizeof *b);
    b->audit = a;
    return b;
}

static struct op *add_op(struct bg_audit_batch *b, enum op_kind kind)
{
    if (b->n == b->cap) {
        b->cap = b->cap ? b->cap * 2 : 4;
        b->ops = bg_xrealloc(b->ops, b->cap, sizeof *b->ops);
    }
    struct op *o = &b->ops[b->n++];
    memset(o, 0, sizeof *o);
    o->kind = kind;
    o->number = bg_wall_ms();
    return o;
}

static void batch_free(struct bg_audit_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        struct op *o = &b->ops[i];
        free(o->sha256);
        free(o->a);
        free(o->b);
        free(o->c);
        free(o->bytes);
    }
    free(b->ops);
    free(b);
}

void bg_audit_add(struct bg_audit_batch *b, enum bg_audit_event e, uint64_t id,
                  const char *sha256, cJSON *members)
{
    struct op *o = add_op(b, OP_ROW);
    o->event = e;
    o->id = id;
    o->sha256 = bg_xstrdup(sha256);
    bg_autojson cJSON *line = bg_jo();
    bg_jset_time(line, "time", o->number);
    bg_jset_str(line, "event", bg_audit_event_name(e));
    if (id)
        bg_jset_int(line, "id", (int64_t)id);
    if (sha256)
        bg_jset_str(line, "sha256", sha256);
    for (cJSON *m; members && (m = members->child);) {
        cJSON_DetachItemViaPointer(members, m);
        bg_autofree char *key = bg_xstrdup(m->string);
        bg_jset(line, key, m);
    }
    cJSON_Delete(members);
    bg_autofree char *text = bg_json_print(line);
    o->a = bg_xstrdup(text + 1); /* after the brace: the seq goes in front */
}

void bg_audit_add_blob(struct bg_audit_batch *b, const void *p, size_t n)
{
    struct op *o = add_op(b, OP_BLOB);
    struct bg_sha256 d = bg_sha256(p, n);
    o->sha256 = bg_xmalloc(BG_SHA256_HEX + 1);
    bg_sha256_hex(&d, o->sha256);
    o->bytes = n ? bg_xmemdup(p, n) : NULL;
    o->len = n;
}

void bg_audit_add_sandbox(struct bg_audit_batch *b, const char *ref, const char *provider,
                          const char *info)
{
    struct op *o = add_op(b, OP_SANDBOX);
    o->a = bg_xstrdup(ref);
    o->b = bg_xstrdup(provider);
    o->c = bg_xstrdup(info);
}

void bg_audit_drop_sandbox(struct bg_audit_batch *b, const char *ref)
{
    add_op(b, OP_GONE)->a = bg_xstrdup(ref);
}

void bg_audit_set_uses(struct bg_audit_batch *b, const char *rule, int64_t used)
{
    struct op *o = add_op(b, OP_USES);
    o->a = bg_xstrdup(rule);
    o->number = used;
}

/* ---- the worker ---- */

static bool write_op(struct bg_store *s, const struct op *o, struct bg_error *err)
{
    sqlite3_stmt *const *st = s->stmt;
    switch (o->kind) {
    case OP_ROW:
        return bg_store_append(s, o->event, o->id, o->sha256, o->a, err);
    case OP_BLOB:
        sqlite3_bind_text(st[BG_STORE_BLOB], 1, o->sha256, -1, SQLITE_STATIC);
        sqlite3_bind_int64(st[BG_STORE_BLOB], 2, o->number);
        sqlite3_bind_blob64(st[BG_STORE_BLOB], 3, o->len ? o->bytes : "", o->len,
                            SQLITE_STATIC);
        return bg_store_run(s, BG_STORE_BLOB, err);
    case OP_SANDBOX:
        sqlite3_bind_text(st[BG_STORE_SANDBOX], 1, o->a, -1, SQLITE_STATIC);
        sqlite3_bind_text(st[BG_STORE_SANDBOX], 2, o->b, -1, SQLITE_STATIC);
        sqlite3_bind_text(st[BG_STORE_SANDBOX], 3, o->c, -1, SQLITE_STATIC);
        sqlite3_bind_int64(st[BG_STORE_SANDBOX], 4, o->number);
        return bg_store_run(s, BG_STORE_SANDBOX, err);
    case OP_GONE:
        sqlite3_bind_text(st[BG_STORE_GONE], 1, o->a, -1, SQLITE_STATIC);
        return bg_store_run(s, BG_STORE_GONE, err);
    case OP_USES:
        sqlite3_bind_text(st[BG_STORE_USES], 1, o->a, -1, SQLITE_STATIC);
        sqlite3_bind_int64(st[BG_STORE_USES], 2, o->number);
        return bg_store_run(s, BG_STORE_USES, err);
    case OP_PRUNE:
        sqlite3_bind_int64(st[BG_STORE_PRUNE], 1, o->number);
        return bg_store_run(s, BG_STORE_PRUNE, err);
    }
    return bg_fail(err, BG_ERR_INTERNAL, 0, "unknown audit operation");
}

static bool write_all(struct bg_store *s, const struct flight *f, struct bg_error *err)
{
    bg_fault_point("audit.begin");
    if (!bg_store_begin(s, err))
        return false;
    for (const struct bg_audit_batch *b = f->first; b; b = b->next)
        for (size_t i = 0; i < b->n; i++)
            if (!write_op(s, &b->ops[i], err))
                return false;
    if (f->ids_to) {
        sqlite3_bind_int64(s->stmt[BG_STORE_IDS], 1, f->ids_to);
        if (!bg_store_run(s, BG_STORE_IDS, err))
            return false;
    }
    bg_fault_point("audit.commit");
    if (!bg_store_commit(s, err))
        return false;
    bg_fault_point("audit.committed");
    return true;
}

/* On the worker thread. */
static void fly(void *data)
{
    struct bg_audit *a = data;
    struct flight *f = &a->flight;
    if ((f->first || f->ids_to) && !write_all(&a->store, f, &f->err)) {
        bg_store_rollback(&a->store);
        f->failed = true;
    }
    f->head_failed = f->head && !f->failed && !bg_store_write_head(&a->store, &f->err);
    bg_fault_point("audit.head");
}

static void start(struct bg_audit *a);

/* Back on the loop: what was written is answered in the order it came. */
static void landed(struct bg_audit *a)
{
    struct flight f = a->flight;
    a->flight = (struct flight){0};
    a->flying = false;
    if (f.failed || f.head_failed)
        bg_log(a->log, BG_LOG_ERROR, "audit: %s", f.err.msg);
    if (f.first || f.ids_to)
        a->writable = !f.failed;
    if (!f.failed && f.ids_to)
        a->ids_to = f.ids_to;
    a->head_due = !f.head && !f.failed && (a->head_due || f.first);
    if (f.head && !f.failed && !f.head_failed)
        a->head_seq = a->store.seq;
    for (struct bg_audit_batch *b = f.first, *next; b; b = next) {
        next = b->next;
        if (b->done)
            b->done(b->data, f.failed ? &f.err : NULL);
        batch_free(b);
    }
}

static void on_flown(void *data)
{
    landed(data);
    start(data);
}

static void load(struct bg_audit *a)
{
    struct flight *f = &a->flight;
    f->first = a->first;
    a->first = NULL;
    a->last = &a->first;
    a->ids_wanted = false;
    if (a->next_id + IDS_AHEAD / 2 > a->ids_to)
        f->ids_to = a->next_id + IDS_AHEAD;
    f->head = !f->first ? a->head_due : a->store.seq - a->head_seq >= HEAD_EVERY;
}

static void start(struct bg_audit *a)
{
    if (a->flying || a->closing || (!a->first && !a->head_due && !a->ids_wanted))
        return;
    load(a);
    a->flying = true;
    bg_serial_add(a->serial, fly, on_flown, a);
}

void bg_audit_commit(struct bg_audit_batch *b, bg_audit_fn done, void *data)
{
    struct bg_audit *a = b->audit;
    b->done = done;
    b->data = data;
    *a->last = b;
    a->last = &b->next;
    start(a);
}

void bg_audit_prune_blobs(struct bg_audit *a, int64_t older_than_wall_ms)
{
    struct bg_audit_batch *b = bg_audit_batch_new(a);
    add_op(b, OP_PRUNE)->number = older_than_wall_ms;
    bg_audit_commit(b, NULL, NULL);
}

/* ---- opening, recovery, ids ---- */

static bool read_next_id(struct bg_audit *a, struct bg_error *err)
{
    sqlite3_stmt *st = NULL;
    bool ok =
        sqlite3_prepare_v2(a->store.db, "SELECT value FROM counter WHERE name = 'nextId'",
                           -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW;
    if (ok)
        a->next_id = a->ids_to = sqlite3_column_int64(st, 0);
    else
        bg_store_fail(a->store.db, err, "can't read the audit store");
    sqlite3_finalize(st);
    return ok;
}

struct bg_audit *bg_audit_open(struct bg_loop *loop, const char *state_dir,
                               struct bg_log *log, struct bg_error *err)
{
    struct bg_audit *a = bg_xcalloc(1, sizeof *a);
    a->loop = loop;
    a->log = log;
    a->last = &a->first;
    if (!bg_store_open(&a->store, state_dir, &bg_store_schema, log, err))
        goto fail;
    a->head_seq = a->store.seq;
    if (!read_next_id(a, err))
        goto fail;
    /* The first block is reserved before anything else; it also proves that we can write.
     */
    load(a);
    fly(a);
    if (a->flight.failed) {
        if (err)
            *err = a->flight.err;
        goto fail;
    }
    landed(a);
    a->serial = bg_serial_new(loop);
    return a;
fail:
    bg_store_close(&a->store);
    free(a);
    return NULL;
}

static bool
recover_rows(struct bg_audit *a, const char *sql,
             void (*row)(sqlite3_stmt *st, const struct bg_audit_recovery *r, void *data),
             const struct bg_audit_recovery *r, void *data, struct bg_error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(a->store.db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK)
        while ((rc = sqlite3_step(st)) == SQLITE_ROW)
            row(st, r, data);
    bool ok =
        rc == SQLITE_DONE || bg_store_fail(a->store.db, err, "can't read the audit store");
    sqlite3_finalize(st);
    return ok;
}

static const char *text_of(sqlite3_stmt *st, int column)
{
    const char *s = (const char *)sqlite3_column_text(st, column);
    return s ? s : "";
}

static void request_row(sqlite3_stmt *st, const struct bg_audit_recovery *r, void *data)
{
    struct bg_audit_open_request o = {.id = (uint64_t)sqlite3_column_int64(st, 0),
                                      .decided = sqlite3_column_int(st, 2) != 0,
                                      .claimed = sqlite3_column_int(st, 3) != 0};
    snprintf(o.sha256, sizeof o.sha256, "%s", text_of(st, 1));
    r->request(data, &o);
}

static void sandbox_row(sqlite3_stmt *st, const struct bg_audit_recovery *r, void *data)
{
    r->sandbox(data, text_of(st, 0), text_of(st, 1), text_of(st, 2));
}

static void uses_row(sqlite3_stmt *st, const struct bg_audit_recovery *r, void *data)
{
    r->uses(data, text_of(st, 0), sqlite3_column_int64(st, 1));
}

bool bg_audit_recover(struct bg_audit *a, const struct bg_audit_recovery *r, void *data,
                      struct bg_error *err)
{
    if (a->flying)
        return bg_fail(err, BG_ERR_INTERNAL, 0, "recovery comes before the first commit");
    /* A callback may commit; the flight starts on another thread, so it waits for the last
     * row. */
    a->flying = true;
    bool ok =
        (!r->request ||
         recover_rows(a,
                      "SELECT id, sha256, decided, claimed FROM open_request ORDER BY id",
                      request_row, r, data, err)) &&
        (!r->sandbox ||
         recover_rows(a, "SELECT ref, provider, info FROM sandbox ORDER BY created, ref",
                      sandbox_row, r, data, err)) &&
        (!r->uses || recover_rows(a, "SELECT rule, used FROM uses ORDER BY rule", uses_row,
                                  r, data, err));
    a->flying = false;
    start(a);
    return ok;
}

uint64_t bg_audit_next_id(struct bg_audit *a, struct bg_error *err)
{
    if (a->next_id >= a->ids_to) {
        a->ids_wanted = true; /* tries again, so that a disk with room again is noticed */
        start(a);
        bg_fail(err, BG_ERR_AUDIT, 0,
                "the audit can't be written: no request id could be reserved");
        return 0;
    }
    return (uint64_t)a->next_id++;
}

bool bg_audit_writable(const struct bg_audit *a)
{
    return a->writable;
}

void bg_audit_close(struct bg_audit *a)
{
    if (!a)
        return;
    a->closing = true;
    bg_serial_free(a->serial);
    /* The worker is gone; what was queued meanwhile (also by the answers) is written here.
     */
    while (a->first) {
        load(a);
        fly(a);
        landed(a);
    }
    /* Ids that nobody got are given back: only a crash leaves a gap. */
    a->flight = (struct flight){.ids_to = a->next_id, .head = true};
    fly(a);
    bg_store_close(&a->store);
    free(a);
}

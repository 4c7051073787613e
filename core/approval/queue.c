/* SPDX-License-Identifier: MIT */
/*
 * The queue's own life: waiters, the three clocks (pendingMs, detachMs, noConsoleMs), ends,
 * and how long what is final stays. Nothing is freed inside a call of the server's; only
 * timers free.
 */
#include "core/approval/queue.h"

#include <inttypes.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"

/* ---- waiters ---- */

static bool has_waiter(const struct bg_request *r, uint64_t waiter)
{
    for (size_t i = 0; i < r->n_waiters; i++)
        if (r->waiters[i] == waiter)
            return true;
    return false;
}

void bg_request_add_waiter(struct bg_request *r, uint64_t waiter)
{
    if (!waiter || has_waiter(r, waiter))
        return;
    r->waiters = bg_xrealloc(r->waiters, r->n_waiters + 1, sizeof *r->waiters);
    r->waiters[r->n_waiters++] = waiter;
}

bool bg_request_is_attached(const struct bg_request *r)
{
    if (r->n_waiters)
        return true;
    for (const struct bg_request *f = r->followers; f; f = f->sibling)
        if (f->n_waiters)
            return true;
    return false;
}

static void drop_waiter(struct bg_request *r, uint64_t waiter)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_waiters; i++)
        if (r->waiters[i] != waiter)
            r->waiters[n++] = r->waiters[i];
    r->n_waiters = n;
}

void bg_approvals_waiter_gone(struct bg_approvals *q, uint64_t waiter)
{
    for (struct bg_request *r = q->first; r; r = r->next) {
        if (!waiter || !has_waiter(r, waiter))
            continue;
        drop_waiter(r, waiter);
        struct bg_request *top = r->lead ? r->lead : r;
        if (bg_request_state_final(top->state))
            continue;
        bg_request_rearm(top);
        q->ev.changed(q->data, top);
    }
}

/* ---- clocks ---- */

static int64_t sooner(int64_t a, int64_t b)
{
    return !a ? b : !b ? a : a < b ? a : b;
}

/* When something becomes due; 0 = never. */
static int64_t due(const struct bg_request *r)
{
    int64_t detach = r->detached_mono ? r->detached_mono + r->q->config->detach_ms : 0;
    if (r->lead)
        return 0;
    if (bg_request_state_final(r->state))
        return r->final_mono + r->q->config->detach_ms;
    if (r->state == BG_RS_PENDING)
        return sooner(r->expires_mono, detach);
    if (r->state == BG_RS_APPROVED && !r->committing)
        return detach;
    return 0;
}

void bg_request_rearm(struct bg_request *r)
{
    if (!bg_request_state_final(r->state)) {
        if (bg_request_is_attached(r))
            r->detached_mono = 0;
        else if (!r->detached_mono)
            r->detached_mono = bg_mono_ms();
    }
    int64_t at = due(r), now = bg_mono_ms();
    if (at)
        bg_timer_start(r->timer, at > now ? at - now : 0, 0);
    else
        bg_timer_stop(r->timer);
}

static void request_free(struct bg_request *r);

void bg_request_tick(struct bg_request *r)
{
    int64_t now = bg_mono_ms(), at = due(r);
    if (!at || at > now || bg_request_state_final(r->state))
        return;
    char clock[16];
    bg_autofree char *why = NULL;
    if (r->state == BG_RS_PENDING && r->expires_mono && r->expires_mono <= now) {
        bg_duration_clock(r->expires_mono - r->asked_mono, clock, sizeof clock);
        why = bg_xasprintf("nobody decided within %s", clock);
    } else {
        bg_duration_clock(r->q->config->detach_ms, clock, sizeof clock);
        why = bg_xasprintf("the requester left and did not come back within %s%s", clock,
                           r->state == BG_RS_APPROVED ? "; the approval was not used" : "");
    }
    bg_request_end(r, BG_RE_EXPIRE, why, NULL, NULL, NULL, NULL);
}

void bg_request_on_timer(struct bg_request *r)
{
    if (!bg_request_state_final(r->state)) {
        bg_request_tick(r);
        if (!bg_request_state_final(r->state))
            bg_request_rearm(r);
        return;
    }
    if (r->prepare_due) /* the server still holds it; its answer frees it */
        return;
    if (due(r) > bg_mono_ms())
        bg_request_rearm(r);
    else
        request_free(r);
}

/* Nobody there: pending requests end noConsoleMs after the submit or after the last
 * operator left, whichever is later. */
static int64_t nobody_due(const struct bg_approvals *q, const struct bg_request *r)
{
    if (q->operators || r->state != BG_RS_PENDING || r->lead)
        return 0;
    int64_t since = r->asked_mono > q->alone_since ? r->asked_mono : q->alone_since;
    return r->no_wait ? 1 : since + q->config->no_console_ms;
}

void bg_nobody_rearm(struct bg_approvals *q)
{
    int64_t at = 0, now = bg_mono_ms();
    for (struct bg_request *r = q->first; r; r = r->next)
        at = sooner(at, nobody_due(q, r));
    if (at)
        bg_timer_start(q->nobody, at > now ? at - now : 0, 0);
    else
        bg_timer_stop(q->nobody);
}

static void on_nobody(struct bg_timer *t BG_UNUSED, void *data)
{
    struct bg_approvals *q = data;
    int64_t now = bg_mono_ms();
    for (struct bg_request *r = q->first, *next; r; r = next) {
        next = r->next;
        int64_t at = nobody_due(q, r);
        if (!at || at > now)
            continue;
        char clock[16];
        bg_duration_clock(q->config->no_console_ms, clock, sizeof clock);
        bg_autofree char *why =
            r->no_wait ? bg_xstrdup("nobody is there to decide")
                       : bg_xasprintf("nobody was there to decide for %s", clock);
        bg_request_deny(r, BG_BY_NOBODY, why);
    }
    bg_nobody_rearm(q);
}

void bg_approvals_operators(struct bg_approvals *q, size_t n)
{
    if (n == 0 && q->operators)
        q->alone_since = bg_mono_ms();
    q->operators = n;
    bg_nobody_rearm(q);
}

/* ---- ends ---- */

bool bg_request_step(struct bg_request *r, enum bg_request_event e)
{
    enum bg_request_state before = r->state;
    if (!bg_request_move(&r->state, e)) {
        bg_log(r->q->log, BG_LOG_ERROR, "request #%" PRIu64 ": %s is not possible while %s",
               r->id, bg_request_event_name(e), bg_request_state_name(before));
        return false;
    }
    for (struct bg_request *f = r->followers; f; f = f->sibling)
        f->state = r->state;
    return true;
}

static size_t text_bytes(const cJSON *j)
{
    size_t n = sizeof *j;
    for (const cJSON *c = j ? j->child : NULL; c; c = c->next)
        n += text_bytes(c) + (c->valuestring ? strlen(c->valuestring) : 0);
    return n;
}

static void drop_result(struct bg_request *r)
{
    r->q->result_bytes -= r->result_bytes;
    r->result_bytes = 0;
    cJSON_Delete(r->result);
    r->result = NULL;
}

static void unlink_follower(struct bg_request *f)
{
    struct bg_request **pp = &f->lead->followers;
    while (*pp != f)
        pp = &(*pp)->sibling;
    *pp = f->sibling;
    f->sibling = NULL;
    f->lead = NULL;
}

/* The lead goes while others still wait for a decision: the oldest of them is asked about
 * now. */
static void hand_on(struct bg_request *r)
{
    struct bg_request *heir = r->followers;
    if (!heir)
        return;
    unlink_follower(heir);
    heir->followers = r->followers;
    r->followers = NULL;
    for (struct bg_request *f = heir->followers; f; f = f->sibling)
        f->lead = heir;
    bg_request_rearm(heir);
    bg_nobody_rearm(heir->q);
    heir->q->ev.changed(heir->q->data, heir);
}

static void tell_final(struct bg_request *r)
{
    struct bg_approvals *q = r->q;
    r->final_wall = bg_wall_ms();
    r->final_mono = bg_mono_ms();
    r->expires_mono = 0;
    if (!r->result)
        r->result = bg_result_not_run(r);
    r->result_bytes = text_bytes(r->result);
    q->result_bytes += r->result_bytes;
    r->fetched = r->n_waiters > 0;
    q->n_live--;
    q->n_final++;
    r->final_bytes = 2 * bg_request_bytes(r); /* the bound fields are copies */
    q->final_bytes += r->final_bytes;
    bg_request_rearm(r);
    q->ev.final(q->data, r);
    r->n_waiters = 0;
    if (q->n_final > BG_FINAL_KEPT || q->final_bytes > BG_FINAL_KEPT_BYTES ||
        q->result_bytes > BG_RESULTS_KEPT_BYTES)
        bg_timer_start(q->kick, 0, 0);
}

static void record_end(struct bg_audit_batch *b, const struct bg_request *r,
                       const char *reason, cJSON *summary, uint64_t merged)
{
    cJSON *m = bg_jo();
    bg_jset_str(m, "state", bg_request_state_name(r->state));
    bg_jset_str(m, "reason", reason);
    if (merged)
        bg_jset_int(m, "mergedInto", (int64_t)merged);
    if (summary)
        bg_jset(m, "summary", summary);
    bg_audit_add(b, BG_AUDIT_FINISHED, r->id, r->sha_hex[0] ? r->sha_hex : NULL, m);
}

void bg_request_end(struct bg_request *r, enum bg_request_event e, const char *reason,
                    struct bg_audit_batch *b, cJSON *summary, bg_audit_fn done, void *data)
{
    struct bg_approvals *q = r->q;
    if (r->state == BG_RS_PENDING && (e == BG_RE_CANCEL || e == BG_RE_EXPIRE))
        hand_on(r);
    bool stepped = r->lead ? bg_request_move(&r->state, e) : bg_request_step(r, e);
    if (stepped) {
        b = b ? b : bg_audit_batch_new(q->audit);
        free(r->reason);
        r->reason = bg_xstrdup(reason);
        record_end(b, r, reason, summary, 0);
        for (struct bg_request *f = r->followers; f; f = f->sibling) {
            free(f->reason);
            f->reason = bg_xstrdup(reason);
            f->by = r->by;
            f->approved = r->approved;
            f->started_wall = r->started_wall;
            record_end(b, f, reason, NULL, r->id);
        }
    } else {
        cJSON_Delete(summary);
    }
    if (b)
        bg_ticket_commit(q, BG_TICKET_NOTE, r->id, b, done, data);
    if (!stepped)
        return;
    struct bg_request *lead = r->lead;
    if (lead) {
        unlink_follower(r);
        bg_request_rearm(lead);
        q->ev.changed(q->data, lead);
    }
    while (r->followers) {
        struct bg_request *f = r->followers;
        unlink_follower(f);
        f->result = r->result ? cJSON_Duplicate(r->result, true) : NULL;
        tell_final(f);
    }
    tell_final(r);
}

/* ---- what is final stays for detachMs, within bounds ---- */

static void request_free(struct bg_request *r)
{
    struct bg_approvals *q = r->q;
    *(r->prev ? &r->prev->next : &q->first) = r->next;
    *(r->next ? &r->next->prev : &q->last) = r->prev;
    if (bg_request_state_final(r->state))
        q->n_final--;
    else
        q->n_live--;
    q->final_bytes -= r->final_bytes;
    drop_result(r);
    bg_timer_free(r->timer);
    bg_body_free(r->body);
    bg_bound_free(&r->bound);
    free(r->bind.workdir);
    bg_strv_free(r->bind.argv);
    free((char *)r->facts.principal);
    free((char *)r->facts.provider);
    free((char *)r->facts.image_id);
    free((char *)r->facts.network);
    bg_actor_clear(&r->who);
    bg_actor_clear(&r->decider);
    free(r->session_id);
    cJSON_Delete(r->spec);
    free(r->notes);
    bg_policy_free(r->project);
    free(r->policy_rule);
    free(r->policy_message);
    free(r->waiters);
    free(r->reason);
    free(r);
}

static struct bg_request *oldest_final(struct bg_approvals *q, bool with_result,
                                       bool fetched)
{
    for (struct bg_request *r = q->first; r; r = r->next)
        if (bg_request_state_final(r->state) && !r->prepare_due &&
            (!with_result || (r->result && r->fetched == fetched)))
            return r;
    return NULL;
}

/* Results that were fetched go first, the oldest first. */
static void shrink(struct bg_approvals *q)
{
    struct bg_request *r;
    while (q->result_bytes > BG_RESULTS_KEPT_BYTES &&
           ((r = oldest_final(q, true, true)) || (r = oldest_final(q, true, false))))
        drop_result(r);
    while ((q->n_final > BG_FINAL_KEPT || q->final_bytes > BG_FINAL_KEPT_BYTES) &&
           (r = oldest_final(q, false, false)))
        request_free(r);
}

/* Next turn: new requests are prepared, what is too much goes. */
static void on_kick(struct bg_timer *t BG_UNUSED, void *data)
{
    struct bg_approvals *q = data;
    for (struct bg_request *r = q->first, *next; r; r = next) {
        next = r->next;
        if (r->state != BG_RS_RECEIVED || !bg_request_step(r, BG_RE_PREPARE))
            continue;
        r->prepare_due = true;
        q->ev.prepare(q->data, r);
    }
    shrink(q);
}

/* ---- life ---- */

struct bg_approvals *bg_approvals_new(struct bg_loop *loop, const struct bg_config *c,
                                      struct bg_audit *a, struct bg_log *log,
                                      const struct bg_approvals_events *ev, void *data)
{
    struct bg_approvals *q = bg_xcalloc(1, sizeof *q);
    q->loop = loop;
    q->config = c;
    q->audit = a;
    q->log = log;
    q->ev = *ev;
    q->data = data;
    q->alone_since = bg_mono_ms();
    q->nobody = bg_timer_new(loop, on_nobody, q);
    q->kick = bg_timer_new(loop, on_kick, q);
    q->refs = 1;
    return q;
}

static void unref(struct bg_approvals *q)
{
    if (--q->refs == 0)
        free(q);
}

static void counts_free(struct bg_counts *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->v[i].name);
    free(c->v);
}

void bg_approvals_free(struct bg_approvals *q)
{
    if (!q)
        return;
    for (struct bg_request *r = q->first, *next; r; r = next) {
        next = r->next;
        if (r->state < BG_RS_RUNNING && !r->lead) {
            while (r->followers) /* each ends by itself; there is nobody to hand on to */
                bg_request_end(r->followers, BG_RE_CANCEL, "the server stopped", NULL, NULL,
                               NULL, NULL);
            bg_request_end(r, BG_RE_CANCEL, "the server stopped", NULL, NULL, NULL, NULL);
        }
    }
    q->dead = true;
    while (q->first)
        request_free(q->first);
    bg_timer_free(q->nobody);
    bg_timer_free(q->kick);
    bg_deny_free(&q->memory);
    counts_free(&q->uses);
    counts_free(&q->runs);
    unref(q);
}

int64_t *bg_count_of(struct bg_counts *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->v[i].name, name) == 0)
            return &c->v[i].count;
    if (c->n == BG_COUNTS_MAX) { /* the oldest makes room */
        free(c->v[0].name);
        memmove(c->v, c->v + 1, --c->n * sizeof *c->v);
    }
    c->v = bg_xrealloc(c->v, c->n + 1, sizeof *c->v);
    c->v[c->n].name = bg_xstrdup(name);
    c->v[c->n].count = 0;
    return &c->v[c->n++].count;
}

/* ---- tickets ---- */

struct ticket {
    struct bg_approvals *q;
    enum bg_ticket_kind kind;
    uint64_t id;
    bg_audit_fn done;
    void *data;
};

static void on_ticket(void *data, const struct bg_error *err)
{
    struct ticket *t = data;
    struct bg_approvals *q = t->q;
    if (!q->dead) {
        struct bg_request *r = bg_approvals_get(q, t->id);
        if (r && t->kind != BG_TICKET_NOTE)
            bg_request_durable(r, t->kind, err);
        if (t->done)
            t->done(t->data, err);
    }
    unref(q);
    free(t);
}

void bg_ticket_commit(struct bg_approvals *q, enum bg_ticket_kind kind, uint64_t id,
                      struct bg_audit_batch *b, bg_audit_fn done, void *data)
{
    struct ticket *t = bg_xcalloc(1, sizeof *t);
    *t = (struct ticket){q, kind, id, done, data};
    q->refs++;
    bg_audit_commit(b, on_ticket, t);
}

/* ---- looking ---- */

struct bg_request *bg_approvals_get(struct bg_approvals *q, uint64_t id)
{
    for (struct bg_request *r = q->last; r && r->id >= id; r = r->prev)
        if (r->id == id)
            return r;
    return NULL;
}

struct bg_request *bg_approvals_next(struct bg_approvals *q, struct bg_request *after)
{
    struct bg_request *r = after ? after->next : q->first;
    while (r && r->lead)
        r = r->next;
    return r;
}

size_t bg_approvals_pending(const struct bg_approvals *q)
{
    size_t n = 0;
    for (const struct bg_request *r = q->first; r; r = r->next)
        n += r->state == BG_RS_PENDING && !r->lead;
    return n;
}

size_t bg_approvals_forget_deny(struct bg_approvals *q, uint32_t uid)
{
    size_t n = bg_deny_forget(&q->memory, uid, bg_mono_ms());
    struct bg_audit_batch *b = bg_audit_batch_new(q->audit);
    cJSON *m = bg_jo();
    bg_jset_int(m, "uid", uid);
    bg_jset_int(m, "forgotten", (int64_t)n);
    bg_audit_add(b, BG_AUDIT_FORGET_DENY, 0, NULL, m);
    bg_audit_commit(b, NULL, NULL);
    return n;
}

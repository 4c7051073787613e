/* SPDX-License-Identifier: MIT */
/*
 * Decisions, claims, run. The state moves when the decision is handed to the audit, so a
 * second decision finds it taken; `run` is called when the answer says that decision and
 * claim are on disk, if somebody still waits for the result. One caller of `run`, one way
 * to it.
 */
#include <ctype.h>
#include <stdio.h>

#include "core/approval/queue.h"
#include "core/base/clock.h"
#include "core/base/fault.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/base/values.h"

/* ---- from decision to run ---- */

static void commit(struct bg_request *r, enum bg_ticket_kind kind, struct bg_audit_batch *b,
                   bg_audit_fn done, void *data)
{
    r->committing = true;
    bg_fault_point("approval.commit");
    bg_ticket_commit(r->q, kind, r->id, b, done, data);
    bg_fault_point("approval.committed");
    bg_request_rearm(r);
}

static void add_claim(struct bg_audit_batch *b, const struct bg_request *r)
{
    cJSON *m = bg_jo();
    bg_jset_int(m, "uid", r->who.uid);
    bg_audit_add(b, BG_AUDIT_CLAIMED, r->id, r->sha_hex, m);
}

void bg_request_claim(struct bg_request *r)
{
    struct bg_audit_batch *b = bg_audit_batch_new(r->q->audit);
    add_claim(b, r);
    commit(r, BG_TICKET_CLAIMED, b, NULL, NULL);
}

void bg_request_approve(struct bg_request *r, enum bg_by by, struct bg_audit_batch *b,
                        bg_audit_fn done, void *data)
{
    r->by = by;
    r->approved = true;
    if (by == BG_BY_POLICY) {
        cJSON *m = bg_record_decided(r, true, NULL);
        bg_record_details(m, r);
        bg_audit_add(b, BG_AUDIT_DECIDED, r->id, r->sha_hex, m);
    }
    bg_record_code(b, r);
    bool attached = bg_request_is_attached(r);
    if (attached)
        add_claim(b, r);
    bool moved = bg_request_step(r, BG_RE_APPROVE);
    commit(r, attached && moved ? BG_TICKET_CLAIMED : BG_TICKET_DECIDED, b, done, data);
    r->q->ev.changed(r->q->data, r);
}

void bg_request_deny(struct bg_request *r, enum bg_by by, const char *reason)
{
    struct bg_audit_batch *b = bg_audit_batch_new(r->q->audit);
    bool asked = r->state >= BG_RS_PENDING;
    r->by = by;
    r->approved = false;
    cJSON *m = bg_record_decided(r, false, reason);
    if (r->prepared && !asked)
        bg_record_details(m, r);
    bg_audit_add(b, BG_AUDIT_DECIDED, r->id, r->sha_hex[0] ? r->sha_hex : NULL, m);
    bg_request_end(r, BG_RE_DENY, reason, b, NULL, NULL, NULL);
}

static void run(struct bg_request *r)
{
    struct bg_approvals *q = r->q;
    if (!bg_request_step(r, BG_RE_RUN))
        return;
    r->claimed = true;
    ++*bg_count_of(&q->runs, r->bind.instance);
    bg_request_rearm(r);
    bg_fault_point("approval.run");
    q->ev.run(q->data, r);
    bg_fault_point("approval.ran");
}

void bg_request_durable(struct bg_request *r, enum bg_ticket_kind kind,
                        const struct bg_error *err)
{
    static const char cant[] = "the decision can't be recorded (audit)";
    if (kind == BG_TICKET_RECORD) {
        if (err && r->state < BG_RS_RUNNING)
            bg_request_deny(r, BG_BY_AUDIT, cant);
        return;
    }
    r->committing = false;
    if (r->state != BG_RS_APPROVED) /* cancelled meanwhile */
        return;
    if (err)
        bg_request_deny(r, BG_BY_AUDIT, cant);
    else if (!bg_request_is_attached(r))
        bg_request_rearm(r); /* it left; a claim within detachMs brings it here again */
    else if (kind == BG_TICKET_CLAIMED)
        run(r);
    else
        bg_request_claim(r);
}

void bg_request_started(struct bg_request *r)
{
    if (r->state != BG_RS_RUNNING || r->started_wall)
        return;
    r->started_wall = bg_wall_ms();
    struct bg_audit_batch *b = bg_audit_batch_new(r->q->audit);
    cJSON *m = bg_jo();
    bg_jset_str(m, "session", r->session_id);
    bg_audit_add(b, BG_AUDIT_STARTED, r->id, r->sha_hex, m);
    bg_ticket_commit(r->q, BG_TICKET_NOTE, r->id, b, NULL, NULL);
    r->q->ev.changed(r->q->data, r);
}

static enum bg_request_event event_of(enum bg_request_state s)
{
    static const struct {
        enum bg_request_state state;
        enum bg_request_event event;
    } ends[] = {{BG_RS_DONE, BG_RE_DONE},
                {BG_RS_TIMED_OUT, BG_RE_TIMED_OUT},
                {BG_RS_KILLED, BG_RE_KILLED},
                {BG_RS_LOST, BG_RE_LOST},
                {BG_RS_INTERRUPTED, BG_RE_INTERRUPTED}};
    for (size_t i = 0; i < bg_countof(ends); i++)
        if (ends[i].state == s)
            return ends[i].event;
    return BG_RE_FAILED;
}

void bg_request_finished(struct bg_request *r, enum bg_request_state state,
                         const char *reason, cJSON *result, cJSON *summary)
{
    if (r->state != BG_RS_RUNNING) {
        bg_log(r->q->log, BG_LOG_ERROR, "request #%llu finished while %s",
               (unsigned long long)r->id, bg_request_state_name(r->state));
        cJSON_Delete(result);
        cJSON_Delete(summary);
        return;
    }
    r->result = result;
    bg_fault_point("approval.finish");
    bg_request_end(r, event_of(state), reason, NULL, summary, NULL, NULL);
    bg_fault_point("approval.finished");
}

/* ---- the operator's decision ---- */

static bool hash_fits(const struct bg_request *r, const char *sha, struct bg_error *err)
{
    size_t n = sha ? strlen(sha) : 0;
    if (n < BG_SHA_PREFIX_MIN)
        return bg_fail(err, BG_ERR_HASH_MISMATCH, 0, "give at least %d digits of the hash",
                       BG_SHA_PREFIX_MIN);
    for (size_t i = 0; i < n; i++)
        if (n > BG_SHA256_HEX || tolower((unsigned char)sha[i]) != r->sha_hex[i])
            return bg_fail(err, BG_ERR_HASH_MISMATCH, 0,
                           "request #%04llu has another hash: look at it again",
                           (unsigned long long)r->id);
    return true;
}

static bool undecided(struct bg_request *r, struct bg_error *err)
{
    unsigned long long id = r->id;
    if (r->state == BG_RS_PENDING)
        return true;
    if (r->state < BG_RS_PENDING)
        return bg_fail(err, BG_ERR_NOT_FOUND, 0, "request #%04llu is still being prepared",
                       id);
    if (r->state == BG_RS_EXPIRED)
        return bg_fail(err, BG_ERR_EXPIRED, 0, "request #%04llu has expired: %s", id,
                       r->reason);
    bg_autofree char *words = bg_decision_words(r);
    return bg_fail(err, BG_ERR_ALREADY_DECIDED, 0, "request #%04llu was already %s", id,
                   words);
}

static bool hazards_named(const struct bg_request *r, uint32_t ack, struct bg_error *err)
{
    uint32_t missing = r->hazards & ~ack;
    if (!missing)
        return true;
    bg_autojson cJSON *names = bg_hazard_names(missing);
    bg_autofree char *list = bg_json_join(names, "");
    return bg_fail(err, BG_ERR_HAZARDS, 0, "these hazards were not acknowledged: %s", list);
}

static bool text_fits(const char *s, const char *what, struct bg_error *err)
{
    if (s && (strlen(s) > BG_REASON_MAX || !bg_utf8_valid(s, strlen(s))))
        return bg_fail(err, BG_ERR_USAGE, 0, "the %s must be text of at most %d bytes",
                       what, BG_REASON_MAX);
    return true;
}

/* Everything but the state: may this one decide this, this way? */
static bool may_decide(const struct bg_request *r, const struct bg_decide *d,
                       const struct bg_actor *who, struct bg_error *err)
{
    const struct bg_config *c = r->q->config;
    if (d->rev && d->rev != r->rev)
        return bg_fail(err, BG_ERR_HASH_MISMATCH, 0,
                       "request #%04llu was changed meanwhile: look at it again",
                       (unsigned long long)r->id);
    if (!hash_fits(r, d->sha256, err))
        return false;
    if (d->scope != BG_SCOPE_ONCE)
        return bg_fail(err, BG_ERR_UNSUPPORTED, 0, "only the scope `once` is there");
    if (c->operator_pin)
        return bg_fail(
            err, BG_ERR_UNSUPPORTED, 0,
            "operator.auth: pin is not there yet, and without it nothing is decided");
    if (!who->interactive && !c->operator_headless)
        return bg_fail(err, BG_ERR_FORBIDDEN, 0,
                       "decisions without a terminal are off (operator.headless: false)");
    for (const struct bg_request *f = r->followers; f; f = f->sibling)
        if (!bg_kin_apart(&f->kin, who, err)) /* whoever joined it asks for it as well */
            return false;
    return bg_kin_apart(&r->kin, who, err) &&
           (!d->approve || hazards_named(r, d->ack, err));
}

static void record_refusal(struct bg_request *r, const struct bg_decide *d,
                           const struct bg_actor *who, const struct bg_error *why)
{
    struct bg_audit_batch *b = bg_audit_batch_new(r->q->audit);
    cJSON *m = bg_jo();
    bg_jset_str(m, "what", d->approve ? "approve" : "deny");
    bg_jset_str(m, "why", bg_errc_name(why->code));
    bg_record_actor(m, who);
    bg_audit_add(b, BG_AUDIT_REFUSED, r->id, r->sha_hex, m);
    bg_ticket_commit(r->q, BG_TICKET_NOTE, r->id, b, NULL, NULL);
}

static cJSON *decision_record(const struct bg_request *r, const struct bg_decide *d,
                              const char *reason)
{
    cJSON *m = bg_record_decided(r, d->approve, reason);
    bg_jset_str(m, "note", d->note);
    bg_jset(m, "ack", bg_hazard_names(d->ack));
    bg_jset_int(m, "viewedTo", d->viewed_to);
    bg_jset_bool(m, "seen", r->seen);
    return m;
}

bool bg_approvals_decide(struct bg_approvals *q, const struct bg_decide *d,
                         const struct bg_actor *who, bg_audit_fn done, void *data,
                         struct bg_error *err)
{
    struct bg_error why = {0};
    struct bg_request *r = bg_approvals_get(q, d->id);
    if (!r)
        return bg_fail(err, BG_ERR_NOT_FOUND, 0, "request #%04llu is not known (any more)",
                       (unsigned long long)d->id);
    r = r->lead ? r->lead : r;
    bg_request_tick(r); /* the clock decides, not when its timer gets a turn */
    if (!undecided(r, err) || !text_fits(d->reason, "reason", err) ||
        !text_fits(d->note, "note", err))
        return false;
    if (!may_decide(r, d, who, &why)) {
        record_refusal(r, d, who, &why);
        if (err)
            *err = why;
        return false;
    }
    bg_actor_copy(&r->decider, who);
    r->by = BG_BY_OPERATOR;
    struct bg_audit_batch *b = bg_audit_batch_new(q->audit);
    if (d->approve) {
        bg_audit_add(b, BG_AUDIT_DECIDED, r->id, r->sha_hex,
                     decision_record(r, d, d->reason));
        bg_request_approve(r, BG_BY_OPERATOR, b, done, data);
        return true;
    }
    const char *reason =
        d->reason && *d->reason ? d->reason : "the operator gave no reason";
    bg_audit_add(b, BG_AUDIT_DECIDED, r->id, r->sha_hex, decision_record(r, d, reason));
    bg_record_code(b, r);
    bg_deny_add(&q->memory, &r->deny_key, r->who.uid,
                bg_mono_ms() + q->config->deny_memory_ms);
    bg_request_end(r, BG_RE_DENY, reason, b, NULL, done, data);
    return true;
}

bool bg_approvals_extend(struct bg_approvals *q, uint64_t id, uint32_t rev, int64_t by_ms,
                         struct bg_error *err)
{
    struct bg_request *r = bg_approvals_get(q, id);
    if (!r)
        return bg_fail(err, BG_ERR_NOT_FOUND, 0, "request #%04llu is not known (any more)",
                       (unsigned long long)id);
    r = r->lead ? r->lead : r;
    bg_request_tick(r);
    if (!undecided(r, err))
        return false;
    if (rev && rev != r->rev)
        return bg_fail(err, BG_ERR_HASH_MISMATCH, 0,
                       "request #%04llu was changed meanwhile", (unsigned long long)id);
    int64_t left = r->expires_mono - bg_mono_ms();
    if (by_ms < 1 || by_ms > BG_WAIT_MAX_MS - left)
        return bg_fail(err, BG_ERR_USAGE, 0, "a request can wait at most %d hours",
                       BG_WAIT_MAX_MS / 3600000);
    r->expires_mono += by_ms;
    r->expires_wall += by_ms;
    bg_request_rearm(r);
    q->ev.changed(q->data, r);
    return true;
}

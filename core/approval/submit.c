/* SPDX-License-Identifier: MIT */
/*
 * From submit to pending: caps, call ids, and, once the server has resolved what would run,
 * the order of contract.md: policy denies, memory denies, an identical request is joined, a
 * rule allows, nobody is there, else an operator is asked.
 */
#include <stdio.h>

#include "core/approval/queue.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"

/* ---- submit ---- */

static struct bg_request *find_call(struct bg_approvals *q, uint32_t uid,
                                    const char *call_id)
{
    for (struct bg_request *r = q->last; call_id && r; r = r->prev)
        if (r->who.uid == uid && r->body->call_id && strcmp(r->body->call_id, call_id) == 0)
            return r;
    return NULL;
}

static bool under_caps(struct bg_approvals *q, uint32_t uid, uint64_t waiter,
                       struct bg_error *err)
{
    size_t of_uid = 0, of_conn = 0;
    for (struct bg_request *r = q->first; r; r = r->next) {
        if (r->state >= BG_RS_RUNNING)
            continue;
        of_uid += r->who.uid == uid;
        for (size_t i = 0; waiter && i < r->n_waiters; i++)
            of_conn += r->waiters[i] == waiter;
    }
    if (of_conn >= BG_PENDING_PER_CONN)
        return bg_fail(err, BG_ERR_LIMIT, 0,
                       "this connection has %d requests waiting already",
                       BG_PENDING_PER_CONN);
    if (of_uid >= BG_PENDING_PER_UID)
        return bg_fail(err, BG_ERR_LIMIT, 0, "uid %u has %d requests waiting already", uid,
                       BG_PENDING_PER_UID);
    if (q->n_live >= BG_PENDING_MAX)
        return bg_fail(err, BG_ERR_LIMIT, 0, "%d requests are open already",
                       BG_PENDING_MAX);
    return true;
}

static void on_request_timer(struct bg_timer *t BG_UNUSED, void *data)
{
    bg_request_on_timer(data);
}

static struct bg_request *request_new(struct bg_approvals *q, uint64_t id,
                                      struct bg_body *body, const struct bg_actor *who)
{
    struct bg_request *r = bg_xcalloc(1, sizeof *r);
    r->q = q;
    r->id = id;
    r->rev = 1;
    r->body = body;
    bg_actor_copy(&r->who, who);
    r->asked_wall = bg_wall_ms();
    r->asked_mono = bg_mono_ms();
    r->timer = bg_timer_new(q->loop, on_request_timer, r);
    bg_kin_look(&r->kin, who);
    r->prev = q->last;
    *(q->last ? &q->last->next : &q->first) = r;
    q->last = r;
    q->n_live++;
    return r;
}

/* Somebody waits (again): a decided request that only lacked that is claimed now. */
static void join(struct bg_request *r, uint64_t waiter)
{
    struct bg_request *top = r->lead ? r->lead : r;
    if (bg_request_state_final(r->state)) {
        r->fetched = true;
        return;
    }
    bg_request_add_waiter(r, waiter);
    bg_request_rearm(top);
    if (top->state == BG_RS_APPROVED && !top->committing && bg_request_is_attached(top))
        bg_request_claim(top);
    top->q->ev.changed(top->q->data, top);
}

struct bg_request *bg_approvals_submit(struct bg_approvals *q, struct bg_body *body,
                                       const struct bg_actor *who, uint64_t waiter,
                                       bool no_wait, bool *existing, struct bg_error *err)
{
    struct bg_request *r = find_call(q, who->uid, body->call_id);
    *existing = false;
    if (r) {
        bool same = bg_body_same(r->body, body);
        bg_body_free(body);
        if (!same) {
            bg_fail(err, BG_ERR_CONFLICT, 0,
                    "callId \"%s\" belongs to another request (#%04llu) with other bytes",
                    r->body->call_id, (unsigned long long)r->id);
            return NULL;
        }
        *existing = true;
        join(r, waiter);
        return r;
    }
    uint64_t id =
        under_caps(q, who->uid, waiter, err) ? bg_audit_next_id(q->audit, err) : 0;
    if (!id) {
        bg_body_free(body);
        return NULL;
    }
    r = request_new(q, id, body, who);
    r->no_wait = no_wait;
    bg_request_add_waiter(r, waiter);
    bg_request_rearm(r);
    struct bg_audit_batch *b = bg_audit_batch_new(q->audit);
    bg_audit_add(b, BG_AUDIT_RECEIVED, r->id, NULL, bg_record_received(r));
    bg_ticket_commit(q, BG_TICKET_RECORD, r->id, b, NULL, NULL);
    bg_timer_start(q->kick, 0, 0);
    return r;
}

/* The requester's way back. */
static struct bg_request *find_own(struct bg_approvals *q, uint64_t id, const char *sha256,
                                   uint32_t uid, struct bg_error *err)
{
    struct bg_request *r = bg_approvals_get(q, id);
    if (!r) {
        bg_fail(err, BG_ERR_NOT_FOUND, 0, "request #%04llu is not known (any more)",
                (unsigned long long)id);
        return NULL;
    }
    if (r->who.uid != uid) {
        bg_fail(err, BG_ERR_FORBIDDEN, 0, "request #%04llu belongs to another user",
                (unsigned long long)id);
        return NULL;
    }
    if (strcmp(r->sha_hex, sha256) != 0) {
        bg_fail(err, BG_ERR_HASH_MISMATCH, 0, "request #%04llu has another hash",
                (unsigned long long)id);
        return NULL;
    }
    return r;
}

bool bg_request_attach(struct bg_approvals *q, uint64_t id, const char *sha256,
                       uint32_t uid, uint64_t waiter, struct bg_request **out,
                       struct bg_error *err)
{
    struct bg_request *r = find_own(q, id, sha256, uid, err);
    if (!r)
        return false;
    join(r, waiter);
    *out = r;
    return true;
}

/* Of the identical requests that share r's run, does another one still have a waiter? */
static bool others_wait(const struct bg_request *r)
{
    const struct bg_request *top = r->lead ? r->lead : r;
    bool any = top != r && top->n_waiters;
    for (const struct bg_request *f = top->followers; f; f = f->sibling)
        any |= f != r && f->n_waiters;
    return any;
}

bool bg_request_cancel(struct bg_approvals *q, uint64_t id, const char *sha256,
                       uint32_t uid, struct bg_error *err)
{
    struct bg_request *r = find_own(q, id, sha256, uid, err);
    if (!r)
        return false;
    if (r->state == BG_RS_RUNNING && others_wait(r)) {
        r->n_waiters = 0; /* only this one goes; what runs is the others' too */
        q->ev.changed(q->data, r->lead ? r->lead : r);
    } else if (r->state == BG_RS_RUNNING)
        q->ev.kill(q->data, r->lead ? r->lead : r);
    else if (!bg_request_state_final(r->state))
        bg_request_end(r, BG_RE_CANCEL, "taken back by who asked", NULL, NULL, NULL, NULL);
    return true;
}

/* ---- prepared ---- */

static void keep_facts(struct bg_request *r, const struct bg_facts *f)
{
    r->facts = *f;
    r->facts.kind = bg_request_kind_name(r->body->kind);
    r->facts.principal = bg_xasprintf("uid:%u", r->who.uid);
    r->facts.language = r->body->language;
    r->facts.code = (struct bg_str){r->body->code, r->body->code_len};
    r->facts.argv = r->body->kind == BG_REQ_EXEC ? r->bind.argv : NULL;
    r->facts.cwd = r->body->cwd;
    r->facts.sha256 = r->code_hex;
    r->facts.timeout_ms = r->bind.timeout_ms;
    r->facts.provider = bg_xstrdup(f->provider);
    r->facts.image_id = bg_xstrdup(f->image_id);
    r->facts.network = bg_xstrdup(f->network);
    r->facts.now_wall_ms = bg_wall_ms();
}

static void find_hazards(struct bg_request *r, const struct bg_prepared *p)
{
    struct bg_hazards *h = bg_xmalloc(sizeof *h);
    bg_hazards_find(h, r->body, &r->bind, &r->facts, p->spec_env, p->root_user);
    r->hazards = r->facts.hazards = h->bits;
    r->n_notes = h->n;
    r->notes = h->n ? bg_xmemdup(h->notes, h->n * sizeof *h->notes) : NULL;
    free(h);
    struct bg_scan *s = bg_xmalloc(sizeof *s);
    bg_text_scan(r->body->code ? r->body->code : "", r->body->code_len, s);
    r->lines = s->lines;
    free(s);
}

static void bind(struct bg_request *r, const struct bg_prepared *p)
{
    r->prepared = true;
    r->bind = p->bind;
    r->bind.uid = r->who.uid; /* the principal is who asked, whatever was filled in */
    r->bind.workdir = bg_xstrdup(p->bind.workdir);
    r->bind.argv = p->bind.argv ? bg_strv_dup(p->bind.argv) : NULL;
    r->session_id = bg_xstrdup(p->session_id);
    r->spec = p->spec_json;
    r->may_merge = p->may_merge;
    bg_bound_build(&r->bound, r->body, &r->bind);
    r->sha = bg_bound_sha256(&r->bound, false);
    r->deny_key = bg_bound_sha256(&r->bound, true);
    bg_sha256_hex(&r->sha, r->sha_hex);
    bg_sha256_hex(&r->deny_key, r->code_hex);
    keep_facts(r, &p->facts);
    find_hazards(r, p);
}

static void ask_policy(struct bg_request *r)
{
    struct bg_policy *p = r->q->policy;
    r->facts.now_wall_ms = bg_wall_ms();
    struct bg_verdict v =
        p ? bg_policy_decide(p, &r->facts) : (struct bg_verdict){.decision = BG_DECIDE_ASK};
    if (r->project) {
        struct bg_verdict w = bg_policy_decide(r->project, &r->facts);
        /* Its default is to ask, which says nothing; a rule of it, or a denial, does. */
        if (w.decision < v.decision && (w.rule || w.decision == BG_DECIDE_DENY))
            v = w;
    }
    r->policy = v.decision;
    r->policy_downgraded = v.downgraded;
    free(r->policy_rule);
    free(r->policy_message);
    r->policy_rule = bg_xstrdup(v.rule);
    r->policy_message = bg_xstrdup(v.message);
}

static void deny_by_policy(struct bg_request *r)
{
    bg_autofree char *why = r->policy_message
                                ? bg_xstrdup(r->policy_message)
                                : bg_xasprintf("denied by the policy (%s%s)",
                                               r->policy_rule ? "rule " : "its default",
                                               r->policy_rule ? r->policy_rule : "");
    bg_request_deny(r, BG_BY_POLICY, why);
}

static void deny_by_memory(struct bg_request *r)
{
    bg_autofree char *why = bg_xasprintf(
        "the same bytes were denied before (%u times); asking again will not help",
        bg_deny_count(&r->q->memory, &r->deny_key) - 1);
    bg_request_deny(r, BG_BY_MEMORY, why);
}

static void ask(struct bg_request *r, uint64_t merged)
{
    struct bg_approvals *q = r->q;
    r->expires_mono = bg_mono_ms() + q->config->pending_ms;
    r->expires_wall = bg_wall_ms() + q->config->pending_ms;
    struct bg_audit_batch *b = bg_audit_batch_new(q->audit);
    cJSON *m = bg_jo();
    if (merged)
        bg_jset_int(m, "mergedInto", (int64_t)merged);
    bg_jset_time(m, "expiresAt", r->expires_wall);
    bg_record_details(m, r);
    bg_audit_add(b, BG_AUDIT_PENDING, r->id, r->sha_hex, m);
    bg_ticket_commit(q, BG_TICKET_RECORD, r->id, b, NULL, NULL);
    bg_request_rearm(r);
}

/* An identical request that still waits for its decision or for its requester. */
static struct bg_request *find_lead(const struct bg_request *r)
{
    for (struct bg_request *o = r->q->first; r->may_merge && o; o = o->next)
        if (o != r && !o->lead && o->may_merge && o->prepared &&
            (o->state == BG_RS_PENDING || o->state == BG_RS_APPROVED) &&
            bg_sha256_eq(&o->sha, &r->sha))
            return o;
    return NULL;
}

static void follow(struct bg_request *r, struct bg_request *lead)
{
    enum bg_request_event e = lead->state == BG_RS_APPROVED ? BG_RE_APPROVE : BG_RE_ASK;
    if (!bg_request_step(r, e))
        return;
    struct bg_request **pp = &lead->followers;
    while (*pp)
        pp = &(*pp)->sibling;
    *pp = r;
    r->lead = lead;
    ask(r, lead->id);
    bg_request_rearm(lead);
    if (lead->state == BG_RS_APPROVED && !lead->committing && bg_request_is_attached(lead))
        bg_request_claim(lead);
    lead->q->ev.changed(lead->q->data, lead);
}

static void approve_by_rule(struct bg_request *r)
{
    struct bg_approvals *q = r->q;
    struct bg_audit_batch *b = bg_audit_batch_new(q->audit);
    bg_policy_used(q->policy, r->policy_rule);
    bg_audit_set_uses(b, r->policy_rule, ++*bg_count_of(&q->uses, r->policy_rule));
    bg_request_approve(r, BG_BY_POLICY, b, NULL, NULL);
}

void bg_request_prepared(struct bg_request *r, const struct bg_prepared *p,
                         const struct bg_error *err)
{
    struct bg_approvals *q = r->q;
    r->prepare_due = false;
    if (r->state != BG_RS_PREPARING) { /* it ended meanwhile */
        if (p) {
            cJSON_Delete(p->spec_json);
            bg_policy_free(p->project);
        }
        bg_request_rearm(r);
        return;
    }
    if (err) {
        bg_request_end(r, BG_RE_UNPREPARED, err->msg, NULL, NULL, NULL, NULL);
        return;
    }
    bind(r, p);
    r->project = p->project;
    ask_policy(r);
    struct bg_request *lead = find_lead(r);
    if (r->policy == BG_DECIDE_DENY) {
        deny_by_policy(r);
    } else if (bg_deny_hit(&q->memory, &r->deny_key, bg_mono_ms())) {
        deny_by_memory(r);
    } else if (lead && lead->state == BG_RS_APPROVED) {
        follow(r, lead);
    } else if (r->policy == BG_DECIDE_ALLOW && r->policy_rule) {
        approve_by_rule(r);
    } else if (r->no_wait && !q->operators) {
        bg_request_deny(r, BG_BY_NOBODY, "nobody is there to decide");
    } else if (lead) {
        follow(r, lead);
    } else if (bg_request_step(r, BG_RE_ASK)) {
        ask(r, 0);
        bg_nobody_rearm(q);
        q->ev.changed(q->data, r);
    }
}

/* ---- policy ---- */

void bg_approvals_uses(struct bg_approvals *q, const char *rule, int64_t used)
{
    *bg_count_of(&q->uses, rule) = used;
    if (q->policy)
        bg_policy_uses_set(q->policy, rule, used);
}

void bg_approvals_set_policy(struct bg_approvals *q, struct bg_policy *p)
{
    q->policy = p;
    for (size_t i = 0; p && i < q->uses.n; i++)
        bg_policy_uses_set(p, q->uses.v[i].name, q->uses.v[i].count);
    /* What waits must pass the new denies; a new allow decides nothing that was asked
     * already. */
    for (struct bg_request *r = q->first; r; r = r->next) {
        if (r->state != BG_RS_PENDING || r->lead)
            continue;
        ask_policy(r);
        if (r->policy == BG_DECIDE_DENY)
            deny_by_policy(r);
    }
}

/* ---- after a crash ---- */

void bg_approvals_recover(struct bg_approvals *q, const struct bg_audit_open_request *o)
{
    struct bg_audit_batch *b = bg_audit_batch_new(q->audit);
    cJSON *m = bg_jo();
    enum bg_request_state s = o->claimed ? BG_RS_INTERRUPTED : BG_RS_LOST;
    bg_jset_str(m, "state", bg_request_state_name(s));
    bg_jset_str(m, "reason",
                o->claimed ? "the server ended while it ran; it may have run"
                           : "the server ended before it ran");
    bg_jset_bool(m, "decided", o->decided);
    bg_audit_add(b, BG_AUDIT_FINISHED, o->id, o->sha256[0] ? o->sha256 : NULL, m);
    bg_audit_commit(b, NULL, NULL);
}

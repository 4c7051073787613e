/* SPDX-License-Identifier: MIT */
/*
 * The queue and its state machine (contract.md 4, 5). Default deny: only a durable decision
 * for exactly these bytes, with a requester attached, makes one call of `run`.
 *
 * received -> preparing -> pending -> approved -> running -> final. machine.c holds the
 * table; an event that has no row is refused and logged, never guessed.
 *
 * It knows no sockets and no sandboxes: the server feeds it peers and spec, and runs what
 * it says.
 */
#pragma once

#include "core/approval/request.h"
#include "core/audit/audit.h"
#include "core/config/config.h"
#include "core/policy/policy.h"

struct bg_approvals;
struct bg_request;

enum bg_request_state {
    BG_RS_RECEIVED,
    BG_RS_PREPARING,
    BG_RS_PENDING,
    BG_RS_APPROVED,
    BG_RS_RUNNING,
    /* final */
    BG_RS_DENIED,
    BG_RS_EXPIRED,
    BG_RS_CANCELLED,
    BG_RS_LOST,
    BG_RS_DONE,
    BG_RS_FAILED,
    BG_RS_TIMED_OUT,
    BG_RS_KILLED,
    BG_RS_INTERRUPTED,
    BG_RS_COUNT_
};
const char *bg_request_state_name(enum bg_request_state s);
bool bg_request_state_final(enum bg_request_state s);

/* Who acts; strings are copied. */
struct bg_actor {
    uint32_t uid;
    int32_t pid;
    uint64_t start_time; /* of the pid, /proc/PID/stat field 22: pid reuse is seen */
    char *exe, *tty;     /* or NULL */
    char *client;        /* "boxgate-run 0.1.0": as the client says, untrusted */
    bool interactive;    /* the console or a command on a terminal */
};
void bg_actor_copy(struct bg_actor *to,
                   const struct bg_actor *from); /* bg_actor_clear it */
void bg_actor_clear(struct bg_actor *who);

struct bg_approvals_events {
    /* Resolve profile, session and spec; answer with bg_request_prepared (may be later). */
    void (*prepare)(void *data, struct bg_request *r);
    /* Run it, exactly once per request and only after its claim is durable. Answer with
     * bg_request_started / bg_request_finished. */
    void (*run)(void *data, struct bg_request *r);
    /* Stop it: cancelled while running. */
    void (*kill)(void *data, struct bg_request *r);
    /* Anything an operator or the requester may see changed. */
    void (*changed)(void *data, struct bg_request *r);
    /* Final; called once, after the record of it was handed to the audit. Waiters are
     * answered here. */
    void (*final)(void *data, struct bg_request *r);
};

struct bg_approvals *bg_approvals_new(struct bg_loop *loop, const struct bg_config *c,
                                      struct bg_audit *a, struct bg_log *log,
                                      const struct bg_approvals_events *ev, void *data);
/* Pending ones end as cancelled first; what runs is left to the next start. No callback,
 * `done` of a decision included, runs after it returned. */
void bg_approvals_free(struct bg_approvals *q);
void bg_approvals_set_policy(struct bg_approvals *q,
                             struct bg_policy *p); /* borrowed, replaced on reload */
/* How many operator connections there are; starts and stops the noConsole clock. */
void bg_approvals_operators(struct bg_approvals *q, size_t n);
/* From the audit at start: without `claimed` -> lost; claimed, not finished -> interrupted.
 */
void bg_approvals_recover(struct bg_approvals *q, const struct bg_audit_open_request *r);
/* From the audit at start: how often a `uses: N` rule has allowed. From then on it is
 * counted here and told to every policy that is set. */
void bg_approvals_uses(struct bg_approvals *q, const char *rule, int64_t used);

/* Takes body. waiter = a token of the connection that waits (0 = none): the request is
 * attached while it has a waiter. The same call id and bytes attach to the existing request
 * (*existing). NULL with err: LIMIT (caps per connection, uid, in all), CONFLICT, AUDIT.
 * `prepare` follows in the next turn. */
BG_CHECK struct bg_request *bg_approvals_submit(struct bg_approvals *q,
                                                struct bg_body *body,
                                                const struct bg_actor *who, uint64_t waiter,
                                                bool no_wait, bool *existing,
                                                struct bg_error *err);

struct bg_prepared {
    struct bg_binding bind; /* copied */
    struct bg_facts
        facts; /* strings copied; code, argv, hazards, sha256 are filled in here */
    char *const *spec_env;
    bool root_user;
    cJSON *spec_json; /* taken; what approval.get shows */
    char *session_id; /* copied */
    /* It may share the one run of an identical pending request ("3 waiting"). False for one
     * that brought pipes of its own: their reader would get nothing. */
    bool may_merge;
    /* The project's own policy, taken, or NULL: bg_policy_default() tightened by it. Its
     * verdict counts only where it is stricter. */
    struct bg_policy *project;
};
/* err: it ends as failed with that text (LANGUAGE, NOT_FOUND, UNAVAILABLE ...). Else: hash,
 * hazards, policy, memory, merge, then pending / denied / approved by rule. */
void bg_request_prepared(struct bg_request *r, const struct bg_prepared *p,
                         const struct bg_error *err);

enum bg_scope { BG_SCOPE_ONCE, BG_SCOPE_SESSION, BG_SCOPE_RULE };
struct bg_decide {
    uint64_t id;
    uint32_t rev;       /* 0 = any (headless: the hash binds) */
    const char *sha256; /* full, or a prefix of at least BG_SHA_PREFIX_MIN digits */
    bool approve;
    enum bg_scope scope; /* this issue: ONCE only; others are UNSUPPORTED */
    const char *reason;  /* for the requester; <= BG_REASON_MAX bytes */
    const char *note;    /* for the audit only */
    uint32_t ack;        /* hazards named; an approve needs all of them */
    uint32_t viewed_to;  /* rows seen, for the audit */
};
/* Compare-and-set on (id, rev, sha256); exactly one decision wins. On true the decision has
 * been handed to the audit; `done` says when it is durable (or that it was denied instead).
 * False: NOT_FOUND, HASH_MISMATCH, ALREADY_DECIDED (message says who and what), EXPIRED,
 * HAZARDS, SELF_APPROVAL, UNSUPPORTED. */
BG_CHECK bool bg_approvals_decide(struct bg_approvals *q, const struct bg_decide *d,
                                  const struct bg_actor *who, bg_audit_fn done, void *data,
                                  struct bg_error *err);
BG_CHECK bool bg_approvals_extend(struct bg_approvals *q, uint64_t id, uint32_t rev,
                                  int64_t by_ms, struct bg_error *err);
/* An operator looked at it (attribute `seen`). */
void bg_approvals_seen(struct bg_approvals *q, uint64_t id);

/* The requester's side. attach claims a detached request: same uid, same hash. */
BG_CHECK bool bg_request_attach(struct bg_approvals *q, uint64_t id, const char *sha256,
                                uint32_t uid, uint64_t waiter, struct bg_request **out,
                                struct bg_error *err);
void bg_approvals_waiter_gone(struct bg_approvals *q,
                              uint64_t waiter); /* detaches all of its requests */
BG_CHECK bool bg_request_cancel(struct bg_approvals *q, uint64_t id, const char *sha256,
                                uint32_t uid, struct bg_error *err);

void bg_request_started(struct bg_request *r);
/* state: DONE, FAILED, TIMED_OUT, KILLED, LOST. result is taken: the answer's fields
 * (contract 8); it is kept until it was fetched or detachMs passed. summary is taken: what
 * the audit keeps (no output). */
void bg_request_finished(struct bg_request *r, enum bg_request_state state,
                         const char *reason, cJSON *result, cJSON *summary);

/* ---- looking ---- */
struct bg_request *bg_approvals_get(struct bg_approvals *q,
                                    uint64_t id); /* live or recently final */
struct bg_request *
bg_approvals_next(struct bg_approvals *q,
                  struct bg_request *after); /* oldest first; NULL starts */
size_t bg_approvals_pending(const struct bg_approvals *q);
size_t bg_approvals_forget_deny(struct bg_approvals *q,
                                uint32_t uid); /* how many were forgotten */

uint64_t bg_request_id(const struct bg_request *r);
uint32_t bg_request_rev(const struct bg_request *r);
enum bg_request_state bg_request_state(const struct bg_request *r);
const struct bg_body *bg_request_body(const struct bg_request *r);
const struct bg_binding *bg_request_binding(const struct bg_request *r);
const struct bg_actor *bg_request_actor(const struct bg_request *r);
const char *bg_request_sha256(const struct bg_request *r); /* hex, "" before prepared */
const cJSON *bg_request_result(const struct bg_request *r);
const char *bg_request_reason(const struct bg_request *r); /* of a final state, or NULL */
bool bg_request_attached(const struct bg_request *r);
void *bg_request_user(const struct bg_request *r); /* the server's own */
void bg_request_set_user(struct bg_request *r, void *p);
/* The row of approval.list and `boxgate pending --json`; full adds what approval.get shows.
 * Shapes: core/rpc/schema.h. */
cJSON *bg_request_json(const struct bg_request *r, bool full);

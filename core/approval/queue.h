/* SPDX-License-Identifier: MIT */
/*
 * What the files of this folder share. queue.c: life of the queue, clocks, ends; submit.c:
 * from submit to pending; decide.c: decisions, claims, run; record.c: what the audit gets;
 * view.c: JSON.
 *
 * Merging: an identical request follows the pending one (its lead). A follower is no row of
 * any list; it makes every move its lead makes and ends with it, with the same result.
 * While one of them is attached, the lead is.
 */
#pragma once

#include "core/approval/approval.h"
#include "core/approval/kin.h"
#include "core/approval/machine.h"
#include "core/approval/memory.h"

enum bg_by {
    BG_BY_NONE,
    BG_BY_OPERATOR,
    BG_BY_POLICY,
    BG_BY_MEMORY,
    BG_BY_NOBODY,
    BG_BY_AUDIT
};

struct bg_request {
    struct bg_request *next, *prev; /* by id */
    struct bg_approvals *q;
    uint64_t id;
    uint32_t rev;
    enum bg_request_state state;
    struct bg_body *body;
    struct bg_actor who;
    struct bg_kin kin;
    void *user;

    /* from submit */
    uint64_t *waiters;
    size_t n_waiters;
    bool no_wait;
    int64_t asked_wall, asked_mono;

    /* from prepared */
    bool prepare_due; /* asked for, not answered: the server holds the pointer */
    bool prepared;
    struct bg_binding bind;
    struct bg_bound bound;
    struct bg_sha256 sha, deny_key;
    char sha_hex[BG_SHA256_HEX + 1];
    char code_hex[BG_SHA256_HEX + 1]; /* the same without the session: what rules name */
    struct bg_facts facts; /* strings owned: provider, image_id, network, principal */
    char *session_id;
    cJSON *spec;
    uint32_t hazards;
    struct bg_hazard_note *notes;
    size_t n_notes;
    uint32_t lines;
    bool may_merge;
    struct bg_policy *project; /* may only tighten; or NULL */
    enum bg_decision policy;
    char *policy_rule, *policy_message;
    bool policy_downgraded;

    /* merging */
    struct bg_request *lead;      /* NULL: not a follower */
    struct bg_request *followers; /* linked by `sibling` */
    struct bg_request *sibling;

    /* clocks, monotonic unless named wall; 0 = not running */
    struct bg_timer *timer;
    int64_t expires_mono, expires_wall;
    int64_t detached_mono; /* 0 = attached */
    bool seen;

    /* decision */
    enum bg_by by;
    bool approved;
    struct bg_actor decider; /* of BG_BY_OPERATOR */
    bool committing;         /* a decision or claim is on its way to the disk */
    bool claimed;
    int64_t started_wall;

    /* final */
    int64_t final_wall, final_mono;
    char *reason;
    cJSON *result;
    size_t result_bytes, final_bytes;
    bool fetched;
};

struct bg_counts {
    size_t n;
    struct {
        char *name;
        int64_t count;
    } * v;
};

struct bg_approvals {
    struct bg_loop *loop;
    const struct bg_config *config;
    struct bg_audit *audit;
    struct bg_log *log;
    struct bg_approvals_events ev;
    void *data;
    struct bg_policy *policy; /* NULL: ask for everything */
    struct bg_request *first, *last;
    size_t n_live, n_final;
    size_t result_bytes; /* of the final ones */
    size_t final_bytes;  /* of the final ones' bodies and bound fields */
    size_t operators;
    int64_t alone_since; /* monotonic; end of the last operator connection */
    struct bg_timer *nobody, *kick;
    struct bg_deny_memory memory;
    struct bg_counts uses, runs; /* by rule; by session instance */
    unsigned refs;               /* tickets under way, plus the owner */
    bool dead;
};

/* queue.c */
bool bg_request_is_attached(const struct bg_request *r);
void bg_request_add_waiter(struct bg_request *r, uint64_t waiter);
/* The clock of its state starts again. */
void bg_request_rearm(struct bg_request *r);
/* What its clocks say has happened by now. */
void bg_request_tick(struct bg_request *r);
void bg_request_on_timer(struct bg_request *r);
void bg_nobody_rearm(struct bg_approvals *q);
/* A final state: recorded (b may carry a decision already, or be NULL), told, kept for a
 * while. Of a lead: its followers end alike, or carry on. summary is taken. */
void bg_request_end(struct bg_request *r, enum bg_request_event e, const char *reason,
                    struct bg_audit_batch *b, cJSON *summary, bg_audit_fn done, void *data);
/* Moves it and its followers; false (logged) if the table has no such row. */
BG_CHECK bool bg_request_step(struct bg_request *r, enum bg_request_event e);
/* The count of that name, begun with 0; good until the next call. */
int64_t *bg_count_of(struct bg_counts *c, const char *name);

/* A commit whose answer finds its request by id, or not at all. */
enum bg_ticket_kind {
    BG_TICKET_RECORD, /* received, pending: if it fails, the request is denied */
    BG_TICKET_DECIDED,
    BG_TICKET_CLAIMED,
    BG_TICKET_NOTE /* nothing follows from it */
};
void bg_ticket_commit(struct bg_approvals *q, enum bg_ticket_kind kind, uint64_t id,
                      struct bg_audit_batch *b, bg_audit_fn done, void *data);

/* decide.c */
void bg_request_deny(struct bg_request *r, enum bg_by by, const char *reason);
/* By rule or operator; b carries the decision. Claims too when it is attached. */
void bg_request_approve(struct bg_request *r, enum bg_by by, struct bg_audit_batch *b,
                        bg_audit_fn done, void *data);
void bg_request_claim(struct bg_request *r); /* approved, attached, nothing under way */
void bg_request_durable(struct bg_request *r, enum bg_ticket_kind kind,
                        const struct bg_error *err);

/* record.c: members for the audit; the caller gives them away */
cJSON *bg_record_received(const struct bg_request *r);
void bg_record_details(cJSON *o, const struct bg_request *r);
/* The code itself, for what was decided: what nobody looked at fills no disk. */
void bg_record_code(struct bg_audit_batch *b, const struct bg_request *r);
cJSON *bg_record_decided(const struct bg_request *r, bool approve, const char *reason);
void bg_record_actor(cJSON *o, const struct bg_actor *who);
cJSON *bg_hazard_names(uint32_t bits);

/* view.c */
size_t bg_request_bytes(const struct bg_request *r); /* code, input, argv and env */
/* argv as a person reads it; all of it, and bytes that are no text, are exact in `bound`.
 * At most BG_ARGV_KEPT bytes; *cut tells that there is more. */
cJSON *bg_argv_json(char *const *argv, bool *cut);
const char *bg_by_name(enum bg_by by);
/* "approved by uid 1000 (pid 77, boxgate-console 0.1.0)" */
char *bg_decision_words(const struct bg_request *r);
/* The answer's fields of something that never ran. */
cJSON *bg_result_not_run(const struct bg_request *r);

/* SPDX-License-Identifier: MIT */
/*
 * policy.yaml (contract.md 6). Deny over ask over allow over default, whatever the order.
 * Every allow rule names a sandbox; a hazard turns allow into ask. No glob, prefix or regex
 * in allow.
 */
#pragma once

#include "core/base/digest.h"
#include "core/base/json.h"
#include "core/policy/facts.h"

struct bg_policy;

enum bg_decision { BG_DECIDE_DENY, BG_DECIDE_ASK, BG_DECIDE_ALLOW };
const char *bg_decision_name(enum bg_decision d);

struct bg_verdict {
    enum bg_decision decision;
    const char *rule;    /* id of the deciding rule, or NULL = default; borrowed */
    const char *message; /* the rule's message for the requester, or NULL; borrowed */
    bool downgraded;     /* an allow rule matched, but something (a hazard) forbids it */
};

/* The default: ask for everything. */
struct bg_policy *bg_policy_default(void);
BG_CHECK struct bg_policy *bg_policy_parse(const char *name, const char *p, size_t n,
                                           struct bg_error *err);
/* A missing file gives the default. Unreadable, foreign or writable by others:
 * BG_ERR_POLICY. */
BG_CHECK struct bg_policy *bg_policy_load(const char *path, struct bg_error *err);
void bg_policy_free(struct bg_policy *p);
const struct bg_sha256 *
bg_policy_digest(const struct bg_policy *p); /* of the file's bytes; zero for the default */
size_t bg_policy_rules(const struct bg_policy *p);

/* A project's .boxgate.yaml: its ask and deny rules and stricter defaults are added to p,
 * under "project:ID". An allow rule in it is an error and nothing is added. */
BG_CHECK bool bg_policy_tighten(struct bg_policy *p, const struct bg_policy *project,
                                struct bg_error *err);
/* tools.exec of the config: exact names. A command on `blocked`, or missing from an
 * `allowed` that isn't empty, is denied; neither list ever allows. Both are copied; NULL is
 * empty. */
void bg_policy_exec_lists(struct bg_policy *p, char *const *allowed, char *const *blocked);

/* The file became invalid: its last good denies stay, every allow is off. */
void bg_policy_distrust(struct bg_policy *p);
bool bg_policy_distrusted(const struct bg_policy *p);

struct bg_verdict bg_policy_decide(const struct bg_policy *p, const struct bg_facts *f);
/* `uses: N` rules: call when an allow of that rule has run; the count is the server's to
 * keep. */
void bg_policy_used(struct bg_policy *p, const char *rule_id);
void bg_policy_uses_set(struct bg_policy *p, const char *rule_id, int64_t used);

/*
 * Every rule, with the first clause that failed (null when it matched) and all that failed:
 * [{id, decision, line, matched, failed: "sandbox.network", allFailed: [...], note?}]. note
 * says why a matching allow rule still doesn't allow: "hazards",
 * "changed_outside" or "distrusted".
 */
cJSON *bg_policy_explain(const struct bg_policy *p, const struct bg_facts *f);

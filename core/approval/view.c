/* SPDX-License-Identifier: MIT */
/* Looking at a request: the getters, and the JSON of core/rpc/schema.h. */
#include <stdio.h>

#include "core/approval/queue.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/base/values.h"

#define FIRST_LINE_MAX 200

const char *bg_by_name(enum bg_by by)
{
    static const char *const names[] = {
        [BG_BY_NONE] = "nobody",   [BG_BY_OPERATOR] = "operator", [BG_BY_POLICY] = "policy",
        [BG_BY_MEMORY] = "memory", [BG_BY_NOBODY] = "nobody",     [BG_BY_AUDIT] = "audit",
    };
    return names[by];
}

static char *decided_by(const struct bg_request *r)
{
    if (r->by == BG_BY_OPERATOR)
        return bg_xasprintf("uid %u (pid %d%s%s)", r->decider.uid, r->decider.pid,
                            r->decider.client ? ", " : "",
                            r->decider.client ? r->decider.client : "");
    if (r->by == BG_BY_POLICY && r->policy_rule)
        return bg_xasprintf("policy rule %s", r->policy_rule);
    return bg_xstrdup(bg_by_name(r->by));
}

char *bg_decision_words(const struct bg_request *r)
{
    if (r->by == BG_BY_NONE || r->state == BG_RS_CANCELLED)
        return bg_xstrdup(bg_request_state_name(r->state));
    bg_autofree char *by = decided_by(r);
    return bg_xasprintf("%s by %s", r->approved ? "approved" : "denied", by);
}

cJSON *bg_result_not_run(const struct bg_request *r)
{
    cJSON *o = bg_jo();
    bg_jset_str(o, "status", bg_request_state_name(r->state));
    bg_jset_bool(o, "started", false);
    bg_jset_str(o, "stdout", "");
    bg_jset_str(o, "stderr", "");
    bg_jset(o, "exitCode", cJSON_CreateNull());
    bg_jset(o, "signal", cJSON_CreateNull());
    bg_jset_int(o, "durationMs", 0);
    bg_jset_int(o, "waitedMs", bg_mono_ms() - r->asked_mono);
    static const char *const no[] = {"timedOut", "aborted", "oom"};
    for (size_t i = 0; i < bg_countof(no); i++)
        bg_jset_bool(o, no[i], false);
    bg_jset_int(o, "leftover", 0);
    bg_jset_bool(o, "reset", false);
    bg_jset_bool(o, "stdoutTruncated", false);
    bg_jset_bool(o, "stderrTruncated", false);
    bg_jset_int(o, "stdoutBytes", 0);
    bg_jset_int(o, "stderrBytes", 0);
    bg_jset_bool(o, "untrusted", true);
    bg_jset_int(o, "approvalId", (int64_t)r->id);
    bg_jset_str(o, "sha256", r->sha_hex);
    bg_jset_str(o, "reason", r->reason);
    bg_jset_str(o, "session", r->session_id);
    return o;
}

/* ---- JSON ---- */

/* A view of the beginning, for lists; what is decided on is `bound`. */
static void set_first_line(cJSON *o, const struct bg_request *r)
{
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, FIRST_LINE_MAX);
    if (r->body->code) {
        const char *end = memchr(r->body->code, '\n', r->body->code_len);
        size_t n = end ? (size_t)(end - r->body->code) : r->body->code_len;
        bg_buf_add_some(&b, r->body->code, n);
    }
    for (char *const *a = r->body->argv; a && *a; a++) {
        bg_buf_add_some(&b, " ", b.len ? 1 : 0);
        bg_buf_add_some(&b, *a, strlen(*a));
    }
    b.data[bg_utf8_prefix(b.data, b.len, b.len)] = 0;
    bg_jset_str(o, "firstLine", b.data);
}

static size_t body_bytes(const struct bg_body *b)
{
    size_t n = b->code_len + b->input_len;
    for (char *const *a = b->argv; a && *a; a++)
        n += strlen(*a);
    return n;
}

size_t bg_request_bytes(const struct bg_request *r)
{
    size_t n = body_bytes(r->body);
    for (char *const *e = r->body->env; e && *e; e++)
        n += strlen(*e);
    return n;
}

static size_t waiting(const struct bg_request *r)
{
    size_t n = r->n_waiters;
    for (const struct bg_request *f = r->followers; f; f = f->sibling)
        n += f->n_waiters;
    return n;
}

static void set_times(cJSON *o, const struct bg_request *r)
{
    bool pending = r->state == BG_RS_PENDING;
    int64_t left = r->expires_mono - bg_mono_ms();
    bg_jset_time(o, "requestedAt", r->asked_wall);
    bg_jset_time(o, "expiresAt", r->expires_wall ? r->expires_wall : -1);
    bg_jset_int(o, "timeoutMs", r->bind.timeout_ms);
    bg_jset_int(o, "leftMs", pending && left > 0 ? left : 0);
}

static void set_outcome(cJSON *o, const struct bg_request *r)
{
    if (r->policy_rule)
        bg_jset_str(o, "rule", r->policy_rule);
    if (r->by != BG_BY_NONE) {
        bg_autofree char *by = decided_by(r);
        bg_jset_str(o, "decision", r->approved ? "approve" : "deny");
        bg_jset_str(o, "decidedBy", by);
    }
    if (r->reason)
        bg_jset_str(o, "reason", r->reason);
    if (r->started_wall)
        bg_jset_time(o, "startedAt", r->started_wall);
    if (r->final_wall)
        bg_jset_time(o, "finishedAt", r->final_wall);
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(r->result, "exitCode");
    if (cJSON_IsNumber(code))
        bg_jset_int(o, "exitCode", code->valueint);
}

static cJSON *row(const struct bg_request *r)
{
    cJSON *o = bg_jo();
    const cJSON *profile = cJSON_GetObjectItemCaseSensitive(r->spec, "profile");
    bg_jset_int(o, "id", (int64_t)r->id);
    bg_jset_int(o, "rev", r->rev);
    bg_jset_str(o, "sha256", r->sha_hex);
    bg_jset_str(o, "ruleSha256", r->code_hex);
    bg_jset_str(o, "kind", bg_request_kind_name(r->body->kind));
    bg_jset_str(o, "session", r->session_id ? r->session_id : r->body->session);
    bg_jset_str(o, "profile",
                cJSON_IsString(profile) ? profile->valuestring : r->body->profile);
    bg_jset_str(o, "language", r->body->language);
    bg_jset_str(o, "state", bg_request_state_name(r->state));
    bg_jset_bool(o, "attached", bg_request_is_attached(r));
    bg_jset_bool(o, "seen", r->seen);
    bg_jset_int(o, "waiting", (int64_t)waiting(r));
    bg_jset_bool(o, "high", r->hazards != 0);
    bg_jset(o, "hazards", bg_hazard_names(r->hazards));
    bg_jset_int(o, "lines", r->lines);
    bg_jset_int(o, "bytes", (int64_t)body_bytes(r->body));
    set_first_line(o, r);
    bg_jset_str(o, "purpose", r->body->purpose);
    bg_jset_str(o, "client", r->who.client);
    bg_jset_int(o, "uid", r->who.uid);
    bg_jset_int(o, "pid", r->who.pid);
    bg_jset_str(o, "exe", r->who.exe);
    set_times(o, r);
    set_outcome(o, r);
    return o;
}

static cJSON *bound_json(const struct bg_bound *b)
{
    cJSON *a = bg_ja();
    for (size_t i = 0; i < b->n; i++) {
        cJSON *f = bg_jo();
        bg_autofree char *text = bg_base64(b->f[i].bytes, b->f[i].len);
        bg_jset_str(f, "name", b->f[i].name);
        bg_jset_str(f, "base64", text);
        cJSON_AddItemToArray(a, f);
    }
    return a;
}

static cJSON *notes_json(const struct bg_request *r)
{
    cJSON *a = bg_ja();
    for (size_t i = 0; i < r->n_notes; i++) {
        cJSON *n = bg_jo();
        bg_jset_str(n, "hazard", bg_hazard_name(r->notes[i].hazard));
        bg_jset_str(n, "field", r->notes[i].field);
        bg_jset_int(n, "line", r->notes[i].line);
        cJSON_AddItemToArray(a, n);
    }
    return a;
}

cJSON *bg_argv_json(char *const *argv, bool *cut)
{
    cJSON *a = bg_ja();
    size_t kept = 0;
    for (; argv && *argv && kept + strlen(*argv) <= BG_ARGV_KEPT; argv++) {
        kept += strlen(*argv);
        bg_autobuf struct bg_buf b;
        bg_buf_init(&b, 3 * strlen(*argv) + 1);
        bg_utf8_lossy(&b, *argv, strlen(*argv));
        cJSON_AddItemToArray(a, cJSON_CreateString(b.data));
    }
    *cut = argv && *argv;
    return a;
}

static int64_t earlier_runs(const struct bg_request *r)
{
    const struct bg_counts *runs = &r->q->runs;
    for (size_t i = 0; i < runs->n; i++)
        if (strcmp(runs->v[i].name, r->bind.instance) == 0)
            return runs->v[i].count;
    return 0;
}

/* The bytes to review come first: what was printed is left out when one line can't hold
 * both, each in its longest spelling. */
static cJSON *result_json(const struct bg_request *r)
{
    cJSON *o = cJSON_Duplicate(r->result, true);
    if (6 * r->result_bytes + 2 * bg_request_bytes(r) > BG_JSON_LINE_MAX) {
        cJSON_DeleteItemFromObjectCaseSensitive(o, "stdout");
        cJSON_DeleteItemFromObjectCaseSensitive(o, "stderr");
    }
    return o;
}

static void add_full(cJSON *o, const struct bg_request *r)
{
    char hex[BG_SHA256_HEX + 1];
    bool cut;
    const cJSON *not_enforced = cJSON_GetObjectItemCaseSensitive(r->spec, "notEnforced");
    bg_sha256_hex(&r->bind.spec, hex);
    bg_jset(o, "bound", bound_json(&r->bound));
    bg_jset(o, "notes", notes_json(r));
    bg_jset(o, "spec", r->spec ? cJSON_Duplicate(r->spec, true) : cJSON_CreateNull());
    bg_jset_str(o, "specSha256", r->prepared ? hex : NULL);
    bg_jset_str(o, "instance", r->bind.instance);
    bg_jset(o, "argv", bg_argv_json(r->bind.argv, &cut));
    if (cut)
        bg_jset_bool(o, "argvCut", true);
    bg_jset_str(o, "cwd", r->body->cwd);
    cJSON *policy = bg_jo();
    bg_jset_str(policy, "decision", r->prepared ? bg_decision_name(r->policy) : NULL);
    bg_jset_str(policy, "rule", r->policy_rule);
    bg_jset_bool(policy, "downgraded", r->policy_downgraded);
    bg_jset(o, "policy", policy);
    bg_jset_int(o, "earlierRuns", earlier_runs(r));
    bg_jset_bool(o, "changedOutside", r->facts.changed_outside);
    bg_jset(o, "notEnforced",
            cJSON_IsArray(not_enforced) ? cJSON_Duplicate(not_enforced, true) : bg_ja());
    bg_jset_int(o, "deniedBefore", bg_deny_count(&r->q->memory, &r->deny_key));
    if (r->result)
        bg_jset(o, "result", result_json(r));
}

cJSON *bg_request_json(const struct bg_request *r, bool full)
{
    cJSON *o = row(r);
    if (full)
        add_full(o, r);
    return o;
}

/* ---- getters ---- */

void bg_actor_copy(struct bg_actor *to, const struct bg_actor *from)
{
    *to = *from;
    to->exe = bg_xstrdup(from->exe);
    to->tty = bg_xstrdup(from->tty);
    to->client = bg_xstrdup(from->client);
}

void bg_actor_clear(struct bg_actor *who)
{
    free(who->exe);
    free(who->tty);
    free(who->client);
    *who = (struct bg_actor){0};
}

void bg_approvals_seen(struct bg_approvals *q, uint64_t id)
{
    struct bg_request *r = bg_approvals_get(q, id);
    if (!r || r->seen)
        return;
    r->seen = true;
    q->ev.changed(q->data, r);
}

uint64_t bg_request_id(const struct bg_request *r)
{
    return r->id;
}

uint32_t bg_request_rev(const struct bg_request *r)
{
    return r->rev;
}

enum bg_request_state bg_request_state(const struct bg_request *r)
{
    return r->state;
}

const struct bg_body *bg_request_body(const struct bg_request *r)
{
    return r->body;
}

const struct bg_binding *bg_request_binding(const struct bg_request *r)
{
    return &r->bind;
}

const struct bg_actor *bg_request_actor(const struct bg_request *r)
{
    return &r->who;
}

const char *bg_request_sha256(const struct bg_request *r)
{
    return r->sha_hex;
}

const cJSON *bg_request_result(const struct bg_request *r)
{
    return r->result;
}

const char *bg_request_reason(const struct bg_request *r)
{
    return r->reason;
}

bool bg_request_attached(const struct bg_request *r)
{
    return bg_request_is_attached(r);
}

void *bg_request_user(const struct bg_request *r)
{
    return r->user;
}

void bg_request_set_user(struct bg_request *r, void *p)
{
    r->user = p;
}

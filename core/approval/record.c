/* SPDX-License-Identifier: MIT */
/*
 * What the audit keeps of a request. Code goes in as a blob with its own retention; the
 * values of env and the input only as digests.
 */
#include "core/approval/queue.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"

void bg_record_actor(cJSON *o, const struct bg_actor *who)
{
    bg_jset_int(o, "uid", who->uid);
    bg_jset_int(o, "pid", who->pid);
    bg_jset_str(o, "exe", who->exe);
    bg_jset_str(o, "tty", who->tty);
    bg_jset_str(o, "client", who->client);
    bg_jset_bool(o, "interactive", who->interactive);
    bg_jset_str(o, "auth", "peer");
}

cJSON *bg_hazard_names(uint32_t bits)
{
    cJSON *a = bg_ja();
    for (int h = 0; h < BG_HZ_COUNT_; h++)
        if (bits & BG_HZ_BIT(h))
            cJSON_AddItemToArray(a, cJSON_CreateString(bg_hazard_name((enum bg_hazard)h)));
    return a;
}

cJSON *bg_record_received(const struct bg_request *r)
{
    cJSON *o = bg_jo();
    bg_jset_str(o, "kind", bg_request_kind_name(r->body->kind));
    bg_record_actor(o, &r->who);
    bg_jset_str(o, "session", r->body->session);
    bg_jset_str(o, "profile", r->body->profile);
    bg_jset_str(o, "callId", r->body->call_id);
    bg_jset_str(o, "purpose", r->body->purpose);
    bg_jset_bool(o, "noWait", r->no_wait);
    return o;
}

static void set_digest(cJSON *o, const char *key, const void *p, size_t n)
{
    struct bg_sha256 d = bg_sha256(p, n);
    char hex[BG_SHA256_HEX + 1];
    bg_sha256_hex(&d, hex);
    bg_jset_str(o, key, hex);
}

static void set_env(cJSON *o, char *const *env)
{
    cJSON *e = bg_jo();
    for (; env && *env; env++) {
        size_t n = strcspn(*env, "=");
        bg_autofree char *name = bg_xstrndup(*env, n);
        const char *value = (*env)[n] ? *env + n + 1 : "";
        set_digest(e, name, value, strlen(value));
    }
    bg_jset(o, "envSha256", e);
}

static void set_argv(cJSON *o, char *const *argv)
{
    bool cut;
    bg_jset(o, "argv", bg_argv_json(argv, &cut));
    if (!cut)
        return;
    struct bg_hasher *h = bg_hasher_new();
    char hex[BG_SHA256_HEX + 1];
    for (char *const *a = argv; *a; a++)
        bg_hasher_field(h, "argv", *a, strlen(*a));
    struct bg_sha256 d = bg_hasher_end(h);
    bg_sha256_hex(&d, hex);
    bg_jset_int(o, "argvCount", (int64_t)bg_strv_len(argv));
    bg_jset_str(o, "argvSha256", hex);
}

void bg_record_code(struct bg_audit_batch *b, const struct bg_request *r)
{
    if (r->body->code)
        bg_audit_add_blob(b, r->body->code, r->body->code_len);
}

void bg_record_details(cJSON *o, const struct bg_request *r)
{
    char hex[BG_SHA256_HEX + 1];
    bg_jset_str(o, "session", r->session_id);
    bg_jset_str(o, "instance", r->bind.instance);
    bg_sha256_hex(&r->bind.spec, hex);
    bg_jset_str(o, "specSha256", hex);
    bg_jset_str(o, "provider", r->facts.provider);
    bg_jset_str(o, "imageId", r->facts.image_id);
    bg_jset_str(o, "network", r->facts.network);
    bg_jset_str(o, "workdir", r->bind.workdir);
    bg_jset_str(o, "language", r->body->language);
    set_argv(o, r->bind.argv);
    bg_jset_str(o, "cwd", r->body->cwd);
    if (r->body->code) {
        set_digest(o, "codeSha256", r->body->code, r->body->code_len);
        bg_jset_int(o, "codeBytes", (int64_t)r->body->code_len);
    }
    if (r->body->input) {
        set_digest(o, "inputSha256", r->body->input, r->body->input_len);
        bg_jset_int(o, "inputBytes", (int64_t)r->body->input_len);
    }
    set_env(o, r->body->env);
    bg_jset_int(o, "timeoutMs", r->bind.timeout_ms);
    bg_jset(o, "hazards", bg_hazard_names(r->hazards));
    bg_jset_str(o, "policy", bg_decision_name(r->policy));
    bg_jset_str(o, "rule", r->policy_rule);
}

cJSON *bg_record_decided(const struct bg_request *r, bool approve, const char *reason)
{
    cJSON *o = bg_jo();
    bg_jset_str(o, "decision", approve ? "approve" : "deny");
    bg_jset_str(o, "by", bg_by_name(r->by));
    bg_jset_str(o, "scope", r->by == BG_BY_POLICY ? "rule" : "once");
    if (r->by == BG_BY_OPERATOR)
        bg_record_actor(o, &r->decider);
    bg_jset_str(o, "reason", reason);
    bg_jset_int(o, "latencyMs", bg_mono_ms() - r->asked_mono);
    bg_jset(o, "hazardsShown", bg_hazard_names(r->hazards));
    bg_jset_int(o, "renderVersion", BG_RENDER_VERSION);
    return o;
}

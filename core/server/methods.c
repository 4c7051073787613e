/* SPDX-License-Identifier: MIT */
/*
 * The table of methods: name, the roles that may call it, handler. tests/flow/test_roles.py
 * calls every row on both sockets. On agent.sock only request.submit changes anything.
 */
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/server/server_priv.h"

struct method {
    const char *name;
    unsigned roles;
    void (*fn)(struct conn *c, struct bg_rpc_msg *m);
};

/* An answer that comes when something is durable or gone; the connection may have left by
 * then. */
struct later {
    struct bg_server *srv;
    uint64_t token;
    char *id_raw;
    cJSON *result;
    size_t left;
};

static struct later *later_new(struct conn *c, struct bg_rpc_msg *m, cJSON *result)
{
    struct later *l = bg_xcalloc(1, sizeof *l);
    l->srv = c->srv;
    l->token = c->token;
    l->id_raw = bg_xstrdup(m->id_raw);
    l->result = result;
    return l;
}

static void later_done(struct later *l, const struct bg_error *err)
{
    for (struct conn *c = l->srv->conns; c; c = c->next) {
        if (c->token != l->token)
            continue;
        if (err)
            bg_rpc_error(c->rpc, l->id_raw, err);
        else
            bg_rpc_reply(c->rpc, l->id_raw, bg_steal(l->result));
        break;
    }
    cJSON_Delete(l->result);
    free(l->id_raw);
    free(l);
}

static void fail(struct conn *c, struct bg_rpc_msg *m, enum bg_errc code, const char *text)
{
    struct bg_error err = {0};
    bg_fail(&err, code, 0, "%s", text);
    bg_rpc_error(c->rpc, m->id_raw, &err);
}

/* ---- small ones ---- */

static void ping(struct conn *c, struct bg_rpc_msg *m)
{
    bg_rpc_reply(c->rpc, m->id_raw, bg_jo());
}

static void bye(struct conn *c, struct bg_rpc_msg *m)
{
    bg_rpc_reply(c->rpc, m->id_raw, bg_jo());
    conn_cut(c);
}

/* ---- sessions ---- */

static bool may_see(const struct conn *c, const struct bg_session *s)
{
    if (c->role != ROLE_AGENT)
        return true;
    if (bg_session_owner(s) != c->who.uid)
        return false;
    const char *run = bg_session_run_id(s);
    return !c->run_id || (run && !strcmp(run, c->run_id));
}

static void session_list(struct conn *c, struct bg_rpc_msg *m)
{
    cJSON *a = bg_ja();
    for (struct bg_session *s = NULL; (s = bg_session_next(c->srv->sessions, s));)
        if (may_see(c, s))
            cJSON_AddItemToArray(a, bg_session_json(s));
    bg_rpc_reply(c->rpc, m->id_raw, a);
}

static struct bg_session *named_session(struct conn *c, struct bg_jr *r)
{
    const char *id = bg_jr_str(r, "session");
    struct bg_session *s = id ? bg_session_find(c->srv->sessions, id) : NULL;
    return s && may_see(c, s) ? s : NULL;
}

static void session_get(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    struct bg_jr r;
    bg_jr_begin(&r, m->params, "params", &err);
    struct bg_session *s = named_session(c, &r);
    if (!bg_jr_end(&r)) {
        bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    if (!s) {
        fail(c, m, BG_ERR_NOT_FOUND, "no such session");
        return;
    }
    cJSON *o = bg_session_json(s);
    bg_rpc_reply(c->rpc, m->id_raw, o);
}

struct creation {
    struct creation *next; /* while the provider is being tried */
    struct later *l;
    struct bg_spec *spec;
    char *id;
    uint32_t uid;
};

static void on_spec(void *data, const struct bg_error *err)
{
    struct creation *k = data;
    struct bg_error e = {0};
    struct bg_session *s = NULL;
    if (!err)
        s = bg_session_open(k->l->srv->sessions, k->id, NULL, k->uid, bg_steal(k->spec),
                            false, &e);
    if (s)
        k->l->result = bg_session_json(s);
    later_done(k->l, err ? err : s ? NULL : &e);
    bg_spec_free(k->spec);
    free(k->id);
    free(k);
}

void methods_provider_known(struct bg_server *s)
{
    for (struct creation *k = bg_steal(s->creations), *next; k; k = next) {
        next = k->next;
        s->ops->prepare(s->provider, k->spec, NULL, on_spec, k);
    }
}

void methods_stop(struct bg_server *s)
{
    struct bg_error err = {0};
    bg_fail(&err, BG_ERR_DESTROYED, 0, "the server is stopping");
    for (struct creation *k = bg_steal(s->creations), *next; k; k = next) {
        next = k->next;
        on_spec(k, &err);
    }
}

static void session_create(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_server *s = c->srv;
    struct bg_error err = {0};
    struct bg_jr r;
    bg_jr_begin(&r, m->params, "params", &err);
    const char *id = bg_jr_str_opt(&r, "id", NULL);
    const char *profile = bg_jr_str_opt(&r, "profile", s->config->profile);
    struct bg_spec *spec = NULL;
    if (bg_jr_end(&r)) {
        const struct bg_profile *p = bg_config_profile(s->config, profile);
        if (id && !bg_id_valid(id))
            bg_fail(&err, BG_ERR_USAGE, 0, "not a valid session id: %s", id);
        else if (id && bg_session_find(s->sessions, id))
            bg_fail(&err, BG_ERR_CONFLICT, 0, "session %s exists", id);
        else if (!p)
            bg_fail(&err, BG_ERR_NOT_FOUND, 0, "no profile \"%s\"", profile);
        else
            spec = bg_spec_from_profile(p, s->paths, s->config->engine.endpoint, &err);
    }
    if (!spec) {
        bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    struct creation *k = bg_xcalloc(1, sizeof *k);
    k->l = later_new(c, m, NULL);
    k->spec = spec;
    k->id = bg_xstrdup(id);
    k->uid = c->who.uid;
    k->next = s->creations;
    s->creations = k;
    if (s->provider_known)
        methods_provider_known(s);
}

static void on_session_gone(void *data, const struct bg_error *err)
{
    struct later *l = data;
    if (--l->left == 0)
        later_done(l, err);
}

static void session_close(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    struct bg_jr r;
    bg_jr_begin(&r, m->params, "params", &err);
    bool all = bg_jr_bool_opt(&r, "all", false);
    const char *id = bg_jr_str_opt(&r, "session", NULL);
    if (!r.failed && all == (id != NULL))
        bg_jr_fail(&r, "session", "name one session, or all: true");
    if (!bg_jr_end(&r)) {
        bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    struct later *l = later_new(c, m, bg_jo());
    size_t n = 0;
    l->left = 1; /* ours, so that a close that is done at once does not end it early */
    for (struct bg_session *s = bg_session_next(c->srv->sessions, NULL), *next; s;
         s = next) {
        next = bg_session_next(c->srv->sessions, s);
        if (id && strcmp(bg_session_id(s), id))
            continue;
        n++;
        l->left++;
        bg_session_close(s, "close", on_session_gone, l);
    }
    bg_jset_int(l->result, "closed", (int64_t)n);
    on_session_gone(l, NULL);
}

/* ---- approvals ---- */

static void approval_list(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    struct bg_jr jr;
    bg_jr_begin(&jr, m->params, "params", &err);
    bool all = bg_jr_bool_opt(&jr, "all", false);
    if (!bg_jr_end(&jr)) {
        bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    cJSON *a = bg_ja();
    for (struct bg_request *r = NULL; (r = bg_approvals_next(c->srv->approvals, r));)
        if (all || !bg_request_state_final(bg_request_state(r)))
            cJSON_AddItemToArray(a, runner_request_json(c->srv, r, false));
    bg_rpc_reply(c->rpc, m->id_raw, a);
}

static struct bg_request *by_id(struct conn *c, struct bg_rpc_msg *m, struct bg_jr *r,
                                struct bg_error *err)
{
    uint64_t id = (uint64_t)bg_jr_int(r, "id", 1, BG_JSON_INT_MAX);
    struct bg_request *q = r->failed ? NULL : bg_approvals_get(c->srv->approvals, id);
    if (!bg_jr_end(r))
        bg_rpc_error(c->rpc, m->id_raw, err);
    else if (!q)
        fail(c, m, BG_ERR_NOT_FOUND, "no such request");
    else
        return q;
    return NULL;
}

static void approval_get(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    struct bg_jr r;
    bg_jr_begin(&r, m->params, "params", &err);
    struct bg_request *q = by_id(c, m, &r, &err);
    if (q)
        bg_rpc_reply(c->rpc, m->id_raw, runner_request_json(c->srv, q, true));
}

static void approval_seen(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    struct bg_jr r;
    bg_jr_begin(&r, m->params, "params", &err);
    struct bg_request *q = by_id(c, m, &r, &err);
    if (!q)
        return;
    bg_approvals_seen(c->srv->approvals, bg_request_id(q));
    bg_rpc_reply(c->rpc, m->id_raw, bg_jo());
}

static uint32_t read_hazards(struct bg_jr *r)
{
    const cJSON *a = bg_jr_arr_opt(r, "ackHazards"), *h;
    uint32_t bits = 0;
    cJSON_ArrayForEach(h, a)
    {
        enum bg_hazard z;
        if (cJSON_IsString(h) &&
            bg_hazard_from_name(h->valuestring, strlen(h->valuestring), &z))
            bits |= BG_HZ_BIT(z);
        else
            bg_jr_fail(r, "ackHazards", "unknown hazard name");
    }
    return bits;
}

static void decided(void *data, const struct bg_error *err)
{
    struct later *l = data;
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(l->result, "id");
    struct bg_request *r =
        l->srv->approvals ? bg_approvals_get(l->srv->approvals, (uint64_t)id->valuedouble)
                          : NULL;
    if (r) {
        bg_jset_int(l->result, "rev", bg_request_rev(r));
        bg_jset_str(l->result, "state", bg_request_state_name(bg_request_state(r)));
    }
    later_done(l, err);
}

static bool read_decision(struct bg_jr *r, struct bg_decide *d)
{
    const char *verb, *scope;
    d->id = (uint64_t)bg_jr_int(r, "id", 1, BG_JSON_INT_MAX);
    d->rev = (uint32_t)bg_jr_int_opt(r, "rev", 0, UINT32_MAX, 0);
    d->sha256 = bg_jr_str(r, "sha256");
    verb = bg_jr_str(r, "decision");
    scope = bg_jr_str_opt(r, "scope", "once");
    d->reason = bg_jr_str_opt(r, "reason", NULL);
    d->note = bg_jr_str_opt(r, "note", NULL);
    d->viewed_to = (uint32_t)bg_jr_int_opt(r, "viewedTo", 0, UINT32_MAX, 0);
    d->ack = read_hazards(r);
    if (r->failed)
        return bg_jr_end(r);
    if (strcmp(verb, "approve") && strcmp(verb, "deny"))
        bg_jr_fail(r, "decision", "expected approve or deny");
    d->approve = !strcmp(verb, "approve");
    if (!strcmp(scope, "session"))
        d->scope = BG_SCOPE_SESSION;
    else if (!strcmp(scope, "rule"))
        d->scope = BG_SCOPE_RULE;
    else if (strcmp(scope, "once"))
        bg_jr_fail(r, "scope", "expected once, session or rule");
    return bg_jr_end(r);
}

static void approval_decide(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_server *s = c->srv;
    struct bg_error err = {0};
    struct bg_jr r;
    struct bg_decide d = {.scope = BG_SCOPE_ONCE};
    bg_jr_begin(&r, m->params, "params", &err);
    if (!read_decision(&r, &d)) {
        bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    server_check_policy(s); /* a new deny counts, whoever was quicker */
    cJSON *res = bg_jo();
    bg_jset_int(res, "id", (int64_t)d.id);
    struct later *l = later_new(c, m, res);
    if (!bg_approvals_decide(s->approvals, &d, &c->who, decided, l, &err))
        later_done(l, &err);
}

static void approval_extend(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    struct bg_jr r;
    bg_jr_begin(&r, m->params, "params", &err);
    uint64_t id = (uint64_t)bg_jr_int(&r, "id", 1, BG_JSON_INT_MAX);
    uint32_t rev = (uint32_t)bg_jr_int_opt(&r, "rev", 0, UINT32_MAX, 0);
    int64_t by = bg_jr_int(&r, "byMs", 1, BG_WAIT_MAX_MS);
    if (!bg_jr_end(&r) || !bg_approvals_extend(c->srv->approvals, id, rev, by, &err)) {
        bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    bg_rpc_reply(
        c->rpc, m->id_raw,
        runner_request_json(c->srv, bg_approvals_get(c->srv->approvals, id), false));
}

static void approval_forget(struct conn *c, struct bg_rpc_msg *m)
{
    cJSON *o = bg_jo();
    bg_jset_int(o, "forgotten",
                (int64_t)bg_approvals_forget_deny(c->srv->approvals, c->who.uid));
    bg_rpc_reply(c->rpc, m->id_raw, o);
}

/* ---- policy, audit, server ---- */

static cJSON *policy_json(const struct bg_server *s)
{
    char hex[BG_SHA256_HEX + 1];
    cJSON *o = bg_jo();
    bg_sha256_hex(bg_policy_digest(s->policy), hex);
    bg_jset_int(o, "rules", (int64_t)bg_policy_rules(s->policy));
    bg_jset_str(o, "sha256", hex);
    bg_jset_bool(o, "distrusted", bg_policy_distrusted(s->policy));
    return o;
}

static void policy_get(struct conn *c, struct bg_rpc_msg *m)
{
    server_check_policy(c->srv);
    bg_rpc_reply(c->rpc, m->id_raw, policy_json(c->srv));
}

static void policy_reload(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    if (server_reload_policy(c->srv, &err))
        bg_rpc_reply(c->rpc, m->id_raw, policy_json(c->srv));
    else
        bg_rpc_error(c->rpc, m->id_raw, &err);
}

static bool add_line(void *data, int64_t seq BG_UNUSED, const char *line, size_t n,
                     const char *hash BG_UNUSED)
{
    cJSON *row = bg_json_parse(line, n, BG_JSON_LINE_MAX, NULL);
    if (row)
        cJSON_AddItemToArray(data, row);
    return true;
}

static void audit_tail(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    struct bg_jr r;
    bg_jr_begin(&r, m->params, "params", &err);
    int64_t n = bg_jr_int_opt(&r, "n", 1, 1000, 50);
    bg_autojson cJSON *a = bg_ja();
    struct bg_audit_reader *rd =
        bg_jr_end(&r) ? bg_audit_reader_open(c->srv->paths->state, &err) : NULL;
    if (rd && bg_audit_reader_tail(rd, n, add_line, a, &err))
        bg_rpc_reply(c->rpc, m->id_raw, bg_steal(a));
    else
        bg_rpc_error(c->rpc, m->id_raw, &err);
    bg_audit_reader_close(rd);
}

static void status(struct conn *c, struct bg_rpc_msg *m)
{
    bg_rpc_reply(c->rpc, m->id_raw, server_status(c->srv));
}

static void stop(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    struct bg_jr r;
    bg_jr_begin(&r, m->params, "params", &err);
    bool force = bg_jr_bool_opt(&r, "force", false);
    if (!bg_jr_end(&r)) {
        bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    if (!force && server_busy(c->srv)) {
        fail(c, m, BG_ERR_CONFLICT,
             "requests are pending or running; deny them first, or stop with --force");
        return;
    }
    bg_rpc_reply(c->rpc, m->id_raw, bg_jo());
    server_stop(c->srv);
}

static const struct method methods[] = {
    {"hello", ROLE_ANY, method_hello},
    {"ping", ROLE_ANY, ping},
    {"bye", ROLE_ANY, bye},
    {"request.submit", ROLE_AGENT, method_submit},
    {"request.wait", ROLE_AGENT, method_wait},
    {"request.cancel", ROLE_AGENT, method_cancel},
    {"session.list", ROLE_ANY, session_list},
    {"session.get", ROLE_ANY, session_get},
    {"session.create", ROLE_OPERATOR, session_create},
    {"session.close", ROLE_OPERATOR, session_close},
    {"approval.list", ROLE_OPERATOR | ROLE_OBSERVER, approval_list},
    {"approval.get", ROLE_OPERATOR | ROLE_OBSERVER, approval_get},
    {"approval.seen", ROLE_OPERATOR, approval_seen},
    {"approval.decide", ROLE_OPERATOR, approval_decide},
    {"approval.extend", ROLE_OPERATOR, approval_extend},
    {"approval.forget", ROLE_OPERATOR, approval_forget},
    {"policy.get", ROLE_OPERATOR | ROLE_OBSERVER, policy_get},
    {"policy.reload", ROLE_OPERATOR, policy_reload},
    {"audit.tail", ROLE_OPERATOR | ROLE_OBSERVER, audit_tail},
    {"server.status", ROLE_OPERATOR | ROLE_OBSERVER, status},
    {"server.stop", ROLE_OPERATOR, stop},
    {"events.subscribe", ROLE_OPERATOR | ROLE_OBSERVER, method_subscribe},
};

void method_call(struct conn *c, struct bg_rpc_msg *m)
{
    for (size_t i = 0; i < bg_countof(methods); i++) {
        if (strcmp(methods[i].name, m->method))
            continue;
        if (!c->hello && methods[i].fn != method_hello)
            bg_rpc_error_code(c->rpc, m->id_raw, BG_RPC_INVALID, "say hello first");
        else if (c->hello && !(methods[i].roles & c->role))
            bg_rpc_error_code(c->rpc, m->id_raw, BG_RPC_FORBIDDEN_ROLE,
                              "this role may not call that method");
        else
            methods[i].fn(c, m);
        return;
    }
    bg_rpc_error_code(c->rpc, m->id_raw, BG_RPC_METHOD, "unknown method");
}

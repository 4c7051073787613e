/* SPDX-License-Identifier: MIT */
/*
 * The requester's methods: submit, wait, cancel. An answer comes when the request is final
 * or when waitMs passed; until then the connection is one of the request's waiters.
 */
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/server/server_priv.h"

static cJSON *answer(struct bg_server *s, struct bg_request *r, bool pipes)
{
    cJSON *o = bg_jo();
    bg_autojson cJSON *row = runner_request_json(s, r, false);
    bg_jset_int(o, "approvalId", (int64_t)bg_request_id(r));
    bg_jset_int(o, "rev", bg_request_rev(r));
    bg_jset_str(o, "sha256", bg_request_sha256(r));
    bg_jset_str(o, "state", bg_request_state_name(bg_request_state(r)));
    static const char *const keep[] = {"expiresAt", "session", "reason"};
    for (size_t i = 0; i < bg_countof(keep); i++) {
        cJSON *v = cJSON_DetachItemFromObjectCaseSensitive(row, keep[i]);
        bg_jset(o, keep[i], v ? v : cJSON_CreateNull());
    }
    if (bg_request_state_final(bg_request_state(r)) && bg_request_result(r)) {
        cJSON *res = cJSON_Duplicate(bg_request_result(r), true);
        if (pipes) {
            cJSON_DeleteItemFromObjectCaseSensitive(res, "stdout");
            cJSON_DeleteItemFromObjectCaseSensitive(res, "stderr");
        }
        bg_jset(o, "result", res);
    }
    return o;
}

static void waiter_free(struct waiter *w)
{
    struct waiter **pp = &w->srv->waiters;
    while (*pp != w)
        pp = &(*pp)->next;
    *pp = w->next;
    bg_timer_free(w->timer);
    free(w->id_raw);
    free(w);
}

static void waiter_answer(struct waiter *w, struct bg_request *r)
{
    bg_rpc_reply(w->conn->rpc, w->id_raw, answer(w->srv, r, w->pipes));
    waiter_free(w);
}

static void on_wait_over(struct bg_timer *t BG_UNUSED, void *data)
{
    struct waiter *w = data;
    struct bg_request *r = bg_approvals_get(w->srv->approvals, w->request);
    if (r) {
        waiter_answer(w, r);
        return;
    }
    bg_rpc_error_code(w->conn->rpc, w->id_raw, BG_RPC_NOT_FOUND,
                      "the request is no longer known");
    waiter_free(w);
}

void waiters_final(struct bg_server *s, struct bg_request *r)
{
    for (struct waiter *w = s->waiters, *next; w; w = next) {
        next = w->next;
        if (w->request == bg_request_id(r))
            waiter_answer(w, r);
    }
}

void waiters_drop(struct bg_server *s, const struct conn *c)
{
    for (struct waiter *w = s->waiters, *next; w; w = next) {
        next = w->next;
        if (w->conn == c)
            waiter_free(w);
    }
}

void waiters_changed(struct bg_server *s, struct bg_request *r)
{
    if (bg_request_state(r) < BG_RS_PENDING)
        return;
    for (struct waiter *w = s->waiters, *next; w; w = next) {
        next = w->next;
        /* One that was merged into r has a number of its own. */
        struct bg_request *own =
            w->timer ? NULL : bg_approvals_get(s->approvals, w->request);
        if (own && bg_request_state(own) >= BG_RS_PENDING)
            waiter_answer(w, own);
    }
}

/* What waits is kept, so one connection may not let any number wait. */
static bool may_wait(const struct conn *c, struct bg_error *err)
{
    size_t n = 0;
    for (const struct waiter *w = c->srv->waiters; w; w = w->next)
        n += w->conn == c;
    return n < BG_WAITS_PER_CONN ||
           bg_fail(err, BG_ERR_LIMIT, 0, "this connection waits for %d answers already",
                   BG_WAITS_PER_CONN);
}

/* Answers now if the request is final, else becomes a waiter. waitMs 0 waits as long as the
 * request is being prepared, so that the answer always names the hash. */
static void wait_for(struct conn *c, const char *id_raw, struct bg_request *r, int64_t ms,
                     bool pipes)
{
    enum bg_request_state st = bg_request_state(r);
    if (bg_request_state_final(st) || (!ms && st >= BG_RS_PENDING)) {
        bg_rpc_reply(c->rpc, id_raw, answer(c->srv, r, pipes));
        return;
    }
    struct waiter *w = bg_xcalloc(1, sizeof *w);
    w->srv = c->srv;
    w->conn = c;
    w->id_raw = bg_xstrdup(id_raw);
    w->request = bg_request_id(r);
    w->pipes = pipes;
    if (ms) {
        w->timer = bg_timer_new(c->srv->loop, on_wait_over, w);
        bg_timer_start(w->timer, ms, 0);
    }
    w->next = c->srv->waiters;
    c->srv->waiters = w;
}

void method_submit(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_server *s = c->srv;
    struct bg_error err = {0};
    struct bg_jr r;
    bg_jr_begin(&r, m->params, "params", &err);
    const char *kind = bg_jr_str(&r, "kind");
    int64_t wait = bg_jr_int_opt(&r, "waitMs", 0, BG_WAIT_MAX_MS, 0);
    bool no_wait = bg_jr_bool_opt(&r, "noWait", false), existing = false;
    if (r.failed || !may_wait(c, &err)) {
        bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    server_check_policy(s);
    struct bg_body *body = bg_body_parse(kind, m->params, &err);
    struct bg_request *q = NULL;
    /* A run's call ids are its own: another run's results are not had by naming them. */
    if (body && body->call_id && c->run_id) {
        bg_autofree char *own = body->call_id;
        body->call_id = bg_xasprintf("%s/%s", c->run_id, own);
    }
    if (body && body->kind != BG_REQ_RUN_CODE && body->kind != BG_REQ_EXEC) {
        bg_fail(&err, BG_ERR_UNSUPPORTED, 0,
                "requests of kind %s are not supported by this version", kind);
        bg_body_free(body);
    } else if (body) {
        q = bg_approvals_submit(s->approvals, body, &c->who, c->token, no_wait, &existing,
                                &err);
    }
    if (!q) {
        bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    bool pipes = m->fds[0] >= 0 && m->fds[1] >= 0 && !existing;
    if (!existing)
        runner_set_origin(q, s, c->run_id, pipes ? bg_steal_fd(&m->fds[0]) : -1,
                          pipes ? bg_steal_fd(&m->fds[1]) : -1);
    wait_for(c, m->id_raw, q, wait, pipes);
}

/* approvalId and sha256 of wait and cancel. */
static bool read_ref(struct bg_rpc_msg *m, uint64_t *id, const char **sha, int64_t *wait,
                     struct bg_error *err)
{
    struct bg_jr r;
    bg_jr_begin(&r, m->params, "params", err);
    *id = (uint64_t)bg_jr_int(&r, "approvalId", 1, BG_JSON_INT_MAX);
    *sha = bg_jr_str(&r, "sha256");
    if (wait)
        *wait = bg_jr_int_opt(&r, "waitMs", 0, BG_WAIT_MAX_MS, 0);
    return bg_jr_end(&r);
}

void method_wait(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    uint64_t id;
    const char *sha;
    int64_t wait;
    struct bg_request *r;
    if (!read_ref(m, &id, &sha, &wait, &err) || !may_wait(c, &err) ||
        !bg_request_attach(c->srv->approvals, id, sha, c->who.uid, c->token, &r, &err)) {
        bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    wait_for(c, m->id_raw, r, wait, false);
}

void method_cancel(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    uint64_t id;
    const char *sha;
    if (!read_ref(m, &id, &sha, NULL, &err) ||
        !bg_request_cancel(c->srv->approvals, id, sha, c->who.uid, &err)) {
        bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    struct bg_request *r = bg_approvals_get(c->srv->approvals, id);
    cJSON *o = bg_jo();
    bg_jset_str(o, "state", r ? bg_request_state_name(bg_request_state(r)) : "cancelled");
    bg_rpc_reply(c->rpc, m->id_raw, o);
}

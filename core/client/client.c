/* SPDX-License-Identifier: MIT */
/* One connection to the server: find it or start it, say hello, compare paths, call, hear
 * events. */
#include "core/client/client.h"

#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/client/client_priv.h"

struct bg_client {
    struct bg_loop *loop;
    struct bg_rpc *rpc;
    const struct bg_client_events *ev;
    void *data;
    cJSON *hello;
    bool closed;
    struct bg_error why;
};

static const char *const role_names[] = {"agent", "operator", "observer"};

static void on_request(void *data, struct bg_rpc *rpc BG_UNUSED, struct bg_rpc_msg *m)
{
    struct bg_client *c = data;
    if (m->id_raw || strcmp(m->method, "event") || !m->params || !c->ev || !c->ev->event)
        return;
    const cJSON *topic = cJSON_GetObjectItemCaseSensitive(m->params, "topic");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(m->params, "type");
    if (cJSON_IsString(topic) && cJSON_IsString(type))
        c->ev->event(c->data, topic->valuestring, type->valuestring,
                     cJSON_GetObjectItemCaseSensitive(m->params, "data"));
}

static void on_closed(void *data, struct bg_rpc *rpc BG_UNUSED, const struct bg_error *err)
{
    struct bg_client *c = data;
    c->closed = true;
    c->why = *err;
    if (c->hello && c->ev && c->ev->closed)
        c->ev->closed(c->data, err);
}

static const struct bg_rpc_events rpc_events = {on_request, on_closed};

static int reach(const struct bg_client_opts *o, struct bg_error *err)
{
    const char *sock =
        o->role == BG_ROLE_AGENT ? o->paths->agent_sock : o->paths->operator_sock;
    int fd = bg_unix_connect(sock, NULL);
    if (fd >= 0)
        return fd;
    if (o->start)
        return client_start_and_connect(o->paths, sock, err);
    bg_fail(err, BG_ERR_UNAVAILABLE, 0,
            "no server runs for %s; start one with: boxgate server", o->paths->runtime);
    return -1;
}

static cJSON *hello_params(const struct bg_client_opts *o)
{
    cJSON *p = bg_jo(), *k = bg_jo();
    bg_jset_int(p, "proto", BG_PROTO);
    bg_jset_str(k, "name", o->name);
    bg_jset_str(k, "version", BG_VERSION);
    bg_jset(p, "client", k);
    bg_jset_str(p, "want", role_names[o->role]);
    if (o->run_id)
        bg_jset_str(p, "runId", o->run_id);
    return p;
}

/* A server of another BOXGATE_HOME would decide by another policy and write another record.
 */
static bool same_paths(const struct bg_client *c, const struct bg_paths *p,
                       struct bg_error *err)
{
    const cJSON *s = cJSON_GetObjectItemCaseSensitive(c->hello, "paths");
    const struct {
        const char *key, *ours;
    } want[] = {{"config", p->config},
                {"state", p->state},
                {"runtime", p->runtime},
                {"cache", p->cache}};
    for (size_t i = 0; i < bg_countof(want); i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(s, want[i].key);
        if (!cJSON_IsString(v) || strcmp(v->valuestring, want[i].ours)) {
            const cJSON *pid = cJSON_GetObjectItemCaseSensitive(c->hello, "pid");
            return bg_fail(err, BG_ERR_FORBIDDEN, 0,
                           "the server here uses another %s folder (%s, not %s); stop it "
                           "with: kill %d",
                           want[i].key, cJSON_IsString(v) ? v->valuestring : "?",
                           want[i].ours, cJSON_IsNumber(pid) ? pid->valueint : 0);
        }
    }
    return true;
}

struct asked {
    bool done;
    cJSON *result;
    struct bg_error err;
};

static void on_answer(void *data, const cJSON *result, const struct bg_error *err)
{
    struct asked *a = data;
    a->done = true;
    if (err)
        a->err = *err;
    else
        a->result = cJSON_Duplicate(result, true);
}

/* wait_ms < 0 waits for ever. Past it the connection is given up, for its late answer would
 * have nowhere to go. */
static cJSON *ask(struct bg_client *c, const char *method, cJSON *params, int64_t wait_ms,
                  struct bg_error *err)
{
    struct asked a = {0};
    int64_t end = bg_mono_ms() + wait_ms;
    if (c->closed) {
        cJSON_Delete(params);
        bg_fail(err, BG_ERR_UNAVAILABLE, 0, "the server is gone: %s", c->why.msg);
        return NULL;
    }
    bg_rpc_call(c->rpc, method, params, NULL, 0, on_answer, &a);
    while (!a.done) {
        int64_t left = end - bg_mono_ms();
        if (wait_ms >= 0 && left <= 0) {
            bg_rpc_free(c->rpc);
            c->rpc = NULL;
            c->closed = true;
            bg_fail(&c->why, BG_ERR_TIMEOUT, 0, "the server does not answer");
            if (err)
                *err = c->why;
            return NULL;
        }
        bg_loop_turn(c->loop, wait_ms < 0 ? -1 : (int)left);
    }
    if (!a.result && err)
        *err = a.err;
    return a.result;
}

struct bg_client *bg_client_connect(struct bg_loop *loop, const struct bg_client_opts *o,
                                    const struct bg_client_events *ev, void *data,
                                    struct bg_error *err)
{
    int fd = reach(o, err);
    if (fd < 0)
        return NULL;
    struct bg_client *c = bg_xcalloc(1, sizeof *c);
    c->loop = loop;
    c->ev = ev;
    c->data = data;
    c->rpc = bg_rpc_new(loop, fd, &rpc_events, c);
    bg_rpc_trust(c->rpc);
    c->hello = ask(c, "hello", hello_params(o), BG_HELLO_MS, err);
    if (c->hello && same_paths(c, o->paths, err))
        return c;
    bg_client_free(c);
    return NULL;
}

void bg_client_free(struct bg_client *c)
{
    if (!c)
        return;
    bg_rpc_free(c->rpc);
    cJSON_Delete(c->hello);
    free(c);
}

const cJSON *bg_client_hello(const struct bg_client *c)
{
    return c->hello;
}

void bg_client_call(struct bg_client *c, const char *method, cJSON *params, const int *fds,
                    size_t n_fds, bg_rpc_fn cb, void *data)
{
    bg_rpc_call(c->rpc, method, params, fds, n_fds, cb, data);
}

cJSON *bg_client_ask(struct bg_client *c, const char *method, cJSON *params,
                     struct bg_error *err)
{
    return ask(c, method, params, -1, err);
}

/* SPDX-License-Identifier: MIT */
#include "tui/link.h"

#include "core/base/mem.h"

#define RETRY_MS 1000

struct link {
    struct bg_loop *loop;
    const struct bg_paths *paths;
    const char *name;
    struct bg_client *client; /* NULL while lost */
    struct bg_timer *retry;
    bool due, lost;
    struct link_events ev;
    void *data;
};

static void on_event(void *data, const char *topic, const char *type, const cJSON *row)
{
    struct link *l = data;
    if (l->ev.event)
        l->ev.event(l->data, topic, type, row);
}

static void on_closed(void *data, const struct bg_error *err)
{
    struct link *l = data;
    l->lost = true;
    bg_timer_start(l->retry, RETRY_MS, 0);
    if (l->ev.disconnected)
        l->ev.disconnected(l->data, err);
}

static const struct bg_client_events client_events = {on_event, on_closed};

static void on_retry(struct bg_timer *t BG_UNUSED, void *data)
{
    struct link *l = data;
    l->due = true;
}

static bool reach(struct link *l, bool start, struct bg_error *err)
{
    struct bg_client_opts o = {
        .role = BG_ROLE_OPERATOR, .name = l->name, .start = start, .paths = l->paths};
    l->client = bg_client_connect(l->loop, &o, &client_events, l, err);
    l->lost = !l->client;
    return l->client != NULL;
}

struct link *link_open(struct bg_loop *loop, const struct bg_paths *paths, const char *name,
                       struct bg_error *err)
{
    struct link *l = bg_xcalloc(1, sizeof *l);
    l->loop = loop;
    l->paths = paths;
    l->name = name;
    l->retry = bg_timer_new(loop, on_retry, l);
    if (reach(l, true, err))
        return l;
    link_close(l);
    return NULL;
}

void link_begin(struct link *l, const struct link_events *ev, void *data)
{
    l->ev = *ev;
    l->data = data;
    if (!l->lost)
        ev->connected(data, bg_client_hello(l->client));
}

/* A server that was stopped on purpose is not started again by a console that looks on. */
void link_poll(struct link *l)
{
    if (!l->due)
        return;
    l->due = false;
    bg_client_free(l->client);
    l->client = NULL;
    if (reach(l, false, NULL))
        l->ev.connected(l->data, bg_client_hello(l->client));
    else
        bg_timer_start(l->retry, RETRY_MS, 0);
}

void link_call(void *data, const char *method, cJSON *params, bg_rpc_fn cb, void *cb_data)
{
    struct link *l = data;
    struct bg_error err = {0};
    if (l->client && !l->lost) {
        bg_client_call(l->client, method, params, NULL, 0, cb, cb_data);
        return;
    }
    cJSON_Delete(params);
    bg_fail(&err, BG_ERR_UNAVAILABLE, 0, "no connection to the server");
    cb(cb_data, NULL, &err);
}

void link_close(struct link *l)
{
    if (!l)
        return;
    bg_client_free(l->client);
    bg_timer_free(l->retry);
    free(l);
}

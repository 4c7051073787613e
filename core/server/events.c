/* SPDX-License-Identifier: MIT */
/*
 * Events for subscribers: numbered, kept in a ring so that a client that re-subscribes with
 * sinceSeq misses nothing the ring still holds. A console that falls too far behind is cut
 * off.
 */
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/server/server_priv.h"

/* Rows are about half a KiB; the bound in bytes keeps a burst of long ones small. */
#define RING_BYTES 1048576

static const char *const topic_names[TOPIC_COUNT_] = {"approval", "session", "server",
                                                      "policy"};

struct slot {
    int64_t seq;
    enum topic topic;
    char *text; /* params of the notification, as JSON */
    size_t len;
};

struct event_ring {
    struct slot slots[BG_EVENT_RING];
    int64_t first, next; /* seq; slots[seq % BG_EVENT_RING] */
    size_t bytes;
};

struct event_ring *event_ring_new(void)
{
    struct event_ring *r = bg_xcalloc(1, sizeof *r);
    r->first = r->next = 1;
    return r;
}

static void drop_oldest(struct event_ring *r)
{
    struct slot *s = &r->slots[r->first % BG_EVENT_RING];
    r->bytes -= s->len;
    free(s->text);
    *s = (struct slot){0};
    r->first++;
}

void event_ring_free(struct event_ring *r)
{
    if (!r)
        return;
    while (r->first < r->next)
        drop_oldest(r);
    free(r);
}

static void send_event(struct conn *c, const char *text)
{
    struct bg_error err = {0};
    cJSON *params = bg_json_parse(text, strlen(text), BG_JSON_LINE_MAX, &err);
    if (params)
        bg_rpc_notify(c->rpc, "event", params);
    else
        bg_log(c->srv->log, BG_LOG_ERROR, "an event could not be sent: %s", err.msg);
}

void event_emit(struct bg_server *s, enum topic t, const char *type, cJSON *row)
{
    struct event_ring *r = s->ring;
    cJSON *p = bg_jo();
    int64_t seq = r->next;
    bg_jset_int(p, "seq", seq);
    bg_jset_str(p, "topic", topic_names[t]);
    bg_jset_str(p, "type", type);
    bg_jset(p, "data", row ? row : bg_jo());
    struct slot slot = {.seq = seq, .topic = t, .text = bg_json_print(p)};
    slot.len = strlen(slot.text);
    cJSON_Delete(p);
    while (r->first < r->next &&
           (r->next - r->first >= BG_EVENT_RING || r->bytes + slot.len > RING_BYTES))
        drop_oldest(r);
    r->slots[seq % BG_EVENT_RING] = slot;
    r->bytes += slot.len;
    r->next++;
    for (struct conn *c = s->conns, *next; c; c = next) {
        next = c->next;
        if (!(c->topics & (1u << t)))
            continue;
        if (bg_rpc_behind(c->rpc) > BG_CONSOLE_BEHIND_MAX) {
            bg_log(s->log, BG_LOG_WARN, "client %s is too far behind, disconnected",
                   c->who.client);
            conn_cut(c);
            continue;
        }
        send_event(c, slot.text);
    }
}

static bool read_topics(const cJSON *topics, unsigned *out)
{
    const cJSON *t;
    *out = 0;
    cJSON_ArrayForEach(t, topics)
    {
        bool known = false;
        for (unsigned i = 0; i < TOPIC_COUNT_; i++)
            if (cJSON_IsString(t) && !strcmp(t->valuestring, topic_names[i])) {
                *out |= 1u << i;
                known = true;
            }
        if (!known)
            return false;
    }
    return *out != 0;
}

static void send_missed(struct conn *c, int64_t since)
{
    struct event_ring *r = c->srv->ring;
    if (since + 1 < r->first) {
        cJSON *p = bg_jo();
        cJSON *d = bg_jo();
        bg_jset_int(d, "from", since + 1);
        bg_jset_int(d, "to", r->first - 1);
        bg_jset_int(p, "seq", r->first - 1);
        bg_jset_str(p, "topic", topic_names[TOPIC_SERVER]);
        bg_jset_str(p, "type", "lost");
        bg_jset(p, "data", d);
        bg_rpc_notify(c->rpc, "event", p);
        since = r->first - 1;
    }
    for (int64_t q = since + 1; q < r->next; q++) {
        const struct slot *s = &r->slots[q % BG_EVENT_RING];
        if (c->topics & (1u << s->topic))
            send_event(c, s->text);
    }
}

void method_subscribe(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    struct bg_jr r;
    unsigned topics = 0;
    bg_jr_begin(&r, m->params, "params", &err);
    const cJSON *t = bg_jr_arr_opt(&r, "topics");
    int64_t since = bg_jr_int_opt(&r, "sinceSeq", 0, BG_JSON_INT_MAX, -1);
    if (!r.failed && !read_topics(t, &topics))
        bg_jr_fail(&r, "topics", "expected some of approval, session, server, policy");
    if (!bg_jr_end(&r)) {
        bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    cJSON *res = bg_jo();
    bg_jset_int(res, "seq", c->srv->ring->next - 1);
    bg_rpc_reply(c->rpc, m->id_raw, res);
    c->topics = topics;
    if (since >= 0)
        send_missed(c, since);
}

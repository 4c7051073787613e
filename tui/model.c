/* SPDX-License-Identifier: MIT */
/* Rows to structs, events to changes; nothing is trusted to have its type. */
#include "tui/model.h"

#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/mem.h"

void model_init(struct model *m)
{
    *m = (struct model){0};
}

/* ---- reading rows ---- */

static char *text(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return bg_xstrdup(cJSON_IsString(v) ? v->valuestring : "");
}

/* Far from where sums of a few of them overflow. */
static int64_t whole(double v)
{
    const double most = 4e15;
    return v > most ? (int64_t)most : v < -most ? -(int64_t)most : (int64_t)v;
}

static int64_t number(const cJSON *o, const char *key, int64_t dflt)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(v) ? whole(v->valuedouble) : dflt;
}

static bool flag(const cJSON *o, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, key));
}

static int64_t time_of(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(v) ? bg_time_parse(v->valuestring) : -1;
}

static char *joined(const cJSON *a)
{
    struct bg_buf b;
    const cJSON *v;
    bg_buf_init(&b, 65536);
    cJSON_ArrayForEach(v, a)
    {
        if (cJSON_IsString(v))
            bg_buf_printf(&b, "%s%s", b.len ? ", " : "", v->valuestring);
    }
    return bg_buf_steal(&b);
}

static char *joined_at(const cJSON *o, const char *key)
{
    return joined(cJSON_GetObjectItemCaseSensitive(o, key));
}

static void request_free(struct request *r)
{
    char *all[] = {r->sha256,   r->kind,       r->session, r->profile, r->language,
                   r->state,    r->first_line, r->purpose, r->client,  r->exe,
                   r->decision, r->decided_by, r->reason,  r->hazards};
    for (size_t i = 0; i < bg_countof(all); i++)
        free(all[i]);
}

static bool request_read(struct request *r, const cJSON *o)
{
    int64_t id = number(o, "id", 0);
    if (id <= 0)
        return false;
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(o, "exitCode");
    *r = (struct request){
        .id = (uint64_t)id,
        .rev = (uint32_t)number(o, "rev", 0),
        .sha256 = text(o, "sha256"),
        .kind = text(o, "kind"),
        .session = text(o, "session"),
        .profile = text(o, "profile"),
        .language = text(o, "language"),
        .state = text(o, "state"),
        .first_line = text(o, "firstLine"),
        .purpose = text(o, "purpose"),
        .client = text(o, "client"),
        .exe = text(o, "exe"),
        .decision = text(o, "decision"),
        .decided_by = text(o, "decidedBy"),
        .reason = text(o, "reason"),
        .hazards = joined_at(o, "hazards"),
        .high = flag(o, "high"),
        .attached = flag(o, "attached"),
        .lines = number(o, "lines", 0),
        .bytes = number(o, "bytes", 0),
        .waiting = number(o, "waiting", 0),
        .uid = number(o, "uid", -1),
        .pid = number(o, "pid", 0),
        .requested_ms = time_of(o, "requestedAt"),
        .expires_ms = time_of(o, "expiresAt"),
        .timeout_ms = number(o, "timeoutMs", 0),
        .has_exit = cJSON_IsNumber(code),
        .exit_code = number(o, "exitCode", 0),
    };
    return true;
}

static void session_free(struct session *s)
{
    char *all[] = {s->id,      s->state,   s->provider,     s->image,  s->image_id,
                   s->profile, s->network, s->not_enforced, s->run_id, s->last_exit};
    for (size_t i = 0; i < bg_countof(all); i++)
        free(all[i]);
}

/* FNV-1a; two ids of one key are kept apart by probing. */
static uint64_t key_of(const struct model *m, const char *id)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (const char *p = id; *p; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
    for (size_t i = 0; i < m->n_sessions; i++)
        if (m->sessions[i].key == h && strcmp(m->sessions[i].id, id)) {
            h++;
            i = 0;
        }
    return h ? h : 1;
}

static void read_stats(struct session *s, const cJSON *stats)
{
    const cJSON *cpu = cJSON_GetObjectItemCaseSensitive(stats, "cpuPercent");
    s->has_stats = cJSON_IsObject(stats);
    s->cpu_tenths = cJSON_IsNumber(cpu) ? whole(cpu->valuedouble * 10) : -1;
    s->mem_bytes = number(stats, "memBytes", -1);
    s->processes = number(stats, "processes", -1);
}

static bool session_read(const struct model *m, struct session *s, const cJSON *o,
                         int64_t now_ms)
{
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(o, "id");
    const cJSON *spec = cJSON_GetObjectItemCaseSensitive(o, "spec");
    const cJSON *limits = cJSON_GetObjectItemCaseSensitive(spec, "limits");
    const cJSON *cpus = cJSON_GetObjectItemCaseSensitive(limits ? limits : o, "cpus");
    const cJSON *last = cJSON_GetObjectItemCaseSensitive(o, "lastExit");
    if (!cJSON_IsString(id) || !*id->valuestring)
        return false;
    *s = (struct session){
        .key = key_of(m, id->valuestring),
        .id = text(o, "id"),
        .state = text(o, "state"),
        .provider = text(o, "provider"),
        .image = text(o, "image"),
        .image_id = text(o, "imageId"),
        .profile = text(o, "profile"),
        .network = text(o, "network"),
        .run_id = text(o, "runId"),
        .not_enforced = joined_at(o, "notEnforced"),
        .last_exit = cJSON_IsNumber(last) ? bg_xasprintf("%g", last->valuedouble)
                                          : text(o, "lastExit"),
        .memory_mb = number(o, "memoryMb", number(limits, "memoryMb", -1)),
        .cpus_milli = cJSON_IsNumber(cpus) ? whole(cpus->valuedouble * 1000 + 0.5) : -1,
        .pids = number(o, "pids", number(limits, "pidsLimit", -1)),
        .calls = number(o, "calls", number(o, "runs", 0)),
        .denied = number(o, "denied", 0),
        .running = number(o, "running", 0),
        .created_ms = time_of(o, "createdAt"),
        .used_ms = time_of(o, "usedAt"),
        .changed_outside = flag(o, "changedOutside"),
    };
    if (s->created_ms < 0)
        s->created_ms = time_of(o, "openedAt");
    if (s->used_ms < 0 && number(o, "idleMs", -1) >= 0)
        s->used_ms = now_ms - number(o, "idleMs", 0);
    read_stats(s, cJSON_GetObjectItemCaseSensitive(o, "stats"));
    return true;
}

/* ---- activity ---- */

static void activity_add(struct model *m, int64_t now_ms, const char *word, int level,
                         uint64_t request, char *owned)
{
    if (m->activity_n == MODEL_ACTIVITY) {
        free(m->activity[0].text);
        memmove(m->activity, m->activity + 1, sizeof m->activity - sizeof *m->activity);
        m->activity_n--;
    }
    m->activity[m->activity_n++] = (struct activity){
        .at_ms = now_ms, .word = word, .level = level, .request = request, .text = owned};
}

void model_note(struct model *m, int64_t now_ms, const char *word, int level,
                const char *words)
{
    activity_add(m, now_ms, word, level, 0, bg_xstrdup(words));
}

static char *outcome_text(const struct request *r)
{
    if (!strcmp(r->state, "running"))
        return bg_xstrdup(r->session);
    if (r->has_exit && !strcmp(r->state, "done"))
        return bg_xasprintf("%s exit %lld", r->session, (long long)r->exit_code);
    bool by =
        *r->decided_by && (!strcmp(r->state, "approved") || !strcmp(r->state, "denied"));
    return bg_xasprintf("%s%s%s%s%s", r->session, by ? " by " : "", by ? r->decided_by : "",
                        *r->reason ? ": " : "", r->reason);
}

static int level_of(const struct request *r)
{
    if (!strcmp(r->state, "done"))
        return r->has_exit && r->exit_code ? 2 : 1;
    if (!strcmp(r->state, "approved") || !strcmp(r->state, "running"))
        return 1;
    return !strcmp(r->state, "denied") || !strcmp(r->state, "cancelled") ? 2 : 3;
}

/* Says a change of state once, in one word that is ours. */
static const char *state_word(const char *state)
{
    static const char *const words[] = {"approved",  "running", "denied",     "expired",
                                        "cancelled", "lost",    "done",       "failed",
                                        "timed_out", "killed",  "interrupted"};
    for (size_t i = 0; i < bg_countof(words); i++)
        if (!strcmp(state, words[i]))
            return words[i];
    return NULL;
}

static void say_change(struct model *m, const struct request *r, const char *before,
                       int64_t now_ms)
{
    if (before && !strcmp(before, r->state))
        return;
    if (request_pending(r)) {
        m->arrived++;
        activity_add(m, now_ms, "request", r->high ? 3 : 0, r->id,
                     bg_xasprintf("%s %s%s", r->session,
                                  *r->language ? r->language : r->kind,
                                  r->high ? " HIGH" : ""));
        return;
    }
    const char *word = state_word(r->state);
    if (word)
        activity_add(m, now_ms, word, level_of(r), r->id, outcome_text(r));
}

/* ---- requests ---- */

bool request_pending(const struct request *r)
{
    return !strcmp(r->state, "pending");
}

static struct request *find_request(const struct model *m, uint64_t id)
{
    for (size_t i = 0; i < m->n_requests; i++)
        if (m->requests[i].id == id)
            return &m->requests[i];
    return NULL;
}

const struct request *model_request(const struct model *m, uint64_t id)
{
    return find_request(m, id);
}

static bool older(const struct request *a, const struct request *b)
{
    if (a->requested_ms != b->requested_ms)
        return a->requested_ms < b->requested_ms;
    return a->id < b->id;
}

static void drop_request(struct model *m, size_t i)
{
    request_free(&m->requests[i]);
    memmove(&m->requests[i], &m->requests[i + 1],
            (m->n_requests - i - 1) * sizeof *m->requests);
    m->n_requests--;
}

/* Makes room by forgetting the oldest that has ended. */
static bool room_for_request(struct model *m)
{
    if (m->n_requests < MODEL_ROWS_MAX)
        return true;
    for (size_t i = 0; i < m->n_requests; i++)
        if (state_word(m->requests[i].state)) {
            drop_request(m, i);
            return true;
        }
    return false;
}

static void put_request(struct model *m, struct request *r)
{
    struct request *old = find_request(m, r->id);
    if (old) {
        request_free(old);
        *old = *r;
        return;
    }
    if (!room_for_request(m)) {
        request_free(r);
        return;
    }
    m->requests = bg_xrealloc(m->requests, m->n_requests + 1, sizeof *m->requests);
    size_t i = m->n_requests++;
    for (; i > 0 && older(r, &m->requests[i - 1]); i--)
        m->requests[i] = m->requests[i - 1];
    m->requests[i] = *r;
}

static void request_row(struct model *m, const cJSON *o, int64_t now_ms)
{
    struct request r;
    if (!request_read(&r, o))
        return;
    const struct request *old = find_request(m, r.id);
    if (old && old->rev > r.rev) { /* a list that was overtaken by an event */
        request_free(&r);
        return;
    }
    bg_autofree char *before = old ? bg_xstrdup(old->state) : NULL;
    uint64_t id = r.id;
    put_request(m, &r);
    const struct request *now = find_request(m, id);
    if (now)
        say_change(m, now, before, now_ms);
}

void model_reconnected(struct model *m)
{
    for (size_t i = 0; i < m->n_requests; i++)
        m->requests[i].rev = 0;
}

/* What the list no longer has is over, though nobody said how. */
void model_set_requests(struct model *m, const cJSON *rows, int64_t now_ms)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, rows)
    {
        request_row(m, o, now_ms);
    }
    for (size_t i = m->n_requests; i-- > 0;) {
        bool listed = false;
        cJSON_ArrayForEach(o, rows)
        {
            listed |= number(o, "id", 0) == (int64_t)m->requests[i].id;
        }
        if (!listed && request_pending(&m->requests[i]))
            drop_request(m, i);
    }
}

uint64_t *model_pending(const struct model *m, size_t *n)
{
    uint64_t *ids = bg_xcalloc(m->n_requests + 1, sizeof *ids);
    *n = 0;
    for (size_t i = 0; i < m->n_requests; i++)
        if (request_pending(&m->requests[i]))
            ids[(*n)++] = m->requests[i].id;
    return ids;
}

int64_t model_next_expiry(const struct model *m)
{
    int64_t first = -1;
    for (size_t i = 0; i < m->n_requests; i++) {
        const struct request *r = &m->requests[i];
        if (request_pending(r) && r->expires_ms >= 0 &&
            (first < 0 || r->expires_ms < first))
            first = r->expires_ms;
    }
    return first;
}

/* ---- sessions ---- */

const struct session *model_session(const struct model *m, uint64_t key)
{
    for (size_t i = 0; i < m->n_sessions; i++)
        if (m->sessions[i].key == key)
            return &m->sessions[i];
    return NULL;
}

uint64_t *model_session_keys(const struct model *m, size_t *n)
{
    uint64_t *keys = bg_xcalloc(m->n_sessions + 1, sizeof *keys);
    for (size_t i = 0; i < m->n_sessions; i++)
        keys[i] = m->sessions[i].key;
    *n = m->n_sessions;
    return keys;
}

static void drop_session(struct model *m, size_t i)
{
    session_free(&m->sessions[i]);
    memmove(&m->sessions[i], &m->sessions[i + 1],
            (m->n_sessions - i - 1) * sizeof *m->sessions);
    m->n_sessions--;
}

static void session_row(struct model *m, const cJSON *o, int64_t now_ms)
{
    struct session s;
    if (!session_read(m, &s, o, now_ms))
        return;
    for (size_t i = 0; i < m->n_sessions; i++)
        if (m->sessions[i].key == s.key) {
            session_free(&m->sessions[i]);
            m->sessions[i] = s;
            return;
        }
    if (m->n_sessions == MODEL_ROWS_MAX) {
        session_free(&s);
        return;
    }
    m->sessions = bg_xrealloc(m->sessions, m->n_sessions + 1, sizeof *m->sessions);
    m->sessions[m->n_sessions++] = s;
}

void model_set_sessions(struct model *m, const cJSON *rows, int64_t now_ms)
{
    const cJSON *o;
    while (m->n_sessions)
        drop_session(m, m->n_sessions - 1);
    cJSON_ArrayForEach(o, rows)
    {
        session_row(m, o, now_ms);
    }
}

static void session_closed(struct model *m, const cJSON *o, int64_t now_ms)
{
    bg_autofree char *id = text(o, "id");
    for (size_t i = 0; i < m->n_sessions; i++)
        if (!strcmp(m->sessions[i].id, id)) {
            drop_session(m, i);
            activity_add(m, now_ms, "closed", 0, 0, bg_xasprintf("session %s", id));
            return;
        }
}

/* ---- events ---- */

bool model_event(struct model *m, const char *topic, const char *type, const cJSON *data,
                 int64_t now_ms)
{
    if (!strcmp(topic, "approval")) {
        request_row(m, data, now_ms);
    } else if (!strcmp(topic, "session")) {
        if (!strcmp(type, "closed"))
            session_closed(m, data, now_ms);
        else
            session_row(m, data, now_ms);
    } else if (!strcmp(topic, "server") && !strcmp(type, "stopping")) {
        model_note(m, now_ms, "server", 2, "is stopping");
    } else if (!strcmp(topic, "policy")) {
        model_note(m, now_ms, "policy", 0, "was read again");
    }
    return !strcmp(type, "lost");
}

void model_free(struct model *m)
{
    for (size_t i = 0; i < m->n_requests; i++)
        request_free(&m->requests[i]);
    for (size_t i = 0; i < m->n_sessions; i++)
        session_free(&m->sessions[i]);
    for (size_t i = 0; i < m->activity_n; i++)
        free(m->activity[i].text);
    free(m->requests);
    free(m->sessions);
    *m = (struct model){0};
}

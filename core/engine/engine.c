/* SPDX-License-Identifier: MIT */
/*
 * One engine: found, asked for its version and facts, then calls. Every call is an op that
 * can be cancelled; whoever is called back may cancel anything or close the engine, so what
 * is freed in the middle is only marked, and goes when the stack is clear.
 */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/engine/engine_int.h"

enum { OPENING_CALL_MS = 10000 };

struct bg_engine {
    struct bg_engine_opts o; /* strings owned */
    struct bg_http *http;
    struct bg_engine_facts facts;
    struct bg_engine_op *ops;
    struct engine_watch *watch;
    struct engine_places places;
    size_t place; /* being tried */
    struct engine_service *service;
    char *name;
    int minor;
    struct bg_timer *soon;
    bg_engine_done_fn opened;
    void *opened_data;
    struct bg_error why; /* of the places that failed */
    unsigned depth;
    bool closed;
};

/* ---- ops ---- */

static void op_free(struct bg_engine_op *op)
{
    struct bg_engine *e = op->e;

    for (struct bg_engine_op **at = &e->ops; *at; at = &(*at)->next) {
        if (*at == op) {
            *at = op->next;
            break;
        }
    }
    if (op->call)
        bg_http_cancel(op->call);
    bg_timer_free(op->timer);
    if (op->clear)
        op->clear(op);
    free(op->own);
    free(op);
}

static void engine_free(struct bg_engine *e);

static void enter(struct bg_engine *e)
{
    e->depth++;
}

static void leave(struct bg_engine *e)
{
    if (--e->depth > 0)
        return;
    if (e->closed) {
        engine_free(e);
        return;
    }
    for (struct bg_engine_op **at = &e->ops; *at;) {
        struct bg_engine_op *op = *at;
        if (op->over)
            op_free(op);
        else
            at = &op->next;
    }
}

struct bg_engine_op *op_new(struct bg_engine *e, op_fn answered, union op_done done,
                            void *data)
{
    struct bg_engine_op *op = bg_xcalloc(1, sizeof *op);

    *op = (struct bg_engine_op){
        .next = e->ops, .e = e, .answered = answered, .done = done, .data = data};
    e->ops = op;
    return op;
}

static void on_answer(void *data, const struct bg_http_answer *a,
                      const struct bg_error *err)
{
    struct bg_engine_op *op = data;
    struct bg_engine *e = op->e;

    op->call = NULL;
    if (e->closed || op->over)
        return;
    enter(e);
    op->again = false;
    op->answered(op, a, err);
    if (!op->again)
        op->over = true;
    leave(e);
}

static void on_chunk(void *data, const char *p, size_t n)
{
    struct bg_engine_op *op = data;
    struct bg_engine *e = op->e;

    if (e->closed || op->over)
        return;
    enter(e);
    op->chunk(op, p, n);
    leave(e);
}

void op_send(struct bg_engine_op *op, const struct op_request *r)
{
    static const struct bg_http_events events = {.chunk = on_chunk, .done = on_answer};
    struct bg_engine *e = op->e;
    bg_autofree char *path = r->path;
    bg_autojson cJSON *body = r->body;
    bg_autofree char *full = e->minor ? bg_xasprintf("/v1.%d%s", e->minor, path) : NULL;
    bg_autofree char *text = body ? bg_json_print(body) : NULL;
    const struct bg_http_request req = {.method = r->method,
                                        .path = full ? full : path,
                                        .body = text,
                                        .timeout_ms = r->timeout_ms,
                                        .max = r->max ? r->max : BG_ENGINE_ANSWER_MAX,
                                        .stream = r->chunk != NULL,
                                        .once = r->once};

    op->chunk = r->chunk;
    op->again = true;
    op->call = bg_http_start(e->http, &req, &events, op);
}

bool op_ok(const struct bg_engine_op *op, const struct bg_http_answer *a, const char *doing,
           struct bg_error *err)
{
    enum bg_errc code = BG_ERR_UNAVAILABLE;

    if (a->status >= 200 && a->status < 300)
        return true;
    bg_autofree char *said = engine_message(a->body.data ? a->body.data : "", a->body.len);
    if (a->status == 404)
        code = BG_ERR_NOT_FOUND;
    /* Podman answers 500 where Docker answers 409. */
    else if (a->status == 409 || strstr(said, "is already in use"))
        code = BG_ERR_CONFLICT;
    return bg_fail(err, code, 0, "%s: %s failed (HTTP %d)%s%s", op->e->name, doing,
                   a->status, *said ? ": " : "", said);
}

void bg_engine_cancel(struct bg_engine_op *op)
{
    if (!op)
        return;
    op->over = true;
    if (op->e->depth == 0)
        op_free(op);
}

struct bg_loop *engine_loop(const struct bg_engine *e)
{
    return e->o.loop;
}

struct bg_log *engine_log(const struct bg_engine *e)
{
    return e->o.log;
}

int64_t engine_call_ms(const struct bg_engine *e)
{
    return e->o.call_ms;
}

const char *engine_name(const struct bg_engine *e)
{
    return e->name;
}

void engine_watch_set(struct bg_engine *e, struct engine_watch *w)
{
    engine_watch_free(e->watch);
    e->watch = w;
}

const struct bg_engine_facts *bg_engine_facts(const struct bg_engine *e)
{
    return &e->facts;
}

/* ---- opening ---- */

static void try_next(struct bg_engine *e);

static void tell(struct bg_engine *e, const struct bg_error *err)
{
    bg_engine_done_fn opened = e->opened;

    e->opened = NULL;
    enter(e);
    opened(e->opened_data, err);
    leave(e);
}

static void place_failed(struct bg_engine *e, const struct bg_error *err)
{
    if (e->why.code == BG_OK) {
        e->why = *err;
    } else {
        bg_autofree char *before = bg_xstrdup(e->why.msg);
        bg_fail(&e->why, BG_ERR_UNAVAILABLE, 0, "%s; %s", before, err->msg);
    }
    e->place++;
    e->minor = 0;
    bg_timer_start(e->soon, 0, 0);
}

/* Whether the engine counts processes as we do: the owner of its socket is a process that
 * we see, and sees itself under the same number. */
static bool same_pids(const char *socket_path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct ucred cred = {0};
    socklen_t len = sizeof cred;
    bg_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bg_autobuf struct bg_buf b = {0};
    char path[48];
    const char *ns;

    if (fd < 0 || strlen(socket_path) >= sizeof a.sun_path)
        return false;
    memcpy(a.sun_path, socket_path, strlen(socket_path) + 1);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 || cred.pid <= 0)
        return false;
    snprintf(path, sizeof path, "/proc/%d/status", (int)cred.pid);
    bg_buf_init(&b, 16384);
    if (!bg_read_file(path, 16384, false, &b, NULL))
        return false;
    ns = strstr(b.data, "\nNSpid:\t");
    /* One number: it is in no namespace below ours. */
    return ns && strspn(ns + 8, "0123456789") == strcspn(ns + 8, "\n");
}

static void on_info(struct bg_engine_op *op, const struct bg_http_answer *a,
                    const struct bg_error *err)
{
    struct bg_engine *e = op->e;
    struct bg_error why;

    if (err) {
        place_failed(e, err);
    } else if (!op_ok(op, a, "asking for its facts", &why) ||
               !engine_parse_info(a->body.data, a->body.len, &e->facts, &why)) {
        place_failed(e, &why);
    } else {
        e->facts.same_pids = same_pids(bg_http_socket(e->http));
        tell(e, NULL);
    }
}

static void ask_info(struct bg_engine *e)
{
    struct bg_engine_op *op = op_new(e, on_info, (union op_done){0}, NULL);

    op_send(op, &(struct op_request){.method = "GET",
                                     .path = bg_xstrdup("/info"),
                                     .timeout_ms = OPENING_CALL_MS});
}

static void take_version(struct bg_engine *e, const struct engine_version *v)
{
    struct bg_engine_facts *f = &e->facts;

    free(f->version);
    free(f->api);
    free(f->arch);
    f->podman = v->podman;
    f->version = bg_xstrdup(v->version);
    f->arch = bg_xstrdup(v->arch);
    f->api = bg_xasprintf("1.%d", e->minor);
    free(f->endpoint);
    free(f->why);
    f->endpoint = bg_xasprintf("unix://%s", bg_http_socket(e->http));
    f->why = bg_xstrdup(e->place < e->places.n ? e->places.v[e->place].why
                                               : "Podman, started by boxgate");
}

static bool agree(struct bg_engine *e, const struct bg_http_answer *a, struct bg_error *err)
{
    struct engine_version v = {0};

    if (!engine_parse_version(a->body.data, a->body.len, &v, err))
        return false;
    e->minor = engine_negotiate(&v, err);
    if (e->minor)
        take_version(e, &v);
    engine_version_clear(&v);
    return e->minor != 0;
}

static void on_version(struct bg_engine_op *op, const struct bg_http_answer *a,
                       const struct bg_error *err)
{
    struct bg_engine *e = op->e;
    struct bg_error why;

    if (err) {
        place_failed(e, err);
    } else if (!op_ok(op, a, "asking for its version", &why)) {
        place_failed(e, &why);
    } else if (!agree(e, a, &why)) {
        bg_error_prefix(&why, "%s", e->name);
        place_failed(e, &why);
    } else {
        ask_info(e);
    }
}

static void ask_version(struct bg_engine *e, const char *socket)
{
    struct bg_engine_op *op = op_new(e, on_version, (union op_done){0}, NULL);

    free(e->name);
    e->name = bg_xasprintf("the engine at %s", socket);
    bg_http_free(e->http);
    e->http = bg_http_new(e->o.loop, socket, e->name);
    op_send(op, &(struct op_request){.method = "GET",
                                     .path = bg_xstrdup("/version"),
                                     .timeout_ms = OPENING_CALL_MS});
}

static void service_up(void *data, const struct bg_error *err)
{
    struct bg_engine *e = data;

    if (!e->opened)
        return; /* started again */
    if (err)
        place_failed(e, err);
    else
        ask_version(e, engine_service_socket(e->service));
}

static void try_next(struct bg_engine *e)
{
    if (e->place < e->places.n) {
        ask_version(e, e->places.v[e->place].socket);
    } else if (e->place == e->places.n && e->places.service) {
        e->service = engine_service_start(&e->o, e->places.program, service_up, e);
    } else {
        struct bg_error why = e->why;
        tell(e, &why);
    }
}

static void on_soon(struct bg_timer *t BG_UNUSED, void *data)
{
    try_next(data);
}

struct bg_engine *bg_engine_open(const struct bg_engine_opts *o, bg_engine_done_fn done,
                                 void *data)
{
    const struct engine_look look = {
        .root = "", .env = (const char *(*)(const char *))getenv, .uid = geteuid()};
    struct bg_engine *e = bg_xcalloc(1, sizeof *e);

    e->o = *o;
    e->o.runtime = bg_xstrdup(o->runtime);
    e->o.endpoint = bg_xstrdup(o->endpoint);
    e->o.program = bg_xstrdup(o->program);
    e->o.runtime_dir = bg_xstrdup(o->runtime_dir);
    e->name = bg_xstrdup("the engine");
    e->opened = done;
    e->opened_data = data;
    e->soon = bg_timer_new(o->loop, on_soon, e);
    if (!engine_places_find(&e->places, &e->o, &look, &e->why))
        e->place = e->places.n + 1; /* on_soon tells */
    bg_timer_start(e->soon, 0, 0);
    return e;
}

/* ---- closing ---- */

static void facts_clear(struct bg_engine_facts *f)
{
    free(f->version);
    free(f->api);
    free(f->endpoint);
    free(f->why);
    free(f->arch);
}

static void engine_free(struct bg_engine *e)
{
    engine_watch_free(e->watch);
    while (e->ops)
        op_free(e->ops);
    bg_http_free(e->http);
    engine_service_stop(e->service);
    engine_places_clear(&e->places);
    bg_timer_free(e->soon);
    facts_clear(&e->facts);
    free((char *)e->o.runtime);
    free((char *)e->o.endpoint);
    free((char *)e->o.program);
    free((char *)e->o.runtime_dir);
    free(e->name);
    free(e);
}

void bg_engine_close(struct bg_engine *e)
{
    if (!e)
        return;
    e->closed = true;
    for (struct bg_engine_op *op = e->ops; op; op = op->next)
        op->over = true; /* what is in the middle of an answer looks at this */
    if (e->depth == 0)
        engine_free(e);
}

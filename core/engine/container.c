/* SPDX-License-Identifier: MIT */
/* Calls about containers: made, started, looked at, listed, removed. */
#include "core/base/clock.h"
#include "core/engine/engine_int.h"

/* ---- infos ---- */

void bg_container_info_clear(struct bg_container_info *i)
{
    char *const strings[] = {i->id,     i->name, i->image,  i->started_at,
                             i->status, i->user, i->network};
    char **const lists[] = {i->entrypoint, i->cmd,   i->env,     i->networks,
                            i->mounts,     i->tmpfs, i->cap_add, i->cap_drop,
                            i->security,   i->modes, i->labels};

    for (size_t n = 0; n < bg_countof(strings); n++)
        free(strings[n]);
    for (size_t n = 0; n < bg_countof(lists); n++)
        bg_strv_free(lists[n]);
    *i = (struct bg_container_info){0};
}

static bool same_list(char *const *a, char *const *b)
{
    size_t n = bg_strv_len(a);

    if (n != bg_strv_len(b))
        return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(a[i], b[i]) != 0)
            return false;
    return true;
}

const char *bg_container_differs(const struct bg_container_info *a,
                                 const struct bg_container_info *b)
{
    const struct {
        const char *name;
        bool same;
    } parts[] = {
        {"id", !strcmp(a->id, b->id)},
        {"image", !strcmp(a->image, b->image)},
        {"start time", !strcmp(a->started_at, b->started_at)},
        {"first process", a->pid == b->pid && a->restarts == b->restarts},
        {"state", a->running == b->running && a->paused == b->paused},
        {"user", !strcmp(a->user, b->user)},
        {"network", !strcmp(a->network, b->network) && same_list(a->networks, b->networks)},
        {"command", same_list(a->entrypoint, b->entrypoint) && same_list(a->cmd, b->cmd)},
        {"environment", same_list(a->env, b->env)},
        {"mounts", same_list(a->mounts, b->mounts) && same_list(a->tmpfs, b->tmpfs)},
        {"capabilities",
         same_list(a->cap_add, b->cap_add) && same_list(a->cap_drop, b->cap_drop)},
        {"security options", same_list(a->security, b->security) &&
                                 a->privileged == b->privileged &&
                                 a->readonly_rootfs == b->readonly_rootfs},
        {"namespaces", same_list(a->modes, b->modes)},
        {"devices", a->devices == b->devices},
        {"memory limit", a->memory == b->memory && a->memory_swap == b->memory_swap},
        {"cpu limit", a->nano_cpus == b->nano_cpus},
        {"pids limit", a->pids_limit == b->pids_limit},
    };

    for (size_t i = 0; i < bg_countof(parts); i++)
        if (!parts[i].same)
            return parts[i].name;
    return NULL;
}

static const char *find_label(char *const *labels, const char *key)
{
    size_t n = strlen(key);

    for (; labels && *labels; labels++)
        if (strncmp(*labels, key, n) == 0 && (*labels)[n] == '=')
            return *labels + n + 1;
    return NULL;
}

const char *bg_container_label(const struct bg_container_info *i, const char *key)
{
    return find_label(i->labels, key);
}

const char *bg_container_row_label(const struct bg_container_row *r, const char *key)
{
    return find_label(r->labels, key);
}

/* ---- paths ---- */

static char *path_of(const char *id, const char *rest)
{
    bg_autobuf struct bg_buf b;

    bg_buf_init(&b, BG_ENGINE_LINE_MAX);
    bg_buf_puts(&b, "/containers/");
    bg_http_encode(&b, id);
    bg_buf_puts(&b, rest);
    return bg_buf_steal(&b);
}

static char *with_query(const char *path, const char *key, const char *value)
{
    bg_autobuf struct bg_buf b;

    bg_buf_init(&b, BG_ENGINE_LINE_MAX);
    bg_buf_printf(&b, "%s%c%s=", path, strchr(path, '?') ? '&' : '?', key);
    bg_http_encode(&b, value);
    return bg_buf_steal(&b);
}

/* ---- create and start ---- */

static void on_created(struct bg_engine_op *op, const struct bg_http_answer *a,
                       const struct bg_error *err)
{
    struct bg_error why;

    if (err || !op_ok(op, a, "creating a container", &why)) {
        op->done.create(op->data, NULL, NULL, err ? err : &why);
        return;
    }
    bg_autojson cJSON *j =
        bg_json_parse_big(a->body.data, a->body.len, BG_ENGINE_ANSWER_MAX, NULL);
    const char *id = ej_str(j, "Id");
    char **warnings = ej_strings(ej_obj(j, "Warnings"), false);
    if (!*id) {
        bg_fail(&why, BG_ERR_UNAVAILABLE, 0, "%s: no id in the answer to a create",
                engine_name(op->e));
        op->done.create(op->data, NULL, NULL, &why);
    } else {
        op->done.create(op->data, id, warnings, NULL);
    }
    bg_strv_free(warnings);
}

struct bg_engine_op *bg_container_create(struct bg_engine *e, const char *name, cJSON *body,
                                         int64_t timeout_ms, bg_engine_create_fn done,
                                         void *data)
{
    struct bg_engine_op *op = op_new(e, on_created, (union op_done){.create = done}, data);

    op_send(op, &(struct op_request){.method = "POST",
                                     .path = with_query("/containers/create", "name", name),
                                     .body = body,
                                     .timeout_ms = timeout_ms,
                                     .once = true});
    return op;
}

/* The runtime could not do what this machine forbids the engine: that is no image's fault.
 */
static void add_hint(const struct bg_engine *e, struct bg_error *err)
{
    const struct bg_engine_facts *f = bg_engine_facts(e);
    struct bg_error said = *err;

    if (strcasestr(said.msg, "rlimit") || strstr(said.msg, "OCI permission denied"))
        bg_fail(err, said.code, 0,
                "%s; %s %s may lack the right to set limits: start it with higher ulimits "
                "(LimitNOFILE, LimitNPROC)",
                said.msg, f->podman ? "Podman" : "Docker", f->version);
}

static void on_started(struct bg_engine_op *op, const struct bg_http_answer *a,
                       const struct bg_error *err)
{
    struct bg_error why;

    if (!err && !op_ok(op, a, "starting the container", &why)) {
        add_hint(op->e, &why);
        err = &why;
    }
    op->done.plain(op->data, err);
}

struct bg_engine_op *bg_container_start(struct bg_engine *e, const char *id,
                                        int64_t timeout_ms, bg_engine_done_fn done,
                                        void *data)
{
    struct bg_engine_op *op = op_new(e, on_started, (union op_done){.plain = done}, data);

    op_send(op, &(struct op_request){.method = "POST",
                                     .path = path_of(id, "/start"),
                                     .timeout_ms = timeout_ms,
                                     .once = true});
    return op;
}

/* ---- looking ---- */

static void on_inspected(struct bg_engine_op *op, const struct bg_http_answer *a,
                         const struct bg_error *err)
{
    struct bg_container_info info = {0};
    struct bg_error why;

    if (!err && (!op_ok(op, a, "looking at the container", &why) ||
                 !engine_parse_container(a->body.data, a->body.len, &info, &why)))
        err = &why;
    op->done.inspect(op->data, err ? NULL : &info, err);
    bg_container_info_clear(&info);
}

struct bg_engine_op *bg_container_inspect(struct bg_engine *e, const char *id_or_name,
                                          int64_t timeout_ms, bg_engine_inspect_fn done,
                                          void *data)
{
    struct bg_engine_op *op =
        op_new(e, on_inspected, (union op_done){.inspect = done}, data);

    op_send(op, &(struct op_request){.method = "GET",
                                     .path = path_of(id_or_name, "/json"),
                                     .timeout_ms = timeout_ms});
    return op;
}

static void on_has(struct bg_engine_op *op, const struct bg_http_answer *a,
                   const struct bg_error *err)
{
    struct bg_error why;
    bool there = a && a->status == 200;

    if (a && a->status != 404 && !op_ok(op, a, "looking for a program", &why))
        err = &why;
    op->done.has(op->data, there, err);
}

struct bg_engine_op *bg_container_has(struct bg_engine *e, const char *id, const char *path,
                                      bg_engine_has_fn done, void *data)
{
    struct bg_engine_op *op = op_new(e, on_has, (union op_done){.has = done}, data);
    bg_autofree char *archive = path_of(id, "/archive");

    op_send(op, &(struct op_request){.method = "HEAD",
                                     .path = with_query(archive, "path", path),
                                     .timeout_ms = engine_call_ms(e)});
    return op;
}

static void on_list(struct bg_engine_op *op, const struct bg_http_answer *a,
                    const struct bg_error *err)
{
    struct bg_container_row *rows = NULL;
    struct bg_error why;
    size_t n = 0;

    if (!err && (!op_ok(op, a, "listing containers", &why) ||
                 !engine_parse_list(a->body.data, a->body.len, &rows, &n, &why)))
        err = &why;
    op->done.list(op->data, rows, n, err);
    engine_rows_free(rows, n);
}

struct bg_engine_op *bg_container_list(struct bg_engine *e, const char *label,
                                       bg_engine_list_fn done, void *data)
{
    struct bg_engine_op *op = op_new(e, on_list, (union op_done){.list = done}, data);
    bg_autojson cJSON *filters = bg_jo();
    cJSON *labels = bg_ja();

    bg_jset(filters, "label", labels);
    cJSON_AddItemToArray(labels, cJSON_CreateString(label));
    bg_autofree char *text = bg_json_print(filters);
    op_send(op, &(struct op_request){
                    .method = "GET",
                    .path = with_query("/containers/json?all=true", "filters", text),
                    .timeout_ms = engine_call_ms(e),
                    .max = BG_ENGINE_LIST_MAX});
    return op;
}

/* ---- removing ---- */

struct removal {
    char *id;
    int64_t since, wait_ms;
};

static void remove_clear(struct bg_engine_op *op)
{
    struct removal *r = op->own;

    free(r->id);
}

static void send_remove(struct bg_engine_op *op)
{
    const struct removal *r = op->own;

    op_send(op, &(struct op_request){.method = "DELETE",
                                     .path = path_of(r->id, "?force=true&v=true"),
                                     .timeout_ms = engine_call_ms(op->e)});
}

static void on_remove_timer(struct bg_timer *t BG_UNUSED, void *data)
{
    send_remove(data);
}

static void on_removed(struct bg_engine_op *op, const struct bg_http_answer *a,
                       const struct bg_error *err)
{
    struct removal *r = op->own;
    struct bg_error why;

    if (!err && (a->status == 404 || op_ok(op, a, "removing the container", &why))) {
        op->done.plain(op->data, NULL);
    } else if (bg_mono_ms() - r->since > BG_ENGINE_REMOVE_MS) {
        op->done.plain(op->data, err ? err : &why);
    } else {
        /* "removal in progress", a driver that is busy, an engine that starts again. */
        op->again = true;
        r->wait_ms = r->wait_ms < 1000 ? 2 * r->wait_ms : r->wait_ms;
        bg_timer_start(op->timer, r->wait_ms, 0);
    }
}

struct bg_engine_op *bg_container_remove(struct bg_engine *e, const char *id,
                                         bg_engine_done_fn done, void *data)
{
    struct bg_engine_op *op = op_new(e, on_removed, (union op_done){.plain = done}, data);
    struct removal *r = bg_xcalloc(1, sizeof *r);

    *r = (struct removal){.id = bg_xstrdup(id), .since = bg_mono_ms(), .wait_ms = 50};
    op->own = r;
    op->clear = remove_clear;
    op->timer = bg_timer_new(engine_loop(e), on_remove_timer, op);
    send_remove(op);
    return op;
}

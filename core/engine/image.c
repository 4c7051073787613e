/* SPDX-License-Identifier: MIT */
/* Images: looked at, and pulled with the progress of all layers together. */
#include "core/base/clock.h"
#include "core/engine/engine_int.h"

enum { LAYERS_MAX = 512, PROGRESS_EVERY_MS = 100 };

void bg_image_info_clear(struct bg_image_info *i)
{
    free(i->id);
    free(i->arch);
    free(i->os);
    free(i->user);
    bg_strv_free(i->env);
    *i = (struct bg_image_info){0};
}

static void on_inspected(struct bg_engine_op *op, const struct bg_http_answer *a,
                         const struct bg_error *err)
{
    struct bg_image_info info = {0};
    struct bg_error why;

    if (!err && (!op_ok(op, a, "looking at the image", &why) ||
                 !engine_parse_image(a->body.data, a->body.len, &info, &why)))
        err = &why;
    op->done.image(op->data, err ? NULL : &info, err);
    bg_image_info_clear(&info);
}

struct bg_engine_op *bg_image_inspect(struct bg_engine *e, const char *name,
                                      bg_engine_image_fn done, void *data)
{
    struct bg_engine_op *op = op_new(e, on_inspected, (union op_done){.image = done}, data);
    bg_autobuf struct bg_buf b;

    bg_buf_init(&b, BG_ENGINE_LINE_MAX);
    bg_buf_puts(&b, "/images/");
    bg_http_encode(&b, name);
    bg_buf_puts(&b, "/json");
    op_send(op, &(struct op_request){.method = "GET",
                                     .path = bg_buf_steal(&b),
                                     .timeout_ms = engine_call_ms(e)});
    return op;
}

/* ---- pulling ---- */

struct layer {
    char *id;
    int64_t current, total;
};

struct pull {
    struct engine_lines lines;
    struct layer *layers;
    size_t n;
    bg_engine_progress_fn progress;
    int64_t told_at;
    char *error;
    char *name;
};

static void pull_clear(struct bg_engine_op *op)
{
    struct pull *p = op->own;

    for (size_t i = 0; i < p->n; i++)
        free(p->layers[i].id);
    free(p->layers);
    free(p->error);
    free(p->name);
    engine_lines_free(&p->lines);
}

static struct layer *layer_of(struct pull *p, const char *id)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->layers[i].id, id) == 0)
            return &p->layers[i];
    if (p->n == LAYERS_MAX)
        return NULL;
    p->layers = bg_xrealloc(p->layers, p->n + 1, sizeof *p->layers);
    p->layers[p->n] = (struct layer){.id = bg_xstrdup(id)};
    return &p->layers[p->n++];
}

static void tell_progress(struct bg_engine_op *op, const struct pull_line *l)
{
    struct pull *p = op->own;
    int64_t done = 0, total = 0, now = bg_mono_ms();
    /* Only bytes that come over the net count, not those unpacked after it. */
    bool counts = l->total > 0 && strcmp(l->status, "Downloading") == 0;
    struct layer *layer = counts ? layer_of(p, l->id) : NULL;

    if (layer) {
        layer->current = l->current;
        layer->total = l->total;
    }
    if (!p->progress || (counts && now - p->told_at < PROGRESS_EVERY_MS))
        return;
    p->told_at = now;
    for (size_t i = 0; i < p->n; i++) {
        done += p->layers[i].current;
        total += p->layers[i].total;
    }
    bg_autofree char *text = bg_xasprintf("%s%s%s", l->status, *l->id ? " " : "", l->id);
    p->progress(op->data, text, done, total);
}

static void on_line(void *data, const char *line, size_t n)
{
    struct bg_engine_op *op = data;
    struct pull *p = op->own;
    struct pull_line l;

    /* A line that says nothing we know is no reason to give the pull up; the image is
     * looked for at the end. */
    if (op->over || !engine_parse_pull(line, n, &l, NULL))
        return;
    if (l.error && !p->error)
        p->error = bg_xstrdup(l.error);
    else if (!l.error)
        tell_progress(op, &l);
    pull_line_clear(&l);
}

static void on_chunk(struct bg_engine_op *op, const char *p, size_t n)
{
    struct pull *pull = op->own;

    engine_lines_add(&pull->lines, p, n, on_line, op);
}

static void on_pulled(struct bg_engine_op *op, const struct bg_http_answer *a,
                      const struct bg_error *err)
{
    struct pull *p = op->own;
    bg_autofree char *doing = bg_xasprintf("pulling %s", p->name);
    struct bg_error why;

    if (!err)
        on_chunk(op, "\n", 1); /* a last line without its end */
    if (!err && !op_ok(op, a, doing, &why))
        err = &why;
    if (!err && p->error) {
        bg_fail(&why, BG_ERR_UNAVAILABLE, 0, "%s: %s failed: %s", engine_name(op->e), doing,
                p->error);
        err = &why;
    }
    op->done.plain(op->data, err);
}

/* "host:5000/a/b:tag" has its tag after the last slash; one with a digest has none. */
static const char *tag_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *colon = strrchr(slash ? slash : name, ':');

    return strchr(name, '@') ? NULL : colon;
}

struct bg_engine_op *bg_image_pull(struct bg_engine *e, const char *name,
                                   bg_engine_progress_fn progress, bg_engine_done_fn done,
                                   void *data)
{
    struct bg_engine_op *op = op_new(e, on_pulled, (union op_done){.plain = done}, data);
    struct pull *p = bg_xcalloc(1, sizeof *p);
    const char *tag = tag_of(name);
    bg_autofree char *base =
        tag ? bg_xstrndup(name, (size_t)(tag - name)) : bg_xstrdup(name);
    bg_autobuf struct bg_buf b;

    *p = (struct pull){.progress = progress, .name = bg_xstrdup(name)};
    engine_lines_init(&p->lines);
    op->own = p;
    op->clear = pull_clear;
    bg_buf_init(&b, BG_ENGINE_LINE_MAX);
    bg_buf_puts(&b, "/images/create?fromImage=");
    bg_http_encode(&b, base);
    if (!strchr(name, '@')) {
        bg_buf_puts(&b, "&tag=");
        bg_http_encode(&b, tag ? tag + 1 : "latest");
    }
    op_send(op, &(struct op_request){
                    .method = "POST", .path = bg_buf_steal(&b), .chunk = on_chunk});
    return op;
}

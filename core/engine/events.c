/* SPDX-License-Identifier: MIT */
/*
 * What happens to containers, as the engine tells it, by whomever. The stream is asked for
 * again when it breaks, first soon, then less often; whoever watches is told of the gap.
 */
#include "core/engine/engine_int.h"

struct engine_watch {
    struct bg_engine *e;
    struct bg_engine_watch_events ev;
    void *data;
    struct engine_lines lines;
    struct bg_timer *timer;
    int64_t wait_ms;
};

static void on_line(void *data, const char *p, size_t n)
{
    struct bg_engine_op *op = data;
    struct engine_watch *w = op->data;
    struct bg_engine_event ev;

    /* Of no container, or of one whose name or label is no JSON we take: not one of ours,
     * whose end is seen in other ways too. */
    if (op->over || !engine_parse_event(p, n, &ev, NULL))
        return;
    w->ev.event(w->data, &ev);
    engine_event_clear(&ev);
}

static void on_chunk(struct bg_engine_op *op, const char *p, size_t n)
{
    struct engine_watch *w = op->data;

    w->wait_ms = BG_ENGINE_RETRY_MS;
    engine_lines_add(&w->lines, p, n, on_line, op);
}

static void on_end(struct bg_engine_op *op, const struct bg_http_answer *a,
                   const struct bg_error *err)
{
    struct engine_watch *w = op->data;
    struct bg_error why;

    if (!err && op_ok(op, a, "watching its events", &why))
        bg_fail(&why, BG_ERR_UNAVAILABLE, 0, "%s ended its events", engine_name(w->e));
    bg_log(engine_log(w->e), BG_LOG_WARN, "%s", err ? err->msg : why.msg);
    engine_lines_free(&w->lines);
    engine_lines_init(&w->lines);
    bg_timer_start(w->timer, w->wait_ms, 0);
    w->wait_ms =
        w->wait_ms * 2 < BG_ENGINE_RETRY_MAX_MS ? w->wait_ms * 2 : BG_ENGINE_RETRY_MAX_MS;
    w->ev.broken(w->data);
}

static void ask(struct engine_watch *w)
{
    struct bg_engine_op *op = op_new(w->e, on_end, (union op_done){0}, w);

    /* filters={"type":["container","network"]} */
    op_send(op, &(struct op_request){
                    .method = "GET",
                    .path = bg_xstrdup("/events?filters=%7B%22type%22%3A%5B%22container%22"
                                       "%2C%22network%22%5D%7D"),
                    .chunk = on_chunk});
}

static void on_timer(struct bg_timer *t BG_UNUSED, void *data)
{
    ask(data);
}

void bg_engine_watch(struct bg_engine *e, const struct bg_engine_watch_events *ev,
                     void *data)
{
    struct engine_watch *w = bg_xcalloc(1, sizeof *w);

    *w = (struct engine_watch){
        .e = e, .ev = *ev, .data = data, .wait_ms = BG_ENGINE_RETRY_MS};
    engine_lines_init(&w->lines);
    w->timer = bg_timer_new(engine_loop(e), on_timer, w);
    engine_watch_set(e, w);
    ask(w);
}

void engine_watch_free(struct engine_watch *w)
{
    if (!w)
        return;
    engine_lines_free(&w->lines);
    bg_timer_free(w->timer);
    free(w);
}

/* SPDX-License-Identifier: MIT */
/* What is done with a live container: the binding before each start, commands, numbers. */
#include "core/provider/container/container.h"

/* One check for the session; in the sandbox's list while the engine is asked. */
struct look {
    struct look *next;
    struct container_sandbox *s;
    struct bg_engine_op *op;
    bg_done_fn done;
    void *data;
    struct bg_error err; /* known before the engine was asked */
};

static void unlink_look(struct look *l)
{
    for (struct look **at = &l->s->looks; *at; at = &(*at)->next) {
        if (*at == l) {
            *at = l->next;
            return;
        }
    }
}

static void answer(struct look *l, const struct bg_error *err)
{
    bg_done_fn done = l->done;
    void *data = l->data;

    if (err)
        bg_log(l->s->p->env.log, BG_LOG_WARN, "%s: %s", l->s->base.name, err->msg);
    unlink_look(l);
    free(l);
    done(data, err);
}

void container_looks_end(struct container_sandbox *s, const struct bg_error *err)
{
    while (s->looks) {
        bg_engine_cancel(s->looks->op);
        answer(s->looks, err);
    }
}

static bool holds(const struct container_sandbox *s, const struct bg_container_info *i,
                  struct bg_error *err)
{
    const struct container *p = s->p;
    const char *differs;

    if (i->paused)
        return bg_fail(err, BG_ERR_UNAVAILABLE, 0,
                       "the container %s was paused from outside", s->base.name);
    if (!i->running)
        return bg_fail(err, BG_ERR_DESTROYED, 0,
                       "the container %s was stopped from outside", s->base.name);
    differs = bg_container_differs(&s->info, i);
    if (!differs && bg_engine_facts(p->engine)->same_pids)
        differs =
            container_proc_mismatch(s->pid, s->spec, bg_engine_facts(p->engine)->rootless);
    if (differs)
        return bg_fail(err, BG_ERR_BINDING, 0,
                       "the container %s is not the one that was made: its %s is another",
                       s->base.name, differs);
    return bg_spec_mounts_check(s->spec, err);
}

static void on_inspected(void *data, const struct bg_container_info *i,
                         const struct bg_error *err)
{
    struct look *l = data;
    struct bg_error why;

    l->op = NULL;
    if (err && err->code == BG_ERR_NOT_FOUND) {
        bg_fail(&why, BG_ERR_DESTROYED, 0, "the container %s was removed from outside",
                l->s->base.name);
        answer(l, &why);
    } else if (err) {
        answer(l, err);
    } else if (!holds(l->s, i, &why)) {
        answer(l, &why);
    } else {
        answer(l, NULL);
    }
}

static void answer_early(void *data)
{
    struct look *l = data;
    struct bg_error err = l->err;
    bg_done_fn done = l->done;

    data = l->data;
    free(l);
    done(data, &err);
}

void container_inspect(struct bg_sandbox *sb, const struct bg_spec *spec, bg_done_fn done,
                       void *data)
{
    struct container_sandbox *s = (struct container_sandbox *)sb;
    struct bg_sha256 sum = bg_spec_sha256(spec);
    struct look *l = bg_xcalloc(1, sizeof *l);

    *l = (struct look){.s = s, .done = done, .data = data};
    if (s->state != CONTAINER_LIVE)
        bg_fail(&l->err, BG_ERR_DESTROYED, 0, "the sandbox is gone");
    else if (!bg_sha256_eq(&sum, &s->spec_sum))
        bg_fail(&l->err, BG_ERR_BINDING, 0, "the sandbox was made from other options");
    if (l->err.code != BG_OK) {
        bg_loop_defer(s->p->env.loop, answer_early, l);
        return;
    }
    l->next = s->looks;
    s->looks = l;
    l->op = bg_container_inspect(s->p->engine, s->cid, s->p->env.config->engine.call_ms,
                                 on_inspected, l);
}

struct bg_exec *container_exec(struct bg_sandbox *sb, const struct bg_exec_spec *x,
                               const struct bg_exec_events *ev, void *data)
{
    return bg_exec_start(((struct container_sandbox *)sb)->ch, x, ev, data);
}

void container_stats(struct bg_sandbox *sb,
                     void (*cb)(void *data, const struct bg_guest_stats *s,
                                const struct bg_error *err),
                     void *data)
{
    bg_channel_stats(((struct container_sandbox *)sb)->ch, cb, data);
}

char *const *container_base_env(const struct bg_sandbox *sb)
{
    const struct container_sandbox *s = (const struct container_sandbox *)sb;
    const struct container_image *i = container_image_find(s->p, s->spec->image_id);

    return i ? i->env : NULL;
}

/* SPDX-License-Identifier: MIT */
/*
 * What a dead server of this instance left: containers with our label that no live sandbox
 * has, then link folders. Of other instances only what has ended is removed, and only when
 * asked; what still runs is named and left.
 */
#include <dirent.h>
#include <stdio.h>

#include "core/provider/container/container.h"

struct sweep {
    struct sweep *link;
    struct container *p;
    struct bg_engine_op *op;
    bool foreign, dry_run;
    char **ids, **names; /* to remove, with the line for each in lines */
    char **lines;
    size_t next;
    void (*done)(void *data, char *const *names, const struct bg_error *err);
    void *data;
};

static void over(struct sweep *w, const struct bg_error *err)
{
    static char *const none[] = {NULL};

    for (struct sweep **at = &w->p->sweeps; *at; at = &(*at)->link) {
        if (*at == w) {
            *at = w->link;
            break;
        }
    }
    bg_engine_cancel(w->op);
    w->done(w->data, w->lines ? w->lines : none, err);
    bg_strv_free(w->ids);
    bg_strv_free(w->names);
    bg_strv_free(w->lines);
    free(w);
}

static bool is_live(const struct container *p, const char *ref)
{
    for (const struct container_sandbox *s = p->sandboxes; s; s = s->next)
        if (ref && strncmp(s->base.ref, ref, strlen(ref)) == 0)
            return true;
    return false;
}

/* Folders of the runtime directory that no live sandbox has; all in there is ours. */
static void sweep_links(struct sweep *w)
{
    DIR *d = opendir(w->p->link_parent);
    struct dirent *e;
    char **names = NULL;

    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.' && !is_live(w->p, e->d_name))
            bg_strv_push(&names, e->d_name);
    if (d)
        closedir(d);
    for (char **n = names; n && *n; n++) {
        bg_autofree char *path = bg_path_join(w->p->link_parent, *n);
        bg_autofree char *line = bg_xasprintf("link folder %s", path);
        struct bg_error err;
        bg_strv_push(&w->lines, line);
        if (!w->dry_run && !bg_rm_rf(path, &err))
            bg_log(w->p->env.log, BG_LOG_WARN, "%s", err.msg);
    }
    bg_strv_free(names);
}

static void remove_next(struct sweep *w);

static void on_removed(void *data, const struct bg_error *err)
{
    struct sweep *w = data;

    w->op = NULL;
    if (err) {
        bg_autofree char *line = bg_xasprintf("container %s could not be removed: %s",
                                              w->names[w->next], err->msg);
        bg_strv_push(&w->lines, line);
    }
    w->next++;
    remove_next(w);
}

static void remove_next(struct sweep *w)
{
    if (w->next < bg_strv_len(w->ids)) {
        w->op = bg_container_remove(w->p->engine, w->ids[w->next], on_removed, w);
        return;
    }
    sweep_links(w);
    over(w, NULL);
}

static void one_row(struct sweep *w, const struct bg_container_row *r)
{
    const char *instance = bg_container_row_label(r, LABEL_INSTANCE);
    const char *ref = bg_container_row_label(r, LABEL_REF);
    bool own = instance && strcmp(instance, w->p->instance) == 0;
    bool copy = container_is_copy(r);
    bool running = strcmp(r->state, "running") == 0 || strcmp(r->state, "paused") == 0 ||
                   strcmp(r->state, "restarting") == 0;

    if (own && is_live(w->p, ref))
        return;
    if (!own && !w->foreign)
        return;
    bg_autofree char *line =
        bg_xasprintf("%scontainer %s%s", own ? "" : "another instance's ", r->name,
                     copy              ? " (a copy, or renamed: left)"
                     : !own && running ? " (in use, left)"
                                       : "");
    bg_strv_push(&w->lines, line);
    if (!copy && (own || !running)) {
        bg_strv_push(&w->ids, r->id);
        bg_strv_push(&w->names, r->name);
    }
}

static void on_list(void *data, const struct bg_container_row *rows, size_t n,
                    const struct bg_error *err)
{
    struct sweep *w = data;

    w->op = NULL;
    if (err) {
        over(w, err);
        return;
    }
    for (size_t i = 0; i < n; i++)
        one_row(w, &rows[i]);
    if (w->dry_run)
        w->next = bg_strv_len(w->ids);
    remove_next(w);
}

void container_sweeps_end(struct container *p)
{
    struct bg_error err;

    bg_fail(&err, BG_ERR_CANCELLED, 0, "the provider was closed");
    while (p->sweeps)
        over(p->sweeps, &err);
}

struct refusal {
    void (*done)(void *data, char *const *names, const struct bg_error *err);
    void *data;
    struct bg_error err;
};

static void refuse(void *data)
{
    static char *const none[] = {NULL};
    struct refusal *r = data;

    r->done(r->data, none, &r->err);
    free(r);
}

void container_sweep(struct bg_provider *bp, bool foreign, bool dry_run,
                     void (*done)(void *data, char *const *names,
                                  const struct bg_error *err),
                     void *data)
{
    struct container *p = (struct container *)bp;

    if (!p->report.available) {
        struct refusal *r = bg_xmalloc(sizeof *r);
        *r = (struct refusal){.done = done, .data = data};
        bg_fail(&r->err, BG_ERR_UNAVAILABLE, 0, "%s",
                p->report.why_not ? p->report.why_not : "the engine is not known yet");
        bg_loop_defer(p->env.loop, refuse, r);
        return;
    }
    struct sweep *w = bg_xcalloc(1, sizeof *w);
    *w = (struct sweep){.link = p->sweeps,
                        .p = p,
                        .foreign = foreign,
                        .dry_run = dry_run,
                        .done = done,
                        .data = data};
    p->sweeps = w;
    bg_autofree char *label = foreign ? bg_xstrdup(LABEL_SANDBOX "=1")
                                      : bg_xasprintf(LABEL_INSTANCE "=%s", p->instance);
    w->op = bg_container_list(p->engine, label, on_list, w);
}

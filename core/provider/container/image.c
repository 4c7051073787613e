/* SPDX-License-Identifier: MIT */
/*
 * From a profile's image name to what runs: looked at, pulled as the profile says, checked,
 * and once per image id looked into for the interpreters of the configured languages (a
 * container that is made, never started, and removed).
 */
#include <stdio.h>

#include "core/base/digest.h"
#include "core/provider/container/container.h"

/* DIRS_MAX: an image writes its own PATH, and every folder of it costs calls. */
enum { LOOKS_AT_ONCE = 8, PROBE_NAME_BYTES = 6, DIRS_MAX = 32 };
#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum step { STEP_INSPECT, STEP_PULL, STEP_INSPECT_AGAIN, STEP_PROBE };

struct lookup {
    struct prepare *r;
    struct bg_engine_op *op;
    const char *program; /* of r->wanted */
};

struct prepare {
    struct prepare *next;
    struct container *p;
    struct bg_spec *spec; /* the caller's */
    bg_progress_fn progress;
    bg_prepare_fn done;
    void *data;
    enum bg_pull pull;
    enum step step;
    struct bg_engine_op *op;
    struct container_image *image; /* of the cache */
    char *probe;                   /* container */
    char **wanted, **dirs, **found;
    size_t next_look, looking;
    struct lookup looks[LOOKS_AT_ONCE];
    struct bg_error err;
};

/* ---- the cache ---- */

const struct container_image *container_image_find(const struct container *p,
                                                   const char *id)
{
    for (const struct container_image *i = p->images; i; i = i->next)
        if (strcmp(i->id, id) == 0)
            return i;
    return NULL;
}

static struct container_image *remember(struct container *p, const struct bg_image_info *i)
{
    struct container_image *known =
        (struct container_image *)container_image_find(p, i->id);

    if (known)
        return known;
    known = bg_xcalloc(1, sizeof *known);
    *known = (struct container_image){.next = p->images,
                                      .id = bg_xstrdup(i->id),
                                      .arch = bg_xstrdup(i->arch),
                                      .os = bg_xstrdup(i->os),
                                      .user = bg_xstrdup(i->user),
                                      .env = i->env ? bg_strv_dup(i->env) : NULL};
    p->images = known;
    return known;
}

void container_images_free(struct container *p)
{
    while (p->images) {
        struct container_image *i = p->images;
        p->images = i->next;
        free(i->id);
        free(i->arch);
        free(i->os);
        free(i->user);
        bg_strv_free(i->env);
        bg_strv_free(i->probed_for);
        bg_strv_free(i->programs);
        free(i);
    }
}

static bool has(char *const *v, const char *s)
{
    for (; v && *v; v++)
        if (strcmp(*v, s) == 0)
            return true;
    return false;
}

int container_has_program(struct bg_provider *bp, const struct bg_spec *spec,
                          const char *program)
{
    const struct container_image *i =
        container_image_find((const struct container *)bp, spec->image_id);

    if (!i || !i->probed || !has(i->probed_for, program))
        return -1;
    return has(i->programs, program);
}

/* ---- the end of a prepare ---- */

static void drop(struct prepare *r)
{
    for (struct prepare **at = &r->p->prepares; *at; at = &(*at)->next) {
        if (*at == r) {
            *at = r->next;
            break;
        }
    }
    bg_engine_cancel(r->op);
    for (size_t i = 0; i < LOOKS_AT_ONCE; i++)
        bg_engine_cancel(r->looks[i].op);
    bg_strv_free(r->wanted);
    bg_strv_free(r->dirs);
    bg_strv_free(r->found);
    free(r->probe);
    free(r);
}

static void finish(struct prepare *r, const struct bg_error *err)
{
    bg_prepare_fn done = r->done;
    void *data = r->data;
    struct bg_error why = err ? *err : (struct bg_error){0};

    drop(r);
    if (done)
        done(data, err ? &why : NULL);
}

/* A container made for looking into the image must go first; nobody waits for that. */
static void cancelled(struct prepare *r, bool closing)
{
    bg_prepare_fn done = r->done;
    void *data = r->data;
    struct bg_error err;

    r->done = NULL;
    r->data = NULL;
    r->spec = NULL;
    bg_fail(&err, BG_ERR_CANCELLED, 0, "cancelled");
    if (r->step != STEP_PROBE || closing)
        drop(r);
    else
        r->err = err;
    if (done)
        done(data, &err);
}

void container_cancel_prepare(struct bg_provider *bp, void *data)
{
    struct container *p = (struct container *)bp;

    for (struct prepare *r = p->prepares; r; r = r->next) {
        if (r->done && r->data == data) {
            cancelled(r, false);
            return;
        }
    }
}

void container_prepares_end(struct container *p)
{
    while (p->prepares)
        cancelled(p->prepares, true);
}

/* ---- completing the spec ---- */

static void set(char **field, const char *value)
{
    free(*field);
    *field = bg_xstrdup(value);
}

static bool limits_possible(const struct container *p, struct bg_spec *s,
                            struct bg_error *err)
{
    bg_strv_free(s->not_enforced);
    s->not_enforced = NULL;
    for (char **n = p->report.not_enforced; n && *n; n++) {
        bool memory = **n == 'm' || **n == 's';
        int64_t asked = memory       ? s->limits.memory_mb
                        : **n == 'p' ? s->limits.pids
                                     : s->limits.cpus_milli;
        if (asked == BG_UNLIMITED)
            continue;
        bg_strv_push(&s->not_enforced, *n);
        if (s->limits.strict)
            return bg_fail(err, BG_ERR_UNAVAILABLE, 0,
                           "strictLimits: this engine can't enforce the %s limit", *n);
    }
    return true;
}

static void complete(struct prepare *r)
{
    const struct container *p = r->p;
    struct bg_spec *s = r->spec;
    struct bg_error err;

    if (!s) { /* cancelled */
        drop(r);
        return;
    }
    bg_autofree char *user = container_user(s->user ? s->user : "", r->image->user);
    set(&s->provider, p->report.name);
    set(&s->endpoint, bg_engine_facts(p->engine)->endpoint);
    set(&s->image_id, r->image->id);
    set(&s->user, user);
    s->guest = true;
    s->guest_sha256 = p->guest_sum;
    if (limits_possible(p, s, &err))
        finish(r, NULL);
    else
        finish(r, &err);
}

/* ---- looking into the image ---- */

static void look_on(struct prepare *r);

static void on_probe_removed(void *data, const struct bg_error *err)
{
    struct prepare *r = data;

    r->op = NULL;
    if (err)
        bg_log(r->p->env.log, BG_LOG_WARN, "after looking into an image: %s", err->msg);
    complete(r);
}

static void probe_over(struct prepare *r)
{
    struct container_image *i = r->image;

    if (r->err.code == BG_OK && !i->probed) {
        i->probed = true;
        i->probed_for = bg_strv_dup(r->wanted);
        i->programs = r->found;
        r->found = NULL;
    } else if (r->err.code != BG_OK) {
        /* Not knowing is no reason to refuse: a run will tell. */
        bg_log(r->p->env.log, BG_LOG_WARN, "looking into %s: %s", r->image->id, r->err.msg);
    }
    if (r->probe)
        r->op = bg_container_remove(r->p->engine, r->probe, on_probe_removed, r);
    else
        complete(r);
}

static void on_looked(void *data, bool there, const struct bg_error *err)
{
    struct lookup *l = data;
    struct prepare *r = l->r;

    l->op = NULL;
    r->looking--;
    if (err)
        r->err = *err;
    else if (there && !has(r->found, l->program))
        bg_strv_push(&r->found, l->program);
    look_on(r);
}

/* Every program in every folder; one that was found is not looked for any more. */
static bool next_path(struct prepare *r, const char **program, char **path)
{
    size_t dirs = bg_strv_len(r->dirs), all = dirs * bg_strv_len(r->wanted);

    while (r->next_look < all) {
        size_t n = r->next_look++;
        const char *dir = r->dirs[n % dirs];
        *program = r->wanted[n / dirs];
        if (has(r->found, *program))
            continue;
        if (**program == '/' && n % dirs > 0)
            continue;
        *path = **program == '/' ? bg_xstrdup(*program) : bg_path_join(dir, *program);
        return true;
    }
    return false;
}

static void look_on(struct prepare *r)
{
    for (size_t i = 0; i < LOOKS_AT_ONCE && r->err.code == BG_OK; i++) {
        struct lookup *l = &r->looks[i];
        char *path;
        if (l->op)
            continue;
        if (!next_path(r, &l->program, &path))
            break;
        l->r = r;
        r->looking++;
        l->op = bg_container_has(r->p->engine, r->probe, path, on_looked, l);
        free(path);
    }
    if (r->looking == 0)
        probe_over(r);
}

static void on_probe_created(void *data, const char *id, char *const *warnings,
                             const struct bg_error *err)
{
    struct prepare *r = data;

    (void)warnings;
    r->op = NULL;
    if (err) {
        r->err = *err;
        probe_over(r);
        return;
    }
    r->probe = bg_xstrdup(id);
    look_on(r);
}

static void fill_dirs(struct prepare *r)
{
    const char *path = PATH_DEFAULT;
    char *save = NULL;

    for (char **e = r->image->env; e && *e; e++)
        if (strncmp(*e, "PATH=/", 6) == 0)
            path = *e + 5;
    bg_autofree char *list = bg_xstrdup(path);
    char *d = strtok_r(list, ":", &save);
    for (; d && bg_strv_len(r->dirs) < DIRS_MAX; d = strtok_r(NULL, ":", &save))
        if (*d == '/' && !has(r->dirs, d))
            bg_strv_push(&r->dirs, d);
}

static void probe(struct prepare *r)
{
    const struct bg_config *c = r->p->env.config;
    char hex[2 * PROBE_NAME_BYTES + 1];

    for (size_t i = 0; i < c->n_languages; i++)
        if (!has(r->wanted, c->languages[i].argv[0]))
            bg_strv_push(&r->wanted, c->languages[i].argv[0]);
    if (r->image->probed || !r->wanted) {
        complete(r);
        return;
    }
    fill_dirs(r);
    r->step = STEP_PROBE;
    bg_random_hex(hex, PROBE_NAME_BYTES);
    bg_autofree char *name = bg_xasprintf("boxgate-probe-%s", hex);
    r->op = bg_container_create(r->p->engine, name,
                                container_probe_body(r->image->id, r->p->instance),
                                c->engine.create_ms, on_probe_created, r);
}

/* ---- the image itself ---- */

static bool image_usable(const struct prepare *r, struct bg_error *err)
{
    const struct container_image *i = r->image;
    const char *arch = container_arch();

    if (*i->os && strcmp(i->os, "linux") != 0)
        return bg_fail(err, BG_ERR_UNSUPPORTED, 0, "image %s is for %s, not for Linux",
                       r->spec->image, i->os);
    if (*i->arch && *arch && strcmp(i->arch, arch) != 0)
        return bg_fail(err, BG_ERR_UNSUPPORTED, 0,
                       "image %s is for another architecture (%s) than this machine (%s)",
                       r->spec->image, i->arch, arch);
    return true;
}

static void inspect_image(struct prepare *r);

static void on_pulled(void *data, const struct bg_error *err)
{
    struct prepare *r = data;

    r->op = NULL;
    if (err) {
        finish(r, err);
        return;
    }
    r->step = STEP_INSPECT_AGAIN;
    inspect_image(r);
}

static void on_progress(void *data, const char *text, int64_t done, int64_t total)
{
    struct prepare *r = data;

    if (r->progress)
        r->progress(r->data, text, done, total);
}

static void pull(struct prepare *r)
{
    r->step = STEP_PULL;
    r->op = bg_image_pull(r->p->engine, r->spec->image, on_progress, on_pulled, r);
}

static void image_missing(struct prepare *r, const struct bg_error *err)
{
    struct bg_error why;

    if (err->code != BG_ERR_NOT_FOUND) {
        finish(r, err);
    } else if (r->step == STEP_INSPECT && r->pull != BG_PULL_NEVER) {
        pull(r);
    } else {
        bg_fail(&why, BG_ERR_UNAVAILABLE, 0,
                r->pull == BG_PULL_NEVER
                    ? "image %s is not there, and the profile says pull: never"
                    : "image %s is not there although it was pulled",
                r->spec->image);
        finish(r, &why);
    }
}

static void on_image(void *data, const struct bg_image_info *i, const struct bg_error *err)
{
    struct prepare *r = data;
    struct bg_error why;

    r->op = NULL;
    if (err) {
        image_missing(r, err);
        return;
    }
    r->image = remember(r->p, i);
    if (!image_usable(r, &why))
        finish(r, &why);
    else
        probe(r);
}

static void inspect_image(struct prepare *r)
{
    r->op = bg_image_inspect(r->p->engine, r->spec->image, on_image, r);
}

/* ---- beginning ---- */

struct refusal {
    bg_prepare_fn done;
    void *data;
    struct bg_error err;
};

static void refuse(void *data)
{
    struct refusal *f = data;

    f->done(f->data, &f->err);
    free(f);
}

void container_prepare(struct bg_provider *bp, struct bg_spec *spec,
                       bg_progress_fn progress, bg_prepare_fn done, void *data)
{
    struct container *p = (struct container *)bp;
    const struct bg_profile *profile = bg_config_profile(p->env.config, spec->profile);
    struct bg_error err;

    if (!p->report.available)
        bg_fail(&err, BG_ERR_UNAVAILABLE, 0, "%s (%s)",
                p->report.why_not ? p->report.why_not : "the engine is not known yet",
                p->report.remedy ? p->report.remedy : "");
    if (!p->report.available || !container_spec_possible(spec, &err)) {
        struct refusal *f = bg_xmalloc(sizeof *f);
        *f = (struct refusal){.done = done, .data = data, .err = err};
        bg_loop_defer(p->env.loop, refuse, f);
        return;
    }
    struct prepare *r = bg_xcalloc(1, sizeof *r);
    *r = (struct prepare){.next = p->prepares,
                          .p = p,
                          .spec = spec,
                          .pull = profile ? profile->pull : BG_PULL_MISSING,
                          .progress = progress,
                          .done = done,
                          .data = data};
    p->prepares = r;
    if (r->pull == BG_PULL_ALWAYS)
        pull(r);
    else
        inspect_image(r);
}

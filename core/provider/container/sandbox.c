/* SPDX-License-Identifier: MIT */
/*
 * One container from its link folder to its last trace.
 *
 *   CREATING -> LIVE -> (LOST ->) ENDING -> gone
 *   CREATING -> ENDING -> create's callback with the error
 *
 * A create call that takes too long fails for the caller at once; here it is waited for,
 * and what came of it is removed: by its id, or found by our own mark. Nothing is ever
 * removed by its name, which may be somebody else's.
 *
 * That it lives is seen by its first process (pidfd) where that is ours to see, else by the
 * engine's events and by the link going down.
 */
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/provider/container/container.h"

enum { LINK_ID = 16, TOKEN_BYTES = 32, NAME_RETRY_MS = 200 };

static void begin_end(struct container_sandbox *s);

static struct container_make make_of(const struct container_sandbox *s)
{
    return (struct container_make){
        .spec = s->spec,
        .instance = s->p->instance,
        .ref = s->base.ref,
        .name = s->base.name,
        .link_dir = s->link_dir,
        .guest_path = s->p->guest_path,
        .token = bg_engine_facts(s->p->engine)->same_pids ? NULL : s->token,
        .podman = s->p->podman,
        .selinux = s->p->selinux,
    };
}

/* ---- the end ---- */

static void sandbox_free(struct container_sandbox *s)
{
    struct bg_error err;

    for (struct container_sandbox **at = &s->p->sandboxes; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    bg_engine_cancel(s->op);
    bg_engine_cancel(s->why_op);
    bg_channel_free(s->ch); /* takes its socket away */
    if (s->link_dir && !bg_rm_rf(s->link_dir, &err))
        bg_log(s->p->env.log, BG_LOG_WARN, "%s", err.msg);
    bg_poll_free(s->pid_poll);
    if (s->pidfd >= 0)
        close(s->pidfd);
    bg_timer_free(s->timer);
    bg_container_info_clear(&s->info);
    bg_spec_free(s->spec);
    free(s->link_dir);
    free(s->cid);
    free(s->base.ref);
    free(s->base.name);
    bg_strv_free(s->base.not_enforced);
    free(s);
}

static void tell_created(struct container_sandbox *s, const struct bg_error *err)
{
    bg_create_fn created = s->created;

    s->created = NULL;
    if (created)
        created(s->created_data, NULL, err);
}

static void gone(struct container_sandbox *s, const struct bg_error *err)
{
    bg_done_fn destroyed = s->destroyed;
    void *data = s->destroyed_data;
    struct bg_error closed, why = err ? *err : (struct bg_error){0};

    if (err)
        bg_log(s->p->env.log, BG_LOG_ERROR, "%s stays for the next sweep: %s", s->base.name,
               err->msg);
    bg_fail(&closed, BG_ERR_DESTROYED, 0, "the sandbox was closed");
    container_looks_end(s, &closed);
    tell_created(s, &s->why);
    sandbox_free(s);
    if (destroyed)
        destroyed(data, err ? &why : NULL);
}

static void on_removed(void *data, const struct bg_error *err)
{
    struct container_sandbox *s = data;

    s->op = NULL;
    gone(s, err);
}

static void on_found(void *data, const struct bg_container_row *rows, size_t n,
                     const struct bg_error *err)
{
    struct container_sandbox *s = data;
    size_t i = 0;

    s->op = NULL;
    /* One mark, one container: it is 128 random bits. And perhaps a copy of it. */
    while (i < n && container_is_copy(&rows[i]))
        i++;
    if (err || i == n) {
        gone(s, err);
        return;
    }
    s->op = bg_container_remove(s->p->engine, rows[i].id, on_removed, s);
}

static void remove_it(struct container_sandbox *s)
{
    if (s->cid) {
        s->op = bg_container_remove(s->p->engine, s->cid, on_removed, s);
    } else if (s->create_sent) {
        bg_autofree char *label = bg_xasprintf(LABEL_REF "=%s", s->base.ref);
        s->op = bg_container_list(s->p->engine, label, on_found, s);
    } else {
        gone(s, NULL);
    }
}

static void begin_end(struct container_sandbox *s)
{
    if (s->state == CONTAINER_ENDING)
        return;
    s->state = CONTAINER_ENDING;
    bg_timer_stop(s->timer);
    bg_engine_cancel(s->why_op);
    s->why_op = NULL;
    if (s->create_sent && !s->cid && s->op)
        return; /* on_created goes on */
    bg_engine_cancel(s->op);
    s->op = NULL;
    remove_it(s);
}

static void fail_create(struct container_sandbox *s, const struct bg_error *err)
{
    s->why = *err;
    if (s->create_sent && !s->cid && s->op)
        tell_created(s, err); /* its answer may take for ever */
    begin_end(s);
}

void container_destroy(struct bg_sandbox *sb, bg_done_fn done, void *data)
{
    struct container_sandbox *s = (struct container_sandbox *)sb;
    struct bg_error err;

    s->destroyed = done;
    s->destroyed_data = data;
    bg_channel_shutdown(s->ch);
    bg_fail(&err, BG_ERR_DESTROYED, 0, "the sandbox was closed");
    bg_channel_fail(s->ch, &err);
    begin_end(s);
}

void container_sandboxes_drop(struct container *p)
{
    struct bg_error err;

    bg_fail(&err, BG_ERR_CANCELLED, 0, "the provider was closed");
    while (p->sandboxes) {
        struct container_sandbox *s = p->sandboxes;
        s->why = err;
        gone(s, NULL);
    }
}

/* ---- lost ---- */

static void lose(struct container_sandbox *s, const struct bg_error *why)
{
    struct bg_error copy = *why;

    if (s->state != CONTAINER_LIVE)
        return;
    s->state = CONTAINER_LOST;
    bg_engine_cancel(s->why_op);
    s->why_op = NULL;
    container_looks_end(s, &copy);
    bg_channel_fail(s->ch, &copy);
    if (s->events && s->events->lost)
        s->events->lost(s->events_data, &s->base, &copy);
}

static void on_why(void *data, const struct bg_container_info *i,
                   const struct bg_error *err)
{
    struct container_sandbox *s = data;
    bool dead = s->pidfd >= 0 && s->pid == 0; /* the kernel said so */
    struct bg_error why;

    s->why_op = NULL;
    if (i && i->running && !dead && strcmp(i->started_at, s->info.started_at) == 0)
        return; /* it lives; the guest will dial again */
    if (err && err->code != BG_ERR_NOT_FOUND && !dead)
        return; /* the engine is away: that alone is no reason */
    if (i && i->oom_killed && (dead || !i->running))
        bg_fail(&why, BG_ERR_DESTROYED, 0, "the sandbox was killed by its memory limit");
    else if (err && err->code == BG_ERR_NOT_FOUND)
        bg_fail(&why, BG_ERR_DESTROYED, 0, "the container %s was removed from outside",
                s->base.name);
    else if (err)
        bg_fail(&why, BG_ERR_DESTROYED, 0, "the sandbox ended: %s", err->msg);
    else
        bg_fail(&why, BG_ERR_DESTROYED, 0, "the sandbox ended or was killed from outside");
    lose(s, &why);
}

static void ask_why(struct container_sandbox *s)
{
    if (s->state == CONTAINER_LIVE && !s->why_op)
        s->why_op =
            bg_container_inspect(s->p->engine, s->cid, BG_ENGINE_LOST_MS, on_why, s);
}

static void on_process_end(struct bg_poll *poll, int fd BG_UNUSED,
                           unsigned events BG_UNUSED, void *data)
{
    struct container_sandbox *s = data;
    struct bg_error err;

    bg_poll_set(poll, 0);
    s->pid = 0;
    if (s->state == CONTAINER_CREATING) {
        bg_fail(&err, BG_ERR_UNAVAILABLE, 0, "the container ended before its guest was in");
        fail_create(s, &err);
    } else {
        /* An answer to an earlier question may say that it lived still. */
        bg_engine_cancel(s->why_op);
        s->why_op = NULL;
        ask_why(s);
    }
}

void container_events_broken(struct container *p)
{
    for (struct container_sandbox *s = p->sandboxes; s; s = s->next)
        if (s->pidfd < 0)
            ask_why(s);
}

static bool one_of(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, list[i]) == 0)
            return true;
    return false;
}

/* The end shows elsewhere, with its reason; starting makes its own noise. */
void container_event(struct container *p, const struct bg_engine_event *ev)
{
    static const char *const touched[] = {
        "pause",      "unpause", "update", "exec_create", "exec",          "kill",
        "disconnect", "restart", "rename", "attach",      "extract-to-dir"};
    static const char *const ended[] = {"die", "died", "destroy", "remove", "stop"};
    struct container_sandbox *s = p->sandboxes;

    while (s && (!s->cid || strcmp(s->cid, ev->container) != 0))
        s = s->next;
    if (!s)
        return;
    if (strcmp(ev->action, "start") == 0)
        s->start_event = true;
    if (s->state != CONTAINER_LIVE)
        return;
    if (one_of(ev->action, ended, bg_countof(ended)) && s->pidfd < 0)
        ask_why(s);
    if ((one_of(ev->action, touched, bg_countof(touched)) ||
         (strcmp(ev->action, "connect") == 0 && s->start_event)) &&
        s->events && s->events->changed)
        s->events->changed(s->events_data, &s->base, ev->action);
}

/* ---- coming up ---- */

static bool strict_ok(const struct container_sandbox *s, struct bg_error *err)
{
    if (!s->spec->limits.strict || !s->base.not_enforced)
        return true;
    return bg_fail(err, BG_ERR_UNAVAILABLE, 0,
                   "strictLimits: the %s limit is not enforced here",
                   s->base.not_enforced[0]);
}

/* Both are there: the engine's word and the guest. */
static void maybe_live(struct container_sandbox *s)
{
    const struct bg_engine_facts *f = bg_engine_facts(s->p->engine);
    struct container_make m = make_of(s);
    bg_create_fn created = s->created;
    const char *wrong;
    struct bg_error err;

    if (s->state != CONTAINER_CREATING || !s->ready || !s->started)
        return;
    wrong = container_mismatch(&s->info, &m, &s->base.not_enforced);
    if (!wrong && f->same_pids) {
        wrong = container_proc_mismatch(s->pid, s->spec, f->rootless);
        container_proc_limits(s->pid, &s->spec->limits, &s->base.not_enforced);
    }
    if (wrong) {
        bg_fail(&err, BG_ERR_BINDING, 0,
                "the engine made another container than was asked for: its %s is another",
                wrong);
        fail_create(s, &err);
        return;
    }
    if (!strict_ok(s, &err)) {
        fail_create(s, &err);
        return;
    }
    bg_timer_stop(s->timer);
    s->state = CONTAINER_LIVE;
    s->base.started_wall_ms = bg_wall_ms();
    s->created = NULL;
    created(s->created_data, &s->base, NULL);
}

static void channel_ready(void *data, struct bg_channel *ch BG_UNUSED)
{
    struct container_sandbox *s = data;

    s->ready = true;
    maybe_live(s);
}

static void channel_down(void *data, struct bg_channel *ch BG_UNUSED)
{
    struct container_sandbox *s = data;

    if (s->pidfd < 0)
        ask_why(s);
}

static void channel_lost(void *data, struct bg_channel *ch BG_UNUSED,
                         const struct bg_error *err)
{
    struct container_sandbox *s = data;

    if (s->state == CONTAINER_CREATING)
        fail_create(s, err);
    else
        lose(s, err);
}

static bool watch_process(struct container_sandbox *s, struct bg_error *err)
{
    if (!bg_engine_facts(s->p->engine)->same_pids)
        return true; /* the token will tell that it is ours */
    s->pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0);
    if (s->pidfd < 0)
        return bg_fail(err, BG_ERR_UNAVAILABLE, errno,
                       "the container's first process can't be watched");
    s->pid_poll = bg_poll_new(s->p->env.loop, s->pidfd, on_process_end, s);
    if (!s->pid_poll)
        return bg_fail(err, BG_ERR_IO, errno, "watching the container's first process");
    bg_poll_set(s->pid_poll, BG_READ);
    bg_channel_expect_pid(s->ch, s->pid);
    return true;
}

static void copy_info(struct container_sandbox *s, const struct bg_container_info *i)
{
    struct bg_container_info *d = &s->info;
    char ***const lists[] = {&d->entrypoint, &d->cmd,   &d->env,     &d->networks,
                             &d->mounts,     &d->tmpfs, &d->cap_add, &d->cap_drop,
                             &d->security,   &d->modes, &d->labels};
    char **const strings[] = {&d->id,     &d->name, &d->image,  &d->started_at,
                              &d->status, &d->user, &d->network};

    *d = *i;
    for (size_t n = 0; n < bg_countof(strings); n++)
        *strings[n] = bg_xstrdup(*strings[n]);
    for (size_t n = 0; n < bg_countof(lists); n++)
        *lists[n] = *lists[n] ? bg_strv_dup(*lists[n]) : NULL;
}

static void on_looked(void *data, const struct bg_container_info *i,
                      const struct bg_error *err)
{
    struct container_sandbox *s = data;
    struct bg_error why;

    s->op = NULL;
    if (err) {
        fail_create(s, err);
        return;
    }
    copy_info(s, i);
    s->pid = (pid_t)i->pid;
    s->started = true;
    if (!i->running || i->pid <= 0) {
        bg_fail(&why, BG_ERR_UNAVAILABLE, 0,
                "the container ended as soon as it was started (exit code %lld)",
                (long long)i->exit_code);
        fail_create(s, &why);
    } else if (!watch_process(s, &why)) {
        fail_create(s, &why);
    } else {
        maybe_live(s);
    }
}

static void on_started(void *data, const struct bg_error *err)
{
    struct container_sandbox *s = data;

    s->op = NULL;
    if (err)
        fail_create(s, err);
    else
        s->op = bg_container_inspect(s->p->engine, s->cid, 0, on_looked, s);
}

static void on_created(void *data, const char *id, char *const *warnings,
                       const struct bg_error *err)
{
    struct container_sandbox *s = data;

    s->op = NULL;
    if (id)
        s->cid = bg_xstrdup(id);
    if (err && err->code == BG_ERR_CONFLICT)
        s->create_sent = false; /* nothing was made */
    if (s->state == CONTAINER_ENDING) {
        remove_it(s);
        return;
    }
    if (err) {
        fail_create(s, err);
        return;
    }
    for (; warnings && *warnings; warnings++)
        bg_log(s->p->env.log, BG_LOG_WARN, "%s: %s", s->base.name, *warnings);
    /* No limit of its own: the whole creation has one. */
    s->op = bg_container_start(s->p->engine, s->cid, 0, on_started, s);
}

/* ---- making ---- */

static bool make_link(struct container_sandbox *s, struct bg_error *err)
{
    bg_autofree char *id = bg_xstrndup(s->base.ref, LINK_ID);

    if (!bg_dir_private(s->p->link_parent, err))
        return false;
    s->link_dir = bg_path_join(s->p->link_parent, id);
    /* chmod: the umask must not decide who gets in. */
    if (mkdir(s->link_dir, 0755) != 0 || chmod(s->link_dir, 0755) != 0)
        return bg_fail(err, BG_ERR_IO, errno, "making %s", s->link_dir);
    return true;
}

static bool make_channel(struct container_sandbox *s, struct bg_error *err)
{
    static const struct bg_channel_events events = {
        .ready = channel_ready, .down = channel_down, .lost = channel_lost};
    bool same = bg_engine_facts(s->p->engine)->same_pids;
    bg_autofree char *sock = bg_path_join(s->link_dir, "s");
    const struct bg_channel_opts o = {
        .sock_path = sock,
        .expect_pid = same ? 0 : -1,
        .token = same ? NULL : s->token_bytes,
        .linger_ms = (uint32_t)s->p->env.config->linger_ms,
        .linger_empty_ms = BG_LINGER_EMPTY_MS,
    };

    s->ch = bg_channel_listen(s->p->env.loop, &o, &events, s, err);
    return s->ch != NULL;
}

static bool make(struct container_sandbox *s, struct bg_error *err)
{
    return bg_spec_mounts_check(s->spec, err) && container_guest_copy(s->p, err) &&
           make_link(s, err) && make_channel(s, err);
}

/* A sandbox of the same name that is still being removed: ours, so we know to wait. */
static bool name_ending(const struct container_sandbox *s)
{
    for (const struct container_sandbox *o = s->p->sandboxes; o; o = o->next)
        if (o != s && o->state == CONTAINER_ENDING &&
            strcmp(o->base.name, s->base.name) == 0)
            return true;
    return false;
}

static void send_create(struct container_sandbox *s)
{
    struct container_make m = make_of(s);

    s->create_sent = true;
    s->op = bg_container_create(s->p->engine, s->base.name, container_body(&m),
                                BG_ENGINE_LATE_MS, on_created, s);
}

static void on_timer(struct bg_timer *t, void *data)
{
    struct container_sandbox *s = data;
    int64_t limit = s->p->env.config->engine.create_ms, left = s->until - bg_mono_ms();
    struct bg_error err;

    if (s->why.code != BG_OK) {
        err = s->why;
        fail_create(s, &err);
    } else if (left <= 0) {
        bg_fail(&err, BG_ERR_TIMEOUT, 0, "the container did not come up within %lld s",
                (long long)limit / 1000);
        fail_create(s, &err);
    } else if (!s->create_sent && name_ending(s)) {
        bg_timer_start(t, NAME_RETRY_MS, 0);
    } else {
        bg_timer_start(t, left, 0);
        if (!s->create_sent)
            send_create(s);
    }
}

void container_create(struct bg_provider *bp, const struct bg_create_opts *o,
                      bg_create_fn done, void *data)
{
    struct container *p = (struct container *)bp;
    struct container_sandbox *s = bg_xcalloc(1, sizeof *s);

    *s = (struct container_sandbox){
        .base = {.ops = &bg_provider_container,
                 .ref = bg_xstrdup(o->ref),
                 .name = container_name(p->instance, o->id)},
        .p = p,
        .next = p->sandboxes,
        .spec = bg_spec_dup(o->spec),
        .spec_sum = bg_spec_sha256(o->spec),
        .pidfd = -1,
        .events = o->events,
        .events_data = o->events_data,
        .created = done,
        .created_data = data,
        .until = bg_mono_ms() + p->env.config->engine.create_ms,
    };
    p->sandboxes = s;
    bg_random(s->token_bytes, TOKEN_BYTES);
    bg_hex(s->token_bytes, TOKEN_BYTES, s->token);
    s->timer = bg_timer_new(p->env.loop, on_timer, s);
    if (!make(s, &s->why))
        bg_log(p->env.log, BG_LOG_WARN, "%s: %s", s->base.name, s->why.msg);
    bg_timer_start(s->timer, 0, 0);
}

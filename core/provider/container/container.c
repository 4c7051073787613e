/* SPDX-License-Identifier: MIT */
/*
 * The provider `container`: Docker or Podman through the Engine API. Here: opening (which
 * engine, what it can enforce), our copy of the guest that the engine mounts, closing.
 */
#include "core/provider/container/container.h"

#include <sys/stat.h>

/* ---- opening ---- */

static void set(char **field, char *value)
{
    free(*field);
    *field = value;
}

static void tell_opened(struct container *p)
{
    void (*opened)(void *data, const struct bg_provider_report *r) = p->opened;

    if (!opened)
        return;
    p->opened = NULL;
    opened(p->opened_data, &p->report);
}

static void not_available(struct container *p, const char *why, const char *remedy)
{
    set(&p->report.why_not, bg_xstrdup(why));
    set(&p->report.remedy, bg_xstrdup(remedy));
    tell_opened(p);
}

static void report_limits(struct container *p, const struct bg_engine_facts *f)
{
    const struct {
        const char *name;
        bool held;
    } limits[] = {{"memory", f->memory}, {"pids", f->pids}, {"cpu", f->cpu}};

    for (size_t i = 0; i < bg_countof(limits); i++)
        bg_strv_push(limits[i].held ? &p->report.enforced : &p->report.not_enforced,
                     limits[i].name);
    if (!f->swap)
        bg_strv_push(&p->report.not_enforced, "swap");
    bg_strv_push(&p->report.enforced, "network none");
    bg_strv_push(&p->report.enforced, "folder sizes");
    bg_strv_push(&p->report.enforced, "system calls");
}

static void on_event(void *data, const struct bg_engine_event *ev)
{
    container_event(data, ev);
}

static void on_broken(void *data)
{
    container_events_broken(data);
}

static void usable(struct container *p, const struct bg_engine_facts *f)
{
    static const struct bg_engine_watch_events events = {.event = on_event,
                                                         .broken = on_broken};
    const char *arch = container_arch();

    if (f->desktop) {
        not_available(p,
                      "the engine runs in a virtual machine (Docker Desktop), which "
                      "boxgate can't reach into yet",
                      "use an engine on this machine itself, or the provider local");
    } else if (*f->arch && *arch && strcmp(f->arch, arch) != 0) {
        bg_autofree char *why = bg_xasprintf(
            "the engine is of another architecture (%s) than boxgate (%s)", f->arch, arch);
        not_available(p, why, "use an engine on this machine");
    } else {
        p->report.available = true;
        report_limits(p, f);
        bg_engine_watch(p->engine, &events, p);
        tell_opened(p);
    }
}

static void on_engine(void *data, const struct bg_error *err)
{
    struct container *p = data;
    const struct bg_engine_facts *f = bg_engine_facts(p->engine);

    if (err) {
        not_available(p, err->msg,
                      "start the engine, or say in config.yaml which one to use: "
                      "engine: {runtime: docker} or {endpoint: unix:///PATH}");
        return;
    }
    p->podman = f->podman;
    set(&p->report.name, bg_xstrdup(f->podman ? "podman" : "docker"));
    set(&p->report.version, bg_xasprintf("%s %s (API %s%s)", p->report.name, f->version,
                                         f->api, f->rootless ? ", rootless" : ""));
    set(&p->report.endpoint, bg_xasprintf("%s (%s)", f->endpoint, f->why));
    usable(p, f);
}

static void on_soon(struct bg_timer *t BG_UNUSED, void *data)
{
    struct container *p = data;

    not_available(p, p->report.why_not, p->report.remedy);
}

static bool guest_digest(struct container *p, struct bg_error *err)
{
    bg_autobuf struct bg_buf b;

    bg_buf_init(&b, BG_GUEST_BYTES_MAX);
    if (!bg_read_file(p->env.guest_path, BG_GUEST_BYTES_MAX, false, &b, err))
        return false;
    p->guest_sum = bg_sha256(b.data, b.len);
    return true;
}

static void open_engine(struct container *p)
{
    const struct bg_config *c = p->env.config;
    const struct bg_engine_opts o = {.loop = p->env.loop,
                                     .log = p->env.log,
                                     .runtime = c->engine.runtime,
                                     .endpoint = c->engine.endpoint,
                                     .program = c->engine.program,
                                     .runtime_dir = p->env.paths->runtime,
                                     .call_ms = c->engine.call_ms};

    p->engine = bg_engine_open(&o, on_engine, p);
}

static struct bg_provider *
container_open(const struct bg_provider_env *env,
               void (*done)(void *data, const struct bg_provider_report *r), void *data)
{
    struct container *p = bg_xcalloc(1, sizeof *p);
    struct bg_error err;

    p->env = *env;
    p->instance = bg_xstrdup(env->instance);
    p->opened = done;
    p->opened_data = data;
    p->guest_path = bg_path_join(env->paths->state, "boxgate-guest");
    p->link_parent = bg_path_join(env->paths->runtime, "g");
    p->selinux = access("/sys/fs/selinux/enforce", F_OK) == 0;
    p->soon = bg_timer_new(env->loop, on_soon, p);
    p->report.name = bg_xstrdup("container");
    p->report.endpoint = bg_xstrdup(env->config->engine.endpoint);
    if (strcmp(env->config->engine.guest, "off") == 0) {
        p->report.why_not = bg_xstrdup("engine.guest is off, and containers without "
                                       "boxgate-guest are not supported yet");
        p->report.remedy = bg_xstrdup("engine: {guest: auto} in config.yaml");
        bg_timer_start(p->soon, 0, 0);
    } else if (!guest_digest(p, &err)) {
        p->report.why_not = bg_xstrdup(err.msg);
        p->report.remedy = bg_xstrdup("install boxgate again");
        bg_timer_start(p->soon, 0, 0);
    } else {
        open_engine(p);
    }
    return (struct bg_provider *)p;
}

static const struct bg_provider_report *container_report(const struct bg_provider *bp)
{
    return &((const struct container *)bp)->report;
}

/* ---- the guest's copy ---- */

static bool copy_is_good(const struct container *p)
{
    bg_autobuf struct bg_buf b;
    struct bg_sha256 sum;

    bg_buf_init(&b, BG_GUEST_BYTES_MAX);
    if (!bg_read_file(p->guest_path, BG_GUEST_BYTES_MAX, true, &b, NULL))
        return false;
    sum = bg_sha256(b.data, b.len);
    /* The umask of whoever made it must not keep the sandbox's user out. */
    return bg_sha256_eq(&sum, &p->guest_sum) && chmod(p->guest_path, 0555) == 0;
}

static bool write_copy(const struct container *p, struct bg_error *err)
{
    bg_autobuf struct bg_buf b;
    struct bg_sha256 sum;

    bg_buf_init(&b, BG_GUEST_BYTES_MAX);
    if (!bg_read_file(p->env.guest_path, BG_GUEST_BYTES_MAX, false, &b, err))
        return false;
    sum = bg_sha256(b.data, b.len);
    if (!bg_sha256_eq(&sum, &p->guest_sum))
        return bg_fail(err, BG_ERR_BINDING, 0,
                       "%s was replaced while the server runs; start it again",
                       p->env.guest_path);
    return bg_write_file_atomic(p->guest_path, b.data, b.len, 0555, err);
}

/*
 * The engine mounts a file of ours, so that a build that is replaced, or one below
 * somebody's 0700 home, does not matter; in the state folder, since a runtime folder may be
 * noexec.
 */
bool container_guest_copy(struct container *p, struct bg_error *err)
{
    if (p->guest_ready)
        return true;
    if (!copy_is_good(p) && !write_copy(p, err))
        return false;
    p->guest_ready = copy_is_good(p);
    return p->guest_ready ||
           bg_fail(err, BG_ERR_IO, 0, "%s is not what was written there", p->guest_path);
}

/* ---- closing ---- */

static void container_close(struct bg_provider *bp)
{
    struct container *p = (struct container *)bp;

    container_prepares_end(p);
    container_sweeps_end(p);
    container_sandboxes_drop(p);
    bg_engine_close(p->engine);
    container_images_free(p);
    bg_timer_free(p->soon);
    bg_provider_report_clear(&p->report);
    free(p->guest_path);
    free(p->link_parent);
    free(p->instance);
    free(p);
}

const struct bg_provider_ops bg_provider_container = {
    .kind = "container",
    .caps = BG_CAP_GUEST | BG_CAP_STATS | BG_CAP_IMAGES,
    .open = container_open,
    .report = container_report,
    .prepare = container_prepare,
    .cancel_prepare = container_cancel_prepare,
    .has_program = container_has_program,
    .create = container_create,
    .inspect = container_inspect,
    .exec = container_exec,
    .base_env = container_base_env,
    .stats = container_stats,
    .destroy = container_destroy,
    .sweep = container_sweep,
    .close = container_close,
};

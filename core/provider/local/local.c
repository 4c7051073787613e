/* SPDX-License-Identifier: MIT */
/*
 * The provider `local`: bubblewrap on this machine. Here: opening with its trial run, what
 * a spec may ask of it, sweeping, closing. One sandbox's life is in sandbox.c.
 */
#include "core/provider/local/local.h"

enum { TRIAL_ID_BYTES = 8 };

/* ---- opening ---- */

static void free_local(struct local *p)
{
    for (size_t i = 0; i < bg_countof(p->data); i++)
        if (p->data[i] >= 0)
            close(p->data[i]);
    if (p->nsswitch_dns >= 0)
        close(p->nsswitch_dns);
    local_host_clear(&p->host);
    local_cgroups_clear(&p->cgs);
    bg_provider_report_clear(&p->report);
    free(p->record_dir);
    free(p->link_parent);
    free(p->last_stderr);
    free(p->instance);
    free(p);
}

static void tell_opened(void *data)
{
    struct local *p = data;

    p->opening = false;
    if (p->closed)
        free_local(p);
    else
        p->opened(p->opened_data, &p->report);
}

static void report_failure(struct local *p, const struct bg_error *err)
{
    struct local_trial_facts f = {.host = &p->host,
                                  .guest_found = p->data[LOCAL_FD_GUEST] >= 0,
                                  .stderr_text = p->last_stderr ? p->last_stderr : ""};

    local_trial_read_sysctls(&f);
    local_trial_advice(&f, &p->report.why_not, &p->report.remedy);
    if (err && f.stderr_text[0] == '\0' && p->host.bwrap && f.guest_found) {
        free(p->report.why_not); /* it did not fail in bwrap: the error knows better */
        p->report.why_not = bg_xstrdup(err->msg);
    }
}

static void report_limits(struct local *p, char *const *not_enforced)
{
    static const char *const limits[] = {"memory", "pids", "cpu"};

    for (size_t i = 0; i < bg_countof(limits); i++) {
        bool missing = false;
        for (char *const *n = not_enforced; n && *n; n++)
            missing |= strcmp(*n, limits[i]) == 0;
        bg_strv_push(missing ? &p->report.not_enforced : &p->report.enforced, limits[i]);
    }
    bg_strv_push(&p->report.enforced, "network none");
    bg_strv_push(&p->report.enforced, "folder sizes");
    bg_strv_push(&p->report.enforced, "system calls");
}

static void trial_gone(void *data, const struct bg_error *err)
{
    struct local *p = data;

    if (err)
        bg_log(p->env.log, BG_LOG_WARN, "after the trial run: %s", err->msg);
    tell_opened(p);
}

static void trial_created(void *data, struct bg_sandbox *sb, const struct bg_error *err)
{
    struct local *p = data;

    if (!sb) {
        report_failure(p, err);
        tell_opened(p);
        return;
    }
    p->report.available = true;
    report_limits(p, sb->not_enforced);
    local_sandbox_destroy(sb, trial_gone, p);
}

static bool prepare_data(struct local *p, struct bg_error *err)
{
    const struct {
        int fd;
        const char *name, *text;
    } files[] = {
        {LOCAL_FD_PASSWD, "passwd", local_etc_passwd()},
        {LOCAL_FD_GROUP, "group", local_etc_group()},
        {LOCAL_FD_HOSTS, "hosts", local_etc_hosts()},
        {LOCAL_FD_NSSWITCH, "nsswitch.conf", local_etc_nsswitch(false)},
    };
    const char *dns = local_etc_nsswitch(true);

    p->data[LOCAL_FD_GUEST] =
        local_data_file(p->env.guest_path, BG_GUEST_BYTES_MAX, &p->guest_sum, err);
    if (p->data[LOCAL_FD_GUEST] < 0)
        return false;
    for (size_t i = 0; i < bg_countof(files); i++) {
        p->data[files[i].fd] =
            local_data_fd(files[i].name, files[i].text, strlen(files[i].text), err);
        if (p->data[files[i].fd] < 0)
            return false;
    }
    p->nsswitch_dns = local_data_fd("nsswitch.conf", dns, strlen(dns), err);
    p->data[LOCAL_FD_SECCOMP_CALLS] = local_seccomp_fd(LOCAL_FILTER_CALLS, err);
    if (p->data[LOCAL_FD_SECCOMP_CALLS] < 0)
        return false;
    p->data[LOCAL_FD_SECCOMP_ARGS] = local_seccomp_fd(LOCAL_FILTER_ARGS, err);
    return p->nsswitch_dns >= 0 && p->data[LOCAL_FD_SECCOMP_ARGS] >= 0;
}

static struct local *new_local(const struct bg_provider_env *env)
{
    struct local *p = bg_xcalloc(1, sizeof *p);

    p->env = *env;
    p->instance = bg_xstrdup(env->instance);
    p->env.instance = p->instance;
    for (size_t i = 0; i < bg_countof(p->data); i++)
        p->data[i] = -1;
    p->nsswitch_dns = -1;
    local_host_find(&p->host, "");
    local_cgroups_find(&p->cgs, &p->host, "");
    p->record_dir = bg_path_join(env->paths->runtime, "local");
    p->link_parent =
        p->host.root ? bg_xstrdup("/run") : bg_path_join(env->paths->runtime, "g");
    p->report.name = bg_xstrdup("local");
    p->report.endpoint = bg_xstrdup(p->host.bwrap ? p->host.bwrap : "");
    return p;
}

static struct bg_provider *
local_open(const struct bg_provider_env *env,
           void (*done)(void *data, const struct bg_provider_report *r), void *data)
{
    struct local *p = new_local(env);
    char id[2 * TRIAL_ID_BYTES + 1];
    struct local_plan plan;
    struct bg_error err;

    p->opened = done;
    p->opened_data = data;
    p->opening = true;
    if (p->host.bwrap)
        p->report.version = local_bwrap_version(p->host.bwrap);
    if (!p->host.bwrap || (p->host.root && !p->host.setpriv)) {
        report_failure(p, NULL);
        bg_loop_defer(env->loop, tell_opened, p);
    } else if (!prepare_data(p, &err)) {
        report_failure(p, &err);
        bg_loop_defer(env->loop, tell_opened, p);
    } else {
        bg_random_hex(id, TRIAL_ID_BYTES);
        local_plan_default(&plan);
        local_sandbox_create(p, id, &plan, NULL, NULL, trial_created, p);
    }
    return (struct bg_provider *)p;
}

static const struct bg_provider_report *local_report(const struct bg_provider *bp)
{
    return &((const struct local *)bp)->report;
}

/* ---- what a spec may ask ---- */

static void set(char **field, const char *value)
{
    free(*field);
    *field = bg_xstrdup(value);
}

/* Inside, these are the sandbox's own; nothing may be put over them. */
static bool target_free(const char *path)
{
    static const char *const taken[] = {"/usr",   "/bin",   "/sbin",     "/lib",
                                        "/lib32", "/lib64", "/proc",     "/dev",
                                        "/etc",   "/sys",   "/.boxgate", "/libx32"};
    bg_autofree char *padded = bg_xasprintf("%s/", path);

    if (path[0] != '/' || path[1] == '\0' || strstr(path, "//") || strstr(padded, "/../") ||
        strstr(padded, "/./"))
        return false;
    for (size_t i = 0; i < bg_countof(taken); i++) {
        size_t n = strlen(taken[i]);
        if (strncmp(padded, taken[i], n) == 0 && padded[n] == '/')
            return false;
    }
    return true;
}

static bool spec_possible(const struct local *p, const struct bg_spec *s,
                          struct bg_error *err)
{
    if (!p->report.available)
        return bg_fail(err, BG_ERR_UNAVAILABLE, 0, "%s (%s)", p->report.why_not,
                       p->report.remedy);
    if (strcmp(s->network, "none") != 0 && strcmp(s->network, "host") != 0)
        return bg_fail(err, BG_ERR_UNSUPPORTED, 0,
                       "provider local has network none or host, not `%s`", s->network);
    if (s->workspace_persistent || s->storage != BG_STORAGE_MEMORY)
        return bg_fail(
            err, BG_ERR_UNSUPPORTED, 0,
            "provider local keeps /workspace in memory: no volume, nothing persistent");
    if (s->user && *s->user && strcmp(s->user, BG_USER_DEFAULT) != 0 &&
        strcmp(s->user, "1000") != 0)
        return bg_fail(err, BG_ERR_UNSUPPORTED, 0,
                       "provider local runs as " BG_USER_DEFAULT ", not as %s", s->user);
    if (!target_free(s->workdir))
        return bg_fail(err, BG_ERR_PATH, 0, "workdir %s can't be used here", s->workdir);
    for (size_t i = 0; i < s->n_mounts; i++)
        if (!target_free(s->mounts[i].container))
            return bg_fail(err, BG_ERR_PATH, 0, "nothing can be mounted at %s",
                           s->mounts[i].container);
    return true;
}

static bool limit_asked(const struct bg_limits *l, const char *name)
{
    int64_t v = name[0] == 'm' ? l->memory_mb : name[0] == 'p' ? l->pids : l->cpus_milli;

    return v != BG_UNLIMITED;
}

static bool complete_spec(const struct local *p, struct bg_spec *s, struct bg_error *err)
{
    if (!spec_possible(p, s, err))
        return false;
    set(&s->provider, "local");
    set(&s->endpoint, "");
    set(&s->image, "host");
    set(&s->image_id, "host");
    set(&s->user, BG_USER_DEFAULT);
    /* Always so here, whatever the profile leaves open. */
    s->readonly_rootfs = true;
    s->no_new_privileges = true;
    bg_strv_free(s->drop_capabilities);
    s->drop_capabilities = NULL;
    bg_strv_push(&s->drop_capabilities, "ALL");
    s->guest = true;
    s->guest_sha256 = p->guest_sum;
    bg_strv_free(s->not_enforced);
    s->not_enforced = NULL;
    for (char **n = p->report.not_enforced; n && *n; n++) {
        if (!limit_asked(&s->limits, *n))
            continue;
        bg_strv_push(&s->not_enforced, *n);
        if (s->limits.strict)
            return bg_fail(err, BG_ERR_UNAVAILABLE, 0,
                           "strictLimits: the %s limit can't be enforced here", *n);
    }
    return true;
}

struct prepared {
    bg_prepare_fn done;
    void *data;
    struct bg_error err;
};

static void tell_prepared(void *data)
{
    struct prepared *r = data;

    r->done(r->data, r->err.code == BG_OK ? NULL : &r->err);
    free(r);
}

static void local_prepare(struct bg_provider *bp, struct bg_spec *spec,
                          bg_progress_fn progress, bg_prepare_fn done, void *data)
{
    struct local *p = (struct local *)bp;
    struct prepared *r = bg_xcalloc(1, sizeof *r);

    (void)progress; /* nothing is fetched */
    r->done = done;
    r->data = data;
    if (!complete_spec(p, spec, &r->err))
        bg_log(p->env.log, BG_LOG_INFO, "prepare: %s", r->err.msg);
    bg_loop_defer(p->env.loop, tell_prepared, r);
}

static void local_create(struct bg_provider *bp, const struct bg_create_opts *o,
                         bg_create_fn done, void *data)
{
    struct local_plan plan;

    local_plan_init(&plan, o->spec);
    local_sandbox_create((struct local *)bp, o->ref, &plan, o->spec, o, done, data);
}

/* Inside there is the host's /usr and what of / links into it. A link out of there (to
 * /opt, say) leads nowhere. */
static int local_has_program(struct bg_provider *bp, const struct bg_spec *spec,
                             const char *program)
{
    const struct local *p = (const struct local *)bp;
    bg_autofree char *path = local_find_program("", program);
    bg_autofree char *real = path ? realpath(path, NULL) : NULL;

    (void)spec; /* the image is the host */
    if (!real)
        return 0;
    if (strncmp(real, "/usr/", 5) == 0)
        return 1;
    for (char **d = p->host.dirs; d && *d; d++)
        if (strncmp(real, *d, strlen(*d)) == 0)
            return 1;
    return 0;
}

/* ---- sweeping ---- */

struct sweep_job {
    struct local_sweep s;
    void (*done)(void *data, char *const *names, const struct bg_error *err);
    void *data;
};

static void sweep_work(void *data)
{
    local_sweep_run(&((struct sweep_job *)data)->s);
}

static void sweep_done(void *data)
{
    static char *const none[] = {NULL};
    struct sweep_job *j = data;

    j->done(j->data, j->s.names ? j->s.names : none, NULL);
    local_sweep_clear(&j->s);
    free(j);
}

static void local_sweep_all(struct bg_provider *bp, bool foreign, bool dry_run,
                            void (*done)(void *data, char *const *names,
                                         const struct bg_error *err),
                            void *data)
{
    struct local *p = (struct local *)bp;
    struct sweep_job *j = bg_xcalloc(1, sizeof *j);

    j->s = (struct local_sweep){.instance = p->env.instance,
                                .record_dir = p->record_dir,
                                .link_parent = p->link_parent,
                                .link_private = !p->host.root,
                                .cgs = &p->cgs,
                                .live = local_live_refs(p),
                                .foreign = foreign,
                                .dry_run = dry_run};
    j->done = done;
    j->data = data;
    local_sweep_list(&j->s);
    bg_work(p->env.loop, sweep_work, sweep_done, j);
}

static void local_close(struct bg_provider *bp)
{
    struct local *p = (struct local *)bp;

    if (p->opening)
        p->closed = true;
    else
        free_local(p);
}

const struct bg_provider_ops bg_provider_local = {
    .kind = "local",
    .caps = BG_CAP_GUEST | BG_CAP_STATS,
    .open = local_open,
    .report = local_report,
    .prepare = local_prepare,
    .has_program = local_has_program,
    .create = local_create,
    .inspect = local_sandbox_inspect,
    .exec = local_sandbox_exec,
    .stats = local_sandbox_stats,
    .destroy = local_sandbox_destroy,
    .sweep = local_sweep_all,
    .close = local_close,
};

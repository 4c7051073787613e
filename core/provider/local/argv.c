/* SPDX-License-Identifier: MIT */
/*
 * The command line of one sandbox: sandbox.md 6 word for word. Pure, so that a golden test
 * can hold it; whatever the host decides comes in as struct local_host.
 */
#include "core/guest/protocol.h"
#include "core/provider/local/local.h"

/* ---- plans ---- */

void local_plan_init(struct local_plan *p, const struct bg_spec *spec)
{
    *p = (struct local_plan){.workdir = bg_xstrdup(spec->workdir),
                             .workspace_mb = spec->workspace_mb,
                             .tmp_mb = spec->tmp_mb,
                             .network_host = strcmp(spec->network, "host") == 0,
                             .n_mounts = spec->n_mounts,
                             .limits = spec->limits};
    p->mounts = bg_xcalloc(spec->n_mounts + 1, sizeof *p->mounts);
    for (size_t i = 0; i < spec->n_mounts; i++) {
        p->mounts[i] = spec->mounts[i];
        p->mounts[i].host = bg_xstrdup(spec->mounts[i].host);
        p->mounts[i].container = bg_xstrdup(spec->mounts[i].container);
    }
}

void local_plan_default(struct local_plan *p)
{
    *p = (struct local_plan){.workdir = bg_xstrdup(BG_WORKDIR),
                             .workspace_mb = BG_WORKSPACE_MB,
                             .tmp_mb = BG_TMP_MB,
                             .limits = {.memory_mb = BG_MEMORY_MB,
                                        .cpus_milli = BG_CPUS_MILLI,
                                        .pids = BG_PIDS,
                                        .max_processes = BG_MAX_PROCESSES}};
}

void local_plan_clear(struct local_plan *p)
{
    for (size_t i = 0; i < p->n_mounts; i++) {
        free(p->mounts[i].host);
        free(p->mounts[i].container);
    }
    free(p->mounts);
    free(p->workdir);
    *p = (struct local_plan){0};
}

/* ---- the command line ---- */

struct argv {
    char **v;
};

static void add(struct argv *a, const char *s)
{
    bg_strv_push(&a->v, s);
}

static void add_all(struct argv *a, const char *const *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(a, s[i]);
}
#define ADD(a, ...)                                \
    add_all(a, (const char *const[]){__VA_ARGS__}, \
            bg_countof(((const char *const[]){__VA_ARGS__})))

BG_PRINTF(2, 3) static void addf(struct argv *a, const char *fmt, ...)
{
    char buf[128];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(buf, sizeof buf, fmt, ap);
    va_end(ap);
    add(a, buf);
}

static void add_scope(struct argv *a, const struct local_argv_in *in)
{
    const struct bg_limits *l = &in->plan->limits;

    ADD(a, in->host->systemd_run, "--user", "--scope", "--quiet", "--collect");
    addf(a, "--unit=%s", in->scope);
    ADD(a, "-p", "Delegate=yes", "-p", "MemorySwapMax=0");
    if (l->memory_mb != BG_UNLIMITED) {
        add(a, "-p");
        addf(a, "MemoryMax=%lldM", (long long)l->memory_mb);
    }
    if (l->pids != BG_UNLIMITED) {
        add(a, "-p");
        addf(a, "TasksMax=%lld", (long long)local_pids_limit(l));
    }
    if (l->cpus_milli != BG_UNLIMITED) {
        add(a, "-p");
        addf(a, "CPUQuota=%lld%%", (long long)((l->cpus_milli + 9) / 10));
    }
    add(a, "--");
}

static void add_setpriv(struct argv *a, const struct local_argv_in *in)
{
    add(a, in->host->setpriv);
    add(a, "--reuid");
    addf(a, "%u", in->uid);
    add(a, "--regid");
    addf(a, "%u", in->uid);
    ADD(a, "--clear-groups", "--inh-caps=-all", "--");
}

static void add_tmpfs(struct argv *a, const char *perms, int64_t mb, const char *where)
{
    ADD(a, "--perms", perms, "--size");
    addf(a, "%lld", (long long)(mb << 20));
    ADD(a, "--tmpfs", where);
}

static void add_data(struct argv *a, const char *perms, int fd, const char *where)
{
    ADD(a, "--perms", perms, "--ro-bind-data");
    addf(a, "%d", fd);
    add(a, where);
}

static void add_host_files(struct argv *a, const struct local_argv_in *in)
{
    const struct local_host *h = in->host;

    ADD(a, "--ro-bind", "/usr", "/usr");
    for (char **l = h->links; l && *l; l++) {
        const char *eq = strchr(*l, '=');
        bg_autofree char *name = bg_xasprintf("/%.*s", (int)(eq - *l), *l);
        ADD(a, "--symlink", eq + 1, name);
    }
    for (char **d = h->dirs; d && *d; d++)
        ADD(a, "--ro-bind", *d, *d);
    for (char **e = h->etc; e && *e; e++)
        ADD(a, "--ro-bind", *e, *e);
    if (in->plan->network_host)
        ADD(a, "--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf");
    add_data(a, "0444", LOCAL_FD_PASSWD, "/etc/passwd");
    add_data(a, "0444", LOCAL_FD_GROUP, "/etc/group");
    add_data(a, "0444", LOCAL_FD_HOSTS, "/etc/hosts");
    add_data(a, "0444", LOCAL_FD_NSSWITCH, "/etc/nsswitch.conf");
}

static void add_mounts(struct argv *a, const struct local_plan *p)
{
    for (size_t i = 0; i < p->n_mounts; i++) {
        const struct bg_spec_mount *m = &p->mounts[i];
        ADD(a, m->read_only ? "--ro-bind" : "--bind", m->host, m->container);
    }
}

char **local_argv(const struct local_argv_in *in)
{
    struct argv a = {NULL};
    const struct local_plan *p = in->plan;

    if (in->scope)
        add_scope(&a, in);
    if (in->host->root)
        add_setpriv(&a, in);
    add(&a, in->host->bwrap);
    add(&a, "--unshare-all");
    if (p->network_host)
        add(&a, "--share-net");
    ADD(&a, "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000",
        "--cap-drop", "ALL");
    ADD(&a, "--as-pid-1", "--new-session", "--clearenv", "--hostname", "boxgate");
    add_host_files(&a, in);
    ADD(&a, "--proc", "/proc", "--dev", "/dev");
    add_tmpfs(&a, "1777", p->tmp_mb, "/tmp");
    add_tmpfs(&a, "0755", p->workspace_mb, p->workdir);
    add_tmpfs(&a, "1777", BG_SHM_MB, "/dev/shm");
    add_mounts(&a, p);
    add_data(&a, "0555", LOCAL_FD_GUEST, GP_GUEST_PATH);
    ADD(&a, "--ro-bind", in->link_dir, GP_LINK_DIR);
    /* Two filters: libseccomp drops an argument rule of a call that is allowed as a whole.
     */
    add(&a, "--add-seccomp-fd");
    addf(&a, "%d", LOCAL_FD_SECCOMP_CALLS);
    add(&a, "--add-seccomp-fd");
    addf(&a, "%d", LOCAL_FD_SECCOMP_ARGS);
    add(&a, "--info-fd");
    addf(&a, "%d", LOCAL_FD_INFO);
    ADD(&a, "--chdir", "/", "--remount-ro", "/dev", "--remount-ro", "/");
    ADD(&a, "--", GP_GUEST_PATH);
    return a.v;
}

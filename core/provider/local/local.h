/* SPDX-License-Identifier: MIT */
/*
 * The local provider's parts, shared between its own sources only: the argv builder and the
 * advice on failures are pure; seccomp, cgroups, uids, records and the spawn can each be
 * tried alone; sandbox.c and local.c put them together.
 */
#pragma once

#include <signal.h>
#include <stdio.h>

#include "core/base/buf.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/provider/provider.h"

/* ---- what the host has (host.c) ---- */
struct local_host {
    bool root;         /* effective uid 0: one uid per sandbox through setpriv */
    char *bwrap;       /* absolute, or NULL */
    char *setpriv;     /* absolute, or NULL; needed as root only */
    char *systemd_run; /* absolute; NULL when it or the user's bus is missing */
    char **links;      /* "bin=usr/bin": symlinks of / into /usr, made again inside */
    char **dirs;       /* "/lib": real directories beside /usr, bound read-only */
    char **etc;        /* absolute paths below /etc, bound read-only */
    char **user_env;   /* "K=V" that systemd-run needs to find the user's bus */
};
/* root_dir "" = the real machine; tests pass a made-up tree. Programs are searched in
 * LOCAL_PATH below it. */
void local_host_find(struct local_host *h, const char *root_dir);
void local_host_clear(struct local_host *h);
/* Absolute, with root_dir before it; an absolute name is only checked. NULL = not there. */
char *local_find_program(const char *root_dir, const char *name);
#define LOCAL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- what one sandbox is made of; copied from a spec ---- */
struct local_plan {
    char *workdir;
    int64_t workspace_mb, tmp_mb;
    bool network_host;
    struct bg_spec_mount *mounts; /* strings owned */
    size_t n_mounts;
    struct bg_limits limits;
};
void local_plan_init(struct local_plan *p, const struct bg_spec *spec);
void local_plan_default(struct local_plan *p); /* for the trial run */
void local_plan_clear(struct local_plan *p);

/* ---- argv (argv.c), pure ---- */
/* Descriptor numbers in the child. */
enum local_fd {
    LOCAL_FD_GUEST = 3,
    LOCAL_FD_PASSWD,
    LOCAL_FD_GROUP,
    LOCAL_FD_HOSTS,
    LOCAL_FD_NSSWITCH,
    LOCAL_FD_SECCOMP_CALLS,
    LOCAL_FD_SECCOMP_ARGS,
    LOCAL_FD_INFO,
    LOCAL_FD_COUNT,
};
struct local_argv_in {
    const struct local_host *host;
    const struct local_plan *plan;
    const char *link_dir;
    uint32_t uid;      /* as root: the sandbox's own */
    const char *scope; /* systemd scope's name, or NULL */
};
char **local_argv(const struct local_argv_in *in);

/* ---- seccomp (seccomp.c) ---- */
enum local_filter {
    LOCAL_FILTER_CALLS, /* which system calls exist at all */
    LOCAL_FILTER_ARGS,  /* which arguments of those are refused */
    LOCAL_FILTER_COUNT,
};
/* The compiled filter in a sealed memfd; -1 on failure. The caller closes it. */
BG_CHECK int local_seccomp_fd(enum local_filter f, struct bg_error *err);

/* ---- read-only data for bwrap (data.c) ---- */
/* A sealed memfd with these bytes. */
BG_CHECK int local_data_fd(const char *name, const void *p, size_t n, struct bg_error *err);
/* A new description of the same bytes, read from the start (bwrap reads to the end). */
BG_CHECK int local_data_reopen(int fd, struct bg_error *err);
/* A whole file into a sealed memfd, with its digest. */
BG_CHECK int local_data_file(const char *path, size_t max, struct bg_sha256 *sum,
                             struct bg_error *err);
const char *local_etc_passwd(void);
const char *local_etc_group(void);
const char *local_etc_hosts(void);
const char *local_etc_nsswitch(bool network_host);

/* ---- cgroups (cgroup.c) ---- */
enum local_ctl { LOCAL_CTL_MEMORY, LOCAL_CTL_PIDS, LOCAL_CTL_CPU, LOCAL_CTL_COUNT };
enum local_cg_mode { LOCAL_CG_NONE, LOCAL_CG_V1, LOCAL_CG_V2, LOCAL_CG_SCOPE };
struct local_cgroups {
    enum local_cg_mode mode;
    /* Our own folder of each controller, under which sandboxes get theirs; NULL = not
     * writable. v2: all three are the same. SCOPE: the mount point of cgroup2. */
    char *base[LOCAL_CTL_COUNT];
    bool memsw; /* v1: memory.memsw.limit_in_bytes is there */
};
/* root_dir "" = the real machine. Moves the server to a leaf only for v2 and only as root.
 */
void local_cgroups_find(struct local_cgroups *c, const struct local_host *h,
                        const char *root_dir);
void local_cgroups_clear(struct local_cgroups *c);

struct local_cgroup {
    enum local_cg_mode mode;
    char *dir[LOCAL_CTL_COUNT]; /* v2: the same path three times */
    uint64_t oom_seen;          /* the counter when the sandbox started */
};
/* Makes the folders and sets the limits; the sandbox's monitor counts one more process. */
BG_CHECK bool local_cgroup_make(struct local_cgroup *g, const struct local_cgroups *c,
                                const char *name, const struct bg_limits *l,
                                struct bg_error *err);
/* The files a child writes "0" to before it executes anything; n <= LOCAL_CTL_COUNT fds,
 * the caller closes them. */
BG_CHECK bool local_cgroup_join_fds(const struct local_cgroup *g, int fds[LOCAL_CTL_COUNT],
                                    size_t *n, struct bg_error *err);
/* Those somebody else made for pid, where they can be seen; only to read. */
bool local_cgroup_of(struct local_cgroup *g, pid_t pid);
/* SCOPE: the folders as the started process has them. */
void local_cgroup_adopt(struct local_cgroup *g, const struct local_cgroups *c, pid_t pid);
/* Reads back what is in force for pid; appends "memory", "pids", "cpu" that are not. */
void local_cgroup_check(const struct local_cgroup *g, const struct bg_limits *l, pid_t pid,
                        char ***not_enforced);
/* Kernel's count of kills for memory; false when there is none to read. */
bool local_cgroup_oom(const struct local_cgroup *g, uint64_t *count);
bool local_cgroup_memory(const struct local_cgroup *g, uint64_t *bytes);
/* Sends SIGKILL to all in it; how many were still there (0 = empty or gone). */
size_t local_cgroup_kill(const struct local_cgroup *g);
/* False while the kernel still holds it (EBUSY). */
bool local_cgroup_remove(const struct local_cgroup *g);
void local_cgroup_clear(struct local_cgroup *g);
int64_t local_pids_limit(const struct bg_limits *l); /* asked + ours, or BG_UNLIMITED */

/* ---- processes (spawn.c) ---- */
struct local_spawn {
    char *const *argv; /* argv[0] absolute */
    char *const *env;
    const int *fds; /* fds[i] becomes i */
    size_t n_fds;
    const int *join; /* cgroup files to write "0" to first */
    size_t n_join;
    int64_t data_mb; /* RLIMIT_DATA; 0 = as it is */
};
/* A child and its pidfd (readable once it ended). It is ours to wait for. */
BG_CHECK bool local_spawn(const struct local_spawn *s, pid_t *pid, int *pidfd,
                          struct bg_error *err);
/* Start time in clock ticks since boot; 0 = no such process, or only its zombie. */
uint64_t local_start_time(pid_t pid);
pid_t local_parent_of(pid_t pid); /* 0 = no such process */
bool local_uid_of(pid_t pid, uint32_t *uid);
/* Kills pid if it still is the process that started then. False = it is gone. */
bool local_kill_exact(pid_t pid, uint64_t start, int signo);
/* SIGKILL to the children pid has now. */
void local_kill_children(pid_t pid);
/* SIGKILL to every bwrap in the session that leader led; nothing if the pid is another's by
 * now. */
void local_kill_session(pid_t leader, uint64_t leader_start);

/* ---- uids (uid.c): one per live sandbox, over all servers of this machine ---- */
struct local_uid {
    uint32_t uid;
    int fd; /* the lock */
    char *path;
};
#define LOCAL_UID_DIR "/run/boxgate-uid"
BG_CHECK bool local_uid_take(struct local_uid *u, const char *dir, uint32_t base,
                             struct bg_error *err);
void local_uid_release(struct local_uid *u);

/* ---- records (record.c): what a dead server's successor must find ---- */
struct local_record {
    char *ref;
    char *link;  /* the outer link folder */
    char *group; /* the cgroup's name */
    /* Where it lies; the next server may find another place for its own. NULL = nowhere. */
    char *dirs[LOCAL_CTL_COUNT];
    /* maker: who wrote it. While that lives, and is not the one that sweeps, it is nobody's
     * leftover: `boxgate doctor` tries a sandbox in the folders of a server that starts. */
    pid_t maker, monitor, child;
    uint64_t maker_start, monitor_start, child_start;
};
void local_record_clear(struct local_record *r);
BG_CHECK bool local_record_write(const char *dir, const struct local_record *r,
                                 struct bg_error *err);
BG_CHECK bool local_record_read(const char *dir, const char *ref, struct local_record *r,
                                struct bg_error *err);
void local_record_remove(const char *dir, const char *ref);

struct local_sweep {
    const char *instance; /* ours */
    const char *record_dir;
    const char *link_parent;         /* where link folders lie: "/run" as root */
    bool link_private;               /* all in there is ours, by id alone */
    const struct local_cgroups *cgs; /* where groups lie */
    char **live;                     /* ids that must stay */
    bool foreign, dry_run;
    char **records, **groups, **links; /* found by local_sweep_list */
    char **names;                      /* out: a line for each thing dealt with */
};
/* On the loop: what is there now; sandboxes made later are in no list. */
void local_sweep_list(struct local_sweep *s);
/* In a worker: waits for processes to end, at most BG_LOCAL_SWEEP_MS for each. */
void local_sweep_run(struct local_sweep *s);
void local_sweep_clear(struct local_sweep *s);
#define LOCAL_LINK_PREFIX "boxgate-link-"
#define LOCAL_GROUP_PREFIX "boxgate-"

/* ---- the trial run and its advice (trial.c) ---- */
struct local_trial_facts {
    const struct local_host *host;
    bool guest_found;
    const char *stderr_text; /* of bwrap, or "" */
    int apparmor_userns; /* kernel.apparmor_restrict_unprivileged_userns; -1 = not there */
    int userns_clone;    /* kernel.unprivileged_userns_clone; -1 = not there */
    int64_t max_userns;  /* user.max_user_namespaces; -1 = not there */
};
/* One sentence and what helps; malloc'ed. */
void local_trial_advice(const struct local_trial_facts *f, char **why, char **remedy);
void local_trial_read_sysctls(struct local_trial_facts *f);
char *
local_bwrap_version(const char *bwrap); /* "bubblewrap 0.8.0"; NULL if it can't be run */

/* ---- the provider and its sandboxes ---- */
enum { LOCAL_ID_LEN = 16 };
struct local_sandbox;
struct local {
    struct bg_provider_env env;
    struct local_host host;
    struct local_cgroups cgs;
    int data[LOCAL_FD_INFO]; /* memfds by child descriptor; -1 below LOCAL_FD_GUEST */
    int nsswitch_dns;
    struct bg_sha256 guest_sum;
    char *instance;
    bool opening;
    char *record_dir; /* runtime/local */
    char *link_parent;
    struct bg_provider_report report;
    struct local_sandbox *sandboxes; /* live list */
    void (*opened)(void *data, const struct bg_provider_report *r);
    void *opened_data;
    char *last_stderr; /* of the last bwrap that did not start */
    bool closed;       /* in the middle of the trial run: freed at its end */
};
enum local_state { LOCAL_CREATING, LOCAL_LIVE, LOCAL_LOST, LOCAL_ENDING };
struct local_sandbox {
    struct bg_sandbox base; /* first: the two are cast */
    struct local *p;
    struct local_sandbox *next;
    enum local_state state;
    struct local_plan plan;
    bool has_spec; /* false for the trial run */
    struct bg_sha256 spec_sum;
    char id[LOCAL_ID_LEN + 1];
    char *outer; /* link folder's parent as root; as a user the link folder itself */
    char *link_dir;
    bool recorded, group_made;
    struct local_uid uid;
    struct local_cgroup group;
    struct local_record record;
    pid_t monitor; /* bwrap outside; 0 = not started */
    int pidfd, info_fd, err_fd;
    bool exited;
    int status;
    struct bg_poll *exit_poll, *info_poll;
    struct bg_buf info, errtext;
    struct bg_channel *ch;
    struct bg_timer *timer; /* CREATING: its limit; ENDING: the next step */
    const struct bg_sandbox_events *events;
    void *events_data;
    bg_create_fn created;
    void *created_data;
    bg_done_fn destroyed;
    void *destroyed_data;
    struct bg_error why; /* of a failed creation */
    int64_t ending_since;
};
/* Takes plan. spec and o are NULL for the trial run. */
void local_sandbox_create(struct local *p, const char *ref, const struct local_plan *plan,
                          const struct bg_spec *spec, const struct bg_create_opts *o,
                          bg_create_fn done, void *data);
void local_sandbox_inspect(struct bg_sandbox *sb, const struct bg_spec *spec,
                           bg_done_fn done, void *data);
struct bg_exec *local_sandbox_exec(struct bg_sandbox *sb, const struct bg_exec_spec *x,
                                   const struct bg_exec_events *ev, void *data);
void local_sandbox_stats(struct bg_sandbox *sb,
                         void (*cb)(void *data, const struct bg_guest_stats *s,
                                    const struct bg_error *err),
                         void *data);
void local_sandbox_destroy(struct bg_sandbox *sb, bg_done_fn done, void *data);
char **local_live_refs(const struct local *p);

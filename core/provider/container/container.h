/* SPDX-License-Identifier: MIT */
/*
 * The container provider's parts, shared between its own sources only. spec.c is
 * pure: what is asked of the engine, and whether what it made is that. The rest drives
 * core/engine: images (image.c), one sandbox's life (sandbox.c), what
 * can be done with it (use.c), sweeping (sweep.c).
 */
#pragma once

#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/engine/engine.h"
#include "core/provider/provider.h"

#define CONTAINER_GUEST "/.boxgate/guest" /* as the sandbox sees it */
#define CONTAINER_LINK "/.boxgate/link"
#define LABEL_SANDBOX "boxgate.sandbox"
#define LABEL_INSTANCE "boxgate.instance"
#define LABEL_REF "boxgate.ref"
#define LABEL_NAME "boxgate.name" /* the one we gave; labels are copied, names are not */

/* ---- spec.c, pure ---- */

/* This machine's architecture as engines name it ("amd64"); "" = one we don't know. */
const char *container_arch(void);
/* boxgate-<id folded, at most 30>-<8 hex of SHA-256(instance, id)>; malloc'ed. */
char *container_name(const char *instance, const char *id);
/* What the profile asks, as far as it does not depend on the image. */
BG_CHECK bool container_spec_possible(const struct bg_spec *s, struct bg_error *err);
/* The profile's user over the image's; malloc'ed. */
char *container_user(const char *asked, const char *image_user);

struct container_make {
    const struct bg_spec *spec;
    const char *instance, *ref, *name;
    const char *link_dir, *guest_path; /* on the host */
    const char *token;                 /* hex for the guest's environment, or NULL */
    bool podman, selinux;
};
/* Made by somebody from an image that has our labels (docker commit keeps them), or renamed
 * by somebody: theirs now, never removed. */
bool container_is_copy(const struct bg_container_row *r);
cJSON *container_body(const struct container_make *m);
/* For a container that is never started: to look into an image. */
cJSON *container_probe_body(const char *image_id, const char *instance);
/* What of it is not as asked, or NULL; limits the engine dropped are appended to
 * not_enforced instead. */
const char *container_mismatch(const struct bg_container_info *i,
                               const struct container_make *m, char ***not_enforced);
int64_t container_pids_limit(const struct bg_limits *l); /* asked + ours */

/* ---- proc.c: what the kernel says about the first process ---- */
/* The name of the first thing that is not as the spec wants it, or NULL. */
const char *container_proc_mismatch(pid_t pid, const struct bg_spec *spec, bool rootless);
/* Appends the limits that are not in force. */
void container_proc_limits(pid_t pid, const struct bg_limits *l, char ***not_enforced);

/* ---- the provider ---- */

struct container_image {
    struct container_image *next;
    char *id, *arch, *os, *user;
    char **env;
    bool probed;       /* the rest is known */
    char **probed_for; /* programs that were looked for ... */
    char **programs;   /* ... and found */
};

struct prepare;
struct sweep;
struct container_sandbox;
struct container {
    struct bg_provider_env env;
    char *instance;
    struct bg_engine *engine;
    struct bg_provider_report report;
    bool open, podman, selinux;
    struct bg_sha256 guest_sum;
    char *guest_path; /* our copy, that the engine mounts */
    bool guest_ready;
    char *link_parent;
    struct container_image *images;
    struct prepare *prepares;
    struct sweep *sweeps;
    struct container_sandbox *sandboxes;
    struct bg_timer *soon;
    void (*opened)(void *data, const struct bg_provider_report *r);
    void *opened_data;
};

/* container.c */
BG_CHECK bool container_guest_copy(struct container *p, struct bg_error *err);

/* image.c */
void container_prepare(struct bg_provider *bp, struct bg_spec *spec,
                       bg_progress_fn progress, bg_prepare_fn done, void *data);
void container_cancel_prepare(struct bg_provider *bp, void *data);
void container_prepares_end(struct container *p); /* each done gets CANCELLED */
int container_has_program(struct bg_provider *bp, const struct bg_spec *spec,
                          const char *program);
const struct container_image *container_image_find(const struct container *p,
                                                   const char *id);
void container_images_free(struct container *p);

/* sandbox.c */
enum container_state {
    CONTAINER_CREATING,
    CONTAINER_LIVE,
    CONTAINER_LOST,
    CONTAINER_ENDING,
};
struct look; /* an inspect for the session, use.c */
struct container_sandbox {
    struct bg_sandbox base; /* first: the two are cast */
    struct container *p;
    struct container_sandbox *next;
    enum container_state state;
    struct bg_spec *spec;
    struct bg_sha256 spec_sum;
    char *link_dir;
    char *cid;        /* the engine's id; NULL = not known */
    bool create_sent; /* there may be a container */
    char token[2 * 32 + 1];
    unsigned char token_bytes[32];
    struct bg_container_info info; /* as it was when it became live */
    pid_t pid;
    int pidfd;
    struct bg_poll *pid_poll;
    struct bg_channel *ch;
    bool ready;                  /* the guest is in */
    bool started;                /* the engine said so, and info is filled */
    struct bg_engine_op *op;     /* of the creation or the end */
    struct bg_engine_op *why_op; /* asking why it went */
    struct bg_timer *timer;
    int64_t until; /* the creation is over by then */
    bool start_event;
    struct look *looks;
    struct bg_error why;
    const struct bg_sandbox_events *events;
    void *events_data;
    bg_create_fn created;
    void *created_data;
    bg_done_fn destroyed;
    void *destroyed_data;
};
void container_create(struct bg_provider *bp, const struct bg_create_opts *o,
                      bg_create_fn done, void *data);
void container_destroy(struct bg_sandbox *sb, bg_done_fn done, void *data);
void container_event(struct container *p, const struct bg_engine_event *ev);
void container_events_broken(struct container *p);
/* At close: what is still being cleaned up is left to the next sweep. */
void container_sandboxes_drop(struct container *p);

/* use.c */
void container_inspect(struct bg_sandbox *sb, const struct bg_spec *spec, bg_done_fn done,
                       void *data);
void container_looks_end(struct container_sandbox *s, const struct bg_error *err);
struct bg_exec *container_exec(struct bg_sandbox *sb, const struct bg_exec_spec *x,
                               const struct bg_exec_events *ev, void *data);
void container_stats(struct bg_sandbox *sb,
                     void (*cb)(void *data, const struct bg_guest_stats *s,
                                const struct bg_error *err),
                     void *data);
char *const *container_base_env(const struct bg_sandbox *sb);

/* sweep.c */
void container_sweep(struct bg_provider *bp, bool foreign, bool dry_run,
                     void (*done)(void *data, char *const *names,
                                  const struct bg_error *err),
                     void *data);
void container_sweeps_end(struct container *p); /* each done gets CANCELLED */

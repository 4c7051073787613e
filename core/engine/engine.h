/* SPDX-License-Identifier: MIT */
/*
 * The Engine API of Docker and Podman over a Unix socket: finding an engine, agreeing on a
 * version, containers, images, events. Callbacks run on the loop, never from inside the
 * call, at most once, and not after bg_engine_cancel or bg_engine_close. Everything the
 * engine says is parsed strictly; what it fails to do is BG_ERR_UNAVAILABLE but for
 * BG_ERR_NOT_FOUND (404) and BG_ERR_CONFLICT (a name that is taken).
 */
#pragma once

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/loop/loop.h"

struct bg_engine;
struct bg_engine_op; /* a call under way */

typedef void (*bg_engine_done_fn)(void *data, const struct bg_error *err);

/* ---- opening (discover.c, version.c, service.c, engine.c) ---- */

struct bg_engine_opts {
    struct bg_loop *loop;
    struct bg_log *log;
    const char *runtime;     /* "auto" | "podman" | "docker" */
    const char *endpoint;    /* "unix:///...", "" = look for one */
    const char *program;     /* podman for our own service; "" = "podman" in PATH */
    const char *runtime_dir; /* of that service's socket */
    int64_t call_ms;
};

struct bg_engine_facts {
    bool podman;
    char *version;  /* "20.10.24" */
    char *api;      /* negotiated, "1.41" */
    char *endpoint; /* "unix:///run/docker.sock" */
    char *why;      /* this one: "configured", "Podman's socket of this user", ... */
    char *arch;     /* as Go names it: "amd64" */
    bool desktop;   /* a virtual machine: no shared file system */
    bool rootless;
    bool same_pids;               /* its pids are ours */
    bool memory, swap, pids, cpu; /* limits it can enforce */
};

/* done: usable or why not. The engine is closed by the caller in either case. */
struct bg_engine *bg_engine_open(const struct bg_engine_opts *o, bg_engine_done_fn done,
                                 void *data);
void bg_engine_close(struct bg_engine *e); /* ends our own service too; NULL is fine */
const struct bg_engine_facts *bg_engine_facts(const struct bg_engine *e);
void bg_engine_cancel(struct bg_engine_op *op);

/* What DOCKER_HOST and CONTAINER_HOST name, for `boxgate init` alone; NULL = nothing. The
 * caller frees it. */
char *bg_engine_endpoint_env(void);
/* The path of a "unix://" endpoint; NULL with BG_ERR_UNSUPPORTED or BG_ERR_CONFIG. */
BG_CHECK char *bg_engine_socket(const char *endpoint, struct bg_error *err);

/* ---- containers (container.c) ---- */

/* What an inspect tells, normalised so that two answers about an unchanged container are
 * equal: lists sorted, ids with "sha256:". Strings are never NULL. */
struct bg_container_info {
    char *id, *name, *image, *started_at, *status, *user, *network;
    int64_t pid, restarts;
    bool running, paused, oom_killed;
    int64_t exit_code;
    char **entrypoint, **cmd, **env;
    char **networks; /* names it is connected to */
    char **mounts;   /* "bind|/host|/inside|ro" */
    char **tmpfs;    /* "/inside=options" */
    char **cap_add, **cap_drop, **security;
    char **modes;    /* "PidMode=host": namespaces that are not its own */
    int64_t devices; /* and device rules, and binds of sockets: anything handed in */
    bool privileged, readonly_rootfs;
    int64_t memory, memory_swap, nano_cpus, pids_limit;
    char **labels; /* "K=V", sorted */
};
void bg_container_info_clear(struct bg_container_info *i);
/* The name of the first thing in which two answers differ, or NULL. Status, exit code and
 * labels don't count. */
const char *bg_container_differs(const struct bg_container_info *a,
                                 const struct bg_container_info *b);
/* NULL when there is no such label. */
const char *bg_container_label(const struct bg_container_info *i, const char *key);

typedef void (*bg_engine_create_fn)(void *data, const char *id, char *const *warnings,
                                    const struct bg_error *err);
typedef void (*bg_engine_inspect_fn)(void *data, const struct bg_container_info *i,
                                     const struct bg_error *err);
typedef void (*bg_engine_has_fn)(void *data, bool there, const struct bg_error *err);

/* body is taken. timeout_ms 0 = none. */
struct bg_engine_op *bg_container_create(struct bg_engine *e, const char *name, cJSON *body,
                                         int64_t timeout_ms, bg_engine_create_fn done,
                                         void *data);
struct bg_engine_op *bg_container_start(struct bg_engine *e, const char *id,
                                        int64_t timeout_ms, bg_engine_done_fn done,
                                        void *data);
struct bg_engine_op *bg_container_inspect(struct bg_engine *e, const char *id_or_name,
                                          int64_t timeout_ms, bg_engine_inspect_fn done,
                                          void *data);
/* By SIGKILL, with its anonymous volumes; done once the engine says it is gone. Tries
 * again for BG_ENGINE_REMOVE_MS. */
struct bg_engine_op *bg_container_remove(struct bg_engine *e, const char *id,
                                         bg_engine_done_fn done, void *data);
/* Whether a file is there, in a container that need not run. */
struct bg_engine_op *bg_container_has(struct bg_engine *e, const char *id, const char *path,
                                      bg_engine_has_fn done, void *data);

struct bg_container_row {
    char *id, *name, *state; /* "running", "exited", ... */
    char **labels;
};
typedef void (*bg_engine_list_fn)(void *data, const struct bg_container_row *rows, size_t n,
                                  const struct bg_error *err);
/* All with this label ("K=V" or "K"), whatever their state. */
struct bg_engine_op *bg_container_list(struct bg_engine *e, const char *label,
                                       bg_engine_list_fn done, void *data);
const char *bg_container_row_label(const struct bg_container_row *r, const char *key);

/* ---- images (image.c) ---- */

struct bg_image_info {
    char *id, *arch, *os, *user;
    char **env;
};
void bg_image_info_clear(struct bg_image_info *i);
typedef void (*bg_engine_image_fn)(void *data, const struct bg_image_info *i,
                                   const struct bg_error *err);
struct bg_engine_op *bg_image_inspect(struct bg_engine *e, const char *name,
                                      bg_engine_image_fn done, void *data);
/* total 0 = unknown; over all layers. */
typedef void (*bg_engine_progress_fn)(void *data, const char *text, int64_t done,
                                      int64_t total);
/* No time limit; bg_engine_cancel ends it. */
struct bg_engine_op *bg_image_pull(struct bg_engine *e, const char *name,
                                   bg_engine_progress_fn progress, bg_engine_done_fn done,
                                   void *data);

/* ---- events (events.c) ---- */

struct bg_engine_event {
    char *action; /* "die", "oom", "pause", "exec_start", "connect", ... without ": ..." */
    char *container; /* id */
};
struct bg_engine_watch_events {
    void (*event)(void *data, const struct bg_engine_event *ev);
    /* The stream broke: until it is there again, something may be missed. */
    void (*broken)(void *data);
};
/* Until the engine is closed; asked for again when it breaks. */
void bg_engine_watch(struct bg_engine *e, const struct bg_engine_watch_events *ev,
                     void *data);

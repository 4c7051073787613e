/* SPDX-License-Identifier: MIT */
/*
 * A provider makes sandboxes; a sandbox runs commands. One vtable; session code above it
 * holds everything that all providers share (ids, lazy creation, timers, limits,
 * truncation, audit).
 *
 * Asynchronous calls take a callback that runs exactly once, on the loop, never from inside
 * the call. A sandbox pointer is owned by whoever got it from create's callback until
 * destroy.
 */
#pragma once

#include "core/base/log.h"
#include "core/base/path.h"
#include "core/config/config.h"
#include "core/guest/channel.h"
#include "core/loop/loop.h"
#include "core/provider/spec.h"

struct bg_provider;
struct bg_sandbox;

enum bg_provider_cap {
    BG_CAP_GUEST = 1, /* files, processes, ports and stats through the guest */
    BG_CAP_STATS = 2,
    BG_CAP_IMAGES = 4,
};

struct bg_provider_env {
    struct bg_loop *loop;
    const struct bg_config *config; /* outlives the provider */
    const struct bg_paths *paths;
    struct bg_log *log;
    const char *guest_path; /* the boxgate-guest binary */
    const char *instance;   /* hex, this state folder's own id: label boxgate.instance */
};

/* What `doctor`, `init` and the session show. */
struct bg_provider_report {
    bool available;
    char *name;                      /* "local", "docker", "podman" */
    char *version;                   /* "bubblewrap 0.8.0", "docker 20.10.24 (API 1.41)" */
    char *endpoint;                  /* and why this one */
    char *why_not;                   /* one sentence, when not available */
    char *remedy;                    /* the command or setting that helps */
    char **enforced, **not_enforced; /* "memory", "pids", "cpu", "network none", ... */
};
void bg_provider_report_clear(struct bg_provider_report *r);

typedef void (*bg_prepare_fn)(void *data, const struct bg_error *err);
typedef void (*bg_create_fn)(void *data, struct bg_sandbox *sb, const struct bg_error *err);
typedef void (*bg_done_fn)(void *data, const struct bg_error *err);
typedef void (*bg_progress_fn)(void *data, const char *text, int64_t done,
                               int64_t total); /* total 0 = unknown */

struct bg_sandbox_events {
    /* The sandbox ended by itself or from outside: "killed by memory", "removed from
     * outside". */
    void (*lost)(void *data, struct bg_sandbox *sb, const struct bg_error *why);
    /* Somebody else touched it (engine events); auto-allow is off from now on. */
    void (*changed)(void *data, struct bg_sandbox *sb, const char *what);
};

struct bg_create_opts {
    const char *id;             /* session id, for the engine's name */
    const char *ref;            /* random hex, unique; label boxgate.ref */
    const struct bg_spec *spec; /* copied as needed */
    const struct bg_sandbox_events *events;
    void *events_data;
};

struct bg_provider_ops {
    const char *kind; /* "local" | "container" */
    unsigned caps;
    /* Opens without side effects on the machine; may take time: done() says if it is usable
     * and fills the report (borrowed until close). */
    struct bg_provider *(*open)(const struct bg_provider_env *env,
                                void (*done)(void *data,
                                             const struct bg_provider_report *r),
                                void *data);
    const struct bg_provider_report *(*report)(const struct bg_provider *p);
    /* Completes spec: provider, endpoint, image id (pulling as the profile says), user,
     * guest, not_enforced. With limits.strict a limit that can't be enforced is an error.
     */
    void (*prepare)(struct bg_provider *p, struct bg_spec *spec, bg_progress_fn progress,
                    bg_prepare_fn done, void *data);
    /* Ends the prepare that was given this data, if it is still under way: its done gets
     * BG_ERR_CANCELLED. May be NULL: then prepare is always quick. */
    void (*cancel_prepare)(struct bg_provider *p, void *data);
    /* The caller has made `ref` durable; whatever is made outside carries ref or the
     * instance in its name or label, so that sweep finds it again without any other record.
     */
    void (*create)(struct bg_provider *p, const struct bg_create_opts *o, bg_create_fn done,
                   void *data);
    /* Right before a start: every hashed field the back end reports, and that it is the
     * same sandbox (id, start time, pid). BG_ERR_BINDING when it is not. */
    void (*inspect)(struct bg_sandbox *sb, const struct bg_spec *spec, bg_done_fn done,
                    void *data);
    struct bg_exec *(*exec)(struct bg_sandbox *sb, const struct bg_exec_spec *x,
                            const struct bg_exec_events *ev, void *data);
    /* Whether a prepared spec's image has this program: 1 yes, 0 no, -1 not known before a
     * sandbox runs. May be NULL. */
    int (*has_program)(struct bg_provider *p, const struct bg_spec *spec,
                       const char *program);
    /* What lies under the profile's environment and over the session's base (PATH, HOME,
     * USER, LANG): the image's own "K=V". May be NULL or give NULL. */
    char *const *(*base_env)(const struct bg_sandbox *sb);
    void (*stats)(struct bg_sandbox *sb,
                  void (*cb)(void *data, const struct bg_guest_stats *s,
                             const struct bg_error *err),
                  void *data);
    /* Kills everything and removes all traces; done when nothing is left. Also for a
     * sandbox that is already gone. Frees sb. */
    void (*destroy)(struct bg_sandbox *sb, bg_done_fn done, void *data);
    /* Removes what a dead server of this instance left (never another instance's, unless
     * foreign). names: one line each for the user; dry_run removes nothing. */
    void (*sweep)(struct bg_provider *p, bool foreign, bool dry_run,
                  void (*done)(void *data, char *const *names, const struct bg_error *err),
                  void *data);
    /* Sandboxes must be destroyed before. Prepares and sweeps under way get
     * BG_ERR_CANCELLED before it returns. */
    void (*close)(struct bg_provider *p);
};

extern const struct bg_provider_ops bg_provider_local;
extern const struct bg_provider_ops bg_provider_container;

/* NULL for NONE. */
const struct bg_provider_ops *bg_provider_ops_for(enum bg_provider_kind k);

/* Common head of every provider's sandbox; the rest is the provider's own. */
struct bg_sandbox {
    const struct bg_provider_ops *ops;
    char *ref;
    char *name; /* engine's name or the link folder; for the record and the screen */
    int64_t started_wall_ms;
    char **not_enforced; /* what was read back after start */
};

/* Where boxgate-guest is: env BOXGATE_GUEST (only in the CLI and tests), beside the
 * executable, else BG_LIBEXECDIR. malloc'ed; NULL with err when it is nowhere. */
BG_CHECK char *bg_guest_find(struct bg_error *err);

/* SPDX-License-Identifier: MIT */
/*
 * A sandbox's resolved create options: everything that decides where and how code will run,
 * as the operator sees it and as the request hash binds it (specSha256, contract.md 3).
 * Made from a profile, completed by the provider's prepare (image id, endpoint, user), then
 * never changed: the sandbox is created from this very struct.
 */
#pragma once

#include "core/base/json.h"
#include "core/base/path.h"
#include "core/config/config.h"

struct bg_spec_mount {
    char *host; /* realpath at load */
    char *container;
    bool read_only;
    uint64_t dev, ino;
    uint32_t mode;
};

struct bg_spec {
    char *profile;
    char *provider; /* "local" | "docker" | "podman" */
    char *endpoint; /* engine socket, "" for local */
    char *image;    /* as named in the profile; "host" for local */
    char *image_id; /* "sha256:..."; local: the literal "host" */
    char *workdir;
    char *user; /* "1000:1000" */
    char *network;
    char **env; /* "K=V", sorted by bytes: the profile's; the call's come on top */
    struct bg_spec_mount *mounts;
    size_t n_mounts;
    int32_t *ports;
    size_t n_ports;
    char *ports_via;
    struct bg_limits limits;
    bool readonly_rootfs, no_new_privileges;
    char **drop_capabilities;
    bool workspace_persistent, destroy_workspace;
    char *workspace_id;
    enum bg_storage storage;
    int64_t workspace_mb, tmp_mb;
    char **labels, **metadata;
    int64_t idle_ms, ttl_ms;
    bool auto_destroy;
    bool guest; /* boxgate-guest is PID 1 (else the fall-back) */
    struct bg_sha256 guest_sha256;
    /* not hashed: what the provider found it cannot enforce, e.g. {"memory", "cpu"} */
    char **not_enforced;
};

/*
 * Mounts are resolved (realpath, dev, ino, mode) and checked; the provider's fields stay
 * empty. Refused as a mount: /, /proc, /sys, /dev, /run and what is below them, sockets,
 * folders that hold an engine's socket, boxgate's own folders and whatever is above or
 * below those. endpoint: the configured engine socket, "" or NULL for none.
 */
BG_CHECK struct bg_spec *bg_spec_from_profile(const struct bg_profile *p,
                                              const struct bg_paths *paths,
                                              const char *endpoint, struct bg_error *err);
struct bg_spec *bg_spec_dup(const struct bg_spec *s);
void bg_spec_free(struct bg_spec *s);
/* Over every field but not_enforced, each framed with its name. */
struct bg_sha256 bg_spec_sha256(const struct bg_spec *s);
/* Mount sources as they are now against what was bound. */
BG_CHECK bool bg_spec_mounts_check(const struct bg_spec *s, struct bg_error *err);
/* For the wire and the audit; env values are left out (names only) unless with_env. */
cJSON *bg_spec_json(const struct bg_spec *s, bool with_env);

/* SPDX-License-Identifier: MIT */
/*
 * config.yaml as plain data. Everything has a default (core/base/values.h) but `provider`:
 * no sandbox is assumed silently. Unknown keys, 0, negative numbers and wrong types are
 * errors with line and column; `unlimited` is a word and becomes BG_UNLIMITED.
 */
#pragma once

#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/digest.h"

#define BG_UNLIMITED INT64_MAX

enum bg_provider_kind {
    BG_PROVIDER_NONE, /* not chosen yet */
    BG_PROVIDER_LOCAL,
    BG_PROVIDER_CONTAINER,
};

struct bg_limits {
    int64_t memory_mb;
    int64_t cpus_milli; /* cpus: 1.0 = 1000 */
    int64_t pids;
    int64_t timeout_ms;     /* exec */
    int64_t run_timeout_ms; /* run_code */
    int64_t max_timeout_ms;
    int64_t max_output_bytes; /* per stream, the first bytes are kept */
    int64_t max_file_bytes;
    int64_t max_processes;
    int64_t process_tail_bytes;
    bool strict; /* a limit that can't be enforced refuses the session */
};

struct bg_mount {
    char *host;      /* absolute */
    char *container; /* absolute */
    bool read_only;
};

enum bg_pull { BG_PULL_MISSING, BG_PULL_ALWAYS, BG_PULL_NEVER };
enum bg_storage { BG_STORAGE_MEMORY, BG_STORAGE_VOLUME };

struct bg_profile {
    char *name;
    bool agents; /* an agent may open a session of it */
    char *image; /* presets are resolved to the image's name */
    enum bg_pull pull;
    char *workdir;
    bool workspace_persistent;
    char *workspace_id;
    enum bg_storage storage;
    int64_t workspace_mb, tmp_mb;
    bool destroy_workspace;
    char *network; /* "none", "bridge", "host" or an engine network's name */
    int32_t *ports;
    size_t n_ports;
    char *ports_via; /* auto | engine | guest */
    char *user;      /* "" = the image's */
    char **env;      /* "K=V" */
    struct bg_mount *mounts;
    size_t n_mounts;
    char **labels;   /* "K=V" */
    char **metadata; /* "K=V" */
    struct bg_limits limits;
    bool readonly_rootfs, no_new_privileges;
    char **drop_capabilities;
    int64_t idle_ms, ttl_ms; /* BG_UNLIMITED: no such timer */
    bool auto_destroy;
    struct {
        char **files; /* "relative/path=content", in the file's order */
        char **directories;
        char **env; /* "K=V", on top of the profile's */
    } manifest;
};

struct bg_language {
    char *name;
    char **argv; /* reads the code on stdin */
};

struct bg_pool {
    char *profile;
    int64_t size, max_age_ms;
};

struct bg_config {
    int64_t version;
    enum bg_provider_kind provider;
    struct {
        char *runtime;  /* auto | podman | docker */
        char *endpoint; /* "" = discover */
        char *program;
        char *guest; /* auto | off */
        int64_t create_ms, call_ms;
    } engine;
    char *profile; /* name of the default one */
    struct bg_profile *profiles;
    size_t n_profiles;
    struct bg_language *languages;
    size_t n_languages;
    int64_t grace_ms, linger_ms;
    int64_t pending_ms, no_console_ms, detach_ms, arm_ms, deny_memory_ms, session_scope_ms;
    bool operator_pin, operator_headless;
    int64_t local_uid_base; /* fits a uid_t */
    struct {
        char *theme, *border;
        bool mouse, bell;
        char **notify;
    } console;
    int64_t blob_days;
    int64_t wait_port_ms, wait_port_interval_ms;
    struct {
        char **include, **allow; /* never both */
        int64_t timeout_ms;
        char **allowed, **blocked; /* exec: exact command names; they only tighten */
        int64_t exec_ms, exec_max_ms;
        int64_t read_bytes, write_bytes;
        int64_t log_bytes, wait_ms, wait_max_ms, grace_ms;
    } tools;
    struct bg_pool *pool;
    size_t n_pool;
    struct {
        char **session_create, **exec_start, **exec_end, **file_write, **destroy;
        int64_t timeout_ms;
    } hooks;
    struct {
        char *npm, *pypi;
    } pin;
    struct bg_sha256 digest; /* of the file's bytes; zero when there is no file */
};

/* A missing file gives the defaults with provider NONE. */
BG_CHECK struct bg_config *bg_config_load(const char *path, struct bg_error *err);
BG_CHECK struct bg_config *bg_config_parse(const char *name, const char *p, size_t n,
                                           struct bg_error *err);
struct bg_config *bg_config_defaults(void);
void bg_config_free(struct bg_config *c);

/* NULL if there is none of that name. */
const struct bg_profile *bg_config_profile(const struct bg_config *c, const char *name);
const struct bg_language *bg_config_language(const struct bg_config *c, const char *name);
/* The whole config as YAML with every default written out (`boxgate config show`). */
void bg_config_print(const struct bg_config *c, struct bg_buf *out);
/* What `boxgate init` writes for a provider; short, commented. */
void bg_config_template(enum bg_provider_kind kind, const char *endpoint,
                        struct bg_buf *out);

const char *
bg_provider_kind_name(enum bg_provider_kind k); /* "local", "container", "none" */
bool bg_provider_kind_from(const char *name, enum bg_provider_kind *out);

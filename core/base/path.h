/* SPDX-License-Identifier: MIT */
/*
 * The four folders of boxgate, ids, and opening files and folders that nobody else can have
 * prepared. contract.md 1; the directory rules are tmux's: lstat, ours, 0700, no symlink.
 */
#pragma once

#include <sys/types.h>

#include "core/base/buf.h"

/* Bytes below `runtime`, the slash included, that a socket's name may take; bg_paths_init
 * refuses a runtime folder that leaves less of sun_path. */
#define BG_RUNTIME_NAME_MAX 32

struct bg_paths {
    char *config;  /* $XDG_CONFIG_HOME/boxgate or BOXGATE_HOME/config */
    char *state;   /* audit, blobs, server.log, instance.lock */
    char *runtime; /* sockets, links to guests; short, it must fit sun_path */
    char *cache;
    char *config_file; /* config/config.yaml */
    char *policy_file; /* config/policy.yaml */
    char *agent_sock;  /* runtime/agent.sock */
    char *operator_sock;
};

/*
 * From BOXGATE_HOME (absolute; moves all four), else from the XDG variables, else HOME.
 * Creates nothing. getenv_fn NULL = getenv; a test may pass its own.
 */
BG_CHECK bool bg_paths_init(struct bg_paths *p, const char *(*getenv_fn)(const char *),
                            struct bg_error *err);
void bg_paths_free(struct bg_paths *p);
/* Makes the four folders (0700) and verifies each as bg_dir_private does. */
BG_CHECK bool bg_paths_create(const struct bg_paths *p, struct bg_error *err);

/* mkdir -p (0700 for what it makes), then: a directory, no symlink, owned by us, no access
 * for group or other. Refuses with a sentence that says what is wrong and how to mend it.
 */
BG_CHECK bool bg_dir_private(const char *path, struct bg_error *err);
BG_CHECK bool bg_mkdir_p(const char *path, mode_t mode, struct bg_error *err);
/* rm -r that never follows a symlink and never leaves the device. Missing is fine. */
BG_CHECK bool bg_rm_rf(const char *path, struct bg_error *err);

/* Reads a whole file of at most max bytes. owner_only: refuses a symlink, another owner,
 * and anything writable by group or other. Missing gives BG_ERR_NOT_FOUND. */
BG_CHECK bool bg_read_file(const char *path, size_t max, bool owner_only,
                           struct bg_buf *out, struct bg_error *err);
/* Temporary name, fsync, rename; 0600 unless mode says otherwise. */
BG_CHECK bool bg_write_file_atomic(const char *path, const void *p, size_t n, mode_t mode,
                                   struct bg_error *err);

/* `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`, as it stands; anything else is refused, never folded.
 */
bool bg_id_valid(const char *id);
/* `[A-Za-z_][A-Za-z0-9_]*`, at most 128 bytes. */
bool bg_env_name_valid(const char *name);

char *bg_path_join(const char *a, const char *b); /* malloc'ed, one slash between */

/* SPDX-License-Identifier: MIT */
/* What a policy may look at: plain data about one request, borrowed for the call. */
#pragma once

#include <stdint.h>

#include "core/base/buf.h"

struct bg_facts {
    const char *kind;      /* "run_code", "exec", "create_session", "close_session", ... */
    const char *principal; /* "uid:1000" */
    const char *language;  /* run_code, else NULL */
    struct bg_str code;    /* run_code; p NULL else */
    char *const *argv;     /* exec: command and args as they will be executed; else NULL */
    const char *cwd;
    const char *sha256; /* of the request without its session, 64 hex: a rule's `hash` */
    uint32_t hazards;   /* BG_HZ_BIT set */
    int64_t timeout_ms; /* effective */
    /* the sandbox */
    const char *provider; /* local | docker | podman */
    const char *image_id;
    const char *network;
    bool mounts_any, mounts_rw;
    bool caps_none; /* every capability dropped */
    bool no_new_privileges;
    bool unlimited; /* some limit is */
    bool fresh;     /* nothing has run or been written in this session yet */
    bool changed_outside;
    int64_t memory_mb, pids, cpus_milli;
    int64_t now_wall_ms;
};

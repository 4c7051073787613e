/* SPDX-License-Identifier: MIT */
/*
 * What the console knows: sessions, requests and what happened since it started, from the
 * server's rows and events. No screen here; every text in it is untrusted as it came.
 */
#pragma once

#include "core/base/json.h"

#define MODEL_ACTIVITY 256 /* events kept for the activity pane */
#define MODEL_ROWS_MAX 4096

struct request {
    uint64_t id;
    uint32_t rev;
    char *sha256, *kind, *session, *profile, *language, *state;
    char *first_line, *purpose, *client, *exe;
    char *decision, *decided_by, *reason;
    char *hazards; /* "bidi, network" */
    bool high, attached;
    int64_t lines, bytes, waiting, uid, pid;
    int64_t requested_ms, expires_ms, timeout_ms; /* wall clock of the server; -1 = none */
    bool has_exit;
    int64_t exit_code;
};

struct session {
    uint64_t key; /* from the id, for selections */
    char *id, *state, *provider, *image, *image_id, *profile, *network, *run_id;
    char *not_enforced, *last_exit;
    int64_t memory_mb, cpus_milli, pids, calls, denied, running;
    int64_t created_ms, used_ms; /* wall clock; -1 = unknown */
    bool changed_outside;
    bool has_stats;
    int64_t cpu_tenths, mem_bytes, processes;
};

struct activity {
    int64_t at_ms;
    const char *word; /* ours: "request", "approved", ... */
    int level;        /* 0 plain, 1 ok, 2 warn, 3 high */
    uint64_t request; /* 0 = none */
    char *text;       /* untrusted */
};

struct model {
    struct request *requests; /* live ones and those that just ended, oldest first */
    size_t n_requests;
    struct session *sessions;
    size_t n_sessions;
    struct activity activity[MODEL_ACTIVITY]; /* ring; newest at activity_n - 1 */
    size_t activity_n;
    uint64_t arrived; /* how many requests became pending since the start */
};

void model_init(struct model *m);
void model_free(struct model *m);
/* It may be another server: what it tells next counts, whatever revision was known. */
void model_reconnected(struct model *m);
/* Whole lists, as session.list and approval.list answer. Wrong rows are left out. */
void model_set_requests(struct model *m, const cJSON *rows, int64_t now_ms);
void model_set_sessions(struct model *m, const cJSON *rows, int64_t now_ms);
/* One event. True if it says that events were lost: the lists must be read again. */
bool model_event(struct model *m, const char *topic, const char *type, const cJSON *data,
                 int64_t now_ms);
void model_note(struct model *m, int64_t now_ms, const char *word, int level,
                const char *text);

const struct request *model_request(const struct model *m, uint64_t id);
const struct session *model_session(const struct model *m, uint64_t key);
bool request_pending(const struct request *r);
/* The pending ones, oldest first; malloc'ed ids, *n of them. */
uint64_t *model_pending(const struct model *m, size_t *n);
uint64_t *model_session_keys(const struct model *m, size_t *n);
/* When the first pending one expires; -1 = none. */
int64_t model_next_expiry(const struct model *m);

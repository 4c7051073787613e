/* SPDX-License-Identifier: MIT */
/*
 * Newline-delimited JSON-RPC 2.0 over a stream socket (contract.md 2). No batches; ids are
 * strings or integers, echoed raw. A line of more than BG_JSON_HELLO_MAX bytes before
 * bg_rpc_trust, or BG_JSON_LINE_MAX after, ends the connection. The write ends of at most
 * two pipes travel by SCM_RIGHTS beside a line and are given to that line's handler, as
 * open files of its own that never block; any other descriptor is closed at once.
 */
#pragma once

#include "core/base/json.h"
#include "core/loop/loop.h"

/* JSON-RPC codes; ours are contract.md 2. */
enum bg_rpc_code {
    BG_RPC_PARSE = -32700,
    BG_RPC_INVALID = -32600,
    BG_RPC_METHOD = -32601,
    BG_RPC_PARAMS = -32602,
    BG_RPC_INTERNAL = -32603,
    BG_RPC_FORBIDDEN_ROLE = -32001,
    BG_RPC_NOT_FOUND = -32002,
    BG_RPC_HASH_MISMATCH = -32003,
    BG_RPC_ALREADY_DECIDED = -32004,
    BG_RPC_EXPIRED = -32005,
    BG_RPC_CALL_ID_CONFLICT = -32006,
    BG_RPC_POLICY_INVALID = -32007,
    BG_RPC_LIMIT = -32008,
    BG_RPC_AUDIT_UNAVAILABLE = -32009,
    BG_RPC_PROTO_UNSUPPORTED = -32010,
    BG_RPC_BACKEND_UNAVAILABLE = -32011,
    BG_RPC_HAZARDS = -32012,
    BG_RPC_SELF_APPROVAL = -32013,
    BG_RPC_UNSUPPORTED = -32014,
};
/* error.data.class carries bg_errc_name(), so both sides keep the exact class. */
int bg_rpc_code_of(enum bg_errc e);

struct bg_rpc; /* one connection */

struct bg_rpc_msg {
    char *id_raw; /* the id's JSON text; NULL = a notification */
    const char *method;
    const cJSON *params; /* object or NULL */
    const cJSON *result; /* responses */
    const cJSON *error;
    int fds[2]; /* received with it; -1 = none; a handler that keeps one sets it to -1,
                   others are closed */
};

struct bg_rpc_events {
    /* A request or notification from the peer. Answer now or later with bg_rpc_reply/_error
     * using a copy of id_raw. */
    void (*request)(void *data, struct bg_rpc *c, struct bg_rpc_msg *m);
    /* The peer is gone or broke the protocol (err says which). Free c here or later. */
    void (*closed)(void *data, struct bg_rpc *c, const struct bg_error *err);
};

/* Takes fd (non-blocking from now on). */
struct bg_rpc *bg_rpc_new(struct bg_loop *loop, int fd, const struct bg_rpc_events *ev,
                          void *data);
void bg_rpc_free(struct bg_rpc *c);
void bg_rpc_trust(struct bg_rpc *c); /* hello was accepted: the large line cap holds */
/* Server side: nothing more is read while about a MiB of answers has not been taken. */
void bg_rpc_pace(struct bg_rpc *c);
size_t bg_rpc_behind(const struct bg_rpc *c); /* bytes not yet taken by the peer */

void bg_rpc_reply(struct bg_rpc *c, const char *id_raw, cJSON *result); /* takes result */
void bg_rpc_error(struct bg_rpc *c, const char *id_raw, const struct bg_error *err);
void bg_rpc_error_code(struct bg_rpc *c, const char *id_raw, int code, const char *text);
void bg_rpc_notify(struct bg_rpc *c, const char *method, cJSON *params); /* takes params */
/* Asks the peer. cb once: result borrowed, or err (its class rebuilt from
 * error.data.class). */
typedef void (*bg_rpc_fn)(void *data, const cJSON *result, const struct bg_error *err);
void bg_rpc_call(struct bg_rpc *c, const char *method, cJSON *params, const int *fds,
                 size_t n_fds, bg_rpc_fn cb, void *cb_data);

/* Pure, fuzzed: one line to a message tree (free the tree with cJSON_Delete; m borrows from
 * it, id_raw is malloc'ed). */
BG_CHECK cJSON *bg_rpc_parse(const char *line, size_t n, size_t max, struct bg_rpc_msg *m,
                             struct bg_error *err);

/* Sockets: pathname only, in a directory that bg_dir_private accepts, 0600. */
BG_CHECK int bg_unix_listen(const char *path, mode_t mode, struct bg_error *err);
BG_CHECK int bg_unix_connect(const char *path, struct bg_error *err);

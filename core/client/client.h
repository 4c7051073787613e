/* SPDX-License-Identifier: MIT */
/*
 * The typed client of cli, mcp and tui: finds or starts the server, says hello, refuses a
 * server of other paths, calls and gets events. One connection = one role.
 */
#pragma once

#include "core/base/path.h"
#include "core/rpc/rpc.h"

struct bg_client;

enum bg_role { BG_ROLE_AGENT, BG_ROLE_OPERATOR, BG_ROLE_OBSERVER };

struct bg_client_opts {
    enum bg_role role;
    const char *name;   /* "boxgate-run" */
    const char *run_id; /* or NULL */
    bool start; /* autostart when there is no server (tmux's way: lock, try again, fork) */
    const struct bg_paths *paths;
};

struct bg_client_events {
    void (*event)(void *data, const char *topic, const char *type,
                  const cJSON *ev);                         /* ev: the row; borrowed */
    void (*closed)(void *data, const struct bg_error *err); /* server gone */
};

/* Synchronous connect + hello on the given loop (turns it). NULL with err: UNAVAILABLE (no
 * server and no start; says what to run), CONFIG ("no provider chosen; run: boxgate init
 * --provider local"), FORBIDDEN, PROTOCOL. */
BG_CHECK struct bg_client *bg_client_connect(struct bg_loop *loop,
                                             const struct bg_client_opts *o,
                                             const struct bg_client_events *ev, void *data,
                                             struct bg_error *err);
void bg_client_free(struct bg_client *c);
/* Waits for what a starting server says on its ready pipe: "ok", or "class: text", which
 * becomes err. */
BG_CHECK bool bg_client_await_ready(int fd, struct bg_error *err);
const cJSON *bg_client_hello(const struct bg_client *c); /* the server's answer */

/* Asynchronous. */
void bg_client_call(struct bg_client *c, const char *method, cJSON *params, const int *fds,
                    size_t n_fds, bg_rpc_fn cb, void *data);
/* Synchronous: turns the loop until the answer is there. Caller frees. */
BG_CHECK cJSON *bg_client_ask(struct bg_client *c, const char *method, cJSON *params,
                              struct bg_error *err);

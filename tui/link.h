/* SPDX-License-Identifier: MIT */
/*
 * The console's connection to the server: made once before the screen is taken, made again
 * every second after it is lost. Connecting turns the loop, so it happens between turns
 * (link_poll), never inside a callback.
 */
#pragma once

#include "core/client/client.h"

struct link;

struct link_events {
    void (*connected)(void *data, const cJSON *hello);
    void (*event)(void *data, const char *topic, const char *type, const cJSON *row);
    void (*disconnected)(void *data, const struct bg_error *err);
};

/* Connects now, starting the server if none runs. NULL with err. No event before
 * link_begin. */
BG_CHECK struct link *link_open(struct bg_loop *loop, const struct bg_paths *paths,
                                const char *name, struct bg_error *err);
void link_begin(struct link *l, const struct link_events *ev, void *data);
void link_poll(struct link *l); /* between turns */
/* As bg_client_call; cb hears UNAVAILABLE when there is no connection. data: struct link */
void link_call(void *data, const char *method, cJSON *params, bg_rpc_fn cb, void *cb_data);
void link_close(struct link *l);

/* SPDX-License-Identifier: MIT */
/*
 * HTTP calls to a server on a Unix socket, many at once, on the loop (libcurl's
 * multi_socket behind). Callbacks run on the loop, never from inside the call that started
 * them. A transport that fails, hangs or is cut is BG_ERR_UNAVAILABLE, an answer that is no
 * HTTP or too large is BG_ERR_PROTOCOL or BG_ERR_LIMIT; any HTTP status is an answer.
 */
#pragma once

#include "core/base/buf.h"
#include "core/loop/loop.h"

struct bg_http;
struct bg_http_call;

struct bg_http_answer {
    int status;
    struct bg_buf body; /* borrowed; empty for a stream */
};

struct bg_http_events {
    /* Streams only: bytes of a 2xx body as they come. May cancel the call. */
    void (*chunk)(void *data, const char *p, size_t n);
    /* Exactly one of a and err; the call is gone when this returns. Not after a cancel. */
    void (*done)(void *data, const struct bg_http_answer *a, const struct bg_error *err);
};

struct bg_http_request {
    const char *method; /* "GET", "HEAD", "POST", "DELETE", "PUT" */
    const char *path;   /* "/v1.41/info?x=y", encoded by the caller; copied */
    const char *body;   /* JSON, copied; NULL = none */
    /* The whole call; 0 = no limit (only the connection has one then). */
    int64_t timeout_ms;
    size_t max; /* bytes of the answer's body; of a stream's error body */
    bool stream;
    /* Its own connection, so that nothing is ever sent twice. For what is not idempotent.
     */
    bool once;
};

/* what: how errors name the server, like "the engine at /run/docker.sock"; copied. */
struct bg_http *bg_http_new(struct bg_loop *loop, const char *socket, const char *what);
/* Calls that are left end without their done. */
void bg_http_free(struct bg_http *h);
const char *bg_http_socket(const struct bg_http *h);

struct bg_http_call *bg_http_start(struct bg_http *h, const struct bg_http_request *r,
                                   const struct bg_http_events *ev, void *data);
void bg_http_cancel(struct bg_http_call *c);

/* Appends s with everything but unreserved characters as %XX: for a path or a query. */
void bg_http_encode(struct bg_buf *out, const char *s);

/* SPDX-License-Identifier: MIT */
/* The parts of core/engine, shared between its own sources only. */
#pragma once

#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/values.h"
#include "core/engine/engine.h"
#include "core/net/http.h"

/* ---- parse.c: pure functions on an engine's bytes, fuzzed ---- */
/* Whatever is missing or of another type reads as "", 0, false or an empty list. */
const char *ej_str(const cJSON *o, const char *key);
int64_t ej_int(const cJSON *o, const char *key);
bool ej_bool(const cJSON *o, const char *key);
const cJSON *ej_obj(const cJSON *o, const char *key); /* also an array; may be NULL */
char **ej_strings(const cJSON *a, bool sort);
char **ej_pairs(const cJSON *o); /* {"K": "V"} as "K=V", sorted */

struct engine_version {
    bool podman;
    char *version, *arch;
    int api, api_min; /* minor; of 1.x */
};
BG_CHECK bool engine_parse_version(const char *p, size_t n, struct engine_version *v,
                                   struct bg_error *err);
void engine_version_clear(struct engine_version *v);
BG_CHECK bool engine_parse_info(const char *p, size_t n, struct bg_engine_facts *f,
                                struct bg_error *err);
BG_CHECK bool engine_parse_container(const char *p, size_t n, struct bg_container_info *i,
                                     struct bg_error *err);
BG_CHECK bool engine_parse_image(const char *p, size_t n, struct bg_image_info *i,
                                 struct bg_error *err);
BG_CHECK bool engine_parse_list(const char *p, size_t n, struct bg_container_row **rows,
                                size_t *count, struct bg_error *err);
void engine_rows_free(struct bg_container_row *rows, size_t n);
/* False = no event of a container. */
BG_CHECK bool engine_parse_event(const char *p, size_t n, struct bg_engine_event *ev,
                                 struct bg_error *err);
void engine_event_clear(struct bg_engine_event *ev);

struct pull_line {
    char *id, *status, *error;
    int64_t current, total;
};
BG_CHECK bool engine_parse_pull(const char *p, size_t n, struct pull_line *l,
                                struct bg_error *err);
void pull_line_clear(struct pull_line *l);
/* The sentence in an error answer's body, else the body's beginning; malloc'ed. */
char *engine_message(const char *p, size_t n);

/* ---- version.c, pure ---- */
/* The minor version to speak; 0 with err when there is none both know. */
BG_CHECK int engine_negotiate(const struct engine_version *v, struct bg_error *err);

/* ---- discover.c ---- */
struct engine_place {
    char *socket, *why;
};
struct engine_places {
    struct engine_place *v;
    size_t n;
    bool service; /* if none of them answers, podman may be started */
    char *program;
};
struct engine_look {
    const char *root; /* "" = the real machine */
    const char *(*env)(const char *name);
    uint32_t uid;
};
/* In the order to try. False with err when there is nothing to try at all. */
BG_CHECK bool engine_places_find(struct engine_places *p, const struct bg_engine_opts *o,
                                 const struct engine_look *l, struct bg_error *err);
void engine_places_clear(struct engine_places *p);

/* ---- service.c: podman system service as our child ---- */
struct engine_service;
/* up: its socket answers a connect; or why it never will. Started again when it ends. */
struct engine_service *engine_service_start(const struct bg_engine_opts *o,
                                            const char *program, bg_engine_done_fn up,
                                            void *data);
const char *engine_service_socket(const struct engine_service *s);
void engine_service_stop(struct engine_service *s); /* NULL is fine */

/* ---- engine.c: calls ---- */
/* Takes the answer; op is freed after it returns, unless it set `again`. */
typedef void (*op_fn)(struct bg_engine_op *op, const struct bg_http_answer *a,
                      const struct bg_error *err);
union op_done {
    bg_engine_done_fn plain;
    bg_engine_create_fn create;
    bg_engine_inspect_fn inspect;
    bg_engine_has_fn has;
    bg_engine_list_fn list;
    bg_engine_image_fn image;
};
struct bg_engine_op {
    struct bg_engine_op *next;
    struct bg_engine *e;
    struct bg_http_call *call;
    op_fn answered;
    void (*clear)(struct bg_engine_op *op); /* of own; may be NULL */
    union op_done done;
    void *data;
    void *own; /* what a kind of call keeps */
    void (*chunk)(struct bg_engine_op *op, const char *p, size_t n);
    struct bg_timer *timer; /* before another try; may be NULL */
    bool again;             /* answered() started something more: op lives on */
    bool over;              /* to be freed */
};
struct op_request {
    const char *method;
    char *path;  /* without the version; taken */
    cJSON *body; /* taken; may be NULL */
    int64_t timeout_ms;
    size_t max;
    bool once;
    void (*chunk)(struct bg_engine_op *op, const char *p, size_t n); /* a stream */
};
struct bg_engine_op *op_new(struct bg_engine *e, op_fn answered, union op_done done,
                            void *data);
void op_send(struct bg_engine_op *op, const struct op_request *r);
/* Fills err for an answer that is no success; true when it is one. */
BG_CHECK bool op_ok(const struct bg_engine_op *op, const struct bg_http_answer *a,
                    const char *doing, struct bg_error *err);
struct bg_loop *engine_loop(const struct bg_engine *e);
struct bg_log *engine_log(const struct bg_engine *e);
int64_t engine_call_ms(const struct bg_engine *e);
const char *engine_name(const struct bg_engine *e); /* "the engine at ..." */

/* ---- events.c ---- */
struct engine_watch;
void engine_watch_free(struct engine_watch *w);
void engine_watch_set(struct bg_engine *e, struct engine_watch *w);

/* ---- lines of a stream (lines.c), pure ---- */
struct engine_lines {
    struct bg_buf buf;
    bool skipping; /* a line that was too long is read past */
};
void engine_lines_init(struct engine_lines *l);
void engine_lines_free(struct engine_lines *l);
/* False = a line was too long and is left out. */
void engine_lines_add(struct engine_lines *l, const char *p, size_t n,
                      void (*line)(void *data, const char *p, size_t n), void *data);

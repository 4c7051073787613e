/* SPDX-License-Identifier: MIT */
/*
 * One request: the bytes that would run, kept in the server's memory from submit to start.
 * What is shown, hashed and executed is this struct; nothing is parsed or quoted again in
 * between.
 */
#pragma once

#include "core/base/digest.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/policy/facts.h"

enum bg_request_kind {
    BG_REQ_RUN_CODE,
    BG_REQ_EXEC,
    BG_REQ_CREATE_SESSION,
    BG_REQ_CLOSE_SESSION
};
const char *bg_request_kind_name(enum bg_request_kind k); /* the wire's names */

/* What is bound besides the body; plain data so that approval does not depend on provider.
 */
struct bg_binding {
    uint32_t uid;          /* principal */
    char instance[33];     /* session instance, 32 hex */
    struct bg_sha256 spec; /* specSha256 */
    char *workdir;
    char **argv;        /* run_code: the interpreter's; exec: command and args */
    int64_t timeout_ms; /* effective, after caps */
};

struct bg_body {
    enum bg_request_kind kind;
    char *session; /* asked for by id, or NULL */
    char *profile; /* or NULL = default */
    char *call_id, *purpose;
    char *language; /* run_code */
    char *code;     /* bytes, may hold anything but is valid UTF-8 over JSON */
    size_t code_len;
    char **argv; /* exec */
    char *cwd;   /* relative, or NULL */
    char **env;  /* "K=V" of the call */
    char *input;
    size_t input_len;
    int64_t timeout_ms; /* asked, 0 = default */
    int32_t *ports;     /* create_session */
    size_t n_ports;
};

/* From the wire: `body` is the params' body object. Every cap and grammar is checked here.
 */
BG_CHECK struct bg_body *bg_body_parse(const char *kind, const cJSON *params,
                                       struct bg_error *err);
void bg_body_free(struct bg_body *b);
/* Everything that decides what runs is equal; call id and purpose apart. */
bool bg_body_same(const struct bg_body *a, const struct bg_body *b);

/* One hashed field, in hash order. The console gets exactly these and can hash them again.
 */
struct bg_bound_field {
    char *name; /* "kind", "uid", "instance", "spec", "workdir", "language", "argv", "code",
                   "cwd", "input", "env", "timeoutMs" */
    void *bytes;
    size_t len;
};
struct bg_bound {
    struct bg_bound_field *f;
    size_t n;
};
void bg_bound_build(struct bg_bound *out, const struct bg_body *b,
                    const struct bg_binding *bind);
void bg_bound_free(struct bg_bound *b);
/* SHA-256("boxgate-req-v1\0", fields framed). skip_instance gives the hash that deny memory
 * uses: the same bytes in another session of the same principal. */
struct bg_sha256 bg_bound_sha256(const struct bg_bound *b, bool skip_instance);

/* Rendering hazards of every byte field plus the structural ones of body and facts. */
struct bg_hazard_note {
    enum bg_hazard hazard;
    char field[80]; /* "code", "env PATH", "argv 2" */
    uint32_t line;  /* 0 = not a place in text */
};
#define BG_NOTES_MAX 512
struct bg_hazards {
    uint32_t bits;
    struct bg_hazard_note notes[BG_NOTES_MAX];
    size_t n;
};
void bg_hazards_find(struct bg_hazards *h, const struct bg_body *b,
                     const struct bg_binding *bind, const struct bg_facts *f,
                     char *const *spec_env, bool root_user);

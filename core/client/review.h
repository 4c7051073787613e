/* SPDX-License-Identifier: MIT */
/*
 * What an operator is shown, from approval.get's answer: the same document for the console,
 * the linear mode and `boxgate show`. Building it hashes the bound fields again: a document
 * exists only if what will be shown is what the hash binds.
 */
#pragma once

#include "core/base/json.h"
#include "core/base/text.h"

enum bg_review_kind {
    BG_REVIEW_CODE,  /* a byte field with line numbers: code, input, operand */
    BG_REVIEW_VALUE, /* a short byte field on one or few lines: an argument, an env value,
                        cwd */
};

struct bg_review_field {
    enum bg_review_kind kind;
    char *label; /* "code", "argument 1", "env PATH", "input", "working directory" */
    char *bytes; /* borrowed from the document; exact */
    size_t len;
    bool hex; /* not UTF-8: shown as a hex dump */
    struct bg_scan scan;
};

struct bg_review {
    uint64_t id;
    uint32_t rev;
    char sha256[65];
    bool high;
    uint32_t hazards;
    struct bg_review_field *fields; /* everything to be read before approving, in order */
    size_t n_fields;
    char **facts; /* "runs in: local (bubblewrap), no network, ..." our words and escaped
                     values, one a line */
    char **risks; /* "bidirectional control characters: code line 8" */
    cJSON *row;   /* approval.get's answer */
};

BG_CHECK struct bg_review *
bg_review_build(const cJSON *approval,
                struct bg_error *err); /* HASH_MISMATCH if bound != sha256 */
void bg_review_free(struct bg_review *r);
/* The whole document as text, every line labelled ("risk:", "runs in:", "line 3:"), through
 * the review renderer; what linear mode and `show` print. with_hash false in commands that
 * wait. */
void bg_review_print(const struct bg_review *r, struct bg_buf *out, bool color,
                     bool with_hash);

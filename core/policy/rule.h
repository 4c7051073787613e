/* SPDX-License-Identifier: MIT */
/* Private to core/policy: one parsed rule, and the clauses it is made of. */
#pragma once

#include "core/base/yaml_doc.h"
#include "core/policy/policy.h"

enum arg_match { ARG_EXACT, ARG_ONE_OF, ARG_INT, ARG_PATH_UNDER };

struct arg_rule {
    enum arg_match match;
    char **words; /* EXACT, PATH_UNDER: one; ONE_OF: several */
    int64_t min, max;
};

/* What a rule may ask of the mounts. NONE and RO hold a sandbox to at most that; ANY and RW
 * ask for their presence and so belong to rules that tighten. */
enum mounts_match { MOUNTS_UNSET, MOUNTS_NONE, MOUNTS_RO, MOUNTS_ANY, MOUNTS_RW };
enum tri { TRI_UNSET, TRI_FALSE, TRI_TRUE };

struct limit_rule {
    int64_t timeout_ms, memory_mb, pids, cpus_milli; /* 0 = not asked */
};

struct text_rule {
    char *raw, *nfkc;
};

struct rule {
    char *id;
    int line;
    enum bg_decision decision;
    char **kinds, **languages, **hashes, **principals; /* NULL: any */
    bool has_sandbox;
    char **providers, **image_ids, **networks;
    enum mounts_match mounts;
    enum tri caps_none, no_new_privileges, fresh;
    struct arg_rule *argv;
    size_t n_argv; /* 0: any */
    struct limit_rule limits;
    int64_t expires_ms; /* 0: never */
    int64_t uses, used; /* uses 0: without end */
    struct text_rule *texts;
    size_t n_texts;
    char *message;
};

/* The texts of one request in NFKC, made once when a rule first needs them. */
struct texts {
    const struct bg_facts *f;
    bool made;
    size_t n; /* the code, then every argument */
    struct bg_buf *nfkc;
};

struct bg_policy {
    struct rule *rules;
    size_t n_rules;
    enum bg_decision dflt, hazards;
    bool distrusted;
    char **allowed, **blocked;
    struct bg_sha256 digest;
};

BG_CHECK bool rule_parse(const struct bg_yaml_doc *d, const struct bg_yaml *n,
                         struct rule *r, struct bg_error *err);
void rule_clear(struct rule *r);
struct rule rule_copy(const struct rule *r);

/* argv.c */
BG_CHECK bool rule_parse_argv(const struct bg_yaml_doc *d, const struct bg_yaml *n,
                              struct rule *r, struct bg_error *err);
bool rule_argv_matches(const struct rule *r, const struct bg_facts *f);

/* match.c: calls failed() for every clause that does not hold; true when all hold. */
bool rule_matches(const struct rule *r, struct texts *t,
                  void (*failed)(void *data, const char *clause), void *data);
void texts_free(struct texts *t);
/* NFKC of valid UTF-8; bytes that aren't UTF-8 become U+FFFD first. malloc'ed. */
void text_nfkc(struct bg_buf *out, const char *p, size_t n);

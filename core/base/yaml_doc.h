/* SPDX-License-Identifier: MIT */
/*
 * YAML files of ours, strictly: one document, no anchors, aliases, tags or merge keys, no
 * duplicate keys, no NUL, depth <= BG_YAML_DEPTH_MAX, size <= BG_YAML_MAX. Scalars have no
 * type of their own; a getter asks for one, so `no` and `1.20` stay what the schema says.
 * Every error names file, line and column.
 */
#pragma once

#include "core/base/buf.h"

enum bg_yaml_kind { BG_YAML_SCALAR, BG_YAML_SEQ, BG_YAML_MAP };

struct bg_yaml {
    enum bg_yaml_kind kind;
    int line, col; /* 1-based */
    bool quoted;   /* scalar written in quotes or as a block */
    char *value;   /* scalar text */
    size_t len;
    char *key; /* this node's key in its map, or NULL */
    int key_line, key_col;
    size_t count;
    struct bg_yaml **items; /* children in file order */
};

struct bg_yaml_doc {
    char *name;           /* for messages: the file's path as the user knows it */
    struct bg_yaml *root; /* NULL for an empty file */
};

BG_CHECK struct bg_yaml_doc *bg_yaml_parse(const char *name, const char *p, size_t n,
                                           struct bg_error *err);
void bg_yaml_free(struct bg_yaml_doc *d); /* NULL is fine */

/* "NAME:LINE:COL: text", BG_ERR_CONFIG; returns false. */
BG_PRINTF(4, 5)
bool bg_yaml_fail(const struct bg_yaml_doc *d, const struct bg_yaml *at,
                  struct bg_error *err, const char *fmt, ...);

const struct bg_yaml *bg_yaml_get(const struct bg_yaml *map,
                                  const char *key); /* NULL if absent */
/* Fails on the first key of map that is not in `known` (NULL-terminated), with a
 * nearest-name hint ("unknown key `memoryMB`; did you mean `memoryMb`?"). */
BG_CHECK bool bg_yaml_known(const struct bg_yaml_doc *d, const struct bg_yaml *map,
                            const char *const *known, struct bg_error *err);
/* Typed reads. The node must exist. */
BG_CHECK bool bg_yaml_str(const struct bg_yaml_doc *d, const struct bg_yaml *n,
                          const char **out, struct bg_error *err);
BG_CHECK bool bg_yaml_bool(const struct bg_yaml_doc *d, const struct bg_yaml *n, bool *out,
                           struct bg_error *err); /* true | false only */
BG_CHECK bool bg_yaml_int(const struct bg_yaml_doc *d, const struct bg_yaml *n, int64_t min,
                          int64_t max, int64_t *out,
                          struct bg_error *err); /* decimal digits only */
/* "1", "0.5", "2.125": at most three decimals, in thousandths, so nothing is rounded. */
BG_CHECK bool bg_yaml_milli(const struct bg_yaml_doc *d, const struct bg_yaml *n,
                            int64_t min, int64_t max, int64_t *out, struct bg_error *err);

/* SPDX-License-Identifier: MIT */
/*
 * Private to core/config: one table row per key says its type, place, range and default,
 * and the reader, the printer, the defaults and the free function all walk that table, so
 * they cannot disagree about a key.
 */
#pragma once

#include "core/base/yaml_doc.h"
#include "core/config/config.h"

enum cfg_type {
    CFG_INT,  /* int64_t */
    CFG_CPUS, /* int64_t, thousandths */
    CFG_BOOL,
    CFG_STR,  /* char *; one of `words` when they are given */
    CFG_ENUM, /* an enum whose values number `words` */
    CFG_WORD, /* bool written as one of two words, false first */
    CFG_LIST, /* char ** */
    CFG_MAP,  /* char ** of "K=V" */
    CFG_GROUP,
    CFG_OWN, /* read, printed and freed by functions of its own */
};

struct cfg_in {
    const struct bg_yaml_doc *doc;
    struct bg_error *err;
};

struct cfg_out {
    struct bg_buf *buf;
    int depth;
};

struct cfg_field {
    const char *key;
    enum cfg_type type;
    size_t off; /* into the config or the profile */
    int64_t min, max, dflt;
    bool unlimited;           /* the word is accepted */
    const char *text;         /* STR: default */
    const char *const *words; /* STR, ENUM, WORD: what may be written; LIST: the default */
    const struct cfg_field *fields; /* GROUP; ends with a NULL key */
    /* STR: the value; LIST: each element; MAP: each value, whose key is n->key. */
    bool (*check)(const struct cfg_in *in, const struct bg_yaml *n, const char *value);
    /* GROUP: rules between keys, after all were read. STR, OWN: the whole reading. */
    bool (*read)(const struct cfg_in *in, const struct bg_yaml *n, void *obj);
    void (*print)(struct cfg_out *out, const char *key, const void *obj);
    void (*clear)(void *obj);
};

bool cfg_read(const struct cfg_in *in, const struct cfg_field *fields,
              const struct bg_yaml *map, void *obj);
void cfg_defaults(const struct cfg_field *fields, void *obj);
void cfg_clear(const struct cfg_field *fields, void *obj);
void cfg_print(struct cfg_out *out, const struct cfg_field *fields, const void *obj);

/* At most max scalars, each checked; *out is replaced on success. */
bool cfg_list(const struct cfg_in *in, const struct bg_yaml *n, size_t max,
              bool (*check)(const struct cfg_in *, const struct bg_yaml *, const char *),
              char ***out);
bool cfg_kind(const struct cfg_in *in, const struct bg_yaml *n, enum bg_yaml_kind kind);

void cfg_put_key(struct cfg_out *out, const char *key);
void cfg_put_scalar(struct bg_buf *b, const char *s);
void cfg_put_list(struct bg_buf *b, char *const *v);

/* checks.c: what a value must look like; they match cfg_field.check. */
bool cfg_check_image(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_user(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_workdir(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_relative(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_file(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_env(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_label(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_metadata(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_capability(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_id(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_id_or_empty(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_arg(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_tool(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_command(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_endpoint(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_program(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
bool cfg_check_url(const struct cfg_in *in, const struct bg_yaml *n, const char *v);
/* A path inside a sandbox where something may be mounted: absolute, plain, no system
 * folder. */
bool cfg_check_target(const struct cfg_in *in, const struct bg_yaml *n, const char *v);

/* profile.c */
bool cfg_read_profiles(const struct cfg_in *in, const struct bg_yaml *n, void *obj);
void cfg_print_profiles(struct cfg_out *out, const char *key, const void *obj);
void cfg_clear_profiles(void *obj);
void cfg_default_profiles(struct bg_config *c);

/* SPDX-License-Identifier: MIT */
/*
 * JSON from outside. cJSON alone cuts strings at \u0000, takes the first of two equal keys,
 * ignores case and loses digits past 2^53 (all seen with 1.7.15), each of which would let
 * an approval show other bytes than those that run. So a strict RFC 8259 scan of the raw
 * bytes comes first; only what passes reaches cJSON; and the getters are case-sensitive and
 * typed.
 */
#pragma once

#include <cjson/cJSON.h>

#include "core/base/buf.h"

/* Accepts exactly one value: valid UTF-8, no raw control byte, no \u0000, no lone
 * surrogate, no duplicate key at any level, no leading zero, numbers of at most 63
 * characters and within double range, integers within +-2^53, depth <= BG_JSON_DEPTH_MAX,
 * n <= max, nothing but white space around it. The error says what and at which byte. */
BG_CHECK bool bg_json_check(const char *p, size_t n, size_t max, struct bg_error *err);
/* The same, but an integer past +-2^53 is taken and becomes a string of its digits in out:
 * for the answers of programs that count nanoseconds. */
BG_CHECK bool bg_json_check_big(const char *p, size_t n, size_t max, struct bg_buf *out,
                                struct bg_error *err);
/* bg_json_check_big, then the tree. */
BG_CHECK cJSON *bg_json_parse_big(const char *p, size_t n, size_t max,
                                  struct bg_error *err);
/* bg_json_check, then the tree; free with cJSON_Delete (or bg_autojson). */
BG_CHECK cJSON *bg_json_parse(const char *p, size_t n, size_t max, struct bg_error *err);

static inline void bg_jsonp_(cJSON **j)
{
    cJSON_Delete(*j);
}
#define bg_autojson __attribute__((cleanup(bg_jsonp_)))

/* The largest integer that every reader of JSON keeps exactly. */
#define BG_JSON_INT_MAX (INT64_C(1) << 53)

/*
 * A reader checks an object member by member: every getter marks its member as known, and
 * bg_jr_end() fails on any member nobody asked for. The first error stays; later getters
 * return their default. `where` is used in messages: "params.code: expected string"; the
 * code is BG_ERR_USAGE. _opt getters take null for missing.
 */
struct bg_jr {
    const cJSON *obj;
    const char *where;
    struct bg_error *err; /* receives the first error; must not be NULL */
    bool failed;
    uint64_t seen[4]; /* bit per member; objects of more than 256 members are refused */
};

void bg_jr_begin(struct bg_jr *r, const cJSON *obj, const char *where,
                 struct bg_error *err);
/* Required variants fail when the member is missing; _opt give the default. Strings are
 * borrowed from the tree. */
const char *bg_jr_str(struct bg_jr *r, const char *key);
const char *bg_jr_str_opt(struct bg_jr *r, const char *key, const char *dflt);
int64_t bg_jr_int(struct bg_jr *r, const char *key, int64_t min, int64_t max);
int64_t bg_jr_int_opt(struct bg_jr *r, const char *key, int64_t min, int64_t max,
                      int64_t dflt);
bool bg_jr_bool_opt(struct bg_jr *r, const char *key, bool dflt);
const cJSON *bg_jr_obj(struct bg_jr *r, const char *key);
const cJSON *bg_jr_obj_opt(struct bg_jr *r, const char *key);
const cJSON *bg_jr_arr_opt(struct bg_jr *r, const char *key);
/* A byte field: a string, or {"base64": "..."}; malloc'ed, NUL after the end, *n its
 * length. At most max bytes. NULL with *n = 0 when it is missing (opt) or wrong. */
char *bg_jr_bytes_opt(struct bg_jr *r, const char *key, size_t max, size_t *n);
char *bg_jr_bytes(struct bg_jr *r, const char *key, size_t max, size_t *n);
BG_PRINTF(3, 4) void bg_jr_fail(struct bg_jr *r, const char *key, const char *fmt, ...);
BG_CHECK bool bg_jr_end(struct bg_jr *r); /* false if anything was wrong or unknown */

/* Building: like cJSON_Add…ToObject, aborting when memory is out. */
cJSON *bg_jo(void); /* {} */
cJSON *bg_ja(void); /* [] */
void bg_jset_str(
    cJSON *o, const char *key,
    const char *s); /* NULL gives null; bytes that are no UTF-8 become U+FFFD */
void bg_jset_strv(cJSON *o, const char *key, char *const *v); /* an array; NULL gives [] */
void bg_jset_int(cJSON *o, const char *key, int64_t v); /* held within +-BG_JSON_INT_MAX */
void bg_jset_bool(cJSON *o, const char *key, bool v);
/* Takes child. A member of that name is replaced. */
void bg_jset(cJSON *o, const char *key, cJSON *child);
void bg_jset_time(cJSON *o, const char *key,
                  int64_t wall_ms); /* RFC 3339; negative gives null */
/* Bytes as a plain string when they are valid UTF-8 without NUL, else {"base64": ...}. */
void bg_jset_bytes(cJSON *o, const char *key, const void *p, size_t n);
/* "a, b, c" of an array's strings, `none` when there are none; malloc'ed. */
char *bg_json_join(const cJSON *array, const char *none);
char *bg_json_print(const cJSON *j); /* one line, malloc'ed */
char *bg_json_print_pretty(const cJSON *j);

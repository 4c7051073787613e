/* SPDX-License-Identifier: MIT */
/* cJSON behind the strict scan: parsing, reading members by type, building. */
#include "core/base/json.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/base/values.h"

static cJSON *tree(const char *p, size_t n, struct bg_error *err)
{
    cJSON *j = cJSON_ParseWithLengthOpts(p, n, NULL, 0);
    if (!j)
        bg_fail(err, BG_ERR_PROTOCOL, 0, "JSON: not understood");
    return j;
}

cJSON *bg_json_parse(const char *p, size_t n, size_t max, struct bg_error *err)
{
    return bg_json_check(p, n, max, err) ? tree(p, n, err) : NULL;
}

cJSON *bg_json_parse_big(const char *p, size_t n, size_t max, struct bg_error *err)
{
    bg_autobuf struct bg_buf quoted;
    bg_buf_init(&quoted, max + max / 8); /* two quotes for at least 16 digits */
    if (!bg_json_check_big(p, n, max, &quoted, err))
        return NULL;
    return tree(quoted.data, quoted.len, err);
}

/* ---- the reader ---- */

#define SEEN_MAX (sizeof((struct bg_jr *)0)->seen * 8)

void bg_jr_fail(struct bg_jr *r, const char *key, const char *fmt, ...)
{
    if (r->failed)
        return;
    r->failed = true;
    va_list ap;
    va_start(ap, fmt);
    bg_fail_v(r->err, BG_ERR_USAGE, 0, fmt, ap);
    va_end(ap);
    if (key)
        bg_error_prefix(r->err, "%s.%s", r->where, key);
    else
        bg_error_prefix(r->err, "%s", r->where);
}

void bg_jr_begin(struct bg_jr *r, const cJSON *obj, const char *where, struct bg_error *err)
{
    *r = (struct bg_jr){.where = where, .err = err};
    if (!cJSON_IsObject(obj))
        bg_jr_fail(r, NULL, "expected object");
    else if (cJSON_GetArraySize(obj) > (int)SEEN_MAX)
        bg_jr_fail(r, NULL, "more than %d fields", (int)SEEN_MAX);
    else
        r->obj = obj;
}

/* The member, marked; NULL if it is missing or the reader has failed. */
static const cJSON *find(struct bg_jr *r, const char *key)
{
    if (r->failed)
        return NULL;
    unsigned i = 0;
    for (const cJSON *c = r->obj->child; c; c = c->next, i++)
        if (!strcmp(c->string, key)) {
            r->seen[i / 64] |= UINT64_C(1) << (i % 64);
            return c;
        }
    return NULL;
}

/* Like find, but null counts as missing, and missing is an error when `need`. */
static const cJSON *member(struct bg_jr *r, const char *key, bool need)
{
    const cJSON *c = find(r, key);
    if (c && !cJSON_IsNull(c))
        return c;
    if (need)
        bg_jr_fail(r, key, "missing");
    return NULL;
}

static const char *read_str(struct bg_jr *r, const char *key, bool need, const char *dflt)
{
    const cJSON *c = member(r, key, need);
    if (!c)
        return dflt;
    if (cJSON_IsString(c))
        return c->valuestring;
    bg_jr_fail(r, key, "expected string");
    return dflt;
}

const char *bg_jr_str(struct bg_jr *r, const char *key)
{
    return read_str(r, key, true, NULL);
}

const char *bg_jr_str_opt(struct bg_jr *r, const char *key, const char *dflt)
{
    return read_str(r, key, false, dflt);
}

static int64_t read_int(struct bg_jr *r, const char *key, bool need, int64_t min,
                        int64_t max, int64_t dflt)
{
    const cJSON *c = member(r, key, need);
    if (!c)
        return dflt;
    double v = cJSON_IsNumber(c) ? c->valuedouble : NAN;
    /* The range of doubles that are exact first: only then is the cast defined. */
    if (fabs(v) <= (double)BG_JSON_INT_MAX && (double)(int64_t)v == v &&
        (int64_t)v >= min && (int64_t)v <= max)
        return (int64_t)v;
    bg_jr_fail(r, key, "expected a whole number from %lld to %lld", (long long)min,
               (long long)max);
    return dflt;
}

int64_t bg_jr_int(struct bg_jr *r, const char *key, int64_t min, int64_t max)
{
    return read_int(r, key, true, min, max, 0);
}

int64_t bg_jr_int_opt(struct bg_jr *r, const char *key, int64_t min, int64_t max,
                      int64_t dflt)
{
    return read_int(r, key, false, min, max, dflt);
}

bool bg_jr_bool_opt(struct bg_jr *r, const char *key, bool dflt)
{
    const cJSON *c = member(r, key, false);
    if (!c)
        return dflt;
    if (cJSON_IsBool(c))
        return cJSON_IsTrue(c);
    bg_jr_fail(r, key, "expected true or false");
    return dflt;
}

static const cJSON *read_obj(struct bg_jr *r, const char *key, bool need)
{
    const cJSON *c = member(r, key, need);
    if (!c || cJSON_IsObject(c))
        return c;
    bg_jr_fail(r, key, "expected object");
    return NULL;
}

const cJSON *bg_jr_obj(struct bg_jr *r, const char *key)
{
    return read_obj(r, key, true);
}

const cJSON *bg_jr_obj_opt(struct bg_jr *r, const char *key)
{
    return read_obj(r, key, false);
}

const cJSON *bg_jr_arr_opt(struct bg_jr *r, const char *key)
{
    const cJSON *c = member(r, key, false);
    if (!c || cJSON_IsArray(c))
        return c;
    bg_jr_fail(r, key, "expected array");
    return NULL;
}

/* ---- byte fields ---- */

/* The text of {"base64": "..."}, or NULL. */
static const char *base64_of(const cJSON *c)
{
    const cJSON *only = cJSON_IsObject(c) ? c->child : NULL;
    if (!only || only->next || strcmp(only->string, "base64") != 0 || !cJSON_IsString(only))
        return NULL;
    return only->valuestring;
}

static char *too_long(struct bg_jr *r, const char *key, size_t max)
{
    bg_jr_fail(r, key, "more than %zu bytes", max);
    return NULL;
}

static char *read_bytes(struct bg_jr *r, const char *key, bool need, size_t max, size_t *n)
{
    *n = 0;
    const cJSON *c = member(r, key, need);
    if (!c)
        return NULL;
    if (cJSON_IsString(c)) {
        size_t len = strlen(c->valuestring);
        if (len > max)
            return too_long(r, key, max);
        *n = len;
        return bg_xstrdup(c->valuestring);
    }
    const char *b64 = base64_of(c);
    if (!b64) {
        bg_jr_fail(r, key, "expected string or {\"base64\": string}");
        return NULL;
    }
    bg_autobuf struct bg_buf out;
    struct bg_error why = {0};
    bg_buf_init(&out, max);
    if (!bg_base64_decode(bg_str_from(b64), &out, &why)) {
        if (why.code == BG_ERR_LIMIT)
            return too_long(r, key, max);
        bg_jr_fail(r, key, "%s", why.msg);
        return NULL;
    }
    *n = out.len;
    return bg_buf_steal(&out);
}

char *bg_jr_bytes_opt(struct bg_jr *r, const char *key, size_t max, size_t *n)
{
    return read_bytes(r, key, false, max, n);
}

char *bg_jr_bytes(struct bg_jr *r, const char *key, size_t max, size_t *n)
{
    return read_bytes(r, key, true, max, n);
}

bool bg_jr_end(struct bg_jr *r)
{
    if (r->failed)
        return false;
    unsigned i = 0;
    for (const cJSON *c = r->obj->child; c; c = c->next, i++)
        if (!(r->seen[i / 64] >> (i % 64) & 1)) {
            bg_jr_fail(r, NULL, "unknown field \"%s\"", c->string);
            return false;
        }
    return true;
}

/* ---- building ---- */

static cJSON *must(cJSON *j)
{
    if (!j)
        abort(); /* memory is out */
    return j;
}

cJSON *bg_jo(void)
{
    return must(cJSON_CreateObject());
}

cJSON *bg_ja(void)
{
    return must(cJSON_CreateArray());
}

void bg_jset(cJSON *o, const char *key, cJSON *child)
{
    /* A key twice is what our own strict reader refuses, so a setter sets. */
    cJSON_DeleteItemFromObjectCaseSensitive(o, key);
    if (!cJSON_AddItemToObject(o, key, must(child)))
        abort();
}

static cJSON *text(const char *s)
{
    size_t n = strlen(s);
    if (bg_utf8_valid(s, n))
        return must(cJSON_CreateString(s));
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, 3 * n); /* a byte becomes at most U+FFFD */
    bg_utf8_lossy(&b, s, n);
    return must(cJSON_CreateString(b.data));
}

void bg_jset_str(cJSON *o, const char *key, const char *s)
{
    bg_jset(o, key, s ? text(s) : cJSON_CreateNull());
}

void bg_jset_strv(cJSON *o, const char *key, char *const *v)
{
    cJSON *a = bg_ja();
    for (; v && *v; v++)
        cJSON_AddItemToArray(a, text(*v));
    bg_jset(o, key, a);
}

void bg_jset_int(cJSON *o, const char *key, int64_t v)
{
    /* The other side would refuse the whole line for a number past 2^53. */
    v = v > BG_JSON_INT_MAX ? BG_JSON_INT_MAX : v < -BG_JSON_INT_MAX ? -BG_JSON_INT_MAX : v;
    bg_jset(o, key, cJSON_CreateNumber((double)v));
}

void bg_jset_bool(cJSON *o, const char *key, bool v)
{
    bg_jset(o, key, cJSON_CreateBool(v));
}

void bg_jset_time(cJSON *o, const char *key, int64_t wall_ms)
{
    char text[BG_TIME_LEN];
    if (wall_ms >= 0)
        bg_time_format(wall_ms, text);
    bg_jset_str(o, key, wall_ms >= 0 ? text : NULL);
}

void bg_jset_bytes(cJSON *o, const char *key, const void *p, size_t n)
{
    if (n == 0 || (!memchr(p, 0, n) && bg_utf8_valid(p, n))) {
        bg_autofree char *s = n ? bg_xstrndup(p, n) : bg_xstrdup("");
        bg_jset(o, key, cJSON_CreateString(s));
        return;
    }
    bg_autofree char *b64 = bg_base64(p, n);
    cJSON *box = bg_jo();
    bg_jset(box, "base64", cJSON_CreateString(b64));
    bg_jset(o, key, box);
}

char *bg_json_join(const cJSON *array, const char *none)
{
    struct bg_buf b;
    const cJSON *v;
    bg_buf_init(&b, BG_JSON_HELLO_MAX);
    cJSON_ArrayForEach(v, array)
    {
        if (cJSON_IsString(v))
            bg_buf_printf(&b, "%s%s", b.len ? ", " : "", v->valuestring);
    }
    if (!b.len)
        bg_buf_puts(&b, none);
    return bg_buf_steal(&b);
}

/* SPDX-License-Identifier: MIT */
/* Walks a key table: reading, defaults, freeing. The printer is in print.c. */
#include "core/config/fields.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/values.h"

static void *at(void *obj, size_t off)
{
    return (char *)obj + off;
}

bool cfg_kind(const struct cfg_in *in, const struct bg_yaml *n, enum bg_yaml_kind kind)
{
    static const char *const names[] = {"a single value", "a list", "a map"};
    if (n->kind == kind)
        return true;
    return bg_yaml_fail(in->doc, n, in->err, "expected %s", names[kind]);
}

static bool unlimited(const struct cfg_field *f, const struct bg_yaml *n)
{
    return f->unlimited && n->kind == BG_YAML_SCALAR && !strcmp(n->value, "unlimited");
}

static bool read_number(const struct cfg_in *in, const struct cfg_field *f,
                        const struct bg_yaml *n, int64_t *out)
{
    if (unlimited(f, n)) {
        *out = BG_UNLIMITED;
        return true;
    }
    if (n->kind == BG_YAML_SCALAR && !strcmp(n->value, "unlimited"))
        return bg_yaml_fail(in->doc, n, in->err, "`%s` can't be unlimited; at most %lld",
                            f->key, (long long)f->max);
    if (f->type == CFG_CPUS)
        return bg_yaml_milli(in->doc, n, f->min, f->max, out, in->err);
    return bg_yaml_int(in->doc, n, f->min, f->max, out, in->err);
}

/* The index of a word, or -1 with an error that lists them. */
static int word_of(const struct cfg_in *in, const struct bg_yaml *n, const char *v,
                   const char *const *words)
{
    bg_autobuf struct bg_buf list;
    bg_buf_init(&list, 256);
    for (int i = 0; words[i]; i++) {
        if (!strcmp(v, words[i]))
            return i;
        bg_buf_printf(&list, "%s%s", i ? ", " : "", words[i]);
    }
    return bg_yaml_fail(in->doc, n, in->err, "expected one of: %s", list.data) ? 0 : -1;
}

static bool read_str(const struct cfg_in *in, const struct cfg_field *f,
                     const struct bg_yaml *n, char **out)
{
    const char *v;
    if (!bg_yaml_str(in->doc, n, &v, in->err))
        return false;
    if (f->words && word_of(in, n, v, f->words) < 0)
        return false;
    if (f->check && !f->check(in, n, v))
        return false;
    free(*out);
    *out = bg_xstrdup(v);
    return true;
}

bool cfg_list(const struct cfg_in *in, const struct bg_yaml *n, size_t max,
              bool (*check)(const struct cfg_in *, const struct bg_yaml *, const char *),
              char ***out)
{
    if (!cfg_kind(in, n, BG_YAML_SEQ))
        return false;
    if (n->count > max)
        return bg_yaml_fail(in->doc, n, in->err, "more than %zu elements", max);
    char **list = NULL;
    for (size_t i = 0; i < n->count; i++) {
        const char *v;
        if (!bg_yaml_str(in->doc, n->items[i], &v, in->err) ||
            (check && !check(in, n->items[i], v))) {
            bg_strv_free(list);
            return false;
        }
        bg_strv_push(&list, v);
    }
    bg_strv_free(*out);
    *out = list;
    return true;
}

static bool read_map(const struct cfg_in *in, const struct cfg_field *f,
                     const struct bg_yaml *n, char ***out)
{
    if (!cfg_kind(in, n, BG_YAML_MAP))
        return false;
    if (n->count > (size_t)f->max)
        return bg_yaml_fail(in->doc, n, in->err, "`%s` has more than %lld entries", f->key,
                            (long long)f->max);
    char **list = NULL;
    for (size_t i = 0; i < n->count; i++) {
        const char *v;
        if (!bg_yaml_str(in->doc, n->items[i], &v, in->err) ||
            !f->check(in, n->items[i], v)) {
            bg_strv_free(list);
            return false;
        }
        bg_autofree char *pair = bg_xasprintf("%s=%s", n->items[i]->key, v);
        bg_strv_push(&list, pair);
    }
    bg_strv_free(*out);
    *out = list;
    return true;
}

static bool read_words(const struct cfg_in *in, const struct cfg_field *f,
                       const struct bg_yaml *n, void *place)
{
    const char *v;
    if (!bg_yaml_str(in->doc, n, &v, in->err))
        return false;
    int i = word_of(in, n, v, f->words);
    if (i < 0)
        return false;
    if (f->type == CFG_WORD)
        *(bool *)place = i;
    else
        *(unsigned *)place = (unsigned)i;
    return true;
}

static bool read_field(const struct cfg_in *in, const struct cfg_field *f,
                       const struct bg_yaml *n, void *obj)
{
    switch (f->type) {
    case CFG_INT:
    case CFG_CPUS:
        return read_number(in, f, n, at(obj, f->off));
    case CFG_BOOL:
        return bg_yaml_bool(in->doc, n, at(obj, f->off), in->err);
    case CFG_STR:
        return f->read ? f->read(in, n, obj) : read_str(in, f, n, at(obj, f->off));
    case CFG_ENUM:
    case CFG_WORD:
        return read_words(in, f, n, at(obj, f->off));
    case CFG_LIST:
        return cfg_list(in, n, (size_t)f->max, f->check, at(obj, f->off));
    case CFG_MAP:
        return read_map(in, f, n, at(obj, f->off));
    case CFG_GROUP:
        return cfg_read(in, f->fields, n, obj) && (!f->read || f->read(in, n, obj));
    case CFG_OWN:
        return f->read(in, n, obj);
    }
    return false;
}

bool cfg_read(const struct cfg_in *in, const struct cfg_field *fields,
              const struct bg_yaml *map, void *obj)
{
    const char *known[48];
    size_t count = 0;
    if (!cfg_kind(in, map, BG_YAML_MAP))
        return false;
    for (const struct cfg_field *f = fields; f->key && count + 1 < bg_countof(known); f++)
        known[count++] = f->key;
    known[count] = NULL;
    if (!bg_yaml_known(in->doc, map, known, in->err))
        return false;
    /* In the file's order, so that the first mistake in it is the one told. */
    for (size_t i = 0; i < map->count; i++) {
        for (const struct cfg_field *f = fields; f->key; f++)
            if (!strcmp(f->key, map->items[i]->key) &&
                !read_field(in, f, map->items[i], obj))
                return false;
    }
    return true;
}

void cfg_defaults(const struct cfg_field *fields, void *obj)
{
    for (const struct cfg_field *f = fields; f->key; f++) {
        void *place = at(obj, f->off);
        switch (f->type) {
        case CFG_INT:
        case CFG_CPUS:
            *(int64_t *)place = f->dflt;
            break;
        case CFG_BOOL:
        case CFG_WORD:
            *(bool *)place = f->dflt;
            break;
        case CFG_STR:
            *(char **)place = bg_xstrdup(f->text);
            break;
        case CFG_ENUM:
            *(unsigned *)place = (unsigned)f->dflt;
            break;
        case CFG_LIST:
            for (size_t i = 0; f->words && f->words[i]; i++)
                bg_strv_push(place, f->words[i]);
            break;
        case CFG_GROUP:
            cfg_defaults(f->fields, obj);
            break;
        case CFG_MAP:
        case CFG_OWN:
            break;
        }
    }
}

void cfg_clear(const struct cfg_field *fields, void *obj)
{
    for (const struct cfg_field *f = fields; f->key; f++) {
        void *place = at(obj, f->off);
        if (f->type == CFG_STR)
            free(*(char **)place);
        else if (f->type == CFG_LIST || f->type == CFG_MAP)
            bg_strv_free(*(char ***)place);
        else if (f->type == CFG_GROUP)
            cfg_clear(f->fields, obj);
        else if (f->clear)
            f->clear(obj);
    }
}

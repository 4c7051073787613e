/* SPDX-License-Identifier: MIT */
/* libyaml's events become a small tree; everything that has two readings is refused on the
 * way. */
#include "core/base/yaml_doc.h"

#include <errno.h>
#include <stdlib.h>

#include <yaml.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/base/values.h"

/* ---- messages ---- */

BG_PRINTF(5, 0)
static bool fail_v(const struct bg_yaml_doc *d, int line, int col, struct bg_error *err,
                   const char *fmt, va_list ap)
{
    bg_fail_v(err, BG_ERR_CONFIG, 0, fmt, ap);
    if (line > 0)
        bg_error_prefix(err, "%s:%d:%d", d->name, line, col);
    else
        bg_error_prefix(err, "%s", d->name);
    return false;
}

BG_PRINTF(5, 6)
static bool fail_at(const struct bg_yaml_doc *d, int line, int col, struct bg_error *err,
                    const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_v(d, line, col, err, fmt, ap);
    va_end(ap);
    return false;
}

bool bg_yaml_fail(const struct bg_yaml_doc *d, const struct bg_yaml *at,
                  struct bg_error *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_v(d, at ? at->line : 0, at ? at->col : 0, err, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- reading events ---- */

struct reader {
    struct bg_yaml_doc *doc;
    yaml_parser_t parser;
    yaml_event_t ev; /* the current event, owned */
    struct bg_error *err;
};

static bool refuse(struct reader *r, const char *what)
{
    return fail_at(r->doc, (int)r->ev.start_mark.line + 1, (int)r->ev.start_mark.column + 1,
                   r->err, "%s", what);
}

/* libyaml's own complaint, at its place. */
static bool parser_failed(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem ? p->problem : "malformed";
    if (p->error == YAML_READER_ERROR)
        return fail_at(r->doc, 0, 0, r->err, "%s at byte %zu", problem, p->problem_offset);
    return fail_at(r->doc, (int)p->problem_mark.line + 1, (int)p->problem_mark.column + 1,
                   r->err, "%s%s%s", p->context ? p->context : "", p->context ? ", " : "",
                   problem);
}

static bool next(struct reader *r)
{
    yaml_event_delete(&r->ev);
    r->ev = (yaml_event_t){.type = YAML_NO_EVENT};
    return yaml_parser_parse(&r->parser, &r->ev) || parser_failed(r);
}

/* ---- the tree ---- */

static void free_node(struct bg_yaml *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->count; i++)
        free_node(n->items[i]);
    free(n->items);
    free(n->value);
    free(n->key);
    free(n);
}

void bg_yaml_free(struct bg_yaml_doc *d)
{
    if (!d)
        return;
    free_node(d->root);
    free(d->name);
    free(d);
}

static void add_item(struct bg_yaml *to, struct bg_yaml *item)
{
    /* Doubles at powers of two; the count says when. */
    if ((to->count & (to->count - 1)) == 0)
        to->items = bg_xrealloc(to->items, to->count ? to->count * 2 : 1, sizeof(void *));
    to->items[to->count++] = item;
}

static int by_key(const void *a, const void *b)
{
    const struct bg_yaml *x = *(struct bg_yaml *const *)a, *y = *(struct bg_yaml *const *)b;
    int c = strcmp(x->key, y->key);
    if (c)
        return c;
    if (x->key_line != y->key_line)
        return x->key_line < y->key_line ? -1 : 1;
    return (x->key_col > y->key_col) - (x->key_col < y->key_col);
}

static bool check_duplicates(struct reader *r, const struct bg_yaml *map)
{
    if (map->count < 2)
        return true;
    bg_autofree struct bg_yaml **v = bg_xmemdup(map->items, map->count * sizeof(void *));
    qsort(v, map->count, sizeof(void *), by_key);
    for (size_t i = 1; i < map->count; i++)
        if (!strcmp(v[i - 1]->key, v[i]->key))
            return fail_at(r->doc, v[i]->key_line, v[i]->key_col, r->err,
                           "duplicate key `%s`, first given on line %d", v[i]->key,
                           v[i - 1]->key_line);
    return true;
}

/* Anchors and tags hang on any node that begins. */
static bool check_node(struct reader *r)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (r->ev.type == YAML_SCALAR_EVENT) {
        anchor = r->ev.data.scalar.anchor;
        tag = r->ev.data.scalar.tag;
    } else if (r->ev.type == YAML_SEQUENCE_START_EVENT) {
        anchor = r->ev.data.sequence_start.anchor;
        tag = r->ev.data.sequence_start.tag;
    } else if (r->ev.type == YAML_MAPPING_START_EVENT) {
        anchor = r->ev.data.mapping_start.anchor;
        tag = r->ev.data.mapping_start.tag;
    } else {
        return refuse(r, "aliases (*name) are not taken");
    }
    if (anchor)
        return refuse(r, "anchors (&name) are not taken");
    if (tag)
        return refuse(r, "tags (!type) are not taken");
    if (r->ev.type == YAML_SCALAR_EVENT &&
        memchr(r->ev.data.scalar.value, 0, r->ev.data.scalar.length))
        return refuse(r, "a NUL character is not taken");
    return true;
}

/* The key at the current event; malloc'ed, NULL on an error. */
static char *read_key(struct reader *r)
{
    if (!check_node(r))
        return NULL;
    if (r->ev.type != YAML_SCALAR_EVENT) {
        refuse(r, "a key must be a plain word");
        return NULL;
    }
    const char *text = (const char *)r->ev.data.scalar.value;
    bool plain = r->ev.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (!*text) {
        refuse(r, "an empty key");
        return NULL;
    }
    if (plain && !strcmp(text, "<<")) {
        refuse(r, "merge keys (<<) are not taken");
        return NULL;
    }
    return bg_xstrdup(text);
}

static struct bg_yaml *read_node(struct reader *r, int depth);

/* One value of a map, with its key. */
static struct bg_yaml *read_pair(struct reader *r, int depth)
{
    int line = (int)r->ev.start_mark.line + 1, col = (int)r->ev.start_mark.column + 1;
    bg_autofree char *key = read_key(r);
    if (!key || !next(r))
        return NULL;
    struct bg_yaml *n = read_node(r, depth);
    if (!n)
        return NULL;
    n->key = bg_steal(key);
    n->key_line = line;
    n->key_col = col;
    return n;
}

static bool read_items(struct reader *r, struct bg_yaml *into, int depth)
{
    bool map = into->kind == BG_YAML_MAP;
    yaml_event_type_t end = map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    if (depth > BG_YAML_DEPTH_MAX)
        return fail_at(r->doc, into->line, into->col, r->err,
                       "nested deeper than %d levels", BG_YAML_DEPTH_MAX);
    for (;;) {
        if (!next(r))
            return false;
        if (r->ev.type == end)
            return !map || check_duplicates(r, into);
        struct bg_yaml *item = map ? read_pair(r, depth) : read_node(r, depth);
        if (!item)
            return false;
        add_item(into, item);
    }
}

/* The node that the current event begins, up to its last event; depth = levels around it.
 */
static struct bg_yaml *read_node(struct reader *r, int depth)
{
    if (!check_node(r))
        return NULL;
    struct bg_yaml *n = bg_xcalloc(1, sizeof *n);
    n->line = (int)r->ev.start_mark.line + 1;
    n->col = (int)r->ev.start_mark.column + 1;
    if (r->ev.type == YAML_SCALAR_EVENT) {
        n->kind = BG_YAML_SCALAR;
        n->quoted = r->ev.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        n->len = r->ev.data.scalar.length;
        n->value = bg_xstrndup((const char *)r->ev.data.scalar.value, n->len);
        return n;
    }
    n->kind = r->ev.type == YAML_MAPPING_START_EVENT ? BG_YAML_MAP : BG_YAML_SEQ;
    if (read_items(r, n, depth + 1))
        return n;
    free_node(n);
    return NULL;
}

/* ---- documents ---- */

/* A null at the top (`---` and nothing) is an empty file too. */
static void drop_empty_root(struct bg_yaml_doc *d)
{
    if (d->root->kind == BG_YAML_SCALAR && !d->root->quoted && d->root->len == 0) {
        free_node(d->root);
        d->root = NULL;
    }
}

static bool read_document(struct reader *r)
{
    if (!next(r) /* stream start */ || !next(r))
        return false;
    if (r->ev.type == YAML_STREAM_END_EVENT)
        return true;
    if (r->ev.data.document_start.version_directive ||
        r->ev.data.document_start.tag_directives.start !=
            r->ev.data.document_start.tag_directives.end)
        return refuse(r, "directives (%YAML, %TAG) are not taken");
    if (!next(r))
        return false;
    r->doc->root = read_node(r, 0);
    if (!r->doc->root || !next(r) /* document end */ || !next(r))
        return false;
    if (r->ev.type != YAML_STREAM_END_EVENT)
        return refuse(r, "a second document is not taken");
    drop_empty_root(r->doc);
    return true;
}

/* libyaml would take UTF-16, and stops at an invalid byte without naming its line. */
static bool check_bytes(const struct bg_yaml_doc *d, const char *p, size_t n,
                        struct bg_error *err)
{
    if (n > BG_YAML_MAX)
        return fail_at(d, 0, 0, err, "more than %d bytes", BG_YAML_MAX);
    int line = 1, col = 1;
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        int used = bg_utf8_decode(p + i, n - i, &cp);
        if (used <= 0)
            return fail_at(d, line, col, err, "invalid UTF-8");
        if (cp == 0)
            return fail_at(d, line, col, err, "a NUL byte is not taken");
        i += (size_t)used;
        line += cp == '\n';
        col = cp == '\n' ? 1 : col + 1;
    }
    return true;
}

struct bg_yaml_doc *bg_yaml_parse(const char *name, const char *p, size_t n,
                                  struct bg_error *err)
{
    struct bg_yaml_doc *d = bg_xcalloc(1, sizeof *d);
    struct reader r = {.doc = d, .err = err};
    d->name = bg_xstrdup(name);
    if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) {
        p += 3;
        n -= 3;
    }
    if (!check_bytes(d, p, n, err)) {
        bg_yaml_free(d);
        return NULL;
    }
    if (!yaml_parser_initialize(&r.parser))
        abort(); /* memory is out */
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)p, n);
    bool ok = read_document(&r);
    yaml_event_delete(&r.ev);
    yaml_parser_delete(&r.parser);
    if (ok)
        return d;
    bg_yaml_free(d);
    return NULL;
}

/* ---- getters ---- */

const struct bg_yaml *bg_yaml_get(const struct bg_yaml *map, const char *key)
{
    if (!map || map->kind != BG_YAML_MAP)
        return NULL;
    for (size_t i = 0; i < map->count; i++)
        if (!strcmp(map->items[i]->key, key))
            return map->items[i];
    return NULL;
}

/* Edits between two words, letters compared without case; words past the table are far
 * apart. */
static size_t distance(const char *a, const char *b)
{
    enum { MOST = 40 };
    size_t n = strlen(a), m = strlen(b), row[MOST + 1];
    if (n > MOST || m > MOST)
        return MOST;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t same = diagonal + ((a[i - 1] | 32) != (b[j - 1] | 32));
            size_t step = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = same < step ? same : step;
        }
    }
    return row[m];
}

static const char *nearest(const char *key, const char *const *known)
{
    const char *best = NULL;
    size_t least = strlen(key) < 5 ? 2 : 3;
    for (size_t i = 0; known[i]; i++) {
        size_t d = distance(key, known[i]);
        if (d < least) {
            least = d;
            best = known[i];
        }
    }
    return best;
}

bool bg_yaml_known(const struct bg_yaml_doc *d, const struct bg_yaml *map,
                   const char *const *known, struct bg_error *err)
{
    if (!map)
        return true;
    if (map->kind != BG_YAML_MAP)
        return bg_yaml_fail(d, map, err, "expected `key: value` lines");
    for (size_t i = 0; i < map->count; i++) {
        const struct bg_yaml *n = map->items[i];
        size_t k = 0;
        while (known[k] && strcmp(known[k], n->key) != 0)
            k++;
        if (known[k])
            continue;
        const char *hint = nearest(n->key, known);
        return fail_at(d, n->key_line, n->key_col, err, "unknown key `%s`%s%s%s", n->key,
                       hint ? "; did you mean `" : "", hint ? hint : "", hint ? "`?" : "");
    }
    return true;
}

/* YAML 1.2's null; whoever writes it does not mean a text of that spelling. */
static bool is_null(const struct bg_yaml *n)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0; !n->quoted && i < bg_countof(words); i++)
        if (!strcmp(n->value, words[i]))
            return true;
    return false;
}

bool bg_yaml_str(const struct bg_yaml_doc *d, const struct bg_yaml *n, const char **out,
                 struct bg_error *err)
{
    if (n->kind != BG_YAML_SCALAR)
        return bg_yaml_fail(d, n, err, "expected text");
    if (is_null(n))
        return bg_yaml_fail(d, n, err, "expected text; an empty one is written \"\"");
    *out = n->value;
    return true;
}

bool bg_yaml_bool(const struct bg_yaml_doc *d, const struct bg_yaml *n, bool *out,
                  struct bg_error *err)
{
    bool plain = n->kind == BG_YAML_SCALAR && !n->quoted;
    bool yes = plain && !strcmp(n->value, "true");
    if (!yes && !(plain && !strcmp(n->value, "false")))
        return bg_yaml_fail(d, n, err, "expected true or false");
    *out = yes;
    return true;
}

/* Decimal digits with an optional minus, no leading zero, within int64. */
static bool parse_int(const char *s, int64_t *out)
{
    const char *digits = s + (*s == '-');
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || digits[n] || (n > 1 && digits[0] == '0'))
        return false;
    errno = 0;
    long long v = strtoll(s, NULL, 10);
    *out = v;
    return errno == 0;
}

bool bg_yaml_int(const struct bg_yaml_doc *d, const struct bg_yaml *n, int64_t min,
                 int64_t max, int64_t *out, struct bg_error *err)
{
    int64_t v = 0;
    if (n->kind != BG_YAML_SCALAR || n->quoted || !parse_int(n->value, &v) || v < min ||
        v > max)
        return bg_yaml_fail(d, n, err, "expected a whole number from %lld to %lld",
                            (long long)min, (long long)max);
    *out = v;
    return true;
}

bool bg_yaml_milli(const struct bg_yaml_doc *d, const struct bg_yaml *n, int64_t min,
                   int64_t max, int64_t *out, struct bg_error *err)
{
    const char *s = n->kind == BG_YAML_SCALAR && !n->quoted ? n->value : "";
    size_t whole = strspn(s, "0123456789");
    size_t frac = s[whole] == '.' ? strspn(s + whole + 1, "0123456789") : 0;
    bool shape = whole >= 1 && whole <= 9 && !(whole > 1 && *s == '0') && frac <= 3 &&
                 s[whole + (frac ? frac + 1 : 0)] == '\0';
    int64_t milli = 0;
    for (size_t i = 0; shape && i < whole; i++)
        milli = milli * 10 + (s[i] - '0');
    for (size_t i = 0; shape && i < 3; i++)
        milli = milli * 10 + (i < frac ? s[whole + 1 + i] - '0' : 0);
    if (!shape || milli < min || milli > max)
        return bg_yaml_fail(
            d, n, err,
            "expected a number from %lld.%03lld to %lld, with at most three "
            "decimals",
            (long long)min / 1000, (long long)min % 1000, (long long)max / 1000);
    *out = milli;
    return true;
}

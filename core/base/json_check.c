/* SPDX-License-Identifier: MIT */
/*
 * The strict scan in front of cJSON. It reads raw bytes only and builds nothing but a list
 * of where keys are, so that what passes means the same to every JSON reader.
 */
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/base/values.h"

/* cJSON copies a number into 64 bytes and would cut a longer one. */
#define NUMBER_MAX 63
#define EXACT_MAX ((double)BG_JSON_INT_MAX)

struct key {
    const char *p; /* after the opening quote */
};

struct scan {
    const char *base, *p, *end;
    int depth;
    struct key *keys; /* of all objects that are open, innermost last */
    size_t n_keys, cap_keys;
    struct bg_buf
        *big; /* NULL: integers past 2^53 are refused; else the text with those quoted */
    const char *copied; /* up to here the text is in big */
    struct bg_error *err;
};

static bool fail_at(struct scan *s, const char *at, const char *what)
{
    return bg_fail(s->err, BG_ERR_PROTOCOL, 0, "JSON: %s at byte %zu", what,
                   (size_t)(at - s->base));
}

static void skip_space(struct scan *s)
{
    while (s->p < s->end && strchr(" \t\r\n", *s->p) && *s->p)
        s->p++;
}

static bool is_digit(const struct scan *s)
{
    return s->p < s->end && *s->p >= '0' && *s->p <= '9';
}

/* ---- strings ---- */

/* Four hex digits at p (n bytes left); -1 if they are not there. */
static int hex4(const char *p, size_t n)
{
    int v = 0;
    if (n < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

static bool scan_unicode_escape(struct scan *s, const char *at)
{
    int v = hex4(s->p, (size_t)(s->end - s->p));
    if (v < 0)
        return fail_at(s, at, "\\u without four hex digits");
    s->p += 4;
    if (v == 0)
        return fail_at(s, at, "\\u0000 in a string");
    if (v >= 0xdc00 && v <= 0xdfff)
        return fail_at(s, at, "a lone surrogate");
    if (v >= 0xd800 && v <= 0xdbff) {
        size_t left = (size_t)(s->end - s->p);
        int low = left >= 6 && s->p[0] == '\\' && s->p[1] == 'u' ? hex4(s->p + 2, 4) : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return fail_at(s, at, "a lone surrogate");
        s->p += 6;
    }
    return true;
}

static bool scan_escape(struct scan *s)
{
    const char *at = s->p++;
    if (s->p == s->end)
        return fail_at(s, at, "an unfinished escape");
    char c = *s->p++;
    if (c == 'u')
        return scan_unicode_escape(s, at);
    if (!c || !strchr("\"\\/bfnrt", c))
        return fail_at(s, at, "an unknown escape");
    return true;
}

/* s->p is at the opening quote. */
static bool scan_string(struct scan *s)
{
    const char *open = s->p++;
    while (s->p < s->end) {
        unsigned char c = (unsigned char)*s->p;
        if (c == '"') {
            s->p++;
            return true;
        }
        if (c < 0x20)
            return fail_at(s, s->p, "a raw control byte in a string");
        if (c == '\\') {
            if (!scan_escape(s))
                return false;
        } else if (c < 0x80) {
            s->p++;
        } else {
            uint32_t cp;
            int used = bg_utf8_decode(s->p, (size_t)(s->end - s->p), &cp);
            if (used <= 0)
                return fail_at(s, s->p, "invalid UTF-8");
            s->p += used;
        }
    }
    return fail_at(s, open, "an unfinished string");
}

/* ---- keys ---- */

/* The next code point of a key that has been scanned; 0 at its closing quote. */
static uint32_t key_next(const char **p)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    uint32_t cp = 0;
    if (**p == '"')
        return 0;
    if (**p != '\\') {
        /* Validated before, so the sequence is whole. */
        *p += bg_utf8_decode(*p, 4, &cp);
        return cp;
    }
    char c = (*p)[1];
    *p += 2;
    if (c != 'u') {
        const char *at = strchr(from, c);
        return (uint32_t)(at ? to[at - from] : c);
    }
    cp = (uint32_t)hex4(*p, 4);
    *p += 4;
    if (cp >= 0xd800 && cp <= 0xdbff) {
        uint32_t low = (uint32_t)hex4(*p + 2, 4);
        *p += 6;
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
    }
    return cp;
}

static int key_compare(const char *a, const char *b)
{
    for (;;) {
        uint32_t x = key_next(&a), y = key_next(&b);
        if (x != y)
            return x < y ? -1 : 1;
        if (x == 0)
            return 0;
    }
}

/* Equal keys stay in file order, so that the later one is named. */
static int key_sort(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    int c = key_compare(x->p, y->p);
    return c ? c : (x->p > y->p) - (x->p < y->p);
}

static void push_key(struct scan *s, const char *p)
{
    if (s->n_keys == s->cap_keys) {
        s->cap_keys = s->cap_keys ? s->cap_keys * 2 : 32;
        s->keys = bg_xrealloc(s->keys, s->cap_keys, sizeof *s->keys);
    }
    s->keys[s->n_keys++].p = p;
}

/* Checks and forgets the keys of the object that ends here. */
static bool pop_keys(struct scan *s, size_t first)
{
    size_t n = s->n_keys - first;
    struct key *k = s->keys + first;
    s->n_keys = first;
    if (n < 2)
        return true;
    qsort(k, n, sizeof *k, key_sort);
    for (size_t i = 1; i < n; i++)
        if (key_compare(k[i - 1].p, k[i].p) == 0) {
            const char *end = k[i].p;
            while (key_next(&end))
                ;
            return bg_fail(s->err, BG_ERR_PROTOCOL, 0,
                           "JSON: duplicate field \"%.*s\" at byte %zu",
                           (int)(end - k[i].p < 80 ? end - k[i].p : 80), k[i].p,
                           (size_t)(k[i].p - 1 - s->base));
        }
    return true;
}

/* ---- numbers ---- */

/* A screen program may have set a locale with a decimal comma. */
static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale)
        abort(); /* memory is out */
}

/* The token is checked, at most NUMBER_MAX bytes, and not NUL-terminated. */
static double number_value(const char *p, size_t n)
{
    pthread_once(&c_locale_once, make_c_locale);
    char text[NUMBER_MAX + 1];
    memcpy(text, p, n);
    text[n] = '\0';
    return strtod_l(text, NULL, c_locale);
}

static bool scan_digits(struct scan *s)
{
    const char *at = s->p;
    while (is_digit(s))
        s->p++;
    return s->p > at;
}

/* The number that ends at s->p becomes a string. */
static bool keep_big(struct scan *s, const char *at)
{
    bg_buf_put(s->big, s->copied, (size_t)(at - s->copied));
    bg_buf_putc(s->big, '"');
    bg_buf_put(s->big, at, (size_t)(s->p - at));
    bg_buf_putc(s->big, '"');
    s->copied = s->p;
    return true;
}

static bool scan_number(struct scan *s)
{
    const char *at = s->p;
    bool integer = true;
    if (*s->p == '-')
        s->p++;
    const char *first = s->p;
    if (!scan_digits(s))
        return fail_at(s, at, "a malformed number");
    if (*first == '0' && s->p - first > 1)
        return fail_at(s, at, "a number with a leading zero");
    if (s->p < s->end && *s->p == '.') {
        integer = false;
        s->p++;
        if (!scan_digits(s))
            return fail_at(s, at, "a malformed number");
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        integer = false;
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
            s->p++;
        if (!scan_digits(s))
            return fail_at(s, at, "a malformed number");
    }
    if (s->p - at > NUMBER_MAX)
        return fail_at(s, at, "a number of more than 63 characters");
    double v = number_value(at, (size_t)(s->p - at));
    if (!isfinite(v))
        return fail_at(s, at, "a number out of range");
    /* 2^53 + 1 rounds to 2^53, so the digits decide at the border. */
    static const char border[] = "9007199254740992";
    if (integer && (fabs(v) > EXACT_MAX || (fabs(v) == EXACT_MAX &&
                                            memcmp(first, border, sizeof border - 1) != 0)))
        return s->big ? keep_big(s, at) : fail_at(s, at, "an integer past 2^53");
    return true;
}

/* ---- values ---- */

static bool scan_value(struct scan *s);

static bool enter(struct scan *s)
{
    if (++s->depth > BG_JSON_DEPTH_MAX)
        return bg_fail(s->err, BG_ERR_LIMIT, 0, "JSON: more than %d levels at byte %zu",
                       BG_JSON_DEPTH_MAX, (size_t)(s->p - s->base));
    s->p++;
    skip_space(s);
    return true;
}

/* After an element: true with *more set when a comma follows, false on an error. */
static bool next_element(struct scan *s, char close, bool *more)
{
    skip_space(s);
    if (s->p < s->end && (*s->p == ',' || *s->p == close)) {
        *more = *s->p++ == ',';
        if (*more)
            skip_space(s);
        else
            s->depth--;
        return true;
    }
    return fail_at(s, s->p, close == '}' ? "expected , or }" : "expected , or ]");
}

static bool scan_array(struct scan *s)
{
    if (!enter(s))
        return false;
    bool more = true;
    if (s->p < s->end && *s->p == ']') {
        s->p++;
        s->depth--;
        return true;
    }
    while (more)
        if (!scan_value(s) || !next_element(s, ']', &more))
            return false;
    return true;
}

static bool scan_object(struct scan *s)
{
    size_t first = s->n_keys;
    if (!enter(s))
        return false;
    bool more = true;
    if (s->p < s->end && *s->p == '}') {
        s->p++;
        s->depth--;
        return true;
    }
    while (more) {
        if (s->p == s->end || *s->p != '"')
            return fail_at(s, s->p, "expected a field name");
        push_key(s, s->p + 1);
        if (!scan_string(s))
            return false;
        skip_space(s);
        if (s->p == s->end || *s->p != ':')
            return fail_at(s, s->p, "expected :");
        s->p++;
        skip_space(s);
        if (!scan_value(s) || !next_element(s, '}', &more))
            return false;
    }
    return pop_keys(s, first);
}

static bool scan_word(struct scan *s, struct bg_str word)
{
    if ((size_t)(s->end - s->p) < word.n || memcmp(s->p, word.p, word.n) != 0)
        return fail_at(s, s->p, "an unknown word");
    s->p += word.n;
    return true;
}

static bool scan_value(struct scan *s)
{
    if (s->p == s->end)
        return fail_at(s, s->p, "expected a value, found the end");
    switch (*s->p) {
    case '{':
        return scan_object(s);
    case '[':
        return scan_array(s);
    case '"':
        return scan_string(s);
    case 't':
        return scan_word(s, BG_STR("true"));
    case 'f':
        return scan_word(s, BG_STR("false"));
    case 'n':
        return scan_word(s, BG_STR("null"));
    default:
        if (*s->p == '-' || is_digit(s))
            return scan_number(s);
        return fail_at(s, s->p, "expected a value");
    }
}

static bool scan_whole(struct scan *s, size_t max)
{
    size_t n = (size_t)(s->end - s->base);
    if (n > max)
        return bg_fail(s->err, BG_ERR_LIMIT, 0, "JSON: %zu bytes, at most %zu are taken", n,
                       max);
    skip_space(s);
    bool ok = scan_value(s);
    free(s->keys);
    if (!ok)
        return false;
    skip_space(s);
    return s->p == s->end || fail_at(s, s->p, "something after the value");
}

bool bg_json_check(const char *p, size_t n, size_t max, struct bg_error *err)
{
    struct scan s = {.base = p, .p = p, .end = p + n, .err = err};
    return scan_whole(&s, max);
}

bool bg_json_check_big(const char *p, size_t n, size_t max, struct bg_buf *out,
                       struct bg_error *err)
{
    struct scan s = {.base = p, .p = p, .end = p + n, .big = out, .copied = p, .err = err};
    if (!scan_whole(&s, max))
        return false;
    bg_buf_put(out, s.copied, (size_t)(s.end - s.copied));
    return !bg_buf_overflowed(out) ||
           bg_fail(err, BG_ERR_LIMIT, 0, "JSON: more large numbers than there is room for");
}

/* SPDX-License-Identifier: MIT */
/*
 * What must hold for every rendering, shared by the unit tests and the fuzz targets:
 * nothing a terminal would obey, columns as the table says, and plain output that can be
 * read back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/base/values.h"

/* Valid UTF-8 in which every code point has a width of our own. */
static inline bool check_printable(const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = bg_utf8_decode(p + i, n - i, &cp);
        if (len <= 0 || bg_cp_width(cp) < 0)
            return false;
        i += (size_t)len;
    }
    return true;
}

static inline int check_hex(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Reads one of our escapes at s into out; the bytes it took, or 0. */
static inline size_t check_escape(const char *s, size_t n, unsigned flags, char *out,
                                  size_t *out_len)
{
    *out_len = 1;
    if (n < 2 || s[0] != '\\')
        return 0;
    if (s[1] == 'r' || (s[1] == 'n' && !(flags & BG_SAFE_MULTILINE)) ||
        (s[1] == 't' && flags & BG_SAFE_ASCII)) {
        *out = s[1] == 'r' ? '\r' : s[1] == 'n' ? '\n' : '\t';
        return 2;
    }
    if (s[1] == 'x' && n >= 4 && check_hex(s[2]) >= 0 && check_hex(s[3]) >= 0) {
        *out = (char)(check_hex(s[2]) << 4 | check_hex(s[3]));
        return 4;
    }
    if (s[1] != 'u' || n < 5 || s[2] != '{')
        return 0;
    uint32_t cp = 0;
    size_t i = 3;
    for (; i < n && check_hex(s[i]) >= 0; i++)
        cp = cp << 4 | (uint32_t)check_hex(s[i]);
    if (i == n || s[i] != '}')
        return 0;
    *out_len = (size_t)bg_utf8_encode(cp, out);
    return i + 1;
}

static inline bool check_prefix(const char *s, size_t n, const char *what)
{
    return n >= strlen(what) && memcmp(s, what, strlen(what)) == 0;
}

/* Is nothing but trailing blanks left on the line? */
static inline bool check_trailing(const char *s, size_t n, unsigned flags)
{
    for (;;) {
        if (check_prefix(s, n, "\u00b7"))
            s += 2, n -= 2;
        else if (check_prefix(s, n, "\u2192"))
            s += 3, n -= 3;
        else if (n && *s == ' ')
            s++, n--;
        else
            break;
    }
    if (flags & BG_SAFE_MULTILINE)
        return n == 0 || *s == '\n' || check_prefix(s, n, "\\r\n");
    return n == 0 || check_prefix(s, n, "\\n") || check_prefix(s, n, "\\r\\n");
}

/* The inverse of bg_text_safe without colour: the source, malloc'ed, its length in *len. */
static inline char *check_read_back(const char *s, size_t n, unsigned flags, size_t *len)
{
    char *out = malloc(n + 4);
    size_t at = 0, col = 0;
    for (size_t i = 0; out && i < n;) {
        size_t wrote = 1, took = check_escape(s + i, n - i, flags, out + at, &wrote);
        uint32_t cp = 0;
        if (took) {
            col += took;
        } else if (check_prefix(s + i, n - i, "\u2192")) {
            out[at] = '\t';
            took = BG_TEXT_TAB - col % BG_TEXT_TAB;
            col += took;
            took += 2;
        } else if (check_prefix(s + i, n - i, "\u00b7") &&
                   check_trailing(s + i, n - i, flags)) {
            out[at] = ' ';
            took = 2;
            col++;
        } else {
            took = wrote = (size_t)bg_utf8_decode(s + i, n - i, &cp);
            memcpy(out + at, s + i, took);
            col = cp == '\n' ? 0 : col + (size_t)bg_cp_width(cp);
        }
        i += took;
        at += wrote;
    }
    *len = at;
    return out;
}

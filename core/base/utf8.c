/* SPDX-License-Identifier: MIT */
/* Strict UTF-8 (Unicode's table of well-formed byte sequences). */
#include "core/base/utf8.h"

/* What one lead byte asks for: how many bytes, and the range of the second one. The range
 * is where overlong forms, surrogates and values past U+10FFFF fall out. */
struct lead {
    unsigned char len, low, high, bits;
};

static struct lead lead_of(unsigned char c)
{
    if (c < 0x80)
        return (struct lead){1, 0, 0, c};
    if (c >= 0xc2 && c <= 0xdf)
        return (struct lead){2, 0x80, 0xbf, c & 0x1f};
    if (c >= 0xe0 && c <= 0xef)
        return (struct lead){3, c == 0xe0 ? 0xa0 : 0x80, c == 0xed ? 0x9f : 0xbf, c & 0x0f};
    if (c >= 0xf0 && c <= 0xf4)
        return (struct lead){4, c == 0xf0 ? 0x90 : 0x80, c == 0xf4 ? 0x8f : 0xbf, c & 0x07};
    return (struct lead){0, 0, 0, 0};
}

/* As bg_utf8_decode; *part is the length of the well-formed beginning (at least 1). */
static int decode(const char *s, size_t n, uint32_t *cp, size_t *part)
{
    const unsigned char *u = (const unsigned char *)s;
    struct lead l = lead_of(u[0]);
    uint32_t v = l.bits;
    *part = 1;
    if (l.len == 0)
        return 0;
    for (size_t i = 1; i < l.len; i++) {
        if (i == n)
            return -1;
        unsigned char low = i == 1 ? l.low : 0x80, high = i == 1 ? l.high : 0xbf;
        if (u[i] < low || u[i] > high)
            return 0;
        v = v << 6 | (u[i] & 0x3f);
        *part = i + 1;
    }
    *cp = v;
    return l.len;
}

int bg_utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    size_t part;
    return decode(s, n, cp, &part);
}

int bg_utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
        return 0;
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

bool bg_utf8_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int used = (signed char)s[i] >= 0 ? 1 : bg_utf8_decode(s + i, n - i, &cp);
        if (used <= 0)
            return false;
        i += (size_t)used;
    }
    return true;
}

size_t bg_utf8_prefix(const char *s, size_t n, size_t max)
{
    if (n <= max)
        return n;
    /* A character that is cut began at most three bytes before. */
    for (size_t back = 1; back <= 3 && back <= max; back++) {
        uint32_t cp;
        if (bg_utf8_decode(s + max - back, n - max + back, &cp) > (int)back)
            return max - back;
    }
    return max;
}

void bg_utf8_lossy(struct bg_buf *out, const char *s, size_t n)
{
    size_t good = 0, i = 0;
    while (i < n) {
        uint32_t cp;
        size_t part = 1;
        if ((signed char)s[i] >= 0 || decode(s + i, n - i, &cp, &part) > 0) {
            i += part;
            continue;
        }
        bg_buf_put(out, s + good, i - good);
        bg_buf_puts(out, "\xef\xbf\xbd");
        i += part;
        good = i;
    }
    bg_buf_put(out, s + good, n - good);
}

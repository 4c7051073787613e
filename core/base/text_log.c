/* SPDX-License-Identifier: MIT */
/*
 * The log renderer. Every control sequence is consumed and forgotten but SGR; a sequence
 * that does not end is given up after BG_TEXT_SEQUENCE_MAX bytes, so that it can't hide a
 * log for ever. The result does not depend on where the stream was cut into chunks.
 */
#include "core/base/text_class.h"
#include "core/base/utf8.h"
#include "core/base/values.h"

enum state {
    GROUND,
    ESCAPE,       /* after ESC */
    INTERMEDIATE, /* ESC and 0x20..0x2f: one final byte ends it */
    CSI,
    STRING,     /* OSC, DCS, SOS, PM, APC: up to BEL or ST */
    STRING_ESC, /* ESC inside: with a backslash it is ST */
    STRING_C2,  /* the first byte of U+009C inside */
};

enum { NO_BASE = BG_TEXT_MARKS };

static const char replacement[] = "\xef\xbf\xbd";

void bg_logtext_init(struct bg_logtext *t)
{
    *t = (struct bg_logtext){.marks = NO_BASE};
}

static void put(struct bg_logtext *t, const struct bg_log_sink *sink, const char *p,
                size_t n)
{
    sink->text(sink->data, p, n, &t->sgr);
}

static void put_spaces(struct bg_logtext *t, const struct bg_log_sink *sink)
{
    static const char blanks[] =
        "                                                                ";
    while (t->spaces) {
        size_t n = t->spaces < sizeof blanks - 1 ? t->spaces : sizeof blanks - 1;
        put(t, sink, blanks, n);
        t->spaces -= n;
    }
}

/* Something other than LF follows a CR: the line begins again. */
static void settle_cr(struct bg_logtext *t, const struct bg_log_sink *sink)
{
    if (!t->cr)
        return;
    t->cr = false;
    t->spaces = 0;
    t->col = 0;
    t->marks = NO_BASE;
    sink->restart(sink->data);
}

static void newline(struct bg_logtext *t, const struct bg_log_sink *sink)
{
    t->cr = false;
    t->spaces = 0;
    t->col = 0;
    t->marks = NO_BASE;
    sink->newline(sink->data);
}

static void add_spaces(struct bg_logtext *t, const struct bg_log_sink *sink, unsigned n)
{
    settle_cr(t, sink);
    t->spaces += n;
    t->col += n;
    t->marks = NO_BASE;
}

/* Printable text of so many columns. */
static void add_text(struct bg_logtext *t, const struct bg_log_sink *sink, const char *p,
                     size_t n, unsigned cols)
{
    settle_cr(t, sink);
    put_spaces(t, sink);
    put(t, sink, p, n);
    t->col += cols;
    t->marks = 0;
}

/* The first byte at p begins no character: the longest beginning of one becomes one mark.
 */
static size_t bad_sequence(struct bg_logtext *t, const char *p, size_t n,
                           const struct bg_log_sink *sink)
{
    uint32_t cp;
    size_t len = 1;
    if (bg_utf8_decode(p, 1, &cp) < 0)
        while (len < n && len < 3 && bg_utf8_decode(p, len + 1, &cp) < 0)
            len++;
    add_text(t, sink, replacement, sizeof replacement - 1, 1);
    return len;
}

static void begin(struct bg_logtext *t, enum state state)
{
    t->state = (int)state;
    t->param_len = 0;
}

static void c1_control(struct bg_logtext *t, uint32_t cp)
{
    t->seq = 2;
    if (cp == 0x9b)
        begin(t, CSI);
    else if (cp == 0x90 || cp == 0x98 || cp >= 0x9d)
        begin(t, STRING);
    else
        t->dropped += 2;
}

static void mark(struct bg_logtext *t, const struct bg_log_sink *sink, const char *p,
                 size_t n, unsigned cols)
{
    int marks = t->marks;
    /* A CR that is not settled leaves nothing to put the mark on. */
    if (t->cr || marks >= BG_TEXT_MARKS) {
        t->dropped += n;
        return;
    }
    add_text(t, sink, p, n, cols);
    t->marks = marks + 1;
}

/* One whole character at p. */
static void character(struct bg_logtext *t, const struct bg_log_sink *sink, const char *p,
                      size_t n, uint32_t cp)
{
    switch (bg_cp_class(cp)) {
    case BG_CP_NARROW:
        add_text(t, sink, p, n, 1);
        break;
    case BG_CP_WIDE:
        add_text(t, sink, p, n, 2);
        break;
    case BG_CP_MARK:
        mark(t, sink, p, n, 0);
        break;
    case BG_CP_SPACING:
        mark(t, sink, p, n, 1);
        break;
    case BG_CP_BLANK:
        add_spaces(t, sink, 1);
        break;
    case BG_CP_UNASSIGNED:
        add_text(t, sink, replacement, sizeof replacement - 1, 1);
        break;
    case BG_CP_CONTROL:
        if (cp == 0x2028 || cp == 0x2029)
            newline(t, sink);
        else
            c1_control(t, cp);
        break;
    case BG_CP_BIDI:
    case BG_CP_INVISIBLE:
    case BG_CP_TAG:
        t->dropped += n;
        break;
    }
}

static void c0_control(struct bg_logtext *t, const struct bg_log_sink *sink,
                       unsigned char c)
{
    switch (c) {
    case '\n':
        newline(t, sink);
        break;
    case '\r':
        t->cr = true;
        t->spaces = 0;
        break;
    case '\t':
        settle_cr(t, sink);
        add_spaces(t, sink, BG_TEXT_LOG_TAB - t->col % BG_TEXT_LOG_TAB);
        break;
    case 0x1b:
        t->seq = 1;
        begin(t, ESCAPE);
        break;
    case 0:
        add_text(t, sink, "\\x00", 4, 4);
        t->marks = NO_BASE;
        break;
    default:
        t->dropped++;
    }
}

/* ---- SGR ---- */

/* The colour after 38 or 48 at v[i]; returns the parameters used. Only the indexed form is
 * kept; the others are skipped, so that their numbers are not taken for attributes. */
static size_t extended(const unsigned *v, size_t n, uint16_t *colour)
{
    if (n > 2 && v[1] == 5) {
        if (v[2] < 256)
            *colour = (uint16_t)(v[2] + 1);
        return 3;
    }
    if (n > 1 && v[1] == 2)
        return n < 5 ? n : 5;
    return n;
}

static void attribute(struct bg_sgr *s, unsigned v)
{
    if (v == 0)
        *s = (struct bg_sgr){0};
    else if (v == 1)
        s->bold = true;
    else if (v == 2)
        s->dim = true;
    else if (v == 4)
        s->underline = true;
    else if (v == 7)
        s->reverse = true;
    else if (v == 22)
        s->bold = s->dim = false;
    else if (v == 24)
        s->underline = false;
    else if (v == 27)
        s->reverse = false;
    else if (v >= 30 && v <= 37)
        s->fg = (uint16_t)(v - 29);
    else if (v == 39)
        s->fg = 0;
    else if (v >= 40 && v <= 47)
        s->bg = (uint16_t)(v - 39);
    else if (v == 49)
        s->bg = 0;
    else if (v >= 90 && v <= 97)
        s->fg = (uint16_t)(v - 81);
    else if (v >= 100 && v <= 107)
        s->bg = (uint16_t)(v - 91);
}

/* Splits "1;38:5:9" into numbers; sub[i] says that v[i] came after a colon. */
static size_t split(const char *p, size_t n, unsigned *v, bool *sub)
{
    size_t count = 0;
    v[0] = 0;
    sub[0] = false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == ';' || p[i] == ':') {
            v[++count] = 0;
            sub[count] = p[i] == ':';
        } else if (v[count] < 10000) {
            v[count] = v[count] * 10 + (unsigned)(p[i] - '0');
        }
    }
    return count + 1;
}

static void apply_sgr(struct bg_logtext *t)
{
    unsigned v[sizeof t->param + 1];
    bool sub[sizeof t->param + 1];
    size_t n = split(t->param, t->param_len, v, sub);
    for (size_t i = 0; i < n;) {
        size_t group = 1; /* this number and its colon parts */
        while (i + group < n && sub[i + group])
            group++;
        if (v[i] == 38 || v[i] == 48) {
            uint16_t *colour = v[i] == 38 ? &t->sgr.fg : &t->sgr.bg;
            size_t used = extended(v + i, group > 1 ? group : n - i, colour);
            i += group > 1 ? group : used;
            continue;
        }
        /* 4:0 is no underline, 4:3 a curly one; other sub-parameters are not for us. */
        if (group == 1)
            attribute(&t->sgr, v[i]);
        else if (v[i] == 4)
            t->sgr.underline = v[i + 1] != 0;
        i += group;
    }
}

static bool same_sgr(const struct bg_sgr *a, const struct bg_sgr *b)
{
    return a->fg == b->fg && a->bg == b->bg && a->bold == b->bold && a->dim == b->dim &&
           a->underline == b->underline && a->reverse == b->reverse;
}

static void end_csi(struct bg_logtext *t, const struct bg_log_sink *sink, char final)
{
    t->state = GROUND;
    bool plain = final == 'm' && t->param_len <= sizeof t->param;
    for (size_t i = 0; plain && i < t->param_len; i++)
        plain = (t->param[i] >= '0' && t->param[i] <= '9') || t->param[i] == ';' ||
                t->param[i] == ':';
    if (!plain)
        return;
    t->seq = 0; /* not lost */
    struct bg_sgr before = t->sgr;
    apply_sgr(t);
    if (t->spaces && !same_sgr(&before, &t->sgr)) {
        /* Held-back spaces belong to the style they were written in. */
        struct bg_sgr now = t->sgr;
        t->sgr = before;
        put_spaces(t, sink);
        t->sgr = now;
    }
}

/* ---- sequences: each returns false when c is not part of it and stands for itself ---- */

static bool in_csi(struct bg_logtext *t, const struct bg_log_sink *sink, unsigned char c)
{
    if (c == 0x7f)
        return true;
    if (c < 0x20 || c > 0x7f) {
        t->state = GROUND;
        return c == 0x18 || c == 0x1a;
    }
    if (c >= 0x40) {
        end_csi(t, sink, (char)c);
        return true;
    }
    if (t->param_len < sizeof t->param)
        t->param[t->param_len] = (char)c;
    if (t->param_len <= sizeof t->param)
        t->param_len++;
    return true;
}

static bool in_escape(struct bg_logtext *t, unsigned char c)
{
    if (c == 0x7f)
        return true;
    if (c < 0x20 || c > 0x7f) {
        t->state = GROUND;
        return c == 0x18 || c == 0x1a;
    }
    if (c < 0x30)
        t->state = INTERMEDIATE;
    else if (t->state == ESCAPE && c == '[')
        begin(t, CSI);
    else if (t->state == ESCAPE && strchr("]PX^_", c))
        begin(t, STRING);
    else
        t->state = GROUND;
    return true;
}

static bool in_string(struct bg_logtext *t, unsigned char c)
{
    if (t->state == STRING_ESC && c != '\\') {
        /* Another sequence begins; its ESC is behind us. */
        t->dropped += t->seq - 2;
        t->seq = 2;
        begin(t, ESCAPE);
        return in_escape(t, c);
    }
    bool st = t->state == STRING_ESC || (t->state == STRING_C2 && c == 0x9c);
    if (st || c == 0x07 || c == 0x18 || c == 0x1a)
        t->state = GROUND;
    else if (c == 0x1b)
        t->state = STRING_ESC;
    else
        t->state = c == 0xc2 ? STRING_C2 : STRING;
    return true;
}

static bool in_sequence(struct bg_logtext *t, const struct bg_log_sink *sink,
                        unsigned char c)
{
    bool taken = true;
    t->seq++;
    switch ((enum state)t->state) {
    case CSI:
        taken = in_csi(t, sink, c);
        break;
    case STRING:
    case STRING_ESC:
    case STRING_C2:
        taken = in_string(t, c);
        break;
    case ESCAPE:
    case INTERMEDIATE:
        taken = in_escape(t, c);
        break;
    case GROUND:
        return false;
    }
    if (!taken)
        t->seq--;
    if (t->seq >= BG_TEXT_SEQUENCE_MAX)
        t->state = GROUND;
    if (t->state == GROUND)
        t->dropped += t->seq;
    return taken;
}

/* ---- feeding ---- */

/* A run of printable ASCII; its trailing spaces are held back. */
static size_t ascii_run(struct bg_logtext *t, const char *p, size_t n,
                        const struct bg_log_sink *sink)
{
    size_t end = 0;
    while (end < n && p[end] >= 0x20 && p[end] < 0x7f)
        end++;
    size_t solid = end;
    while (solid > 0 && p[solid - 1] == ' ')
        solid--;
    if (solid)
        add_text(t, sink, p, solid, (unsigned)solid);
    if (end > solid)
        add_spaces(t, sink, (unsigned)(end - solid));
    return end;
}

/* Takes at least one byte at p, or 0 when a character is cut by the end. */
static size_t take(struct bg_logtext *t, const char *p, size_t n,
                   const struct bg_log_sink *sink)
{
    unsigned char c = (unsigned char)*p;
    if (t->state != GROUND && in_sequence(t, sink, c))
        return 1;
    if (c >= 0x20 && c < 0x7f)
        return ascii_run(t, p, n, sink);
    if (c < 0x80) {
        c0_control(t, sink, c);
        return 1;
    }
    uint32_t cp;
    int len = bg_utf8_decode(p, n, &cp);
    if (len > 0)
        character(t, sink, p, (size_t)len, cp);
    return len > 0 ? (size_t)len : len < 0 ? 0 : bad_sequence(t, p, n, sink);
}

/* Completes the character that the last chunk cut; returns the bytes of p it used. */
static size_t feed_pending(struct bg_logtext *t, const char *p, size_t n,
                           const struct bg_log_sink *sink)
{
    char s[2 * sizeof t->pend];
    size_t old = t->pend_len, have = old;
    memcpy(s, t->pend, old);
    while (have < sizeof t->pend && have - old < n) {
        s[have] = p[have - old];
        have++;
    }
    size_t used = take(t, s, have, sink);
    if (used == 0) {
        memcpy(t->pend, s, have);
        t->pend_len = (uint8_t)have;
        return have - old;
    }
    t->pend_len = 0;
    return used - old;
}

void bg_logtext_feed(struct bg_logtext *t, const char *p, size_t n,
                     const struct bg_log_sink *sink)
{
    size_t i = 0;
    if (t->pend_len && n)
        i = feed_pending(t, p, n, sink);
    while (i < n) {
        size_t used = take(t, p + i, n - i, sink);
        if (used == 0) {
            memcpy(t->pend, p + i, n - i);
            t->pend_len = (uint8_t)(n - i);
            return;
        }
        i += used;
    }
}

void bg_logtext_end(struct bg_logtext *t, const struct bg_log_sink *sink)
{
    if (t->pend_len)
        add_text(t, sink, replacement, sizeof replacement - 1, 1);
    t->pend_len = 0;
    if (t->state != GROUND)
        t->dropped += t->seq;
    t->spaces = 0;
    t->cr = false;
    t->state = GROUND;
}

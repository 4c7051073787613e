/* SPDX-License-Identifier: MIT */
/*
 * The review iterator: one token per code point (or bad byte, or line break), in order,
 * without a gap. Look-ahead (end of the line, end of a word) is remembered, so the whole is
 * linear.
 */
#include "core/base/text_class.h"
#include "core/base/utf8.h"
#include "core/base/values.h"

/* The mark count when there is no base to put a mark on: it would land on our own screen.
 */
enum { NO_BASE = BG_TEXT_MARKS };

/* Finds where the trailing blanks of the line that begins at pos begin. */
static void begin_line(struct bg_toks *t)
{
    if (t->pos >= t->n)
        return;
    const char *lf = memchr(t->p + t->pos, '\n', t->n - t->pos);
    size_t end = lf ? (size_t)(lf - t->p) : t->n;
    if (lf && end > t->pos && t->p[end - 1] == '\r')
        end--;
    while (end > t->pos && (t->p[end - 1] == ' ' || t->p[end - 1] == '\t'))
        end--;
    t->line_trail = end;
}

void bg_toks_init(struct bg_toks *t, const char *p, size_t n, bool ascii)
{
    *t = (struct bg_toks){
        .p = p, .n = n, .marks = NO_BASE, .mode = ascii ? BG_TOKS_ASCII : 0};
    begin_line(t);
}

static void set_text(struct bg_tok *out, enum bg_tok_style style, const char *s, size_t n)
{
    memcpy(out->text, s, n);
    out->text_len = (uint8_t)n;
    out->cols = (uint8_t)n;
    out->style = style;
}

static void add_hex(struct bg_tok *out, uint32_t v, int digits)
{
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
        out->text[out->text_len++] = "0123456789abcdef"[v >> shift & 15];
}

static void set_byte(struct bg_tok *out, unsigned char byte)
{
    set_text(out, BG_TOK_HIDDEN, "\\x", 2);
    add_hex(out, byte, 2);
    out->cols = out->text_len;
}

static void set_code(struct bg_tok *out, uint32_t cp)
{
    int digits = 2;
    while (digits < 6 && cp >> (4 * digits))
        digits++;
    set_text(out, BG_TOK_HIDDEN, "\\u{", 3);
    add_hex(out, cp, digits);
    out->text[out->text_len++] = '}';
    out->cols = out->text_len;
}

static void newline(struct bg_toks *t, struct bg_tok *out, size_t len)
{
    out->len = len;
    out->crlf = len == 2;
    if (t->mode & BG_TOKS_SINGLE) {
        set_text(out, BG_TOK_HIDDEN, len == 2 ? "\\r\\n" : "\\n", 2 * len);
        return;
    }
    set_text(out, BG_TOK_NEWLINE, "", 0);
}

/* Blanks in a row, reported once when they are more than code needs. */
static void count_blank(struct bg_toks *t, struct bg_tok *out, bool tab)
{
    t->blank_run += out->cols;
    t->tab_run += tab;
    bool far = t->blank_run > BG_TEXT_PAD_BLANKS || t->tab_run > BG_TEXT_PAD_TABS ||
               (tab && t->col >= BG_TEXT_PAD_COLUMN);
    if (far && !t->padded) {
        out->hazards |= BG_HZ_BIT(BG_HZ_PADDING);
        t->padded = true;
    }
}

static void space(struct bg_toks *t, struct bg_tok *out)
{
    if (t->pos < t->line_trail) {
        set_text(out, BG_TOK_PLAIN, " ", 1);
    } else if (t->mode & BG_TOKS_ASCII) {
        set_byte(out, ' ');
        out->style = BG_TOK_TRAILING;
    } else {
        set_text(out, BG_TOK_TRAILING, "\u00b7", 2);
        out->cols = 1;
    }
    count_blank(t, out, false);
}

static void tab(struct bg_toks *t, struct bg_tok *out)
{
    if (t->mode & BG_TOKS_ASCII) {
        set_text(out, BG_TOK_TAB, "\\t", 2);
    } else {
        int cols = BG_TEXT_TAB - (int)(t->col % BG_TEXT_TAB);
        set_text(out, BG_TOK_TAB, "\u2192   ", (size_t)cols + 2);
        out->cols = (uint8_t)cols;
    }
    count_blank(t, out, true);
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

/* Does the source spell out one of our escapes here? */
static bool spells_escape(const struct bg_toks *t)
{
    const char *s = t->p + t->pos + 1;
    size_t n = t->n - t->pos - 1;
    if (n == 0)
        return false;
    switch (*s) {
    case 'x':
        return n > 2 && is_hex(s[1]) && is_hex(s[2]);
    case 'u':
        return n > 1 && s[1] == '{';
    case 'r':
        return true;
    case 'n':
        return (t->mode & BG_TOKS_SINGLE) != 0;
    case 't':
        return (t->mode & BG_TOKS_ASCII) != 0;
    default:
        return false;
    }
}

/* Looks once at the whole word that begins at pos. */
static void scan_word(struct bg_toks *t)
{
    const char *s = t->p + t->pos;
    t->word_mixed = false;
    /* The letter of "\n" in a string literal is not part of the word after it. */
    if (t->pos > 0 && s[-1] == '\\' && strchr("abfnrtv", *s)) {
        t->word_end = t->pos + 1;
        return;
    }
    unsigned scripts = 0;
    size_t i = t->pos;
    while (i < t->n) {
        uint32_t cp;
        int len = bg_utf8_decode(t->p + i, t->n - i, &cp);
        if (len <= 0 || !bg_cp_in_word(cp))
            break;
        scripts |= bg_cp_scripts(cp);
        i += (size_t)len;
    }
    t->word_end = i;
    t->word_mixed = (scripts & (scripts - 1)) != 0;
}

static bool in_mixed_word(struct bg_toks *t, uint32_t cp)
{
    if (t->pos >= t->word_end) {
        if (!bg_cp_in_word(cp))
            return false;
        scan_word(t);
    }
    return t->word_mixed;
}

static bool c1_introducer(uint32_t c)
{
    return c == 0x90 || c == 0x98 || c == 0x9b || (c >= 0x9d && c <= 0x9f);
}

static void ascii(struct bg_toks *t, struct bg_tok *out, unsigned char c)
{
    t->marks = NO_BASE;
    if (c == '\n') {
        newline(t, out, 1);
    } else if (c == '\r' && t->pos + 1 < t->n && t->p[t->pos + 1] == '\n') {
        newline(t, out, 2);
    } else if (c == '\r') {
        set_text(out, BG_TOK_HIDDEN, "\\r", 2);
        out->hazards |= BG_HZ_BIT(BG_HZ_CR_OVERWRITE);
    } else if (c == '\t') {
        tab(t, out);
    } else if (c == ' ') {
        space(t, out);
    } else if (c < 0x20 || c == 0x7f) {
        set_byte(out, c);
        out->hazards |= BG_HZ_BIT(c == 0x1b ? BG_HZ_ANSI : BG_HZ_CONTROL);
    } else if (c == '\\' && (t->mode & BG_TOKS_PLAIN) && spells_escape(t)) {
        set_byte(out, c);
    } else {
        set_text(out, BG_TOK_PLAIN, (const char *)&c, 1);
        t->marks = 0;
        in_mixed_word(t, c);
    }
}

/* A mark is shown on a base, and not more than a few of them. */
static bool mark_fits(struct bg_toks *t, struct bg_tok *out)
{
    if (t->marks >= BG_TEXT_MARKS) {
        out->hazards |= BG_HZ_BIT(BG_HZ_COMBINING);
        return false;
    }
    t->marks++;
    return true;
}

/* In plain output an arrow is a tab and a final dot is a space. */
static bool spells_mark(const struct bg_toks *t, uint32_t cp)
{
    return (t->mode & BG_TOKS_PLAIN) &&
           (cp == 0x2192 || (cp == 0xb7 && t->pos + 2 >= t->line_trail));
}

/* A code point that has a glyph. */
static void printable(struct bg_toks *t, struct bg_tok *out, uint32_t cp,
                      enum bg_cp_class class)
{
    bool shown = !(t->mode & BG_TOKS_ASCII) && !spells_mark(t, cp);
    if (class == BG_CP_MARK || class == BG_CP_SPACING)
        shown = mark_fits(t, out) && shown;
    else
        t->marks = spells_mark(t, cp) ? NO_BASE : 0;
    if (in_mixed_word(t, cp) && (bg_cp_scripts(cp) & ~(unsigned)BG_SCRIPT_LATIN)) {
        out->hazards |= BG_HZ_BIT(BG_HZ_MIXED_SCRIPT);
        out->style = BG_TOK_SUSPECT;
    }
    if (!shown) {
        set_code(out, cp);
        return;
    }
    set_text(out, out->style, t->p + t->pos, out->len);
    out->cols = class == BG_CP_WIDE ? 2 : class == BG_CP_MARK ? 0 : 1;
}

static void non_ascii(struct bg_toks *t, struct bg_tok *out)
{
    uint32_t cp;
    int len = bg_utf8_decode(t->p + t->pos, t->n - t->pos, &cp);
    if (len <= 0) {
        t->marks = NO_BASE;
        unsigned char byte = (unsigned char)t->p[t->pos];
        set_byte(out, byte);
        out->hazards |= BG_HZ_BIT(BG_HZ_NOT_UTF8);
        if (c1_introducer(byte))
            out->hazards |= BG_HZ_BIT(BG_HZ_ANSI);
        return;
    }
    static const enum bg_hazard hazard[] = {
        [BG_CP_CONTROL] = BG_HZ_CONTROL,     [BG_CP_BIDI] = BG_HZ_BIDI,
        [BG_CP_INVISIBLE] = BG_HZ_INVISIBLE, [BG_CP_TAG] = BG_HZ_TAG_SMUGGLING,
        [BG_CP_BLANK] = BG_HZ_BLANK,         [BG_CP_UNASSIGNED] = BG_HZ_UNASSIGNED,
    };
    enum bg_cp_class class = bg_cp_class(cp);
    out->len = (size_t)len;
    if (class < BG_CP_CONTROL) {
        printable(t, out, cp, class);
        return;
    }
    t->marks = NO_BASE;
    out->hazards |= BG_HZ_BIT(c1_introducer(cp) ? BG_HZ_ANSI : hazard[class]);
    if (class == BG_CP_BLANK && !(t->mode & (BG_TOKS_ASCII | BG_TOKS_CODES))) {
        set_text(out, BG_TOK_BLANK, "\u2423", 3);
        out->cols = 1;
    } else {
        set_code(out, cp);
    }
}

static void advance(struct bg_toks *t, struct bg_tok *out)
{
    char c = t->p[t->pos];
    if (c != ' ' && c != '\t') {
        t->blank_run = t->tab_run = 0;
        t->padded = false;
    }
    if (t->col <= BG_TEXT_LONG_LINE && t->col + out->cols > BG_TEXT_LONG_LINE)
        out->hazards |= BG_HZ_BIT(BG_HZ_LONG_LINE);
    t->col += out->cols;
    t->pos += out->len;
    if (c == '\n' || out->crlf) {
        if (!(t->mode & BG_TOKS_SINGLE))
            t->col = 0;
        begin_line(t);
    }
}

bool bg_toks_next(struct bg_toks *t, struct bg_tok *out)
{
    if (t->pos >= t->n)
        return false;
    unsigned char c = (unsigned char)t->p[t->pos];
    out->off = t->pos;
    out->len = 1;
    out->style = BG_TOK_PLAIN;
    out->hazards = 0;
    out->crlf = false;
    if (c < 0x80)
        ascii(t, out, c);
    else
        non_ascii(t, out);
    advance(t, out);
    return true;
}

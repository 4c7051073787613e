/* SPDX-License-Identifier: MIT */
/* What a whole text holds, and its review rendering as a string: both run the iterator. */
#include "core/base/mem.h"
#include "core/base/text_class.h"
#include "core/base/utf8.h"

static void note(struct bg_scan *out, enum bg_hazard h, uint32_t line, uint32_t *noted)
{
    out->hazards |= BG_HZ_BIT(h);
    out->counts[h]++;
    if (!out->first[h])
        out->first[h] = line;
    if (*noted & BG_HZ_BIT(h) || out->n_notes == BG_SCAN_NOTES_MAX)
        return;
    *noted |= BG_HZ_BIT(h);
    out->notes[out->n_notes++] = (struct bg_scan_note){h, line};
}

/* Tag characters mirror ASCII; what they spell is said aloud. */
static void say_tag(struct bg_scan *out, size_t *len, const struct bg_toks *t,
                    const struct bg_tok *tok)
{
    uint32_t cp;
    if (bg_utf8_decode(t->p + tok->off, tok->len, &cp) <= 0 || cp < 0xe0020 || cp > 0xe007e)
        return;
    if (*len == sizeof out->hidden_ascii - 1) {
        memcpy(out->hidden_ascii + *len - 3, "...", 3);
        return;
    }
    out->hidden_ascii[(*len)++] = (char)(cp - 0xe0000);
}

static void end_line(struct bg_scan *out, uint64_t cols)
{
    out->lines++;
    if (cols > out->longest_cols || !out->longest_line) {
        out->longest_cols = cols < UINT32_MAX ? (uint32_t)cols : UINT32_MAX;
        out->longest_line = out->lines;
    }
}

void bg_text_scan(const char *p, size_t n, struct bg_scan *out)
{
    memset(out, 0, sizeof *out);
    struct bg_toks t;
    struct bg_tok tok;
    uint32_t noted = 0;
    uint64_t cols = 0;
    size_t tags = 0;
    bool open = false;
    bg_toks_init(&t, p, n, false);
    while (bg_toks_next(&t, &tok)) {
        if (tok.style == BG_TOK_NEWLINE) {
            out->crlf |= tok.crlf;
            end_line(out, cols);
            cols = 0;
            noted = 0;
            open = false;
            continue;
        }
        open = true;
        cols += tok.cols;
        for (uint32_t bits = tok.hazards; bits; bits &= bits - 1)
            note(out, (enum bg_hazard)__builtin_ctz(bits), out->lines + 1, &noted);
        if (tok.hazards & BG_HZ_BIT(BG_HZ_TAG_SMUGGLING))
            say_tag(out, &tags, &t, &tok);
    }
    if (open)
        end_line(out, cols);
    out->utf8 = !(out->hazards & BG_HZ_BIT(BG_HZ_NOT_UTF8));
}

static const char *sgr_of(enum bg_tok_style style)
{
    switch (style) {
    case BG_TOK_HIDDEN:
    case BG_TOK_BLANK:
        return "\x1b[7m";
    case BG_TOK_TAB:
    case BG_TOK_TRAILING:
        return "\x1b[2m";
    case BG_TOK_SUSPECT:
        return "\x1b[4m";
    case BG_TOK_PLAIN:
    case BG_TOK_NEWLINE:
        break;
    }
    return "";
}

static void set_style(struct bg_buf *out, enum bg_tok_style *now, enum bg_tok_style style,
                      unsigned flags)
{
    if (!(flags & BG_SAFE_COLOR) || *now == style)
        return;
    if (*sgr_of(*now))
        bg_buf_puts(out, "\x1b[0m");
    bg_buf_puts(out, sgr_of(style));
    *now = style;
}

static unsigned mode_of(unsigned flags)
{
    return (flags & BG_SAFE_ASCII ? BG_TOKS_ASCII : 0) | BG_TOKS_CODES |
           (flags & BG_SAFE_COLOR ? 0 : BG_TOKS_PLAIN) |
           (flags & BG_SAFE_MULTILINE ? 0 : BG_TOKS_SINGLE);
}

void bg_text_safe(struct bg_buf *out, const char *p, size_t n, unsigned flags)
{
    struct bg_toks t;
    struct bg_tok tok;
    enum bg_tok_style now = BG_TOK_PLAIN;
    bg_toks_init(&t, p, n, false);
    t.mode = mode_of(flags);
    while (bg_toks_next(&t, &tok)) {
        if (tok.crlf && tok.style == BG_TOK_NEWLINE) {
            set_style(out, &now, BG_TOK_HIDDEN, flags);
            bg_buf_puts(out, "\\r");
        }
        set_style(out, &now, tok.style, flags);
        if (tok.style == BG_TOK_NEWLINE)
            bg_buf_putc(out, '\n');
        else
            bg_buf_put(out, tok.text, tok.text_len);
    }
    set_style(out, &now, BG_TOK_PLAIN, flags);
}

char *bg_text_safe_line(const char *p, size_t n, int max_cols)
{
    struct bg_toks t;
    struct bg_tok tok;
    struct bg_buf out;
    size_t cols = 0, max = max_cols > 0 ? (size_t)max_cols : SIZE_MAX;
    size_t fits = 0; /* bytes after which an ellipsis still has room */
    /* No byte becomes more than 6 (a tab: an arrow and three spaces). */
    bg_buf_init(&out, 6 * n + 8);
    bg_toks_init(&t, p, n, false);
    t.mode = mode_of(0);
    while (bg_toks_next(&t, &tok)) {
        cols += tok.cols;
        if (cols > max) {
            out.len = fits;
            bg_buf_puts(&out, "\u2026");
            break;
        }
        bg_buf_put(&out, tok.text, tok.text_len);
        if (cols < max)
            fits = out.len;
    }
    return bg_buf_steal(&out);
}

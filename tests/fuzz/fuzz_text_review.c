/* SPDX-License-Identifier: MIT */
/*
 * The review renderer on any bytes: tokens partition the input, every token is printable
 * and as wide as said, plain output reads back to the source, colour adds nothing but our
 * own SGR.
 */
#include <stdlib.h>

#include "tests/text_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
    if (!what)
        abort();
}

static uint32_t check_tokens(const char *p, size_t n, bool ascii)
{
    struct bg_toks t;
    struct bg_tok tok;
    size_t at = 0;
    uint32_t hazards = 0;
    bg_toks_init(&t, p, n, ascii);
    while (bg_toks_next(&t, &tok)) {
        require(tok.off == at && tok.len > 0 && tok.len <= n - at);
        at += tok.len;
        require(tok.text_len <= sizeof tok.text && check_printable(tok.text, tok.text_len));
        require(bg_text_cols(tok.text, tok.text_len) == tok.cols);
        require((tok.style == BG_TOK_NEWLINE) == (tok.text_len == 0));
        require(tok.style != BG_TOK_PLAIN || memcmp(tok.text, p + tok.off, tok.len) == 0);
        for (size_t i = 0; ascii && i < tok.text_len; i++)
            require(tok.text[i] >= 0x20 && tok.text[i] < 0x7f);
        hazards |= tok.hazards;
    }
    require(at == n);
    return hazards;
}

static void check_plain(const char *p, size_t n, unsigned flags)
{
    struct bg_buf out;
    bg_buf_init(&out, 6 * n);
    bg_text_safe(&out, p, n, flags);
    require(!bg_buf_overflowed(&out));
    for (size_t i = 0; i < out.len; i++)
        require(((unsigned char)out.data[i] >= 0x20 && out.data[i] != 0x7f) ||
                (out.data[i] == '\n' && flags & BG_SAFE_MULTILINE));
    require(bg_utf8_valid(out.data, out.len));
    size_t len;
    char *back = check_read_back(out.data, out.len, flags, &len);
    require(back && len == n && (n == 0 || memcmp(back, p, n) == 0));
    free(back);
    bg_buf_free(&out);
}

/* ESC appears only as one of the four sequences we write. */
static void check_colour(const char *p, size_t n)
{
    struct bg_buf out;
    bg_buf_init(&out, 14 * n + 4);
    bg_text_safe(&out, p, n, BG_SAFE_MULTILINE | BG_SAFE_COLOR);
    require(!bg_buf_overflowed(&out));
    for (size_t i = 0; i < out.len; i++) {
        unsigned char c = (unsigned char)out.data[i];
        if (c == 0x1b) {
            require(out.len - i >= 4 && out.data[i + 1] == '[' && out.data[i + 3] == 'm' &&
                    strchr("0247", out.data[i + 2]));
        } else {
            require(c >= 0x20 || c == '\n');
        }
    }
    bg_buf_free(&out);
}

static void check_line(const char *p, size_t n, int max)
{
    char *line = bg_text_safe_line(p, n, max);
    require(line && check_printable(line, strlen(line)));
    require(max == 0 || bg_text_cols(line, strlen(line)) <= max);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    static struct bg_scan scan;
    uint32_t hazards = check_tokens(p, size, false);
    check_tokens(p, size, true);
    bg_text_scan(p, size, &scan);
    require(scan.hazards == hazards && scan.utf8 == bg_utf8_valid(p, size));
    require(check_printable(scan.hidden_ascii, strlen(scan.hidden_ascii)));
    for (unsigned flags = 0; flags < 8; flags++)
        if (!(flags & BG_SAFE_COLOR))
            check_plain(p, size, flags);
    check_colour(p, size);
    check_line(p, size, 0);
    check_line(p, size, 1);
    check_line(p, size, 20);
    return 0;
}

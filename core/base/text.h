/* SPDX-License-Identifier: MIT */
/*
 * Untrusted text on a terminal. Two renderers:
 *  - the review renderer (bg_tok_*, bg_text_safe): for everything a person decides on or
 * trusts. Total and lossless: every input byte belongs to exactly one token, hidden things
 * are shown as \xNN or \u{...}, nothing is stripped, nothing is cut.
 *  - the log renderer (bg_logtext_*): for program output. Lossy; only SGR colour survives.
 * Neither ever passes on a C0, C1 or ESC byte. The classes and their treatment are the
 * table in README "What is shown"; the sets come from Unicode's Default_Ignorable and Cf.
 */
#pragma once

#include "core/base/buf.h"

/* Rendering hazards first (bits 0..), then structural facts (set by approval/hazards.c). */
enum bg_hazard {
    BG_HZ_CONTROL, /* C0, C1, backspace, U+2028/9; what begins a sequence is BG_HZ_ANSI */
    BG_HZ_CR_OVERWRITE,
    BG_HZ_ANSI, /* ESC and the C1 introducers CSI, OSC, DCS, SOS, PM, APC */
    BG_HZ_BIDI,
    BG_HZ_INVISIBLE, /* zero-width, joiners, default-ignorable, variation selectors */
    BG_HZ_TAG_SMUGGLING,
    BG_HZ_BLANK,
    BG_HZ_PADDING,
    BG_HZ_LONG_LINE,
    BG_HZ_COMBINING,
    BG_HZ_MIXED_SCRIPT,
    BG_HZ_NOT_UTF8,
    BG_HZ_UNASSIGNED,
    BG_HZ_ENV,
    BG_HZ_INTERPRETER_INPUT,
    BG_HZ_RW_MOUNT,
    BG_HZ_NETWORK,
    BG_HZ_ROOT,
    BG_HZ_WEAK_SECURITY,
    BG_HZ_UNLIMITED,
    BG_HZ_COUNT_
};
#define BG_HZ_BIT(h) (1u << (h))

const char *bg_hazard_name(enum bg_hazard h); /* "cr_overwrite" */
const char *
bg_hazard_words(enum bg_hazard h); /* "carriage return that overwrites the line" */
bool bg_hazard_from_name(const char *name, size_t n, enum bg_hazard *out);

enum bg_tok_style {
    BG_TOK_PLAIN,
    BG_TOK_HIDDEN,   /* an escape we wrote: reverse, in the hidden colour */
    BG_TOK_BLANK,    /* a look-alike blank, shown as U+2423 */
    BG_TOK_TAB,      /* arrow and spaces to the next stop of 4 */
    BG_TOK_TRAILING, /* a space at the end of a line, shown as a middle dot */
    BG_TOK_SUSPECT,  /* a letter in a word that mixes scripts: underline */
    BG_TOK_NEWLINE   /* LF or CRLF; text is empty (CRLF: "\r" is NOT shown, see crlf) */
};

struct bg_tok {
    size_t off, len; /* the source bytes this token stands for */
    char text[48];   /* what to print: valid UTF-8, printable, no control */
    uint8_t text_len;
    uint8_t cols; /* columns it takes, by our own width table; 0 for NEWLINE */
    enum bg_tok_style style;
    uint32_t hazards; /* BG_HZ_BIT of this token alone */
    bool crlf;        /* NEWLINE only */
};

/* An iterator without allocation. Fields are private. `ascii` writes every non-ASCII code
 * point as \u{...} (the console's "expand" key), a tab as \t and a trailing space as \x20.
 */
struct bg_toks {
    const char *p;
    size_t n, pos;
    size_t col;
    int marks;         /* combining marks since the last base */
    size_t blank_run;  /* columns of spaces and tabs in a row */
    size_t tab_run;    /* tabs among them */
    size_t line_trail; /* offset where this line's trailing blanks begin */
    size_t word_end;   /* the word that was checked for mixed scripts ends here */
    bool word_mixed;
    bool padded;   /* this run of blanks was reported */
    unsigned mode; /* BG_TOKS_ bits of text_class.h */
};

void bg_toks_init(struct bg_toks *t, const char *p, size_t n, bool ascii);
bool bg_toks_next(struct bg_toks *t, struct bg_tok *out); /* false at the end */

/* What a whole field holds. Lines are 1-based. */
#define BG_SCAN_NOTES_MAX 256
struct bg_scan_note {
    enum bg_hazard hazard;
    uint32_t line;
};
struct bg_scan {
    uint32_t hazards;              /* bits */
    uint32_t counts[BG_HZ_COUNT_]; /* tokens (or lines) per hazard */
    uint32_t first[BG_HZ_COUNT_];  /* line of the first one; 0 = none */
    struct bg_scan_note
        notes[BG_SCAN_NOTES_MAX]; /* (hazard, line) pairs once per line, in order */
    size_t n_notes;
    uint32_t lines; /* line breaks, plus one if the last line is not empty */
    uint32_t longest_cols, longest_line;
    bool crlf;
    bool utf8;
    char hidden_ascii[256]; /* tag characters decoded aloud; NUL-terminated, printable */
};
void bg_text_scan(const char *p, size_t n, struct bg_scan *out);

enum {
    BG_SAFE_MULTILINE = 1, /* LF stays a line break; else it is shown as \n */
    BG_SAFE_COLOR =
        2, /* hidden tokens in reverse video by SGR; only when out goes to a tty */
    BG_SAFE_ASCII = 4
};
/*
 * THE function for any untrusted text on any surface: appends the review rendering of p.
 * There is no gutter here, so look-alike blanks appear by their code and the CR of a CRLF
 * as \r. With BG_SAFE_COLOR the styles tell our marks from the source; a literal backslash,
 * arrow or dot is shown as it is. Without it nothing but the text can tell, so a source
 * that spells one of our marks has its first character escaped: \x1b written out becomes
 * \x5cx1b, an arrow \u{2192}, a final middle dot \u{b7}. Two sources never give the same
 * plain output.
 * It takes at most 6 n bytes, with colour 14 n + 4: give `out` that room, or ask whether it
 * overflowed, for then the end is missing.
 */
void bg_text_safe(struct bg_buf *out, const char *p, size_t n, unsigned flags);
/* The same into a fresh string, single line, at most max_cols columns; a cut is marked with
 * an ellipsis. For lists and titles, never for what is to be decided. max_cols 0 = whole.
 */
char *bg_text_safe_line(const char *p, size_t n, int max_cols);
/* Columns of valid UTF-8 text that has been through the renderer (without BG_SAFE_COLOR).
 */
int bg_text_cols(const char *p, size_t n);
/* Our own width: 0, 1 or 2; -1 for what may never reach a terminal as it is. */
int bg_cp_width(uint32_t cp);

/* ---- log renderer: a state machine fed with chunks of a stream ---- */

/* Colours by role, not by number: 0 default, 1..8 = black..white + 1, 9..16 bright, 17.. =
 * 256. */
struct bg_sgr {
    uint16_t fg, bg;
    bool bold, dim, underline, reverse;
};
struct bg_logtext {
    int state;  /* parser state */
    size_t seq; /* bytes of the sequence so far; past 4 KiB it is dropped */
    char param[64];
    size_t param_len;
    struct bg_sgr sgr;
    char pend[4]; /* a character cut by the chunk's end */
    uint8_t pend_len;
    bool cr;          /* a CR whose successor is not known yet */
    unsigned col;     /* for tab stops; wraps */
    int marks;        /* combining marks since the last base */
    size_t spaces;    /* held back: at the end of a line they are not shown */
    uint64_t dropped; /* bytes not shown */
};
struct bg_log_sink {
    /* Printable UTF-8 without line breaks in one style. */
    void (*text)(void *data, const char *p, size_t n, const struct bg_sgr *sgr);
    void (*newline)(void *data);
    /* CR not before LF: what follows begins the line again (no overwriting). */
    void (*restart)(void *data);
    void *data;
};
void bg_logtext_init(struct bg_logtext *t);
void bg_logtext_feed(struct bg_logtext *t, const char *p, size_t n,
                     const struct bg_log_sink *sink);
void bg_logtext_end(struct bg_logtext *t,
                    const struct bg_log_sink *sink); /* flushes a cut character */

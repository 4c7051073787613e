/* SPDX-License-Identifier: MIT */
/*
 * Private to core/base/text_*.c: what a code point is to both renderers, and the modes of
 * the review iterator that bg_text_safe uses.
 */
#pragma once

#include "core/base/text.h"

/* The order is that of tests/tools/gen_text_table.py. From CONTROL on, nothing is ever
 * shown as it is. */
enum bg_cp_class {
    BG_CP_NARROW,
    BG_CP_WIDE,
    BG_CP_MARK,    /* no column: Mn, Me, conjoining Jamo */
    BG_CP_SPACING, /* a mark that takes a column: Mc */
    BG_CP_CONTROL, /* C0, C1, DEL, U+2028/9 */
    BG_CP_BIDI,
    BG_CP_INVISIBLE,
    BG_CP_TAG,
    BG_CP_BLANK,
    BG_CP_UNASSIGNED, /* also private use, surrogates, noncharacters */
};

extern const uint32_t bg_text_table[]; /* first << 4 | class, sorted */
extern const size_t bg_text_table_len;

enum bg_cp_class bg_cp_class(uint32_t cp);

/* Scripts whose letters pass for one another. */
enum {
    BG_SCRIPT_LATIN = 1,
    BG_SCRIPT_CYRILLIC = 2,
    BG_SCRIPT_GREEK = 4,
    BG_SCRIPT_ARMENIAN = 8,
    BG_SCRIPT_CHEROKEE = 16,
    BG_SCRIPT_COPTIC = 32,
    BG_SCRIPT_LISU = 64,
    BG_SCRIPT_FORM = 128, /* fullwidth and mathematical forms of Latin letters */
};
bool bg_cp_in_word(uint32_t cp);     /* letter, digit, mark or underscore */
unsigned bg_cp_scripts(uint32_t cp); /* one BG_SCRIPT_ bit, or 0 */

/* struct bg_toks.mode */
enum {
    BG_TOKS_ASCII = 1,  /* every non-ASCII code point as \u{...} */
    BG_TOKS_CODES = 2,  /* no gutter: a blank is shown by its code */
    BG_TOKS_PLAIN = 4,  /* no styles: what looks like our own marks is escaped as well */
    BG_TOKS_SINGLE = 8, /* a line break is shown as \n */
};

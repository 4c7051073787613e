/* SPDX-License-Identifier: MIT */
/*
 * Syntax colouring as a machine that walks the source once: what role has the byte at this
 * offset? It only looks, so it can't change what is shown; it can be copied, so a pager can
 * begin anywhere it has been before. What it does not know is plain.
 */
#pragma once

#include "tui/kit/surface.h"

enum ui_lang { UI_LANG_NONE, UI_LANG_PYTHON, UI_LANG_JS, UI_LANG_SH, UI_LANG_FACTS };

struct ui_hilite {
    enum ui_lang lang;
    const char *p;
    size_t n, pos;
    uint8_t state;
    char quote;
    bool triple, raw;
    size_t word_end; /* the word or number being read ends here */
    ui_style word;
    bool line_start; /* nothing but blanks on this line so far */
};

enum ui_lang ui_lang_of(const char *name); /* "python", "javascript", "bash", "sh" */
void ui_hilite_init(struct ui_hilite *h, enum ui_lang lang, const char *p, size_t n);
/* off must not go backwards. */
ui_style ui_hilite_at(struct ui_hilite *h, size_t off);

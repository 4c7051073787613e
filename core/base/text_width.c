/* SPDX-License-Identifier: MIT */
/*
 * Classes, widths and scripts of code points. Width comes from our own table (Unicode 14,
 * see tests/tools/gen_text_table.py), never from the C library: glibc calls bidi controls
 * and tag characters printable, and terminals differ.
 */
#include <unictype.h>

#include "core/base/mem.h"
#include "core/base/text_class.h"
#include "core/base/utf8.h"

enum bg_cp_class bg_cp_class(uint32_t cp)
{
    if (cp < 0x7f)
        return cp < 0x20 ? BG_CP_CONTROL : BG_CP_NARROW;
    if (cp > 0x10ffff)
        return BG_CP_UNASSIGNED;
    size_t lo = 0, hi = bg_text_table_len;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (bg_text_table[mid] >> 4 <= cp)
            lo = mid;
        else
            hi = mid;
    }
    return (enum bg_cp_class)(bg_text_table[lo] & 15);
}

int bg_cp_width(uint32_t cp)
{
    static const signed char width[] = {
        [BG_CP_NARROW] = 1,      [BG_CP_WIDE] = 2,     [BG_CP_MARK] = 0,
        [BG_CP_SPACING] = 1,     [BG_CP_CONTROL] = -1, [BG_CP_BIDI] = -1,
        [BG_CP_INVISIBLE] = -1,  [BG_CP_TAG] = -1,     [BG_CP_BLANK] = -1,
        [BG_CP_UNASSIGNED] = -1,
    };
    return width[bg_cp_class(cp)];
}

int bg_text_cols(const char *p, size_t n)
{
    int cols = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = bg_utf8_decode(p + i, n - i, &cp);
        int width = len > 0 ? bg_cp_width(cp) : 1;
        cols += width > 0 ? width : 0;
        i += len > 0 ? (size_t)len : 1;
    }
    return cols;
}

bool bg_cp_in_word(uint32_t cp)
{
    if (cp < 0x80)
        return (cp >= '0' && cp <= '9') || (cp >= 'A' && cp <= 'Z') || cp == '_' ||
               (cp >= 'a' && cp <= 'z');
    if (bg_cp_class(cp) >= BG_CP_CONTROL)
        return false;
    const uint32_t word = UC_CATEGORY_MASK_L | UC_CATEGORY_MASK_M | UC_CATEGORY_MASK_N;
    return (uc_general_category(cp).bitmask & word) != 0;
}

/* Forms of Latin letters and digits that compilers fold back to the letter (NFKC). */
static bool is_form(uint32_t cp)
{
    return (cp >= 0xff10 && cp <= 0xff19) || (cp >= 0xff21 && cp <= 0xff3a) ||
           (cp >= 0xff41 && cp <= 0xff5a) || (cp >= 0x1d400 && cp <= 0x1d7ff);
}

unsigned bg_cp_scripts(uint32_t cp)
{
    static const struct {
        const char *name;
        unsigned bit;
    } known[] = {
        {"Latin", BG_SCRIPT_LATIN},       {"Cyrillic", BG_SCRIPT_CYRILLIC},
        {"Greek", BG_SCRIPT_GREEK},       {"Armenian", BG_SCRIPT_ARMENIAN},
        {"Cherokee", BG_SCRIPT_CHEROKEE}, {"Coptic", BG_SCRIPT_COPTIC},
        {"Lisu", BG_SCRIPT_LISU},
    };
    if (cp < 0x80)
        return (cp | 32) >= 'a' && (cp | 32) <= 'z' ? BG_SCRIPT_LATIN : 0;
    if (is_form(cp))
        return BG_SCRIPT_FORM;
    const uc_script_t *script = uc_script(cp);
    for (size_t i = 0; script && i < bg_countof(known); i++)
        if (strcmp(script->name, known[i].name) == 0)
            return known[i].bit;
    return 0;
}

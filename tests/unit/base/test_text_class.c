/* SPDX-License-Identifier: MIT */
/* Our generated table against libunistring, for every code point; and the hazard names. */
#include <unictype.h>

#include "core/base/text_class.h"
#include "tests/test.h"

static bool listed_blank(uint32_t cp)
{
    return cp == 0x2800 || cp == 0x1d159;
}

/* What the table must say, from another source of the same Unicode version. */
static bool agrees(uint32_t cp)
{
    enum bg_cp_class class = bg_cp_class(cp);
    uint32_t gc = uc_general_category(cp).bitmask;
    bool ignorable = uc_is_property_default_ignorable_code_point(cp);
    if (uc_is_property_bidi_control(cp))
        return class == BG_CP_BIDI;
    if (gc & (UC_CATEGORY_MASK_Cc | UC_CATEGORY_MASK_Zl | UC_CATEGORY_MASK_Zp))
        return class == BG_CP_CONTROL;
    if (ignorable || gc & UC_CATEGORY_MASK_Cf)
        return class == BG_CP_INVISIBLE || class == BG_CP_TAG;
    if ((gc & UC_CATEGORY_MASK_Zs && cp != ' ') || listed_blank(cp))
        return class == BG_CP_BLANK;
    if (gc & (UC_CATEGORY_MASK_Cn | UC_CATEGORY_MASK_Co | UC_CATEGORY_MASK_Cs))
        return class == BG_CP_UNASSIGNED;
    if (cp == 0x16fe4)
        return class == BG_CP_INVISIBLE;
    if (gc & (UC_CATEGORY_MASK_Mn | UC_CATEGORY_MASK_Me))
        return class == BG_CP_MARK;
    if (gc & UC_CATEGORY_MASK_Mc)
        return class == BG_CP_SPACING;
    return class == BG_CP_NARROW || class == BG_CP_WIDE ||
           (class == BG_CP_MARK && gc & UC_CATEGORY_MASK_Lo);
}

static void table_agrees_with_libunistring(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++)
        if (!agrees(cp))
            fail_msg("U+%04X is class %d", (unsigned)cp, (int)bg_cp_class(cp));
    assert_int_equal(bg_cp_class(0x110000), BG_CP_UNASSIGNED);
    assert_int_equal(bg_cp_class(UINT32_MAX), BG_CP_UNASSIGNED);
}

/* C115: wide, combining and emoji characters take the columns we say. */
static void c115_widths(void **state)
{
    (void)state;
    static const struct {
        uint32_t cp;
        int width;
    } want[] = {
        {'a', 1},       {' ', 1},      {0xe9, 1},    {0x301, 0},   {0x903, 1},
        {0x6a21, 2},    {0xac00, 2},   {0x1161, 0},  {0xff21, 2},  {0x1f9ea, 2},
        {0x2192, 1},    {0x2423, 1},   {0xb7, 1},    {0xfffd, 1},  {0xfdfa, 1},
        {'\n', -1},     {0x1b, -1},    {0x7f, -1},   {0x9b, -1},   {0x202e, -1},
        {0x200b, -1},   {0xe0041, -1}, {0x3164, -1}, {0x2028, -1}, {0xa0, -1},
        {0x3000, -1},   {0xe000, -1},  {0xd800, -1}, {0xffff, -1}, {0xfe0f, -1},
        {0x110000, -1},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (bg_cp_width(want[i].cp) != want[i].width)
            fail_msg("U+%04X is %d wide", (unsigned)want[i].cp, bg_cp_width(want[i].cp));
    const char *s = "\u6a21\u578b-\U0001f9ea e\u0301";
    assert_int_equal(bg_text_cols(s, strlen(s)), 9);
}

/* Every default-ignorable and format character is out, whatever else the table says. */
static void nothing_invisible_has_a_width(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++)
        if (uc_is_property_default_ignorable_code_point(cp) ||
            uc_is_general_category_withtable(cp, UC_CATEGORY_MASK_C | UC_CATEGORY_MASK_Zl |
                                                     UC_CATEGORY_MASK_Zp))
            assert_int_equal(bg_cp_width(cp), -1);
}

static void scripts(void **state)
{
    (void)state;
    assert_int_equal(bg_cp_scripts('a'), BG_SCRIPT_LATIN);
    assert_int_equal(bg_cp_scripts(0xe9), BG_SCRIPT_LATIN);
    assert_int_equal(bg_cp_scripts(0x430), BG_SCRIPT_CYRILLIC);
    assert_int_equal(bg_cp_scripts(0x3bf), BG_SCRIPT_GREEK);
    assert_int_equal(bg_cp_scripts(0x585), BG_SCRIPT_ARMENIAN);
    assert_int_equal(bg_cp_scripts(0x13a0), BG_SCRIPT_CHEROKEE);
    assert_int_equal(bg_cp_scripts(0xff21), BG_SCRIPT_FORM);
    assert_int_equal(bg_cp_scripts('1'), 0);
    assert_int_equal(bg_cp_scripts(0x6a21), 0);
    assert_true(bg_cp_in_word('_') && bg_cp_in_word(0x301) && bg_cp_in_word(0x661));
    assert_false(bg_cp_in_word('-') || bg_cp_in_word(0x202e) || bg_cp_in_word(0x1f9ea));
}

static void hazard_names(void **state)
{
    (void)state;
    for (unsigned h = 0; h < BG_HZ_COUNT_; h++) {
        const char *name = bg_hazard_name((enum bg_hazard)h);
        enum bg_hazard back = BG_HZ_COUNT_;
        assert_true(bg_hazard_from_name(name, strlen(name), &back));
        assert_int_equal(back, h);
        assert_true(strlen(bg_hazard_words((enum bg_hazard)h)) > 4);
    }
    enum bg_hazard h;
    assert_string_equal(bg_hazard_name(BG_HZ_CR_OVERWRITE), "cr_overwrite");
    assert_string_equal(bg_hazard_name(BG_HZ_COUNT_), "unknown");
    assert_false(bg_hazard_from_name("ansi ", 5, &h));
    assert_false(bg_hazard_from_name("ans", 3, &h));
    assert_false(bg_hazard_from_name("", 0, &h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_agrees_with_libunistring),
        cmocka_unit_test(c115_widths),
        cmocka_unit_test(nothing_invisible_has_a_width),
        cmocka_unit_test(scripts),
        cmocka_unit_test(hazard_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

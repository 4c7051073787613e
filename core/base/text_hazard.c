/* SPDX-License-Identifier: MIT */
/* The names of hazards: as the protocol, the rules and `--ack` spell them, and in words. */
#include "core/base/mem.h"
#include "core/base/text.h"

static const struct {
    const char *name, *words;
} hazards[] = {
    [BG_HZ_CONTROL] = {"control", "control characters"},
    [BG_HZ_CR_OVERWRITE] = {"cr_overwrite", "carriage return that overwrites the line"},
    [BG_HZ_ANSI] = {"ansi", "terminal escape sequence"},
    [BG_HZ_BIDI] = {"bidi", "bidirectional control characters"},
    [BG_HZ_INVISIBLE] = {"invisible", "invisible characters"},
    [BG_HZ_TAG_SMUGGLING] = {"tag_smuggling", "text hidden in tag characters"},
    [BG_HZ_BLANK] = {"blank", "blanks that are not spaces"},
    [BG_HZ_PADDING] = {"padding", "padding that moves text out of sight"},
    [BG_HZ_LONG_LINE] = {"long_line", "very long line"},
    [BG_HZ_COMBINING] = {"combining", "stacked combining marks"},
    [BG_HZ_MIXED_SCRIPT] = {"mixed_script", "word of look-alike letters from two scripts"},
    [BG_HZ_NOT_UTF8] = {"not_utf8", "bytes that are not UTF-8"},
    [BG_HZ_UNASSIGNED] = {"unassigned", "unassigned or private characters"},
    [BG_HZ_ENV] = {"env", "environment that steers the loader or an interpreter"},
    [BG_HZ_INTERPRETER_INPUT] = {"interpreter_input", "input that an interpreter runs"},
    [BG_HZ_RW_MOUNT] = {"rw_mount", "writable mount of a host folder"},
    [BG_HZ_NETWORK] = {"network", "network access"},
    [BG_HZ_ROOT] = {"root", "runs as root"},
    [BG_HZ_WEAK_SECURITY] = {"weak_security", "weakened isolation"},
    [BG_HZ_UNLIMITED] = {"unlimited", "a limit is switched off"},
};
_Static_assert(bg_countof(hazards) == BG_HZ_COUNT_, "every hazard has a name");

const char *bg_hazard_name(enum bg_hazard h)
{
    return (unsigned)h < BG_HZ_COUNT_ ? hazards[h].name : "unknown";
}

const char *bg_hazard_words(enum bg_hazard h)
{
    return (unsigned)h < BG_HZ_COUNT_ ? hazards[h].words : "unknown hazard";
}

bool bg_hazard_from_name(const char *name, size_t n, enum bg_hazard *out)
{
    for (unsigned h = 0; h < BG_HZ_COUNT_; h++) {
        if (strlen(hazards[h].name) == n && memcmp(hazards[h].name, name, n) == 0) {
            *out = (enum bg_hazard)h;
            return true;
        }
    }
    return false;
}

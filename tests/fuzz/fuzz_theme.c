/* SPDX-License-Identifier: MIT */
/* A theme file of any bytes: refused with a place, or every colour of it is one. */
#include <stdlib.h>

#include "tui/kit/theme.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
    if (!what)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ui_theme t;
    struct bg_error err = {0};
    if (!ui_theme_parse(&t, "theme.yaml", (const char *)data, size, &err)) {
        require(err.code != BG_OK && *err.msg);
        return 0;
    }
    for (int r = 0; r < UI_ROLE_COUNT_; r++) {
        const struct ui_color *c = &t.roles[r].color;
        require(ui_color_at(c, UI_DEPTH_MONO) == -1);
        require(ui_color_at(c, UI_DEPTH_16) < 16 && ui_color_at(c, UI_DEPTH_256) < 256);
        require(ui_color_at(c, UI_DEPTH_RGB) <= 0xffffff);
        require((t.roles[r].attr & ~(UI_BOLD | UI_DIM | UI_REVERSE | UI_UNDERLINE)) == 0);
    }
    return 0;
}

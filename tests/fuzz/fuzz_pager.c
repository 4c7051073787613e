/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as code, at any width: paging by screens shows all of them and not less, no
 * cell holds what a terminal would obey, and the colours never change what is shown.
 */
#include <stdlib.h>

#include "core/base/utf8.h"
#include "tui/kit/pager.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ui_grid grid;

static void require(bool what)
{
    if (!what)
        abort();
}

static uint64_t cells(void)
{
    uint64_t h = 1;
    for (int i = 0; i < grid.h * grid.w; i++)
        for (int k = 0; k < UI_CELL_CPS; k++) {
            uint32_t cp = grid.cells[i].cp[k];
            require(cp == 0 || bg_cp_width(cp) >= 0);
            h = (h ^ cp) * UINT64_C(1099511628211);
        }
    return h;
}

static uint64_t read_all(const char *p, size_t n, int w, enum ui_lang lang, bool hex)
{
    struct ui_field_src f = {
        .label = "code", .p = p, .n = n, .numbers = true, .lang = lang, .hex = hex};
    struct ui_pager pager;
    struct ui_unseen u;
    uint64_t h = 1;
    ui_pager_init(&pager, &f, 1, false);
    for (size_t top = 0;; top += (size_t)grid.h) {
        ui_grid_clear(&grid);
        ui_pager_to(&pager, top);
        ui_pager_draw(&pager, ui_sub(ui_whole(&grid), 0, 0, grid.h, w), 1, true);
        h = h * 31 + cells();
        if (top + (size_t)grid.h >= pager.rows)
            break;
        require(ui_pager_unseen(&pager, &u));
    }
    require(!ui_pager_unseen(&pager, &u) && u.percent == 100);
    ui_pager_free(&pager);
    ui_seen_free(&f.seen);
    return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    int w = 40 + data[0] % 120;
    enum ui_lang lang = (enum ui_lang)(1 + data[1] % 3);
    const char *p = (const char *)data + 2;
    size_t n = size - 2;
    ui_grid_size(&grid, 7, 160);
    bool hex = !bg_utf8_valid(p, n);
    uint64_t plain = read_all(p, n, w, UI_LANG_NONE, hex);
    require(read_all(p, n, w, lang, hex) == plain);
    ui_grid_free(&grid);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#include "tui/kit/dialog.h"

struct ui_surface ui_dialog_open(struct ui_surface whole, const struct ui_dialog *d)
{
    int w = d->cols + 4 < whole.r.w ? d->cols + 4 : whole.r.w;
    int h = d->rows + 2 < whole.r.h ? d->rows + 2 : whole.r.h;
    struct ui_surface box = ui_sub(whole, (whole.r.h - h) / 2, (whole.r.w - w) / 2, h, w);
    ui_erase(box);
    struct ui_surface in =
        ui_pane(box, &(struct ui_pane){
                         .title = d->title, .hint = d->hint, .focus = true, .boxed = true});
    return ui_sub(in, 0, 1, in.r.h, in.r.w - 2);
}

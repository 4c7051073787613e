/* SPDX-License-Identifier: MIT */
#include "tui/kit/list.h"

size_t ui_list_sync(struct ui_list *l, const uint64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == l->selected) {
            l->index = i;
            return i;
        }
    if (n == 0) {
        l->selected = 0;
        l->index = 0;
        return 0;
    }
    if (l->index >= n)
        l->index = n - 1;
    l->selected = ids[l->index];
    return l->index;
}

void ui_list_move(struct ui_list *l, const uint64_t *ids, size_t n, long by)
{
    if (n == 0)
        return;
    size_t at = ui_list_sync(l, ids, n);
    if (by < 0)
        at = (size_t)-by > at ? 0 : at - (size_t)-by;
    else
        at = (size_t)by >= n - at ? n - 1 : at + (size_t)by;
    l->index = at;
    l->selected = ids[at];
}

size_t ui_list_top(struct ui_list *l, size_t n, size_t rows)
{
    if (rows == 0)
        return 0;
    if (l->index < l->top)
        l->top = l->index;
    if (l->index >= l->top + rows)
        l->top = l->index - rows + 1;
    if (n <= rows)
        l->top = 0;
    else if (l->top > n - rows)
        l->top = n - rows;
    return l->top;
}

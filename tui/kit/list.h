/* SPDX-License-Identifier: MIT */
/* A list's selection: it keeps its item, not its row, whatever happens to the list. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ui_list {
    uint64_t selected; /* the item's id; 0 = none */
    size_t index;      /* where it was last; the neighbour takes over when it goes */
    size_t top;
};

/* Ids in order; keeps `selected` if it is still there. Returns its index (0 if n is 0). */
size_t ui_list_sync(struct ui_list *l, const uint64_t *ids, size_t n);
void ui_list_move(struct ui_list *l, const uint64_t *ids, size_t n, long by);
/* First row to draw so that the selection is in a window of `rows`. */
size_t ui_list_top(struct ui_list *l, size_t n, size_t rows);

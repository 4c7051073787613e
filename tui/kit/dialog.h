/* SPDX-License-Identifier: MIT */
/* A small centred box over everything else: a title, some lines, perhaps a field. */
#pragma once

#include "tui/kit/field.h"
#include "tui/kit/surface.h"

struct ui_dialog {
    const char *title;
    const char *hint; /* in the bottom border: what the keys do here */
    int cols, rows;   /* wished for, inside */
};

/* Clears its place and draws the frame; returns the inside (smaller on a small screen). */
struct ui_surface ui_dialog_open(struct ui_surface whole, const struct ui_dialog *d);

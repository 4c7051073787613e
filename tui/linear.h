/* SPDX-License-Identifier: MIT */
/*
 * The console as lines, for screen readers, dumb terminals and slow links: no boxes, no
 * redraw, every line with a label. The same rules: all lines printed before an approve,
 * nothing typed ahead, HIGH by its first digits, end of input decides nothing.
 */
#pragma once

#include "tui/link.h"

/* Takes link. The exit code. */
int linear_run(struct bg_loop *loop, struct link *link);

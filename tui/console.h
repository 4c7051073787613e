/* SPDX-License-Identifier: MIT */
/* `boxgate` without a command: which mode this terminal can have, and the run of it. */
#pragma once

#include "tui/app.h"

struct console_opts {
    const struct bg_paths *paths;
    const char *theme, *border; /* config.yaml's console block; "" = by default */
    bool mouse, bell;
    char *const *notify;
    bool linear; /* --linear */
};

/* The exit code. CONFIG in *err when there is no provider yet (nothing was shown then). */
int console_run(const struct console_opts *o, struct bg_error *err);

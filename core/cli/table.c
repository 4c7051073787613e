/* SPDX-License-Identifier: MIT */
/* The headless commands, in the order help shows them. */
#include <stddef.h>

#include "core/cli/cmd.h"

const struct bg_cmd *const bg_cli_cmds[] = {
    NULL,
};

/* SPDX-License-Identifier: MIT */
/* The headless commands, in the order help shows them. */
#include "core/cli/cmd.h"

#include <stddef.h>

const struct bg_cmd *const bg_cli_cmds[] = {
    NULL,
};

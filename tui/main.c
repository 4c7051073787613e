/* SPDX-License-Identifier: MIT */
/* The program: joins the command tables; without a command it is the console. */
#include <stdio.h>

#include "core/cli/cmd.h"

static int console(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fprintf(stderr, "boxgate: this build has no console yet; see: boxgate help\n");
    return BG_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    static const struct bg_cmd *const *const tables[] = {bg_cli_cmds, NULL};
    return bg_cli_main(argc, argv, tables, console);
}

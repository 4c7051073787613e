/* SPDX-License-Identifier: MIT */
/*
 * The program: joins the command tables; without a command it is the console. A machine
 * without a config is asked init's questions first, in plain lines.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/cli/cmd.h"
#include "core/config/config.h"
#include "tui/console.h"

static int usage(void)
{
    fprintf(stderr, "usage: boxgate [--linear] [--theme NAME]   the console\n"
                    "       boxgate COMMAND ...                 see: boxgate help\n");
    return BG_EXIT_USAGE;
}

static const struct bg_cmd *find_command(const char *name)
{
    for (const struct bg_cmd *const *c = bg_cli_cmds; *c; c++)
        if (!strcmp((*c)->name, name))
            return *c;
    return NULL;
}

static int complain(const struct bg_error *err)
{
    fprintf(stderr, "boxgate: %s\n", err->msg);
    return err->code == BG_ERR_CONFIG ? BG_EXIT_USAGE : BG_EXIT_FAILED;
}

/* True if there is a config now. */
static bool ask_first(void)
{
    const struct bg_cmd *init = find_command("init");
    char name[] = "init", *argv[] = {name, NULL};
    return init && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
           init->run(init, 1, argv) == BG_EXIT_OK;
}

static struct bg_config *load(const struct bg_paths *paths, struct bg_error *err)
{
    struct bg_config *c = bg_config_load(paths->config_file, err);
    if (c && c->provider == BG_PROVIDER_NONE && ask_first()) {
        bg_config_free(c);
        c = bg_config_load(paths->config_file, err);
    }
    return c;
}

static int run(const struct bg_paths *paths, const char *theme, bool linear)
{
    struct bg_error err = {0};
    struct bg_config *c = load(paths, &err);
    if (!c)
        return complain(&err);
    const char *env = getenv("BOXGATE_THEME");
    struct console_opts o = {
        .paths = paths,
        .theme = theme         ? theme
                 : env && *env ? env
                               : c->console.theme,
        .border = c->console.border,
        .mouse = c->console.mouse,
        .bell = c->console.bell,
        .notify = c->console.notify,
        .linear = linear,
    };
    int code = console_run(&o, &err);
    bg_config_free(c);
    return err.code ? complain(&err) : code;
}

static int console(int argc, char **argv)
{
    static const struct option options[] = {
        {"linear", no_argument, NULL, 'l'}, {"theme", required_argument, NULL, 't'}, {0}};
    const char *theme = NULL;
    bool linear = false;
    int c;
    while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        if (c == 'l')
            linear = true;
        else if (c == 't')
            theme = optarg;
        else
            return usage();
    }
    if (optind < argc)
        return usage();
    struct bg_error err = {0};
    struct bg_paths paths;
    if (!bg_paths_init(&paths, NULL, &err))
        return complain(&err);
    int code = run(&paths, theme, linear);
    bg_paths_free(&paths);
    return code;
}

int main(int argc, char **argv)
{
    static const struct bg_cmd *const *const tables[] = {bg_cli_cmds, NULL};
    return bg_cli_main(argc, argv, tables, console);
}

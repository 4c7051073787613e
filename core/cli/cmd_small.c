/* SPDX-License-Identifier: MIT */
/* The commands of a few lines: forget-deny, config show, themes. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>

#include "core/cli/util.h"
#include "core/config/config.h"

/* ---- forget-deny ---- */

static int run_forget(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_error err = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    bg_autojson cJSON *res = cli_ask(BG_ROLE_OPERATOR, "boxgate-forget-deny", false,
                                     "approval.forget", bg_jo(), &err);
    if (!res)
        return cli_fail(&err);
    cli_note("%.0f denial%s forgotten", cli_num(res, "forgotten"),
             cli_num(res, "forgotten") == 1 ? "" : "s");
    return BG_EXIT_OK;
}

const struct bg_cmd cmd_forget_deny = {
    .name = "forget-deny",
    .args = "",
    .summary = "ask again for what was denied before",
    .help = "Denied bytes are denied again for a while without asking. This ends it.",
    .run = run_forget,
};

/* ---- config show ---- */

static int run_config(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_paths paths;
    struct bg_error err = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    bg_digest_init();
    if (!bg_paths_init(&paths, NULL, &err))
        return cli_fail(&err);
    struct bg_config *c = bg_config_load(paths.config_file, &err);
    int code = c ? BG_EXIT_OK : cli_fail(&err);
    if (c) {
        struct bg_buf b;
        cli_buf(&b);
        bg_config_print(c, &b);
        cli_out(&b);
    }
    bg_config_free(c);
    bg_paths_free(&paths);
    return code;
}

const struct bg_cmd cmd_config_show = {
    .name = "config show",
    .args = "",
    .summary = "print the configuration in force, every default written out",
    .run = run_config,
};

/* ---- themes ---- */

static bool is_yaml(const char *name)
{
    size_t n = strlen(name);
    return n > 5 && name[0] != '.' && !strcmp(name + n - 5, ".yaml");
}

static void add_themes(cJSON *rows, const char *dir)
{
    struct dirent **found = NULL;
    int n = scandir(dir, &found, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (is_yaml(found[i]->d_name)) {
            bg_autofree char *path = bg_path_join(dir, found[i]->d_name);
            bg_autofree char *name =
                bg_xstrndup(found[i]->d_name, strlen(found[i]->d_name) - 5);
            cJSON *row = bg_jo();
            bg_jset_str(row, "name", name);
            bg_jset_str(row, "file", path);
            cJSON_AddItemToArray(rows, row);
        }
        free(found[i]);
    }
    free(found);
}

/* A program that was built and not installed stands in SRC/build/MODE. */
static char *source_themes(void)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n < 0)
        return NULL;
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    bg_autofree char *dir = bg_path_join(exe, "../../themes");
    return realpath(dir, NULL);
}

static int run_themes(const struct bg_cmd *cmd, int argc, char **argv)
{
    static const char *const heads[] = {"NAME", "FILE", NULL};
    struct cli_args a;
    struct bg_paths paths;
    struct bg_error err = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    if (!bg_paths_init(&paths, NULL, &err))
        return cli_fail(&err);
    bg_autojson cJSON *rows = bg_ja();
    bg_autofree char *own = bg_path_join(paths.config, "themes");
    bg_autofree char *source = source_themes();
    add_themes(rows, own);
    add_themes(rows, BG_DATADIR "/themes");
    if (source && strcmp(source, BG_DATADIR "/themes"))
        add_themes(rows, source);
    bg_paths_free(&paths);
    if (cli_flag(&a, "json")) {
        cli_out_json(rows);
        return BG_EXIT_OK;
    }
    struct cli_table t;
    const cJSON *row;
    cli_table_init(&t, heads);
    cJSON_ArrayForEach(row, rows)
    {
        const char *cells[] = {cli_str(row, "name"), cli_str(row, "file")};
        cli_table_row(&t, cells);
    }
    cli_table_out(&t);
    return BG_EXIT_OK;
}

const struct bg_cmd cmd_themes = {
    .name = "themes",
    .args = "[--json]",
    .summary = "list the console's themes",
    .help = "Your own lie in the config folder, in themes/NAME.yaml. Choose one with\n"
            "console.theme in config.yaml.",
    .opts = cli_json_opt,
    .run = run_themes,
};

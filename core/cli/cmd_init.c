/* SPDX-License-Identifier: MIT */
/* init: what each provider found on this machine, then config.yaml for the chosen one. No
 * sandbox is assumed silently, so nothing is written before somebody chose. */
#include <stdio.h>

#include "core/base/values.h"
#include "core/cli/probe.h"
#include "core/engine/engine.h"

static const enum bg_provider_kind kinds[] = {BG_PROVIDER_LOCAL, BG_PROVIDER_CONTAINER};

static struct bg_config *config_for(const char *endpoint)
{
    struct bg_config *c = bg_config_defaults();
    if (endpoint) {
        free(c->engine.endpoint);
        c->engine.endpoint = bg_xstrdup(endpoint);
    }
    return c;
}

/* Prints all of them; a bit 1 << kind for each that is there. */
static unsigned look(const struct bg_paths *paths, const char *endpoint)
{
    unsigned there = 0;
    struct bg_buf b;
    cli_buf(&b);
    bg_buf_puts(&b, "On this machine:\n");
    for (size_t i = 0; i < bg_countof(kinds); i++) {
        struct cli_probe p;
        struct bg_error err = {0};
        const struct bg_provider_report *r =
            cli_probe_open(&p, kinds[i], config_for(endpoint), paths, NULL, &err);
        cli_probe_print(&b, kinds[i], r, &err);
        there |= r && r->available ? 1U << kinds[i] : 0;
        cli_probe_close(&p);
    }
    cli_out(&b);
    return there;
}

static bool ask(enum bg_provider_kind *kind)
{
    char line[64];
    for (int tries = 0; tries < 3; tries++) {
        fprintf(stderr, "Which one shall boxgate use? local or container: ");
        if (!fgets(line, sizeof line, stdin))
            return false;
        line[strcspn(line, "\n")] = '\0';
        if (bg_provider_kind_from(line, kind) && *kind != BG_PROVIDER_NONE)
            return true;
        fprintf(stderr, "Please type one of the two words, or Ctrl-C.\n");
    }
    return false;
}

static int write_config(const struct bg_paths *paths, enum bg_provider_kind kind,
                        const char *endpoint, bool there)
{
    struct bg_error err = {0};
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, BG_YAML_MAX);
    bg_config_template(kind, endpoint, &b);
    if (!bg_dir_private(paths->config, &err) ||
        !bg_write_file_atomic(paths->config_file, b.data, b.len, 0600, &err))
        return cli_fail(&err);
    cli_note("wrote %s: sandboxes come from the provider \"%s\"", paths->config_file,
             bg_provider_kind_name(kind));
    if (there)
        cli_note(
            "next: boxgate opens the console; in another terminal: boxgate run FILE.py");
    else
        cli_note("it is not available now; see above, and: boxgate doctor");
    return BG_EXIT_OK;
}

static int init(const struct bg_cmd *cmd, const struct cli_args *a,
                const struct bg_paths *paths)
{
    struct bg_error err = {0};
    enum bg_provider_kind kind = BG_PROVIDER_NONE;
    const char *name = cli_value(a, "provider"), *endpoint = cli_value(a, "endpoint");
    if (name && (!bg_provider_kind_from(name, &kind) || kind == BG_PROVIDER_NONE))
        return cli_usage(cmd, "no provider is called %s; there are: local, container",
                         name);
    if (endpoint && kind == BG_PROVIDER_LOCAL)
        return cli_usage(cmd, "--endpoint belongs to the provider container");
    if (!cli_flag(a, "force") && access(paths->config_file, F_OK) == 0) {
        cli_note("%s is there already; --force replaces it", paths->config_file);
        return BG_EXIT_FAILED;
    }
    if (!bg_dir_private(paths->runtime, &err))
        return cli_fail(&err);
    /* Only here: the server must not go elsewhere because a variable says so. */
    bg_autofree char *named = endpoint ? NULL : bg_engine_endpoint_env();
    bg_autofree char *usable = named ? bg_engine_socket(named, &err) : NULL;
    if (usable)
        endpoint = named;
    else if (named)
        cli_note("CONTAINER_HOST or DOCKER_HOST is left out: %s", err.msg);
    unsigned there = look(paths, endpoint);
    if (!name && !(isatty(STDIN_FILENO) && isatty(STDERR_FILENO)))
        return cli_usage(cmd, "choose one: boxgate init --provider local|container");
    if (!name && !ask(&kind)) {
        cli_note("nothing was chosen, nothing was written");
        return BG_EXIT_USAGE;
    }
    return write_config(paths, kind, endpoint, there & 1U << kind);
}

static int run(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_paths paths;
    struct bg_error err = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    bg_digest_init();
    if (!bg_paths_init(&paths, NULL, &err))
        return cli_fail(&err);
    int code = init(cmd, &a, &paths);
    bg_paths_free(&paths);
    return code;
}

static const struct bg_opt opts[] = {
    {"provider", 'p', "NAME", "local (bubblewrap) or container (Docker, Podman)"},
    {"endpoint", 'e', "URL", "the engine's socket, like unix:///run/docker.sock"},
    {"force", 'f', NULL, "replace a config.yaml that is there"},
    {0},
};

const struct bg_cmd cmd_init = {
    .name = "init",
    .args = "[--provider local|container] [--endpoint URL] [--force]",
    .summary = "look at this machine, choose where code runs, write config.yaml",
    .help = "Shows for each provider whether it works here and what it enforces.\n"
            "\n"
            "examples:\n"
            "  boxgate init --provider local\n"
            "  boxgate init --provider container --endpoint unix:///run/docker.sock\n"
            "\n"
            "Without --endpoint it takes what CONTAINER_HOST or DOCKER_HOST names, else it "
            "looks\n"
            "for an engine. The server itself reads neither variable.",
    .opts = opts,
    .run = run,
};

/* SPDX-License-Identifier: MIT */
/*
 * sweep: removes what dead servers left. It holds the instance lock while it works: with a
 * server of these folders alive, that server's sandboxes are its own business (and it has
 * swept at its start).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#include "core/cli/probe.h"

struct swept {
    bool done;
    size_t n;
    struct bg_error err;
    struct bg_buf out;
};

static void on_swept(void *data, char *const *names, const struct bg_error *err)
{
    struct swept *s = data;
    s->done = true;
    if (err)
        s->err = *err;
    for (; names && *names; names++, s->n++) {
        bg_text_safe(&s->out, *names, strlen(*names), 0);
        bg_buf_putc(&s->out, '\n');
    }
}

static int take_lock(const struct bg_paths *paths, struct bg_error *err)
{
    bg_autofree char *path = bg_path_join(paths->state, "instance.lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        bg_fail(err, BG_ERR_IO, errno, "open %s", path);
    } else if (flock(fd, LOCK_EX | LOCK_NB)) {
        bg_fail(
            err, BG_ERR_CONFLICT, 0,
            "a server runs here and has swept at its start; to sweep now stop it first: "
            "boxgate server stop");
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Where no server has run there is no instance, and nothing of it. */
static bool read_instance(const struct bg_paths *paths, char out[33])
{
    bg_autofree char *path = bg_path_join(paths->state, "instance");
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, 64);
    if (!bg_read_file(path, 64, true, &b, NULL) || b.len < 32)
        return false;
    snprintf(out, 33, "%.32s", b.data);
    return strspn(out, "0123456789abcdef") == 32;
}

static int sweep(const struct cli_args *a, const struct bg_paths *paths,
                 struct bg_config *config, struct bg_error *err)
{
    struct cli_probe p;
    struct swept s = {0};
    char instance[33];
    bool dry = cli_flag(a, "dry-run"), known = read_instance(paths, instance);
    const struct bg_provider_report *r =
        cli_probe_open(&p, config->provider, config, paths, known ? instance : NULL, err);
    if (r && !r->available)
        bg_fail(err, BG_ERR_UNAVAILABLE, 0, "the provider is not available: %s",
                r->why_not ? r->why_not : "?");
    if (!r || !r->available) {
        cli_probe_close(&p);
        return cli_fail(err);
    }
    cli_buf(&s.out);
    p.ops->sweep(p.provider, cli_flag(a, "foreign"), dry, on_swept, &s);
    while (!s.done)
        bg_loop_turn(p.loop, -1);
    cli_probe_close(&p);
    cli_out(&s.out);
    if (s.err.code)
        return cli_fail(&s.err);
    cli_note(dry ? "%zu would be removed" : "%zu removed", s.n);
    return BG_EXIT_OK;
}

static int run(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_paths paths;
    struct bg_error err = {0};
    int code;
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    bg_digest_init();
    if (!bg_paths_init(&paths, NULL, &err))
        return cli_fail(&err);
    struct bg_config *config = bg_config_load(paths.config_file, &err);
    if (config && config->provider == BG_PROVIDER_NONE) {
        bg_fail(&err, BG_ERR_CONFIG, 0,
                "no provider chosen; run: boxgate init --provider local");
        bg_config_free(config);
        config = NULL;
    }
    bg_autoclose int lock = -1;
    if (config && bg_paths_create(&paths, &err))
        lock = take_lock(&paths, &err);
    if (lock < 0) {
        bg_config_free(config);
        code = cli_fail(&err);
    } else {
        code = sweep(&a, &paths, config, &err);
    }
    bg_paths_free(&paths);
    return code;
}

static const struct bg_opt opts[] = {
    {"foreign", 0, NULL, "also what servers of other folders left"},
    {"dry-run", 'n', NULL, "only say what would be removed"},
    {0},
};

const struct bg_cmd cmd_sweep = {
    .name = "sweep",
    .args = "[--foreign] [--dry-run]",
    .summary = "remove sandboxes that a dead server left",
    .help =
        "A server does this itself when it starts. --foreign is for what belongs to\n"
        "folders that are gone; what is still in use is left. Look with --dry-run first.",
    .opts = opts,
    .run = run,
};

/* SPDX-License-Identifier: MIT */
/* server, server status, server stop. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "core/base/clock.h"
#include "core/base/values.h"
#include "core/cli/util.h"
#include "core/server/server.h"

#define GONE_MS 30000 /* a stop ends every session first */

/* ---- server ---- */

static void detach(int ready)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (setsid() < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
        dup2(null, 2) < 0 || chdir("/"))
        _exit(BG_EXIT_INTERNAL);
    if (null > 2)
        close(null);
    fcntl(ready, F_SETFD, FD_CLOEXEC);
}

static int start_detached(const struct bg_paths *paths)
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC)) {
        cli_note("no pipe can be made");
        return BG_EXIT_FAILED;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(ready[0]);
        detach(ready[1]);
        struct bg_server_opts o = {.paths = paths, .ready_fd = ready[1]};
        _exit(bg_server_main(&o));
    }
    close(ready[1]);
    struct bg_error err = {0};
    bool ok = pid < 0 ? bg_fail(&err, BG_ERR_UNAVAILABLE, errno, "fork")
                      : bg_client_await_ready(ready[0], &err);
    close(ready[0]);
    if (!ok)
        return cli_fail(&err);
    cli_note("the server runs; its folder is %s", paths->runtime);
    return BG_EXIT_OK;
}

/* True: one is there already, and that was said. */
static bool runs_already(void)
{
    struct cli_conn k;
    struct bg_error err = {0};
    bool there =
        cli_connect(&k, BG_ROLE_OBSERVER, "boxgate-server", false, NULL, NULL, &err);
    if (there)
        cli_note("the server runs already, pid %.0f",
                 cli_num(bg_client_hello(k.client), "pid"));
    cli_close(&k);
    return there;
}

static int run_server(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_paths paths;
    struct bg_error err = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    bool autostarted = cli_flag(&a, "autostarted");
    const char *fd = cli_value(&a, "ready-fd");
    int64_t ready_fd = -1;
    if (fd && (strspn(fd, "0123456789") != strlen(fd) || strlen(fd) > 5))
        return cli_usage(cmd, "--ready-fd takes a descriptor");
    if (fd)
        ready_fd = strtol(fd, NULL, 10);
    if (!bg_paths_init(&paths, NULL, &err))
        return cli_fail(&err);
    int code;
    if (cli_flag(&a, "foreground") || autostarted || fd) {
        if (fd)
            fcntl((int)ready_fd, F_SETFD, FD_CLOEXEC);
        struct bg_server_opts o = {.paths = &paths,
                                   .foreground = !autostarted && !fd,
                                   .autostarted = autostarted,
                                   .ready_fd = (int)ready_fd};
        code = bg_server_main(&o);
    } else {
        code = runs_already() ? BG_EXIT_OK : start_detached(&paths);
    }
    bg_paths_free(&paths);
    return code;
}

static const struct bg_opt server_opts[] = {
    {"foreground", 'f', NULL, "stay here and log to stderr"},
    {"autostarted", 0, NULL, NULL},
    {"ready-fd", 0, "N", NULL},
    {0},
};

const struct bg_cmd cmd_server = {
    .name = "server",
    .args = "[--foreground]",
    .summary = "start the server",
    .help =
        "Commands that need the server start it by themselves; such a server ends when it\n"
        "has had nothing to do for ten minutes. One started here stays.",
    .opts = server_opts,
    .run = run_server,
};

/* ---- server status ---- */

static void print_status(const cJSON *s)
{
    const cJSON *p = cJSON_GetObjectItemCaseSensitive(s, "provider"), *v;
    bg_autofree char *up = cli_span(cli_num(s, "uptimeMs"));
    bg_autofree char *off =
        bg_json_join(cJSON_GetObjectItemCaseSensitive(p, "notEnforced"), "nothing");
    struct bg_buf b;
    cli_buf(&b);
    bg_buf_printf(&b, "pid: %.0f\nversion: ", cli_num(s, "pid"));
    bg_text_safe(&b, cli_str(s, "version"), strlen(cli_str(s, "version")), 0);
    bg_buf_printf(&b, "\nup: %s\nsessions: %.0f\npending: %.0f\nrunning: %.0f\n", up,
                  cli_num(s, "sessions"), cli_num(s, "pending"), cli_num(s, "running"));
    bg_buf_printf(&b, "clients: %.0f\nmemory: %.1f MiB\n", cli_num(s, "clients"),
                  cli_num(s, "rssBytes") / 1048576);
    bg_autofree char *text =
        bg_xasprintf("%s, %s%s%s", cli_str(p, "name"),
                     cli_true(p, "available") ? cli_str(p, "version") : "NOT AVAILABLE",
                     *cli_str(p, "whyNot") ? ": " : "", cli_str(p, "whyNot"));
    bg_autofree char *provider = bg_text_safe_line(text, strlen(text), 0);
    bg_buf_printf(&b, "provider: %s\nnot enforced here: %s\n", provider, off);
    cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(s, "paths"))
    {
        bg_buf_printf(&b, "%s: ", v->string);
        bg_text_safe(&b, cJSON_IsString(v) ? v->valuestring : "",
                     cJSON_IsString(v) ? strlen(v->valuestring) : 0, 0);
        bg_buf_putc(&b, '\n');
    }
    cli_out(&b);
}

static int run_status(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_error err = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    bg_autojson cJSON *s =
        cli_ask(BG_ROLE_OBSERVER, "boxgate-server", false, "server.status", bg_jo(), &err);
    if (!s)
        return cli_fail(&err);
    if (cli_flag(&a, "json"))
        cli_out_json(s);
    else
        print_status(s);
    return BG_EXIT_OK;
}

const struct bg_cmd cmd_server_status = {
    .name = "server status",
    .args = "[--json]",
    .summary = "show what the server is doing and which folders it uses",
    .opts = cli_json_opt,
    .run = run_status,
};

/* ---- server stop ---- */

static bool wait_gone(int pidfd)
{
    struct pollfd p = {pidfd, POLLIN, 0};
    int64_t end = bg_mono_ms() + GONE_MS;
    for (int64_t left = GONE_MS; left > 0; left = end - bg_mono_ms())
        if (poll(&p, 1, (int)left) == 1)
            return true;
    return false;
}

static int stop(struct cli_conn *k, bool force)
{
    struct bg_error err = {0};
    cJSON *p = bg_jo();
    pid_t pid = (pid_t)cli_num(bg_client_hello(k->client), "pid");
    bg_autoclose int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (force)
        bg_jset_bool(p, "force", true);
    bg_autojson cJSON *res = bg_client_ask(k->client, "server.stop", p, &err);
    if (!res)
        return cli_fail(&err);
    if (pidfd >= 0 && !wait_gone(pidfd)) {
        cli_note("the server (pid %d) is still busy ending; see its server.log", (int)pid);
        return BG_EXIT_FAILED;
    }
    cli_note("the server has stopped");
    return BG_EXIT_OK;
}

static int run_stop(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct cli_conn k;
    struct bg_error err = {0};
    int code;
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    if (cli_connect(&k, BG_ROLE_OPERATOR, "boxgate-server", false, NULL, NULL, &err)) {
        code = stop(&k, cli_flag(&a, "force"));
    } else if (err.code == BG_ERR_UNAVAILABLE) {
        cli_note("no server runs");
        code = BG_EXIT_OK;
    } else {
        code = cli_fail(&err);
    }
    cli_close(&k);
    return code;
}

static const struct bg_opt stop_opts[] = {
    {"force", 'f', NULL, "also with requests pending or running: these end, undone"},
    {0},
};

const struct bg_cmd cmd_server_stop = {
    .name = "server stop",
    .args = "[--force]",
    .summary = "stop the server; closes every session",
    .opts = stop_opts,
    .run = run_stop,
};

/* SPDX-License-Identifier: MIT */
/*
 * Child processes: exactly the descriptors asked for, default signals, the environment
 * given. A child that was forgotten keeps its handle until it has been reaped.
 */
#include <linux/close_range.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/loop/loop_int.h"

#define CHILD_FDS_MAX 64

struct bg_child {
    uv_process_t uv;
    bg_child_fn fn; /* NULL once forgotten */
    void *data;
    bool ended;
};

static void on_exit_of_child(uv_process_t *h, int64_t status, int signo)
{
    struct bg_child *c = h->data;
    c->ended = true;
    if (c->fn)
        c->fn(c, (int)status, signo, c->data);
    else
        bg_loop_close_handle((uv_handle_t *)&c->uv);
}

static bool child_error(struct bg_error *err, const struct bg_child_opts *o, int rc)
{
    return bg_fail(err, BG_ERR_COMMAND, -rc, "can't start %s", o->file);
}

struct bg_child *bg_child_spawn(struct bg_loop *loop, const struct bg_child_opts *o,
                                bg_child_fn on_exit, void *data, struct bg_error *err)
{
    static char *no_env[] = {NULL};
    uv_stdio_container_t io[CHILD_FDS_MAX] = {{.flags = UV_IGNORE}};
    uv_process_options_t opt = {
        .exit_cb = on_exit_of_child,
        .file = o->file,
        .args = (char **)o->argv,
        .env = o->env ? (char **)o->env : no_env,
        .cwd = o->cwd ? o->cwd : "/",
        .flags = o->new_session ? UV_PROCESS_DETACHED : 0,
        .stdio_count = (int)o->n_fds,
        .stdio = io,
    };
    if (o->n_fds > CHILD_FDS_MAX) {
        bg_fail(err, BG_ERR_LIMIT, 0, "can't start %s: more than %d descriptors", o->file,
                CHILD_FDS_MAX);
        return NULL;
    }
    for (size_t i = 0; i < o->n_fds; i++)
        if (o->fds[i] >= 0)
            io[i] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = o->fds[i]};
    /* What somebody opened or left to us without O_CLOEXEC must not reach the child either.
     * Kernels without this call (before 5.11) have only each fd's own flag. */
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    struct bg_child *c = bg_xcalloc(1, sizeof *c);
    c->fn = on_exit;
    c->data = data;
    int rc = uv_spawn(&loop->uv, &c->uv, &opt);
    c->uv.data = c;
    if (rc) {
        bg_loop_close_handle((uv_handle_t *)&c->uv);
        child_error(err, o, rc);
        return NULL;
    }
    return c;
}

pid_t bg_child_pid(const struct bg_child *c)
{
    return c->uv.pid;
}

bool bg_child_kill(struct bg_child *c, int signo)
{
    return !c->ended && uv_process_kill(&c->uv, signo) == 0;
}

void bg_child_free(struct bg_child *c)
{
    if (!c)
        return;
    c->fn = NULL;
    if (c->ended)
        bg_loop_close_handle((uv_handle_t *)&c->uv);
    else
        uv_unref((uv_handle_t *)&c->uv);
}

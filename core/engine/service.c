/* SPDX-License-Identifier: MIT */
/*
 * Podman has no daemon: its API is there as long as `podman system service` runs. Ours is a
 * child on a socket in the runtime folder. It ends with us; if we are killed hard, by
 * itself once nobody has talked to it for a while.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/base/clock.h"
#include "core/engine/engine_int.h"

extern char **environ;

enum { POLL_MS = 30, RESTART_MS = 1000 };

struct engine_service {
    struct bg_loop *loop;
    struct bg_log *log;
    char *program, *socket;
    struct bg_child *child; /* NULL = not running */
    struct bg_timer *timer;
    int64_t since;
    int code, signo; /* of its last end */
    bg_engine_done_fn up;
    void *data;
    bool told;
};

/* The user's own, without what would send podman to some other engine. */
static char **service_env(void)
{
    static const char *const left_out[] = {
        "CONTAINER_HOST=", "DOCKER_HOST=", "CONTAINER_CONNECTION=", "BOXGATE_"};
    char **env = NULL;

    for (char **e = environ; *e; e++) {
        bool out = false;
        for (size_t i = 0; i < bg_countof(left_out); i++)
            out |= strncmp(*e, left_out[i], strlen(left_out[i])) == 0;
        if (!out)
            bg_strv_push(&env, *e);
    }
    return env;
}

static bool answers(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    bg_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || strlen(path) >= sizeof a.sun_path)
        return false;
    memcpy(a.sun_path, path, strlen(path) + 1);
    return connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
}

static void tell(struct engine_service *s, const struct bg_error *err)
{
    if (s->told)
        return;
    s->told = true;
    s->up(s->data, err);
}

static void on_exit_of_child(struct bg_child *c, int code, int signo, void *data)
{
    struct engine_service *s = data;

    bg_child_free(c);
    s->child = NULL;
    s->code = code;
    s->signo = signo;
    if (s->told) {
        bg_log(s->log, BG_LOG_WARN, "podman system service ended (exit %d, signal %d)",
               code, signo);
        bg_timer_start(s->timer, RESTART_MS, 0);
    }
}

static bool launch(struct engine_service *s, struct bg_error *err)
{
    bg_autofree char *url = bg_xasprintf("unix://%s", s->socket);
    bg_autofree char *idle = bg_xasprintf("--time=%d", BG_ENGINE_SERVICE_IDLE_S);
    char *const argv[] = {s->program, (char *)"system", (char *)"service", idle, url, NULL};
    char **env = service_env();
    const int fds[] = {-1, -1, -1};
    const struct bg_child_opts o = {.file = s->program,
                                    .argv = argv,
                                    .env = env,
                                    .fds = fds,
                                    .n_fds = bg_countof(fds),
                                    .new_session = true};

    unlink(s->socket);
    s->since = bg_mono_ms();
    s->child = bg_child_spawn(s->loop, &o, on_exit_of_child, s, err);
    bg_strv_free(env);
    return s->child != NULL;
}

static void on_timer(struct bg_timer *t, void *data)
{
    struct engine_service *s = data;
    struct bg_error err;

    if (s->told) { /* it ended: once more */
        if (!s->child && !launch(s, &err)) {
            bg_log(s->log, BG_LOG_WARN, "%s", err.msg);
            bg_timer_start(t, BG_ENGINE_RETRY_MAX_MS, 0);
        }
    } else if (!s->child && s->since == 0) {
        if (launch(s, &err))
            bg_timer_start(t, POLL_MS, 0);
        else
            tell(s, &err);
    } else if (answers(s->socket)) {
        tell(s, NULL);
    } else if (!s->child) {
        bg_fail(&err, BG_ERR_UNAVAILABLE, 0,
                "`podman system service` ended at once (exit %d, signal %d)", s->code,
                s->signo);
        tell(s, &err);
    } else if (bg_mono_ms() - s->since > BG_ENGINE_SERVICE_MS) {
        bg_fail(&err, BG_ERR_UNAVAILABLE, 0,
                "`podman system service` does not answer after %d s",
                BG_ENGINE_SERVICE_MS / 1000);
        tell(s, &err);
    } else {
        bg_timer_start(t, POLL_MS, 0);
    }
}

struct engine_service *engine_service_start(const struct bg_engine_opts *o,
                                            const char *program, bg_engine_done_fn up,
                                            void *data)
{
    struct engine_service *s = bg_xcalloc(1, sizeof *s);

    *s = (struct engine_service){.loop = o->loop,
                                 .log = o->log,
                                 .program = bg_xstrdup(program),
                                 .socket = bg_path_join(o->runtime_dir, "podman.sock"),
                                 .up = up,
                                 .data = data};
    s->timer = bg_timer_new(o->loop, on_timer, s);
    bg_timer_start(s->timer, 0, 0);
    return s;
}

const char *engine_service_socket(const struct engine_service *s)
{
    return s->socket;
}

void engine_service_stop(struct engine_service *s)
{
    if (!s)
        return;
    if (s->child) {
        bg_child_kill(s->child, SIGTERM);
        bg_child_free(s->child);
    }
    bg_timer_free(s->timer);
    unlink(s->socket);
    free(s->program);
    free(s->socket);
    free(s);
}

/* SPDX-License-Identifier: MIT */
/*
 * Starting the server on demand, tmux's way: lock, try once more, start, wait until it says
 * it is ready, unlock. The child gets a short environment: whoever starts it may be a
 * program an agent wrote, and nothing of its surroundings may steer the server.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/client/client_priv.h"

#define SAFE_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Only what paths are computed from. */
static const char *const keep_env[] = {
    "HOME",           "BOXGATE_HOME",    "XDG_CONFIG_HOME", "XDG_STATE_HOME",
    "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "TMPDIR"};

static char **server_env(void)
{
    char **env = NULL;
    bg_strv_push(&env, SAFE_PATH);
    bg_strv_push(&env, "LANG=C.UTF-8");
    for (size_t i = 0; i < bg_countof(keep_env); i++) {
        const char *v = getenv(keep_env[i]);
        if (!v)
            continue;
        bg_autofree char *kv = bg_xasprintf("%s=%s", keep_env[i], v);
        bg_strv_push(&env, kv);
    }
    return env;
}

/* In the child's child: a session of its own, nothing inherited but the ready pipe. */
static void exec_server(int ready, char **env)
{
    char fd_text[16];
    sigset_t none;
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
        dup2(ready, 3) < 0)
        _exit(127);
    close_range(4, ~0U, 0);
    snprintf(fd_text, sizeof fd_text, "%d", 3);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    if (chdir("/"))
        _exit(127);
    const char *argv[] = {"boxgate",    "server", "--autostarted",
                          "--ready-fd", fd_text,  NULL};
    execve("/proc/self/exe", (char *const *)argv, env);
    _exit(127);
}

static bool fork_server(int ready, struct bg_error *err)
{
    char **env = server_env();
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        pid_t inner = fork();
        if (inner == 0)
            exec_server(ready, env);
        _exit(inner < 0);
    }
    bg_strv_free(env);
    if (pid < 0)
        return bg_fail(err, BG_ERR_UNAVAILABLE, errno, "fork");
    int st;
    while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(st) || WEXITSTATUS(st))
        return bg_fail(err, BG_ERR_UNAVAILABLE, 0, "the server could not be started");
    return true;
}

bool bg_client_await_ready(int fd, struct bg_error *err)
{
    char line[BG_ERROR_MSG_MAX + 64] = "";
    size_t n = 0;
    int64_t end = bg_mono_ms() + BG_SERVER_READY_MS;
    while (n < sizeof line - 1 && !memchr(line, '\n', n)) {
        struct pollfd p = {fd, POLLIN, 0};
        int64_t left = end - bg_mono_ms();
        int rc = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (rc < 0 && errno == EINTR)
            continue;
        if (rc <= 0)
            return bg_fail(err, BG_ERR_TIMEOUT, 0,
                           "the server did not become ready in %d s; see its server.log",
                           BG_SERVER_READY_MS / 1000);
        ssize_t r = read(fd, line + n, sizeof line - 1 - n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            break;
        n += (size_t)r;
    }
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (!strcmp(line, "ok"))
        return true;
    char *colon = strstr(line, ": ");
    if (!colon)
        return bg_fail(err, BG_ERR_UNAVAILABLE, 0,
                       "the server ended while starting; try: boxgate server --foreground");
    *colon = '\0';
    return bg_fail(err, bg_errc_from_name(line), 0, "%s", colon + 2);
}

static int take_start_lock(const struct bg_paths *p, struct bg_error *err)
{
    bg_autofree char *path = bg_path_join(p->runtime, "start.lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        bg_fail(err, BG_ERR_IO, errno, "open %s", path);
        return -1;
    }
    while (flock(fd, LOCK_EX))
        if (errno != EINTR) {
            bg_fail(err, BG_ERR_IO, errno, "lock %s", path);
            close(fd);
            return -1;
        }
    return fd;
}

int client_start_and_connect(const struct bg_paths *p, const char *sock,
                             struct bg_error *err)
{
    if (!bg_dir_private(p->runtime, err))
        return -1;
    bg_autoclose int lock = take_start_lock(p, err);
    if (lock < 0)
        return -1;
    /* Somebody else may have started it while we waited for the lock. */
    int fd = bg_unix_connect(sock, NULL);
    if (fd >= 0)
        return fd;
    int ready[2];
    if (pipe2(ready, O_CLOEXEC)) {
        bg_fail(err, BG_ERR_IO, errno, "pipe");
        return -1;
    }
    bool ok = fork_server(ready[1], err);
    close(ready[1]);
    ok = ok && bg_client_await_ready(ready[0], err);
    close(ready[0]);
    return ok ? bg_unix_connect(sock, err) : -1;
}

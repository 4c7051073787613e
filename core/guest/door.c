/* SPDX-License-Identifier: MIT */
/*
 * The listener and its unknown peers. A peer is read 64 bytes and no more, within a second,
 * four at a time; it is our guest if its pid and its token say so. Programs of the sandbox
 * can see this socket while the link is down, so nothing they do here may cost more than
 * that.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/digest.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/guest/channel_int.h"

struct peer {
    struct bg_door *door;
    int fd; /* -1 = the place is free */
    pid_t pid;
    struct bg_poll *poll;
    struct bg_timer *timer;
    unsigned char hello[GP_HELLO_MAX];
    size_t n;
};

struct bg_door {
    struct bg_loop *loop;
    struct bg_door_events ev;
    void *data;
    char *path;
    int fd; /* -1 = shut */
    struct bg_poll *poll;
    pid_t expect; /* as in bg_channel_opts */
    bool has_token;
    unsigned char token[GP_TOKEN_LEN];
    struct peer peers[BG_AUTH_CONNS];
};

static void peer_drop(struct peer *p)
{
    if (p->fd < 0)
        return;
    bg_poll_free(p->poll);
    bg_timer_free(p->timer);
    close(p->fd);
    p->fd = -1;
    if (p->door->poll)
        bg_poll_set(p->door->poll, BG_READ); /* there is a place again */
}

static void peer_refuse(struct peer *p, const char *why)
{
    struct bg_door *d = p->door;
    peer_drop(p);
    d->ev.refused(d->data, why); /* may free the door */
}

static void peer_admit(struct peer *p)
{
    struct bg_door *d = p->door;
    int fd = p->fd;
    bg_poll_free(p->poll);
    bg_timer_free(p->timer);
    p->fd = -1;
    bg_door_shut(d);
    d->ev.admitted(d->data, fd);
}

/* NULL = a hello of our guest, as far as its bytes tell. */
static const char *hello_fault(const struct peer *p)
{
    struct gp_head h;
    struct gp_hello hello;
    if (bg_frame_parse(p->hello, p->n, &h) != 1 || h.type != GP_HELLO || h.id || h.epoch)
        return "a malformed hello";
    memcpy(&hello, p->hello + sizeof h, sizeof hello);
    if (hello.magic != GP_MAGIC || hello.version != GP_VERSION)
        return "a guest of another version";
    if (p->door->has_token && !bg_equal_ct(hello.token, p->door->token, GP_TOKEN_LEN))
        return "a wrong token";
    return NULL;
}

/* Once the hello is whole, and again when the pid becomes known. */
static void peer_judge(struct peer *p)
{
    const struct bg_door *d = p->door;
    const char *fault = hello_fault(p);
    if (!fault && d->expect > 0 && p->pid != d->expect)
        fault = "a process that is not the guest";
    if (fault) {
        peer_refuse(p, fault);
    } else if (d->expect == 0) {
        bg_timer_stop(p->timer);
        bg_poll_set(p->poll, BG_HUP);
    } else {
        peer_admit(p);
    }
}

static void on_peer(struct bg_poll *poll BG_UNUSED, int fd, unsigned events BG_UNUSED,
                    void *data)
{
    struct peer *p = data;
    struct gp_head h;
    if (p->n == sizeof p->hello) { /* waits for its pid to be known, and hung up */
        peer_drop(p);
        return;
    }
    ssize_t r = recv(fd, p->hello + p->n, sizeof p->hello - p->n, MSG_DONTWAIT);
    if (r < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (r <= 0) {
        peer_drop(p);
        return;
    }
    p->n += (size_t)r;
    if (p->n == sizeof p->hello)
        peer_judge(p);
    else if (bg_frame_parse(p->hello, p->n, &h) < 0 ||
             (p->n >= sizeof h && h.type != GP_HELLO))
        peer_refuse(p, "a malformed hello");
}

static void on_peer_timer(struct bg_timer *t BG_UNUSED, void *data)
{
    struct peer *p = data;
    if (p->n == sizeof p->hello)
        peer_judge(p);
    else
        peer_drop(p);
}

static struct peer *free_place(struct bg_door *d)
{
    for (size_t i = 0; i < BG_AUTH_CONNS; i++)
        if (d->peers[i].fd < 0)
            return &d->peers[i];
    return NULL;
}

static void on_knock(struct bg_poll *poll, int fd, unsigned events BG_UNUSED, void *data)
{
    struct bg_door *d = data;
    struct peer *p = free_place(d);
    if (!p) {
        bg_poll_set(poll, 0); /* peer_drop resumes */
        return;
    }
    int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (c < 0)
        return;
    struct ucred cred = {0};
    socklen_t len = sizeof cred;
    struct bg_poll *watch = bg_poll_new(d->loop, c, on_peer, p);
    if (!watch || getsockopt(c, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
        bg_poll_free(watch);
        close(c);
        return;
    }
    *p = (struct peer){.door = d, .fd = c, .pid = cred.pid, .poll = watch};
    p->timer = bg_timer_new(d->loop, on_peer_timer, p);
    bg_timer_start(p->timer, BG_AUTH_MS, 0);
    bg_poll_set(watch, BG_READ);
    if (d->expect > 0 && p->pid != d->expect)
        peer_refuse(p, "a process that is not the guest");
}

struct bg_door *bg_door_new(struct bg_loop *loop, const struct bg_channel_opts *o,
                            const struct bg_door_events *ev, void *data)
{
    struct bg_door *d = bg_xcalloc(1, sizeof *d);
    d->loop = loop;
    d->ev = *ev;
    d->data = data;
    d->path = bg_xstrdup(o->sock_path);
    d->fd = -1;
    d->expect = o->expect_pid;
    d->has_token = o->token != NULL;
    if (o->token)
        memcpy(d->token, o->token, sizeof d->token);
    for (size_t i = 0; i < BG_AUTH_CONNS; i++)
        d->peers[i] = (struct peer){.door = d, .fd = -1};
    return d;
}

bool bg_door_open(struct bg_door *d, struct bg_error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(d->path) >= sizeof a.sun_path)
        return bg_fail(err, BG_ERR_PATH, 0, "the link's path is longer than %zu bytes: %s",
                       sizeof a.sun_path - 1, d->path);
    memcpy(a.sun_path, d->path, strlen(d->path) + 1);
    bg_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return bg_fail(err, BG_ERR_IO, errno, "no socket");
    unlink(d->path);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0)
        return bg_fail(err, BG_ERR_IO, errno, "can't bind %s", d->path);
    if (chmod(d->path, 0666) < 0 || listen(fd, BG_AUTH_CONNS) < 0 ||
        !(d->poll = bg_poll_new(d->loop, fd, on_knock, d))) {
        int sys = errno;
        unlink(d->path);
        return bg_fail(err, BG_ERR_IO, sys, "can't listen at %s", d->path);
    }
    bg_poll_set(d->poll, BG_READ);
    d->fd = bg_steal_fd(&fd);
    return true;
}

void bg_door_shut(struct bg_door *d)
{
    if (d->fd < 0)
        return;
    bg_poll_free(d->poll);
    d->poll = NULL;
    close(d->fd);
    d->fd = -1;
    unlink(d->path);
    for (size_t i = 0; i < BG_AUTH_CONNS; i++)
        peer_drop(&d->peers[i]);
}

void bg_door_expect(struct bg_door *d, pid_t pid)
{
    d->expect = pid;
    for (size_t i = 0; i < BG_AUTH_CONNS; i++) {
        struct peer *p = &d->peers[i];
        if (p->fd >= 0 && p->n == sizeof p->hello)
            bg_timer_start(p->timer, 0,
                           0); /* judged in the next turn, not inside this call */
    }
}

void bg_door_free(struct bg_door *d)
{
    if (!d)
        return;
    bg_door_shut(d);
    free(d->path);
    free(d);
}

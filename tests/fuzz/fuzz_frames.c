/* SPDX-License-Identifier: MIT */
/*
 * Bytes as a guest might send them after WELCOME, over a real socket, to a channel with two
 * commands, one lossless, and a question for counters. The first byte of an input: bit 0 =
 * after a new link, the rest = where the bytes are cut in two. Then frames; since ids and
 * epochs are random, an epoch of 0 becomes the right one and ids 1 to 7 count from the
 * first command's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/guest/channel.h"
#include "core/guest/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct told {
    int started, done;
    uint64_t bytes[2];
};

static struct bg_loop *loop;
static struct bg_channel *ch;
static char path[64];

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void on_started(void *data, struct bg_exec *x BG_UNUSED)
{
    struct told *t = data;
    must(++t->started == 1 && !t->done);
}

static void on_output(void *data, struct bg_exec *x BG_UNUSED, enum bg_stream s,
                      const char *p, size_t n)
{
    struct told *t = data;
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (unsigned char)p[i]; /* the bytes are there */
    t->bytes[s - BG_STDOUT] += n + (sum & 0);
    must(t->started && !t->done);
}

static void on_done(void *data, struct bg_exec *x BG_UNUSED, const struct bg_exec_result *r,
                    const struct bg_error *err)
{
    struct told *t = data;
    must(++t->done == 1 && !r == !!err);
    must(!r || !r->started || t->started);
}

static void on_stats(void *data, const struct bg_guest_stats *s, const struct bg_error *err)
{
    must(++*(int *)data == 1 && !s == !!err);
}

static int link_up(uint32_t *epoch)
{
    struct {
        struct gp_head h;
        struct gp_hello hello;
    } out = {{.len = sizeof out.hello, .type = GP_HELLO},
             {.magic = GP_MAGIC, .version = GP_VERSION}};
    struct {
        struct gp_head h;
        struct gp_welcome w;
    } in;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strcpy(a.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    must(connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
    must(send(fd, &out, sizeof out, MSG_NOSIGNAL) == sizeof out);
    while (!bg_channel_up(ch))
        bg_loop_turn(loop, 100);
    must(recv(fd, &in, sizeof in, 0) == sizeof in && in.w.magic == GP_MAGIC);
    *epoch = in.w.epoch;
    return fd;
}

/* Heads are patched as the comment above says; what is no whole head stays as it is. */
static void patch(uint8_t *p, size_t n, uint32_t epoch, uint32_t first_id)
{
    struct gp_head h;
    for (size_t at = 0; n - at >= sizeof h; at += h.len) {
        memcpy(&h, p + at, sizeof h);
        if (h.epoch == 0)
            h.epoch = epoch;
        if (h.id >= 1 && h.id <= 7)
            h.id += first_id - 1;
        memcpy(p + at, &h, sizeof h);
        at += sizeof h;
        if (h.len > n - at)
            return;
    }
}

static void feed(int fd, const uint8_t *p, size_t n)
{
    while (n && bg_channel_up(ch)) {
        ssize_t r = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (r > 0) {
            p += r;
            n -= (size_t)r;
        }
        bg_loop_turn(loop, 0);
        if (r < 0 && !bg_channel_up(ch))
            return;
    }
    bg_loop_turn(loop, 0);
}

static struct bg_exec *start(enum bg_flow flow, struct told *t)
{
    static const struct bg_exec_events ev = {on_started, on_output, NULL, on_done};
    static const char *const argv[] = {"prog", NULL};
    struct bg_exec_spec spec = {.argv = (char *const *)argv,
                                .cwd = "/",
                                .input = "input",
                                .input_len = 5,
                                .flow = flow};
    return bg_exec_start(ch, &spec, &ev, t);
}

static char dir[] = "/tmp/bg-fuzz-XXXXXX";

static void clean_up(void)
{
    bg_loop_free(loop);
    rmdir(dir);
}

static void listen_once(void)
{
    static const struct bg_channel_events none;
    struct bg_error err;
    if (!loop) {
        must(mkdtemp(dir) != NULL);
        snprintf(path, sizeof path, "%s/s", dir);
        loop = bg_loop_new();
        atexit(clean_up);
    }
    struct bg_channel_opts o = {.sock_path = path, .expect_pid = getpid()};
    ch = bg_channel_listen(loop, &o, &none, NULL, &err);
    must(ch != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct told a = {0}, b = {0};
    int stats = 0;
    uint32_t epoch;
    if (size < 1)
        return 0;
    listen_once();
    int fd = link_up(&epoch);
    uint32_t first = bg_exec_id(start(BG_FLOW_LOSSLESS, &a));
    start(BG_FLOW_TAIL, &b);
    bg_channel_stats(ch, on_stats, &stats);
    if (data[0] & 1) {
        close(fd);
        while (bg_channel_up(ch))
            bg_loop_turn(loop, 100);
        fd = link_up(&epoch);
    }
    size_t n = size - 1, cut = data[0] >> 1 < n ? data[0] >> 1 : n;
    uint8_t *p = malloc(n + 1);
    must(p != NULL);
    memcpy(p, data + 1, n);
    patch(p, n, epoch, first);
    feed(fd, p, cut);
    feed(fd, p + cut, n - cut);
    must(a.bytes[0] <= GP_CREDIT && a.bytes[1] <= GP_CREDIT); /* nothing was consumed */
    bg_channel_free(ch);
    must(a.done == 1 && b.done == 1 && stats == 1);
    close(fd);
    free(p);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * One JSON-RPC connection: a line buffer in, a write queue out, descriptors beside the
 * lines.
 *
 * Freeing is safe from any callback: `dead` marks a connection whose owner let go while one
 * of its callbacks was still on the stack, and the last one out frees it.
 */
#include "core/rpc/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

#include "core/base/mem.h"
#include "core/base/values.h"

#define READ_STEP 65536
#define FDS_MAX 2           /* kept for one line */
#define CMSG_FDS 253        /* the kernel's own limit of one message */
#define PACED_BYTES 1048576 /* answers that may wait while more is read, bg_rpc_pace */

struct call {
    struct call *next;
    int64_t id;
    bg_rpc_fn fn;
    void *data;
};

/* Descriptors ride with the byte at which their sendmsg began. */
struct out_fds {
    struct out_fds *next;
    uint64_t at; /* absolute offset in the output */
    int fds[2];
    size_t n;
};

struct bg_rpc {
    struct bg_loop *loop;
    struct bg_poll *poll;
    int fd;
    struct bg_buf in, out;
    size_t scanned; /* bytes of `in` known to hold no newline */
    size_t line_max;
    uint64_t out_sent; /* absolute */
    struct out_fds *out_fds, **out_fds_tail;
    int in_fds[FDS_MAX];
    size_t n_in_fds;
    int64_t next_id;
    struct call *calls, **calls_tail;
    const struct bg_rpc_events *ev;
    void *data;
    int depth; /* callbacks on the stack */
    bool dead, closed, paced;
    bool left; /* whole lines may wait in `in` until the peer has taken its answers */
};

static void on_poll(struct bg_poll *p, int fd, unsigned events, void *data);

struct bg_rpc *bg_rpc_new(struct bg_loop *loop, int fd, const struct bg_rpc_events *ev,
                          void *data)
{
    struct bg_rpc *c = bg_xcalloc(1, sizeof *c);
    c->loop = loop;
    c->fd = fd;
    c->ev = ev;
    c->data = data;
    c->line_max = BG_JSON_HELLO_MAX;
    c->next_id = 1;
    c->calls_tail = &c->calls;
    c->out_fds_tail = &c->out_fds;
    bg_buf_init(&c->in, BG_JSON_LINE_MAX + READ_STEP);
    /* Twice the line cap: a full answer behind a full queue; past that the peer is cut off.
     */
    bg_buf_init(&c->out, 2 * (size_t)BG_JSON_LINE_MAX);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    c->poll = bg_poll_new(loop, fd, on_poll, c);
    bg_poll_set(c->poll, BG_READ);
    return c;
}

static void drop_in_fds(struct bg_rpc *c, size_t from)
{
    for (size_t i = from; i < c->n_in_fds; i++)
        close(c->in_fds[i]);
    c->n_in_fds = from < c->n_in_fds ? from : c->n_in_fds;
}

/* Every open call hears that the peer is gone; c may be let go by one of them. */
static void fail_calls(struct bg_rpc *c, const struct bg_error *err)
{
    while (c->calls) {
        struct call *k = c->calls;
        c->calls = k->next;
        if (!c->calls)
            c->calls_tail = &c->calls;
        if (k->fn)
            k->fn(k->data, NULL, err);
        free(k);
    }
}

static void destroy(struct bg_rpc *c)
{
    bg_poll_free(c->poll);
    close(c->fd);
    drop_in_fds(c, 0);
    while (c->out_fds) {
        struct out_fds *o = c->out_fds;
        c->out_fds = o->next;
        for (size_t i = 0; i < o->n; i++)
            close(o->fds[i]);
        free(o);
    }
    while (c->calls) {
        struct call *k = c->calls;
        c->calls = k->next;
        free(k);
    }
    bg_buf_free(&c->in);
    bg_buf_free(&c->out);
    free(c);
}

void bg_rpc_free(struct bg_rpc *c)
{
    if (!c || c->dead)
        return;
    c->dead = true;
    if (!c->depth)
        destroy(c);
}

static void leave(struct bg_rpc *c)
{
    if (--c->depth == 0 && c->dead)
        destroy(c);
}

static void fail(struct bg_rpc *c, enum bg_errc code, int sys, const char *text)
{
    struct bg_error err = {0};
    if (c->closed || c->dead)
        return;
    c->closed = true;
    bg_poll_set(c->poll, 0);
    bg_fail(&err, code, sys, "%s", text);
    c->depth++;
    fail_calls(c, &err);
    if (!c->dead)
        c->ev->closed(c->data, c, &err);
    leave(c);
}

void bg_rpc_trust(struct bg_rpc *c)
{
    c->line_max = BG_JSON_LINE_MAX;
}

void bg_rpc_pace(struct bg_rpc *c)
{
    c->paced = true;
}

/* Whoever does not take its answers is not asked for more questions. */
static bool held(const struct bg_rpc *c)
{
    return c->paced && c->out.len > PACED_BYTES;
}

size_t bg_rpc_behind(const struct bg_rpc *c)
{
    return c->out.len;
}

/* ---- out ---- */

static ssize_t send_some(struct bg_rpc *c)
{
    struct out_fds *o = c->out_fds;
    size_t n = c->out.len;
    /* A control message must begin its own send, so what is before it goes first. */
    if (o && o->at > c->out_sent && o->at - c->out_sent < n)
        n = (size_t)(o->at - c->out_sent);
    struct iovec iov = {c->out.data, n};
    struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
    union {
        char buf[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } u;
    if (o && o->at == c->out_sent) {
        memset(&u, 0, sizeof u);
        mh.msg_control = u.buf;
        mh.msg_controllen = CMSG_SPACE(o->n * sizeof(int));
        struct cmsghdr *cm = CMSG_FIRSTHDR(&mh);
        cm->cmsg_level = SOL_SOCKET;
        cm->cmsg_type = SCM_RIGHTS;
        cm->cmsg_len = CMSG_LEN(o->n * sizeof(int));
        memcpy(CMSG_DATA(cm), o->fds, o->n * sizeof(int));
    }
    ssize_t w = sendmsg(c->fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (w > 0 && mh.msg_control) {
        c->out_fds = o->next;
        if (!c->out_fds)
            c->out_fds_tail = &c->out_fds;
        for (size_t i = 0; i < o->n; i++)
            close(o->fds[i]);
        free(o);
    }
    return w;
}

static void flush(struct bg_rpc *c)
{
    while (c->out.len && !c->closed) {
        ssize_t w = send_some(c);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        /* A peer that is gone shows as end of file on the read side too; the reader tells
         * it, so that what the peer said last is still heard. */
        if (w < 0) {
            bg_buf_clear(&c->out);
            break;
        }
        bg_buf_consume(&c->out, (size_t)w);
        c->out_sent += (uint64_t)w;
    }
    if (!c->out.len && c->out.cap > READ_STEP)
        bg_buf_shrink(&c->out);
    if (!c->closed)
        bg_poll_set(c->poll,
                    (held(c) ? 0 : BG_READ) | (c->out.len || c->left ? BG_WRITE : 0));
}

static void overflow_deferred(void *data)
{
    struct bg_rpc *c = data;
    fail(c, BG_ERR_LIMIT, 0, "the peer does not read its answers");
    leave(c);
}

static void send_text(struct bg_rpc *c, char *text, const int *fds, size_t n_fds)
{
    bg_autofree char *own = text;
    size_t n = strlen(own);
    if (c->dead || c->closed)
        return;
    own[n] = '\n'; /* the NUL's place: one append for line and end */
    if (n_fds) {
        struct out_fds *o = bg_xcalloc(1, sizeof *o);
        o->at = c->out_sent + c->out.len;
        for (size_t i = 0; i < n_fds && i < 2; i++)
            o->fds[o->n++] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        *c->out_fds_tail = o;
        c->out_fds_tail = &o->next;
    }
    if (!bg_buf_add(&c->out, own, n + 1, NULL)) {
        /* The callers of reply and notify do not expect the connection to end under them.
         */
        c->depth++;
        bg_loop_defer(c->loop, overflow_deferred, c);
        return;
    }
    flush(c);
}

static char *envelope(const char *id_raw, const char *key, const char *value)
{
    return bg_xasprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"%s\":%s}", id_raw, key, value);
}

void bg_rpc_reply(struct bg_rpc *c, const char *id_raw, cJSON *result)
{
    bg_autojson cJSON *own = result;
    if (!id_raw)
        return;
    bg_autofree char *r = own ? bg_json_print(own) : bg_xstrdup("{}");
    send_text(c, envelope(id_raw, "result", r), NULL, 0);
}

static void send_error(struct bg_rpc *c, const char *id_raw, int code, const char *text,
                       const char *class)
{
    bg_autojson cJSON *e = bg_jo();
    bg_jset_int(e, "code", code);
    bg_jset_str(e, "message", text);
    if (class) {
        cJSON *d = bg_jo();
        bg_jset_str(d, "class", class);
        bg_jset(e, "data", d);
    }
    bg_autofree char *s = bg_json_print(e);
    send_text(c, envelope(id_raw ? id_raw : "null", "error", s), NULL, 0);
}

void bg_rpc_error(struct bg_rpc *c, const char *id_raw, const struct bg_error *err)
{
    if (id_raw)
        send_error(c, id_raw, bg_rpc_code_of(err->code), err->msg, bg_errc_name(err->code));
}

void bg_rpc_error_code(struct bg_rpc *c, const char *id_raw, int code, const char *text)
{
    send_error(c, id_raw, code, text, NULL);
}

static char *request_text(const char *id, const char *method, const cJSON *params)
{
    bg_autojson cJSON *m = cJSON_CreateString(method);
    bg_autofree char *ms = bg_json_print(m);
    bg_autofree char *ps = params ? bg_json_print(params) : bg_xstrdup("{}");
    if (id)
        return bg_xasprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":%s,\"params\":%s}",
                            id, ms, ps);
    return bg_xasprintf("{\"jsonrpc\":\"2.0\",\"method\":%s,\"params\":%s}", ms, ps);
}

void bg_rpc_notify(struct bg_rpc *c, const char *method, cJSON *params)
{
    bg_autojson cJSON *own = params;
    send_text(c, request_text(NULL, method, own), NULL, 0);
}

void bg_rpc_call(struct bg_rpc *c, const char *method, cJSON *params, const int *fds,
                 size_t n_fds, bg_rpc_fn cb, void *cb_data)
{
    bg_autojson cJSON *own = params;
    char id[32];
    struct call *k = bg_xcalloc(1, sizeof *k);
    k->id = c->next_id++;
    k->fn = cb;
    k->data = cb_data;
    *c->calls_tail = k;
    c->calls_tail = &k->next;
    snprintf(id, sizeof id, "%lld", (long long)k->id);
    send_text(c, request_text(id, method, own), fds, n_fds);
}

/* ---- in ---- */

static void response(struct bg_rpc *c, const struct bg_rpc_msg *m)
{
    char *end;
    long long id = strtoll(m->id_raw, &end, 10);
    if (*end)
        return;
    for (struct call **pp = &c->calls; *pp; pp = &(*pp)->next) {
        struct call *k = *pp;
        if (k->id != id)
            continue;
        *pp = k->next;
        if (!*pp)
            c->calls_tail = pp;
        struct bg_error err = {0};
        if (m->error) {
            const cJSON *d = cJSON_GetObjectItemCaseSensitive(m->error, "data");
            const cJSON *cl = d ? cJSON_GetObjectItemCaseSensitive(d, "class") : NULL;
            const cJSON *t = cJSON_GetObjectItemCaseSensitive(m->error, "message");
            bg_fail(
                &err,
                cJSON_IsString(cl) ? bg_errc_from_name(cl->valuestring) : BG_ERR_PROTOCOL,
                0, "%s", cJSON_IsString(t) ? t->valuestring : "the server gave no reason");
        }
        if (k->fn)
            k->fn(k->data, m->result, m->error ? &err : NULL);
        free(k);
        return;
    }
}

static void line(struct bg_rpc *c, const char *p, size_t n)
{
    struct bg_rpc_msg m;
    struct bg_error err = {0};
    bg_autojson cJSON *j = bg_rpc_parse(p, n, c->line_max, &m, &err);
    if (!j) {
        drop_in_fds(c, 0);
        bg_rpc_error_code(c, NULL, err.code == BG_ERR_LIMIT ? BG_RPC_INVALID : BG_RPC_PARSE,
                          err.msg);
        /* Whoever sends one broken line may have lost its place; there is no
         * resynchronising. */
        fail(c, BG_ERR_PROTOCOL, 0, err.msg);
        return;
    }
    bg_autofree char *id BG_UNUSED = m.id_raw; /* freed on every way out */
    for (size_t i = 0; i < c->n_in_fds; i++)
        m.fds[i] = c->in_fds[i];
    c->n_in_fds = 0;
    if (m.method)
        c->ev->request(c->data, c, &m);
    else
        response(c, &m);
    for (size_t i = 0; i < 2; i++)
        if (m.fds[i] >= 0)
            close(m.fds[i]);
}

static void lines(struct bg_rpc *c)
{
    size_t done = 0;
    while (!c->dead && !c->closed && !held(c)) {
        char *nl =
            memchr(c->in.data + done + c->scanned, '\n', c->in.len - done - c->scanned);
        if (!nl) {
            c->scanned = c->in.len - done;
            break;
        }
        size_t n = (size_t)(nl - (c->in.data + done));
        c->scanned = 0;
        if (n)
            line(c, c->in.data + done, n);
        done += n + 1;
    }
    if (c->dead)
        return;
    bg_buf_consume(&c->in, done);
    c->left = c->in.len && held(c);
    if (!c->in.len && c->in.cap > READ_STEP * 2)
        bg_buf_shrink(&c->in);
    if (!c->closed && !held(c) && c->in.len > c->line_max)
        fail(c, BG_ERR_LIMIT, 0, "a line is longer than the limit");
}

/*
 * Of what comes only the write end of a pipe is kept, as an open file of our own. A socket
 * might be this connection's other end, which would then never end; and the flags of a
 * shared open file are the peer's to change: without O_NONBLOCK a full pipe would hold the
 * loop. Both questions go to the kernel's table, not to a file system that a peer may have
 * made.
 */
static int adopt_pipe(int fd)
{
    char name[32], what[16];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(name, what, sizeof what);
    bool pipe = fcntl(fd, F_GETPIPE_SZ) > 0 && n > 6 && !memcmp(what, "pipe:[", 6) &&
                (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
    int own = pipe ? open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    close(fd);
    return own;
}

static void take_fds(struct bg_rpc *c, struct msghdr *mh)
{
    for (struct cmsghdr *cm = CMSG_FIRSTHDR(mh); cm; cm = CMSG_NXTHDR(mh, cm)) {
        if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof fd);
            int own = adopt_pipe(fd);
            if (own >= 0 && c->n_in_fds < FDS_MAX)
                c->in_fds[c->n_in_fds++] = own;
            else if (own >= 0)
                close(own);
        }
    }
}

/* One step per turn: a peer that floods does not keep the others waiting. */
static void read_some(struct bg_rpc *c)
{
    union {
        char buf[CMSG_SPACE(CMSG_FDS * sizeof(int))];
        struct cmsghdr align;
    } u;
    char *room = bg_buf_reserve(&c->in, READ_STEP);
    if (!room) {
        fail(c, BG_ERR_LIMIT, 0, "a line is longer than the limit");
        return;
    }
    struct iovec iov = {room, READ_STEP};
    struct msghdr mh = {.msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = u.buf,
                        .msg_controllen = sizeof u.buf};
    ssize_t n = recvmsg(c->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            fail(c, BG_ERR_IO, errno, "read");
        return;
    }
    if (n == 0) {
        fail(c, BG_ERR_IO, 0, "the connection was closed");
        return;
    }
    take_fds(c, &mh);
    c->in.len += (size_t)n;
    c->in.data[c->in.len] = '\0';
    lines(c);
}

static void on_poll(struct bg_poll *p BG_UNUSED, int fd BG_UNUSED, unsigned events,
                    void *data)
{
    struct bg_rpc *c = data;
    c->depth++;
    if (events & (BG_READ | BG_HUP) && !held(c))
        read_some(c);
    if (!c->dead && !c->closed && (events & BG_WRITE)) {
        flush(c);
        if (c->left && !held(c))
            lines(c);
    }
    leave(c);
}

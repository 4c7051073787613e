/* SPDX-License-Identifier: MIT */
/*
 * libcurl's multi interface on our loop. curl tells which sockets it wants watched and when
 * it wants to be woken; it may not be called from its own callbacks, so what arrives is
 * kept and handed on once curl has returned.
 */
#include "core/net/http.h"

#include <unistd.h>

#include <curl/curl.h>

#include "core/base/mem.h"
#include "core/base/values.h"

struct sock {
    struct sock *next;
    struct bg_http *h;
    curl_socket_t fd;
    struct bg_poll *poll;
};

struct bg_http_call {
    struct bg_http_call *next;
    struct bg_http *h;
    struct bg_http_events ev;
    void *data;
    CURL *easy;
    struct curl_slist *headers;
    char *url, *body;
    int64_t timeout_ms;
    bool stream;
    struct bg_buf in;  /* the answer, or a stream's bytes not handed on yet */
    size_t head;       /* bytes of headers so far */
    const char *fault; /* why a callback ended the transfer */
    bool head_over;    /* its blank line was there: curl takes the end for it, too */
    bool finished, cancelled;
    CURLcode code;
};

struct bg_http {
    struct bg_loop *loop;
    CURLM *multi;
    struct bg_timer *timer, *soon;
    struct sock *socks;
    struct bg_http_call *calls;
    char *socket, *what;
    unsigned depth; /* callbacks on the stack */
    bool dead;      /* freed inside one of them */
};

enum { IN_STREAM_MAX = 1048576, CONNECT_MS = 5000, KEPT_CONNECTIONS = 4 };

/* ---- the end of a call ---- */

static void call_free(struct bg_http_call *c)
{
    for (struct bg_http_call **at = &c->h->calls; *at; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            break;
        }
    }
    curl_multi_remove_handle(c->h->multi, c->easy);
    curl_easy_cleanup(c->easy);
    curl_slist_free_all(c->headers);
    bg_buf_free(&c->in);
    free(c->url);
    free(c->body);
    free(c);
}

static void transfer_error(const struct bg_http_call *c, struct bg_error *err)
{
    const char *what = c->h->what;

    if (c->fault)
        bg_fail(err, BG_ERR_UNAVAILABLE, 0, "%s: %s", what, c->fault);
    else if (c->code == CURLE_OPERATION_TIMEDOUT)
        bg_fail(err, BG_ERR_UNAVAILABLE, 0, "%s did not answer within %lld s", what,
                (long long)(c->timeout_ms ? c->timeout_ms : CONNECT_MS) / 1000);
    else if (c->code == CURLE_COULDNT_CONNECT)
        bg_fail(err, BG_ERR_UNAVAILABLE, 0, "%s can't be reached", what);
    else if (c->code == CURLE_PARTIAL_FILE || c->code == CURLE_RECV_ERROR ||
             c->code == CURLE_GOT_NOTHING || c->code == CURLE_SEND_ERROR)
        bg_fail(err, BG_ERR_UNAVAILABLE, 0, "%s cut its answer off", what);
    else
        bg_fail(err, BG_ERR_UNAVAILABLE, 0, "%s did not answer in HTTP: %s", what,
                curl_easy_strerror(c->code));
}

static void call_finish(struct bg_http_call *c)
{
    struct bg_http_answer a = {0};
    struct bg_http_events ev = c->ev;
    void *data = c->data;
    bool cancelled = c->cancelled;
    struct bg_error err;
    long status = 0;

    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    a.status = (int)status;
    if (c->code != CURLE_OK)
        transfer_error(c, &err);
    a.body = c->in;
    c->in = (struct bg_buf){0};
    CURLcode code = c->code;
    call_free(c);
    if (!cancelled)
        ev.done(data, code == CURLE_OK ? &a : NULL, code == CURLE_OK ? NULL : &err);
    bg_buf_free(&a.body);
}

static bool streams_now(const struct bg_http_call *c)
{
    long status = 0;

    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    return c->stream && status >= 200 && status < 300;
}

static void hand_on(struct bg_http_call *c)
{
    struct bg_buf in = c->in;

    bg_buf_init(&c->in, in.max);
    if (!c->cancelled)
        c->ev.chunk(c->data, in.data, in.len);
    bg_buf_free(&in);
}

static void free_http(struct bg_http *h)
{
    while (h->calls)
        call_free(h->calls);
    curl_multi_cleanup(h->multi);
    while (h->socks) {
        struct sock *s = h->socks;
        h->socks = s->next;
        bg_poll_free(s->poll);
        free(s);
    }
    bg_timer_free(h->timer);
    bg_timer_free(h->soon);
    free(h->socket);
    free(h->what);
    free(h);
}

/* What curl left behind, call by call; any callback may start, cancel or free anything. */
static void work_off(struct bg_http *h)
{
    CURLMsg *m;
    int left;

    h->depth++;
    while ((m = curl_multi_info_read(h->multi, &left))) {
        struct bg_http_call *c;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &c);
        c->finished = true;
        c->code = m->data.result;
        if (c->code == CURLE_OK && !c->head_over)
            c->code = CURLE_GOT_NOTHING;
    }
    for (bool again = true; again && !h->dead;) {
        again = false;
        for (struct bg_http_call *c = h->calls; c && !again; c = c->next) {
            again = true;
            if (c->cancelled)
                call_free(c);
            else if (c->in.len > 0 && streams_now(c))
                hand_on(c);
            else if (c->finished)
                call_finish(c);
            else
                again = false;
        }
    }
    if (--h->depth == 0 && h->dead)
        free_http(h);
}

/* ---- curl's callbacks ---- */

static size_t on_body(char *p, size_t size, size_t n, void *data)
{
    struct bg_http_call *c = data;

    if (c->cancelled)
        return 0;
    if (bg_buf_add(&c->in, p, size * n, NULL))
        return size * n;
    c->fault = "its answer is larger than boxgate takes";
    return 0;
}

static size_t on_head(char *p, size_t size, size_t n, void *data)
{
    struct bg_http_call *c = data;

    c->head += size * n;
    if (size * n >= 5 && memcmp(p, "HTTP/", 5) == 0)
        c->head_over = false;
    else if (size * n <= 2 && (*p == '\r' || *p == '\n'))
        c->head_over = true;
    if (c->head <= BG_HTTP_HEAD_MAX && !c->cancelled)
        return size * n;
    c->fault = "its answer begins with too many headers";
    return 0;
}

static void act(struct bg_http *h, curl_socket_t fd, int what)
{
    int running;

    h->depth++;
    curl_multi_socket_action(h->multi, fd, what, &running);
    h->depth--;
    work_off(h);
}

static void on_poll(struct bg_poll *p BG_UNUSED, int fd, unsigned events, void *data)
{
    struct sock *s = data;

    act(s->h, fd,
        (events & BG_READ ? CURL_CSELECT_IN : 0) |
            (events & BG_WRITE ? CURL_CSELECT_OUT : 0) |
            (events & BG_HUP ? CURL_CSELECT_ERR : 0));
}

static void on_timer(struct bg_timer *t BG_UNUSED, void *data)
{
    act(data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_soon(struct bg_timer *t BG_UNUSED, void *data)
{
    work_off(data);
}

static int set_timer(CURLM *m BG_UNUSED, long ms, void *data)
{
    struct bg_http *h = data;

    if (ms < 0)
        bg_timer_stop(h->timer);
    else
        bg_timer_start(h->timer, ms, 0);
    return 0;
}

static struct sock **find_sock(struct bg_http *h, curl_socket_t fd)
{
    struct sock **at = &h->socks;

    while (*at && (*at)->fd != fd)
        at = &(*at)->next;
    return at;
}

static void drop_sock(struct bg_http *h, curl_socket_t fd)
{
    struct sock **at = find_sock(h, fd), *s = *at;

    if (!s)
        return;
    *at = s->next;
    bg_poll_free(s->poll);
    free(s);
}

static int watch_socket(CURL *easy BG_UNUSED, curl_socket_t fd, int what, void *data,
                        void *own BG_UNUSED)
{
    struct bg_http *h = data;
    struct sock *s = *find_sock(h, fd);

    if (what == CURL_POLL_REMOVE) {
        drop_sock(h, fd);
        return 0;
    }
    if (!s) {
        s = bg_xcalloc(1, sizeof *s);
        *s = (struct sock){.next = h->socks, .h = h, .fd = fd};
        s->poll = bg_poll_new(h->loop, fd, on_poll, s);
        if (!s->poll) {
            free(s);
            return -1;
        }
        h->socks = s;
    }
    bg_poll_set(s->poll, (what & CURL_POLL_IN ? (unsigned)BG_READ : 0u) |
                             (what & CURL_POLL_OUT ? (unsigned)BG_WRITE : 0u));
    return 0;
}

/* The watcher goes first: libuv must never see a closed descriptor. */
static int close_socket(void *data, curl_socket_t fd)
{
    drop_sock(data, fd);
    return close(fd);
}

/* ---- calls ---- */

static void set_options(struct bg_http_call *c, const struct bg_http_request *r)
{
    CURL *e = c->easy;

    curl_easy_setopt(e, CURLOPT_PRIVATE, c);
    curl_easy_setopt(e, CURLOPT_URL, c->url);
    curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, c->h->socket);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms);
    curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    curl_easy_setopt(e, CURLOPT_CLOSESOCKETDATA, c->h);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_head);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, c);
    if (strcmp(r->method, "HEAD") == 0)
        curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, r->method);
    if (strcmp(r->method, "POST") == 0) {
        curl_easy_setopt(e, CURLOPT_POSTFIELDS, c->body ? c->body : "");
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE, c->body ? (long)strlen(c->body) : 0L);
        c->headers = curl_slist_append(NULL, "Content-Type: application/json");
    }
    c->headers = curl_slist_append(c->headers, "Expect:"); /* no 100-continue */
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->headers);
    if (r->once) {
        curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
    }
}

struct bg_http_call *bg_http_start(struct bg_http *h, const struct bg_http_request *r,
                                   const struct bg_http_events *ev, void *data)
{
    struct bg_http_call *c = bg_xcalloc(1, sizeof *c);

    *c = (struct bg_http_call){.h = h,
                               .ev = *ev,
                               .data = data,
                               .timeout_ms = r->timeout_ms,
                               .stream = r->stream,
                               .easy = curl_easy_init()};
    if (!c->easy)
        abort(); /* memory is out */
    c->url = bg_xasprintf("http://engine%s", r->path);
    c->body = bg_xstrdup(r->body);
    bg_buf_init(&c->in, r->stream && r->max < IN_STREAM_MAX ? IN_STREAM_MAX : r->max);
    set_options(c, r);
    c->next = h->calls;
    h->calls = c;
    CURLMcode rc = curl_multi_add_handle(h->multi, c->easy);
    if (rc != CURLM_OK) {
        c->fault = curl_multi_strerror(rc);
        c->code = CURLE_FAILED_INIT;
        c->finished = true;
        bg_timer_start(h->soon, 0, 0);
    }
    return c;
}

void bg_http_cancel(struct bg_http_call *c)
{
    c->cancelled = true;
    if (c->h->depth == 0)
        call_free(c);
}

struct bg_http *bg_http_new(struct bg_loop *loop, const char *socket, const char *what)
{
    struct bg_http *h = bg_xcalloc(1, sizeof *h);

    /* Once per process; libcurl counts the calls itself. */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        !(h->multi = curl_multi_init()))
        abort();
    h->loop = loop;
    h->socket = bg_xstrdup(socket);
    h->what = bg_xstrdup(what);
    h->timer = bg_timer_new(loop, on_timer, h);
    h->soon = bg_timer_new(loop, on_soon, h);
    curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
    curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
    curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)KEPT_CONNECTIONS);
    return h;
}

void bg_http_free(struct bg_http *h)
{
    if (!h)
        return;
    for (struct bg_http_call *c = h->calls; c; c = c->next)
        c->cancelled = true;
    h->dead = true;
    if (h->depth == 0)
        free_http(h);
}

const char *bg_http_socket(const struct bg_http *h)
{
    return h->socket;
}

void bg_http_encode(struct bg_buf *out, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                     (c >= 'a' && c <= 'z') || c == '-' || c == '_' || c == '.' || c == '~';
        if (plain)
            bg_buf_putc(out, *s);
        else
            bg_buf_printf(out, "%%%02X", c);
    }
}

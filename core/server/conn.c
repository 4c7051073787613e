/* SPDX-License-Identifier: MIT */
/*
 * Connections: who is at the other end (checked at accept, not believed later), hello, and
 * the end of a connection. The role is the socket's; `want` may only give some of it up.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/server/server_priv.h"

/* Field 22 of /proc/PID/stat: tells a reused pid from the process that connected. */
static uint64_t start_time_of(pid_t pid)
{
    char path[64];
    struct bg_buf b;
    uint64_t t = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    bg_buf_init(&b, 4096);
    if (bg_read_file(path, 4096, false, &b, NULL)) {
        char *p = strrchr(b.data, ')'); /* the name may hold anything, brackets too */
        for (int field = 2; p && field < 22; field++)
            p = strchr(p + 1, ' ');
        if (p)
            t = strtoull(p + 1, NULL, 10);
    }
    bg_buf_free(&b);
    return t;
}

static char *proc_link(pid_t pid, const char *what)
{
    char path[64], buf[1024];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    ssize_t n = readlink(path, buf, sizeof buf - 1);
    if (n < 0)
        return NULL;
    return bg_xstrndup(buf, (size_t)n);
}

static char *tty_of(pid_t pid)
{
    char *t = proc_link(pid, "fd/0");
    if (t && (!strncmp(t, "/dev/pts/", 9) || !strncmp(t, "/dev/tty", 8)))
        return t;
    free(t);
    return NULL;
}

static void on_request(void *data, struct bg_rpc *rpc BG_UNUSED, struct bg_rpc_msg *m)
{
    struct conn *c = data;
    server_touch(c->srv);
    method_call(c, m);
}

static void on_closed(void *data, struct bg_rpc *rpc BG_UNUSED, const struct bg_error *err)
{
    struct conn *c = data;
    bg_log(c->srv->log, BG_LOG_DEBUG, "client %s (pid %d): %s",
           c->who.client ? c->who.client : "?", c->who.pid, err->msg);
    conn_close(c);
}

static const struct bg_rpc_events rpc_events = {on_request, on_closed};

static void refuse_peer(struct bg_server *s, const struct ucred *cr)
{
    struct bg_audit_batch *b = bg_audit_batch_new(s->audit);
    cJSON *m = bg_jo();
    bg_jset_str(m, "what", "connection");
    bg_jset_int(m, "uid", cr->uid);
    bg_jset_int(m, "pid", cr->pid);
    bg_jset_str(m, "why", "another uid");
    bg_audit_add(b, BG_AUDIT_REFUSED, 0, NULL, m);
    bg_audit_commit(b, NULL, NULL);
    bg_log(s->log, BG_LOG_WARN, "refused a connection of uid %u (pid %d)", cr->uid,
           cr->pid);
}

static size_t agents(const struct bg_server *s)
{
    size_t n = 0;
    for (const struct conn *c = s->conns; c; c = c->next)
        n += !c->operator_sock;
    return n;
}

void conn_accept(struct bg_server *s, int fd, bool operator_sock)
{
    struct ucred cr = {.uid = (uid_t)-1};
    socklen_t n = sizeof cr;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cr, &n) || cr.uid != geteuid()) {
        refuse_peer(s, &cr);
        close(fd);
        return;
    }
    if (!operator_sock && agents(s) >= BG_AGENT_CONNS) {
        bg_log(s->log, BG_LOG_WARN, "refused pid %d: %d agents are connected already",
               cr.pid, BG_AGENT_CONNS);
        close(fd);
        return;
    }
    struct conn *c = bg_xcalloc(1, sizeof *c);
    c->srv = s;
    c->operator_sock = operator_sock;
    c->token = ++s->next_token;
    c->who.uid = cr.uid;
    c->who.pid = cr.pid;
    c->who.start_time = start_time_of(cr.pid);
    c->who.exe = proc_link(cr.pid, "exe");
    c->who.tty = tty_of(cr.pid);
    c->rpc = bg_rpc_new(s->loop, fd, &rpc_events, c);
    bg_rpc_pace(c->rpc);
    c->next = s->conns;
    s->conns = c;
    server_touch(s);
}

static void count_operators(struct bg_server *s)
{
    size_t n = 0;
    for (const struct conn *c = s->conns; c; c = c->next)
        n += c->role == ROLE_OPERATOR;
    bg_approvals_operators(s->approvals, n);
}

void conn_close(struct conn *c)
{
    struct bg_server *s = c->srv;
    struct conn **pp = &s->conns;
    while (*pp && *pp != c)
        pp = &(*pp)->next;
    if (!*pp)
        return;
    *pp = c->next;
    waiters_drop(s, c);
    if (s->approvals) {
        bg_approvals_waiter_gone(s->approvals, c->token);
        count_operators(s);
    }
    bg_rpc_free(c->rpc);
    bg_actor_clear(&c->who);
    free(c->run_id);
    free(c);
    server_touch(s);
}

struct cut {
    struct bg_server *srv;
    uint64_t token;
};

static void cut(void *data)
{
    struct cut *k = data;
    for (struct conn *c = k->srv->conns; c; c = c->next)
        if (c->token == k->token) {
            conn_close(c);
            break;
        }
    free(k);
}

void conn_cut(struct conn *c)
{
    struct cut *k = bg_xmalloc(sizeof *k);
    *k = (struct cut){c->srv, c->token};
    c->topics = 0;
    bg_loop_defer(c->srv->loop, cut, k);
}

void conn_closed_all(struct bg_server *s)
{
    while (s->conns)
        conn_close(s->conns);
}

/* ---- hello ---- */

static cJSON *paths_json(const struct bg_paths *p)
{
    cJSON *o = bg_jo();
    bg_jset_str(o, "config", p->config);
    bg_jset_str(o, "state", p->state);
    bg_jset_str(o, "runtime", p->runtime);
    bg_jset_str(o, "cache", p->cache);
    return o;
}

cJSON *server_provider(const struct bg_server *s)
{
    const struct bg_provider_report *r = s->ops->report(s->provider);
    cJSON *o = bg_jo();
    bg_jset_str(o, "name", r->name ? r->name : s->ops->kind);
    bg_jset_str(o, "version", r->version);
    bg_jset_str(o, "endpoint", r->endpoint);
    if (s->provider_known)
        bg_jset_bool(o, "available", r->available);
    else
        bg_jset(o, "available", cJSON_CreateNull());
    bg_jset_str(o, "whyNot", r->why_not);
    bg_jset_str(o, "remedy", r->remedy);
    bg_jset_strv(o, "enforced", r->enforced);
    bg_jset_strv(o, "notEnforced", r->not_enforced);
    return o;
}

static size_t resident_bytes(void)
{
    struct bg_buf b;
    size_t pages = 0;
    bg_buf_init(&b, 256);
    if (bg_read_file("/proc/self/statm", 256, false, &b, NULL)) {
        char *sp = strchr(b.data, ' ');
        pages = sp ? strtoul(sp, NULL, 10) : 0;
    }
    bg_buf_free(&b);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

cJSON *server_status(const struct bg_server *s)
{
    cJSON *o = bg_jo();
    size_t running = 0, clients = 0;
    for (struct bg_request *r = NULL; (r = bg_approvals_next(s->approvals, r));)
        running += bg_request_state(r) == BG_RS_RUNNING;
    for (const struct conn *c = s->conns; c; c = c->next)
        clients++;
    bg_jset_int(o, "pid", getpid());
    bg_jset_str(o, "version", BG_VERSION);
    bg_jset_int(o, "uptimeMs", bg_mono_ms() - s->started_ms);
    bg_jset_int(o, "sessions", (int64_t)bg_sessions_count(s->sessions));
    bg_jset_int(o, "pending", (int64_t)bg_approvals_pending(s->approvals));
    bg_jset_int(o, "running", (int64_t)running);
    bg_jset_int(o, "clients", (int64_t)clients);
    bg_jset(o, "provider", server_provider(s));
    bg_jset(o, "paths", paths_json(s->paths));
    bg_jset_int(o, "rssBytes", (int64_t)resident_bytes());
    return o;
}

static cJSON *hello_json(const struct conn *c)
{
    const struct bg_server *s = c->srv;
    char hex[BG_SHA256_HEX + 1];
    cJSON *o = bg_jo();
    bg_jset_int(o, "proto", BG_PROTO);
    bg_jset_str(o, "version", BG_VERSION);
    bg_jset_str(o, "role",
                c->role == ROLE_AGENT      ? "agent"
                : c->role == ROLE_OPERATOR ? "operator"
                                           : "observer");
    bg_jset_str(o, "instance", s->instance);
    bg_jset_int(o, "pid", getpid());
    bg_jset(o, "paths", paths_json(s->paths));
    bg_sha256_hex(&s->config->digest, hex);
    bg_jset_str(o, "configSha256", hex);
    bg_sha256_hex(bg_policy_digest(s->policy), hex);
    bg_jset_str(o, "policySha256", hex);
    bg_jset_bool(o, "policyDistrusted", bg_policy_distrusted(s->policy));
    bg_jset_int(o, "armMs", s->config->arm_ms);
    bg_jset(o, "provider", server_provider(s));
    bg_jset_time(o, "serverTime", bg_wall_ms());
    return o;
}

static bool read_hello(struct conn *c, const cJSON *params, struct bg_error *err)
{
    struct bg_jr r, cl;
    bg_jr_begin(&r, params, "params", err);
    int64_t proto = bg_jr_int(&r, "proto", 0, INT32_MAX);
    const cJSON *client = bg_jr_obj(&r, "client");
    const char *want = bg_jr_str(&r, "want");
    const char *run_id = bg_jr_str_opt(&r, "runId", NULL);
    if (!bg_jr_end(&r))
        return false;
    bg_jr_begin(&cl, client, "params.client", err);
    const char *name = bg_jr_str(&cl, "name"), *version = bg_jr_str(&cl, "version");
    if (!bg_jr_end(&cl))
        return false;
    if (proto != BG_PROTO)
        return bg_fail(err, BG_ERR_UNSUPPORTED, 0,
                       "protocol %lld is not spoken here, only %d", (long long)proto,
                       BG_PROTO);
    if (run_id && !bg_id_valid(run_id))
        return bg_fail(err, BG_ERR_USAGE, 0, "runId is not a valid id");
    if (strlen(name) > 64 || strlen(version) > 32)
        return bg_fail(err, BG_ERR_USAGE, 0, "client name or version too long");
    unsigned role = !strcmp(want, "agent")      ? ROLE_AGENT
                    : !strcmp(want, "operator") ? ROLE_OPERATOR
                    : !strcmp(want, "observer") ? ROLE_OBSERVER
                                                : 0;
    if (!role)
        return bg_fail(err, BG_ERR_USAGE, 0, "want must be agent, operator or observer");
    if ((role == ROLE_AGENT) == c->operator_sock)
        return bg_fail(err, BG_ERR_FORBIDDEN, 0, "this socket does not serve the role %s",
                       want);
    c->role = role;
    c->who.client = bg_xasprintf("%s %s", name, version);
    c->who.interactive = c->who.tty != NULL;
    c->run_id = bg_xstrdup(run_id);
    return true;
}

void method_hello(struct conn *c, struct bg_rpc_msg *m)
{
    struct bg_error err = {0};
    if (c->hello) {
        bg_rpc_error_code(c->rpc, m->id_raw, BG_RPC_INVALID, "hello was already said");
        return;
    }
    if (!read_hello(c, m->params, &err)) {
        if (err.code == BG_ERR_UNSUPPORTED)
            bg_rpc_error_code(c->rpc, m->id_raw, BG_RPC_PROTO_UNSUPPORTED, err.msg);
        else
            bg_rpc_error(c->rpc, m->id_raw, &err);
        return;
    }
    c->hello = true;
    bg_rpc_trust(c->rpc);
    server_check_policy(c->srv);
    bg_rpc_reply(c->rpc, m->id_raw, hello_json(c));
    count_operators(c->srv);
}

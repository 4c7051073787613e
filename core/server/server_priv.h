/* SPDX-License-Identifier: MIT */
/* What the files of this folder share; nobody else includes it. */
#pragma once

#include "core/approval/approval.h"
#include "core/audit/audit.h"
#include "core/rpc/rpc.h"
#include "core/server/server.h"
#include "core/session/session.h"

enum bg_role_bit { ROLE_AGENT = 1, ROLE_OPERATOR = 2, ROLE_OBSERVER = 4, ROLE_ANY = 7 };

struct conn {
    struct conn *next;
    struct bg_server *srv;
    struct bg_rpc *rpc;
    uint64_t token; /* the approvals' waiter; never used again */
    bool operator_sock;
    bool hello;
    unsigned role; /* one enum bg_role_bit after hello */
    struct bg_actor who;
    char *run_id;
    unsigned topics; /* subscribed, bit per enum topic */
};

/* Somebody waits for a request to become final (or for waitMs to pass). */
struct waiter {
    struct waiter *next;
    struct bg_server *srv;
    struct conn *conn;
    char *id_raw;
    uint64_t request;
    bool pipes;             /* its output went through the pipes this connection passed */
    struct bg_timer *timer; /* NULL: until it is no longer being prepared */
};

enum topic { TOPIC_APPROVAL, TOPIC_SESSION, TOPIC_SERVER, TOPIC_POLICY, TOPIC_COUNT_ };

struct event_ring; /* events.c */

struct bg_server {
    struct bg_loop *loop;
    const struct bg_paths *paths;
    struct bg_server_opts opts;
    struct bg_log *log;
    struct bg_config *config;
    struct bg_policy *policy;
    int64_t policy_stamp[4]; /* dev, ino, ctime ns, size of the file last read */
    struct bg_audit *audit;
    struct bg_approvals *approvals;
    const struct bg_provider_ops *ops;
    struct bg_provider *provider;
    bool provider_known; /* it was tried; until then requests wait to be prepared */
    bool provider_ready;
    struct bg_sessions *sessions;
    struct creation *creations; /* methods.c: they wait for the provider */
    char *guest_path;
    char **left_refs;  /* sandboxes a dead server left, until they are swept */
    char instance[33]; /* of the state folder, stable over restarts */
    int lock_fd;
    struct {
        int fd;
        struct bg_poll *poll;
    } listen[2]; /* agent, operator */
    struct conn *conns;
    struct waiter *waiters;
    uint64_t next_token;
    struct event_ring *ring;
    struct bg_timer *idle_timer;
    struct bg_signal *sigs[3];
    int64_t started_ms;
    int exit_code;
    bool stopping;
};

/* server.c */
void server_stop(struct bg_server *s);
bool server_busy(
    const struct bg_server *s); /* pending, running, or an unfinished session call */
void server_touch(
    struct bg_server *s); /* something happened: the idle clock starts again */

/* policy.c */
void server_first_policy(struct bg_server *s);
bool server_reload_policy(struct bg_server *s, struct bg_error *err);
void server_check_policy(struct bg_server *s); /* reload if the file changed */
/* The .boxgate.yaml in the requester's working directory; *out NULL when there is none. */
bool server_project_policy(const struct bg_actor *who, struct bg_policy **out,
                           struct bg_error *err);

/* conn.c */
void conn_accept(struct bg_server *s, int fd, bool operator_sock);
void conn_close(struct conn *c);
void conn_cut(
    struct conn *c); /* no more events; closed next turn, callers may go on with c */
void conn_closed_all(struct bg_server *s);
cJSON *server_status(const struct bg_server *s);
cJSON *server_provider(const struct bg_server *s); /* its report, as hello tells it */
void method_hello(struct conn *c, struct bg_rpc_msg *m);

/* methods.c: answers now, or keeps a copy of m->id_raw for later. */
void method_call(struct conn *c, struct bg_rpc_msg *m);
void methods_provider_known(struct bg_server *s);
void methods_stop(struct bg_server *s); /* before the connections are closed */

/* request.c */
void method_submit(struct conn *c, struct bg_rpc_msg *m);
void method_wait(struct conn *c, struct bg_rpc_msg *m);
void method_cancel(struct conn *c, struct bg_rpc_msg *m);
void waiters_changed(struct bg_server *s, struct bg_request *r);
void waiters_final(struct bg_server *s, struct bg_request *r);
void waiters_drop(struct bg_server *s, const struct conn *c);

/* runner.c: what the approvals ask for */
extern const struct bg_approvals_events runner_events;
/* The provider was tried: what waited for that is prepared now. */
void runner_provider_known(struct bg_server *s);
/* Where a new request came from: the connection's run id (copied, or NULL) and the pipes it
 * brought (taken; -1 = none). Before the next turn, in which it is prepared. */
void runner_set_origin(struct bg_request *r, struct bg_server *s, const char *run_id,
                       int out, int err);
cJSON *runner_request_json(struct bg_server *s, struct bg_request *r, bool full);

/* pipes.c: one direction of a program's output into a client's pipe */
struct out_pipe;
/* Takes fd. cap 0 = lossless: took() tells how many bytes left; else at most cap bytes are
 * queued and the rest is dropped. */
struct out_pipe *out_pipe_new(struct bg_loop *loop, int fd, size_t cap,
                              void (*took)(void *data, size_t n), void *data);
void out_pipe_write(struct out_pipe *p, const char *b, size_t n);
/* Closes when what is queued has left, or at once when the reader is gone; frees itself. */
void out_pipe_finish(struct out_pipe *p);

/* events.c */
struct event_ring *event_ring_new(void);
void event_ring_free(struct event_ring *r);
void event_emit(struct bg_server *s, enum topic t, const char *type,
                cJSON *row /* taken */);
void method_subscribe(struct conn *c, struct bg_rpc_msg *m);

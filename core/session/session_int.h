/* SPDX-License-Identifier: MIT */
/* The parts of core/session, shared between its own sources only. */
#pragma once

#include "core/base/mem.h"
#include "core/session/session.h"

enum { SESSION_LOST_REMEMBERED = 64 };

/* Where a run stands; each has exactly one thing that moves it on. */
enum run_state {
    RUN_WAITING,    /* for the sandbox: the creation's end */
    RUN_INSPECTING, /* the provider's answer */
    RUN_STARTED,    /* the exec's done */
    RUN_FINISHING,  /* the next turn of the loop */
};

struct bg_run {
    struct bg_session *s;
    struct bg_run *next; /* in s->runs */
    enum run_state state;
    char **argv, **env;
    char *cwd; /* absolute inside */
    void *input;
    size_t input_len, max_output;
    int64_t timeout_ms;
    enum bg_flow flow;
    struct bg_exec *exec;
    struct bg_timer *overdue;
    const struct bg_run_events *ev;
    void *data;
    struct bg_run_result res;
    struct bg_error err; /* what done will tell */
    bool killed;         /* bg_run_kill was called */
};

struct close_waiter {
    struct close_waiter *next;
    bg_done_fn done;
    void *data;
};

struct bg_session {
    struct bg_sessions *ss;
    struct bg_session *next;
    char *id, *run_id;
    char instance[33];
    char ref[33]; /* of the sandbox or its creation; "" = none */
    uint32_t owner;
    enum bg_session_state state;
    struct bg_spec *spec;
    struct bg_sandbox *sandbox;
    bool once, fresh, changed_outside;
    bool reset;      /* the next result says so */
    bool making;     /* record or create has not answered yet */
    bool settling;   /* the end begins in the next turn of the loop */
    bool destroying; /* the provider is at it */
    size_t holds, n_runs, inspecting;
    uint64_t runs_done;
    int64_t opened_wall_ms, used_wall_ms;
    struct bg_timer *idle, *ttl;
    struct bg_run *runs;
    struct close_waiter *waiters;
    const char *reason; /* of the end; static text */
    struct bg_error lost_why;
};

struct lost_name {
    uint32_t owner;
    char *id, *run_id;
};

struct bg_sessions {
    struct bg_loop *loop;
    const struct bg_provider_ops *ops;
    struct bg_provider *provider;
    const struct bg_sessions_events *ev;
    void *data;
    struct bg_session *first;
    size_t count;
    struct lost_name lost[SESSION_LOST_REMEMBERED]; /* a ring */
    size_t lost_next;
    bg_done_fn shut;
    void *shut_data;
};

/* session.c */
void session_set_state(struct bg_session *s, enum bg_session_state to);
void session_changed(struct bg_session *s);
void session_touch(struct bg_session *s);  /* the idle time begins again, if it may */
void session_settle(struct bg_session *s); /* goes on with the end, if one is under way */
void session_lose(struct bg_session *s, const struct bg_error *why);
bool session_ending(const struct bg_session *s);
void session_end_error(const struct bg_session *s, struct bg_error *err);

/* session_make.c */
void session_make(struct bg_session *s); /* OPEN -> CREATING */

/* session_run.c */
void runs_go(struct bg_session *s); /* all that wait */
void runs_fail_waiting(struct bg_session *s, const struct bg_error *err);

/* session_env.c, pure */
/* "K=V" lists in order, later names winning; sorted by bytes. NULL lists are fine. */
char **session_env(char *const *base, char *const *profile, char *const *call);
char **session_base_env(const char *workdir);
BG_CHECK bool session_env_check(char *const *env, struct bg_error *err);
/* cwd below workdir, "." and ".." resolved as text; NULL with BG_ERR_PATH when it is
 * absolute or leaves. */
BG_CHECK char *session_cwd(const char *workdir, const char *cwd, struct bg_error *err);

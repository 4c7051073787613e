/* SPDX-License-Identifier: MIT */
/*
 * Sessions: one per run id, created lazily, reused; concurrent first calls share one
 * creation; a failed creation is not cached. The registry holds timers (idle, TTL), the
 * capped result of a run, and what ends with a session. It knows nothing of approvals.
 *
 * Life cycle (session.c holds the transition table):
 *   open -> creating -> live -> closing -> closed
 *   creating -> open (failed), live -> lost -> closed
 * "open" has an instance (128 random bits) and a spec but no sandbox yet.
 *
 * A command's environment, later ones winning by name: the base (PATH, HOME = workdir,
 * USER, LANG = C.UTF-8), the image's own where the provider has one, the profile's, the
 * call's.
 */
#pragma once

#include "core/provider/provider.h"

struct bg_sessions;
struct bg_session;
struct bg_run;

enum bg_session_state {
    BG_SESSION_OPEN,
    BG_SESSION_CREATING,
    BG_SESSION_LIVE,
    BG_SESSION_LOST,
    BG_SESSION_CLOSING,
    BG_SESSION_CLOSED
};
const char *bg_session_state_name(enum bg_session_state s);

struct bg_sessions_events {
    /* Any visible change: state, counters, stats. */
    void (*changed)(void *data, struct bg_session *s);
    /* Once, before its first change; NULL is fine. */
    void (*opened)(void *data, struct bg_session *s);
    /* The last moment; reason: "close", "idle", "ttl", "lost", "server stop". s is freed
     * after. */
    void (*closed)(void *data, struct bg_session *s, const char *reason);
    /* Makes the sandbox's record durable before the create call is sent. done runs once,
     * not from inside; with an error nothing is created. May be NULL (library use: no
     * record). */
    void (*record)(void *data, struct bg_session *s, const char *ref, bg_done_fn done,
                   void *done_data);
};

struct bg_sessions *bg_sessions_new(struct bg_loop *loop, const struct bg_provider_ops *ops,
                                    struct bg_provider *p,
                                    const struct bg_sessions_events *ev, void *data);
/* Closes every session; done when all are gone. */
void bg_sessions_shutdown(struct bg_sessions *ss, bg_done_fn done, void *data);
void bg_sessions_free(struct bg_sessions *ss); /* after shutdown */

/* Registers a session (no sandbox yet). Takes spec, which must be prepared. id NULL = a
 * random one ("run-" + 8 hex). run_id and owner may repeat only with the same id.
 * BG_ERR_CONFLICT if id is taken, BG_ERR_LIMIT past BG_SESSIONS_MAX. `once` = closed after
 * its first run. */
BG_CHECK struct bg_session *bg_session_open(struct bg_sessions *ss, const char *id,
                                            const char *run_id, uint32_t owner_uid,
                                            struct bg_spec *spec, bool once,
                                            struct bg_error *err);
struct bg_session *bg_session_find(struct bg_sessions *ss, const char *id);
struct bg_session *bg_session_find_run(struct bg_sessions *ss, uint32_t owner_uid,
                                       const char *run_id);
struct bg_session *bg_session_find_instance(struct bg_sessions *ss, const char *instance);
struct bg_session *bg_session_next(struct bg_sessions *ss,
                                   struct bg_session *after); /* NULL starts */
size_t bg_sessions_count(const struct bg_sessions *ss);

const char *bg_session_id(const struct bg_session *s);
const char *bg_session_instance(const struct bg_session *s); /* 32 hex digits */
const char *bg_session_run_id(const struct bg_session *s);   /* or NULL */
uint32_t bg_session_owner(const struct bg_session *s);
const char *bg_session_ref(const struct bg_session *s); /* of its sandbox, or NULL */
enum bg_session_state bg_session_state(const struct bg_session *s);
const struct bg_spec *bg_session_spec(const struct bg_session *s);
bool bg_session_fresh(const struct bg_session *s); /* nothing has run or been written yet */
bool bg_session_changed_outside(const struct bg_session *s);
bool bg_session_once(const struct bg_session *s);
cJSON *bg_session_json(const struct bg_session *s); /* for session.list / get */

/* A pending or approved request holds the session: not idle. */
void bg_session_hold(struct bg_session *s);
void bg_session_release(struct bg_session *s);

struct bg_run_spec {
    char *const *argv;
    char *const *env; /* the call's own "K=V", on top of the spec's */
    const char *cwd;  /* relative to workdir, or NULL; absolute or leaving = BG_ERR_PATH */
    const void *input;
    size_t input_len;
    int64_t timeout_ms; /* effective */
    int64_t max_output_bytes;
    enum bg_flow flow; /* LOSSLESS: the caller calls bg_run_consumed */
};

struct bg_run_result {
    struct bg_exec_result exec;
    /* First max_output_bytes of each stream; cut only between characters when UTF-8. */
    struct bg_buf out, err;
    bool out_truncated, err_truncated;
    uint64_t out_bytes, err_bytes; /* produced in all */
    bool aborted;                  /* by bg_run_kill; exec.exit_code is 137 then */
    bool reset; /* first result after this id's or run's session was lost: files are gone */
};

struct bg_run_events {
    void (*started)(void *data, struct bg_run *r); /* the program runs now */
    void (*output)(void *data, struct bg_run *r, enum bg_stream s, const char *p,
                   size_t n); /* every byte, live */
    /* Once. err: an infrastructure failure (never a program result); result is partial
     * then, with exec.started telling whether it ever ran. r is freed when this returns. */
    void (*done)(void *data, struct bg_run *r, const struct bg_run_result *res,
                 const struct bg_error *err);
};

/*
 * Creates the sandbox if need be (sharing a creation under way), inspects it against the
 * spec, then starts. spec is copied. What is wrong with spec or session is told by done,
 * from the loop. A run that the session's end interrupts gets BG_ERR_DESTROYED naming the
 * reason, never an exit status; a command that does not end within timeout_ms + BG_GRACE_MS
 * loses its session.
 */
struct bg_run *bg_session_run(struct bg_session *s, const struct bg_run_spec *spec,
                              const struct bg_run_events *ev, void *data);
void bg_run_consumed(struct bg_run *r, enum bg_stream s, size_t n);
struct bg_session *bg_run_session(const struct bg_run *r);
void bg_run_kill(struct bg_run *r); /* aborted */
/* Ends the session whatever it does; done once it is gone (NULL is fine). Closing what is
 * closing is fine; the first reason stays. During a creation it waits for that and removes
 * what came of it. */
void bg_session_close(struct bg_session *s, const char *reason, bg_done_fn done,
                      void *data);

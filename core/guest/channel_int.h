/* SPDX-License-Identifier: MIT */
/*
 * What the sources of the server's side share. Callbacks may end the channel: whoever calls
 * one stands between channel_enter and channel_leave, and looks at `dead` and `fd` after
 * it.
 */
#pragma once

#include "core/base/buf.h"
#include "core/guest/channel.h"
#include "core/guest/protocol.h"

enum {
    LINK_READ_SMALL = 4096,   /* what an idle link keeps */
    LINK_READ_MAX = 262144,   /* one read of a busy one */
    LINK_OUT_SOFT = 131072,   /* blobs and stdin wait beyond this */
    LINK_OUT_MAX = 1048576,   /* a guest that never reads is cut off here */
    STRIKES = 3,              /* malformed frames ... */
    STRIKE_WINDOW_MS = 60000, /* ... within this lose the session */
    BACKSTOP_SLACK_MS = 1000, /* beyond BG_KILL_MS */
    STATS_ANSWER_MS = 1000,
    STATS_PENDING_MAX = 16,
    WINDOW_MIN = 4096, /* the smallest credit worth a stream */
};

/* ---- frame.c ---- */
/* False when the buffer is full. */
BG_CHECK bool bg_frame_put(struct bg_buf *out, const struct gp_head *head,
                           const void *payload);

/* ---- door.c: the listener and the peers that have not shown who they are ---- */
struct bg_door;
struct bg_door_events {
    /* The door is shut by then; fd (non-blocking) is the callee's. */
    void (*admitted)(void *data, int fd);
    /* A peer that is not our guest was turned away. */
    void (*refused)(void *data, const char *why);
};
struct bg_door *bg_door_new(struct bg_loop *loop, const struct bg_channel_opts *o,
                            const struct bg_door_events *ev, void *data);
BG_CHECK bool bg_door_open(struct bg_door *d, struct bg_error *err);
void bg_door_shut(struct bg_door *d); /* also takes the socket's name away */
void bg_door_expect(struct bg_door *d, pid_t pid);
void bg_door_free(struct bg_door *d);

/* ---- commands ---- */
enum exec_state {
    EXEC_NEW,  /* its EXEC frames are not all queued */
    EXEC_SENT, /* no STARTED yet */
    EXEC_LIVE,
};

struct exec_stream {
    uint32_t credit; /* bytes the guest may still send */
    uint64_t held;   /* given to a lossless owner and not consumed */
};

struct bg_exec {
    struct bg_exec *prev, *next;
    struct bg_channel *ch;
    uint32_t id;
    struct bg_exec_events ev;
    void *data;
    enum exec_state state;
    enum bg_flow flow;
    char name[64]; /* of the program, for messages */
    struct gp_exec head;
    struct bg_buf blob; /* argv, env, cwd as they go over the wire; freed once started */
    size_t blob_sent;
    uint64_t blob_mark; /* ch->queued behind its last EXEC frame */
    char *input;
    size_t input_len, input_sent;
    bool input_over; /* EOF sent, or given up because the link went in the middle */
    uint32_t input_credit;
    struct exec_stream out[2]; /* BG_STDOUT - 1, BG_STDERR - 1 */
    bool asked;                /* QUERY sent, STATE not here yet */
    bool start_unheard;        /* STARTED may have gone down with a link, or come yet */
    bool kill_wanted, kill_sent;
    uint32_t kill_grace_ms;
    int64_t backstop_at; /* bg_mono_ms; 0 = none */
    struct bg_timer *backstop;
    bool over; /* done() is due in the next turn, with these: */
    struct bg_exec_result result;
    struct bg_error error; /* code BG_OK = the result counts */
};

struct bg_channel {
    struct bg_loop *loop;
    struct bg_channel_events ev;
    void *data;
    struct bg_door *door;
    uint32_t linger_ms, linger_empty_ms;

    int fd; /* -1 = down */
    struct bg_poll *poll;
    uint32_t epoch;
    unsigned char *in; /* in_len bytes of a frame that is not whole yet */
    size_t in_len, in_cap;
    struct bg_buf out;
    size_t out_sent;          /* of out.data */
    bool deaf;                /* sending failed; reading will tell the rest */
    uint64_t queued, written; /* bytes of this epoch, to know what surely never went */

    struct bg_exec *first, *last;
    size_t execs;
    uint64_t reserved; /* credit given to lossless streams, of BG_SESSION_CREDIT */
    uint32_t next_id;
    struct stats_call *calls;
    size_t n_calls;

    int64_t strikes[STRIKES]; /* when; 0 = none */
    bool lost, shut, failed;
    struct bg_error why; /* of lost or failed */
    struct bg_timer *soon;
    unsigned depth; /* callbacks on the stack */
    bool dead;      /* freed by the owner inside one of them */
};

/* ---- channel.c ---- */
void channel_enter(struct bg_channel *ch);
void channel_leave(struct bg_channel *ch); /* sends what was queued; may free ch */
/* Queues a frame; nothing when the link is down. */
void channel_put(struct bg_channel *ch, enum gp_type type, uint32_t id, unsigned flags,
                 const void *payload, size_t n);
/* Ends the link for good and tells the owner, once. */
void channel_lose(struct bg_channel *ch, const struct bg_error *err);
uint32_t channel_new_id(struct bg_channel *ch);

/* ---- exec_client.c: what becomes of commands ---- */
struct bg_exec *exec_find(struct bg_channel *ch, uint32_t id);
/* Tells the owner and frees x; exactly one of r and err. */
void exec_finish(struct bg_exec *x, const struct bg_exec_result *r,
                 const struct bg_error *err);
void exec_end_soon(struct bg_exec *x, const struct bg_error *err);
void exec_killed_unsent(struct bg_exec *x);
void exec_finish_all(struct bg_channel *ch, const struct bg_error *err);
void exec_run_over(struct bg_channel *ch); /* done() of all that are over */

/* ---- exec_link.c: commands and the frames about them ---- */
void exec_pump(
    struct bg_channel *ch); /* queues EXEC and STDIN frames while there is room */
void exec_kill_now(struct bg_exec *x);
void exec_grant(struct bg_exec *x, unsigned stream); /* credit for what was taken */
void exec_link_up(struct bg_channel *ch);
void exec_link_down(struct bg_channel *ch);
/* False = malformed. */
bool exec_frame(struct bg_channel *ch, const struct gp_head *h, const unsigned char *p);

/* ---- stats.c ---- */
bool stats_frame(struct bg_channel *ch, const struct gp_head *h, const unsigned char *p);
/* The answer can't come any more; `now` calls back before it returns. */
void stats_fail_all(struct bg_channel *ch, bool now);

/* SPDX-License-Identifier: MIT */
/*
 * The server's side of the link to one sandbox's guest. Owns the listener until the guest
 * is in, the connection after. Nothing the guest says is believed beyond its own sandbox:
 * lengths, ids and counts are checked; a malformed frame closes the link, three in a minute
 * lose the session.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"
#include "core/loop/loop.h"

struct bg_channel;
struct bg_exec;

enum bg_stream { BG_STDOUT = 1, BG_STDERR = 2 };

/* Lossless: the owner calls bg_exec_consumed as it takes bytes, the program blocks
 * meanwhile. Tail: always credited; the owner keeps or drops what it likes; the program
 * never blocks. */
enum bg_flow { BG_FLOW_LOSSLESS, BG_FLOW_TAIL };

struct bg_exec_spec {
    char *const *argv; /* at least one element */
    char *const *env;  /* "K=V", the whole environment */
    const char *cwd;   /* absolute inside the sandbox */
    size_t root_len;   /* cwd stays below its first bytes, links resolved; 0 = anywhere */
    const void *input; /* stdin, copied; followed by EOF */
    size_t input_len;
    uint32_t deadline_ms; /* 0 = none */
    enum bg_flow flow;
    uint32_t uid, gid; /* what the guest drops to when it is root */
};

struct bg_exec_result {
    int exit_code;  /* 128+n for signal n; 124 after the deadline; 137 after a kill */
    int signal;     /* 0 if it exited */
    bool timed_out; /* by its deadline */
    bool killed;    /* by bg_exec_kill */
    bool oom;       /* told only from the kernel's counters */
    bool supervisor_lost;
    bool started;
    uint32_t leftover; /* processes it left running */
    int64_t duration_ms;
};

struct bg_exec_events {
    void (*started)(void *data, struct bg_exec *x);
    /* Bytes are borrowed. May free nothing of the exec. */
    void (*output)(void *data, struct bg_exec *x, enum bg_stream s, const char *p,
                   size_t n);
    /* Output that was not kept while the link was down. */
    void (*gap)(void *data, struct bg_exec *x, enum bg_stream s, uint64_t bytes);
    /*
     * Exactly once, never from inside bg_exec_start. err != NULL: it did not run or nobody
     * can say how it ended (COMMAND, LIMIT, PATH: not started; DESTROYED: link or sandbox
     * lost); an infrastructure failure is never a result. The exec is gone when this
     * returns.
     */
    void (*done)(void *data, struct bg_exec *x, const struct bg_exec_result *r,
                 const struct bg_error *err);
};

/* The guest sends its command's bytes into the sandbox's own id space. */
struct bg_exec *bg_exec_start(struct bg_channel *ch, const struct bg_exec_spec *spec,
                              const struct bg_exec_events *ev, void *data);
void bg_exec_consumed(struct bg_exec *x, enum bg_stream s, size_t n); /* lossless only */
/* TERM, then KILL after grace_ms for the whole tree; done() follows. */
void bg_exec_kill(struct bg_exec *x, uint32_t grace_ms);
uint32_t bg_exec_id(const struct bg_exec *x);

struct bg_guest_stats {
    uint64_t cpu_us, mem_bytes, mem_limit;
    uint32_t processes, execs;
};

struct bg_channel_opts {
    /* Where to listen; the folder exists and the sandbox sees it read-only. The socket is
     * made 0666 (the guest's uid is not ours) and unlinked when the channel is freed. */
    const char *sock_path;
    /* The peer's pid must be this one (SO_PEERCRED); 0 = set later by
     * bg_channel_expect_pid, -1 = can't be compared, use the token alone. */
    pid_t expect_pid;
    const unsigned char *token; /* 32 bytes, or NULL */
    uint32_t linger_ms, linger_empty_ms;
};

struct bg_channel_events {
    void (*ready)(void *data,
                  struct bg_channel *ch); /* first WELCOME sent; also after a re-dial */
    /* The link went. The guest may dial again; execs wait for it until the provider says
     * the sandbox is gone (bg_channel_fail). */
    void (*down)(void *data, struct bg_channel *ch);
    /* Three malformed frames or strange peers in a minute, a deadline or a kill that the
     * guest did not hold: the session is lost. The link is closed for good; execs wait for
     * bg_channel_fail. May free the channel, as every callback here and done() may. */
    void (*lost)(void *data, struct bg_channel *ch, const struct bg_error *err);
};

BG_CHECK struct bg_channel *bg_channel_listen(struct bg_loop *loop,
                                              const struct bg_channel_opts *o,
                                              const struct bg_channel_events *ev,
                                              void *data, struct bg_error *err);
void bg_channel_expect_pid(struct bg_channel *ch,
                           pid_t pid); /* admits a peer that dialled before it was known */
bool bg_channel_up(const struct bg_channel *ch);
/* Ends every exec with err (done callbacks run in the next turn) and refuses new ones. */
void bg_channel_fail(struct bg_channel *ch, const struct bg_error *err);
/* Asks the guest to kill everything and exit; bg_channel_free does not. */
void bg_channel_shutdown(struct bg_channel *ch);
/* cb once; err when the link is down or does not answer within 1 s. */
void bg_channel_stats(struct bg_channel *ch,
                      void (*cb)(void *data, const struct bg_guest_stats *s,
                                 const struct bg_error *err),
                      void *data);
size_t bg_channel_execs(const struct bg_channel *ch);
void bg_channel_free(
    struct bg_channel *ch); /* execs left get done(DESTROYED) before it returns */

/* ---- pure parsing, fuzzed: one frame of a buffer ---- */
struct gp_head;
/* 1 = a whole frame at p (head filled, payload at p + 16), 0 = more bytes needed, -1 =
 * malformed. */
int bg_frame_parse(const unsigned char *p, size_t n, struct gp_head *head);

/* SPDX-License-Identifier: MIT */
/*
 * Private to the guest program, PID 1 of a sandbox. One thread, one state (`g`), no heap:
 * tables are static and capped, larger blocks are mapped while they are needed. Readiness
 * comes edge triggered from epoll and is kept in flags; a turn of the loop then does what
 * the flags, the credit and the link allow. So nothing blocks and every wait is one number
 * in guest_wait_ms().
 *
 * Trust: programs in the sandbox may run under the guest's own uid. They may kill, stop or
 * signal a supervisor, never PID 1; what they can't do is to make a loss look like a
 * success.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/guest/protocol.h"

#define GUEST_SLOTS 1024         /* live commands and ended ones that left processes */
#define GUEST_PROCS 32768        /* of one look at /proc; more are met in the next round */
#define GUEST_QUEUE 16384        /* control frames not yet written */
#define GUEST_ROOM 1024          /* free queue bytes before one more frame is taken up */
#define GUEST_BLOBS 16777216     /* bytes of EXEC requests being received, all together */
#define GUEST_PIPE_BYTES 1048576 /* asked for output pipes */
#define GUEST_REDIAL_MS 50       /* doubled up to */
#define GUEST_REDIAL_MAX_MS 2000 /* this */
#define GUEST_FIRST_LINGER_MS 120000 /* before any WELCOME said how long to live alone */
#define GUEST_KILL_MS 1000           /* after this a kill answers with what is left */
#define GUEST_KILL_SLOW_MS 50        /* and goes on at this pace */
#define GUEST_SUPER_MS 100 /* for a supervisor to end by itself once it is alone */
#define GUEST_ROUNDS_MS 20 /* of kill rounds before the loop has a turn */
#define GUEST_TAIL_MS 1000 /* a tail stream waits this long for the server */

/* ---- streams of one command ---- */

struct guest_stream {
    int fd;           /* -1 = closed */
    bool ready;       /* may be read */
    uint32_t credit;  /* bytes the server takes */
    char *ring;       /* GP_STREAM_RING bytes, mapped when first needed */
    uint32_t start;   /* of the kept bytes in the ring */
    uint32_t len;     /* kept bytes */
    uint64_t dropped; /* older ones that had to go */
    int64_t stuck_at; /* tail: since when the server takes nothing; 0 = it does */
    bool last;        /* the drain is over: only `rest` more bytes are taken */
    uint32_t rest;    /* see last */
};

struct guest_stdin {
    int fd;
    bool ready;  /* may be written */
    bool eof;    /* nothing comes after what is kept */
    bool frozen; /* the link went before EOF: nothing more is taken, nor is it closed */
    char *ring;  /* GP_CREDIT bytes, mapped when first needed */
    uint32_t start, len;
    uint32_t owed; /* bytes written since the last STDIN_CREDIT */
};

/* ---- commands ---- */

enum guest_phase {
    GUEST_FREE = 0,
    GUEST_RECEIVING, /* EXEC frames still come */
    GUEST_STARTING,  /* the supervisor was forked */
    GUEST_RUNNING,   /* execve succeeded */
    GUEST_ENDED,     /* the main process ended; GP_EXIT follows the drain */
    GUEST_LEFT,      /* GP_EXIT is out; the supervisor stays with what was left running */
};

enum guest_killing {
    GUEST_KILL_NONE = 0,
    GUEST_KILL_TERM,   /* TERM is sent, KILL comes at kill_at */
    GUEST_KILL_ROUNDS, /* SIGKILL until nothing is left */
};

struct guest_exec {
    uint32_t id;
    enum guest_phase phase;
    uint32_t flags; /* of the EXEC frame */
    struct gp_exec req;

    char *blob; /* mapped; the strings, then room for the two pointer arrays */
    size_t blob_size;
    uint32_t blob_len; /* received */

    pid_t super; /* 0 = reaped or never forked */
    pid_t main;
    int status_fd; /* reports of the supervisor */
    bool status_ready;
    struct guest_stdin in;
    struct guest_stream out[2];

    int64_t began_at, ended_at;
    int64_t deadline_at; /* 0 = none */
    uint64_t oom_before;
    bool alone;        /* the main process ended without living descendants */
    bool lost;         /* the supervisor went without a report */
    bool drained;      /* the time for held pipes is over */
    bool tell_started; /* GP_STARTED is to be sent */
    bool tell_state;   /* asked for while it was not yet known whether it starts */
    bool tell_error;   /* `error` is to be sent, then the slot is freed */
    struct gp_error error;
    struct gp_exit exit;

    enum guest_killing killing;
    int64_t kill_at;    /* TERM: when KILL follows */
    int64_t kill_since; /* when the rounds began */
    uint32_t kill_left; /* seen in the last round */
    bool kill_asked;    /* GP_KILLED is to be sent */
    bool kill_over; /* GUEST_KILL_MS passed: results go out although something is left */
};

/* ---- one look at /proc ---- */

struct guest_proc {
    pid_t pid, ppid;
    pid_t top; /* the child of the guest it descends from; 0 = none, -1 = not known yet */
    uint32_t pages; /* resident */
    uint32_t ticks; /* user + system */
    char state;
};

struct guest_procs {
    struct guest_proc *v; /* ascending by pid */
    size_t n;
    bool whole; /* every process was read and placed; else look again */
};

struct guest {
    int64_t now; /* ms, monotonic */
    pid_t pid;
    bool init; /* PID 1: may use kill(-1) */
    bool child_died;
    bool strays; /* there may be children that are no supervisor */
    int ep, sig, proc;
    size_t slots_used; /* one past the highest slot ever taken */
    struct guest_exec slots[GUEST_SLOTS];
};
extern struct guest g;

/* ---- guest.c ---- */

enum guest_watch {
    GUEST_W_SIG,
    GUEST_W_LINK,
    GUEST_W_STATUS,
    GUEST_W_STDIN,
    GUEST_W_OUT,
    GUEST_W_ERR
};

/* Edge triggered; closing the fd ends it. False when the kernel refuses. */
bool guest_watch(int fd, enum guest_watch what, uint32_t slot, uint32_t events);
int64_t guest_clock(void);
/* Copies s to d, cut to cap - 1; returns the end. For texts without stdio. */
char *guest_put_text(char *d, char *end, const char *s);
char *guest_put_number(char *d, char *end, uint64_t v);

/* ---- guest_link.c: the socket, frames in and out ---- */

void guest_link_init(const char *path, const uint8_t token[GP_TOKEN_LEN]);
void guest_link_event(uint32_t events);
void guest_link_turn(void);
bool guest_link_up(void);
/* There is room for one more control frame. */
bool guest_link_room(void);
/* Queues a control frame; call only when there is room. */
void guest_link_send(uint16_t type, uint32_t id, const void *p, size_t n);
void guest_link_send2(uint16_t type, uint32_t id, const void *p, size_t n, const void *q,
                      size_t m);
/* The buffer of the one data frame under way, or NULL while the link can't take one. */
char *guest_link_data(void);
/* Sends the first n bytes of that buffer as a frame of stream which (0 | 1) of slot. */
void guest_link_data_send(uint32_t slot, int which, uint32_t n);
/* A frame of that slot is under way. */
bool guest_link_sending(uint32_t slot);
bool guest_link_flush(void);
/* Ms until the link wants a turn, -1 = never; sets *expired when it is time to give up. */
int64_t guest_link_wait(bool *expired);

/* ---- guest_exec.c: the table of commands and what is said of them ---- */

void guest_exec_frame(const struct gp_head *h, const char *p);
void guest_exec_query(uint32_t id);
void guest_exec_forget(uint32_t id);
/* The slot of a command that was started (or ended and left processes); NULL if none. */
struct guest_exec *guest_exec_find(uint32_t id);
uint32_t guest_exec_slot(const struct guest_exec *e);
void guest_exec_reap(void);
bool guest_exec_turn(void); /* true when output may flow that could not before */
int64_t guest_exec_wait(void);
void guest_exec_link_down(void);
void guest_exec_link_up(void);
uint32_t guest_exec_live(void);                /* not yet told as ended */
uint32_t guest_exec_supers(void);              /* supervisors alive */
struct guest_exec *guest_exec_of(pid_t super); /* NULL if that is no live supervisor */

/* ---- guest_start.c: from a whole EXEC request to a supervisor ---- */

/* Starts e, or returns false with e->error filled and nothing left open. */
bool guest_start(struct guest_exec *e);
void guest_start_unmap(struct guest_exec *e);
void guest_start_fail(struct guest_exec *e, enum gp_err err, int sys);
/* Text for a person, at most cap bytes, no NUL; returns its length. */
size_t guest_start_error_text(const struct gp_error *err, char *buf, size_t cap);

/* ---- guest_child.c: the supervisor and the program's own first steps ---- */

enum guest_report_kind { GUEST_R_STARTED = 1, GUEST_R_FAILED, GUEST_R_DONE };
enum guest_step { GUEST_STEP_FORK = 1, GUEST_STEP_USER, GUEST_STEP_CWD, GUEST_STEP_EXEC };

/* One write on the status pipe. */
struct guest_report {
    uint32_t kind;
    int32_t a; /* STARTED: pid; FAILED: enum guest_step; DONE: wait status */
    int32_t b; /* FAILED: errno; DONE: 1 = no descendant lives */
};

struct guest_child {
    char **argv, **envp;
    char *cwd;
    uint32_t root; /* gp_exec.root */
    int in, out, err, status;
    bool change_user;
    uid_t uid;
    gid_t gid;
    void *blob; /* unmapped once the program runs */
    size_t blob_size;
};

_Noreturn void guest_supervise(const struct guest_child *c);

/* ---- guest_drain.c: bytes between pipes, rings and link ---- */

void guest_drain_open(struct guest_exec *e, int in, int out, int err);
/* Moves what may be moved; true when there is more to do at once. */
bool guest_drain_turn(void);
int64_t guest_drain_wait(void);
void guest_drain_credit(struct guest_exec *e, int which, uint32_t bytes);
/* False when the server sent more than its credit. */
bool guest_drain_stdin(struct guest_exec *e, const char *p, uint32_t n, bool eof);
/* Puts the payload of a frame that did not leave whole back before what came after it. */
void guest_drain_unsend(struct guest_exec *e, int which, const char *p, uint32_t n);
void guest_drain_finish(
    struct guest_exec *e); /* take what is in the pipes now, then close */
void guest_drain_free(struct guest_exec *e);
bool guest_drain_done(const struct guest_exec *e);

/* ---- guest_proc.c ---- */

/*
 * Borrowed until the next call. v == NULL when /proc can't be read. seen (may be NULL) is
 * called for every living process the moment it was read, before its place is known.
 */
struct guest_procs guest_proc_scan(void (*seen)(const struct guest_proc *p));
bool guest_proc_gone(const struct guest_proc *p); /* a zombie: does not count */

/* ---- guest_kill.c ---- */

void guest_kill_begin(struct guest_exec *e, enum gp_why why, uint32_t grace_ms);
void guest_kill_turn(void);
int64_t guest_kill_wait(void);
/* Kills everything below the guest, at most GUEST_KILL_MS. */
void guest_kill_all(void);
uint32_t guest_kill_count(const struct guest_exec *e); /* living descendants of e */

/* ---- guest_stats.c ---- */

void guest_stats_init(void);
uint64_t guest_stats_oom_kills(void); /* 0 when no counter can be read */
uint64_t guest_stats_pids_max(void);  /* 0 = not known */
void guest_stats_fill(struct gp_stats *s);
/* A number out of a small file; false when it is not there. */
bool guest_stats_number(const char *path, uint64_t *out);

/* SPDX-License-Identifier: MIT */
/*
 * The wire between the server and boxgate-guest: shared by both sides, so it includes
 * nothing of ours. Integers are little-endian. Everything the guest sends is untrusted
 * input.
 *
 * Link: the guest dials a Unix stream socket (sandbox.md 1a), sends HELLO, waits for
 * WELCOME. A lost link is never resumed: new HELLO, new epoch; the server asks again by
 * exec id.
 *
 * EXEC: struct gp_exec stands in the first frame only; a continuation carries blob bytes
 * alone. Streams: output credit starts at gp_exec.credit, stdin credit at GP_CREDIT right
 * after the last EXEC frame. WELCOME sets the output credit of every live exec back to
 * gp_exec.credit. Commands that ended meanwhile send their ring and GP_EXIT on the new link
 * unasked. stdin whose EOF had not arrived when the link went stays open and takes nothing
 * more (a hole is never closed over). A repeated EXEC and QUERY are both answered by
 * GP_STATE. A refused EXEC (GP_ERROR) leaves no record. KILL of an id without processes
 * answers GP_KILLED 0. CREDIT is cut at GP_CREDIT_MAX.
 *
 * What the server counts as malformed, so a guest never sends it: flags != 0, an epoch
 * other than WELCOME's (HELLO: 0), anything between HELLO and WELCOME, STDOUT or STDERR
 * with no bytes, beyond the credit, before STARTED or after EXIT; a second STARTED. A STATE
 * of DONE never overtakes that id's own ring and EXIT. The server finishes one EXEC's
 * frames before the next EXEC; one cut off by a lost link is dropped and may come again
 * under its id. For tests the guest dials $BOXGATE_LINK in place of GP_LINK_SOCK when it
 * isn't PID 1.
 */
#pragma once

#include <stdint.h>

#define GP_MAGIC 0x31474742u /* "BGG1" */
#define GP_VERSION 1
#define GP_FRAME_MAX 65536u     /* payload */
#define GP_HELLO_MAX 64u        /* bytes before WELCOME */
#define GP_CREDIT 262144u       /* per stream to begin with */
#define GP_CREDIT_MAX 67108864u /* more is never outstanding */
#define GP_EXEC_MAX 4194304u    /* gp_exec.total */
#define GP_REMEMBER 256         /* exec ids a guest remembers */
#define GP_TOKEN_LEN 32
#define GP_STREAM_RING 65536u /* kept per stream while the link is down */
#define GP_DRAIN_MS 500

#define GP_LINK_DIR "/.boxgate/link"
#define GP_LINK_SOCK "/.boxgate/link/s"
#define GP_GUEST_PATH "/.boxgate/guest"

struct gp_head {
    uint32_t len;  /* of the payload */
    uint32_t id;   /* exec id, or request id for calls; 0 = the link itself */
    uint16_t type; /* enum gp_type */
    uint16_t flags;
    uint32_t epoch; /* WELCOME names it; other epochs are dropped */
};

enum gp_type {
    /* guest -> server */
    GP_HELLO = 1, /* struct gp_hello */
    GP_STARTED,   /* struct gp_started */
    GP_STDOUT,    /* bytes; costs credit */
    GP_STDERR,
    GP_EXIT,  /* struct gp_exit; after the streams are drained; exactly once per exec id */
    GP_ERROR, /* struct gp_error + text: the request with this id failed before it started
               */
    GP_STDIN_CREDIT, /* u32 bytes the server may send */
    GP_STATE,        /* answer to QUERY: struct gp_state */
    GP_STATS,        /* answer to GET_STATS: struct gp_stats */
    GP_KILLED,       /* answer to KILL: u32 processes left (0 = none) */
    GP_GAP, /* u8 stream (1|2), 3 pad, u32 pad, u64 bytes not kept while the link was down
             */
    GP_PONG,
    /* server -> guest */
    GP_WELCOME = 64, /* struct gp_welcome */
    GP_EXEC,         /* struct gp_exec + blob, may be continued, see flags */
    GP_STDIN,        /* bytes; flag GP_F_EOF closes after them */
    GP_CREDIT_OUT,   /* u8 stream (1|2), 3 pad, u32 bytes */
    GP_KILL,         /* struct gp_kill */
    GP_QUERY,        /* what is known of this exec id */
    GP_GET_STATS,
    GP_FORGET, /* the exec id's record may go */
    GP_PING,
    GP_SHUTDOWN, /* kill everything and exit */
};

enum gp_flag {
    GP_F_MORE = 1, /* EXEC: the blob goes on in the next EXEC frame with the same id */
    GP_F_EOF = 2,
    GP_F_TAIL = 4, /* EXEC: stream mode tail: credit is given by the server at once, the
                      program never blocks */
};

struct gp_hello {
    uint32_t magic;
    uint16_t version;
    uint16_t reserved;
    uint8_t token[GP_TOKEN_LEN]; /* of PID 1's environment BOXGATE_TOKEN (hex there); zero
                                    if none */
    uint32_t pid_max;            /* informative */
    uint32_t execs;              /* live commands it still knows from an earlier epoch */
};

struct gp_welcome {
    uint32_t magic;
    uint32_t epoch;
    uint32_t linger_ms;       /* how long to live without a server when commands run */
    uint32_t linger_empty_ms; /* and when none does */
};

/* Then, one after another without padding: argc strings, envc strings ("K=V"), cwd; each a
 * u32 length and the bytes (no NUL inside). Total <= 4 MiB. stdin follows in STDIN frames.
 */
struct gp_exec {
    uint32_t argc, envc;
    uint32_t deadline_ms; /* from start; 0 = none (managed processes) */
    uint32_t total;       /* bytes of the blob over all continuation frames */
    uint32_t uid, gid;    /* to change to when the guest is root; else ignored */
    uint32_t credit;      /* initial credit per stream, bytes */
    uint32_t root; /* cwd may not leave the folder that its first bytes name, not by a
                      link either; 0 = no such folder */
};

struct gp_started {
    int32_t pid; /* inside the sandbox */
};

enum gp_why {
    GP_WHY_EXITED = 0,
    GP_WHY_DEADLINE,        /* killed by its deadline */
    GP_WHY_KILLED,          /* killed by KILL */
    GP_WHY_SUPERVISOR_LOST, /* the supervisor went without a report; never a success */
    GP_WHY_OOM,             /* the memory counters moved and it was killed */
};

struct gp_exit {
    int32_t code;   /* exit code, or -1 */
    int32_t signal; /* or 0 */
    uint32_t why;
    uint32_t leftover;  /* processes it left running (0 after deadline and kill) */
    uint32_t oom_kills; /* how far the cgroup's counter moved during the run */
    uint32_t duration_ms;
};

enum gp_err {
    GP_ERR_NOENT = 1, /* command not found */
    GP_ERR_ACCES,     /* not executable */
    GP_ERR_CWD,       /* cwd missing or outside */
    GP_ERR_LIMIT,     /* process limit reached */
    GP_ERR_BAD,       /* malformed request */
    GP_ERR_UNKNOWN,   /* no such exec id */
    GP_ERR_OTHER,
};

struct gp_error {
    uint32_t err; /* enum gp_err */
    int32_t sys;  /* errno */
    /* text follows, at most 256 bytes */
};

enum gp_state_kind { GP_STATE_UNKNOWN = 0, GP_STATE_LIVE, GP_STATE_DONE };
struct gp_state {
    uint32_t kind;
    struct gp_exit exit; /* valid when DONE */
};

struct gp_kill {
    uint32_t grace_ms; /* TERM first and wait this long; 0 = KILL at once */
};

struct gp_stats {
    uint64_t cpu_us;
    uint64_t mem_bytes; /* of the cgroup where readable, else the sum of RSS */
    uint64_t mem_limit; /* 0 = none seen */
    uint32_t processes; /* without the guest and its supervisors */
    uint32_t execs;
};

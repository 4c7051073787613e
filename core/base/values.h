/* SPDX-License-Identifier: MIT */
/*
 * Every default and every cap of boxgate, once. README's table and `boxgate config show`
 * are compared with this header by tests/unit/test_values.c. Unit in the name: MS, MB
 * (MiB), BYTES.
 */
#pragma once

#define BG_VERSION "0.1.0"
#define BG_PROTO 1
#define BG_CONFIG_VERSION 1
#define BG_AUDIT_SCHEMA 1

/* profile */
#define BG_IMAGE_DEFAULT "node:22-bookworm"
#define BG_IMAGE_NODE "node:22-bookworm"
#define BG_IMAGE_PYTHON "python:3.13-bookworm"
#define BG_IMAGE_DENO "denoland/deno:debian"
#define BG_WORKDIR "/workspace"
#define BG_WORKSPACE_MB 176
#define BG_TMP_MB 64
#define BG_SHM_MB 16
#define BG_USER_DEFAULT "1000:1000"
#define BG_SANDBOX_UID 1000

/* limits */
#define BG_MEMORY_MB 512
#define BG_CPUS_MILLI 1000
#define BG_PIDS 256
#define BG_TIMEOUT_MS 30000
#define BG_RUN_TIMEOUT_MS 60000
#define BG_MAX_TIMEOUT_MS 300000
#define BG_MAX_OUTPUT_BYTES 1048576
#define BG_MAX_FILE_BYTES 8388608
#define BG_MAX_PROCESSES 4
#define BG_PROCESS_TAIL_BYTES 262144

/* life cycle */
#define BG_IDLE_MS 300000
#define BG_TTL_MS 28800000
#define BG_GRACE_MS 5000
#define BG_LINGER_MS 600000
#define BG_LINGER_EMPTY_MS 60000
#define BG_AUTOSTART_EXIT_MS 600000
#define BG_SERVER_READY_MS 15000 /* a server that has not said so by then has failed */
#define BG_ENGINE_CREATE_MS 120000
#define BG_ENGINE_CALL_MS 30000
#define BG_WAIT_PORT_MS 30000
#define BG_WAIT_PORT_INTERVAL_MS 250
#define BG_HOOK_MS 5000
#define BG_POOL_AGE_MS 600000

/* agent tools */
#define BG_TOOL_READ_BYTES 65536
#define BG_TOOL_WRITE_BYTES 1048576
#define BG_TOOL_LOG_BYTES 65536
#define BG_TOOL_WAIT_MS 30000

/* the most a config may ask for */
#define BG_CFG_MS_MAX 2592000000 /* 30 days */
#define BG_CFG_MB_MAX 16777216
#define BG_CFG_CPUS_MILLI_MAX 1024000
#define BG_CFG_PIDS_MAX 4194304
#define BG_CFG_BYTES_MAX 67108864 /* held in memory by the server */
#define BG_CFG_PROCESSES_MAX 256
#define BG_CFG_PROFILES_MAX 64
#define BG_CFG_LIST_MAX 256 /* elements of a list or map that has no cap of its own */
#define BG_CFG_POOL_MAX 64
#define BG_CFG_DAYS_MAX 36500
#define BG_POLICY_RULES_MAX 1024
#define BG_PROJECT_TEXTS \
    16 /* codeContains of a project's file: each is a search of the code */
#define BG_POLICY_USES_MAX 1000000000

/* approvals */
#define BG_PENDING_MS 900000
#define BG_NO_CONSOLE_MS 120000
#define BG_DETACH_MS 600000
#define BG_ARM_MS 600
#define BG_DENY_MEMORY_MS 600000
#define BG_SESSION_SCOPE_MS 28800000
#define BG_BLOB_DAYS 90
#define BG_SHA_PREFIX_MIN 16 /* hex digits `approve --sha` needs */
#define BG_HIGH_DIGITS 4     /* typed in the console for HIGH */
#define BG_REASON_MAX 500    /* bytes of a deny reason or a note */

/* queue */
#define BG_PENDING_PER_CONN 8
#define BG_PENDING_PER_UID 32
#define BG_PENDING_MAX 256
#define BG_SESSIONS_MAX 256
#define BG_SERVER_FILES 4096          /* open descriptors the server asks for */
#define BG_FINAL_KEPT 256             /* final requests that can still be looked at */
#define BG_RESULTS_KEPT_BYTES 8388608 /* of their results, together */
#define BG_FINAL_KEPT_BYTES 67108864  /* of the code, arguments and input they hold */
#define BG_DENY_ENTRIES 1024          /* denied bytes that are remembered */
#define BG_COUNTS_MAX 1024            /* rules with a count; sessions with runs */
#define BG_WAIT_MAX_MS 86400000       /* waitMs, and how far an approval is extended */
#define BG_CALL_ID_MAX 256
#define BG_PURPOSE_MAX 2000
#define BG_RENDER_VERSION 1 /* of the review renderer, kept with each decision */

/* wire and parsers */
#define BG_HELLO_MS 5000 /* a client gives a server up that does not answer hello */
#define BG_JSON_LINE_MAX 16777216
#define BG_JSON_HELLO_MAX 65536
#define BG_JSON_DEPTH_MAX 64
#define BG_RPC_ID_MAX 256    /* bytes of a request's id; it is kept while it waits */
#define BG_WAITS_PER_CONN 64 /* answers one connection may wait for at a time */
#define BG_AGENT_CONNS 128   /* on agent.sock, so that operators always find a place */
#define BG_YAML_MAX 262144
#define BG_YAML_DEPTH_MAX 16
#define BG_CODE_MAX 1048576
#define BG_INPUT_MAX 8388608
#define BG_ARGS_MAX 1024          /* elements of argv */
#define BG_ARG_BYTES_MAX 131072   /* one element; the kernel's own limit */
#define BG_ARGV_BYTES_MAX 2097152 /* argv and env together; more no kernel starts */
#define BG_ARGV_KEPT 65536 /* of argv in a record or a row; the hash binds all of it */
#define BG_ENV_MAX 256
#define BG_ENV_NAME_MAX 128
#define BG_ENV_VALUE_MAX 32768
#define BG_EVENT_RING 4096
#define BG_CONSOLE_BEHIND_MAX 8388608
#define BG_HTTP_HEAD_MAX 16384
#define BG_ID_MAX 64
#define BG_LABELS_MAX 32
#define BG_LABEL_KEY_MAX 63
#define BG_LABEL_VALUE_MAX 256
#define BG_PATH_BYTES_MAX 4095
#define BG_MANIFEST_KEY_MAX 255

/* guest link */
#define BG_FRAME_MAX 65536
#define BG_FRAME_PREAUTH_MAX 64
#define BG_AUTH_MS 1000
#define BG_AUTH_CONNS 4
#define BG_STREAM_CREDIT 262144
#define BG_PIPE_BYTES 1048576 /* asked for a pipe that carries a program's output */
#define BG_SESSION_CREDIT 4194304
#define BG_GUEST_REMEMBER 256
#define BG_DRAIN_MS 500 /* pipes still held by children after the main process ended */
#define BG_KILL_MS 1000 /* after this the container goes */

/* what is shown (columns unless it says otherwise) */
#define BG_TEXT_TAB 4
#define BG_TEXT_LOG_TAB 8
#define BG_TEXT_PAD_BLANKS 40  /* more blanks in a row are a hazard */
#define BG_TEXT_PAD_TABS 8     /* more tabs in a row, too */
#define BG_TEXT_PAD_COLUMN 120 /* and a tab from here on */
#define BG_TEXT_LONG_LINE 2000
#define BG_TEXT_MARKS 2           /* combining marks on one base */
#define BG_TEXT_SEQUENCE_MAX 4096 /* bytes of an escape sequence that a log may hide */

/* log files */
#define BG_LOG_BYTES 4194304
#define BG_LOG_FILES 4

/* local provider */
#define BG_LOCAL_UID_BASE 2063597568u
#define BG_LOCAL_UID_BASE_MIN 100000
#define BG_LOCAL_UID_BASE_MAX 4294901760
#define BG_LOCAL_UIDS 65536u        /* how many from there on are ours */
#define BG_LOCAL_CREATE_MS 30000    /* a sandbox that is not up by then has failed */
#define BG_LOCAL_GONE_MS 5000       /* its processes must be gone by then */
#define BG_LOCAL_SWEEP_MS 2000      /* the same for what a dead server left */
#define BG_GUEST_BYTES_MAX 16777216 /* the program boxgate-guest */

/* container engines */
#define BG_ENGINE_API_MIN 41 /* 1.41: Docker 20.10, Podman 4 */
#define BG_ENGINE_API_MAX 51
#define BG_ENGINE_ANSWER_MAX 1048576
#define BG_ENGINE_LIST_MAX 16777216
#define BG_ENGINE_LINE_MAX 262144  /* one event, one line of a pull */
#define BG_ENGINE_STRINGS_MAX 4096 /* elements taken from a list of an answer */
#define BG_ENGINE_RETRY_MS 500     /* before the events are asked for again */
#define BG_ENGINE_RETRY_MAX_MS 10000
#define BG_ENGINE_SERVICE_MS 10000 /* our own podman service must answer by then */
#define BG_ENGINE_SERVICE_IDLE_S                                                        \
    60                            /* it ends by itself when nobody talked to it so long \
                                   */
#define BG_ENGINE_REMOVE_MS 20000 /* a container must be gone by then */
#define BG_ENGINE_LATE_MS 600000  /* a create that took too long is still waited for */
#define BG_ENGINE_LOST_MS 2000    /* for asking why a container went */

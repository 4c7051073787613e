/* SPDX-License-Identifier: MIT */
/*
 * Errors are values. The caller owns a struct bg_error; the place that knows sets it, once.
 *
 * Contract (tests/unit/test_error.c holds it): a function that can fail returns bool or a
 * pointer and takes `struct bg_error *err` last. On success *err is untouched; on failure
 * err->code != BG_OK. err may be NULL when the caller does not care for the text.
 * A non-zero exit of the user's program is a result, never an error.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>

#define BG_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define BG_CHECK __attribute__((warn_unused_result))
#define BG_UNUSED __attribute__((unused))

/* Stable: part of the C API, of the RPC error data and of the exit text. */
enum bg_errc {
    BG_OK = 0,
    /* the seeds' classes */
    BG_ERR_UNAVAILABLE, /* no sandbox can be had: engine absent, trial run failed */
    BG_ERR_COMMAND,     /* the command could not be started */
    BG_ERR_DESTROYED,   /* the session is closed or lost */
    BG_ERR_PATH,
    BG_ERR_TIMEOUT,
    BG_ERR_FILE_SIZE,
    BG_ERR_POLICY,
    BG_ERR_PORT,
    BG_ERR_PROCESS,
    /* ours */
    BG_ERR_USAGE,       /* the caller's arguments */
    BG_ERR_CONFIG,      /* config.yaml, policy.yaml, a theme */
    BG_ERR_PROTOCOL,    /* malformed or unexpected bytes from a peer */
    BG_ERR_LIMIT,       /* a cap of values.h was reached */
    BG_ERR_LANGUAGE,    /* the image lacks the language's interpreter */
    BG_ERR_UNSUPPORTED, /* this back end can't do that */
    BG_ERR_IO,
    BG_ERR_NOT_FOUND,
    BG_ERR_FORBIDDEN,
    BG_ERR_HASH_MISMATCH,
    BG_ERR_ALREADY_DECIDED,
    BG_ERR_EXPIRED,
    BG_ERR_CONFLICT, /* same call id, other bytes */
    BG_ERR_AUDIT,    /* the audit store can't be written: deny */
    BG_ERR_HAZARDS,  /* hazards were not acknowledged */
    BG_ERR_SELF_APPROVAL,
    BG_ERR_CANCELLED,
    BG_ERR_BINDING, /* what would run is not what was approved */
    BG_ERR_INTERNAL,
    BG_ERR_COUNT_
};

#define BG_ERROR_MSG_MAX 480

struct bg_error {
    enum bg_errc code;
    int sys;                    /* errno, or 0 */
    char msg[BG_ERROR_MSG_MAX]; /* one sentence for a person, no newline, valid UTF-8 */
};

/*
 * Fills *err (if any) and returns false, so callers write `return bg_fail(...)`.
 * `sys` != 0 appends ": strerror(sys)". Bytes that are not printable UTF-8 in the
 * formatted text are replaced, so a message may carry untrusted names.
 */
BG_PRINTF(4, 5)
bool bg_fail(struct bg_error *err, enum bg_errc code, int sys, const char *fmt, ...);
BG_PRINTF(4, 0)
bool bg_fail_v(struct bg_error *err, enum bg_errc code, int sys, const char *fmt,
               va_list ap);

/* Puts "text: " before the message; for context added on the way up. */
BG_PRINTF(2, 3) void bg_error_prefix(struct bg_error *err, const char *fmt, ...);

/* Stable lower-case name ("unavailable", "hash_mismatch"); "unknown" outside the range. */
const char *bg_errc_name(enum bg_errc code);
/* The inverse; BG_ERR_INTERNAL for a name nobody knows. */
enum bg_errc bg_errc_from_name(const char *name);

/* SPDX-License-Identifier: MIT */
/*
 * Filling in errors. A message may carry names that an agent or an engine chose, and it
 * ends on somebody's terminal; so the formatted text goes through a filter here, whatever
 * the caller did.
 */
#include "core/base/error.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"

static const char *const names[BG_ERR_COUNT_] = {
    [BG_OK] = "ok",
    [BG_ERR_UNAVAILABLE] = "unavailable",
    [BG_ERR_COMMAND] = "command",
    [BG_ERR_DESTROYED] = "destroyed",
    [BG_ERR_PATH] = "path",
    [BG_ERR_TIMEOUT] = "timeout",
    [BG_ERR_FILE_SIZE] = "file_size",
    [BG_ERR_POLICY] = "policy",
    [BG_ERR_PORT] = "port",
    [BG_ERR_PROCESS] = "process",
    [BG_ERR_USAGE] = "usage",
    [BG_ERR_CONFIG] = "config",
    [BG_ERR_PROTOCOL] = "protocol",
    [BG_ERR_LIMIT] = "limit",
    [BG_ERR_LANGUAGE] = "language",
    [BG_ERR_UNSUPPORTED] = "unsupported",
    [BG_ERR_IO] = "io",
    [BG_ERR_NOT_FOUND] = "not_found",
    [BG_ERR_FORBIDDEN] = "forbidden",
    [BG_ERR_HASH_MISMATCH] = "hash_mismatch",
    [BG_ERR_ALREADY_DECIDED] = "already_decided",
    [BG_ERR_EXPIRED] = "expired",
    [BG_ERR_CONFLICT] = "conflict",
    [BG_ERR_AUDIT] = "audit",
    [BG_ERR_HAZARDS] = "hazards",
    [BG_ERR_SELF_APPROVAL] = "self_approval",
    [BG_ERR_CANCELLED] = "cancelled",
    [BG_ERR_BINDING] = "binding",
    [BG_ERR_INTERNAL] = "internal",
};

/* Code points that a terminal obeys or does not show: controls, bidi, separators, and
 * Unicode's Default_Ignorable and Cf. Sorted. */
static const struct {
    uint32_t first, last;
} hidden[] = {
    {0x0000, 0x001f},   {0x007f, 0x009f},    {0x00ad, 0x00ad},   {0x034f, 0x034f},
    {0x0600, 0x0605},   {0x061c, 0x061c},    {0x06dd, 0x06dd},   {0x070f, 0x070f},
    {0x0890, 0x0891},   {0x08e2, 0x08e2},    {0x115f, 0x1160},   {0x17b4, 0x17b5},
    {0x180b, 0x180f},   {0x200b, 0x200f},    {0x2028, 0x202e},   {0x2060, 0x206f},
    {0x3164, 0x3164},   {0xe000, 0xf8ff},    {0xfdd0, 0xfdef},   {0xfe00, 0xfe0f},
    {0xfeff, 0xfeff},   {0xffa0, 0xffa0},    {0xfff0, 0xfffb},   {0xfffe, 0xffff},
    {0x110bd, 0x110bd}, {0x110cd, 0x110cd},  {0x13430, 0x13438}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0x10ffff},
};

static bool is_hidden(uint32_t cp)
{
    for (size_t i = 0; i < bg_countof(hidden); i++)
        if (cp <= hidden[i].last)
            return cp >= hidden[i].first;
    return true;
}

/* Four bytes of input give at least one of output, so this much always fills a message. */
#define RAW_MAX (4 * BG_ERROR_MSG_MAX + 8)

/* Appends the printable form of s at out[len], which stays below max bytes; returns the new
 * length. A text that does not fit ends in three dots. */
static size_t put_clean(char *out, size_t len, size_t max, const char *s)
{
    size_t start = len, n = strlen(s);
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        int used = bg_utf8_decode(s + i, n - i, &cp);
        bool plain = used > 0 && !is_hidden(cp);
        char ch = s[i] == '\n' || s[i] == '\t' ? ' ' : '?';
        size_t w = plain ? (size_t)used : 1;
        if (len + w > max) {
            size_t room = bg_utf8_prefix(out + start, len - start, max - start - 3);
            len = start + room;
            memcpy(out + len, "...", 3);
            return len + 3;
        }
        memcpy(out + len, plain ? s + i : &ch, w);
        len += w;
        i += used > 0 ? (size_t)used : 1;
    }
    return len;
}

static void put_sys(char *out, size_t size, int sys)
{
    const char *text = strerrordesc_np(sys);
    if (text)
        snprintf(out, size, ": %s", text);
    else
        snprintf(out, size, ": error %d", sys);
}

bool bg_fail_v(struct bg_error *err, enum bg_errc code, int sys, const char *fmt,
               va_list ap)
{
    if (!err)
        return false;
    char raw[RAW_MAX];
    char suffix[80] = "";
    /* fmt's arguments may point into err itself, so err is written last. */
    if (vsnprintf(raw, sizeof raw, fmt, ap) < 0)
        raw[0] = '\0';
    if (sys)
        put_sys(suffix, sizeof suffix, sys);
    size_t len = put_clean(err->msg, 0, sizeof err->msg - 1 - strlen(suffix), raw);
    memcpy(err->msg + len, suffix, strlen(suffix) + 1);
    err->code = code > BG_OK && code < BG_ERR_COUNT_ ? code : BG_ERR_INTERNAL;
    err->sys = sys;
    return false;
}

bool bg_fail(struct bg_error *err, enum bg_errc code, int sys, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bg_fail_v(err, code, sys, fmt, ap);
    va_end(ap);
    return false;
}

void bg_error_prefix(struct bg_error *err, const char *fmt, ...)
{
    if (!err || err->code == BG_OK)
        return;
    char raw[RAW_MAX], old[BG_ERROR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(raw, sizeof raw, fmt, ap) < 0)
        raw[0] = '\0';
    va_end(ap);
    memcpy(old, err->msg, sizeof old);
    /* Context must not push the cause out: it gets half of the room at most. */
    size_t max = sizeof err->msg - 1;
    size_t len = put_clean(err->msg, 0, max / 2, raw);
    memcpy(err->msg + len, ": ", 2);
    len = put_clean(err->msg, len + 2, max, old);
    err->msg[len] = '\0';
}

const char *bg_errc_name(enum bg_errc code)
{
    return code >= BG_OK && code < BG_ERR_COUNT_ ? names[code] : "unknown";
}

enum bg_errc bg_errc_from_name(const char *name)
{
    for (int i = 0; name && i < BG_ERR_COUNT_; i++)
        if (!strcmp(names[i], name))
            return (enum bg_errc)i;
    return BG_ERR_INTERNAL;
}

/* SPDX-License-Identifier: MIT */
/* SHA-256, random bytes, constant-time compare, hex and base64 (libsodium behind). */
#pragma once

#include <stdint.h>

#include "core/base/buf.h"

#define BG_SHA256_LEN 32
#define BG_SHA256_HEX 64

struct bg_sha256 {
    unsigned char b[BG_SHA256_LEN];
};

struct bg_hasher; /* opaque, streaming */

/* Must run once before anything else here; idempotent; aborts if no entropy can be had. */
void bg_digest_init(void);

struct bg_hasher *bg_hasher_new(void);
void bg_hasher_add(struct bg_hasher *h, const void *p, size_t n);
/* u16be name length, name, u64be value length, value: the framing of contract.md 3. */
void bg_hasher_field(struct bg_hasher *h, const char *name, const void *p, size_t n);
struct bg_sha256 bg_hasher_end(struct bg_hasher *h); /* frees h */

struct bg_sha256 bg_sha256(const void *p, size_t n);
void bg_sha256_hex(const struct bg_sha256 *d, char out[BG_SHA256_HEX + 1]);
bool bg_sha256_from_hex(const char *hex,
                        struct bg_sha256 *out); /* exactly 64 lower/upper hex */
bool bg_sha256_eq(const struct bg_sha256 *a, const struct bg_sha256 *b);

void bg_random(void *p, size_t n);
void bg_random_hex(char *out, size_t bytes); /* writes 2*bytes hex digits and a NUL */
bool bg_equal_ct(const void *a, const void *b, size_t n);

void bg_hex(const void *p, size_t n, char *out); /* 2n digits and a NUL */
/* Standard base64 with padding. The result is malloc'ed and NUL-terminated. */
char *bg_base64(const void *p, size_t n);
/* Strict: no whitespace, padding required. Appends to out. */
BG_CHECK bool bg_base64_decode(struct bg_str s, struct bg_buf *out, struct bg_error *err);

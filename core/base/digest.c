/* SPDX-License-Identifier: MIT */
/* SHA-256, random bytes, hex and base64 over libsodium. */
#include "core/base/digest.h"

#include <stdlib.h>

#include <sodium.h>

#include "core/base/mem.h"

struct bg_hasher {
    crypto_hash_sha256_state st;
};

_Static_assert(BG_SHA256_LEN == crypto_hash_sha256_BYTES, "SHA-256 has 32 bytes");

void bg_digest_init(void)
{
    if (sodium_init() < 0)
        abort();
}

struct bg_hasher *bg_hasher_new(void)
{
    struct bg_hasher *h = bg_xmalloc(sizeof *h);
    crypto_hash_sha256_init(&h->st);
    return h;
}

void bg_hasher_add(struct bg_hasher *h, const void *p, size_t n)
{
    crypto_hash_sha256_update(&h->st, p, n);
}

static void add_be(struct bg_hasher *h, uint64_t v, int bytes)
{
    unsigned char be[8];
    for (int i = 0; i < bytes; i++)
        be[i] = (unsigned char)(v >> (8 * (bytes - 1 - i)));
    bg_hasher_add(h, be, (size_t)bytes);
}

void bg_hasher_field(struct bg_hasher *h, const char *name, const void *p, size_t n)
{
    size_t len = strlen(name);
    if (len > UINT16_MAX)
        abort(); /* names are ours; two bytes of length must stay unambiguous */
    add_be(h, len, 2);
    bg_hasher_add(h, name, len);
    add_be(h, n, 8);
    bg_hasher_add(h, p, n);
}

struct bg_sha256 bg_hasher_end(struct bg_hasher *h)
{
    struct bg_sha256 d;
    crypto_hash_sha256_final(&h->st, d.b);
    free(h);
    return d;
}

struct bg_sha256 bg_sha256(const void *p, size_t n)
{
    struct bg_sha256 d;
    crypto_hash_sha256(d.b, p, n);
    return d;
}

void bg_sha256_hex(const struct bg_sha256 *d, char out[BG_SHA256_HEX + 1])
{
    bg_hex(d->b, sizeof d->b, out);
}

bool bg_sha256_from_hex(const char *hex, struct bg_sha256 *out)
{
    struct bg_sha256 d;
    size_t n = 0;
    if (!hex || strlen(hex) != BG_SHA256_HEX ||
        sodium_hex2bin(d.b, sizeof d.b, hex, BG_SHA256_HEX, NULL, &n, NULL) ||
        n != sizeof d.b)
        return false;
    *out = d;
    return true;
}

bool bg_sha256_eq(const struct bg_sha256 *a, const struct bg_sha256 *b)
{
    return bg_equal_ct(a->b, b->b, sizeof a->b);
}

void bg_random(void *p, size_t n)
{
    randombytes_buf(p, n);
}

void bg_random_hex(char *out, size_t bytes)
{
    unsigned char *r = bg_xmalloc(bytes);
    bg_random(r, bytes);
    bg_hex(r, bytes, out);
    sodium_memzero(r, bytes);
    free(r);
}

bool bg_equal_ct(const void *a, const void *b, size_t n)
{
    return sodium_memcmp(a, b, n) == 0;
}

void bg_hex(const void *p, size_t n, char *out)
{
    sodium_bin2hex(out, 2 * n + 1, p, n);
}

char *bg_base64(const void *p, size_t n)
{
    size_t size = sodium_base64_encoded_len(n, sodium_base64_VARIANT_ORIGINAL);
    char *out = bg_xmalloc(size);
    return sodium_bin2base64(out, size, p, n, sodium_base64_VARIANT_ORIGINAL);
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes digits (no padding) to `to`; false for a foreign character or for bits that no
 * byte takes, which would give one value two spellings. */
static bool base64_bytes(struct bg_str digits, char *to)
{
    uint32_t acc = 0; /* its low `bits` are not written yet */
    int bits = 0;
    for (size_t i = 0; i < digits.n; i++) {
        int v = base64_digit(digits.p[i]);
        if (v < 0)
            return false;
        acc = (acc << 6 | (uint32_t)v) & 0xffff;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            *to++ = (char)(acc >> bits);
        }
    }
    return (acc & ((1u << bits) - 1)) == 0;
}

/* libsodium 1.0.18 takes some bytes past 0x7f for digits, so decoding is our own. */
bool bg_base64_decode(struct bg_str s, struct bg_buf *out, struct bg_error *err)
{
    if (s.n % 4)
        return bg_fail(err, BG_ERR_PROTOCOL, 0, "base64: the length is no multiple of 4");
    if (s.n == 0)
        return true;
    size_t pads = s.p[s.n - 1] != '=' ? 0 : s.p[s.n - 2] != '=' ? 1 : 2;
    size_t n = s.n / 4 * 3 - pads;
    char *to = bg_buf_reserve(out, n);
    if (!to)
        return bg_fail(err, BG_ERR_LIMIT, 0, "base64: more than %zu bytes", out->max);
    bool ok = base64_bytes((struct bg_str){s.p, s.n - pads}, to);
    out->len += ok ? n : 0;
    out->data[out->len] = '\0';
    return ok || bg_fail(err, BG_ERR_PROTOCOL, 0, "base64: malformed");
}

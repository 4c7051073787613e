/* SPDX-License-Identifier: MIT */
/* UTF-8, strictly: no overlong forms, no surrogates, nothing past U+10FFFF. */
#pragma once

#include "core/base/buf.h"

/*
 * Reads one code point at s (n >= 1 bytes). Returns the bytes used (1..4) and sets *cp;
 * 0 if the byte sequence is invalid; -1 if it is a valid beginning cut off by the end.
 */
int bg_utf8_decode(const char *s, size_t n, uint32_t *cp);
int bg_utf8_encode(uint32_t cp, char out[4]); /* bytes written; 0 for an impossible cp */
bool bg_utf8_valid(const char *s, size_t n);
/* The longest prefix of at most max bytes that ends on a character boundary. Invalid bytes
 * count as characters of one byte, so the prefix is never more than 3 bytes shorter. */
size_t bg_utf8_prefix(const char *s, size_t n, size_t max);
/* Appends s with invalid sequences replaced by U+FFFD (one per maximal subpart). */
void bg_utf8_lossy(struct bg_buf *out, const char *s, size_t n);

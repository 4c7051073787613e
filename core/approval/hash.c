/* SPDX-License-Identifier: MIT */
/*
 * The bound fields in hash order. The encoding is injective: every field carries its name
 * and its length, absent and empty differ (an absent one has no field), and each element of
 * argv and env is a field of its own, so no two different requests give the same bytes.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/approval/request.h"
#include "core/base/mem.h"

static const char magic[] = "boxgate-req-v1"; /* hashed with its NUL */

static void field(struct bg_bound *out, const char *name, const void *p, size_t n)
{
    out->f = bg_xrealloc(out->f, out->n + 1, sizeof *out->f);
    out->f[out->n++] = (struct bg_bound_field){bg_xstrdup(name),
                                               n ? bg_xmemdup(p, n) : bg_xcalloc(1, 1), n};
}

static void field_text(struct bg_bound *out, const char *name, const char *s)
{
    if (s)
        field(out, name, s, strlen(s));
}

static void field_number(struct bg_bound *out, const char *name, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, v);
    field_text(out, name, text);
}

void bg_bound_build(struct bg_bound *out, const struct bg_body *b,
                    const struct bg_binding *bind)
{
    char hex[BG_SHA256_HEX + 1];
    *out = (struct bg_bound){0};
    bg_sha256_hex(&bind->spec, hex);
    field_text(out, "kind", bg_request_kind_name(b->kind));
    field_number(out, "uid", bind->uid);
    field_text(out, "instance", bind->instance);
    field_text(out, "spec", hex);
    field_text(out, "workdir", bind->workdir);
    field_text(out, "language", b->language);
    for (char *const *a = bind->argv; a && *a; a++)
        field_text(out, "argv", *a);
    if (b->code)
        field(out, "code", b->code, b->code_len);
    field_text(out, "cwd", b->cwd);
    if (b->input)
        field(out, "input", b->input, b->input_len);
    for (char *const *e = b->env; e && *e; e++)
        field_text(out, "env", *e);
    field_number(out, "timeoutMs", bind->timeout_ms);
}

void bg_bound_free(struct bg_bound *b)
{
    for (size_t i = 0; i < b->n; i++) {
        free(b->f[i].name);
        free(b->f[i].bytes);
    }
    free(b->f);
    *b = (struct bg_bound){0};
}

struct bg_sha256 bg_bound_sha256(const struct bg_bound *b, bool skip_instance)
{
    struct bg_hasher *h = bg_hasher_new();
    bg_hasher_add(h, magic, sizeof magic);
    for (size_t i = 0; i < b->n; i++)
        if (!skip_instance || strcmp(b->f[i].name, "instance") != 0)
            bg_hasher_field(h, b->f[i].name, b->f[i].bytes, b->f[i].len);
    return bg_hasher_end(h);
}

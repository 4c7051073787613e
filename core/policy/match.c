/* SPDX-License-Identifier: MIT */
/* Holds a rule against the facts of one request, clause by clause. */
#include <string.h>
#include <uninorm.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/base/values.h"
#include "core/policy/rule.h"

/* The longest growth of one character in NFKC is U+FDFA: 3 bytes become 33. */
#define NFKC_GROWTH 16

void text_nfkc(struct bg_buf *out, const char *p, size_t n)
{
    bg_autobuf struct bg_buf valid;
    size_t len = 0;
    bg_buf_init(&valid, 3 * n + 1);
    bg_utf8_lossy(&valid, p, n);
    bg_buf_init(out, valid.len * NFKC_GROWTH + 1);
    uint8_t *norm =
        u8_normalize(UNINORM_NFKC, (const uint8_t *)valid.data, valid.len, NULL, &len);
    if (norm)
        bg_buf_put(out, norm, len);
    free(norm);
}

static struct bg_str raw_text(const struct bg_facts *f, size_t i)
{
    if (f->code.p && i == 0)
        return f->code;
    return bg_str_from(f->argv[i - (f->code.p ? 1 : 0)]);
}

static void make_texts(struct texts *t)
{
    t->n = (t->f->code.p ? 1 : 0) + bg_strv_len(t->f->argv);
    t->nfkc = t->n ? bg_xcalloc(t->n, sizeof *t->nfkc) : NULL;
    for (size_t i = 0; i < t->n; i++) {
        struct bg_str s = raw_text(t->f, i);
        text_nfkc(&t->nfkc[i], s.p, s.n);
    }
    t->made = true;
}

void texts_free(struct texts *t)
{
    for (size_t i = 0; i < t->n; i++)
        bg_buf_free(&t->nfkc[i]);
    free(t->nfkc);
}

/* The code and, for commands, each argument; raw and in NFKC, so that another spelling of
 * the same characters is found too. */
static bool texts_match(const struct rule *r, struct texts *t)
{
    if (!t->made)
        make_texts(t);
    for (size_t i = 0; i < t->n; i++) {
        struct bg_str raw = raw_text(t->f, i);
        for (size_t k = 0; k < r->n_texts; k++) {
            const struct text_rule *w = &r->texts[k];
            if (memmem(raw.p, raw.n, w->raw, strlen(w->raw)) ||
                memmem(t->nfkc[i].data, t->nfkc[i].len, w->nfkc, strlen(w->nfkc)))
                return true;
        }
    }
    return false;
}

static bool listed(char *const *list, const char *v)
{
    if (!list)
        return true;
    for (; v && *list; list++)
        if (!strcmp(*list, v))
            return true;
    return false;
}

static bool mounts_match(const struct rule *r, const struct bg_facts *f)
{
    switch (r->mounts) {
    case MOUNTS_UNSET:
        return true;
    case MOUNTS_NONE:
        return !f->mounts_any && !f->mounts_rw;
    case MOUNTS_RO:
        return !f->mounts_rw;
    case MOUNTS_ANY:
        return f->mounts_any || f->mounts_rw;
    case MOUNTS_RW:
        return f->mounts_rw;
    }
    return false;
}

static bool tri_match(enum tri want, bool is)
{
    return want == TRI_UNSET || (want == TRI_TRUE) == is;
}

static bool at_most(int64_t most, int64_t is)
{
    return !most || (is > 0 && is <= most);
}

bool rule_matches(const struct rule *r, struct texts *t,
                  void (*failed)(void *data, const char *clause), void *data)
{
    const struct bg_facts *f = t->f;
    const struct {
        const char *clause;
        bool holds;
    } clauses[] = {
        {"kinds", listed(r->kinds, f->kind)},
        {"sandbox.provider", listed(r->providers, f->provider)},
        {"sandbox.imageId", listed(r->image_ids, f->image_id)},
        {"sandbox.network", listed(r->networks, f->network)},
        {"sandbox.mounts", mounts_match(r, f)},
        {"sandbox.caps", tri_match(r->caps_none, f->caps_none)},
        {"sandbox.noNewPrivileges", tri_match(r->no_new_privileges, f->no_new_privileges)},
        {"sandbox.fresh", tri_match(r->fresh, f->fresh)},
        {"languages", listed(r->languages, f->language)},
        {"argv", !r->n_argv || rule_argv_matches(r, f)},
        {"hash", listed(r->hashes, f->sha256)},
        {"principal", listed(r->principals, f->principal)},
        {"limits.timeoutMs", at_most(r->limits.timeout_ms, f->timeout_ms)},
        {"limits.memoryMb", at_most(r->limits.memory_mb, f->memory_mb)},
        {"limits.pidsLimit", at_most(r->limits.pids, f->pids)},
        {"limits.cpus", at_most(r->limits.cpus_milli, f->cpus_milli)},
        {"unlimited", r->decision != BG_DECIDE_ALLOW || !f->unlimited},
        {"expires", !r->expires_ms || f->now_wall_ms < r->expires_ms},
        {"uses", !r->uses || r->used < r->uses},
        {"codeContains", !r->n_texts || texts_match(r, t)},
    };
    bool all = true;
    for (size_t i = 0; i < bg_countof(clauses); i++) {
        if (clauses[i].holds)
            continue;
        all = false;
        if (failed)
            failed(data, clauses[i].clause);
    }
    return all;
}

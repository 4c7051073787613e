/* SPDX-License-Identifier: MIT */
/* A plain array: at most BG_DENY_ENTRIES, looked at once per request. */
#include "core/approval/memory.h"

#include "core/base/mem.h"
#include "core/base/values.h"

static struct bg_deny_entry *find(const struct bg_deny_memory *m,
                                  const struct bg_sha256 *hash)
{
    for (size_t i = 0; i < m->n; i++)
        if (bg_sha256_eq(&m->e[i].hash, hash))
            return &m->e[i];
    return NULL;
}

static void drop(struct bg_deny_memory *m, size_t i)
{
    memmove(&m->e[i], &m->e[i + 1], (m->n - i - 1) * sizeof *m->e);
    m->n--;
}

void bg_deny_free(struct bg_deny_memory *m)
{
    free(m->e);
    *m = (struct bg_deny_memory){0};
}

void bg_deny_add(struct bg_deny_memory *m, const struct bg_sha256 *hash, uint32_t uid,
                 int64_t until_ms)
{
    struct bg_deny_entry new = {*hash, uid, 1, until_ms}, *old = find(m, hash);
    if (old) {
        new.count += old->count;
        drop(m, (size_t)(old - m->e));
    } else if (m->n == BG_DENY_ENTRIES) {
        drop(m, 0);
    }
    m->e = bg_xrealloc(m->e, m->n + 1, sizeof *m->e);
    m->e[m->n++] = new;
}

bool bg_deny_hit(struct bg_deny_memory *m, const struct bg_sha256 *hash, int64_t now_ms)
{
    struct bg_deny_entry *e = find(m, hash);
    if (!e || e->until_ms <= now_ms)
        return false;
    e->count++;
    return true;
}

uint32_t bg_deny_count(const struct bg_deny_memory *m, const struct bg_sha256 *hash)
{
    const struct bg_deny_entry *e = find(m, hash);
    return e ? e->count : 0;
}

size_t bg_deny_forget(struct bg_deny_memory *m, uint32_t uid, int64_t now_ms)
{
    size_t forgotten = 0;
    for (size_t i = m->n; i-- > 0;)
        if (m->e[i].uid == uid) {
            forgotten += m->e[i].until_ms > now_ms;
            drop(m, i);
        }
    return forgotten;
}

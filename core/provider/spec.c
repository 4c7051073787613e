/* SPDX-License-Identifier: MIT */
/* The resolved create options: copying, hashing, and their form on the wire. */
#include "core/provider/spec.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/values.h"

struct bg_spec *bg_spec_dup(const struct bg_spec *s)
{
    struct bg_spec *d = bg_xmemdup(s, sizeof *s);
    char **const strings[] = {&d->profile,   &d->provider,    &d->endpoint, &d->image,
                              &d->image_id,  &d->workdir,     &d->user,     &d->network,
                              &d->ports_via, &d->workspace_id};
    char ***const lists[] = {&d->env, &d->drop_capabilities, &d->labels, &d->metadata,
                             &d->not_enforced};
    for (size_t i = 0; i < bg_countof(strings); i++)
        *strings[i] = bg_xstrdup(*strings[i]);
    for (size_t i = 0; i < bg_countof(lists); i++)
        *lists[i] = *lists[i] ? bg_strv_dup(*lists[i]) : NULL;
    d->ports = d->n_ports ? bg_xmemdup(d->ports, d->n_ports * sizeof *d->ports) : NULL;
    d->mounts = d->n_mounts ? bg_xmemdup(d->mounts, d->n_mounts * sizeof *d->mounts) : NULL;
    for (size_t i = 0; i < d->n_mounts; i++) {
        d->mounts[i].host = bg_xstrdup(d->mounts[i].host);
        d->mounts[i].container = bg_xstrdup(d->mounts[i].container);
    }
    return d;
}

void bg_spec_free(struct bg_spec *s)
{
    if (!s)
        return;
    char *const strings[] = {s->profile,   s->provider,    s->endpoint, s->image,
                             s->image_id,  s->workdir,     s->user,     s->network,
                             s->ports_via, s->workspace_id};
    char **const lists[] = {s->env, s->drop_capabilities, s->labels, s->metadata,
                            s->not_enforced};
    for (size_t i = 0; i < bg_countof(strings); i++)
        free(strings[i]);
    for (size_t i = 0; i < bg_countof(lists); i++)
        bg_strv_free(lists[i]);
    for (size_t i = 0; i < s->n_mounts; i++) {
        free(s->mounts[i].host);
        free(s->mounts[i].container);
    }
    free(s->mounts);
    free(s->ports);
    free(s);
}

/* ---- hash: every field with its name and length; a list is its count, then its elements
 * ---- */

static void add_str(struct bg_hasher *h, const char *name, const char *v)
{
    bg_hasher_field(h, name, v ? v : "", v ? strlen(v) : 0);
}

static void add_int(struct bg_hasher *h, const char *name, uint64_t v)
{
    unsigned char be[8];
    for (int i = 7; i >= 0; i--, v >>= 8)
        be[i] = (unsigned char)v;
    bg_hasher_field(h, name, be, sizeof be);
}

static void add_list(struct bg_hasher *h, const char *name, char *const *v)
{
    add_int(h, name, bg_strv_len(v));
    for (size_t i = 0; v && v[i]; i++)
        add_str(h, name, v[i]);
}

static void add_mounts(struct bg_hasher *h, const struct bg_spec *s)
{
    add_int(h, "mounts", s->n_mounts);
    for (size_t i = 0; i < s->n_mounts; i++) {
        const struct bg_spec_mount *m = &s->mounts[i];
        add_str(h, "host", m->host);
        add_str(h, "container", m->container);
        add_int(h, "readOnly", m->read_only);
        add_int(h, "dev", m->dev);
        add_int(h, "ino", m->ino);
        add_int(h, "mode", m->mode);
    }
}

static void add_limits(struct bg_hasher *h, const struct bg_limits *l)
{
    add_int(h, "memoryMb", (uint64_t)l->memory_mb);
    add_int(h, "cpusMilli", (uint64_t)l->cpus_milli);
    add_int(h, "pidsLimit", (uint64_t)l->pids);
    add_int(h, "timeoutMs", (uint64_t)l->timeout_ms);
    add_int(h, "runTimeoutMs", (uint64_t)l->run_timeout_ms);
    add_int(h, "maxTimeoutMs", (uint64_t)l->max_timeout_ms);
    add_int(h, "maxOutputBytes", (uint64_t)l->max_output_bytes);
    add_int(h, "maxFileBytes", (uint64_t)l->max_file_bytes);
    add_int(h, "maxProcesses", (uint64_t)l->max_processes);
    add_int(h, "processTailBytes", (uint64_t)l->process_tail_bytes);
    add_int(h, "strictLimits", l->strict);
}

struct bg_sha256 bg_spec_sha256(const struct bg_spec *s)
{
    static const char domain[] = "boxgate-spec-v1";
    struct bg_hasher *h = bg_hasher_new();
    bg_hasher_add(h, domain, sizeof domain); /* with its NUL, as the request hash does it */
    add_str(h, "profile", s->profile);
    add_str(h, "provider", s->provider);
    add_str(h, "endpoint", s->endpoint);
    add_str(h, "image", s->image);
    add_str(h, "imageId", s->image_id);
    add_str(h, "workdir", s->workdir);
    add_str(h, "user", s->user);
    add_str(h, "network", s->network);
    add_list(h, "env", s->env);
    add_mounts(h, s);
    add_int(h, "ports", s->n_ports);
    for (size_t i = 0; i < s->n_ports; i++)
        add_int(h, "ports", (uint64_t)s->ports[i]);
    add_str(h, "portsVia", s->ports_via);
    add_limits(h, &s->limits);
    add_int(h, "readonlyRootfs", s->readonly_rootfs);
    add_int(h, "noNewPrivileges", s->no_new_privileges);
    add_list(h, "dropCapabilities", s->drop_capabilities);
    add_int(h, "persistent", s->workspace_persistent);
    add_int(h, "destroyOnSessionDestroy", s->destroy_workspace);
    add_str(h, "workspaceId", s->workspace_id);
    add_int(h, "storage", (uint64_t)s->storage);
    add_int(h, "sizeMb", (uint64_t)s->workspace_mb);
    add_int(h, "tmpSizeMb", (uint64_t)s->tmp_mb);
    add_list(h, "labels", s->labels);
    add_list(h, "metadata", s->metadata);
    add_int(h, "idleTimeoutMs", (uint64_t)s->idle_ms);
    add_int(h, "ttlMs", (uint64_t)s->ttl_ms);
    add_int(h, "autoDestroy", s->auto_destroy);
    add_int(h, "guest", s->guest);
    bg_hasher_field(h, "guestSha256", s->guest_sha256.b, sizeof s->guest_sha256.b);
    return bg_hasher_end(h);
}

/* ---- JSON ---- */

static void set_limit(cJSON *o, const char *key, int64_t v)
{
    if (v == BG_UNLIMITED)
        bg_jset_str(o, key, "unlimited");
    else
        bg_jset_int(o, key, v);
}

/* "K=V" pairs as an object; without values: their names as an array. */
static cJSON *pairs_json(char *const *v, bool values)
{
    cJSON *j = values ? bg_jo() : bg_ja();
    for (size_t i = 0; v && v[i]; i++) {
        const char *eq = strchr(v[i], '=');
        bg_autofree char *name = bg_xstrndup(v[i], (size_t)(eq - v[i]));
        if (values)
            bg_jset_str(j, name, eq + 1);
        else
            cJSON_AddItemToArray(j, cJSON_CreateString(name));
    }
    return j;
}

static cJSON *mounts_json(const struct bg_spec *s)
{
    cJSON *a = bg_ja();
    for (size_t i = 0; i < s->n_mounts; i++) {
        cJSON *m = bg_jo();
        bg_jset_str(m, "host", s->mounts[i].host);
        bg_jset_str(m, "container", s->mounts[i].container);
        bg_jset_bool(m, "readOnly", s->mounts[i].read_only);
        cJSON_AddItemToArray(a, m);
    }
    return a;
}

static cJSON *limits_json(const struct bg_limits *l)
{
    cJSON *o = bg_jo();
    set_limit(o, "memoryMb", l->memory_mb);
    if (l->cpus_milli == BG_UNLIMITED)
        bg_jset_str(o, "cpus", "unlimited");
    else
        bg_jset(o, "cpus", cJSON_CreateNumber((double)l->cpus_milli / 1000));
    set_limit(o, "pidsLimit", l->pids);
    set_limit(o, "timeoutMs", l->timeout_ms);
    set_limit(o, "runTimeoutMs", l->run_timeout_ms);
    set_limit(o, "maxTimeoutMs", l->max_timeout_ms);
    set_limit(o, "maxOutputBytes", l->max_output_bytes);
    set_limit(o, "maxFileBytes", l->max_file_bytes);
    set_limit(o, "maxProcesses", l->max_processes);
    set_limit(o, "processTailBytes", l->process_tail_bytes);
    bg_jset_bool(o, "strictLimits", l->strict);
    return o;
}

static cJSON *groups_json(const struct bg_spec *s, cJSON *o)
{
    cJSON *ports = bg_ja(), *security = bg_jo(), *workspace = bg_jo(), *lifecycle = bg_jo();
    for (size_t i = 0; i < s->n_ports; i++)
        cJSON_AddItemToArray(ports, cJSON_CreateNumber(s->ports[i]));
    bg_jset(o, "ports", ports);
    bg_jset_str(o, "portsVia", s->ports_via);
    bg_jset(o, "limits", limits_json(&s->limits));
    bg_jset_bool(security, "readonlyRootfs", s->readonly_rootfs);
    bg_jset_bool(security, "noNewPrivileges", s->no_new_privileges);
    bg_jset_strv(security, "dropCapabilities", s->drop_capabilities);
    bg_jset(o, "security", security);
    bg_jset_str(workspace, "mode", s->workspace_persistent ? "persistent" : "ephemeral");
    bg_jset_str(workspace, "storage",
                s->storage == BG_STORAGE_VOLUME ? "volume" : "memory");
    bg_jset_int(workspace, "sizeMb", s->workspace_mb);
    if (s->workspace_persistent) {
        bg_jset_str(workspace, "id", s->workspace_id);
        bg_jset_bool(workspace, "destroyOnSessionDestroy", s->destroy_workspace);
    }
    bg_jset(o, "workspace", workspace);
    bg_jset_int(o, "tmpSizeMb", s->tmp_mb);
    set_limit(lifecycle, "idleTimeoutMs", s->idle_ms);
    set_limit(lifecycle, "ttlMs", s->ttl_ms);
    bg_jset_bool(lifecycle, "autoDestroy", s->auto_destroy);
    bg_jset(o, "lifecycle", lifecycle);
    return o;
}

cJSON *bg_spec_json(const struct bg_spec *s, bool with_env)
{
    cJSON *o = bg_jo();
    char hex[BG_SHA256_HEX + 1];
    bg_jset_str(o, "profile", s->profile);
    bg_jset_str(o, "provider", s->provider);
    bg_jset_str(o, "endpoint", s->endpoint);
    bg_jset_str(o, "image", s->image);
    bg_jset_str(o, "imageId", s->image_id);
    bg_jset_str(o, "workdir", s->workdir);
    bg_jset_str(o, "user", s->user);
    bg_jset_str(o, "network", s->network);
    bg_jset(o, "env", pairs_json(s->env, with_env));
    bg_jset(o, "mounts", mounts_json(s));
    groups_json(s, o);
    bg_jset(o, "labels", pairs_json(s->labels, true));
    bg_jset(o, "metadata", pairs_json(s->metadata, true));
    bg_jset_bool(o, "guest", s->guest);
    bg_sha256_hex(&s->guest_sha256, hex);
    bg_jset_str(o, "guestSha256", hex);
    bg_jset_strv(o, "notEnforced", s->not_enforced);
    return o;
}

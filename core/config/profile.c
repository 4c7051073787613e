/* SPDX-License-Identifier: MIT */
/* Profiles: their key table, the keys that need code of their own, and rules between keys.
 */
#include <stddef.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/values.h"
#include "core/config/fields.h"

#define AT(member) offsetof(struct bg_profile, member)

static const struct {
    const char *preset, *image;
} presets[] = {
    {"node", BG_IMAGE_NODE}, {"python", BG_IMAGE_PYTHON}, {"deno", BG_IMAGE_DENO}};

static bool read_image(const struct cfg_in *in, const struct bg_yaml *n, void *obj)
{
    struct bg_profile *p = obj;
    const char *v;
    if (!bg_yaml_str(in->doc, n, &v, in->err) || !cfg_check_image(in, n, v))
        return false;
    for (size_t i = 0; i < bg_countof(presets); i++)
        if (!strcmp(v, presets[i].preset))
            v = presets[i].image;
    free(p->image);
    p->image = bg_xstrdup(v);
    return true;
}

/* Other YAML readers take these for booleans; which network was meant can't be known. */
static bool ambiguous_word(const char *v)
{
    static const char *const words[] = {"no", "off",  "n",     "yes",  "on",
                                        "y",  "true", "false", "null", "~"};
    for (size_t i = 0; i < bg_countof(words); i++)
        if (!strcasecmp(v, words[i]))
            return true;
    return false;
}

static bool read_network(const struct cfg_in *in, const struct bg_yaml *n, void *obj)
{
    struct bg_profile *p = obj;
    const char *v;
    if (!bg_yaml_str(in->doc, n, &v, in->err))
        return false;
    if (!n->quoted && !strcmp(v, "false"))
        v = "none";
    else if (!n->quoted && !strcmp(v, "true"))
        v = "bridge";
    else if (ambiguous_word(v) || !bg_id_valid(v))
        return bg_yaml_fail(in->doc, n, in->err,
                            "`%s`: expected none, bridge, host or a network name", v);
    free(p->network);
    p->network = bg_xstrdup(v);
    return true;
}

static bool read_ports(const struct cfg_in *in, const struct bg_yaml *n, void *obj)
{
    struct bg_profile *p = obj;
    if (!cfg_kind(in, n, BG_YAML_SEQ))
        return false;
    if (n->count > BG_CFG_LIST_MAX)
        return bg_yaml_fail(in->doc, n, in->err, "more than %d ports", BG_CFG_LIST_MAX);
    free(p->ports);
    p->n_ports = 0;
    p->ports = n->count ? bg_xcalloc(n->count, sizeof *p->ports) : NULL;
    for (size_t i = 0; i < n->count; i++) {
        int64_t port;
        if (!bg_yaml_int(in->doc, n->items[i], 1, 65535, &port, in->err))
            return false;
        for (size_t k = 0; k < p->n_ports; k++)
            if (p->ports[k] == port)
                return bg_yaml_fail(in->doc, n->items[i], in->err,
                                    "port %d is listed twice", (int)port);
        p->ports[p->n_ports++] = (int32_t)port;
    }
    return true;
}

static void print_ports(struct cfg_out *out, const char *key, const void *obj)
{
    const struct bg_profile *p = obj;
    cfg_put_key(out, key);
    bg_buf_puts(out->buf, " [");
    for (size_t i = 0; i < p->n_ports; i++)
        bg_buf_printf(out->buf, "%s%d", i ? ", " : "", p->ports[i]);
    bg_buf_puts(out->buf, "]\n");
}

static void clear_ports(void *obj)
{
    free(((struct bg_profile *)obj)->ports);
}

static const char *const mount_keys[] = {"host", "container", "readOnly", NULL};

static bool read_mount(const struct cfg_in *in, const struct bg_yaml *n, struct bg_mount *m)
{
    if (!cfg_kind(in, n, BG_YAML_MAP) || !bg_yaml_known(in->doc, n, mount_keys, in->err))
        return false;
    const struct bg_yaml *host = bg_yaml_get(n, "host"),
                         *target = bg_yaml_get(n, "container");
    const struct bg_yaml *ro = bg_yaml_get(n, "readOnly");
    const char *h, *t;
    if (!host || !target)
        return bg_yaml_fail(in->doc, n, in->err, "a mount needs `host` and `container`");
    if (!bg_yaml_str(in->doc, host, &h, in->err) ||
        !bg_yaml_str(in->doc, target, &t, in->err) || !cfg_check_target(in, target, t))
        return false;
    if (*h != '/' || strlen(h) > BG_PATH_BYTES_MAX)
        return bg_yaml_fail(in->doc, host, in->err,
                            "`%s`: expected an absolute path of the host", h);
    m->read_only = true;
    if (ro && !bg_yaml_bool(in->doc, ro, &m->read_only, in->err))
        return false;
    m->host = bg_xstrdup(h);
    m->container = bg_xstrdup(t);
    return true;
}

static void clear_mounts(void *obj)
{
    struct bg_profile *p = obj;
    for (size_t i = 0; i < p->n_mounts; i++) {
        free(p->mounts[i].host);
        free(p->mounts[i].container);
    }
    free(p->mounts);
    p->mounts = NULL;
    p->n_mounts = 0;
}

static bool read_mounts(const struct cfg_in *in, const struct bg_yaml *n, void *obj)
{
    struct bg_profile *p = obj;
    if (!cfg_kind(in, n, BG_YAML_SEQ))
        return false;
    if (n->count > BG_CFG_LIST_MAX)
        return bg_yaml_fail(in->doc, n, in->err, "more than %d mounts", BG_CFG_LIST_MAX);
    clear_mounts(p);
    p->mounts = n->count ? bg_xcalloc(n->count, sizeof *p->mounts) : NULL;
    for (size_t i = 0; i < n->count; i++) {
        struct bg_mount *m = &p->mounts[i];
        if (!read_mount(in, n->items[i], m))
            return false;
        p->n_mounts++;
        for (size_t k = 0; k < i; k++)
            if (!strcmp(p->mounts[k].container, m->container))
                return bg_yaml_fail(in->doc, n->items[i], in->err, "two mounts at `%s`",
                                    m->container);
    }
    return true;
}

static void print_mounts(struct cfg_out *out, const char *key, const void *obj)
{
    const struct bg_profile *p = obj;
    cfg_put_key(out, key);
    if (!p->n_mounts) {
        bg_buf_puts(out->buf, " []\n");
        return;
    }
    bg_buf_putc(out->buf, '\n');
    for (size_t i = 0; i < p->n_mounts; i++) {
        bg_buf_printf(out->buf, "%*s  - {host: ", 2 * out->depth, "");
        cfg_put_scalar(out->buf, p->mounts[i].host);
        bg_buf_puts(out->buf, ", container: ");
        cfg_put_scalar(out->buf, p->mounts[i].container);
        bg_buf_printf(out->buf, ", readOnly: %s}\n",
                      p->mounts[i].read_only ? "true" : "false");
    }
}

static bool read_always_approve(const struct cfg_in *in, const struct bg_yaml *n, void *obj)
{
    (void)obj;
    bool on;
    if (!bg_yaml_bool(in->doc, n, &on, in->err))
        return false;
    if (!on)
        return true;
    return bg_yaml_fail(
        in->doc, n, in->err,
        "approving everything can't be set here; write a rule into policy.yaml: "
        "- {id: my-rule, decision: allow, kinds: [run_code], sandbox: {provider: local, "
        "imageId: [host], network: none, mounts: none, caps: none, noNewPrivileges: "
        "true}}");
}

static bool workspace_rules(const struct cfg_in *in, const struct bg_yaml *n, void *obj)
{
    const struct bg_profile *p = obj;
    if (p->workspace_persistent && !*p->workspace_id)
        return bg_yaml_fail(in->doc, n, in->err, "a persistent workspace needs an `id`");
    if (p->workspace_persistent && p->storage != BG_STORAGE_VOLUME)
        return bg_yaml_fail(in->doc, n, in->err,
                            "a persistent workspace needs `storage: volume`");
    if (!p->workspace_persistent && (*p->workspace_id || p->destroy_workspace))
        return bg_yaml_fail(
            in->doc, n, in->err,
            "`id` and `destroyOnSessionDestroy` belong to `mode: persistent`");
    return true;
}

static const char *const workspace_modes[] = {"ephemeral", "persistent", NULL};
static const char *const storages[] = {"memory", "volume", NULL};
static const char *const pulls[] = {"missing", "always", "never", NULL};
static const char *const ports_via[] = {"auto", "engine", "guest", NULL};
static const char *const drop_all[] = {"ALL", NULL};

static const struct cfg_field workspace_fields[] = {
    {"mode", CFG_WORD, AT(workspace_persistent), .words = workspace_modes},
    {"id", CFG_STR, AT(workspace_id), .text = "", .check = cfg_check_id_or_empty},
    {"storage", CFG_ENUM, AT(storage), .words = storages},
    {"sizeMb", CFG_INT, AT(workspace_mb), 1, BG_CFG_MB_MAX, .dflt = BG_WORKSPACE_MB},
    {"destroyOnSessionDestroy", CFG_BOOL, AT(destroy_workspace), .dflt = false},
    {0}};

static const struct cfg_field manifest_fields[] = {
    {"files", CFG_MAP, AT(manifest.files), .max = BG_CFG_LIST_MAX, .check = cfg_check_file},
    {"directories", CFG_LIST, AT(manifest.directories), .max = BG_CFG_LIST_MAX,
     .check = cfg_check_relative},
    {"env", CFG_MAP, AT(manifest.env), .max = BG_ENV_MAX, .check = cfg_check_env},
    {0}};

/* What the server holds in its own memory can't be unlimited; the sandbox's can. */
static const struct cfg_field limit_fields[] = {
    {"memoryMb", CFG_INT, AT(limits.memory_mb), 1, BG_CFG_MB_MAX, .dflt = BG_MEMORY_MB,
     .unlimited = true},
    {"cpus", CFG_CPUS, AT(limits.cpus_milli), 10, BG_CFG_CPUS_MILLI_MAX,
     .dflt = BG_CPUS_MILLI, .unlimited = true},
    {"pidsLimit", CFG_INT, AT(limits.pids), 1, BG_CFG_PIDS_MAX, .dflt = BG_PIDS,
     .unlimited = true},
    {"timeoutMs", CFG_INT, AT(limits.timeout_ms), 1, BG_CFG_MS_MAX, .dflt = BG_TIMEOUT_MS,
     .unlimited = true},
    {"runTimeoutMs", CFG_INT, AT(limits.run_timeout_ms), 1, BG_CFG_MS_MAX,
     .dflt = BG_RUN_TIMEOUT_MS, .unlimited = true},
    {"maxTimeoutMs", CFG_INT, AT(limits.max_timeout_ms), 1, BG_CFG_MS_MAX,
     .dflt = BG_MAX_TIMEOUT_MS, .unlimited = true},
    {"maxOutputBytes", CFG_INT, AT(limits.max_output_bytes), 1, BG_CFG_BYTES_MAX,
     .dflt = BG_MAX_OUTPUT_BYTES},
    {"maxFileBytes", CFG_INT, AT(limits.max_file_bytes), 1, BG_CFG_BYTES_MAX,
     .dflt = BG_MAX_FILE_BYTES},
    {"maxProcesses", CFG_INT, AT(limits.max_processes), 1, BG_CFG_PROCESSES_MAX,
     .dflt = BG_MAX_PROCESSES},
    {"processTailBytes", CFG_INT, AT(limits.process_tail_bytes), 1, BG_CFG_BYTES_MAX,
     .dflt = BG_PROCESS_TAIL_BYTES},
    {"strictLimits", CFG_BOOL, AT(limits.strict), .dflt = false},
    {0}};

static const struct cfg_field security_fields[] = {
    {"readonlyRootfs", CFG_BOOL, AT(readonly_rootfs), .dflt = false},
    {"noNewPrivileges", CFG_BOOL, AT(no_new_privileges), .dflt = true},
    {"dropCapabilities", CFG_LIST, AT(drop_capabilities), .max = 64, .words = drop_all,
     .check = cfg_check_capability},
    {0}};

static const struct cfg_field lifecycle_fields[] = {
    {"idleTimeoutMs", CFG_INT, AT(idle_ms), 1, BG_CFG_MS_MAX, .dflt = BG_IDLE_MS,
     .unlimited = true},
    {"ttlMs", CFG_INT, AT(ttl_ms), 1, BG_CFG_MS_MAX, .dflt = BG_TTL_MS, .unlimited = true},
    {"autoDestroy", CFG_BOOL, AT(auto_destroy), .dflt = true},
    {0}};

static const struct cfg_field fields[] = {
    {"agents", CFG_BOOL, AT(agents), .dflt = true},
    {"image", CFG_STR, AT(image), .text = BG_IMAGE_DEFAULT, .read = read_image},
    {"pull", CFG_ENUM, AT(pull), .words = pulls},
    {"workdir", CFG_STR, AT(workdir), .text = BG_WORKDIR, .check = cfg_check_workdir},
    {"workspace", CFG_GROUP, .fields = workspace_fields, .read = workspace_rules},
    {"tmpSizeMb", CFG_INT, AT(tmp_mb), 1, BG_CFG_MB_MAX, .dflt = BG_TMP_MB},
    {"network", CFG_STR, AT(network), .text = "none", .read = read_network},
    {"ports", CFG_OWN, .read = read_ports, .print = print_ports, .clear = clear_ports},
    {"portsVia", CFG_STR, AT(ports_via), .text = "auto", .words = ports_via},
    {"user", CFG_STR, AT(user), .text = "", .check = cfg_check_user},
    {"env", CFG_MAP, AT(env), .max = BG_ENV_MAX, .check = cfg_check_env},
    {"manifest", CFG_GROUP, .fields = manifest_fields},
    {"metadata", CFG_MAP, AT(metadata), .max = BG_LABELS_MAX, .check = cfg_check_metadata},
    {"labels", CFG_MAP, AT(labels), .max = BG_LABELS_MAX, .check = cfg_check_label},
    {"mounts", CFG_OWN, .read = read_mounts, .print = print_mounts, .clear = clear_mounts},
    {"limits", CFG_GROUP, .fields = limit_fields},
    {"security", CFG_GROUP, .fields = security_fields},
    {"lifecycle", CFG_GROUP, .fields = lifecycle_fields},
    {"alwaysApprove", CFG_OWN, .read = read_always_approve},
    {0}};

/* Rules between keys of different groups. */
static bool profile_rules(const struct cfg_in *in, const struct bg_yaml *n,
                          const struct bg_profile *p)
{
    int64_t sum =
        p->tmp_mb + BG_SHM_MB + (p->storage == BG_STORAGE_MEMORY ? p->workspace_mb : 0);
    if (p->limits.memory_mb != BG_UNLIMITED && sum > p->limits.memory_mb / 2)
        return bg_yaml_fail(in->doc, n, in->err,
                            "profile `%s`: the memory file systems (workspace %lld + tmp "
                            "%lld + shm %d = %lld MiB) "
                            "take more than half of memoryMb (%lld)",
                            p->name, (long long)(sum - p->tmp_mb - BG_SHM_MB),
                            (long long)p->tmp_mb, BG_SHM_MB, (long long)sum,
                            (long long)p->limits.memory_mb);
    for (size_t i = 0; i < p->n_mounts; i++) {
        const char *at = p->mounts[i].container;
        size_t len = strlen(at);
        if (!strcmp(at, "/tmp") ||
            (!strncmp(p->workdir, at, len) && (!p->workdir[len] || p->workdir[len] == '/')))
            return bg_yaml_fail(in->doc, n, in->err,
                                "profile `%s`: a mount at `%s` would cover %s", p->name, at,
                                !strcmp(at, "/tmp") ? "the temporary folder" : "workdir");
    }
    return true;
}

static void init_profile(struct bg_profile *p, const char *name)
{
    *p = (struct bg_profile){.name = bg_xstrdup(name)};
    cfg_defaults(fields, p);
}

void cfg_default_profiles(struct bg_config *c)
{
    c->profiles = bg_xcalloc(1, sizeof *c->profiles);
    c->n_profiles = 1;
    init_profile(c->profiles, "default");
}

void cfg_clear_profiles(void *obj)
{
    struct bg_config *c = obj;
    for (size_t i = 0; i < c->n_profiles; i++) {
        cfg_clear(fields, &c->profiles[i]);
        free(c->profiles[i].name);
    }
    free(c->profiles);
    c->profiles = NULL;
    c->n_profiles = 0;
}

/* A file that names profiles has exactly those: no built-in one stays open beside them. */
bool cfg_read_profiles(const struct cfg_in *in, const struct bg_yaml *n, void *obj)
{
    struct bg_config *c = obj;
    if (!cfg_kind(in, n, BG_YAML_MAP))
        return false;
    if (n->count < 1 || n->count > BG_CFG_PROFILES_MAX)
        return bg_yaml_fail(in->doc, n, in->err, "expected 1 to %d profiles",
                            BG_CFG_PROFILES_MAX);
    cfg_clear_profiles(c);
    c->profiles = bg_xcalloc(n->count, sizeof *c->profiles);
    for (size_t i = 0; i < n->count; i++) {
        const struct bg_yaml *item = n->items[i];
        struct bg_profile *p = &c->profiles[c->n_profiles++];
        init_profile(p, item->key);
        if (!cfg_check_id(in, item, item->key) || !cfg_read(in, fields, item, p) ||
            !profile_rules(in, item, p))
            return false;
    }
    return true;
}

void cfg_print_profiles(struct cfg_out *out, const char *key, const void *obj)
{
    const struct bg_config *c = obj;
    cfg_put_key(out, key);
    bg_buf_putc(out->buf, '\n');
    out->depth++;
    for (size_t i = 0; i < c->n_profiles; i++) {
        cfg_put_key(out, c->profiles[i].name);
        bg_buf_putc(out->buf, '\n');
        out->depth++;
        cfg_print(out, fields, &c->profiles[i]);
        out->depth--;
    }
    out->depth--;
}

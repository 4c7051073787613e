/* SPDX-License-Identifier: MIT */
/* config.yaml: the key table of everything outside profiles, loading, printing, look-ups.
 */
#include "core/config/config.h"

#include <stddef.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/values.h"
#include "core/config/fields.h"

#define AT(member) offsetof(struct bg_config, member)

static const char *const provider_names[] = {"none", "local", "container"};

const char *bg_provider_kind_name(enum bg_provider_kind k)
{
    return provider_names[(size_t)k < bg_countof(provider_names) ? k : BG_PROVIDER_NONE];
}

bool bg_provider_kind_from(const char *name, enum bg_provider_kind *out)
{
    for (size_t i = BG_PROVIDER_LOCAL; i < bg_countof(provider_names); i++) {
        if (strcmp(name, provider_names[i]) != 0)
            continue;
        *out = (enum bg_provider_kind)i;
        return true;
    }
    return false;
}

static bool read_provider(const struct cfg_in *in, const struct bg_yaml *n, void *obj)
{
    static const char *const hosted[] = {"e2b", "daytona", "cloudflare"};
    const char *v;
    if (!bg_yaml_str(in->doc, n, &v, in->err))
        return false;
    if (bg_provider_kind_from(v, &((struct bg_config *)obj)->provider))
        return true;
    for (size_t i = 0; i < bg_countof(hosted); i++)
        if (!strcmp(v, hosted[i]))
            return bg_yaml_fail(in->doc, n, in->err,
                                "provider `%s` isn't in this version; local or container",
                                v);
    return bg_yaml_fail(in->doc, n, in->err, "expected one of: local, container");
}

static void print_provider(struct cfg_out *out, const char *key, const void *obj)
{
    const struct bg_config *c = obj;
    if (c->provider == BG_PROVIDER_NONE) {
        bg_buf_puts(out->buf, "# provider: not chosen; `boxgate init` writes it\n");
        return;
    }
    cfg_put_key(out, key);
    bg_buf_printf(out->buf, " %s\n", bg_provider_kind_name(c->provider));
}

static void clear_languages(void *obj)
{
    struct bg_config *c = obj;
    for (size_t i = 0; i < c->n_languages; i++) {
        free(c->languages[i].name);
        bg_strv_free(c->languages[i].argv);
    }
    free(c->languages);
}

static struct bg_language *add_language(struct bg_config *c, const char *name)
{
    for (size_t i = 0; i < c->n_languages; i++)
        if (!strcmp(c->languages[i].name, name))
            return &c->languages[i];
    c->languages = bg_xrealloc(c->languages, c->n_languages + 1, sizeof *c->languages);
    struct bg_language *l = &c->languages[c->n_languages++];
    *l = (struct bg_language){.name = bg_xstrdup(name)};
    return l;
}

/* What the file names is added to the built-in ones or replaces one of them. */
static bool read_languages(const struct cfg_in *in, const struct bg_yaml *n, void *obj)
{
    if (!cfg_kind(in, n, BG_YAML_MAP))
        return false;
    if (n->count > BG_CFG_LIST_MAX)
        return bg_yaml_fail(in->doc, n, in->err, "more than %d languages", BG_CFG_LIST_MAX);
    for (size_t i = 0; i < n->count; i++) {
        const struct bg_yaml *item = n->items[i];
        if (!cfg_check_id(in, item, item->key) || !cfg_kind(in, item, BG_YAML_SEQ))
            return false;
        if (!item->count)
            return bg_yaml_fail(in->doc, item, in->err, "`%s` needs the interpreter's argv",
                                item->key);
        if (!cfg_list(in, item, BG_ARGS_MAX, cfg_check_arg,
                      &add_language(obj, item->key)->argv))
            return false;
    }
    return true;
}

static void print_languages(struct cfg_out *out, const char *key, const void *obj)
{
    const struct bg_config *c = obj;
    cfg_put_key(out, key);
    bg_buf_putc(out->buf, '\n');
    out->depth++;
    for (size_t i = 0; i < c->n_languages; i++) {
        cfg_put_key(out, c->languages[i].name);
        bg_buf_putc(out->buf, ' ');
        cfg_put_list(out->buf, c->languages[i].argv);
        bg_buf_putc(out->buf, '\n');
    }
    out->depth--;
}

static const struct cfg_field pool_fields[] = {
    {"size", CFG_INT, offsetof(struct bg_pool, size), 0, BG_CFG_POOL_MAX, .dflt = 0},
    {"maxAgeMs", CFG_INT, offsetof(struct bg_pool, max_age_ms), 1, BG_CFG_MS_MAX,
     .dflt = BG_POOL_AGE_MS},
    {0}};

static void clear_pool(void *obj)
{
    struct bg_config *c = obj;
    for (size_t i = 0; i < c->n_pool; i++)
        free(c->pool[i].profile);
    free(c->pool);
}

static bool read_pool(const struct cfg_in *in, const struct bg_yaml *n, void *obj)
{
    struct bg_config *c = obj;
    if (!cfg_kind(in, n, BG_YAML_MAP))
        return false;
    c->pool = n->count ? bg_xcalloc(n->count, sizeof *c->pool) : NULL;
    for (size_t i = 0; i < n->count; i++) {
        struct bg_pool *pool = &c->pool[c->n_pool++];
        cfg_defaults(pool_fields, pool);
        pool->profile = bg_xstrdup(n->items[i]->key);
        if (!cfg_read(in, pool_fields, n->items[i], pool))
            return false;
    }
    return true;
}

static void print_pool(struct cfg_out *out, const char *key, const void *obj)
{
    const struct bg_config *c = obj;
    cfg_put_key(out, key);
    bg_buf_puts(out->buf, c->n_pool ? "\n" : " {}\n");
    out->depth++;
    for (size_t i = 0; i < c->n_pool; i++) {
        cfg_put_key(out, c->pool[i].profile);
        bg_buf_printf(out->buf, " {size: %lld, maxAgeMs: %lld}\n",
                      (long long)c->pool[i].size, (long long)c->pool[i].max_age_ms);
    }
    out->depth--;
}

static bool tool_rules(const struct cfg_in *in, const struct bg_yaml *n, void *obj)
{
    const struct bg_config *c = obj;
    if (bg_strv_len(c->tools.include) && bg_strv_len(c->tools.allow))
        return bg_yaml_fail(
            in->doc, n, in->err,
            "`include` adds tools, `allow` names them all; use one of them");
    return true;
}

static const char *const runtimes[] = {"auto", "podman", "docker", NULL};
static const char *const guest_modes[] = {"auto", "off", NULL};
static const char *const auth_modes[] = {"peer", "pin", NULL};
static const char *const borders[] = {"line", "round", "ascii", NULL};

#define MS(key, member, value)                                    \
    {                                                             \
        key, CFG_INT, AT(member), 1, BG_CFG_MS_MAX, .dflt = value \
    }
#define BYTES(key, member, value)                                    \
    {                                                                \
        key, CFG_INT, AT(member), 1, BG_CFG_BYTES_MAX, .dflt = value \
    }
#define ARGV(key, member)                                                     \
    {                                                                         \
        key, CFG_LIST, AT(member), .max = BG_ARGS_MAX, .check = cfg_check_arg \
    }
#define NAMES(key, member, checker)                                         \
    {                                                                       \
        key, CFG_LIST, AT(member), .max = BG_CFG_LIST_MAX, .check = checker \
    }

static const struct cfg_field engine_fields[] = {
    {"runtime", CFG_STR, AT(engine.runtime), .text = "auto", .words = runtimes},
    {"endpoint", CFG_STR, AT(engine.endpoint), .text = "", .check = cfg_check_endpoint},
    {"program", CFG_STR, AT(engine.program), .text = "", .check = cfg_check_program},
    {"guest", CFG_STR, AT(engine.guest), .text = "auto", .words = guest_modes},
    MS("createTimeoutMs", engine.create_ms, BG_ENGINE_CREATE_MS),
    MS("callTimeoutMs", engine.call_ms, BG_ENGINE_CALL_MS),
    {0}};

static const struct cfg_field process_fields[] = {
    MS("gracePeriodMs", grace_ms, BG_GRACE_MS),
    MS("lingerMs", linger_ms, BG_LINGER_MS),
    {0}};

static const struct cfg_field wait_fields[] = {
    MS("timeoutMs", wait_port_ms, BG_WAIT_PORT_MS),
    MS("intervalMs", wait_port_interval_ms, BG_WAIT_PORT_INTERVAL_MS),
    {0}};

static const struct cfg_field approval_fields[] = {
    MS("pendingMs", pending_ms, BG_PENDING_MS),
    MS("noConsoleMs", no_console_ms, BG_NO_CONSOLE_MS),
    MS("detachMs", detach_ms, BG_DETACH_MS),
    MS("armMs", arm_ms, BG_ARM_MS),
    MS("denyMemoryMs", deny_memory_ms, BG_DENY_MEMORY_MS),
    MS("sessionScopeMs", session_scope_ms, BG_SESSION_SCOPE_MS),
    {0}};

static const struct cfg_field operator_fields[] = {
    {"auth", CFG_WORD, AT(operator_pin), .words = auth_modes},
    {"headless", CFG_BOOL, AT(operator_headless), .dflt = true},
    {0}};

static const struct cfg_field tools_exec_fields[] = {
    NAMES("allowedCommands", tools.allowed, cfg_check_command),
    NAMES("blockedCommands", tools.blocked, cfg_check_command),
    MS("defaultTimeoutMs", tools.exec_ms, BG_TIMEOUT_MS),
    MS("maxTimeoutMs", tools.exec_max_ms, BG_MAX_TIMEOUT_MS),
    {0}};

static const struct cfg_field tools_read_fields[] = {
    BYTES("maxBytes", tools.read_bytes, BG_TOOL_READ_BYTES), {0}};

static const struct cfg_field tools_write_fields[] = {
    BYTES("maxBytes", tools.write_bytes, BG_TOOL_WRITE_BYTES), {0}};

static const struct cfg_field tools_process_fields[] = {
    BYTES("maxLogBytes", tools.log_bytes, BG_TOOL_LOG_BYTES),
    MS("defaultWaitTimeoutMs", tools.wait_ms, BG_TOOL_WAIT_MS),
    MS("maxWaitTimeoutMs", tools.wait_max_ms, BG_MAX_TIMEOUT_MS),
    MS("stopGracePeriodMs", tools.grace_ms, BG_GRACE_MS),
    {0}};

static const struct cfg_field tools_fields[] = {
    NAMES("include", tools.include, cfg_check_tool),
    NAMES("allow", tools.allow, cfg_check_tool),
    MS("execTimeoutMs", tools.timeout_ms, BG_TIMEOUT_MS),
    {"exec", CFG_GROUP, .fields = tools_exec_fields},
    {"readFile", CFG_GROUP, .fields = tools_read_fields},
    {"writeFile", CFG_GROUP, .fields = tools_write_fields},
    {"process", CFG_GROUP, .fields = tools_process_fields},
    {0}};

static const struct cfg_field hook_fields[] = {
    ARGV("onSessionCreate", hooks.session_create),
    ARGV("onExecStart", hooks.exec_start),
    ARGV("onExecEnd", hooks.exec_end),
    ARGV("onFileWrite", hooks.file_write),
    ARGV("onDestroy", hooks.destroy),
    MS("timeoutMs", hooks.timeout_ms, BG_HOOK_MS),
    {0}};

static const struct cfg_field local_fields[] = {
    {"uidBase", CFG_INT, AT(local_uid_base), BG_LOCAL_UID_BASE_MIN, BG_LOCAL_UID_BASE_MAX,
     .dflt = BG_LOCAL_UID_BASE},
    {0}};

static const struct cfg_field console_fields[] = {
    {"theme", CFG_STR, AT(console.theme), .text = "", .check = cfg_check_id_or_empty},
    {"border", CFG_STR, AT(console.border), .text = "line", .words = borders},
    {"mouse", CFG_BOOL, AT(console.mouse), .dflt = false},
    {"bell", CFG_BOOL, AT(console.bell), .dflt = true},
    ARGV("notifyCommand", console.notify),
    {0}};

static const struct cfg_field audit_fields[] = {
    {"blobDays", CFG_INT, AT(blob_days), 1, BG_CFG_DAYS_MAX, .dflt = BG_BLOB_DAYS}, {0}};

static const struct cfg_field pin_fields[] = {
    {"npm", CFG_STR, AT(pin.npm), .text = "", .check = cfg_check_url},
    {"pypi", CFG_STR, AT(pin.pypi), .text = "", .check = cfg_check_url},
    {0}};

static const struct cfg_field config_fields[] = {
    {"version", CFG_INT, AT(version), BG_CONFIG_VERSION, BG_CONFIG_VERSION,
     .dflt = BG_CONFIG_VERSION},
    {"provider", CFG_OWN, .read = read_provider, .print = print_provider},
    {"engine", CFG_GROUP, .fields = engine_fields},
    {"profile", CFG_STR, AT(profile), .text = "default", .check = cfg_check_id},
    {"profiles", CFG_OWN, .read = cfg_read_profiles, .print = cfg_print_profiles,
     .clear = cfg_clear_profiles},
    {"languages", CFG_OWN, .read = read_languages, .print = print_languages,
     .clear = clear_languages},
    {"processes", CFG_GROUP, .fields = process_fields},
    {"waitForPort", CFG_GROUP, .fields = wait_fields},
    {"approvals", CFG_GROUP, .fields = approval_fields},
    {"operator", CFG_GROUP, .fields = operator_fields},
    {"tools", CFG_GROUP, .fields = tools_fields, .read = tool_rules},
    {"pool", CFG_OWN, .read = read_pool, .print = print_pool, .clear = clear_pool},
    {"hooks", CFG_GROUP, .fields = hook_fields},
    {"local", CFG_GROUP, .fields = local_fields},
    {"console", CFG_GROUP, .fields = console_fields},
    {"audit", CFG_GROUP, .fields = audit_fields},
    {"pin", CFG_GROUP, .fields = pin_fields},
    {0}};

static void default_language(struct bg_config *c, const char *name, const char *program,
                             const char *arg)
{
    struct bg_language *l = add_language(c, name);
    bg_strv_push(&l->argv, program);
    bg_strv_push(&l->argv, arg);
}

struct bg_config *bg_config_defaults(void)
{
    struct bg_config *c = bg_xcalloc(1, sizeof *c);
    cfg_defaults(config_fields, c);
    cfg_default_profiles(c);
    default_language(c, "python", "python3", "-");
    default_language(c, "javascript", "node", "-");
    default_language(c, "bash", "bash", "-s");
    default_language(c, "sh", "sh", "-s");
    return c;
}

void bg_config_free(struct bg_config *c)
{
    if (!c)
        return;
    cfg_clear(config_fields, c);
    free(c);
}

/* Names that must exist, told where they are written. */
static bool config_rules(const struct cfg_in *in, const struct bg_config *c)
{
    const struct bg_yaml *root = in->doc->root;
    if (!bg_config_profile(c, c->profile)) {
        const struct bg_yaml *at = bg_yaml_get(root, "profile");
        return bg_yaml_fail(
            in->doc, at ? at : bg_yaml_get(root, "profiles"), in->err,
            "there is no profile `%s`; `profile:` names the one used by default",
            c->profile);
    }
    for (size_t i = 0; i < c->n_pool; i++)
        if (!bg_config_profile(c, c->pool[i].profile))
            return bg_yaml_fail(in->doc, bg_yaml_get(root, "pool")->items[i], in->err,
                                "there is no profile `%s`", c->pool[i].profile);
    return true;
}

struct bg_config *bg_config_parse(const char *name, const char *p, size_t n,
                                  struct bg_error *err)
{
    struct bg_yaml_doc *doc = bg_yaml_parse(name, p, n, err);
    if (!doc)
        return NULL;
    struct bg_config *c = bg_config_defaults();
    struct cfg_in in = {.doc = doc, .err = err};
    if (doc->root &&
        (!cfg_read(&in, config_fields, doc->root, c) || !config_rules(&in, c))) {
        bg_config_free(c);
        c = NULL;
    } else {
        c->digest = bg_sha256(p, n);
    }
    bg_yaml_free(doc);
    return c;
}

struct bg_config *bg_config_load(const char *path, struct bg_error *err)
{
    bg_autobuf struct bg_buf text;
    struct bg_error e = {0};
    bg_buf_init(&text, BG_YAML_MAX);
    if (bg_read_file(path, BG_YAML_MAX, true, &text, &e))
        return bg_config_parse(path, text.data, text.len, err);
    if (e.code == BG_ERR_NOT_FOUND)
        return bg_config_defaults();
    if (err)
        *err = e;
    return NULL;
}

const struct bg_profile *bg_config_profile(const struct bg_config *c, const char *name)
{
    for (size_t i = 0; i < c->n_profiles; i++)
        if (!strcmp(c->profiles[i].name, name))
            return &c->profiles[i];
    return NULL;
}

const struct bg_language *bg_config_language(const struct bg_config *c, const char *name)
{
    for (size_t i = 0; i < c->n_languages; i++)
        if (!strcmp(c->languages[i].name, name))
            return &c->languages[i];
    return NULL;
}

void bg_config_print(const struct bg_config *c, struct bg_buf *out)
{
    struct cfg_out o = {.buf = out};
    cfg_print(&o, config_fields, c);
}

void bg_config_template(enum bg_provider_kind kind, const char *endpoint,
                        struct bg_buf *out)
{
    bg_buf_printf(
        out,
        "# boxgate. `boxgate config show` prints every setting with its default.\n"
        "version: %d\n"
        "\n"
        "# local: bubblewrap on this machine. container: Docker or Podman.\n"
        "provider: %s\n",
        BG_CONFIG_VERSION, bg_provider_kind_name(kind));
    if (kind == BG_PROVIDER_CONTAINER && endpoint && *endpoint) {
        bg_buf_puts(out, "engine:\n  endpoint: ");
        cfg_put_scalar(out, endpoint);
        bg_buf_putc(out, '\n');
    }
    bg_buf_puts(
        out,
        "\n# Sandboxes that may be opened; `profile` is the one used when none is named.\n"
        "profile: default\n"
        "profiles:\n"
        "  default:\n");
    if (kind == BG_PROVIDER_CONTAINER)
        bg_buf_printf(out, "    image: %s # presets: node, python, deno\n",
                      BG_IMAGE_DEFAULT);
    bg_buf_printf(out,
                  "    network: none # none, bridge, host or a network's name\n"
                  "    limits:\n"
                  "      memoryMb: %d\n"
                  "      cpus: %d.%d\n"
                  "      pidsLimit: %d\n",
                  BG_MEMORY_MB, BG_CPUS_MILLI / 1000, BG_CPUS_MILLI % 1000 / 100, BG_PIDS);
}

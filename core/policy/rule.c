/* SPDX-License-Identifier: MIT */
/*
 * Reads one rule of policy.yaml. Allow rules are held to more than the rest: they must say
 * in which sandbox they hold, and nothing in them may be a pattern.
 */
#include "core/policy/rule.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/values.h"

struct in {
    const struct bg_yaml_doc *doc;
    struct bg_error *err;
};

typedef bool (*check_fn)(const char *v);

static bool known_kind(const char *v)
{
    static const char *const kinds[] = {
        "run_code",     "exec",           "start_process", "stop_process",  "write_file",
        "publish_port", "create_session", "close_session", "external_tool", "build_image"};
    for (size_t i = 0; i < bg_countof(kinds); i++)
        if (!strcmp(v, kinds[i]))
            return true;
    return false;
}

static bool hosted(const char *v)
{
    return !strcmp(v, "e2b") || !strcmp(v, "daytona") || !strcmp(v, "cloudflare");
}

static bool known_provider(const char *v)
{
    return !strcmp(v, "local") || !strcmp(v, "docker") || !strcmp(v, "podman") || hosted(v);
}

static bool hash_text(const char *v)
{
    return strlen(v) == BG_SHA256_HEX && !v[strspn(v, "0123456789abcdef")];
}

static bool image_id(const char *v)
{
    return !strcmp(v, "host") || (!strncmp(v, "sha256:", 7) && hash_text(v + 7));
}

static bool network_name(const char *v)
{
    static const char *const words[] = {"no",   "off",   "yes", "on",
                                        "true", "false", "n",   "y"};
    for (size_t i = 0; i < bg_countof(words); i++)
        if (!strcasecmp(v, words[i]))
            return false;
    return bg_id_valid(v);
}

static bool principal(const char *v)
{
    return !strncmp(v, "uid:", 4) && v[4] && strlen(v) <= 14 &&
           !v[4 + strspn(v + 4, "0123456789")];
}

/* A word or a list of words, never empty: an empty list would match nothing unnoticed. */
static bool words(const struct in *in, const struct bg_yaml *map, const char *key,
                  check_fn ok, const char *expected, char ***out)
{
    const struct bg_yaml *n = bg_yaml_get(map, key);
    const char *v;
    if (!n)
        return true;
    bool list = n->kind == BG_YAML_SEQ;
    size_t count = list ? n->count : 1;
    if (n->kind == BG_YAML_MAP || count < 1 || count > BG_CFG_LIST_MAX)
        return bg_yaml_fail(in->doc, n, in->err, "`%s` needs %s, or a list of 1 to %d", key,
                            expected, BG_CFG_LIST_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct bg_yaml *item = list ? n->items[i] : n;
        if (!bg_yaml_str(in->doc, item, &v, in->err))
            return false;
        if (!ok(v))
            return bg_yaml_fail(in->doc, item, in->err, "`%s`: expected %s", v, expected);
        bg_strv_push(out, v);
    }
    return true;
}

static bool read_tri(const struct in *in, const struct bg_yaml *map, const char *key,
                     enum tri *out)
{
    const struct bg_yaml *n = bg_yaml_get(map, key);
    bool v;
    if (!n)
        return true;
    if (!bg_yaml_bool(in->doc, n, &v, in->err))
        return false;
    *out = v ? TRI_TRUE : TRI_FALSE;
    return true;
}

/* The index of one of up to four words; 0 when the key is missing, so names[0] is unused.
 */
static bool word_of(const struct in *in, const struct bg_yaml *map, const char *key,
                    const char *const names[5], const char *expected, unsigned *out)
{
    const struct bg_yaml *n = bg_yaml_get(map, key);
    const char *v;
    if (!n)
        return true;
    if (!bg_yaml_str(in->doc, n, &v, in->err))
        return false;
    for (unsigned i = 1; i < 5 && names[i]; i++) {
        if (strcmp(v, names[i]) != 0)
            continue;
        *out = i;
        return true;
    }
    return bg_yaml_fail(in->doc, n, in->err, "`%s`: expected %s", key, expected);
}

static bool read_sandbox(const struct in *in, const struct bg_yaml *rule, struct rule *r)
{
    static const char *const keys[] = {"provider", "imageId",         "network", "mounts",
                                       "caps",     "noNewPrivileges", "fresh",   NULL};
    static const char *const mounts[5] = {"", "none", "ro", "any", "rw"};
    static const char *const caps[5] = {"", "any", "none"};
    const struct bg_yaml *n = bg_yaml_get(rule, "sandbox");
    unsigned m = MOUNTS_UNSET, c = TRI_UNSET;
    if (!n)
        return true;
    if (n->kind != BG_YAML_MAP)
        return bg_yaml_fail(in->doc, n, in->err, "`sandbox` needs a map");
    if (!bg_yaml_known(in->doc, n, keys, in->err))
        return false;
    r->has_sandbox = true;
    if (!words(in, n, "provider", known_provider, "local, docker or podman",
               &r->providers) ||
        !words(in, n, "imageId", image_id, "host, or sha256: and 64 hex digits",
               &r->image_ids) ||
        !words(in, n, "network", network_name, "none, bridge, host or a network name",
               &r->networks) ||
        !word_of(in, n, "mounts", mounts, "none, ro, any or rw", &m) ||
        !word_of(in, n, "caps", caps, "none or any", &c) ||
        !read_tri(in, n, "noNewPrivileges", &r->no_new_privileges) ||
        !read_tri(in, n, "fresh", &r->fresh))
        return false;
    r->mounts = (enum mounts_match)m;
    r->caps_none = (enum tri)c;
    return true;
}

static bool read_limits(const struct in *in, const struct bg_yaml *rule, struct rule *r)
{
    static const char *const keys[] = {"timeoutMs", "memoryMb", "pidsLimit", "cpus", NULL};
    const struct bg_yaml *n = bg_yaml_get(rule, "limits"), *v;
    if (!n)
        return true;
    if (r->decision != BG_DECIDE_ALLOW)
        return bg_yaml_fail(
            in->doc, n, in->err,
            "`limits` says how much an allow rule allows; it can't stand in another");
    if (n->kind != BG_YAML_MAP || !n->count)
        return bg_yaml_fail(in->doc, n, in->err, "`limits` needs a map");
    if (!bg_yaml_known(in->doc, n, keys, in->err))
        return false;
    return (!(v = bg_yaml_get(n, "timeoutMs")) ||
            bg_yaml_int(in->doc, v, 1, BG_CFG_MS_MAX, &r->limits.timeout_ms, in->err)) &&
           (!(v = bg_yaml_get(n, "memoryMb")) ||
            bg_yaml_int(in->doc, v, 1, BG_CFG_MB_MAX, &r->limits.memory_mb, in->err)) &&
           (!(v = bg_yaml_get(n, "pidsLimit")) ||
            bg_yaml_int(in->doc, v, 1, BG_CFG_PIDS_MAX, &r->limits.pids, in->err)) &&
           (!(v = bg_yaml_get(n, "cpus")) ||
            bg_yaml_milli(in->doc, v, 1, BG_CFG_CPUS_MILLI_MAX, &r->limits.cpus_milli,
                          in->err));
}

static bool read_span(const struct in *in, const struct bg_yaml *rule, struct rule *r)
{
    const struct bg_yaml *expires = bg_yaml_get(rule, "expires"),
                         *uses = bg_yaml_get(rule, "uses");
    const char *v;
    if (expires) {
        if (!bg_yaml_str(in->doc, expires, &v, in->err))
            return false;
        r->expires_ms = bg_time_parse(v);
        if (r->expires_ms <= 0)
            return bg_yaml_fail(
                in->doc, expires, in->err,
                "`%s`: expected a date like 2027-01-31 or 2027-01-31T12:00:00Z", v);
    }
    if (!uses)
        return true;
    if (r->decision != BG_DECIDE_ALLOW)
        return bg_yaml_fail(
            in->doc, uses, in->err,
            "`uses` counts what an allow rule allowed; it can't stand in another");
    return bg_yaml_int(in->doc, uses, 1, BG_POLICY_USES_MAX, &r->uses, in->err);
}

static bool any_text(const char *v)
{
    return *v != '\0';
}

static bool read_texts(const struct in *in, const struct bg_yaml *rule, struct rule *r)
{
    const struct bg_yaml *n = bg_yaml_get(rule, "codeContains");
    char **list = NULL;
    if (!n)
        return true;
    if (r->decision == BG_DECIDE_ALLOW)
        return bg_yaml_fail(
            in->doc, n, in->err,
            "what a text contains never allows; `codeContains` belongs to ask and deny");
    bool ok = words(in, rule, "codeContains", any_text, "a text", &list);
    r->n_texts = ok ? bg_strv_len(list) : 0;
    r->texts = r->n_texts ? bg_xcalloc(r->n_texts, sizeof *r->texts) : NULL;
    for (size_t i = 0; list && i < r->n_texts; i++) {
        struct bg_buf nfkc;
        text_nfkc(&nfkc, list[i], strlen(list[i]));
        r->texts[i] =
            (struct text_rule){.raw = bg_xstrdup(list[i]), .nfkc = bg_buf_steal(&nfkc)};
    }
    bg_strv_free(list);
    return ok;
}

static bool read_message(const struct in *in, const struct bg_yaml *rule, struct rule *r)
{
    const struct bg_yaml *n = bg_yaml_get(rule, "message");
    const char *v;
    if (!n)
        return true;
    if (!bg_yaml_str(in->doc, n, &v, in->err))
        return false;
    if (strlen(v) > BG_REASON_MAX)
        return bg_yaml_fail(in->doc, n, in->err, "the message is longer than %d bytes",
                            BG_REASON_MAX);
    r->message = bg_xstrdup(v);
    return true;
}

static bool read_head(const struct in *in, const struct bg_yaml *n, struct rule *r)
{
    const struct bg_yaml *id = bg_yaml_get(n, "id"), *decision = bg_yaml_get(n, "decision");
    const char *v;
    if (!id || !decision)
        return bg_yaml_fail(in->doc, n, in->err, "a rule needs an `id` and a `decision`");
    if (!bg_yaml_str(in->doc, id, &v, in->err))
        return false;
    if (!bg_id_valid(v))
        return bg_yaml_fail(in->doc, id, in->err,
                            "`%s` isn't an id ([A-Za-z0-9][A-Za-z0-9._-]*, at most %d)", v,
                            BG_ID_MAX);
    r->id = bg_xstrdup(v);
    if (!bg_yaml_str(in->doc, decision, &v, in->err))
        return false;
    for (int d = BG_DECIDE_DENY; d <= BG_DECIDE_ALLOW; d++) {
        r->decision = (enum bg_decision)d;
        if (!strcmp(v, bg_decision_name(r->decision)))
            return true;
    }
    return bg_yaml_fail(in->doc, decision, in->err, "expected deny, ask or allow");
}

static bool has(char *const *list, const char *word)
{
    for (; list && *list; list++)
        if (!strcmp(*list, word))
            return true;
    return false;
}

/* local runs on the host itself; an engine's image has an id. Anything else never matches.
 */
static bool check_images(const struct in *in, const struct bg_yaml *at,
                         const struct rule *r)
{
    bool local = has(r->providers, "local"),
         engine = has(r->providers, "docker") || has(r->providers, "podman");
    for (size_t i = 0; r->image_ids[i]; i++) {
        bool host = !strcmp(r->image_ids[i], "host");
        if ((host && !local) || (!host && !engine))
            return bg_yaml_fail(in->doc, at, in->err,
                                "imageId `host` belongs to provider local, sha256 ids to "
                                "docker and podman");
    }
    return true;
}

static bool check_allow(const struct in *in, const struct bg_yaml *n, const struct rule *r)
{
    const struct bg_yaml *sandbox = bg_yaml_get(n, "sandbox"), *at = sandbox ? sandbox : n;
    if (!r->kinds)
        return bg_yaml_fail(in->doc, n, in->err, "an allow rule needs `kinds`");
    if (has(r->kinds, "external_tool") || has(r->kinds, "build_image"))
        return bg_yaml_fail(in->doc, n, in->err,
                            "external_tool and build_image don't run in a sandbox and "
                            "can't be allowed by rule");
    if (!r->has_sandbox)
        return bg_yaml_fail(in->doc, n, in->err,
                            "an allow rule needs a `sandbox` block: provider, imageId, "
                            "network, mounts, caps, noNewPrivileges");
    if (has(r->providers, "e2b") || has(r->providers, "daytona") ||
        has(r->providers, "cloudflare"))
        return bg_yaml_fail(in->doc, at, in->err,
                            "hosted providers can't be allowed by rule");
    if (!r->providers)
        return bg_yaml_fail(in->doc, at, in->err,
                            "the sandbox of an allow rule needs `provider`");
    if (!r->image_ids)
        return bg_yaml_fail(in->doc, at, in->err,
                            "the sandbox of an allow rule needs `imageId`");
    if (bg_strv_len(r->networks) != 1 || strcmp(r->networks[0], "none") != 0)
        return bg_yaml_fail(in->doc, at, in->err,
                            "the sandbox of an allow rule needs `network: none`");
    if (r->mounts != MOUNTS_NONE && r->mounts != MOUNTS_RO)
        return bg_yaml_fail(
            in->doc, at, in->err,
            "the sandbox of an allow rule needs `mounts: none` or `mounts: ro`");
    if (r->caps_none != TRI_TRUE)
        return bg_yaml_fail(in->doc, at, in->err,
                            "the sandbox of an allow rule needs `caps: none`");
    if (r->no_new_privileges != TRI_TRUE)
        return bg_yaml_fail(in->doc, at, in->err,
                            "the sandbox of an allow rule needs `noNewPrivileges: true`");
    if (r->fresh == TRI_FALSE)
        return bg_yaml_fail(
            in->doc, at, in->err,
            "`fresh: false` would hold only for used sandboxes; leave it out");
    return check_images(in, at, r);
}

static bool check_tighten(const struct in *in, const struct bg_yaml *n,
                          const struct rule *r)
{
    if (r->mounts == MOUNTS_RO)
        return bg_yaml_fail(in->doc, bg_yaml_get(n, "sandbox"), in->err,
                            "`mounts: ro` is for allow rules; here say `any` (some mount) "
                            "or `rw` (a writable one)");
    return true;
}

bool rule_parse(const struct bg_yaml_doc *d, const struct bg_yaml *n, struct rule *r,
                struct bg_error *err)
{
    static const char *const keys[] = {
        "id",     "decision",  "kinds",   "sandbox", "languages",    "argv",    "hash",
        "limits", "principal", "expires", "uses",    "codeContains", "message", NULL};
    const struct in in = {.doc = d, .err = err};
    if (n->kind != BG_YAML_MAP)
        return bg_yaml_fail(d, n, err, "a rule needs a map");
    r->line = n->line;
    if (!bg_yaml_known(d, n, keys, err) || !read_head(&in, n, r) ||
        !words(&in, n, "kinds", known_kind,
               "a kind of request (run_code, exec, start_process, write_file, ...)",
               &r->kinds) ||
        !words(&in, n, "languages", bg_id_valid, "a language", &r->languages) ||
        !words(&in, n, "hash", hash_text, "a request hash (64 hex digits)", &r->hashes) ||
        !words(&in, n, "principal", principal, "uid:NUMBER", &r->principals) ||
        !read_sandbox(&in, n, r) || !read_limits(&in, n, r) || !read_span(&in, n, r) ||
        !read_texts(&in, n, r) || !read_message(&in, n, r))
        return false;
    const struct bg_yaml *argv = bg_yaml_get(n, "argv");
    if (argv && !rule_parse_argv(d, argv, r, err))
        return false;
    return r->decision == BG_DECIDE_ALLOW ? check_allow(&in, n, r)
                                          : check_tighten(&in, n, r);
}

void rule_clear(struct rule *r)
{
    char **const lists[] = {r->kinds,     r->languages, r->hashes,  r->principals,
                            r->providers, r->image_ids, r->networks};
    for (size_t i = 0; i < bg_countof(lists); i++)
        bg_strv_free(lists[i]);
    for (size_t i = 0; i < r->n_argv; i++)
        bg_strv_free(r->argv[i].words);
    for (size_t i = 0; i < r->n_texts; i++) {
        free(r->texts[i].raw);
        free(r->texts[i].nfkc);
    }
    free(r->argv);
    free(r->texts);
    free(r->id);
    free(r->message);
}

struct rule rule_copy(const struct rule *r)
{
    struct rule c = *r;
    char ***const lists[] = {&c.kinds,     &c.languages, &c.hashes,  &c.principals,
                             &c.providers, &c.image_ids, &c.networks};
    for (size_t i = 0; i < bg_countof(lists); i++)
        *lists[i] = *lists[i] ? bg_strv_dup(*lists[i]) : NULL;
    c.id = bg_xstrdup(r->id);
    c.message = bg_xstrdup(r->message);
    c.argv = r->n_argv ? bg_xmemdup(r->argv, r->n_argv * sizeof *r->argv) : NULL;
    for (size_t i = 0; i < r->n_argv; i++)
        c.argv[i].words = r->argv[i].words ? bg_strv_dup(r->argv[i].words) : NULL;
    c.texts = r->n_texts ? bg_xcalloc(r->n_texts, sizeof *r->texts) : NULL;
    for (size_t i = 0; i < r->n_texts; i++)
        c.texts[i] = (struct text_rule){.raw = bg_xstrdup(r->texts[i].raw),
                                        .nfkc = bg_xstrdup(r->texts[i].nfkc)};
    return c;
}

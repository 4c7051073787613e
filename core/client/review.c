/* SPDX-License-Identifier: MIT */
/*
 * From approval.get's answer to what a person reads. The bound fields are hashed again
 * here, so a server or a wire that shows other bytes than the hash binds gives no document
 * at all.
 */
#include "core/client/review.h"

#include <stdio.h>

#include "core/base/digest.h"
#include "core/base/mem.h"
#include "core/base/values.h"

#define MAGIC "boxgate-req-v1"

struct bound {
    const char *name;
    char *bytes; /* owned until a field takes it */
    size_t len;
};

/* ---- the hash over what came ---- */

static bool read_bound(const cJSON *a, struct bound **out, size_t *n, struct bg_error *err)
{
    const cJSON *item;
    *n = 0;
    *out = bg_xcalloc((size_t)cJSON_GetArraySize(a) + 1, sizeof **out);
    cJSON_ArrayForEach(item, a)
    {
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "name");
        const cJSON *b64 = cJSON_GetObjectItemCaseSensitive(item, "base64");
        struct bg_buf b;
        if (!cJSON_IsString(name) || !cJSON_IsString(b64))
            return bg_fail(err, BG_ERR_PROTOCOL, 0, "a bound field without name or bytes");
        bg_buf_init(&b, BG_JSON_LINE_MAX);
        if (!bg_base64_decode(bg_str_from(b64->valuestring), &b, err)) {
            bg_buf_free(&b);
            return false;
        }
        struct bound *f = &(*out)[(*n)++];
        f->name = name->valuestring;
        f->len = b.len;
        f->bytes = bg_buf_steal(&b);
    }
    return *n > 0 || bg_fail(err, BG_ERR_PROTOCOL, 0, "no bound fields");
}

static bool hash_matches(const struct bound *f, size_t n, const char *sha256)
{
    char hex[BG_SHA256_HEX + 1];
    struct bg_hasher *h = bg_hasher_new();
    bg_hasher_add(h, MAGIC, sizeof MAGIC); /* the NUL belongs to it */
    for (size_t i = 0; i < n; i++)
        bg_hasher_field(h, f[i].name, f[i].bytes, f[i].len);
    struct bg_sha256 d = bg_hasher_end(h);
    bg_sha256_hex(&d, hex);
    return !strcmp(hex, sha256);
}

/* ---- fields ---- */

static void add_field(struct bg_review *r, enum bg_review_kind kind, char *label,
                      struct bound *f)
{
    r->fields = bg_xrealloc(r->fields, r->n_fields + 1, sizeof *r->fields);
    struct bg_review_field *x = &r->fields[r->n_fields++];
    memset(x, 0, sizeof *x);
    x->kind = kind;
    x->label = label;
    x->bytes = bg_steal(f->bytes);
    x->len = f->len;
    bg_text_scan(x->bytes, x->len, &x->scan);
    x->hex = !x->scan.utf8;
}

static void add_env(struct bg_review *r, struct bound *f)
{
    const char *eq = memchr(f->bytes, '=', f->len);
    size_t n = eq ? (size_t)(eq - f->bytes) : f->len;
    bg_autofree char *name = bg_text_safe_line(f->bytes, n, 0);
    add_field(r, BG_REVIEW_VALUE, bg_xasprintf("env %s", name), f);
}

static bool is(const struct bound *f, const char *name)
{
    return !strcmp(f->name, name);
}

/* By the bound bytes, not by what the row says of itself. */
static bool runs_code(const struct bound *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is(&f[i], "kind"))
            return f[i].len == strlen("run_code") &&
                   !memcmp(f[i].bytes, "run_code", f[i].len);
    return false;
}

static void add_fields(struct bg_review *r, struct bound *f, size_t n, bool run_code)
{
    size_t args = 0;
    /* The code first: it is what people came to read. */
    for (size_t i = 0; i < n; i++)
        if (is(&f[i], "code") && f[i].len)
            add_field(r, BG_REVIEW_CODE, bg_xstrdup("code"), &f[i]);
    for (size_t i = 0; i < n; i++) {
        if (!f[i].bytes)
            continue;
        if (is(&f[i], "argv") && !run_code) {
            add_field(r, BG_REVIEW_VALUE,
                      args ? bg_xasprintf("argument %zu", args) : bg_xstrdup("command"),
                      &f[i]);
            args++;
        } else if (is(&f[i], "cwd") && f[i].len) {
            add_field(r, BG_REVIEW_VALUE, bg_xstrdup("working directory"), &f[i]);
        } else if (is(&f[i], "env")) {
            add_env(r, &f[i]);
        } else if (is(&f[i], "input") && f[i].len) {
            add_field(r, BG_REVIEW_CODE, bg_xstrdup("input"), &f[i]);
        } else if (is(&f[i], "operand")) {
            add_field(r, BG_REVIEW_CODE, bg_xstrdup("file operand"), &f[i]);
        }
    }
}

/* ---- facts, in words ---- */

static const char *text_of(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(v) ? v->valuestring : "";
}

static double number_of(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

/* Wild numbers of a peer become 0, which names nothing. */
static int64_t whole_of(const cJSON *o, const char *key, int64_t max)
{
    double v = number_of(o, key);
    return v >= 0 && v <= (double)max ? (int64_t)v : 0;
}

static bool true_of(const cJSON *o, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, key));
}

BG_PRINTF(2, 3) static void fact(struct bg_review *r, const char *fmt, ...)
{
    va_list ap;
    char *made = NULL;
    va_start(ap, fmt);
    if (vasprintf(&made, fmt, ap) < 0)
        abort();
    va_end(ap);
    bg_autofree char *buf = made;
    bg_autofree char *safe = bg_text_safe_line(buf, strlen(buf), 0);
    bg_strv_push(&r->facts, safe);
}

static void limit_text(const cJSON *limits, const char *key, const char *unit, char out[32])
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(limits, key);
    if (cJSON_IsNumber(v))
        snprintf(out, 32, "%g%s", v->valuedouble, unit);
    else
        snprintf(out, 32, "UNLIMITED");
}

static void mount_facts(struct bg_review *r, const cJSON *spec)
{
    const cJSON *m;
    cJSON_ArrayForEach(m, cJSON_GetObjectItemCaseSensitive(spec, "mounts"))
    {
        fact(r, "mount: %s <- %s %s", text_of(m, "container"), text_of(m, "host"),
             true_of(m, "readOnly") ? "read-only" : "READ-WRITE");
    }
}

static void workspace_facts(struct bg_review *r, const cJSON *spec)
{
    const cJSON *ws = cJSON_GetObjectItemCaseSensitive(spec, "workspace");
    bg_autofree char *env = bg_json_join(cJSON_GetObjectItemCaseSensitive(spec, "env"), "");
    fact(r, "workspace: %s, %s, in %s, %g MiB", text_of(spec, "workdir"),
         text_of(ws, "mode"), text_of(ws, "storage"), number_of(ws, "sizeMb"));
    if (*env)
        fact(r, "profile env: %s", env);
}

static void sandbox_facts(struct bg_review *r, const cJSON *row)
{
    const cJSON *spec = cJSON_GetObjectItemCaseSensitive(row, "spec");
    const cJSON *lim = cJSON_GetObjectItemCaseSensitive(spec, "limits");
    char mem[32], cpu[32], pids[32];
    limit_text(lim, "memoryMb", " MiB", mem);
    limit_text(lim, "cpus", " cpu", cpu);
    limit_text(lim, "pidsLimit", " processes", pids);
    fact(r, "runs in: %s, image %s, user %s", text_of(spec, "provider"),
         text_of(spec, "image"), text_of(spec, "user"));
    fact(r, "image id: %s", text_of(spec, "imageId"));
    fact(r, "network: %s", text_of(spec, "network"));
    fact(r, "limits: %s, %s, %s, %g s", mem, cpu, pids, number_of(row, "timeoutMs") / 1000);
    bg_autofree char *off =
        bg_json_join(cJSON_GetObjectItemCaseSensitive(row, "notEnforced"), "");
    if (*off)
        fact(r, "NOT enforced here: %s", off);
    const cJSON *sec = cJSON_GetObjectItemCaseSensitive(spec, "security");
    bg_autofree char *caps =
        bg_json_join(cJSON_GetObjectItemCaseSensitive(sec, "dropCapabilities"), "NONE");
    fact(r, "security: capabilities dropped: %s; %s; root file system %s", caps,
         true_of(sec, "noNewPrivileges") ? "no new privileges" : "NEW PRIVILEGES POSSIBLE",
         true_of(sec, "readonlyRootfs") ? "read-only" : "WRITABLE");
    workspace_facts(r, spec);
    mount_facts(r, spec);
    if (true_of(row, "changedOutside"))
        fact(r, "WARNING: the sandbox was changed from outside");
}

static void request_facts(struct bg_review *r, const cJSON *row)
{
    bg_autofree char *argv =
        bg_json_join(cJSON_GetObjectItemCaseSensitive(row, "argv"), "");
    bool code = !strcmp(text_of(row, "kind"), "run_code");
    if (code)
        fact(r, "interpreter: %s (the code is its standard input)", argv);
    double runs = number_of(row, "earlierRuns");
    fact(r, "session: %s, %g earlier run%s", text_of(row, "session"), runs,
         runs == 1 ? "" : "s");
    fact(r, "asked by: %s, uid %g, pid %g, %s", text_of(row, "client"),
         number_of(row, "uid"), number_of(row, "pid"), text_of(row, "exe"));
    if (*text_of(row, "purpose"))
        fact(r, "purpose, as the agent says: %s", text_of(row, "purpose"));
    if (number_of(row, "waiting") > 1)
        fact(r, "waiting: %g identical requests", number_of(row, "waiting"));
    if (number_of(row, "deniedBefore"))
        fact(r, "denied before: %g times", number_of(row, "deniedBefore"));
}

static void risk_facts(struct bg_review *r, const cJSON *row)
{
    const cJSON *n;
    cJSON_ArrayForEach(n, cJSON_GetObjectItemCaseSensitive(row, "notes"))
    {
        const char *name = text_of(n, "hazard");
        enum bg_hazard h;
        if (!bg_hazard_from_name(name, strlen(name), &h))
            continue;
        char buf[512];
        double line = number_of(n, "line");
        if (line > 0)
            snprintf(buf, sizeof buf, "%s: %s, %s line %g", name, bg_hazard_words(h),
                     text_of(n, "field"), line);
        else
            snprintf(buf, sizeof buf, "%s: %s%s%s", name, bg_hazard_words(h),
                     *text_of(n, "field") ? ", " : "", text_of(n, "field"));
        bg_autofree char *safe = bg_text_safe_line(buf, strlen(buf), 0);
        bg_strv_push(&r->risks, safe);
    }
}

/* A hazard that only this side sees in the bytes is told like any other. */
static void own_risks(struct bg_review *r, const struct bg_review_field *f, uint32_t told)
{
    for (size_t i = 0; i < f->scan.n_notes; i++) {
        const struct bg_scan_note *n = &f->scan.notes[i];
        if (told & BG_HZ_BIT(n->hazard))
            continue;
        bg_autofree char *line =
            bg_xasprintf("%s: %s, %s line %u", bg_hazard_name(n->hazard),
                         bg_hazard_words(n->hazard), f->label, n->line);
        bg_strv_push(&r->risks, line);
    }
}

static uint32_t hazard_bits(const cJSON *row)
{
    const cJSON *v;
    uint32_t bits = 0;
    cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(row, "hazards"))
    {
        enum bg_hazard h;
        if (cJSON_IsString(v) &&
            bg_hazard_from_name(v->valuestring, strlen(v->valuestring), &h))
            bits |= BG_HZ_BIT(h);
    }
    return bits;
}

/* ---- build ---- */

static void free_bound(struct bound *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(f[i].bytes);
    free(f);
}

struct bg_review *bg_review_build(const cJSON *approval, struct bg_error *err)
{
    struct bound *f = NULL;
    size_t n = 0;
    const char *sha = text_of(approval, "sha256");
    if (!read_bound(cJSON_GetObjectItemCaseSensitive(approval, "bound"), &f, &n, err)) {
        free_bound(f, n);
        return NULL;
    }
    if (!hash_matches(f, n, sha)) {
        free_bound(f, n);
        bg_fail(err, BG_ERR_HASH_MISMATCH, 0,
                "the bytes to show are not the bytes the hash binds; nothing is shown");
        return NULL;
    }
    struct bg_review *r = bg_xcalloc(1, sizeof *r);
    r->id = (uint64_t)whole_of(approval, "id", BG_JSON_INT_MAX);
    r->rev = (uint32_t)whole_of(approval, "rev", UINT32_MAX);
    snprintf(r->sha256, sizeof r->sha256, "%s", sha);
    r->row = cJSON_Duplicate(approval, true);
    add_fields(r, f, n, runs_code(f, n));
    free_bound(f, n);
    uint32_t told = r->hazards = hazard_bits(approval);
    risk_facts(r, approval);
    /* What this side sees in the bytes counts too; HIGH is never talked away by the other
     * side. */
    for (size_t i = 0; i < r->n_fields; i++) {
        r->hazards |= r->fields[i].scan.hazards;
        own_risks(r, &r->fields[i], told);
    }
    r->high = r->hazards != 0;
    sandbox_facts(r, approval);
    request_facts(r, approval);
    return r;
}

void bg_review_free(struct bg_review *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_fields; i++) {
        free(r->fields[i].label);
        free(r->fields[i].bytes);
    }
    free(r->fields);
    bg_strv_free(r->facts);
    bg_strv_free(r->risks);
    cJSON_Delete(r->row);
    free(r);
}

/* ---- as text ---- */

static void print_hex(const struct bg_review_field *f, struct bg_buf *out)
{
    for (size_t i = 0; i < f->len; i += 16) {
        bg_buf_printf(out, "%08zx ", i);
        for (size_t k = i; k < i + 16 && k < f->len; k++)
            bg_buf_printf(out, " %02x", (unsigned char)f->bytes[k]);
        bg_buf_putc(out, '\n');
    }
}

static void print_lines(const struct bg_review_field *f, struct bg_buf *out, unsigned flags)
{
    size_t line = 1;
    for (size_t at = 0; at < f->len;) {
        const char *nl = memchr(f->bytes + at, '\n', f->len - at);
        size_t n = nl ? (size_t)(nl - f->bytes) - at : f->len - at;
        bg_buf_printf(out, "line %zu: ", line++);
        bg_text_safe(out, f->bytes + at, n, flags);
        bg_buf_putc(out, '\n');
        at += n + (nl != NULL);
    }
    if (f->len && f->bytes[f->len - 1] != '\n')
        bg_buf_puts(out, "(no line break at the end)\n");
}

static void print_field(const struct bg_review_field *f, struct bg_buf *out, unsigned flags)
{
    bg_buf_printf(out, "%s: %zu byte%s", f->label, f->len, f->len == 1 ? "" : "s");
    if (f->kind == BG_REVIEW_CODE)
        bg_buf_printf(out, ", %u line%s%s", f->scan.lines, f->scan.lines == 1 ? "" : "s",
                      f->scan.crlf ? ", CRLF" : "");
    bg_buf_puts(out, f->hex ? ", not UTF-8, as hex\n" : "\n");
    if (f->hex)
        print_hex(f, out);
    else
        print_lines(f, out, flags);
    if (*f->scan.hidden_ascii)
        bg_buf_printf(out, "hidden ASCII in it: %s\n", f->scan.hidden_ascii);
}

void bg_review_print(const struct bg_review *r, struct bg_buf *out, bool color,
                     bool with_hash)
{
    unsigned flags = color ? BG_SAFE_COLOR : 0;
    const cJSON *row = r->row;
    bg_autofree char *lang =
        bg_text_safe_line(text_of(row, "language"), strlen(text_of(row, "language")), 0);
    bg_buf_printf(out, "request: #%04llu %s%s%s, %s%s\n", (unsigned long long)r->id,
                  text_of(row, "kind"), *lang ? " " : "", lang, text_of(row, "state"),
                  r->high ? ", HIGH" : "");
    for (char **p = r->risks; p && *p; p++)
        bg_buf_printf(out, "risk: %s\n", *p);
    for (char **p = r->facts; p && *p; p++)
        bg_buf_printf(out, "%s\n", *p);
    for (size_t i = 0; i < r->n_fields; i++)
        print_field(&r->fields[i], out, flags);
    if (with_hash)
        bg_buf_printf(out, "sha256: %s\nhash for a rule: %s\n", r->sha256,
                      text_of(row, "ruleSha256"));
}

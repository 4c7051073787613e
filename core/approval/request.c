/* SPDX-License-Identifier: MIT */
/*
 * A submit's params into struct bg_body. What is refused here never gets an id: unknown
 * members, wrong types, anything past a cap, a NUL in what will become a C string.
 */
#include "core/approval/request.h"

#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/utf8.h"
#include "core/base/values.h"

#define PORTS_MAX 64
#define CWD_MAX 4096

static const char *const kind_names[] = {
    [BG_REQ_RUN_CODE] = "run_code",
    [BG_REQ_EXEC] = "exec",
    [BG_REQ_CREATE_SESSION] = "create_session",
    [BG_REQ_CLOSE_SESSION] = "close_session",
};

const char *bg_request_kind_name(enum bg_request_kind k)
{
    return (size_t)k < bg_countof(kind_names) ? kind_names[k] : "unknown";
}

static bool kind_from(const char *name, enum bg_request_kind *out)
{
    for (size_t i = 0; i < bg_countof(kind_names); i++)
        if (strcmp(name, kind_names[i]) == 0) {
            *out = (enum bg_request_kind)i;
            return true;
        }
    return false;
}

void bg_body_free(struct bg_body *b)
{
    if (!b)
        return;
    free(b->session);
    free(b->profile);
    free(b->call_id);
    free(b->purpose);
    free(b->language);
    free(b->code);
    bg_strv_free(b->argv);
    free(b->cwd);
    bg_strv_free(b->env);
    free(b->input);
    free(b->ports);
    free(b);
}

/* ---- one member each ---- */

static char *text_opt(struct bg_jr *r, const char *key, size_t max)
{
    const char *s = bg_jr_str_opt(r, key, NULL);
    if (s && (!*s || strlen(s) > max)) {
        bg_jr_fail(r, key, "must have 1 to %zu bytes", max);
        return NULL;
    }
    return bg_xstrdup(s);
}

static char *id_opt(struct bg_jr *r, const char *key)
{
    const char *s = bg_jr_str_opt(r, key, NULL);
    if (s && !bg_id_valid(s)) {
        bg_jr_fail(r, key, "must match [A-Za-z0-9][A-Za-z0-9._-]{0,%d}", BG_ID_MAX - 1);
        return NULL;
    }
    return bg_xstrdup(s);
}

/* Of the body, where the params may have named it already. */
static void take_id(struct bg_jr *r, const char *key, char **out)
{
    char *id = id_opt(r, key);
    if (id && *out) {
        bg_jr_fail(r, key, "is given twice");
        free(id);
    } else if (id) {
        *out = id;
    }
}

static int64_t timeout_opt(struct bg_jr *r)
{
    return bg_jr_int_opt(r, "timeoutMs", 1, BG_WAIT_MAX_MS, 0);
}

static void read_code(struct bg_jr *r, struct bg_body *b)
{
    b->code = bg_jr_bytes(r, "code", BG_CODE_MAX, &b->code_len);
    if (!b->code)
        return;
    if (memchr(b->code, 0, b->code_len))
        bg_jr_fail(r, "code", "must not contain a NUL byte");
    else if (!bg_utf8_valid(b->code, b->code_len))
        bg_jr_fail(r, "code", "must be valid UTF-8");
}

/* cwd leaves the workdir if at any point more `..` than names were seen. */
static bool path_inside(const char *p)
{
    int depth = 0;
    if (*p == '/')
        return false;
    for (size_t n; *p; p += n + (p[n] == '/')) {
        n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            depth--;
        else if (n && !(n == 1 && p[0] == '.'))
            depth++;
        if (depth < 0)
            return false;
    }
    return true;
}

static void read_cwd(struct bg_jr *r, struct bg_body *b)
{
    b->cwd = text_opt(r, "cwd", CWD_MAX);
    if (b->cwd && !r->failed && !path_inside(b->cwd)) {
        bg_jr_fail(r, "cwd", "must be relative to the workdir and stay in it");
        r->err->code = BG_ERR_PATH;
    }
}

static void read_argv(struct bg_jr *r, struct bg_body *b)
{
    const char *command = bg_jr_str(r, "command");
    const cJSON *args = bg_jr_arr_opt(r, "args");
    if (!command)
        return;
    if (!*command || strlen(command) > BG_ARG_BYTES_MAX) {
        bg_jr_fail(r, "command", "must have 1 to %d bytes", BG_ARG_BYTES_MAX);
        return;
    }
    if (cJSON_GetArraySize(args) >= BG_ARGS_MAX) {
        bg_jr_fail(r, "args", "at most %d elements", BG_ARGS_MAX - 1);
        return;
    }
    bg_strv_push(&b->argv, command);
    const cJSON *a;
    cJSON_ArrayForEach(a, args)
    {
        if (!cJSON_IsString(a) || strlen(a->valuestring) > BG_ARG_BYTES_MAX) {
            bg_jr_fail(r, "args", "every element must be a string of at most %d bytes",
                       BG_ARG_BYTES_MAX);
            return;
        }
        bg_strv_push(&b->argv, a->valuestring);
    }
}

static void read_env(struct bg_jr *r, struct bg_body *b)
{
    const cJSON *env = bg_jr_obj_opt(r, "env"), *v;
    if (cJSON_GetArraySize(env) > BG_ENV_MAX) {
        bg_jr_fail(r, "env", "at most %d variables", BG_ENV_MAX);
        return;
    }
    cJSON_ArrayForEach(v, env)
    {
        if (!bg_env_name_valid(v->string)) {
            bg_jr_fail(r, "env", "\"%s\" is not a name ([A-Za-z_][A-Za-z0-9_]*)",
                       v->string);
            return;
        }
        if (!cJSON_IsString(v) || strlen(v->valuestring) > BG_ENV_VALUE_MAX) {
            bg_jr_fail(r, "env", "%s must be a string of at most %d bytes", v->string,
                       BG_ENV_VALUE_MAX);
            return;
        }
        bg_autofree char *kv = bg_xasprintf("%s=%s", v->string, v->valuestring);
        bg_strv_push(&b->env, kv);
    }
}

static void check_total(struct bg_jr *r, const struct bg_body *b)
{
    char *const *const lists[] = {b->argv, b->env};
    size_t n = 0;
    for (size_t i = 0; i < bg_countof(lists); i++)
        for (char *const *s = lists[i]; s && *s; s++)
            n += strlen(*s) + 1;
    if (n > BG_ARGV_BYTES_MAX)
        bg_jr_fail(r, "args", "with env at most %d bytes together", BG_ARGV_BYTES_MAX);
}

static void read_ports(struct bg_jr *r, struct bg_body *b)
{
    const cJSON *ports = bg_jr_arr_opt(r, "ports"), *p;
    int n = cJSON_GetArraySize(ports);
    if (n > PORTS_MAX) {
        bg_jr_fail(r, "ports", "at most %d", PORTS_MAX);
        return;
    }
    b->ports = n ? bg_xcalloc((size_t)n, sizeof *b->ports) : NULL;
    cJSON_ArrayForEach(p, ports)
    {
        double d = cJSON_IsNumber(p) ? p->valuedouble : 0;
        bool ok = d >= 1 && d <= 65535 && d == (double)(int)d;
        for (size_t i = 0; ok && i < b->n_ports; i++)
            ok = b->ports[i] != (int)d;
        if (!ok) {
            bg_jr_fail(r, "ports", "must be different whole numbers from 1 to 65535");
            return;
        }
        b->ports[b->n_ports++] = (int32_t)d;
    }
}

static void read_kind(struct bg_jr *r, struct bg_body *b)
{
    switch (b->kind) {
    case BG_REQ_RUN_CODE:
        b->language = id_opt(r, "language");
        if (!b->language)
            bg_jr_fail(r, "language", "must be given");
        read_code(r, b);
        b->timeout_ms = timeout_opt(r);
        break;
    case BG_REQ_EXEC:
        read_argv(r, b);
        read_cwd(r, b);
        read_env(r, b);
        check_total(r, b);
        b->input = bg_jr_bytes_opt(r, "input", BG_INPUT_MAX, &b->input_len);
        b->timeout_ms = timeout_opt(r);
        break;
    case BG_REQ_CREATE_SESSION:
        take_id(r, "id", &b->session);
        take_id(r, "profile", &b->profile);
        read_ports(r, b);
        break;
    case BG_REQ_CLOSE_SESSION:
        break;
    }
}

struct bg_body *bg_body_parse(const char *kind, const cJSON *params, struct bg_error *err)
{
    struct bg_error local;
    struct bg_jr p, r;
    struct bg_body *b = bg_xcalloc(1, sizeof *b);
    if (!err)
        err = &local;
    if (!kind_from(kind, &b->kind)) {
        bg_fail(err, BG_ERR_UNSUPPORTED, 0, "requests of kind \"%s\" are not known here",
                kind);
        bg_body_free(b);
        return NULL;
    }
    bg_jr_begin(&p, params, "params", err);
    const char *named = bg_jr_str(&p, "kind");
    if (named && strcmp(named, kind) != 0)
        bg_jr_fail(&p, "kind", "is not %s", kind);
    b->session = id_opt(&p, "session");
    b->profile = id_opt(&p, "profile");
    b->call_id = text_opt(&p, "callId", BG_CALL_ID_MAX);
    b->purpose = text_opt(&p, "purpose", BG_PURPOSE_MAX);
    bg_jr_int_opt(&p, "waitMs", 0, BG_WAIT_MAX_MS, 0);
    bg_jr_bool_opt(&p, "noWait", false);
    const cJSON *body = bg_jr_obj(&p, "body");
    bool ok = bg_jr_end(&p);
    if (ok) {
        bg_jr_begin(&r, body, "params.body", err);
        read_kind(&r, b);
        ok = bg_jr_end(&r);
    }
    if (!ok) {
        bg_body_free(b);
        return NULL;
    }
    return b;
}

/* ---- sameness ---- */

static bool text_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool bytes_same(const char *a, size_t an, const char *b, size_t bn)
{
    if (!a || !b)
        return a == b && an == bn;
    return an == bn && memcmp(a, b, an) == 0;
}

static bool strv_same(char *const *a, char *const *b)
{
    size_t n = a ? bg_strv_len(a) : 0;
    if ((b ? bg_strv_len(b) : 0) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(a[i], b[i]) != 0)
            return false;
    return true;
}

bool bg_body_same(const struct bg_body *a, const struct bg_body *b)
{
    return a->kind == b->kind && text_same(a->session, b->session) &&
           text_same(a->profile, b->profile) && text_same(a->language, b->language) &&
           bytes_same(a->code, a->code_len, b->code, b->code_len) &&
           strv_same(a->argv, b->argv) && text_same(a->cwd, b->cwd) &&
           strv_same(a->env, b->env) &&
           bytes_same(a->input, a->input_len, b->input, b->input_len) &&
           a->timeout_ms == b->timeout_ms && a->n_ports == b->n_ports &&
           (a->n_ports == 0 ||
            memcmp(a->ports, b->ports, a->n_ports * sizeof *a->ports) == 0);
}

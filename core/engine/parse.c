/* SPDX-License-Identifier: MIT */
/*
 * An engine's answers as plain structs. Pure: bytes in, strings out. Nothing here trusts
 * the engine to send what its documentation says; a container's labels and an image's
 * configuration come from strangers.
 */
#include <string.h>

#include "core/engine/engine_int.h"

/* ---- reading without a schema ---- */

const cJSON *ej_obj(const cJSON *o, const char *key)
{
    const cJSON *c = cJSON_IsObject(o) ? cJSON_GetObjectItemCaseSensitive(o, key) : NULL;

    return cJSON_IsObject(c) || cJSON_IsArray(c) ? c : NULL;
}

const char *ej_str(const cJSON *o, const char *key)
{
    const cJSON *c = cJSON_IsObject(o) ? cJSON_GetObjectItemCaseSensitive(o, key) : NULL;

    return cJSON_IsString(c) ? c->valuestring : "";
}

int64_t ej_int(const cJSON *o, const char *key)
{
    const cJSON *c = cJSON_IsObject(o) ? cJSON_GetObjectItemCaseSensitive(o, key) : NULL;

    if (cJSON_IsString(c)) /* past 2^53, see bg_json_parse_big */
        return strtoll(c->valuestring, NULL, 10);
    return cJSON_IsNumber(c) && c->valuedouble >= -9e15 && c->valuedouble <= 9e15
               ? (int64_t)c->valuedouble
               : 0;
}

bool ej_bool(const cJSON *o, const char *key)
{
    return cJSON_IsObject(o) && cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, key));
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_strings(char **v)
{
    if (v)
        qsort(v, bg_strv_len(v), sizeof *v, by_bytes);
}

char **ej_strings(const cJSON *a, bool sort)
{
    char **v = NULL;
    size_t n = 0;

    for (const cJSON *c = cJSON_IsArray(a) ? a->child : NULL; c; c = c->next)
        if (cJSON_IsString(c) && n++ < BG_ENGINE_STRINGS_MAX)
            bg_strv_push(&v, c->valuestring);
    if (sort)
        sort_strings(v);
    return v;
}

char **ej_pairs(const cJSON *o)
{
    char **v = NULL;
    size_t n = 0;

    for (const cJSON *c = cJSON_IsObject(o) ? o->child : NULL; c; c = c->next) {
        if (!cJSON_IsString(c) || n++ >= BG_ENGINE_STRINGS_MAX)
            continue;
        bg_autofree char *pair = bg_xasprintf("%s=%s", c->string, c->valuestring);
        bg_strv_push(&v, pair);
    }
    sort_strings(v);
    return v;
}

static cJSON *parse(const char *p, size_t n, size_t max, const char *what,
                    struct bg_error *err)
{
    cJSON *j = bg_json_parse_big(p, n, max, err);

    if (!j) {
        bg_error_prefix(err, "%s", what);
        if (err)
            err->code = BG_ERR_UNAVAILABLE;
    } else if (!cJSON_IsObject(j) && !cJSON_IsArray(j)) {
        bg_fail(err, BG_ERR_UNAVAILABLE, 0, "%s: not what an engine answers", what);
        cJSON_Delete(j);
        j = NULL;
    }
    return j;
}

/* ---- version and info ---- */

/* "1.41" -> 41; -1 = something else. */
static int minor_of(const char *api)
{
    char *end;
    long minor;

    if (strncmp(api, "1.", 2) != 0 || api[2] < '0' || api[2] > '9')
        return -1;
    minor = strtol(api + 2, &end, 10);
    return *end || minor > 9999 ? -1 : (int)minor;
}

bool engine_parse_version(const char *p, size_t n, struct engine_version *v,
                          struct bg_error *err)
{
    bg_autojson cJSON *j = parse(p, n, BG_ENGINE_ANSWER_MAX, "/version", err);
    const cJSON *parts = ej_obj(j, "Components");

    if (!j)
        return false;
    *v = (struct engine_version){.api = minor_of(ej_str(j, "ApiVersion")),
                                 .api_min = minor_of(ej_str(j, "MinAPIVersion"))};
    if (v->api < 0)
        return bg_fail(err, BG_ERR_UNAVAILABLE, 0,
                       "/version: no version of the Engine API in the answer");
    if (v->api_min < 0)
        v->api_min = 0;
    for (const cJSON *c = cJSON_IsArray(parts) ? parts->child : NULL; c; c = c->next)
        v->podman |= strstr(ej_str(c, "Name"), "Podman") != NULL;
    v->version = bg_xstrdup(ej_str(j, "Version"));
    v->arch = bg_xstrdup(ej_str(j, "Arch"));
    return true;
}

void engine_version_clear(struct engine_version *v)
{
    free(v->version);
    free(v->arch);
    *v = (struct engine_version){0};
}

bool engine_parse_info(const char *p, size_t n, struct bg_engine_facts *f,
                       struct bg_error *err)
{
    bg_autojson cJSON *j = parse(p, n, BG_ENGINE_ANSWER_MAX, "/info", err);
    const cJSON *security = ej_obj(j, "SecurityOptions");

    if (!j)
        return false;
    f->memory = ej_bool(j, "MemoryLimit");
    f->swap = ej_bool(j, "SwapLimit");
    f->pids = ej_bool(j, "PidsLimit");
    f->cpu = ej_bool(j, "CpuCfsQuota") && ej_bool(j, "CpuCfsPeriod");
    f->desktop = strstr(ej_str(j, "OperatingSystem"), "Docker Desktop") != NULL;
    f->rootless = ej_bool(j, "Rootless");
    for (const cJSON *c = cJSON_IsArray(security) ? security->child : NULL; c; c = c->next)
        f->rootless |= cJSON_IsString(c) && strcmp(c->valuestring, "name=rootless") == 0;
    return true;
}

/* ---- containers ---- */

static char *with_sha(const char *id)
{
    return *id && !strchr(id, ':') ? bg_xasprintf("sha256:%s", id) : bg_xstrdup(id);
}

static char **mount_lines(const cJSON *a)
{
    char **v = NULL;
    size_t n = 0;

    for (const cJSON *c = cJSON_IsArray(a) ? a->child : NULL; c; c = c->next) {
        const char *type = ej_str(c, "Type");
        /* Podman lists a tmpfs here, Docker only in its host configuration. */
        if (strcmp(type, "tmpfs") == 0 || n++ >= BG_ENGINE_STRINGS_MAX)
            continue;
        bg_autofree char *line =
            bg_xasprintf("%s|%s|%s|%s", type, ej_str(c, "Source"), ej_str(c, "Destination"),
                         ej_bool(c, "RW") ? "rw" : "ro");
        bg_strv_push(&v, line);
    }
    sort_strings(v);
    return v;
}

static char **key_list(const cJSON *o)
{
    char **v = NULL;
    size_t n = 0;

    for (const cJSON *c = cJSON_IsObject(o) ? o->child : NULL; c; c = c->next)
        if (n++ < BG_ENGINE_STRINGS_MAX)
            bg_strv_push(&v, c->string);
    sort_strings(v);
    return v;
}

/* Namespaces shared with something: everything that is not the engine's own default. */
static char **mode_list(const cJSON *host)
{
    static const char *const keys[] = {"PidMode", "UTSMode", "UsernsMode", "IpcMode"};
    char **v = NULL;

    for (size_t i = 0; i < bg_countof(keys); i++) {
        const char *mode = ej_str(host, keys[i]);
        bool own = !*mode || !strcmp(mode, "private") || !strcmp(mode, "shareable") ||
                   !strcmp(mode, "none");
        if (own)
            continue;
        bg_autofree char *pair = bg_xasprintf("%s=%s", keys[i], mode);
        bg_strv_push(&v, pair);
    }
    return v;
}

static int64_t handed_in(const cJSON *host)
{
    static const char *const keys[] = {"Devices", "DeviceRequests", "DeviceCgroupRules",
                                       "VolumesFrom", "Links"};
    int64_t n = 0;

    for (size_t i = 0; i < bg_countof(keys); i++)
        n += cJSON_GetArraySize(ej_obj(host, keys[i]));
    return n;
}

static void take_host(struct bg_container_info *i, const cJSON *host)
{
    i->network = bg_xstrdup(ej_str(host, "NetworkMode"));
    i->tmpfs = ej_pairs(ej_obj(host, "Tmpfs"));
    i->cap_add = ej_strings(ej_obj(host, "CapAdd"), true);
    i->cap_drop = ej_strings(ej_obj(host, "CapDrop"), true);
    i->security = ej_strings(ej_obj(host, "SecurityOpt"), true);
    i->modes = mode_list(host);
    i->devices = handed_in(host);
    i->privileged = ej_bool(host, "Privileged");
    i->readonly_rootfs = ej_bool(host, "ReadonlyRootfs");
    i->memory = ej_int(host, "Memory");
    i->memory_swap = ej_int(host, "MemorySwap");
    i->nano_cpus = ej_int(host, "NanoCpus");
    i->pids_limit = ej_int(host, "PidsLimit");
}

bool engine_parse_container(const char *p, size_t n, struct bg_container_info *i,
                            struct bg_error *err)
{
    bg_autojson cJSON *j = parse(p, n, BG_ENGINE_ANSWER_MAX, "inspect", err);
    const cJSON *state = ej_obj(j, "State"), *config = ej_obj(j, "Config");

    if (!j)
        return false;
    if (!*ej_str(j, "Id") || !state || !config || !ej_obj(j, "HostConfig"))
        return bg_fail(err, BG_ERR_UNAVAILABLE, 0, "inspect: no container in the answer");
    *i = (struct bg_container_info){
        .id = bg_xstrdup(ej_str(j, "Id")),
        .name = bg_xstrdup(ej_str(j, "Name") + (*ej_str(j, "Name") == '/')),
        .image = with_sha(ej_str(j, "Image")),
        .started_at = bg_xstrdup(ej_str(state, "StartedAt")),
        .status = bg_xstrdup(ej_str(state, "Status")),
        .user = bg_xstrdup(ej_str(config, "User")),
        .pid = ej_int(state, "Pid"),
        .restarts = ej_int(j, "RestartCount"),
        .running = ej_bool(state, "Running"),
        .paused = ej_bool(state, "Paused"),
        .oom_killed = ej_bool(state, "OOMKilled"),
        .exit_code = ej_int(state, "ExitCode"),
        .entrypoint = ej_strings(ej_obj(config, "Entrypoint"), false),
        .cmd = ej_strings(ej_obj(config, "Cmd"), false),
        .env = ej_strings(ej_obj(config, "Env"), true),
        .networks = key_list(ej_obj(ej_obj(j, "NetworkSettings"), "Networks")),
        .mounts = mount_lines(ej_obj(j, "Mounts")),
        .labels = ej_pairs(ej_obj(config, "Labels")),
    };
    take_host(i, ej_obj(j, "HostConfig"));
    return true;
}

bool engine_parse_list(const char *p, size_t n, struct bg_container_row **rows,
                       size_t *count, struct bg_error *err)
{
    bg_autojson cJSON *j = parse(p, n, BG_ENGINE_LIST_MAX, "containers", err);
    size_t i = 0;

    if (!j)
        return false;
    if (!cJSON_IsArray(j))
        return bg_fail(err, BG_ERR_UNAVAILABLE, 0, "containers: no list in the answer");
    *rows = bg_xcalloc((size_t)cJSON_GetArraySize(j) + 1, sizeof **rows);
    for (const cJSON *c = j->child; c; c = c->next) {
        const cJSON *names = ej_obj(c, "Names");
        const char *name = cJSON_IsArray(names) && cJSON_IsString(names->child)
                               ? names->child->valuestring
                               : "";
        if (!*ej_str(c, "Id"))
            continue;
        (*rows)[i++] = (struct bg_container_row){
            .id = bg_xstrdup(ej_str(c, "Id")),
            .name = bg_xstrdup(name + (*name == '/')),
            .state = bg_xstrdup(ej_str(c, "State")),
            .labels = ej_pairs(ej_obj(c, "Labels")),
        };
    }
    *count = i;
    return true;
}

void engine_rows_free(struct bg_container_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(rows[i].id);
        free(rows[i].name);
        free(rows[i].state);
        bg_strv_free(rows[i].labels);
    }
    free(rows);
}

/* ---- images ---- */

bool engine_parse_image(const char *p, size_t n, struct bg_image_info *i,
                        struct bg_error *err)
{
    bg_autojson cJSON *j = parse(p, n, BG_ENGINE_ANSWER_MAX, "image", err);
    const cJSON *config = ej_obj(j, "Config");

    if (!j)
        return false;
    if (!*ej_str(j, "Id"))
        return bg_fail(err, BG_ERR_UNAVAILABLE, 0, "image: no image in the answer");
    *i = (struct bg_image_info){.id = with_sha(ej_str(j, "Id")),
                                .arch = bg_xstrdup(ej_str(j, "Architecture")),
                                .os = bg_xstrdup(ej_str(j, "Os")),
                                .user = bg_xstrdup(ej_str(config, "User")),
                                .env = ej_strings(ej_obj(config, "Env"), false)};
    return true;
}

bool engine_parse_pull(const char *p, size_t n, struct pull_line *l, struct bg_error *err)
{
    bg_autojson cJSON *j = parse(p, n, BG_ENGINE_LINE_MAX, "pull", err);
    const cJSON *detail = ej_obj(j, "progressDetail");
    const char *error = ej_str(ej_obj(j, "errorDetail"), "message");

    if (!j)
        return false;
    if (!*error)
        error = ej_str(j, "error");
    *l = (struct pull_line){.id = bg_xstrdup(ej_str(j, "id")),
                            .status = bg_xstrdup(ej_str(j, "status")),
                            .error = *error ? bg_xstrdup(error) : NULL,
                            .current = ej_int(detail, "current"),
                            .total = ej_int(detail, "total")};
    return true;
}

void pull_line_clear(struct pull_line *l)
{
    free(l->id);
    free(l->status);
    free(l->error);
    *l = (struct pull_line){0};
}

/* ---- events and errors ---- */

bool engine_parse_event(const char *p, size_t n, struct bg_engine_event *ev,
                        struct bg_error *err)
{
    bg_autojson cJSON *j = parse(p, n, BG_ENGINE_LINE_MAX, "event", err);
    const cJSON *actor = ej_obj(j, "Actor");
    const char *action = ej_str(j, "Action"), *type = ej_str(j, "Type");
    const char *id = strcmp(type, "network") == 0
                         ? ej_str(ej_obj(actor, "Attributes"), "container")
                         : ej_str(actor, "ID");

    if (!j)
        return false;
    if (!*action)
        action = ej_str(j, "status");
    if (!*id && strcmp(type, "network") != 0)
        id = ej_str(j, "id");
    if (!*id || !*action)
        return bg_fail(err, BG_ERR_UNAVAILABLE, 0, "event: of no container");
    *ev = (struct bg_engine_event){.action = bg_xstrndup(action, strcspn(action, ":")),
                                   .container = bg_xstrdup(id)};
    return true;
}

void engine_event_clear(struct bg_engine_event *ev)
{
    free(ev->action);
    free(ev->container);
    *ev = (struct bg_engine_event){0};
}

char *engine_message(const char *p, size_t n)
{
    bg_autojson cJSON *j = bg_json_parse_big(p, n, BG_ENGINE_ANSWER_MAX, NULL);
    const char *said = ej_str(j, "message");

    if (*said)
        return bg_xstrdup(said);
    n = n < 200 ? n : 200;
    return n > 0 ? bg_xstrndup(p, n) : bg_xstrdup("");
}

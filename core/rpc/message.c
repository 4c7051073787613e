/* SPDX-License-Identifier: MIT */
/* One line of JSON-RPC to a message and back; pure functions, fuzzed. */
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/rpc/rpc.h"

static const struct {
    enum bg_errc err;
    int code;
} code_table[] = {
    {BG_ERR_USAGE, BG_RPC_PARAMS},
    {BG_ERR_FORBIDDEN, BG_RPC_FORBIDDEN_ROLE},
    {BG_ERR_NOT_FOUND, BG_RPC_NOT_FOUND},
    {BG_ERR_HASH_MISMATCH, BG_RPC_HASH_MISMATCH},
    {BG_ERR_ALREADY_DECIDED, BG_RPC_ALREADY_DECIDED},
    {BG_ERR_EXPIRED, BG_RPC_EXPIRED},
    {BG_ERR_CONFLICT, BG_RPC_CALL_ID_CONFLICT},
    {BG_ERR_POLICY, BG_RPC_POLICY_INVALID},
    {BG_ERR_LIMIT, BG_RPC_LIMIT},
    {BG_ERR_AUDIT, BG_RPC_AUDIT_UNAVAILABLE},
    {BG_ERR_UNAVAILABLE, BG_RPC_BACKEND_UNAVAILABLE},
    {BG_ERR_HAZARDS, BG_RPC_HAZARDS},
    {BG_ERR_SELF_APPROVAL, BG_RPC_SELF_APPROVAL},
    {BG_ERR_UNSUPPORTED, BG_RPC_UNSUPPORTED},
};

int bg_rpc_code_of(enum bg_errc e)
{
    for (size_t i = 0; i < bg_countof(code_table); i++)
        if (code_table[i].err == e)
            return code_table[i].code;
    return BG_RPC_INTERNAL;
}

/* The id as JSON text; false for anything but a string or an integer. */
static bool take_id(const cJSON *id, struct bg_rpc_msg *m, struct bg_error *err)
{
    if (!id)
        return true;
    if (!cJSON_IsString(id) && !cJSON_IsNumber(id) && !cJSON_IsNull(id))
        return bg_fail(err, BG_ERR_PROTOCOL, 0, "id must be a string or an integer");
    if (cJSON_IsNumber(id) && id->valuedouble != (double)(int64_t)id->valuedouble)
        return bg_fail(err, BG_ERR_PROTOCOL, 0, "id must be a string or an integer");
    /* cJSON prints integers of more than 15 digits in exponent form; an id goes back as it
     * came. */
    if (cJSON_IsNumber(id))
        m->id_raw = bg_xasprintf("%lld", (long long)id->valuedouble);
    else
        m->id_raw = bg_json_print(id);
    if (strlen(m->id_raw) <= BG_RPC_ID_MAX)
        return true;
    free(m->id_raw);
    m->id_raw = NULL;
    return bg_fail(err, BG_ERR_PROTOCOL, 0, "the id is longer than %d bytes",
                   BG_RPC_ID_MAX);
}

static bool fill(const cJSON *j, struct bg_rpc_msg *m, struct bg_error *err)
{
    if (!cJSON_IsObject(j))
        return bg_fail(err, BG_ERR_PROTOCOL, 0,
                       "a message must be one object; batches are not supported");
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, "jsonrpc");
    if (!cJSON_IsString(v) || strcmp(v->valuestring, "2.0"))
        return bg_fail(err, BG_ERR_PROTOCOL, 0, "jsonrpc must be \"2.0\"");
    if (!take_id(cJSON_GetObjectItemCaseSensitive(j, "id"), m, err))
        return false;
    const cJSON *method = cJSON_GetObjectItemCaseSensitive(j, "method");
    m->params = cJSON_GetObjectItemCaseSensitive(j, "params");
    m->result = cJSON_GetObjectItemCaseSensitive(j, "result");
    m->error = cJSON_GetObjectItemCaseSensitive(j, "error");
    if (method) {
        if (!cJSON_IsString(method))
            return bg_fail(err, BG_ERR_PROTOCOL, 0, "method must be a string");
        if (m->params && !cJSON_IsObject(m->params))
            return bg_fail(err, BG_ERR_PROTOCOL, 0, "params must be an object");
        m->method = method->valuestring;
        return true;
    }
    if (!m->id_raw || (!m->result == !m->error))
        return bg_fail(err, BG_ERR_PROTOCOL, 0, "neither a request nor a response");
    return true;
}

cJSON *bg_rpc_parse(const char *line, size_t n, size_t max, struct bg_rpc_msg *m,
                    struct bg_error *err)
{
    *m = (struct bg_rpc_msg){.fds = {-1, -1}};
    cJSON *j = bg_json_parse(line, n, max, err);
    if (!j)
        return NULL;
    if (fill(j, m, err))
        return j;
    cJSON_Delete(j);
    free(m->id_raw);
    *m = (struct bg_rpc_msg){.fds = {-1, -1}};
    return NULL;
}

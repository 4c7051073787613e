/* SPDX-License-Identifier: MIT */
/* A line from any peer: it is refused, or it is a message whose parts are consistent. */
#include <stdlib.h>

#include "core/base/values.h"
#include "core/rpc/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bg_rpc_msg m;
    struct bg_error err = {0};
    cJSON *j = bg_rpc_parse((const char *)data, size, BG_JSON_HELLO_MAX, &m, &err);
    if (!j) {
        if (err.code == BG_OK || m.id_raw)
            abort();
        return 0;
    }
    if (!m.method && !m.id_raw)
        abort();
    if (!m.method && !m.result == !m.error)
        abort();
    free(m.id_raw);
    cJSON_Delete(j);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Which version of the Engine API to speak: the newest both know. Pure. */
#include "core/engine/engine_int.h"

int engine_negotiate(const struct engine_version *v, struct bg_error *err)
{
    if (v->api < BG_ENGINE_API_MIN) {
        bg_fail(err, BG_ERR_UNAVAILABLE, 0,
                "%s %s speaks version 1.%d of the Engine API at most; boxgate needs 1.%d "
                "(Docker 20.10 or Podman 4)",
                v->podman ? "Podman" : "Docker", v->version, v->api, BG_ENGINE_API_MIN);
        return 0;
    }
    if (v->api_min > BG_ENGINE_API_MAX) {
        bg_fail(err, BG_ERR_UNAVAILABLE, 0,
                "%s %s wants at least version 1.%d of the Engine API; boxgate knows up to "
                "1.%d",
                v->podman ? "Podman" : "Docker", v->version, v->api_min, BG_ENGINE_API_MAX);
        return 0;
    }
    return v->api < BG_ENGINE_API_MAX ? v->api : BG_ENGINE_API_MAX;
}

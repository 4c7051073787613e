/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as policy.yaml. Whatever it says: a sandbox with a network, kept capabilities
 * or a hazard is never allowed, deciding and explaining agree, and distrust ends every
 * allow.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct bg_facts code_facts(const uint8_t *data, size_t size)
{
    return (struct bg_facts){
        .kind = "run_code",
        .principal = "uid:1000",
        .language = "python",
        .code = {(const char *)data, size},
        .sha256 = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100",
        .timeout_ms = 1000,
        .provider = "local",
        .image_id = "host",
        .network = "none",
        .caps_none = true,
        .no_new_privileges = true,
        .fresh = true,
        .memory_mb = 512,
        .pids = 256,
        .cpus_milli = 1000,
        .now_wall_ms = 1800000000000,
    };
}

static bool allows(const struct bg_policy *p, const struct bg_facts *f)
{
    return bg_policy_decide(p, f).decision == BG_DECIDE_ALLOW;
}

static void never_allows_openings(const struct bg_policy *p, struct bg_facts f)
{
    struct bg_facts open[6];
    for (size_t i = 0; i < bg_countof(open); i++)
        open[i] = f;
    open[0].network = "bridge";
    open[1].caps_none = false;
    open[2].no_new_privileges = false;
    open[3].hazards = BG_HZ_BIT(BG_HZ_INVISIBLE);
    open[4].unlimited = true;
    open[5].mounts_any = open[5].mounts_rw = true;
    for (size_t i = 0; i < bg_countof(open); i++)
        if (allows(p, &open[i]))
            abort();
}

static void explains(const struct bg_policy *p, const struct bg_facts *f)
{
    cJSON *j = bg_policy_explain(p, f), *o;
    bool matched = false;
    cJSON_ArrayForEach(o, j)
    {
        bool allow =
            !strcmp(cJSON_GetObjectItemCaseSensitive(o, "decision")->valuestring, "allow");
        matched |= allow && cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "matched"));
    }
    cJSON_Delete(j);
    if (allows(p, f) && !matched)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const argv[] = {"/usr/bin/python3", "-m", "pytest", "tests", NULL};
    struct bg_error err = {0};
    bg_digest_init();
    struct bg_policy *p = bg_policy_parse("fuzz", (const char *)data, size, &err);
    if (!p) {
        if (err.code == BG_OK)
            abort();
        return 0;
    }
    struct bg_facts code = code_facts(data, size), cmd = code;
    cmd.kind = "exec";
    cmd.language = NULL;
    cmd.code.p = NULL;
    cmd.argv = (char *const *)(uintptr_t)argv;
    never_allows_openings(p, code);
    never_allows_openings(p, cmd);
    explains(p, &code);
    explains(p, &cmd);
    bg_policy_distrust(p);
    if (allows(p, &code) || allows(p, &cmd))
        abort();
    struct bg_policy *base = bg_policy_default();
    if (bg_policy_tighten(base, p, &err) && (allows(base, &code) || allows(base, &cmd)))
        abort();
    bg_policy_free(base);
    bg_policy_free(p);
    return 0;
}

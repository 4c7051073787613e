/* SPDX-License-Identifier: MIT */
/* Shared by the policy tests: rule texts, facts of a harmless request, and refusals. */
#pragma once

#include "core/base/mem.h"
#include "core/policy/policy.h"
#include "tests/test.h"

#define SHA "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define REQ "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
#define LOCAL_BOX                                                                     \
    "sandbox: {provider: local, imageId: [host], network: none, mounts: none, caps: " \
    "none, noNewPrivileges: true}"
#define RULES "version: 1\nrules:\n"

static inline struct bg_policy *parse(const char *yaml)
{
    struct bg_error err = {0};
    struct bg_policy *p = bg_policy_parse("p.yaml", yaml, strlen(yaml), &err);
    if (!p)
        fail_msg("%s\nrefused: %s", yaml, err.msg);
    return p;
}

static inline void refused(const char *yaml, const char *where, const char *words)
{
    struct bg_error err = {0};
    struct bg_policy *p = bg_policy_parse("p.yaml", yaml, strlen(yaml), &err);
    if (p)
        fail_msg("accepted:\n%s", yaml);
    bg_autofree char *head = bg_xasprintf("p.yaml:%s", where);
    if (err.code != BG_ERR_CONFIG || strncmp(err.msg, head, strlen(head)) != 0 ||
        !strstr(err.msg, words))
        fail_msg("%s\nexpected %s ... %s\ngot %s", yaml, head, words, err.msg);
}

static inline void rule_refused(const char *rule, const char *words)
{
    bg_autofree char *yaml = bg_xasprintf(RULES "  - {%s}\n", rule);
    refused(yaml, "3:", words);
}

/* Python code in a closed local sandbox: nothing about it is worth a warning. */
static inline struct bg_facts calm(void)
{
    return (struct bg_facts){
        .kind = "run_code",
        .principal = "uid:1000",
        .language = "python",
        .code = BG_STR("print(1)"),
        .sha256 = REQ,
        .timeout_ms = 30000,
        .provider = "local",
        .image_id = "host",
        .network = "none",
        .caps_none = true,
        .no_new_privileges = true,
        .fresh = true,
        .memory_mb = 512,
        .pids = 256,
        .cpus_milli = 1000,
        .now_wall_ms = 1800000000000, /* 2027-01-15 */
    };
}

/* The product never writes into an argument vector; its types only say so for the pointers.
 */
static inline char *const *strv(const char *const *v)
{
    return (char *const *)(uintptr_t)v;
}

static inline struct bg_facts command(const char *const *argv)
{
    struct bg_facts f = calm();
    f.kind = "exec";
    f.language = NULL;
    f.code = (struct bg_str){NULL, 0};
    f.argv = strv(argv);
    return f;
}

static inline enum bg_decision decide(const char *yaml, const struct bg_facts *f)
{
    struct bg_policy *p = parse(yaml);
    enum bg_decision d = bg_policy_decide(p, f).decision;
    bg_policy_free(p);
    return d;
}

#define ALLOW_PY RULES "  - {id: a, decision: allow, kinds: [run_code], " LOCAL_BOX "}\n"

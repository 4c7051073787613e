/* SPDX-License-Identifier: MIT */
/* policy.yaml: what a rule may say, what it decides, and that nothing widens it by
 * accident. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/path.h"
#include "core/base/text.h"
#include "tests/test.h"
#include "tests/unit/policy/rules.h"

static void default_asks(void **state)
{
    (void)state;
    struct bg_facts f = calm();
    struct bg_policy *p = bg_policy_default();
    struct bg_verdict v = bg_policy_decide(p, &f);
    assert_int_equal(v.decision, BG_DECIDE_ASK);
    assert_null(v.rule);
    assert_int_equal(bg_policy_rules(p), 0);
    bg_policy_free(p);
    assert_int_equal(decide("", &f), BG_DECIDE_ASK);
    assert_int_equal(decide("defaults: {decision: deny}\n", &f), BG_DECIDE_DENY);
    refused("defaults: {decision: allow}\n", "1:", "ask or deny");
    refused("defaults: {hazards: allow}\n", "1:", "ask or deny");
}

static const char contract_example[] =
    "version: 1\n"
    "defaults: {decision: ask, hazards: ask}\n"
    "rules:\n"
    "  - id: lab-offline\n"
    "    decision: allow\n"
    "    kinds: [run_code]\n"
    "    sandbox: {provider: docker, imageId: [\"" SHA
    "\"], network: none, mounts: none, caps: none, noNewPrivileges: true}\n"
    "    languages: [python]\n"
    "    limits: {timeoutMs: 60000, memoryMb: 512}\n"
    "    expires: 2027-01-31\n"
    "    uses: 200\n"
    "  - id: pytest\n"
    "    decision: allow\n"
    "    kinds: [exec]\n"
    "    argv: [{exact: /usr/bin/python3}, {exact: -m}, {exact: pytest}, {exact: tests}]\n"
    "    sandbox: {provider: local, imageId: [host], network: none, mounts: none, caps: "
    "none, noNewPrivileges: true}\n"
    "  - {id: no-net, decision: deny, sandbox: {network: [bridge, host]}, message: \"no "
    "network in this lab\"}\n"
    "  - {id: token-words, decision: ask, codeContains: [AWS_SECRET, id_rsa]}\n";

static void the_example_of_the_contract(void **state)
{
    (void)state;
    struct bg_policy *p = parse(contract_example);
    assert_int_equal(bg_policy_rules(p), 4);
    struct bg_facts f = calm();
    assert_int_equal(bg_policy_decide(p, &f).decision,
                     BG_DECIDE_ASK); /* local isn't docker */
    f.provider = "docker";
    f.image_id = SHA;
    struct bg_verdict v = bg_policy_decide(p, &f);
    assert_int_equal(v.decision, BG_DECIDE_ALLOW);
    assert_string_equal(v.rule, "lab-offline");
    f.code = BG_STR("open('id_rsa')");
    v = bg_policy_decide(p, &f);
    assert_int_equal(v.decision, BG_DECIDE_ASK);
    assert_string_equal(v.rule, "token-words");
    f.network = "bridge";
    v = bg_policy_decide(p, &f);
    assert_int_equal(v.decision, BG_DECIDE_DENY);
    assert_string_equal(v.message, "no network in this lab");
    const char *argv[] = {"/usr/bin/python3", "-m", "pytest", "tests", NULL};
    f = command(argv);
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ALLOW);
    bg_policy_free(p);
}

static void rules_end_by_date_and_count(void **state)
{
    (void)state;
    struct bg_policy *p = parse(contract_example);
    struct bg_facts f = calm();
    f.provider = "docker";
    f.image_id = SHA;
    bg_policy_uses_set(p, "lab-offline", 199);
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ALLOW);
    bg_policy_used(p, "lab-offline");
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ASK);
    bg_policy_uses_set(p, "lab-offline", 0);
    f.now_wall_ms = bg_time_parse("2027-01-31");
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ASK);
    f.now_wall_ms--;
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ALLOW);
    bg_policy_free(p);
}

/* Each fact an allow rule depends on, changed alone, must end the allowing. */
static void every_fact_narrows(void **state)
{
    (void)state;
    static const char yaml[] = RULES
        "  - {id: a, decision: allow, kinds: [run_code], languages: [python], hash: " REQ
        ", principal: \"uid:1000\", "
        "limits: {timeoutMs: 30000, memoryMb: 512, pidsLimit: 256, cpus: 1.0}, expires: "
        "2027-01-16, uses: 1, sandbox: {provider: local, "
        "imageId: host, network: none, mounts: ro, caps: none, noNewPrivileges: true, "
        "fresh: true}}\n";
    struct bg_facts f = calm();
    f.mounts_any = true; /* ro allows a mount that isn't writable */
    struct bg_policy *p = parse(yaml);
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ALLOW);
    struct bg_facts c[24];
    size_t n = 0;
    for (size_t i = 0; i < bg_countof(c); i++)
        c[i] = f;
    c[n++].kind = "exec";
    c[n++].kind = NULL;
    c[n++].principal = "uid:1001";
    c[n++].language = "python3";
    c[n++].language = NULL;
    c[n++].sha256 = SHA;
    c[n++].hazards = BG_HZ_BIT(BG_HZ_BIDI);
    c[n++].timeout_ms = 30001;
    c[n++].timeout_ms = 0;
    c[n++].provider = "docker";
    c[n++].provider = "e2b";
    c[n++].image_id = SHA;
    c[n++].image_id = NULL;
    c[n++].network = "bridge";
    c[n++].network = "None";
    c[n++].mounts_rw = true;
    c[n++].caps_none = false;
    c[n++].no_new_privileges = false;
    c[n++].unlimited = true;
    c[n++].fresh = false;
    c[n++].changed_outside = true;
    c[n++].memory_mb = 513;
    c[n++].pids = 257;
    c[n++].cpus_milli = 1001;
    assert_int_equal(n, bg_countof(c));
    for (size_t i = 0; i < n; i++)
        if (bg_policy_decide(p, &c[i]).decision != BG_DECIDE_ASK)
            fail_msg("change %zu is still allowed", i);
    bg_policy_free(p);
}

static void hazards_take_allow_away(void **state)
{
    (void)state;
    struct bg_policy *p = parse(ALLOW_PY);
    for (int h = 0; h < BG_HZ_COUNT_; h++) {
        struct bg_facts f = calm();
        f.hazards = BG_HZ_BIT(h);
        struct bg_verdict v = bg_policy_decide(p, &f);
        assert_int_equal(v.decision, BG_DECIDE_ASK);
        assert_true(v.downgraded);
    }
    bg_policy_free(p);
    struct bg_facts f = calm();
    f.hazards = BG_HZ_BIT(BG_HZ_ENV);
    assert_int_equal(decide("defaults: {hazards: deny}\n", &f), BG_DECIDE_DENY);
    assert_int_equal(
        decide("defaults: {hazards: deny}\nrules:\n  - {id: q, decision: ask}\n", &f),
        BG_DECIDE_DENY);
    f.hazards = 0;
    assert_int_equal(decide("defaults: {hazards: deny}\n", &f), BG_DECIDE_ASK);
}

static void allow_needs_a_whole_sandbox(void **state)
{
    (void)state;
    static const char *const block[] = {"provider: local", "imageId: host",
                                        "network: none",   "mounts: none",
                                        "caps: none",      "noNewPrivileges: true"};
    for (size_t skip = 0; skip < bg_countof(block); skip++) {
        bg_autobuf struct bg_buf rule;
        bg_buf_init(&rule, 4096);
        bg_buf_puts(&rule, "id: a, decision: allow, kinds: [exec], sandbox: {");
        for (size_t i = 0; i < bg_countof(block); i++)
            if (i != skip)
                bg_buf_printf(&rule, "%s, ", block[i]);
        bg_buf_puts(&rule, "}");
        rule_refused(rule.data, "the sandbox of an allow rule needs");
    }
    rule_refused("id: a, decision: allow, kinds: [exec]", "needs a `sandbox` block");
    rule_refused("id: a, decision: allow, " LOCAL_BOX, "needs `kinds`");
    rule_refused("id: a, decision: allow, kinds: [external_tool], " LOCAL_BOX,
                 "can't be allowed");
    rule_refused("id: a, decision: allow, kinds: [run_code], codeContains: [x], " LOCAL_BOX,
                 "never allows");
}

static void allow_needs_a_closed_sandbox(void **state)
{
    (void)state;
    static const struct {
        const char *provider, *image, *network, *mounts, *caps, *nnp, *words;
    } bad[] = {
        {"e2b", "host", "none", "none", "none", "true", "hosted"},
        {"[local, daytona]", "host", "none", "none", "none", "true", "hosted"},
        {"cloudflare", "host", "none", "none", "none", "true", "hosted"},
        {"container", "host", "none", "none", "none", "true", "local, docker or podman"},
        {"docker", "host", "none", "none", "none", "true", "belongs to provider local"},
        {"local", "\"" SHA "\"", "none", "none", "none", "true",
         "belongs to provider local"},
        {"docker", "\"node:22\"", "none", "none", "none", "true", "64 hex"},
        {"docker", "\"sha256:...\"", "none", "none", "none", "true", "64 hex"},
        {"docker", "\"sha256:*\"", "none", "none", "none", "true", "64 hex"},
        {"local", "[]", "none", "none", "none", "true", "imageId"},
        {"local", "host", "bridge", "none", "none", "true", "network: none"},
        {"local", "host", "[none, bridge]", "none", "none", "true", "network: none"},
        {"local", "host", "no", "none", "none", "true", "expected none"},
        {"local", "host", "false", "none", "none", "true", "expected none"},
        {"local", "host", "none", "rw", "none", "true", "mounts: none"},
        {"local", "host", "none", "any", "none", "true", "mounts: none"},
        {"local", "host", "none", "no", "none", "true", "expected none"},
        {"local", "host", "none", "none", "any", "true", "caps: none"},
        {"local", "host", "none", "none", "none", "false", "noNewPrivileges: true"},
        {"local", "host", "none", "none", "none", "yes", "true or false"},
    };
    for (size_t i = 0; i < bg_countof(bad); i++) {
        bg_autofree char *rule =
            bg_xasprintf("id: a, decision: allow, kinds: [exec], sandbox: {provider: %s, "
                         "imageId: %s, network: %s, "
                         "mounts: %s, caps: %s, noNewPrivileges: %s}",
                         bad[i].provider, bad[i].image, bad[i].network, bad[i].mounts,
                         bad[i].caps, bad[i].nnp);
        rule_refused(rule, bad[i].words);
    }
}

static void rules_that_are_refused(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "decision: ask",
        "id: a",
        "id: \"a b\", decision: ask",
        "id: a, decision: permit",
        "id: a, decision: no",
        "id: a, decision: Allow",
        "id: a, decision: ask, kind: [exec]",
        "id: a, decision: ask, kinds: []",
        "id: a, decision: ask, kinds: [exec_command]",
        "id: a, decision: ask, kinds: {exec: true}",
        "id: a, decision: ask, languages: [\"*\"]",
        "id: a, decision: ask, hash: abc",
        "id: a, decision: ask, principal: root",
        "id: a, decision: ask, principal: \"uid:\"",
        "id: a, decision: ask, principal: \"uid:1x\"",
        "id: a, decision: ask, limits: {memoryMb: 1}",
        "id: a, decision: deny, uses: 1",
        "id: a, decision: ask, expires: tomorrow",
        "id: a, decision: ask, expires: 2027-02-30",
        "id: a, decision: ask, codeContains: []",
        "id: a, decision: ask, codeContains: [\"\"]",
        "id: a, decision: ask, message: [x]",
        "id: a, decision: ask, sandbox: local",
        "id: a, decision: ask, sandbox: {networks: none}",
        "id: a, decision: ask, sandbox: {mounts: ro}",
        "id: a, decision: ask, sandbox: {fresh: no}",
        "id: a, decision: allow, kinds: [exec], limits: {memoryMb: 0}, " LOCAL_BOX,
        "id: a, decision: allow, kinds: [exec], limits: {memoryMb: unlimited}, " LOCAL_BOX,
        "id: a, decision: allow, kinds: [exec], limits: {}, " LOCAL_BOX,
        "id: a, decision: allow, kinds: [exec], limits: {cpus: 0}, " LOCAL_BOX,
        "id: a, decision: allow, kinds: [exec], uses: 0, " LOCAL_BOX,
        "id: a, decision: allow, kinds: [exec], uses: 0777, " LOCAL_BOX,
    };
    for (size_t i = 0; i < bg_countof(rules); i++)
        rule_refused(rules[i], "");
}

static void files_that_are_refused(void **state)
{
    (void)state;
    refused("version: 2\n", "1:", "");
    refused("rule: []\n", "1:1", "rules");
    refused("rules: {}\n", "1:", "list");
    refused("- 1\n", "1:1", "");
    refused(RULES "  - text\n", "3:", "");
    refused(RULES "  - {id: a, decision: ask}\n  - {id: a, decision: deny}\n",
            "4:", "line 3");
    refused(RULES "  - {id: a, decision: ask, decision: allow}\n", "3:", "");
    refused("version: 1\nversion: 1\n", "2:", "");
    refused(RULES "  - &x {id: a, decision: ask}\n  - *x\n", "3:", "");
    refused("rules: []\n---\nrules: []\n", "", "");
    refused("defaults: {decision: &a ask, hazards: *a}\n", "1:", "");
    static const char nul[] = "rules: []\0x";
    struct bg_error err = {0};
    assert_null(bg_policy_parse("p.yaml", nul, sizeof nul - 1, &err));
    assert_int_not_equal(err.code, BG_OK);
}

/* An allowed hash is the whole hash: the same beginning is another request. */
static void c016_whole_hash(void **state)
{
    (void)state;
    static const char yaml[] = RULES
        "  - {id: a, decision: allow, kinds: [run_code], hash: [" REQ "], " LOCAL_BOX "}\n";
    struct bg_facts f = calm();
    assert_int_equal(decide(yaml, &f), BG_DECIDE_ALLOW);
    char other[] = REQ;
    other[63] ^= 1;
    f.sha256 = other;
    assert_int_equal(decide(yaml, &f), BG_DECIDE_ASK);
    f.sha256 = "ffeeddccbbaa9988";
    assert_int_equal(decide(yaml, &f), BG_DECIDE_ASK);
    f.sha256 = NULL;
    assert_int_equal(decide(yaml, &f), BG_DECIDE_ASK);
}

static void deny_over_ask_over_allow(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "  - {id: d, decision: deny, languages: [python]}\n",
        "  - {id: q, decision: ask, kinds: run_code}\n",
        "  - {id: a, decision: allow, kinds: [run_code], " LOCAL_BOX "}\n"};
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t i = 0; i < bg_countof(orders); i++) {
        bg_autofree char *yaml = bg_xasprintf(RULES "%s%s%s", rules[orders[i][0]],
                                              rules[orders[i][1]], rules[orders[i][2]]);
        struct bg_policy *p = parse(yaml);
        struct bg_facts f = calm();
        struct bg_verdict v = bg_policy_decide(p, &f);
        assert_int_equal(v.decision, BG_DECIDE_DENY);
        assert_string_equal(v.rule, "d");
        f.language = "bash";
        v = bg_policy_decide(p, &f);
        assert_int_equal(v.decision, BG_DECIDE_ASK);
        assert_string_equal(v.rule, "q");
        bg_policy_free(p);
    }
}

static void text_conditions(void **state)
{
    (void)state;
    static const char yaml[] =
        RULES "  - {id: t, decision: deny, codeContains: [id_rsa, \"\\uFF21WS_SECRET\"]}\n";
    static const struct {
        struct bg_str code;
        bool found;
    } cases[] = {
        {BG_STR("print(1)"), false},
        {BG_STR("open('id_rsa')"), true},
        {BG_STR("ID_RSA"), false},
        {BG_STR("AWS_SECRET"), true},                   /* the word itself is folded too */
        {BG_STR("\xef\xbd\x89\xef\xbd\x84_rsa"), true}, /* full-width letters */
        {BG_STR("\xf0\x9d\x92\xbe"
                "d_rsa"),
         true}, /* mathematical i */
        {BG_STR("x\0y id_rsa"), true},
        {BG_STR("\xff\xfe id_rsa \xff"), true},
        {BG_STR("\xff\xfe \xef\xbd\x89"
                "d_rsa"),
         true},
        {BG_STR("id_\xffrsa"), false},
        {BG_STR(""), false},
    };
    struct bg_policy *p = parse(yaml);
    for (size_t i = 0; i < bg_countof(cases); i++) {
        struct bg_facts f = calm();
        f.code = cases[i].code;
        if ((bg_policy_decide(p, &f).decision == BG_DECIDE_DENY) != cases[i].found)
            fail_msg("case %zu", i);
    }
    const char *argv[] = {"cat", "/home/u/.ssh/id_rsa", NULL};
    struct bg_facts f = command(argv);
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_DENY);
    bg_policy_free(p);
}

static void sandbox_conditions_of_tightening_rules(void **state)
{
    (void)state;
    struct bg_facts f = calm(), m = calm(), w = calm();
    m.mounts_any = true;
    w.mounts_any = w.mounts_rw = true;
    static const char any[] = RULES "  - {id: d, decision: deny, sandbox: {mounts: any}}\n";
    static const char rw[] = RULES "  - {id: d, decision: deny, sandbox: {mounts: rw}}\n";
    assert_int_equal(decide(any, &f), BG_DECIDE_ASK);
    assert_int_equal(decide(any, &m), BG_DECIDE_DENY);
    assert_int_equal(decide(any, &w), BG_DECIDE_DENY);
    assert_int_equal(decide(rw, &m), BG_DECIDE_ASK);
    assert_int_equal(decide(rw, &w), BG_DECIDE_DENY);
    f.caps_none = false;
    assert_int_equal(
        decide(RULES "  - {id: d, decision: deny, sandbox: {caps: any}}\n", &f),
        BG_DECIDE_DENY);
    f.no_new_privileges = false;
    assert_int_equal(
        decide(RULES "  - {id: d, decision: deny, sandbox: {noNewPrivileges: false}}\n",
               &f),
        BG_DECIDE_DENY);
    f.provider = "e2b";
    assert_int_equal(
        decide(RULES "  - {id: d, decision: deny, sandbox: {provider: [e2b, daytona]}}\n",
               &f),
        BG_DECIDE_DENY);
    assert_int_equal(decide(RULES "  - {id: d, decision: deny}\n", &f), BG_DECIDE_DENY);
}

static void projects_cannot_allow(void **state)
{
    (void)state;
    struct bg_error err = {0};
    struct bg_policy *p = parse(ALLOW_PY);
    struct bg_policy *wide =
        parse(RULES "  - {id: q, decision: deny}\n  - {id: z, decision: allow, kinds: "
                    "[exec], " LOCAL_BOX "}\n");
    assert_false(bg_policy_tighten(p, wide, &err));
    assert_int_equal(err.code, BG_ERR_POLICY);
    assert_non_null(strstr(err.msg, "line 4"));
    assert_int_equal(bg_policy_rules(p), 1); /* nothing of it was taken */
    bg_policy_free(wide);
    bg_policy_free(p);
}

static void projects_tighten(void **state)
{
    (void)state;
    struct bg_error err = {0};
    struct bg_policy *p = parse(ALLOW_PY);
    struct bg_policy *strict =
        parse("defaults: {decision: deny}\nrules:\n  - {id: a, decision: ask, "
              "codeContains: secret, message: m}\n"
              "  - {id: d, decision: deny, argv: [{exact: rm}, {oneOf: [a, b]}]}\n");
    assert_true(bg_policy_tighten(p, strict, &err));
    bg_policy_free(strict);
    struct bg_facts f = calm();
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ALLOW);
    f.code = BG_STR("secret");
    struct bg_verdict v = bg_policy_decide(p, &f);
    assert_int_equal(v.decision, BG_DECIDE_ASK);
    assert_string_equal(v.rule, "project:a");
    assert_string_equal(v.message, "m");
    const char *rm[] = {"rm", "b", NULL};
    f = command(rm);
    v = bg_policy_decide(p, &f);
    assert_string_equal(v.rule, "project:d");
    f = calm();
    f.network = "bridge";
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_DENY); /* its default */
    struct bg_policy *lax = parse("defaults: {decision: ask, hazards: ask}\n");
    assert_true(bg_policy_tighten(p, lax, &err));
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_DENY);
    bg_policy_free(lax);
    bg_policy_free(p);
}

static void distrust_keeps_only_what_tightens(void **state)
{
    (void)state;
    struct bg_policy *p = parse(ALLOW_PY "  - {id: d, decision: deny, languages: [bash]}\n "
                                         " - {id: q, decision: ask, languages: [ruby]}\n");
    struct bg_facts f = calm(), bash = calm();
    bash.language = "bash";
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ALLOW);
    bg_policy_distrust(p);
    assert_true(bg_policy_distrusted(p));
    struct bg_verdict v = bg_policy_decide(p, &f);
    assert_int_equal(v.decision, BG_DECIDE_ASK);
    assert_true(v.downgraded);
    assert_int_equal(bg_policy_decide(p, &bash).decision, BG_DECIDE_DENY);
    bg_policy_free(p);
}

static void explain_names_the_clauses(void **state)
{
    (void)state;
    struct bg_policy *p =
        parse(ALLOW_PY "  - {id: d, decision: deny, languages: [bash], sandbox: {network: "
                       "[bridge]}, codeContains: x}\n");
    const char *blocked[] = {"rm", NULL};
    bg_policy_exec_lists(p, NULL, strv(blocked));
    struct bg_facts f = calm();
    f.hazards = BG_HZ_BIT(BG_HZ_BIDI);
    f.language = "ruby";
    bg_autojson cJSON *j = bg_policy_explain(p, &f);
    bg_autofree char *text = bg_json_print(j);
    assert_string_equal(
        text, "[{\"id\":\"a\",\"decision\":\"allow\",\"line\":3,\"matched\":true,"
              "\"failed\":null,\"allFailed\":[],\"note\":\"hazards\"},"
              "{\"id\":\"d\",\"decision\":\"deny\",\"line\":4,\"matched\":false,\"failed\":"
              "\"sandbox.network\","
              "\"allFailed\":[\"sandbox.network\",\"languages\",\"codeContains\"]},"
              "{\"id\":\"tools.exec.blockedCommands\",\"decision\":\"deny\",\"matched\":"
              "false,\"failed\":\"argv\",\"allFailed\":[\"argv\"]}]");
    bg_policy_free(p);
}

static void loading(void **state)
{
    (void)state;
    char dir[] = "/tmp/boxgate-policy-XXXXXX";
    assert_non_null(mkdtemp(dir));
    bg_autofree char *path = bg_path_join(dir, "policy.yaml"),
                     *link = bg_path_join(dir, "link.yaml");
    struct bg_error err = {0};
    static const struct bg_sha256 zero;
    struct bg_policy *p = bg_policy_load(path, &err);
    assert_non_null(p);
    assert_true(bg_sha256_eq(bg_policy_digest(p), &zero));
    bg_policy_free(p);
    assert_true(bg_write_file_atomic(path, ALLOW_PY, sizeof ALLOW_PY - 1, 0600, &err));
    p = bg_policy_load(path, &err);
    assert_non_null(p);
    struct bg_sha256 want = bg_sha256(ALLOW_PY, sizeof ALLOW_PY - 1);
    assert_true(bg_sha256_eq(bg_policy_digest(p), &want));
    bg_policy_free(p);
    assert_int_equal(symlink(path, link), 0);
    assert_null(bg_policy_load(link, &err));
    assert_int_equal(err.code, BG_ERR_POLICY);
    err = (struct bg_error){0};
    assert_int_equal(chmod(path, 0622), 0);
    assert_null(bg_policy_load(path, &err));
    assert_int_equal(err.code, BG_ERR_POLICY);
    err = (struct bg_error){0};
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_null(bg_policy_load(path, &err));
    assert_int_equal(err.code, BG_ERR_POLICY);
    assert_true(bg_rm_rf(dir, NULL));
}

int main(void)
{
    bg_digest_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_asks),
        cmocka_unit_test(the_example_of_the_contract),
        cmocka_unit_test(rules_end_by_date_and_count),
        cmocka_unit_test(every_fact_narrows),
        cmocka_unit_test(hazards_take_allow_away),
        cmocka_unit_test(allow_needs_a_whole_sandbox),
        cmocka_unit_test(allow_needs_a_closed_sandbox),
        cmocka_unit_test(rules_that_are_refused),
        cmocka_unit_test(files_that_are_refused),
        cmocka_unit_test(c016_whole_hash),
        cmocka_unit_test(deny_over_ask_over_allow),
        cmocka_unit_test(text_conditions),
        cmocka_unit_test(sandbox_conditions_of_tightening_rules),
        cmocka_unit_test(projects_cannot_allow),
        cmocka_unit_test(projects_tighten),
        cmocka_unit_test(distrust_keeps_only_what_tightens),
        cmocka_unit_test(explain_names_the_clauses),
        cmocka_unit_test(loading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

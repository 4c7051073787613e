/* SPDX-License-Identifier: MIT */
/*
 * Random policies and facts against a reference that is written from the contract's words
 * alone, and the same rules in another order: the decision must not change.
 */
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/base/values.h"
#include "core/policy/policy.h"
#include "tests/test.h"

#define ROUNDS 1000
#define FACTS 20
#define RULES_MAX 6
#define NOW 1800000000000
#define SHA "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static uint64_t seed = 0x626f7867617465;

static unsigned pick(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 20) % n);
}

static const char *const kinds[] = {"run_code", "exec", "write_file"};
static const char *const languages[] = {"python", "bash"};
static const char *const networks[] = {"none", "bridge"};
static const char *const providers[] = {"local", "docker"};
static const char *const images[] = {"host", SHA};
static const char *const decisions[] = {"deny", "ask", "allow"};

/* -1 = the clause is absent; else an index into the words above. */
struct ref_rule {
    int decision, kind, language, network, provider, mounts, memory;
    bool argv, word, lapsed;
};

struct ref_facts {
    unsigned kind, language, network, provider, mounts, memory;
    bool caps_none, nnp, hazard, unlimited, changed, argv_fits, word;
};

/* Mostly absent, so that several rules often match the same request. */
static int maybe(unsigned n)
{
    return pick(3) ? -1 : (int)pick(n);
}

static struct ref_rule random_rule(void)
{
    struct ref_rule r = {.decision = (int)pick(3)};
    bool allow = r.decision == 2;
    r.kind = allow ? (int)pick(2) : maybe(3);
    r.language = maybe(2);
    r.network = allow ? 0 : maybe(2);
    r.provider = allow ? (int)pick(2) : maybe(2);
    r.mounts = allow ? (int)pick(2) : maybe(2); /* allow: none, ro; else any, rw */
    r.memory = allow && pick(3) == 0 ? 512 : -1;
    r.argv = pick(6) == 0;
    r.word = !allow && pick(4) == 0;
    r.lapsed = pick(8) == 0;
    return r;
}

static void write_rule(struct bg_buf *out, const struct ref_rule *r, int id)
{
    static const char *const allow_mounts[] = {"none", "ro"}, *const other_mounts[] = {
                                                                  "any", "rw"};
    bg_buf_printf(out, "  - {id: r%d, decision: %s, sandbox: {", id,
                  decisions[r->decision]);
    if (r->network >= 0)
        bg_buf_printf(out, "network: %s, ", networks[r->network]);
    if (r->provider >= 0)
        bg_buf_printf(out, "provider: %s, ", providers[r->provider]);
    if (r->decision == 2)
        bg_buf_printf(out, "imageId: \"%s\", mounts: %s, caps: none, noNewPrivileges: true",
                      images[r->provider], allow_mounts[r->mounts]);
    else if (r->mounts >= 0)
        bg_buf_printf(out, "mounts: %s", other_mounts[r->mounts]);
    bg_buf_puts(out, "}");
    if (r->kind >= 0)
        bg_buf_printf(out, ", kinds: %s", kinds[r->kind]);
    if (r->language >= 0)
        bg_buf_printf(out, ", languages: [%s]", languages[r->language]);
    if (r->memory > 0)
        bg_buf_printf(out, ", limits: {memoryMb: %d}", r->memory);
    if (r->argv)
        bg_buf_puts(out, ", argv: [{exact: git}, {exact: log}]");
    if (r->word)
        bg_buf_puts(out, ", codeContains: id_rsa");
    bg_buf_printf(out, ", expires: %s}\n", r->lapsed ? "2027-01-01" : "2028-01-01");
}

static bool ref_matches(const struct ref_rule *r, const struct ref_facts *f)
{
    bool allow = r->decision == 2, code = f->kind == 0, cmd = f->kind == 1;
    if (r->lapsed || (r->kind >= 0 && (unsigned)r->kind != f->kind))
        return false;
    if (r->language >= 0 && !(code && (unsigned)r->language == f->language))
        return false;
    if (r->network >= 0 && (unsigned)r->network != f->network)
        return false;
    if (r->provider >= 0 && (unsigned)r->provider != f->provider)
        return false;
    if (r->argv && !(cmd && f->argv_fits))
        return false;
    if (r->word && !(f->word && (code || (cmd && !f->argv_fits))))
        return false;
    if (!allow)
        return r->mounts < 0 || f->mounts > (unsigned)r->mounts;
    return f->mounts <= (unsigned)r->mounts && f->caps_none && f->nnp && !f->unlimited &&
           (r->memory < 0 || f->memory <= (unsigned)r->memory);
}

static size_t overlaps; /* allow and deny or ask both matched */

static int ref_decide(const struct ref_rule *rules, size_t n, int dflt, int hazards,
                      const struct ref_facts *f)
{
    bool seen[3] = {false};
    for (size_t i = 0; i < n; i++)
        seen[rules[i].decision] |= ref_matches(&rules[i], f);
    overlaps += seen[2] && (seen[0] || seen[1]);
    if (seen[0] || (f->hazard && hazards == 0))
        return 0;
    if (seen[1])
        return 1;
    if (seen[2])
        return f->hazard || f->changed ? 1 : 2;
    return dflt;
}

static struct ref_facts random_facts(void)
{
    return (struct ref_facts){
        .kind = pick(3),
        .language = pick(2),
        .network = pick(8) == 0,
        .provider = pick(2),
        .mounts = pick(3) ? 0 : pick(3),
        .memory = 256u << pick(3),
        .caps_none = pick(12) != 0,
        .nnp = pick(12) != 0,
        .hazard = pick(8) == 0,
        .unlimited = pick(12) == 0,
        .changed = pick(12) == 0,
        .argv_fits = pick(2),
        .word = pick(3) == 0,
    };
}

static struct bg_facts real_facts(const struct ref_facts *r)
{
    static const char *const fits[] = {"git", "log", NULL},
                             *const other[] = {"cat", "x", NULL},
                             *const word[] = {"cat", "id_rsa", NULL};
    struct bg_facts f = {
        .kind = kinds[r->kind],
        .principal = "uid:1000",
        .hazards = r->hazard ? BG_HZ_BIT(BG_HZ_BIDI) : 0,
        .timeout_ms = 1000,
        .provider = providers[r->provider],
        .image_id = images[r->provider],
        .network = networks[r->network],
        .mounts_any = r->mounts > 0,
        .mounts_rw = r->mounts > 1,
        .caps_none = r->caps_none,
        .no_new_privileges = r->nnp,
        .unlimited = r->unlimited,
        .changed_outside = r->changed,
        .memory_mb = r->memory,
        .now_wall_ms = NOW,
    };
    if (r->kind == 0) {
        f.language = languages[r->language];
        f.code = r->word ? BG_STR("open('id_rsa')") : BG_STR("print(1)");
    } else if (r->kind == 1) {
        f.argv = (char *const *)(uintptr_t)(r->argv_fits ? fits : r->word ? word : other);
    }
    return f;
}

static struct bg_policy *build(const struct ref_rule *rules, size_t n, int dflt,
                               int hazards)
{
    bg_autobuf struct bg_buf yaml;
    struct bg_error err = {0};
    bg_buf_init(&yaml, 65536);
    bg_buf_printf(&yaml, "version: 1\ndefaults: {decision: %s, hazards: %s}\nrules:\n",
                  decisions[dflt], decisions[hazards]);
    for (size_t i = 0; i < n; i++)
        write_rule(&yaml, &rules[i], (int)i);
    if (!n)
        bg_buf_puts(&yaml, "  []\n");
    struct bg_policy *p = bg_policy_parse("p.yaml", yaml.data, yaml.len, &err);
    if (!p)
        fail_msg("%s\n%s", err.msg, yaml.data);
    return p;
}

static void shuffle(struct ref_rule *rules, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = pick((unsigned)i);
        struct ref_rule t = rules[i - 1];
        rules[i - 1] = rules[k];
        rules[k] = t;
    }
}

static void decisions_follow_the_contract_in_any_order(void **state)
{
    (void)state;
    size_t count[3] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        struct ref_rule rules[RULES_MAX];
        size_t n = pick(RULES_MAX + 1);
        int dflt = (int)pick(2), hazards = pick(4) ? 1 : 0;
        for (size_t i = 0; i < n; i++)
            rules[i] = random_rule();
        struct bg_policy *p = build(rules, n, dflt, hazards);
        shuffle(rules, n);
        struct bg_policy *shuffled = build(rules, n, dflt, hazards);
        for (int i = 0; i < FACTS; i++) {
            struct ref_facts rf = random_facts();
            struct bg_facts f = real_facts(&rf);
            int want = ref_decide(rules, n, dflt, hazards, &rf);
            struct bg_verdict v = bg_policy_decide(p, &f),
                              s = bg_policy_decide(shuffled, &f);
            assert_int_equal(v.decision, want);
            assert_int_equal(s.decision, want);
            assert_int_equal(s.downgraded, v.downgraded);
            count[want]++;
        }
        bg_policy_free(p);
        bg_policy_free(shuffled);
    }
    for (size_t i = 0; i < 3; i++)
        assert_true(count[i] > 300); /* every outcome was really tried */
    assert_true(overlaps > 150);
}

int main(void)
{
    bg_digest_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_follow_the_contract_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

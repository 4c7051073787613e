/* SPDX-License-Identifier: MIT */
/* Commands against argv rules and the executable lists, with what got past allow lists
 * elsewhere. */
#include "core/base/text.h"
#include "tests/test.h"
#include "tests/unit/policy/rules.h"

static void argv_is_compared_word_for_word(void **state)
{
    (void)state;
    static const char yaml[] =
        RULES "  - {id: a, decision: allow, kinds: [exec], " LOCAL_BOX
              ", argv: [{oneOf: [/usr/bin/wc, wc]}, {oneOf: [-l, -c]}, "
              "{int: {min: 1, max: 100}}, {pathUnder: /data}]}\n";
    static const struct {
        const char *argv[6];
        bool allowed;
    } cases[] = {
        {{"wc", "-l", "5", "/data/x"}, true},
        {{"/usr/bin/wc", "-c", "100", "/data"}, true},
        {{"wc", "-l", "5", "/data/a/b.txt"}, true},
        {{"wc", "-l", "5"}, false},
        {{"wc", "-l", "5", "/data/x", "y"}, false},
        {{"wc", "-L", "5", "/data/x"}, false},
        {{"WC", "-l", "5", "/data/x"}, false},
        {{"./wc", "-l", "5", "/data/x"}, false},
        {{"/usr/bin/../bin/wc", "-l", "5", "/data/x"}, false},
        {{"wc ", "-l", "5", "/data/x"}, false},
        {{"wc", "-l", "0", "/data/x"}, false},
        {{"wc", "-l", "101", "/data/x"}, false},
        {{"wc", "-l", "05", "/data/x"}, false},
        {{"wc", "-l", "+5", "/data/x"}, false},
        {{"wc", "-l", "5 ", "/data/x"}, false},
        {{"wc", "-l", "", "/data/x"}, false},
        {{"wc", "-l", "99999999999999999999", "/data/x"}, false},
        {{"wc", "-l", "5", "/data/../etc/passwd"}, false},
        {{"wc", "-l", "5", "/data/./x"}, false},
        {{"wc", "-l", "5", "/data//x"}, false},
        {{"wc", "-l", "5", "/data/"}, false},
        {{"wc", "-l", "5", "/database"}, false},
        {{"wc", "-l", "5", "data/x"}, false},
        {{"wc", "-l", "5", "--files0-from=/data/x"}, false},
        {{"wc", "-l", "5", "/data/x\n/etc/passwd/.."}, false},
    };
    struct bg_policy *p = parse(yaml);
    for (size_t i = 0; i < bg_countof(cases); i++) {
        struct bg_facts f = command(cases[i].argv);
        if ((bg_policy_decide(p, &f).decision == BG_DECIDE_ALLOW) != cases[i].allowed)
            fail_msg("case %zu (%s)", i, cases[i].argv[0]);
    }
    struct bg_facts f = calm(); /* code is never allowed by an argv rule */
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ASK);
    bg_policy_free(p);
}

static void launchers_only_word_for_word(void **state)
{
    (void)state;
    static const char *const programs[] = {"sh",
                                           "bash",
                                           "/bin/sh",
                                           "/usr/bin/env",
                                           "env",
                                           "xargs",
                                           "sudo",
                                           "timeout",
                                           "nohup",
                                           "python",
                                           "python3",
                                           "python3.11",
                                           "node",
                                           "node22",
                                           "nodejs",
                                           "git",
                                           "find",
                                           "sed",
                                           "awk",
                                           "rg",
                                           "sort",
                                           "tar",
                                           "perl",
                                           "ruby",
                                           "npx",
                                           "make",
                                           "ssh",
                                           "busybox",
                                           "docker",
                                           "/usr/bin/python3.11",
                                           "/lib64/ld-linux-x86-64.so.2"};
    static const char *const wide[] = {
        "[{exact: %s}, {oneOf: [a, b]}]", "[{oneOf: [wc, %s]}, {exact: a}]",
        "[{exact: %s}, {int: {min: 1, max: 2}}]", "[{exact: %s}, {pathUnder: /data}]"};
    for (size_t i = 0; i < bg_countof(programs); i++) {
        for (size_t k = 0; k < bg_countof(wide); k++) {
            const char *mark = strstr(wide[k], "%s");
            bg_autofree char *rule = bg_xasprintf(
                "id: a, decision: allow, kinds: [exec], " LOCAL_BOX ", argv: %.*s%s%s",
                (int)(mark - wide[k]), wide[k], programs[i], mark + 2);
            rule_refused(rule, "every element `exact`");
        }
        bg_autofree char *exact =
            bg_xasprintf(RULES "  - {id: a, decision: allow, kinds: [exec], " LOCAL_BOX
                               ", argv: [{exact: %s}, {exact: a}]}\n",
                         programs[i]);
        const char *argv[] = {programs[i], "a", NULL}, *other[] = {argv[0], "b", NULL};
        struct bg_facts f = command(argv), g = command(other);
        assert_int_equal(decide(exact, &f), BG_DECIDE_ALLOW);
        assert_int_equal(decide(exact, &g), BG_DECIDE_ASK);
    }
}

static void argv_that_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "[]",
        "wc a",
        "[wc]",
        "[{prefix: wc}]",
        "[{glob: \"*\"}]",
        "[{regex: \".*\"}]",
        "[{exact: wc, oneOf: [a]}]",
        "[{oneOf: []}]",
        "[{oneOf: wc}]",
        "[{int: {min: 1, max: 2}}]",
        "[{pathUnder: /usr/bin}]",
        "[{exact: \"\"}]",
        "[{exact: ./wc}]",
        "[{exact: bin/wc}]",
        "[{exact: /workspace/wc}]",
        "[{exact: /tmp/wc}]",
        "[{exact: /usr/../tmp/wc}]",
        "[{exact: wc}, {int: {min: 5, max: 1}}]",
        "[{exact: wc}, {int: {min: 1}}]",
        "[{exact: wc}, {int: 3}]",
        "[{exact: wc}, {pathUnder: /}]",
        "[{exact: wc}, {pathUnder: data}]",
        "[{exact: wc}, {pathUnder: /data/..}]",
        "[{exact: wc}, {exact: [a]}]",
    };
    for (size_t i = 0; i < bg_countof(bad); i++) {
        bg_autofree char *rule = bg_xasprintf(
            "id: a, decision: allow, kinds: [exec], " LOCAL_BOX ", argv: %s", bad[i]);
        rule_refused(rule, "");
    }
}

/* What got past allow lists elsewhere, tried on exact rules for harmless commands. */
static const char *const bypasses[][6] = {
    /* whole-string matching: chains, substitutions, redirections, assignments */
    {"wc a && id"},
    {"wc", "a && id"},
    {"wc", "a;id"},
    {"wc", "a", ";", "id"},
    {"wc", "$(id)"},
    {"wc", "`id`"},
    {"wc", "a\nid"},
    {"wc", "a", ">", "/workspace/x"},
    {"A=1", "wc", "a"},
    {"# c\nid"},
    {"wc", "a", "&", "id"},
    {"wc", "<(id)"},
    {"{wc,a}"},
    {"git", "log && curl http://x"},
    {"git", "log", "&&", "curl", "http://x"},
    {"git", "log", "|", "sh"},
    {"echo", "${v@P}"},
    {"echo", "${v:=$(id)}"},
    {"echo", "${!v}"},
    {"echo", "hi", "<<EOF\n$(id)\nEOF"},
    {"(wc a)"},
    /* an option that runs something */
    {"find", ".", "-exec", "id", ";"},
    {"find", ".", "-fprint", "/x"},
    {"sed", "p", "f", "-i"},
    {"sed", "1e id", "f"},
    {"rg", "--pre", "sh", "x"},
    {"sort", "--compress-prog", "sh", "f"},
    {"sort", "--compress-p=sh", "f"},
    {"git", "-c", "core.pager=id", "log"},
    {"git", "--exec-path=.", "log"},
    {"git", "log", "--output=x"},
    {"git", "*", "main"},
    /* another reading than the shell's */
    {"wc$IFS", "a"},
    {"wc${IFS}a"},
    {"wc", "a", ">|", "x"},
    {"[[", "a", "]]"},
    {"wc", "a\r"},
    /* env prefix, built-ins, wrappers, outer shells */
    {"env", "wc", "a"},
    {"env", "PATH=.", "wc", "a"},
    {"sudo", "wc", "a"},
    {"timeout", "5", "wc", "a"},
    {"nohup", "wc", "a"},
    {"xargs", "wc"},
    {"sh", "-c", "wc a"},
    {"zsh", "-lc", "wc a"},
    {"bash", "-c", "wc a"},
    {"export", "PATH=."},
    {"command", "wc", "a"},
    {"eval", "wc a"},
    {"exec", "wc", "a"},
    /* another program of that name; blanks; spelling */
    {"./wc", "a"},
    {"/workspace/wc", "a"},
    {"/tmp/wc", "a"},
    {"wc ", "a"},
    {" wc", "a"},
    {"WC", "a"},
    {"w\xd1\x81", "a"},
    {"\xef\xbd\x97\xef\xbd\x83", "a"},
    {"wc\xe2\x80\x8b", "a"},
    {"wc", "\xef\xbd\x81"},
    {"wc", "A"},
    {"wc", "a", ""},
    {"wc", ""},
    {""},
};

static void c085_public_bypasses_never_pass(void **state)
{
    (void)state;
    static const char *const allowed[] = {"[{exact: wc}, {exact: a}]",
                                          "[{exact: git}, {exact: log}]",
                                          "[{exact: ls}]",
                                          "[{exact: echo}, {exact: hi}]",
                                          "[{exact: find}, {exact: .}]",
                                          "[{exact: sort}, {exact: f}]",
                                          "[{exact: rg}, {exact: x}]",
                                          "[{exact: sed}, {exact: p}, {exact: f}]"};
    bg_autobuf struct bg_buf yaml;
    bg_buf_init(&yaml, 65536);
    bg_buf_puts(&yaml, RULES);
    for (size_t i = 0; i < bg_countof(allowed); i++)
        bg_buf_printf(&yaml,
                      "  - {id: r%zu, decision: allow, kinds: [exec], " LOCAL_BOX
                      ", argv: %s}\n",
                      i, allowed[i]);
    struct bg_policy *p = parse(yaml.data);
    const char *good[] = {"wc", "a", NULL}, *none[] = {NULL};
    struct bg_facts f = command(good);
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ALLOW);
    for (size_t i = 0; i < bg_countof(bypasses); i++) {
        const char *second = bypasses[i][1] ? bypasses[i][1] : "";
        f = command(bypasses[i]);
        if (bg_policy_decide(p, &f).decision != BG_DECIDE_ASK)
            fail_msg("allowed: case %zu %s %s", i, bypasses[i][0], second);
        bg_autofree char *script = bg_xasprintf("%s %s", bypasses[i][0], second);
        f = calm(); /* the same as a script: run_code is allowed by no argv rule */
        f.language = "bash";
        f.code = bg_str_from(script);
        assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ASK);
    }
    f = command(none);
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ASK);
    bg_policy_free(p);
}

/* A steered PATH is a hazard of the request, so an allowed name stops being allowed. */
static void c086_path_and_cwd(void **state)
{
    (void)state;
    static const char yaml[] = RULES
        "  - {id: a, decision: allow, kinds: [exec], " LOCAL_BOX ", argv: [{exact: ls}]}\n";
    const char *ls[] = {"ls", NULL}, *dot[] = {"./ls", NULL};
    struct bg_facts f = command(ls);
    assert_int_equal(decide(yaml, &f), BG_DECIDE_ALLOW);
    f.hazards = BG_HZ_BIT(BG_HZ_ENV);
    assert_int_equal(decide(yaml, &f), BG_DECIDE_ASK);
    f = command(dot);
    f.cwd = "evil";
    assert_int_equal(decide(yaml, &f), BG_DECIDE_ASK);
}

static void exec_lists_only_tighten(void **state)
{
    (void)state;
    const char *allowed[] = {"ls", "wc", NULL}, *blocked[] = {"wc", "rm", NULL},
               *rm[] = {"rm", NULL}, *ls[] = {"ls", NULL};
    static const struct {
        const char *argv[2];
        bool denied;
    } cases[] = {{{"ls"}, false},  {{"wc"}, true},      {{"rm"}, true},
                 {{"cat"}, true},  {{"/bin/rm"}, true}, {{"/bin/ls"}, true},
                 {{"./ls"}, true}, {{"LS"}, true}};
    struct bg_policy *p =
        parse(RULES "  - {id: a, decision: allow, kinds: [exec], " LOCAL_BOX "}\n");
    bg_policy_exec_lists(p, strv(allowed), strv(blocked));
    for (size_t i = 0; i < bg_countof(cases); i++) {
        struct bg_facts f = command(cases[i].argv);
        struct bg_verdict v = bg_policy_decide(p, &f);
        assert_int_equal(v.decision, cases[i].denied ? BG_DECIDE_DENY : BG_DECIDE_ALLOW);
        assert_true(!cases[i].denied || strstr(v.rule, "tools.exec"));
    }
    struct bg_facts f = calm();
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ASK);
    bg_policy_exec_lists(p, NULL, strv(blocked));
    static const char *const by_path[] = {"/usr/bin/rm", NULL};
    f = command(by_path);
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_DENY);
    bg_policy_exec_lists(p, NULL, NULL);
    f = command(rm);
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ALLOW);
    bg_policy_free(p);
    p = bg_policy_default(); /* being on the list allows nothing */
    bg_policy_exec_lists(p, strv(allowed), NULL);
    f = command(ls);
    assert_int_equal(bg_policy_decide(p, &f).decision, BG_DECIDE_ASK);
    bg_policy_free(p);
}

int main(void)
{
    bg_digest_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(argv_is_compared_word_for_word),
        cmocka_unit_test(launchers_only_word_for_word),
        cmocka_unit_test(argv_that_is_refused),
        cmocka_unit_test(c085_public_bypasses_never_pass),
        cmocka_unit_test(c086_path_and_cwd),
        cmocka_unit_test(exec_lists_only_tighten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

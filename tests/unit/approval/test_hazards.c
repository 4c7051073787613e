/* SPDX-License-Identifier: MIT */
/* Which requests are HIGH, why, and where it says so. */
#include "core/approval/request.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "tests/test.h"

static struct bg_hazards found;
static const struct bg_facts closed = {
    .network = "none", .caps_none = true, .no_new_privileges = true};

static uint32_t look(const char *json, const struct bg_facts *f, char *const *spec_env,
                     bool root)
{
    struct bg_error err = {0};
    bg_autojson cJSON *j = bg_json_parse(json, strlen(json), BG_JSON_LINE_MAX, &err);
    if (!j)
        fail_msg("%s: %s", json, err.msg);
    struct bg_body *b =
        bg_body_parse(cJSON_GetObjectItemCaseSensitive(j, "kind")->valuestring, j, &err);
    if (!b)
        fail_msg("%s: %s", json, err.msg);
    struct bg_binding bind = {.argv = b->argv};
    bind.workdir = (char *)"/workspace";
    bg_hazards_find(&found, b, &bind, f, spec_env, root);
    bg_body_free(b);
    return found.bits;
}

static uint32_t of(const char *json)
{
    return look(json, &closed, NULL, false);
}

static bool noted(enum bg_hazard h, const char *field, uint32_t line)
{
    for (size_t i = 0; i < found.n; i++)
        if (found.notes[i].hazard == h && strcmp(found.notes[i].field, field) == 0 &&
            found.notes[i].line == line)
            return true;
    return false;
}

static void plain_requests_have_none(void **state)
{
    (void)state;
    assert_int_equal(of("{\"kind\":\"run_code\",\"body\":{\"code\":\"for i in range(3):\\n "
                        "   print(i)\\n\","
                        "\"language\":\"python\"}}"),
                     0);
    assert_int_equal(of("{\"kind\":\"exec\",\"body\":{\"command\":\"/usr/bin/"
                        "ls\",\"args\":[\"-l\",\"a b\"],"
                        "\"cwd\":\"x\",\"env\":{\"LANG\":\"C\",\"NODE_ENV\":\"test\"}}}"),
                     0);
    assert_int_equal(found.n, 0);
}

static void every_byte_field_is_scanned(void **state)
{
    (void)state;
    uint32_t bidi = BG_HZ_BIT(BG_HZ_BIDI);
    assert_int_equal(of("{\"kind\":\"run_code\",\"body\":{\"code\":\"a\\nb\\u202e\\n\","
                        "\"language\":\"sh\"}}"),
                     bidi);
    assert_true(noted(BG_HZ_BIDI, "code", 2));
    assert_int_equal(of("{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"args\":[\"x\","
                        "\"\\u202e\"]}}"),
                     bidi);
    assert_true(noted(BG_HZ_BIDI, "argv 2", 1));
    assert_int_equal(of("{\"kind\":\"exec\",\"body\":{\"command\":\"l\\u202es\"}}"), bidi);
    assert_true(noted(BG_HZ_BIDI, "argv 0", 1));
    assert_int_equal(of("{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"env\":{\"LANG\":"
                        "\"\\u202e\"}}}"),
                     bidi);
    assert_true(noted(BG_HZ_BIDI, "env LANG", 1));
    assert_int_equal(
        of("{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"cwd\":\"a\\u202e\"}}"), bidi);
    assert_true(noted(BG_HZ_BIDI, "cwd", 1));
    assert_int_equal(
        of("{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"input\":\"\\n\\n\\u202e\"}}"),
        bidi);
    assert_true(noted(BG_HZ_BIDI, "input", 3));
}

static void c013_the_rendering_classes_arrive(void **state)
{
    (void)state;
    assert_true(of("{\"kind\":\"run_code\",\"body\":{\"code\":\"print(1)#\\u001b[2K\\u001b["
                   "1A\\rprint(2)\","
                   "\"language\":\"python\"}}") &
                BG_HZ_BIT(BG_HZ_ANSI));
    assert_true(found.bits & BG_HZ_BIT(BG_HZ_CR_OVERWRITE));
    assert_int_equal(of("{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"input\":{"
                        "\"base64\":\"/w==\"}}}"),
                     BG_HZ_BIT(BG_HZ_NOT_UTF8));
    assert_true(of("{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"input\":{\"base64\":"
                   "\"AA==\"}}}") &
                BG_HZ_BIT(BG_HZ_CONTROL));
}

static void c059_env_that_steers_is_a_hazard(void **state)
{
    (void)state;
    static const char *const steers[] = {"PATH",
                                         "LD_PRELOAD",
                                         "LD_LIBRARY_PATH",
                                         "LD_AUDIT",
                                         "PYTHONPATH",
                                         "PYTHONSTARTUP",
                                         "PYTHONINSPECT",
                                         "NODE_OPTIONS",
                                         "NODE_PATH",
                                         "BASH_ENV",
                                         "ENV",
                                         "PERL5OPT",
                                         "PERL5LIB",
                                         "RUBYOPT",
                                         "RUBYLIB",
                                         "GIT_SSH_COMMAND",
                                         "GIT_PAGER",
                                         "GIT_CONFIG_COUNT",
                                         "IFS",
                                         "PS4",
                                         "SHELLOPTS",
                                         "BASHOPTS",
                                         "BASH_FUNC_ls",
                                         "PROMPT_COMMAND",
                                         "JAVA_TOOL_OPTIONS",
                                         "_JAVA_OPTIONS",
                                         "CLASSPATH",
                                         "GCONV_PATH",
                                         "PAGER",
                                         "EDITOR",
                                         "HOME",
                                         "npm_config_registry",
                                         "PIP_INDEX_URL",
                                         "http_proxy",
                                         "SSL_CERT_FILE",
                                         "GLIBC_TUNABLES",
                                         "DYLD_INSERT_LIBRARIES",
                                         "RUSTC_WRAPPER",
                                         "MAKEFLAGS",
                                         "DOTNET_STARTUP_HOOKS"};
    static const char *const not [] = {
        "LANG",        "LC_ALL",   "TZ",    "DEBUG", "XPATH",  "MYPATH", "PATHS",
        "ENVIRONMENT", "NODE_ENV", "APATH", "path",  "LDFLAG", "CI"};
    for (size_t i = 0; i < bg_countof(steers) + bg_countof(not ); i++) {
        bool want = i < bg_countof(steers);
        const char *name = want ? steers[i] : not [i - bg_countof(steers)];
        bg_autofree char *json = bg_xasprintf(
            "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"env\":{\"%s\":\"x\"}}}",
            name);
        bg_autofree char *field = bg_xasprintf("env %s", name);
        bool is = of(json) == BG_HZ_BIT(BG_HZ_ENV) && noted(BG_HZ_ENV, field, 0);
        if (is != want)
            fail_msg("%s", name);
    }
    char *spec_env[] = {(char *)"A=1", (char *)"LD_PRELOAD=/x.so", NULL};
    assert_int_equal(
        look("{\"kind\":\"exec\",\"body\":{\"command\":\"ls\"}}", &closed, spec_env, false),
        BG_HZ_BIT(BG_HZ_ENV));
}

static void input_to_an_interpreter_is_a_hazard(void **state)
{
    (void)state;
    static const char *const yes[] = {
        "\"command\":\"sh\"",
        "\"command\":\"/bin/bash\"",
        "\"command\":\"python3\"",
        "\"command\":\"python3.11\"",
        "\"command\":\"/usr/bin/env\",\"args\":[\"A=1\",\"node\",\"-\"]",
        "\"command\":\"nice\",\"args\":[\"timeout\",\"5\",\"/usr/bin/perl5.36\"]",
        "\"command\":\"gcc-12\"",
        "\"command\":\"xargs\"",
        "\"command\":\"sqlite3\""};
    static const char *const no[] = {
        "\"command\":\"cat\"", "\"command\":\"wc\",\"args\":[\"-l\"]",
        "\"command\":\"mysh\"", "\"command\":\"123\"", "\"command\":\"/\""};
    for (size_t i = 0; i < bg_countof(yes) + bg_countof(no); i++) {
        bool want = i < bg_countof(yes);
        const char *c = want ? yes[i] : no[i - bg_countof(yes)];
        bg_autofree char *with =
            bg_xasprintf("{\"kind\":\"exec\",\"body\":{%s,\"input\":\"id\"}}", c);
        bg_autofree char *without = bg_xasprintf("{\"kind\":\"exec\",\"body\":{%s}}", c);
        if ((of(with) == BG_HZ_BIT(BG_HZ_INTERPRETER_INPUT)) != want)
            fail_msg("%s", c);
        assert_int_equal(of(without), 0);
    }
}

static void facts_of_the_sandbox(void **state)
{
    (void)state;
    static const char json[] = "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\"}}";
    struct bg_facts f = closed;
    f.mounts_any = f.mounts_rw = true;
    assert_int_equal(look(json, &f, NULL, false), BG_HZ_BIT(BG_HZ_RW_MOUNT));
    f = closed;
    f.network = "bridge";
    assert_int_equal(look(json, &f, NULL, false), BG_HZ_BIT(BG_HZ_NETWORK));
    f.network = NULL; /* unknown is not none */
    assert_int_equal(look(json, &f, NULL, false), BG_HZ_BIT(BG_HZ_NETWORK));
    f = closed;
    f.caps_none = false;
    assert_int_equal(look(json, &f, NULL, false), BG_HZ_BIT(BG_HZ_WEAK_SECURITY));
    f = closed;
    f.no_new_privileges = false;
    assert_int_equal(look(json, &f, NULL, false), BG_HZ_BIT(BG_HZ_WEAK_SECURITY));
    f = closed;
    f.unlimited = true;
    assert_int_equal(look(json, &f, NULL, false), BG_HZ_BIT(BG_HZ_UNLIMITED));
    assert_int_equal(look(json, &closed, NULL, true), BG_HZ_BIT(BG_HZ_ROOT));
    f = closed;
    f.mounts_any = true; /* read-only mounts are none */
    assert_int_equal(look(json, &f, NULL, false), 0);
}

/* More findings than notes: the bits are still whole. */
static void notes_are_bounded_the_bits_are_not(void **state)
{
    (void)state;
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, 1 << 20);
    bg_buf_puts(&b, "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"args\":[");
    for (int i = 0; i < BG_NOTES_MAX + 50; i++)
        bg_buf_puts(&b, "\"\\u202e\",");
    bg_buf_puts(&b, "\"\\u0007\"]}}");
    assert_int_equal(of(b.data), BG_HZ_BIT(BG_HZ_BIDI) | BG_HZ_BIT(BG_HZ_CONTROL));
    assert_int_equal(found.n, BG_NOTES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_requests_have_none),
        cmocka_unit_test(every_byte_field_is_scanned),
        cmocka_unit_test(c013_the_rendering_classes_arrive),
        cmocka_unit_test(c059_env_that_steers_is_a_hazard),
        cmocka_unit_test(input_to_an_interpreter_is_a_hazard),
        cmocka_unit_test(facts_of_the_sandbox),
        cmocka_unit_test(notes_are_bounded_the_bits_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

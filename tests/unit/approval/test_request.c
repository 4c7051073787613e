/* SPDX-License-Identifier: MIT */
/* What is accepted as a request, and that its hash tells any two requests apart. */
#include <stdlib.h>

#include "core/approval/request.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "tests/test.h"

static struct bg_body *parse(const char *json, struct bg_error *err)
{
    bg_autojson cJSON *j = bg_json_parse(json, strlen(json), BG_JSON_LINE_MAX, err);
    if (!j)
        return NULL;
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(j, "kind");
    return bg_body_parse(cJSON_IsString(kind) ? kind->valuestring : "", j, err);
}

static struct bg_body *parsed(const char *json)
{
    struct bg_error err = {0};
    struct bg_body *b = parse(json, &err);
    if (!b)
        fail_msg("%s: %s", json, err.msg);
    return b;
}

static void the_kinds_and_their_fields(void **state)
{
    (void)state;
    struct bg_body *b = parsed(
        "{\"kind\":\"run_code\",\"session\":\"s1\",\"callId\":\"c\",\"purpose\":\"p\","
        "\"waitMs\":5,\"noWait\":true,\"body\":{\"code\":\"print(1)\\n\","
        "\"language\":\"python\",\"timeoutMs\":50}}");
    assert_string_equal(b->session, "s1");
    assert_string_equal(b->call_id, "c");
    assert_string_equal(b->purpose, "p");
    assert_string_equal(b->code, "print(1)\n");
    assert_int_equal(b->code_len, 9);
    assert_int_equal(b->timeout_ms, 50);
    bg_body_free(b);
    b = parsed("{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"args\":[\"\",\"a "
               "b\"],\"cwd\":\"x/../y\","
               "\"env\":{\"B\":\"2=3\",\"A\":\"\"},\"input\":{\"base64\":\"AP8=\"}}}");
    assert_int_equal(bg_strv_len(b->argv), 3);
    assert_string_equal(b->argv[2], "a b");
    assert_string_equal(b->env[0], "B=2=3");
    assert_string_equal(b->env[1], "A=");
    assert_int_equal(b->input_len, 2);
    assert_memory_equal(b->input, "\0\xff", 2);
    bg_body_free(b);
    b = parsed("{\"kind\":\"create_session\",\"body\":{\"id\":\"x\",\"profile\":\"p\","
               "\"ports\":[80,1]}}");
    assert_string_equal(b->session, "x");
    assert_int_equal(b->n_ports, 2);
    bg_body_free(b);
    bg_body_free(parsed("{\"kind\":\"close_session\",\"session\":\"x\",\"body\":{}}"));
    b = parsed("{\"kind\":\"run_code\",\"body\":{\"code\":\"\",\"language\":\"sh\"}}");
    assert_int_equal(b->code_len, 0);
    bg_body_free(b);
}

static void what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
    } bad[] = {
        {"{\"kind\":\"launch\",\"body\":{}}", "launch"},
        {"{\"kind\":\"run_code\"}", "body"},
        {"{\"kind\":\"run_code\",\"body\":{\"code\":\"x\"}}", "language"},
        {"{\"kind\":\"run_code\",\"body\":{\"language\":\"sh\"}}", "code"},
        {"{\"kind\":\"run_code\",\"body\":{\"code\":\"x\",\"language\":\"a b\"}}",
         "language"},
        {"{\"kind\":\"run_code\",\"body\":{\"code\":\"x\",\"language\":\"sh\",\"approved\":"
         "true}}",
         "approved"},
        {"{\"kind\":\"run_code\",\"decision\":\"approve\",\"body\":{\"code\":\"x\","
         "\"language\":\"sh\"}}",
         "decision"},
        {"{\"kind\":\"run_code\",\"body\":{\"code\":\"a\\u0000b\",\"language\":\"sh\"}}",
         "u0000"},
        {"{\"kind\":\"run_code\",\"body\":{\"code\":{\"base64\":\"YQBi\"},\"language\":"
         "\"sh\"}}",
         "NUL"},
        {"{\"kind\":\"run_code\",\"body\":{\"code\":{\"base64\":\"/"
         "w==\"},\"language\":\"sh\"}}",
         "UTF-8"},
        {"{\"kind\":\"run_code\",\"body\":{\"code\":5,\"language\":\"sh\"}}", "code"},
        {"{\"kind\":\"run_code\",\"body\":{\"code\":\"x\",\"language\":\"sh\","
         "\"timeoutMs\":0}}",
         "timeoutMs"},
        {"{\"kind\":\"run_code\",\"body\":{\"code\":\"x\",\"language\":\"sh\","
         "\"timeoutMs\":-1}}",
         "timeoutMs"},
        {"{\"kind\":\"run_code\",\"body\":{\"code\":\"x\",\"language\":\"sh\","
         "\"timeoutMs\":1.5}}",
         "timeoutMs"},
        {"{\"kind\":\"run_code\",\"session\":\"../"
         "x\",\"body\":{\"code\":\"x\",\"language\":\"sh\"}}",
         "session"},
        {"{\"kind\":\"run_code\",\"callId\":\"\",\"body\":{\"code\":\"x\",\"language\":"
         "\"sh\"}}",
         "callId"},
        {"{\"kind\":\"exec\",\"body\":{\"command\":\"\"}}", "command"},
        {"{\"kind\":\"exec\",\"body\":{\"command\":[\"ls\"]}}", "command"},
        {"{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"args\":\"-l\"}}", "args"},
        {"{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"args\":[5]}}", "args"},
        {"{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"env\":{\"1A\":\"x\"}}}", "1A"},
        {"{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"env\":{\"A=B\":\"x\"}}}",
         "A=B"},
        {"{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"env\":{\"A\":5}}}",
         "A must be"},
        {"{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"env\":[\"A=1\"]}}", "env"},
        {"{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"shell\":true}}", "shell"},
        {"{\"kind\":\"create_session\",\"session\":\"a\",\"body\":{\"id\":\"b\"}}",
         "twice"},
        {"{\"kind\":\"create_session\",\"body\":{\"ports\":[0]}}", "ports"},
        {"{\"kind\":\"create_session\",\"body\":{\"ports\":[80,80]}}", "ports"},
        {"{\"kind\":\"create_session\",\"body\":{\"ports\":[1.5]}}", "ports"},
        {"{\"kind\":\"create_session\",\"body\":{\"ports\":[65536]}}", "ports"},
        {"{\"kind\":\"close_session\",\"body\":{\"force\":true}}", "force"},
    };
    for (size_t i = 0; i < bg_countof(bad); i++) {
        struct bg_error err = {0};
        struct bg_body *b = parse(bad[i].json, &err);
        if (b || err.code == BG_OK || !strstr(err.msg, bad[i].text))
            fail_msg("%s: %s", bad[i].json, b ? "accepted" : err.msg);
    }
}

static void a_cwd_stays_in_the_workdir(void **state)
{
    (void)state;
    static const char *const in[] = {"a", "a/b/", "./a", "a/../b", "a//b/../../c",
                                     ".", "..."};
    static const char *const out[] = {"/",       "/workspace", "..",  "../a",
                                      "a/../..", "a/../../b",  "./.."};
    for (size_t i = 0; i < bg_countof(in) + bg_countof(out); i++) {
        bool ok = i < bg_countof(in);
        const char *cwd = ok ? in[i] : out[i - bg_countof(in)];
        struct bg_error err = {0};
        bg_autofree char *json = bg_xasprintf(
            "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"cwd\":\"%s\"}}", cwd);
        struct bg_body *b = parse(json, &err);
        if (!b != !ok)
            fail_msg("%s", cwd);
        if (!ok)
            assert_int_equal(err.code, BG_ERR_PATH);
        bg_body_free(b);
    }
}

/* Exactly the cap passes, one more does not. */
static bool fits(const char *before, size_t n, const char *after)
{
    struct bg_error err = {0};
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, BG_JSON_LINE_MAX);
    bg_buf_puts(&b, before);
    for (size_t i = 0; i < n; i++)
        bg_buf_putc(&b, 'a');
    bg_buf_puts(&b, after);
    struct bg_body *body = parse(b.data, &err);
    bool ok = body != NULL;
    bg_body_free(body);
    return ok;
}

static void every_cap_is_exact(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after;
        size_t max;
    } caps[] = {
        {"{\"kind\":\"run_code\",\"body\":{\"language\":\"sh\",\"code\":\"", "\"}}",
         BG_CODE_MAX},
        {"{\"kind\":\"exec\",\"body\":{\"command\":\"x\",\"input\":\"", "\"}}",
         BG_INPUT_MAX},
        {"{\"kind\":\"exec\",\"body\":{\"command\":\"", "\"}}", BG_ARG_BYTES_MAX},
        {"{\"kind\":\"exec\",\"body\":{\"command\":\"x\",\"args\":[\"", "\"]}}",
         BG_ARG_BYTES_MAX},
        {"{\"kind\":\"exec\",\"body\":{\"command\":\"x\",\"env\":{\"A\":\"", "\"}}}",
         BG_ENV_VALUE_MAX},
        {"{\"kind\":\"close_session\",\"body\":{},\"callId\":\"", "\"}", BG_CALL_ID_MAX},
        {"{\"kind\":\"close_session\",\"body\":{},\"purpose\":\"", "\"}", BG_PURPOSE_MAX},
        {"{\"kind\":\"close_session\",\"body\":{},\"session\":\"", "\"}", BG_ID_MAX},
    };
    for (size_t i = 0; i < bg_countof(caps); i++) {
        if (!fits(caps[i].before, caps[i].max, caps[i].after))
            fail_msg("%s: %zu refused", caps[i].before, caps[i].max);
        if (fits(caps[i].before, caps[i].max + 1, caps[i].after))
            fail_msg("%s: %zu accepted", caps[i].before, caps[i].max + 1);
    }
}

static void the_numbers_of_elements_are_capped(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        bg_autobuf struct bg_buf args, env;
        struct bg_error err = {0};
        bg_buf_init(&args, 1 << 20);
        bg_buf_init(&env, 1 << 20);
        bg_buf_puts(&args, "{\"kind\":\"exec\",\"body\":{\"command\":\"x\",\"args\":[\"\"");
        bg_buf_puts(&env,
                    "{\"kind\":\"exec\",\"body\":{\"command\":\"x\",\"env\":{\"A\":\"\"");
        for (int i = 2; i < BG_ARGS_MAX + over; i++)
            bg_buf_puts(&args, ",\"\"");
        for (int i = 1; i < BG_ENV_MAX + over; i++)
            bg_buf_printf(&env, ",\"A%d\":\"\"", i);
        bg_buf_puts(&args, "]}}");
        bg_buf_puts(&env, "}}}");
        struct bg_body *a = parse(args.data, &err), *b = parse(env.data, &err);
        assert_true(over ? !a && !b : a && b);
        bg_body_free(a);
        bg_body_free(b);
    }
}

/* ---- hash ---- */

static void hash(const struct bg_body *b, const struct bg_binding *bind, bool skip,
                 char *hex)
{
    struct bg_bound bound;
    bg_bound_build(&bound, b, bind);
    struct bg_sha256 d = bg_bound_sha256(&bound, skip);
    bg_sha256_hex(&d, hex);
    bg_bound_free(&bound);
}

static void any_change_gives_another_hash(void **state)
{
    (void)state;
    bg_digest_init();
    static const char *const bodies[] = {
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\"}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls \"}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"args\":[\"\"]}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"args\":[\"a\",\"b\"]}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"args\":[\"ab\"]}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"args\":[\"a b\"]}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"args\":[\"b\",\"a\"]}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"cwd\":\"a\"}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"cwd\":\"a/\"}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"env\":{\"A\":\"\"}}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"env\":{\"A\":\" \"}}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"env\":{\"A\":\"B\"}}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"env\":{\"A\":\"\",\"C\":\"\"}}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"input\":\"\"}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"input\":\"x\"}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"input\":\"x\\n\"}}",
        "{\"kind\":\"run_code\",\"body\":{\"code\":\"ls\",\"language\":\"sh\"}}",
        "{\"kind\":\"run_code\",\"body\":{\"code\":\"ls\\n\",\"language\":\"sh\"}}",
        "{\"kind\":\"run_code\",\"body\":{\"code\":\"ls\",\"language\":\"bash\"}}",
        "{\"kind\":\"close_session\",\"body\":{}}",
    };
    enum { N = bg_countof(bodies) };
    char seen[N + 8][BG_SHA256_HEX + 1];
    size_t n = 0;
    struct bg_binding bind = {.uid = 1000, .timeout_ms = 5};
    bind.workdir = (char *)"/workspace";
    strcpy(bind.instance, "0123456789abcdef0123456789abcdef");
    for (size_t i = 0; i < N; i++) {
        struct bg_body *b = parsed(bodies[i]);
        bind.argv = b->argv;
        hash(b, &bind, false, seen[n++]);
        bg_body_free(b);
    }
    struct bg_body *b = parsed(bodies[0]);
    bind.argv = b->argv;
    struct bg_binding v[8];
    for (size_t i = 0; i < 8; i++)
        v[i] = bind;
    char *python[] = {(char *)"python3", (char *)"-", NULL};
    v[0].uid = 1001;
    v[1].timeout_ms = 6;
    v[2].instance[0] = '1';
    v[3].spec.b[31] = 1;
    v[4].workdir = (char *)"/workspace/";
    v[5].argv = python;
    for (size_t i = 0; i < 6; i++)
        hash(b, &v[i], false, seen[n++]);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(seen[i], seen[j]) == 0)
                fail_msg("%zu and %zu have the same hash", i, j);
    /* The key of deny memory is the same in any session, and nowhere else. */
    char here[BG_SHA256_HEX + 1], there[BG_SHA256_HEX + 1];
    hash(b, &bind, true, here);
    hash(b, &v[2], true, there);
    assert_string_equal(here, there);
    hash(b, &v[0], true, there);
    assert_string_not_equal(here, there);
    bg_body_free(b);
}

/* Fields can't be shifted into each other: random splits of the same bytes differ. */
static void the_framing_is_injective(void **state)
{
    (void)state;
    srandom(7);
    char text[] = "argv code env kind\0x";
    for (int round = 0; round < 2000; round++) {
        struct bg_bound_field a[3], b[3];
        struct bg_bound x = {a, 1 + (size_t)random() % 3},
                        y = {b, 1 + (size_t)random() % 3};
        static const char *const names[] = {"argv", "code", "env"};
        for (int side = 0; side < 2; side++) {
            struct bg_bound *f = side ? &y : &x;
            for (size_t i = 0; i < f->n; i++) {
                f->f[i].name = (char *)names[random() % 3];
                f->f[i].bytes = text + random() % 4;
                f->f[i].len = (size_t)random() % 5;
            }
        }
        bool same = x.n == y.n;
        for (size_t i = 0; same && i < x.n; i++)
            same = strcmp(a[i].name, b[i].name) == 0 && a[i].len == b[i].len &&
                   memcmp(a[i].bytes, b[i].bytes, a[i].len) == 0;
        struct bg_sha256 hx = bg_bound_sha256(&x, false), hy = bg_bound_sha256(&y, false);
        assert_int_equal(bg_sha256_eq(&hx, &hy), same);
    }
}

/* A value fixed by hand, so that the encoding can't drift: contract.md 3. */
static void the_encoding_is_the_contracts(void **state)
{
    (void)state;
    static const unsigned char bytes[] = "boxgate-req-v1\0"
                                         "\0\4kind\0\0\0\0\0\0\0\4exec"
                                         "\0\4argv\0\0\0\0\0\0\0\2ls";
    char kind[] = "exec", ls[] = "ls", n1[] = "kind", n2[] = "argv";
    struct bg_bound_field f[] = {{n1, kind, 4}, {n2, ls, 2}};
    struct bg_bound b = {f, 2};
    struct bg_sha256 want = bg_sha256(bytes, sizeof bytes - 1),
                     have = bg_bound_sha256(&b, false);
    assert_true(bg_sha256_eq(&want, &have));
}

static void the_fields_come_in_order(void **state)
{
    (void)state;
    struct bg_body *b = parsed(
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"args\":[\"a\"],\"cwd\":\"d\","
        "\"env\":{\"A\":\"1\"},\"input\":\"i\"}}");
    struct bg_binding bind = {.uid = 1, .timeout_ms = 5, .argv = b->argv};
    bind.workdir = (char *)"/w";
    struct bg_bound bound;
    bg_bound_build(&bound, b, &bind);
    static const char *const want[] = {"kind",    "uid",  "instance", "spec",
                                       "workdir", "argv", "argv",     "cwd",
                                       "input",   "env",  "timeoutMs"};
    assert_int_equal(bound.n, bg_countof(want));
    for (size_t i = 0; i < bound.n; i++)
        assert_string_equal(bound.f[i].name, want[i]);
    bg_bound_free(&bound);
    bg_body_free(b);
}

static void sameness_is_about_what_runs(void **state)
{
    (void)state;
    static const char base[] = "{\"kind\":\"exec\",\"callId\":\"1\",\"body\":{\"command\":"
                               "\"ls\",\"input\":\"a\"}}";
    static const char other_call[] = "{\"kind\":\"exec\",\"callId\":\"2\",\"purpose\":"
                                     "\"x\",\"body\":{\"command\":\"ls\",\"input\":\"a\"}}";
    static const char *const differ[] = {
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"input\":\"b\"}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\"}}",
        "{\"kind\":\"exec\",\"session\":\"s\",\"body\":{\"command\":\"ls\",\"input\":\"a\"}"
        "}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"input\":\"a\",\"cwd\":\"x\"}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"input\":\"a\",\"env\":{\"A\":"
        "\"\"}}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"input\":\"a\",\"timeoutMs\":1}}",
        "{\"kind\":\"exec\",\"body\":{\"command\":\"ls\",\"args\":[\"\"],\"input\":\"a\"}}",
    };
    struct bg_body *a = parsed(base), *b = parsed(other_call);
    assert_true(bg_body_same(a, b));
    for (size_t i = 0; i < bg_countof(differ); i++) {
        struct bg_body *c = parsed(differ[i]);
        if (bg_body_same(a, c))
            fail_msg("%s", differ[i]);
        bg_body_free(c);
    }
    bg_body_free(a);
    bg_body_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kinds_and_their_fields),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(a_cwd_stays_in_the_workdir),
        cmocka_unit_test(every_cap_is_exact),
        cmocka_unit_test(the_numbers_of_elements_are_capped),
        cmocka_unit_test(any_change_gives_another_hash),
        cmocka_unit_test(the_framing_is_injective),
        cmocka_unit_test(the_encoding_is_the_contracts),
        cmocka_unit_test(the_fields_come_in_order),
        cmocka_unit_test(sameness_is_about_what_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

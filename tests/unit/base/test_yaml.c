/* SPDX-License-Identifier: MIT */
/* YAML without the parts that have two readings; every error has its place. */
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/base/yaml_doc.h"
#include "tests/test.h"

static void freep(struct bg_yaml_doc **d)
{
    bg_yaml_free(*d);
}
#define autodoc __attribute__((cleanup(freep)))

static struct bg_yaml_doc *parse(const char *text)
{
    struct bg_error e = {0};
    struct bg_yaml_doc *d = bg_yaml_parse("config.yaml", text, strlen(text), &e);
    if (!d)
        fail_msg("refused: %s", e.msg);
    return d;
}

static void refuse_n(const char *text, size_t n, const char *want)
{
    struct bg_error e = {0};
    struct bg_yaml_doc *d = bg_yaml_parse("config.yaml", text, n, &e);
    bg_yaml_free(d);
    if (d)
        fail_msg("accepted: %.60s", text);
    assert_int_equal(e.code, BG_ERR_CONFIG);
    if (strncmp(e.msg, want, strlen(want)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", e.msg, want);
}

static void refuse(const char *text, const char *want)
{
    refuse_n(text, strlen(text), want);
}

static void builds_a_tree(void **state)
{
    (void)state;
    autodoc struct bg_yaml_doc *d =
        parse("# head\na: 1\nlist:\n  - x\n  - {k: 'v'}\nempty: []\n");
    const struct bg_yaml *root = d->root, *list = bg_yaml_get(root, "list");
    assert_int_equal(root->kind, BG_YAML_MAP);
    assert_int_equal(root->count, 3);
    assert_string_equal(root->items[1]->key, "list");
    assert_int_equal(list->kind, BG_YAML_SEQ);
    assert_int_equal(list->key_line, 3);
    assert_int_equal(list->key_col, 1);
    assert_int_equal(list->count, 2);
    assert_string_equal(list->items[0]->value, "x");
    assert_false(list->items[0]->quoted);
    assert_int_equal(list->items[0]->line, 4);
    assert_int_equal(list->items[0]->col, 5);
    const struct bg_yaml *v = bg_yaml_get(list->items[1], "k");
    assert_string_equal(v->value, "v");
    assert_true(v->quoted);
    assert_int_equal(bg_yaml_get(root, "empty")->count, 0);
    assert_null(bg_yaml_get(root, "A"));
    assert_null(bg_yaml_get(list, "k"));
    assert_null(bg_yaml_get(NULL, "k"));
}

static void empty_files(void **state)
{
    (void)state;
    static const char *const all[] = {"",      "\n\n",         "# only a comment\n",
                                      "---\n", "\xef\xbb\xbf", "---\n...\n"};
    for (size_t i = 0; i < bg_countof(all); i++) {
        autodoc struct bg_yaml_doc *d = parse(all[i]);
        assert_null(d->root);
        assert_true(bg_yaml_known(d, d->root, (const char *const[]){NULL}, NULL));
    }
}

static void c103_words_keep_their_text(void **state)
{
    (void)state;
    autodoc struct bg_yaml_doc *d = parse(
        "network: no\nlanguages: {y: [y]}\nimage: 3.10\nmemory: 010\nports: [22:22]\n"
        "timeoutMs: 1_000\noff: Off\nt: true\nq: 'true'\nf: false\ndate: 2026-11-30\n");
    struct bg_error e = {0};
    const char *s = NULL;
    bool b = false;
    int64_t v = 0;
    assert_true(bg_yaml_str(d, bg_yaml_get(d->root, "network"), &s, &e));
    assert_string_equal(s, "no");
    assert_string_equal(bg_yaml_get(d->root, "languages")->items[0]->key, "y");
    assert_true(bg_yaml_str(d, bg_yaml_get(d->root, "image"), &s, &e));
    assert_string_equal(s, "3.10");
    assert_true(bg_yaml_str(d, bg_yaml_get(d->root, "ports")->items[0], &s, &e));
    assert_string_equal(s, "22:22");
    assert_true(bg_yaml_bool(d, bg_yaml_get(d->root, "t"), &b, &e) && b);
    assert_true(bg_yaml_bool(d, bg_yaml_get(d->root, "f"), &b, &e) && !b);
    assert_int_equal(e.code, BG_OK);
    assert_false(bg_yaml_bool(d, bg_yaml_get(d->root, "network"), &b, &e));
    assert_string_equal(e.msg, "config.yaml:1:10: expected true or false");
    assert_false(bg_yaml_bool(d, bg_yaml_get(d->root, "off"), &b, &e));
    assert_false(bg_yaml_bool(d, bg_yaml_get(d->root, "q"), &b, &e));
    assert_false(bg_yaml_int(d, bg_yaml_get(d->root, "memory"), 0, 100, &v, &e));
    assert_string_equal(e.msg, "config.yaml:4:9: expected a whole number from 0 to 100");
    assert_false(bg_yaml_int(d, bg_yaml_get(d->root, "timeoutMs"), 0, 9999, &v, &e));
    assert_string_equal(e.msg, "config.yaml:6:12: expected a whole number from 0 to 9999");
}

static void whole_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        int64_t v;
    } all[] = {
        {"0", true, 0},     {"-5", true, -5},   {"9223372036854775807", true, INT64_MAX},
        {"-0", true, 0},    {"+5", false, 0},   {"9223372036854775808", false, 0},
        {"'5'", false, 0},  {"0x10", false, 0}, {"1e3", false, 0},
        {"1.0", false, 0},  {"00", false, 0},   {"'-'", false, 0},
        {"0o17", false, 0}, {"1:30", false, 0}, {"~", false, 0},
        {"[1]", false, 0},  {"5 5", false, 0},  {"-01", false, 0}};
    for (size_t i = 0; i < bg_countof(all); i++) {
        bg_autofree char *text = bg_xasprintf("n: %s", all[i].text);
        autodoc struct bg_yaml_doc *d = parse(text);
        int64_t v = 77;
        bool ok = bg_yaml_int(d, d->root->items[0], INT64_MIN, INT64_MAX, &v, NULL);
        if (ok != all[i].ok || v != (ok ? all[i].v : 77))
            fail_msg("%s", text);
    }
    autodoc struct bg_yaml_doc *d = parse("n: 0");
    int64_t v;
    assert_false(bg_yaml_int(d, d->root->items[0], 1, 2, &v, NULL));
}

static void null_is_no_text(void **state)
{
    (void)state;
    static const char *const nulls[] = {"s:",      "s: ~",  "s: null",
                                        "s: NULL", "s: []", "s: {}"};
    struct bg_error e = {0};
    const char *s = NULL;
    for (size_t i = 0; i < bg_countof(nulls); i++) {
        autodoc struct bg_yaml_doc *d = parse(nulls[i]);
        assert_false(bg_yaml_str(d, d->root->items[0], &s, &e));
    }
    autodoc struct bg_yaml_doc *d = parse("a: \"\"\nb: 'null'\nc: |\n  two\n  lines\n");
    assert_true(bg_yaml_str(d, d->root->items[0], &s, NULL));
    assert_string_equal(s, "");
    assert_true(bg_yaml_str(d, d->root->items[1], &s, NULL));
    assert_string_equal(s, "null");
    assert_true(bg_yaml_str(d, d->root->items[2], &s, NULL));
    assert_string_equal(s, "two\nlines\n");
}

static void c104_duplicates_name_both_lines(void **state)
{
    (void)state;
    refuse("limits: {pids: 64}\nlimits: {pids: 0}\n",
           "config.yaml:2:1: duplicate key `limits`, first given on line 1");
    refuse("a: {x: 1, 'x': 2}",
           "config.yaml:1:11: duplicate key `x`, first given on line 1");
    refuse("a: 1\n\"\\x61\": 2", "config.yaml:2:1: duplicate key `a`");
    autodoc struct bg_yaml_doc *d = parse("a: {x: 1}\nb: {x: 1}\nA: 2\n");
    assert_int_equal(d->root->count, 3);
}

static void c104_aliases_documents_merge(void **state)
{
    (void)state;
    refuse("a: &x 1\nb: *x\n", "config.yaml:1:4: anchors");
    refuse("a: *x\n", "config.yaml:1:4: aliases");
    refuse("*x : 1\n", "config.yaml:1:1: aliases");
    refuse("&x a: 1\n", "config.yaml:1:1: anchors");
    refuse("a: &l [lol]\nb: &m [*l,*l,*l]\nc: [*m,*m,*m]\n", "config.yaml:1:4: anchors");
    refuse("a: 1\n---\nb: 2\n", "config.yaml:2:1: a second document");
    refuse("--- \n--- \n", "config.yaml:2:1: a second document");
    refuse("<<: {a: 1}\n", "config.yaml:1:1: merge keys");
    refuse("a: !!str 1\n", "config.yaml:1:4: tags");
    refuse("a: ! x\n", "config.yaml:1:4: tags");
    refuse("!m {a: 1}\n", "config.yaml:1:1: tags");
    refuse("%YAML 1.1\n---\na: 1\n", "config.yaml:1:1: directives");
    refuse("%TAG ! tag:x,2000:\n---\na: 1\n", "config.yaml:1:1: directives");
    refuse("%YAML 2.0\n---\na: 1\n", "config.yaml:");
    autodoc struct bg_yaml_doc *quoted = parse("'<<': 1\n");
    assert_string_equal(quoted->root->items[0]->key, "<<");
}

static void c104_size_depth_tab_bom(void **state)
{
    (void)state;
    bg_autofree char *big = bg_xmalloc(10000000);
    memset(big, '#', 10000000);
    refuse_n(big, 10000000, "config.yaml: more than 262144 bytes");
    bg_autofree char *deep = bg_xmalloc(BG_YAML_MAX);
    memset(deep, '[', BG_YAML_MAX);
    refuse_n(deep, BG_YAML_MAX, "config.yaml:1:17: nested deeper than 16 levels");
    char just[40];
    memset(just, '[', 16);
    memset(just + 16, ']', 16);
    just[32] = '\0';
    autodoc struct bg_yaml_doc *d = parse(just);
    assert_int_equal(d->root->kind, BG_YAML_SEQ);
    refuse("a:\n\tb: 1\n", "config.yaml:2:1: ");
    autodoc struct bg_yaml_doc *bom = parse("\xef\xbb\xbf"
                                            "a: 1\n");
    assert_string_equal(bom->root->items[0]->key, "a");
}

static void odd_bytes(void **state)
{
    (void)state;
    refuse("a: 1\nb: \"x\xff\"\n", "config.yaml:2:6: invalid UTF-8");
    refuse_n("a: 1\0", 5, "config.yaml:1:5: a NUL byte");
    refuse("a: \"x\\0y\"\n", "config.yaml:1:4: a NUL character");
    refuse("\"k\\0\": 1\n", "config.yaml:1:1: a NUL character");
    refuse("a: \x1b[0m\n", "config.yaml: control characters are not allowed at byte 3");
    refuse_n("\xff\xfe"
             "a\0:\0",
             6, "config.yaml:1:1: invalid UTF-8");
}

static void keys_are_words(void **state)
{
    (void)state;
    refuse("? [a]\n: 1\n", "config.yaml:1:3: a key must be a plain word");
    refuse("{{a: 1}: 2}\n", "config.yaml:1:2: a key must be a plain word");
    refuse("a: 1\n? \n: 1\n", "config.yaml:2:2: an empty key");
    refuse("'': 1\n", "config.yaml:1:1: an empty key");
}

static void malformed_has_a_place(void **state)
{
    (void)state;
    refuse("a: [1, 2\n", "config.yaml:2:1: ");
    refuse("a: 1\n b: 2\n", "config.yaml:2:3: mapping values are not allowed");
    refuse("a: \"open\n", "config.yaml:2:1: ");
    refuse("a: @x\n", "config.yaml:1:4: ");
}

static void unknown_keys_get_a_hint(void **state)
{
    (void)state;
    static const char *const known[] = {"memoryMb", "cpus", "pidsLimit", NULL};
    static const struct {
        const char *text, *want;
    } all[] = {
        {"cpus: 1\nmemoryMB: 5",
         "config.yaml:2:1: unknown key `memoryMB`; did you mean `memoryMb`?"},
        {"cpu: 1", "config.yaml:1:1: unknown key `cpu`; did you mean `cpus`?"},
        {"pidLimits: 1",
         "config.yaml:1:1: unknown key `pidLimits`; did you mean `pidsLimit`?"},
        {"colour: 1", "config.yaml:1:1: unknown key `colour`"},
        {"[cpus]", "config.yaml:1:1: expected `key: value` lines"},
        {"cpus", "config.yaml:1:1: expected `key: value` lines"},
    };
    for (size_t i = 0; i < bg_countof(all); i++) {
        autodoc struct bg_yaml_doc *d = parse(all[i].text);
        struct bg_error e = {0};
        assert_false(bg_yaml_known(d, d->root, known, &e));
        assert_string_equal(e.msg, all[i].want);
    }
    autodoc struct bg_yaml_doc *d = parse("cpus: 1\npidsLimit: 2\n");
    assert_true(bg_yaml_known(d, d->root, known, NULL));
}

static void many_keys_are_quick(void **state)
{
    (void)state;
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, BG_YAML_MAX);
    for (int i = 0; b.len < BG_YAML_MAX - 20; i++)
        bg_buf_printf(&b, "k%d: %d\n", i, i);
    autodoc struct bg_yaml_doc *d = parse(b.data);
    assert_true(d->root->count > 15000);
    bg_buf_puts(&b, "k9: 1");
    refuse_n(b.data, b.len, "config.yaml:");
}

static void own_messages(void **state)
{
    (void)state;
    autodoc struct bg_yaml_doc *d = parse("a: 1\n");
    struct bg_error e = {0};
    assert_false(bg_yaml_fail(d, d->root->items[0], &e, "no %s", "good"));
    assert_string_equal(e.msg, "config.yaml:1:4: no good");
    assert_false(bg_yaml_fail(d, NULL, &e, "nothing here"));
    assert_string_equal(e.msg, "config.yaml: nothing here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builds_a_tree),
        cmocka_unit_test(empty_files),
        cmocka_unit_test(c103_words_keep_their_text),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(null_is_no_text),
        cmocka_unit_test(c104_duplicates_name_both_lines),
        cmocka_unit_test(c104_aliases_documents_merge),
        cmocka_unit_test(c104_size_depth_tab_bom),
        cmocka_unit_test(odd_bytes),
        cmocka_unit_test(keys_are_words),
        cmocka_unit_test(malformed_has_a_place),
        cmocka_unit_test(unknown_keys_get_a_hint),
        cmocka_unit_test(many_keys_are_quick),
        cmocka_unit_test(own_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

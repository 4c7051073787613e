/* SPDX-License-Identifier: MIT */
/* The parts of the console that need no terminal. */
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/path.h"
#include "tests/test.h"
#include "tui/gate.h"
#include "tui/kit/field.h"
#include "tui/kit/hilite.h"
#include "tui/kit/input.h"
#include "tui/kit/keymap.h"
#include "tui/kit/list.h"
#include "tui/kit/pager.h"
#include "tui/kit/theme.h"

/* ---- input ---- */

struct got {
    char text[512];
};

static void note(void *data, const struct ui_event *ev)
{
    struct got *g = data;
    size_t n = strlen(g->text);
    char name[12];
    switch (ev->type) {
    case UI_EV_KEY:
        snprintf(g->text + n, sizeof g->text - n, "%s%s ", ev->alt ? "Alt-" : "",
                 ui_key_name(ev->key, name));
        break;
    case UI_EV_PASTE:
        snprintf(g->text + n, sizeof g->text - n, "paste(%.*s) ", (int)ev->len, ev->text);
        break;
    case UI_EV_FOCUS:
        snprintf(g->text + n, sizeof g->text - n, "focus%d ", ev->on);
        break;
    case UI_EV_MOUSE:
        snprintf(g->text + n, sizeof g->text - n, "mouse%d@%d,%d ", ev->button, ev->y,
                 ev->x);
        break;
    case UI_EV_SYNC:
        snprintf(g->text + n, sizeof g->text - n, "sync%d ", ev->on);
        break;
    }
}

/* However the bytes are cut, the events are the same. */
static void input_is(const char *bytes, const char *want)
{
    size_t n = strlen(bytes);
    for (size_t cut = 0; cut <= n; cut++) {
        struct ui_input in;
        struct got g = {""};
        ui_input_init(&in);
        ui_input_feed(&in, bytes, cut, note, &g);
        ui_input_feed(&in, bytes + cut, n - cut, note, &g);
        if (ui_input_wait(&in))
            ui_input_timeout(&in, note, &g);
        assert_string_equal(g.text, want);
        assert_int_equal(ui_input_wait(&in), 0);
        ui_input_free(&in);
    }
}

static void keys_are_read(void **state)
{
    (void)state;
    input_is("aé模 \r\t\177\003", "a é 模 Space Enter Tab Backspace ^C ");
    input_is("\033[A\033OB\033[1;5C\033[5~\033[6~\033[1~\033[4~\033[Z\033[3~",
             "Up Down Right PgUp PgDn Home End S-Tab Del ");
    input_is("\033[[A\033OP\033[11~", "F1 F1 F1 ");
    input_is("\033", "Esc ");
    input_is("\033a", "Alt-a ");
    input_is("\033\033[A", "Esc Up ");
}

static void pastes_and_answers_are_read(void **state)
{
    (void)state;
    input_is("\033[200~a\r\033[20x\033[A\033[201~b", "paste(a\r\033[20x\033[A) b ");
    input_is("\033[200~never ends", "paste(never ends) ");
    input_is("\033[I\033[O\033[<0;3;4M\033[<65;10;20M",
             "focus1 focus0 mouse0@3,2 mouse65@19,9 ");
    input_is("\033[?2026;2$y\033[?2026;0$y", "sync1 sync0 ");
    input_is("\033]11;rgb:0000/0000/0000\033\\a\033]11;x\007b", "a b ");
    /* Old mouse reports and broken bytes are no keys of ours. */
    input_is("\033[M", "key ");
    input_is("\377\300\033[<1;2M\033[999999999999999999~q", "key q ");
}

/* ---- lists and fields ---- */

static void a_list_keeps_its_item(void **state)
{
    (void)state;
    struct ui_list l = {0};
    const uint64_t a[] = {5, 7, 9}, b[] = {1, 5, 7, 9}, c[] = {1, 5, 9};
    assert_int_equal(ui_list_sync(&l, a, 3), 0);
    ui_list_move(&l, a, 3, 1);
    assert_int_equal(l.selected, 7);
    assert_int_equal(ui_list_sync(&l, b, 4), 2);
    assert_int_equal(ui_list_sync(&l, c, 3), 2); /* it went: what stands there now */
    assert_int_equal(l.selected, 9);
    ui_list_move(&l, c, 3, -100);
    assert_int_equal(l.selected, 1);
    assert_int_equal(ui_list_sync(&l, c, 0), 0);
    assert_int_equal(l.selected, 0);
}

static void type(struct ui_field *f, uint32_t key)
{
    struct ui_event ev = {.type = UI_EV_KEY, .key = key};
    ui_field_event(f, &ev);
}

static void a_field_edits_characters(void **state)
{
    (void)state;
    struct ui_field f;
    ui_field_init(&f, 8);
    const uint32_t keys[] = {'a',    0xe9,   'b',   UI_KEY_LEFT, UI_KEY_BACKSPACE,
                             0x6a21, 0x202e, 0x200b};
    for (size_t i = 0; i < bg_countof(keys); i++)
        type(&f, keys[i]);
    assert_string_equal(f.text, "a模b"); /* hidden ones are not taken */
    type(&f, UI_KEY_HOME);
    type(&f, UI_KEY_DELETE);
    assert_string_equal(f.text, "模b");
    struct ui_event paste = {.type = UI_EV_PASTE, .text = "x\ny\033z", .len = 5};
    assert_true(ui_field_event(&f, &paste));
    assert_string_equal(f.text, "x yz模b");
    type(&f, 'q'); /* full: 8 bytes */
    assert_string_equal(f.text, "x yz模b");
    f.no_paste = true;
    assert_false(ui_field_event(&f, &paste));
    ui_field_free(&f);
}

/* ---- the gate ---- */

static void the_gate_is_closed_by_default(void **state)
{
    (void)state;
    struct gate g = {0};
    assert_int_equal(gate_approve(&g, 0), GATE_OFFLINE);
    g.online = true;
    assert_int_equal(gate_deny(&g, 0), GATE_OVER);
    g.pending = true;
    g.arm_ms = 600;
    gate_front(&g, 1000);
    assert_int_equal(gate_deny(&g, 1599), GATE_ARMING);
    assert_int_equal(gate_deny(&g, 1600), GATE_OPEN);
    assert_int_equal(gate_approve(&g, 1600), GATE_LOADING);
    g.loaded = true;
    assert_int_equal(gate_approve(&g, 1600), GATE_UNSEEN);
    g.seen_all = true;
    assert_int_equal(gate_approve(&g, 1600), GATE_OPEN);
    g.sent = true;
    assert_int_equal(gate_approve(&g, 1600), GATE_SENT);
}

static void digits_are_exact(void **state)
{
    (void)state;
    const char *sha = "9c1f77ab02de9c1f77ab02de9c1f77ab02de9c1f77ab02de9c1f77ab02de9c1f";
    assert_true(gate_digits("9c1f", sha));
    assert_false(gate_digits("9C1F", sha));
    assert_false(gate_digits("9c1", sha));
    assert_false(gate_digits("9c1f7", sha));
    assert_false(gate_digits("", sha));
    assert_false(gate_digits("9c1f", ""));
}

/* ---- the pager ---- */

static struct ui_grid grid;

static void draw(struct ui_pager *p, int h, int w)
{
    ui_grid_size(&grid, h, w);
    ui_pager_draw(p, ui_whole(&grid), p->n, true);
}

/* Paging down by what is shown, everything is seen exactly at the last row, at any width.
 */
static void paging_shows_everything(void **state)
{
    (void)state;
    static char code[20000];
    for (size_t i = 0; i < sizeof code; i++)
        code[i] = i % 97 == 0 ? '\n' : i % 31 == 0 ? '\t' : (char)('a' + i % 26);
    for (int w = 40; w < 200; w += 7) {
        struct ui_field_src f[] = {
            {.label = "code",
             .p = code,
             .n = sizeof code,
             .numbers = true,
             .lang = UI_LANG_PYTHON},
            {.label = "argument", .p = "", .bare = true},
            {.label = "input", .p = "\377\376\0x", .n = 4, .hex = true}};
        struct ui_pager p;
        struct ui_unseen u;
        ui_pager_init(&p, f, 3, false);
        draw(&p, 10, w);
        size_t rows = p.rows;
        while (p.top + 10 < rows) {
            assert_true(ui_pager_unseen(&p, &u));
            assert_true(u.row >= p.top && u.row <= p.top + 10);
            ui_pager_scroll(&p, 10);
            draw(&p, 10, w);
        }
        assert_false(ui_pager_unseen(&p, &u));
        assert_int_equal(u.percent, 100);
        draw(&p, 10, w + 13); /* another width forgets nothing */
        assert_false(ui_pager_unseen(&p, &u));
        ui_pager_free(&p);
        for (size_t i = 0; i < 3; i++)
            ui_seen_free(&f[i].seen);
    }
    ui_grid_free(&grid);
}

static void one_row_short_is_not_all(void **state)
{
    (void)state;
    struct ui_field_src f = {.label = "code", .p = "a\nb\nc\nd\n", .n = 8, .numbers = true};
    struct ui_pager p;
    struct ui_unseen u;
    ui_pager_init(&p, &f, 1, false);
    draw(&p, 4, 60); /* heading, a, b, c */
    assert_true(ui_pager_unseen(&p, &u));
    assert_int_equal(u.line, 4);
    assert_true(u.percent < 100);
    ui_pager_scroll(&p, 1);
    draw(&p, 4, 60);
    assert_false(ui_pager_unseen(&p, &u));
    ui_pager_free(&p);
    ui_seen_free(&f.seen);
    ui_grid_free(&grid);
}

/* A megabyte in 100,000 lines opens at once and jumps anywhere. */
static void a_large_text_opens(void **state)
{
    (void)state;
    size_t n = 0;
    bg_autofree char *code = bg_xmalloc(1u << 20);
    for (int i = 0; i < 100000; i++)
        n += (size_t)snprintf(code + n, (1u << 20) - n, "x = %d\n", i % 1000);
    struct ui_field_src f = {
        .label = "code", .p = code, .n = n, .numbers = true, .lang = UI_LANG_PYTHON};
    struct ui_pager p;
    ui_pager_init(&p, &f, 1, false);
    draw(&p, 20, 100);
    assert_int_equal(p.rows, 100001);
    ui_pager_to(&p, 50000);
    draw(&p, 20, 100);
    assert_int_equal(grid.cells[4].cp[0], '0'); /* line 50000 in the gutter */
    ui_pager_free(&p);
    ui_seen_free(&f.seen);
    ui_grid_free(&grid);
}

/* ---- colours ---- */

static void roles_are(enum ui_lang lang, const char *code, const char *want)
{
    static const char letters[UI_ROLE_COUNT_] = {
        [UI_TEXT] = '.',    [UI_KEYWORD] = 'k', [UI_STRING] = 's', [UI_NUMBER] = 'n',
        [UI_COMMENT] = 'c', [UI_NAME] = 'a',    [UI_MUTED] = 'm',  [UI_HIGH] = 'h'};
    struct ui_hilite h;
    char got[256];
    size_t n = strlen(code);
    ui_hilite_init(&h, lang, code, n);
    for (size_t i = 0; i < n; i++)
        got[i] = letters[UI_ROLE_OF(ui_hilite_at(&h, i))];
    got[n] = '\0';
    assert_string_equal(got, want);
}

static void code_is_coloured(void **state)
{
    (void)state;
    roles_are(UI_LANG_PYTHON, "if x: # y", "kk.a..ccc");
    roles_are(UI_LANG_PYTHON, "'a\\'b'+12", "ssssss.nn");
    roles_are(UI_LANG_PYTHON, "\"\"\"a\n\"\"\"b", "ssssssssa");
    roles_are(UI_LANG_PYTHON, "r'\\'x", "asssa");
    roles_are(UI_LANG_PYTHON, "'open\nif", "sssssskk");
    roles_are(UI_LANG_JS, "/*/a*/b//c", "ccccccaccc");
    roles_are(UI_LANG_SH, "a#b #c", "a.a.cc");
    roles_are(UI_LANG_SH, "echo '\\' x", "aaaa.sss.a");
    roles_are(UI_LANG_FACTS, "a: b\n! c: d\n", "mm..mhhhhhhm");
    roles_are(UI_LANG_NONE, "if 1", "....");
}

/* ---- themes ---- */

static bool parse(struct ui_theme *t, const char *text, struct bg_error *err)
{
    *err = (struct bg_error){0};
    return ui_theme_parse(t, "t.yaml", text, strlen(text), err);
}

static void themes_are_read(void **state)
{
    (void)state;
    struct ui_theme t;
    struct bg_error err;
    assert_true(
        parse(&t, "name: x\nroles:\n  high: \"#ff7b85 210 brightred bold\"\n", &err));
    assert_int_equal(ui_color_at(&t.roles[UI_HIGH].color, UI_DEPTH_RGB), 0xff7b85);
    assert_int_equal(ui_color_at(&t.roles[UI_HIGH].color, UI_DEPTH_256), 210);
    assert_int_equal(ui_color_at(&t.roles[UI_HIGH].color, UI_DEPTH_16), 9);
    assert_int_equal(ui_color_at(&t.roles[UI_HIGH].color, UI_DEPTH_MONO), -1);
    assert_int_equal(t.roles[UI_HIGH].attr, UI_BOLD);
    assert_int_equal(ui_color_at(&t.roles[UI_OK].color, UI_DEPTH_256), -1);
    assert_true(parse(&t, "roles: {ok: \"#00d700\"}\n", &err));
    assert_int_equal(ui_color_at(&t.roles[UI_OK].color, UI_DEPTH_256), 40); /* nearest */
    assert_true(parse(&t, "dark: true\nroles: {text: \"#303030\"}\n", &err));
    assert_non_null(strstr(t.warning, "text has a contrast of"));
    static const char *const bad[] = {"roles: {nope: red}\n",
                                      "roles: {ok: \"#12345\"}\n",
                                      "roles: {ok: 256}\n",
                                      "roles: {ok: redd}\n",
                                      "dark: yes\n",
                                      "- a\n",
                                      "x: &a 1\n"};
    for (size_t i = 0; i < bg_countof(bad); i++) {
        assert_false(parse(&t, bad[i], &err));
        assert_int_equal(err.code, BG_ERR_CONFIG);
    }
}

/* Every theme that comes along is readable, and mono is what no colours give. */
static void shipped_themes_are_good(void **state)
{
    (void)state;
    static const char *const names[] = {"dark", "light", "mono", "high-contrast",
                                        "deuteranopia"};
    struct ui_theme t, mono;
    for (size_t i = 0; i < bg_countof(names); i++) {
        struct bg_error err = {0};
        const char *src = getenv("BOXGATE_SRC");
        bg_autofree char *path =
            bg_xasprintf("%s/themes/%s.yaml", src ? src : ".", names[i]);
        if (!ui_theme_load(&t, path, NULL, &err))
            fail_msg("%s", err.msg);
        assert_string_equal(t.name, names[i]);
        assert_string_equal(t.warning, "");
        if (!strcmp(names[i], "mono")) {
            ui_theme_mono(&mono);
            for (int r = 0; r < UI_ROLE_COUNT_; r++)
                assert_int_equal(t.roles[r].attr, mono.roles[r].attr);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_read),
        cmocka_unit_test(pastes_and_answers_are_read),
        cmocka_unit_test(a_list_keeps_its_item),
        cmocka_unit_test(a_field_edits_characters),
        cmocka_unit_test(the_gate_is_closed_by_default),
        cmocka_unit_test(digits_are_exact),
        cmocka_unit_test(paging_shows_everything),
        cmocka_unit_test(one_row_short_is_not_all),
        cmocka_unit_test(a_large_text_opens),
        cmocka_unit_test(code_is_coloured),
        cmocka_unit_test(themes_are_read),
        cmocka_unit_test(shipped_themes_are_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

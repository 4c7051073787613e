/* SPDX-License-Identifier: MIT */
/*
 * The review of one request: every byte of it, what would run it and where, and a bar that
 * always says what is missing before it can be approved.
 */
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "tui/view/approval.h"

#define WIDE 100
#define INFO_COLS 46
#define FACTS_MAX 262144

static const struct ui_binding rows[] = {
    {{'a'}, ACT_APPROVE, NULL, "approve once: all of it seen; HIGH: and digits typed"},
    {{'x'}, ACT_DENY, NULL, "deny"},
    {{'X'}, ACT_REASON, NULL, "deny with a reason for the agent"},
    {{' ', UI_KEY_PGDN, UI_CTRL('d')}, ACT_PAGE_DOWN, "read on", "page down"},
    {{'u'}, ACT_UNSEEN, "unread", "to the first row not seen yet"},
    {{UI_KEY_TAB, UI_KEY_BACKTAB}, ACT_PANE, NULL, "code or request (wide screens)"},
    {{'n'}, ACT_NEXT, "next", "next request"},
    {{'p'}, ACT_PREV, NULL, "previous request"},
    {{'j', UI_KEY_DOWN}, ACT_DOWN, NULL, "line down"},
    {{'k', UI_KEY_UP}, ACT_UP, NULL, "line up"},
    {{'b', UI_KEY_PGUP, UI_CTRL('u')}, ACT_PAGE_UP, NULL, "page up"},
    {{'g', UI_KEY_HOME}, ACT_FIRST, NULL, "to the beginning"},
    {{'G', UI_KEY_END}, ACT_LAST, NULL, "to the end"},
};

static const char *const notes[] = {
    "Nothing is ever approved by Enter alone, the mouse, a paste, a",
    "closed window, a lost connection or the clock. Keys in the first",
    "moments of a request are thrown away and counted.",
    "\\xNN and \\u{...} in reverse are characters you would not see.", NULL};

static void *approval_new(struct app *a BG_UNUSED)
{
    struct approval *v = bg_xcalloc(1, sizeof *v);
    ui_field_init(&v->field, 1);
    return v;
}

/* ---- the document ---- */

static void drop_doc(struct approval *v)
{
    ui_pager_free(&v->code);
    ui_pager_free(&v->info);
    for (size_t i = 0; v->fields && i <= v->n; i++)
        ui_seen_free(&v->fields[i].seen);
    free(v->fields);
    v->fields = NULL;
    bg_strv_free(v->field_notes);
    v->field_notes = NULL;
    free(v->facts);
    v->facts = NULL;
    bg_review_free(v->doc);
    v->doc = NULL;
    v->n = 0;
}

static void approval_close(void *state)
{
    struct approval *v = state;
    drop_doc(v);
    ui_field_free(&v->field);
    free(v);
}

static char *facts_text(const struct bg_review *d)
{
    struct bg_buf b;
    bg_buf_init(&b, FACTS_MAX);
    for (char **p = d->risks; p && *p; p++)
        bg_buf_printf(&b, "! %s\n", *p);
    for (size_t i = 0; i < d->n_fields; i++)
        if (*d->fields[i].scan.hidden_ascii)
            bg_buf_printf(&b, "! hidden text in %s: %s\n", d->fields[i].label,
                          d->fields[i].scan.hidden_ascii);
    for (char **p = d->facts; p && *p; p++)
        bg_buf_printf(&b, "%s\n", *p);
    bg_buf_printf(&b, "sha256: %s\n", d->sha256);
    return bg_buf_steal(&b);
}

static void note_field(struct approval *v, const struct bg_review_field *f)
{
    bg_autofree char *note = bg_xasprintf(
        "%u line%s, %zu bytes%s%s%s", f->scan.lines, f->scan.lines == 1 ? "" : "s", f->len,
        f->scan.crlf ? ", CRLF" : "", f->hex ? ", not UTF-8: as hex" : "",
        f->len && f->bytes[f->len - 1] != '\n' ? ", no line break at the end" : "");
    bg_strv_push(&v->field_notes, note);
}

static const char *row_text(const struct bg_review *d, const char *key)
{
    const cJSON *t = cJSON_GetObjectItemCaseSensitive(d->row, key);
    return cJSON_IsString(t) ? t->valuestring : "";
}

static void take_doc(struct approval *v, struct bg_review *d, bool ascii)
{
    drop_doc(v);
    v->doc = d;
    v->n = d->n_fields;
    v->fields = bg_xcalloc(v->n + 1, sizeof *v->fields);
    v->facts = facts_text(d);
    enum ui_lang lang = ui_lang_of(row_text(d, "language"));
    for (size_t i = 0; i < v->n; i++)
        note_field(v, &d->fields[i]);
    for (size_t i = 0; i < v->n; i++) {
        const struct bg_review_field *f = &d->fields[i];
        v->fields[i] = (struct ui_field_src){
            .label = f->label,
            .note = v->field_notes[i],
            .p = f->bytes,
            .n = f->len,
            .hex = f->hex,
            .bare = f->kind == BG_REVIEW_VALUE,
            .numbers = f->kind == BG_REVIEW_CODE,
            .lang = i == 0 && f->kind == BG_REVIEW_CODE ? lang : UI_LANG_NONE};
    }
    v->fields[v->n] = (struct ui_field_src){
        .label = "request", .p = v->facts, .n = strlen(v->facts), .lang = UI_LANG_FACTS};
    ui_pager_init(&v->code, v->fields, v->n, ascii);
    ui_pager_init(&v->info, &v->fields[v->n], 1, ascii);
}

/* ---- loading ---- */

static void on_seen_told(void *data BG_UNUSED, const cJSON *result BG_UNUSED,
                         const struct bg_error *err BG_UNUSED)
{
}

static void tell_seen(struct app *a, uint64_t id)
{
    cJSON *p = bg_jo();
    bg_jset_int(p, "id", (int64_t)id);
    app_call(a, "approval.seen", p, on_seen_told, a);
}

static void ended(struct app *a, struct approval *v, const char *state)
{
    const struct request *r = model_request(app_model(a), v->id);
    bg_autofree char *by =
        r ? bg_text_safe_line(r->decided_by, strlen(r->decided_by), 60) : NULL;
    bg_autofree char *why = r ? bg_text_safe_line(r->reason, strlen(r->reason), 80) : NULL;
    v->gate.pending = false;
    v->box = BOX_NONE;
    snprintf(v->over, sizeof v->over, "%s%s%s%s%s", state, by && *by ? " by " : "",
             by ? by : "", why && *why ? ": " : "", why ? why : "");
}

/* The same bytes keep what was seen of them; the facts may be others, so it arms again. */
static void on_got(void *data, const cJSON *result, const struct bg_error *err)
{
    struct app *a = data;
    struct approval *v = app_approval(a);
    struct bg_error why = {0};
    uint64_t asked = v->asked;
    v->asked = 0;
    app_dirty(a);
    if (asked != v->id) { /* the person moved on meanwhile */
        approval_load(a, v);
        return;
    }
    struct bg_review *d = err ? NULL : bg_review_build(result, &why);
    if (d && d->id != v->id) {
        bg_review_free(d);
        d = NULL;
        bg_fail(&why, BG_ERR_PROTOCOL, 0, "the server answered with another request");
    }
    if (!d) {
        drop_doc(v);
        v->gate.loaded = false;
        snprintf(v->trouble, sizeof v->trouble, "%s", err ? err->msg : why.msg);
        return;
    }
    bool same = v->doc && v->doc->id == d->id && !strcmp(v->doc->sha256, d->sha256);
    struct ui_seen *seen = NULL;
    size_t top = v->code.top, n = v->n;
    if (same && n == d->n_fields) {
        seen = bg_xcalloc(n + 1, sizeof *seen);
        for (size_t i = 0; i < n; i++)
            seen[i] = v->fields[i].seen;
        for (size_t i = 0; i < n; i++)
            v->fields[i].seen = (struct ui_seen){0};
    }
    take_doc(v, d, app_ascii(a));
    for (size_t i = 0; seen && i < n; i++)
        v->fields[i].seen = seen[i];
    free(seen);
    if (same)
        v->code.top = top;
    *v->trouble = '\0';
    v->gate.loaded = true;
    v->gate.pending = !strcmp(row_text(d, "state"), "pending");
    if (!v->gate.pending)
        ended(a, v, row_text(d, "state"));
    else if (app_in_front(a, VIEW_APPROVAL))
        approval_front(a, v);
    tell_seen(a, v->id);
}

void approval_load(struct app *a, struct approval *v)
{
    if (v->asked || !v->id || !app_online(a))
        return;
    v->asked = v->id;
    cJSON *p = bg_jo();
    bg_jset_int(p, "id", (int64_t)v->id);
    app_call(a, "approval.get", p, on_got, a);
}

void approval_open(struct app *a, void *state, uint64_t id)
{
    struct approval *v = state;
    if (v->id == id && v->doc)
        return;
    drop_doc(v);
    v->id = id;
    v->gate = (struct gate){.pending = true};
    *v->over = *v->trouble = '\0';
    v->info_focus = false;
    approval_load(a, v);
}

/* Somebody else decided, it expired, or it is another revision now. */
static void approval_changed(struct app *a, void *state)
{
    struct approval *v = state;
    const struct request *r = model_request(app_model(a), v->id);
    if (!v->id)
        return;
    if (!app_online(a)) {
        v->asked = 0; /* its answer will not come */
        v->gate.sent = false;
        v->gate.loaded = false; /* what answers next may be another server */
        v->box = BOX_NONE;
        return;
    }
    if (r && !request_pending(r) && v->gate.pending && !v->gate.sent)
        ended(a, v, r->state);
    else if (!r && v->gate.pending && !v->gate.sent && v->doc)
        ended(a, v, "gone");
    else if (r && request_pending(r) &&
             (!v->doc || !v->gate.loaded || v->doc->rev != r->rev))
        approval_load(a, v);
}

/* ---- what was seen ---- */

bool approval_unseen(struct approval *v, struct ui_unseen *u, bool *in_info)
{
    *in_info = false;
    if (ui_pager_unseen(&v->code, u))
        return true;
    *in_info = true;
    return v->code.n == v->n && ui_pager_unseen(&v->info, u);
}

bool approval_seen_all(struct approval *v)
{
    for (size_t i = 0; v->doc && i <= v->n; i++)
        if (!ui_seen_all(&v->fields[i].seen))
            return false;
    return v->doc != NULL;
}

/* ---- drawing ---- */

static ui_style left_style(int64_t left, int64_t whole)
{
    return whole > 0 && left * 10 < whole  ? UI_HIGH
           : whole > 0 && left * 4 < whole ? UI_WARN
                                           : UI_OK;
}

static int draw_left(struct app *a, const struct request *r, struct ui_surface row, int x)
{
    char left[16];
    int64_t ms = r->expires_ms - app_now(a), whole = r->expires_ms - r->requested_ms;
    bg_duration_clock(ms, left, sizeof left);
    x = ui_right(row, 0, x, left_style(ms, whole), left) - 1;
    int cols = row.r.w >= WIDE ? 10 : 6;
    ui_bar(row, 0, x - cols, cols, ms, whole, left_style(ms, whole));
    app_again(a, 1000);
    return x - cols - 2;
}

static void approval_status(struct app *a, void *state, struct ui_surface row)
{
    struct approval *v = state;
    const struct request *r = model_request(app_model(a), v->id);
    size_t n, at = 0;
    bg_autofree uint64_t *ids = model_pending(app_model(a), &n);
    while (at < n && ids[at] != v->id)
        at++;
    int end = row.r.w - 1;
    if (!app_online(a))
        end = ui_right(row, 0, end, UI_ERR | UI_BOLD, "NO CONNECTION") - 2;
    if (r && request_pending(r) && r->expires_ms >= 0)
        end = draw_left(a, r, row, end);
    char place[48];
    if (at < n)
        snprintf(place, sizeof place, "%zu of %zu", at + 1, n);
    else
        snprintf(place, sizeof place, "%zu pending", n);
    end = ui_right(row, 0, end, UI_WARN | UI_BOLD, place) - 1;
    int x = ui_textf(row, 0, 1, UI_TITLE | UI_BOLD, "Approve #%04llu",
                     (unsigned long long)v->id) +
            2;
    if (!r)
        return;
    if (r->high && x + 8 < end)
        x = ui_text(row, 0, x, UI_HIGH | UI_BOLD | UI_REVERSE, " HIGH ") + 2;
    const char *const path[] = {r->session, r->kind, r->language};
    for (size_t i = 0; i < bg_countof(path) && x < end; i++) {
        if (!*path[i])
            continue;
        if (i)
            x = ui_textf(row, 0, x, UI_BORDER, " %s ", ui_glyph(row.g, UI_G_INTO));
        x = ui_safe(row, 0, x, end - x, UI_TEXT, path[i], strlen(path[i]));
    }
}

static void draw_nothing(struct app *a, struct approval *v, struct ui_surface s)
{
    struct ui_surface in =
        ui_pane(s, &(struct ui_pane){.title = "Code", .boxed = s.r.w >= WIDE});
    if (*v->trouble) {
        ui_text(in, 1, 2, UI_ERR | UI_BOLD, "It can't be shown, so it can't be approved.");
        ui_safe(in, 2, 2, in.r.w - 4, UI_TEXT, v->trouble, strlen(v->trouble));
        ui_text(in, 3, 2, UI_MUTED, "x denies it; n goes to the next one; q goes back.");
    } else {
        ui_text(in, 1, 2, UI_MUTED, app_online(a) ? "reading it ..." : "no connection");
    }
}

static bool counts(struct app *a, const struct approval *v)
{
    return app_in_front(a, VIEW_APPROVAL) && v->box == BOX_NONE;
}

/* The frame comes last: it tells what the drawing has shown. */
static void draw_code(struct app *a, struct approval *v, struct ui_surface s)
{
    char note[64], place[64];
    struct ui_unseen u;
    struct ui_pane pane = {.title = "Code",
                           .note = note,
                           .hint = place,
                           .focus = !v->info_focus,
                           .boxed = v->wide};
    *note = *place = '\0';
    ui_pager_draw(&v->code, ui_pane(s, &pane), v->wide ? v->n : v->n + 1, counts(a, v));
    if (ui_pager_unseen(&v->code, &u))
        snprintf(note, sizeof note, "seen %d%%", u.percent);
    else
        snprintf(note, sizeof note, "all seen");
    size_t bottom = v->code.top + (size_t)v->code.height;
    bottom = bottom < v->code.rows ? bottom : v->code.rows;
    snprintf(place, sizeof place, "%zu-%zu of %zu", v->code.top + 1, bottom, v->code.rows);
    ui_pane(s, &pane);
}

static void draw_info(struct app *a, struct approval *v, struct ui_surface s)
{
    struct ui_pane pane = {.title = "Request", .focus = v->info_focus, .boxed = true};
    ui_pager_draw(&v->info, ui_pane(s, &pane), 1, counts(a, v));
    if (!ui_seen_all(&v->fields[v->n].seen)) {
        pane.hint = "more: Tab, Space";
        ui_pane(s, &pane);
    }
}

/* ---- the decision bar ---- */

static int key(struct ui_surface s, int y, int x, bool open, const char *name,
               const char *what)
{
    x = ui_text(s, y, x, open ? UI_KEY | UI_BOLD : UI_MUTED, name);
    return ui_text(s, y, x + 1, open ? UI_TEXT : UI_MUTED, what) + 3;
}

/* The sentence beside `a`: what is missing. */
static ui_style missing(struct app *a, struct approval *v, enum gate_block b, char *out,
                        size_t n)
{
    struct ui_unseen u;
    bool in_info;
    int64_t ms = gate_arming(&v->gate, app_mono(a));
    switch (b) {
    case GATE_OFFLINE:
        snprintf(out, n, "LOCKED: no connection to the server");
        return UI_ERR;
    case GATE_LOADING:
        snprintf(out, n, "LOCKED: nothing to read");
        return UI_ERR;
    case GATE_OVER:
        snprintf(out, n, "OVER: %s", v->over);
        return UI_WARN;
    case GATE_SENT:
        snprintf(out, n, "the answer is on its way");
        return UI_MUTED;
    case GATE_ARMING:
        app_again(a, ms);
        snprintf(out, n, "LOCKED: look first (%lld.%lld s)",
                 (long long)app_arm_ms(a) / 1000, (long long)app_arm_ms(a) / 100 % 10);
        return UI_WARN;
    case GATE_UNSEEN:
        if (!approval_unseen(v, &u, &in_info))
            in_info = true;
        if (in_info)
            snprintf(out, n, "LOCKED: unread: the request's facts (Tab, Space)");
        else if (u.field < v->n && u.line)
            snprintf(out, n, "LOCKED: unread from %.20s line %u (Space)",
                     v->fields[u.field].label, u.line);
        else
            snprintf(out, n, "LOCKED: unread from %.20s (Space)", v->fields[u.field].label);
        return UI_WARN;
    case GATE_OPEN:
        break;
    }
    bool high = v->doc && v->doc->high;
    if (high)
        snprintf(out, n, "HIGH: you will type %.4s", v->doc->sha256);
    else
        snprintf(out, n, "all seen");
    return high ? UI_HIGH : UI_OK;
}

static void draw_decision(struct app *a, struct approval *v, struct ui_surface s,
                          bool boxed)
{
    char why[320];
    int64_t now = app_mono(a);
    v->gate.online = app_online(a);
    v->gate.seen_all = approval_seen_all(v);
    enum gate_block b = gate_approve(&v->gate, now);
    bool deny = gate_deny(&v->gate, now) == GATE_OPEN;
    char lost[48] = "";
    if (v->gate.discarded)
        snprintf(lost, sizeof lost, "%u key press%s discarded", v->gate.discarded,
                 v->gate.discarded == 1 ? "" : "es");
    struct ui_surface in = ui_pane(
        s, &(struct ui_pane){
               .title = "Decision", .note = lost, .boxed = boxed, .hint = "default: deny"});
    ui_style style = missing(a, v, b, why, sizeof why);
    int x = key(in, 0, 1, b == GATE_OPEN, "a", "approve once");
    ui_safe(in, 0, x, in.r.w - x - 1, style, why, strlen(why));
    x = key(in, 1, 1, deny, "x", "deny");
    x = key(in, 1, x, deny, "X", "deny with reason");
    x = key(in, 1, x, true, "n p", "next, previous");
    key(in, 1, x, true, "q", "back");
}

static void approval_draw(struct app *a, void *state, struct ui_surface s)
{
    struct approval *v = state;
    v->wide = s.r.w >= WIDE;
    v->info_focus = v->info_focus && v->wide;
    if (v->doc) {
        struct ui_field_src *facts = &v->fields[v->n];
        facts->bare = v->wide; /* beside the code the pane is its heading */
        facts->label = v->wide ? NULL : "request";
    }
    int bar = v->wide ? 4 : 3;
    struct ui_surface body = ui_sub(s, 0, 0, s.r.h - bar, s.r.w);
    if (!v->doc) {
        draw_nothing(a, v, body);
    } else if (v->wide) {
        int info = s.r.w >= 160 ? s.r.w / 3 : INFO_COLS;
        draw_code(a, v, ui_sub(body, 0, 0, body.r.h, s.r.w - info));
        draw_info(a, v, ui_sub(body, 0, s.r.w - info, body.r.h, info));
    } else {
        draw_code(a, v, body);
    }
    draw_decision(a, v, ui_sub(s, s.r.h - bar, 0, bar, s.r.w), v->wide);
    approval_draw_box(v, s);
}

const struct view_ops view_approval = {
    .title = "Approve",
    .notes = notes,
    .keys = {rows, bg_countof(rows)},
    .open = approval_new,
    .close = approval_close,
    .front = approval_front,
    .changed = approval_changed,
    .draw = approval_draw,
    .status = approval_status,
    .event = approval_event,
    .action = approval_act,
};

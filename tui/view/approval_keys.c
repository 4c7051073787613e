/* SPDX-License-Identifier: MIT */
/*
 * The decision: which key means what, and everything that must hold before an answer goes
 * out. tui/gate.c says whether; this says what to tell the person.
 */
#include <stdio.h>

#include "core/base/mem.h"
#include "core/base/values.h"
#include "tui/kit/dialog.h"
#include "tui/view/approval.h"

static const char *const presets[] = {
    "wrong file or path", "do not delete files", "explain what it does first",
    "no network, please", "too much output",     "take a smaller step"};

/* ---- coming to the front ---- */

/* Nothing typed until now is meant for this. */
static void rearm(struct app *a, struct approval *v)
{
    v->gate.arm_ms = app_arm_ms(a);
    gate_front(&v->gate, app_mono(a));
    v->box = BOX_NONE;
    app_flush_input(a);
    app_dirty(a);
}

void approval_front(struct app *a, void *state)
{
    struct approval *v = state;
    rearm(a, v);
    if (!v->doc && v->id)
        approval_load(a, v);
}

void approval_step(struct app *a, struct approval *v, int by)
{
    size_t n, at = 0;
    bg_autofree uint64_t *ids = model_pending(app_model(a), &n);
    while (at < n && ids[at] < v->id)
        at++;
    bool here = at < n && ids[at] == v->id;
    long to = (long)at + (by > 0 ? here : -1);
    if (n == 0 || (here && n == 1)) {
        app_say(a, 0, here ? "no other request waits" : "nothing waits any more");
        return;
    }
    to = to < 0 ? (long)n - 1 : to >= (long)n ? 0 : to;
    app_review(a, ids[to]);
}

/* ---- sending ---- */

static void answered(struct app *a, struct approval *v, const char *what, uint64_t id)
{
    size_t n;
    bg_autofree uint64_t *ids = model_pending(app_model(a), &n);
    size_t next = 0;
    while (next < n && ids[next] == id)
        next++;
    v->id = 0;
    if (next < n) {
        app_review(a, ids[next]);
        gate_followed(&v->gate, app_mono(a));
    } else {
        app_show(a, VIEW_DASH);
    }
    app_say(a, 1, "#%04llu %s", (unsigned long long)id, what);
}

static void on_decided(struct app *a, const char *what, const cJSON *result,
                       const struct bg_error *err)
{
    struct approval *v = app_approval(a);
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(result, "id");
    v->gate.sent = false;
    if (err) {
        app_say(a, 3, "not %s: %s", what, err->msg);
        approval_load(a, v);
        return;
    }
    if (cJSON_IsNumber(id) && id->valuedouble == (double)v->id)
        answered(a, v, what, v->id);
}

static void on_approved(void *data, const cJSON *result, const struct bg_error *err)
{
    on_decided(data, "approved", result, err);
}

static void on_denied(void *data, const cJSON *result, const struct bg_error *err)
{
    on_decided(data, "denied", result, err);
}

static cJSON *hazard_names(uint32_t bits)
{
    cJSON *names = bg_ja();
    for (int h = 0; h < BG_HZ_COUNT_; h++)
        if (bits & BG_HZ_BIT(h))
            cJSON_AddItemToArray(names,
                                 cJSON_CreateString(bg_hazard_name((enum bg_hazard)h)));
    return names;
}

/* id, rev, hash and verb: the server refuses what is not about these very bytes. */
static void send(struct app *a, struct approval *v, bool approve, const char *reason)
{
    const struct request *r = model_request(app_model(a), v->id);
    if (!v->doc && !r)
        return;
    cJSON *p = bg_jo();
    bg_jset_int(p, "id", (int64_t)v->id);
    bg_jset_int(p, "rev", v->doc ? v->doc->rev : r->rev);
    bg_jset_str(p, "sha256", v->doc ? v->doc->sha256 : r->sha256);
    bg_jset_str(p, "decision", approve ? "approve" : "deny");
    bg_jset_str(p, "scope", "once");
    if (reason && *reason)
        bg_jset_str(p, "reason", reason);
    if (v->doc && approve) {
        bg_jset(p, "ackHazards", hazard_names(v->doc->hazards));
        bg_jset_int(p, "viewedTo", (int64_t)v->code.rows);
    }
    v->gate.sent = true;
    v->box = BOX_NONE;
    app_say(a, 0, approve ? "approving #%04llu once ..." : "denying #%04llu ...",
            (unsigned long long)v->id);
    app_call(a, "approval.decide", p, approve ? on_approved : on_denied, a);
}

/* ---- may it? ---- */

static void say_block(struct app *a, struct approval *v, enum gate_block b)
{
    struct ui_unseen u;
    bool in_info;
    switch (b) {
    case GATE_OFFLINE:
        app_say(a, 3, "no connection to the server: nothing can be decided now");
        break;
    case GATE_LOADING:
        app_say(a, 3, "what can't be shown can't be approved; x denies it");
        break;
    case GATE_OVER:
        app_say(a, 2, "too late: %s", *v->over ? v->over : "it is not pending any more");
        break;
    case GATE_SENT:
        app_say(a, 2, "the answer is on its way");
        break;
    case GATE_ARMING:
        gate_pressed(&v->gate, app_mono(a));
        break;
    case GATE_UNSEEN:
        if (!approval_unseen(v, &u, &in_info))
            break;
        app_say(a, 2, "not yet: %s has not been on screen; Space goes on, u goes there",
                in_info ? "the end of the request's facts" : "all of it");
        break;
    case GATE_OPEN:
        break;
    }
}

/* A decision key counts only when it came alone and late enough. */
static bool alone(struct app *a, struct approval *v, const struct ui_event *ev)
{
    if (!ev->burst && !ev->alt)
        return true;
    v->gate.discarded++;
    app_say(a, 2, "several keys at once are no answer: they were discarded");
    return false;
}

static bool may(struct app *a, struct approval *v, const struct ui_event *ev, bool approve)
{
    int64_t now = app_mono(a);
    v->gate.online = app_online(a);
    v->gate.seen_all = approval_seen_all(v);
    enum gate_block b = approve ? gate_approve(&v->gate, now) : gate_deny(&v->gate, now);
    if (b != GATE_OPEN) {
        say_block(a, v, b);
        return false;
    }
    return alone(a, v, ev);
}

static void open_box(struct approval *v, enum approval_box box)
{
    v->box = box;
    v->preset = -1;
    v->wrong_digits = false;
    ui_field_free(&v->field);
    ui_field_init(&v->field, box == BOX_DIGITS ? BG_HIGH_DIGITS : BG_REASON_MAX);
    v->field.no_paste = box == BOX_DIGITS;
}

/* ---- boxes ---- */

static void digits_enter(struct app *a, struct approval *v, const struct ui_event *ev)
{
    if (!may(a, v, ev, true))
        return;
    if (gate_digits(v->field.text, v->doc->sha256)) {
        send(a, v, true, NULL);
        return;
    }
    v->wrong_digits = true;
    ui_field_set(&v->field, "");
}

static void choose_preset(struct approval *v, int by)
{
    int n = (int)bg_countof(presets);
    v->preset = v->preset < 0 ? (by > 0 ? 0 : n - 1) : (v->preset + by + n) % n;
    ui_field_set(&v->field, presets[v->preset]);
}

static void box_event(struct app *a, struct approval *v, const struct ui_event *ev)
{
    app_dirty(a);
    if (ev->type == UI_EV_PASTE && v->field.no_paste)
        app_say(a, 2, "the digits are typed, not pasted");
    if (ui_field_event(&v->field, ev) || ev->type != UI_EV_KEY)
        return;
    if (ev->key == UI_KEY_ESC || ev->key == UI_CTRL('c'))
        v->box = BOX_NONE;
    else if (ev->key == UI_KEY_ENTER && v->box == BOX_DIGITS)
        digits_enter(a, v, ev);
    else if (ev->key == UI_KEY_ENTER && may(a, v, ev, false))
        send(a, v, false, v->field.text);
    else if (v->box == BOX_REASON && (ev->key == UI_KEY_DOWN || ev->key == UI_KEY_TAB))
        choose_preset(v, 1);
    else if (v->box == BOX_REASON && (ev->key == UI_KEY_UP || ev->key == UI_KEY_BACKTAB))
        choose_preset(v, -1);
}

static void digits_box(struct approval *v, struct ui_surface whole)
{
    char title[48];
    int y = 0;
    snprintf(title, sizeof title, "Approve #%04llu once: HIGH", (unsigned long long)v->id);
    struct ui_surface in = ui_dialog_open(
        whole,
        &(struct ui_dialog){
            .title = title, .hint = "Enter approve   Esc cancel", .cols = 58, .rows = 7});
    int x = ui_text(in, y, 0, UI_TEXT, "Type ");
    x = ui_textf(in, y, x, UI_HIGH | UI_BOLD, "%.*s", BG_HIGH_DIGITS, v->doc->sha256);
    ui_text(in, y, x, UI_TEXT, ", the first digits of the hash, then Enter.");
    ui_text(in, y + 2, 0, UI_MUTED, "digits");
    ui_field_draw(&v->field, in, y + 2, 9, BG_HIGH_DIGITS + 2);
    if (v->wrong_digits)
        ui_text(in, y + 2, 17, UI_ERR, "not those digits");
    x = 9;
    ui_text(in, y + 4, 0, UI_MUTED, "risks");
    for (int h = 0; h < BG_HZ_COUNT_; h++)
        if (v->doc->hazards & BG_HZ_BIT(h))
            x = ui_textf(in, y + 4, x, UI_HIGH, "%s ", bg_hazard_name((enum bg_hazard)h));
    if (v->doc->facts && v->doc->facts[0])
        ui_safe(in, y + 5, 0, in.r.w, UI_MUTED, v->doc->facts[0], strlen(v->doc->facts[0]));
}

static void reason_box(struct approval *v, struct ui_surface whole)
{
    char title[40];
    int n = (int)bg_countof(presets);
    snprintf(title, sizeof title, "Deny #%04llu with reason", (unsigned long long)v->id);
    struct ui_surface in = ui_dialog_open(
        whole, &(struct ui_dialog){.title = title,
                                   .hint = "Enter send   Up Down presets   Esc cancel",
                                   .cols = 58,
                                   .rows = n / 2 + 4});
    for (int i = 0; i < n; i++) {
        bool on = i == v->preset;
        int y = i % (n / 2), x = i < n / 2 ? 0 : 30;
        if (on)
            ui_text(in, y, x, UI_ACCENT | UI_BOLD, ui_glyph(in.g, UI_G_SELECT));
        ui_text(in, y, x + 2, on ? UI_ACCENT | UI_BOLD : UI_MUTED, presets[i]);
    }
    ui_text(in, n / 2 + 1, 0, UI_MUTED, "reason");
    ui_field_draw(&v->field, in, n / 2 + 1, 8, in.r.w - 9);
    ui_text(in, n / 2 + 3, 0, UI_MUTED, "The agent gets this text; the code does not run.");
}

void approval_draw_box(struct approval *v, struct ui_surface whole)
{
    if (v->box == BOX_DIGITS && v->doc)
        digits_box(v, whole);
    else if (v->box == BOX_REASON)
        reason_box(v, whole);
}

/* ---- keys ---- */

static bool scrolls(int action)
{
    return action >= ACT_DOWN && action <= ACT_UNSEEN;
}

static void scroll(struct approval *v, int action)
{
    struct ui_pager *p = v->wide && v->info_focus ? &v->info : &v->code;
    struct ui_unseen u;
    bool in_info;
    long page = p->height > 2 ? p->height - 1 : 1;
    if (action == ACT_UNSEEN) {
        if (approval_unseen(v, &u, &in_info)) {
            v->info_focus = in_info && v->wide;
            ui_pager_to(v->info_focus ? &v->info : &v->code, u.row);
        }
        return;
    }
    const long by[] = {[ACT_DOWN] = 1,
                       [ACT_UP] = -1,
                       [ACT_PAGE_DOWN] = page,
                       [ACT_PAGE_UP] = -page,
                       [ACT_FIRST] = -(long)p->rows,
                       [ACT_LAST] = (long)p->rows};
    ui_pager_scroll(p, by[action]);
}

void approval_act(struct app *a, void *state, int action, const struct ui_event *ev)
{
    struct approval *v = state;
    app_dirty(a);
    /* In the first moments only what leads away counts. */
    if (scrolls(action) && gate_arming(&v->gate, app_mono(a))) {
        v->gate.discarded++;
        return;
    }
    if (scrolls(action) && v->doc) {
        scroll(v, action);
        return;
    }
    if (action == ACT_NEXT || action == ACT_PREV)
        approval_step(a, v, action == ACT_NEXT ? 1 : -1);
    else if (action == ACT_PANE)
        v->info_focus = v->wide && !v->info_focus;
    else if (action == ACT_DENY && may(a, v, ev, false))
        send(a, v, false, NULL);
    else if (action == ACT_REASON && may(a, v, ev, false))
        open_box(v, BOX_REASON);
    else if (action == ACT_APPROVE && may(a, v, ev, true)) {
        if (v->doc->high)
            open_box(v, BOX_DIGITS);
        else
            send(a, v, true, NULL);
    }
}

bool approval_event(struct app *a, void *state, const struct ui_event *ev)
{
    struct approval *v = state;
    if (v->box != BOX_NONE) {
        box_event(a, v, ev);
        return true;
    }
    if (ev->type == UI_EV_MOUSE) {
        struct ui_pager *p = v->wide && v->info_focus ? &v->info : &v->code;
        if (v->doc && (ev->button == 64 || ev->button == 65))
            ui_pager_scroll(p, ev->button == 64 ? -3 : 3);
        return true;
    }
    if (ev->type == UI_EV_PASTE) {
        app_say(a, 2, "a paste is no answer: it was discarded");
        return true;
    }
    return ev->type != UI_EV_KEY;
}

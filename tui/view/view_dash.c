/* SPDX-License-Identifier: MIT */
/* The dashboard: sessions, what waits, details of the selected one, what happened. */
#include <stdio.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "tui/app.h"
#include "tui/kit/list.h"

#define WIDE 100  /* from here on panes have borders */
#define THREE 160 /* and activity a column of its own */

enum pane { PANE_SESSIONS, PANE_PENDING };

struct dash {
    enum pane focus;
    struct ui_list sessions, pending;
    struct ui_rect where[2]; /* rows of the lists, for the mouse */
};

enum {
    ACT_OPEN = 1,
    ACT_DOWN,
    ACT_UP,
    ACT_FIRST,
    ACT_LAST,
    ACT_PAGE_DOWN,
    ACT_PAGE_UP,
    ACT_PANE
};

static const struct ui_binding rows[] = {
    {{UI_KEY_ENTER}, ACT_OPEN, "review", "review the selected request"},
    {{UI_KEY_TAB, UI_KEY_BACKTAB}, ACT_PANE, "pane", "sessions or requests"},
    {{'j', UI_KEY_DOWN}, ACT_DOWN, NULL, "down"},
    {{'k', UI_KEY_UP}, ACT_UP, NULL, "up"},
    {{'g', UI_KEY_HOME}, ACT_FIRST, NULL, "first"},
    {{'G', UI_KEY_END}, ACT_LAST, NULL, "last"},
    {{UI_CTRL('d'), UI_KEY_PGDN}, ACT_PAGE_DOWN, NULL, "page down"},
    {{UI_CTRL('u'), UI_KEY_PGUP}, ACT_PAGE_UP, NULL, "page up"},
};

static const char *const notes[] = {
    "Requests stand oldest first; a new one never moves the selection.",
    "Deciding is done in the review only: select one and press Enter.", NULL};

static void *dash_open(struct app *a BG_UNUSED)
{
    struct dash *d = bg_xcalloc(1, sizeof *d);
    d->focus = PANE_PENDING;
    return d;
}

static void dash_close(void *state)
{
    free(state);
}

static void dash_front(struct app *a BG_UNUSED, void *state BG_UNUSED)
{
}

/* ---- words ---- */

static void ago(int64_t ms, char *out, size_t n)
{
    int64_t min = ms / 60000;
    if (ms < 0)
        snprintf(out, n, "-");
    else if (min < 1)
        snprintf(out, n, "now");
    else if (min < 60)
        snprintf(out, n, "%dm", (int)min);
    else if (min < 1440)
        snprintf(out, n, "%dh%02dm", (int)(min / 60), (int)(min % 60));
    else
        snprintf(out, n, "%dd", (int)(min / 1440));
}

static enum ui_glyph state_glyph(const char *state, const char **word, ui_style *style)
{
    static const struct {
        const char *state, *word;
        enum ui_glyph glyph;
        ui_style style;
    } table[] = {{"live", "run", UI_G_RUN, UI_OK},
                 {"creating", "start", UI_G_START, UI_WARN},
                 {"open", "idle", UI_G_IDLE, UI_MUTED},
                 {"lost", "lost", UI_G_LOST, UI_HIGH},
                 {"closing", "ending", UI_G_CLOSED, UI_MUTED},
                 {"closed", "closed", UI_G_CLOSED, UI_MUTED}};
    for (size_t i = 0; i < bg_countof(table); i++)
        if (!strcmp(state, table[i].state)) {
            *word = table[i].word;
            *style = table[i].style;
            return table[i].glyph;
        }
    *word = "?";
    *style = UI_WARN;
    return UI_G_LOST;
}

static size_t pending_of(const struct model *m, const char *session)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_requests; i++)
        n += request_pending(&m->requests[i]) && !strcmp(m->requests[i].session, session);
    return n;
}

static int safe(struct ui_surface s, int y, int x, int cols, ui_style style,
                const char *text)
{
    return ui_safe(s, y, x, cols, style, text, strlen(text));
}

/* ---- sessions ---- */

static void memory_words(const struct session *s, char *out, size_t n)
{
    if (s->has_stats && s->mem_bytes >= 0)
        snprintf(out, n, "%lld/%lldM", (long long)(s->mem_bytes >> 20),
                 (long long)s->memory_mb);
    else if (s->memory_mb >= 0)
        snprintf(out, n, "%lldM", (long long)s->memory_mb);
    else
        snprintf(out, n, "unlimited");
}

static void session_head(struct ui_surface s, bool wide)
{
    ui_text(s, 0, 2, UI_MUTED, "state     name");
    ui_text(s, 0, 32, UI_MUTED, "provider");
    ui_text(s, 0, 42, UI_MUTED, "net");
    ui_right(s, 0, 57, UI_MUTED, "memory");
    if (wide) {
        ui_right(s, 0, 64, UI_MUTED, "cpu");
        ui_right(s, 0, 72, UI_MUTED, "calls");
        ui_right(s, 0, 80, UI_MUTED, "waiting");
        ui_right(s, 0, 88, UI_MUTED, "used");
        ui_text(s, 0, 91, UI_MUTED, "image");
    } else if (s.r.w >= 76) {
        ui_right(s, 0, 66, UI_MUTED, "waiting");
        ui_right(s, 0, 73, UI_MUTED, "used");
    }
}

static void session_row(struct app *a, struct ui_surface s, int y,
                        const struct session *ses, bool wide)
{
    char buf[32];
    const char *word;
    ui_style style;
    enum ui_glyph g = state_glyph(ses->state, &word, &style);
    size_t waiting = pending_of(app_model(a), ses->id);
    ui_text(s, y, 2, style, ui_glyph(s.g, g));
    ui_text(s, y, 4, style, word);
    safe(s, y, 12, 19, UI_TEXT, ses->id);
    safe(s, y, 32, 9, UI_MUTED, ses->provider);
    safe(s, y, 42, 7, strcmp(ses->network, "none") ? UI_WARN : UI_MUTED, ses->network);
    memory_words(ses, buf, sizeof buf);
    ui_right(s, y, 57, ses->memory_mb < 0 ? UI_HIGH : UI_TEXT, buf);
    if (!wide && s.r.w < 76)
        return;
    if (wide && ses->has_stats && ses->cpu_tenths >= 0) {
        snprintf(buf, sizeof buf, "%d.%d%%", (int)(ses->cpu_tenths / 10),
                 (int)(ses->cpu_tenths % 10));
        ui_right(s, y, 64, UI_TEXT, buf);
    }
    if (wide) {
        snprintf(buf, sizeof buf, "%lld", (long long)ses->calls);
        ui_right(s, y, 72, UI_TEXT, buf);
    }
    snprintf(buf, sizeof buf, "%zu", waiting);
    ui_right(s, y, wide ? 80 : 66, waiting ? UI_WARN | UI_BOLD : UI_MUTED, buf);
    ago(ses->used_ms < 0 ? -1 : app_now(a) - ses->used_ms, buf, sizeof buf);
    ui_right(s, y, wide ? 88 : 73, UI_MUTED, buf);
    if (wide)
        safe(s, y, 91, s.r.w - 92, UI_MUTED, ses->image);
}

static void selection(struct ui_surface s, int y, bool focus)
{
    if (focus)
        ui_text(s, y, 0, UI_ACCENT | UI_BOLD, ui_glyph(s.g, UI_G_SELECT));
    ui_mark_row(s, y, focus ? UI_SELECTED : 0);
}

static void draw_sessions(struct app *a, struct dash *d, struct ui_surface s, bool boxed)
{
    const struct model *m = app_model(a);
    size_t n;
    bg_autofree uint64_t *keys = model_session_keys(m, &n);
    char count[16];
    bool focus = d->focus == PANE_SESSIONS;
    snprintf(count, sizeof count, "%zu", n);
    struct ui_surface in =
        ui_pane(s, &(struct ui_pane){
                       .title = "Sessions", .note = count, .focus = focus, .boxed = boxed});
    size_t sel = ui_list_sync(&d->sessions, keys, n);
    if (!n) {
        ui_text(in, in.r.h > 2 ? 1 : 0, 2, UI_MUTED,
                "No sessions yet. An agent opens one with its first request.");
        return;
    }
    app_again(a, 60000);
    bool wide = in.r.w >= 98;
    session_head(in, wide);
    struct ui_surface list = ui_sub(in, 1, 0, in.r.h - 1, in.r.w);
    d->where[PANE_SESSIONS] = list.r;
    size_t top = ui_list_top(&d->sessions, n, (size_t)list.r.h);
    for (int y = 0; y < list.r.h && top + (size_t)y < n; y++) {
        session_row(a, list, y, &m->sessions[top + (size_t)y], wide);
        if (top + (size_t)y == sel)
            selection(list, y, focus);
    }
}

/* ---- pending ---- */

struct columns {
    int bar, left, age, session, lang, lines, high, line;
};

/* Where the columns of the requests stand; -1 = not at this width. */
static struct columns columns_of(int w)
{
    if (w >= 98)
        return (struct columns){9, 21, 29, 32, 49, 64, 66, 73};
    if (w >= 76)
        return (struct columns){9, 19, -1, 21, 36, 51, 53, 60};
    return (struct columns){-1, 14, -1, 16, 29, -1, 40, 47};
}

static void pending_head(struct ui_surface s, const struct columns *c)
{
    ui_text(s, 0, 2, UI_MUTED, "id");
    ui_right(s, 0, c->left, UI_MUTED, "left");
    if (c->age >= 0)
        ui_right(s, 0, c->age, UI_MUTED, "age");
    ui_text(s, 0, c->session, UI_MUTED, "session");
    ui_text(s, 0, c->lang, UI_MUTED, "what");
    if (c->lines >= 0)
        ui_right(s, 0, c->lines, UI_MUTED, "lines");
    ui_text(s, 0, c->high, UI_MUTED, "risk");
    ui_text(s, 0, c->line, UI_MUTED, "begins");
}

static ui_style left_style(int64_t left, int64_t whole)
{
    return whole > 0 && left * 10 < whole  ? UI_HIGH
           : whole > 0 && left * 4 < whole ? UI_WARN
                                           : UI_OK;
}

static void pending_row(struct app *a, struct ui_surface s, int y, const struct request *r,
                        const struct columns *c)
{
    char buf[24];
    int64_t now = app_now(a);
    ui_textf(s, y, 2, UI_TEXT, "#%04llu", (unsigned long long)r->id);
    if (r->expires_ms >= 0) {
        int64_t left = r->expires_ms - now, whole = r->expires_ms - r->requested_ms;
        bg_duration_clock(left, buf, sizeof buf);
        ui_right(s, y, c->left, left_style(left, whole), buf);
        if (c->bar >= 0)
            ui_bar(s, y, c->bar, 4, left, whole, left_style(left, whole));
    }
    if (c->age >= 0) {
        bg_duration_clock(now - r->requested_ms, buf, sizeof buf);
        ui_right(s, y, c->age, UI_MUTED, buf);
    }
    safe(s, y, c->session, c->lang - c->session - 1, UI_TEXT, r->session);
    safe(s, y, c->lang, c->high - c->lang - (c->lines >= 0 ? 7 : 1), UI_TEXT,
         *r->language ? r->language : r->kind);
    if (c->lines >= 0) {
        snprintf(buf, sizeof buf, "%lld", (long long)r->lines);
        ui_right(s, y, c->lines, UI_TEXT, buf);
    }
    if (r->high)
        ui_text(s, y, c->high, UI_HIGH | UI_BOLD | UI_REVERSE, " HIGH ");
    safe(s, y, c->line, s.r.w - c->line - 1, UI_MUTED, r->first_line);
}

static void draw_pending(struct app *a, struct dash *d, struct ui_surface s, bool boxed)
{
    const struct model *m = app_model(a);
    size_t n;
    bg_autofree uint64_t *ids = model_pending(m, &n);
    char count[16];
    bool focus = d->focus == PANE_PENDING;
    snprintf(count, sizeof count, "%zu", n);
    struct ui_surface in =
        ui_pane(s, &(struct ui_pane){.title = "Pending",
                                     .note = count,
                                     .focus = focus,
                                     .boxed = boxed,
                                     .hint = n > 1 ? "oldest first" : NULL});
    size_t sel = ui_list_sync(&d->pending, ids, n);
    if (!n) {
        ui_text(in, in.r.h > 2 ? 1 : 0, 2, UI_MUTED,
                "Nothing waits for a decision. Try: boxgate run FILE.py");
        return;
    }
    app_again(a, 1000);
    struct columns c = columns_of(in.r.w);
    pending_head(in, &c);
    struct ui_surface list = ui_sub(in, 1, 0, in.r.h - 1, in.r.w);
    d->where[PANE_PENDING] = list.r;
    size_t top = ui_list_top(&d->pending, n, (size_t)list.r.h);
    for (int y = 0; y < list.r.h && top + (size_t)y < n; y++) {
        pending_row(a, list, y, model_request(m, ids[top + (size_t)y]), &c);
        if (top + (size_t)y == sel)
            selection(list, y, focus);
    }
}

/* ---- detail ---- */

/* "label     value" on the next row. */
static void fact(struct ui_surface s, int *y, const char *label, ui_style style,
                 const char *value)
{
    if (*value && *y < s.r.h) {
        ui_text(s, *y, 1, UI_MUTED, label);
        safe(s, *y, 12, s.r.w - 13, style, value);
        (*y)++;
    }
}

static void request_detail(struct ui_surface s, const struct request *r)
{
    int y = 0;
    bg_autofree char *what =
        bg_xasprintf("%s %s, %lld line%s, %lld bytes, at most %lld s", r->kind, r->language,
                     (long long)r->lines, r->lines == 1 ? "" : "s", (long long)r->bytes,
                     (long long)r->timeout_ms / 1000);
    bg_autofree char *who = bg_xasprintf("%s, uid %lld, pid %lld", r->client,
                                         (long long)r->uid, (long long)r->pid);
    bg_autofree char *session = bg_xasprintf("%s, profile %s", r->session, r->profile);
    fact(s, &y, "risk", UI_HIGH, r->hazards);
    fact(s, &y, "what", UI_TEXT, what);
    fact(s, &y, "session", UI_TEXT, session);
    fact(s, &y, "purpose", UI_TEXT, r->purpose);
    fact(s, &y, "asked by", UI_TEXT, who);
    fact(s, &y, "program", UI_TEXT, r->exe);
    fact(s, &y, "sha256", UI_MUTED, r->sha256);
    if (!r->attached)
        fact(s, &y, "note", UI_WARN,
             "the requester has gone; it can't run until it is back");
    if (r->waiting > 1) {
        bg_autofree char *w =
            bg_xasprintf("%lld identical requests", (long long)r->waiting);
        fact(s, &y, "waiting", UI_TEXT, w);
    }
}

static void session_detail(struct ui_surface s, const struct session *ses)
{
    int y = 0;
    char cpus[24] = "unlimited", pids[24] = "unlimited", mem[32];
    if (ses->cpus_milli >= 0)
        snprintf(cpus, sizeof cpus, "%g", (double)ses->cpus_milli / 1000);
    if (ses->pids >= 0)
        snprintf(pids, sizeof pids, "%lld", (long long)ses->pids);
    memory_words(ses, mem, sizeof mem);
    bg_autofree char *limits =
        bg_xasprintf("memory %s, cpu %s, processes %s", mem, cpus, pids);
    bg_autofree char *calls =
        bg_xasprintf("%lld, %lld denied, %lld running%s%s", (long long)ses->calls,
                     (long long)ses->denied, (long long)ses->running,
                     *ses->last_exit ? ", last exit " : "", ses->last_exit);
    fact(s, &y, "session", UI_TEXT, ses->id);
    fact(s, &y, "run id", UI_TEXT, ses->run_id);
    fact(s, &y, "runs in", UI_TEXT, ses->provider);
    fact(s, &y, "image", UI_TEXT, ses->image);
    fact(s, &y, "network", strcmp(ses->network, "none") ? UI_WARN : UI_TEXT, ses->network);
    fact(s, &y, "limits", UI_TEXT, limits);
    fact(s, &y, "calls", UI_TEXT, calls);
    fact(s, &y, "not held", UI_WARN, ses->not_enforced);
    if (ses->changed_outside)
        fact(s, &y, "warning", UI_HIGH, "the sandbox was changed from outside");
}

static void draw_detail(struct app *a, struct dash *d, struct ui_surface s, bool boxed)
{
    const struct model *m = app_model(a);
    const struct request *r = model_request(m, d->pending.selected);
    const struct session *ses = model_session(m, d->sessions.selected);
    bool request = (d->focus == PANE_PENDING && r) || !ses;
    char note[72] = "";
    bg_autofree char *id = ses ? bg_text_safe_line(ses->id, strlen(ses->id), 40) : NULL;
    if (request && r)
        snprintf(note, sizeof note, "#%04llu", (unsigned long long)r->id);
    else if (ses)
        snprintf(note, sizeof note, "%s", id);
    struct ui_surface in =
        ui_pane(s, &(struct ui_pane){.title = "Detail", .note = note, .boxed = boxed});
    if (request && r)
        request_detail(in, r);
    else if (ses)
        session_detail(in, ses);
    else
        ui_text(in, 0, 2, UI_MUTED, "What you select is told here.");
}

/* ---- activity ---- */

static void activity_row(struct ui_surface s, int y, const struct activity *e)
{
    static const ui_style styles[] = {UI_MUTED, UI_OK, UI_WARN, UI_HIGH};
    char at[BG_TIME_LEN];
    time_t t = (time_t)(e->at_ms / 1000);
    struct tm tm;
    localtime_r(&t, &tm);
    strftime(at, sizeof at, "%H:%M:%S", &tm);
    ui_text(s, y, 1, UI_MUTED, at);
    ui_text(s, y, 10, styles[e->level & 3], e->word);
    int x = 22;
    if (e->request)
        x = ui_textf(s, y, x, UI_TEXT, "#%04llu ", (unsigned long long)e->request);
    safe(s, y, x, s.r.w - x - 1, UI_TEXT, e->text);
}

static void draw_activity(struct app *a, struct ui_surface s, bool boxed)
{
    const struct model *m = app_model(a);
    struct ui_surface in = ui_pane(
        s, &(struct ui_pane){.title = "Activity", .note = "newest first", .boxed = boxed});
    for (int y = 0; y < in.r.h && (size_t)y < m->activity_n; y++)
        activity_row(in, y, &m->activity[m->activity_n - 1 - (size_t)y]);
    if (!m->activity_n)
        ui_text(in, 0, 2, UI_MUTED, "What happens from now on is told here.");
}

/* ---- the whole ---- */

static int within(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static void dash_draw(struct app *a, void *state, struct ui_surface s)
{
    struct dash *d = state;
    const struct model *m = app_model(a);
    bool boxed = s.r.w >= WIDE;
    int frame = boxed ? 3 : 2, h = s.r.h, w = s.r.w;
    size_t n;
    free(model_pending(m, &n));
    memset(d->where, 0, sizeof d->where);
    int side = w >= THREE ? w / 3 : 0;
    if (side)
        draw_activity(a, ui_sub(s, 0, w - side, h, side), boxed);
    w -= side;
    int least = h < 18 ? 2 : 4; /* rows of a list that has little to say */
    int top = within((int)m->n_sessions, least, h / 4) + frame;
    int middle = within((int)n, least + 1, h / 3) + frame;
    draw_sessions(a, d, ui_sub(s, 0, 0, top, w), boxed);
    draw_pending(a, d, ui_sub(s, top, 0, middle, w), boxed);
    int rest = h - top - middle;
    int right = boxed && !side ? w * 9 / 20 : 0;
    draw_detail(a, d, ui_sub(s, top + middle, 0, rest, w - right), boxed);
    if (right)
        draw_activity(a, ui_sub(s, top + middle, w - right, rest, right), boxed);
}

/* ---- keys ---- */

static void move(struct app *a, struct dash *d, long by)
{
    size_t n;
    bool pending = d->focus == PANE_PENDING;
    bg_autofree uint64_t *ids =
        pending ? model_pending(app_model(a), &n) : model_session_keys(app_model(a), &n);
    ui_list_move(pending ? &d->pending : &d->sessions, ids, n, by);
    app_dirty(a);
}

static void dash_action(struct app *a, void *state, int action,
                        const struct ui_event *ev BG_UNUSED)
{
    struct dash *d = state;
    static const long steps[] = {
        [ACT_DOWN] = 1,       [ACT_UP] = -1,        [ACT_FIRST] = -1000000,
        [ACT_LAST] = 1000000, [ACT_PAGE_DOWN] = 10, [ACT_PAGE_UP] = -10};
    if (action == ACT_PANE) {
        d->focus = d->focus == PANE_PENDING ? PANE_SESSIONS : PANE_PENDING;
    } else if (action == ACT_OPEN) {
        if (d->focus == PANE_PENDING && d->pending.selected)
            app_review(a, d->pending.selected);
        else
            app_say(a, 0, "nothing to review here; Tab goes to the requests");
    } else if ((size_t)action < bg_countof(steps)) {
        move(a, d, steps[action]);
    }
}

static void click(struct app *a, struct dash *d, const struct ui_event *ev)
{
    for (int p = 0; p < 2; p++) {
        const struct ui_rect *r = &d->where[p];
        int y = ev->y - r->y;
        if (y < 0 || y >= r->h || ev->x < r->x || ev->x >= r->x + r->w)
            continue;
        d->focus = (enum pane)p;
        struct ui_list *l = p == PANE_PENDING ? &d->pending : &d->sessions;
        move(a, d, (long)l->top + y - (long)l->index);
    }
}

static bool dash_event(struct app *a, void *state, const struct ui_event *ev)
{
    if (ev->type != UI_EV_MOUSE)
        return ev->type != UI_EV_KEY; /* pastes mean nothing here */
    if (ev->on && ev->button == 0)
        click(a, state, ev);
    else if (ev->button == 64 || ev->button == 65)
        move(a, state, ev->button == 64 ? -1 : 1);
    return true;
}

static void dash_changed(struct app *a BG_UNUSED, void *state BG_UNUSED)
{
}

const struct view_ops view_dash = {
    .title = "Dash",
    .notes = notes,
    .keys = {rows, bg_countof(rows)},
    .open = dash_open,
    .close = dash_close,
    .front = dash_front,
    .changed = dash_changed,
    .draw = dash_draw,
    .event = dash_event,
    .action = dash_action,
};

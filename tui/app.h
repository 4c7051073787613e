/* SPDX-License-Identifier: MIT */
/*
 * The console as one object: terminal, model, the view in front, and the way to the server.
 * It runs on a loop of its caller; views see it through this header only.
 */
#pragma once

#include "core/base/path.h"
#include "core/rpc/rpc.h"
#include "tui/kit/keymap.h"
#include "tui/kit/term.h"
#include "tui/kit/theme.h"
#include "tui/model.h"

struct app;

enum view_id { VIEW_DASH, VIEW_APPROVAL, VIEW_COUNT_ };

/* One file, one static table; `state` is what open() gave. */
struct view_ops {
    const char *title;        /* "Dash": for the tabs */
    const char *const *notes; /* sentences for the help, NULL-terminated */
    struct ui_keymap keys;
    void *(*open)(struct app *a);
    void (*close)(void *state);
    void (*front)(struct app *a, void *state);   /* it came to the front */
    void (*changed)(struct app *a, void *state); /* the model or the link changed */
    void (*draw)(struct app *a, void *state,
                 struct ui_surface s); /* without first and last row */
    void (*status)(struct app *a, void *state, struct ui_surface row);
    /* Before the key table: an open dialog takes everything. True = taken. */
    bool (*event)(struct app *a, void *state, const struct ui_event *ev);
    void (*action)(struct app *a, void *state, int action, const struct ui_event *ev);
};
extern const struct view_ops view_dash, view_approval;

/* Calls to the server; the console never knows a socket. Answers arrive on the loop. */
struct app_link {
    void (*call)(void *data, const char *method, cJSON *params, bg_rpc_fn cb,
                 void *cb_data);
    void *data;
};

struct app_opts {
    int in, out; /* the terminal */
    const char *term;
    bool no_color;
    const char *theme; /* "" = dark */
    enum ui_border border;
    bool mouse, bell;
    char *const *notify;    /* argv, or NULL */
    const char *config_dir; /* its themes/ */
    struct app_link link;
    int64_t (*wall)(void), (*mono)(void); /* NULL = the real clocks */
};

BG_CHECK struct app *app_new(struct bg_loop *loop, const struct app_opts *o,
                             struct bg_error *err);
void app_free(struct app *a);
bool app_done(const struct app *a);
int app_exit_code(const struct app *a); /* 0, or 128 + the signal that ended it */

void app_resized(struct app *a); /* the terminal has another size */

/* From the link: connected (the hello's answer), an event, gone. */
void app_connected(struct app *a, const cJSON *hello);
void app_event(struct app *a, const char *topic, const char *type, const cJSON *data);
void app_disconnected(struct app *a, const struct bg_error *err);

/* ---- for views ---- */

const struct model *app_model(const struct app *a);
int64_t app_now(const struct app *a); /* the server's wall clock */
int64_t app_mono(const struct app *a);
int64_t app_arm_ms(const struct app *a);
bool app_online(const struct app *a);
bool app_in_front(const struct app *a, enum view_id v); /* and nothing over it */
void app_call(struct app *a, const char *method, cJSON *params, bg_rpc_fn cb, void *data);
void app_show(struct app *a, enum view_id v);
void app_review(struct app *a, uint64_t id); /* the approval view, on this request */
void app_flush_input(struct app *a);
void app_dirty(struct app *a);
/* While drawing: draw again in so many ms though nothing happens (a countdown). */
void app_again(struct app *a, int64_t in_ms);
/* The bottom row's sentence, until the next key. level: 0 plain, 1 ok, 2 warn, 3 error. */
BG_PRINTF(3, 4) void app_say(struct app *a, int level, const char *fmt, ...);

/* "3 pending, oldest 1:42"; for every screen. */
void app_pending_words(const struct app *a, char *out, size_t n);

bool app_ascii(const struct app *a); /* no UTF-8 on this terminal */

/* view_approval.c */
struct approval;
struct approval *app_approval(struct app *a);
void approval_open(struct app *a, void *state, uint64_t id);
/* view_help.c: over everything; scroll is the caller's. */
void help_draw(struct ui_surface s, const struct view_ops *v,
               const struct ui_keymap *global, int *scroll);

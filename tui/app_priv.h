/* SPDX-License-Identifier: MIT */
/* Shared by app.c (the model and frames in time), app_keys.c and compose.c (the frame). */
#pragma once

#include "tui/app.h"
#include "tui/kit/field.h"

#define APP_MIN_W 60
#define APP_MIN_H 16
#define APP_SIGNALS 7

struct app {
    struct bg_loop *loop;
    struct app_opts o;
    struct ui_term *term;
    struct ui_input input;
    struct model model;
    enum view_id view;
    void *state[VIEW_COUNT_];

    bool online, was_online, listed;
    int64_t clock_offset; /* the server's wall clock minus ours */
    int64_t arm_ms;
    char *provider;
    bool provider_known, provider_ok;
    bool distrusted; /* the policy file */

    bool help;
    int help_scroll;
    bool command_on;
    struct ui_field command;
    bool quit_asked;
    bool mouse;
    bool focused; /* the terminal said so; unknown = not */
    uint64_t rung;
    char message[BG_ERROR_MSG_MAX + 96];
    int message_level;

    struct bg_poll *poll;
    struct bg_signal *signals[APP_SIGNALS];
    struct bg_timer *esc_timer, *frame_timer, *again_timer;
    struct bg_idle *prepare;
    struct bg_child *notifier;
    bool dirty, key_dirty, frame_due;
    int64_t drawn_ms, again_ms, last_key_ms;
    bool done;
    int exit_code;
};

extern const struct ui_keymap app_global_keys;
extern const struct view_ops *const app_views[VIEW_COUNT_];

bool app_small(const struct app *a);
bool app_covered(const struct app *a); /* something lies over the view */
void app_mouse(struct app *a, bool on);
BG_CHECK bool app_theme(struct app *a, const char *name, struct bg_error *err);
void app_draw(struct app *a);
void app_finish(struct app *a, int code);
void app_suspend(struct app *a);
/* app_keys.c */
void app_on_tty(struct bg_poll *p, int fd, unsigned events, void *data);
void app_on_esc_timer(struct bg_timer *t, void *data);
void app_key(struct app *a, const struct ui_event *ev); /* through the global table */
/* compose.c */
void app_compose(struct app *a, const struct view_ops *const *views);
void app_command_event(struct app *a, const struct ui_event *ev);

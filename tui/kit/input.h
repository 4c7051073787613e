/* SPDX-License-Identifier: MIT */
/*
 * Bytes of the terminal to events, pure: keys, pastes, focus, mouse and answers to our
 * questions. Read by us and not by curses, because an approval depends on what arrived
 * together: several keys in one read are a paste or typed ahead, never an answer.
 */
#pragma once

#include "core/base/buf.h"

enum {
    UI_KEY_ENTER = 0x110000, /* past Unicode */
    UI_KEY_TAB,
    UI_KEY_BACKTAB,
    UI_KEY_ESC,
    UI_KEY_BACKSPACE,
    UI_KEY_DELETE,
    UI_KEY_UP,
    UI_KEY_DOWN,
    UI_KEY_LEFT,
    UI_KEY_RIGHT,
    UI_KEY_HOME,
    UI_KEY_END,
    UI_KEY_PGUP,
    UI_KEY_PGDN,
    UI_KEY_F1,
    UI_KEY_OTHER, /* a known form without a meaning here */
};
#define UI_CTRL(c) ((uint32_t)(c)&0x1f)

#define UI_PASTE_MAX 65536
/* A key this soon after the one before was not decided on by a person. */
#define UI_BURST_MS 20
/* How long a lone ESC waits for the rest of a sequence. */
#define UI_ESC_MS 25
/* A paste whose end never comes. */
#define UI_PASTE_MS 2000

enum ui_event_type {
    UI_EV_KEY,
    UI_EV_PASTE,
    UI_EV_FOCUS,
    UI_EV_MOUSE,
    UI_EV_SYNC, /* the terminal knows synchronized output (on) or not */
};

struct ui_event {
    enum ui_event_type type;
    uint32_t key; /* a code point, UI_CTRL(c) or UI_KEY_* */
    bool alt;
    bool burst; /* set by the reader, see UI_BURST_MS */
    bool on;    /* focus gained; sync known; mouse pressed */
    int button; /* mouse: 0 left, 64 wheel up, 65 wheel down */
    int y, x;
    const char *text; /* paste, borrowed for the call */
    size_t len;
};

struct ui_input {
    int state;
    char seq[64]; /* of a control sequence, after ESC [ */
    size_t n;
    char utf8[4];
    size_t utf8_n, utf8_need;
    struct bg_buf paste;
    size_t tail; /* how much of the end mark has been seen */
};

typedef void (*ui_event_fn)(void *data, const struct ui_event *ev);

void ui_input_init(struct ui_input *in);
void ui_input_free(struct ui_input *in);
void ui_input_feed(struct ui_input *in, const char *p, size_t n, ui_event_fn fn,
                   void *data);
/* Milliseconds after which ui_input_timeout is due if nothing more comes; 0 = never. */
int ui_input_wait(const struct ui_input *in);
void ui_input_timeout(struct ui_input *in, ui_event_fn fn, void *data);

/* SPDX-License-Identifier: MIT */
/* Shared by the two files of the approval view: what it shows, and what it decides. */
#pragma once

#include "core/client/review.h"
#include "tui/app.h"
#include "tui/gate.h"
#include "tui/kit/field.h"
#include "tui/kit/pager.h"

enum approval_box { BOX_NONE, BOX_DIGITS, BOX_REASON };

struct approval {
    uint64_t id;    /* in front; 0 = nothing */
    uint64_t asked; /* approval.get of this one is under way; 0 = of none */
    struct bg_review *doc;
    char trouble[BG_ERROR_MSG_MAX]; /* why there is no document */
    char over[256];                 /* how it ended, once it has */

    struct ui_field_src *fields; /* the document's, and the request's facts as the last */
    size_t n;                    /* without the facts */
    char **field_notes;          /* "38 lines, 1204 bytes" */
    char *facts;                 /* text of the last field */
    struct ui_pager code, info;  /* info: the facts alone, beside the code */
    bool wide;                   /* as drawn last */
    bool info_focus;

    struct gate gate;
    enum approval_box box;
    struct ui_field field; /* of the box */
    int preset;
    bool wrong_digits;
};

/* What the key table's words mean. */
enum approval_act {
    ACT_APPROVE = 1,
    ACT_DENY,
    ACT_REASON,
    ACT_NEXT,
    ACT_PREV,
    ACT_PANE,
    ACT_DOWN,
    ACT_UP,
    ACT_PAGE_DOWN,
    ACT_PAGE_UP,
    ACT_FIRST,
    ACT_LAST,
    ACT_UNSEEN,
};

/* view_approval.c */
bool approval_seen_all(struct approval *v);
bool approval_unseen(struct approval *v, struct ui_unseen *u, bool *in_info);
void approval_load(struct app *a, struct approval *v);
/* approval_keys.c */
void approval_act(struct app *a, void *state, int action, const struct ui_event *ev);
bool approval_event(struct app *a, void *state, const struct ui_event *ev);
void approval_front(struct app *a, void *state);
void approval_step(struct app *a, struct approval *v, int by);
void approval_draw_box(struct approval *v, struct ui_surface whole);

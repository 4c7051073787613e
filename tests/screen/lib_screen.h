/* SPDX-License-Identifier: MIT */
/*
 * The console in this process: app on a pty, libvterm on its other side, a scripted server
 * behind the link. Time stands still unless a test moves it. Saved screens are text files
 * in tests/screen/expect; SCREEN_UPDATE=1 writes them.
 */
#pragma once

#include <pthread.h>
#include <vterm.h>

#include "core/base/json.h"
#include "tests/test.h"
#include "tui/app.h"

#define SCREEN_WALL INT64_C(1796053320000) /* the clock of every saved screen */

struct screen {
    struct bg_loop *loop;
    struct app *app;
    VTerm *vt;
    VTermScreen *vts;
    int master, slave;
    pthread_t reader; /* or a full pty would stop the console for ever */
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct bg_buf fresh; /* under lock: read, not looked at yet */
    int rows, cols;
    size_t bytes;      /* written by the console so far */
    struct bg_buf raw; /* the same bytes; cleared by the test */
    cJSON *requests;   /* approval.list and get: full rows */
    cJSON *sessions;
    cJSON *decided;         /* params of every approval.decide, in order */
    struct bg_error refuse; /* if set, decide fails with it */
    bool hold;              /* decide is not answered */
    char term[32];
    bool no_color;
    enum ui_border border;
};

/* Opens with what requests and sessions hold by then. */
struct screen *screen_new(int rows, int cols);
void screen_open(struct screen *s);
void screen_free(struct screen *s);
/* Turns the loop until nothing is left to do. */
void screen_settle(struct screen *s);
void screen_type(struct screen *s, const char *keys);  /* one key a read, as a person */
void screen_burst(struct screen *s, const char *keys); /* all in one write */
void screen_tick(struct screen *s, int64_t ms);        /* both clocks; then settles */
void screen_size(struct screen *s, int rows, int cols);
bool screen_has(struct screen *s, const char *words);
char *screen_text(struct screen *s); /* malloc'ed */
/* Compares with tests/screen/expect/NAME.txt. */
void screen_expect(struct screen *s, const char *name);

/* A request's row as approval.get gives it, with the right hash. state "pending". */
cJSON *screen_request(int64_t id, const char *session, const char *language,
                      const char *code, size_t len, const char *const *hazards);
cJSON *screen_exec(int64_t id, const char *session, const char *const *argv,
                   const char *const *env);
cJSON *screen_session(const char *id, const char *state, const char *network);
void screen_event(struct screen *s, const char *topic, const char *type, const cJSON *row);
const char *screen_sha(const cJSON *row);
size_t screen_decisions(const struct screen *s);
const char *screen_verb(const struct screen *s, size_t i);

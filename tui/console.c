/* SPDX-License-Identifier: MIT */
/* Connects in line mode, so that what goes wrong is said plainly; then takes the screen. */
#include "tui/console.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tui/linear.h"
#include "tui/link.h"

enum { EXIT_FAILED = 1 };

static void on_connected(void *data, const cJSON *hello)
{
    app_connected(data, hello);
}

static void on_event(void *data, const char *topic, const char *type, const cJSON *row)
{
    app_event(data, topic, type, row);
}

static void on_disconnected(void *data, const struct bg_error *err)
{
    app_disconnected(data, err);
}

static const struct link_events app_events = {on_connected, on_event, on_disconnected};

static enum ui_border border_of(const char *word)
{
    return !strcmp(word, "ascii")  ? UI_BORDER_ASCII
           : !strcmp(word, "line") ? UI_BORDER_LINE
                                   : UI_BORDER_ROUND;
}

static int run_screen(struct bg_loop *loop, struct link *link, const struct console_opts *o,
                      struct bg_error *err)
{
    const char *no_color = getenv("NO_COLOR");
    struct app_opts ao = {
        .in = STDIN_FILENO,
        .out = STDOUT_FILENO,
        .term = getenv("TERM"),
        .no_color = no_color && *no_color,
        .theme = o->theme,
        .border = border_of(o->border),
        .mouse = o->mouse,
        .bell = o->bell,
        .notify = o->notify,
        .config_dir = o->paths->config,
        .link = {link_call, link},
    };
    struct app *a = app_new(loop, &ao, err);
    if (!a)
        return EXIT_FAILED;
    link_begin(link, &app_events, a);
    while (!app_done(a)) {
        bg_loop_turn(loop, -1);
        link_poll(link);
    }
    int code = app_exit_code(a);
    link_close(link); /* first: its answers go to the views */
    app_free(a);
    return code;
}

static bool wants_lines(const struct console_opts *o)
{
    const char *term = getenv("TERM");
    return o->linear || !term || !*term || !strcmp(term, "dumb") || !isatty(STDIN_FILENO) ||
           !isatty(STDOUT_FILENO);
}

int console_run(const struct console_opts *o, struct bg_error *err)
{
    setlocale(LC_ALL, "");
    struct bg_loop *loop = bg_loop_new();
    struct link *link = link_open(loop, o->paths, "boxgate-console", err);
    int code = EXIT_FAILED;
    if (link && wants_lines(o))
        code = linear_run(loop, link);
    else if (link)
        code = run_screen(loop, link, o, err);
    bg_loop_free(loop);
    return code;
}

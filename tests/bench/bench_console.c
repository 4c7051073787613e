/* SPDX-License-Identifier: MIT */
/*
 * Figures of the console: building and writing a frame, opening a megabyte for review, a
 * key under a flood of events. The terminal is a pty that a thread reads.
 */
#include <locale.h>
#include <pthread.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "tui/app_priv.h"
#include "tui/kit/pager.h"

#define FRAMES 300

/* A row of tests/bench/run's table. */
static void tell(const char *what, double bar_ms, double ms)
{
    printf("%s\t<= %.0f ms\t%.2f ms\t%s\n", what, bar_ms, ms, ms <= bar_ms ? "ok" : "over");
    fflush(stdout);
}

static void *swallow(void *data)
{
    char buf[65536];
    while (read(*(int *)data, buf, sizeof buf) > 0)
        ;
    return NULL;
}

static void no_server(void *data BG_UNUSED, const char *method BG_UNUSED, cJSON *params,
                      bg_rpc_fn cb BG_UNUSED, void *cb_data BG_UNUSED)
{
    cJSON_Delete(params);
}

static cJSON *request(int id)
{
    cJSON *o = bg_jo();
    bg_jset_int(o, "id", id);
    bg_jset_int(o, "rev", 1);
    bg_jset_str(o, "state", "pending");
    bg_jset_str(o, "session", id % 2 ? "job-1" : "nightly-eval");
    bg_jset_str(o, "kind", "run_code");
    bg_jset_str(o, "language", "python");
    bg_jset_str(o, "firstLine", "import os, subprocess, base64");
    bg_jset_bool(o, "high", id % 3 == 0);
    bg_jset_time(o, "requestedAt", bg_wall_ms() - id * 1000);
    bg_jset_time(o, "expiresAt", bg_wall_ms() + 600000);
    return o;
}

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Every frame shows other times, ages and rows, as in a busy minute. */
static void frames(struct app *a, int rows, int cols, double bar)
{
    int64_t us[FRAMES];
    for (int i = 0; i < FRAMES; i++) {
        bg_autojson cJSON *r = request(1000 + i);
        app_event(a, "approval", "new", r);
        int64_t begin = bg_mono_us();
        app_draw(a);
        us[i] = bg_mono_us() - begin;
    }
    qsort(us, FRAMES, sizeof *us, by_size);
    char what[64];
    snprintf(what, sizeof what, "console: frame at %dx%d, p99", cols, rows);
    tell(what, bar, (double)us[FRAMES * 99 / 100] / 1000);
}

static void terminal(int rows, int cols, double bar)
{
    int master, slave;
    pthread_t reader;
    struct winsize ws = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    struct bg_error err = {0};
    if (openpty(&master, &slave, NULL, NULL, &ws) ||
        pthread_create(&reader, NULL, swallow, &master))
        return;
    struct bg_loop *loop = bg_loop_new();
    struct app_opts o = {.in = slave,
                         .out = slave,
                         .term = "xterm-256color",
                         .theme = "dark",
                         .link = {no_server, NULL}};
    struct app *a = app_new(loop, &o, &err);
    if (a) {
        bg_autojson cJSON *hello = bg_jo();
        app_connected(a, hello);
        frames(a, rows, cols, bar);
        app_free(a);
    } else {
        fprintf(stderr, "bench_console: %s\n", err.msg);
    }
    bg_loop_free(loop);
    close(slave);
    pthread_join(reader, NULL);
    close(master);
}

static void megabyte(void)
{
    size_t n = 0, cap = 1u << 20;
    bg_autofree char *code = bg_xmalloc(cap);
    while (n + 16 < cap)
        n += (size_t)snprintf(code + n, cap - n, "x = %d\n", (int)(n % 997));
    struct ui_grid g = {0};
    struct ui_pager p;
    struct ui_field_src f = {
        .label = "code", .p = code, .n = n, .numbers = true, .lang = UI_LANG_PYTHON};
    ui_grid_size(&g, 40, 120);
    int64_t begin = bg_mono_us();
    ui_pager_init(&p, &f, 1, false);
    ui_pager_draw(&p, ui_whole(&g), 1, true);
    tell("console: a review of 1 MiB opens", 100, (double)(bg_mono_us() - begin) / 1000);
    ui_pager_to(&p, p.rows / 2);
    begin = bg_mono_us();
    ui_pager_draw(&p, ui_whole(&g), 1, true);
    tell("console: a screen in its middle", 2, (double)(bg_mono_us() - begin) / 1000);
    ui_pager_free(&p);
    ui_seen_free(&f.seen);
    ui_grid_free(&g);
}

int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    terminal(40, 120, 2);
    terminal(80, 300, 8);
    megabyte();
    return 0;
}

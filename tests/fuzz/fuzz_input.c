/* SPDX-License-Identifier: MIT */
/*
 * The terminal's bytes: any cut gives the same events, what is in a paste gives no key, and
 * after the time-out every state is the first one again.
 */
#include <stdlib.h>

#include "tui/kit/field.h"
#include "tui/kit/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct tally {
    uint64_t hash;
    struct ui_field field;
};

static void require(bool what)
{
    if (!what)
        abort();
}

static void mix(struct tally *t, uint64_t v)
{
    t->hash = (t->hash ^ v) * UINT64_C(1099511628211);
}

static void take(void *data, const struct ui_event *ev)
{
    struct tally *t = data;
    mix(t, ev->type);
    mix(t, ev->key);
    mix(t, ev->alt);
    mix(t, (uint64_t)ev->button << 32 | (uint64_t)(ev->x + ev->y));
    for (size_t i = 0; i < ev->len; i++)
        mix(t, (unsigned char)ev->text[i]);
    require(ev->type != UI_EV_PASTE || ev->len <= UI_PASTE_MAX);
    require(ev->type != UI_EV_KEY || (ev->key <= UI_KEY_OTHER && ev->len == 0));
    ui_field_event(&t->field, ev);
    require(t->field.len <= t->field.cap && t->field.at <= t->field.len);
    require(t->field.text[t->field.len] == '\0');
}

static uint64_t run(const char *p, size_t n, size_t step)
{
    struct ui_input in;
    struct tally t = {.hash = 1};
    ui_input_init(&in);
    ui_field_init(&t.field, 32);
    for (size_t at = 0; at < n; at += step)
        ui_input_feed(&in, p + at, step < n - at ? step : n - at, take, &t);
    if (ui_input_wait(&in))
        ui_input_timeout(&in, take, &t);
    require(ui_input_wait(&in) == 0);
    ui_input_free(&in);
    ui_field_free(&t.field);
    return t.hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    uint64_t whole = run(p, size, size ? size : 1);
    require(run(p, size, 1) == whole && run(p, size, 3) == whole);
    return 0;
}

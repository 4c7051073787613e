/* SPDX-License-Identifier: MIT */
/*
 * What the sources of this folder share. Every uv handle is the first member of its owner
 * and handle->data points at that owner, so one close callback frees them all; an owner
 * lives until that callback, which is what makes freeing inside one's own callback safe.
 */
#pragma once

#include <uv.h>

#include "core/loop/loop.h"

struct deferred {
    struct deferred *next;
    void (*fn)(void *data);
    void *data;
};

struct bg_loop {
    uv_loop_t uv;
    uv_idle_t idle;         /* runs what was deferred; active only while there is some */
    uv_timer_t turn_timer;  /* bounds bg_loop_turn */
    struct deferred *first; /* in order */
    struct deferred **last; /* where the next one is hooked in */
    bool inside;            /* uv_run is on the stack */
    bool in_timer;          /* a timer's callback is on the stack */
    bool running;           /* by bg_loop_run */
    bool stop_asked;        /* before bg_loop_run began */
};

/* A mistake of ours that can't be carried on from: says so on stderr and aborts. */
void bg_loop_panic(const char *what, int uv_code) __attribute__((noreturn));
/* Closes a handle whose data is its owner; the owner's memory goes in the close callback.
 */
void bg_loop_close_handle(uv_handle_t *h);

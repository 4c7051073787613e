/* SPDX-License-Identifier: MIT */
/* A fake guest that is linked before each test, and commands that it has taken. */
#pragma once

#include "tests/unit/guest/fake_guest.h"

static struct fake f;
static struct told t;

static inline int setup(void **state)
{
    if (fake_setup(state))
        return -1;
    listen_for(getpid(), NULL);
    fake_link(&f);
    return 0;
}

static inline int teardown(void **state)
{
    close(f.fd);
    return fake_teardown(state);
}

/* Starts a command without input and lets the guest take its EXEC and STDIN frames. */
static inline uint32_t run(const struct bg_exec_spec *spec)
{
    uint32_t id = bg_exec_id(start(spec, &t));
    fake_expect(&f, GP_EXEC);
    assert_int_equal(f.h.id, id);
    fake_expect(&f, GP_STDIN);
    assert_int_equal(f.h.flags, GP_F_EOF);
    return id;
}

static inline uint32_t run_live(const struct bg_exec_spec *spec)
{
    uint32_t id = run(spec);
    fake_started(&f, id);
    return id;
}

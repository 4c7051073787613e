/* SPDX-License-Identifier: MIT */
/* Every row of the table, and that nothing else moves. */
#include "core/approval/machine.h"
#include "core/base/mem.h"
#include "tests/test.h"

/* Written by hand from contract.md 4, not taken from the table under test. */
static const char *const allowed[] = {
    "received prepare preparing",  "received cancel cancelled",
    "received deny denied",        "preparing unprepared failed",
    "preparing ask pending",       "preparing approve approved",
    "preparing deny denied",       "preparing cancel cancelled",
    "pending approve approved",    "pending deny denied",
    "pending expire expired",      "pending cancel cancelled",
    "approved run running",        "approved deny denied",
    "approved expire expired",     "approved cancel cancelled",
    "running done done",           "running failed failed",
    "running timed_out timed_out", "running killed killed",
    "running lost lost",           "running interrupted interrupted",
};

static const char *target(const char *from, const char *event)
{
    char key[64];
    int n = snprintf(key, sizeof key, "%s %s ", from, event);
    for (size_t i = 0; i < bg_countof(allowed); i++)
        if (strncmp(allowed[i], key, (size_t)n) == 0)
            return allowed[i] + n;
    return NULL;
}

static void every_pair_moves_as_listed_or_not_at_all(void **state)
{
    (void)state;
    size_t moved = 0;
    for (int s = 0; s < BG_RS_COUNT_; s++)
        for (int ev = 0; ev < BG_RE_COUNT_; ev++) {
            enum bg_request_state from = (enum bg_request_state)s, to = from;
            enum bg_request_event event = (enum bg_request_event)ev;
            const char *want =
                target(bg_request_state_name(from), bg_request_event_name(event));
            bool ok = bg_request_move(&to, event);
            if (ok != (want != NULL))
                fail_msg("%s + %s", bg_request_state_name(from),
                         bg_request_event_name(event));
            assert_string_equal(bg_request_state_name(to),
                                want ? want : bg_request_state_name(from));
            moved += ok;
        }
    assert_int_equal(moved, bg_countof(allowed));
}

static void final_states_are_final(void **state)
{
    (void)state;
    for (int s = 0; s < BG_RS_COUNT_; s++)
        assert_int_equal(bg_request_state_final((enum bg_request_state)s),
                         s > BG_RS_RUNNING);
}

/* Running is reached from approved alone, approved only by a decision. */
static void there_is_one_way_to_run(void **state)
{
    (void)state;
    for (int s = 0; s < BG_RS_COUNT_; s++)
        for (int ev = 0; ev < BG_RE_COUNT_; ev++) {
            enum bg_request_state to = (enum bg_request_state)s;
            if (!bg_request_move(&to, (enum bg_request_event)ev))
                continue;
            if (to == BG_RS_RUNNING)
                assert_true(s == BG_RS_APPROVED && ev == BG_RE_RUN);
            if (to == BG_RS_APPROVED)
                assert_int_equal(ev, BG_RE_APPROVE);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_moves_as_listed_or_not_at_all),
        cmocka_unit_test(final_states_are_final),
        cmocka_unit_test(there_is_one_way_to_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

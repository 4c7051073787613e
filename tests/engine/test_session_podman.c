/* SPDX-License-Identifier: MIT */
/* The suite of sessions on a real Podman. */
#include "tests/test.h"

#define BOX_ENGINE "podman"
#include "tests/unit/session/suite_ends.h"
#include "tests/unit/session/suite_results.h"

int main(void)
{
    int failed = cmocka_run_group_tests(session_results, set_up, tear_down);
    return failed + cmocka_run_group_tests(session_ends, set_up, tear_down);
}

/* SPDX-License-Identifier: MIT */
/* Sessions on local sandboxes: every end. */
#include "tests/test.h"
#include "tests/unit/session/suite_ends.h"

int main(void)
{
    return cmocka_run_group_tests(session_ends, set_up, tear_down);
}

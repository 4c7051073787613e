/* SPDX-License-Identifier: MIT */
/* Sessions on local sandboxes: results and creation. */
#include "tests/test.h"
#include "tests/unit/session/suite_results.h"

int main(void)
{
    return cmocka_run_group_tests(session_results, set_up, tear_down);
}

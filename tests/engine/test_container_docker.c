/* SPDX-License-Identifier: MIT */
/* What only containers have, on a real Docker. */
#include "tests/test.h"

#define BOX_ENGINE "docker"
#include "tests/engine/container_suite.h"

int main(void)
{
    return cmocka_run_group_tests(container_suite, open_box, close_box);
}

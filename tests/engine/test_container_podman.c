/* SPDX-License-Identifier: MIT */
/* What only containers have, on a real Podman. */
#include "tests/test.h"

#define BOX_ENGINE "podman"
#include "tests/engine/container_suite.h"

int main(void)
{
    return cmocka_run_group_tests(container_suite, open_box, close_box);
}

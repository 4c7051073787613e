/* SPDX-License-Identifier: MIT */
/* Include first in every unit test: cmocka's fixed include order and line-buffered output.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* LeakSanitizer exits without flushing. */
__attribute__((constructor)) static void test_unbuffered(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
}

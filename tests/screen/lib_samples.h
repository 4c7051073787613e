/* SPDX-License-Identifier: MIT */
/* The requests that the saved screens show. */
#pragma once

#include "tests/screen/lib_screen.h"

cJSON *sample_high(int64_t id);             /* bidi controls, 23 lines */
cJSON *sample_low(int64_t id);              /* one line, no hazard */
cJSON *sample_lines(int64_t id, int lines); /* no hazard, that many lines */
void sample_fill(struct screen *s);         /* four sessions, three requests */

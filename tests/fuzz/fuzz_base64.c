/* SPDX-License-Identifier: MIT */
/* Any bytes survive the way there and back, and a text that decodes is the only one that
 * does. */
#include <stdlib.h>

#include "core/base/digest.h"
#include "core/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bg_error err = {0};
    bg_autobuf struct bg_buf out, back;
    bg_buf_init(&out, size);
    bg_buf_init(&back, size);

    struct bg_str in = {(const char *)data, size};
    bool ok = bg_base64_decode(in, &out, &err);
    require(ok == (err.code == BG_OK));
    require(ok || out.len == 0);
    bg_autofree char *canonical = bg_base64(out.data, out.len);
    require(!ok || bg_str_eq(bg_str_from(canonical), in));

    bg_autofree char *text = bg_base64(data, size);
    require(bg_base64_decode(bg_str_from(text), &back, &err));
    require(bg_str_eq(bg_buf_str(&back), in));
    return 0;
}

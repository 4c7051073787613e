/* SPDX-License-Identifier: MIT */
/* Any bytes as config.yaml: what is accepted must print, read back and print the same. */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *printed(const struct bg_config *c)
{
    struct bg_buf out;
    bg_buf_init(&out, (size_t)BG_YAML_MAX * 64);
    bg_config_print(c, &out);
    if (bg_buf_overflowed(&out))
        abort();
    return bg_buf_steal(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bg_error err = {0};
    bg_digest_init();
    struct bg_config *c = bg_config_parse("fuzz", (const char *)data, size, &err);
    if (!c) {
        if (err.code == BG_OK)
            abort();
        return 0;
    }
    bg_autofree char *once = printed(c);
    bg_config_free(c);
    if (strlen(once) >
        BG_YAML_MAX) /* every default written out can pass the reader's cap */
        return 0;
    c = bg_config_parse("printed", once, strlen(once), &err);
    if (!c)
        abort();
    bg_autofree char *twice = printed(c);
    bg_config_free(c);
    if (strcmp(once, twice))
        abort();
    return 0;
}

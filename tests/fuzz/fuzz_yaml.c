/* SPDX-License-Identifier: MIT */
/* Any bytes give a tree within the limits, or an error that names the file. */
#include <stdlib.h>

#include "core/base/utf8.h"
#include "core/base/values.h"
#include "core/base/yaml_doc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void walk(const struct bg_yaml_doc *d, const struct bg_yaml *n, int depth)
{
    static const char *const known[] = {"memoryMb", "version", "image", NULL};
    struct bg_error err = {0};
    const char *s = NULL;
    bool b = false;
    int64_t v = 0;
    require(n->line > 0 && n->col > 0);
    if (n->kind == BG_YAML_SCALAR) {
        require(strlen(n->value) == n->len && n->count == 0 &&
                bg_utf8_valid(n->value, n->len));
        bool yes = bg_yaml_bool(d, n, &b, &err),
             number = bg_yaml_int(d, n, -99, 99, &v, &err);
        require(!(yes && number) && (!number || (v >= -99 && v <= 99)));
        require(bg_yaml_str(d, n, &s, &err) || !n->quoted);
        return;
    }
    require(depth < BG_YAML_DEPTH_MAX && !bg_yaml_str(d, n, &s, &err));
    bool all = bg_yaml_known(d, n, known, &err);
    require(!all || n->count <= 3);
    for (size_t i = 0; i < n->count; i++) {
        const struct bg_yaml *item = n->items[i];
        require((item->key != NULL) == (n->kind == BG_YAML_MAP));
        if (item->key && n->count < 100)
            require(bg_yaml_get(n, item->key) == item);
        walk(d, item, depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bg_error err = {0};
    struct bg_yaml_doc *d = bg_yaml_parse("f.yaml", (const char *)data, size, &err);
    require((d != NULL) == (err.code == BG_OK));
    if (!d) {
        require(!strncmp(err.msg, "f.yaml:", 7) && bg_utf8_valid(err.msg, strlen(err.msg)));
        return 0;
    }
    if (d->root)
        walk(d, d->root, 0);
    bg_yaml_free(d);
    return 0;
}

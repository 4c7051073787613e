/* SPDX-License-Identifier: MIT */
/*
 * A submit's params: whatever is accepted obeys the caps, hashes, scans, and is the same as
 * itself. The input is the raw JSON line's params.
 */
#include <stdlib.h>
#include <string.h>

#include "core/approval/request.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/base/values.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check(const struct bg_body *b)
{
    must(b->code_len <= BG_CODE_MAX && b->input_len <= BG_INPUT_MAX);
    must(!b->code ||
         (strlen(b->code) == b->code_len && bg_utf8_valid(b->code, b->code_len)));
    must(!b->argv || (b->argv[0] && *b->argv[0] && bg_strv_len(b->argv) <= BG_ARGS_MAX));
    must(!b->cwd || *b->cwd != '/');
    must((b->kind == BG_REQ_EXEC) == (b->argv != NULL));
    must((b->kind == BG_REQ_RUN_CODE) == (b->code != NULL && b->language != NULL));
    for (char *const *e = b->env; e && *e; e++)
        must(strchr(*e, '=') != NULL && **e != '=');
    must(bg_body_same(b, b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bg_error err = {0};
    bg_digest_init();
    bg_autojson cJSON *j = bg_json_parse((const char *)data, size, BG_JSON_LINE_MAX, &err);
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(j, "kind");
    if (!cJSON_IsString(kind))
        return 0;
    struct bg_body *b = bg_body_parse(kind->valuestring, j, &err);
    if (!b) {
        must(err.code != BG_OK && err.msg[0]);
        return 0;
    }
    check(b);
    struct bg_binding bind = {.uid = 1, .argv = b->argv, .timeout_ms = b->timeout_ms};
    struct bg_facts facts = {.network = "none"};
    struct bg_bound bound;
    bg_bound_build(&bound, b, &bind);
    struct bg_sha256 one = bg_bound_sha256(&bound, false),
                     two = bg_bound_sha256(&bound, true);
    must(!bg_sha256_eq(&one, &two)); /* the instance field is there */
    bg_bound_free(&bound);
    struct bg_hazards *h = bg_xmalloc(sizeof *h);
    bg_hazards_find(h, b, &bind, &facts, NULL, false);
    must(h->n <= BG_NOTES_MAX && h->bits & BG_HZ_BIT(BG_HZ_WEAK_SECURITY));
    free(h);
    bg_body_free(b);
    return 0;
}

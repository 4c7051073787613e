/* SPDX-License-Identifier: MIT */
/*
 * What the strict scan lets through, jansson reads too, and both trees are the same: no two
 * readers may see different values. What we print passes the scan again and means the same.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/base/values.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void same(const cJSON *a, const json_t *b);

static void same_object(const cJSON *a, const json_t *b)
{
    size_t n = 0;
    for (const cJSON *c = a->child; c; c = c->next, n++)
        same(c, json_object_get(b, c->string));
    require(n == json_object_size(b));
}

static void same_array(const cJSON *a, const json_t *b)
{
    size_t n = 0;
    for (const cJSON *c = a->child; c; c = c->next, n++)
        same(c, json_array_get(b, n));
    require(n == json_array_size(b));
}

static void same(const cJSON *a, const json_t *b)
{
    require(b != NULL);
    if (cJSON_IsObject(a))
        same_object(a, b);
    else if (cJSON_IsArray(a))
        same_array(a, b);
    else if (cJSON_IsString(a))
        require(json_is_string(b) && strlen(a->valuestring) == json_string_length(b) &&
                !strcmp(a->valuestring, json_string_value(b)));
    else if (cJSON_IsNumber(a))
        require(json_is_number(b) && a->valuedouble == json_number_value(b));
    else if (cJSON_IsBool(a))
        require(json_is_boolean(b) && cJSON_IsTrue(a) == json_is_true(b));
    else
        require(cJSON_IsNull(a) && json_is_null(b));
}

static json_t *reference(const char *p, size_t n)
{
    return json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    struct bg_error err = {0};
    bool passes = bg_json_check(p, size, BG_JSON_HELLO_MAX, &err);
    require(passes == (err.code == BG_OK));
    require(bg_utf8_valid(err.msg, strlen(err.msg)));
    bg_autojson cJSON *j = bg_json_parse(p, size, BG_JSON_HELLO_MAX, &err);
    require(passes == (j != NULL));
    bg_autojson cJSON *big = bg_json_parse_big(p, size, BG_JSON_HELLO_MAX, &err);
    require(!j || cJSON_Compare(j, big, 1));
    if (!j)
        return 0;
    json_t *ref = reference(p, size);
    same(j, ref);
    json_decref(ref);

    bg_autofree char *one = bg_json_print(j);
    bg_autofree char *pretty = bg_json_print_pretty(j);
    bg_autojson cJSON *again = bg_json_parse(one, strlen(one), SIZE_MAX, NULL);
    bg_autojson cJSON *wide = bg_json_parse(pretty, strlen(pretty), SIZE_MAX, NULL);
    require(cJSON_Compare(j, again, 1) && cJSON_Compare(j, wide, 1));
    bg_autofree char *twice = bg_json_print(again);
    require(!strcmp(one, twice));
    ref = reference(one, strlen(one));
    same(j, ref);
    json_decref(ref);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Only for clang-tidy, which sees one file at a time: bg_fail() and its like return false
 * and nothing else, so after `return bg_fail(...)` no path goes on as if all were well; and
 * a JSON value that is something is not NULL. Included before every file but those of
 * core/base, which define these functions.
 */
#pragma once

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/yaml_doc.h"

#define bg_fail(...) (bg_fail(__VA_ARGS__), false)
#define bg_fail_v(...) (bg_fail_v(__VA_ARGS__), false)
#define bg_yaml_fail(...) (bg_yaml_fail(__VA_ARGS__), false)

#define cJSON_IsArray(x) ((x) && cJSON_IsArray(x))
#define cJSON_IsBool(x) ((x) && cJSON_IsBool(x))
#define cJSON_IsNumber(x) ((x) && cJSON_IsNumber(x))
#define cJSON_IsObject(x) ((x) && cJSON_IsObject(x))
#define cJSON_IsString(x) ((x) && cJSON_IsString(x))
#define cJSON_IsTrue(x) ((x) && cJSON_IsTrue(x))

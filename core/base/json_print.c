/* SPDX-License-Identifier: MIT */
/*
 * Printing a cJSON tree. cJSON's own printer keeps 15 digits of a number where it finds the
 * rest negligible, and follows the locale; records and counters need every digit and a
 * point.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/json.h"
#include "core/base/mem.h"

struct printer {
    struct bg_buf out;
    bool pretty;
};

static void put_line(struct printer *p, int depth)
{
    if (!p->pretty)
        return;
    bg_buf_putc(&p->out, '\n');
    for (int i = 0; i < depth; i++)
        bg_buf_puts(&p->out, "  ");
}

static void put_string(struct printer *p, const char *s)
{
    static const char plain[] = "\"\\\b\f\n\r\t", named[] = "\"\\bfnrt";
    bg_buf_putc(&p->out, '"');
    while (*s) {
        const char *at = s;
        while ((unsigned char)*s >= 0x20 && *s != '"' && *s != '\\')
            s++;
        bg_buf_put(&p->out, at, (size_t)(s - at));
        if (!*s)
            break;
        const char *esc = strchr(plain, *s);
        if (esc)
            bg_buf_printf(&p->out, "\\%c", named[esc - plain]);
        else
            bg_buf_printf(&p->out, "\\u%04x", (unsigned)*s);
        s++;
    }
    bg_buf_putc(&p->out, '"');
}

static void put_number(struct printer *p, double v)
{
    char text[40];
    if (!isfinite(v)) {
        bg_buf_puts(&p->out, "null");
        return;
    }
    if (fabs(v) <= 9007199254740992.0 && (double)(int64_t)v == v) {
        bg_buf_printf(&p->out, "%lld", (long long)v);
        return;
    }
    snprintf(text, sizeof text, "%.15g", v);
    if (strtod(text, NULL) != v)
        snprintf(text, sizeof text, "%.17g", v);
    /* printf and strtod share the locale; JSON has none. */
    for (char *c = text; *c; c++)
        if (!strchr("0123456789+-e", *c))
            *c = '.';
    bg_buf_puts(&p->out, text);
    /* Past 2^53 the other side takes no integer, but a fraction it does. */
    if (!strpbrk(text, ".e"))
        bg_buf_puts(&p->out, ".0");
}

static void put_value(struct printer *p, const cJSON *j, int depth);

static void put_children(struct printer *p, const cJSON *j, int depth)
{
    bool object = cJSON_IsObject(j);
    bg_buf_putc(&p->out, object ? '{' : '[');
    for (const cJSON *c = j->child; c; c = c->next) {
        put_line(p, depth + 1);
        if (object) {
            put_string(p, c->string);
            bg_buf_puts(&p->out, p->pretty ? ": " : ":");
        }
        put_value(p, c, depth + 1);
        if (c->next)
            bg_buf_putc(&p->out, ',');
    }
    if (j->child)
        put_line(p, depth);
    bg_buf_putc(&p->out, object ? '}' : ']');
}

static void put_value(struct printer *p, const cJSON *j, int depth)
{
    if (cJSON_IsString(j))
        put_string(p, j->valuestring);
    else if (cJSON_IsNumber(j))
        put_number(p, j->valuedouble);
    else if (cJSON_IsBool(j))
        bg_buf_puts(&p->out, cJSON_IsTrue(j) ? "true" : "false");
    else if (cJSON_IsObject(j) || cJSON_IsArray(j))
        put_children(p, j, depth);
    else if (cJSON_IsRaw(j))
        bg_buf_puts(&p->out, j->valuestring);
    else
        bg_buf_puts(&p->out, "null");
}

static char *print(const cJSON *j, bool pretty)
{
    struct printer p = {.pretty = pretty};
    bg_buf_init(&p.out, SIZE_MAX);
    put_value(&p, j, 0);
    if (bg_buf_overflowed(&p.out))
        abort(); /* memory is out: the buffer has no cap */
    return bg_buf_steal(&p.out);
}

char *bg_json_print(const cJSON *j)
{
    return print(j, false);
}

char *bg_json_print_pretty(const cJSON *j)
{
    return print(j, true);
}

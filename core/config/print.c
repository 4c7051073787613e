/* SPDX-License-Identifier: MIT */
/*
 * Writes a config as YAML that reads back as the same config. What could be taken for
 * something else, and every byte past ASCII, stands in double quotes with escapes, so the
 * output is also harmless on a terminal.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/config/fields.h"

static const void *at(const void *obj, size_t off)
{
    return (const char *)obj + off;
}

static bool plain(const char *s)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/@+-";
    if (!*s || s[strspn(s, safe)] || *s == '-' || *s == '@' || *s == '.')
        return false;
    for (size_t i = 0; i < bg_countof(words); i++)
        if (!strcasecmp(s, words[i]))
            return false;
    return true;
}

void cfg_put_scalar(struct bg_buf *b, const char *s)
{
    if (plain(s)) {
        bg_buf_puts(b, s);
        return;
    }
    bg_buf_putc(b, '"');
    for (size_t left = strlen(s); left;) {
        uint32_t cp;
        int used = bg_utf8_decode(s, left, &cp);
        if (used < 1) { /* only a caller that never read the value from a file gets here */
            cp = 0xfffd;
            used = 1;
        }
        if (cp == '"' || cp == '\\')
            bg_buf_printf(b, "\\%c", (char)cp);
        else if (cp == '\n')
            bg_buf_puts(b, "\\n");
        else if (cp >= 0x20 && cp < 0x7f)
            bg_buf_putc(b, (char)cp);
        else
            bg_buf_printf(b,
                          cp > 0xffff ? "\\U%08x"
                          : cp > 0xff ? "\\u%04x"
                                      : "\\x%02x",
                          (unsigned)cp);
        s += used;
        left -= (size_t)used;
    }
    bg_buf_putc(b, '"');
}

void cfg_put_list(struct bg_buf *b, char *const *v)
{
    bg_buf_putc(b, '[');
    for (size_t i = 0; v && v[i]; i++) {
        bg_buf_puts(b, i ? ", " : "");
        cfg_put_scalar(b, v[i]);
    }
    bg_buf_putc(b, ']');
}

void cfg_put_key(struct cfg_out *out, const char *key)
{
    for (int i = 0; i < out->depth; i++)
        bg_buf_puts(out->buf, "  ");
    cfg_put_scalar(out->buf, key);
    bg_buf_putc(out->buf, ':');
}

static void put_map(struct cfg_out *out, const char *key, char *const *v)
{
    cfg_put_key(out, key);
    if (!v || !v[0]) {
        bg_buf_puts(out->buf, " {}\n");
        return;
    }
    bg_buf_putc(out->buf, '\n');
    out->depth++;
    for (size_t i = 0; v[i]; i++) {
        const char *eq = strchr(v[i], '=');
        bg_autofree char *name = bg_xstrndup(v[i], (size_t)(eq - v[i]));
        cfg_put_key(out, name);
        bg_buf_putc(out->buf, ' ');
        cfg_put_scalar(out->buf, eq + 1);
        bg_buf_putc(out->buf, '\n');
    }
    out->depth--;
}

static void put_number(struct bg_buf *b, const struct cfg_field *f, int64_t v)
{
    if (v == BG_UNLIMITED)
        bg_buf_puts(b, "unlimited");
    else if (f->type == CFG_INT)
        bg_buf_printf(b, "%lld", (long long)v);
    else if (v % 100 == 0)
        bg_buf_printf(b, "%lld.%lld", (long long)v / 1000, (long long)v % 1000 / 100);
    else
        bg_buf_printf(b, "%lld.%03lld", (long long)v / 1000, (long long)v % 1000);
}

static void print_value(struct cfg_out *out, const struct cfg_field *f, const void *place)
{
    switch (f->type) {
    case CFG_INT:
    case CFG_CPUS:
        put_number(out->buf, f, *(const int64_t *)place);
        break;
    case CFG_BOOL:
        bg_buf_puts(out->buf, *(const bool *)place ? "true" : "false");
        break;
    case CFG_STR:
        cfg_put_scalar(out->buf, *(char *const *)place);
        break;
    case CFG_ENUM:
        bg_buf_puts(out->buf, f->words[*(const unsigned *)place]);
        break;
    case CFG_WORD:
        bg_buf_puts(out->buf, f->words[*(const bool *)place ? 1 : 0]);
        break;
    case CFG_LIST:
        cfg_put_list(out->buf, *(char **const *)place);
        break;
    case CFG_MAP:
    case CFG_GROUP:
    case CFG_OWN:
        break;
    }
}

void cfg_print(struct cfg_out *out, const struct cfg_field *fields, const void *obj)
{
    for (const struct cfg_field *f = fields; f->key; f++) {
        if (f->type == CFG_OWN) {
            if (f->print)
                f->print(out, f->key, obj);
        } else if (f->type == CFG_MAP) {
            put_map(out, f->key, *(char **const *)at(obj, f->off));
        } else if (f->type == CFG_GROUP) {
            cfg_put_key(out, f->key);
            bg_buf_putc(out->buf, '\n');
            out->depth++;
            cfg_print(out, f->fields, obj);
            out->depth--;
        } else {
            cfg_put_key(out, f->key);
            bg_buf_putc(out->buf, ' ');
            print_value(out, f, at(obj, f->off));
            bg_buf_putc(out->buf, '\n');
        }
    }
}

/* SPDX-License-Identifier: MIT */
/* Looking keys up and naming them. */
#include "tui/kit/keymap.h"

#include <stdio.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"

int ui_keymap_action(const struct ui_keymap *m, const struct ui_event *ev)
{
    if (ev->type != UI_EV_KEY || ev->alt)
        return 0;
    for (size_t i = 0; i < m->n; i++)
        for (int k = 0; k < UI_BINDING_KEYS; k++)
            if (m->rows[i].keys[k] && m->rows[i].keys[k] == ev->key)
                return m->rows[i].action;
    return 0;
}

const char *ui_key_name(uint32_t key, char out[12])
{
    static const char *const names[] = {
        "Enter", "Tab",   "S-Tab", "Esc", "Backspace", "Del",  "Up", "Down",
        "Left",  "Right", "Home",  "End", "PgUp",      "PgDn", "F1", "key"};
    if (key >= UI_KEY_ENTER && key - UI_KEY_ENTER < bg_countof(names)) {
        snprintf(out, 12, "%s", names[key - UI_KEY_ENTER]);
    } else if (key == ' ') {
        snprintf(out, 12, "Space");
    } else if (key < 0x20) {
        snprintf(out, 12, "^%c", (int)key + '@');
    } else {
        char utf8[4];
        int n = bg_utf8_encode(key, utf8);
        snprintf(out, 12, "%.*s", n, utf8);
    }
    return out;
}

void ui_binding_keys(const struct ui_binding *b, char *out, size_t n)
{
    size_t at = 0;
    out[0] = '\0';
    for (int k = 0; k < UI_BINDING_KEYS && b->keys[k] && at < n; k++) {
        char name[12];
        int w =
            snprintf(out + at, n - at, "%s%s", k ? " " : "", ui_key_name(b->keys[k], name));
        at += (size_t)w;
    }
}

int ui_hints(struct ui_surface s, int y, int x, int end, const struct ui_keymap *m)
{
    for (size_t i = 0; i < m->n; i++) {
        char name[12];
        const struct ui_binding *b = &m->rows[i];
        if (!b->hint)
            continue;
        ui_key_name(b->keys[0], name);
        int cols =
            bg_text_cols(name, strlen(name)) + 1 + bg_text_cols(b->hint, strlen(b->hint));
        if (x + cols > end)
            break;
        x = ui_text(s, y, x, UI_KEY, name);
        x = ui_text(s, y, x + 1, UI_MUTED, b->hint) + 2;
    }
    return x;
}

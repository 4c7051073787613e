/* SPDX-License-Identifier: MIT */
/* The state machine over the terminal's bytes; every state has room for every byte. */
#include "tui/kit/input.h"

#include <stdlib.h>

#include "core/base/utf8.h"

enum { GROUND, ESC, SS3, CSI, CSI_LONG, CSI_LINUX, STRING, STRING_ESC, PASTE };

static const char paste_end[] = "\033[201~";

void ui_input_init(struct ui_input *in)
{
    *in = (struct ui_input){0};
    bg_buf_init(&in->paste, UI_PASTE_MAX);
}

void ui_input_free(struct ui_input *in)
{
    bg_buf_free(&in->paste);
}

static void key(uint32_t k, bool alt, ui_event_fn fn, void *data)
{
    struct ui_event ev = {.type = UI_EV_KEY, .key = k, .alt = alt};
    fn(data, &ev);
}

/* ---- characters ---- */

static uint32_t control_key(unsigned char c)
{
    switch (c) {
    case '\r':
    case '\n':
        return UI_KEY_ENTER;
    case '\t':
        return UI_KEY_TAB;
    case 0x08:
    case 0x7f:
        return UI_KEY_BACKSPACE;
    default:
        return c;
    }
}

static void character(struct ui_input *in, unsigned char c, bool alt, ui_event_fn fn,
                      void *data)
{
    uint32_t cp;
    if (in->utf8_need) {
        if ((c & 0xc0) == 0x80) {
            in->utf8[in->utf8_n++] = (char)c;
            if (in->utf8_n < in->utf8_need)
                return;
            in->utf8_need = 0;
            if (bg_utf8_decode(in->utf8, in->utf8_n, &cp) > 0)
                key(cp, alt, fn, data);
            return;
        }
        in->utf8_need = 0; /* a cut character: dropped */
    }
    if (c < 0x80) {
        key(c < 0x20 || c == 0x7f ? control_key(c) : c, alt, fn, data);
    } else if (c >= 0xc2 && c < 0xf5) {
        in->utf8[0] = (char)c;
        in->utf8_n = 1;
        in->utf8_need = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    }
}

/* ---- sequences ---- */

static uint32_t letter_key(char c)
{
    switch (c) {
    case 'A':
        return UI_KEY_UP;
    case 'B':
        return UI_KEY_DOWN;
    case 'C':
        return UI_KEY_RIGHT;
    case 'D':
        return UI_KEY_LEFT;
    case 'F':
        return UI_KEY_END;
    case 'H':
        return UI_KEY_HOME;
    case 'P':
        return UI_KEY_F1;
    case 'Z':
        return UI_KEY_BACKTAB;
    default:
        return UI_KEY_OTHER;
    }
}

static uint32_t number_key(long n)
{
    switch (n) {
    case 1:
    case 7:
        return UI_KEY_HOME;
    case 4:
    case 8:
        return UI_KEY_END;
    case 3:
        return UI_KEY_DELETE;
    case 5:
        return UI_KEY_PGUP;
    case 6:
        return UI_KEY_PGDN;
    case 11:
        return UI_KEY_F1;
    default:
        return UI_KEY_OTHER;
    }
}

/* ESC [ < button ; x ; y M or m */
static void mouse(const char *seq, char last, ui_event_fn fn, void *data)
{
    char *end;
    struct ui_event ev = {.type = UI_EV_MOUSE, .on = last == 'M'};
    long b = strtol(seq + 1, &end, 10);
    long x = *end == ';' ? strtol(end + 1, &end, 10) : 0;
    long y = *end == ';' ? strtol(end + 1, &end, 10) : 0;
    if (*end || x < 1 || y < 1 || x > 10000 || y > 10000 || b < 0 || b > 255)
        return;
    ev.button = (int)b;
    ev.x = (int)x - 1;
    ev.y = (int)y - 1;
    fn(data, &ev);
}

static void csi_end(struct ui_input *in, char last, ui_event_fn fn, void *data)
{
    in->seq[in->n] = '\0';
    in->state = GROUND;
    if (in->n == 0 && (last == 'I' || last == 'O')) {
        struct ui_event ev = {.type = UI_EV_FOCUS, .on = last == 'I'};
        fn(data, &ev);
    } else if (in->seq[0] == '<' && (last == 'M' || last == 'm')) {
        mouse(in->seq, last, fn, data);
    } else if (last == 'y' && !strncmp(in->seq, "?2026;", 6)) {
        struct ui_event ev = {.type = UI_EV_SYNC,
                              .on = in->seq[6] == '1' || in->seq[6] == '2'};
        fn(data, &ev);
    } else if (last == '~' && !strcmp(in->seq, "200")) {
        in->state = PASTE;
        in->tail = 0;
        bg_buf_clear(&in->paste);
    } else if (last == '~') {
        key(number_key(strtol(in->seq, NULL, 10)), false, fn, data);
    } else if (in->n == 0 || in->seq[0] == '1') {
        key(letter_key(last), false, fn, data);
    }
    /* Anything else is an answer nobody asked for. */
}

static void csi(struct ui_input *in, unsigned char c, ui_event_fn fn, void *data)
{
    if (c == 0x1b) {
        in->state = ESC;
    } else if (c >= 0x40 && c <= 0x7e) {
        if (c == '[' && in->n == 0 && in->state == CSI)
            in->state = CSI_LINUX;
        else if (in->state == CSI_LONG)
            in->state = GROUND;
        else
            csi_end(in, (char)c, fn, data);
    } else if (c < 0x20 || c > 0x7e) {
        in->state = GROUND;
    } else if (in->n + 1 < sizeof in->seq) {
        in->seq[in->n++] = (char)c;
    } else {
        in->state = CSI_LONG;
    }
}

static void escape(struct ui_input *in, unsigned char c, ui_event_fn fn, void *data)
{
    in->n = 0;
    in->state = GROUND;
    if (c == '[')
        in->state = CSI;
    else if (c == 'O')
        in->state = SS3;
    else if (c == ']' || c == 'P' || c == '_' || c == '^')
        in->state = STRING;
    else if (c == 0x1b) {
        key(UI_KEY_ESC, false, fn, data);
        in->state = ESC;
    } else
        character(in, c, true, fn, data);
}

/* ---- paste ---- */

static void paste_done(struct ui_input *in, ui_event_fn fn, void *data)
{
    struct ui_event ev = {
        .type = UI_EV_PASTE, .text = in->paste.data, .len = in->paste.len};
    in->state = GROUND;
    fn(data, &ev);
    bg_buf_clear(&in->paste);
}

static void paste(struct ui_input *in, unsigned char c, ui_event_fn fn, void *data)
{
    if (c == (unsigned char)paste_end[in->tail]) {
        if (++in->tail == sizeof paste_end - 1)
            paste_done(in, fn, data);
        return;
    }
    bg_buf_add_some(&in->paste, paste_end, in->tail); /* it was text after all */
    in->tail = c == 0x1b;
    if (!in->tail)
        bg_buf_add_some(&in->paste, &c, 1);
}

/* ---- feeding ---- */

static void byte(struct ui_input *in, unsigned char c, ui_event_fn fn, void *data)
{
    switch (in->state) {
    case GROUND:
        if (c == 0x1b) {
            in->utf8_need = 0;
            in->state = ESC;
        } else {
            character(in, c, false, fn, data);
        }
        break;
    case ESC:
        escape(in, c, fn, data);
        break;
    case SS3:
        in->state = GROUND;
        key(letter_key((char)c), false, fn, data);
        break;
    case CSI:
    case CSI_LONG:
        csi(in, c, fn, data);
        break;
    case CSI_LINUX: /* ESC [ [ A is F1 on the Linux console */
        in->state = GROUND;
        key(c == 'A' ? UI_KEY_F1 : UI_KEY_OTHER, false, fn, data);
        break;
    case STRING:
        if (c == 0x1b)
            in->state = STRING_ESC;
        else if (c == 0x07)
            in->state = GROUND;
        break;
    case STRING_ESC:
        in->state = c == '\\' ? GROUND : STRING;
        break;
    default:
        paste(in, c, fn, data);
    }
}

void ui_input_feed(struct ui_input *in, const char *p, size_t n, ui_event_fn fn, void *data)
{
    for (size_t i = 0; i < n; i++)
        byte(in, (unsigned char)p[i], fn, data);
}

int ui_input_wait(const struct ui_input *in)
{
    return in->state == GROUND ? 0 : in->state == PASTE ? UI_PASTE_MS : UI_ESC_MS;
}

void ui_input_timeout(struct ui_input *in, ui_event_fn fn, void *data)
{
    if (in->state == ESC) {
        in->state = GROUND;
        key(UI_KEY_ESC, false, fn, data);
    } else if (in->state == PASTE) {
        paste_done(in, fn, data);
    } else {
        in->state = GROUND;
    }
}

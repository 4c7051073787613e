/* SPDX-License-Identifier: MIT */
/* One frame of the link: what may stand in its head, told before its payload is there. */
#include <string.h>

#include "core/base/values.h"
#include "core/guest/channel_int.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire is little-endian");
_Static_assert(GP_FRAME_MAX == BG_FRAME_MAX, "one cap");
_Static_assert(GP_HELLO_MAX == BG_FRAME_PREAUTH_MAX, "one cap");
_Static_assert(GP_CREDIT == BG_STREAM_CREDIT, "one window");
_Static_assert(GP_REMEMBER == BG_GUEST_REMEMBER, "one number of commands");
_Static_assert(GP_DRAIN_MS == BG_DRAIN_MS, "one patience");
_Static_assert(sizeof(struct gp_head) + sizeof(struct gp_hello) == GP_HELLO_MAX,
               "a hello fills what may come before WELCOME");

enum { ERROR_TEXT_MAX = 256 };

/* Every type a guest may send, and how long its payload may be. */
static const struct {
    uint16_t type;
    uint32_t min, max;
} shapes[] = {
    {GP_HELLO, sizeof(struct gp_hello), sizeof(struct gp_hello)},
    {GP_STARTED, sizeof(struct gp_started), sizeof(struct gp_started)},
    {GP_STDOUT, 1, GP_FRAME_MAX},
    {GP_STDERR, 1, GP_FRAME_MAX},
    {GP_EXIT, sizeof(struct gp_exit), sizeof(struct gp_exit)},
    {GP_ERROR, sizeof(struct gp_error), sizeof(struct gp_error) + ERROR_TEXT_MAX},
    {GP_STDIN_CREDIT, 4, 4},
    {GP_STATE, sizeof(struct gp_state), sizeof(struct gp_state)},
    {GP_STATS, sizeof(struct gp_stats), sizeof(struct gp_stats)},
    {GP_KILLED, 4, 4},
    {GP_GAP, 16, 16},
    {GP_PONG, 0, 0},
};

int bg_frame_parse(const unsigned char *p, size_t n, struct gp_head *head)
{
    if (n < sizeof *head)
        return 0;
    memcpy(head, p, sizeof *head);
    if (head->flags)
        return -1;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (shapes[i].type != head->type)
            continue;
        if (head->len < shapes[i].min || head->len > shapes[i].max)
            return -1;
        return n - sizeof *head >= head->len;
    }
    return -1;
}

bool bg_frame_put(struct bg_buf *out, const struct gp_head *head, const void *payload)
{
    char *p = bg_buf_reserve(out, sizeof *head + head->len);
    if (!p)
        return false;
    memcpy(p, head, sizeof *head);
    if (head->len)
        memcpy(p + sizeof *head, payload, head->len);
    out->len += sizeof *head + head->len;
    return true;
}

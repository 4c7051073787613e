/* SPDX-License-Identifier: MIT */
/* An engine's answers: the first byte picks which; what is taken is whole and printable. */
#include <stdlib.h>

#include "core/engine/engine_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void container(const char *p, size_t n, struct bg_error *err)
{
    struct bg_container_info i, again;

    if (!engine_parse_container(p, n, &i, err))
        return;
    require(engine_parse_container(p, n, &again, err));
    require(*i.id && i.name && i.image && i.started_at && i.status && i.user && i.network);
    require(!bg_container_differs(&i, &again));
    bg_container_info_clear(&again);
    bg_container_info_clear(&i);
}

static void list(const char *p, size_t n, struct bg_error *err)
{
    struct bg_container_row *rows;
    size_t count;

    if (!engine_parse_list(p, n, &rows, &count, err))
        return;
    for (size_t i = 0; i < count; i++)
        require(*rows[i].id && rows[i].name && rows[i].state);
    engine_rows_free(rows, count);
}

static void on_line(void *data, const char *p, size_t n)
{
    struct bg_engine_event ev;
    struct pull_line l;

    (void)data;
    require(n > 0 && !memchr(p, '\n', n));
    if (engine_parse_event(p, n, &ev, NULL)) {
        require(*ev.container);
        engine_event_clear(&ev);
    }
    if (engine_parse_pull(p, n, &l, NULL))
        pull_line_clear(&l);
}

/* The same bytes in one piece or byte by byte. */
static void lines(const char *p, size_t n)
{
    struct engine_lines l;

    engine_lines_init(&l);
    engine_lines_add(&l, p, n, on_line, NULL);
    for (size_t i = 0; i < n; i++)
        engine_lines_add(&l, p + i, 1, on_line, NULL);
    engine_lines_free(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bg_engine_facts facts = {0};
    struct engine_version v;
    struct bg_image_info image;
    struct bg_error err = {0};
    const char *p = (const char *)data + 1;
    size_t n = size - 1;

    if (size == 0)
        return 0;
    switch (data[0]) {
    case 'v':
        if (engine_parse_version(p, n, &v, &err)) {
            require(engine_negotiate(&v, &err) <= BG_ENGINE_API_MAX);
            engine_version_clear(&v);
        }
        break;
    case 'i':
        require(engine_parse_info(p, n, &facts, &err) || err.code == BG_ERR_UNAVAILABLE);
        break;
    case 'c':
        container(p, n, &err);
        break;
    case 'l':
        list(p, n, &err);
        break;
    case 'm':
        if (engine_parse_image(p, n, &image, &err))
            bg_image_info_clear(&image);
        break;
    case 's':
        lines(p, n);
        break;
    default:
        free(engine_message(p, n));
        break;
    }
    return 0;
}

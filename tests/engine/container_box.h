/* SPDX-License-Identifier: MIT */
/*
 * For tests with real containers: what box.h needs, on the private engine BOX_ENGINE
 * ("docker" or "podman") of tests/tools/engine with the images of tests/tools/images.
 */
#pragma once

#include <signal.h>

#include "core/provider/container/container.h"
#include "tests/unit/provider/box.h"

enum {
    BOX_CREATE_MS = 6000,
    BOX_MANY = 6,
    BOX_TIMES = 5,
    BOX_FDS_KEPT = 6, /* connections to the engine */
};
#define BOX_IMAGE "boxgate-test/python:1"

static inline void box_tool(const char *args, char *out, size_t n)
{
    const char *src = getenv("BOXGATE_SRC");
    bg_autofree char *command = bg_xasprintf("'%s'/tests/tools/%s", src ? src : ".", args);
    FILE *f = popen(command, "re");
    size_t got = f ? fread(out, 1, n - 1, f) : 0;

    out[got] = '\0';
    out[strcspn(out, "\n")] = '\0';
    assert_int_equal(f ? pclose(f) : -1, 0);
}

static inline void box_set(char **field, const char *value)
{
    free(*field);
    *field = bg_xstrdup(value);
}

/* As config.yaml would have it: the private engine, our image, nothing pulled. */
static inline void box_configure(struct box_env *e)
{
    char out[4096];

    box_tool("engine start " BOX_ENGINE, out, sizeof out);
    box_tool("images " BOX_ENGINE " 2>/dev/null", out, sizeof out);
    box_tool("engine socket " BOX_ENGINE, out, sizeof out);
    bg_autofree char *endpoint = bg_xasprintf("unix://%s", out);
    box_set(&e->config->engine.endpoint, endpoint);
    box_set(&e->config->profiles[0].image, BOX_IMAGE);
    e->config->profiles[0].pull = BG_PULL_NEVER;
}

static inline void box_open(struct box_env *e)
{
    box_begin(e, &bg_provider_container);
    box_configure(e);
    box_provider(e);
}

struct box_listed {
    bool done;
    size_t n;
};

static inline void box_on_list(void *data, const struct bg_container_row *rows, size_t n,
                               const struct bg_error *err)
{
    struct box_listed *l = data;

    (void)rows;
    assert_null(err);
    l->n = n;
    l->done = true;
}

/* Containers with this instance's label, and link folders. */
static inline size_t box_traces(const struct box_env *e)
{
    const struct container *p = (const struct container *)e->provider;
    bg_autofree char *label = bg_xasprintf(LABEL_INSTANCE "=%s", e->instance);
    struct box_listed l = {0};

    bg_container_list(p->engine, label, box_on_list, &l);
    assert_true(box_wait(e->loop, &l.done));
    return l.n + (box_count_named(p->link_parent, "") > 2 ? 1 : 0);
}

/* Guests whose link lies in our folders. */
static inline size_t box_processes(const struct box_env *e)
{
    DIR *d = opendir("/proc");
    struct dirent *ent;
    size_t n = 0;

    while (d && (ent = readdir(d)))
        if (ent->d_name[0] >= '0' && ent->d_name[0] <= '9')
            n += box_file_holds(ent->d_name, "mountinfo", e->home);
    if (d)
        closedir(d);
    return n;
}

static inline size_t box_live(const struct box_env *e)
{
    const struct container *p = (const struct container *)e->provider;
    size_t n = box_count_named(p->link_parent, "");

    return n > 2 ? n - 2 : 0;
}

/* As if from outside. */
static inline void box_kill(const struct box_env *e, struct bg_sandbox *sb)
{
    (void)e;
    kill(((struct container_sandbox *)sb)->pid, SIGKILL);
}

/* A call to the engine as a stranger would make it; its status. */
static inline int box_stranger(const struct box_env *e, const char *method,
                               const char *path, const char *body)
{
    const char *socket =
        bg_engine_facts(((const struct container *)e->provider)->engine)->endpoint;
    char out[64];
    bg_autofree char *command =
        bg_xasprintf("curl -s -o /dev/null -w '%%{http_code}' --unix-socket '%s' -X %s -H "
                     "'Content-Type: application/json' -d '%s' 'http://e/v1.41%s'",
                     socket + strlen("unix://"), method, body, path);
    FILE *f = popen(command, "re");

    assert_non_null(f);
    assert_non_null(fgets(out, sizeof out, f));
    assert_int_equal(pclose(f), 0);
    return atoi(out);
}

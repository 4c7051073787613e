/* SPDX-License-Identifier: MIT */
/* Opening a provider without a server. */
#include "core/cli/probe.h"

#include <stdio.h>

static void on_open(void *data, const struct bg_provider_report *r BG_UNUSED)
{
    struct cli_probe *p = data;
    p->done = true;
}

const struct bg_provider_report *
cli_probe_open(struct cli_probe *p, enum bg_provider_kind kind, struct bg_config *config,
               const struct bg_paths *paths, const char *instance, struct bg_error *err)
{
    memset(p, 0, sizeof *p);
    p->config = config;
    p->ops = bg_provider_ops_for(kind);
    if (!p->ops) {
        bg_fail(err, BG_ERR_UNSUPPORTED, 0, "this build has no provider %s",
                bg_provider_kind_name(kind));
        return NULL;
    }
    p->guest = bg_guest_find(err);
    if (!p->guest)
        return NULL;
    if (instance)
        snprintf(p->instance, sizeof p->instance, "%s", instance);
    else
        bg_random_hex(p->instance, 16);
    p->loop = bg_loop_new();
    p->env = (struct bg_provider_env){.loop = p->loop,
                                      .config = config,
                                      .paths = paths,
                                      .guest_path = p->guest,
                                      .instance = p->instance};
    p->provider = p->ops->open(&p->env, on_open, p);
    while (!p->done)
        bg_loop_turn(p->loop, -1);
    return p->ops->report(p->provider);
}

void cli_probe_close(struct cli_probe *p)
{
    if (p->provider)
        p->ops->close(p->provider);
    if (p->loop)
        bg_loop_free(p->loop);
    free(p->guest);
    bg_config_free(p->config);
    memset(p, 0, sizeof *p);
}

static void put_list(struct bg_buf *b, const char *label, char *const *v)
{
    if (!v || !*v)
        return;
    bg_buf_printf(b, "    %s: ", label);
    for (size_t i = 0; v[i]; i++) {
        bg_buf_puts(b, i ? ", " : "");
        bg_text_safe(b, v[i], strlen(v[i]), 0);
    }
    bg_buf_putc(b, '\n');
}

static void put_text(struct bg_buf *b, const char *label, const char *text)
{
    if (!text || !*text)
        return;
    bg_buf_printf(b, "    %s: ", label);
    bg_text_safe(b, text, strlen(text), 0);
    bg_buf_putc(b, '\n');
}

void cli_probe_print(struct bg_buf *b, enum bg_provider_kind kind,
                     const struct bg_provider_report *r, const struct bg_error *err)
{
    bg_buf_printf(b, "  %-10s %s\n", bg_provider_kind_name(kind),
                  r && r->available ? "available" : "not available");
    if (!r) {
        put_text(b, "why", err->msg);
        return;
    }
    put_text(b, "version", r->version);
    put_text(b, "endpoint", r->endpoint);
    put_text(b, "why", r->why_not);
    put_text(b, "remedy", r->remedy);
    put_list(b, "enforces", r->enforced);
    put_list(b, "does NOT enforce here", r->not_enforced);
}

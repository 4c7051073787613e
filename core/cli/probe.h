/* SPDX-License-Identifier: MIT */
/* Providers asked from a command: what is on this machine, and what a sweep finds. No
 * server takes part. */
#pragma once

#include "core/cli/util.h"
#include "core/provider/provider.h"

struct cli_probe {
    struct bg_loop *loop;
    struct bg_config *config;
    const struct bg_provider_ops *ops;
    struct bg_provider_env env;
    struct bg_provider *provider;
    char *guest;
    char instance[33];
    bool done;
};

/* Opens the provider and waits for its trial. config is taken. instance NULL = one nobody
 * has. The report is borrowed until close; NULL with err when this build lacks the
 * provider or the guest is nowhere. */
const struct bg_provider_report *
cli_probe_open(struct cli_probe *p, enum bg_provider_kind kind, struct bg_config *config,
               const struct bg_paths *paths, const char *instance, struct bg_error *err);
void cli_probe_close(struct cli_probe *p);
/* "enforced: a, b" and the like, each line indented. */
void cli_probe_print(struct bg_buf *b, enum bg_provider_kind kind,
                     const struct bg_provider_report *r, const struct bg_error *err);

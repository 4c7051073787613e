/* SPDX-License-Identifier: MIT */
/* Shared by the files of this folder. */
#pragma once

#include "core/client/client.h"

/* autostart.c: connects to sock, starting the server if nobody listens. -1 with err. */
int client_start_and_connect(const struct bg_paths *p, const char *sock,
                             struct bg_error *err);

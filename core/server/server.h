/* SPDX-License-Identifier: MIT */
/*
 * The server: rpc on two sockets, one queue of approvals, one registry of sessions, one
 * audit. methods.c holds the table {method, roles, handler}; a role is fixed by the socket.
 */
#pragma once

#include "core/base/path.h"
#include "core/loop/loop.h"

struct bg_server;

struct bg_server_opts {
    const struct bg_paths *paths; /* created and verified here */
    bool foreground;              /* log to stderr */
    bool autostarted; /* ends BG_AUTOSTART_EXIT_MS after the last client, session and
                         request */
    int ready_fd;     /* gets "ok\n" or one error line, then is closed; -1 = none */
};

/* Runs until stopped. Returns the exit code; an error was told on ready_fd (or stderr). */
int bg_server_main(const struct bg_server_opts *o);

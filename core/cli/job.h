/* SPDX-License-Identifier: MIT */
/*
 * A request of run or exec from submit to exit code. It waits for the decision and for both
 * output pipes; Ctrl-C takes the request back. The hash is used for waiting and cancelling
 * and never printed: an agent that reads this output must not learn what approve needs.
 */
#pragma once

#include "core/cli/util.h"

struct cli_job {
    const char *name; /* the client's name */
    cJSON *params;    /* of request.submit; taken */
    bool json;        /* print the result as JSON instead of the output */
    bool raw;         /* no renderer on a terminal */
};

int cli_job_run(struct cli_job *job);

/* One stream of the program on its way to a descriptor of ours. */
struct cli_stream;
/* Reads from (taken). On a terminal the bytes go through the log renderer unless raw. gone
 * is called once when nobody reads `to` any more. */
struct cli_stream *cli_stream_new(struct bg_loop *loop, int from, int to, bool raw,
                                  void (*gone)(void *data), void *data);
void cli_stream_put(struct cli_stream *s, const char *p, size_t n); /* bytes not piped */
void cli_stream_finish(struct cli_stream *s);          /* nothing more is put */
bool cli_stream_done(const struct cli_stream *s);      /* the end came and all is written */
bool cli_stream_piped(const struct cli_stream *s);     /* the pipe has not ended yet */
uint64_t cli_stream_bytes(const struct cli_stream *s); /* how many came by the pipe */
void cli_stream_free(struct cli_stream *s);

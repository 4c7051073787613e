/* SPDX-License-Identifier: MIT */
/* Lines in, lines out, over the same model, document and gate as the screen. */
#include "tui/linear.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <termios.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/client/review.h"
#include "tui/gate.h"
#include "tui/model.h"

#define PAGE_LINES 20
#define LINE_MAX_BYTES 4096
#define SIGNALS 4

struct linear {
    struct bg_loop *loop;
    struct link *link;
    struct model model;
    struct bg_poll *poll;
    struct bg_signal *signals[SIGNALS];
    struct bg_buf line;
    bool tty, done, connected, listed;
    int code;
    int64_t arm_ms;
    uint64_t told; /* of model.arrived */

    struct bg_review *doc; /* being shown */
    struct bg_buf text;    /* its lines */
    size_t at;             /* printed so far */
    struct gate gate;
    uint64_t asked;
};

/* ---- saying ---- */

BG_PRINTF(1, 2) static void say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

static void prompt(const struct linear *l)
{
    if (l->tty && !l->done) {
        fputs("command> ", stdout);
        fflush(stdout);
    }
}

static char *safe(const char *text)
{
    return bg_text_safe_line(text, strlen(text), 0);
}

static void say_request(const struct request *r, size_t i, size_t n)
{
    bg_autofree char *session = safe(r->session),
                     *lang = safe(*r->language ? r->language : r->kind);
    int64_t left = r->expires_ms - bg_wall_ms();
    say("pending %zu of %zu: #%04llu %s %s, %lld lines%s, %lld minutes %lld seconds left",
        i, n, (unsigned long long)r->id, session, lang, (long long)r->lines,
        r->high ? ", HIGH" : "", (long long)(left > 0 ? left / 60000 : 0),
        (long long)(left > 0 ? left / 1000 % 60 : 0));
}

static void list_pending(const struct linear *l)
{
    size_t n;
    bg_autofree uint64_t *ids = model_pending(&l->model, &n);
    for (size_t i = 0; i < n; i++)
        say_request(model_request(&l->model, ids[i]), i + 1, n);
    if (!n)
        say("pending: nothing waits for a decision");
}

static void list_sessions(const struct linear *l)
{
    for (size_t i = 0; i < l->model.n_sessions; i++) {
        const struct session *s = &l->model.sessions[i];
        bg_autofree char *id = safe(s->id), *state = safe(s->state),
                         *net = safe(s->network), *provider = safe(s->provider);
        say("session %zu of %zu: %s, %s, %s, network %s, %lld calls", i + 1,
            l->model.n_sessions, id, state, provider, net, (long long)s->calls);
    }
    if (!l->model.n_sessions)
        say("sessions: none yet");
}

static void help(void)
{
    say("pending          list what waits, oldest first");
    say("show ID          read a request; an empty line prints the next %d lines",
        PAGE_LINES);
    say("approve ID       once, after its last line was printed; HIGH: approve ID DIGITS,");
    say("                 with the first %d digits of the hash", BG_HIGH_DIGITS);
    say("deny ID [REASON] the agent gets the reason");
    say("sessions         list the sessions");
    say("quit             leave; nothing is decided by leaving");
}

static void stop(struct linear *l, int code)
{
    l->done = true;
    l->code = code;
}

/* ---- showing ---- */

static void page(struct linear *l)
{
    if (!l->doc || l->at >= l->text.len)
        return;
    for (int i = 0; i < PAGE_LINES && l->at < l->text.len; i++) {
        const char *p = l->text.data + l->at;
        const char *nl = memchr(p, '\n', l->text.len - l->at);
        size_t n = nl ? (size_t)(nl - p) : l->text.len - l->at;
        fwrite(p, 1, n, stdout);
        putchar('\n');
        l->at += n + 1;
    }
    /* What did not get out was seen by nobody. */
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "boxgate: nothing can be printed: %s\n", strerror(errno));
        stop(l, 1);
        return;
    }
    l->gate.seen_all = l->at >= l->text.len;
    if (l->gate.seen_all)
        say("end of #%04llu: everything was printed", (unsigned long long)l->doc->id);
    else
        say("more: an empty line prints the next %d lines", PAGE_LINES);
    /* What was typed while this was printed answers nothing. */
    gate_front(&l->gate, bg_mono_ms());
    if (l->tty)
        tcflush(STDIN_FILENO, TCIFLUSH);
}

static void drop_doc(struct linear *l)
{
    bg_review_free(l->doc);
    l->doc = NULL;
    bg_buf_clear(&l->text);
    l->at = 0;
    l->gate = (struct gate){.arm_ms = l->arm_ms};
}

static void on_got(void *data, const cJSON *result, const struct bg_error *err)
{
    struct linear *l = data;
    struct bg_error why = {0};
    drop_doc(l);
    l->doc = err ? NULL : bg_review_build(result, &why);
    if (!l->doc) {
        say("error: #%04llu can't be shown: %s", (unsigned long long)l->asked,
            err ? err->msg : why.msg);
        prompt(l);
        return;
    }
    bg_review_print(l->doc, &l->text, l->tty, true);
    if (bg_buf_overflowed(&l->text)) {
        say("error: #%04llu is too long to print; use the screen",
            (unsigned long long)l->asked);
        drop_doc(l);
    } else {
        l->gate.loaded = true;
        page(l);
    }
    prompt(l);
}

static void show(struct linear *l, uint64_t id)
{
    cJSON *p = bg_jo();
    bg_jset_int(p, "id", (int64_t)id);
    l->asked = id;
    link_call(l->link, "approval.get", p, on_got, l);
}

/* ---- deciding ---- */

static void on_decided(void *data, const cJSON *result, const struct bg_error *err)
{
    struct linear *l = data;
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(result, "id");
    l->gate.sent = false;
    if (err)
        say("refused: %s", err->msg);
    else
        say("decided: #%04.0f", cJSON_IsNumber(id) ? id->valuedouble : 0.0);
    prompt(l);
}

static void decide(struct linear *l, const struct request *r, bool approve,
                   const char *reason)
{
    cJSON *p = bg_jo(), *ack = bg_ja();
    bg_jset_int(p, "id", (int64_t)r->id);
    bg_jset_int(p, "rev", approve ? l->doc->rev : r->rev);
    bg_jset_str(p, "sha256", approve ? l->doc->sha256 : r->sha256);
    bg_jset_str(p, "decision", approve ? "approve" : "deny");
    bg_jset_str(p, "scope", "once");
    for (int h = 0; approve && h < BG_HZ_COUNT_; h++)
        if (l->doc->hazards & BG_HZ_BIT(h))
            cJSON_AddItemToArray(ack,
                                 cJSON_CreateString(bg_hazard_name((enum bg_hazard)h)));
    if (approve)
        bg_jset(p, "ackHazards", ack);
    else
        cJSON_Delete(ack);
    if (*reason)
        bg_jset_str(p, "reason", reason);
    l->gate.sent = true;
    say("sending: %s #%04llu once", approve ? "approve" : "deny",
        (unsigned long long)r->id);
    link_call(l->link, "approval.decide", p, on_decided, l);
}

static const char *blocked(struct linear *l, const struct request *r, bool approve)
{
    bool shown = l->doc && l->doc->id == r->id;
    struct gate g = shown ? l->gate : (struct gate){.arm_ms = 0};
    g.online = l->connected;
    g.pending = request_pending(r);
    if (!l->tty)
        return "decisions need a terminal; in scripts use: boxgate approve ID --sha HEX";
    switch (approve ? gate_approve(&g, bg_mono_ms()) : gate_deny(&g, bg_mono_ms())) {
    case GATE_OPEN:
        return NULL;
    case GATE_OFFLINE:
        return "no connection to the server";
    case GATE_OVER:
        return "it is not pending any more";
    case GATE_SENT:
        return "the answer is on its way";
    case GATE_ARMING:
        return "too soon after the lines were printed; look, then say it again";
    case GATE_LOADING:
        return "show it first";
    case GATE_UNSEEN:
        return "not every line was printed yet; an empty line prints the next";
    }
    return "?";
}

static void answer(struct linear *l, bool approve, uint64_t id, const char *rest)
{
    const struct request *r = model_request(&l->model, id);
    if (!r) {
        say("error: no request #%04llu; say: pending", (unsigned long long)id);
        return;
    }
    const char *why = blocked(l, r, approve);
    if (why)
        say("refused: %s", why);
    else if (approve && strcmp(l->doc->sha256, r->sha256))
        say("refused: it has changed; show it again");
    else if (approve && l->doc->high && !gate_digits(rest, l->doc->sha256))
        say("refused: HIGH needs the first %d digits of the hash: approve %llu %s",
            BG_HIGH_DIGITS, (unsigned long long)id, "DIGITS");
    else if (approve && !l->doc->high && *rest)
        say("refused: approve takes a number only; HIGH ones take digits too");
    else
        decide(l, r, approve, approve ? "" : rest);
}

/* ---- commands ---- */

static bool number_arg(const char *arg, uint64_t *id, const char **rest)
{
    char *end;
    if (*arg == '#')
        arg++;
    if (*arg < '0' || *arg > '9')
        return false;
    errno = 0;
    *id = strtoull(arg, &end, 10);
    while (*end == ' ')
        end++;
    *rest = end;
    return !errno && *id;
}

/* A reason in quotes is meant without them. */
static void unquote(char *s)
{
    size_t n = strlen(s);
    if (n >= 2 && s[0] == '"' && s[n - 1] == '"') {
        memmove(s, s + 1, n - 2);
        s[n - 2] = '\0';
    }
}

static void with_number(struct linear *l, const char *word, const char *arg)
{
    uint64_t id;
    const char *rest;
    if (!number_arg(arg, &id, &rest)) {
        say("error: %s needs a number, for example: %s 144", word, word);
        return;
    }
    bg_autofree char *text = bg_xstrdup(rest);
    unquote(text);
    if (!strcmp(word, "show"))
        show(l, id);
    else
        answer(l, !strcmp(word, "approve"), id, text);
}

static void command(struct linear *l, char *line)
{
    while (*line == ' ')
        line++;
    char *arg = line + strcspn(line, " ");
    if (*arg)
        *arg++ = '\0';
    while (*arg == ' ')
        arg++;
    if (!*line) {
        if (l->doc && l->at < l->text.len)
            page(l);
    } else if (!strcmp(line, "show") || !strcmp(line, "approve") || !strcmp(line, "deny")) {
        with_number(l, line, arg);
    } else if (!strcmp(line, "pending") || !strcmp(line, "list")) {
        list_pending(l);
    } else if (!strcmp(line, "sessions")) {
        list_sessions(l);
    } else if (!strcmp(line, "quit") || !strcmp(line, "q") || !strcmp(line, "exit")) {
        stop(l, 0);
    } else if (!strcmp(line, "help") || !strcmp(line, "?")) {
        help();
    } else {
        bg_autofree char *what = safe(line);
        say("error: no command %s; type help", what);
    }
    prompt(l);
}

static void take_lines(struct linear *l)
{
    char *nl;
    while (!l->done && (nl = memchr(l->line.data, '\n', l->line.len))) {
        size_t n = (size_t)(nl - l->line.data);
        bg_autofree char *line = bg_xstrndup(l->line.data, n);
        bg_autofree char *rest = bg_xmemdup(nl + 1, l->line.len - n);
        size_t left = l->line.len - n - 1;
        bg_buf_clear(&l->line);
        bg_buf_put(&l->line, rest, left);
        command(l, line);
    }
}

static void on_input(struct bg_poll *p BG_UNUSED, int fd, unsigned events BG_UNUSED,
                     void *data)
{
    struct linear *l = data;
    char buf[1024];
    ssize_t n = read(fd, buf, sizeof buf);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        stop(l, 0); /* end of input: nothing is decided */
        return;
    }
    if (bg_buf_add_some(&l->line, buf, (size_t)n) < (size_t)n) {
        bg_buf_clear(&l->line);
        say("error: that line is too long");
    }
    take_lines(l);
}

static void on_signal(int signo, void *data)
{
    stop(data, 128 + signo);
}

/* ---- from the server ---- */

static void on_sessions(void *data, const cJSON *result, const struct bg_error *err)
{
    struct linear *l = data;
    if (!err)
        model_set_sessions(&l->model, result, bg_wall_ms());
}

static void on_requests(void *data, const cJSON *result, const struct bg_error *err)
{
    struct linear *l = data;
    if (err) {
        say("error: %s", err->msg);
        return;
    }
    model_set_requests(&l->model, result, bg_wall_ms());
    l->told = l->model.arrived;
    if (!l->listed)
        list_pending(l);
    l->listed = true;
    prompt(l);
}

static void on_subscribed(void *data, const cJSON *result BG_UNUSED,
                          const struct bg_error *err)
{
    (void)data;
    if (err)
        say("error: no events: %s", err->msg);
}

static void read_lists(struct linear *l)
{
    link_call(l->link, "session.list", bg_jo(), on_sessions, l);
    link_call(l->link, "approval.list", bg_jo(), on_requests, l);
}

static void on_connected(void *data, const cJSON *hello)
{
    struct linear *l = data;
    cJSON *p = bg_jo(), *t = bg_ja();
    const cJSON *arm = cJSON_GetObjectItemCaseSensitive(hello, "armMs");
    l->arm_ms = gate_arm_ms(cJSON_IsNumber(arm) ? arm->valuedouble : -1);
    cJSON_AddItemToArray(t, cJSON_CreateString("approval"));
    cJSON_AddItemToArray(t, cJSON_CreateString("session"));
    bg_jset(p, "topics", t);
    if (l->listed) {
        say("connected again");
        model_reconnected(&l->model);
        drop_doc(l); /* it may be another server: show it again */
    }
    l->connected = true;
    link_call(l->link, "events.subscribe", p, on_subscribed, l);
    read_lists(l);
}

static void say_activity(struct linear *l, size_t from)
{
    for (size_t i = from; i < l->model.activity_n; i++) {
        const struct activity *e = &l->model.activity[i];
        bg_autofree char *text = safe(e->text);
        if (e->request)
            say("\n%s: #%04llu %s", e->word, (unsigned long long)e->request, text);
        else
            say("\n%s: %s", e->word, text);
    }
    if (from < l->model.activity_n)
        prompt(l);
}

static void on_event(void *data, const char *topic, const char *type, const cJSON *row)
{
    struct linear *l = data;
    size_t from =
        l->model.activity_n < MODEL_ACTIVITY ? l->model.activity_n : MODEL_ACTIVITY - 1;
    if (model_event(&l->model, topic, type, row, bg_wall_ms()))
        read_lists(l);
    if (l->listed)
        say_activity(l, from);
}

static void on_disconnected(void *data, const struct bg_error *err)
{
    struct linear *l = data;
    l->connected = false;
    l->gate.sent = false;
    say("\nerror: connection lost: %s. Nothing can be decided; trying again every second",
        err->msg);
}

static const struct link_events events = {on_connected, on_event, on_disconnected};

/* ---- the run ---- */

static bool begin(struct linear *l)
{
    static const int watched[SIGNALS] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    l->poll = bg_poll_new(l->loop, STDIN_FILENO, on_input, l);
    if (!l->poll) {
        fprintf(stderr, "boxgate: the console reads a terminal; standard input is none\n");
        return false;
    }
    for (size_t i = 0; i < SIGNALS; i++)
        l->signals[i] = bg_signal_new(l->loop, watched[i], on_signal, l);
    bg_poll_set(l->poll, BG_READ);
    say("boxgate linear mode. Type help.");
    link_begin(l->link, &events, l);
    return true;
}

int linear_run(struct bg_loop *loop, struct link *link)
{
    struct linear l = {.loop = loop, .link = link, .tty = isatty(STDIN_FILENO), .code = 1};
    bg_buf_init(&l.line, LINE_MAX_BYTES);
    bg_buf_init(&l.text, (size_t)BG_JSON_LINE_MAX * 14);
    model_init(&l.model);
    if (begin(&l))
        while (!l.done) {
            bg_loop_turn(loop, -1);
            link_poll(link);
        }
    if (l.tty)
        putchar('\n');
    link_close(link);
    for (size_t i = 0; i < SIGNALS; i++)
        if (l.signals[i])
            bg_signal_free(l.signals[i]);
    bg_poll_free(l.poll);
    drop_doc(&l);
    bg_buf_free(&l.text);
    bg_buf_free(&l.line);
    model_free(&l.model);
    return l.code;
}

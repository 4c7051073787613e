/* SPDX-License-Identifier: MIT */
/* Options, errors and the connection of the headless commands. */
#include "core/cli/util.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <strings.h>

#include "core/base/values.h"
#include "core/config/config.h"

/* ---- arguments ---- */

#define OPTS_MAX 24

/* getopt_long wants its own tables; ours is the one that help prints too. */
static size_t getopt_tables(const struct bg_cmd *cmd, struct option *lo, char *letters)
{
    size_t n = 0, k = 0;
    letters[k++] = ':';
    for (const struct bg_opt *o = cmd->opts; o && o->name && n < OPTS_MAX; o++, n++) {
        lo[n] = (struct option){o->name, o->arg ? required_argument : no_argument, NULL,
                                256 + (int)n};
        if (!o->letter)
            continue;
        letters[k++] = o->letter;
        if (o->arg)
            letters[k++] = ':';
    }
    letters[k] = '\0';
    lo[n] = (struct option){0};
    return n;
}

static const struct bg_opt *opt_of(const struct bg_cmd *cmd, int c)
{
    if (c >= 256)
        return &cmd->opts[c - 256];
    for (const struct bg_opt *o = cmd->opts; o && o->name; o++)
        if (o->letter == c)
            return o;
    return NULL;
}

static bool wrong_option(const struct bg_cmd *cmd, int c, char **argv)
{
    const char *word = argv[optind > 0 ? optind - 1 : 0];
    cli_usage(cmd, c == ':' ? "%s needs a value" : "unknown option %s", word);
    return false;
}

bool cli_parse(struct cli_args *a, const struct bg_cmd *cmd, int argc, char **argv, int min,
               int max)
{
    struct option lo[OPTS_MAX + 1];
    char letters[2 * OPTS_MAX + 2];
    int c;
    memset(a, 0, sizeof *a);
    a->cmd = cmd;
    getopt_tables(cmd, lo, letters);
    optind = 0;
    opterr = 0;
    while ((c = getopt_long(argc, argv, letters, lo, NULL)) != -1) {
        const struct bg_opt *o = c == '?' || c == ':' ? NULL : opt_of(cmd, c);
        if (!o)
            return wrong_option(cmd, c, argv);
        if (a->n_set == CLI_SET_MAX) {
            cli_usage(cmd, "too many options");
            return false;
        }
        a->set[a->n_set].opt = o;
        a->set[a->n_set++].value = o->arg ? optarg : NULL;
    }
    a->argc = argc - optind;
    a->argv = argv + optind;
    if (a->argc < min)
        cli_usage(cmd, "%s needs: %s", cmd->name, cmd->args);
    else if (max >= 0 && a->argc > max)
        cli_usage(cmd, "one operand too many: %s", a->argv[max]);
    else
        return true;
    return false;
}

bool cli_flag(const struct cli_args *a, const char *name)
{
    for (size_t i = 0; i < a->n_set; i++)
        if (!strcmp(a->set[i].opt->name, name))
            return true;
    return false;
}

const char *cli_value(const struct cli_args *a, const char *name)
{
    const char *v = NULL;
    for (size_t i = 0; i < a->n_set; i++)
        if (!strcmp(a->set[i].opt->name, name))
            v = a->set[i].value;
    return v;
}

const char *cli_each(const struct cli_args *a, const char *name, size_t *at)
{
    while (*at < a->n_set) {
        size_t i = (*at)++;
        if (!strcmp(a->set[i].opt->name, name))
            return a->set[i].value;
    }
    return NULL;
}

bool cli_duration(const char *s, int64_t *ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}};
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)*s))
        return false;
    long long n = strtoll(s, &end, 10);
    for (size_t i = 0; i < bg_countof(units); i++) {
        if (strcmp(end, units[i].unit))
            continue;
        if (errno || n < 1 || n > BG_CFG_MS_MAX / units[i].ms)
            return false;
        *ms = n * units[i].ms;
        return true;
    }
    return false;
}

bool cli_request_id(const char *s, int64_t *id)
{
    s += *s == '#';
    if (!*s || strlen(s) > 15 || s[strspn(s, "0123456789")])
        return false;
    *id = strtoll(s, NULL, 10);
    return *id > 0;
}

bool cli_read(const char *file, size_t max, struct bg_buf *out, struct bg_error *err)
{
    bg_autoclose int fd = -1;
    bool in = !strcmp(file, "-");
    if (!in && (fd = open(file, O_RDONLY | O_CLOEXEC)) < 0)
        return bg_fail(err, BG_ERR_USAGE, errno, "%s", file);
    if (in && isatty(STDIN_FILENO))
        cli_note("reading from the terminal; Ctrl-D on an empty line ends it");
    for (;;) {
        char chunk[16384];
        ssize_t n = read(in ? STDIN_FILENO : fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bg_fail(err, BG_ERR_USAGE, errno, "read %s", in ? "stdin" : file);
        if (n == 0)
            return true;
        if (out->len + (size_t)n > max || !bg_buf_add(out, chunk, (size_t)n, NULL))
            return bg_fail(err, BG_ERR_USAGE, 0, "%s has more than %zu bytes",
                           in ? "stdin" : file, max);
    }
}

const struct bg_opt cli_json_opt[] = {{"json", 'j', NULL, "as JSON"}, {0}};

/* ---- errors ---- */

static void tell(const char *text, const char *more)
{
    bg_autofree char *safe = bg_text_safe_line(text, strlen(text), 0);
    fprintf(stderr, "boxgate: %s%s\n", safe, more);
}

void cli_note(const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tell(text, "");
}

int cli_usage(const struct bg_cmd *cmd, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    bg_autofree char *more = bg_xasprintf("; see: boxgate help %s", cmd->name);
    tell(text, more);
    return BG_EXIT_USAGE;
}

int cli_exit_of(enum bg_errc code)
{
    if (code == BG_ERR_USAGE || code == BG_ERR_CONFIG)
        return BG_EXIT_USAGE;
    if (code == BG_ERR_NOT_FOUND)
        return BG_EXIT_NOT_FOUND;
    return code == BG_ERR_INTERNAL ? BG_EXIT_INTERNAL : BG_EXIT_FAILED;
}

int cli_exit_of_decision(enum bg_errc code)
{
    static const struct {
        enum bg_errc code;
        int exit;
    } map[] = {
        {BG_ERR_ALREADY_DECIDED, BG_EXIT_DECIDED}, {BG_ERR_HASH_MISMATCH, BG_EXIT_MISMATCH},
        {BG_ERR_EXPIRED, BG_EXIT_EXPIRED},         {BG_ERR_FORBIDDEN, BG_EXIT_REFUSED},
        {BG_ERR_HAZARDS, BG_EXIT_REFUSED},         {BG_ERR_SELF_APPROVAL, BG_EXIT_REFUSED},
        {BG_ERR_AUDIT, BG_EXIT_REFUSED},           {BG_ERR_UNSUPPORTED, BG_EXIT_REFUSED},
        {BG_ERR_POLICY, BG_EXIT_REFUSED},
    };
    for (size_t i = 0; i < bg_countof(map); i++)
        if (map[i].code == code)
            return map[i].exit;
    return cli_exit_of(code);
}

int cli_fail(const struct bg_error *err)
{
    tell(err->msg, "");
    return cli_exit_of(err->code);
}

/* ---- the server ---- */

/* What autostart would trip over, told before anything is started. */
static bool config_usable(const struct bg_paths *p, struct bg_error *err)
{
    struct bg_config *c = bg_config_load(p->config_file, err);
    bool chosen = c && c->provider != BG_PROVIDER_NONE;
    if (c && !chosen)
        bg_fail(err, BG_ERR_CONFIG, 0,
                "no provider chosen; run: boxgate init --provider local");
    bg_config_free(c);
    return chosen;
}

bool cli_connect(struct cli_conn *k, enum bg_role role, const char *name, bool start,
                 const struct bg_client_events *ev, void *data, struct bg_error *err)
{
    struct bg_error e = {0};
    memset(k, 0, sizeof *k);
    bg_digest_init();
    if (!bg_paths_init(&k->paths, NULL, err))
        return false;
    k->loop = bg_loop_new();
    struct bg_client_opts o = {.role = role, .name = name, .paths = &k->paths};
    k->client = bg_client_connect(k->loop, &o, ev, data, &e);
    if (k->client)
        return true;
    if (e.code != BG_ERR_UNAVAILABLE) {
        *err = e;
        return false;
    }
    if (!config_usable(&k->paths, err))
        return false;
    if (!start) {
        *err = e;
        return false;
    }
    o.start = true;
    k->client = bg_client_connect(k->loop, &o, ev, data, err);
    return k->client != NULL;
}

void cli_close(struct cli_conn *k)
{
    bg_client_free(k->client);
    if (k->loop)
        bg_loop_free(k->loop);
    bg_paths_free(&k->paths);
    memset(k, 0, sizeof *k);
}

cJSON *cli_ask(enum bg_role role, const char *name, bool start, const char *method,
               cJSON *params, struct bg_error *err)
{
    struct cli_conn k;
    cJSON *res = NULL;
    if (cli_connect(&k, role, name, start, NULL, NULL, err))
        res = bg_client_ask(k.client, method, params, err);
    else
        cJSON_Delete(params);
    cli_close(&k);
    return res;
}

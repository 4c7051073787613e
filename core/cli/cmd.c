/* SPDX-License-Identifier: MIT */
/* Dispatch over the joined tables: finding a command of one or two words, help, nearest
 * names. */
#include "core/cli/cmd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/values.h"

typedef const struct bg_cmd *const *const *tables_t;

static const struct bg_cmd *first(tables_t t, size_t *ti, size_t *ci)
{
    *ti = *ci = 0;
    return t[0] ? t[0][0] : NULL;
}

static const struct bg_cmd *next(tables_t t, size_t *ti, size_t *ci)
{
    if (t[*ti] && t[*ti][*ci] && t[*ti][++*ci])
        return t[*ti][*ci];
    while (t[*ti] && t[++*ti]) {
        *ci = 0;
        if (t[*ti][0])
            return t[*ti][0];
    }
    return NULL;
}

#define EACH_CMD(c, t, a, b) \
    size_t a, b;             \
    for (const struct bg_cmd *c = first(t, &a, &b); c; c = next(t, &a, &b))

/* Two words win over one: "session create" before "session". */
static const struct bg_cmd *find(tables_t t, int argc, char **argv, int *words)
{
    bg_autofree char *two = argc > 1 ? bg_xasprintf("%s %s", argv[0], argv[1]) : NULL;
    const struct bg_cmd *one = NULL;
    EACH_CMD(c, t, a, b)
    {
        if (two && !strcmp(c->name, two)) {
            *words = 2;
            return c;
        }
        if (!strcmp(c->name, argv[0]))
            one = c;
    }
    *words = 1;
    return one;
}

static bool is_group(tables_t t, const char *word)
{
    size_t n = strlen(word);
    EACH_CMD(c, t, a, b)
    {
        if (!strncmp(c->name, word, n) && c->name[n] == ' ')
            return true;
    }
    return false;
}

/* Levenshtein distance, small words only. */
static size_t distance(const char *x, const char *y)
{
    size_t row[32], nx = strlen(x), ny = strlen(y);
    if (nx > 30 || ny > 30)
        return 99;
    for (size_t j = 0; j <= ny; j++)
        row[j] = j;
    for (size_t i = 1; i <= nx; i++) {
        size_t diag = row[0];
        row[0] = i;
        for (size_t j = 1; j <= ny; j++) {
            size_t up = row[j], best = diag + (x[i - 1] != y[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
            diag = up;
        }
    }
    return row[ny];
}

static int unknown(tables_t t, const char *word)
{
    const char *near = NULL;
    size_t best = 3;
    EACH_CMD(c, t, a, b)
    {
        size_t d = distance(word, c->name);
        if (!c->hidden && d < best) {
            best = d;
            near = c->name;
        }
    }
    struct bg_error e = {0};
    bg_fail(&e, BG_ERR_USAGE, 0, "unknown command: %s", word);
    fprintf(stderr, "boxgate: %s%s%s%s\n", e.msg, near ? "; did you mean: boxgate " : "",
            near ? near : "", near ? "" : "; see: boxgate help");
    return BG_EXIT_USAGE;
}

static void list_commands(tables_t t, const char *group, FILE *out)
{
    size_t n = group ? strlen(group) : 0;
    EACH_CMD(c, t, a, b)
    {
        if (c->hidden ||
            (group && (strncmp(c->name, group, n) || (c->name[n] != ' ' && c->name[n]))))
            continue;
        fprintf(out, "  %-16s %s\n", c->name, c->summary);
    }
}

static int general_help(tables_t t, FILE *out)
{
    fprintf(out, "boxgate: run model-generated code in sandboxes, decided by a person.\n\n"
                 "usage: boxgate [--linear] [--theme NAME]  the console\n"
                 "       boxgate COMMAND [OPTIONS]          one of:\n\n");
    list_commands(t, NULL, out);
    fprintf(out, "\nboxgate help COMMAND tells more. Every command takes --help.\n");
    return BG_EXIT_OK;
}

static void print_help(const struct bg_cmd *c, FILE *out)
{
    fprintf(out, "usage: boxgate %s%s%s\n\n%s\n", c->name, *c->args ? " " : "", c->args,
            c->summary);
    if (c->help)
        fprintf(out, "\n%s\n", c->help);
    fprintf(out, "\noptions:\n");
    for (const struct bg_opt *o = c->opts; o && o->name; o++) {
        char left[64];
        if (!o->help)
            continue;
        snprintf(left, sizeof left, "%c%c%s--%s%s%s", o->letter ? '-' : ' ',
                 o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name,
                 o->arg ? " " : "", o->arg ? o->arg : "");
        fprintf(out, "  %-26s %s\n", left, o->help);
    }
    fprintf(out, "  %-26s %s\n", "-h, --help", "this text");
}

static int help(tables_t t, int argc, char **argv)
{
    int words;
    if (!argc)
        return general_help(t, stdout);
    const struct bg_cmd *c = find(t, argc, argv, &words);
    if (c) {
        print_help(c, stdout);
        return BG_EXIT_OK;
    }
    if (!is_group(t, argv[0]))
        return unknown(t, argv[0]);
    printf("boxgate %s:\n\n", argv[0]);
    list_commands(t, argv[0], stdout);
    return BG_EXIT_OK;
}

/* --help before "--" belongs to boxgate; after it, to somebody else's program. */
static bool asks_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
    return false;
}

static int run_command(tables_t t, int argc, char **argv)
{
    int words;
    const struct bg_cmd *c = find(t, argc, argv, &words);
    if (c && asks_help(argc - words + 1, argv + words - 1)) {
        print_help(c, stdout);
        return BG_EXIT_OK;
    }
    if (c)
        return c->run(c, argc - words + 1, argv + words - 1);
    if (!is_group(t, argv[0]))
        return unknown(t, argv[0]);
    fprintf(stderr, "boxgate: %s needs one of these words:\n", argv[0]);
    list_commands(t, argv[0], stderr);
    return BG_EXIT_USAGE;
}

/* A descriptor opened later must not become stdout because the caller closed it; and a
 * reader that left is an error of write, not the end of the program. */
static void settle_stdio(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
    signal(SIGPIPE, SIG_IGN);
}

int bg_cli_main(int argc, char **argv, tables_t tables,
                int (*fallback)(int argc, char **argv))
{
    settle_stdio();
    if (argc < 2 || (argv[1][0] == '-' && strcmp(argv[1], "--help") &&
                     strcmp(argv[1], "-h") && strcmp(argv[1], "--version")))
        return fallback(argc, argv);
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version")) {
        printf("boxgate %s\n", BG_VERSION);
        return BG_EXIT_OK;
    }
    if (!strcmp(argv[1], "help"))
        return help(tables, argc - 2, argv + 2);
    if (argv[1][0] == '-')
        return general_help(tables, stdout);
    return run_command(tables, argc - 1, argv + 1);
}

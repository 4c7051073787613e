/* SPDX-License-Identifier: MIT */
/*
 * argv clauses. A command is compared element by element, as it will be executed; there is
 * no shell text, so nothing can be chained, quoted or expanded past a rule. Programs that
 * run other programs or code named by their arguments may be allowed only word for word.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/policy/rule.h"

/* Compared after the directory and a version at the end are taken off (python3.11, node18).
 */
static const char *const launchers[] = {
    /* shells */
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "mksh",
    "ash",
    "fish",
    "csh",
    "tcsh",
    "busybox",
    "toybox",
    /* run another program */
    "env",
    "xargs",
    "sudo",
    "su",
    "doas",
    "nohup",
    "timeout",
    "nice",
    "ionice",
    "setsid",
    "stdbuf",
    "time",
    "chroot",
    "unshare",
    "nsenter",
    "setpriv",
    "runuser",
    "script",
    "watch",
    "parallel",
    "flock",
    "taskset",
    "chrt",
    "prlimit",
    "find",
    "fd",
    "entr",
    "strace",
    "ltrace",
    "gdb",
    "lldb",
    "valgrind",
    "perf",
    "systemd-run",
    "start-stop-daemon",
    "tini",
    "dumb-init",
    "ld.so",
    "ld-linux",
    "ld-linux-x86-64.so",
    "ld-linux-aarch64.so",
    "ld-musl-x86_64.so",
    "run-parts",
    "expect",
    "screen",
    "tmux",
    "ssh",
    "docker",
    "podman",
    "bwrap",
    "proot",
    "fakeroot",
    "exec",
    "command",
    "builtin",
    "eval",
    "coproc",
    "capsh",
    "catchsegv",
    /* interpreters */
    "python",
    "pypy",
    "ipython",
    "node",
    "nodejs",
    "deno",
    "bun",
    "ts-node",
    "tsx",
    "perl",
    "ruby",
    "irb",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "wish",
    "Rscript",
    "R",
    "julia",
    "guile",
    "scheme",
    "java",
    "jshell",
    "groovy",
    "kotlin",
    "scala",
    "dotnet",
    "mono",
    "erl",
    "elixir",
    "ghci",
    "runghc",
    "ocaml",
    "sbcl",
    "clojure",
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "sed",
    "bc",
    "dc",
    "m4",
    "sqlite",
    "psql",
    "mysql",
    "jq",
    "gs",
    /* tools with an option, a file or an environment that runs something */
    "git",
    "hg",
    "svn",
    "make",
    "gmake",
    "cmake",
    "ninja",
    "meson",
    "bazel",
    "gradle",
    "mvn",
    "ant",
    "npm",
    "npx",
    "pnpm",
    "yarn",
    "pip",
    "pipx",
    "uv",
    "uvx",
    "poetry",
    "tox",
    "nox",
    "pytest",
    "gem",
    "bundle",
    "rake",
    "cargo",
    "rustc",
    "go",
    "gcc",
    "g++",
    "cc",
    "c++",
    "clang",
    "clang++",
    "ld",
    "tar",
    "zip",
    "rsync",
    "scp",
    "sftp",
    "sort",
    "rg",
    "less",
    "more",
    "man",
    "vi",
    "vim",
    "nvim",
    "view",
    "ex",
    "ed",
    "emacs",
    "nano",
    "pico",
    "split",
    "install",
    "apt",
    "apt-get",
    "dpkg",
    "rpm",
    "dnf",
    "yum",
    "apk",
    "crontab",
    "at",
    "batch",
    "openssl",
    "curl",
    "wget",
    "tcpdump",
    "ffmpeg",
    "xdg-open",
    "logrotate",
    "pg_dump",
    "cpio",
    "pax",
};

static bool is_launcher(const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash ? slash + 1 : program;
    for (size_t i = 0; i < bg_countof(launchers); i++) {
        size_t n = strlen(launchers[i]);
        if (!strncmp(name, launchers[i], n) &&
            name[n + strspn(name + n, "0123456789.-")] == '\0')
            return true;
    }
    return false;
}

static bool below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return !strncmp(path, dir, n) && (path[n] == '/' || path[n] == '\0');
}

/* Absolute, and every part means itself: no empty one, no `.`, no `..`. */
static bool plain_absolute(const char *p)
{
    if (*p != '/' || !p[1])
        return false;
    while (*p == '/') {
        size_t n = strcspn(++p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n;
    }
    return true;
}

static bool parse_words(const struct bg_yaml_doc *d, const struct bg_yaml *n,
                        struct arg_rule *a, struct bg_error *err)
{
    const char *v;
    if (n->kind != BG_YAML_SEQ || n->count < 1 || n->count > BG_ARGS_MAX)
        return bg_yaml_fail(d, n, err, "`oneOf` needs a list of words");
    for (size_t i = 0; i < n->count; i++) {
        if (!bg_yaml_str(d, n->items[i], &v, err))
            return false;
        bg_strv_push(&a->words, v);
    }
    return true;
}

static bool parse_int(const struct bg_yaml_doc *d, const struct bg_yaml *n,
                      struct arg_rule *a, struct bg_error *err)
{
    static const char *const keys[] = {"min", "max", NULL};
    if (n->kind != BG_YAML_MAP || !bg_yaml_get(n, "min") || !bg_yaml_get(n, "max"))
        return bg_yaml_fail(d, n, err, "`int` needs {min: N, max: N}");
    if (!bg_yaml_known(d, n, keys, err) ||
        !bg_yaml_int(d, bg_yaml_get(n, "min"), 0, INT32_MAX, &a->min, err) ||
        !bg_yaml_int(d, bg_yaml_get(n, "max"), 0, INT32_MAX, &a->max, err))
        return false;
    return a->min <= a->max || bg_yaml_fail(d, n, err, "`min` is larger than `max`");
}

static bool parse_element(const struct bg_yaml_doc *d, const struct bg_yaml *n,
                          struct arg_rule *a, struct bg_error *err)
{
    static const char *const keys[] = {"exact", "oneOf", "int", "pathUnder", NULL};
    const char *v;
    if (n->kind != BG_YAML_MAP || n->count != 1)
        return bg_yaml_fail(d, n, err,
                            "an argument is one of {exact: TEXT}, {oneOf: [TEXT]}, {int: "
                            "{min, max}}, {pathUnder: /DIR}");
    if (!bg_yaml_known(d, n, keys, err))
        return false;
    const struct bg_yaml *value = n->items[0];
    if (!strcmp(value->key, "oneOf")) {
        a->match = ARG_ONE_OF;
        return parse_words(d, value, a, err);
    }
    if (!strcmp(value->key, "int")) {
        a->match = ARG_INT;
        return parse_int(d, value, a, err);
    }
    if (!bg_yaml_str(d, value, &v, err))
        return false;
    a->match = strcmp(value->key, "exact") ? ARG_PATH_UNDER : ARG_EXACT;
    if (a->match == ARG_PATH_UNDER && !plain_absolute(v))
        return bg_yaml_fail(
            d, value, err,
            "`pathUnder` needs an absolute path without `.` or `..`, and not `/`");
    bg_strv_push(&a->words, v);
    return true;
}

/* The program of an allow rule: named, and not from a place the sandboxed code can write.
 */
static bool check_program(const struct bg_yaml_doc *d, const struct bg_yaml *n,
                          const struct rule *r, struct bg_error *err)
{
    const struct arg_rule *first = &r->argv[0];
    bool launcher = false, exact = true;
    if (first->match != ARG_EXACT && first->match != ARG_ONE_OF)
        return bg_yaml_fail(d, n->items[0], err, "the program must be `exact` or `oneOf`");
    for (size_t i = 0; first->words[i]; i++) {
        const char *w = first->words[i];
        if (!*w || (strchr(w, '/') && !plain_absolute(w)) || below(w, BG_WORKDIR) ||
            below(w, "/tmp") || below(w, "/dev"))
            return bg_yaml_fail(d, n->items[0], err,
                                "`%s`: an allowed program is a plain name or an absolute "
                                "path that sandboxed code can't write",
                                w);
        launcher |= is_launcher(w);
    }
    for (size_t i = 0; i < r->n_argv; i++)
        exact &= r->argv[i].match == ARG_EXACT;
    if (launcher && !exact)
        return bg_yaml_fail(
            d, n, err,
            "this program can run others; allow it only with every element `exact`");
    return true;
}

bool rule_parse_argv(const struct bg_yaml_doc *d, const struct bg_yaml *n, struct rule *r,
                     struct bg_error *err)
{
    if (n->kind != BG_YAML_SEQ || n->count < 1 || n->count > BG_ARGS_MAX)
        return bg_yaml_fail(d, n, err, "`argv` needs a list of 1 to %d elements",
                            BG_ARGS_MAX);
    r->argv = bg_xcalloc(n->count, sizeof *r->argv);
    for (size_t i = 0; i < n->count; i++) {
        r->n_argv++;
        if (!parse_element(d, n->items[i], &r->argv[i], err))
            return false;
    }
    return r->decision != BG_DECIDE_ALLOW || check_program(d, n, r, err);
}

static bool int_matches(const struct arg_rule *a, const char *arg)
{
    size_t n = strlen(arg);
    int64_t v = 0;
    if (n < 1 || n > 10 || arg[strspn(arg, "0123456789")] || (n > 1 && *arg == '0'))
        return false;
    for (; *arg; arg++)
        v = v * 10 + (*arg - '0');
    return v >= a->min && v <= a->max;
}

static bool element_matches(const struct arg_rule *a, const char *arg)
{
    switch (a->match) {
    case ARG_EXACT:
    case ARG_ONE_OF:
        for (size_t i = 0; a->words[i]; i++)
            if (!strcmp(a->words[i], arg))
                return true;
        return false;
    case ARG_INT:
        return int_matches(a, arg);
    case ARG_PATH_UNDER:
        return plain_absolute(arg) && below(arg, a->words[0]);
    }
    return false;
}

bool rule_argv_matches(const struct rule *r, const struct bg_facts *f)
{
    if (!f->argv || bg_strv_len(f->argv) != r->n_argv)
        return false;
    for (size_t i = 0; i < r->n_argv; i++)
        if (!element_matches(&r->argv[i], f->argv[i]))
            return false;
    return true;
}

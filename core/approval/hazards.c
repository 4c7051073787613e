/* SPDX-License-Identifier: MIT */
/*
 * Hazards of a request: what the renderer found in every byte field, and structural facts.
 * The lists err on the side of naming too much: a hazard costs the operator four digits, a
 * missed one could cost everything.
 */
#include <ctype.h>
#include <stdio.h>

#include "core/approval/request.h"
#include "core/base/mem.h"

static void note(struct bg_hazards *h, enum bg_hazard hz, const char *field, uint32_t line)
{
    h->bits |= BG_HZ_BIT(hz);
    if (h->n == BG_NOTES_MAX)
        return;
    struct bg_hazard_note *n = &h->notes[h->n++];
    n->hazard = hz;
    n->line = line;
    snprintf(n->field, sizeof n->field, "%s", field);
}

static void scan(struct bg_hazards *h, struct bg_scan *s, const char *field, const void *p,
                 size_t n)
{
    if (!p)
        return;
    bg_text_scan(p, n, s);
    for (size_t i = 0; i < s->n_notes; i++)
        note(h, s->notes[i].hazard, field, s->notes[i].line);
    h->bits |= s->hazards; /* also what had no room for a note */
}

/* Variables by which a value becomes code, or decides which code is loaded: the loader,
 * shells, interpreters, build tools, what programs start by themselves (pagers, editors,
 * git). */
static const char *const steering[] = {
    "PATH",
    "ENV",
    "BASH_ENV",
    "BASHOPTS",
    "SHELLOPTS",
    "SHELL",
    "IFS",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PROMPT_COMMAND",
    "CDPATH",
    "FPATH",
    "ZDOTDIR",
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    "INPUTRC",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_EXTRA_CA_CERTS",
    "NODE_REPL_EXTERNAL_MODULE",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "NODE_COMPILE_CACHE",
    "BUN_OPTIONS",
    "PERLLIB",
    "PERL5OPT",
    "RUBYOPT",
    "RUBYLIB",
    "RUBYSHELL",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "CLASSPATH",
    "JAVA_HOME",
    "JAVA_OPTS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "TCLLIBPATH",
    "TCLINIT",
    "AWKPATH",
    "AWKLIBPATH",
    "R_HOME",
    "R_LIBS",
    "R_LIBS_USER",
    "R_PROFILE",
    "R_PROFILE_USER",
    "R_ENVIRON",
    "R_ENVIRON_USER",
    "ERL_FLAGS",
    "ERL_LIBS",
    "GUILE_LOAD_PATH",
    "EMACSLOADPATH",
    "VIMINIT",
    "EXINIT",
    "VIM",
    "VIMRUNTIME",
    "GCONV_PATH",
    "LOCPATH",
    "NLSPATH",
    "GLIBC_TUNABLES",
    "HOSTALIASES",
    "RES_OPTIONS",
    "GETCONF_DIR",
    "TERMINFO",
    "TERMINFO_DIRS",
    "TERMCAP",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "CURL_HOME",
    "REQUESTS_CA_BUNDLE",
    "WGETRC",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "MANOPT",
    "BROWSER",
    "LESS",
    "LESSOPEN",
    "LESSCLOSE",
    "LESSKEYIN",
    "FCEDIT",
    "SUDO_ASKPASS",
    "SSH_ASKPASS",
    "RSYNC_RSH",
    "TAR_OPTIONS",
    "MAKEFLAGS",
    "MFLAGS",
    "GNUMAKEFLAGS",
    "MAKEFILES",
    "CC",
    "CXX",
    "LD",
    "CONFIG_SHELL",
    "CONFIG_SITE",
    "RUSTC",
    "RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOCFLAGS",
    "GOFLAGS",
    "GOPATH",
    "GOROOT",
    "GOPROXY",
    "GOENV",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "GCC_SPECS",
    "LIBRARY_PATH",
    "PKG_CONFIG",
    "PKG_CONFIG_PATH",
    "GTK_MODULES",
    "GTK_PATH",
    "GIO_EXTRA_MODULES",
    "QT_PLUGIN_PATH",
    "QT_QPA_PLATFORM_PLUGIN_PATH",
    "COR_PROFILER",
    "COR_PROFILER_PATH",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
};
static const char *const steering_prefix[] = {
    "LD_",        "DYLD_",   "PYTHON",  "GIT_",    "BASH_FUNC_",  "PERL5",
    "JAVA_TOOL_", "LUA_",    "PIP_",    "UV_",     "npm_config_", "NPM_CONFIG_",
    "YARN_",      "CARGO_",  "DENO_",   "DOTNET_", "CORECLR_",    "JULIA_",
    "GEM_",       "BUNDLE_", "MALLOC_", "CMAKE_",
};

static bool env_steers(const char *name, size_t n)
{
    for (size_t i = 0; i < bg_countof(steering); i++)
        if (strlen(steering[i]) == n && memcmp(steering[i], name, n) == 0)
            return true;
    for (size_t i = 0; i < bg_countof(steering_prefix); i++) {
        size_t len = strlen(steering_prefix[i]);
        if (n >= len && memcmp(steering_prefix[i], name, len) == 0)
            return true;
    }
    return false;
}

static void scan_env(struct bg_hazards *h, struct bg_scan *s, char *const *env)
{
    for (; env && *env; env++) {
        char field[sizeof h->notes->field];
        size_t n = strcspn(*env, "=");
        snprintf(field, sizeof field, "env %.*s", (int)n, *env);
        if (env_steers(*env, n))
            note(h, BG_HZ_ENV, field, 0);
        if ((*env)[n])
            scan(h, s, field, *env + n + 1, strlen(*env + n + 1));
    }
}

/* Programs that execute what they read, by name without version ("python3.11" is python).
 */
static const char *const interpreters[] = {
    "sh",     "bash",     "rbash",   "dash",       "ash",     "zsh",     "ksh",
    "mksh",   "fish",     "csh",     "tcsh",       "busybox", "pwsh",    "nu",
    "python", "pypy",     "ipython", "node",       "nodejs",  "deno",    "bun",
    "qjs",    "tsx",      "ts-node", "perl",       "ruby",    "irb",     "php",
    "lua",    "luajit",   "tclsh",   "wish",       "expect",  "R",       "Rscript",
    "julia",  "ghci",     "runghc",  "runhaskell", "ocaml",   "guile",   "racket",
    "scheme", "sbcl",     "clisp",   "emacs",      "erl",     "elixir",  "iex",
    "scala",  "groovy",   "jshell",  "kotlinc",    "swift",   "octave",  "awk",
    "gawk",   "mawk",     "sed",     "ed",         "ex",      "vi",      "vim",
    "nvim",   "make",     "gmake",   "m4",         "bc",      "dc",      "gdb",
    "lldb",   "sqlite",   "psql",    "mysql",      "mariadb", "mongosh", "redis-cli",
    "xargs",  "parallel", "at",      "batch",      "crontab", "ssh",     "nc",
    "ncat",   "socat",    "gcc",     "cc",         "clang",   "tcc",     "as",
};

static bool is_interpreter(const char *arg)
{
    const char *slash = strrchr(arg, '/'), *name = slash ? slash + 1 : arg;
    size_t n = strlen(name);
    while (n && (isdigit((unsigned char)name[n - 1]) || name[n - 1] == '.'))
        n--;
    if (n && name[n - 1] == '-') /* gcc-12 */
        n--;
    for (size_t i = 0; n && i < bg_countof(interpreters); i++)
        if (strlen(interpreters[i]) == n && memcmp(interpreters[i], name, n) == 0)
            return true;
    return false;
}

/* Anywhere in argv: launchers (env, nice, timeout, sudo ...) are without number. */
static void interpreter_input(struct bg_hazards *h, const struct bg_body *b)
{
    if (b->input_len == 0)
        return;
    for (char *const *a = b->argv; a && *a; a++)
        if (is_interpreter(*a)) {
            note(h, BG_HZ_INTERPRETER_INPUT, "input", 0);
            return;
        }
}

static void facts_of_the_sandbox(struct bg_hazards *h, const struct bg_facts *f,
                                 bool root_user)
{
    if (f->mounts_rw)
        note(h, BG_HZ_RW_MOUNT, "sandbox", 0);
    if (!f->network || strcmp(f->network, "none") != 0)
        note(h, BG_HZ_NETWORK, "sandbox", 0);
    if (root_user)
        note(h, BG_HZ_ROOT, "sandbox", 0);
    if (!f->caps_none || !f->no_new_privileges)
        note(h, BG_HZ_WEAK_SECURITY, "sandbox", 0);
    if (f->unlimited)
        note(h, BG_HZ_UNLIMITED, "sandbox", 0);
}

void bg_hazards_find(struct bg_hazards *h, const struct bg_body *b,
                     const struct bg_binding *bind, const struct bg_facts *f,
                     char *const *spec_env, bool root_user)
{
    struct bg_scan *s = bg_xmalloc(sizeof *s);
    h->bits = 0;
    h->n = 0;
    facts_of_the_sandbox(h, f, root_user);
    scan_env(h, s, spec_env);
    scan_env(h, s, b->env);
    interpreter_input(h, b);
    scan(h, s, "code", b->code, b->code_len);
    size_t i = 0;
    for (char *const *a = bind->argv; a && *a; a++) {
        char field[32];
        snprintf(field, sizeof field, "argv %zu", i++);
        scan(h, s, field, *a, strlen(*a));
    }
    scan(h, s, "cwd", b->cwd, b->cwd ? strlen(b->cwd) : 0);
    scan(h, s, "workdir", bind->workdir, bind->workdir ? strlen(bind->workdir) : 0);
    scan(h, s, "input", b->input, b->input_len);
    free(s);
}

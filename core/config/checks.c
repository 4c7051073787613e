/* SPDX-License-Identifier: MIT */
/* What single values of config.yaml must look like. Each check tells at its place what is
 * wrong. */
#include <string.h>

#include "core/base/path.h"
#include "core/base/values.h"
#include "core/config/fields.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"
#define ALNUM LOWER UPPER DIGIT

/* Characters of `first`, then of `rest` only, at most max bytes. */
static bool shaped(const char *v, const char *first, const char *rest, size_t max)
{
    return *v && strchr(first, *v) && v[strspn(v, rest)] == '\0' && strlen(v) <= max;
}

static bool below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return !strncmp(path, dir, n) && (path[n] == '/' || path[n] == '\0');
}

/* No empty part, no `.`, no `..`, no control byte: a path that means what it shows. */
static bool plain_path(const char *v)
{
    for (const char *p = v; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)p[i] < 0x20 || p[i] == 0x7f)
                return false;
        p += n;
        if (*p == '/' && *++p == '\0')
            return false;
    }
    return *v && strlen(v) <= BG_PATH_BYTES_MAX;
}

bool cfg_check_image(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    if (shaped(v, ALNUM, ALNUM "._/:@-", 255))
        return true;
    return bg_yaml_fail(in->doc, n, in->err,
                        "`%s` isn't an image name (or a preset: node, python, deno)", v);
}

static bool numeric_user(const char *v, size_t *used)
{
    *used = strspn(v, DIGIT);
    return *used >= 1 && *used <= 9;
}

bool cfg_check_user(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    size_t uid, gid;
    if (!*v || !strcmp(v, "root"))
        return true;
    if (numeric_user(v, &uid) && (v[uid] == '\0' || v[uid] == ':')) {
        if (strspn(v, "0") == uid)
            return bg_yaml_fail(in->doc, n, in->err,
                                "write `root` if the root user is meant");
        if (v[uid] == '\0' || (numeric_user(v + uid + 1, &gid) && v[uid + 1 + gid] == '\0'))
            return true;
    } else if (shaped(v, LOWER "_", LOWER DIGIT "_-", 32)) {
        return true;
    }
    return bg_yaml_fail(
        in->doc, n, in->err,
        "expected \"\" (the image's user), root, a user name, UID or UID:GID");
}

bool cfg_check_target(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    static const char *const taken[] = {"/proc",     "/sys", "/dev",   "/run",
                                        "/.boxgate", "/etc", "/usr",   "/bin",
                                        "/sbin",     "/lib", "/lib32", "/lib64"};
    if (*v != '/' || !plain_path(v + 1))
        return bg_yaml_fail(in->doc, n, in->err,
                            "`%s`: expected an absolute path without `.`, `..` or `//`", v);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (below(v, taken[i]))
            return bg_yaml_fail(in->doc, n, in->err,
                                "`%s`: %s belongs to the sandbox itself", v, taken[i]);
    return true;
}

bool cfg_check_workdir(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    if (!cfg_check_target(in, n, v))
        return false;
    if (below(v, "/tmp"))
        return bg_yaml_fail(
            in->doc, n, in->err,
            "`%s`: /tmp has a file system of its own; choose another folder", v);
    return true;
}

bool cfg_check_relative(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    if (*v != '/' && plain_path(v) && strlen(v) <= BG_MANIFEST_KEY_MAX)
        return true;
    return bg_yaml_fail(
        in->doc, n, in->err,
        "`%s`: expected a path relative to workdir that stays inside it (at most %d bytes)",
        v, BG_MANIFEST_KEY_MAX);
}

bool cfg_check_file(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    (void)v;
    if (strchr(n->key, '='))
        return bg_yaml_fail(in->doc, n, in->err, "`%s`: a manifest path can't hold `=`",
                            n->key);
    return cfg_check_relative(in, n, n->key);
}

bool cfg_check_env(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    if (!bg_env_name_valid(n->key))
        return bg_yaml_fail(in->doc, n, in->err,
                            "`%s` isn't a variable name ([A-Za-z_][A-Za-z0-9_]*)", n->key);
    if (strlen(v) > BG_ENV_VALUE_MAX)
        return bg_yaml_fail(in->doc, n, in->err, "`%s` is longer than %d bytes", n->key,
                            BG_ENV_VALUE_MAX);
    return true;
}

static bool check_value(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    if (strlen(v) > BG_LABEL_VALUE_MAX)
        return bg_yaml_fail(in->doc, n, in->err,
                            "the value of `%s` is longer than %d bytes", n->key,
                            BG_LABEL_VALUE_MAX);
    return true;
}

bool cfg_check_label(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    if (!strncasecmp(n->key, "boxgate.", 8))
        return bg_yaml_fail(in->doc, n, in->err,
                            "`%s`: labels beginning with `boxgate.` are boxgate's own",
                            n->key);
    if (!shaped(n->key, ALNUM, ALNUM "._/-", BG_LABEL_KEY_MAX))
        return bg_yaml_fail(
            in->doc, n, in->err,
            "`%s` isn't a label name (letters, digits, . _ / -, at most %d)", n->key,
            BG_LABEL_KEY_MAX);
    return check_value(in, n, v);
}

bool cfg_check_metadata(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    static const char set[] = LOWER DIGIT "._-";
    if (!shaped(n->key, set, set, BG_LABEL_KEY_MAX))
        return bg_yaml_fail(in->doc, n, in->err,
                            "`%s` isn't a metadata key ([a-z0-9._-], at most %d)", n->key,
                            BG_LABEL_KEY_MAX);
    return check_value(in, n, v);
}

bool cfg_check_capability(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    if (shaped(v, UPPER, UPPER DIGIT "_", 40) && strncmp(v, "CAP_", 4) != 0)
        return true;
    return bg_yaml_fail(in->doc, n, in->err,
                        "`%s`: expected ALL or a capability like NET_RAW, without CAP_", v);
}

bool cfg_check_id(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    if (bg_id_valid(v))
        return true;
    return bg_yaml_fail(in->doc, n, in->err,
                        "`%s` isn't an id ([A-Za-z0-9][A-Za-z0-9._-]*, at most %d)", v,
                        BG_ID_MAX);
}

bool cfg_check_id_or_empty(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    return !*v || cfg_check_id(in, n, v);
}

bool cfg_check_arg(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    if (!*v && n->key == NULL)
        return bg_yaml_fail(in->doc, n, in->err, "an empty argument");
    return true;
}

bool cfg_check_tool(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    static const char *const tools[] = {
        "run_code",       "wait_for_result",   "exec_command", "start_process",
        "read_file",      "write_file",        "list_files",   "list_ports",
        "list_processes", "read_process_logs", "stop_process", "wait_for_port",
        "close_session"};
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        if (!strcmp(v, tools[i]))
            return true;
    return bg_yaml_fail(in->doc, n, in->err, "there is no tool `%s`", v);
}

/* Names are compared as they stand, so what looks like a pattern would silently match
 * nothing. */
bool cfg_check_command(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    if (*v && !v[strcspn(v, " \t\r\n*?[]{}|&;<>()$`\"'\\")])
        return true;
    return bg_yaml_fail(
        in->doc, n, in->err,
        "`%s`: expected the exact name of one program, no pattern, no arguments", v);
}

bool cfg_check_endpoint(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    const char *path = !strncmp(v, "unix://", 7) ? v + 7 : v;
    if (!*v || (*path == '/' && plain_path(path + 1)))
        return true;
    return bg_yaml_fail(
        in->doc, n, in->err,
        "`%s`: expected \"\" or the engine's socket, like unix:///run/docker.sock", v);
}

bool cfg_check_program(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    if (!*v || (*v == '/' && plain_path(v + 1)) || shaped(v, ALNUM, ALNUM "._-", 64))
        return true;
    return bg_yaml_fail(in->doc, n, in->err,
                        "`%s`: expected \"\", a program's name or its absolute path", v);
}

bool cfg_check_url(const struct cfg_in *in, const struct bg_yaml *n, const char *v)
{
    const char *host = !strncmp(v, "https://", 8)  ? v + 8
                       : !strncmp(v, "http://", 7) ? v + 7
                                                   : NULL;
    if (!*v || (host && shaped(host, ALNUM "[", ALNUM "._~:/[]%-", 1000)))
        return true;
    return bg_yaml_fail(
        in->doc, n, in->err,
        "expected \"\" or a base URL that begins with https:// (no user, no query)");
}

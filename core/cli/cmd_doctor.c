/* SPDX-License-Identifier: MIT */
/*
 * doctor: everything that decides whether boxgate works and holds here, with the remedy.
 * Changes nothing but the runtime folder, which the trial runs need.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "core/base/values.h"
#include "core/cli/probe.h"
#include "core/policy/policy.h"

/* contract.md 1: said here, in the README, and nowhere hidden. */
#define BOUNDARY                                                                          \
    "every process of your uid can use both sockets: the decision is asked of a person, " \
    "but not forced on a program that runs as you outside a sandbox. The real boundary "  \
    "is "                                                                                 \
    "a separate uid for the server, or an agent that has nothing but a mounted agent.sock"

#define CGROUP_REMEDY                                                                \
    "limits need cgroups that can be written: a server of root, or a systemd login " \
    "(version 2, systemd-run --user works); limits.strictLimits: true refuses instead"
#define STATE_ROOM_MIB 64 /* less is told: a few thousand records */

enum status { OK, NOTE, WARN, FAIL };
static const char *const status_names[] = {"ok", "note", "warn", "fail"};

struct doctor {
    struct bg_paths paths;
    struct bg_config *config; /* NULL: not readable */
    cJSON *rows;
    bool failed;
    bool any_provider;
};

BG_PRINTF(5, 6)
static void add(struct doctor *d, enum status st, const char *check, const char *remedy,
                const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    cJSON *row = bg_jo();
    bg_jset_str(row, "check", check);
    bg_jset_str(row, "status", status_names[st]);
    bg_jset_str(row, "text", text);
    bg_jset_str(row, "remedy", remedy && *remedy ? remedy : NULL);
    cJSON_AddItemToArray(d->rows, row);
    d->failed |= st == FAIL;
}

/* ---- this program and its folders ---- */

static void check_versions(struct doctor *d)
{
    struct utsname u;
    struct bg_error err = {0};
    if (!uname(&u))
        add(d, OK, "version", NULL, "boxgate %s on %s %s %s, uid %u", BG_VERSION, u.sysname,
            u.release, u.machine, (unsigned)geteuid());
    bg_autofree char *guest = bg_guest_find(&err);
    if (guest)
        add(d, OK, "guest", NULL, "%s", guest);
    else
        add(d, FAIL, "guest", "build it with make, or install it with make install", "%s",
            err.msg);
}

/* A folder that is not there yet: can it be made? Asked of what it would be made in. */
static void check_missing(struct doctor *d, const char *name, const char *path)
{
    bg_autofree char *up = bg_xstrdup(path);
    char *slash;
    do {
        slash = strrchr(up, '/');
        slash[slash == up] = '\0';
    } while (slash != up && access(up, F_OK) && errno == ENOENT);
    if (access(up, W_OK | X_OK))
        add(d, FAIL, name, "choose another place with BOXGATE_HOME",
            "%s can't be made: %s: %s", path, up, strerror(errno));
    else
        add(d, NOTE, name, NULL, "%s: not there yet, made when needed", path);
}

static void check_folder(struct doctor *d, const char *name, const char *path)
{
    struct stat st;
    bg_autofree char *remedy = NULL;
    if (lstat(path, &st)) {
        if (errno == ENOENT)
            check_missing(d, name, path);
        else
            add(d, FAIL, name, NULL, "%s: %s", path, strerror(errno));
    } else if (!S_ISDIR(st.st_mode)) {
        add(d, FAIL, name, "put a folder of your own there", "%s is %s", path,
            S_ISLNK(st.st_mode) ? "a symbolic link" : "no folder");
    } else if (st.st_uid != geteuid()) {
        add(d, FAIL, name, "choose another one with BOXGATE_HOME", "%s belongs to uid %u",
            path, (unsigned)st.st_uid);
    } else if (st.st_mode & 077) {
        remedy = bg_xasprintf("chmod 700 %s", path);
        add(d, FAIL, name, remedy, "%s has mode %04o", path, (unsigned)st.st_mode & 07777);
    } else if (access(path, W_OK | X_OK)) {
        add(d, FAIL, name, "choose another place with BOXGATE_HOME", "%s: %s", path,
            strerror(errno));
    } else {
        add(d, OK, name, NULL, "%s", path);
    }
}

/* What can't be recorded is denied: a full disk stops everything, so it is told early. */
static void check_room(struct doctor *d)
{
    struct statvfs v;
    if (statvfs(d->paths.state, &v))
        return;
    uint64_t mib = (uint64_t)v.f_bavail * v.f_frsize >> 20;
    if (mib < STATE_ROOM_MIB)
        add(d, mib ? WARN : FAIL, "state folder", "make room on that disk",
            "%s: %" PRIu64 " MiB are free; what can't be recorded is denied",
            d->paths.state, mib);
}

static void check_folders(struct doctor *d)
{
    const char *home = getenv("BOXGATE_HOME");
    if (home && *home)
        add(d, NOTE, "BOXGATE_HOME", NULL, "%s moves all four folders", home);
    check_folder(d, "config folder", d->paths.config);
    check_folder(d, "state folder", d->paths.state);
    check_room(d);
    check_folder(d, "runtime folder", d->paths.runtime);
    check_folder(d, "cache folder", d->paths.cache);
}

/* ---- files ---- */

static void check_config(struct doctor *d)
{
    struct bg_error err = {0};
    d->config = bg_config_load(d->paths.config_file, &err);
    if (!d->config)
        add(d, FAIL, "config", "mend the file; boxgate help init", "%s", err.msg);
    else if (d->config->provider == BG_PROVIDER_NONE)
        add(d, FAIL, "config", "boxgate init --provider local", "no provider chosen");
    else
        add(d, OK, "config", NULL, "%s, provider %s", d->paths.config_file,
            bg_provider_kind_name(d->config->provider));
    if (d->config && d->config->operator_headless)
        add(d, NOTE, "decisions", "operator.headless: false",
            "boxgate approve decides without a terminal too");
}

static void check_policy(struct doctor *d)
{
    struct bg_error err = {0};
    if (access(d->paths.policy_file, F_OK)) {
        add(d, OK, "policy", NULL, "no policy.yaml: everything is asked for");
        return;
    }
    struct bg_policy *p = bg_policy_load(d->paths.policy_file, &err);
    if (p)
        add(d, OK, "policy", NULL, "%s, %zu rules", d->paths.policy_file,
            bg_policy_rules(p));
    else
        add(d, FAIL, "policy", "mend the file, then: boxgate policy check", "%s", err.msg);
    bg_policy_free(p);
}

/* ---- providers ---- */

static char *words(char *const *v)
{
    struct bg_buf b;
    bg_buf_init(&b, BG_JSON_HELLO_MAX);
    for (; v && *v; v++)
        bg_buf_printf(&b, "%s%s", b.len ? ", " : "", *v);
    return bg_buf_steal(&b);
}

static void add_provider(struct doctor *d, enum bg_provider_kind kind, bool chosen,
                         const struct bg_provider_report *r, const struct bg_error *err)
{
    bg_autofree char *check = bg_xasprintf("provider %s", bg_provider_kind_name(kind));
    enum status bad = chosen ? FAIL : NOTE;
    if (!r || !r->available) {
        add(d, bad, check, r ? r->remedy : NULL, "not available: %s",
            r && r->why_not ? r->why_not
            : r             ? "?"
                            : err->msg);
        return;
    }
    d->any_provider = true;
    add(d, OK, check, NULL, "%s: %s%s%s",
        kind == BG_PROVIDER_LOCAL ? "a trial sandbox ran" : "the engine answers",
        r->version ? r->version
        : r->name  ? r->name
                   : "",
        r->endpoint && *r->endpoint ? ", " : "", r->endpoint ? r->endpoint : "");
    bg_autofree char *on = words(r->enforced), *off = words(r->not_enforced);
    if (*on)
        add(d, OK, check, NULL, "enforces: %s", on);
    if (*off)
        add(d, chosen ? WARN : NOTE, check,
            kind == BG_PROVIDER_LOCAL ? CGROUP_REMEDY : r->remedy,
            "does NOT enforce here: %s", off);
}

static void check_providers(struct doctor *d)
{
    static const enum bg_provider_kind kinds[] = {BG_PROVIDER_LOCAL, BG_PROVIDER_CONTAINER};
    struct bg_error err = {0};
    if (!bg_dir_private(d->paths.runtime, &err)) {
        add(d, FAIL, "runtime folder", NULL, "%s", err.msg);
        return;
    }
    for (size_t i = 0; i < bg_countof(kinds); i++) {
        struct cli_probe p;
        struct bg_error why = {0};
        struct bg_config *c = bg_config_load(d->paths.config_file, NULL);
        const struct bg_provider_report *r = cli_probe_open(
            &p, kinds[i], c ? c : bg_config_defaults(), &d->paths, NULL, &why);
        add_provider(d, kinds[i], d->config && d->config->provider == kinds[i], r, &why);
        cli_probe_close(&p);
    }
    if (!d->any_provider)
        add(d, FAIL, "providers", NULL, "no sandbox is possible here");
}

static void check_cgroups(struct doctor *d)
{
    struct stat st;
    bool v2 = !stat("/sys/fs/cgroup/cgroup.controllers", &st);
    bool v1 = !stat("/sys/fs/cgroup/memory", &st);
    add(d, v1 || v2 ? OK : NOTE, "cgroups", NULL, "%s",
        v2   ? "version 2"
        : v1 ? "version 1"
             : "none; limits of memory, cpu and processes can't be enforced by local");
}

/* ---- the server ---- */

static void add_server(struct doctor *d, struct bg_client *c)
{
    const cJSON *h = bg_client_hello(c);
    const cJSON *p = cJSON_GetObjectItemCaseSensitive(h, "provider");
    char ours[BG_SHA256_HEX + 1] = "";
    bool same_version = !strcmp(cli_str(h, "version"), BG_VERSION);
    add(d, same_version ? OK : WARN, "server", same_version ? NULL : "boxgate server stop",
        "pid %.0f, version %s", cli_num(h, "pid"), cli_str(h, "version"));
    if (!cli_true(p, "available"))
        add(d, FAIL, "server", cli_str(p, "remedy"), "its provider is not available: %s",
            cli_str(p, "whyNot"));
    if (d->config)
        bg_sha256_hex(&d->config->digest, ours);
    if (d->config && strcmp(ours, cli_str(h, "configSha256")))
        add(d, WARN, "server", "boxgate server stop; it starts again when needed",
            "it still uses an earlier config.yaml");
    if (cli_true(h, "policyDistrusted"))
        add(d, FAIL, "server", "mend policy.yaml",
            "its policy became invalid: only its denies hold, every allow is off");
}

static void check_server(struct doctor *d)
{
    struct bg_error err = {0};
    struct bg_loop *loop = bg_loop_new();
    struct bg_client_opts o = {
        .role = BG_ROLE_OBSERVER, .name = "boxgate-doctor", .paths = &d->paths};
    struct bg_client *c = bg_client_connect(loop, &o, NULL, NULL, &err);
    if (c)
        add_server(d, c);
    else if (err.code == BG_ERR_UNAVAILABLE)
        add(d, NOTE, "server", NULL, "none runs; it is started when needed");
    else
        add(d, FAIL, "server", NULL, "%s", err.msg);
    bg_client_free(c);
    bg_loop_free(loop);
}

/* ---- out ---- */

static void print(const struct doctor *d)
{
    struct bg_buf b;
    const cJSON *row;
    cli_buf(&b);
    cJSON_ArrayForEach(row, d->rows)
    {
        const char *remedy = cli_str(row, "remedy"), *text = cli_str(row, "text");
        bg_buf_printf(&b, "%-5s %s: ", cli_str(row, "status"), cli_str(row, "check"));
        bg_text_safe(&b, text, strlen(text), 0);
        if (*remedy) {
            bg_buf_puts(&b, "\n      remedy: ");
            bg_text_safe(&b, remedy, strlen(remedy), 0);
        }
        bg_buf_putc(&b, '\n');
    }
    cli_out(&b);
}

static int run(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_error err = {0};
    struct doctor d = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    bg_digest_init();
    if (!bg_paths_init(&d.paths, NULL, &err))
        return cli_fail(&err);
    d.rows = bg_ja();
    check_versions(&d);
    check_folders(&d);
    check_config(&d);
    check_policy(&d);
    check_cgroups(&d);
    check_providers(&d);
    check_server(&d);
    add(&d, NOTE, "boundary", NULL, "%s", BOUNDARY);
    if (cli_flag(&a, "json"))
        cli_out_json(d.rows);
    else
        print(&d);
    cJSON_Delete(d.rows);
    bg_config_free(d.config);
    bg_paths_free(&d.paths);
    return d.failed ? BG_EXIT_FAILED : BG_EXIT_OK;
}

static const struct bg_opt opts[] = {
    {"json", 'j', NULL, "an array of {check, status, text, remedy}"},
    {0},
};

const struct bg_cmd cmd_doctor = {
    .name = "doctor",
    .args = "[--json]",
    .summary = "check this machine, the folders, the files and the server",
    .help = "Each provider makes a trial sandbox. Exit 1 when something failed.",
    .opts = opts,
    .run = run,
};

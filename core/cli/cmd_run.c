/* SPDX-License-Identifier: MIT */
/* run and exec: from the words of the command line to a request; job.c waits for it. */
#include <stdio.h>
#include <string.h>

#include "core/base/values.h"
#include "core/cli/job.h"

/* ---- run ---- */

static const struct {
    const char *ext, *language;
} extensions[] = {
    {".py", "python"},      {".js", "javascript"}, {".mjs", "javascript"},
    {".cjs", "javascript"}, {".bash", "bash"},     {".sh", "sh"},
};

static const char *language_of(const char *file)
{
    const char *dot = strrchr(file, '.');
    for (size_t i = 0; dot && i < bg_countof(extensions); i++)
        if (!strcmp(dot, extensions[i].ext))
            return extensions[i].language;
    return NULL;
}

/* --timeout and --session, which both commands check the same way. */
static bool common_ok(const struct cli_args *a, const char *session, int64_t *timeout)
{
    const char *t = cli_value(a, "timeout");
    *timeout = 0;
    if (session && !bg_id_valid(session)) {
        cli_usage(a->cmd, "not a valid session id: %s", session);
        return false;
    }
    if (t && !cli_duration(t, timeout)) {
        cli_usage(a->cmd, "--timeout takes a time like 60s, 500ms or 2m, not %s", t);
        return false;
    }
    return true;
}

static cJSON *request_of(const struct cli_args *a, const char *kind, const char *session,
                         cJSON *body, int64_t timeout)
{
    cJSON *p = bg_jo();
    const char *profile = cli_value(a, "profile");
    if (timeout)
        bg_jset_int(body, "timeoutMs", timeout);
    bg_jset_str(p, "kind", kind);
    if (session)
        bg_jset_str(p, "session", session);
    if (profile)
        bg_jset_str(p, "profile", profile);
    bg_jset(p, "body", body);
    if (cli_flag(a, "no-wait"))
        bg_jset_bool(p, "noWait", true);
    return p;
}

static int run(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_error err = {0};
    int64_t timeout;
    bg_autobuf struct bg_buf code = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 1))
        return BG_EXIT_USAGE;
    const char *file = a.argc ? a.argv[0] : "-", *session = cli_value(&a, "session");
    const char *lang = cli_value(&a, "lang");
    if (!common_ok(&a, session, &timeout))
        return BG_EXIT_USAGE;
    if (!lang && !(lang = language_of(file)))
        return cli_usage(cmd,
                         "which language? say: --lang python (or javascript, bash, sh)");
    bg_buf_init(&code, BG_CODE_MAX);
    if (!cli_read(file, BG_CODE_MAX, &code, &err))
        return cli_fail(&err);
    cJSON *body = bg_jo();
    bg_jset_bytes(body, "code", code.data, code.len);
    bg_jset_str(body, "language", lang);
    struct cli_job job = {
        .name = "boxgate-run",
        .params = request_of(&a, "run_code", session, body, timeout),
        .json = cli_flag(&a, "json"),
        .raw = cli_flag(&a, "raw"),
    };
    return cli_job_run(&job);
}

static const struct bg_opt run_opts[] = {
    {"session", 's', "ID", "run in this session; one is opened if there is none"},
    {"lang", 'l', "LANGUAGE", "python, javascript, bash, sh; else by the file's name"},
    {"profile", 'p', "NAME", "the profile for a new session"},
    {"timeout", 't', "TIME", "60s, 500ms, 2m; capped by the profile"},
    {"no-wait", 0, NULL, "denied at once when nobody is there to decide"},
    {"json", 'j', NULL, "the result as JSON; the program's output is in it"},
    {"raw", 0, NULL, "the program's exact bytes, also on a terminal"},
    {0},
};

const struct bg_cmd cmd_run = {
    .name = "run",
    .args = "[OPTIONS] [FILE|-]",
    .summary = "ask to run code in a sandbox, wait, print what it printed",
    .help =
        "The code is shown to an operator, who approves or denies it; then it runs in a\n"
        "sandbox. Without --session the session is new and is closed at the end.\n"
        "\n"
        "Exit code: the program's; 124 when it timed out; 125 when it did not run or was\n"
        "lost (the last line on stderr is \"boxgate: STATE: reason\"); 130 on Ctrl-C, "
        "which\n"
        "takes the request back.\n"
        "\n"
        "examples:\n"
        "  boxgate run analysis.py\n"
        "  echo 'print(6*7)' | boxgate run --lang python\n"
        "  boxgate run --session job-1 --timeout 5s step2.sh",
    .opts = run_opts,
    .run = run,
};

/* ---- exec ---- */

static bool add_env(const struct cli_args *a, cJSON *body)
{
    size_t at = 0;
    const char *kv;
    cJSON *env = NULL;
    while ((kv = cli_each(a, "env", &at))) {
        const char *eq = strchr(kv, '=');
        bg_autofree char *name = bg_xstrndup(kv, strcspn(kv, "="));
        /* A value on the command line is every local user's to read. */
        const char *value = eq ? eq + 1 : getenv(name);
        if (!value || !bg_env_name_valid(name)) {
            cli_usage(a->cmd, "--env takes NAME=VALUE, or a NAME that is set here; not %s",
                      kv);
            cJSON_Delete(env);
            return false;
        }
        env = env ? env : bg_jo();
        cJSON_DeleteItemFromObjectCaseSensitive(env, name);
        bg_jset_bytes(env, name, value, strlen(value));
    }
    if (env)
        bg_jset(body, "env", env);
    return true;
}

static cJSON *exec_body(const struct cli_args *a, struct bg_error *err)
{
    cJSON *body = bg_jo(), *args = bg_ja();
    const char *cwd = cli_value(a, "cwd"), *input = cli_value(a, "input");
    bg_jset_str(body, "command", a->argv[1]);
    for (int i = 2; i < a->argc; i++)
        cJSON_AddItemToArray(args, cJSON_CreateString(a->argv[i]));
    bg_jset(body, "args", args);
    if (cwd)
        bg_jset_str(body, "cwd", cwd);
    bool ok = add_env(a, body);
    if (ok && input) {
        bg_autobuf struct bg_buf b;
        bg_buf_init(&b, BG_INPUT_MAX);
        ok = cli_read(input, BG_INPUT_MAX, &b, err);
        bg_jset_bytes(body, "input", b.data, b.len);
    }
    if (ok)
        return body;
    cJSON_Delete(body);
    return NULL;
}

static int exec_cmd(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_error err = {0};
    int64_t timeout;
    if (!cli_parse(&a, cmd, argc, argv, 2, -1))
        return BG_EXIT_USAGE;
    if (!common_ok(&a, a.argv[0], &timeout))
        return BG_EXIT_USAGE;
    cJSON *body = exec_body(&a, &err);
    if (!body)
        return err.code ? cli_fail(&err) : BG_EXIT_USAGE;
    struct cli_job job = {
        .name = "boxgate-exec",
        .params = request_of(&a, "exec", a.argv[0], body, timeout),
        .json = cli_flag(&a, "json"),
        .raw = cli_flag(&a, "raw"),
    };
    return cli_job_run(&job);
}

static const struct bg_opt exec_opts[] = {
    {"cwd", 'C', "DIR", "relative to the session's working directory"},
    {"env", 'e', "NAME[=VALUE]",
     "for this command; NAME alone: your own value, which ps never shows"},
    {"input", 'i', "FILE|-", "what the command reads on its standard input"},
    {"timeout", 't', "TIME", "60s, 500ms, 2m; capped by the profile"},
    {"no-wait", 0, NULL, "denied at once when nobody is there to decide"},
    {"json", 'j', NULL, "the result as JSON; the program's output is in it"},
    {"raw", 0, NULL, "the program's exact bytes, also on a terminal"},
    {0},
};

const struct bg_cmd cmd_exec = {
    .name = "exec",
    .args = "SESSION [OPTIONS] -- CMD ARGS...",
    .summary = "ask to run a command in a session, wait, print what it printed",
    .help =
        "No shell is put between: CMD gets exactly these arguments. Its standard input is\n"
        "empty unless --input says otherwise. Exit codes as in boxgate run.\n"
        "\n"
        "examples:\n"
        "  boxgate exec job-1 -- ls -la\n"
        "  boxgate exec job-1 --env DEBUG=1 --timeout 2m -- python3 -m pytest tests",
    .opts = exec_opts,
    .run = exec_cmd,
};

/* SPDX-License-Identifier: MIT */
/* policy check, policy explain: policy.yaml read and tried here, the server is not asked.
 */
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/values.h"
#include "core/cli/util.h"
#include "core/config/config.h"
#include "core/policy/policy.h"

/* ---- check ---- */

static struct bg_policy *load(const char *file, struct bg_error *err)
{
    struct bg_paths paths;
    if (!bg_paths_init(&paths, NULL, err))
        return NULL;
    struct bg_policy *p = NULL;
    const char *path = file ? file : paths.policy_file;
    if (file && access(file, F_OK))
        bg_fail(err, BG_ERR_NOT_FOUND, 0, "there is no %s", file);
    else
        p = bg_policy_load(path, err);
    bg_paths_free(&paths);
    return p;
}

static int run_check(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_error err = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 1))
        return BG_EXIT_USAGE;
    bg_digest_init();
    struct bg_policy *p = load(a.argc ? a.argv[0] : NULL, &err);
    if (!p) {
        cli_fail(&err);
        return err.code == BG_ERR_NOT_FOUND ? BG_EXIT_NOT_FOUND : BG_EXIT_FAILED;
    }
    struct bg_buf b;
    cli_buf(&b);
    bg_buf_printf(&b, "policy: ok, %zu rules\n", bg_policy_rules(p));
    bg_policy_free(p);
    cli_out(&b);
    return BG_EXIT_OK;
}

const struct bg_cmd cmd_policy_check = {
    .name = "policy check",
    .args = "[FILE]",
    .summary = "read policy.yaml and say what is wrong; exit 1 if something is",
    .help = "A missing policy.yaml is fine: then everything is asked for.",
    .run = run_check,
};

/* ---- explain ---- */

struct input {
    struct bg_facts f;
    char *code;
    char **argv;
    char *principal;
};

static void scan(struct bg_facts *f, const char *p, size_t n)
{
    struct bg_scan s;
    bg_text_scan(p, n, &s);
    f->hazards |= s.hazards;
}

static void read_argv(struct bg_jr *r, struct input *in)
{
    const char *command = bg_jr_str_opt(r, "command", NULL);
    const cJSON *args = bg_jr_arr_opt(r, "args"), *v;
    if (!command)
        return;
    bg_strv_push(&in->argv, command);
    cJSON_ArrayForEach(v, args)
    {
        if (cJSON_IsString(v))
            bg_strv_push(&in->argv, v->valuestring);
        else
            bg_jr_fail(r, "args", "expected strings");
    }
    for (char **p = in->argv; *p; p++)
        scan(&in->f, *p, strlen(*p));
    in->f.argv = in->argv;
}

static void read_hazards(struct bg_jr *r, struct bg_facts *f)
{
    const cJSON *v;
    cJSON_ArrayForEach(v, bg_jr_arr_opt(r, "hazards"))
    {
        enum bg_hazard h;
        if (cJSON_IsString(v) &&
            bg_hazard_from_name(v->valuestring, strlen(v->valuestring), &h))
            f->hazards |= BG_HZ_BIT(h);
        else
            bg_jr_fail(r, "hazards", "unknown hazard name");
    }
}

static bool read_sandbox(const cJSON *o, struct bg_facts *f, struct bg_error *err)
{
    struct bg_jr r;
    bg_jr_begin(&r, o, "sandbox", err);
    f->provider = bg_jr_str_opt(&r, "provider", "local");
    f->image_id = bg_jr_str_opt(&r, "imageId", "host");
    f->network = bg_jr_str_opt(&r, "network", "none");
    const char *mounts = bg_jr_str_opt(&r, "mounts", "none");
    const char *caps = bg_jr_str_opt(&r, "caps", "none");
    f->no_new_privileges = bg_jr_bool_opt(&r, "noNewPrivileges", true);
    f->fresh = bg_jr_bool_opt(&r, "fresh", false);
    f->unlimited = bg_jr_bool_opt(&r, "unlimited", false);
    f->changed_outside = bg_jr_bool_opt(&r, "changedOutside", false);
    f->mounts_rw = !strcmp(mounts, "rw");
    f->mounts_any = f->mounts_rw || !strcmp(mounts, "ro");
    f->caps_none = !strcmp(caps, "none");
    if (!f->mounts_any && strcmp(mounts, "none"))
        bg_jr_fail(&r, "mounts", "expected none, ro or rw");
    return bg_jr_end(&r);
}

static bool read_limits(const cJSON *o, struct bg_facts *f, struct bg_error *err)
{
    struct bg_jr r;
    bg_jr_begin(&r, o, "limits", err);
    f->timeout_ms =
        bg_jr_int_opt(&r, "timeoutMs", 1, BG_CFG_MS_MAX,
                      !strcmp(f->kind, "run_code") ? BG_RUN_TIMEOUT_MS : BG_TIMEOUT_MS);
    f->memory_mb = bg_jr_int_opt(&r, "memoryMb", 1, BG_CFG_MB_MAX, BG_MEMORY_MB);
    f->pids = bg_jr_int_opt(&r, "pidsLimit", 1, BG_CFG_PIDS_MAX, BG_PIDS);
    f->cpus_milli = bg_jr_int_opt(&r, "cpusMilli", 1, BG_CFG_CPUS_MILLI_MAX, BG_CPUS_MILLI);
    return bg_jr_end(&r);
}

static bool read_input(const cJSON *o, struct input *in, struct bg_error *err)
{
    struct bg_jr r;
    struct bg_facts *f = &in->f;
    size_t n = 0;
    bg_jr_begin(&r, o, "request", err);
    f->kind = bg_jr_str(&r, "kind");
    f->language = bg_jr_str_opt(&r, "language", NULL);
    f->cwd = bg_jr_str_opt(&r, "cwd", NULL);
    f->sha256 = bg_jr_str_opt(&r, "sha256", "");
    f->principal = bg_jr_str_opt(&r, "principal", in->principal);
    in->code = bg_jr_bytes_opt(&r, "code", BG_CODE_MAX, &n);
    if (in->code) {
        f->code = (struct bg_str){in->code, n};
        scan(f, in->code, n);
    }
    read_argv(&r, in);
    read_hazards(&r, f);
    f->now_wall_ms = bg_wall_ms();
    const cJSON *sandbox = bg_jr_obj_opt(&r, "sandbox");
    const cJSON *limits = bg_jr_obj_opt(&r, "limits");
    bg_autojson cJSON *none = bg_jo();
    if (!bg_jr_end(&r))
        return false;
    /* The defaults stand in static storage, so `none` may go. */
    return read_sandbox(sandbox ? sandbox : none, f, err) &&
           read_limits(limits ? limits : none, f, err);
}

static void put_rules(struct bg_buf *b, const cJSON *rows)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        bg_autofree char *all =
            bg_json_join(cJSON_GetObjectItemCaseSensitive(row, "allFailed"), "");
        bg_autofree char *text = bg_xasprintf(
            "rule %s (%s): %s%s%s%s", cli_str(row, "id"), cli_str(row, "decision"),
            cli_true(row, "matched") ? "matches" : "no, ", all,
            *cli_str(row, "note") ? "; but: " : "", cli_str(row, "note"));
        bg_text_safe(b, text, strlen(text), 0);
        bg_buf_putc(b, '\n');
    }
}

static void explain(const struct bg_policy *p, const struct bg_facts *f, bool json)
{
    struct bg_verdict v = bg_policy_decide(p, f);
    bg_autojson cJSON *o = bg_jo();
    bg_jset_str(o, "decision", bg_decision_name(v.decision));
    bg_jset_str(o, "rule", v.rule);
    bg_jset_str(o, "message", v.message);
    bg_jset_bool(o, "downgraded", v.downgraded);
    bg_jset(o, "rules", bg_policy_explain(p, f));
    if (json) {
        cli_out_json(o);
        return;
    }
    struct bg_buf b;
    cli_buf(&b);
    put_rules(&b, cJSON_GetObjectItemCaseSensitive(o, "rules"));
    bg_autofree char *text =
        bg_xasprintf("decision: %s (%s%s)%s", cli_str(o, "decision"),
                     v.rule ? "rule " : "no rule matches: the default",
                     v.rule ? v.rule : "", v.downgraded ? ", an allow was not enough" : "");
    bg_text_safe(&b, text, strlen(text), 0);
    bg_buf_putc(&b, '\n');
    cli_out(&b);
}

/* Name lists of the config only tighten; without a usable config there are none. */
static void add_exec_lists(struct bg_policy *p)
{
    struct bg_paths paths;
    if (!bg_paths_init(&paths, NULL, NULL))
        return;
    struct bg_config *c = bg_config_load(paths.config_file, NULL);
    if (c)
        bg_policy_exec_lists(p, c->tools.allowed, c->tools.blocked);
    bg_config_free(c);
    bg_paths_free(&paths);
}

static int run_explain(const struct bg_cmd *cmd, int argc, char **argv)
{
    struct cli_args a;
    struct bg_error err = {0};
    bg_autobuf struct bg_buf in = {0};
    if (!cli_parse(&a, cmd, argc, argv, 0, 0))
        return BG_EXIT_USAGE;
    bg_digest_init();
    bg_buf_init(&in, BG_JSON_LINE_MAX);
    if (!cli_read("-", BG_JSON_LINE_MAX, &in, &err))
        return cli_fail(&err);
    bg_autojson cJSON *o = bg_json_parse(in.data, in.len, BG_JSON_LINE_MAX, &err);
    struct input req = {.principal = bg_xasprintf("uid:%u", (unsigned)geteuid())};
    struct bg_policy *p = NULL;
    int code;
    if (!o || !read_input(o, &req, &err)) {
        cli_note("the request on stdin: %s", err.msg);
        code = BG_EXIT_USAGE;
    } else if (!(p = load(cli_value(&a, "policy"), &err))) {
        code = cli_fail(&err);
    } else {
        add_exec_lists(p);
        explain(p, &req.f, cli_flag(&a, "json"));
        code = BG_EXIT_OK;
    }
    bg_policy_free(p);
    bg_strv_free(req.argv);
    free(req.code);
    free(req.principal);
    return code;
}

static const struct bg_opt explain_opts[] = {
    {"policy", 'p', "FILE", "this file instead of the policy in force"},
    {"json", 'j', NULL, "as JSON"},
    {0},
};

const struct bg_cmd cmd_policy_explain = {
    .name = "policy explain",
    .args = "[--policy FILE] [--json] < request.json",
    .summary = "what the policy says to a request, rule by rule",
    .help =
        "The request on standard input (only kind is required; what is missing stands as\n"
        "shown here):\n"
        "  {\"kind\": \"run_code\",           or exec, create_session, close_session\n"
        "   \"language\": \"python\", \"code\": \"print(1)\",               for run_code\n"
        "   \"command\": \"/usr/bin/make\", \"args\": [\"test\"], \"cwd\": \".\",  for "
        "exec\n"
        "   \"principal\": \"uid:1000\",     yours\n"
        "   \"sha256\": \"...\",             the hash a rule may name\n"
        "   \"hazards\": [],               besides those found in code and args\n"
        "   \"sandbox\": {\"provider\": \"local\", \"imageId\": \"host\", \"network\": "
        "\"none\",\n"
        "     \"mounts\": \"none\", \"caps\": \"none\", \"noNewPrivileges\": true,\n"
        "     \"fresh\": false, \"unlimited\": false, \"changedOutside\": false},\n"
        "   \"limits\": {\"timeoutMs\": 60000, \"memoryMb\": 512, \"pidsLimit\": 256,\n"
        "     \"cpusMilli\": 1000}}",
    .opts = explain_opts,
    .run = run_explain,
};

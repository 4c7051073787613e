/* SPDX-License-Identifier: MIT */
/* config.yaml: what is accepted, and for every key what is refused, where and in which
 * words. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/values.h"
#include "core/config/config.h"
#include "tests/test.h"

static struct bg_config *parse(const char *yaml)
{
    struct bg_error err = {0};
    struct bg_config *c = bg_config_parse("c.yaml", yaml, strlen(yaml), &err);
    if (!c)
        fail_msg("%s\nrefused: %s", yaml, err.msg);
    assert_int_equal(err.code, BG_OK);
    return c;
}

static void refused(const char *yaml, const char *where, const char *words)
{
    struct bg_error err = {0};
    struct bg_config *c = bg_config_parse("c.yaml", yaml, strlen(yaml), &err);
    if (c)
        fail_msg("accepted:\n%s", yaml);
    assert_int_equal(err.code, BG_ERR_CONFIG);
    bg_autofree char *head = bg_xasprintf("c.yaml:%s", where);
    if (strncmp(err.msg, head, strlen(head)) != 0 || !strstr(err.msg, words))
        fail_msg("%s\nexpected %s ... %s\ngot %s", yaml, head, words, err.msg);
}

/* A key of the default profile, at line 3, column 5. */
static void refused_in_profile(const char *text, const char *words)
{
    bg_autofree char *yaml = bg_xasprintf("profiles:\n  default:\n    %s\n", text);
    refused(yaml, "3:", words);
}

static const struct bg_profile *in_profile(const char *text, struct bg_config **c)
{
    bg_autofree char *yaml = bg_xasprintf("profiles:\n  default:\n    %s\n", text);
    *c = parse(yaml);
    return bg_config_profile(*c, "default");
}

static char *printed(const struct bg_config *c)
{
    struct bg_buf out;
    bg_buf_init(&out, BG_YAML_MAX);
    bg_config_print(c, &out);
    assert_false(bg_buf_overflowed(&out));
    return bg_buf_steal(&out);
}

/* print(parse(print(c))) == print(c): the printed text loses nothing and reads back. */
static void round_trip(const struct bg_config *c)
{
    bg_autofree char *once = printed(c);
    struct bg_config *again = parse(once);
    bg_autofree char *twice = printed(again);
    assert_string_equal(once, twice);
    bg_config_free(again);
}

static void empty_file_is_the_defaults(void **state)
{
    (void)state;
    struct bg_config *c = parse("");
    assert_int_equal(c->provider, BG_PROVIDER_NONE);
    const struct bg_profile *p = bg_config_profile(c, c->profile);
    assert_non_null(p);
    assert_string_equal(p->network, "none");
    assert_string_equal(p->image, BG_IMAGE_DEFAULT);
    assert_true(p->no_new_privileges);
    assert_string_equal(p->drop_capabilities[0], "ALL");
    assert_string_equal(bg_config_language(c, "python")->argv[0], "python3");
    assert_null(bg_config_language(c, "Python"));
    assert_null(bg_config_profile(c, "other"));
    round_trip(c);
    bg_config_free(c);
}

static void c131_missing_limits_are_safe(void **state)
{
    (void)state;
    struct bg_config *c;
    const struct bg_limits *l = &in_profile("limits: {}", &c)->limits;
    assert_int_equal(l->memory_mb, 512);
    assert_int_equal(l->cpus_milli, 1000);
    assert_int_equal(l->pids, 256);
    assert_int_equal(l->run_timeout_ms, 60000);
    assert_int_equal(l->max_output_bytes, 1048576);
    bg_config_free(c);
    static const char *const keys[] = {"memoryMb",      "cpus",         "pidsLimit",
                                       "timeoutMs",     "runTimeoutMs", "maxTimeoutMs",
                                       "maxProcesses",  "maxFileBytes", "processTailBytes",
                                       "maxOutputBytes"};
    static const char *const bad[] = {"0",         "-1",
                                      "\"30000\"", "010",
                                      "1_000",     "1e3",
                                      "0x10",      "9007199254740993",
                                      "true",      "''",
                                      "[]",        "{}",
                                      "~",         "+5",
                                      "1 ",        ".5",
                                      "5.",        "99999999999999999999",
                                      "infinite"};
    for (size_t k = 0; k < bg_countof(keys); k++)
        for (size_t b = 0; b < bg_countof(bad); b++) {
            if (!strcmp(bad[b], "1 "))
                continue; /* trailing blanks aren't part of a YAML scalar */
            bg_autofree char *text = bg_xasprintf("limits: {%s: %s}", keys[k], bad[b]);
            refused_in_profile(text, "");
        }
    refused_in_profile("limits: {timeoutMs: 0.5}", "");
    refused_in_profile("limits: {cpus: 0.0001}", "decimals");
    refused_in_profile("limits: {cpus: 1025}", "1024");
    refused_in_profile("limits: {strictLimits: yes}", "");
    refused_in_profile("limits: [1]", "expected a map");
}

static void unlimited_is_a_word(void **state)
{
    (void)state;
    struct bg_config *c;
    const struct bg_profile *p =
        in_profile("limits: {memoryMb: unlimited, cpus: unlimited, pidsLimit: unlimited, "
                   "timeoutMs: unlimited}\n"
                   "    lifecycle: {idleTimeoutMs: unlimited, ttlMs: unlimited}",
                   &c);
    assert_true(p->limits.memory_mb == BG_UNLIMITED);
    assert_true(p->limits.cpus_milli == BG_UNLIMITED);
    assert_true(p->limits.pids == BG_UNLIMITED);
    assert_true(p->ttl_ms == BG_UNLIMITED);
    round_trip(c);
    bg_config_free(c);
    refused_in_profile("limits: {maxOutputBytes: unlimited}", "can't be unlimited");
    refused_in_profile("limits: {memoryMb: Unlimited}", "");
    refused("approvals: {pendingMs: unlimited}\n", "1:", "can't be unlimited");
}

static void cpus_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t milli;
    } good[] = {{"1", 1000},  {"1.0", 1000},     {"0.5", 500}, {"2.125", 2125},
                {"0.01", 10}, {"1024", 1024000}, {"0.25", 250}};
    for (size_t i = 0; i < bg_countof(good); i++) {
        struct bg_config *c;
        bg_autofree char *text = bg_xasprintf("limits: {cpus: %s}", good[i].text);
        assert_int_equal(in_profile(text, &c)->limits.cpus_milli, good[i].milli);
        round_trip(c);
        bg_config_free(c);
    }
}

static void c103_words_other_readers_would_change(void **state)
{
    (void)state;
    static const char *const networks[] = {"no", "\"no\"", "off",      "No",   "OFF", "yes",
                                           "on", "n",      "\"true\"", "True", "''"};
    for (size_t i = 0; i < bg_countof(networks); i++) {
        bg_autofree char *text = bg_xasprintf("network: %s", networks[i]);
        refused_in_profile(text, "expected none, bridge, host or a network name");
    }
    struct bg_config *c;
    assert_string_equal(in_profile("network: true", &c)->network, "bridge");
    bg_config_free(c);
    assert_string_equal(in_profile("network: false", &c)->network, "none");
    bg_config_free(c);
    assert_string_equal(in_profile("network: lab_net", &c)->network, "lab_net");
    bg_config_free(c);
    refused_in_profile("network: ~", "");
    refused_in_profile("network: null", "");
    refused_in_profile("network: container:other", "network name");
    refused_in_profile("network: \"a b\"", "network name");
    assert_string_equal(in_profile("image: 3.10", &c)->image, "3.10");
    bg_config_free(c);
    c = parse("languages: {y: [y]}\n");
    assert_string_equal(bg_config_language(c, "y")->argv[0], "y");
    round_trip(c);
    bg_config_free(c);
    refused_in_profile("ports: [22:22]", "");
    refused_in_profile("ports: [010]", "");
}

static void c104_yaml_that_is_refused(void **state)
{
    (void)state;
    refused("profile: a\nprofile: b\n", "2:1", "");
    refused(
        "profiles:\n  default:\n    limits: {pidsLimit: 64}\n    limits: {pidsLimit: 1}\n",
        "4:5", "");
    refused("a: 1\n---\nb: 2\n", "", "");
    refused("console: &x {bell: true}\n", "1:", "");
    refused("<<: {profile: a}\n", "1:", "");
    refused("profile: !!str default\n", "1:", "");
    refused("\tprofile: default\n", "", "");
    struct bg_config *c = parse("\xef\xbb\xbfversion: 1\n");
    bg_config_free(c);
    refused("- 1\n", "1:1", "expected a map");
    refused("just text\n", "1:1", "expected a map");
}

static void unknown_keys_get_a_hint(void **state)
{
    (void)state;
    refused("provder: local\n", "1:1", "provider");
    refused_in_profile("limits: {memoryMB: 512}", "memoryMb");
    refused_in_profile("mounts: [{host: /srv, containr: /x}]", "container");
    refused("engine: {runtme: auto}\n", "1:10", "runtime");
    refused("pool: {default: {sise: 1}}\n", "1:", "size");
    refused("hooks: {onExecBegin: [a]}\n", "1:", "unknown");
}

static void provider_is_a_choice(void **state)
{
    (void)state;
    struct bg_config *c = parse("provider: local\n");
    assert_int_equal(c->provider, BG_PROVIDER_LOCAL);
    round_trip(c);
    bg_config_free(c);
    c = parse("provider: container\nengine: {runtime: docker, endpoint: "
              "\"unix:///run/docker.sock\", program: /usr/bin/docker, guest: off}\n");
    assert_int_equal(c->provider, BG_PROVIDER_CONTAINER);
    assert_string_equal(c->engine.guest, "off");
    round_trip(c);
    bg_config_free(c);
    refused("provider: docker\n", "1:11", "local, container");
    refused("provider: none\n", "1:11", "local, container");
    refused("provider: e2b\n", "1:11", "isn't in this version");
    refused("version: 2\n", "1:", "");
}

static const char *const bad_outside[] = {
    "engine: {runtime: podman2}",
    "engine: {endpoint: \"tcp://1.2.3.4:2375\"}",
    "engine: {endpoint: relative.sock}",
    "engine: {program: \"docker run\"}",
    "engine: {guest: true}",
    "engine: {createTimeoutMs: 0}",
    "engine: {callTimeoutMs: -5}",
    "profile: \"\"",
    "profile: ../x",
    "profile: other",
    "profiles: {}",
    "profiles: {lab: {}}",
    "profiles: {\"a b\": {}}",
    "languages: {python: []}",
    "languages: {python: python3}",
    "languages: {python: [\"\"]}",
    "languages: {\"c++ x\": [a]}",
    "processes: {gracePeriodMs: 0}",
    "processes: {lingerMs: 0}",
    "waitForPort: {timeoutMs: 0}",
    "waitForPort: {intervalMs: x}",
    "approvals: {pendingMs: 0}",
    "approvals: {noConsoleMs: 0}",
    "approvals: {detachMs: 0}",
    "approvals: {armMs: 0}",
    "approvals: {denyMemoryMs: 0}",
    "approvals: {sessionScopeMs: 0}",
    "operator: {auth: none}",
    "operator: {headless: yes}",
    "tools: {include: [rm_all]}",
    "tools: {include: [list_ports], allow: [exec_command]}",
    "tools: {execTimeoutMs: 0}",
    "tools: {exec: {allowedCommands: [\"git *\"]}}",
    "tools: {exec: {blockedCommands: [\"\"]}}",
    "tools: {exec: {defaultTimeoutMs: 0}}",
    "tools: {exec: {maxTimeoutMs: 0}}",
    "tools: {readFile: {maxBytes: 0}}",
    "tools: {writeFile: {maxBytes: 0}}",
    "tools: {process: {maxLogBytes: 0}}",
    "tools: {process: {defaultWaitTimeoutMs: 0}}",
    "tools: {process: {maxWaitTimeoutMs: 0}}",
    "tools: {process: {stopGracePeriodMs: 0}}",
    "pool: {nowhere: {size: 1}}",
    "pool: {default: {size: -1}}",
    "pool: {default: {size: 65}}",
    "pool: {default: {maxAgeMs: 0}}",
    "hooks: {onSessionCreate: echo}",
    "hooks: {onExecStart: [\"\"]}",
    "hooks: {timeoutMs: 0}",
    "local: {uidBase: 0}",
    "local: {uidBase: 1000}",
    "local: {uidBase: 4294967295}",
    "console: {theme: ../../x}",
    "console: {border: double}",
    "console: {mouse: 1}",
    "console: {bell: on}",
    "console: {notifyCommand: notify-send}",
    "audit: {blobDays: 0}",
    "pin: {npm: \"ftp://x\"}",
    "pin: {pypi: \"https://user@host\"}",
};

static void bad_values_outside_profiles(void **state)
{
    (void)state;
    for (size_t i = 0; i < bg_countof(bad_outside); i++) {
        bg_autofree char *yaml = bg_xasprintf("# first line\n%s\n", bad_outside[i]);
        refused(yaml, "2:", "");
    }
}

static const char *const bad_inside[] = {
    "agents: 1",
    "image: \"\"",
    "image:",
    "image: \"-v\"",
    "image: \"a b\"",
    "pull: sometimes",
    "workdir: workspace",
    "workdir: /",
    "workdir: /a/../b",
    "workdir: /a//b",
    "workdir: /usr/local",
    "workdir: /tmp/x",
    "workspace: {mode: durable}",
    "workspace: {mode: persistent}",
    "workspace: {mode: persistent, id: a}",
    "workspace: {mode: persistent, id: a/b, storage: volume}",
    "workspace: {id: a}",
    "workspace: {destroyOnSessionDestroy: true}",
    "workspace: {sizeMb: 0}",
    "workspace: {storage: disk}",
    "tmpSizeMb: 0",
    "ports: 8080",
    "ports: [0]",
    "ports: [65536]",
    "ports: [80, 443, 80]",
    "portsVia: tunnel",
    "user: \"0\"",
    "user: \"0:0\"",
    "user: \"00\"",
    "user: \"1000:\"",
    "user: \"a b\"",
    "user: 1000:x",
    "env: {1A: x}",
    "env: {\"A B\": x}",
    "env: {A: }",
    "env: [A]",
    "manifest: {files: {/etc/passwd: x}}",
    "manifest: {files: {../x: x}}",
    "manifest: {files: {a/: x}}",
    "manifest: {directories: [/abs]}",
    "manifest: {directories: [\"\"]}",
    "manifest: {env: {\"A=B\": x}}",
    "metadata: {Upper: x}",
    "labels: {boxgate.instance: x}",
    "labels: {BOXGATE.x: x}",
    "labels: {\"a=b\": x}",
    "mounts: [/srv]",
    "mounts: [{host: srv, container: /x}]",
    "mounts: [{host: /srv}]",
    "mounts: [{host: /srv, container: x}]",
    "mounts: [{host: /srv, container: /proc/x}]",
    "mounts: [{host: /srv, container: /.boxgate/link}]",
    "mounts: [{host: /srv, container: /x, readOnly: no}]",
    "mounts: [{host: /srv, container: /x}, {host: /opt, container: /x}]",
    "security: {dropCapabilities: ALL}",
    "security: {dropCapabilities: [CAP_NET_RAW]}",
    "security: {noNewPrivileges: yes}",
    "security: {readonlyRootfs: 1}",
    "lifecycle: {idleTimeoutMs: 0}",
    "lifecycle: {ttlMs: 0}",
    "lifecycle: {autoDestroy: never}",
};

static void bad_values_in_profiles(void **state)
{
    (void)state;
    for (size_t i = 0; i < bg_countof(bad_inside); i++)
        refused_in_profile(bad_inside[i], "");
}

static void c079_tmpfs_fits_in_half_the_memory(void **state)
{
    (void)state;
    struct bg_config *c;
    in_profile("workspace: {sizeMb: 176}", &c); /* 176 + 64 + 16 = 256 exactly */
    bg_config_free(c);
    refused("profiles:\n  default:\n    workspace: {sizeMb: 177}\n", "",
            "more than half of memoryMb");
    refused("profiles:\n  default:\n    limits: {memoryMb: 511}\n", "",
            "more than half of memoryMb");
    in_profile("workspace: {sizeMb: 5000, storage: volume}", &c);
    bg_config_free(c);
    refused("profiles:\n  default:\n    mounts: [{host: /srv, container: /workspace}]\n",
            "", "would cover workdir");
    refused("profiles:\n  default:\n    mounts: [{host: /srv, container: /tmp}]\n", "",
            "would cover");
}

static void always_approve_is_answered_with_the_rule(void **state)
{
    (void)state;
    refused_in_profile("alwaysApprove: true", "decision: allow");
    refused_in_profile("alwaysApprove: true", "noNewPrivileges: true");
    struct bg_config *c;
    in_profile("alwaysApprove: false", &c);
    bg_config_free(c);
}

static void presets_become_images(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"node", BG_IMAGE_NODE}, {"python", BG_IMAGE_PYTHON}, {"deno", BG_IMAGE_DENO}};
    for (size_t i = 0; i < bg_countof(pairs); i++) {
        struct bg_config *c;
        bg_autofree char *text = bg_xasprintf("image: %s", pairs[i][0]);
        assert_string_equal(in_profile(text, &c)->image, pairs[i][1]);
        bg_config_free(c);
    }
}

/* A file that names profiles has exactly those; the built-in one isn't left open beside
 * them. */
static void named_profiles_replace_the_builtin(void **state)
{
    (void)state;
    struct bg_config *c = parse(
        "profile: lab\nprofiles:\n  lab: {agents: false}\n  wide: {network: bridge}\n");
    assert_int_equal(c->n_profiles, 2);
    assert_null(bg_config_profile(c, "default"));
    assert_false(bg_config_profile(c, "lab")->agents);
    round_trip(c);
    bg_config_free(c);
}

static void everything_round_trips(void **state)
{
    (void)state;
    struct bg_config *c = parse(
        "version: 1\nprovider: container\nprofile: big\n"
        "profiles:\n"
        "  big:\n"
        "    image: python\n    pull: always\n    workdir: /work\n"
        "    workspace: {mode: persistent, id: w1, storage: volume, sizeMb: 900, "
        "destroyOnSessionDestroy: true}\n"
        "    network: true\n    ports: [80, 8080]\n    portsVia: guest\n    user: root\n"
        "    env: {A: \"x=y # \\\"q\\\" \\\\ \\n\\t\\u00e9\\U0001F600\\e\", B: \"\", C: "
        "\"no\", D: \" lead\", E: \"- a\", F: 'it''s'}\n"
        "    manifest: {files: {a/b.txt: \"one\\ntwo\\n\", \"\\u00fc: x\": \"\"}, "
        "directories: [d, e/f], env: {M: \"1\"}}\n"
        "    metadata: {k: v}\n    labels: {team/x: \"a, b: {c}\"}\n"
        "    mounts: [{host: \"/srv/a b\", container: /data, readOnly: false}]\n"
        "    limits: {memoryMb: 2048, cpus: 1.5, strictLimits: true}\n"
        "    security: {readonlyRootfs: true, noNewPrivileges: false, dropCapabilities: "
        "[NET_RAW, MKNOD]}\n"
        "    lifecycle: {idleTimeoutMs: unlimited, ttlMs: 5, autoDestroy: false}\n"
        "languages: {ruby: [ruby, \"-\"], bash: [bash, -s, --]}\n"
        "operator: {auth: pin, headless: false}\n"
        "tools: {allow: [run_code], exec: {blockedCommands: [rm, /bin/dd]}}\n"
        "pool: {big: {size: 2}}\nhooks: {onDestroy: [/usr/bin/logger, \"gone: $X\"], "
        "timeoutMs: 9}\n"
        "local: {uidBase: 200000}\nconsole: {theme: light, border: ascii, notifyCommand: "
        "[notify-send, \"-u\", x]}\n"
        "audit: {blobDays: 7}\npin: {npm: \"https://r.example/npm/\"}\n");
    const struct bg_profile *p = bg_config_profile(c, "big");
    assert_string_equal(p->env[0], "A=x=y # \"q\" \\ \n\t\xc3\xa9\xf0\x9f\x98\x80\x1b");
    assert_string_equal(p->mounts[0].host, "/srv/a b");
    assert_false(p->mounts[0].read_only);
    assert_int_equal(c->pool[0].size, 2);
    assert_string_equal(c->hooks.destroy[1], "gone: $X");
    round_trip(c);
    bg_autofree char *text = printed(c);
    for (const char *s = text; *s; s++)
        assert_true((*s >= 0x20 && *s < 0x7f) || *s == '\n');
    bg_config_free(c);
}

static void templates_read_back(void **state)
{
    (void)state;
    for (int k = BG_PROVIDER_LOCAL; k <= BG_PROVIDER_CONTAINER; k++) {
        bg_autobuf struct bg_buf out;
        bg_buf_init(&out, BG_YAML_MAX);
        bg_config_template((enum bg_provider_kind)k, "unix:///run/docker.sock", &out);
        struct bg_config *c = parse(out.data);
        assert_int_equal(c->provider, k);
        assert_string_equal(c->engine.endpoint,
                            k == BG_PROVIDER_CONTAINER ? "unix:///run/docker.sock" : "");
        bg_config_free(c);
    }
}

static void caps_on_the_whole(void **state)
{
    (void)state;
    bg_autobuf struct bg_buf big;
    bg_buf_init(&big, BG_YAML_MAX * 2);
    while (big.len <= BG_YAML_MAX)
        bg_buf_puts(&big, "# a comment that only takes space\n");
    struct bg_error err = {0};
    assert_null(bg_config_parse("c.yaml", big.data, big.len, &err));
    assert_int_not_equal(err.code, BG_OK);
    bg_buf_clear(&big);
    bg_buf_puts(&big, "profile: ");
    for (int i = 0; i < 1000; i++)
        bg_buf_putc(&big, '[');
    refused(big.data, "", "");
    bg_buf_clear(&big);
    bg_buf_puts(&big, "profiles:\n");
    for (int i = 0; i <= BG_CFG_PROFILES_MAX; i++)
        bg_buf_printf(&big, "  p%d: {}\n", i);
    refused(big.data, "", "profiles");
}

static void loading_a_file(void **state)
{
    (void)state;
    char dir[] = "/tmp/boxgate-config-XXXXXX";
    assert_non_null(mkdtemp(dir));
    bg_autofree char *path = bg_path_join(dir, "config.yaml");
    struct bg_error err = {0};
    struct bg_config *c = bg_config_load(path, &err);
    assert_non_null(c);
    static const struct bg_sha256 zero;
    assert_true(bg_sha256_eq(&c->digest, &zero));
    assert_int_equal(c->provider, BG_PROVIDER_NONE);
    bg_config_free(c);

    static const char text[] = "provider: local\n";
    assert_true(bg_write_file_atomic(path, text, sizeof text - 1, 0600, &err));
    c = bg_config_load(path, &err);
    assert_non_null(c);
    struct bg_sha256 want = bg_sha256(text, sizeof text - 1);
    assert_true(bg_sha256_eq(&c->digest, &want));
    bg_config_free(c);

    assert_int_equal(chmod(path, 0666), 0); /* anybody could choose the sandbox */
    assert_null(bg_config_load(path, &err));
    assert_int_not_equal(err.code, BG_OK);
    assert_true(bg_rm_rf(dir, NULL));
}

int main(void)
{
    bg_digest_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_file_is_the_defaults),
        cmocka_unit_test(c131_missing_limits_are_safe),
        cmocka_unit_test(unlimited_is_a_word),
        cmocka_unit_test(cpus_are_exact),
        cmocka_unit_test(c103_words_other_readers_would_change),
        cmocka_unit_test(c104_yaml_that_is_refused),
        cmocka_unit_test(unknown_keys_get_a_hint),
        cmocka_unit_test(provider_is_a_choice),
        cmocka_unit_test(bad_values_outside_profiles),
        cmocka_unit_test(bad_values_in_profiles),
        cmocka_unit_test(c079_tmpfs_fits_in_half_the_memory),
        cmocka_unit_test(always_approve_is_answered_with_the_rule),
        cmocka_unit_test(presets_become_images),
        cmocka_unit_test(named_profiles_replace_the_builtin),
        cmocka_unit_test(everything_round_trips),
        cmocka_unit_test(templates_read_back),
        cmocka_unit_test(caps_on_the_whole),
        cmocka_unit_test(loading_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

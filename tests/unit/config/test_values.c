/* SPDX-License-Identifier: MIT */
/* values.h, bg_config_defaults and the README's table say the same about every key. */
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/values.h"
#include "core/base/yaml_doc.h"
#include "core/config/config.h"
#include "tests/test.h"

#define ROWS_MAX 256

struct row {
    char *key, *value;
};
struct rows {
    struct row row[ROWS_MAX];
    size_t n;
};

static void rows_free(struct rows *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->row[i].key);
        free(r->row[i].value);
    }
    r->n = 0;
}

static const char *find(const struct rows *r, const char *key)
{
    for (size_t i = 0; i < r->n; i++)
        if (!strcmp(r->row[i].key, key))
            return r->row[i].value;
    return NULL;
}

static void add(struct rows *r, const char *key, const char *value)
{
    assert_true(r->n < ROWS_MAX);
    if (find(r, key))
        fail_msg("%s stands twice", key);
    r->row[r->n].key = bg_xstrdup(key);
    r->row[r->n++].value = bg_xstrdup(value);
}

/* What was printed, as "path" and the text after the colon. */
static void flatten(struct rows *r)
{
    struct bg_config *c = bg_config_defaults();
    bg_autobuf struct bg_buf out;
    bg_buf_init(&out, BG_YAML_MAX);
    bg_config_print(c, &out);
    char *part[BG_YAML_DEPTH_MAX] = {0};
    for (char *save, *line = strtok_r(out.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        size_t depth = strspn(line, " ") / 2;
        char *colon = strchr(line, ':');
        if (*line == '#')
            continue;
        assert_non_null(colon);
        *colon = '\0';
        part[depth] = line + 2 * depth;
        if (!colon[1])
            continue;
        bg_autobuf struct bg_buf path;
        bg_buf_init(&path, 512);
        for (size_t i = 0; i <= depth; i++)
            bg_buf_printf(&path, "%s%s", i ? "." : "",
                          i == 1 && !strcmp(part[0], "profiles") ? "NAME" : part[i]);
        add(r, path.data, colon + 2);
    }
    bg_config_free(c);
}

/* Rows "| `key` | `default` | meaning |" of the Configuration section. */
static void read_readme(struct rows *r)
{
    const char *src = getenv("BOXGATE_SRC");
    bg_autofree char *path = bg_path_join(src ? src : ".", "README.md");
    bg_autobuf struct bg_buf text;
    bg_buf_init(&text, 1 << 20);
    assert_true(bg_read_file(path, 1 << 20, false, &text, NULL));
    char *p = strstr(text.data, "\n## Configuration\n");
    assert_non_null(p);
    char *end = strstr(p + 4, "\n## ");
    if (end)
        *end = '\0';
    for (char *save, *line = strtok_r(p, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char key[128], value[128];
        if (sscanf(line, "| `%127[^`]` | `%127[^`]` |", key, value) == 2)
            add(r, key, value);
        else if (sscanf(line, "| `%127[^`]` | |", key) == 1)
            assert_string_equal(key, "provider");
    }
}

static void readme_lists_every_default(void **state)
{
    (void)state;
    struct rows printed = {.n = 0}, readme = {.n = 0};
    flatten(&printed);
    read_readme(&readme);
    assert_true(printed.n > 80);
    for (size_t i = 0; i < printed.n; i++) {
        const char *told = find(&readme, printed.row[i].key);
        if (!told || strcmp(told, printed.row[i].value))
            fail_msg("README says %s = %s, the program %s", printed.row[i].key,
                     told ? told : "(nothing)", printed.row[i].value);
    }
    for (size_t i = 0; i < readme.n; i++)
        if (!find(&printed, readme.row[i].key))
            fail_msg("README has a key the program lacks: %s", readme.row[i].key);
    rows_free(&printed);
    rows_free(&readme);
}

static const struct {
    const char *key;
    int64_t value;
} numbers[] = {
    {"version", BG_CONFIG_VERSION},
    {"engine.createTimeoutMs", BG_ENGINE_CREATE_MS},
    {"engine.callTimeoutMs", BG_ENGINE_CALL_MS},
    {"profiles.NAME.workspace.sizeMb", BG_WORKSPACE_MB},
    {"profiles.NAME.tmpSizeMb", BG_TMP_MB},
    {"profiles.NAME.limits.memoryMb", BG_MEMORY_MB},
    {"profiles.NAME.limits.pidsLimit", BG_PIDS},
    {"profiles.NAME.limits.timeoutMs", BG_TIMEOUT_MS},
    {"profiles.NAME.limits.runTimeoutMs", BG_RUN_TIMEOUT_MS},
    {"profiles.NAME.limits.maxTimeoutMs", BG_MAX_TIMEOUT_MS},
    {"profiles.NAME.limits.maxOutputBytes", BG_MAX_OUTPUT_BYTES},
    {"profiles.NAME.limits.maxFileBytes", BG_MAX_FILE_BYTES},
    {"profiles.NAME.limits.maxProcesses", BG_MAX_PROCESSES},
    {"profiles.NAME.limits.processTailBytes", BG_PROCESS_TAIL_BYTES},
    {"profiles.NAME.lifecycle.idleTimeoutMs", BG_IDLE_MS},
    {"profiles.NAME.lifecycle.ttlMs", BG_TTL_MS},
    {"processes.gracePeriodMs", BG_GRACE_MS},
    {"processes.lingerMs", BG_LINGER_MS},
    {"waitForPort.timeoutMs", BG_WAIT_PORT_MS},
    {"waitForPort.intervalMs", BG_WAIT_PORT_INTERVAL_MS},
    {"approvals.pendingMs", BG_PENDING_MS},
    {"approvals.noConsoleMs", BG_NO_CONSOLE_MS},
    {"approvals.detachMs", BG_DETACH_MS},
    {"approvals.armMs", BG_ARM_MS},
    {"approvals.denyMemoryMs", BG_DENY_MEMORY_MS},
    {"approvals.sessionScopeMs", BG_SESSION_SCOPE_MS},
    {"tools.execTimeoutMs", BG_TIMEOUT_MS},
    {"tools.exec.defaultTimeoutMs", BG_TIMEOUT_MS},
    {"tools.exec.maxTimeoutMs", BG_MAX_TIMEOUT_MS},
    {"tools.readFile.maxBytes", BG_TOOL_READ_BYTES},
    {"tools.writeFile.maxBytes", BG_TOOL_WRITE_BYTES},
    {"tools.process.maxLogBytes", BG_TOOL_LOG_BYTES},
    {"tools.process.defaultWaitTimeoutMs", BG_TOOL_WAIT_MS},
    {"tools.process.maxWaitTimeoutMs", BG_MAX_TIMEOUT_MS},
    {"tools.process.stopGracePeriodMs", BG_GRACE_MS},
    {"hooks.timeoutMs", BG_HOOK_MS},
    {"local.uidBase", BG_LOCAL_UID_BASE},
    {"audit.blobDays", BG_BLOB_DAYS},
};

static void header_holds_every_number(void **state)
{
    (void)state;
    struct rows printed = {.n = 0};
    flatten(&printed);
    size_t plain_numbers = 0;
    for (size_t i = 0; i < printed.n; i++)
        plain_numbers +=
            strspn(printed.row[i].value, "0123456789") == strlen(printed.row[i].value);
    assert_int_equal(plain_numbers, bg_countof(numbers));
    for (size_t i = 0; i < bg_countof(numbers); i++) {
        const char *v = find(&printed, numbers[i].key);
        assert_non_null(v);
        assert_int_equal(strtoll(v, NULL, 10), numbers[i].value);
    }
    assert_string_equal(find(&printed, "profiles.NAME.limits.cpus"), "1.0");
    assert_int_equal(BG_CPUS_MILLI, 1000);
    assert_string_equal(find(&printed, "profiles.NAME.workdir"), BG_WORKDIR);
    rows_free(&printed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readme_lists_every_default),
        cmocka_unit_test(header_holds_every_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

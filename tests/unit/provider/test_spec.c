/* SPDX-License-Identifier: MIT */
/* The spec: what its hash binds, and which mounts are refused. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/provider/spec.h"
#include "tests/test.h"

/* A new member must be hashed, copied and get a line in the table below. */
_Static_assert(sizeof(struct bg_spec) == 336, "struct bg_spec changed: hash, copy, table");
_Static_assert(sizeof(struct bg_spec_mount) == 48, "struct bg_spec_mount changed");
_Static_assert(sizeof(struct bg_limits) == 88, "struct bg_limits changed");

static char root[] = "/tmp/boxgate-spec-XXXXXX";
static struct bg_paths paths;

static char *sub(const char *name)
{
    return bg_path_join(root, name);
}

static struct bg_spec *full_spec(void)
{
    struct bg_spec *s = bg_xcalloc(1, sizeof *s);
    s->profile = bg_xstrdup("default");
    s->provider = bg_xstrdup("docker");
    s->endpoint = bg_xstrdup("unix:///run/docker.sock");
    s->image = bg_xstrdup("node:22-bookworm");
    s->image_id = bg_xstrdup("sha256:ab");
    s->workdir = bg_xstrdup("/workspace");
    s->user = bg_xstrdup("1000:1000");
    s->network = bg_xstrdup("none");
    bg_strv_push(&s->env, "A=1");
    bg_strv_push(&s->env, "B=2");
    s->mounts = bg_xcalloc(1, sizeof *s->mounts);
    s->n_mounts = 1;
    s->mounts[0] = (struct bg_spec_mount){.host = bg_xstrdup("/srv"),
                                          .container = bg_xstrdup("/data"),
                                          .read_only = true,
                                          .dev = 1,
                                          .ino = 2,
                                          .mode = 040755};
    s->ports = bg_xcalloc(1, sizeof *s->ports);
    s->ports[0] = 80;
    s->n_ports = 1;
    s->ports_via = bg_xstrdup("auto");
    s->limits = (struct bg_limits){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, false};
    s->no_new_privileges = true;
    bg_strv_push(&s->drop_capabilities, "ALL");
    s->workspace_id = bg_xstrdup("w");
    s->workspace_mb = 176;
    s->tmp_mb = 64;
    bg_strv_push(&s->labels, "l=1");
    bg_strv_push(&s->metadata, "m=1");
    s->idle_ms = 300000;
    s->ttl_ms = 28800000;
    s->auto_destroy = true;
    s->guest = true;
    s->guest_sha256.b[31] = 1;
    return s;
}

static void set(char **p, const char *v)
{
    free(*p);
    *p = bg_xstrdup(v);
}

#define STR(member)                                \
    static void change_##member(struct bg_spec *s) \
    {                                              \
        set(&s->member, "other");                  \
    }
#define NUM(name, member)                        \
    static void change_##name(struct bg_spec *s) \
    {                                            \
        s->member++;                             \
    }
#define FLAG(name, member)                       \
    static void change_##name(struct bg_spec *s) \
    {                                            \
        s->member = !s->member;                  \
    }
#define LIST(member)                               \
    static void change_##member(struct bg_spec *s) \
    {                                              \
        bg_strv_push(&s->member, "Z=9");           \
    }

STR(profile)
STR(provider)
STR(endpoint)
STR(image)
STR(image_id)
STR(workdir)
STR(user)
STR(network)
STR(ports_via)
STR(workspace_id)
LIST(env)
LIST(drop_capabilities)
LIST(labels)
LIST(metadata)
NUM(port, ports[0])
NUM(memory, limits.memory_mb)
NUM(cpus, limits.cpus_milli)
NUM(pids, limits.pids)
NUM(timeout, limits.timeout_ms)
NUM(run_timeout, limits.run_timeout_ms)
NUM(max_timeout, limits.max_timeout_ms)
NUM(max_output, limits.max_output_bytes)
NUM(max_file, limits.max_file_bytes)
NUM(max_processes, limits.max_processes)
NUM(tail, limits.process_tail_bytes)
FLAG(strict, limits.strict)
FLAG(readonly_rootfs, readonly_rootfs)
FLAG(no_new_privileges, no_new_privileges)
FLAG(persistent, workspace_persistent)
FLAG(destroy, destroy_workspace)
NUM(workspace_mb, workspace_mb)
NUM(tmp_mb, tmp_mb)
NUM(idle, idle_ms)
NUM(ttl, ttl_ms)
FLAG(auto_destroy, auto_destroy)
FLAG(guest, guest)
NUM(guest_sha256, guest_sha256.b[0])
NUM(mount_dev, mounts[0].dev)
NUM(mount_ino, mounts[0].ino)
NUM(mount_mode, mounts[0].mode)
FLAG(mount_ro, mounts[0].read_only)

static void change_storage(struct bg_spec *s)
{
    s->storage = BG_STORAGE_VOLUME;
}
static void change_mount_host(struct bg_spec *s)
{
    set(&s->mounts[0].host, "/srw");
}
static void change_mount_container(struct bg_spec *s)
{
    set(&s->mounts[0].container, "/datb");
}
static void change_port_count(struct bg_spec *s)
{
    s->n_ports = 0;
}
static void change_mount_count(struct bg_spec *s)
{
    free(s->mounts[0].host);
    free(s->mounts[0].container);
    s->n_mounts = 0;
}

static const struct {
    const char *name;
    void (*change)(struct bg_spec *s);
} changes[] = {
    {"profile", change_profile},
    {"provider", change_provider},
    {"endpoint", change_endpoint},
    {"image", change_image},
    {"image_id", change_image_id},
    {"workdir", change_workdir},
    {"user", change_user},
    {"network", change_network},
    {"ports_via", change_ports_via},
    {"workspace_id", change_workspace_id},
    {"env", change_env},
    {"drop_capabilities", change_drop_capabilities},
    {"labels", change_labels},
    {"metadata", change_metadata},
    {"port", change_port},
    {"memory", change_memory},
    {"cpus", change_cpus},
    {"pids", change_pids},
    {"timeout", change_timeout},
    {"run_timeout", change_run_timeout},
    {"max_timeout", change_max_timeout},
    {"max_output", change_max_output},
    {"max_file", change_max_file},
    {"max_processes", change_max_processes},
    {"tail", change_tail},
    {"strict", change_strict},
    {"readonly_rootfs", change_readonly_rootfs},
    {"no_new_privileges", change_no_new_privileges},
    {"persistent", change_persistent},
    {"destroy", change_destroy},
    {"storage", change_storage},
    {"workspace_mb", change_workspace_mb},
    {"tmp_mb", change_tmp_mb},
    {"idle", change_idle},
    {"ttl", change_ttl},
    {"auto_destroy", change_auto_destroy},
    {"guest", change_guest},
    {"guest_sha256", change_guest_sha256},
    {"mount_host", change_mount_host},
    {"mount_container", change_mount_container},
    {"mount_ro", change_mount_ro},
    {"mount_dev", change_mount_dev},
    {"mount_ino", change_mount_ino},
    {"mount_mode", change_mount_mode},
    {"port_count", change_port_count},
    {"mount_count", change_mount_count},
};

static void every_field_changes_the_hash(void **state)
{
    (void)state;
    struct bg_sha256 seen[bg_countof(changes) + 1];
    struct bg_spec *s = full_spec();
    seen[0] = bg_spec_sha256(s);
    struct bg_spec *copy = bg_spec_dup(s);
    struct bg_sha256 same = bg_spec_sha256(copy);
    assert_true(bg_sha256_eq(&seen[0], &same));
    bg_spec_free(copy);
    for (size_t i = 0; i < bg_countof(changes); i++) {
        struct bg_spec *d = bg_spec_dup(s);
        changes[i].change(d);
        seen[i + 1] = bg_spec_sha256(d);
        for (size_t k = 0; k <= i; k++)
            if (bg_sha256_eq(&seen[k], &seen[i + 1]))
                fail_msg("%s isn't bound by the hash", changes[i].name);
        bg_spec_free(d);
    }
    bg_strv_push(&s->not_enforced, "memory"); /* an observation, not an option */
    same = bg_spec_sha256(s);
    assert_true(bg_sha256_eq(&seen[0], &same));
    bg_spec_free(s);
}

/* Bytes can't move from one field or element to the next without changing the hash. */
static void framing_is_injective(void **state)
{
    (void)state;
    static const char *const splits[][3] = {{"A=1", "B=2", NULL}, {"A=1B=2", NULL, NULL},
                                            {"A=1", "B=", "2"},   {"A=1\nB=2", NULL, NULL},
                                            {NULL, NULL, NULL},   {"", NULL, NULL}};
    struct bg_sha256 seen[bg_countof(splits)];
    for (size_t i = 0; i < bg_countof(splits); i++) {
        struct bg_spec *s = full_spec();
        bg_strv_free(s->env);
        s->env = NULL;
        for (size_t k = 0; k < 3 && splits[i][k]; k++)
            bg_strv_push(&s->env, splits[i][k]);
        seen[i] = bg_spec_sha256(s);
        for (size_t k = 0; k < i; k++)
            assert_false(bg_sha256_eq(&seen[k], &seen[i]));
        bg_spec_free(s);
    }
    struct bg_spec *a = full_spec(), *b = full_spec();
    set(&a->image, "ab");
    set(&a->image_id, "c");
    set(&b->image, "a");
    set(&b->image_id, "bc");
    struct bg_sha256 ha = bg_spec_sha256(a), hb = bg_spec_sha256(b);
    assert_false(bg_sha256_eq(&ha, &hb));
    bg_strv_push(&a->labels, "x=1"); /* the same element in the neighbouring list */
    bg_strv_push(&b->metadata, "x=1");
    set(&b->image, "ab");
    set(&b->image_id, "c");
    ha = bg_spec_sha256(a);
    hb = bg_spec_sha256(b);
    assert_false(bg_sha256_eq(&ha, &hb));
    bg_spec_free(a);
    bg_spec_free(b);
}

static struct bg_spec *with_mount(const char *host, const char *endpoint,
                                  struct bg_error *err)
{
    struct bg_config *c = bg_config_defaults();
    struct bg_profile p = *bg_config_profile(c, "default");
    struct bg_mount m = {
        .host = (char *)(uintptr_t)host, .container = (char[]){"/data"}, .read_only = true};
    p.mounts = &m;
    p.n_mounts = 1;
    struct bg_spec *s = bg_spec_from_profile(&p, &paths, endpoint, err);
    bg_config_free(c);
    return s;
}

static void mount_refused(const char *host, const char *endpoint)
{
    struct bg_error err = {0};
    struct bg_spec *s = with_mount(host, endpoint, &err);
    if (s)
        fail_msg("%s was accepted", host);
    assert_int_equal(err.code, BG_ERR_CONFIG);
    assert_non_null(strstr(err.msg, host));
}

static void mounts_that_are_refused(void **state)
{
    (void)state;
    static const char *const hosts[] = {
        "/",    "/proc",    "/proc/self", "/sys",    "/dev",     "/dev/null",
        "/run", "/var/run", "//",         "/tmp/..", "/dev/shm", "/does/not/exist"};
    for (size_t i = 0; i < bg_countof(hosts); i++)
        mount_refused(hosts[i], NULL);

    bg_autofree char *link = sub("link"), *up = sub("data/../..");
    assert_int_equal(symlink("/proc", link), 0);
    mount_refused(link, NULL);
    mount_refused(up, NULL); /* /tmp: above boxgate's own folders of this test */

    static const char *const own[] = {"home", "home/state", "home/state/blobs", "home/run"};
    for (size_t i = 0; i < bg_countof(own); i++) {
        bg_autofree char *path = sub(own[i]);
        mount_refused(path, NULL);
    }
    mount_refused(root, NULL);

    bg_autofree char *sock = sub("engine/e.sock"), *parent = sub("engine"),
                     *uri = bg_xasprintf("unix://%s", sock);
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof sa.sun_path, "%s", sock);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    mount_refused(sock, NULL);
    mount_refused(parent, uri);
    mount_refused(parent, sock);
    bg_autofree char *data = sub("data");
    struct bg_error err = {0};
    struct bg_spec *s = with_mount(data, uri, &err);
    assert_non_null(s);
    bg_spec_free(s);
    close(fd);

    bg_autofree char *docker = sub("user/.docker/run/docker.sock"), *user = sub("user"),
                     *old = bg_xstrdup(getenv("HOME"));
    close(open(docker, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    setenv("HOME", user, 1);
    mount_refused(user, NULL);
    if (old)
        setenv("HOME", old, 1);
    else
        unsetenv("HOME");
}

static void mounts_are_bound(void **state)
{
    (void)state;
    bg_autofree char *data = sub("data"), *link = sub("to-data"), *moved = sub("moved");
    struct bg_error err = {0};
    assert_int_equal(symlink(data, link), 0);
    struct bg_spec *s = with_mount(link, NULL, &err);
    assert_non_null(s);
    struct stat st;
    assert_int_equal(stat(data, &st), 0);
    assert_string_equal(s->mounts[0].host, data); /* what it is, not what it was called */
    assert_true(s->mounts[0].ino == st.st_ino && s->mounts[0].dev == st.st_dev);
    assert_true(bg_spec_mounts_check(s, &err));

    assert_int_equal(rename(data, moved), 0);
    assert_false(bg_spec_mounts_check(s, &err));
    assert_int_equal(err.code, BG_ERR_BINDING);
    assert_int_equal(symlink("/etc", data), 0);
    assert_false(bg_spec_mounts_check(s, &err));
    assert_int_equal(unlink(data), 0);
    assert_int_equal(mkdir(data, 0700), 0); /* same name, another folder */
    assert_false(bg_spec_mounts_check(s, &err));
    assert_int_equal(rmdir(data), 0);
    assert_int_equal(rename(moved, data), 0);
    assert_true(bg_spec_mounts_check(s, &err));
    bg_spec_free(s);
}

static void from_profile(void **state)
{
    (void)state;
    static const char yaml[] =
        "profiles:\n  default:\n    env: {B: p, A: p}\n    manifest: {env: {C: m, B: m}}\n"
        "    limits: {cpus: 0.5, pidsLimit: unlimited}\n";
    struct bg_error err = {0};
    struct bg_config *c = bg_config_parse("c.yaml", yaml, sizeof yaml - 1, &err);
    assert_non_null(c);
    struct bg_spec *s =
        bg_spec_from_profile(bg_config_profile(c, "default"), &paths, "", &err);
    assert_non_null(s);
    assert_int_equal(bg_strv_len(s->env), 3);
    assert_string_equal(s->env[0], "A=p");
    assert_string_equal(s->env[1], "B=m");
    assert_string_equal(s->env[2], "C=m");
    bg_autojson cJSON *open = bg_spec_json(s, true), *closed = bg_spec_json(s, false);
    bg_autofree char *o = bg_json_print(open), *k = bg_json_print(closed);
    assert_non_null(strstr(o, "\"B\":\"m\""));
    assert_null(strstr(k, "\"m\""));
    assert_non_null(strstr(k, "\"env\":[\"A\",\"B\",\"C\"]"));
    assert_non_null(strstr(k, "\"cpus\":0.5"));
    assert_non_null(strstr(k, "\"pidsLimit\":\"unlimited\""));
    bg_spec_free(s);
    bg_config_free(c);
}

static const char *test_env(const char *name)
{
    static char home[128];
    snprintf(home, sizeof home, "%s/home", root);
    return strcmp(name, "BOXGATE_HOME") ? NULL : home;
}

static int setup(void **state)
{
    (void)state;
    static const char *const dirs[] = {"data", "engine", "home/state/blobs", "home/run",
                                       "user/.docker/run"};
    if (!mkdtemp(root))
        return -1;
    for (size_t i = 0; i < bg_countof(dirs); i++) {
        bg_autofree char *dir = sub(dirs[i]);
        if (!bg_mkdir_p(dir, 0700, NULL))
            return -1;
    }
    return bg_paths_init(&paths, test_env, NULL) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    bg_paths_free(&paths);
    return bg_rm_rf(root, NULL) ? 0 : -1;
}

int main(void)
{
    bg_digest_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_changes_the_hash),
        cmocka_unit_test(framing_is_injective),
        cmocka_unit_test(mounts_that_are_refused),
        cmocka_unit_test(mounts_are_bound),
        cmocka_unit_test(from_profile),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

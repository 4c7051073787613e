/* SPDX-License-Identifier: MIT */
/*
 * Folders and files that others may have prepared. Root would pass every permission check,
 * so these tests run in a child under uid 65534 when they are started as root.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/path.h"
#include "tests/test.h"

#define NOBODY 65534

/* In a child, cmocka's jumps would end in the parent's copy; so a line number is the
 * verdict. */
#define CHECK(cond)                                                    \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            return false;                                              \
        }                                                              \
    } while (0)

/* Runs fn in a child without privileges, in a fresh folder that is its own and its working
 * directory. Root plants what only root can: fn finds `theirs/`, a 0700 folder of root. */
static void unprivileged(bool (*fn)(void))
{
    char dir[] = "/tmp/boxgate-path.XXXXXX";
    struct bg_error e = {0};
    assert_non_null(mkdtemp(dir));
    bg_autofree char *theirs = bg_path_join(dir, "theirs");
    if (geteuid() == 0) {
        assert_int_equal(mkdir(theirs, 0700), 0);
        assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
    }
    pid_t pid = fork();
    if (pid == 0) {
        umask(022);
        if (chdir(dir) ||
            (geteuid() == 0 && (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))))
            _exit(2);
        _exit(fn() ? 0 : 1);
    }
    int st = 0;
    assert_int_equal(waitpid(pid, &st, 0), pid);
    if (!bg_rm_rf(dir, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(access(dir, F_OK), -1);
    assert_true(WIFEXITED(st));
    assert_int_equal(WEXITSTATUS(st), 0);
}

static bool says(const struct bg_error *e, enum bg_errc code, const char *part)
{
    if (e->code == code && strstr(e->msg, part))
        return true;
    fprintf(stderr, "error %s: %s (wanted %s: %s)\n", bg_errc_name(e->code), e->msg,
            bg_errc_name(code), part);
    return false;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) ? 0 : st.st_mode & 07777;
}

/* ---- private folders ---- */

static bool private_dir_made(void)
{
    struct bg_error e = {0};
    CHECK(bg_dir_private("a/b/c", &e));
    CHECK(mode_of("a") == 0700 && mode_of("a/b") == 0700 && mode_of("a/b/c") == 0700);
    CHECK(bg_dir_private("a/b/c", &e));
    CHECK(bg_dir_private("a//b/c/", &e));
    CHECK(e.code == BG_OK);
    return true;
}

static bool private_dir_symlink(void)
{
    struct bg_error e = {0};
    CHECK(mkdir("real", 0700) == 0);
    CHECK(symlink("real", "link") == 0 && symlink("nowhere", "dangling") == 0);
    CHECK(!bg_dir_private("link", &e) && says(&e, BG_ERR_FORBIDDEN, "is a symbolic link"));
    CHECK(!bg_dir_private("link/", &e) && says(&e, BG_ERR_FORBIDDEN, "is a symbolic link"));
    CHECK(!bg_dir_private("dangling", &e) &&
          says(&e, BG_ERR_FORBIDDEN, "is a symbolic link"));
    CHECK(access("nowhere", F_OK) != 0);
    /* A link higher up is the user's own arrangement. */
    CHECK(bg_dir_private("link/sub", &e) && mode_of("real/sub") == 0700);
    return true;
}

static bool private_dir_foreign_owner(void)
{
    struct bg_error e = {0};
    CHECK(!bg_dir_private("/", &e) &&
          says(&e, BG_ERR_FORBIDDEN, "belongs to uid 0, not to you"));
    if (access("theirs", F_OK) == 0) {
        CHECK(!bg_dir_private("theirs", &e) &&
              says(&e, BG_ERR_FORBIDDEN, "belongs to uid 0"));
        CHECK(!bg_dir_private("theirs/sub", &e) && e.code == BG_ERR_FORBIDDEN);
    }
    return true;
}

static bool private_dir_open_to_others(void)
{
    static const mode_t modes[] = {0770, 0710, 0707, 0701, 0720, 0702, 01777};
    for (size_t i = 0; i < bg_countof(modes); i++) {
        struct bg_error e = {0};
        CHECK(mkdir("d", 0700) == 0 && chmod("d", modes[i]) == 0);
        CHECK(!bg_dir_private("d", &e) && says(&e, BG_ERR_FORBIDDEN, "run: chmod 700 d"));
        CHECK(mode_of("d") == modes[i]); /* never mended behind the user's back */
        CHECK(rmdir("d") == 0);
    }
    return true;
}

static bool private_dir_something_else(void)
{
    struct bg_error e = {0};
    CHECK(close(open("file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
    CHECK(!bg_dir_private("file", &e) && says(&e, BG_ERR_PATH, "in the way"));
    CHECK(!bg_dir_private("file/sub", &e) && says(&e, BG_ERR_PATH, "in the way"));
    CHECK(mkdir("closed", 0500) == 0);
    CHECK(!bg_dir_private("closed/sub", &e) && e.code == BG_ERR_FORBIDDEN);
    return true;
}

/* Many at once agree on one folder: whoever loses the race finds what the winner made. */
static bool private_dir_race(void)
{
    pid_t pids[8];
    for (int round = 0; round < 20; round++) {
        bg_autofree char *path = bg_xasprintf("r%d/x/y", round);
        for (size_t i = 0; i < bg_countof(pids); i++) {
            pids[i] = fork();
            if (pids[i] == 0)
                _exit(bg_dir_private(path, NULL) ? 0 : 1);
        }
        for (size_t i = 0; i < bg_countof(pids); i++) {
            int st = 1;
            CHECK(waitpid(pids[i], &st, 0) == pids[i] && st == 0);
        }
        CHECK(mode_of(path) == 0700);
    }
    return true;
}

static bool mkdir_p_modes(void)
{
    struct bg_error e = {0};
    CHECK(bg_mkdir_p("m/n", 0755, &e) && mode_of("m/n") == 0755);
    CHECK(bg_mkdir_p("m/n", 0700, &e) && mode_of("m/n") == 0755);
    CHECK(bg_mkdir_p("/", 0700, &e) && bg_mkdir_p(".", 0700, &e));
    return true;
}

/* ---- the four folders ---- */

static const char *const *fake_env;

static const char *fake_getenv(const char *name)
{
    for (size_t i = 0; fake_env[i]; i += 2)
        if (!strcmp(fake_env[i], name))
            return fake_env[i + 1];
    return NULL;
}

static bool paths_from(const char *const *env, struct bg_paths *p, struct bg_error *e)
{
    *e = (struct bg_error){0};
    fake_env = env;
    return bg_paths_init(p, fake_getenv, e);
}

static void home_moves_all_four(void **state)
{
    (void)state;
    static const char *const env[] = {"BOXGATE_HOME", "/h/", "XDG_CONFIG_HOME",
                                      "/x",           NULL,  NULL};
    struct bg_paths p;
    struct bg_error e;
    assert_true(paths_from(env, &p, &e));
    assert_string_equal(p.config, "/h/config");
    assert_string_equal(p.state, "/h/state");
    assert_string_equal(p.runtime, "/h/run");
    assert_string_equal(p.cache, "/h/cache");
    assert_string_equal(p.config_file, "/h/config/config.yaml");
    assert_string_equal(p.policy_file, "/h/config/policy.yaml");
    assert_string_equal(p.agent_sock, "/h/run/agent.sock");
    assert_string_equal(p.operator_sock, "/h/run/operator.sock");
    bg_paths_free(&p);
    assert_null(p.config);
}

static void xdg_or_home(void **state)
{
    (void)state;
    static const char *const env[] = {"HOME",
                                      "/home/u",
                                      "XDG_STATE_HOME",
                                      "/s",
                                      "XDG_CACHE_HOME",
                                      "not/absolute",
                                      "BOXGATE_HOME",
                                      "",
                                      "TMPDIR",
                                      "/t/",
                                      "XDG_RUNTIME_DIR",
                                      "/nonexistent/run",
                                      NULL,
                                      NULL};
    struct bg_paths p;
    struct bg_error e;
    assert_true(paths_from(env, &p, &e));
    assert_string_equal(p.config, "/home/u/.config/boxgate");
    assert_string_equal(p.state, "/s/boxgate");
    assert_string_equal(p.cache, "/home/u/.cache/boxgate");
    bg_autofree char *run = bg_xasprintf("/t/boxgate-%u", (unsigned)geteuid());
    assert_string_equal(p.runtime, run);
    bg_paths_free(&p);
}

static bool runtime_only_if_ours(void)
{
    bg_autofree char *cwd = getcwd(NULL, 0);
    bg_autofree char *run = bg_path_join(cwd, "run"), *want = bg_path_join(run, "boxgate");
    bg_autofree char *link = bg_path_join(cwd, "link");
    const char *env[] = {"HOME", "/home/u", "XDG_RUNTIME_DIR", run, NULL, NULL};
    struct bg_paths p;
    struct bg_error e;
    CHECK(mkdir(run, 0700) == 0 && symlink("run", "link") == 0);
    CHECK(paths_from(env, &p, &e) && !strcmp(p.runtime, want));
    bg_paths_free(&p);
    CHECK(chmod(run, 0750) == 0 && paths_from(env, &p, &e));
    CHECK(!strncmp(p.runtime, "/tmp/boxgate-", 13));
    bg_paths_free(&p);
    CHECK(chmod(run, 0700) == 0);
    env[3] = link;
    CHECK(paths_from(env, &p, &e) && !strncmp(p.runtime, "/tmp/boxgate-", 13));
    bg_paths_free(&p);
    env[3] = "/";
    CHECK(paths_from(env, &p, &e) && !strncmp(p.runtime, "/tmp/boxgate-", 13));
    bg_paths_free(&p);
    return true;
}

static void bad_environments_are_named(void **state)
{
    (void)state;
    static const char *const relative[] = {"BOXGATE_HOME", "here", NULL, NULL};
    static const char *const none[] = {NULL, NULL};
    struct bg_paths p;
    struct bg_error e;
    assert_false(paths_from(relative, &p, &e));
    assert_true(says(&e, BG_ERR_USAGE, "BOXGATE_HOME must be an absolute path"));
    assert_null(p.config);
    assert_false(paths_from(none, &p, &e));
    assert_true(says(&e, BG_ERR_USAGE, "set HOME or BOXGATE_HOME"));
    /* One byte over what a socket name can take; one less is fine. */
    char home[80];
    const char *env[] = {"BOXGATE_HOME", home, NULL, NULL};
    size_t most = 107 - BG_RUNTIME_NAME_MAX - strlen("/run");
    memset(home, 'x', sizeof home);
    home[0] = '/';
    home[most + 1] = '\0';
    assert_false(paths_from(env, &p, &e));
    assert_true(says(&e, BG_ERR_PATH, "sockets allow at most 75"));
    home[most] = '\0';
    assert_true(paths_from(env, &p, &e));
    bg_paths_free(&p);
}

static bool four_folders_made(void)
{
    bg_autofree char *cwd = getcwd(NULL, 0);
    const char *env[] = {"BOXGATE_HOME", cwd, NULL, NULL};
    struct bg_paths p;
    struct bg_error e;
    CHECK(paths_from(env, &p, &e) && bg_paths_create(&p, &e));
    CHECK(mode_of("config") == 0700 && mode_of("state") == 0700);
    CHECK(mode_of("run") == 0700 && mode_of("cache") == 0700);
    CHECK(chmod("run", 0770) == 0 && !bg_paths_create(&p, &e));
    CHECK(says(&e, BG_ERR_FORBIDDEN, "run has mode 0770"));
    bg_paths_free(&p);
    return true;
}

/* ---- files ---- */

static bool write_then_read(void)
{
    struct bg_error e = {0};
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, 100);
    CHECK(bg_write_file_atomic("f", "one\0two", 7, 0, &e) && mode_of("f") == 0600);
    CHECK(bg_read_file("f", 7, true, &b, &e) && b.len == 7 &&
          !memcmp(b.data, "one\0two", 8));
    CHECK(bg_write_file_atomic("f", "", 0, 0644, &e) && mode_of("f") == 0644);
    bg_buf_clear(&b);
    CHECK(bg_read_file("f", 0, true, &b, &e) && b.len == 0);
    /* A link is replaced, not followed. */
    CHECK(symlink("f", "l") == 0 && bg_write_file_atomic("l", "x", 1, 0, &e));
    CHECK(mode_of("l") == 0600 && mode_of("f") == 0644);
    CHECK(!bg_write_file_atomic("no/such", "x", 1, 0, &e) && e.code == BG_ERR_NOT_FOUND);
    CHECK(mkdir("dir", 0700) == 0 && !bg_write_file_atomic("dir", "x", 1, 0, &e));
    CHECK(e.code == BG_ERR_IO && rmdir("dir") == 0);
    return true;
}

static bool read_caps(void)
{
    struct bg_error e = {0};
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, 100000);
    bg_buf_puts(&b, "keep");
    char big[50000];
    memset(big, 'x', sizeof big);
    CHECK(bg_write_file_atomic("f", big, sizeof big, 0, &e));
    CHECK(!bg_read_file("f", sizeof big - 1, false, &b, &e) &&
          says(&e, BG_ERR_LIMIT, "49999"));
    CHECK(!strcmp(b.data, "keep"));
    CHECK(bg_read_file("f", sizeof big, false, &b, &e) && b.len == 4 + sizeof big);
    CHECK(!bg_read_file("gone", 9, false, &b, &e) && e.code == BG_ERR_NOT_FOUND);
    CHECK(!bg_read_file("f/x", 9, false, &b, &e) && e.code == BG_ERR_NOT_FOUND);
    CHECK(!bg_read_file(".", 9, false, &b, &e) && says(&e, BG_ERR_PATH, "no regular file"));
    CHECK(mkfifo("fifo", 0600) == 0 && !bg_read_file("fifo", 9, false, &b, &e));
    CHECK(says(&e, BG_ERR_PATH, "no regular file"));
    return true;
}

static bool read_owner_only(void)
{
    struct bg_error e = {0};
    bg_autobuf struct bg_buf b;
    bg_buf_init(&b, 1 << 20);
    CHECK(bg_write_file_atomic("f", "x", 1, 0644, &e) && symlink("f", "l") == 0);
    CHECK(bg_read_file("f", 9, true, &b, &e));
    CHECK(bg_read_file("l", 9, false, &b, &e));
    CHECK(!bg_read_file("l", 9, true, &b, &e) &&
          says(&e, BG_ERR_FORBIDDEN, "symbolic link"));
    CHECK(chmod("f", 0664) == 0 && !bg_read_file("f", 9, true, &b, &e));
    CHECK(says(&e, BG_ERR_FORBIDDEN, "run: chmod go-w f"));
    CHECK(chmod("f", 0646) == 0 && !bg_read_file("f", 9, true, &b, &e));
    CHECK(chmod("f", 0) == 0 && !bg_read_file("f", 9, true, &b, &e));
    CHECK(e.code == BG_ERR_FORBIDDEN);
    CHECK(!bg_read_file("/etc/passwd", 1 << 20, true, &b, &e));
    CHECK(says(&e, BG_ERR_FORBIDDEN, "belongs to uid 0"));
    return true;
}

/* ---- removing ---- */

static bool rm_never_follows(void)
{
    struct bg_error e = {0};
    CHECK(bg_mkdir_p("out/side", 0700, &e) && bg_write_file_atomic("out/f", "x", 1, 0, &e));
    CHECK(bg_mkdir_p("t/a", 0700, &e) && symlink("../../out", "t/a/link") == 0);
    CHECK(symlink("out", "top") == 0);
    CHECK(bg_rm_rf("t", &e) && access("t", F_OK) != 0);
    CHECK(bg_rm_rf("top/", &e) && mode_of("top") == 0);
    CHECK(access("out/f", F_OK) == 0 && access("out/side", F_OK) == 0);
    CHECK(bg_rm_rf("out/f", &e) && access("out/f", F_OK) != 0);
    CHECK(bg_rm_rf("missing", &e) && bg_rm_rf("missing/too", &e));
    return true;
}

static bool rm_closed_folders(void)
{
    struct bg_error e = {0};
    CHECK(bg_mkdir_p("t/a/b", 0700, &e) && bg_write_file_atomic("t/a/b/f", "x", 1, 0, &e));
    CHECK(chmod("t/a/b", 0) == 0 && chmod("t/a", 0500) == 0 && chmod("t", 0100) == 0);
    CHECK(bg_rm_rf("t", &e) && access("t", F_OK) != 0);
    return true;
}

/* Deeper than PATH_MAX, and than there are descriptors. */
static bool rm_any_depth(void)
{
    struct bg_error e = {0};
    CHECK(mkdir("t", 0700) == 0);
    int fd = open("t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 3000; i++) {
        CHECK(mkdirat(fd, "down", 0700) == 0 && mkdirat(fd, "side", 0500) == 0);
        int next = openat(fd, "down", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
        CHECK(fd >= 0);
    }
    close(fd);
    if (!bg_rm_rf("t", &e)) {
        fprintf(stderr, "%s\n", e.msg);
        return false;
    }
    CHECK(access("t", F_OK) != 0);
    return true;
}

/* A bind mount of the same file system has the same device number, and is spared too. */
static void rm_stops_at_a_mount(void **state)
{
    (void)state;
    char dir[] = "/tmp/boxgate-path.XXXXXX";
    assert_non_null(mkdtemp(dir));
    pid_t pid = fork();
    if (pid == 0) {
        struct bg_error e = {0};
        if (chdir(dir) || unshare(CLONE_NEWNS) ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
            _exit(77);
        if (!bg_mkdir_p("user", 0700, NULL) ||
            !bg_write_file_atomic("user/f", "x", 1, 0, NULL) ||
            !bg_mkdir_p("t/in/mnt", 0700, NULL) ||
            mount("user", "t/in/mnt", NULL, MS_BIND, NULL))
            _exit(77);
        bool refused =
            !bg_rm_rf("t", &e) && says(&e, BG_ERR_PATH, "something is mounted on mnt");
        _exit(refused && access("user/f", F_OK) == 0 ? 0 : 1);
    }
    int st = 0;
    assert_int_equal(waitpid(pid, &st, 0), pid);
    assert_true(bg_rm_rf(dir, NULL));
    if (WIFEXITED(st) && WEXITSTATUS(st) == 77) {
        print_message("no right to mount\n");
        skip();
    }
    assert_int_equal(st, 0);
}

/* ---- names ---- */

static void ids(void **state)
{
    (void)state;
    char id[66];
    memset(id, 'a', sizeof id);
    id[64] = '\0';
    assert_true(bg_id_valid(id));
    id[64] = 'a';
    id[65] = '\0';
    assert_false(bg_id_valid(id));
    assert_true(bg_id_valid("A0._-z"));
    assert_true(bg_id_valid("7"));
    static const char *const bad[] = {"",    ".a", "-a",       "_a",        "a b", "a/b",
                                      "a\n", "..", "\xc3\xbc", "a\xc3\xbc", "a:b", "a\x7f"};
    for (size_t i = 0; i < bg_countof(bad); i++)
        assert_false(bg_id_valid(bad[i]));
    assert_false(bg_id_valid(NULL));
}

static void env_names(void **state)
{
    (void)state;
    char name[130];
    memset(name, 'A', sizeof name);
    name[128] = '\0';
    assert_true(bg_env_name_valid(name));
    name[128] = 'A';
    name[129] = '\0';
    assert_false(bg_env_name_valid(name));
    assert_true(bg_env_name_valid("_"));
    assert_true(bg_env_name_valid("path_2"));
    static const char *const bad[] = {"",    "2a",  "A=B",      "A-B",
                                      "A.B", "A B", "\xc3\xbc", "A\n"};
    for (size_t i = 0; i < bg_countof(bad); i++)
        assert_false(bg_env_name_valid(bad[i]));
    assert_false(bg_env_name_valid(NULL));
}

static void joins(void **state)
{
    (void)state;
    static const char *const all[][3] = {{"/a", "b", "/a/b"},    {"/a/", "b", "/a/b"},
                                         {"/a//", "/b", "/a/b"}, {"/", "b", "/b"},
                                         {"", "b", "b"},         {"a", "", "a/"}};
    for (size_t i = 0; i < bg_countof(all); i++) {
        bg_autofree char *s = bg_path_join(all[i][0], all[i][1]);
        assert_string_equal(s, all[i][2]);
    }
}

#define UNPRIVILEGED(name)             \
    static void t_##name(void **state) \
    {                                  \
        (void)state;                   \
        unprivileged(name);            \
    }
UNPRIVILEGED(private_dir_made)
UNPRIVILEGED(private_dir_symlink)
UNPRIVILEGED(private_dir_foreign_owner)
UNPRIVILEGED(private_dir_open_to_others)
UNPRIVILEGED(private_dir_something_else)
UNPRIVILEGED(private_dir_race)
UNPRIVILEGED(mkdir_p_modes)
UNPRIVILEGED(runtime_only_if_ours)
UNPRIVILEGED(four_folders_made)
UNPRIVILEGED(write_then_read)
UNPRIVILEGED(read_caps)
UNPRIVILEGED(read_owner_only)
UNPRIVILEGED(rm_never_follows)
UNPRIVILEGED(rm_closed_folders)
UNPRIVILEGED(rm_any_depth)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_private_dir_made),
        cmocka_unit_test(t_private_dir_symlink),
        cmocka_unit_test(t_private_dir_foreign_owner),
        cmocka_unit_test(t_private_dir_open_to_others),
        cmocka_unit_test(t_private_dir_something_else),
        cmocka_unit_test(t_private_dir_race),
        cmocka_unit_test(t_mkdir_p_modes),
        cmocka_unit_test(home_moves_all_four),
        cmocka_unit_test(xdg_or_home),
        cmocka_unit_test(t_runtime_only_if_ours),
        cmocka_unit_test(bad_environments_are_named),
        cmocka_unit_test(t_four_folders_made),
        cmocka_unit_test(t_write_then_read),
        cmocka_unit_test(t_read_caps),
        cmocka_unit_test(t_read_owner_only),
        cmocka_unit_test(t_rm_never_follows),
        cmocka_unit_test(t_rm_closed_folders),
        cmocka_unit_test(t_rm_any_depth),
        cmocka_unit_test(rm_stops_at_a_mount),
        cmocka_unit_test(ids),
        cmocka_unit_test(env_names),
        cmocka_unit_test(joins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

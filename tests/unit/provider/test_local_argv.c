/* SPDX-License-Identifier: MIT */
/* The local provider's command line, against a golden one, and what decides about it. */
#include <fcntl.h>
#include <sys/stat.h>

#include "core/provider/local/local.h"
#include "tests/test.h"

static char tree[64];

static void touch(const char *rel, mode_t mode)
{
    bg_autofree char *path = bg_path_join(tree, rel);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    close(fd);
}

static void dir(const char *rel)
{
    bg_autofree char *path = bg_path_join(tree, rel);

    assert_true(bg_mkdir_p(path, 0755, NULL));
}

static void make_link(const char *target, const char *rel)
{
    bg_autofree char *path = bg_path_join(tree, rel);

    assert_int_equal(symlink(target, path), 0);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(tree, "/tmp/bg-argv-XXXXXX");
    if (!mkdtemp(tree))
        return -1;
    dir("usr/bin");
    dir("usr/lib64");
    dir("lib"); /* a host whose /lib is no link */
    dir("etc/ssl/certs");
    dir("etc/python3.11");
    dir("etc/python3");
    make_link("usr/bin", "bin");
    make_link("usr/lib64", "lib64");
    touch("etc/ld.so.cache", 0644);
    touch("etc/shadow", 0600);
    touch("usr/bin/bwrap", 0755);
    touch("usr/bin/setpriv", 0755);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return bg_rm_rf(tree, NULL) ? 0 : -1;
}

static char *joined(char **v)
{
    struct bg_buf b;

    bg_buf_init(&b, 65536);
    for (char **s = v; *s; s++) {
        bg_buf_puts(&b, *s);
        bg_buf_putc(&b, ' ');
    }
    bg_strv_free(v);
    return bg_buf_steal(&b);
}

static void host_is_read_from_the_tree(void **state)
{
    struct local_host h;

    (void)state;
    local_host_find(&h, tree);
    assert_non_null(strstr(h.bwrap, "/usr/bin/bwrap"));
    assert_string_equal(h.links[0], "bin=usr/bin");
    assert_string_equal(h.links[1], "lib64=usr/lib64");
    assert_null(h.links[2]);
    assert_string_equal(h.dirs[0], "/lib");
    assert_null(h.dirs[1]);
    assert_string_equal(h.etc[0], "/etc/ld.so.cache");
    assert_string_equal(h.etc[1], "/etc/ssl/certs");
    assert_string_equal(h.etc[2], "/etc/python3");
    assert_string_equal(h.etc[3], "/etc/python3.11");
    assert_null(h.etc[4]);
    local_host_clear(&h);
}

#define HOST_PART                                                     \
    "--ro-bind /usr /usr --symlink usr/bin /bin --ro-bind /lib /lib " \
    "--ro-bind /etc/ld.so.cache /etc/ld.so.cache "
#define ETC_PART                                                                          \
    "--perms 0444 --ro-bind-data 4 /etc/passwd --perms 0444 --ro-bind-data 5 /etc/group " \
    "--perms 0444 --ro-bind-data 6 /etc/hosts "                                           \
    "--perms 0444 --ro-bind-data 7 /etc/nsswitch.conf "
#define SIZES                                                            \
    "--proc /proc --dev /dev --perms 1777 --size 67108864 --tmpfs /tmp " \
    "--perms 0755 --size 184549376 --tmpfs /workspace "                  \
    "--perms 1777 --size 16777216 --tmpfs /dev/shm "
#define TAIL                                                                          \
    "--perms 0555 --ro-bind-data 3 /.boxgate/guest --ro-bind /l /.boxgate/link "      \
    "--add-seccomp-fd 8 --add-seccomp-fd 9 --info-fd 10 --chdir / --remount-ro /dev " \
    "--remount-ro / -- /.boxgate/guest "
#define NAMES "--as-pid-1 --new-session --clearenv --hostname boxgate "
#define USER "--unshare-user --disable-userns --uid 1000 --gid 1000 --cap-drop ALL " NAMES

static char *const links[] = {(char *)"bin=usr/bin", NULL};
static char *const dirs[] = {(char *)"/lib", NULL};
static char *const etc[] = {(char *)"/etc/ld.so.cache", NULL};

static struct local_host a_host(bool root)
{
    return (struct local_host){.root = root,
                               .bwrap = (char *)"/usr/bin/bwrap",
                               .setpriv = (char *)"/usr/bin/setpriv",
                               .systemd_run = (char *)"/usr/bin/systemd-run",
                               .links = (char **)links,
                               .dirs = (char **)dirs,
                               .etc = (char **)etc};
}

static void golden_as_root(void **state)
{
    struct local_host h = a_host(true);
    struct local_plan p;

    (void)state;
    local_plan_default(&p);
    bg_autofree char *line = joined(local_argv(&(struct local_argv_in){
        .host = &h, .plan = &p, .link_dir = "/l", .uid = 2063597570}));
    assert_string_equal(line, "/usr/bin/setpriv --reuid 2063597570 --regid 2063597570 "
                              "--clear-groups --inh-caps=-all -- /usr/bin/bwrap "
                              "--unshare-all " USER HOST_PART ETC_PART SIZES TAIL);
    local_plan_clear(&p);
}

static void golden_as_a_user(void **state)
{
    struct local_host h = a_host(false);
    struct local_plan p;

    (void)state;
    local_plan_default(&p);
    bg_autofree char *line = joined(
        local_argv(&(struct local_argv_in){.host = &h, .plan = &p, .link_dir = "/l"}));
    assert_string_equal(line,
                        "/usr/bin/bwrap --unshare-all " USER HOST_PART ETC_PART SIZES TAIL);
    local_plan_clear(&p);
}

static void scope_carries_the_limits(void **state)
{
    struct local_host h = a_host(false);
    struct local_plan p;

    (void)state;
    local_plan_default(&p);
    bg_autofree char *line = joined(local_argv(&(struct local_argv_in){
        .host = &h, .plan = &p, .link_dir = "/l", .scope = "boxgate-aa-bb"}));
    const char *head = "/usr/bin/systemd-run --user --scope --quiet --collect "
                       "--unit=boxgate-aa-bb -p Delegate=yes -p MemorySwapMax=0 "
                       "-p MemoryMax=512M -p TasksMax=263 -p CPUQuota=100% -- "
                       "/usr/bin/bwrap ";
    assert_memory_equal(line, head, strlen(head));
    local_plan_clear(&p);
}

static void network_host_is_the_only_way_out(void **state)
{
    struct local_host h = a_host(true);
    struct local_plan p;

    (void)state;
    local_plan_default(&p);
    p.network_host = true;
    bg_autofree char *line = joined(local_argv(
        &(struct local_argv_in){.host = &h, .plan = &p, .link_dir = "/l", .uid = 7}));
    assert_non_null(strstr(line, "--unshare-all --share-net "));
    assert_non_null(strstr(line, "--ro-bind-try /etc/resolv.conf /etc/resolv.conf "));
    local_plan_clear(&p);
}

static void mounts_come_before_the_guest(void **state)
{
    struct bg_spec_mount m[] = {
        {.host = (char *)"/data", .container = (char *)"/data", .read_only = true},
        {.host = (char *)"/out", .container = (char *)"/workspace/out"}};
    struct local_host h = a_host(true);
    struct bg_spec spec = {.workdir = (char *)"/work",
                           .network = (char *)"none",
                           .workspace_mb = 1,
                           .tmp_mb = 2,
                           .mounts = m,
                           .n_mounts = 2};
    struct local_plan p;

    (void)state;
    local_plan_init(&p, &spec);
    bg_autofree char *line = joined(local_argv(
        &(struct local_argv_in){.host = &h, .plan = &p, .link_dir = "/l", .uid = 7}));
    assert_non_null(strstr(line, "--size 1048576 --tmpfs /work "));
    assert_non_null(strstr(line, "--ro-bind /data /data --bind /out /workspace/out "
                                 "--perms 0555 --ro-bind-data 3 /.boxgate/guest"));
    local_plan_clear(&p);
}

/* ---- the advice on failures ---- */

static void advice_for(const struct local_trial_facts *f, const char *why,
                       const char *remedy)
{
    bg_autofree char *w = NULL, *r = NULL;

    local_trial_advice(f, &w, &r);
    assert_non_null(strstr(w, why));
    assert_non_null(strstr(r, remedy));
}

static void each_obstacle_has_its_remedy(void **state)
{
    struct local_host h = a_host(false), none = {0}, root = a_host(true);
    struct local_trial_facts f = {.host = &h,
                                  .guest_found = true,
                                  .stderr_text = "",
                                  .apparmor_userns = -1,
                                  .userns_clone = -1,
                                  .max_userns = 1000};

    (void)state;
    f.host = &none;
    advice_for(&f, "bubblewrap is not installed", "apt-get install bubblewrap");
    root.setpriv = NULL;
    f.host = &root;
    advice_for(&f, "setpriv", "util-linux");
    f.host = &h;
    f.guest_found = false;
    advice_for(&f, "boxgate-guest", "make");
    f.guest_found = true;
    f.stderr_text = "bwrap: Unknown option --disable-userns\n";
    advice_for(&f, "too old", "0.8.0");
    f.stderr_text = "bwrap: setting up uid map: Permission denied\n";
    f.apparmor_userns = 1;
    advice_for(&f, "AppArmor", "userns");
    f.apparmor_userns = -1;
    f.userns_clone = 0;
    f.stderr_text = "bwrap: No permissions to create a new namespace\n";
    advice_for(&f, "ordinary users", "kernel.unprivileged_userns_clone=1");
    f.userns_clone = 1;
    f.stderr_text = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted\n";
    advice_for(&f, "/proc are masked", "systempaths=unconfined");
    f.stderr_text = "";
    f.max_userns = 0;
    advice_for(&f, "max_user_namespaces", "sysctl -w user.max_user_namespaces");
    f.max_userns = 9;
    f.stderr_text = "bwrap: execvp /x: Exec format error\n";
    advice_for(&f, "Exec format error", "doctor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_is_read_from_the_tree),
        cmocka_unit_test(golden_as_root),
        cmocka_unit_test(golden_as_a_user),
        cmocka_unit_test(scope_carries_the_limits),
        cmocka_unit_test(network_host_is_the_only_way_out),
        cmocka_unit_test(mounts_come_before_the_guest),
        cmocka_unit_test(each_obstacle_has_its_remedy),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

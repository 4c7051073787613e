/* SPDX-License-Identifier: MIT */
/*
 * "Available" means that a sandbox of exactly the real command line came up, so the
 * obstacle is named by what bwrap said and by the kernel's switches, and its remedy beside
 * it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "core/provider/local/local.h"

enum { SYSCTL_MAX = 32, VERSION_MAX = 64 };

static int64_t read_sysctl(const char *name)
{
    bg_autofree char *path = bg_path_join("/proc/sys", name);
    bg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[SYSCTL_MAX];
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

    if (n <= 0)
        return -1;
    text[n] = '\0';
    return strtoll(text, NULL, 10);
}

void local_trial_read_sysctls(struct local_trial_facts *f)
{
    f->apparmor_userns = (int)read_sysctl("kernel/apparmor_restrict_unprivileged_userns");
    f->userns_clone = (int)read_sysctl("kernel/unprivileged_userns_clone");
    f->max_userns = read_sysctl("user/max_user_namespaces");
}

static bool said(const struct local_trial_facts *f, const char *text)
{
    return strstr(f->stderr_text, text) != NULL;
}

/* A switch of the kernel explains a failure only if bwrap failed for permission. */
static bool userns_refused(const struct local_trial_facts *f)
{
    return said(f, "amespace") || said(f, "uid map") || said(f, "RTM_NEWADDR") ||
           said(f, "ermission denied") || said(f, "not permitted");
}

struct advice {
    const char *why, *remedy;
};

static struct advice advise(const struct local_trial_facts *f)
{
    if (!f->host->bwrap)
        return (struct advice){"bubblewrap is not installed", "apt-get install bubblewrap"};
    if (f->host->root && !f->host->setpriv)
        return (struct advice){"setpriv is not installed", "apt-get install util-linux"};
    if (!f->guest_found)
        return (struct advice){"the program boxgate-guest was not found",
                               "install boxgate whole (make install), or build it (make)"};
    if (said(f, "Unknown option"))
        return (struct advice){"this bubblewrap is too old (0.8.0 is needed)",
                               "install bubblewrap 0.8.0 or newer"};
    if (f->max_userns == 0 || said(f, "(ENOSPC)"))
        return (struct advice){"user namespaces are used up or switched off "
                               "(user.max_user_namespaces)",
                               "sysctl -w user.max_user_namespaces=15000"};
    if (said(f, "mount proc"))
        return (struct advice){
            "parts of /proc are masked here, as inside a container, so a sandbox can't "
            "have a /proc of its own",
            "run boxgate outside of the container, or start the container with its /proc "
            "unmasked (docker: --security-opt systempaths=unconfined)"};
    if (f->userns_clone == 0 && userns_refused(f))
        return (struct advice){"the kernel forbids user namespaces to ordinary users "
                               "(kernel.unprivileged_userns_clone=0)",
                               "sysctl -w kernel.unprivileged_userns_clone=1"};
    if (f->apparmor_userns == 1 && userns_refused(f))
        return (struct advice){
            "AppArmor forbids user namespaces to programs without a profile "
            "(kernel.apparmor_restrict_unprivileged_userns=1)",
            "give /usr/bin/bwrap an AppArmor profile with `userns,` (package "
            "apparmor-profiles: bwrap-userns-restrict), or sysctl -w "
            "kernel.apparmor_restrict_unprivileged_userns=0"};
    if (userns_refused(f))
        return (struct advice){"the kernel or a container around this process forbids new "
                               "namespaces",
                               "run boxgate outside of the container, or use the container "
                               "provider"};
    return (struct advice){
        NULL, "run `boxgate doctor`; the container provider needs none of this"};
}

void local_trial_advice(const struct local_trial_facts *f, char **why, char **remedy)
{
    struct advice a = advise(f);
    int n = (int)strcspn(f->stderr_text, "\n");

    if (!a.why)
        *why =
            n > 0 ? bg_xasprintf("the trial sandbox did not start: %.*s", n, f->stderr_text)
                  : bg_xstrdup("the trial sandbox did not start");
    else if (n > 0)
        *why = bg_xasprintf("%s; bubblewrap said: %.*s", a.why, n, f->stderr_text);
    else
        *why = bg_xstrdup(a.why);
    *remedy = bg_xstrdup(a.remedy);
}

/* `bwrap --version` prints "bubblewrap 0.8.0" and does nothing else: short enough to wait
 * for. */
char *local_bwrap_version(const char *bwrap)
{
    char *const argv[] = {(char *)bwrap, (char *)"--version", NULL};
    char *const env[] = {NULL};
    char text[VERSION_MAX];
    int p[2], pidfd = -1;
    pid_t pid;
    ssize_t n;

    if (pipe2(p, O_CLOEXEC) != 0)
        return NULL;
    bg_autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[] = {null, p[1], null};
    const struct local_spawn s = {.argv = argv, .env = env, .fds = fds, .n_fds = 3};
    bool ok = null >= 0 && local_spawn(&s, &pid, &pidfd, NULL);
    close(p[1]);
    n = ok ? read(p[0], text, sizeof text - 1) : -1;
    close(p[0]);
    if (ok) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        close(pidfd);
    }
    if (n <= 0)
        return NULL;
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return bg_xstrdup(text);
}

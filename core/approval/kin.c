/* SPDX-License-Identifier: MIT */
/* Descent by /proc. A pid is compared together with its start time, so reuse is seen. */
#include "core/approval/kin.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base/mem.h"

#define DEPTH_MAX 512
#define TRIES 3 /* a parent that ends during the walk changes the tree */

/* Programs that start the processes of a whole login, of many terminals or of many logins.
 * Being started by the same one of them says nothing about descent. A shell is not among
 * them: what runs under the agent's own shell is the agent's. */
static const char *const managers[] = {
    "systemd",
    "init",
    "openrc-init",
    "runit",
    "runsvdir",
    "s6-svscan",
    "dinit",
    "shepherd",
    "tini",
    "dumb-init",
    "catatonit",
    "docker-init",
    "conmon",
    "containerd-shim",
    "containerd-shim-runc-v2",
    "tmux",
    "screen",
    "zellij",
    "dtach",
    "sshd",
    "sshd-session",
    "dropbear",
    "mosh-server",
    "login",
    "getty",
    "agetty",
    "gdm-session-worker",
    "lightdm",
    "sddm-helper",
    "gnome-shell",
    "kwin_wayland",
    "sway",
    "gnome-terminal-server",
    "konsole",
    "xfce4-terminal",
    "mate-terminal",
    "lxterminal",
    "ptyxis-agent",
    "terminator",
    "kitty",
    "wezterm-gui",
    "wezterm-mux-server",
    "foot",
    "footserver",
    "xterm",
    "alacritty",
};

struct proc {
    int32_t parent;
    uint64_t start;
    char comm[32];
};

static bool read_text(int32_t pid, const char *name, char *out, size_t cap)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    bg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);
    if (n <= 0)
        return false;
    out[n] = 0;
    return true;
}

/* comm may hold anything, ") S 1" too: the fields begin after the last parenthesis. */
static bool read_proc(int32_t pid, struct proc *p)
{
    char text[1024];
    if (pid <= 0 || !read_text(pid, "stat", text, sizeof text))
        return false;
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open)
        return false;
    snprintf(p->comm, sizeof p->comm, "%.*s", (int)(close - open - 1), open + 1);
    /* 3 state, 4 ppid, 22 starttime */
    return sscanf(close + 1,
                  " %*c %" SCNd32 " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
                  " %*s %*s %*s %" SCNu64,
                  &p->parent, &p->start) == 2;
}

static bool named(const char *name, size_t n)
{
    for (size_t i = 0; i < bg_countof(managers); i++)
        if (strlen(managers[i]) == n && memcmp(managers[i], name, n) == 0)
            return true;
    return false;
}

/* None of real, effective and saved is uid. (The owner of /proc/PID would not do: a process
 * that makes itself undumpable gets root there.) */
static bool is_foreign(int32_t pid, uint32_t uid)
{
    char text[4096];
    unsigned r, e, s;
    if (!read_text(pid, "status", text, sizeof text))
        return false;
    const char *line = strstr(text, "\nUid:");
    return line && sscanf(line, "\nUid: %u %u %u", &r, &e, &s) == 3 && r != uid &&
           e != uid && s != uid;
}

/* A process can call itself as it likes; its program file can't lie when only root can
 * change it. Where that can't be read, the name counts only with a parent or an owner that
 * the requester's uid can't be. */
static bool is_manager(int32_t pid, const struct proc *p, uint32_t uid)
{
    char link[64], exe[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/exe", pid);
    ssize_t n = readlink(link, exe, sizeof exe - 1);
    if (n > 0) {
        exe[n] = 0;
        struct stat st;
        const char *base = strrchr(exe, '/');
        return base && named(base + 1, strlen(base + 1)) && stat(exe, &st) == 0 &&
               (st.st_uid == 0 || is_foreign(pid, uid)) && !(st.st_mode & 022);
    }
    /* "tmux: server", "sshd: user@pts/3" */
    return named(p->comm, strcspn(p->comm, ": ")) &&
           (is_foreign(pid, uid) || is_foreign(p->parent, uid));
}

void bg_kin_look(struct bg_kin *k, const struct bg_actor *who)
{
    *k = (struct bg_kin){.pid = who->pid, .start = who->start_time};
    for (int i = 0; i < TRIES && !k->known; i++) {
        struct proc me, parent;
        if (!read_proc(who->pid, &me) || me.start != who->start_time)
            return;
        k->parent = me.parent;
        if (me.parent <= 1) {
            k->known = true;
        } else if (read_proc(me.parent, &parent)) {
            k->parent_start = parent.start;
            k->parent_counts = !is_manager(me.parent, &parent, who->uid);
            k->known = true;
        }
    }
}

enum walk { WALK_APART, WALK_KIN, WALK_PARENT, WALK_GONE };

static enum walk walk(const struct bg_kin *k, const struct bg_actor *decider)
{
    int32_t pid = decider->pid;
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        struct proc p;
        if (!read_proc(pid, &p) || (depth == 0 && p.start != decider->start_time))
            return WALK_GONE;
        if (pid == k->pid && p.start == k->start)
            return WALK_KIN;
        if (k->parent_counts && pid == k->parent && p.start == k->parent_start)
            return WALK_PARENT;
        if (p.parent <= 0 || pid == 1)
            return WALK_APART;
        pid = p.parent;
    }
    return WALK_GONE;
}

bool bg_kin_apart(const struct bg_kin *k, const struct bg_actor *decider,
                  struct bg_error *err)
{
    const char *why = NULL;
    enum walk w = WALK_GONE;
    for (int i = 0; i < TRIES && k->known && w == WALK_GONE; i++)
        w = walk(k, decider);
    switch (w) {
    case WALK_APART:
        return true;
    case WALK_KIN:
        why = "this process was started by the one that asked: decide in another terminal";
        break;
    case WALK_PARENT:
        why = "this process and the request were started by the same program: decide in "
              "another "
              "terminal";
        break;
    case WALK_GONE:
        why =
            k->known
                ? "it can't be told who started the deciding process: decide in another "
                  "terminal"
                : "the requester was gone before it could be told who started it: it must "
                  "ask again";
        break;
    }
    return bg_fail(err, BG_ERR_SELF_APPROVAL, 0, "%s", why);
}

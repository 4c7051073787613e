/* SPDX-License-Identifier: MIT */
/*
 * policy.yaml while the server runs: read at start, again whenever the file changed. An
 * invalid file keeps the last good denies and switches every allow off.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/base/values.h"
#include "core/server/server_priv.h"

static void stamp_of(const char *path, int64_t out[4])
{
    struct stat st;
    memset(out, 0, 4 * sizeof *out);
    if (lstat(path, &st))
        return;
    out[0] = (int64_t)st.st_dev;
    out[1] = (int64_t)st.st_ino;
    /* Of the inode, so that a change of mode or owner is seen too. */
    out[2] = st.st_ctim.tv_sec * INT64_C(1000000000) + st.st_ctim.tv_nsec;
    out[3] = st.st_size;
}

static void audit_policy(struct bg_server *s, const char *what)
{
    char hex[BG_SHA256_HEX + 1];
    struct bg_audit_batch *b = bg_audit_batch_new(s->audit);
    cJSON *m = bg_jo();
    bg_sha256_hex(bg_policy_digest(s->policy), hex);
    bg_jset_str(m, "policySha256", hex);
    bg_jset_bool(m, "distrusted", bg_policy_distrusted(s->policy));
    bg_jset_str(m, "why", what);
    bg_audit_add(b, BG_AUDIT_POLICY, 0, NULL, m);
    bg_audit_commit(b, NULL, NULL);
}

/* The seeds' lists of executables live in config.yaml and only tighten. */
static struct bg_policy *load(struct bg_server *s, struct bg_error *err)
{
    stamp_of(s->paths->policy_file, s->policy_stamp);
    struct bg_policy *p = bg_policy_load(s->paths->policy_file, err);
    if (p)
        bg_policy_exec_lists(p, s->config->tools.allowed, s->config->tools.blocked);
    return p;
}

void server_first_policy(struct bg_server *s)
{
    struct bg_error e = {0};
    s->policy = load(s, &e);
    if (s->policy)
        return;
    /* Nothing good was ever read: ask for everything, and say so. */
    s->policy = bg_policy_default();
    bg_policy_exec_lists(s->policy, s->config->tools.allowed, s->config->tools.blocked);
    bg_policy_distrust(s->policy);
    bg_log(s->log, BG_LOG_ERROR, "%s; every request will be asked for", e.msg);
}

bool server_reload_policy(struct bg_server *s, struct bg_error *err)
{
    struct bg_error e = {0};
    struct bg_policy *p = load(s, &e);
    if (p) {
        bg_approvals_set_policy(s->approvals, p);
        bg_policy_free(s->policy);
        s->policy = p;
    } else {
        bg_policy_distrust(s->policy);
        bg_log(s->log, BG_LOG_ERROR, "%s; its denies stay, every allow is off", e.msg);
        if (err)
            *err = e;
    }
    audit_policy(s, p ? "loaded" : e.msg);
    event_emit(s, TOPIC_POLICY, "changed", NULL);
    return p != NULL;
}

void server_check_policy(struct bg_server *s)
{
    int64_t now[4];
    stamp_of(s->paths->policy_file, now);
    if (memcmp(now, s->policy_stamp, sizeof now))
        (void)server_reload_policy(s, NULL);
}

/* ---- a project's own file ---- */

#define PROJECT_FILE ".boxgate.yaml"

/* Never through a link: what it names may be a file that the requester can't read, and the
 * errors of the parser tell words of it. The descriptor pins what was looked at. */
static bool read_project(const char *path, struct bg_buf *b, struct bg_error *err)
{
    bg_autoclose int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return bg_fail(err,
                       errno == ENOENT || errno == ENOTDIR ? BG_ERR_NOT_FOUND : BG_ERR_IO,
                       errno, "open");
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return bg_fail(err, BG_ERR_PATH, 0, "it is no regular file");
    bg_autofree char *self = bg_xasprintf("/proc/self/fd/%d", fd);
    return bg_read_file(self, BG_YAML_MAX, false, b, err);
}

/* The file lies where the requester stands. It comes with a repository, so whoever wrote it
 * is not trusted with more than saying no: bg_policy_tighten refuses an allow in it. */
bool server_project_policy(const struct bg_actor *who, struct bg_policy **out,
                           struct bg_error *err)
{
    bg_autofree char *path = bg_xasprintf("/proc/%d/cwd/" PROJECT_FILE, who->pid);
    bg_autobuf struct bg_buf b;
    struct bg_error e = {0};
    *out = NULL;
    bg_buf_init(&b, BG_YAML_MAX);
    if (!read_project(path, &b, &e)) {
        if (e.code == BG_ERR_NOT_FOUND)
            return true;
        return bg_fail(err, BG_ERR_POLICY, 0,
                       "the project's " PROJECT_FILE " cannot be read: %s", e.msg);
    }
    struct bg_policy *file = bg_policy_parse(PROJECT_FILE, b.data, b.len, err);
    if (!file)
        return false;
    *out = bg_policy_default();
    bool ok = bg_policy_tighten(*out, file, err);
    if (!ok)
        bg_error_prefix(err, PROJECT_FILE);
    bg_policy_free(file);
    if (!ok) {
        bg_policy_free(*out);
        *out = NULL;
    }
    return ok;
}

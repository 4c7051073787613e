/* SPDX-License-Identifier: MIT */
/* What does not belong to one provider: choosing one, its report, finding the guest. */
#include "core/provider/provider.h"

#include <limits.h>

#include "core/base/mem.h"

#ifndef BG_LIBEXECDIR
#define BG_LIBEXECDIR "/usr/local/libexec/boxgate"
#endif

const struct bg_provider_ops *bg_provider_ops_for(enum bg_provider_kind k)
{
    switch (k) {
    case BG_PROVIDER_LOCAL:
        return &bg_provider_local;
    case BG_PROVIDER_CONTAINER:
        return &bg_provider_container;
    case BG_PROVIDER_NONE:
        break;
    }
    return NULL;
}

void bg_provider_report_clear(struct bg_provider_report *r)
{
    free(r->name);
    free(r->version);
    free(r->endpoint);
    free(r->why_not);
    free(r->remedy);
    bg_strv_free(r->enforced);
    bg_strv_free(r->not_enforced);
    *r = (struct bg_provider_report){0};
}

static char *beside_executable(const char *name)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    if (n <= 0)
        return NULL;
    self[n] = '\0';
    slash = strrchr(self, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    return bg_path_join(self, name);
}

char *bg_guest_find(struct bg_error *err)
{
    const char *named = getenv("BOXGATE_GUEST");
    bg_autofree char *beside = NULL;

    if (named && *named) {
        if (access(named, X_OK) == 0)
            return bg_xstrdup(named);
        bg_fail(err, BG_ERR_NOT_FOUND, 0, "BOXGATE_GUEST names %s, which is no program",
                named);
        return NULL;
    }
    beside = beside_executable("boxgate-guest");
    if (beside && access(beside, X_OK) == 0)
        return bg_steal(beside);
    if (access(BG_LIBEXECDIR "/boxgate-guest", X_OK) == 0)
        return bg_xstrdup(BG_LIBEXECDIR "/boxgate-guest");
    bg_fail(err, BG_ERR_NOT_FOUND, 0,
            "boxgate-guest is neither beside this program nor in %s", BG_LIBEXECDIR);
    return NULL;
}

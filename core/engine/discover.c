/* SPDX-License-Identifier: MIT */
/*
 * Where an engine may be. A configured endpoint is the only one tried. Else by runtime:
 * auto is Podman if its program is installed, else Docker; one is never taken for the other
 * because it happens not to answer. DOCKER_HOST and CONTAINER_HOST are not read here:
 * `boxgate init` writes into the config what they say.
 */
#include <sys/stat.h>

#include "core/base/digest.h"
#include "core/engine/engine_int.h"

enum { CONTEXT_MAX = 262144 };

char *bg_engine_socket(const char *endpoint, struct bg_error *err)
{
    static const char unix_scheme[] = "unix://";
    const char *path = endpoint;

    if (strncmp(endpoint, unix_scheme, sizeof unix_scheme - 1) == 0) {
        path += sizeof unix_scheme - 1;
    } else if (strstr(endpoint, "://")) {
        bg_fail(err, BG_ERR_UNSUPPORTED, 0,
                "engine endpoint %s: only an engine on this machine, unix:///PATH, can be "
                "used",
                endpoint);
        return NULL;
    }
    if (*path == '/')
        return bg_xstrdup(path);
    bg_fail(err, BG_ERR_CONFIG, 0,
            "engine endpoint %s: expected unix:// and an absolute path", endpoint);
    return NULL;
}

char *bg_engine_endpoint_env(void)
{
    static const char *const names[] = {"CONTAINER_HOST", "DOCKER_HOST"};

    for (size_t i = 0; i < bg_countof(names); i++) {
        const char *v = getenv(names[i]);
        if (v && *v)
            return bg_xstrdup(v);
    }
    return NULL;
}

static bool is_socket(const struct engine_look *l, const char *path)
{
    bg_autofree char *full = bg_xasprintf("%s%s", l->root, path);
    struct stat st;

    return stat(full, &st) == 0 && S_ISSOCK(st.st_mode);
}

static void add(struct engine_places *p, const char *socket, const char *why)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->v[i].socket, socket) == 0)
            return;
    p->v = bg_xrealloc(p->v, p->n + 1, sizeof *p->v);
    p->v[p->n++] = (struct engine_place){bg_xstrdup(socket), bg_xstrdup(why)};
}

static void add_if_there(struct engine_places *p, const struct engine_look *l,
                         const char *socket, const char *why)
{
    if (is_socket(l, socket))
        add(p, socket, why);
}

/* Below a folder named by the environment; nothing when that is not set. */
static void add_below(struct engine_places *p, const struct engine_look *l,
                      const char *variable, const char *rest, const char *why)
{
    const char *dir = l->env(variable);

    if (!dir || *dir != '/')
        return;
    bg_autofree char *socket = bg_path_join(dir, rest);
    add_if_there(p, l, socket, why);
}

static char *find_program(const struct engine_look *l, const char *name)
{
    const char *path = l->env("PATH");
    bg_autofree char *list =
        bg_xstrdup(path && *path ? path : "/usr/local/bin:/usr/bin:/bin");
    char *save = NULL;

    if (strchr(name, '/'))
        return access(name, X_OK) == 0 ? bg_xstrdup(name) : NULL;
    for (char *dir = strtok_r(list, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
        bg_autofree char *full = bg_xasprintf("%s%s/%s", l->root, dir, name);
        if (*dir == '/' && access(full, X_OK) == 0)
            return bg_steal(full);
    }
    return NULL;
}

static void find_podman(struct engine_places *p, const struct engine_look *l)
{
    if (l->uid == 0)
        add_if_there(p, l, "/run/podman/podman.sock", "Podman's system socket");
    add_below(p, l, "XDG_RUNTIME_DIR", "podman/podman.sock",
              "Podman's socket of this user");
    if (l->uid != 0) {
        bg_autofree char *run =
            bg_xasprintf("/run/user/%u/podman/podman.sock", (unsigned)l->uid);
        add_if_there(p, l, run, "Podman's socket of this user");
    }
}

static cJSON *read_json(const struct engine_look *l, const char *path)
{
    bg_autofree char *full = bg_xasprintf("%s%s", l->root, path);
    bg_autobuf struct bg_buf b;

    bg_buf_init(&b, CONTEXT_MAX);
    if (!bg_read_file(full, CONTEXT_MAX, false, &b, NULL))
        return NULL;
    return bg_json_parse_big(b.data, b.len, CONTEXT_MAX, NULL);
}

/* Docker keeps a context in a folder named by the digest of its name. */
static void add_context(struct engine_places *p, const struct engine_look *l)
{
    const char *home = l->env("HOME");
    char hex[BG_SHA256_HEX + 1];

    if (!home || *home != '/')
        return;
    bg_autofree char *config = bg_path_join(home, ".docker/config.json");
    bg_autojson cJSON *j = read_json(l, config);
    const char *name = ej_str(j, "currentContext");
    if (!*name || strcmp(name, "default") == 0)
        return;
    struct bg_sha256 sum = bg_sha256(name, strlen(name));
    bg_sha256_hex(&sum, hex);
    bg_autofree char *meta =
        bg_xasprintf("%s/.docker/contexts/meta/%s/meta.json", home, hex);
    bg_autojson cJSON *m = read_json(l, meta);
    const char *host = ej_str(ej_obj(ej_obj(m, "Endpoints"), "docker"), "Host");
    bg_autofree char *socket = *host ? bg_engine_socket(host, NULL) : NULL;
    bg_autofree char *why = bg_xasprintf("Docker's current context %s", name);
    if (socket)
        add(p, socket, why);
}

static void find_docker(struct engine_places *p, const struct engine_look *l)
{
    add_context(p, l);
    add_if_there(p, l, "/run/docker.sock", "Docker's system socket");
    add_if_there(p, l, "/var/run/docker.sock", "Docker's system socket");
    add_below(p, l, "XDG_RUNTIME_DIR", "docker.sock", "rootless Docker of this user");
    add_below(p, l, "HOME", ".docker/run/docker.sock", "Docker of this user");
    add_below(p, l, "HOME", ".docker/desktop/docker.sock", "Docker Desktop");
}

bool engine_places_find(struct engine_places *p, const struct bg_engine_opts *o,
                        const struct engine_look *l, struct bg_error *err)
{
    const char *program =
        *o->program && strstr(o->program, "podman") ? o->program : "podman";
    bool docker = strcmp(o->runtime, "docker") == 0;

    *p = (struct engine_places){0};
    if (*o->endpoint) {
        bg_autofree char *socket = bg_engine_socket(o->endpoint, err);
        if (socket)
            add(p, socket, "engine.endpoint of the config");
        return socket != NULL;
    }
    p->program = docker ? NULL : find_program(l, program);
    if (p->program) {
        p->service = true;
        find_podman(p, l);
        return true;
    }
    if (strcmp(o->runtime, "podman") == 0)
        return bg_fail(err, BG_ERR_UNAVAILABLE, 0, "the program %s is not installed",
                       program);
    find_docker(p, l);
    return p->n > 0 ||
           bg_fail(err, BG_ERR_UNAVAILABLE, 0,
                   docker ? "no socket of Docker is there"
                          : "Podman is not installed and no socket of Docker is there");
}

void engine_places_clear(struct engine_places *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->v[i].socket);
        free(p->v[i].why);
    }
    free(p->v);
    free(p->program);
    *p = (struct engine_places){0};
}

/* SPDX-License-Identifier: MIT */
/* The terminal's other side, and a server made of rows. */
#include "tests/screen/lib_screen.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/mem.h"
#include "core/base/values.h"

/* ---- time ---- */

static int64_t wall_now = SCREEN_WALL, mono_now = 1000000;

static int64_t test_wall(void)
{
    return wall_now;
}

static int64_t test_mono(void)
{
    return mono_now;
}

/* ---- the scripted server ---- */

static cJSON *find(struct screen *s, const cJSON *params)
{
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(params, "id");
    cJSON *r;
    cJSON_ArrayForEach(r, s->requests)
    {
        const cJSON *have = cJSON_GetObjectItemCaseSensitive(r, "id");
        if (id && have->valuedouble == id->valuedouble)
            return r;
    }
    return NULL;
}

static void answer_decide(struct screen *s, cJSON *params, bg_rpc_fn cb, void *data)
{
    cJSON_AddItemToArray(s->decided, cJSON_Duplicate(params, true));
    cJSON *row = find(s, params);
    if (s->hold)
        return;
    if (s->refuse.code) {
        cb(data, NULL, &s->refuse);
        return;
    }
    const cJSON *d = cJSON_GetObjectItemCaseSensitive(params, "decision");
    bool approve = !strcmp(d->valuestring, "approve");
    cJSON_ReplaceItemInObjectCaseSensitive(
        row, "state", cJSON_CreateString(approve ? "approved" : "denied"));
    screen_event(s, "approval", "changed", row);
    cb(data, row, NULL);
}

static void server(void *data, const char *method, cJSON *params, bg_rpc_fn cb,
                   void *cb_data)
{
    struct screen *s = data;
    bg_autojson cJSON *none = bg_jo();
    if (!strcmp(method, "approval.list"))
        cb(cb_data, s->requests, NULL);
    else if (!strcmp(method, "session.list"))
        cb(cb_data, s->sessions, NULL);
    else if (!strcmp(method, "approval.get"))
        cb(cb_data, find(s, params), NULL);
    else if (!strcmp(method, "approval.decide"))
        answer_decide(s, params, cb, cb_data);
    else
        cb(cb_data, none, NULL);
    cJSON_Delete(params);
}

void screen_event(struct screen *s, const char *topic, const char *type, const cJSON *row)
{
    mono_now += 100;
    app_event(s->app, topic, type, row);
}

/* ---- rows ---- */

static void bound(cJSON *a, struct bg_hasher *h, const char *name, const char *p, size_t n)
{
    bg_autofree char *text = bg_base64(p, n);
    cJSON *f = bg_jo();
    bg_hasher_field(h, name, p, n);
    bg_jset_str(f, "name", name);
    bg_jset_str(f, "base64", text);
    cJSON_AddItemToArray(a, f);
}

static cJSON *spec(void)
{
    cJSON *o = bg_jo(), *l = bg_jo(), *caps = bg_ja(), *sec = bg_jo(), *ws = bg_jo();
    bg_jset_str(o, "provider", "local");
    bg_jset_str(o, "image", "host");
    bg_jset_str(o, "imageId", "host");
    bg_jset_str(o, "user", "1000:1000");
    bg_jset_str(o, "network", "none");
    bg_jset_int(l, "memoryMb", 512);
    bg_jset_int(l, "cpus", 1);
    bg_jset_int(l, "pidsLimit", 256);
    bg_jset(o, "limits", l);
    cJSON_AddItemToArray(caps, cJSON_CreateString("ALL"));
    bg_jset(sec, "dropCapabilities", caps);
    bg_jset_bool(sec, "noNewPrivileges", true);
    bg_jset_bool(sec, "readonlyRootfs", true);
    bg_jset(o, "security", sec);
    bg_jset_str(o, "workdir", "/workspace");
    bg_jset_str(ws, "mode", "ephemeral");
    bg_jset_str(ws, "storage", "memory");
    bg_jset_int(ws, "sizeMb", 176);
    bg_jset(o, "workspace", ws);
    return o;
}

static void add_hazards(cJSON *o, const char *const *hazards)
{
    cJSON *names = bg_ja(), *notes = bg_ja();
    for (; hazards && *hazards; hazards++) {
        cJSON *n = bg_jo();
        char name[32];
        const char *colon = strchr(*hazards, ':'); /* "bidi:8" */
        snprintf(name, sizeof name, "%.*s",
                 (int)(colon ? colon - *hazards : (long)strlen(*hazards)), *hazards);
        cJSON_AddItemToArray(names, cJSON_CreateString(name));
        bg_jset_str(n, "hazard", name);
        bg_jset_str(n, "field", colon ? "code" : "");
        bg_jset_int(n, "line", colon ? atoi(colon + 1) : 0);
        cJSON_AddItemToArray(notes, n);
    }
    bg_jset_bool(o, "high", cJSON_GetArraySize(names) > 0);
    bg_jset(o, "hazards", names);
    bg_jset(o, "notes", notes);
}

static cJSON *row(int64_t id, const char *kind, const char *session, const char *language)
{
    cJSON *o = bg_jo();
    int64_t age = (150 - id) * 20000;
    bg_jset_int(o, "id", id);
    bg_jset_int(o, "rev", 1);
    bg_jset_str(o, "kind", kind);
    bg_jset_str(o, "session", session);
    bg_jset_str(o, "profile", "default");
    bg_jset_str(o, "language", language);
    bg_jset_str(o, "state", "pending");
    bg_jset_bool(o, "attached", true);
    bg_jset_int(o, "waiting", 1);
    bg_jset_str(o, "purpose", "count the rows of the customer file");
    bg_jset_str(o, "client", "boxgate-run 0.1.0");
    bg_jset_int(o, "uid", 1000);
    bg_jset_int(o, "pid", 4711);
    bg_jset_str(o, "exe", "/usr/local/bin/boxgate");
    bg_jset_time(o, "requestedAt", SCREEN_WALL - age);
    bg_jset_time(o, "expiresAt", SCREEN_WALL - age + 300000);
    bg_jset_int(o, "timeoutMs", 60000);
    bg_jset_int(o, "earlierRuns", 3);
    bg_jset(o, "spec", spec());
    return o;
}

static void finish(cJSON *o, cJSON *fields, struct bg_hasher *h)
{
    char hex[65];
    struct bg_sha256 d = bg_hasher_end(h);
    bg_sha256_hex(&d, hex);
    bg_jset_str(o, "sha256", hex);
    bg_jset(o, "bound", fields);
}

static struct bg_hasher *begin_hash(void)
{
    struct bg_hasher *h = bg_hasher_new();
    bg_hasher_add(h, "boxgate-req-v1", 15);
    return h;
}

cJSON *screen_request(int64_t id, const char *session, const char *language,
                      const char *code, size_t len, const char *const *hazards)
{
    cJSON *o = row(id, "run_code", session, language), *fields = bg_ja(), *argv = bg_ja();
    struct bg_hasher *h = begin_hash();
    struct bg_scan scan;
    bg_text_scan(code, len, &scan);
    bound(fields, h, "kind", "run_code", 8);
    bound(fields, h, "code", code, len);
    finish(o, fields, h);
    cJSON_AddItemToArray(argv, cJSON_CreateString(language));
    cJSON_AddItemToArray(argv, cJSON_CreateString("-"));
    bg_jset(o, "argv", argv);
    bg_jset_int(o, "lines", scan.lines);
    bg_jset_int(o, "bytes", (int64_t)len);
    const char *nl = memchr(code, '\n', len);
    bg_autofree char *first = bg_xstrndup(code, nl ? (size_t)(nl - code) : len);
    bg_jset_str(o, "firstLine", first);
    add_hazards(o, hazards);
    return o;
}

cJSON *screen_exec(int64_t id, const char *session, const char *const *argv,
                   const char *const *env)
{
    cJSON *o = row(id, "exec", session, NULL), *fields = bg_ja(), *list = bg_ja();
    struct bg_hasher *h = begin_hash();
    bound(fields, h, "kind", "exec", 4);
    bg_jset_str(o, "firstLine", argv[0]);
    for (; *argv; argv++) {
        bound(fields, h, "argv", *argv, strlen(*argv));
        cJSON_AddItemToArray(list, cJSON_CreateString(*argv));
    }
    for (; env && *env; env++)
        bound(fields, h, "env", *env, strlen(*env));
    finish(o, fields, h);
    bg_jset(o, "argv", list);
    bg_jset_int(o, "lines", 1);
    bg_jset_int(o, "bytes", 40);
    add_hazards(o, NULL);
    return o;
}

cJSON *screen_session(const char *id, const char *state, const char *network)
{
    cJSON *o = bg_jo();
    bg_jset_str(o, "id", id);
    bg_jset_str(o, "state", state);
    bg_jset_str(o, "provider", "local");
    bg_jset_str(o, "image", "host");
    bg_jset_str(o, "profile", "default");
    bg_jset_str(o, "network", network);
    bg_jset_str(o, "runId", id);
    bg_jset_int(o, "memoryMb", 512);
    bg_jset_int(o, "cpus", 1);
    bg_jset_int(o, "pids", 256);
    bg_jset_int(o, "calls", 14);
    bg_jset_int(o, "denied", 2);
    bg_jset_int(o, "running", 0);
    bg_jset_int(o, "lastExit", 0);
    bg_jset_int(o, "idleMs", 240000);
    bg_jset_time(o, "createdAt", SCREEN_WALL - 600000);
    return o;
}

const char *screen_sha(const cJSON *r)
{
    return cJSON_GetObjectItemCaseSensitive(r, "sha256")->valuestring;
}

size_t screen_decisions(const struct screen *s)
{
    return (size_t)cJSON_GetArraySize(s->decided);
}

const char *screen_verb(const struct screen *s, size_t i)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(s->decided, (int)i),
                                            "decision")
        ->valuestring;
}

/* ---- the terminal ---- */

/* A pty delivers a little later; it has arrived when the console could read it. */
static void to_console(const char *p, size_t n, void *data)
{
    struct screen *s = data;
    struct pollfd in = {.fd = s->slave, .events = POLLIN};
    assert_int_equal(write(s->master, p, n), n);
    assert_int_equal(poll(&in, 1, 5000), 1);
}

static void *read_terminal(void *data)
{
    struct screen *s = data;
    char buf[8192];
    ssize_t n;
    while ((n = read(s->master, buf, sizeof buf)) > 0) {
        pthread_mutex_lock(&s->lock);
        bg_buf_put(&s->fresh, buf, (size_t)n);
        pthread_cond_signal(&s->more);
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

struct screen *screen_new(int rows, int cols)
{
    struct screen *s = bg_xcalloc(1, sizeof *s);
    wall_now = SCREEN_WALL;
    s->loop = bg_loop_new();
    s->rows = rows;
    s->cols = cols;
    s->requests = bg_ja();
    s->sessions = bg_ja();
    s->decided = bg_ja();
    s->border = UI_BORDER_ROUND;
    bg_buf_init(&s->raw, 64u << 20);
    bg_buf_init(&s->fresh, 64u << 20);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    snprintf(s->term, sizeof s->term, "xterm-256color");
    return s;
}

void screen_open(struct screen *s)
{
    struct winsize ws = {.ws_row = (unsigned short)s->rows,
                         .ws_col = (unsigned short)s->cols};
    struct bg_error err = {0};
    assert_int_equal(openpty(&s->master, &s->slave, NULL, NULL, &ws), 0);
    assert_int_equal(pthread_create(&s->reader, NULL, read_terminal, s), 0);
    s->vt = vterm_new(s->rows, s->cols);
    vterm_set_utf8(s->vt, 1);
    s->vts = vterm_obtain_screen(s->vt);
    vterm_screen_enable_altscreen(s->vts, 1);
    vterm_screen_reset(s->vts, 1);
    vterm_output_set_callback(s->vt, to_console, s);
    struct app_opts o = {.in = s->slave,
                         .out = s->slave,
                         .term = s->term,
                         .no_color = s->no_color,
                         .theme = "dark",
                         .border = s->border,
                         .bell = true,
                         .link = {server, s},
                         .wall = test_wall,
                         .mono = test_mono};
    s->app = app_new(s->loop, &o, &err);
    if (!s->app)
        fail_msg("%s", err.msg);
    bg_autojson cJSON *hello = bg_jo();
    cJSON *p = bg_jo();
    bg_jset_str(p, "name", "local");
    bg_jset_bool(p, "available", true);
    bg_jset(hello, "provider", p);
    bg_jset_time(hello, "serverTime", wall_now);
    bg_jset_int(hello, "armMs", 600);
    app_connected(s->app, hello);
    screen_settle(s);
}

void screen_free(struct screen *s)
{
    app_free(s->app);
    bg_loop_free(s->loop);
    if (s->vt)
        vterm_free(s->vt);
    close(s->slave); /* the last one: its reader ends */
    pthread_join(s->reader, NULL);
    close(s->master);
    bg_buf_free(&s->fresh);
    cJSON_Delete(s->requests);
    cJSON_Delete(s->sessions);
    cJSON_Delete(s->decided);
    bg_buf_free(&s->raw);
    free(s);
}

/* Takes all that was written until now: a mark of our own is written behind it. */
static void drain(struct screen *s)
{
    static const char fence[] = "\033]777;fence\007";
    char *end;
    size_t begin = s->raw.len;
    assert_int_equal(write(s->slave, fence, sizeof fence - 1), sizeof fence - 1);
    pthread_mutex_lock(&s->lock);
    while (!(end = memmem(s->fresh.data, s->fresh.len, fence, sizeof fence - 1)))
        pthread_cond_wait(&s->more, &s->lock);
    bg_buf_put(&s->raw, s->fresh.data, (size_t)(end - s->fresh.data));
    bg_buf_clear(&s->fresh);
    pthread_mutex_unlock(&s->lock);
    size_t n = s->raw.len - begin;
    s->bytes += n;
    vterm_input_write(s->vt, s->raw.data + begin, n);
}

static bool unread(struct screen *s)
{
    struct pollfd in = {.fd = s->slave, .events = POLLIN};
    return poll(&in, 1, 0) == 1;
}

void screen_settle(struct screen *s)
{
    do {
        for (int i = 0; i < 3; i++)
            bg_loop_turn(s->loop, 0);
        drain(s);
    } while (unread(s));
}

void screen_burst(struct screen *s, const char *keys)
{
    mono_now += 200;
    to_console(keys, strlen(keys), s);
    screen_settle(s);
}

void screen_type(struct screen *s, const char *keys)
{
    for (; *keys; keys++) {
        mono_now += 200;
        to_console(keys, 1, s);
        screen_settle(s);
    }
}

void screen_tick(struct screen *s, int64_t ms)
{
    wall_now += ms;
    mono_now += ms;
    app_dirty(s->app);
    screen_settle(s);
}

void screen_size(struct screen *s, int rows, int cols)
{
    struct winsize ws = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    s->rows = rows;
    s->cols = cols;
    vterm_set_size(s->vt, rows, cols);
    assert_int_equal(ioctl(s->master, TIOCSWINSZ, &ws), 0);
    app_resized(s->app);
    screen_settle(s);
}

/* ---- looking ---- */

static void put_cell(struct bg_buf *b, const VTermScreenCell *c)
{
    char utf8[4];
    for (int i = 0; i < VTERM_MAX_CHARS_PER_CELL && c->chars[i]; i++) {
        uint32_t cp = c->chars[i];
        int n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
        static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
        for (int k = n - 1; k > 0; k--, cp >>= 6)
            utf8[k] = (char)(0x80 | (cp & 0x3f));
        utf8[0] = (char)(lead[n] | cp);
        bg_buf_put(b, utf8, (size_t)n);
    }
}

char *screen_text(struct screen *s)
{
    struct bg_buf b;
    bg_buf_init(&b, 4u << 20);
    for (int y = 0; y < s->rows; y++) {
        size_t begin = b.len, end = b.len;
        for (int x = 0; x < s->cols;) {
            VTermScreenCell c;
            vterm_screen_get_cell(s->vts, (VTermPos){.row = y, .col = x}, &c);
            if (c.chars[0] && c.chars[0] != (uint32_t)-1)
                put_cell(&b, &c);
            else
                bg_buf_putc(&b, ' ');
            if (c.chars[0] && c.chars[0] != ' ')
                end = b.len;
            x += c.width > 0 ? c.width : 1;
        }
        b.len = end > begin ? end : begin;
        bg_buf_putc(&b, '\n');
    }
    return bg_buf_steal(&b);
}

bool screen_has(struct screen *s, const char *words)
{
    bg_autofree char *text = screen_text(s);
    return strstr(text, words) != NULL;
}

void screen_expect(struct screen *s, const char *name)
{
    const char *src = getenv("BOXGATE_SRC");
    bg_autofree char *path =
        bg_xasprintf("%s/tests/screen/expect/%s.txt", src ? src : ".", name);
    bg_autofree char *text = screen_text(s);
    struct bg_error err = {0};
    struct bg_buf want;
    if (getenv("SCREEN_UPDATE")) {
        assert_true(bg_write_file_atomic(path, text, strlen(text), 0644, &err));
        return;
    }
    bg_buf_init(&want, 1u << 20);
    if (!bg_read_file(path, 1u << 20, false, &want, &err))
        fail_msg("%s (SCREEN_UPDATE=1 writes it)", err.msg);
    if (strcmp(want.data, text)) {
        print_message("%s differs; it is now:\n%s", name, text);
        fail_msg("%s is not as saved (SCREEN_UPDATE=1 writes it)", name);
    }
    bg_buf_free(&want);
}

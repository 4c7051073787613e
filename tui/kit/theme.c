/* SPDX-License-Identifier: MIT */
/* Theme files, where they lie, and what is left of them on a poorer terminal. */
#include "tui/kit/theme.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/values.h"
#include "core/base/yaml_doc.h"

#define CONTRAST_MIN 450 /* 4.5 : 1 */

static const struct {
    const char *name;
    uint16_t mono;
} role_table[UI_ROLE_COUNT_] = {
    [UI_TEXT] = {"text", 0},
    [UI_MUTED] = {"muted", UI_DIM},
    [UI_TITLE] = {"title", UI_BOLD},
    [UI_ACCENT] = {"accent", UI_BOLD},
    [UI_KEY] = {"key", UI_BOLD},
    [UI_BORDER] = {"border", UI_DIM},
    [UI_BORDER_FOCUS] = {"border_focus", UI_BOLD},
    [UI_OK] = {"ok", UI_BOLD},
    [UI_WARN] = {"warn", UI_UNDERLINE},
    [UI_HIGH] = {"high", UI_BOLD | UI_UNDERLINE},
    [UI_ERR] = {"err", UI_BOLD | UI_UNDERLINE},
    [UI_HIDDEN] = {"hidden", UI_REVERSE},
    [UI_KEYWORD] = {"keyword", UI_BOLD},
    [UI_STRING] = {"string", 0},
    [UI_NUMBER] = {"number", 0},
    [UI_COMMENT] = {"comment", UI_DIM},
    [UI_NAME] = {"name", 0},
};

static const struct {
    const char *name;
    uint16_t bit;
} attr_table[] = {{"bold", UI_BOLD},
                  {"dim", UI_DIM},
                  {"reverse", UI_REVERSE},
                  {"underline", UI_UNDERLINE}};

static const char *const basic_names[16] = {
    "black",       "red",           "green",       "yellow",
    "blue",        "magenta",       "cyan",        "white",
    "brightblack", "brightred",     "brightgreen", "brightyellow",
    "brightblue",  "brightmagenta", "brightcyan",  "brightwhite"};

/* What terminals usually show for the 16; only to find the nearest. */
static const uint8_t basic_rgb[16][3] = {
    {0, 0, 0},       {205, 49, 49},   {13, 188, 121}, {229, 229, 16},
    {36, 114, 200},  {188, 63, 188},  {17, 168, 205}, {229, 229, 229},
    {102, 102, 102}, {241, 76, 76},   {35, 209, 139}, {245, 245, 67},
    {59, 142, 234},  {214, 112, 214}, {41, 184, 219}, {255, 255, 255}};

const char *ui_role_name(enum ui_role r)
{
    return role_table[r].name;
}

uint16_t ui_mono_attr(enum ui_role r)
{
    return role_table[r].mono;
}

/* ---- colours ---- */

static void rgb_of_index(int i, uint8_t out[3])
{
    static const uint8_t step[6] = {0, 95, 135, 175, 215, 255};
    if (i < 16) {
        memcpy(out, basic_rgb[i], 3);
    } else if (i < 232) {
        i -= 16;
        out[0] = step[i / 36];
        out[1] = step[i / 6 % 6];
        out[2] = step[i % 6];
    } else {
        out[0] = out[1] = out[2] = (uint8_t)(8 + (i - 232) * 10);
    }
}

static int distance(const uint8_t a[3], const uint8_t b[3])
{
    int d = 0;
    for (int i = 0; i < 3; i++)
        d += (a[i] - b[i]) * (a[i] - b[i]);
    return d;
}

/* Among the 256 the first 16 are left out: people change those. */
static int nearest(const uint8_t rgb[3], int from, int to)
{
    int best = from, best_d = INT_MAX;
    for (int i = from; i < to; i++) {
        uint8_t c[3];
        rgb_of_index(i, c);
        int d = distance(rgb, c);
        if (d < best_d) {
            best_d = d;
            best = i;
        }
    }
    return best;
}

static bool rgb_of(const struct ui_color *c, uint8_t out[3])
{
    if (c->rgb_set) {
        out[0] = c->r;
        out[1] = c->g;
        out[2] = c->b;
        return true;
    }
    int i = c->index >= 0 ? c->index : c->basic;
    if (i < 0)
        return false;
    rgb_of_index(i, out);
    return true;
}

int ui_color_at(const struct ui_color *c, enum ui_depth depth)
{
    uint8_t rgb[3];
    if (depth == UI_DEPTH_MONO || !rgb_of(c, rgb))
        return -1;
    if (depth == UI_DEPTH_RGB)
        return rgb[0] << 16 | rgb[1] << 8 | rgb[2];
    if (depth == UI_DEPTH_256)
        return c->index >= 0 ? c->index : c->basic >= 0 ? c->basic : nearest(rgb, 16, 256);
    return c->basic >= 0 ? c->basic : nearest(rgb, 0, 16);
}

static double luminance(const uint8_t rgb[3])
{
    double l[3];
    for (int i = 0; i < 3; i++) {
        double v = rgb[i] / 255.0;
        l[i] = v <= 0.03928 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
    }
    return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2];
}

int ui_contrast(const struct ui_color *a, const struct ui_color *b)
{
    uint8_t x[3], y[3];
    if (!rgb_of(a, x) || !rgb_of(b, y))
        return 2100;
    double la = luminance(x), lb = luminance(y);
    double hi = la > lb ? la : lb, lo = la > lb ? lb : la;
    return (int)((hi + 0.05) / (lo + 0.05) * 100);
}

/* Roles that people read, on the backgrounds that terminals of that kind usually have and
 * on the selected row. */
static void check_contrast(struct ui_theme *t)
{
    struct ui_color usual[3] = {{.rgb_set = true, .index = -1, .basic = -1},
                                {.rgb_set = true, .index = -1, .basic = -1},
                                t->selected.color};
    static const uint8_t dark[2][3] = {{0x0d, 0x0f, 0x12}, {0x1e, 0x22, 0x28}},
                         light[2][3] = {{0xff, 0xff, 0xff}, {0xf3, 0xf1, 0xea}};
    for (int i = 0; i < 2; i++) {
        const uint8_t *c = t->dark ? dark[i] : light[i];
        usual[i].r = c[0];
        usual[i].g = c[1];
        usual[i].b = c[2];
    }
    for (int r = 0; r < UI_ROLE_COUNT_; r++) {
        if (r == UI_BORDER)
            continue;
        for (size_t b = 0; b < bg_countof(usual); b++) {
            int c = ui_contrast(&t->roles[r].color, &usual[b]);
            if (c < CONTRAST_MIN) {
                snprintf(t->warning, sizeof t->warning,
                         "theme %s: %s has a contrast of %d.%d : 1 only (4.5 is readable)",
                         t->name, role_table[r].name, c / 100, c / 10 % 10);
                return;
            }
        }
    }
}

/* ---- the file ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

static bool read_hex(const char *w, size_t n, struct ui_color *c)
{
    int v[6];
    if (n != 7)
        return false;
    for (int i = 0; i < 6; i++)
        if ((v[i] = hex_digit(w[i + 1])) < 0)
            return false;
    c->rgb_set = true;
    c->r = (uint8_t)(v[0] << 4 | v[1]);
    c->g = (uint8_t)(v[2] << 4 | v[3]);
    c->b = (uint8_t)(v[4] << 4 | v[5]);
    return true;
}

static bool read_index(const char *w, size_t n, struct ui_color *c)
{
    int v = 0;
    if (n == 0 || n > 3)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (w[i] < '0' || w[i] > '9')
            return false;
        v = v * 10 + (w[i] - '0');
    }
    c->index = (int16_t)v;
    return v < 256;
}

static bool is_word(const char *w, size_t n, const char *name)
{
    return strlen(name) == n && !memcmp(w, name, n);
}

static bool read_word(const char *w, size_t n, struct ui_look *out)
{
    if (is_word(w, n, "default"))
        return true;
    if (*w == '#')
        return read_hex(w, n, &out->color);
    for (size_t i = 0; i < bg_countof(attr_table); i++)
        if (is_word(w, n, attr_table[i].name)) {
            out->attr |= attr_table[i].bit;
            return true;
        }
    for (int i = 0; i < 16; i++)
        if (is_word(w, n, basic_names[i])) {
            out->color.basic = (int8_t)i;
            return true;
        }
    return read_index(w, n, &out->color);
}

static const struct ui_look plain_look = {.color = {.index = -1, .basic = -1}};

static bool read_look(const struct bg_yaml_doc *d, const struct bg_yaml *n,
                      struct ui_look *out, struct bg_error *err)
{
    const char *s;
    if (!bg_yaml_str(d, n, &s, err))
        return false;
    *out = plain_look;
    while (*s) {
        size_t len = strcspn(s, " ");
        if (len && !read_word(s, len, out))
            return bg_yaml_fail(d, n, err,
                                "not a colour or attribute: %.*s (use #rrggbb, 0 to 255, "
                                "red, brightblue, default, bold, dim, reverse, underline)",
                                (int)len, s);
        s += len + (s[len] == ' ');
    }
    return true;
}

static bool read_roles(const struct bg_yaml_doc *d, const struct bg_yaml *map,
                       struct ui_theme *t, struct bg_error *err)
{
    const char *known[UI_ROLE_COUNT_ + 2] = {0};
    if (map->kind != BG_YAML_MAP)
        return bg_yaml_fail(d, map, err, "roles: expected a map of names to colours");
    for (int i = 0; i < UI_ROLE_COUNT_; i++)
        known[i] = role_table[i].name;
    known[UI_ROLE_COUNT_] = "selected";
    if (!bg_yaml_known(d, map, known, err))
        return false;
    for (size_t i = 0; i < map->count; i++) {
        const struct bg_yaml *n = map->items[i];
        struct ui_look *look = &t->selected;
        for (int r = 0; r < UI_ROLE_COUNT_; r++)
            if (!strcmp(n->key, role_table[r].name))
                look = &t->roles[r];
        if (!read_look(d, n, look, err))
            return false;
    }
    return true;
}

static bool read_theme(const struct bg_yaml_doc *d, struct ui_theme *t,
                       struct bg_error *err)
{
    static const char *const known[] = {"name", "dark", "roles", NULL};
    const struct bg_yaml *n;
    const char *name = "";
    if (!d->root || d->root->kind != BG_YAML_MAP)
        return bg_fail(err, BG_ERR_CONFIG, 0, "%s: a theme is a map with name and roles",
                       d->name);
    if (!bg_yaml_known(d, d->root, known, err))
        return false;
    if ((n = bg_yaml_get(d->root, "name")) && !bg_yaml_str(d, n, &name, err))
        return false;
    snprintf(t->name, sizeof t->name, "%s", bg_id_valid(name) ? name : "unnamed");
    if ((n = bg_yaml_get(d->root, "dark")) && !bg_yaml_bool(d, n, &t->dark, err))
        return false;
    n = bg_yaml_get(d->root, "roles");
    return !n || read_roles(d, n, t, err);
}

static void empty_theme(struct ui_theme *t)
{
    *t = (struct ui_theme){.dark = true, .selected = plain_look};
    for (int r = 0; r < UI_ROLE_COUNT_; r++)
        t->roles[r] = plain_look;
    t->selected.attr = UI_REVERSE;
}

bool ui_theme_parse(struct ui_theme *t, const char *name, const char *p, size_t n,
                    struct bg_error *err)
{
    struct bg_yaml_doc *d = bg_yaml_parse(name, p, n, err);
    if (!d)
        return false;
    empty_theme(t);
    bool ok = read_theme(d, t, err);
    bg_yaml_free(d);
    if (ok)
        check_contrast(t);
    return ok;
}

void ui_theme_mono(struct ui_theme *t)
{
    empty_theme(t);
    snprintf(t->name, sizeof t->name, "mono");
    for (int r = 0; r < UI_ROLE_COUNT_; r++)
        t->roles[r].attr = role_table[r].mono;
}

/* ---- where they lie ---- */

static bool try_file(struct ui_theme *t, const char *path, struct bg_error *err,
                     bool *found)
{
    struct bg_buf b;
    struct bg_error why = {0};
    bg_buf_init(&b, BG_YAML_MAX);
    bool ok = bg_read_file(path, BG_YAML_MAX, false, &b, &why);
    *found = ok || why.code != BG_ERR_NOT_FOUND;
    if (ok)
        ok = ui_theme_parse(t, path, b.data, b.len, err);
    else if (err)
        *err = why;
    bg_buf_free(&b);
    return ok;
}

/* Beside the program: an installed tree, or build/MODE/ of the source tree. */
static char *beside_program(const char *tail)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0)
        return NULL;
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    return bg_xasprintf("%s/%s", exe, tail);
}

bool ui_theme_load(struct ui_theme *t, const char *name, const char *config_dir,
                   struct bg_error *err)
{
    bool found = false;
    if (strchr(name, '/'))
        return try_file(t, name, err, &found);
    if (!bg_id_valid(name))
        return bg_fail(err, BG_ERR_CONFIG, 0, "not a theme's name: %s", name);
    char *folders[4] = {config_dir ? bg_path_join(config_dir, "themes") : NULL,
                        bg_xstrdup(BG_DATADIR "/themes"), beside_program("../../themes"),
                        beside_program("../../../../themes")};
    bool ok = false;
    for (size_t i = 0; i < bg_countof(folders); i++) {
        if (folders[i] && !found) {
            bg_autofree char *path = bg_xasprintf("%s/%s.yaml", folders[i], name);
            ok = try_file(t, path, err, &found);
        }
        free(folders[i]);
    }
    if (found)
        return ok;
    if (!strcmp(name, "mono")) {
        ui_theme_mono(t);
        return true;
    }
    return bg_fail(err, BG_ERR_NOT_FOUND, 0, "no theme named %s; themes lie in %s/themes",
                   name, config_dir ? config_dir : BG_DATADIR);
}

/* SPDX-License-Identifier: MIT */
/*
 * curses only writes here. Its own input is not used (tui/kit/input.h says why), and what
 * it does not know (paste marks, focus, synchronized output) is written beside it.
 */
#define NCURSES_WIDECHAR 1
#include "tui/kit/term.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>

#include <curses.h>

#include "core/base/mem.h"

struct ui_term {
    int in, out;
    FILE *fin, *fout;
    SCREEN *screen;
    struct ui_grid grid;
    struct ui_cell *shown; /* what the terminal shows */
    int shown_h, shown_w;
    int cursor_y, cursor_x;
    struct ui_theme theme;
    enum ui_depth depth;
    bool sync, mouse, extras; /* extras: a terminal that takes unknown sequences */
    char title[64];
    struct termios modes;
};

/* Everything a console may have switched on, off again; harmless where it was not on. */
static const char reset_text[] = "\033[?2026l\033[?1000l\033[?1006l\033[?1004l\033[?2004l"
                                 "\033[?1049l\033[?25h\033[0m\r\n";

/* ---- the fatal signals ---- */

static struct {
    volatile sig_atomic_t on;
    int fd;
    struct termios modes;
} fatal;

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/* Only what may be called in a signal handler. */
static void on_fatal(int signo)
{
    int saved = errno;
    if (fatal.on) {
        fatal.on = 0;
        if (write(fatal.fd, reset_text, sizeof reset_text - 1) >= 0)
            tcsetattr(fatal.fd, TCSANOW, &fatal.modes);
    }
    errno = saved;
    raise(signo); /* SA_RESETHAND: now by default */
}

static void catch_fatal(struct ui_term *t)
{
    struct sigaction sa = {.sa_handler = on_fatal, .sa_flags = SA_RESETHAND};
    fatal.fd = t->out;
    fatal.modes = t->modes;
    fatal.on = 1;
    for (size_t i = 0; i < bg_countof(fatal_signals); i++) {
        struct sigaction old;
        /* A sanitizer's own handler stays. */
        if (!sigaction(fatal_signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
            sigaction(fatal_signals[i], &sa, NULL);
    }
}

static void release_fatal(void)
{
    fatal.on = 0;
    for (size_t i = 0; i < bg_countof(fatal_signals); i++) {
        struct sigaction old;
        if (!sigaction(fatal_signals[i], NULL, &old) && old.sa_handler == on_fatal)
            signal(fatal_signals[i], SIG_DFL);
    }
}

/* ---- modes ---- */

static void say(struct ui_term *t, const char *s)
{
    size_t n = strlen(s);
    while (n) {
        ssize_t w = write(t->out, s, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return; /* the terminal is gone; reading will tell */
        s += w;
        n -= (size_t)w;
    }
}

static void modes_on(struct ui_term *t)
{
    if (t->extras)
        say(t, "\033[?2004h\033[?1004h");
    if (t->mouse)
        say(t, "\033[?1000h\033[?1006h");
}

static void modes_off(struct ui_term *t)
{
    if (t->mouse)
        say(t, "\033[?1006l\033[?1000l");
    if (t->extras)
        say(t, "\033[?1004l\033[?2004l");
}

static void write_title(struct ui_term *t, const char *words)
{
    char buf[96];
    if (!t->extras)
        return;
    snprintf(buf, sizeof buf, "\033]2;%s\033\\", words);
    say(t, buf);
}

/* ---- opening ---- */

static bool utf8_locale(void)
{
    return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

static enum ui_depth depth_of(bool no_color)
{
    if (no_color || !has_colors() || start_color() == ERR)
        return UI_DEPTH_MONO;
    if (use_default_colors() == ERR || COLORS < 8)
        return UI_DEPTH_MONO;
    if (COLORS >= 0x1000000)
        return UI_DEPTH_RGB;
    return COLORS >= 256 ? UI_DEPTH_256 : UI_DEPTH_16;
}

/* Consoles and old terminals show what they do not know. */
static bool takes_extras(const char *term)
{
    static const char *const plain[] = {"linux", "vt", "ansi", "cons", "sun", "wy"};
    for (size_t i = 0; i < bg_countof(plain); i++)
        if (!strncmp(term, plain[i], strlen(plain[i])))
            return false;
    return true;
}

static bool open_screen(struct ui_term *t, const char *term, struct bg_error *err)
{
    int in = fcntl(t->in, F_DUPFD_CLOEXEC, 3), out = fcntl(t->out, F_DUPFD_CLOEXEC, 3);
    if (in < 0 || out < 0 || tcgetattr(t->out, &t->modes))
        return bg_fail(err, BG_ERR_IO, errno, "the terminal cannot be opened");
    t->fin = fdopen(in, "r");
    t->fout = fdopen(out, "w");
    t->screen = t->fin && t->fout ? newterm(term, t->fout, t->fin) : NULL;
    if (!t->screen)
        return bg_fail(
            err, BG_ERR_UNSUPPORTED, 0,
            "this terminal (TERM=%s) cannot show the console; try: boxgate --linear", term);
    set_term(t->screen);
    raw();
    noecho();
    nonl();
    return true;
}

struct ui_term *ui_term_open(const struct ui_term_opts *o, struct bg_error *err)
{
    struct ui_term *t = bg_xcalloc(1, sizeof *t);
    t->in = o->in;
    t->out = o->out;
    t->mouse = o->mouse;
    t->extras = takes_extras(o->term);
    if (!open_screen(t, o->term, err)) {
        if (t->fin)
            fclose(t->fin);
        if (t->fout)
            fclose(t->fout);
        free(t);
        return NULL;
    }
    t->depth = depth_of(o->no_color);
    t->grid.ascii = !utf8_locale();
    t->grid.border = o->border;
    t->cursor_y = -1;
    curs_set(0);
    catch_fatal(t);
    modes_on(t);
    if (t->extras)
        say(t, "\033[?2026$p"); /* does it know synchronized output? */
    ui_term_resize(t);
    return t;
}

void ui_term_close(struct ui_term *t)
{
    if (!t)
        return;
    ui_term_leave(t);
    delscreen(t->screen);
    fclose(t->fin);
    fclose(t->fout);
    ui_grid_free(&t->grid);
    free(t->shown);
    free(t);
}

void ui_term_leave(struct ui_term *t)
{
    modes_off(t);
    if (*t->title)
        write_title(t, "");
    curs_set(1);
    endwin();
    release_fatal();
    tcsetattr(t->out, TCSADRAIN, &t->modes);
}

void ui_term_enter(struct ui_term *t)
{
    reset_prog_mode();
    catch_fatal(t);
    modes_on(t);
    if (*t->title)
        write_title(t, t->title);
    t->cursor_y = -1;
    ui_term_redraw(t);
    ui_term_resize(t);
}

struct ui_grid *ui_term_grid(struct ui_term *t)
{
    return &t->grid;
}

enum ui_depth ui_term_depth(const struct ui_term *t)
{
    return t->depth;
}

void ui_term_theme(struct ui_term *t, const struct ui_theme *theme)
{
    t->theme = *theme;
    ui_term_redraw(t);
}

bool ui_term_resize(struct ui_term *t)
{
    struct winsize ws = {0};
    if (ioctl(t->out, TIOCGWINSZ, &ws) || ws.ws_row == 0 || ws.ws_col == 0) {
        ws.ws_row = 24;
        ws.ws_col = 80;
    }
    if (t->shown && ws.ws_row == t->grid.h && ws.ws_col == t->grid.w)
        return false;
    resizeterm(ws.ws_row, ws.ws_col);
    ui_grid_size(&t->grid, ws.ws_row, ws.ws_col);
    t->shown =
        bg_xrealloc(t->shown, (size_t)t->grid.h * (size_t)t->grid.w, sizeof *t->shown);
    t->shown_h = t->grid.h;
    t->shown_w = t->grid.w;
    ui_term_redraw(t);
    return true;
}

void ui_term_redraw(struct ui_term *t)
{
    if (t->shown)
        memset(t->shown, 0xff, (size_t)t->shown_h * (size_t)t->shown_w * sizeof *t->shown);
    clearok(curscr, TRUE);
}

/* ---- painting ---- */

static attr_t curses_attr(ui_style s)
{
    return (s & UI_BOLD ? A_BOLD : 0) | (s & UI_DIM ? A_DIM : 0) |
           (s & UI_REVERSE ? A_REVERSE : 0) | (s & UI_UNDERLINE ? A_UNDERLINE : 0);
}

static bool is_blank(const struct ui_cell *c)
{
    return c->cp[0] == ' ' && c->style == UI_TEXT;
}

/* `before` is the style of the last word left of it: a plain blank goes on with that, for
 * changing the colour of nothing costs bytes. */
static void paint(struct ui_term *t, int y, int x, const struct ui_cell *c, ui_style before)
{
    wchar_t text[UI_CELL_CPS + 1] = {0};
    cchar_t cc;
    bool blank = is_blank(c);
    ui_style style = blank ? before & ~UI_SELECTED : c->style;
    enum ui_role role = UI_ROLE_OF(style);
    const struct ui_look *look = &t->theme.roles[role];
    ui_style attr = style & 0xff00;
    int fg = ui_color_at(&look->color, t->depth), bg = -1;
    attr |= t->depth == UI_DEPTH_MONO ? ui_mono_attr(role) : look->attr;
    if (blank)
        attr &= UI_BOLD | UI_DIM;
    if (attr & UI_SELECTED) {
        bg = ui_color_at(&t->theme.selected.color, t->depth);
        if (bg < 0)
            attr |= UI_REVERSE;
    }
    if (fg >= COLORS) { /* eight colours: the bright ones are bold ones */
        fg -= 8;
        attr |= UI_BOLD;
    }
    if (bg >= COLORS) {
        bg = -1;
        attr |= UI_REVERSE;
    }
    int pair = fg < 0 && bg < 0 ? 0 : alloc_pair(fg, bg);
    if (pair < 0)
        pair = 0;
    for (int i = 0; i < UI_CELL_CPS; i++)
        text[i] = (wchar_t)c->cp[i];
    if (setcchar(&cc, text, curses_attr(attr), 0, &pair) == OK)
        mvadd_wch(y, x, &cc);
}

static bool same_cell(const struct ui_cell *a, const struct ui_cell *b)
{
    return a->style == b->style && a->kind == b->kind &&
           !memcmp(a->cp, b->cp, sizeof a->cp);
}

/* Terminals disagree on how wide pictures are: such a row is written whole, so that at
 * least nothing old is left in it. */
static bool doubtful(const struct ui_cell *c)
{
    return c->kind == UI_CELL_WIDE && c->cp[0] >= 0x1f000 && c->cp[0] < 0x20000;
}

static bool paint_changes(struct ui_term *t)
{
    bool any = false;
    for (int y = 0; y < t->grid.h; y++) {
        bool whole = false;
        ui_style before = UI_TEXT;
        for (int x = 0; x < t->grid.w; x++) {
            size_t i = (size_t)y * (size_t)t->grid.w + (size_t)x;
            if (!is_blank(&t->grid.cells[i]))
                before = t->grid.cells[i].style;
            if (same_cell(&t->grid.cells[i], &t->shown[i]))
                continue;
            any = true;
            whole |= doubtful(&t->grid.cells[i]) || doubtful(&t->shown[i]);
            t->shown[i] = t->grid.cells[i];
            if (t->grid.cells[i].kind != UI_CELL_TAIL)
                paint(t, y, x, &t->grid.cells[i], before);
        }
        if (whole)
            wredrawln(stdscr, y, 1);
    }
    return any;
}

void ui_term_flush(struct ui_term *t)
{
    struct ui_grid *g = &t->grid;
    bool any = paint_changes(t);
    bool moved =
        g->cursor_y != t->cursor_y || (g->cursor_y >= 0 && g->cursor_x != t->cursor_x);
    if (!any && !moved)
        return;
    if ((g->cursor_y < 0) != (t->cursor_y < 0))
        curs_set(g->cursor_y >= 0);
    t->cursor_y = g->cursor_y;
    t->cursor_x = g->cursor_x;
    move(g->cursor_y >= 0 ? g->cursor_y : g->h - 1,
         g->cursor_y >= 0 ? g->cursor_x : g->w - 1);
    /* curses has a buffer of its own: the marks go around its one write. */
    if (t->sync)
        say(t, "\033[?2026h");
    wnoutrefresh(stdscr);
    doupdate();
    if (t->sync)
        say(t, "\033[?2026l");
}

void ui_term_sync(struct ui_term *t, bool known)
{
    t->sync = known;
}

void ui_term_mouse(struct ui_term *t, bool on)
{
    modes_off(t);
    t->mouse = on;
    modes_on(t);
}

void ui_term_title(struct ui_term *t, const char *words)
{
    if (!strcmp(words, t->title))
        return;
    snprintf(t->title, sizeof t->title, "%s", words);
    write_title(t, t->title);
}

void ui_term_bell(struct ui_term *t)
{
    say(t, "\a");
}

void ui_term_flush_input(struct ui_term *t)
{
    tcflush(t->in, TCIFLUSH);
}

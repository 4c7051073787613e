/* SPDX-License-Identifier: MIT */
/* Three small languages and our own fact lines, byte by byte. */
#include "tui/kit/hilite.h"

#include "core/base/mem.h"

enum { CODE, STRING, LINE_COMMENT, BLOCK_COMMENT, LABEL, REST, ALARM };

static const char *const python_words[] = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield",    NULL};
static const char *const js_words[] = {
    "async",    "await",      "break",  "case", "catch",    "class",  "const",
    "continue", "default",    "delete", "do",   "else",     "export", "extends",
    "false",    "finally",    "for",    "from", "function", "if",     "import",
    "in",       "instanceof", "let",    "new",  "null",     "of",     "return",
    "static",   "super",      "switch", "this", "throw",    "true",   "try",
    "typeof",   "undefined",  "var",    "void", "while",    "yield",  NULL};
static const char *const sh_words[] = {
    "case", "do",    "done",     "elif", "else",  "esac",  "exec",     "exit",   "export",
    "fi",   "for",   "function", "if",   "in",    "local", "readonly", "return", "select",
    "set",  "shift", "then",     "trap", "until", "while", NULL};

enum ui_lang ui_lang_of(const char *name)
{
    static const struct {
        const char *name;
        enum ui_lang lang;
    } table[] = {{"python", UI_LANG_PYTHON},
                 {"javascript", UI_LANG_JS},
                 {"typescript", UI_LANG_JS},
                 {"bash", UI_LANG_SH},
                 {"sh", UI_LANG_SH}};
    for (size_t i = 0; i < bg_countof(table); i++)
        if (!strcmp(name, table[i].name))
            return table[i].lang;
    return UI_LANG_NONE;
}

static uint8_t ground(enum ui_lang lang)
{
    return lang == UI_LANG_FACTS ? LABEL : CODE;
}

void ui_hilite_init(struct ui_hilite *h, enum ui_lang lang, const char *p, size_t n)
{
    *h = (struct ui_hilite){.lang = lang, .p = p, .n = n, .line_start = true};
    h->state = ground(lang);
}

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_';
}

static bool listed(const char *const *words, const char *p, size_t n)
{
    for (; *words; words++)
        if (strlen(*words) == n && !memcmp(*words, p, n))
            return true;
    return false;
}

static char ahead(const struct ui_hilite *h, size_t by)
{
    return h->pos + by < h->n ? h->p[h->pos + by] : '\0';
}

static void begin_word(struct ui_hilite *h)
{
    size_t end = h->pos;
    while (end < h->n && word_char(h->p[end]))
        end++;
    const char *const *words = h->lang == UI_LANG_PYTHON ? python_words
                               : h->lang == UI_LANG_JS   ? js_words
                                                         : sh_words;
    bool number = h->p[h->pos] >= '0' && h->p[h->pos] <= '9';
    h->word_end = end;
    h->word = number                                       ? UI_NUMBER
              : listed(words, h->p + h->pos, end - h->pos) ? UI_KEYWORD
                                                           : UI_NAME;
    h->raw = false;
    if (h->lang == UI_LANG_PYTHON && end - h->pos <= 2)
        for (size_t i = h->pos; i < end; i++)
            h->raw |= h->p[i] == 'r' || h->p[i] == 'R';
}

static bool comment_begins(const struct ui_hilite *h)
{
    char c = ahead(h, 0), before = h->pos ? h->p[h->pos - 1] : '\n';
    if (h->lang == UI_LANG_JS)
        return c == '/' && (ahead(h, 1) == '/' || ahead(h, 1) == '*');
    if (h->lang == UI_LANG_SH)
        return c == '#' && strchr(" \t\n;&|()", before);
    return c == '#';
}

static ui_style code(struct ui_hilite *h)
{
    char c = ahead(h, 0);
    if (h->pos < h->word_end)
        return h->word;
    if (comment_begins(h)) {
        h->state =
            h->lang == UI_LANG_JS && ahead(h, 1) == '*' ? BLOCK_COMMENT : LINE_COMMENT;
        h->word_end = h->pos + 2; /* the star of the opening closes nothing */
        return UI_COMMENT;
    }
    if (c == '\'' || c == '"' || (c == '`' && h->lang != UI_LANG_PYTHON)) {
        h->state = STRING;
        h->quote = c;
        h->triple = h->lang == UI_LANG_PYTHON && ahead(h, 1) == c && ahead(h, 2) == c;
        if (h->pos != h->word_end)
            h->raw = false; /* the prefix was another word's */
        h->word_end = h->pos + (h->triple ? 3 : 1);
        return UI_STRING;
    }
    if (word_char(c)) {
        begin_word(h);
        return h->word;
    }
    return UI_TEXT;
}

static ui_style string(struct ui_hilite *h)
{
    char c = ahead(h, 0);
    bool many_lines = h->triple || h->quote == '`' || h->lang == UI_LANG_SH;
    if (h->pos < h->word_end)
        return UI_STRING;
    bool escapes = !(h->raw && h->lang == UI_LANG_PYTHON) &&
                   !(h->lang == UI_LANG_SH && h->quote == '\'');
    if (c == '\\' && escapes && ahead(h, 1) != '\0') {
        h->word_end = h->pos + 2;
    } else if (c == '\n' && !many_lines) {
        h->state = CODE;
    } else if (c == h->quote && (!h->triple || (ahead(h, 1) == c && ahead(h, 2) == c))) {
        /* What is left of a closing mark still belongs to it. */
        h->word_end = h->pos + (h->triple ? 3 : 1);
        h->word = UI_STRING;
        h->state = CODE;
    }
    return UI_STRING;
}

static ui_style facts(struct ui_hilite *h)
{
    char c = ahead(h, 0);
    if (c == '\n')
        h->state = LABEL;
    else if (h->state == LABEL && h->line_start && c == '!')
        h->state = ALARM;
    else if (h->state == LABEL && c == ':')
        h->state = REST;
    return h->state == ALARM ? UI_HIGH : h->state == LABEL || c == ':' ? UI_MUTED : UI_TEXT;
}

static ui_style step(struct ui_hilite *h)
{
    ui_style role = UI_TEXT;
    char c = ahead(h, 0);
    if (h->lang == UI_LANG_FACTS) {
        role = facts(h);
    } else if (h->state == CODE) {
        role = code(h);
    } else if (h->state == STRING) {
        role = string(h);
    } else {
        role = UI_COMMENT;
        if (h->state == LINE_COMMENT && c == '\n')
            h->state = CODE;
        else if (h->state == BLOCK_COMMENT && c == '/' && h->pos > h->word_end &&
                 h->p[h->pos - 1] == '*')
            h->state = CODE;
    }
    h->line_start = c == '\n' || (h->line_start && (c == ' ' || c == '\t'));
    h->pos++;
    return role;
}

ui_style ui_hilite_at(struct ui_hilite *h, size_t off)
{
    ui_style role = UI_TEXT;
    if (h->lang == UI_LANG_NONE)
        return UI_TEXT;
    while (h->pos <= off && h->pos < h->n)
        role = step(h);
    return role;
}

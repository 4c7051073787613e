/* SPDX-License-Identifier: MIT */
/* policy.yaml as a whole: loading, deciding, explaining, and what may only tighten it. */
#include "core/policy/policy.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/path.h"
#include "core/base/values.h"
#include "core/policy/rule.h"

#define LIST_ALLOWED "tools.exec.allowedCommands"
#define LIST_BLOCKED "tools.exec.blockedCommands"

const char *bg_decision_name(enum bg_decision d)
{
    static const char *const names[] = {"deny", "ask", "allow"};
    return (size_t)d < bg_countof(names) ? names[d] : "deny";
}

struct bg_policy *bg_policy_default(void)
{
    struct bg_policy *p = bg_xcalloc(1, sizeof *p);
    p->dflt = BG_DECIDE_ASK;
    p->hazards = BG_DECIDE_ASK;
    return p;
}

void bg_policy_free(struct bg_policy *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_rules; i++)
        rule_clear(&p->rules[i]);
    free(p->rules);
    bg_strv_free(p->allowed);
    bg_strv_free(p->blocked);
    free(p);
}

/* ---- reading ---- */

static bool read_default(const struct bg_yaml_doc *d, const struct bg_yaml *map,
                         const char *key, enum bg_decision *out, struct bg_error *err)
{
    const struct bg_yaml *n = bg_yaml_get(map, key);
    const char *v;
    if (!n)
        return true;
    if (!bg_yaml_str(d, n, &v, err))
        return false;
    if (strcmp(v, "ask") != 0 && strcmp(v, "deny") != 0)
        return bg_yaml_fail(d, n, err, "`%s`: expected ask or deny", key);
    *out = *v == 'a' ? BG_DECIDE_ASK : BG_DECIDE_DENY;
    return true;
}

static bool read_defaults(const struct bg_yaml_doc *d, const struct bg_yaml *n,
                          struct bg_policy *p, struct bg_error *err)
{
    static const char *const keys[] = {"decision", "hazards", NULL};
    if (n->kind != BG_YAML_MAP)
        return bg_yaml_fail(d, n, err, "`defaults` needs a map");
    return bg_yaml_known(d, n, keys, err) &&
           read_default(d, n, "decision", &p->dflt, err) &&
           read_default(d, n, "hazards", &p->hazards, err);
}

static bool read_rules(const struct bg_yaml_doc *d, const struct bg_yaml *n,
                       struct bg_policy *p, struct bg_error *err)
{
    if (n->kind != BG_YAML_SEQ || n->count > BG_POLICY_RULES_MAX)
        return bg_yaml_fail(d, n, err, "`rules` needs a list of at most %d",
                            BG_POLICY_RULES_MAX);
    p->rules = n->count ? bg_xcalloc(n->count, sizeof *p->rules) : NULL;
    for (size_t i = 0; i < n->count; i++) {
        p->n_rules++;
        if (!rule_parse(d, n->items[i], &p->rules[i], err))
            return false;
        for (size_t k = 0; k < i; k++)
            if (!strcmp(p->rules[k].id, p->rules[i].id))
                return bg_yaml_fail(d, n->items[i], err, "rule `%s` stands also at line %d",
                                    p->rules[i].id, p->rules[k].line);
    }
    return true;
}

static bool read_root(const struct bg_yaml_doc *d, struct bg_policy *p,
                      struct bg_error *err)
{
    static const char *const keys[] = {"version", "defaults", "rules", NULL};
    const struct bg_yaml *root = d->root;
    int64_t version;
    if (!root)
        return true;
    if (root->kind != BG_YAML_MAP)
        return bg_yaml_fail(d, root, err,
                            "expected a map with version, defaults and rules");
    if (!bg_yaml_known(d, root, keys, err))
        return false;
    const struct bg_yaml *v = bg_yaml_get(root, "version"),
                         *defaults = bg_yaml_get(root, "defaults"),
                         *rules = bg_yaml_get(root, "rules");
    return (!v || bg_yaml_int(d, v, 1, 1, &version, err)) &&
           (!defaults || read_defaults(d, defaults, p, err)) &&
           (!rules || read_rules(d, rules, p, err));
}

struct bg_policy *bg_policy_parse(const char *name, const char *p, size_t n,
                                  struct bg_error *err)
{
    struct bg_yaml_doc *doc = bg_yaml_parse(name, p, n, err);
    if (!doc)
        return NULL;
    struct bg_policy *policy = bg_policy_default();
    if (read_root(doc, policy, err)) {
        policy->digest = bg_sha256(p, n);
    } else {
        bg_policy_free(policy);
        policy = NULL;
    }
    bg_yaml_free(doc);
    return policy;
}

struct bg_policy *bg_policy_load(const char *path, struct bg_error *err)
{
    bg_autobuf struct bg_buf text;
    struct bg_error e = {0};
    bg_buf_init(&text, BG_YAML_MAX);
    if (bg_read_file(path, BG_YAML_MAX, true, &text, &e))
        return bg_policy_parse(path, text.data, text.len, err);
    if (e.code == BG_ERR_NOT_FOUND)
        return bg_policy_default();
    e.code = BG_ERR_POLICY;
    if (err)
        *err = e;
    return NULL;
}

/* ---- what is known about it ---- */

const struct bg_sha256 *bg_policy_digest(const struct bg_policy *p)
{
    return &p->digest;
}

size_t bg_policy_rules(const struct bg_policy *p)
{
    return p->n_rules;
}

void bg_policy_distrust(struct bg_policy *p)
{
    p->distrusted = true;
}

bool bg_policy_distrusted(const struct bg_policy *p)
{
    return p->distrusted;
}

static struct rule *find(struct bg_policy *p, const char *id)
{
    for (size_t i = 0; i < p->n_rules; i++)
        if (!strcmp(p->rules[i].id, id))
            return &p->rules[i];
    return NULL;
}

void bg_policy_used(struct bg_policy *p, const char *rule_id)
{
    struct rule *r = find(p, rule_id);
    if (r)
        r->used++;
}

void bg_policy_uses_set(struct bg_policy *p, const char *rule_id, int64_t used)
{
    struct rule *r = find(p, rule_id);
    if (r)
        r->used = used;
}

void bg_policy_exec_lists(struct bg_policy *p, char *const *allowed, char *const *blocked)
{
    bg_strv_free(p->allowed);
    bg_strv_free(p->blocked);
    p->allowed = allowed ? bg_strv_dup(allowed) : NULL;
    p->blocked = blocked ? bg_strv_dup(blocked) : NULL;
}

bool bg_policy_tighten(struct bg_policy *p, const struct bg_policy *project,
                       struct bg_error *err)
{
    size_t texts = 0;
    for (size_t i = 0; i < project->n_rules; i++)
        texts += project->rules[i].n_texts;
    if (texts > BG_PROJECT_TEXTS)
        return bg_fail(err, BG_ERR_POLICY, 0,
                       "`codeContains` has %zu texts in all; a project may have %d", texts,
                       BG_PROJECT_TEXTS);
    for (size_t i = 0; i < project->n_rules; i++)
        if (project->rules[i].decision == BG_DECIDE_ALLOW)
            return bg_fail(err, BG_ERR_POLICY, 0,
                           "rule `%s` (line %d): a project may only tighten; allow rules "
                           "belong to policy.yaml",
                           project->rules[i].id, project->rules[i].line);
    if (project->n_rules)
        p->rules = bg_xrealloc(p->rules, p->n_rules + project->n_rules, sizeof *p->rules);
    for (size_t i = 0; i < project->n_rules; i++) {
        struct rule r = rule_copy(&project->rules[i]);
        free(r.id);
        r.id = bg_xasprintf("project:%s", project->rules[i].id);
        p->rules[p->n_rules++] = r;
    }
    if (project->dflt < p->dflt)
        p->dflt = project->dflt;
    if (project->hazards < p->hazards)
        p->hazards = project->hazards;
    return true;
}

/* ---- deciding ---- */

static bool named(char *const *list, const char *name)
{
    for (; list && *list; list++)
        if (!strcmp(*list, name))
            return true;
    return false;
}

/* A blocked name also blocks the same program by its path; an allowed one is exactly
 * itself. */
static const char *list_denies(const struct bg_policy *p, const struct bg_facts *f)
{
    if (!f->argv || !f->argv[0])
        return NULL;
    const char *slash = strrchr(f->argv[0], '/');
    if (named(p->blocked, f->argv[0]) || (slash && named(p->blocked, slash + 1)))
        return LIST_BLOCKED;
    if (p->allowed && p->allowed[0] && !named(p->allowed, f->argv[0]))
        return LIST_ALLOWED;
    return NULL;
}

static struct bg_verdict weigh(const struct bg_policy *p, const struct bg_facts *f,
                               const struct rule *const first[3])
{
    const struct rule *deny = first[BG_DECIDE_DENY], *ask = first[BG_DECIDE_ASK],
                      *allow = first[BG_DECIDE_ALLOW];
    const char *list = list_denies(p, f);
    if (deny)
        return (struct bg_verdict){BG_DECIDE_DENY, deny->id, deny->message, false};
    if (list)
        return (struct bg_verdict){BG_DECIDE_DENY, list,
                                   "this command is not on the list of permitted commands",
                                   false};
    if (f->hazards && p->hazards == BG_DECIDE_DENY)
        return (struct bg_verdict){BG_DECIDE_DENY, NULL, NULL, allow != NULL};
    if (ask)
        return (struct bg_verdict){BG_DECIDE_ASK, ask->id, ask->message, false};
    if (allow && !p->distrusted) {
        bool held = f->hazards || f->changed_outside;
        return (struct bg_verdict){held ? BG_DECIDE_ASK : BG_DECIDE_ALLOW, allow->id,
                                   allow->message, held};
    }
    return (struct bg_verdict){p->dflt, NULL, NULL, allow != NULL};
}

struct bg_verdict bg_policy_decide(const struct bg_policy *p, const struct bg_facts *f)
{
    const struct rule *first[3] = {NULL};
    struct texts texts = {.f = f};
    for (size_t i = 0; i < p->n_rules; i++) {
        const struct rule *r = &p->rules[i];
        if (!first[r->decision] && rule_matches(r, &texts, NULL, NULL))
            first[r->decision] = r;
    }
    texts_free(&texts);
    return weigh(p, f, first);
}

/* ---- explaining ---- */

static void note_failed(void *data, const char *clause)
{
    cJSON_AddItemToArray(data, cJSON_CreateString(clause));
}

static cJSON *entry(const char *id, enum bg_decision d, int line, cJSON *all)
{
    cJSON *o = bg_jo();
    const cJSON *first = cJSON_GetArrayItem(all, 0);
    bg_jset_str(o, "id", id);
    bg_jset_str(o, "decision", bg_decision_name(d));
    if (line)
        bg_jset_int(o, "line", line);
    bg_jset_bool(o, "matched", !first);
    bg_jset_str(o, "failed", first ? first->valuestring : NULL);
    bg_jset(o, "allFailed", all);
    return o;
}

static const char *withheld(const struct bg_policy *p, const struct bg_facts *f)
{
    if (p->distrusted)
        return "distrusted";
    if (f->hazards)
        return "hazards";
    return f->changed_outside ? "changed_outside" : NULL;
}

static void explain_list(cJSON *out, const char *name, char *const *list,
                         const char *denies)
{
    cJSON *all = bg_ja();
    if (!list || !list[0]) {
        cJSON_Delete(all);
        return;
    }
    if (!denies || strcmp(denies, name) != 0)
        note_failed(all, "argv");
    cJSON_AddItemToArray(out, entry(name, BG_DECIDE_DENY, 0, all));
}

cJSON *bg_policy_explain(const struct bg_policy *p, const struct bg_facts *f)
{
    cJSON *out = bg_ja();
    struct texts texts = {.f = f};
    for (size_t i = 0; i < p->n_rules; i++) {
        const struct rule *r = &p->rules[i];
        cJSON *all = bg_ja();
        bool matched = rule_matches(r, &texts, note_failed, all);
        cJSON *o = entry(r->id, r->decision, r->line, all);
        if (matched && r->decision == BG_DECIDE_ALLOW && withheld(p, f))
            bg_jset_str(o, "note", withheld(p, f));
        cJSON_AddItemToArray(out, o);
    }
    texts_free(&texts);
    explain_list(out, LIST_BLOCKED, p->blocked, list_denies(p, f));
    explain_list(out, LIST_ALLOWED, p->allowed, list_denies(p, f));
    return out;
}

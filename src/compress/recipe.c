/*
 * recipe.c - words to recipe, rules to tensors, recipe to JSON.
 */
#include "compress/recipe.h"

#include "base/opt.h"

#include <string.h>

/* ---- globs ---- */

/* Matches one character against a class that begins after '['. *end is set behind the
 * closing bracket; an unclosed class matches nothing and *end is NULL. */
static bool match_class(const char *p, char c, const char **end)
{
    bool negated = *p == '!' || *p == '^', hit = false;
    const char *start = negated ? ++p : p;

    for (; *p && (*p != ']' || p == start); p++) {
        if (p[1] == '-' && p[2] && p[2] != ']') {
            hit |= (unsigned char)c >= (unsigned char)p[0] &&
                   (unsigned char)c <= (unsigned char)p[2];
            p += 2;
        } else {
            hit |= *p == c;
        }
    }
    *end = *p ? p + 1 : NULL;
    return *p && hit != negated;
}

/* One glob element against one character; *next is the element behind it. */
static bool match_one(const char *g, char c, const char **next)
{
    *next = g + 1;
    if (*g == '[')
        return match_class(g + 1, c, next) && *next;
    return *g == '?' || *g == c;
}

/* Backtracks to the last star only: an earlier star never needs to take more, because
 * the last one can take whatever is left. */
bool recipe_glob(const char *glob, const char *name)
{
    const char *star = NULL, *star_name = NULL, *next;

    while (*name) {
        if (*glob == '*') {
            star = ++glob;
            star_name = name;
        } else if (*glob && match_one(glob, *name, &next)) {
            glob = next;
            name++;
        } else if (star) {
            glob = star;
            name = ++star_name;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}

/* ---- words ---- */

/* "5.95GB", "90000000" or "1.76bpw". */
enum b2_status recipe_set_budget(struct recipe *r, const char *word, struct b2_err *err)
{
    size_t len = strlen(word);
    char number[64];

    if (len > 3 && len < sizeof number && strcmp(word + len - 3, "bpw") == 0) {
        memcpy(number, word, len - 3);
        number[len - 3] = '\0';
        if (opt_parse_num(&r->budget_bpw, number, 0.01, 64.0)) {
            r->budget = RECIPE_BPW;
            return B2_OK;
        }
    } else if (opt_parse_bytes(&r->budget_bytes, word) && r->budget_bytes > 0) {
        r->budget = RECIPE_BYTES;
        return B2_OK;
    }
    return err_set(err, B2_EARG,
                   "budget '%s': expected bytes of the whole file (90MB, 5.95GB, "
                   "1048576) or bits per weight (1.76bpw)",
                   word);
}

/* Every '[' of a glob has its ']'. */
static bool classes_closed(const char *glob)
{
    const char *end;

    for (const char *g = glob; *g; g = end) {
        end = g + 1;
        if (*g == '[')
            match_class(g + 1, 'x', &end);
        if (!end)
            return false;
    }
    return true;
}

static enum b2_status set_rule_type(struct recipe_rule *rule, const char *type,
                                    const char *word, struct b2_err *err)
{
    if (strcmp(type, "ternary") == 0) {
        rule->want = RECIPE_TERNARY;
        return B2_OK;
    }
    if (strcmp(type, "keep") == 0) {
        rule->want = RECIPE_KEEP;
        return B2_OK;
    }
    rule->want = RECIPE_TYPE;
    if (!dtype_from_name(&rule->type, type))
        return err_set(err, B2_EARG,
                       "rule '%s': unknown type '%s'; known: ternary, keep, %s", word,
                       type, dtype_list());
    const struct dtype_info *info = dtype_info(rule->type);
    if (!(info->flags & DTF_WRITE) || !(info->flags & DTF_WEIGHT) ||
        rule->type == DT_Q2_0_G128)
        return err_set(err, B2_EUNSUP,
                       "rule '%s': %s can be read, not written; use Q2_0, TQ1_0, "
                       "PTQ1_0, Q4_0, Q8_0, …",
                       word, info->name);
    return B2_OK;
}

/* GLOB=TYPE; the last '=' divides, as a type has none. */
enum b2_status recipe_add_rule(struct recipe *r, const char *word, struct b2_err *err)
{
    const char *eq = strrchr(word, '=');

    if (!eq || eq == word || !eq[1])
        return err_set(err, B2_EARG,
                       "rule '%s': expected GLOB=TYPE, such as "
                       "'blk.*.ffn_*.weight=ternary'",
                       word);
    if (r->n_rules == RECIPE_MAX_RULES)
        return err_set(err, B2_EARG, "more than %d rules", RECIPE_MAX_RULES);
    struct recipe_rule *rule = &r->rule[r->n_rules];
    size_t len = (size_t)(eq - word);
    if (len >= sizeof rule->glob)
        return err_set(err, B2_EARG, "rule '%s': the pattern is over %d bytes long",
                       word, RECIPE_MAX_GLOB - 1);
    memcpy(rule->glob, word, len);
    rule->glob[len] = '\0';
    if (!classes_closed(rule->glob))
        return err_set(err, B2_EARG, "rule '%s': '[' without ']'", word);
    enum b2_status rc = set_rule_type(rule, eq + 1, word, err);
    if (!rc)
        r->n_rules++;
    return rc;
}

/* One word of a list of types. */
static enum b2_status add_type(struct recipe *r, const char *word, size_t len,
                               struct b2_err *err)
{
    struct recipe_rule rule = {.want = RECIPE_TYPE};
    char name[32];

    if (len == 0 || len >= sizeof name)
        return err_set(err, B2_EARG,
                       "--types: expected names with commas between, such as "
                       "ternary,Q4_0,Q8_0");
    memcpy(name, word, len);
    name[len] = '\0';
    enum b2_status rc = set_rule_type(&rule, name, name, err);
    if (rc) {
        err_wrap(err, "--types");
        return rc;
    }
    r->type_ternary |= rule.want == RECIPE_TERNARY;
    r->type_keep |= rule.want == RECIPE_KEEP;
    if (rule.want == RECIPE_TYPE)
        r->type[rule.type] = true;
    return B2_OK;
}

enum b2_status recipe_set_types(struct recipe *r, const char *words, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    r->only_types = true;
    for (const char *w = words; !rc; w += strcspn(w, ",") + 1) {
        rc = add_type(r, w, strcspn(w, ","), err);
        if (!w[strcspn(w, ",")])
            break;
    }
    return rc;
}

enum b2_status recipe_set_rotate(struct recipe *r, const char *word, struct b2_err *err)
{
    int64_t n;

    if (strcmp(word, "none") == 0) {
        r->rotate = RECIPE_ROTATE_NONE;
        return B2_OK;
    }
    if (strcmp(word, "auto") == 0) {
        r->rotate = RECIPE_ROTATE_AUTO;
        return B2_OK;
    }
    if (strcmp(word, "each") == 0) {
        r->rotate = RECIPE_ROTATE_EACH;
        return B2_OK;
    }
    if (strcmp(word, "whole") == 0) {
        r->rotate = RECIPE_ROTATE_WHOLE;
        return B2_OK;
    }
    if (!opt_parse_int(&n, word, 2, 65536) || (n & (n - 1)) != 0)
        return err_set(err, B2_EARG,
                       "rotation '%s': expected none, auto, each, whole or a power of "
                       "two from 2 to 65536",
                       word);
    r->rotate = n;
    return B2_OK;
}

enum b2_status recipe_set_tail(struct recipe *r, const char *word, struct b2_err *err)
{
    if (strcmp(word, "keep") == 0) {
        r->tail = RECIPE_TAIL_KEEP;
        return B2_OK;
    }
    if (strcmp(word, "pad") == 0) {
        r->tail = RECIPE_TAIL_PAD;
        return B2_OK;
    }
    return err_set(err, B2_EARG, "tail rule '%s': expected keep or pad", word);
}

enum b2_status recipe_set_ternary_rule(struct recipe *r, const char *word,
                                       struct b2_err *err)
{
    if (ternarise_rule_from_name(&r->ternary_rule, word))
        return B2_OK;
    return err_set(err, B2_EARG,
                   "ternary rule '%s': expected ls, round, threshold or twn", word);
}

static const char *const efforts[] = {
    [RECIPE_FAST] = "fast", [RECIPE_NORMAL] = "normal", [RECIPE_BEST] = "best"};

enum b2_status recipe_set_effort(struct recipe *r, const char *word, struct b2_err *err)
{
    for (size_t i = 0; i < countof(efforts); i++) {
        if (strcmp(word, efforts[i]) == 0) {
            r->effort = (enum recipe_effort)i;
            return B2_OK;
        }
    }
    return err_set(err, B2_EARG, "effort '%s': expected fast, normal or best", word);
}

/* ---- rules to tensors ---- */

int recipe_match(const struct recipe *r, const char *name)
{
    for (int i = r->n_rules - 1; i >= 0; i--)
        if (recipe_glob(r->rule[i].glob, name))
            return i;
    return -1;
}

bool recipe_ternary_type(enum dtype *out, int64_t width, bool rotated)
{
    if (width <= 0)
        return false;
    if (!rotated && width % dtype_info(DT_TQ1_0)->block == 0)
        *out = DT_TQ1_0;
    else if (width % dtype_info(DT_PTQ1_0)->block == 0)
        *out = DT_PTQ1_0;
    else if (width % dtype_info(DT_Q2_0)->block == 0)
        *out = DT_Q2_0;
    else
        return false;
    return true;
}

/* ---- JSON ---- */

void recipe_json_string(struct str *out, const char *s)
{
    str_put(out, "\"");
    for (const char *run = s;; s++) {
        unsigned char c = (unsigned char)*s;
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        str_putn(out, run, (size_t)(s - run));
        run = s + 1;
        if (c == '\0')
            break;
        if (c == '"' || c == '\\')
            str_printf(out, "\\%c", c);
        else
            str_printf(out, "\\u%04x", c);
    }
    str_put(out, "\"");
}

static const char *want_name(const struct recipe_rule *rule)
{
    switch (rule->want) {
    case RECIPE_TERNARY:
        return "ternary";
    case RECIPE_KEEP:
        return "keep";
    case RECIPE_TYPE:
        break;
    }
    return dtype_info(rule->type)->name;
}

static void json_types(const struct recipe *r, struct str *out)
{
    const char *comma = "";

    str_put(out, ",\"types\":[");
    if (r->type_ternary) {
        str_put(out, "\"ternary\"");
        comma = ",";
    }
    if (r->type_keep) {
        str_printf(out, "%s\"keep\"", comma);
        comma = ",";
    }
    for (int t = 0; t < N_DTYPES; t++) {
        if (!r->type[t])
            continue;
        str_printf(out, "%s\"%s\"", comma, dtype_info((enum dtype)t)->name);
        comma = ",";
    }
    str_put(out, "]");
}

/* Defaults are written too: a later version may choose others. */
void recipe_json(const struct recipe *r, struct str *out)
{
    static const char *const tails[] = {
        [RECIPE_TAIL_REFUSE] = "refuse",
        [RECIPE_TAIL_KEEP] = "keep",
        [RECIPE_TAIL_PAD] = "pad",
    };
    str_printf(out, "{\"effort\":\"%s\",\"budget_bytes\":", efforts[r->effort]);
    if (r->budget == RECIPE_BYTES)
        str_printf(out, "%llu", (unsigned long long)r->budget_bytes);
    else
        str_put(out, "null");
    str_put(out, ",\"budget_bpw\":");
    if (r->budget == RECIPE_BPW)
        str_printf(out, "%.17g", r->budget_bpw);
    else
        str_put(out, "null");
    str_put(out, ",\"rules\":[");
    for (int i = 0; i < r->n_rules; i++) {
        str_printf(out, "%s[", i ? "," : "");
        recipe_json_string(out, r->rule[i].glob);
        str_printf(out, ",\"%s\"]", want_name(&r->rule[i]));
    }
    str_put(out, "],\"rotate\":");
    if (r->rotate == RECIPE_ROTATE_AUTO)
        str_put(out, "\"auto\"");
    else if (r->rotate == RECIPE_ROTATE_EACH)
        str_put(out, "\"each\"");
    else if (r->rotate == RECIPE_ROTATE_WHOLE)
        str_put(out, "\"whole\"");
    else if (r->rotate == RECIPE_ROTATE_NONE)
        str_put(out, "\"none\"");
    else
        str_printf(out, "%lld", (long long)r->rotate);
    str_printf(out,
               ",\"ternary_rule\":\"%s\",\"ternary_scale\":\"%s\",\"tail\":\"%s\","
               "\"seed\":%llu",
               ternarise_rule_name(r->ternary_rule),
               ternarise_scale_name(r->ternary_rule), tails[r->tail],
               (unsigned long long)r->seed);
    if (r->zero_groups > 0.0)
        str_printf(out, ",\"zero_groups\":%.17g", r->zero_groups);
    if (r->layers > 0)
        str_printf(out, ",\"layers\":%d", r->layers);
    if (r->only_types)
        json_types(r, out);
    if (r->effort >= RECIPE_NORMAL)
        str_printf(out,
                   ",\"mismatch\":%.17g,\"refine\":%d,\"metric_width\":%lld,"
                   "\"calibration\":%s",
                   r->mismatch, r->refine, (long long)r->metric_width,
                   r->calibration ? r->calibration : "null");
    str_put(out, "}");
}

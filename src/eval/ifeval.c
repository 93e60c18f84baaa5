/*
 * ifeval.c - from a row of data to verdicts, strict and loose.
 */
#include "eval/ifeval_int.h"

#include "base/mem.h"
#include "text/letter.h"
#include "text/pattern.h"
#include "text/utf8.h"

#include <math.h>
#include <string.h>

int64_t check_int(struct check *c, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(c->args, key);

    if (!cJSON_IsNumber(v) || !(fabs(v->valuedouble) < 1e9)) {
        c->missing = key;
        return 0;
    }
    return (int64_t)v->valuedouble;
}

const char *check_str(struct check *c, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(c->args, key);

    if (!cJSON_IsString(v)) {
        c->missing = key;
        return "";
    }
    return v->valuestring;
}

bool check_relation(struct check *c, int64_t count, const char *key,
                    const char *relation_key)
{
    static const struct {
        const char *word;
        int kind; /* -1: below, 0: at most, 1: at least */
    } words[] = {{"less than", -1}, {"moins de", -1},   {"未満", -1},
                 {"at most", 0},    {"como máximo", 0}, {"at least", 1},
                 {"al menos", 1},   {"au moins", 1},    {"以上", 1}};
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(c->args, relation_key);
    int64_t want = check_int(c, key);
    int kind = 1;

    if (cJSON_IsString(v)) {
        size_t i = 0;
        while (i < countof(words) && strcmp(words[i].word, v->valuestring) != 0)
            i++;
        if (i == countof(words))
            c->missing = relation_key;
        else
            kind = words[i].kind;
    }
    return kind < 0 ? count < want : kind == 0 ? count <= want : count >= want;
}

int64_t check_matches(const struct check *c, const char *regex)
{
    struct pattern *p = NULL;
    int64_t n = -1;

    if (pattern_new(&p, regex, PATTERN_MULTILINE, NULL) == B2_OK)
        n = pattern_count(p, c->text, c->n);
    pattern_free(p);
    return n;
}

void check_strip(const char **text, size_t *n)
{
    const char *s = *text;
    size_t from = 0, to = 0;
    bool any = false;

    for (size_t at = 0, used; at < *n; at += used) {
        if (utf8_is_space(utf8_next(s + at, *n - at, &used)))
            continue;
        if (!any)
            from = at;
        any = true;
        to = at + used;
    }
    *text = s + from;
    *n = to - from;
}

static bool is_case(const char *text, size_t n, bool upper)
{
    bool any = false;

    for (size_t at = 0, used; at < n; at += used) {
        uint32_t cp = utf8_next(text + at, n - at, &used);
        if (upper ? letter_is_lower(cp) : letter_is_upper(cp))
            return false;
        any = any || (upper ? letter_is_upper(cp) : letter_is_lower(cp));
    }
    return any;
}

bool check_is_upper(const char *text, size_t n)
{
    return is_case(text, n, true);
}

bool check_is_lower(const char *text, size_t n)
{
    return is_case(text, n, false);
}

int64_t check_words(const struct check *c, bool (*fits)(const char *word, size_t n))
{
    struct str lower = {0};
    int64_t count = 0;
    size_t from = 0;

    letter_put_lower(&lower, c->text, c->n);
    for (size_t at = 0, used = 1; str_ok(&lower) && at <= lower.len; at += used) {
        uint32_t cp = ' ';
        used = 1;
        if (at < lower.len)
            cp = utf8_next(lower.data + at, lower.len - at, &used);
        if (letter_is_alpha(cp) || letter_is_digit(cp) || cp == '_')
            continue;
        count += at > from && (!fits || fits(lower.data + from, at - from));
        from = at + used;
    }
    str_free(&lower);
    return count;
}

/* A text whose language cannot be told counts as followed, as in the original. */
bool check_language(const struct check *c, const char *code)
{
    const char *found = ifeval_language(c->text, c->n);

    return found[0] == '\0' || strncmp(found, code, 2) == 0;
}

static const struct check_row *find_row(const struct check_row *rows, const char *name)
{
    for (; rows->name; rows++)
        if (strcmp(rows->name, name) == 0)
            return rows;
    return NULL;
}

enum b2_status ifeval_follows(bool *out, const char *id, const cJSON *args,
                              const char *text, struct b2_err *err)
{
    static const struct {
        const char *prefix;
        const struct check_row *rows;
    } tongues[] = {{"en:", NULL},
                   {"es:", check_rows_es},
                   {"fr:", check_rows_fr},
                   {"ja:", check_rows_ja}};
    struct check c = {.text = text, .n = strlen(text), .args = args};
    const char *name = id;
    const struct check_row *row = NULL;

    for (size_t i = 0; i < countof(tongues); i++)
        if (strncmp(id, tongues[i].prefix, 3) == 0) {
            c.tongue = (enum ifeval_tongue)i;
            name = id + 3;
        }
    if (tongues[c.tongue].rows)
        row = find_row(tongues[c.tongue].rows, name);
    if (!row)
        row = find_row(check_rows, name);
    if (!row)
        return err_set(err, B2_EARG, "instruction '%s' is not known", id);
    *out = row->follows(&c);
    if (c.missing)
        return err_set(err, B2_EARG, "instruction '%s': its argument %s does not fit",
                       id, c.missing);
    return B2_OK;
}

/* ---- loose ---- */

/* Variant v of 8 of an answer: bit 0 drops asterisks, bit 1 the first line, bit 2 the
 * last. */
static void put_variant(struct str *out, const char *text, int v)
{
    size_t from = 0, to = strlen(text);
    const char *line;

    if (v & 2) {
        line = strchr(text, '\n');
        from = line ? (size_t)(line - text) + 1 : to;
    }
    if (v & 4) {
        while (to > from && text[to - 1] != '\n')
            to--;
        to -= to > from;
    }
    for (size_t i = from; i < to; i++)
        if (!(v & 1) || text[i] != '*')
            str_putn(out, text + i, 1);
    str_put(out, "");
}

static enum b2_status follows_some(bool *out, bool *strictly, const char *id,
                                   const cJSON *args, const char *answer,
                                   struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    *out = *strictly = false;
    for (int v = 0; v < 8 && !*out && !rc; v++) {
        struct str s = {0};
        const char *text;
        size_t n;
        put_variant(&s, answer, v);
        text = s.data;
        n = s.len;
        if (!str_ok(&s))
            rc = err_set(err, B2_ENOMEM, "out of memory");
        else
            check_strip(&text, &n);
        if (!rc)
            rc = ifeval_follows(out, id, args, s.data, err);
        *out = !rc && *out && n > 0; /* an empty answer follows nothing */
        if (v == 0)
            *strictly = *out;
        str_free(&s);
    }
    return rc;
}

enum b2_status ifeval_judge(struct ifeval_result *out, const cJSON *row,
                            const char *answer, struct b2_err *err)
{
    const cJSON *ids = cJSON_GetObjectItemCaseSensitive(row, "instruction_id_list");
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(row, "kwargs");
    struct ifeval_result r = {.n = cJSON_GetArraySize(ids)};

    if (!cJSON_IsArray(ids) || !cJSON_IsArray(args) || r.n < 1 || r.n > IFEVAL_MAX ||
        cJSON_GetArraySize(args) != r.n)
        return err_set(err, B2_EARG,
                       "a row needs instruction_id_list and kwargs of "
                       "equal length, 1 to 16");
    for (int i = 0; i < r.n; i++) {
        const cJSON *id = cJSON_GetArrayItem(ids, i);
        bool loosely = false;
        enum b2_status rc;
        if (!cJSON_IsString(id))
            return err_set(err, B2_EARG, "an instruction's id is no string");
        rc = follows_some(&loosely, &r.followed[i], id->valuestring,
                          cJSON_GetArrayItem(args, i), answer, err);
        if (rc)
            return rc;
        r.strict += r.followed[i];
        r.loose += loosely;
    }
    *out = r;
    return B2_OK;
}

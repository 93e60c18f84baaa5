/*
 * task_desc.c - the description of a task, from JSON. docs/EVAL.md lists its keys.
 *
 * A key that is not known is an error: a misspelt one must not change a measurement.
 */
#include "eval/task_int.h"

#include "base/mem.h"

#include <string.h>

enum { DESC_VALUES = 4096, DESC_MAX_TOKENS = 1 << 20, DESC_MAX_SHOTS = 100 };

static const char *const known_keys[] = {
    "name",       "about",       "source",
    "licence",    "data",        "fewshot",
    "pick",       "shots",       "kind",
    "check",      "id",          "system",
    "prompt",     "gold",        "target",
    "choices",    "choice",      "vary_prompt",
    "metrics",    "chance",      "stop",
    "max_tokens", "delimiter",   "separator",
    "ignore",     "ignore_case", "ignore_punctuation",
    "gold_lines", "chat"};

static enum b2_status bad(struct b2_err *err, const char *key, const char *want)
{
    return err_set(err, B2_EFORMAT, "\"%s\" must be %s", key, want);
}

static void metric_free(struct task_metric *m)
{
    pattern_free(m->find);
}

void task_desc_free(struct task_desc *d)
{
    struct chat *const all[] = {d->id,   d->system, d->prompt,
                                d->gold, d->target, d->choice};

    for (size_t i = 0; i < countof(all); i++)
        chat_free(all[i]);
    for (int i = 0; i < d->n_choices; i++)
        chat_free(d->choices[i]);
    for (int i = 0; i < d->n_metrics; i++)
        metric_free(&d->metric[i]);
    for (int i = 0; i < d->n_ignore; i++)
        pattern_free(d->ignore[i]);
    mem_free(d->name);
    cJSON_Delete(d->json);
    *d = (struct task_desc){0};
}

static const cJSON *get(const struct task_desc *d, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(d->json, key);
}

static enum b2_status check_keys(const cJSON *o, struct b2_err *err)
{
    const cJSON *e;

    cJSON_ArrayForEach(e, o)
    {
        bool known = false;
        for (size_t i = 0; i < countof(known_keys) && !known; i++)
            known = strcmp(e->string, known_keys[i]) == 0;
        if (!known)
            return err_set(err, B2_EFORMAT, "unknown key \"%s\"", e->string);
    }
    return B2_OK;
}

/* Keys of the "chat" object take the places of those of the description. */
static enum b2_status use_chat(struct task_desc *d, struct b2_err *err)
{
    cJSON *chat = cJSON_DetachItemFromObjectCaseSensitive(d->json, "chat");
    enum b2_status rc = B2_OK;

    if (chat && !cJSON_IsObject(chat)) /* only an object's values have names */
        rc = bad(err, "chat", "an object");
    else
        rc = check_keys(chat, err);
    while (!rc && chat && chat->child) {
        cJSON *e = cJSON_DetachItemViaPointer(chat, chat->child);
        char *key = mem_strdup(e->string);
        cJSON_DeleteItemFromObjectCaseSensitive(d->json, key ? key : "");
        if (!key || !cJSON_AddItemToObject(d->json, key, e))
            rc = err_set(err, B2_ENOMEM, "out of memory");
        mem_free(key);
    }
    cJSON_Delete(chat);
    return rc;
}

static enum b2_status get_str(const char **out, const struct task_desc *d,
                              const char *key, struct b2_err *err)
{
    const cJSON *v = get(d, key);

    if (v && !cJSON_IsString(v))
        return bad(err, key, "a string");
    if (v)
        *out = v->valuestring;
    return B2_OK;
}

static enum b2_status get_bool(bool *out, const struct task_desc *d, const char *key,
                               struct b2_err *err)
{
    const cJSON *v = get(d, key);

    if (v && !cJSON_IsBool(v))
        return bad(err, key, "true or false");
    *out = cJSON_IsTrue(v);
    return B2_OK;
}

static enum b2_status get_int(int64_t *out, const struct task_desc *d, const char *key,
                              int64_t max, struct b2_err *err)
{
    const cJSON *v = get(d, key);
    uint64_t n;

    if (!v)
        return B2_OK;
    if (!json_get_u64(v, &n) || n > (uint64_t)max)
        return err_set(err, B2_EFORMAT, "\"%s\" must be a whole number, at most %lld",
                       key, (long long)max);
    *out = (int64_t)n;
    return B2_OK;
}

/* Jinja drops one line end at the end of a template; an empty expression keeps it. */
static enum b2_status make_template(struct chat **out, const char *text,
                                    struct b2_err *err)
{
    struct str whole = {0};
    enum b2_status rc;

    str_put(&whole, text);
    str_put(&whole, "{{''}}");
    rc = str_ok(&whole) ? chat_new_text(out, whole.data, whole.len, NULL, NULL, err)
                        : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&whole);
    if (!rc)
        chat_set_strict(*out);
    return rc;
}

static enum b2_status get_template(struct chat **out, const struct task_desc *d,
                                   const char *key, struct b2_err *err)
{
    const char *text = NULL;
    enum b2_status rc = get_str(&text, d, key, err);

    if (rc || !text)
        return rc;
    rc = make_template(out, text, err);
    if (rc)
        err_wrap(err, "\"%s\"", key);
    return rc;
}

static enum b2_status get_choices(struct task_desc *d, struct b2_err *err)
{
    const cJSON *v = get(d, "choices"), *e;
    enum b2_status rc = B2_OK;

    if (cJSON_IsString(v)) {
        d->choices_column = v->valuestring;
        return B2_OK;
    }
    if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) < 1 ||
        cJSON_GetArraySize(v) > TASK_MAX_CHOICES)
        return bad(err, "choices", "a column's name or 1 to 26 templates");
    cJSON_ArrayForEach(e, v)
    {
        if (!cJSON_IsString(e))
            return bad(err, "choices", "a column's name or a list of templates");
        rc = make_template(&d->choices[d->n_choices], e->valuestring, err);
        if (rc)
            return rc;
        d->n_choices++;
    }
    return B2_OK;
}

static enum b2_status get_pattern(struct task_metric *m, const cJSON *v,
                                  struct b2_err *err)
{
    if (!v)
        return B2_OK;
    if (!cJSON_IsString(v))
        return bad(err, "find", "a regular expression");
    return pattern_new(&m->find, v->valuestring, 0, err);
}

/* One element of "metrics": a name, or an object with name, find, last, contains. */
static enum b2_status get_metric(struct task_desc *d, const cJSON *e,
                                 struct b2_err *err)
{
    struct task_metric m = {0};
    const cJSON *name =
        cJSON_IsObject(e) ? cJSON_GetObjectItemCaseSensitive(e, "name") : e;
    enum b2_status rc = B2_OK;

    if (!cJSON_IsString(name) || d->n_metrics == ITEM_SCORES)
        return bad(err, "metrics", "at most four names, or objects with a name");
    m.name = name->valuestring;
    if (cJSON_IsObject(e)) {
        rc = get_pattern(&m, cJSON_GetObjectItemCaseSensitive(e, "find"), err);
        m.last = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(e, "last"));
        m.contains = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(e, "contains"));
    }
    if (!rc)
        d->metric[d->n_metrics++] = m;
    return rc;
}

static enum b2_status check_metrics(const struct task_desc *d, struct b2_err *err)
{
    for (int i = 0; i < d->n_metrics && d->kind != TASK_GENERATE; i++) {
        const char *name = d->metric[i].name;
        bool known = strcmp(name, "acc") == 0 ||
                     (d->kind == TASK_CHOICE && (strcmp(name, "acc_norm") == 0 ||
                                                 strcmp(name, "acc_bytes") == 0));
        if (!known)
            return err_set(err, B2_EFORMAT, "metric \"%s\" is not one of this kind",
                           name);
    }
    return B2_OK;
}

static enum b2_status get_metrics(struct task_desc *d, struct b2_err *err)
{
    const cJSON *v = get(d, "metrics"), *e, *chance = get(d, "chance");
    enum b2_status rc = B2_OK;

    if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) < 1)
        return bad(err, "metrics",
                   d->kind == TASK_GENERATE
                       ? "a list: of names you choose, or objects with a name"
                       : "a list: of acc, and for choices acc_norm and acc_bytes");
    cJSON_ArrayForEach(e, v)
    {
        rc = get_metric(d, e, err);
        if (rc)
            return rc;
    }
    if (chance && !(cJSON_IsNumber(chance) && chance->valuedouble >= 0 &&
                    chance->valuedouble < 1))
        return bad(err, "chance", "a number from 0 to below 1");
    d->chance = chance ? chance->valuedouble : 0.0;
    return check_metrics(d, err);
}

static enum b2_status get_stops(struct task_desc *d, struct b2_err *err)
{
    const cJSON *v = get(d, "stop"), *e;

    if (v && (!cJSON_IsArray(v) || cJSON_GetArraySize(v) > TASK_MAX_STOPS))
        return bad(err, "stop", "a list of at most 16 strings");
    cJSON_ArrayForEach(e, v)
    {
        if (!cJSON_IsString(e) || !e->valuestring[0])
            return bad(err, "stop", "a list of strings, none empty");
        d->stop[d->n_stops++] = e->valuestring;
    }
    return B2_OK;
}

static enum b2_status get_ignore(struct task_desc *d, struct b2_err *err)
{
    const cJSON *v = get(d, "ignore"), *e;
    enum b2_status rc = B2_OK;

    if (v && (!cJSON_IsArray(v) || cJSON_GetArraySize(v) > TASK_MAX_IGNORE))
        return bad(err, "ignore", "a list of at most 8 regular expressions");
    cJSON_ArrayForEach(e, v)
    {
        if (!cJSON_IsString(e))
            return bad(err, "ignore", "a list of regular expressions");
        rc = pattern_new(&d->ignore[d->n_ignore], e->valuestring, 0, err);
        if (rc)
            return rc;
        d->n_ignore++;
    }
    rc = get_bool(&d->ignore_case, d, "ignore_case", err);
    if (!rc)
        rc = get_bool(&d->ignore_punctuation, d, "ignore_punctuation", err);
    return rc ? rc : get_bool(&d->gold_lines, d, "gold_lines", err);
}

/* A key whose value is one of some words; *out is the number of the word. */
static enum b2_status get_word(int *out, const struct task_desc *d, const char *key,
                               const char *const *words, int n, struct b2_err *err)
{
    const char *word = words[0];
    enum b2_status rc = get_str(&word, d, key, err);

    for (*out = 0; !rc && *out < n; ++*out)
        if (strcmp(word, words[*out]) == 0)
            return B2_OK;
    return rc ? rc
              : err_set(err, B2_EFORMAT, "\"%s\" is '%s', which is not known", key,
                        word);
}

static enum b2_status get_words(struct task_desc *d, struct b2_err *err)
{
    static const char *const kinds[] = {"choice", "cloze", "generate"};
    static const char *const checks[] = {"match", "ifeval", "code"};
    static const char *const picks[] = {"first", "random"};
    int kind = 0, check = 0, pick = 0;
    enum b2_status rc = get_word(&kind, d, "kind", kinds, 3, err);

    if (!rc)
        rc = get_word(&check, d, "check", checks, 3, err);
    if (!rc)
        rc = get_word(&pick, d, "pick", picks, 2, err);
    d->kind = (enum task_kind)kind;
    d->check = (enum task_check)check;
    d->fewshot_first = pick == 0;
    return rc;
}

static enum b2_status get_texts(struct task_desc *d, struct b2_err *err)
{
    const struct {
        const char *key;
        struct chat **out;
    } templates[] = {{"id", &d->id},         {"system", &d->system},
                     {"prompt", &d->prompt}, {"gold", &d->gold},
                     {"target", &d->target}, {"choice", &d->choice}};
    const struct {
        const char *key;
        const char **out;
    } strings[] = {{"data", &d->data},
                   {"fewshot", &d->fewshot},
                   {"delimiter", &d->delimiter},
                   {"separator", &d->separator}};
    enum b2_status rc = B2_OK;

    d->delimiter = " ";
    d->separator = "\n\n";
    for (size_t i = 0; i < countof(templates) && !rc; i++)
        rc = get_template(templates[i].out, d, templates[i].key, err);
    for (size_t i = 0; i < countof(strings) && !rc; i++)
        rc = get_str(strings[i].out, d, strings[i].key, err);
    return rc;
}

/* What a kind cannot do without. */
static enum b2_status check_whole(const struct task_desc *d, struct b2_err *err)
{
    const char *missing = NULL;
    bool matches = d->kind == TASK_GENERATE && d->check == TASK_MATCH;
    bool scores_target = d->kind == TASK_CLOZE || d->vary_prompt;
    bool shows_target = d->kind == TASK_GENERATE && d->shots > 0;

    if (!d->prompt)
        missing = "prompt";
    else if ((d->kind == TASK_CHOICE || matches) && !d->gold)
        missing = "gold";
    else if ((scores_target || shows_target) && !d->target)
        missing = "target";
    if (missing)
        return err_set(err, B2_EFORMAT, "\"%s\" is missing", missing);
    return B2_OK;
}

static enum b2_status read_all(struct task_desc *d, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    if (!get(d, "kind"))
        return bad(err, "kind", "choice, cloze or generate");
    rc = get_words(d, err);
    d->max_tokens = 256;
    if (!rc)
        rc = get_texts(d, err);
    if (!rc)
        rc = get_bool(&d->vary_prompt, d, "vary_prompt", err);
    if (!rc)
        rc = get_int(&d->shots, d, "shots", DESC_MAX_SHOTS, err);
    if (!rc)
        rc = get_int(&d->max_tokens, d, "max_tokens", DESC_MAX_TOKENS, err);
    if (!rc && d->kind == TASK_CHOICE)
        rc = get_choices(d, err);
    if (!rc)
        rc = get_metrics(d, err);
    if (!rc)
        rc = get_stops(d, err);
    if (!rc)
        rc = get_ignore(d, err);
    return rc ? rc : check_whole(d, err);
}

enum b2_status task_desc_parse(struct task_desc *d, const char *name, const char *text,
                               size_t n, bool chat, struct b2_err *err)
{
    enum b2_status rc = json_parse_bounded(&d->json, text, n, DESC_VALUES, err);

    if (!rc && !cJSON_IsObject(d->json))
        rc = err_set(err, B2_EFORMAT, "not a JSON object");
    if (!rc)
        rc = check_keys(d->json, err);
    if (!rc && chat)
        rc = use_chat(d, err);
    if (!rc && !(d->name = mem_strdup(name)))
        rc = err_set(err, B2_ENOMEM, "out of memory");
    if (!rc)
        rc = read_all(d, err);
    if (rc)
        task_desc_free(d);
    return rc;
}

/*
 * task_own.c - a user's own questions, as people write them down.
 *
 * Columns have many names, choices stand in a list or in columns, numbers are numbers or
 * text; a CSV may have no header. All become rows of question, answer and choices.
 */
#include "eval/task_int.h"

#include "base/mem.h"
#include "format/json.h"

#include <string.h>

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory for questions");
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && strcmp(s + n - k, end) == 0;
}

/* The same columns under other names people use; all become question and answer. */
static const char *const column_names[][2] = {
    {"Question", "question"}, {"QUESTION", "question"}, {"prompt", "question"},
    {"input", "question"},    {"问题", "question"},     {"Answer", "answer"},
    {"ANSWER", "answer"},     {"response", "answer"},   {"output", "answer"},
    {"target", "answer"},     {"答案", "answer"}};

static bool has(const cJSON *row, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(row, key) != NULL;
}

static bool rename_column(cJSON *row, const char *from, const char *to)
{
    cJSON *v = cJSON_DetachItemFromObjectCaseSensitive(row, from);

    if (!v)
        return true;
    if (cJSON_AddItemToObject(row, to, v))
        return true;
    cJSON_Delete(v);
    return false;
}

static bool name_columns(cJSON *row)
{
    bool ok = true;

    for (size_t i = 0; i < countof(column_names) && ok; i++)
        if (!has(row, column_names[i][1]))
            ok = rename_column(row, column_names[i][0], column_names[i][1]);
    return ok;
}

/* A table of two columns without names: its first row is a question too. */
static bool unnamed_columns(struct table *t)
{
    const cJSON *first = t->n ? t->row[0]->child : NULL;
    cJSON *extra;
    char *a, *b;
    bool ok = true;

    if (!first || !first->next || first->next->next || has(t->row[0], "question") ||
        has(t->row[0], "answer"))
        return true;
    a = mem_strdup(first->string);
    b = mem_strdup(first->next->string);
    extra = cJSON_CreateObject();
    ok = a && b && extra && cJSON_AddStringToObject(extra, a, a) &&
         cJSON_AddStringToObject(extra, b, b);
    if (ok) {
        cJSON **more = mem_realloc(t->row, (size_t)t->n + 1, sizeof(void *));
        ok = more != NULL;
        if (ok) {
            t->row = more;
            memmove(more + 1, more, (size_t)t->n++ * sizeof(void *));
            more[0] = extra;
            extra = NULL;
        }
    }
    for (int64_t i = 0; i < t->n && ok; i++)
        ok = rename_column(t->row[i], a, "question") &&
             rename_column(t->row[i], b, "answer");
    cJSON_Delete(extra);
    mem_free(a);
    mem_free(b);
    return ok;
}

/* A list of choices as text, from a CSV: "[\"a\", \"b\"]"; and choices in columns A, B, … */
static bool gather_choices(cJSON *row)
{
    static const char letters[] = "ABCDEFGHIJ";
    cJSON *list, *v = cJSON_GetObjectItemCaseSensitive(row, "choices");

    if (cJSON_IsString(v)) {
        cJSON *parsed = NULL;
        if (json_parse_bounded(&parsed, v->valuestring, strlen(v->valuestring), 64,
                               NULL))
            return true; /* said when the row is used */
        return cJSON_ReplaceItemInObjectCaseSensitive(row, "choices", parsed);
    }
    if (v || !has(row, "A") || !has(row, "B"))
        return true;
    list = cJSON_AddArrayToObject(row, "choices");
    for (const char *c = letters; list && *c; c++) {
        const char key[2] = {*c, '\0'};
        const cJSON *text = cJSON_GetObjectItemCaseSensitive(row, key);
        if (!cJSON_IsString(text) || !text->valuestring[0])
            break;
        if (!cJSON_AddItemToArray(list, cJSON_CreateString(text->valuestring)))
            return false;
    }
    return list != NULL;
}

/* A number in JSON becomes the text that it was, as it is in a CSV. */
static bool number_as_text(cJSON *v)
{
    char *text;

    if (!cJSON_IsNumber(v))
        return true;
    text = cJSON_PrintUnformatted(v);
    if (!text)
        return false;
    v->type = (v->type & ~0xff) | cJSON_String; /* the key's flags stay */
    v->valuestring = text;
    return true;
}

static bool is_text(const cJSON *v)
{
    return cJSON_IsString(v) && v->valuestring[strspn(v->valuestring, " \t\r\n")];
}

/* Numbers become text, but for a number of a choice; *usable: an answer can be right. */
static bool plain_row(bool *usable, cJSON *row)
{
    cJSON *question = cJSON_GetObjectItemCaseSensitive(row, "question");
    cJSON *answer = cJSON_GetObjectItemCaseSensitive(row, "answer"), *e;
    bool chooses = has(row, "choices"), ok = number_as_text(question);

    *usable = is_text(question);
    if (chooses && cJSON_IsNumber(answer))
        return ok;
    ok = ok && number_as_text(answer);
    if (chooses || !cJSON_IsArray(answer)) {
        *usable = *usable && is_text(answer);
        return ok;
    }
    *usable = *usable && cJSON_GetArraySize(answer) > 0;
    cJSON_ArrayForEach(e, answer)
    {
        ok = ok && number_as_text(e);
        *usable = *usable && is_text(e);
    }
    return ok;
}

/* Says which columns there are: a misspelt name is seen at once. */
static enum b2_status no_columns(const cJSON *row, const char *path, int64_t i,
                                 struct b2_err *err)
{
    struct str names = {0};
    const cJSON *e;

    cJSON_ArrayForEach(e, row)
    {
        if (names.len < 200)
            str_printf(&names, "%s%.40s", names.len ? ", " : "", e->string);
    }
    err_set(err, B2_EFORMAT,
            "%s: row %lld has no columns question and answer; it has: %s", path,
            (long long)i + 1, names.len ? names.data : "none");
    str_free(&names);
    return B2_EFORMAT;
}

/* A row with all that it needs, under the names that the descriptions use. */
static enum b2_status own_row(cJSON *row, const char *path, int64_t i,
                              struct b2_err *err)
{
    bool usable = false;

    if (!gather_choices(row))
        return no_memory(err);
    if (!has(row, "question") || !has(row, "answer"))
        return no_columns(row, path, i, err);
    if (!plain_row(&usable, row))
        return no_memory(err);
    return usable ? B2_OK
                  : err_set(err, B2_EFORMAT,
                            "%s: row %lld: question and answer must be texts or "
                            "numbers (answer also a list of them), none empty",
                            path, (long long)i + 1);
}

enum b2_status task_own_read(struct table *out, const char *path, struct b2_err *err)
{
    struct table rows = {0};
    bool ok = true;
    bool csv = ends_with(path, ".csv") || ends_with(path, ".tsv") ||
               ends_with(path, ".csv.gz");
    enum b2_status rc = table_read(&rows, path, err);

    for (int64_t i = 0; i < rows.n && ok && !rc; i++)
        ok = name_columns(rows.row[i]);
    if (ok && !rc && csv)
        ok = unnamed_columns(&rows);
    if (!rc && !ok)
        rc = no_memory(err);
    for (int64_t i = 0; i < rows.n && !rc; i++)
        rc = own_row(rows.row[i], path, i, err);
    if (!rc && rows.n == 0)
        rc = err_set(err, B2_EARG, "%s: no rows", path);
    if (rc) {
        table_free(&rows);
        return rc;
    }
    *out = rows;
    return B2_OK;
}

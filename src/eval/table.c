/*
 * table.c - rows of data from files.
 */
#include "eval/table.h"

#include "base/file.h"
#include "base/mem.h"
#include "format/gunzip.h"
#include "text/utf8.h"

#include <string.h>

enum { ROW_VALUES = 1 << 16, ARRAY_VALUES = 1 << 24 };

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory for a table");
}

void table_free(struct table *t)
{
    for (int64_t i = 0; i < t->n; i++)
        cJSON_Delete(t->row[i]);
    mem_free(t->row);
    *t = (struct table){0};
}

/* Takes row. Capacity is every power of two. */
static enum b2_status add_row(struct table *t, cJSON *row, struct b2_err *err)
{
    if ((t->n & (t->n - 1)) == 0) {
        cJSON **more =
            mem_realloc(t->row, (size_t)(t->n ? t->n * 2 : 1), sizeof(void *));
        if (!more) {
            cJSON_Delete(row);
            return no_memory(err);
        }
        t->row = more;
    }
    t->row[t->n++] = row;
    return B2_OK;
}

static enum b2_status parse_lines(struct table *t, const char *text, size_t n,
                                  struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    int64_t line = 0;

    for (size_t at = 0; at < n && !rc;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t len = end ? (size_t)(end - text) - at : n - at, from = at;
        cJSON *row = NULL;
        line++;
        at += len + 1;
        while (len > 0 && strchr(" \t\r", text[from + len - 1]))
            len--;
        if (len == 0)
            continue;
        rc = json_parse_bounded(&row, text + from, len, ROW_VALUES, err);
        if (!rc && !cJSON_IsObject(row)) {
            cJSON_Delete(row);
            rc = err_set(err, B2_EFORMAT, "not a JSON object");
        }
        if (!rc)
            rc = add_row(t, row, err);
        if (rc)
            err_wrap(err, "line %lld", (long long)line);
    }
    return rc;
}

static enum b2_status parse_array(struct table *t, const char *text, size_t n,
                                  struct b2_err *err)
{
    cJSON *all = NULL;
    enum b2_status rc = json_parse_bounded(&all, text, n, ARRAY_VALUES, err);

    if (rc)
        return rc;
    if (!cJSON_IsArray(all))
        rc = err_set(err, B2_EFORMAT, "not a JSON array of objects");
    while (!rc && all->child) {
        cJSON *row = cJSON_DetachItemViaPointer(all, all->child);
        if (!cJSON_IsObject(row)) {
            cJSON_Delete(row);
            rc = err_set(err, B2_EFORMAT, "element %lld is not an object",
                         (long long)t->n);
        } else {
            rc = add_row(t, row, err);
        }
    }
    cJSON_Delete(all);
    return rc;
}

/* A walk through CSV. */
struct csv {
    const char *text;
    size_t n, at;
    char comma;
    int64_t line;
    struct str field;
};

/* Reads one field; *last: it ended its row. B2_EFORMAT: a quote without end. */
static enum b2_status csv_field(struct csv *c, bool *last, struct b2_err *err)
{
    bool quoted = c->at < c->n && c->text[c->at] == '"';
    int64_t began = c->line;

    str_clear(&c->field);
    c->at += quoted;
    for (;;) {
        char ch = c->at < c->n ? c->text[c->at] : '\n';
        bool end = c->at >= c->n;
        if (quoted && end)
            return err_set(err, B2_EFORMAT, "line %lld: a quoted field has no end",
                           (long long)began);
        c->at++;
        if (quoted && ch == '"') {
            if (c->at < c->n && c->text[c->at] == '"')
                c->at++;
            else {
                quoted = false;
                continue;
            }
        } else if (!quoted && (ch == c->comma || ch == '\n')) {
            *last = ch == '\n';
            c->line += *last;
            break;
        } else if (!quoted && ch == '\r' && (c->at >= c->n || c->text[c->at] == '\n')) {
            continue;
        }
        c->line += ch == '\n';
        str_putn(&c->field, &ch, 1);
    }
    if (!c->field.data)
        str_put(&c->field, "");
    if (!str_ok(&c->field))
        return no_memory(err);
    if (memchr(c->field.data, '\0', c->field.len))
        return err_set(err, B2_EFORMAT, "line %lld: a NUL byte", (long long)began);
    return B2_OK;
}

/* Reads the row that names the columns. */
static enum b2_status csv_names(struct csv *c, char **name, int *n, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (bool last = false; !rc && !last;) {
        rc = csv_field(c, &last, err);
        if (!rc && *n == TABLE_MAX_COLUMNS)
            rc = err_set(err, B2_EUNSUP, "more than %d columns", TABLE_MAX_COLUMNS);
        if (!rc && !(name[*n] = mem_strdup(c->field.data)))
            rc = no_memory(err);
        *n += rc == B2_OK;
    }
    return rc;
}

static enum b2_status csv_row(struct csv *c, struct table *t, char *const *name, int n,
                              struct b2_err *err)
{
    cJSON *row = cJSON_CreateObject();
    int64_t line = c->line;
    int i = 0;
    bool last = false, blank = true;
    enum b2_status rc = row ? B2_OK : no_memory(err);

    for (; !rc && !last; i++) {
        rc = csv_field(c, &last, err);
        if (rc)
            break;
        blank = blank && c->field.len == 0 && last && i == 0;
        if (i >= n)
            rc = err_set(err, B2_EFORMAT, "line %lld: more fields than the %d columns",
                         (long long)line, n);
        else if (!cJSON_AddStringToObject(row, name[i], c->field.data))
            rc = no_memory(err);
    }
    if (!rc && !blank && i < n)
        rc = err_set(err, B2_EFORMAT, "line %lld: %d fields, there are %d columns",
                     (long long)line, i, n);
    if (!rc && !blank)
        return add_row(t, row, err);
    cJSON_Delete(row);
    return rc;
}

static enum b2_status parse_csv(struct table *t, char comma, const char *text, size_t n,
                                struct b2_err *err)
{
    struct csv c = {.text = text, .n = n, .comma = comma, .line = 1};
    char *name[TABLE_MAX_COLUMNS] = {0};
    int n_names = 0;
    enum b2_status rc = B2_OK;

    if (n > 0)
        rc = csv_names(&c, name, &n_names, err);
    while (!rc && c.at < n)
        rc = csv_row(&c, t, name, n_names, err);
    for (int i = 0; i < n_names; i++)
        mem_free(name[i]);
    str_free(&c.field);
    return rc;
}

enum b2_status table_parse(struct table *out, enum table_kind kind, const char *text,
                           size_t n, struct b2_err *err)
{
    struct table t = {0};
    enum b2_status rc;

    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        n -= 3;
    }
    if (kind == TABLE_JSONL)
        rc = parse_lines(&t, text, n, err);
    else if (kind == TABLE_JSON)
        rc = parse_array(&t, text, n, err);
    else
        rc = parse_csv(&t, kind == TABLE_CSV ? ',' : '\t', text, n, err);
    if (rc) {
        table_free(&t);
        return rc;
    }
    *out = t;
    return B2_OK;
}

static bool ends_with(const char *s, size_t n, const char *end)
{
    size_t k = strlen(end);

    return n >= k && strncmp(s + n - k, end, k) == 0;
}

/* Another encoding would be asked as garbage, and nobody would see it. */
static enum b2_status check_utf8(const char *text, size_t n, struct b2_err *err)
{
    int64_t line = 0;

    for (size_t at = 0, len; at < n; at += len + 1) {
        const char *end = memchr(text + at, '\n', n - at);
        len = end ? (size_t)(end - text) - at : n - at;
        line++;
        if (!utf8_valid(text + at, len))
            return err_set(err, B2_EFORMAT, "line %lld: not UTF-8: save it as UTF-8",
                           (long long)line);
    }
    return B2_OK;
}

enum b2_status table_read(struct table *out, const char *path, struct b2_err *err)
{
    static const char *const ends[] = {".jsonl", ".json", ".csv", ".tsv"};
    size_t len = strlen(path), size = 0;
    char *text = NULL, *plain = NULL;
    int kind = -1;
    enum b2_status rc;

    if (ends_with(path, len, ".gz"))
        len -= 3;
    for (int i = 0; i < (int)countof(ends); i++)
        if (ends_with(path, len, ends[i]))
            kind = i;
    if (kind < 0)
        return err_set(err, B2_EARG,
                       "%s: unknown kind of table: .jsonl, .json, .csv and .tsv are "
                       "known, also with .gz behind it",
                       path);
    rc = file_read_all(&text, &size, path, TABLE_MAX_BYTES, err);
    if (rc)
        return rc; /* names the path */
    if (gunzip_is(text, size)) {
        rc = gunzip(&plain, &size, text, size, TABLE_MAX_BYTES, err);
        mem_free(text);
        text = rc ? NULL : plain;
    }
    if (!rc)
        rc = check_utf8(text, size, err);
    if (!rc)
        rc = table_parse(out, (enum table_kind)kind, text, size, err);
    if (rc)
        err_wrap(err, "%s", path);
    mem_free(text);
    return rc;
}

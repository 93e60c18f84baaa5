/*
 * items.c - reading and growing the file of items of one task.
 */
#include "eval/items.h"

#include "base/file.h"
#include "base/file_append.h"
#include "base/mem.h"
#include "format/json.h"

#include <math.h>
#include <string.h>

enum { MAX_FILE = 1 << 30, MAX_VALUES = 1 << 20 };

struct item_file {
    struct file_append *out; /* NULL: nothing is kept */
};

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory for the items of a task");
}

static void item_free(struct item *it)
{
    mem_free(it->id);
    mem_free(it->rest);
}

void item_set_free(struct item_set *s)
{
    for (int64_t i = 0; i < s->n; i++)
        item_free(&s->item[i]);
    for (int i = 0; i < s->n_metrics; i++)
        mem_free(s->metrics[i]);
    mem_free(s->item);
    mem_free(s->task);
    mem_free(s->metric);
    mem_free(s->model);
    mem_free(s->fingerprint);
    mem_free(s->settings);
    mem_free(s->prompt_sha256);
    *s = (struct item_set){0};
}

int item_set_metric(const struct item_set *s, const char *name)
{
    for (int i = 0; i < s->n_metrics; i++)
        if (strcmp(s->metrics[i], name) == 0)
            return i;
    return -1;
}

double item_set_mean(const struct item_set *s, int metric)
{
    double sum = 0.0, weight = 0.0;

    for (int64_t i = 0; i < s->n; i++) {
        sum += s->item[i].scores[metric] * s->item[i].weight[metric];
        weight += s->item[i].weight[metric];
    }
    return weight > 0.0 ? sum / weight : 0.0;
}

static void put_key(struct str *out, const char *key, const char *value)
{
    str_printf(out, ",\"%s\":", key);
    json_put_string(out, value ? value : "");
}

void item_set_header(struct str *out, const struct item_set *s, int64_t n_planned)
{
    str_put(out, "{\"task\":");
    json_put_string(out, s->task);
    put_key(out, "metric", s->metric);
    str_put(out, ",\"metrics\":[");
    for (int i = 0; i < s->n_metrics; i++) {
        str_put(out, i ? "," : "");
        json_put_string(out, s->metrics[i]);
    }
    str_printf(out, "],\"chance\":%.6g,\"n\":%lld", s->chance, (long long)n_planned);
    put_key(out, "model", s->model);
    put_key(out, "fingerprint", s->fingerprint);
    str_printf(out, ",\"settings\":%s", s->settings ? s->settings : "{}");
    put_key(out, "prompt_sha256", s->prompt_sha256);
    str_put(out, "}");
}

/* The scores of an item's line; metrics that the line does not name are 0. */
static bool read_scores(struct item *it, const struct item_set *s, const cJSON *line)
{
    const cJSON *score = cJSON_GetObjectItemCaseSensitive(line, "score");
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(line, "scores");
    const cJSON *weights = cJSON_GetObjectItemCaseSensitive(line, "weights");

    if (!cJSON_IsNumber(score) || !(score->valuedouble >= 0 && score->valuedouble <= 1))
        return false;
    it->score = score->valuedouble;
    for (int i = 0; i < s->n_metrics; i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(all, s->metrics[i]);
        const cJSON *w = cJSON_GetObjectItemCaseSensitive(weights, s->metrics[i]);
        if (!v && s->n_metrics == 1)
            v = score;
        it->scores[i] = cJSON_IsNumber(v) ? v->valuedouble : 0.0;
        it->weight[i] = cJSON_IsNumber(w) ? w->valuedouble : 1.0;
        if (!isfinite(it->scores[i]) || !(it->weight[i] >= 0) ||
            !isfinite(it->weight[i]))
            return false;
    }
    return true;
}

enum b2_status item_set_add(struct item_set *s, const char *line, size_t n,
                            struct b2_err *err)
{
    struct item it = {0}, *more;
    cJSON *json = NULL;
    const cJSON *id;
    enum b2_status rc = json_parse_bounded(&json, line, n, MAX_VALUES, err);

    if (rc)
        return rc;
    id = cJSON_GetObjectItemCaseSensitive(json, "id");
    if (!cJSON_IsString(id) || !read_scores(&it, s, json)) {
        cJSON_Delete(json);
        return err_set(err, B2_EFORMAT,
                       "no item: needs \"id\" and a \"score\" in 0..1");
    }
    it.id = mem_strdup(id->valuestring);
    cJSON_Delete(json);
    it.rest = mem_calloc(n + 1, 1);
    more = mem_realloc(s->item, (size_t)s->n + 1, sizeof *s->item);
    if (more)
        s->item = more;
    if (!it.id || !it.rest || !more) {
        item_free(&it);
        return no_memory(err);
    }
    memcpy(it.rest, line, n);
    s->item[s->n++] = it;
    return B2_OK;
}

static bool take_string(char **out, const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

    *out = cJSON_IsString(v) ? mem_strdup(v->valuestring) : NULL;
    return *out != NULL;
}

static bool take_metrics(struct item_set *s, const cJSON *o)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "metrics"), *m;

    if (!list) { /* the main one alone */
        s->metrics[0] = mem_strdup(s->metric);
        s->n_metrics = s->metrics[0] != NULL;
        return s->n_metrics == 1;
    }
    cJSON_ArrayForEach(m, list)
    {
        if (!cJSON_IsString(m) || s->n_metrics == ITEM_SCORES ||
            !(s->metrics[s->n_metrics] = mem_strdup(m->valuestring)))
            return false;
        s->n_metrics++;
    }
    return item_set_metric(s, s->metric) >= 0;
}

/* Reads the first line. *n_planned: how many items the whole run has. */
static enum b2_status read_header(struct item_set *s, uint64_t *n_planned,
                                  const char *line, size_t n, struct b2_err *err)
{
    cJSON *o = NULL;
    const cJSON *chance, *settings;
    enum b2_status rc = json_parse_bounded(&o, line, n, MAX_VALUES, err);
    bool ok;

    if (rc)
        return rc;
    chance = cJSON_GetObjectItemCaseSensitive(o, "chance");
    settings = cJSON_GetObjectItemCaseSensitive(o, "settings");
    ok = take_string(&s->task, o, "task") && take_string(&s->metric, o, "metric") &&
         take_metrics(s, o) && take_string(&s->model, o, "model") &&
         take_string(&s->fingerprint, o, "fingerprint") &&
         take_string(&s->prompt_sha256, o, "prompt_sha256") &&
         json_get_u64(cJSON_GetObjectItemCaseSensitive(o, "n"), n_planned);
    s->chance = cJSON_IsNumber(chance) ? chance->valuedouble : 0.0;
    if (ok && cJSON_IsObject(settings)) {
        char *text = cJSON_PrintUnformatted(settings);
        s->settings = text ? mem_strdup(text) : NULL;
        cJSON_free(text);
    } else {
        s->settings = mem_strdup("{}");
    }
    cJSON_Delete(o);
    if (!ok)
        return err_set(err, B2_EFORMAT,
                       "not the first line of a file of items: needs task, metric, n, "
                       "model, fingerprint, prompt_sha256");
    return s->settings ? B2_OK : no_memory(err);
}

/* Reads whole lines; *kept: bytes of them. A last line without its end is left out. */
static enum b2_status read_lines(struct item_set *s, uint64_t *n_planned, size_t *kept,
                                 const char *text, size_t size, struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    int64_t number = 0;

    for (size_t at = 0; text && at < size && !rc; number++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n;
        if (!end)
            break;
        n = (size_t)(end - text) - at;
        rc = number == 0 ? read_header(s, n_planned, text + at, n, err)
                         : item_set_add(s, text + at, n, err);
        if (rc)
            err_wrap(err, "line %lld", (long long)number + 1);
        at += n + 1;
        *kept = at;
    }
    if (!rc && number == 0)
        rc = err_set(err, B2_EFORMAT, "holds no whole line");
    return rc;
}

enum b2_status item_set_read(struct item_set *out, const char *path, bool *whole,
                             struct b2_err *err)
{
    struct item_set s = {0};
    char *text = NULL;
    size_t size = 0, kept = 0;
    uint64_t planned = 0;
    enum b2_status rc = file_read_all(&text, &size, path, MAX_FILE, err);

    if (rc)
        return rc;
    rc = read_lines(&s, &planned, &kept, text, size, err);
    mem_free(text);
    if (rc) {
        err_wrap(err, "%s", path);
        item_set_free(&s);
        return rc;
    }
    *whole = (uint64_t)s.n >= planned;
    *out = s;
    return B2_OK;
}

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* What keeps an earlier file from being gone on with. NULL: nothing does. */
static const char *what_differs(const struct item_set *old, const struct item_set *now)
{
    if (!same(old->task, now->task))
        return "of another task";
    if (!same(old->fingerprint, now->fingerprint))
        return "of another model";
    if (!same(old->settings, now->settings))
        return "made under other settings, or of other weights";
    if (!same(old->prompt_sha256, now->prompt_sha256))
        return "of other prompts";
    return NULL;
}

/* Takes over the items that an earlier run left in text. */
static enum b2_status take_old(struct item_set *s, size_t *kept, const char *text,
                               size_t size, int64_t n_planned, struct b2_err *err)
{
    struct item_set old = {0};
    uint64_t planned = 0;
    enum b2_status rc = read_lines(&old, &planned, kept, text, size, err);
    const char *differs = rc ? NULL : what_differs(&old, s);

    if (!rc && !differs && planned != (uint64_t)n_planned)
        differs = "made under other settings";
    if (differs)
        rc = err_set(err, B2_EEXIST,
                     "holds items %s: give another --scores folder, or --anew to "
                     "begin anew",
                     differs);
    if (!rc) {
        s->item = old.item;
        s->n = old.n;
        old.item = NULL;
        old.n = 0;
    }
    item_set_free(&old);
    return rc;
}

enum b2_status item_file_open(struct item_file **out, struct item_set *s,
                              const char *path, int64_t n_planned, bool force,
                              struct b2_err *err)
{
    struct item_file *f = mem_calloc(1, sizeof *f);
    char *text = NULL;
    size_t size = 0, kept = 0;
    enum b2_status rc = f ? B2_OK : no_memory(err);

    if (!rc && path && !force && file_exists(path)) {
        rc = file_read_all(&text, &size, path, MAX_FILE, err);
        /* A file that was cut inside its first line holds nothing to lose. */
        if (!rc && text && size > 0 && memchr(text, '\n', size))
            rc = take_old(s, &kept, text, size, n_planned, err);
        if (rc)
            err_wrap(err, "%s", path);
        mem_free(text);
    }
    if (!rc && f && path)
        rc = file_append_open(&f->out, path, kept, err);
    if (!rc && f && f->out && kept == 0) {
        struct str head = {0};
        item_set_header(&head, s, n_planned);
        str_put(&head, "\n");
        rc = str_ok(&head) ? file_append_write(f->out, head.data, head.len, err)
                           : no_memory(err);
        str_free(&head);
    }
    if (rc) {
        if (f)
            file_append_abort(f->out);
        mem_free(f);
        return rc;
    }
    *out = f;
    return B2_OK;
}

enum b2_status item_file_add(struct item_file *f, struct item_set *s, const char *line,
                             size_t n, struct b2_err *err)
{
    enum b2_status rc = item_set_add(s, line, n, err);

    if (!rc && f->out) {
        struct str whole = {0};
        str_putn(&whole, line, n);
        str_put(&whole,
                "\n"); /* one write: a line is there whole or cut, never mixed */
        rc = str_ok(&whole) ? file_append_write(f->out, whole.data, whole.len, err)
                            : no_memory(err);
        str_free(&whole);
    }
    return rc;
}

enum b2_status item_file_close(struct item_file *f, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    if (!f)
        return B2_OK;
    if (f->out)
        rc = file_append_close(f->out, err);
    mem_free(f);
    return rc;
}

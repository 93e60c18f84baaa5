/*
 * task.c - opening a task: its description, where it lies, what it is about.
 */
#include "eval/task_int.h"

#include "base/file.h"
#include "base/file_append.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory for a task");
}

void task_free(struct task *t)
{
    if (!t)
        return;
    for (int64_t g = 0; g < t->n_groups; g++) {
        mem_free(t->group[g].name);
        table_free(&t->group[g].rows);
        table_free(&t->group[g].more);
        mem_free(t->group[g].shot);
    }
    for (int64_t i = 0; t->item && i < t->n_items; i++)
        mem_free(t->item[i].id);
    mem_free(t->group);
    mem_free(t->item);
    task_desc_free(&t->d);
    mem_free(t);
}

/* ---- places ---- */

/* The first of the user's folder, the environment's, and those beside the program that
 * exists. Paths beside the program: an installed one, one in build/PRESET. */
static void find_dir(struct str *out, const char *given, const char *const *beside,
                     int n)
{
    struct str exe = {0}, path = {0};

    if (given) {
        str_put(out, given);
        return;
    }
    file_program_dir(&exe);
    for (int i = 0; i < n; i++) {
        str_clear(&path);
        if (beside[i][0] == '/' && exe.len == 0)
            continue;
        str_printf(&path, "%s%s", beside[i][0] == '/' ? exe.data : "", beside[i]);
        if (str_ok(&path) && file_is_dir(path.data)) {
            str_put(out, path.data);
            break;
        }
    }
    str_free(&exe);
    str_free(&path);
}

void task_data_dir(struct str *out, const struct task_place *place)
{
    static const char *const beside[] = {"../shared/data", "/../../../shared/data"};
    const char *given = place ? place->data_dir : NULL;

    find_dir(out, given ? given : getenv("B2_DATA"), beside, countof(beside));
}

static void installed_dir(struct str *out)
{
    static const char *const beside[] = {"/../share/bonsai2/tasks", "/../../tasks"};

    find_dir(out, NULL, beside, countof(beside));
}

void task_regions_dir(struct str *out)
{
    static const char *const beside[] = {"/../share/bonsai2/regions",
                                         "/../../examples/text/regions"};

    find_dir(out, NULL, beside, countof(beside));
}

/* Appends the path of a description; the user's folder comes first. */
static void find_description(struct str *out, const char *name,
                             const struct task_place *place)
{
    struct str dir = {0};

    if (place && place->task_dir) {
        str_printf(out, "%s/%s.json", place->task_dir, name);
        if (str_ok(out) && file_exists(out->data))
            return;
        str_clear(out);
    }
    installed_dir(&dir);
    if (dir.len > 0)
        str_printf(out, "%s/%s.json", dir.data, name);
    str_free(&dir);
    if (str_ok(out) && out->data && !file_exists(out->data))
        str_clear(out);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the names of the descriptions in dir, without ".json"; doubles are dropped. */
static enum b2_status add_names(char ***names, int64_t *n, const char *dir,
                                struct b2_err *err)
{
    char **list = NULL, **more;
    int64_t k = 0;
    enum b2_status rc = file_match(&list, &k, dir, "*.json", err);

    if (rc)
        return rc;
    more = mem_realloc(*names, (size_t)(*n + k) + 1, sizeof *more);
    if (!more) {
        file_match_free(list, k);
        return no_memory(err);
    }
    *names = more;
    for (int64_t i = 0; i < k; i++) {
        bool known = false;
        list[i][strlen(list[i]) - strlen(".json")] = '\0';
        for (int64_t j = 0; j < *n && !known; j++)
            known = strcmp(more[j], list[i]) == 0;
        if (known)
            mem_free(list[i]);
        else
            more[(*n)++] = list[i];
    }
    mem_free(list);
    return B2_OK;
}

enum b2_status task_names(char ***names, int64_t *n, const struct task_place *place,
                          struct b2_err *err)
{
    struct str dir = {0};
    enum b2_status rc = B2_OK;

    *names = NULL;
    *n = 0;
    installed_dir(&dir);
    if (place && place->task_dir)
        rc = add_names(names, n, place->task_dir, err);
    if (!rc && dir.len > 0)
        rc = add_names(names, n, dir.data, err);
    str_free(&dir);
    if (!rc && *n > 0)
        qsort(*names, (size_t)*n, sizeof **names, compare_names);
    if (rc) {
        file_match_free(*names, *n);
        *names = NULL;
        *n = 0;
    }
    return rc;
}

static enum b2_status unknown_task(const char *name, const struct task_place *place,
                                   struct b2_err *err)
{
    char **names = NULL;
    int64_t n = 0;
    struct str list = {0};

    if (task_names(&names, &n, place, NULL) == B2_OK)
        for (int64_t i = 0; i < n; i++)
            str_printf(&list, "%s%s", i ? ", " : "", names[i]);
    file_match_free(names, n);
    err_set(err, B2_ENOTFOUND, "no task '%s'; there are: %s", name,
            str_ok(&list) && list.len
                ? list.data
                : "none (is the program installed with its tasks?)");
    str_free(&list);
    return B2_ENOTFOUND;
}

/* ---- opening ---- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && strcmp(s + n - k, end) == 0;
}

/* "a/b/questions.csv" gives "questions". */
static enum b2_status base_name(struct str *out, const char *path, struct b2_err *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strchr(name, '.');

    str_putn(out, name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
    return str_ok(out) ? B2_OK : no_memory(err);
}

static enum b2_status read_description(struct task *t, const char *path,
                                       const char *name, struct b2_err *err)
{
    char *text = NULL;
    size_t n = 0;
    enum b2_status rc = file_read_all(&text, &n, path, TASK_MAX_TEXT, err);

    if (rc)
        return rc;
    rc = task_desc_parse(&t->d, name, text, n, t->o.chat, err);
    if (rc)
        err_wrap(err, "%s", path);
    mem_free(text);
    if (!rc && t->o.shots < 0)
        t->o.shots = t->d.shots;
    if (!rc && t->o.shots > 0 && t->d.kind == TASK_GENERATE && !t->d.target)
        rc = err_set(err, B2_EARG, "%s takes no examples: --shots must be 0", name);
    return rc;
}

/* A built-in description under another name. */
static enum b2_status read_built_in(struct task *t, const char *which, const char *path,
                                    const struct task_place *place, struct b2_err *err)
{
    struct str file = {0}, name = {0};
    enum b2_status rc;

    find_description(&file, which, place);
    rc = base_name(&name, path, err);
    if (!rc)
        rc = str_ok(&file) && file.len > 0
                 ? read_description(t, file.data, name.data, err)
                 : unknown_task(which, place, err);
    str_free(&file);
    str_free(&name);
    return rc;
}

/* A user's own questions: two columns, or choices too. */
static enum b2_status open_questions(struct task *t, const char *path,
                                     const struct task_place *place, struct b2_err *err)
{
    struct table rows = {0};
    enum b2_status rc = task_own_read(&rows, path, err);

    if (!rc)
        rc = read_built_in(
            t, cJSON_HasObjectItem(rows.row[0], "choices") ? "own_choice" : "own", path,
            place, err);
    if (!rc && !(t->group = mem_calloc(1, sizeof *t->group)))
        rc = no_memory(err);
    if (!rc && t->group) {
        t->n_groups = 1;
        t->group[0].rows = rows;
        t->group[0].name = mem_strdup("");
        return t->group[0].name ? B2_OK : no_memory(err);
    }
    table_free(&rows);
    return rc;
}

static enum b2_status open_named(struct task *t, const char *name,
                                 const struct task_place *place, struct b2_err *err)
{
    struct str path = {0}, dir = {0};
    enum b2_status rc;

    find_description(&path, name, place);
    rc = str_ok(&path) && path.len > 0 ? read_description(t, path.data, name, err)
                                       : unknown_task(name, place, err);
    str_free(&path);
    if (rc)
        return rc;
    task_data_dir(&dir, place);
    if (dir.len == 0 && t->d.data && t->d.data[0] != '/')
        rc =
            err_set(err, B2_ENOTFOUND,
                    "%s: no folder of data: give --data DIR (or B2_DATA) that holds %s",
                    name, t->d.data ? t->d.data : "it");
    if (!rc)
        rc = task_groups_read(t, t->d.data && t->d.data[0] == '/' ? NULL : dir.data,
                              err);
    if (rc == B2_ENOTFOUND && dir.len > 0)
        err_wrap(err,
                 "%s: its data are missing; --data DIR (or B2_DATA) names the folder "
                 "that holds them",
                 name);
    str_free(&dir);
    return rc;
}

/* A description of the user's; its data lie where it says, else beside it. */
static enum b2_status open_description(struct task *t, const char *path,
                                       const struct task_place *place,
                                       struct b2_err *err)
{
    const char *slash = strrchr(path, '/');
    struct str name = {0}, dir = {0};
    enum b2_status rc = base_name(&name, path, err);

    if (!rc)
        rc = read_description(t, path, name.data, err);
    if (place && place->data_dir)
        str_put(&dir, place->data_dir);
    else if (slash)
        str_putn(&dir, path, (size_t)(slash - path));
    if (!rc && !str_ok(&dir))
        rc = no_memory(err);
    if (!rc)
        rc = task_groups_read(
            t, dir.len == 0 || (t->d.data && t->d.data[0] == '/') ? NULL : dir.data,
            err);
    str_free(&name);
    str_free(&dir);
    return rc;
}

/* Choices without a "chance": a guess is right once in their number, on the mean. */
static void set_chance(struct task *t)
{
    double sum = 0.0;

    if (t->d.kind != TASK_CHOICE || cJSON_HasObjectItem(t->d.json, "chance"))
        return;
    for (int64_t i = 0; i < t->n_items; i++) {
        const cJSON *row = task_row(t, i);
        int n = t->d.n_choices ? t->d.n_choices
                               : cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(
                                     row, t->d.choices_column));
        sum += n > 0 ? 1.0 / n : 0.0;
    }
    t->d.chance = t->n_items > 0 ? sum / (double)t->n_items : 0.0;
}

enum b2_status task_open(struct task **out, const char *name,
                         const struct task_place *place, const struct task_options *o,
                         struct b2_err *err)
{
    static const char *const tables[] = {".csv", ".tsv", ".jsonl", ".csv.gz",
                                         ".jsonl.gz"};
    struct task *t = mem_calloc(1, sizeof *t);
    bool table = false;
    enum b2_status rc;

    if (!t)
        return no_memory(err);
    t->o = *o;
    for (size_t i = 0; i < countof(tables); i++)
        table = table || ends_with(name, tables[i]);
    if (table)
        rc = open_questions(t, name, place, err);
    else if (ends_with(name, ".json"))
        rc = open_description(t, name, place, err);
    else if (ends_with(name, ".txt")) {
        rc = read_built_in(t, "lambada", name, place, err);
        if (!rc)
            rc = task_groups_from_text(t, name, err);
    } else {
        rc = open_named(t, name, place, err);
    }
    if (!rc && (rc = task_draw(t, err)) != B2_OK)
        err_wrap(err, "%s", name);
    if (!rc)
        set_chance(t);
    if (rc) {
        task_free(t);
        return rc;
    }
    *out = t;
    return B2_OK;
}

/* ---- what a task is ---- */

const char *task_name(const struct task *t)
{
    return t->d.name;
}

enum task_kind task_kind(const struct task *t)
{
    return t->d.kind;
}

enum task_check task_check(const struct task *t)
{
    return t->d.check;
}

int64_t task_items(const struct task *t)
{
    return t->n_items;
}

int64_t task_total(const struct task *t)
{
    return t->n_total;
}

int64_t task_shots(const struct task *t)
{
    return t->o.shots;
}

const char *task_id(const struct task *t, int64_t i)
{
    return t->item[i].id;
}

const cJSON *task_row(const struct task *t, int64_t i)
{
    return t->group[t->item[i].group].rows.row[t->item[i].row];
}

int task_metrics(const struct task *t, const char *names[ITEM_SCORES])
{
    for (int i = 0; i < t->d.n_metrics; i++)
        names[i] = t->d.metric[i].name;
    return t->d.n_metrics;
}

double task_chance(const struct task *t)
{
    return t->d.chance;
}

int64_t task_max_tokens(const struct task *t)
{
    return t->d.max_tokens;
}

const char *const *task_stops(const struct task *t, int *n)
{
    *n = t->d.n_stops;
    return t->d.stop;
}

const cJSON *task_description(const struct task *t)
{
    return t->d.json;
}

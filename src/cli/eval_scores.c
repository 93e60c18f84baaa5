/*
 * eval_scores.c - reading kept answers.
 */
#include "cli/eval_scores.h"

#include "base/file.h"
#include "base/file_append.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

bool eval_word(char *out, size_t size, const char *list, int i)
{
    const char *p = list;

    for (; i > 0 && p; i--) {
        p = strchr(p, ',');
        p = p ? p + 1 : NULL;
    }
    if (!p || size == 0)
        return false;
    p += strspn(p, " "); /* "a, b" */
    size_t n = strcspn(p, ",");
    if (n >= size)
        n = size - 1;
    memcpy(out, p, n);
    out[n] = '\0';
    return true;
}

static bool in_list(const char *list, const char *name)
{
    char word[128];

    for (int i = 0; eval_word(word, sizeof word, list, i); i++)
        if (strcmp(word, name) == 0)
            return true;
    return false;
}

bool eval_scores_is_folder(const char *path)
{
    char **names = NULL;
    int64_t n = 0;
    struct str config = {0};
    bool is = false;

    if (!file_is_dir(path))
        return false;
    str_printf(&config, "%s/config.json", path);
    if (str_ok(&config) && !file_exists(config.data) &&
        file_match(&names, &n, path, "*.jsonl", NULL) == B2_OK) {
        is = n > 0;
        file_match_free(names, n);
    }
    str_free(&config);
    return is;
}

void eval_scores_free(struct eval_scores *s)
{
    for (int i = 0; i < s->n; i++)
        item_set_free(&s->set[i]);
    mem_free(s->set);
    *s = (struct eval_scores){0};
}

const struct item_set *eval_scores_find(const struct eval_scores *s, const char *task)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->set[i].task, task) == 0)
            return &s->set[i];
    return NULL;
}

/* Reads one file and keeps it when its task is wanted. */
static enum b2_status add_file(struct eval_scores *s, const char *path,
                               const char *tasks, const struct log *log,
                               struct b2_err *err)
{
    struct item_set set = {0};
    bool whole = true;
    enum b2_status rc = item_set_read(&set, path, &whole, err);

    if (rc)
        return rc;
    if (tasks && !in_list(tasks, set.task)) {
        item_set_free(&set);
        return B2_OK;
    }
    if (eval_scores_find(s, set.task)) {
        rc = err_set(err, B2_EARG, "%s: a second file of the task %s", path, set.task);
        item_set_free(&set);
        return rc;
    }
    if (!whole)
        log_line(log, LOG_WARN, "%s: an interrupted run, %lld items are there", path,
                 (long long)set.n);
    s->set[s->n++] = set;
    return B2_OK;
}

static enum b2_status read_files(struct eval_scores *s, const char *folder,
                                 char *const *names, int64_t n, const char *tasks,
                                 const struct log *log, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    s->set = mem_calloc((size_t)n + 1, sizeof *s->set);
    if (!s->set)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < n && !rc; i++) {
        struct str path = {0};
        str_printf(&path, "%s/%s", folder, names[i]);
        rc = str_ok(&path) ? add_file(s, path.data, tasks, log, err)
                           : err_set(err, B2_ENOMEM, "out of memory");
        str_free(&path);
    }
    return rc;
}

static int by_task(const void *a, const void *b)
{
    return strcmp(((const struct item_set *)a)->task,
                  ((const struct item_set *)b)->task);
}

void eval_scores_sort(struct eval_scores *s)
{
    if (s->n > 1)
        qsort(s->set, (size_t)s->n, sizeof *s->set, by_task);
}

enum b2_status eval_scores_read(struct eval_scores *out, const char *folder,
                                const char *tasks, const struct log *log,
                                struct b2_err *err)
{
    struct eval_scores s = {0};
    char **names = NULL;
    char word[128];
    int64_t n = 0;
    enum b2_status rc = file_match(&names, &n, folder, "*.jsonl", err);

    if (!rc)
        rc = read_files(&s, folder, names, n, tasks, log, err);
    file_match_free(names, n);
    for (int i = 0; !rc && tasks && eval_word(word, sizeof word, tasks, i); i++)
        if (!eval_scores_find(&s, word))
            rc = err_set(err, B2_ENOTFOUND, "%s: no scores of the task %s in there",
                         folder, word);
    if (rc) {
        eval_scores_free(&s);
        return rc;
    }
    eval_scores_sort(&s);
    *out = s;
    return B2_OK;
}

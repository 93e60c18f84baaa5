/*
 * eval_tasks.c - the road from names of tasks to answers of a model.
 */
#include "cli/eval_tasks.h"

#include "base/file.h"
#include "base/mem.h"
#include "eval/task_run.h"
#include "model/chat.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TASKS = 64 };

/* One model being asked. */
struct asking {
    struct eval_tasks *t;
    struct eval_side side;
    struct chat *chat;
    struct task *task[MAX_TASKS];
    int n;
};

static void asking_free(struct asking *a)
{
    for (int i = 0; i < a->n; i++)
        task_free(a->task[i]);
    chat_free(a->chat);
    eval_side_close(&a->side);
}

static enum b2_status open_tasks(struct asking *a, struct b2_err *err)
{
    const struct eval_tasks *t = a->t;
    const struct task_place place = {t->task_dir, t->data_dir};
    const struct task_options o = {.limit = t->limit,
                                   .shots = t->shots,
                                   .seed = (uint64_t)t->env.common.seed,
                                   .chat = t->chat};
    char word[1024];
    enum b2_status rc = B2_OK;

    for (int i = 0; !rc && eval_word(word, sizeof word, t->names, i); i++) {
        if (a->n == MAX_TASKS)
            return err_set(err, B2_EARG, "more than %d tasks", MAX_TASKS);
        rc = task_open(&a->task[a->n], word, &place, &o, err);
        a->n += rc == B2_OK;
    }
    return rc;
}

static struct task_run_params params_of(const struct asking *a, const char *path)
{
    const struct eval_tasks *t = a->t;

    return (struct task_run_params){.chat = a->chat,
                                    .model = path,
                                    .exact = t->exact,
                                    .cache = eval_cache_kept(t->cache),
                                    .samples = t->samples,
                                    .temperature = t->temperature,
                                    .seed = (uint64_t)t->env.common.seed,
                                    .max_tokens = t->max_tokens,
                                    .allow_code = t->allow_code,
                                    .force = t->anew};
}

/* A session that holds the longest item, as far as the model was trained. */
static enum b2_status open_session(struct asking *a, const char *path,
                                   struct b2_err *err)
{
    const struct task_run_params p = params_of(a, path);
    int64_t ctx = 1;
    enum b2_status rc = B2_OK;

    for (int i = 0; i < a->n && !rc; i++) {
        int64_t need = 0;
        rc = task_run_context(&need, a->task[i], a->side.model, &p, err);
        ctx = max_i64(ctx, need);
    }
    if (rc)
        return rc;
    ctx = min_i64(ctx, a->side.model->hp.ctx_train);
    return eval_side_session(&a->side, &a->t->env, ctx, err);
}

/* DIR/MODEL/TASK.jsonl, folders made. Empty without --scores. */
static enum b2_status scores_path(struct str *out, const struct asking *a,
                                  const char *path, const struct task *task,
                                  struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    if (!a->t->scores)
        return B2_OK;
    str_printf(out, "%s/%s", a->t->scores, eval_name(path));
    if (str_ok(out))
        rc = file_make_dir(out->data, err);
    str_printf(out, "/%s.jsonl", task_name(task));
    return rc || str_ok(out) ? rc : err_set(err, B2_ENOMEM, "out of memory");
}

static enum b2_status ask(struct asking *a, struct item_set *out, const char *path,
                          struct task *task, struct b2_err *err)
{
    struct task_run_params p = params_of(a, path);
    struct eval_cancel cancel = {a->side.s, NULL};
    struct progress pr = cli_progress(&a->t->env.common, task_name(task), "score",
                                      (uint64_t)max_i64(1, task_items(task)));
    struct str file = {0};
    enum b2_status rc = scores_path(&file, a, path, task, err);

    if (rc) {
        str_free(&file);
        return rc;
    }
    p.scores = file.data;
    cli_on_interrupt(eval_cancel_both, &cancel);
    rc = task_run(out, task, a->side.s, &p, &pr, err);
    cli_on_interrupt(NULL, NULL);
    str_free(&file);
    return rc;
}

enum b2_status eval_tasks_run(struct eval_scores *out, struct eval_tasks *t,
                              const char *path, struct b2_err *err)
{
    struct asking a = {.t = t, .side.cache = t->cache};
    struct eval_scores s = {0};
    enum b2_status rc = eval_side_model(&a.side, &t->env, path, t->exact, err);

    if (!rc && t->chat)
        rc = chat_new(&a.chat, modelfile_meta(a.side.model->mf), NULL, err);
    if (!rc)
        rc = open_tasks(&a, err);
    if (!rc)
        rc = open_session(&a, path, err);
    if (!rc) {
        s.model_bytes = modelfile_bytes(a.side.model->mf);
        s.set = mem_calloc((size_t)a.n + 1, sizeof *s.set);
        if (!s.set) {
            err_set(err, B2_ENOMEM, "out of memory");
            rc = B2_ENOMEM;
        }
    }
    for (int i = 0; i < a.n && !rc; i++)
        rc = ask(&a, &s.set[s.n++], path, a.task[i], err);
    asking_free(&a);
    if (rc) {
        eval_scores_free(&s);
        return rc;
    }
    eval_scores_sort(&s);
    *out = s;
    return B2_OK;
}

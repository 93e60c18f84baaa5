/*
 * cmd_eval_task.c - bonsai2 eval task: what a model can do, task by task.
 *
 * The work is in eval/task*.c; this opens the model, runs the tasks and prints.
 */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/file_append.h"
#include "base/mem.h"
#include "cli/cache_opts.h"
#include "cli/eval_cmd.h"
#include "eval/task_run.h"
#include "eval/task_sum.h"
#include "model/plan.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TASKS = 64, TASK_BATCH = 512 };

/* One task with what came out. */
struct entry {
    struct task *task;
    struct item_set set;
    struct task_sum sum;
    char *scores; /* file, or NULL */
    double seconds;
};

struct evaluation {
    struct cli_common common;
    const char *model_path, *tasks, *scores, *data, *task_dir, *report, *cache;
    struct opt_list include;
    int64_t limit, shots, samples, max_tokens, ctx;
    double temperature;
    bool chat, exact, allow_code, anew, force, list;

    struct log log;
    struct pool *pool;
    struct model *model;
    struct backend *be;
    struct session *session;
    struct chat *template;
    struct entry entry[MAX_TASKS];
    int n;
};

static const struct cmd command = {
    "eval task",
    "Measure what a model can do: choices by their likelihood, answers by checking "
    "them.",
    NULL,
    0,
    0,
    "bonsai2 eval task -m model.gguf --tasks arc_easy,hellaswag --limit 100"};

static int parse(struct evaluation *e, int argc, char **argv)
{
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE|DIR", &e->model_path, 0, 0, "Model to measure."},
        {OPT_STR, 0, "tasks", "NAME,...", &e->tasks, 0, 0,
         "Names (--list shows them) or files: your questions (.csv, .jsonl: columns "
         "question and answer), a text for cloze items (.txt), a description (.json)."},
        {OPT_INT, 'n', "limit", "N", &e->limit, 0, 1e9,
         "Items per task, drawn with --seed; 0: all. [0]"},
        {OPT_INT, 0, "shots", "N", &e->shots, 0, 100,
         "Examples before each question. [what the task says]"},
        {OPT_FLAG, 0, "chat", NULL, &e->chat, 0, 0,
         "Ask through the model's chat template."},
        {OPT_INT, 0, "samples", "N", &e->samples, 1, 256,
         "Answers per generated item, seeds --seed and up; scores are means. [1]"},
        {OPT_NUM, 0, "temp", "T", &e->temperature, 0, 100,
         "Temperature of generated answers; 0: greedy. [0]"},
        {OPT_INT, 0, "max-tokens", "N", &e->max_tokens, 1, 1 << 20,
         "Longest answer. [what the task says]"},
        {OPT_INT, 'c', "ctx", "N", &e->ctx, 16, 1 << 28,
         "Longest context; longer prompts lose their beginning. [what the items need]"},
        {OPT_STR, 0, "scores", "DIR", &e->scores, 0, 0,
         "Keep every item in DIR/TASK.jsonl; an interrupted run goes on from there."},
        {OPT_STR, 0, "data", "DIR", &e->data, 0, 0,
         "Folder of the data sets. [B2_DATA, else ../shared/data]"},
        {OPT_STR, 0, "task-dir", "DIR", &e->task_dir, 0, 0,
         "Folder of further descriptions (docs/EVAL.md)."},
        {OPT_FLAG, 0, "allow-code", NULL, &e->allow_code, 0, 0,
         "Run programs that the model writes, in a sandbox (HumanEval)."},
        {OPT_FLAG, 0, "exact", NULL, &e->exact, 0, 0,
         "Activations and sums in F32: slow, the yardstick."},
        {OPT_FLAG, 0, "list", NULL, &e->list, 0, 0, "List the tasks there are."},
        EVAL_CACHE_OPT(&e->cache),
        EVAL_ANEW_OPT(&e->anew),
        EVAL_REPORT_OPTS(&e->report, &e->include, &e->force),
        CLI_COMMON_OPTS(&e->common),
        {.kind = OPT_END},
    };
    int n_operands = 0, rc = cli_parse(&command, opts, argc, argv, &n_operands);

    if (rc != OPT_RUN || e->list)
        return rc;
    if (!e->model_path)
        return cli_usage_error(&command, "-m FILE is missing: the model to measure");
    if (!e->tasks || !e->tasks[0])
        return cli_usage_error(&command,
                               "--tasks is missing: --list shows what there is");
    if (e->samples > 1 && e->temperature <= 0.0)
        return cli_usage_error(&command,
                               "--samples above 1 needs --temp above 0: greedy "
                               "answers are all the same");
    return OPT_RUN;
}

static int list_tasks(const struct evaluation *e)
{
    const struct task_place place = {e->task_dir, e->data};
    struct b2_err err = {0};
    char **names = NULL;
    int64_t n = 0;

    if (task_names(&names, &n, &place, &err))
        return cli_report_error(&err);
    for (int64_t i = 0; i < n; i++)
        printf("%s\n", names[i]);
    file_match_free(names, n);
    return CLI_DONE;
}

/* ---- opening ---- */

static enum b2_status open_task(struct evaluation *e, const char *name,
                                struct b2_err *err)
{
    const struct task_place place = {e->task_dir, e->data};
    const struct task_options o = {.limit = e->limit,
                                   .shots = e->shots,
                                   .seed = (uint64_t)e->common.seed,
                                   .chat = e->chat};
    struct entry *x = &e->entry[e->n];
    struct str path = {0};
    enum b2_status rc;

    if (e->n == MAX_TASKS)
        return err_set(err, B2_EARG, "more than %d tasks", MAX_TASKS);
    rc = task_open(&x->task, name, &place, &o, err);
    if (rc)
        return rc;
    e->n++;
    for (int i = 0; i < e->n - 1; i++)
        if (strcmp(task_name(e->entry[i].task), task_name(x->task)) == 0)
            return err_set(err, B2_EARG, "task %s is named twice", name);
    if (!e->scores)
        return B2_OK;
    str_printf(&path, "%s/%s.jsonl", e->scores, task_name(x->task));
    x->scores = str_ok(&path) ? mem_strdup(path.data) : NULL;
    str_free(&path);
    return x->scores ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

static enum b2_status open_tasks(struct evaluation *e, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (const char *at = e->tasks; *at && !rc;) {
        at += strspn(at, " "); /* "a, b" */
        size_t n = strcspn(at, ",");
        char *name = mem_calloc(n + 1, 1);
        if (!name)
            return err_set(err, B2_ENOMEM, "out of memory");
        memcpy(name, at, n);
        if (n > 0)
            rc = open_task(e, name, err);
        mem_free(name);
        at += n + (at[n] == ',');
    }
    if (!rc && e->n == 0)
        rc = err_set(err, B2_EARG, "--tasks '%s' names no task", e->tasks);
    return rc;
}

static struct task_run_params run_params(const struct evaluation *e,
                                         const struct entry *x)
{
    return (struct task_run_params){.chat = e->template,
                                    .model = e->model_path,
                                    .exact = e->exact,
                                    .cache = eval_cache_kept(e->cache),
                                    .samples = e->samples,
                                    .temperature = e->temperature,
                                    .seed = (uint64_t)e->common.seed,
                                    .ctx = e->ctx,
                                    .max_tokens = e->max_tokens,
                                    .allow_code = e->allow_code,
                                    .scores = x->scores,
                                    .force = e->anew};
}

/* The context that the longest item of all tasks needs. */
static enum b2_status needed_context(struct evaluation *e, int64_t *ctx,
                                     struct b2_err *err)
{
    int64_t trained = e->model->hp.ctx_train, need = 16;
    enum b2_status rc = B2_OK;

    for (int i = 0; i < e->n && !rc; i++) {
        struct task_run_params p = run_params(e, &e->entry[i]);
        int64_t n = 0;
        rc = task_run_context(&n, e->entry[i].task, e->model, &p, err);
        need = max_i64(need, n);
    }
    if (e->ctx > 0)
        need = min_i64(need, e->ctx);
    *ctx = trained > 0 ? min_i64(need, trained) : need;
    return rc;
}

static enum b2_status open_model(struct evaluation *e, struct b2_err *err)
{
    struct model_params mp = {.log = &e->log};
    struct backend_config cfg = {.exact = e->exact, .log = &e->log};
    struct session_params sp = {.mem_limit = e->common.mem_limit,
                                .cache = cache_word_type(e->cache)};
    enum b2_status rc;

    e->pool = cli_pool(&e->common, err);
    if (!e->pool)
        return B2_ENOMEM;
    cfg.pool = e->pool;
    rc = model_open(&e->model, e->model_path, &mp, err);
    if (!rc && e->chat)
        rc = chat_new(&e->template, modelfile_meta(e->model->mf), NULL, err);
    if (!rc)
        rc = needed_context(e, &sp.ctx, err);
    if (!rc)
        rc = cli_cpu(&cfg.cpu, &e->common, err);
    if (!rc)
        rc = backend_cpu_new(&e->be, &cfg, err);
    sp.batch = min_i64(sp.ctx, TASK_BATCH);
    if (!rc)
        rc = session_new(&e->session, e->model, e->be, &sp, err);
    return rc;
}

static void close_all(struct evaluation *e)
{
    for (int i = 0; i < e->n; i++) {
        task_free(e->entry[i].task);
        item_set_free(&e->entry[i].set);
        mem_free(e->entry[i].scores);
    }
    session_free(e->session);
    backend_free(e->be);
    chat_free(e->template);
    model_close(e->model);
    pool_free(e->pool);
}

/* ---- running and printing ---- */

static void interrupt(void *ctx)
{
    session_cancel(ctx);
}

static enum b2_status run_tasks(struct evaluation *e, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int i = 0; i < e->n && !rc; i++) {
        struct entry *x = &e->entry[i];
        struct task_run_params p = run_params(e, x);
        struct progress pr = cli_progress(&e->common, task_name(x->task), "score",
                                          (uint64_t)task_items(x->task));
        double start_s = clock_s();
        rc = task_run(&x->set, x->task, e->session, &p, &pr, err);
        x->seconds = clock_s() - start_s;
        if (!rc)
            task_sum_make(&x->sum, &x->set);
        if (rc == B2_ECANCEL && x->scores)
            err_wrap(err, "%lld of %lld items of %s are in %s; run again to go on",
                     (long long)x->set.n, (long long)task_items(x->task),
                     task_name(x->task), x->scores);
    }
    return rc;
}

static cJSON *entry_json(const struct entry *x)
{
    const struct task_sum *s = &x->sum;
    cJSON *o = cJSON_CreateObject(), *m;

    cJSON_AddStringToObject(o, "name", x->set.task);
    cJSON_AddNumberToObject(o, "n", (double)x->set.n);
    cJSON_AddNumberToObject(o, "total", (double)task_total(x->task));
    cJSON_AddStringToObject(o, "metric", x->set.metric);
    cJSON_AddNumberToObject(o, "score", s->mean);
    cJSON_AddNumberToObject(o, "ci_low", s->low);
    cJSON_AddNumberToObject(o, "ci_high", s->high);
    cJSON_AddNumberToObject(o, "chance", x->set.chance);
    m = cJSON_AddObjectToObject(o, "metrics");
    for (int k = 0; k < x->set.n_metrics; k++)
        cJSON_AddNumberToObject(m, x->set.metrics[k], item_set_mean(&x->set, k));
    if (s->ppl > 0.0)
        cJSON_AddNumberToObject(o, "answer_ppl", s->ppl);
    cJSON_AddNumberToObject(o, "cut_prompts", (double)s->n_cut);
    if (task_kind(x->task) == TASK_GENERATE)
        cJSON_AddNumberToObject(o, "unfinished_answers", (double)s->n_unfinished);
    cJSON_AddNumberToObject(o, "seconds", x->seconds);
    cJSON_AddItemToObject(o, "settings", cJSON_Parse(x->set.settings));
    cJSON_AddStringToObject(o, "prompt_sha256", x->set.prompt_sha256);
    if (x->scores)
        cJSON_AddStringToObject(o, "scores", x->scores);
    return o;
}

static cJSON *result_json(const struct evaluation *e)
{
    cJSON *o = cJSON_CreateObject(), *list;

    cJSON_AddStringToObject(o, "measure", "task");
    cJSON_AddStringToObject(o, "model", e->model_path);
    cJSON_AddNumberToObject(o, "model_bytes", (double)modelfile_bytes(e->model->mf));
    cJSON_AddStringToObject(o, "fingerprint", e->model->fingerprint);
    eval_json_weights(o, "weights_sha256", e->entry[0].set.settings);
    cJSON_AddBoolToObject(o, "exact", e->exact);
    cJSON_AddStringToObject(o, "cache", e->cache);
    cJSON_AddBoolToObject(o, "chat", e->chat);
    cJSON_AddNumberToObject(o, "seed", (double)e->common.seed);
    cJSON_AddNumberToObject(o, "ctx", (double)session_ctx(e->session));
    cJSON_AddNumberToObject(o, "threads", pool_threads(e->pool));
    cJSON_AddStringToObject(o, "kernel", backend_kernel_name(e->be));
    cJSON_AddStringToObject(o, "version", B2_VERSION);
    list = cJSON_AddArrayToObject(o, "tasks");
    for (int i = 0; i < e->n; i++)
        cJSON_AddItemToArray(list, entry_json(&e->entry[i]));
    return o;
}

static int name_width(const struct evaluation *e)
{
    int64_t n = eval_width("task");

    for (int i = 0; i < e->n; i++)
        n = max_i64(n, eval_width(e->entry[i].set.task));
    return (int)n;
}

static void print_entry(const struct entry *x, int width)
{
    const struct item_set *s = &x->set;
    char chance[16] = "-";

    if (s->chance > 0.0)
        (void)snprintf(chance, sizeof chance, "%.1f %%", 100.0 * s->chance);
    eval_cell(s->task, width);
    printf("  %6lld  %-18s  %5.1f %%  %5.1f to %5.1f  %7s  %6.0f s\n", (long long)s->n,
           s->metric, 100.0 * x->sum.mean, 100.0 * x->sum.low, 100.0 * x->sum.high,
           chance, x->seconds);
    for (int k = 1; k < s->n_metrics; k++)
        printf("%-*s  %6s  %-18s  %5.1f %%\n", width, "", "", s->metrics[k],
               100.0 * item_set_mean(s, k));
    if (x->sum.n_cut > 0)
        printf("%-*s  prompts that were too long and lost their beginning: %lld\n",
               width, "", (long long)x->sum.n_cut);
    if (x->sum.n_unfinished > 0)
        printf("%-*s  answers that ran into their limit of tokens: %lld\n", width, "",
               (long long)x->sum.n_unfinished);
}

static void print_table(const struct evaluation *e)
{
    int width = name_width(e);

    printf("%-*s  %6s  %-18s  %7s  %14s  %7s  %8s\n", width, "task", "items", "metric",
           "score", "95 % interval", "chance", "time");
    for (int i = 0; i < e->n; i++)
        print_entry(&e->entry[i], width);
    printf("%s, %s, %s activations, seed %lld, context %lld, fingerprint %.12s\n",
           e->model_path, e->chat ? "chat template" : "plain prompts",
           e->exact ? "F32" : "8-bit", (long long)e->common.seed,
           (long long)session_ctx(e->session), e->model->fingerprint);
}

static enum b2_status make_scores_dir(const struct evaluation *e, struct b2_err *err)
{
    return e->scores ? file_make_dir(e->scores, err) : B2_OK;
}

int cmd_eval_task(int argc, char **argv)
{
    struct evaluation e = {.shots = -1, .samples = 1, .cache = "f16"};
    struct b2_err err = {0};
    int code = parse(&e, argc, argv);
    enum b2_status rc;

    if (code != OPT_RUN)
        return code;
    if (e.list)
        return list_tasks(&e);
    e.log = cli_log(&e.common);
    rc = eval_check_report(e.report, &e.include, e.force, &err);
    if (!rc)
        rc = open_tasks(&e, &err);
    if (!rc)
        rc = make_scores_dir(&e, &err);
    if (!rc)
        rc = open_model(&e, &err);
    if (!rc) {
        cli_on_interrupt(interrupt, e.session);
        rc = run_tasks(&e, &err);
        cli_on_interrupt(NULL, NULL);
    }
    if (rc) {
        code = cli_report_error(&err);
    } else {
        if (!e.common.json)
            print_table(&e);
        code = eval_finish(&e.common, result_json(&e), e.report, &e.include, e.force);
    }
    close_all(&e);
    return code;
}

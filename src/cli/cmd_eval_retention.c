/*
 * cmd_eval_retention.c - bonsai2 eval retention: the worst task first.
 */
#include "base/file.h"
#include "base/mem.h"
#include "cli/eval_scores.h"
#include "cli/eval_tasks.h"
#include "eval/retention.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

enum { MIN_NAME = 16, MAX_NAME = 40, METRIC = 10 }; /* columns */

struct ret {
    struct eval_tasks tasks; /* what is asked, how, and where answers are kept */
    struct opt_list models, include;
    const char *baseline, *report;
    struct eval_scores base;
    cJSON *results;
};

static const struct cmd command = {
    .name = "eval retention",
    .summary = "Compare models with a baseline on the same items of some tasks: what "
               "share of its ability is left, task by task, with 95 % intervals. Model "
               "and baseline may each be a folder of kept scores.",
    .example = "bonsai2 eval retention --baseline model.gguf -m small.gguf --tasks "
               "hellaswag,arc_easy,piqa --limit 200 --scores scores "
               "--report retention.html",
};

static void add_interval(cJSON *j, const char *low, const char *high, struct interval v)
{
    cJSON_AddNumberToObject(j, low, v.low);
    cJSON_AddNumberToObject(j, high, v.high);
}

static cJSON *task_json(const struct retention_task *t)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "name", t->name);
    cJSON_AddStringToObject(j, "metric", t->metric);
    cJSON_AddNumberToObject(j, "n", (double)t->n);
    cJSON_AddNumberToObject(j, "n_unpaired", (double)t->n_unpaired);
    cJSON_AddNumberToObject(j, "baseline", t->baseline);
    cJSON_AddNumberToObject(j, "candidate", t->candidate);
    cJSON_AddNumberToObject(j, "retention", t->retention);
    add_interval(j, "ci_low", "ci_high", t->ci);
    cJSON_AddNumberToObject(j, "chance", t->chance);
    cJSON_AddBoolToObject(j, "at_chance", t->at_chance);
    cJSON_AddNumberToObject(j, "corrected", t->corrected);
    add_interval(j, "corrected_ci_low", "corrected_ci_high", t->corrected_ci);
    cJSON_AddNumberToObject(j, "better", (double)t->n_up);
    cJSON_AddNumberToObject(j, "worse", (double)t->n_down);
    cJSON_AddNumberToObject(j, "mcnemar_p", t->mcnemar_p);
    cJSON_AddNumberToObject(j, "n_needed", (double)t->n_needed);
    cJSON_AddBoolToObject(j, "prompts_differ", t->prompts_differ);
    return j;
}

/* The warning in words; empty when there is nothing to warn of. */
static void warning(struct str *out, const struct retention *r)
{
    const struct retention_task *t = &r->task[0];

    if (r->hidden_collapse)
        str_printf(out,
                   "The mean of %.1f %% hides a collapse: on %s only %.1f %% of the "
                   "baseline's score is left (95 %%: %.1f to %.1f %%).",
                   100.0 * r->mean, t->name, 100.0 * t->retention, 100.0 * t->ci.low,
                   100.0 * t->ci.high);
}

static void add_settings(cJSON *j, const struct item_set *set)
{
    cJSON *settings = cJSON_Parse(set->settings);

    if (settings)
        cJSON_AddItemToObject(j, "settings", settings);
    cJSON_AddStringToObject(j, "prompt_sha256", set->prompt_sha256);
}

static cJSON *result_json(const struct ret *q, const struct retention *r,
                          const struct eval_scores *cand)
{
    cJSON *j = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(j, "tasks");
    struct str words = {0};

    for (int i = 0; i < r->n; i++) {
        cJSON *t = task_json(&r->task[i]);
        add_settings(t, eval_scores_find(cand, r->task[i].name));
        cJSON_AddItemToArray(list, t);
    }
    cJSON_AddStringToObject(j, "measure", "retention");
    if (r->n_counted > 0) {
        cJSON_AddNumberToObject(j, "mean_retention", r->mean);
        add_interval(j, "mean_ci_low", "mean_ci_high", r->mean_ci);
        cJSON_AddNumberToObject(j, "geometric_mean", r->geometric);
        cJSON_AddNumberToObject(j, "mean_corrected", r->mean_corrected);
        cJSON_AddStringToObject(j, "worst_task", r->task[0].name);
    } else {
        cJSON_AddNullToObject(j, "mean_retention");
        cJSON_AddNullToObject(j, "worst_task");
    }
    cJSON_AddNumberToObject(j, "tasks_counted", r->n_counted);
    warning(&words, r);
    if (words.len > 0)
        cJSON_AddStringToObject(j, "warning", words.data);
    str_free(&words);
    cJSON_AddStringToObject(j, "model", cand->set[0].model);
    cJSON_AddStringToObject(j, "fingerprint", cand->set[0].fingerprint);
    eval_json_weights(j, "weights_sha256", cand->set[0].settings);
    if (cand->model_bytes)
        cJSON_AddNumberToObject(j, "model_bytes", (double)cand->model_bytes);
    cJSON_AddStringToObject(j, "baseline", q->base.set[0].model);
    cJSON_AddStringToObject(j, "fingerprint_baseline", q->base.set[0].fingerprint);
    eval_json_weights(j, "weights_sha256_baseline", q->base.set[0].settings);
    if (q->base.model_bytes)
        cJSON_AddNumberToObject(j, "baseline_bytes", (double)q->base.model_bytes);
    cJSON_AddNumberToObject(j, "resamples", BOOTSTRAP_RESAMPLES);
    cJSON_AddNumberToObject(j, "seed", (double)q->tasks.env.common.seed);
    cJSON_AddStringToObject(j, "version", B2_VERSION);
    return j;
}

/* Of the column of names. */
static int name_width(const struct retention *r)
{
    int64_t width = MIN_NAME;

    for (int i = 0; i < r->n; i++)
        width = max_i64(width, eval_width(r->task[i].name));
    return (int)min_i64(width, MAX_NAME);
}

static void print_task(const struct retention_task *t, int width)
{
    char p[16];

    snprintf(p, sizeof p, t->mcnemar_p < 0.001 ? "< 0.001" : "%.3f", t->mcnemar_p);
    eval_cell(t->name, width);
    putchar(' ');
    eval_cell(t->metric, METRIC);
    printf(" %6lld %8.1f %9.1f ", (long long)t->n, 100.0 * t->baseline,
           100.0 * t->candidate);
    if (t->at_chance)
        printf("%9s  %s", "-", "the baseline is no better than a guess: left out\n");
    else
        printf("%7.1f %%  %5.1f - %5.1f %9.1f %% %4lld/%-4lld %8s %9lld\n",
               100.0 * t->retention, 100.0 * t->ci.low, 100.0 * t->ci.high,
               100.0 * t->corrected, (long long)t->n_up, (long long)t->n_down, p,
               (long long)t->n_needed);
}

/* An interval of no width claims more than a few items can tell. */
static void note_unchanged(const struct retention *r)
{
    struct str names = {0};
    int64_t fewest = RETENTION_MIN_NEEDED;

    for (int i = 0; i < r->n; i++) {
        const struct retention_task *t = &r->task[i];
        if (t->at_chance || t->n_up + t->n_down > 0 || t->n >= RETENTION_MIN_NEEDED)
            continue;
        str_printf(&names, "%s%s", names.len ? ", " : "", t->name);
        fewest = min_i64(fewest, t->n);
    }
    if (names.len)
        printf("\nnote: no answer changed on %s; but %.1f %% of all answers may change "
               "unseen by %lld items (95 %%)\n",
               names.data, 100.0 * (1.0 - pow(0.05, 1.0 / (double)fewest)),
               (long long)fewest);
    str_free(&names);
}

static void print_notes(const struct retention *r)
{
    struct str words = {0};

    warning(&words, r);
    if (words.len > 0)
        printf("\nWARNING: %s\n", words.data);
    str_free(&words);
    for (int i = 0; i < r->n; i++) {
        const struct retention_task *t = &r->task[i];
        if (t->prompts_differ)
            printf("\nWARNING: %s: the two models were not asked the same prompts "
                   "(other settings, or another chat template)\n",
                   t->name);
        if (t->n_unpaired > 0)
            printf("\nnote: %s: %lld items were answered by one model only and are "
                   "left out\n",
                   t->name, (long long)t->n_unpaired);
    }
}

static void print(const struct ret *q, const struct retention *r,
                  const struct eval_scores *cand)
{
    int width = name_width(r);

    printf("model      %s (%.12s)\nbaseline   %s (%.12s)\n\n", cand->set[0].model,
           cand->set[0].fingerprint, q->base.set[0].model, q->base.set[0].fingerprint);
    eval_cell("task", width);
    printf(" %-10s %6s %8s %9s %9s %14s %11s %9s %8s %9s\n", "metric", "items",
           "baseline", "candidate", "retained", "95 % interval", "over chance",
           "up/down", "McNemar", "for +-1");
    for (int i = 0; i < r->n; i++)
        print_task(&r->task[i], width);
    puts("");
    if (r->n_counted > 0)
        printf("worst      %s: %.1f %% (%.1f to %.1f)\n"
               "mean       %.1f %% (%.1f to %.1f), geometric %.1f %%, over chance "
               "%.1f %%; %d of %d tasks count\n",
               r->task[0].name, 100.0 * r->task[0].retention, 100.0 * r->task[0].ci.low,
               100.0 * r->task[0].ci.high, 100.0 * r->mean, 100.0 * r->mean_ci.low,
               100.0 * r->mean_ci.high, 100.0 * r->geometric, 100.0 * r->mean_corrected,
               r->n_counted, r->n);
    else
        puts("mean       none: the baseline is no better than a guess on every task");
    print_notes(r);
    note_unchanged(r);
    puts("");
}

/* Pairs the tasks that both have; without --tasks those of the baseline that the
 * candidate has too. */
static enum b2_status compare(struct ret *q, const struct eval_scores *cand,
                              struct b2_err *err)
{
    struct item_set *a = mem_calloc((size_t)q->base.n + 1, sizeof *a);
    struct item_set *b = mem_calloc((size_t)q->base.n + 1, sizeof *b);
    struct retention r = {0};
    enum b2_status rc = B2_OK;
    int n = 0;

    if (!a || !b) {
        mem_free(a);
        mem_free(b);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    for (int i = 0; i < q->base.n && !rc; i++) {
        const struct item_set *other = eval_scores_find(cand, q->base.set[i].task);
        if (!other) {
            log_line(&q->tasks.env.log, LOG_WARN, "%s: only the baseline has scores",
                     q->base.set[i].task);
            continue;
        }
        a[n] = q->base.set[i]; /* borrowed */
        b[n++] = *other;
    }
    if (!rc && n == 0)
        rc = err_set(err, B2_EARG, "model and baseline have no task in common");
    if (!rc)
        rc = retention_make(&r, a, b, n, (uint64_t)q->tasks.env.common.seed, err);
    if (!rc) {
        cJSON_AddItemToArray(q->results, result_json(q, &r, cand));
        if (!q->tasks.env.common.json)
            print(q, &r, cand);
    }
    retention_free(&r);
    mem_free(a);
    mem_free(b);
    return rc;
}

/* Reads what is kept in a folder, or asks a model. */
static enum b2_status scores_of(struct eval_scores *out, struct ret *q,
                                const char *path, struct b2_err *err)
{
    if (eval_scores_is_folder(path))
        return eval_scores_read(out, path, q->tasks.names, &q->tasks.env.log, err);
    return eval_tasks_run(out, &q->tasks, path, err);
}

static enum b2_status measure(struct ret *q, struct b2_err *err)
{
    enum b2_status rc = eval_check_report(q->report, &q->include, q->tasks.force, err);

    if (!rc && q->tasks.scores)
        rc = eval_names_differ(q->baseline, &q->models, err);
    if (!rc)
        rc = eval_env_open(&q->tasks.env, err);
    if (!rc)
        rc = scores_of(&q->base, q, q->baseline, err);
    for (int i = 0; i < q->models.n && !rc; i++) {
        struct eval_scores cand = {0};
        rc = scores_of(&cand, q, q->models.item[i], err);
        if (!rc)
            rc = compare(q, &cand, err);
        eval_scores_free(&cand);
    }
    return rc;
}

static int parse(struct ret *q, int argc, char **argv)
{
    const struct opt opts[] = {
        {OPT_LIST, 'm', "model", "FILE|DIR", &q->models, 0, 0,
         "Model, or folder of its kept scores; several are shown side by side."},
        {OPT_STR, 0, "baseline", "FILE|DIR", &q->baseline, 0, 0,
         "What to compare with, usually the original; a model or kept scores."},
        EVAL_TASK_OPTS(&q->tasks),
        EVAL_REPORT_OPTS(&q->report, &q->include, &q->tasks.force),
        CLI_COMMON_OPTS(&q->tasks.env.common),
        {.kind = OPT_END},
    };
    int n_operands = 0, code = cli_parse(&command, opts, argc, argv, &n_operands);

    if (code != OPT_RUN)
        return code;
    if (q->models.n == 0)
        return cli_usage_error(&command, "-m FILE is missing: the model to measure");
    if (!q->baseline)
        return cli_usage_error(&command,
                               "--baseline FILE is missing: the model to compare with");
    bool asks = !eval_scores_is_folder(q->baseline);
    for (int i = 0; i < q->models.n; i++)
        asks = asks || !eval_scores_is_folder(q->models.item[i]);
    if (asks && !q->tasks.names)
        return cli_usage_error(&command, "--tasks a,b,c is missing: what to ask");
    return OPT_RUN;
}

int cmd_eval_retention(int argc, char **argv)
{
    struct ret q = {.tasks = EVAL_TASKS_DEFAULT};
    struct b2_err err = {0};
    int code = parse(&q, argc, argv);

    if (code != OPT_RUN)
        return code;
    q.results = cJSON_CreateArray();
    if (measure(&q, &err))
        code = cli_report_error(&err);
    else
        code = eval_finish(&q.tasks.env.common, eval_join("retention", &q.results),
                           q.report, &q.include, q.tasks.force);
    cJSON_Delete(q.results);
    eval_scores_free(&q.base);
    eval_env_close(&q.tasks.env);
    return code;
}

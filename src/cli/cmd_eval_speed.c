/*
 * cmd_eval_speed.c - bonsai2 eval speed: what a user waits for, and the memory it takes.
 *
 * `bench` explores threads and batches; this measures one setting, the one that `run`
 * would take, for a report: start cold and warm, first token after a prompt, reading,
 * generating at several depths. One model a process, so that its peak is its own.
 */
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/eval_cmd.h"
#include "cli/eval_scores.h"
#include "eval/speed.h"
#include "eval/stats.h"
#include "model/plan.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { MAX_DEPTHS = 8, MAX_ROWS = MAX_DEPTHS + 1, MIN_RUNS = 3 };

struct speed_row {
    char test[48];
    int64_t n;
    struct speed_result speed;
};

struct speed {
    struct eval_env env;
    struct opt_list include;
    const char *model, *depth_words, *report;
    int64_t prompt, n_decode, runs, ctx;
    bool exact, no_cold, force;

    int64_t depth[MAX_DEPTHS];
    int n_depths;
    struct eval_side side;
    struct speed_row row[MAX_ROWS];
    int n_rows;
    double cold_s, warm_s, first_s; /* cold_s < 0: not measured */
    double cold_runs[SPEED_MAX_RUNS], warm_runs[SPEED_MAX_RUNS]; /* ms */
    struct plan plan;
    uint64_t peak;
    char processor[128];
};

static const struct cmd command = {
    .name = "eval speed",
    .summary =
        "Measure what a user waits for: start cold and warm, first token, "
        "reading, generating at several depths; and the memory it takes. Nothing "
        "else should run meanwhile.",
    .example = "bonsai2 eval speed -m small.gguf -p 128 -n 64 --depth 0,1024",
};

static double median(double *v, int64_t n)
{
    stats_sort(v, n);
    return stats_quantile(v, n, 0.5);
}

static enum b2_status interrupted(struct b2_err *err)
{
    return cli_interrupted() ? err_set(err, B2_ECANCEL, "interrupted") : B2_OK;
}

/* Starts of the program's part of the work: opening to the first token's logits. */
static enum b2_status measure_start(struct speed *s, struct b2_err *err)
{
    const struct backend_config cfg = {
        .pool = s->env.pool, .cpu = s->env.cpu, .exact = s->exact};
    const struct model_params mp = {0};
    double *cold_ms = s->cold_runs, *warm_ms = s->warm_runs, seconds = 0;
    bool cold = !s->no_cold;
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < s->runs && cold && !rc; i++) {
        rc = speed_forget(&cold, s->model, err);
        if (!rc && cold)
            rc = speed_load(&seconds, s->model, &mp, &cfg, err);
        cold_ms[i] = 1e3 * seconds;
        if (!rc)
            rc = interrupted(err);
    }
    if (!rc && !cold && !s->no_cold)
        log_line(&s->env.log, LOG_INFO,
                 "no cold start: the system keeps the file cached");
    for (int64_t i = -1; i < s->runs && !rc; i++) { /* the first is not counted */
        rc = speed_load(&seconds, s->model, &mp, &cfg, err);
        warm_ms[max_i64(i, 0)] = 1e3 * seconds;
        if (!rc)
            rc = interrupted(err);
    }
    if (rc)
        return rc;
    s->cold_s = cold ? 1e-3 * median(cold_ms, s->runs) : -1.0;
    s->warm_s = 1e-3 * median(warm_ms, s->runs);
    return B2_OK;
}

static enum b2_status measure_row(struct speed *s, enum speed_kind kind, int64_t n,
                                  int64_t depth, struct b2_err *err)
{
    struct speed_row *row = &s->row[s->n_rows];
    const struct speed_test t = {.kind = kind,
                                 .n = n,
                                 .depth = depth,
                                 .runs = (int)s->runs,
                                 .seed = (uint64_t)s->env.common.seed};
    enum b2_status rc = speed_session(&row->speed, s->side.s, &t, err);

    row->n = n;
    if (kind == SPEED_PREFILL)
        snprintf(row->test, sizeof row->test, "pp%lld", (long long)n);
    else if (depth > 0)
        snprintf(row->test, sizeof row->test, "tg%lld@%lld", (long long)n,
                 (long long)depth);
    else
        snprintf(row->test, sizeof row->test, "tg%lld", (long long)n);
    s->n_rows += rc == B2_OK;
    return rc;
}

static enum b2_status measure_session(struct speed *s, struct b2_err *err)
{
    enum b2_status rc = measure_row(s, SPEED_PREFILL, s->prompt, 0, err);

    if (!rc && s->row[0].speed.median_tps > 0)
        s->first_s = (double)s->prompt / s->row[0].speed.median_tps;
    for (int i = 0; i < s->n_depths && !rc; i++)
        rc = measure_row(s, SPEED_DECODE, s->n_decode, s->depth[i], err);
    return rc;
}

static enum b2_status measure(struct speed *s, struct b2_err *err)
{
    struct eval_cancel cancel = {0};
    enum b2_status rc = eval_check_report(s->report, &s->include, s->force, err);

    cpu_model_name(s->processor, sizeof s->processor);
    s->ctx = s->prompt;
    for (int i = 0; i < s->n_depths; i++)
        s->ctx = max_i64(s->ctx, s->depth[i] + s->n_decode);
    if (!rc)
        rc = eval_env_open(&s->env, err);
    cli_on_interrupt(eval_cancel_both, &cancel);
    if (!rc)
        rc = measure_start(s, err);
    if (!rc)
        rc = eval_side_model(&s->side, &s->env, s->model, s->exact, err);
    if (!rc)
        rc = eval_side_session(&s->side, &s->env, s->ctx, err);
    if (!rc)
        rc = plan_make(&s->plan, s->side.model, s->side.be, session_cache(s->side.s),
                       err);
    cancel.a = s->side.s;
    if (!rc)
        rc = measure_session(s, err);
    cli_on_interrupt(NULL, NULL);
    s->peak = file_peak_rss();
    return rc;
}

static void add_rows(cJSON *j, const struct speed *s)
{
    cJSON *rows = cJSON_AddArrayToObject(j, "rows");

    for (int i = 0; i < s->n_rows; i++) {
        const struct speed_row *r = &s->row[i];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToArray(rows, o);
        cJSON_AddStringToObject(o, "test", r->test);
        cJSON_AddNumberToObject(o, "threads", pool_threads(s->env.pool));
        cJSON_AddNumberToObject(o, "n", (double)r->n);
        cJSON_AddNumberToObject(o, "median_tps", r->speed.median_tps);
        cJSON_AddNumberToObject(o, "min_tps", r->speed.min_tps);
        cJSON_AddNumberToObject(o, "max_tps", r->speed.max_tps);
        cJSON_AddItemToObject(o, "tps",
                              cJSON_CreateDoubleArray(r->speed.tps, r->speed.runs));
        cJSON_AddNumberToObject(o, "gbps", r->speed.gbps);
    }
}

static cJSON *result_json(const struct speed *s)
{
    cJSON *j = cJSON_CreateObject(), *m;

    cJSON_AddStringToObject(j, "measure", "speed");
    if (s->cold_s >= 0)
        cJSON_AddNumberToObject(j, "load_cold_ms", 1e3 * s->cold_s);
    else
        cJSON_AddNullToObject(j, "load_cold_ms");
    cJSON_AddNumberToObject(j, "load_warm_ms", 1e3 * s->warm_s);
    if (s->cold_s >= 0)
        cJSON_AddItemToObject(j, "load_cold_runs_ms",
                              cJSON_CreateDoubleArray(s->cold_runs, (int)s->runs));
    cJSON_AddItemToObject(j, "load_warm_runs_ms",
                          cJSON_CreateDoubleArray(s->warm_runs, (int)s->runs));
    cJSON_AddNumberToObject(j, "first_token_ms", 1e3 * s->first_s);
    cJSON_AddNumberToObject(j, "prompt_tokens", (double)s->prompt);
    add_rows(j, s);
    cJSON_AddNumberToObject(j, "peak_rss_bytes", (double)s->peak);
    m = cJSON_AddObjectToObject(j, "memory");
    cJSON_AddNumberToObject(m, "weights_bytes", (double)s->plan.weights_bytes);
    cJSON_AddNumberToObject(m, "kv_bytes", (double)s->plan.kv_bytes);
    cJSON_AddNumberToObject(m, "state_bytes", (double)s->plan.state_bytes);
    cJSON_AddNumberToObject(m, "scratch_bytes", (double)s->plan.scratch_bytes);
    cJSON_AddNumberToObject(m, "total_bytes", (double)s->plan.total_bytes);
    cJSON_AddNumberToObject(j, "ctx", (double)s->ctx);
    cJSON_AddNumberToObject(j, "batch", (double)session_batch(s->side.s));
    cJSON_AddNumberToObject(j, "runs", (double)s->runs);
    cJSON_AddStringToObject(j, "processor", s->processor);
    cJSON_AddBoolToObject(j, "exact", s->exact);
    eval_json_model(j, &s->side);
    eval_json_env(j, &s->env, &s->side);
    return j;
}

static void print(const struct speed *s)
{
    printf("model        %s (%.12s)\n", s->model, s->side.model->fingerprint);
    printf("machine      %s, %s kernels, %d threads; medians of %lld runs\n\n",
           s->processor, backend_kernel_name(s->side.be), pool_threads(s->env.pool),
           (long long)s->runs);
    if (s->cold_s >= 0)
        printf("cold start   %.0f ms from the file to the first token\n",
               1e3 * s->cold_s);
    printf("warm start   %.0f ms\n", 1e3 * s->warm_s);
    printf("first token  %.0f ms after a prompt of %lld tokens\n", 1e3 * s->first_s,
           (long long)s->prompt);
    for (int i = 0; i < s->n_rows; i++)
        printf("%-12s %.2f tokens/s (%.2f to %.2f)\n", s->row[i].test,
               s->row[i].speed.median_tps, s->row[i].speed.min_tps,
               s->row[i].speed.max_tps);
    printf("memory       weights %.1f MB, cache %.1f, state %.1f, scratch %.1f: %.1f "
           "planned for %lld positions\n",
           (double)s->plan.weights_bytes / 1e6, (double)s->plan.kv_bytes / 1e6,
           (double)s->plan.state_bytes / 1e6, (double)s->plan.scratch_bytes / 1e6,
           (double)s->plan.total_bytes / 1e6, (long long)s->ctx);
    printf("peak         %.1f MB resident, measured\n", (double)s->peak / 1e6);
}

static bool parse_depths(struct speed *s)
{
    char word[24];

    for (int i = 0; eval_word(word, sizeof word, s->depth_words, i); i++)
        if (s->n_depths == MAX_DEPTHS ||
            !opt_parse_int(&s->depth[s->n_depths++], word, 0, 1 << 20))
            return false;
    return s->n_depths > 0;
}

static int parse(struct speed *s, int argc, char **argv)
{
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE|DIR", &s->model, 0, 0, "Model to measure."},
        {OPT_INT, 'p', "prompt", "N", &s->prompt, 1, 1 << 20,
         "Tokens of the prompt before the first token. [128]"},
        {OPT_INT, 'n', "predict", "N", &s->n_decode, 1, 1 << 20,
         "Tokens to generate. [64]"},
        {OPT_STR, 'd', "depth", "N,...", &s->depth_words, 0, 0,
         "Tokens in the cache before generating. [0,512]"},
        {OPT_INT, 'r', "runs", "N", &s->runs, MIN_RUNS, SPEED_MAX_RUNS,
         "Runs of each test; the median counts. [3]"},
        {OPT_FLAG, 0, "no-cold", NULL, &s->no_cold, 0, 0,
         "Leave the file in the system's cache: no cold start."},
        {OPT_FLAG, 0, "exact", NULL, &s->exact, 0, 0,
         "Activations and sums in F32; slow."},
        EVAL_CACHE_OPT(&s->side.cache),
        EVAL_REPORT_OPTS(&s->report, &s->include, &s->force),
        CLI_COMMON_OPTS(&s->env.common),
        {.kind = OPT_END},
    };
    int n_operands = 0, code = cli_parse(&command, opts, argc, argv, &n_operands);

    if (code != OPT_RUN)
        return code;
    if (!s->model)
        return cli_usage_error(&command, "-m FILE is missing: the model to measure");
    if (!parse_depths(s))
        return cli_usage_error(&command, "--depth '%s' is no list of lengths",
                               s->depth_words);
    return OPT_RUN;
}

int cmd_eval_speed(int argc, char **argv)
{
    struct speed s = {
        .depth_words = "0,512", .prompt = 128, .n_decode = 64, .runs = MIN_RUNS};
    struct b2_err err = {0};
    int code = parse(&s, argc, argv);

    if (code != OPT_RUN)
        return code;
    if (measure(&s, &err)) {
        code = cli_report_error(&err);
    } else {
        if (!s.env.common.json)
            print(&s);
        code =
            eval_finish(&s.env.common, result_json(&s), s.report, &s.include, s.force);
    }
    eval_side_close(&s.side);
    eval_env_close(&s.env);
    return code;
}

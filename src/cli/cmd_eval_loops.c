/*
 * cmd_eval_loops.c - bonsai2 eval loops: answers that repeat themselves or never end.
 */
#include "base/mem.h"
#include "cli/eval_loops.h"
#include "eval/bootstrap.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

struct loops {
    struct eval_env env;
    struct opt_list models, include;
    const char *baseline, *prompt_file, *report;
    int64_t limit;
    bool force;
    struct eval_loops_params params;
    struct eval_prompts prompts;
    struct loops_answer *base; /* [prompts samples], NULL: no baseline */
    char base_print[65];
    double base_bytes;
    cJSON *results;
};

static const struct cmd command = {
    .name = "eval loops",
    .summary = "Let models answer prompts in English, Chinese and code, and count the "
               "answers that repeat themselves or never end.",
    .example = "bonsai2 eval loops -m small.gguf --baseline model.gguf -n 256",
};

/* Means over the answers of a slice, or of all. */
struct summary {
    int64_t n, n_loop, n_limit, cycle; /* cycle: the longest */
    double distinct4, compression;     /* sums, then means */
    struct interval loop_ci;
};

static bool in_slice(const struct loops *l, int64_t i, const char *slice)
{
    return !slice || strcmp(l->prompts.p[i / l->params.samples].slice, slice) == 0;
}

/* Answers of one prompt are no independent trials: with several, prompts are drawn. */
static enum b2_status loop_interval(struct summary *s, const struct loops *l,
                                    const struct loops_answer *a, const char *slice,
                                    struct b2_err *err)
{
    const int64_t samples = l->params.samples;
    double *num, *den;
    int64_t n = 0;
    enum b2_status rc;

    if (samples == 1) {
        s->loop_ci = bootstrap_share(s->n_loop, s->n);
        return B2_OK;
    }
    num = mem_calloc((size_t)l->prompts.n, 2 * sizeof *num);
    if (!num)
        return err_set(err, B2_ENOMEM, "out of memory");
    den = num + l->prompts.n;
    for (int64_t i = 0; i < l->prompts.n; i++) {
        if (!in_slice(l, i * samples, slice))
            continue;
        for (int64_t k = 0; k < samples; k++)
            num[n] += a[i * samples + k].loop;
        den[n++] = (double)samples;
    }
    rc = bootstrap_ratio(&s->loop_ci, num, den, n, (uint64_t)l->env.common.seed, err);
    mem_free(num);
    return rc;
}

static enum b2_status summarise(struct summary *s, const struct loops *l,
                                const struct loops_answer *a, const char *slice,
                                struct b2_err *err)
{
    *s = (struct summary){0};
    for (int64_t i = 0; i < l->prompts.n * l->params.samples; i++) {
        if (!in_slice(l, i, slice))
            continue;
        s->n++;
        s->n_loop += a[i].loop;
        s->n_limit += a[i].limit;
        s->cycle = max_i64(s->cycle, a[i].cycle);
        s->distinct4 += a[i].distinct4;
        s->compression += a[i].compression;
    }
    s->distinct4 /= (double)s->n;
    s->compression /= (double)s->n;
    return loop_interval(s, l, a, slice, err);
}

static double share(int64_t k, int64_t n)
{
    return n > 0 ? (double)k / (double)n : 0.0;
}

static void add_number(cJSON *j, const char *prefix, const char *key, double v)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s", prefix, key);
    cJSON_AddNumberToObject(j, name, v);
}

static void add_summary(cJSON *j, const char *prefix, const struct summary *s)
{
    const double pair[] = {s->loop_ci.low, s->loop_ci.high};
    char name[64];

    add_number(j, prefix, "loop_rate", share(s->n_loop, s->n));
    snprintf(name, sizeof name, "%sloop_rate_ci", prefix);
    cJSON_AddItemToObject(j, name, cJSON_CreateDoubleArray(pair, 2));
    add_number(j, prefix, "limit_rate", share(s->n_limit, s->n));
    add_number(j, prefix, "distinct4", s->distinct4);
    add_number(j, prefix, "compression", s->compression);
    add_number(j, prefix, "longest_cycle", (double)s->cycle);
}

/* Answers that loop in one model only: is the difference more than a coin's? */
static double p_value(const struct loops *l, const struct loops_answer *a)
{
    int64_t up = 0, down = 0;

    for (int64_t i = 0; i < l->prompts.n * l->params.samples; i++) {
        up += a[i].loop && !l->base[i].loop;
        down += l->base[i].loop && !a[i].loop;
    }
    return bootstrap_mcnemar(up, down);
}

/* slice NULL: all. */
static enum b2_status add_slice(cJSON *j, const struct loops *l,
                                const struct loops_answer *a, const char *slice,
                                struct b2_err *err)
{
    struct summary s;
    enum b2_status rc = summarise(&s, l, a, slice, err);

    if (rc)
        return rc;
    cJSON_AddNumberToObject(j, "n", (double)s.n);
    add_summary(j, "", &s);
    if (!l->base)
        return B2_OK;
    rc = summarise(&s, l, l->base, slice, err);
    if (!rc)
        add_summary(j, "baseline_", &s);
    return rc;
}

static bool first_of_slice(const struct loops *l, int64_t i)
{
    for (int64_t k = 0; k < i; k++)
        if (strcmp(l->prompts.p[k].slice, l->prompts.p[i].slice) == 0)
            return false;
    return true;
}

static void add_conditions(cJSON *j, const struct loops *l,
                           const struct eval_side *side)
{
    const struct eval_loops_params *p = &l->params;

    eval_json_model(j, side);
    if (l->base) {
        cJSON_AddStringToObject(j, "baseline", l->baseline);
        cJSON_AddStringToObject(j, "fingerprint_baseline", l->base_print);
        cJSON_AddNumberToObject(j, "baseline_bytes", l->base_bytes);
    }
    cJSON_AddNumberToObject(j, "max_tokens", (double)p->how.max_tokens);
    cJSON_AddNumberToObject(j, "temperature", p->how.temperature);
    cJSON_AddNumberToObject(j, "samples", (double)p->samples);
    cJSON_AddBoolToObject(j, "template", !p->how.raw && eval_has_template(side));
    cJSON_AddStringToObject(j, "prompts", l->prompt_file ? l->prompt_file : "own");
    cJSON_AddStringToObject(j, "prompts_sha256", l->prompts.sha256);
    cJSON_AddBoolToObject(j, "exact", p->exact);
    eval_json_env(j, &l->env, side);
}

static enum b2_status make_json(cJSON **out, const struct loops *l,
                                const struct loops_answer *a,
                                const struct eval_side *side, struct b2_err *err)
{
    cJSON *j = cJSON_CreateObject(), *slices;
    enum b2_status rc;

    cJSON_AddStringToObject(j, "measure", "loops");
    rc = add_slice(j, l, a, NULL, err);
    slices = cJSON_AddArrayToObject(j, "slices");
    for (int64_t i = 0; i < l->prompts.n && !rc; i++) {
        if (!first_of_slice(l, i))
            continue;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToArray(slices, o);
        cJSON_AddStringToObject(o, "name", l->prompts.p[i].slice);
        rc = add_slice(o, l, a, l->prompts.p[i].slice, err);
    }
    if (l->base)
        cJSON_AddNumberToObject(j, "mcnemar_p", p_value(l, a));
    add_conditions(j, l, side);
    if (rc)
        cJSON_Delete(j);
    else
        *out = j;
    return rc;
}

static double value(const cJSON *j, const char *prefix, const char *key)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s", prefix, key);
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, name);
    return v ? v->valuedouble : (double)NAN;
}

static void print_row(const char *name, const char *who, const cJSON *j,
                      const char *prefix)
{
    eval_cell(name, 10);
    printf(" %-10s %7.1f %% %11.1f %% %11.3f %12.2f %13.0f\n", who,
           100.0 * value(j, prefix, "loop_rate"),
           100.0 * value(j, prefix, "limit_rate"), value(j, prefix, "distinct4"),
           value(j, prefix, "compression"), value(j, prefix, "longest_cycle"));
}

static void print(const struct loops *l, const cJSON *j)
{
    const cJSON *s;

    printf("model      %s\n", cJSON_GetStringValue(cJSON_GetObjectItem(j, "model")));
    if (l->base)
        printf("baseline   %s\n", l->baseline);
    printf(
        "answers    %lld prompts, %lld each, at most %lld tokens, temperature %g\n\n",
        (long long)l->prompts.n, (long long)l->params.samples,
        (long long)l->params.how.max_tokens, l->params.how.temperature);
    printf("%-10s %-10s %9s %13s %11s %12s %13s\n", "prompts", "answers of", "loop",
           "hit the limit", "distinct-4", "compression", "longest cycle");
    cJSON_ArrayForEach(s, cJSON_GetObjectItem(j, "slices"))
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(s, "name"));
        if (l->base)
            print_row(name, "baseline", s, "baseline_");
        print_row(l->base ? "" : name, "model", s, "");
    }
    if (l->base)
        print_row("all", "baseline", j, "baseline_");
    print_row(l->base ? "" : "all", "model", j, "");
    printf("\nloops      %.1f %% of the answers", 100.0 * value(j, "", "loop_rate"));
    if (l->base)
        printf(", baseline %.1f %%; by chance alone: p = %.3f",
               100.0 * value(j, "baseline_", "loop_rate"), value(j, "", "mcnemar_p"));
    puts("\n");
}

static struct loops_answer *room(const struct loops *l)
{
    return mem_calloc((size_t)(l->prompts.n * l->params.samples),
                      sizeof(struct loops_answer));
}

static enum b2_status run_baseline(struct loops *l, struct b2_err *err)
{
    struct eval_side side = {0};
    enum b2_status rc;

    l->base = room(l);
    if (!l->base)
        return err_set(err, B2_ENOMEM, "out of memory");
    rc = eval_loops_run(l->base, &side, &l->env, l->baseline, &l->params, err);
    if (!rc) {
        snprintf(l->base_print, sizeof l->base_print, "%s", side.model->fingerprint);
        l->base_bytes = (double)modelfile_bytes(side.model->mf);
    }
    eval_side_close(&side);
    return rc;
}

static enum b2_status run_candidate(struct loops *l, const char *path,
                                    struct b2_err *err)
{
    struct eval_side side = {0};
    struct loops_answer *a = room(l);
    cJSON *j = NULL;
    enum b2_status rc;

    if (!a)
        return err_set(err, B2_ENOMEM, "out of memory");
    rc = eval_loops_run(a, &side, &l->env, path, &l->params, err);
    if (!rc)
        rc = make_json(&j, l, a, &side, err);
    if (!rc) {
        if (!l->env.common.json)
            print(l, j);
        cJSON_AddItemToArray(l->results, j);
    }
    eval_side_close(&side);
    mem_free(a);
    return rc;
}

static enum b2_status measure(struct loops *l, struct b2_err *err)
{
    enum b2_status rc = eval_check_report(l->report, &l->include, l->force, err);

    l->params.how.seed = (uint64_t)l->env.common.seed;
    l->params.prompts = &l->prompts;
    if (!rc && l->params.scores)
        rc = eval_names_differ(l->baseline, &l->models, err);
    if (!rc)
        rc = eval_prompts_open(&l->prompts, l->prompt_file, l->limit, err);
    if (!rc)
        rc = eval_env_open(&l->env, err);
    if (!rc && l->baseline)
        rc = run_baseline(l, err);
    for (int i = 0; i < l->models.n && !rc; i++)
        rc = run_candidate(l, l->models.item[i], err);
    return rc;
}

static int parse(struct loops *l, int argc, char **argv)
{
    struct eval_loops_params *p = &l->params;
    const struct opt opts[] = {
        {OPT_LIST, 'm', "model", "FILE|DIR", &l->models, 0, 0,
         "Model to measure; several are shown side by side."},
        {OPT_STR, 0, "baseline", "FILE|DIR", &l->baseline, 0, 0,
         "Answers the same prompts, to compare."},
        {OPT_STR, 0, "prompts", "FILE", &l->prompt_file, 0, 0,
         "Prompts, one a line: SLICE<tab>PROMPT, or PROMPT alone. [16 each in English, "
         "Chinese, code]"},
        {OPT_INT, 0, "limit", "N", &l->limit, 0, 1e6,
         "Prompts of each slice; 0: all. [0]"},
        {OPT_INT, 'n', "predict", "N", &p->how.max_tokens, 16, 1 << 20,
         "Most tokens of an answer. [256]"},
        {OPT_NUM, 0, "temp", "T", &p->how.temperature, 0, 100,
         "Temperature; 0 always takes the likeliest token. [0]"},
        {OPT_INT, 0, "samples", "N", &p->samples, 1, 1000,
         "Answers to each prompt, with seeds --seed, +1, …; needs --temp. [1]"},
        {OPT_FLAG, 0, "raw", NULL, &p->how.raw, 0, 0,
         "Continue the bare prompt, without the chat template."},
        {OPT_FLAG, 0, "exact", NULL, &p->exact, 0, 0,
         "Activations and sums in F32; slow."},
        {OPT_STR, 0, "scores", "DIR", &p->scores, 0, 0,
         "Keep all answers there, loops-MODEL.ndjson; goes on with it."},
        EVAL_CACHE_OPT(&p->cache),
        EVAL_ANEW_OPT(&p->anew),
        EVAL_REPORT_OPTS(&l->report, &l->include, &l->force),
        CLI_COMMON_OPTS(&l->env.common),
        {.kind = OPT_END},
    };
    int n_operands = 0, code = cli_parse(&command, opts, argc, argv, &n_operands);

    if (code != OPT_RUN)
        return code;
    if (l->models.n == 0)
        return cli_usage_error(&command, "-m FILE is missing: the model to measure");
    if (p->samples > 1 && p->how.temperature <= 0)
        return cli_usage_error(&command, "--samples needs --temp: without it all "
                                         "answers to a prompt are the same");
    return OPT_RUN;
}

int cmd_eval_loops(int argc, char **argv)
{
    struct loops l = {.params = {.how = {.max_tokens = 256}, .samples = 1}};
    struct b2_err err = {0};
    int code = parse(&l, argc, argv);

    if (code != OPT_RUN)
        return code;
    l.results = cJSON_CreateArray();
    if (measure(&l, &err))
        code = cli_report_error(&err);
    else
        code = eval_finish(&l.env.common, eval_join("loops", &l.results), l.report,
                           &l.include, l.force);
    cJSON_Delete(l.results);
    mem_free(l.base);
    eval_prompts_free(&l.prompts);
    eval_env_close(&l.env);
    return code;
}

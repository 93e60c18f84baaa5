/*
 * cmd_eval_rollback.c - bonsai2 eval rollback: what to give back first.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/eval_answers.h"
#include "cli/eval_keep.h"
#include "cli/eval_text.h"
#include "eval/rollback.h"
#include "eval/teacher.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct roll {
    struct eval_env env;
    struct opt_list include;
    const char *model, *baseline, *text, *by, *parts, *prompt_file, *report;
    const char *scores;
    struct eval_texts window; /* ctx, chunks, convention */
    int64_t limit;
    struct eval_answering how;
    bool exact, anew, force;

    struct eval_side cand, base;
    struct textset set;
    struct eval_prompts prompts;
    struct rollback *rb;
    struct rollback_text *kept;
    double start; /* of the candidate as it is */
    double seconds;
    int64_t from, to; /* parts to try */
    double *value;    /* [parts] */
    int64_t
        n_earlier; /* values that an earlier run left: of the start, then of parts */
};

static const struct cmd command = {
    .name = "eval rollback",
    .summary = "Restore one layer, or one class of tensors, of a model to the "
               "baseline's weights at a time, and tell which buys back most of the "
               "divergence (or of the looping answers) per byte.",
    .example = "bonsai2 eval rollback -m small.gguf --baseline model.gguf --text "
               "book.txt --ctx 256 --chunks 4",
};

static bool by_loops(const struct roll *r)
{
    return strcmp(r->by, "loops") == 0;
}

static enum b2_status loop_rate(double *out, const struct roll *r, struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    int64_t loops = 0;

    for (int64_t i = 0; i < r->prompts.n && !rc; i++) {
        struct generate_result g = {0};
        struct loops_answer a = {0};
        session_rewind(r->cand.s, 0);
        rc = eval_answer(&g, &r->cand, &r->how, r->prompts.p[i].text, err);
        if (!rc)
            rc = eval_answer_loops(&a, &g, err);
        loops += a.loop;
        generate_result_free(&g);
    }
    *out = (double)loops / (double)r->prompts.n;
    return rc;
}

/* Divergence or share of loops with the weights as they are now. */
static enum b2_status measure_now(double *out, const struct roll *r, struct b2_err *err)
{
    return by_loops(r) ? loop_rate(out, r, err)
                       : rollback_text_kld(out, r->kept, r->cand.s, err);
}

/* Value number n: of the candidate as it is (0), then of the parts. */
static double *value_at(struct roll *r, int64_t n)
{
    return n == 0 ? &r->start : &r->value[r->from + n - 1];
}

static bool take_value(void *ctx, const cJSON *line)
{
    struct roll *r = ctx;
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(line, "value");

    if (r->n_earlier > r->to - r->from || !cJSON_IsNumber(v))
        return false;
    *value_at(r, r->n_earlier++) = v->valuedouble;
    return true;
}

static cJSON *settings_json(const struct roll *r)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "fingerprint", r->cand.model->fingerprint);
    cJSON_AddStringToObject(j, "fingerprint_baseline", r->base.model->fingerprint);
    cJSON_AddStringToObject(j, "weights_sha256", r->cand.weights);
    cJSON_AddStringToObject(j, "weights_sha256_baseline", r->base.weights);
    cJSON_AddStringToObject(j, "by", r->by);
    cJSON_AddStringToObject(j, "parts", r->parts);
    cJSON_AddStringToObject(j, "text_sha256", r->set.sha256);
    cJSON_AddNumberToObject(j, "ctx", (double)r->set.ctx);
    cJSON_AddNumberToObject(j, "chunks", (double)r->set.n_windows);
    cJSON_AddStringToObject(j, "convention", r->window.convention);
    cJSON_AddStringToObject(j, "prompts_sha256", r->prompts.sha256);
    cJSON_AddNumberToObject(j, "max_tokens", (double)r->how.max_tokens);
    cJSON_AddBoolToObject(j, "exact", r->exact);
    eval_json_cache(j, r->cand.cache);
    return j;
}

static enum b2_status keep_open(struct eval_keep **out, struct roll *r,
                                struct b2_err *err)
{
    struct str name = {0};
    enum b2_status rc;

    str_printf(&name, "rollback-%s.ndjson", eval_name(r->model));
    rc = str_ok(&name) ? eval_keep_open(out, r->scores, name.data, settings_json(r),
                                        r->anew, take_value, r, err)
                       : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&name);
    return rc;
}

static enum b2_status try_part(struct roll *r, struct eval_keep *k, int64_t n,
                               struct b2_err *err)
{
    const char *name = n == 0 ? "none" : rollback_name(r->rb, r->from + n - 1);
    cJSON *line = NULL;
    enum b2_status rc;

    rollback_set(r->rb, n == 0 ? -1 : r->from + n - 1);
    rc = measure_now(value_at(r, n), r, err);
    if (rc) {
        if (rc != B2_ECANCEL)
            err_wrap(err, "%s with %s restored", r->model, n == 0 ? "nothing" : name);
        return rc;
    }
    if (k) {
        line = cJSON_CreateObject();
        cJSON_AddStringToObject(line, "part", name);
        cJSON_AddNumberToObject(line, "value", *value_at(r, n));
    }
    return eval_keep_add(k, line, err);
}

static enum b2_status try_parts(struct roll *r, struct b2_err *err)
{
    int64_t n = r->to - r->from + 1;
    struct progress pr = cli_progress(&r->env.common, "rollback", r->by, (uint64_t)n);
    struct eval_keep *k = NULL;
    enum b2_status rc = r->scores ? keep_open(&k, r, err) : B2_OK;

    for (int64_t i = 0; i < n && !rc; i++) {
        if (i >= r->n_earlier)
            rc = try_part(r, k, i, err);
        if (!rc)
            progress_update(&pr, (uint64_t)i + 1, *value_at(r, i));
    }
    rollback_set(r->rb, -1);
    return eval_keep_close(k, rc, err);
}

static enum b2_status open_text(struct roll *r, struct b2_err *err)
{
    enum b2_status rc =
        eval_cut_text(&r->set, r->cand.model->tok, r->text, r->window.convention,
                      r->window.ctx, r->window.chunks, err);

    if (rc)
        return rc;
    struct progress pr =
        cli_progress(&r->env.common, "baseline", "ppl", (uint64_t)r->set.n_scored);
    rc = rollback_text_new(&r->kept, &r->set, r->base.s, TEACHER_K, &pr, err);
    if (rc && rc != B2_ECANCEL)
        err_wrap(err, "%s", r->baseline);
    return rc;
}

static enum b2_status open_all(struct roll *r, struct b2_err *err)
{
    int64_t ctx = r->window.ctx;
    enum b2_status rc = eval_check_report(r->report, &r->include, r->force, err);

    r->base.cache = r->cand.cache; /* both alike: the difference is the weights' */
    if (!rc)
        rc = eval_env_open(&r->env, err);
    if (!rc)
        rc = eval_side_model(&r->base, &r->env, r->baseline, r->exact, err);
    if (!rc)
        rc = eval_side_model(&r->cand, &r->env, r->model, r->exact, err);
    if (!rc)
        rc = rollback_new(&r->rb, r->cand.model, r->base.model, err);
    if (!rc && by_loops(r))
        ctx = eval_answer_ctx(r->cand.model, r->how.max_tokens);
    if (!rc)
        rc = eval_side_session(&r->cand, &r->env, ctx, err);
    if (!rc && by_loops(r))
        rc = eval_prompts_open(&r->prompts, r->prompt_file, r->limit, err);
    if (!rc && !by_loops(r))
        rc = eval_side_session(&r->base, &r->env, ctx, err);
    return rc;
}

static enum b2_status measure(struct roll *r, struct b2_err *err)
{
    struct eval_cancel cancel = {0};
    double start_s = clock_s();
    enum b2_status rc = open_all(r, err);

    if (rc)
        return rc;
    cancel = (struct eval_cancel){r->cand.s, r->base.s};
    cli_on_interrupt(eval_cancel_both, &cancel);
    if (!by_loops(r))
        rc = open_text(r, err);
    r->from = strcmp(r->parts, "classes") == 0 ? rollback_layers(r->rb) : 0;
    r->to = rollback_layers(r->rb) +
            (strcmp(r->parts, "layers") == 0 ? 0 : rollback_classes(r->rb));
    r->value = mem_calloc((size_t)r->to, sizeof *r->value);
    if (!rc && !r->value)
        rc = err_set(err, B2_ENOMEM, "out of memory");
    if (!rc)
        rc = try_parts(r, err);
    cli_on_interrupt(NULL, NULL);
    r->seconds = clock_s() - start_s;
    return rc;
}

/* What a part buys back for each further 10^6 bytes; NAN when it costs none. */
static double per_mb(const struct roll *r, int64_t part)
{
    double mb = (double)rollback_bytes(r->rb, part) / 1e6;

    return mb > 0.0 ? (r->start - r->value[part]) / mb : (double)NAN;
}

static int64_t best_of(const struct roll *r, int64_t from, int64_t to)
{
    int64_t best = -1;

    for (int64_t i = from; i < to; i++)
        if (isfinite(per_mb(r, i)) && (best < 0 || per_mb(r, i) > per_mb(r, best)))
            best = i;
    return best;
}

static void add_parts(cJSON *j, const char *key, const struct roll *r, int64_t from,
                      int64_t to)
{
    cJSON *list = cJSON_AddArrayToObject(j, key);

    for (int64_t i = from; i < to; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToArray(list, o);
        cJSON_AddStringToObject(o, "name", rollback_name(r->rb, i));
        cJSON_AddNumberToObject(o, by_loops(r) ? "loop_rate" : "kld", r->value[i]);
        cJSON_AddNumberToObject(o, "gain", r->start - r->value[i]);
        cJSON_AddNumberToObject(o, "bytes_more", (double)rollback_bytes(r->rb, i));
        cJSON_AddNumberToObject(o, "gain_per_mb", per_mb(r, i));
    }
}

static cJSON *result_json(const struct roll *r)
{
    cJSON *j = cJSON_CreateObject();
    int64_t layers = rollback_layers(r->rb), best = best_of(r, r->from, r->to);

    cJSON_AddStringToObject(j, "measure", "rollback");
    cJSON_AddStringToObject(j, "by", r->by);
    cJSON_AddNumberToObject(j, by_loops(r) ? "loop_rate" : "kld", r->start);
    if (best >= 0)
        cJSON_AddStringToObject(j, "best", rollback_name(r->rb, best));
    else
        cJSON_AddNullToObject(j, "best");
    add_parts(j, "layers", r, r->from, min_i64(layers, r->to));
    add_parts(j, "classes", r, max_i64(layers, r->from), r->to);
    eval_json_model(j, &r->cand);
    cJSON_AddStringToObject(j, "baseline", r->baseline);
    cJSON_AddStringToObject(j, "fingerprint_baseline", r->base.model->fingerprint);
    cJSON_AddNumberToObject(j, "baseline_bytes",
                            (double)modelfile_bytes(r->base.model->mf));
    if (by_loops(r)) {
        cJSON_AddStringToObject(j, "prompts_sha256", r->prompts.sha256);
        cJSON_AddNumberToObject(j, "n_prompts", (double)r->prompts.n);
        cJSON_AddNumberToObject(j, "max_tokens", (double)r->how.max_tokens);
    } else {
        cJSON_AddStringToObject(j, "text", r->text);
        cJSON_AddStringToObject(j, "text_sha256", r->set.sha256);
        cJSON_AddNumberToObject(j, "ctx", (double)r->set.ctx);
        cJSON_AddNumberToObject(j, "chunks", (double)r->set.n_windows);
        cJSON_AddStringToObject(j, "convention", r->window.convention);
        cJSON_AddNumberToObject(j, "n_tokens", (double)r->set.n_scored);
        cJSON_AddNumberToObject(j, "top_k", TEACHER_K);
    }
    cJSON_AddBoolToObject(j, "exact", r->exact);
    eval_json_env(j, &r->env, &r->cand);
    cJSON_AddNumberToObject(j, "seconds", r->seconds);
    return j;
}

static void print_part(const struct roll *r, int64_t i)
{
    double gain = per_mb(r, i);
    char word[32] = "same bytes";

    if (isfinite(gain))
        snprintf(word, sizeof word, "%.5f", gain);
    printf("%-14s %12.5f %+12.5f %10.3f %12s\n", rollback_name(r->rb, i), r->value[i],
           r->start - r->value[i], (double)rollback_bytes(r->rb, i) / 1e6, word);
}

static void print_list(const struct roll *r, const char *title, int64_t from,
                       int64_t to)
{
    int64_t best = best_of(r, from, to);

    if (from >= to)
        return;
    printf("%-14s %12s %12s %10s %12s\n", title, by_loops(r) ? "loop rate" : "KL, nat",
           "bought back", "MB more", "per MB");
    for (int64_t i = from; i < to; i++)
        print_part(r, i);
    if (best >= 0)
        printf("best %s by the byte: %s\n", title, rollback_name(r->rb, best));
    puts("");
}

static void print(const struct roll *r)
{
    int64_t layers = rollback_layers(r->rb);

    printf("model      %s (%.12s)\nbaseline   %s (%.12s)\n", r->model,
           r->cand.model->fingerprint, r->baseline, r->base.model->fingerprint);
    if (by_loops(r))
        printf("as it is   %.1f %% of %lld answers loop\n\n", 100.0 * r->start,
               (long long)r->prompts.n);
    else
        printf("as it is   %.5f nat over %lld tokens of %s\n\n", r->start,
               (long long)r->set.n_scored, r->text);
    print_list(r, "layer", r->from, min_i64(layers, r->to));
    print_list(r, "class", max_i64(layers, r->from), r->to);
}

static int parse(struct roll *r, int argc, char **argv)
{
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE|DIR", &r->model, 0, 0, "The compressed model."},
        {OPT_STR, 0, "baseline", "FILE|DIR", &r->baseline, 0, 0,
         "Whose weights are given back, usually the original."},
        {OPT_ENUM, 0, "by", "kld|loops", &r->by, 0, 0,
         "What is to be bought back: divergence on --text, or looping answers. [kld]"},
        {OPT_ENUM, 0, "parts", "layers|classes|both", &r->parts, 0, 0,
         "What is restored one at a time. [both]"},
        {OPT_STR, 0, "text", "FILE", &r->text, 0, 0, "kld: UTF-8 text to score."},
        EVAL_WINDOW_OPTS(&r->window, "4"),
        {OPT_STR, 0, "prompts", "FILE", &r->prompt_file, 0, 0,
         "loops: prompts, as for eval loops."},
        {OPT_INT, 0, "limit", "N", &r->limit, 1, 1e6,
         "loops: prompts of each slice. [2]"},
        {OPT_INT, 'n', "predict", "N", &r->how.max_tokens, 16, 1 << 20,
         "loops: most tokens of an answer. [128]"},
        {OPT_STR, 0, "scores", "DIR", &r->scores, 0, 0,
         "Keep every part's value there, rollback-MODEL.ndjson; goes on with it."},
        {OPT_FLAG, 0, "exact", NULL, &r->exact, 0, 0,
         "Activations and sums in F32, for both models; slow."},
        EVAL_CACHE_OPT(&r->cand.cache),
        EVAL_ANEW_OPT(&r->anew),
        EVAL_REPORT_OPTS(&r->report, &r->include, &r->force),
        CLI_COMMON_OPTS(&r->env.common),
        {.kind = OPT_END},
    };
    int n_operands = 0, code = cli_parse(&command, opts, argc, argv, &n_operands);

    if (code != OPT_RUN)
        return code;
    if (!r->model)
        return cli_usage_error(&command, "-m FILE is missing: the compressed model");
    if (!r->baseline)
        return cli_usage_error(&command,
                               "--baseline FILE is missing: whose weights to restore");
    if (!by_loops(r) && !r->text)
        return cli_usage_error(&command,
                               "--text FILE is missing: the text to measure on");
    return OPT_RUN;
}

int cmd_eval_rollback(int argc, char **argv)
{
    struct roll r = {.by = "kld",
                     .parts = "both",
                     .window = {.ctx = 512, .chunks = 4, .convention = "llama.cpp"},
                     .limit = 2,
                     .how = {.max_tokens = 128}};
    struct b2_err err = {0};
    int code = parse(&r, argc, argv);

    if (code != OPT_RUN)
        return code;
    if (measure(&r, &err)) {
        code = cli_report_error(&err);
    } else {
        if (!r.env.common.json)
            print(&r);
        code =
            eval_finish(&r.env.common, result_json(&r), r.report, &r.include, r.force);
    }
    rollback_text_free(r.kept);
    rollback_free(r.rb);
    textset_free(&r.set);
    eval_prompts_free(&r.prompts);
    eval_side_close(&r.cand);
    eval_side_close(&r.base);
    eval_env_close(&r.env);
    mem_free(r.value);
    return code;
}

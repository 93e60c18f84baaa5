/*
 * cmd_eval_ppl.c - bonsai2 eval ppl: perplexity of one model on one text.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/eval_cmd.h"
#include "cli/eval_text.h"
#include "eval/divergence.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

struct ppl {
    struct eval_env env;
    const char *model, *text, *convention, *report, *scores;
    struct opt_list include;
    int64_t ctx, chunks;
    bool exact, force;
    struct eval_side side;
    struct textset set;
    struct ppl_result result;
    struct str kept; /* lines of --scores */
    double seconds;
};

static const struct cmd command = {
    .name = "eval ppl",
    .summary = "Measure a model's perplexity on a text.",
    .example = "bonsai2 eval ppl -m model.gguf --text book.txt --ctx 512 --chunks 16",
};

/* A line of --scores. */
static void take_row(void *ctx, const struct divergence_row *row)
{
    struct ppl *p = ctx;

    str_printf(&p->kept, "%lld\t%lld\t%.9g\n", (long long)row->window,
               (long long)row->pos, row->nll);
}

static enum b2_status score(struct ppl *p, struct progress *pr, struct b2_err *err)
{
    const struct divergence_walk w = {.cand = p->side.s,
                                      .text = &p->set,
                                      .pr = pr,
                                      .on_row = p->scores ? take_row : NULL,
                                      .ctx = p};

    return divergence_ppl(&p->result, &w, err);
}

static enum b2_status save_rows(struct ppl *p, struct b2_err *err)
{
    struct str path = {0};
    enum b2_status rc;

    str_printf(&path, "%s/ppl-%s.tsv", p->scores, eval_name(p->model));
    rc = str_ok(&path) && str_ok(&p->kept)
             ? file_write_all(path.data, p->kept.data, p->kept.len, true, err)
             : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&path);
    return rc;
}

static enum b2_status measure(struct ppl *p, struct b2_err *err)
{
    struct eval_cancel cancel = {0};
    double start_s;
    enum b2_status rc = eval_env_open(&p->env, err);

    str_put(&p->kept, "window\tposition\tnll\n");
    if (!rc && p->scores)
        rc = file_make_dir(p->scores, err);
    if (!rc)
        rc = eval_side_open(&p->side, &p->env, p->model, p->exact, p->ctx, err);
    if (!rc)
        rc = eval_check_memory(&p->env, &p->side, NULL, err);
    if (!rc)
        rc = eval_cut_text(&p->set, p->side.model->tok, p->text, p->convention, p->ctx,
                           p->chunks, err);
    if (rc)
        return rc;
    struct progress pr =
        cli_progress(&p->env.common, "perplexity", "ppl", (uint64_t)p->set.n_scored);
    start_s = clock_s();
    cancel.a = p->side.s;
    cli_on_interrupt(eval_cancel_both, &cancel);
    rc = score(p, &pr, err);
    cli_on_interrupt(NULL, NULL);
    if (rc && rc != B2_ECANCEL)
        err_wrap(err, "%s", p->model);
    p->seconds = clock_s() - start_s;
    return rc;
}

static cJSON *result_json(const struct ppl *p)
{
    const struct ppl_result *r = &p->result;
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "measure", "ppl");
    cJSON_AddNumberToObject(j, "ppl", r->ppl);
    cJSON_AddNumberToObject(j, "nll", r->nll);
    cJSON_AddNumberToObject(j, "n_tokens", (double)r->n_tokens);
    if (r->n_tokens > 1) { /* one token does not tell how much others would differ */
        cJSON_AddNumberToObject(j, "ppl_stderr", r->ppl * r->nll_stderr);
        cJSON_AddNumberToObject(j, "nll_stderr", r->nll_stderr);
    }
    cJSON_AddNumberToObject(j, "ctx", (double)p->set.ctx);
    cJSON_AddNumberToObject(j, "stride", (double)p->set.stride);
    cJSON_AddNumberToObject(j, "chunks", (double)p->set.n_windows);
    cJSON_AddStringToObject(j, "convention", p->convention);
    cJSON_AddStringToObject(j, "begin_token", p->set.begins ? "added" : "none");
    cJSON_AddStringToObject(j, "text", p->text);
    cJSON_AddStringToObject(j, "text_sha256", p->set.sha256);
    eval_json_model(j, &p->side);
    cJSON_AddBoolToObject(j, "exact", p->exact);
    eval_json_env(j, &p->env, &p->side);
    cJSON_AddNumberToObject(j, "seconds", p->seconds);
    return j;
}

static void print(const struct ppl *p)
{
    const struct ppl_result *r = &p->result;

    printf("model        %s (%.12s, %s)\n", p->model, p->side.model->fingerprint,
           eval_activations(p->exact));
    printf("text         %s (SHA-256 %.12s), %lld tokens\n", p->text, p->set.sha256,
           (long long)p->set.all.n);
    printf("scored       %lld tokens in %lld windows of %lld, convention %s, %s\n",
           (long long)p->set.n_scored, (long long)p->set.n_windows,
           (long long)p->set.ctx, p->convention,
           p->set.begins ? "a begin token each" : "no begin token");
    printf("run          %s kernels, %d threads, %.1f s\n\n",
           backend_kernel_name(p->side.be), pool_threads(p->env.pool), p->seconds);
    printf("perplexity   %.4f", r->ppl);
    if (r->n_tokens > 1)
        printf(" ± %.4f", r->ppl * r->nll_stderr);
    puts("");
    printf("loss         %.6f nat per token\n", r->nll);
}

static int parse(struct ppl *p, int argc, char **argv)
{
    struct opt_list baseline = {.n = 0};
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE|DIR", &p->model, 0, 0, "Model to measure."},
        {OPT_STR, 0, "text", "FILE", &p->text, 0, 0,
         "UTF-8 text to score; - is standard input."},
        EVAL_WINDOW_OPTS(p, "0"),
        {OPT_STR, 0, "scores", "DIR", &p->scores, 0, 0,
         "Keep every position's loss there, ppl-MODEL.tsv."},
        {OPT_FLAG, 0, "exact", NULL, &p->exact, 0, 0,
         "Activations and sums in F32; slow."},
        {OPT_LIST, 0, "baseline", "FILE", &baseline, 0, 0,
         "Of kld; perplexity is of one model."},
        EVAL_CACHE_OPT(&p->side.cache),
        EVAL_REPORT_OPTS(&p->report, &p->include, &p->force),
        CLI_COMMON_OPTS(&p->env.common),
        {.kind = OPT_END},
    };
    int n_operands = 0, code = cli_parse(&command, opts, argc, argv, &n_operands);

    if (code != OPT_RUN)
        return code;
    if (!p->model)
        return cli_usage_error(&command, "-m FILE is missing: the model to measure");
    if (!p->text)
        return cli_usage_error(&command,
                               "--text FILE is missing: the text to measure on");
    if (baseline.n > 0)
        return cli_usage_error(&command,
                               "ppl measures one model: a baseline needs kld");
    return OPT_RUN;
}

int cmd_eval_ppl(int argc, char **argv)
{
    struct ppl p = {.ctx = 512, .convention = "llama.cpp"};
    struct b2_err err = {0};
    int code = parse(&p, argc, argv);

    if (code != OPT_RUN)
        return code;
    if (eval_check_report(p.report, &p.include, p.force, &err) || measure(&p, &err)) {
        code = cli_report_error(&err);
    } else {
        if (!p.env.common.json)
            print(&p);
        code =
            eval_finish(&p.env.common, result_json(&p), p.report, &p.include, p.force);
        if (p.scores && save_rows(&p, &err) && code == CLI_DONE)
            code = cli_report_error(&err);
    }
    str_free(&p.kept);
    textset_free(&p.set);
    eval_side_close(&p.side);
    eval_env_close(&p.env);
    return code;
}

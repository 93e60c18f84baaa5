/*
 * cmd_eval.c - bonsai2 eval: what a model makes of a text, alone or beside a baseline.
 *
 * The measures are in eval/; this opens models, cuts the text and prints.
 */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "eval/divergence.h"
#include "model/plan.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { TEXT_MAX_BYTES = 1 << 30, EVAL_BATCH = 512 };

/* One model with what it takes to run it. */
struct side {
    struct model *model;
    struct backend *be;
    struct session *s;
};

struct eval {
    struct cli_common common;
    const char *model, *baseline, *text, *convention;
    int64_t ctx, chunks;
    bool exact, baseline_exact;
    bool kld; /* which measure */
    struct log log;
    struct pool *pool;
    struct side cand, base;
    struct textset set;
    double seconds;
};

static void side_close(struct side *s)
{
    session_free(s->s);
    backend_free(s->be);
    model_close(s->model);
}

static enum b2_status side_open(struct side *s, const struct eval *e, const char *path,
                                bool exact, struct b2_err *err)
{
    struct model_params mp = {.log = &e->log};
    struct backend_config cfg = {.pool = e->pool, .exact = exact, .log = &e->log};
    struct session_params sp = {.ctx = e->ctx, .batch = min_i64(e->ctx, EVAL_BATCH)};
    enum b2_status rc = model_open(&s->model, path, &mp, err);

    if (!rc)
        rc = cli_cpu(&cfg.cpu, &e->common, err);
    if (!rc)
        rc = backend_cpu_new(&s->be, &cfg, err);
    if (!rc)
        rc = session_new(&s->s, s->model, s->be, &sp, err);
    return rc;
}

/* Bytes that one model and its share of the logits will take. */
static enum b2_status side_bytes(uint64_t *out, const struct side *s,
                                 const struct eval *e, struct b2_err *err)
{
    struct plan plan;
    int64_t batch = session_batch(s->s), vocab = s->model->hp.vocab;
    enum b2_status rc = plan_make(&plan, s->model, s->be, e->ctx, batch, err);

    if (rc)
        return rc;
    *out = plan.total_bytes + (uint64_t)(divergence_rows(vocab, batch) * vocab) * 4;
    return B2_OK;
}

static enum b2_status check_memory(const struct eval *e, struct b2_err *err)
{
    uint64_t cand = 0, base = 0, limit = e->common.mem_limit;
    enum b2_status rc = side_bytes(&cand, &e->cand, e, err);

    if (!rc && e->kld)
        rc = side_bytes(&base, &e->base, e, err);
    if (!rc && limit > 0 && cand + base > limit)
        rc = err_set(err, B2_ENOMEM,
                     "needs %.1f MB (model %.1f, baseline %.1f), the limit is %.1f MB: "
                     "a smaller --ctx needs less",
                     (double)(cand + base) / 1e6, (double)cand / 1e6,
                     (double)base / 1e6, (double)limit / 1e6);
    return rc;
}

/* Cuts the text with the model's tokenizer. The baseline's must agree: the same ids
 * under another vocabulary would be another text. */
static enum b2_status cut_text(struct eval *e, struct b2_err *err)
{
    enum text_convention conv =
        strcmp(e->convention, "rolling") == 0 ? CONV_ROLLING : CONV_LLAMA_CPP;
    struct textset other = {0};
    char *text = NULL;
    size_t n = 0;
    enum b2_status rc = file_read_all(&text, &n, e->text, TEXT_MAX_BYTES, err);

    if (rc)
        return rc;
    rc = textset_make(&e->set, e->cand.model->tok, text, n, conv, e->ctx, e->chunks,
                      err);
    if (!rc && e->kld && e->cand.model->hp.vocab == e->base.model->hp.vocab) {
        rc = textset_make(&other, e->base.model->tok, text, n, conv, e->ctx, e->chunks,
                          err);
        if (!rc && (other.all.n != e->set.all.n ||
                    memcmp(other.all.id, e->set.all.id,
                           (size_t)other.all.n * sizeof *other.all.id) != 0))
            rc = err_set(err, B2_EARG,
                         "the tokenizers of model and baseline cut this text "
                         "differently: their distributions cannot be compared");
    }
    if (rc)
        err_wrap(err, "%s", e->text);
    textset_free(&other);
    mem_free(text);
    return rc;
}

static void interrupt(void *ctx)
{
    struct eval *e = ctx;

    session_cancel(e->cand.s);
    if (e->base.s)
        session_cancel(e->base.s);
}

static enum b2_status eval_open(struct eval *e, struct b2_err *err)
{
    enum b2_status rc;

    e->log = cli_log(&e->common);
    e->pool = cli_pool(&e->common, err);
    if (!e->pool)
        return B2_ENOMEM;
    rc = side_open(&e->cand, e, e->model, e->exact, err);
    if (!rc && e->kld)
        rc = side_open(&e->base, e, e->baseline, e->exact || e->baseline_exact, err);
    if (!rc)
        rc = check_memory(e, err);
    if (!rc)
        rc = cut_text(e, err);
    return rc;
}

static void eval_close(struct eval *e)
{
    textset_free(&e->set);
    side_close(&e->cand);
    side_close(&e->base);
    pool_free(e->pool);
}

/* The conditions of a number, the same for both measures. */
static void json_conditions(cJSON *j, const struct eval *e)
{
    cJSON_AddNumberToObject(j, "ctx", (double)e->set.ctx);
    cJSON_AddNumberToObject(j, "stride", (double)e->set.stride);
    cJSON_AddNumberToObject(j, "chunks", (double)e->set.n_windows);
    cJSON_AddStringToObject(j, "convention", e->convention);
    cJSON_AddStringToObject(j, "text", e->text);
    cJSON_AddStringToObject(j, "text_sha256", e->set.sha256);
    cJSON_AddStringToObject(j, "model", e->model);
    cJSON_AddStringToObject(j, "fingerprint", e->cand.model->fingerprint);
    if (e->kld) {
        cJSON_AddStringToObject(j, "baseline", e->baseline);
        cJSON_AddStringToObject(j, "fingerprint_baseline", e->base.model->fingerprint);
        cJSON_AddBoolToObject(j, "exact_baseline", backend_is_exact(e->base.be));
    }
    cJSON_AddBoolToObject(j, "exact", e->exact);
    cJSON_AddStringToObject(j, "kernel", backend_kernel_name(e->cand.be));
    cJSON_AddNumberToObject(j, "threads", pool_threads(e->pool));
    cJSON_AddNumberToObject(j, "seed", (double)e->common.seed);
    cJSON_AddNumberToObject(j, "seconds", e->seconds);
    cJSON_AddStringToObject(j, "version", B2_VERSION);
}

static const char *activations(bool exact)
{
    return exact ? "F32 activations" : "8-bit activations";
}

static void print_conditions(const struct eval *e)
{
    printf("model        %s (%.12s, %s)\n", e->model, e->cand.model->fingerprint,
           activations(e->exact));
    if (e->kld)
        printf("baseline     %s (%.12s, %s)\n", e->baseline, e->base.model->fingerprint,
               activations(backend_is_exact(e->base.be)));
    printf("text         %s (SHA-256 %.12s), %lld tokens\n", e->text, e->set.sha256,
           (long long)e->set.all.n);
    printf("scored       %lld tokens in %lld windows of %lld, convention %s\n",
           (long long)e->set.n_scored, (long long)e->set.n_windows,
           (long long)e->set.ctx, e->convention);
    printf("run          %s kernels, %d threads, %.1f s\n\n",
           backend_kernel_name(e->cand.be), pool_threads(e->pool), e->seconds);
}

static int print_ppl(const struct eval *e, const struct ppl_result *r)
{
    cJSON *j;

    if (!e->common.json) {
        print_conditions(e);
        printf("perplexity   %.4f ± %.4f\n", r->ppl, r->ppl * r->nll_stderr);
        printf("loss         %.6f nat per token\n", r->nll);
        return CLI_DONE;
    }
    j = cJSON_CreateObject();
    cJSON_AddNumberToObject(j, "ppl", r->ppl);
    cJSON_AddNumberToObject(j, "nll", r->nll);
    cJSON_AddNumberToObject(j, "n_tokens", (double)r->n_tokens);
    cJSON_AddNumberToObject(j, "ppl_stderr", r->ppl * r->nll_stderr);
    cJSON_AddNumberToObject(j, "nll_stderr", r->nll_stderr);
    json_conditions(j, e);
    return cli_print_json(j);
}

static int print_kld(const struct eval *e, const struct kld_result *r)
{
    cJSON *j;

    if (!e->common.json) {
        print_conditions(e);
        printf("divergence   %.6f ± %.6f nat, mean\n", r->mean_kld, r->kld_stderr);
        printf("             %.6f median, %.6f 90 %%, %.6f 99 %%, %.6f largest\n",
               r->median_kld, r->p90_kld, r->p99_kld, r->max_kld);
        printf("same top     %.2f %% of the most likely tokens\n",
               100.0 * r->same_top1);
        printf("perplexity   %.4f, baseline %.4f, ratio %.4f\n", r->ppl,
               r->ppl_baseline, r->ppl_ratio);
        return CLI_DONE;
    }
    j = cJSON_CreateObject();
    cJSON_AddNumberToObject(j, "mean_kld", r->mean_kld);
    cJSON_AddNumberToObject(j, "median_kld", r->median_kld);
    cJSON_AddNumberToObject(j, "p99_kld", r->p99_kld);
    cJSON_AddNumberToObject(j, "same_top1", r->same_top1);
    cJSON_AddNumberToObject(j, "ppl", r->ppl);
    cJSON_AddNumberToObject(j, "ppl_baseline", r->ppl_baseline);
    cJSON_AddNumberToObject(j, "ppl_ratio", r->ppl_ratio);
    cJSON_AddNumberToObject(j, "n_tokens", (double)r->n_tokens);
    cJSON_AddNumberToObject(j, "kld_stderr", r->kld_stderr);
    cJSON_AddNumberToObject(j, "p90_kld", r->p90_kld);
    cJSON_AddNumberToObject(j, "max_kld", r->max_kld);
    json_conditions(j, e);
    return cli_print_json(j);
}

static int eval_run(struct eval *e)
{
    struct b2_err err = {0};
    struct ppl_result ppl = {0};
    struct kld_result kld = {0};
    int code;
    enum b2_status rc = eval_open(e, &err);

    if (!rc) {
        struct progress pr =
            cli_progress(&e->common, e->kld ? "divergence" : "perplexity",
                         e->kld ? "kld" : "ppl", (uint64_t)e->set.n_scored);
        double start_s = clock_s();
        cli_on_interrupt(interrupt, e);
        if (e->kld)
            rc = divergence_kld(&kld, e->cand.s, e->base.s, &e->set, &pr, &err);
        else
            rc = divergence_ppl(&ppl, e->cand.s, &e->set, &pr, &err);
        cli_on_interrupt(NULL, NULL);
        e->seconds = clock_s() - start_s;
    }
    if (rc)
        code = cli_report_error(&err);
    else
        code = e->kld ? print_kld(e, &kld) : print_ppl(e, &ppl);
    eval_close(e);
    return code;
}

static int check_words(const struct cmd *cmd, struct eval *e, const char *measure)
{
    e->kld = strcmp(measure, "kld") == 0;
    if (!e->kld && strcmp(measure, "ppl") != 0)
        return cli_usage_error(cmd, "unknown measure '%s': ppl and kld are known",
                               measure);
    if (!e->model)
        return cli_usage_error(cmd, "-m FILE is missing: the model to measure");
    if (!e->text)
        return cli_usage_error(cmd, "--text FILE is missing: the text to measure on");
    if (e->kld && !e->baseline)
        return cli_usage_error(cmd,
                               "--baseline FILE is missing: the model to compare with");
    if (!e->kld && (e->baseline || e->baseline_exact))
        return cli_usage_error(cmd, "ppl measures one model: a baseline needs kld");
    return CLI_DONE;
}

int cmd_eval(int argc, char **argv)
{
    static const struct cmd cmd = {
        "eval",
        "Measure perplexity on a text (ppl), or divergence from another model (kld).",
        "ppl|kld",
        1,
        1,
        "bonsai2 eval kld -m small.gguf --baseline model.gguf --text book.txt "
        "--ctx 512 --chunks 16"};
    struct eval e = {.ctx = 512, .convention = "llama.cpp"};
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE|DIR", &e.model, 0, 0, "Model to measure."},
        {OPT_STR, 0, "baseline", "FILE|DIR", &e.baseline, 0, 0,
         "kld: the model to compare with, usually the original."},
        {OPT_STR, 0, "text", "FILE", &e.text, 0, 0,
         "UTF-8 text to score; - is standard input."},
        {OPT_INT, 'c', "ctx", "N", &e.ctx, TEXTSET_MIN_CTX, 1 << 20,
         "Tokens in a window. [512]"},
        {OPT_INT, 0, "chunks", "N", &e.chunks, 0, 1e9,
         "Windows to score, from the start of the text; 0: all. [0]"},
        {OPT_ENUM, 0, "convention", "llama.cpp|rolling", &e.convention, 0, 0,
         "llama.cpp: disjoint windows, their second half is scored; rolling: each "
         "token "
         "once, as lm-evaluation-harness does. [llama.cpp]"},
        {OPT_FLAG, 0, "exact", NULL, &e.exact, 0, 0,
         "Activations and sums in F32, for both models; slow."},
        {OPT_FLAG, 0, "baseline-exact", NULL, &e.baseline_exact, 0, 0,
         "The same for the baseline alone: with one file as both, this measures what "
         "8-bit activations cost."},
        CLI_COMMON_OPTS(&e.common),
        {.kind = OPT_END},
    };
    int n_operands = 0;
    int code = cli_parse(&cmd, opts, argc, argv, &n_operands);

    if (code != OPT_RUN)
        return code;
    code = check_words(&cmd, &e, argv[1]);
    return code == CLI_DONE ? eval_run(&e) : code;
}

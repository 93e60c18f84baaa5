/*
 * cmd_eval_kld.c - bonsai2 eval kld: how far models are from a baseline, region by region.
 *
 * The baseline is a model that walks beside each candidate, or a teacher file that it
 * left (--save-teacher): then it runs once, however many candidates there are.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/eval_kld.h"

#include <cjson/cJSON.h>
#include <string.h>

static const struct cmd command = {
    .name = "eval kld",
    .summary = "Measure how far models are from a baseline: divergence, agreement, "
               "change of the right token's probability, perplexity; by region, with "
               "95 % intervals.",
    .example = "bonsai2 eval kld -m small.gguf --baseline model.gguf --text book.txt "
               "--ctx 512 --chunks 16",
};

static struct session *session_of(const struct eval_side *s)
{
    return s->model ? s->s : NULL;
}

/* Opens the candidate and, for the first one, cuts the texts. */
static enum b2_status open_candidate(struct kld *k, const char *path,
                                     struct b2_err *err)
{
    k->cand.cache = k->cache;
    enum b2_status rc =
        eval_side_open(&k->cand, &k->env, path, k->exact, k->texts.ctx, err);

    if (!rc)
        rc = eval_check_memory(&k->env, &k->cand, &k->base, err);
    if (!rc && k->f.n_texts == 0)
        rc = eval_texts_cut(&k->f, &k->texts, k->cand.model->tok, err);
    else if (!rc && k->cut_vocab == k->cand.model->hp.vocab)
        rc = eval_texts_same(&k->f, &k->texts, k->cand.model->tok, err);
    k->cut_vocab = rc ? 0 : k->cand.model->hp.vocab;
    if (!rc && k->base.model && k->base.model->hp.vocab == k->cut_vocab)
        rc = eval_texts_same(&k->f, &k->texts, k->base.model->tok, err);
    return rc;
}

static enum b2_status score_candidate(struct kld *k, struct fidelity_row *rows,
                                      struct b2_err *err)
{
    struct eval_cancel cancel = {k->cand.s, session_of(&k->base)};
    struct progress pr =
        cli_progress(&k->env.common, "divergence", "kld", (uint64_t)k->f.n_scored);
    enum b2_status rc = B2_OK;
    double start_s = clock_s();

    if (k->teacher_path)
        rc = teacher_file_open(&k->teacher, k->teacher_path, &k->f, k->texts.convention,
                               k->cut_vocab, err);
    if (rc)
        return rc;
    cli_on_interrupt(eval_cancel_both, &cancel);
    rc = fidelity_run(rows, &k->f, k->cand.s, session_of(&k->base), k->teacher, &pr,
                      err);
    cli_on_interrupt(NULL, NULL);
    if (rc && rc != B2_ECANCEL)
        err_wrap(err, "%s against %s", k->cand.path,
                 k->teacher_path ? k->teacher_path : k->baseline);
    k->seconds = clock_s() - start_s;
    return rc;
}

/* One candidate from opening to its result. */
static enum b2_status run_candidate(struct kld *k, const char *path, struct b2_err *err)
{
    struct fidelity_row *rows = NULL;
    struct kld_report r = {0};
    enum b2_status rc = open_candidate(k, path, err);

    if (!rc) {
        rows = mem_calloc((size_t)k->f.n_scored, sizeof *rows);
        rc = rows ? score_candidate(k, rows, err)
                  : err_set(err, B2_ENOMEM, "out of memory for %lld rows",
                            (long long)k->f.n_scored);
    }
    if (!rc)
        rc = kld_report_make(&r, &k->f, rows, (uint64_t)k->env.common.seed, err);
    if (!rc && k->scores && !k->lost) /* figures are told all the same */
        k->lost = kld_save_rows(k, rows, &k->why_lost) != B2_OK;
    if (!rc) {
        cJSON_AddItemToArray(k->results, kld_json(k, &r));
        if (!k->env.common.json)
            kld_print(k, &r);
    }
    kld_report_free(&r);
    mem_free(rows);
    teacher_file_close(k->teacher);
    k->teacher = NULL;
    eval_side_close(&k->cand);
    return rc;
}

/* Runs the baseline over the texts and keeps its rows; the candidates then use them. */
static enum b2_status save_teacher(struct kld *k, struct b2_err *err)
{
    struct teacher_params p = {.path = k->save_path,
                               .k = k->top_k,
                               .model = k->baseline,
                               .exact = k->exact || k->baseline_exact,
                               .convention = k->texts.convention,
                               .force = k->force,
                               .log = &k->env.log};
    struct eval_cancel cancel = {session_of(&k->base), NULL};
    enum b2_status rc = eval_check_memory(&k->env, &k->base, NULL, err);

    if (!rc)
        rc = eval_texts_cut(&k->f, &k->texts, k->base.model->tok, err);
    if (rc)
        return rc;
    k->cut_vocab = k->base.model->hp.vocab;
    struct progress pr =
        cli_progress(&k->env.common, "teacher", "ppl", (uint64_t)k->f.n_scored);
    cli_on_interrupt(eval_cancel_both, &cancel);
    rc = teacher_file_save(&p, &k->f, k->base.s, &pr, err);
    cli_on_interrupt(NULL, NULL);
    if (rc == B2_EFORMAT)
        err_wrap(err, "%s", k->baseline);
    eval_side_close(&k->base);
    k->teacher_path = k->save_path;
    return rc;
}

static enum b2_status measure(struct kld *k, struct b2_err *err)
{
    enum b2_status rc = eval_check_report(k->report, &k->include, k->force, err);

    if (!rc && k->scores) /* the baseline keeps nothing */
        rc = eval_names_differ(NULL, &k->models, err);
    if (!rc)
        rc = eval_env_open(&k->env, err);
    if (!rc && k->baseline)
        rc = eval_side_open(&k->base, &k->env, k->baseline,
                            k->exact || k->baseline_exact, k->texts.ctx, err);
    if (!rc && k->scores)
        rc = file_make_dir(k->scores, err);
    if (!rc && k->save_path)
        rc = save_teacher(k, err);
    for (int i = 0; i < k->models.n && !rc; i++)
        rc = run_candidate(k, k->models.item[i], err);
    return rc;
}

static int check_words(const struct kld *k)
{
    if (k->models.n == 0 && !k->save_path)
        return cli_usage_error(&command, "-m FILE is missing: the model to measure");
    if (k->texts.words.n == 0 && !k->texts.regions)
        return cli_usage_error(
            &command, "--text FILE is missing: the text to measure on; or --regions");
    if (!k->baseline && !k->teacher_path)
        return cli_usage_error(
            &command, "--baseline FILE is missing: the model to compare with; or "
                      "--teacher");
    if (k->baseline && k->teacher_path)
        return cli_usage_error(&command, "--baseline and --teacher do not go together");
    if (k->save_path && !k->baseline)
        return cli_usage_error(&command, "--save-teacher needs --baseline");
    if (k->save_path && k->base.cache && strcmp(k->base.cache, "f16") != 0)
        return cli_usage_error(&command, "a teacher file keeps what the baseline says "
                                         "with a cache of f16: leave --baseline-cache");
    if (k->teacher_path && k->baseline_exact)
        return cli_usage_error(&command,
                               "--baseline-exact needs --baseline, not a teacher file");
    return OPT_RUN;
}

static int parse(struct kld *k, int argc, char **argv)
{
    const struct opt opts[] = {
        {OPT_LIST, 'm', "model", "FILE|DIR", &k->models, 0, 0,
         "Model to measure; several are shown side by side."},
        {OPT_STR, 0, "baseline", "FILE|DIR", &k->baseline, 0, 0,
         "The model to compare with, usually the original."},
        {OPT_LIST, 0, "text", "[NAME=]FILE", &k->texts.words, 0, 0,
         "UTF-8 text to score, a document of the region NAME; may be repeated."},
        {OPT_STR, 0, "regions", "DIR|own", &k->texts.regions, 0, 0,
         "Score every region_NAME.txt of this folder; own: small texts of English, "
         "Chinese, code, maths and chat that come with the program."},
        EVAL_WINDOW_OPTS(&k->texts, "0"),
        {OPT_STR, 0, "save-teacher", "FILE", &k->save_path, 0, 0,
         "Keep what the baseline predicts; goes on with an interrupted file."},
        {OPT_STR, 0, "teacher", "FILE", &k->teacher_path, 0, 0,
         "Compare with such a file instead of a model."},
        {OPT_INT, 0, "top-k", "K", &k->top_k, 1, TEACHER_MAX_K,
         "Log-probabilities kept for each position; the rest is one tail. [256]"},
        {OPT_FLAG, 0, "exact", NULL, &k->exact, 0, 0,
         "Activations and sums in F32, for both models; slow."},
        {OPT_FLAG, 0, "baseline-exact", NULL, &k->baseline_exact, 0, 0,
         "The same for the baseline alone: with one file as both, this measures what "
         "8-bit activations cost."},
        {OPT_STR, 0, "scores", "DIR", &k->scores, 0, 0,
         "Keep every position's figures there, kld-MODEL.tsv."},
        EVAL_CACHE_OPT(&k->cache),
        {OPT_ENUM, 0, "baseline-cache", "f16|q8_0|q4_0", &k->base.cache, 0, 0,
         "The same for the baseline: with one file as both, this measures what a "
         "smaller cache costs. [f16]"},
        EVAL_REPORT_OPTS(&k->report, &k->include, &k->force),
        CLI_COMMON_OPTS(&k->env.common),
        {.kind = OPT_END},
    };
    int n_operands = 0, code = cli_parse(&command, opts, argc, argv, &n_operands);

    return code == OPT_RUN ? check_words(k) : code;
}

int cmd_eval_kld(int argc, char **argv)
{
    struct kld k = {.texts = {.ctx = 512, .convention = "llama.cpp"},
                    .top_k = TEACHER_K};
    struct b2_err err = {0};
    int code = parse(&k, argc, argv);

    if (code != OPT_RUN)
        return code;
    k.results = cJSON_CreateArray();
    if (measure(&k, &err))
        code = cli_report_error(&err);
    else if (k.models.n > 0)
        code = eval_finish(&k.env.common, eval_join("kld", &k.results), k.report,
                           &k.include, k.force);
    else
        code = CLI_DONE;
    if (code == CLI_DONE && k.lost)
        code = cli_report_error(&k.why_lost);
    cJSON_Delete(k.results);
    fidelity_free(&k.f);
    eval_texts_free(&k.texts);
    eval_side_close(&k.cand);
    eval_side_close(&k.base);
    eval_env_close(&k.env);
    return code;
}

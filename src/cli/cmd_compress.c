/*
 * cmd_compress.c - bonsai2 compress: words to a recipe, report to table or JSON.
 *
 * The work is in compress/pipeline.h.
 */
#include "base/file.h"
#include "cli/calib_cmd.h"
#include "cli/distill_opts.h"
#include "compress/fold.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct compress {
    struct cli_common common;
    const char *output, *budget, *effort, *rotate, *ternary_rule, *tail, *report,
        *types, *costs, *fold;
    struct calib_cmd texts;
    struct opt_list rules;
    int64_t refine, layers, metric_width, remove;
    double mismatch, zero_groups;
    bool dry_run, force, sort;
    struct recipe recipe;
    struct distill_words words; /* of effort best */
    struct distill_report distilled;
    struct fold_params folding;
    struct fold_report folded;    /* with --fold or --sort */
    struct remove_report removed; /* with --remove */
};

/* Compensation gains most on rotated weights. */
static const char *default_rotation(const struct recipe *r)
{
    return r->effort >= RECIPE_NORMAL ? "each" : "none";
}

static enum b2_status read_recipe(struct compress *c, struct b2_err *err)
{
    struct recipe *r = &c->recipe;
    enum b2_status rc = recipe_set_effort(r, c->effort, err);

    if (!rc && c->budget)
        rc = recipe_set_budget(r, c->budget, err);
    for (int i = 0; i < c->rules.n && !rc; i++)
        rc = recipe_add_rule(r, c->rules.item[i], err);
    if (!rc)
        rc = recipe_set_rotate(r, c->rotate ? c->rotate : default_rotation(r), err);
    if (!rc)
        rc = recipe_set_ternary_rule(r, c->ternary_rule, err);
    if (!rc && c->tail)
        rc = recipe_set_tail(r, c->tail, err);
    if (!rc && c->types)
        rc = recipe_set_types(r, c->types, err);
    r->layers = (int)c->layers;
    r->zero_groups = c->zero_groups;
    r->mismatch = c->mismatch;
    r->metric_width = c->metric_width;
    r->refine = (int)c->refine;
    r->seed = (uint64_t)c->common.seed;
    return rc;
}

static void removed_json(cJSON *o, const struct remove_report *r)
{
    cJSON *tried = cJSON_AddArrayToObject(o, "tried");

    for (int n = 0; n < r->n; n++) {
        cJSON *each = cJSON_CreateObject();
        cJSON_AddNumberToObject(each, "layers", n);
        cJSON_AddNumberToObject(each, "nat_by_layers", r->pruned[n]);
        if (isfinite(r->types[n]))
            cJSON_AddNumberToObject(each, "nat_by_types", r->types[n]);
        else
            cJSON_AddNullToObject(each, "nat_by_types");
        cJSON_AddItemToArray(tried, each);
    }
    cJSON_AddNumberToObject(o, "layers", r->taken);
}

static void removed_text(struct str *out, const struct remove_report *r, bool dry_run)
{
    str_put(out, "\nlayers less  nat by that  nat by types\n");
    for (int n = 0; n < r->n; n++) {
        str_printf(out, "%11d  %11.4f  ", n, r->pruned[n]);
        if (isfinite(r->types[n]))
            str_printf(out, "%12.4f", r->types[n]);
        else
            str_put(out, "no types are small enough");
        str_put(out, n == r->taken ? "  taken\n" : "\n");
    }
    if (dry_run)
        str_put(out,
                "smaller models and costs stay beside the output until it is made\n");
}

/* Whether columns change before they are rounded. */
static bool folds(const struct compress *c)
{
    return c->folding.exponent != 0.0 || c->folding.sort;
}

static void folded_json(cJSON *o, const struct fold_report *r)
{
    cJSON_AddNumberToObject(o, "exponent", r->exponent);
    cJSON_AddStringToObject(o, "sorted",
                            r->stream   ? "hidden, stream"
                            : r->sorted ? "hidden"
                                        : "none");
    cJSON *tried = cJSON_AddArrayToObject(o, "tried");
    for (int i = 0; i < FOLD_TRIES; i++) {
        if (!isfinite(r->kld[i]))
            continue;
        cJSON *each = cJSON_CreateObject();
        cJSON_AddNumberToObject(each, "exponent", fold_exponent[i]);
        cJSON_AddNumberToObject(each, "kld", r->kld[i]);
        cJSON_AddItemToArray(tried, each);
    }
}

static void folded_text(struct str *out, const struct fold_report *r, bool dry_run)
{
    str_printf(out, "\ncolumns scaled by rms^%g, %s\n", r->exponent,
               r->stream   ? "hidden values and residual stream sorted"
               : r->sorted ? "hidden values sorted"
                           : "not sorted");
    for (int i = 0; i < FOLD_TRIES; i++)
        if (isfinite(r->kld[i]))
            str_printf(out, "  rms^%-4g  kld %.4f with few tokens%s\n",
                       fold_exponent[i], r->kld[i],
                       fold_exponent[i] == r->exponent ? "  taken" : "");
    if (dry_run)
        str_put(out,
                "the rewritten model stays beside the output until that is made\n");
}

static cJSON *json_of(const struct compress *c, const struct report *r)
{
    cJSON *json = report_json(r);

    if (json && c->recipe.effort == RECIPE_BEST && !c->dry_run)
        distill_json(cJSON_AddObjectToObject(json, "distillation"), &c->distilled);
    if (json && c->remove > 0)
        removed_json(cJSON_AddObjectToObject(json, "removal"), &c->removed);
    if (json && folds(c))
        folded_json(cJSON_AddObjectToObject(json, "fold"), &c->folded);
    return json;
}

static enum b2_status write_report(const struct compress *c, const struct report *r,
                                   struct b2_err *err)
{
    cJSON *json = json_of(c, r);
    char *text = json ? cJSON_Print(json) : NULL;
    enum b2_status rc;

    if (text)
        rc = file_write_all(c->report, text, strlen(text), true, err);
    else
        rc = err_set(err, B2_ENOMEM, "%s: out of memory", c->report);
    cJSON_free(text);
    cJSON_Delete(json);
    return rc;
}

static int print_report(const struct compress *c, const struct report *r)
{
    struct str text = {0};

    if (!c->common.json)
        report_text(r, c->common.verbose, &text);
    if (!c->common.json && c->remove > 0)
        removed_text(&text, &c->removed, c->dry_run);
    if (!c->common.json && folds(c))
        folded_text(&text, &c->folded, c->dry_run);
    if (!c->common.json && c->recipe.effort == RECIPE_BEST && !c->dry_run) {
        str_put(&text, "\n");
        distill_text(&text, &c->distilled);
    }
    return calib_cmd_print(&c->common, c->common.json ? json_of(c, r) : NULL, &text);
}

static enum b2_status run_stages(struct report *r, struct compress *c,
                                 const struct pipeline_params *p, struct b2_err *err)
{
    if (folds(c)) {
        const enum b2_status rc = fold_run(r, &c->folded, &c->folding, p, err);
        c->removed = c->folded.removed;
        return rc;
    }
    return remove_run(r, &c->removed, p, (int)c->remove, err);
}

static int compress_run(struct compress *c, const char *source)
{
    struct b2_err err = {0};
    struct report report = {0};

    c->texts.plans = c->recipe.effort == RECIPE_BEST;
    enum b2_status rc = calib_cmd_begin(&c->texts, &c->common, &err);
    struct pipeline_params p = {
        .source = source,
        .output = c->output,
        .recipe = &c->recipe,
        .calib = &c->texts.params,
        .distill = &c->words.p,
        .distilled = &c->distilled,
        .costs = c->costs,
        .mem_limit = c->common.mem_limit,
        .dry_run = c->dry_run,
        .force = c->force,
        .env = {.pool = c->texts.pool,
                .progress = &c->texts.progress,
                .cancelled = calib_cmd_cancelled,
                .ctx = &c->texts},
        .log = &c->texts.log,
        .on_stage = calib_cmd_stage,
    };

    const struct calib_self self = {.source = source,
                                    .output = c->output,
                                    .force = c->force,
                                    .beside = {c->report, c->costs},
                                    .want = c->dry_run ? ANSWERS_NEEDED : ANSWERS_MADE};

    if (!rc)
        rc = cli_cpu(&c->words.p.cpu, &c->common, &err);
    if (!rc && c->report)
        rc = calib_cmd_check_beside("--report", c->report, c->output, source, &err);
    if (!rc)
        rc = calib_cmd_self(&c->texts, &self, &err);
    if (!rc)
        rc = run_stages(&report, c, &p, &err);
    int code = rc ? cli_report_error(&err) : print_report(c, &report);
    if (!rc && c->report && write_report(c, &report, &err))
        code = cli_report_error(&err);
    distill_report_free(&c->distilled);
    report_free(&report);
    calib_cmd_end(&c->texts);
    return code;
}

/* "none", "auto" or a number. */
static int read_fold(struct compress *c, const struct cmd *cmd)
{
    char *end = NULL;

    c->folding = (struct fold_params){.sort = c->sort, .max_layers = (int)c->remove};
    if (c->fold && strcmp(c->fold, "auto") == 0) {
        c->folding.exponent = (double)NAN;
    } else if (c->fold && strcmp(c->fold, "none") != 0) {
        c->folding.exponent = strtod(c->fold, &end);
        if (end == c->fold || *end || !(c->folding.exponent >= 0.0) ||
            c->folding.exponent > 1.0)
            return cli_usage_error(
                cmd, "--fold %.20s: none, auto, or a number from 0 to 1", c->fold);
    }
    if (folds(c) && c->texts.calib.n == 0)
        return cli_usage_error(cmd, "--fold and --sort need --calib FILE: what flows "
                                    "through each column");
    if (folds(c) && c->words.p.teacher)
        return cli_usage_error(cmd, "--fold and --sort do not go with --teacher, whose "
                                    "columns are others");
    if (folds(c) && !c->output)
        return cli_usage_error(cmd, "--fold and --sort need -o FILE, beside which the "
                                    "rewritten model lies");
    return OPT_RUN;
}

/* From parsed options to the recipe. OPT_RUN, or the exit code. */
static int read_words(struct compress *c, const struct cmd *cmd)
{
    struct b2_err err = {0};

    if (!c->output && !c->dry_run)
        return cli_usage_error(cmd, "-o FILE is missing: the file to write");
    if (!c->effort)
        c->effort = c->texts.calib.n > 0 ? "normal" : "fast";
    if (c->texts.calib.n > 0 && strcmp(c->effort, "fast") == 0)
        return cli_usage_error(cmd, "--calib goes with --effort normal and best");
    if (c->texts.calib.n == 0 && strcmp(c->effort, "fast") != 0)
        return cli_usage_error(
            cmd, "--effort %.20s needs texts to calibrate on: give --calib FILE",
            c->effort);
    if (c->texts.self.n > 0 && c->texts.calib.n == 0)
        return cli_usage_error(cmd, "--self needs --calib FILE: what to ask about");
    if (c->remove > 0 && strcmp(c->effort, "normal") != 0)
        return cli_usage_error(cmd, "--remove goes with --calib and --effort normal");
    if (c->remove > 0 && !c->output)
        return cli_usage_error(cmd,
                               "--remove needs -o FILE, beside which smaller models "
                               "are tried");
    int code = read_fold(c, cmd);
    if (code != OPT_RUN)
        return code;
    if (c->zero_groups > 0.0 && strcmp(c->effort, "normal") != 0)
        return cli_usage_error(cmd,
                               "--zero-groups goes with --calib and --effort normal");
    if (strcmp(c->effort, "best") != 0 && c->words.held.n > 0)
        return cli_usage_error(cmd, "--held goes with --effort best");
    if (strcmp(c->effort, "best") != 0 && c->words.p.teacher)
        return cli_usage_error(cmd, "--teacher goes with --effort best");
    c->words.p.seed = (uint64_t)c->common.seed;
    code = distill_words_read(&c->words, cmd);
    if (code != OPT_RUN)
        return code;
    if (read_recipe(c, &err))
        return err.status == B2_EUNSUP ? cli_report_error(&err)
                                       : cli_usage_error(cmd, "%s", err.msg);
    if (c->remove > 0 && c->recipe.budget != RECIPE_BYTES)
        return cli_usage_error(cmd, "--remove goes with a --budget in bytes: bits a "
                                    "weight do not fall with layers");
    return OPT_RUN;
}

/* From effort normal on. */
/* clang-format off */
#define COMPENSATE_OPTS(c) \
    {OPT_NUM, 0, "zero-groups", "SHARE", &(c)->zero_groups, 0.0, 0.9, \
     "This share of the groups of each row of ternary linear layers, those that matter " \
     "least, becomes zeros and is left out of the file. Less bytes, more error; when it " \
     "is run, whole matrices lie in memory. Only programs that know bonsai2.zeros keys " \
     "can run the file. [0]"}, \
    {OPT_NUM, 0, "mismatch", "SHARE", &(c)->mismatch, 0.0, 1.0, \
     "How much of the error of earlier layers each layer makes up for. [0.5]"}, \
    {OPT_INT, 0, "refine", "N", &(c)->refine, 0, 100, \
     "Passes over the codes after compensation; 0 also leaves scales as fitted. " \
     "[4]"}, \
    {OPT_INT, 0, "metric-width", "N", &(c)->metric_width, 0, 1e6, \
     "Wider inputs are cut into parts with statistics of their own, which take memory " \
     "as the square of their width; 0: none is. [6144]"}

/* The same model with other columns, before rounding. */
#define FOLD_OPTS(c) \
    {OPT_STR, 0, "fold", "none|auto|A", &(c)->fold, 0, 0, \
     "With --calib: scale columns by a power of two near (rms of the input)^A and what " \
     "comes before them by its inverse, which changes no output; auto: the best of " \
     "0, 0.25, 0.5 and 0.75 by divergence, each compressed with 4096 tokens. [none]"}, \
    {OPT_FLAG, 0, "sort", NULL, &(c)->sort, 0, 0, \
     "With --calib: hidden values in the order of their rms; the residual stream's too, " \
     "where the table of tokens is F32, F16 or BF16."}

/* How ternary groups and rows are rounded. */
#define ROUNDING_OPTS(c) \
    {OPT_STR, 0, "rotate", "none|auto|each|whole|N", &(c)->rotate, 0, 0, \
     "Rotate the inputs of ternary linear layers in blocks of N before rounding; " \
     "auto: the largest that fits all; each: the largest for each width, a power of " \
     "two; whole: also of orders 12, 20 and 28. Less error, but only programs that " \
     "know prism.hadamard keys (each, whole: bonsai2.rotation keys) can run the file. " \
     "[none; each with --effort normal]"}, \
    {OPT_STR, 0, "ternary-rule", "ls|round|threshold|twn", &(c)->ternary_rule, 0, 0, \
     "How codes and scale of a ternary group are found; ls: least squares. [ls]"}, \
    {OPT_STR, 0, "tail", "keep|pad", &(c)->tail, 0, 0, \
     "When a type's group does not divide the rows: keep the tensor at 8 bits, or pad " \
     "its rows with zeros, which only programs that know bonsai2.tail keys can run. " \
     "Without this it is an error."}
/* clang-format on */

int cmd_compress(int argc, char **argv)
{
    static const struct cmd cmd = {
        "compress",
        "Compress a model to ternary and other small types, under a budget of bytes.",
        "FILE|DIR",
        1,
        1,
        "bonsai2 compress model.gguf --budget 70MB -o small.gguf"};
    struct compress c = {.effort = NULL,
                         .ternary_rule = "ls",
                         .texts = {.tokens = 65536, .ctx = 512, .self = CALIB_SELF},
                         .refine = 4,
                         .metric_width = 6144,
                         .mismatch = 0.5,
                         .words = distill_words_make()};
    const struct opt opts[] = {
        {OPT_STR, 'o', "output", "FILE", &c.output, 0, 0, "GGUF file to write."},
        {OPT_STR, 'b', "budget", "SIZE", &c.budget, 0, 0,
         "Bytes of the whole file (52MB, 5.95GB) or bits of all tensors over all "
         "weights (2.5bpw). Types are chosen per tensor."},
        {OPT_STR, 0, "effort", "fast|normal|best", &c.effort, 0, 0,
         "fast: fitted rounding. normal: with error compensation on calibration texts. "
         "best: then distilled, an hour for 300000 tokens of a small model; the "
         "options "
         "from --tokens to --temperature say how. [normal with --calib, else fast]"},
        CALIB_CMD_OPTS(&c.texts, "65536"),
        COMPENSATE_OPTS(&c),
        {OPT_LIST, 'r', "rule", "GLOB=TYPE", &c.rules, 0, 0,
         "Type for the matrices that match: a type name, ternary, or keep. Of several "
         "that match the last one wins."},
        {OPT_STR, 0, "types", "TYPE,...", &c.types, 0, 0,
         "What a budget may choose from: type names, ternary, keep (the source's "
         "bytes); of Q4_0, B2_Q2 and B2_Q3 also two for the table of tokens, the "
         "frequent ones in the larger. [those that every program reads, ternary and "
         "keep; with --calib B2_Q2 and B2_Q3 too]"},
        {OPT_STR, 0, "costs", "FILE", &c.costs, 0, 0,
         "With a budget and --calib: read what each type costs each tensor from there, "
         "or write it there when there is no such file."},
        {OPT_INT, 0, "layers", "N", &c.layers, 1, 1e6,
         "Compress the first N layers and keep the others as they are."},
        {OPT_INT, 0, "remove", "N", &c.remove, 1, REMOVE_MAX,
         "With a budget in bytes and --calib: also try the model with 1 to N layers "
         "less "
         "(see prune), and make what loses least."},
        FOLD_OPTS(&c),
        ROUNDING_OPTS(&c),
        {OPT_STR, 0, "teacher", "FILE|DIR", &c.words.p.teacher, 0, 0,
         "With --effort best: what to learn from instead of the source, which is this "
         "model pruned."},
        DISTILL_STEP_OPTS(&c.words, 0, 0),
        DISTILL_TEACHER_OPTS(&c.words),
        DISTILL_RATE_OPTS(&c.words),
        {OPT_FLAG, 'n', "dry-run", NULL, &c.dry_run, 0, 0,
         "Choose and measure, write nothing."},
        {OPT_FLAG, 'f', "force", NULL, &c.force, 0, 0,
         "Replace the output; throw away an unfinished run of another recipe."},
        {OPT_STR, 0, "report", "FILE", &c.report, 0, 0,
         "Also write the report there, as JSON."},
        CLI_COMMON_OPTS(&c.common),
        {.kind = OPT_END},
    };
    int n_operands = 0;
    int code = cli_parse(&cmd, opts, argc, argv, &n_operands);

    if (code != OPT_RUN)
        return code;
    code = read_words(&c, &cmd);
    return code == OPT_RUN ? compress_run(&c, argv[1]) : code;
}

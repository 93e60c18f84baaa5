/*
 * bonsai2 distill: a ternary student learns to say what its teacher says. The work is in
 * compress/distill.h.
 */
#include "base/file.h"
#include "base/str.h"
#include "cli/cli.h"
#include "compress/distill.h"

#include <cjson/cJSON.h>
#include <string.h>

struct distill_cmd {
    struct cli_common common;
    const char *teacher, *student, *output, *schedule, *report;
    struct opt_list calib, avoid, held;
    int64_t tokens, steps;
    struct distill_params p;
    struct progress progress;
};

static void on_interrupt(void *ctx)
{
    (void)ctx;
}

static bool is_cancelled(void *ctx)
{
    (void)ctx;
    return cli_interrupted();
}

static void on_stage(void *ctx, const char *name, uint64_t total)
{
    struct distill_cmd *c = ctx;

    c->progress = cli_progress(&c->common, name, "kld", total);
}

static void add_regions(cJSON *json, const struct distill_report *r)
{
    cJSON *list = cJSON_AddArrayToObject(json, "regions");

    for (int i = 0; i < r->n_regions; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", r->region[i].name);
        cJSON_AddNumberToObject(o, "sequences", (double)r->region[i].seqs);
        cJSON_AddNumberToObject(o, "kld_before", r->region[i].before);
        cJSON_AddNumberToObject(o, "kld", r->region[i].after);
        cJSON_AddItemToArray(list, o);
    }
    list = cJSON_AddArrayToObject(json, "curve");
    for (int64_t i = 0; i < r->n_points; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddNumberToObject(o, "step", (double)r->curve[i].step);
        cJSON_AddNumberToObject(o, "tokens", (double)r->curve[i].tokens);
        cJSON_AddNumberToObject(o, "loss", r->curve[i].loss);
        cJSON_AddNumberToObject(o, "held_kld", r->curve[i].held);
        cJSON_AddItemToArray(list, o);
    }
}

static cJSON *report_of(const struct distill_cmd *c, const struct distill_report *r)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"steps", (double)r->steps},
        {"tokens", (double)r->tokens},
        {"best_step", (double)r->best_step},
        {"kld_before", r->before},
        {"kld", r->after},
        {"matrices", (double)r->n_latents},
        {"trained_weights", (double)r->n_trained},
        {"changed_codes", (double)r->changed},
        {"faults", (double)r->n_faults},
        {"returns", (double)r->n_back},
        {"rate_share", r->rate_share},
        {"seconds", r->seconds},
        {"tokens_per_s", r->tokens_per_s},
        {"plan_bytes", (double)r->plan_bytes},
        {"peak_rss_bytes", (double)file_peak_rss()},
        {"threads", (double)pool_threads(c->p.pool)},
        {"seed", (double)c->common.seed},
    };
    cJSON *json = cJSON_CreateObject();

    cJSON_AddStringToObject(json, "teacher", c->teacher);
    cJSON_AddStringToObject(json, "student", c->student);
    if (c->output)
        cJSON_AddStringToObject(json, "output", c->output);
    for (size_t i = 0; i < countof(numbers); i++)
        cJSON_AddNumberToObject(json, numbers[i].name, numbers[i].value);
    cJSON_AddStringToObject(json, "blas", r->blas_core);
    cJSON_AddBoolToObject(json, "dry_run", c->p.dry_run);
    cJSON_AddBoolToObject(json, "resumed", r->resumed);
    cJSON_AddBoolToObject(json, "stopped_early", r->stopped_early);
    add_regions(json, r);
    return json;
}

static void print_plan(const struct distill_cmd *c, const struct distill_report *r)
{
    const double tokens = (double)(c->p.steps * c->p.batch * c->p.ctx);
    struct str s = {0};

    str_printf(&s, "trained   %lld matrices, %lld weights\nmemory    ",
               (long long)r->n_latents, (long long)r->n_trained);
    str_put_bytes(&s, r->plan_bytes);
    str_printf(&s,
               " beside the mapped models\nspeed     %.0f tokens/s (one step tried)\n"
               "time      %.0f s for %.0f tokens in %lld steps, evaluations not "
               "counted\n",
               r->tokens_per_s, tokens / r->tokens_per_s, tokens,
               (long long)c->p.steps);
    if (str_ok(&s))
        cli_write(s.data, s.len);
    str_free(&s);
}

static void print_result(const struct distill_report *r)
{
    struct str s = {0};

    str_printf(&s, "%-32s %10s %10s\n", "held-out kld (nat)", "before", "after");
    for (int i = 0; i < r->n_regions; i++)
        str_printf(&s, "%-32s %10.4f %10.4f\n", r->region[i].name, r->region[i].before,
                   r->region[i].after);
    str_printf(&s, "%-32s %10.4f %10.4f\n", "mean", r->before, r->after);
    if (r->best_step == 0)
        str_put(&s, "no state was better in every region: the student is as it came\n");
    else
        str_printf(&s,
                   "the state after step %lld of %lld was written; %lld of %lld codes "
                   "changed\n",
                   (long long)r->best_step, (long long)r->steps, (long long)r->changed,
                   (long long)r->n_trained);
    if (str_ok(&s))
        cli_write(s.data, s.len);
    str_free(&s);
}

static enum b2_status write_report(const struct distill_cmd *c,
                                   const struct distill_report *r, struct b2_err *err)
{
    cJSON *json = report_of(c, r);
    char *text = json ? cJSON_Print(json) : NULL;
    enum b2_status rc = text ? file_write_all(c->report, text, strlen(text), true, err)
                             : err_set(err, B2_ENOMEM, "%s: out of memory", c->report);

    cJSON_free(text);
    cJSON_Delete(json);
    return rc;
}

static int distill_cmd_run(struct distill_cmd *c)
{
    struct b2_err err = {0};
    struct distill_report r = {0};
    const struct calib_params data = {.files = c->calib.item,
                                      .n_files = c->calib.n,
                                      .avoid = c->avoid.item,
                                      .n_avoid = c->avoid.n};
    struct log log = cli_log(&c->common);
    struct pool *pool = cli_pool(&c->common, &err);

    if (!pool)
        return cli_report_error(&err);
    c->p.teacher = c->teacher;
    c->p.student = c->student;
    c->p.output = c->output;
    c->p.data = &data;
    c->p.held = c->held.item;
    c->p.n_held = c->held.n;
    c->p.seed = (uint64_t)c->common.seed;
    c->p.mem_limit = c->common.mem_limit;
    c->p.pool = pool;
    c->p.log = &log;
    c->p.cancelled = is_cancelled;
    c->p.on_stage = on_stage;
    c->p.progress = &c->progress;
    c->p.ctx_of_calls = c;
    cli_on_interrupt(on_interrupt, NULL);
    enum b2_status rc = distill_run(&r, &c->p, &err);
    cli_on_interrupt(NULL, NULL);
    if (!rc && c->report)
        rc = write_report(c, &r, &err);
    int code = rc ? cli_report_error(&err) : CLI_DONE;
    if (!rc && c->common.json)
        code = cli_print_json(report_of(c, &r));
    else if (!rc && c->p.dry_run)
        print_plan(c, &r);
    else if (!rc)
        print_result(&r);
    distill_report_free(&r);
    pool_free(pool);
    return code;
}

/* From words to numbers. OPT_RUN, or the exit code. */
static int read_words(struct distill_cmd *c, const struct cmd *cmd)
{
    struct distill_params *p = &c->p;

    if (!c->teacher || !c->student)
        return cli_usage_error(cmd,
                               "--teacher FILE and --student FILE are both needed");
    if (!c->output && !p->dry_run)
        return cli_usage_error(cmd, "-o FILE is missing: the file to write");
    if (c->calib.n == 0)
        return cli_usage_error(cmd, "--calib FILE is missing: the text to learn from");
    if (strcmp(c->schedule, "cosine") != 0 && strcmp(c->schedule, "wsd") != 0)
        return cli_usage_error(cmd, "--schedule %.40s: cosine or wsd", c->schedule);
    p->schedule.kind = strcmp(c->schedule, "wsd") == 0 ? SCHEDULE_WSD : SCHEDULE_COSINE;
    if (p->micro == 0 || p->micro > p->batch)
        p->micro = p->batch;
    p->steps = c->steps ? c->steps : max_i64(1, c->tokens / (p->batch * p->ctx));
    if (p->eval_every == 0)
        p->eval_every = max_i64(1, p->steps / 10);
    p->schedule.warmup = min_i64(p->schedule.warmup, p->steps / 4);
    return OPT_RUN;
}

/* clang-format off */
#define DATA_OPTS(c) \
    {OPT_STR, 0, "teacher", "FILE|DIR", &(c)->teacher, 0, 0, \
     "The model that the student was made from."}, \
    {OPT_STR, 0, "student", "FILE", &(c)->student, 0, 0, \
     "A GGUF with ternary matrices, from `bonsai2 compress`."}, \
    {OPT_STR, 'o', "output", "FILE", &(c)->output, 0, 0, "GGUF file to write."}, \
    {OPT_LIST, 'c', "calib", "FILE[=SHARE]", &(c)->calib, 0, 0, \
     "Text to learn from, or a .jsonl with \"text\" or \"question\" and \"answer\"; " \
     "several are mixed by their shares."}, \
    {OPT_LIST, 0, "held", "FILE", &(c)->held, 0, 0, \
     "Text that is scored and never learnt from, a region of its own. [every 16th " \
     "sequence of each --calib]"}, \
    {OPT_LIST, 0, "avoid", "FILE", &(c)->avoid, 0, 0, \
     "Evaluation text: what shares 13 words in a row with it is left out."}
#define RATE_OPTS(c) \
    {OPT_NUM, 0, "rate", "R", &(c)->p.rates.latent, 0.0, 1.0, \
     "Rate of the latents, in units of their scale; 0: they rest. [0.001]"}, \
    {OPT_NUM, 0, "scale-rate", "R", &(c)->p.rates.scale, 0.0, 1.0, \
     "Rate of the logarithms of the scales. [0.001]"}, \
    {OPT_NUM, 0, "norm-rate", "R", &(c)->p.rates.norm, 0.0, 1.0, \
     "Rate of the norms' gains. [0.0001]"}, \
    {OPT_STR, 0, "schedule", "cosine|wsd", &(c)->schedule, 0, 0, \
     "How rates fall after the warm-up. [cosine]"}, \
    {OPT_INT, 0, "warmup", "N", &(c)->p.schedule.warmup, 0, 1e9, \
     "Steps in which rates rise. [10]"}, \
    {OPT_NUM, 0, "clip", "L", &(c)->p.clip, 0.0, 1e9, \
     "Longest gradient; 0: any. [1]"}, \
    {OPT_NUM, 0, "temperature", "T", &(c)->p.temperature, 0.01, 100.0, \
     "Of both distributions in the loss. [1]"}
/* clang-format on */

int cmd_distill(int argc, char **argv)
{
    static const struct cmd cmd = {
        "distill",
        "Train a ternary model to say what its original says.",
        "",
        0,
        0,
        "bonsai2 distill --teacher model.gguf --student ternary.gguf --calib text.txt "
        "-o better.gguf"};
    struct distill_cmd c = {.schedule = "cosine",
                            .tokens = 300000,
                            .p = {.batch = 4,
                                  .ctx = 512,
                                  .held_tokens = 8192,
                                  .patience = 5,
                                  .rates = {1e-3, 1e-3, 1e-4},
                                  .schedule = {SCHEDULE_COSINE, 10, 0, 0.05},
                                  .temperature = 1,
                                  .clip = 1}};
    const struct opt opts[] = {
        DATA_OPTS(&c),
        {OPT_INT, 'n', "tokens", "N", &c.tokens, 1, 1e12,
         "Tokens to learn from. [300000]"},
        {OPT_INT, 0, "steps", "N", &c.steps, 1, 1e9, "The same in steps."},
        {OPT_INT, 'b', "batch", "N", &c.p.batch, 1, 4096, "Sequences of a step. [4]"},
        {OPT_INT, 0, "micro", "N", &c.p.micro, 1, 4096,
         "Sequences at a time: fewer need less memory. [batch]"},
        {OPT_INT, 0, "ctx", "N", &c.p.ctx, 8, 65536, "Tokens of a sequence. [512]"},
        {OPT_INT, 0, "held-tokens", "N", &c.p.held_tokens, 8, 1e9,
         "Tokens of each --held. [8192]"},
        {OPT_INT, 0, "eval-every", "N", &c.p.eval_every, 1, 1e9,
         "Steps between evaluations, which are also the points from which a stopped "
         "run "
         "goes on. [a tenth of all]"},
        {OPT_INT, 0, "patience", "N", &c.p.patience, 0, 1e6,
         "Evaluations without a better one before it stops; 0: never. [5]"},
        RATE_OPTS(&c),
        {OPT_FLAG, 0, "dry-run", NULL, &c.p.dry_run, 0, 0,
         "Print memory, speed and time; write nothing."},
        {OPT_FLAG, 'f', "force", NULL, &c.p.force, 0, 0,
         "Replace the output; throw away an unfinished run."},
        {OPT_STR, 0, "report", "FILE", &c.report, 0, 0,
         "Also write the report there, as JSON."},
        CLI_COMMON_OPTS(&c.common),
        {.kind = OPT_END},
    };
    int n_operands = 0;
    int code = cli_parse(&cmd, opts, argc, argv, &n_operands);

    if (code == OPT_RUN)
        code = read_words(&c, &cmd);
    return code == OPT_RUN ? distill_cmd_run(&c) : code;
}

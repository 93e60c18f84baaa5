/*
 * bonsai2 distill: a ternary student learns to say what its teacher says. The work is in
 * compress/distill.h.
 */
#include "base/file.h"
#include "base/str.h"
#include "cli/calib_cmd.h"
#include "cli/distill_opts.h"

#include <cjson/cJSON.h>
#include <string.h>

struct distill_cmd {
    struct cli_common common;
    const char *teacher, *student, *original, *output, *report, *curve;
    struct calib_cmd texts;
    struct distill_words words;
};

static cJSON *report_of(const struct distill_cmd *c, const struct distill_report *r)
{
    cJSON *json = cJSON_CreateObject();

    cJSON_AddStringToObject(json, "teacher", c->teacher);
    cJSON_AddStringToObject(json, "student", c->student);
    if (c->output)
        cJSON_AddStringToObject(json, "output", c->output);
    distill_json(json, r);
    cJSON_AddNumberToObject(json, "peak_rss_bytes", (double)file_peak_rss());
    cJSON_AddNumberToObject(json, "threads", pool_threads(c->words.p.pool));
    cJSON_AddNumberToObject(json, "seed", (double)c->common.seed);
    cJSON_AddBoolToObject(json, "dry_run", c->words.p.dry_run);
    return json;
}

/* In the unit that one would say it in. */
static void put_time(struct str *s, double seconds)
{
    static const struct {
        double from, unit;
        const char *name;
    } units[] = {{172800, 86400, "days"}, {7200, 3600, "hours"}, {600, 60, "minutes"}};

    for (size_t i = 0; i < countof(units); i++) {
        if (seconds >= units[i].from) {
            str_printf(s, "%.1f %s", seconds / units[i].unit, units[i].name);
            return;
        }
    }
    str_printf(s, "%.1f s", seconds);
}

static void print_plan(const struct distill_cmd *c, const struct distill_report *r)
{
    const struct distill_params *p = &c->words.p;
    const double tokens = (double)(p->steps * p->batch * p->ctx);
    struct str s = {0};

    str_printf(&s, "trained   %lld matrices, %lld weights\nmemory    ",
               (long long)r->n_latents, (long long)r->n_trained);
    str_put_bytes(&s, r->plan_bytes);
    str_put(&s, " beside the mapped models (");
    str_put_bytes(&s, r->mapped_bytes);
    str_put(&s, ")\ndisk      ");
    str_put_bytes(&s, r->checkpoint_bytes);
    str_put(&s, " for a checkpoint, twice that while a new one takes its place\n");
    if (r->disk_bytes > 0) {
        str_put(&s, "          ");
        str_put_bytes(&s, r->disk_bytes);
        str_printf(&s,
                   " for latents of %lld of %lld layers, one matrix of them in memory "
                   "at a time\n          a step moves up to ",
                   (long long)(r->n_layers - r->resident_layers),
                   (long long)r->n_layers);
        str_put_bytes(&s, r->step_disk_bytes);
        str_put(&s, " from and to it, which is not in the time (at 1 GB/s ");
        put_time(&s, (double)r->step_disk_bytes / 1e9);
        str_put(&s, " of a step)\n");
    }
    str_printf(&s,
               "machine   %.1f GFLOP/s in products of %s, %.1f GB/s in updates (tried "
               "now)\n"
               "speed     %.*f tokens/s, estimated\ntime      ",
               r->flops / 1e9, r->dnn[0] ? r->dnn : "F32", r->bytes_per_s / 1e9,
               r->tokens_per_s < 10 ? 2 : 0, r->tokens_per_s);
    put_time(&s, tokens / r->tokens_per_s);
    str_printf(&s, " for %.0f tokens in %lld steps of ", tokens, (long long)p->steps);
    put_time(&s, tokens / r->tokens_per_s / (double)p->steps);
    str_put(&s, ", evaluations not counted\n");
    if (str_ok(&s))
        cli_write(s.data, s.len);
    str_free(&s);
}

static void print_result(const struct distill_report *r)
{
    struct str s = {0};

    distill_text(&s, r);
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

static void set_params(struct distill_cmd *c)
{
    struct distill_params *p = &c->words.p;

    p->teacher = c->teacher;
    p->student = c->student;
    p->original = c->original;
    p->output = c->output;
    p->data = &c->texts.params;
    p->seed = (uint64_t)c->common.seed;
    p->mem_limit = c->common.mem_limit;
    p->pool = c->texts.pool;
    p->log = &c->texts.log;
    p->cancelled = calib_cmd_cancelled;
    p->on_stage = calib_cmd_stage;
    p->progress = &c->texts.progress;
    p->ctx_of_calls = &c->texts;
}

/* Before an hour's work, not after it. */
static enum b2_status check_files(const struct distill_cmd *c, struct b2_err *err)
{
    const struct {
        const char *option, *path;
    } files[] = {{"--report", c->report}, {"--curve", c->curve}};
    enum b2_status rc =
        file_exists(c->student)
            ? B2_OK
            : err_set(err, B2_ENOTFOUND, "%s: no such file", c->student);

    if (rc)
        return rc;
    if (c->report && c->curve && strcmp(c->report, c->curve) == 0)
        return err_set(err, B2_EARG, "--report and --curve are the same file");
    for (size_t i = 0; i < countof(files) && !rc; i++) {
        if (!files[i].path)
            continue;
        rc = calib_cmd_check_beside(files[i].option, files[i].path, c->output,
                                    c->teacher, err);
        if (!rc)
            rc = calib_cmd_check_beside(files[i].option, files[i].path, c->output,
                                        c->student, err);
    }
    return rc;
}

static int distill_cmd_run(struct distill_cmd *c)
{
    struct b2_err err = {0};
    struct distill_report r = {0};
    struct distill_params *p = &c->words.p;
    const struct calib_self self = {.source = c->teacher,
                                    .output = c->output,
                                    .force = p->force,
                                    .beside = {c->report, c->curve},
                                    .want =
                                        p->dry_run ? ANSWERS_OPTIONAL : ANSWERS_MADE};
    enum b2_status rc = calib_cmd_begin(&c->texts, &c->common, &err);

    set_params(c);
    if (!rc)
        rc = cli_cpu(&p->cpu, &c->common, &err);
    if (!rc)
        rc = check_files(c, &err);
    if (!rc)
        rc = calib_cmd_self(&c->texts, &self, &err);
    if (!rc)
        rc = distill_run(&r, p, &err);
    const bool done =
        !rc; /* the result is told, even if a file beside it has no room */
    if (!rc && c->report)
        rc = write_report(c, &r, &err);
    if (!rc && c->curve && !p->dry_run)
        rc = distill_write_curve(c->curve, &r, true, &err);
    if (done && !c->common.json && p->dry_run)
        print_plan(c, &r);
    else if (done && !c->common.json)
        print_result(&r);
    int code = done && c->common.json ? cli_print_json(report_of(c, &r)) : CLI_DONE;
    if (rc)
        code = cli_report_error(&err);
    distill_report_free(&r);
    calib_cmd_end(&c->texts);
    return code;
}

/* OPT_RUN, or the exit code. */
static int read_words(struct distill_cmd *c, const struct cmd *cmd)
{
    if (!c->teacher || !c->student)
        return cli_usage_error(cmd,
                               "--teacher FILE and --student FILE are both needed");
    if (!c->output && !c->words.p.dry_run)
        return cli_usage_error(cmd, "-o FILE is missing: the file to write");
    if (c->texts.calib.n == 0)
        return cli_usage_error(cmd, "--calib FILE is missing: the text to learn from");
    return distill_words_read(&c->words, cmd);
}

/* clang-format off */
#define MODEL_OPTS(c) \
    {OPT_STR, 0, "teacher", "FILE|DIR", &(c)->teacher, 0, 0, \
     "The model that the student was made from."}, \
    {OPT_STR, 0, "student", "FILE", &(c)->student, 0, 0, \
     "A GGUF with ternary matrices, from `bonsai2 compress`."}, \
    {OPT_STR, 0, "original", "FILE|DIR", &(c)->original, 0, 0, \
     "What the student was made from, when that is not the teacher but the teacher " \
     "pruned. [the teacher]"}, \
    {OPT_STR, 'o', "output", "FILE", &(c)->output, 0, 0, "GGUF file to write."}
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
    struct distill_cmd c = {.texts = {.plans = true, .self = CALIB_SELF},
                            .words = distill_words_make()};
    const struct opt opts[] = {
        MODEL_OPTS(&c),
        CALIB_TEXT_OPTS(&c.texts, "learn from"),
        DISTILL_STEP_OPTS(&c.words, 'n', 'b'),
        DISTILL_TEACHER_OPTS(&c.words),
        DISTILL_RATE_OPTS(&c.words),
        DISTILL_LOSS_OPTS(&c.words),
        DISTILL_MODE_OPTS(&c.words),
        {OPT_FLAG, 0, "dry-run", NULL, &c.words.p.dry_run, 0, 0,
         "Print memory, speed and time; write nothing."},
        {OPT_FLAG, 'f', "force", NULL, &c.words.p.force, 0, 0,
         "Replace the output; throw away an unfinished run."},
        {OPT_STR, 0, "report", "FILE", &c.report, 0, 0,
         "Also write the report there, as JSON."},
        {OPT_STR, 0, "curve", "FILE", &c.curve, 0, 0,
         "Also draw the held-out divergence of each region over time, as SVG."},
        CLI_COMMON_OPTS(&c.common),
        {.kind = OPT_END},
    };
    int n_operands = 0;
    int code = cli_parse(&cmd, opts, argc, argv, &n_operands);

    if (code == OPT_RUN)
        code = read_words(&c, &cmd);
    return code == OPT_RUN ? distill_cmd_run(&c) : code;
}

/*
 * cmd_analyze.c - bonsai2 analyze: which layers and tensors of a model matter. The work is
 * in compress/analyze.h.
 */
#include "base/file.h"
#include "base/str.h"
#include "cli/cli.h"
#include "compress/analyze.h"

#include <cjson/cJSON.h>
#include <string.h>

struct analyze_cmd {
    struct cli_common common;
    const char *output, *svg, *type;
    struct opt_list calib, avoid;
    int64_t calib_tokens, calib_ctx;
    struct analyze_params p;
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
    struct analyze_cmd *c = ctx;

    c->progress = cli_progress(&c->common, name, NULL, total);
}

static enum b2_status write_svg(const struct analyze_cmd *c,
                                const struct sensitivity *s, struct b2_err *err)
{
    struct str svg = {0};

    sens_svg(s, &svg);
    enum b2_status rc = str_ok(&svg)
                            ? file_write_all(c->svg, svg.data, svg.len, c->p.force, err)
                            : err_set(err, B2_ENOMEM, "%s: out of memory", c->svg);
    str_free(&svg);
    return rc;
}

static int print_result(const struct analyze_cmd *c, const struct sensitivity *s)
{
    struct str text = {0};

    if (c->common.json) {
        cJSON *json = sens_json(s);
        if (json)
            cJSON_AddNumberToObject(json, "peak_rss_bytes", (double)file_peak_rss());
        return cli_print_json(json);
    }
    sens_text(s, &text);
    if (str_ok(&text))
        cli_write(text.data, text.len);
    str_free(&text);
    return CLI_DONE;
}

static int analyze(struct analyze_cmd *c, const char *source)
{
    struct b2_err err = {0};
    struct sensitivity s = {0};
    cli_limit_memory(&c->common);
    struct log log = cli_log(&c->common);
    struct pool *pool = cli_pool(&c->common, &err);
    const struct calib_params calib = {
        .files = c->calib.item,
        .n_files = c->calib.n,
        .avoid = c->avoid.item,
        .n_avoid = c->avoid.n,
        .n_tokens = c->calib_tokens,
        .ctx = c->calib_ctx,
    };
    enum b2_status rc = pool ? B2_OK : B2_ENOMEM;

    c->p.source = source;
    c->p.output = c->output;
    c->p.calib = &calib;
    c->p.seed = (uint64_t)c->common.seed;
    c->p.mem_limit = c->common.mem_limit;
    c->p.pool = pool;
    c->p.log = &log;
    c->p.cancelled = is_cancelled;
    c->p.on_stage = on_stage;
    c->p.progress = &c->progress;
    c->p.ctx_of_calls = c;
    cli_on_interrupt(on_interrupt, NULL);
    if (!rc && c->svg)
        rc = file_check_output(c->svg, source, c->p.force, &err);
    if (!rc && c->svg)
        rc = file_check_folder(c->svg, &err);
    if (!rc)
        rc = analyze_run(&s, &c->p, &err);
    cli_on_interrupt(NULL, NULL);
    if (!rc && c->svg)
        rc = write_svg(c, &s, &err);
    int code = rc ? cli_report_error(&err) : print_result(c, &s);
    c->p.calib = NULL; /* these end here */
    c->p.pool = NULL;
    c->p.log = NULL;
    sens_free(&s);
    pool_free(pool);
    return code;
}

/* clang-format off */
#define MEASURE_OPTS(c) \
    {OPT_STR, 0, "type", "TYPE", &(c)->type, 0, 0, \
     "What tensors are compressed to, each on its own: a ternary type, or Q4_0, Q4_1, " \
     "Q5_0, Q5_1, Q8_0. [B2_T64]"}, \
    {OPT_FLAG, 0, "plain", NULL, &(c)->p.plain, 0, 0, \
     "Fitted rounding instead of error compensation: faster, and worse than what " \
     "compress does."}, \
    {OPT_FLAG, 0, "quick", NULL, &(c)->p.quick, 0, 0, \
     "Statistics and output cosines alone; no divergences."}, \
    {OPT_FLAG, 0, "no-fisher", NULL, &(c)->p.no_fisher, 0, 0, \
     "Leave out the backward passes."}, \
    {OPT_INT, 0, "probe-tokens", "N", &(c)->p.probe_tokens, 2, 65536, \
     "Tokens of the probe; the second half is scored. [128]"}, \
    {OPT_INT, 0, "fisher-tokens", "N", &(c)->p.fisher_tokens, 1, 1e8, \
     "Tokens of the backward passes. [2048]"}, \
    {OPT_NUM, 0, "tolerance", "NAT", &(c)->p.tolerance, 0.0, 100.0, \
     "Divergence that a layer's hidden values may cost when some are taken away. " \
     "[0.01]"}
/* clang-format on */

int cmd_analyze(int argc, char **argv)
{
    static const struct cmd cmd = {
        "analyze",
        "Measure which layers, tensors, heads and hidden values of a model matter.",
        "FILE|DIR",
        1,
        1,
        "bonsai2 analyze model.gguf --calib text.txt -o sensitivity.json --svg "
        "heat.svg"};
    struct analyze_cmd c = {.calib_tokens = 8192,
                            .calib_ctx = 512,
                            .p = {.type = N_DTYPES,
                                  .probe_tokens = 128,
                                  .fisher_tokens = 2048,
                                  .tolerance = 0.01}};
    const struct opt opts[] = {
        {OPT_STR, 'o', "output", "FILE", &c.output, 0, 0, "JSON file to write."},
        {OPT_STR, 0, "svg", "FILE", &c.svg, 0, 0, "Also draw a heat map."},
        {OPT_LIST, 'c', "calib", "FILE[=SHARE]", &c.calib, 0, 0,
         "Text to calibrate on, or a .jsonl with \"text\" or \"question\" and "
         "\"answer\"; several are mixed by their shares."},
        {OPT_INT, 0, "calib-tokens", "N", &c.calib_tokens, 64, 1e8,
         "Tokens of calibration. [8192]"},
        {OPT_INT, 0, "calib-ctx", "N", &c.calib_ctx, 16, 65536,
         "Tokens of a sequence. [512]"},
        {OPT_LIST, 0, "avoid", "FILE", &c.avoid, 0, 0,
         "Evaluation text: calibration texts that share 13 words in a row with it are "
         "left out."},
        MEASURE_OPTS(&c),
        {OPT_FLAG, 'f', "force", NULL, &c.p.force, 0, 0,
         "Replace the output; throw away an unfinished run of other settings."},
        CLI_COMMON_OPTS(&c.common),
        {.kind = OPT_END},
    };
    int n = 0, code = cli_parse(&cmd, opts, argc, argv, &n);

    if (code != OPT_RUN)
        return code;
    if (!c.output)
        return cli_usage_error(&cmd, "-o FILE is missing: the file to write");
    if (c.calib.n == 0)
        return cli_usage_error(&cmd, "--calib FILE is missing: a text to calibrate on");
    if (c.type && !dtype_from_name(&c.p.type, c.type))
        return cli_usage_error(&cmd, "--type %s: not known here (%s)", c.type,
                               dtype_list());
    c.p.probe_tokens = c.p.probe_tokens < c.calib_ctx ? c.p.probe_tokens : c.calib_ctx;
    return analyze(&c, argv[1]);
}

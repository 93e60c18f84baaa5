/*
 * cmd_analyze.c - bonsai2 analyze: which layers and tensors of a model matter. The work is
 * in compress/analyze.h.
 */
#include "base/file.h"
#include "base/str.h"
#include "cli/calib_cmd.h"
#include "compress/analyze.h"

struct analyze_cmd {
    struct cli_common common;
    struct calib_cmd texts;
    const char *output, *svg, *type;
    struct analyze_params p;
};

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

    if (!c->common.json)
        sens_text(s, &text);
    return calib_cmd_print(&c->common, c->common.json ? sens_json(s) : NULL, &text);
}

static int analyze(struct analyze_cmd *c, const char *source)
{
    struct b2_err err = {0};
    struct sensitivity s = {0};
    const struct calib_self self = {
        .source = source, .output = c->output, .force = c->p.force, .beside = {c->svg}};
    enum b2_status rc = calib_cmd_begin(&c->texts, &c->common, &err);

    c->p.source = source;
    c->p.output = c->output;
    c->p.calib = &c->texts.params;
    c->p.seed = (uint64_t)c->common.seed;
    c->p.mem_limit = c->common.mem_limit;
    c->p.pool = c->texts.pool;
    c->p.log = &c->texts.log;
    c->p.cancelled = calib_cmd_cancelled;
    c->p.on_stage = calib_cmd_stage;
    c->p.progress = &c->texts.progress;
    c->p.ctx_of_calls = &c->texts;
    if (!rc && c->svg)
        rc = file_check_output(c->svg, source, c->p.force, &err);
    if (!rc && c->svg)
        rc = file_check_folder(c->svg, &err);
    if (!rc)
        rc = calib_cmd_self(&c->texts, &self, &err);
    if (!rc)
        rc = analyze_run(&s, &c->p, &err);
    if (!rc && c->svg)
        rc = write_svg(c, &s, &err);
    int code = rc ? cli_report_error(&err) : print_result(c, &s);
    sens_free(&s);
    calib_cmd_end(&c->texts);
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
    struct analyze_cmd c = {.texts = {.tokens = 8192, .ctx = 512, .self = CALIB_SELF},
                            .p = {.type = N_DTYPES,
                                  .probe_tokens = 128,
                                  .fisher_tokens = 2048,
                                  .tolerance = 0.01}};
    const struct opt opts[] = {
        {OPT_STR, 'o', "output", "FILE", &c.output, 0, 0, "JSON file to write."},
        {OPT_STR, 0, "svg", "FILE", &c.svg, 0, 0, "Also draw a heat map."},
        CALIB_CMD_OPTS(&c.texts, "8192"),
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
    if (c.texts.calib.n == 0)
        return cli_usage_error(&cmd, "--calib FILE is missing: a text to calibrate on");
    if (c.type && !dtype_from_name(&c.p.type, c.type))
        return cli_usage_error(&cmd, "--type %s: not known here (%s)", c.type,
                               dtype_list());
    c.p.probe_tokens = c.p.probe_tokens < c.texts.ctx ? c.p.probe_tokens : c.texts.ctx;
    return analyze(&c, argv[1]);
}

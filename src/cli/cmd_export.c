/*
 * cmd_export.c - bonsai2 export: a model in another container or in other types.
 *
 * The work is in compress/convert; this turns words into its parameters and prints.
 */
#include "base/str.h"
#include "cli/cli.h"
#include "compress/convert.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

/* The convert loop looks at cli_interrupted() itself. */
static void ignore(void *ctx)
{
    (void)ctx;
}

static cJSON *to_json(const char *out, const struct convert_report *r)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "output", out);
    cJSON_AddNumberToObject(j, "output_bytes", (double)r->output_bytes);
    cJSON_AddNumberToObject(j, "output_files", (double)r->n_files);
    cJSON_AddNumberToObject(j, "tensors", (double)r->n_tensors);
    cJSON_AddNumberToObject(j, "tensors_changed", (double)r->n_changed);
    cJSON_AddNumberToObject(j, "tensors_lossy", (double)r->n_lossy);
    cJSON_AddNumberToObject(j, "tensors_unrotated", (double)r->n_unrotated);
    cJSON_AddNumberToObject(j, "max_error", r->max_error);
    cJSON_AddNumberToObject(j, "rms_error", r->rms_error);
    if (r->n_lossy)
        cJSON_AddStringToObject(j, "worst_tensor", r->worst);
    return j;
}

static int print_report(const char *out, const struct convert_report *r,
                        const struct cli_common *common)
{
    struct str s = {0};

    if (common->json)
        return cli_print_json(to_json(out, r));
    str_printf(&s, "%s: ", out);
    str_put_bytes(&s, r->output_bytes);
    if (r->n_files > 1)
        str_printf(&s, " in %d files", r->n_files);
    str_printf(&s, ", %lld tensors, %lld of another type than before; ",
               (long long)r->n_tensors, (long long)r->n_changed);
    if (r->n_unrotated)
        str_printf(&s, "%lld rotated back; ", (long long)r->n_unrotated);
    if (r->n_lossy)
        str_printf(&s, "rounding changed %lld, by at most %.4g (%s), rms %.4g\n",
                   (long long)r->n_lossy, r->max_error, r->worst, r->rms_error);
    else
        str_put(&s, "no value changed\n");
    if (str_ok(&s))
        (void)cli_write(s.data, s.len);
    str_free(&s);
    return CLI_DONE;
}

/* Converts and prints the output by the name that opens it. */
static int convert(const char *in, const char *out, struct convert_params *p,
                   const struct cli_common *common)
{
    struct convert_report report;
    struct modelfile *mf = NULL;
    struct b2_err err = {0};
    struct str name = {0};

    cli_on_interrupt(ignore, NULL);
    enum b2_status status = modelfile_open(&mf, in, p->log, &err);
    if (!status) {
        uint64_t total = convert_total(mf, p);
        struct progress progress =
            cli_progress(common, "export", NULL, total ? total : 1);
        p->progress = &progress;
        status = convert_model(mf, out, p, &report, &err);
        p->progress = NULL;
    }
    modelfile_close(mf);
    cli_on_interrupt(NULL, NULL);
    if (status)
        return cli_report_error(&err);
    convert_output(&name, out, p, &report);
    int rc = print_report(str_ok(&name) ? name.data : out, &report, common);
    str_free(&name);
    return rc;
}

int cmd_export(int argc, char **argv)
{
    static const struct cmd cmd = {
        .name = "export",
        .summary = "Convert a model to another container or to other weight types.",
        .operands = "FILE|DIR",
        .min_operands = 1,
        .max_operands = 1,
        .example = "bonsai2 export model.gguf --format hf-bf16 -o model-hf",
    };
    struct cli_common common = {0};
    struct convert_params p = {.cancelled = cli_interrupted};
    const char *out = NULL;
    struct b2_err err = {0};
    int64_t gguf_version = 3;
    int n_operands = 0;
    const struct opt opts[] = {
        {OPT_STR, 'F', "format", "F", &p.format, 0, 0,
         "What to write: gguf (the same types), gguf-TYPE (f32, bf16, pq2_0 and other "
         "types that are written), hf-f32, hf-bf16, hf-f16 (a folder)."},
        {OPT_STR, 'o', "output", "OUT", &out, 0, 0, "The file or folder to write."},
        {OPT_STR, 0, "only", "GLOB", &p.only, 0, 0,
         "gguf-TYPE: only tensors with such names; the others keep their type."},
        {OPT_FLAG, 0, "lossy", NULL, &p.lossy, 0, 0,
         "Allow a quantised type to change values, and report by how much."},
        {OPT_FLAG, 0, "unrotate", NULL, &p.unrotate, 0, 0,
         "Take a rotation off in a GGUF too, for programs that do not know it; with "
         "gguf-f16 or another float type. Folders never have one."},
        {OPT_BYTES, 0, "split", "BYTES", &p.split, 0, 0,
         "Write several files, cut between tensors, with at most so many bytes of "
         "tensors in each: OUT-00001-of-0000N.gguf, or in a folder "
         "model-00001-of-0000N.safetensors and their index. A model that fits stays "
         "one file [one file]."},
        {OPT_INT, 0, "gguf-version", "2|3", &gguf_version, 2, 3,
         "Version of a GGUF; 2 is for old readers, the bytes are the same [3]."},
        {OPT_FLAG, 0, "force", NULL, &p.force, 0, 0, "Replace an existing output."},
        CLI_COMMON_OPTS(&common),
        {.kind = OPT_END},
    };

    int rc = cli_parse(&cmd, opts, argc, argv, &n_operands);
    if (rc != OPT_RUN)
        return rc;
    if (!p.format || !out)
        return cli_usage_error(&cmd, "%s is missing",
                               p.format ? "-o OUT" : "--format F");
    if (convert_check_format(p.format, &err))
        return cli_usage_error(&cmd, "%s", err.msg);
    p.gguf_version = (uint32_t)gguf_version;
    cli_limit_memory(&common);
    struct log log = cli_log(&common);
    p.log = &log;
    return convert(argv[1], out, &p, &common);
}

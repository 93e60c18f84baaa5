/*
 * cmd_synth.c - bonsai2 synth: random files with the shapes of named models.
 */
#include "base/str.h"
#include "cli/cli.h"
#include "format/synth.h"

#include <cjson/cJSON.h>
#include <inttypes.h>

static const struct cmd command = {
    .name = "synth",
    .summary = "Write a random model file with a named model's exact shapes, keys and "
               "vocabulary size, for measurements where the real one is not at hand.",
    .example = "bonsai2 synth --like S --type ptq1_0 -o s-ptq1_0.gguf",
};

static void ignore(void *ctx)
{
    (void)ctx;
}

static cJSON *to_json(const char *name, const struct synth_params *p,
                      const struct synth_report *r)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "like", name);
    cJSON_AddStringToObject(j, "type", dtype_info(p->type)->name);
    cJSON_AddStringToObject(j, "arch", r->arch);
    cJSON_AddNumberToObject(j, "seed", (double)p->seed);
    cJSON_AddNumberToObject(j, "file_bytes", (double)r->file_bytes);
    cJSON_AddNumberToObject(j, "tensor_bytes", (double)r->tensor_bytes);
    cJSON_AddNumberToObject(j, "n_params", (double)r->n_params);
    cJSON_AddNumberToObject(j, "n_tensors", (double)r->n_tensors);
    cJSON_AddNumberToObject(j, "n_keys", (double)r->n_keys);
    cJSON_AddNumberToObject(j, "n_layers", (double)r->n_layers);
    cJSON_AddNumberToObject(j, "vocab", (double)r->vocab);
    cJSON_AddNumberToObject(j, "bits_per_weight",
                            (double)r->tensor_bytes * 8 / (double)r->n_params);
    return j;
}

static void print_size(const char *name, const struct synth_params *p,
                       const struct synth_report *r)
{
    struct str s = {0};

    str_printf(&s, "%-12s %-7s ", name, dtype_info(p->type)->name);
    str_put_bytes(&s, r->file_bytes);
    str_printf(&s,
               " (%" PRIu64 " bytes), %s, %" PRId64 " layers, %" PRId64
               " tensors, %.3f "
               "bits per weight: %s\n",
               r->file_bytes, r->arch, r->n_layers, r->n_tensors,
               (double)r->tensor_bytes * 8 / (double)r->n_params, r->summary);
    if (str_ok(&s))
        (void)cli_write(s.data, s.len);
    str_free(&s);
}

static int list(struct synth_params *p, const struct cli_common *common)
{
    cJSON *j = common->json ? cJSON_CreateObject() : NULL;
    cJSON *models = j ? cJSON_AddArrayToObject(j, "models") : NULL;
    struct synth_report r;
    struct b2_err err = {0};

    for (int i = 0; (p->like = synth_name_at(i)); i++) {
        if (synth_size(&r, p, &err)) {
            cJSON_Delete(j);
            return cli_report_error(&err);
        }
        if (models)
            cJSON_AddItemToArray(models, to_json(p->like, p, &r));
        else
            print_size(p->like, p, &r);
    }
    return common->json ? cli_print_json(j) : CLI_DONE;
}

/* out NULL: a dry run. */
static int make(const char *out, struct synth_params *p,
                const struct cli_common *common)
{
    struct synth_report r;
    struct b2_err err = {0};
    enum b2_status rc = synth_size(&r, p, &err);

    if (!rc && out) {
        struct progress progress = cli_progress(common, "synth", NULL, r.tensor_bytes);
        p->progress = &progress;
        cli_on_interrupt(ignore, NULL);
        rc = synth_write(out, &r, p, &err);
        cli_on_interrupt(NULL, NULL);
    }
    if (rc)
        return cli_report_error(&err);
    if (!common->json) {
        print_size(p->like, p, &r);
        return CLI_DONE;
    }
    cJSON *j = to_json(p->like, p, &r);
    if (out)
        cJSON_AddStringToObject(j, "output", out);
    return cli_print_json(j);
}

int cmd_synth(int argc, char **argv)
{
    struct cli_common common = {0};
    struct synth_params p = {.cancelled = cli_interrupted};
    const char *out = NULL, *type = "ptq1_0";
    bool show = false, dry = false;
    int n_operands = 0;
    const struct opt opts[] = {
        {OPT_STR, 0, "like", "NAME", &p.like, 0, 0,
         "The model: S, M, L or bonsai2-27b; --list describes them."},
        {OPT_STR, 0, "type", "T", &type, 0, 0,
         "Type of every matrix: ptq1_0, pq2_0, tq1_0, tq2_0, q2_0, q4_0, q8_0, q4_K, "
         "q6_K, f16 and others. Ternary and float types of one seed hold the same "
         "weights, b2_c128 and b2_c64 those that they can say [ptq1_0]."},
        {OPT_STR, 'o', "output", "FILE", &out, 0, 0, "The GGUF to write."},
        {OPT_INT, 0, "layers", "N", &p.layers, 1, 4096,
         "Only the first N layers, for tests [all]."},
        {OPT_FLAG, 0, "list", NULL, &show, 0, 0,
         "Show the models and their sizes as --type."},
        {OPT_FLAG, 0, "dry-run", NULL, &dry, 0, 0,
         "Say how large the file would be and write nothing."},
        {OPT_FLAG, 0, "force", NULL, &p.force, 0, 0, "Replace an existing file."},
        CLI_COMMON_OPTS(&common),
        {.kind = OPT_END},
    };
    int rc = cli_parse(&command, opts, argc, argv, &n_operands);

    if (rc != OPT_RUN)
        return rc;
    if (!dtype_from_name(&p.type, type))
        return cli_usage_error(&command, "unknown type \"%.40s\"", type);
    if (!synth_has_type(p.type))
        return cli_usage_error(&command, "type %.40s is not made; see --help", type);
    cli_limit_memory(&common);
    p.seed = (uint64_t)common.seed;
    if (show)
        return list(&p, &common);
    if (!p.like)
        return cli_usage_error(&command, "--like NAME is missing (--list shows them)");
    if (!out && !dry)
        return cli_usage_error(&command, "-o FILE is missing");
    return make(dry ? NULL : out, &p, &common);
}

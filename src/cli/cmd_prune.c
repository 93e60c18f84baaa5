/*
 * cmd_prune.c - bonsai2 prune: a smaller model without what matters least. The work is in
 * compress/prune.h.
 */
#include "cli/calib_cmd.h"
#include "compress/prune.h"

#include <math.h>
#include <string.h>

struct prune_cmd {
    struct cli_common common;
    struct calib_cmd texts;
    const char *type;
    struct opt_list rules;
    int64_t rounds;
    struct prune_params p;
};

static int print_report(const struct prune_cmd *c, const struct prune_report *r)
{
    struct str text = {0};

    if (!c->common.json)
        prune_report_text(r, &text);
    return calib_cmd_print(&c->common, c->common.json ? prune_report_json(r) : NULL,
                           &text);
}

static int prune(struct prune_cmd *c, const char *source)
{
    struct b2_err err = {0};
    struct prune_report report = {0};
    const struct calib_self self = {.source = source,
                                    .output = c->p.output,
                                    .force = c->p.force,
                                    .folder = c->p.format &&
                                              strncmp(c->p.format, "hf", 2) == 0,
                                    .beside = {c->p.sensitivity}};
    enum b2_status rc = calib_cmd_begin(&c->texts, &c->common, &err);

    c->p.source = source;
    c->p.calib = &c->texts.params;
    c->p.seed = (uint64_t)c->common.seed;
    c->p.mem_limit = c->common.mem_limit;
    c->p.pool = c->texts.pool;
    c->p.log = &c->texts.log;
    c->p.cancelled = calib_cmd_cancelled;
    c->p.on_stage = calib_cmd_stage;
    c->p.progress = &c->texts.progress;
    c->p.ctx_of_calls = &c->texts;
    if (!rc)
        rc = calib_cmd_self(&c->texts, &self, &err);
    if (!rc)
        rc = prune_run(&report, &c->p, &err);
    int code = rc ? cli_report_error(&err) : print_report(c, &report);
    prune_report_free(&report);
    calib_cmd_end(&c->texts);
    return code;
}

/* From words to parameters. OPT_RUN, or the exit code. */
static int read_words(struct prune_cmd *c, const struct cmd *cmd)
{
    struct b2_err err = {0};

    if (!c->p.output)
        return cli_usage_error(cmd, "-o OUT is missing: the model to write");
    if (c->type && !dtype_from_name(&c->p.type, c->type))
        return cli_usage_error(cmd, "--type %s: not known here", c->type);
    if (c->type && !(dtype_info(c->p.type)->flags & DTF_WRITE))
        return cli_usage_error(cmd, "--type %s: can be read, not written", c->type);
    if (c->rules.n > PRUNE_MAX_RULES)
        return cli_usage_error(cmd, "more than %d rules", PRUNE_MAX_RULES);
    for (int i = 0; i < c->rules.n; i++)
        if (prune_rule_read(&c->p.rule[c->p.n_rules++], c->rules.item[i], &err))
            return cli_usage_error(cmd, "%s", err.msg);
    if (c->texts.self.n > 0 && c->texts.calib.n == 0)
        return cli_usage_error(cmd, "--self needs --calib FILE: what to ask about");
    if (isfinite(c->p.max_kld) && c->texts.calib.n == 0)
        return cli_usage_error(cmd, "--max-kld needs --calib FILE to measure on");
    c->p.rounds = c->texts.calib.n > 0 ? (int)c->rounds : 1;
    return OPT_RUN;
}

/* clang-format off */
#define WHAT_OPTS(c) \
    {OPT_NUM, 0, "ffn", "SHARE", &(c)->p.ffn, 0.0, 0.99, \
     "Share of the hidden values of each feed-forward block. [0]"}, \
    {OPT_NUM, 0, "kv", "SHARE", &(c)->p.kv, 0.0, 0.99, \
     "Share of the kv groups of each layer, with their heads. [0]"}, \
    {OPT_NUM, 0, "heads", "SHARE", &(c)->p.heads, 0.0, 0.99, \
     "Share of the heads inside each kv group that stays. [0]"}, \
    {OPT_INT, 0, "layers", "N", &(c)->p.layers, 0, 4096, \
     "Whole layers, those that cost least. [0]"}, \
    {OPT_LIST, 'r', "rule", "GLOB=SHARE", &(c)->rules, 0, 0, \
     "Share for the layers that match: '*.ffn_down=0.3', 'blk.2?.attn_k=0.5', " \
     "'blk.7=1' (the whole layer). The last that matches wins."}, \
    {OPT_NUM, 0, "cap", "SHARE", &(c)->p.cap, 0.0, 0.99, \
     "The most that one layer loses of one kind. [0.5]"}, \
    {OPT_INT, 0, "multiple", "N", &(c)->p.multiple, 1, 65536, \
     "Hidden values that stay are a multiple of this. [64]"}, \
    {OPT_FLAG, 0, "uneven", NULL, &(c)->p.uneven, 0, 0, \
     "--ffn is the share of all layers together; each loses what it can spare. Needs " \
     "--sensitivity; layers of different sizes run in bonsai2 and, from llama models, " \
     "in llama.cpp."}

#define HOW_OPTS(c) \
    {OPT_STR, 's', "sensitivity", "FILE", &(c)->p.sensitivity, 0, 0, \
     "File of `analyze`: chooses layers, shares (--uneven), and without --calib " \
     "everything."}, \
    {OPT_FLAG, 0, "no-restore", NULL, &(c)->p.no_restore, 0, 0, \
     "Leave what stays as it is."}, \
    {OPT_NUM, 0, "mismatch", "SHARE", &(c)->p.mismatch, 0.0, 1.0, \
     "How much of the error of earlier layers each layer makes up for. [0.5]"}, \
    {OPT_INT, 0, "rounds", "N", &(c)->rounds, 1, PRUNE_MAX_ROUNDS, \
     "Rounds, each with an equal part more. [2]"}, \
    {OPT_NUM, 0, "max-kld", "NAT", &(c)->p.max_kld, 0.0, 1000.0, \
     "Stop before a round that costs more on the probe. [no limit]"}, \
    {OPT_STR, 0, "type", "TYPE", &(c)->type, 0, 0, \
     "Type of the matrices whose columns change. [as they were; F16 where that cannot " \
     "be written]"}, \
    {OPT_STR, 0, "format", "F", &(c)->p.format, 0, 0, \
     "gguf, or hf-bf16, hf-f16, hf-f32 for a Hugging Face folder. [gguf]"}
/* clang-format on */

int cmd_prune(int argc, char **argv)
{
    static const struct cmd cmd = {
        "prune",
        "Take away what a model can do without: hidden values, heads, layers.",
        "FILE|DIR",
        1,
        1,
        "bonsai2 prune model.gguf --ffn 0.1 --calib text.txt -o smaller.gguf"};
    struct prune_cmd c = {.texts = {.tokens = 16384, .ctx = 512, .self = CALIB_SELF},
                          .rounds = 2,
                          .p = {.cap = 0.5,
                                .multiple = 64,
                                .mismatch = 0.5,
                                .max_kld = (double)NAN,
                                .type = N_DTYPES}};
    const struct opt opts[] = {
        {OPT_STR, 'o', "output", "OUT", &c.p.output, 0, 0, "Model to write."},
        WHAT_OPTS(&c),
        CALIB_CMD_OPTS(&c.texts, "16384"),
        HOW_OPTS(&c),
        {OPT_FLAG, 'f', "force", NULL, &c.p.force, 0, 0,
         "Replace the output; throw away an unfinished run of other settings."},
        CLI_COMMON_OPTS(&c.common),
        {.kind = OPT_END},
    };
    int n = 0, code = cli_parse(&cmd, opts, argc, argv, &n);

    if (code != OPT_RUN)
        return code;
    code = read_words(&c, &cmd);
    return code == OPT_RUN ? prune(&c, argv[1]) : code;
}

/*
 * cmd_plan.c - bonsai2 plan: the memory that running a model takes, before it runs.
 *
 * The numbers come from model/plan.h and model/settle.h, which loading uses too. Only the
 * header of the file is read.
 */
#include "base/memory.h"
#include "base/str.h"
#include "cli/cache_opts.h"
#include "cli/cli.h"
#include "model/settle.h"

#include <cjson/cJSON.h>
#include <string.h>

static const enum dtype cache_types[] = {DT_F16, DT_Q8_0, DT_Q4_0};

struct plan_cmd {
    struct cli_common common;
    int64_t ctx, batch;
    struct cache_words cache;
    const char *path;

    struct log log;
    struct model *model;
    struct backend *be;
    struct pool *pool;
    struct cache_params params;
    struct plan plan;
    uint64_t available; /* UINT64_MAX: not known */
    char available_from[80];
    bool fits;
    int64_t
        longest[countof(cache_types)]; /* contexts that fit; 0: none, -1: no heads */
    int threads;
};

static const struct cmd command = {
    .name = "plan",
    .summary =
        "Show the memory that running a model takes, part by part, whether it fits "
        "this machine, and the settings that do. The weights are not read.",
    .operands = "FILE|DIR",
    .min_operands = 1,
    .max_operands = 1,
    .example = "bonsai2 plan model.gguf --ctx 8192 --mem-limit 2GB",
};

static int parse(struct plan_cmd *c, int argc, char **argv)
{
    const struct opt opts[] = {
        {OPT_INT, 'c', "ctx", "N", &c->ctx, 1, 1 << 28,
         "Positions of the cache. [8192, or what the model was trained for, or what "
         "memory has room for]"},
        {OPT_INT, 'b', "batch", "N", &c->batch, 1, 1 << 16,
         "Most prompt tokens per pass. [512]"},
        CACHE_OPTS(&c->cache),
        CLI_COMMON_OPTS(&c->common),
        {.kind = OPT_END},
    };
    int n_operands = 0, rc = cli_parse(&command, opts, argc, argv, &n_operands);

    if (rc == OPT_RUN)
        c->path = argv[1];
    return rc;
}

/* The longest context for each type of cache, the rest as planned. */
static void find_longest(struct plan_cmd *c)
{
    int64_t most = c->model->hp.ctx_train;

    for (size_t i = 0; i < countof(cache_types); i++) {
        struct cache_params p = c->params;
        p.type = cache_types[i];
        c->longest[i] = backend_kv_check(p.type, c->model->hp.head_dim, NULL)
                            ? -1
                            : settle_longest(c->model, c->be, &p, c->available, most);
    }
}

static enum b2_status make(struct plan_cmd *c, struct b2_err *err)
{
    const struct model_params mp = {
        .log = &c->log, .no_tokenizer = true, .no_data = true};
    struct backend_config cfg = {0};
    struct session_params sp = {.ctx = c->ctx,
                                .batch = c->batch,
                                .mem_limit = c->common.mem_limit,
                                .log = &c->log};
    enum b2_status rc = cli_cpu(&cfg.cpu, &c->common, err);

    if (rc == B2_OK)
        rc = model_open(&c->model, c->path, &mp, err);
    if (rc)
        return rc;
    c->pool = cli_pool(&c->common, err);
    if (!c->pool)
        return err->status;
    c->threads = pool_threads(c->pool);
    cfg.pool = c->pool;
    cache_words_apply(&c->cache, &sp);
    rc = backend_cpu_new(&c->be, &cfg, err);
    if (rc == B2_OK)
        rc = cache_words_repack(&c->cache, c->model, c->be, &sp, true, true, err);
    if (rc == B2_OK)
        rc = settle_choose(&c->params, c->model, c->be, &sp, err);
    if (rc == B2_OK)
        rc = plan_make(&c->plan, c->model, c->be, &c->params, err);
    if (rc)
        return rc;
    c->available = settle_available(c->model, c->common.mem_limit);
    if (c->common.mem_limit)
        snprintf(c->available_from, sizeof c->available_from, "--mem-limit");
    else
        (void)memory_available(c->available_from, sizeof c->available_from);
    c->fits = c->plan.total_bytes <= c->available;
    find_longest(c);
    return B2_OK;
}

/* The settings to use: as planned if that fits. Else the longest context up to the planned
 * one, in Q8_0 where F16 would be shorter (as sessions choose it, unless a type was asked
 * for), with the largest batch that leaves room for any. False: nothing fits. */
static bool advise(const struct plan_cmd *c, struct cache_params *out)
{
    static const int64_t batches[] = {INT64_MAX, 128, 32, 1};
    const enum dtype asked = cache_word_type(c->cache.type);

    *out = c->params;
    if (c->fits)
        return true;
    for (size_t b = 0; b < countof(batches); b++) {
        out->ctx = 0;
        for (size_t i = 0; i < countof(cache_types); i++) {
            struct cache_params p = c->params;
            p.batch = min_i64(p.batch, batches[b]);
            p.type = cache_types[i];
            if (asked ? p.type != asked : p.type == DT_Q4_0)
                continue;
            p.ctx = settle_longest(c->model, c->be, &p, c->available, c->params.ctx);
            if (p.ctx > out->ctx)
                *out = p;
        }
        if (out->ctx > 0)
            return true;
    }
    return false;
}

static void put_advice(struct str *s, const struct plan_cmd *c)
{
    struct cache_params p;

    if (!advise(c, &p)) {
        str_put(s, "not even a short context fits: a smaller model is needed");
        return;
    }
    str_printf(s, "--ctx %lld", (long long)p.ctx);
    if (p.batch != min_i64(SETTLE_BATCH, p.ctx))
        str_printf(s, " --batch %lld", (long long)p.batch);
    str_printf(s, " --cache %s", cache_type_word(p.type));
    if (p.window > 0)
        str_printf(s, " --window %lld", (long long)p.window);
    if (p.window > 0 && p.sinks != CACHE_SINKS)
        str_printf(s, " --sinks %lld", (long long)p.sinks);
    str_printf(s, " --threads %d", c->threads);
}

/* ---- for people ---- */

static void row(const char *indent, const char *what, uint64_t bytes, const char *note)
{
    struct str s = {0};
    int width = 16 - (int)strlen(indent);

    str_put_bytes(&s, bytes);
    printf("%s%-*s %9s%s%s\n", indent, width, what, str_ok(&s) ? s.data : "?",
           *note ? "   " : "", note);
    str_free(&s);
}

static void print_weights(const struct plan_cmd *c)
{
    row("", "weights", c->plan.weights_bytes, "");
    for (int t = 0; t < N_DTYPES; t++)
        if (c->model->type_bytes[t] > 0)
            row("  ", dtype_info((enum dtype)t)->name, c->model->type_bytes[t], "");
    if (c->model->repacked_bytes > 0)
        row("  ", "repacked", c->model->repacked_bytes,
            "in memory of its own; the file's pages are given back");
    if (c->model->copy_bytes > 0)
        row("  ", "copies", c->model->copy_bytes, "made when the model is opened");
}

static void print_cache(const struct plan_cmd *c)
{
    static const char *const kinds[CACHE_N_KINDS] = {"whole", "ring", "none"};
    char note[120];

    snprintf(note, sizeof note, "%s, context %lld", dtype_info(c->params.type)->name,
             (long long)c->params.ctx);
    row("", "cache", c->plan.kv_bytes, note);
    for (int k = 0; k < CACHE_N_KINDS; k++) {
        if (c->plan.n_kind_layers[k] == 0 ||
            c->plan.n_kind_layers[k] == c->model->hp.n_layers)
            continue;
        snprintf(note, sizeof note, "%lld layers", (long long)c->plan.n_kind_layers[k]);
        row("  ", kinds[k], c->plan.kv_kind_bytes[k], note);
    }
}

static void print_longest(const struct plan_cmd *c)
{
    for (size_t i = 0; i < countof(cache_types); i++) {
        const char *word = cache_type_word(cache_types[i]);
        if (c->longest[i] < 0)
            printf("  --cache %-5s  not for heads of %lld values\n", word,
                   (long long)c->model->hp.head_dim);
        else if (c->longest[i] == 0)
            printf("  --cache %-5s  does not fit\n", word);
        else
            printf("  --cache %-5s  --ctx up to %lld%s\n", word,
                   (long long)c->longest[i],
                   c->longest[i] == c->model->hp.ctx_train ? " (trained for)" : "");
    }
}

static void print_text(const struct plan_cmd *c)
{
    struct str advice = {0};
    const struct hparams *hp = &c->model->hp;

    printf("%s: %s, %lld layers, %lld of %lld heads keep keys, trained for %lld "
           "positions\n\n",
           c->path, hp->arch->name, (long long)hp->n_layers, (long long)hp->n_kv_heads,
           (long long)hp->n_heads, (long long)hp->ctx_train);
    print_weights(c);
    print_cache(c);
    if (c->plan.state_bytes > 0)
        row("", "state", c->plan.state_bytes, "recurrent layers");
    row("", "scratch", c->plan.scratch_bytes, "activations, logits, attention");
    row("", "total", c->plan.total_bytes, c->fits ? "fits" : "does not fit");
    if (c->plan.table_bytes > 0)
        row("", "token table", c->plan.table_bytes,
            "mapped, not in the total: few of its rows are read");
    row("", "program", c->plan.program_bytes,
        "roughly, not in the total: program, header, tokenizer");
    if (c->available != UINT64_MAX)
        row("", "there are", c->available, c->available_from);
    row("", "each session", c->plan.slot_bytes,
        "of the total; a further one adds as much");
    printf("\nwith this batch, fit:\n");
    print_longest(c);
    put_advice(&advice, c);
    printf("\nadvice: %s\n", str_ok(&advice) ? advice.data : "?");
    str_free(&advice);
}

/* ---- for programs ---- */

static void add_parts(cJSON *o, const struct plan_cmd *c)
{
    static const char *const kinds[CACHE_N_KINDS] = {"full", "ring", "none"};
    cJSON *types = cJSON_AddObjectToObject(o, "weights_by_type");
    cJSON *caches = cJSON_AddObjectToObject(o, "kv_by_kind");
    cJSON *longest = cJSON_AddObjectToObject(o, "max_ctx");

    for (int t = 0; t < N_DTYPES; t++)
        if (c->model->type_bytes[t] > 0)
            cJSON_AddNumberToObject(types, dtype_info((enum dtype)t)->name,
                                    (double)c->model->type_bytes[t]);
    for (int k = 0; k < CACHE_N_KINDS; k++) {
        cJSON *j = cJSON_AddObjectToObject(caches, kinds[k]);
        cJSON_AddNumberToObject(j, "layers", (double)c->plan.n_kind_layers[k]);
        cJSON_AddNumberToObject(j, "bytes", (double)c->plan.kv_kind_bytes[k]);
    }
    for (size_t i = 0; i < countof(cache_types); i++)
        cJSON_AddNumberToObject(longest, cache_type_word(cache_types[i]),
                                (double)max_i64(c->longest[i], 0));
}

static cJSON *result_json(const struct plan_cmd *c)
{
    cJSON *o = cJSON_CreateObject();
    struct str advice = {0};

    put_advice(&advice, c);
    cJSON_AddNumberToObject(o, "weights_bytes", (double)c->plan.weights_bytes);
    cJSON_AddNumberToObject(o, "kv_bytes", (double)c->plan.kv_bytes);
    cJSON_AddNumberToObject(o, "state_bytes", (double)c->plan.state_bytes);
    cJSON_AddNumberToObject(o, "scratch_bytes", (double)c->plan.scratch_bytes);
    cJSON_AddNumberToObject(o, "total_bytes", (double)c->plan.total_bytes);
    cJSON_AddBoolToObject(o, "fits", c->fits);
    cJSON_AddStringToObject(o, "advice", str_ok(&advice) ? advice.data : "");
    cJSON_AddNumberToObject(o, "table_bytes", (double)c->plan.table_bytes);
    cJSON_AddNumberToObject(o, "program_bytes", (double)c->plan.program_bytes);
    cJSON_AddNumberToObject(o, "copy_bytes", (double)c->model->copy_bytes);
    cJSON_AddNumberToObject(o, "repacked_bytes", (double)c->model->repacked_bytes);
    cJSON_AddNumberToObject(o, "slot_bytes", (double)c->plan.slot_bytes);
    add_parts(o, c);
    if (c->available == UINT64_MAX)
        cJSON_AddNullToObject(o, "available_bytes");
    else
        cJSON_AddNumberToObject(o, "available_bytes", (double)c->available);
    cJSON_AddStringToObject(o, "available_from", c->available_from);
    cJSON_AddNumberToObject(o, "ctx", (double)c->params.ctx);
    cJSON_AddNumberToObject(o, "ctx_train", (double)c->model->hp.ctx_train);
    cJSON_AddNumberToObject(o, "batch", (double)c->params.batch);
    cJSON_AddStringToObject(o, "cache", cache_type_word(c->params.type));
    cJSON_AddNumberToObject(o, "window", (double)c->params.window);
    cJSON_AddNumberToObject(o, "threads", c->threads);
    cJSON_AddStringToObject(o, "arch", c->model->hp.arch->name);
    cJSON_AddStringToObject(o, "model", c->path);
    cJSON_AddStringToObject(o, "fingerprint", c->model->fingerprint);
    str_free(&advice);
    return o;
}

int cmd_plan(int argc, char **argv)
{
    struct plan_cmd c = {.cache = CACHE_WORDS_INIT};
    struct b2_err err = {0};
    int code = parse(&c, argc, argv);

    if (code != OPT_RUN)
        return code;
    c.log = cli_log(&c.common);
    if (make(&c, &err)) {
        code = cli_report_error(&err);
    } else if (c.common.json) {
        code = cli_print_json(result_json(&c));
    } else {
        print_text(&c);
        code = CLI_DONE;
    }
    backend_free(c.be);
    pool_free(c.pool);
    model_close(c.model);
    return code;
}

/*
 * distill_opts.c - words to the parameters of a distillation, its report to JSON and text.
 */
#include "cli/distill_opts.h"

#include "base/file.h"
#include "eval/curve.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 4096 }; /* of --hidden-layers */

/* Numbers of the presets; NaN or -1 in the words until then: not given. */
static const struct preset {
    const char *name;
    struct distill_rates rates;
    struct distill_loss loss;
    enum latent_kind kind;
    int64_t rank;
} presets[] = {
    {"ours", {1e-3, 1e-3, 1e-4}, {1, 0, 0, 0, 4, 0, {0}, 0.3}, LATENT_ALL, 32},
    {"brief", {2e-5, 2e-5, 2e-5}, {1, 0, 0.5, 0.1, 4, 0, {0}, 1}, LATENT_LORA, 32},
};

/* Of brief: the first two layers, and what reads or writes the residual stream most
 * sensitively in the literature (METHODS.md §4.4). */
static const char *const sensitive[] = {"blk.0.*=200", "blk.1.*=200", "*.attn_v.*=200",
                                        "*.ffn_down.*=200"};

struct distill_words distill_words_make(void)
{
    const double none = (double)NAN;

    return (struct distill_words){
        .schedule = "cosine",
        .gemm = "auto",
        .preset = "ours",
        .tokens = 300000,
        .p = {.batch = 4,
              .ctx = 512,
              .held_tokens = 8192,
              .patience = 5,
              .teacher_k = 128,
              .rates = {none, none, none},
              .loss = {none, none, none, none, -1, 0, {0}, none},
              .mode = {.rank = -1},
              .schedule = {SCHEDULE_COSINE, 10, 0, 0.05},
              .temperature = 1,
              .clip = 1}};
}

static void fill(double *x, double preset)
{
    if (isnan(*x))
        *x = preset;
}

static void use_preset(struct distill_words *w, const struct preset *of)
{
    struct distill_params *p = &w->p;

    fill(&p->rates.latent, of->rates.latent);
    fill(&p->rates.scale, of->rates.scale);
    fill(&p->rates.norm, of->rates.norm);
    fill(&p->loss.kl, of->loss.kl);
    fill(&p->loss.ce, of->loss.ce);
    fill(&p->loss.hidden, of->loss.hidden);
    fill(&p->loss.scale, of->loss.scale);
    fill(&p->loss.hidden_until, of->loss.hidden_until);
    if (p->loss.hidden_layers < 0)
        p->loss.hidden_layers = of->loss.hidden_layers;
    if (p->mode.rank < 0)
        p->mode.rank = of->rank;
    if (!w->train)
        p->mode.kind = of->kind;
    p->mode.free = (struct distill_rules){w->free.item, w->free.n};
    p->mode.freeze = (struct distill_rules){w->freeze.item, w->freeze.n};
    p->mode.freeze_scales =
        (struct distill_rules){w->freeze_scales.item, w->freeze_scales.n};
    if (w->freeze_scales.n == 0 && strcmp(of->name, "brief") == 0)
        p->mode.freeze_scales =
            (struct distill_rules){sensitive, (int)countof(sensitive)};
}

/* Which of some words; -1: none. */
static int word_of(const char *const *words, int n, const char *word)
{
    for (int i = 0; i < n; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

/* --hidden-layers: a number of layers, or which ones, with commas between them. */
static bool read_layers(struct distill_loss *l, const char *word)
{
    char *end = NULL;

    if (!word)
        return true;
    const bool list = strchr(word, ',') != NULL;
    for (const char *at = word; *at; at = end + (*end == ',')) {
        const long long v = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : -1;
        if (v < 0 || v > MAX_LAYERS || (*end && *end != ',') ||
            l->n_chosen == DISTILL_MAX_CHOSEN)
            return false;
        if (list)
            l->chosen[l->n_chosen++] = v;
        else
            l->hidden_layers = v;
    }
    return list ? l->n_chosen > 0 : l->hidden_layers > 0;
}

static int read_modes(struct distill_words *w, const struct cmd *cmd)
{
    static const char *const kinds[] = {"all", "scales", "lora"};
    const char *const names[] = {presets[0].name, presets[1].name};
    const int of = word_of(names, 2, w->preset);

    if (of < 0)
        return cli_usage_error(cmd, "--recipe %.40s: ours or brief", w->preset);
    if (w->train) {
        const int kind = word_of(kinds, 3, w->train);
        if (kind < 0)
            return cli_usage_error(cmd, "--train %.40s: all, scales or lora", w->train);
        w->p.mode.kind = (enum latent_kind)kind;
    }
    if (!read_layers(&w->p.loss, w->hidden_layers))
        return cli_usage_error(cmd,
                               "--hidden-layers %.40s: a number of layers, or which "
                               "ones, like 7,15,29",
                               w->hidden_layers);
    use_preset(w, &presets[of]);
    if (!(w->p.loss.kl + w->p.loss.ce + w->p.loss.hidden > 0))
        return cli_usage_error(cmd, "--kl, --ce and --hidden are all 0: there is "
                                    "nothing to learn");
    return OPT_RUN;
}

int distill_words_read(struct distill_words *w, const struct cmd *cmd)
{
    static const char *const gemms[] = {"auto", "f32", "bf16"}; /* enum distill_gemm */
    struct distill_params *p = &w->p;

    if (strcmp(w->schedule, "cosine") != 0 && strcmp(w->schedule, "wsd") != 0)
        return cli_usage_error(cmd, "--schedule %.40s: cosine or wsd", w->schedule);
    const int gemm = word_of(gemms, countof(gemms), w->gemm);
    if (gemm < 0)
        return cli_usage_error(cmd, "--gemm %.40s: auto, f32 or bf16", w->gemm);
    p->gemm = (enum distill_gemm)gemm;
    p->schedule.kind = strcmp(w->schedule, "wsd") == 0 ? SCHEDULE_WSD : SCHEDULE_COSINE;
    if (p->micro == 0 || p->micro > p->batch)
        p->micro = p->batch;
    p->steps = w->steps ? w->steps : max_i64(1, w->tokens / (p->batch * p->ctx));
    if (p->eval_every == 0)
        p->eval_every = max_i64(1, p->steps / 10);
    p->schedule.warmup = min_i64(p->schedule.warmup, p->steps / 4);
    p->held = w->held.item;
    p->n_held = w->held.n;
    return read_modes(w, cmd);
}

static void add_known(cJSON *o, const char *name, double v)
{
    if (!isnan(v))
        cJSON_AddNumberToObject(o, name, v);
}

static cJSON *point_json(const struct distill_point *p, int n_regions)
{
    cJSON *o = cJSON_CreateObject();

    cJSON_AddNumberToObject(o, "step", (double)p->step);
    cJSON_AddNumberToObject(o, "tokens", (double)p->tokens);
    add_known(o, "loss", p->train.loss);
    add_known(o, "kld", p->train.kl);
    add_known(o, "cross_entropy", p->train.ce);
    add_known(o, "hidden", p->train.hidden);
    add_known(o, "scale", p->train.scale);
    cJSON_AddNumberToObject(o, "held_kld", p->held);
    cJSON_AddItemToObject(o, "held_regions",
                          cJSON_CreateDoubleArray(p->region, n_regions));
    return o;
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
    list = cJSON_AddArrayToObject(json, "texts");
    for (int i = 0; i < r->n_sources; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", r->source[i].name);
        cJSON_AddNumberToObject(o, "tokens", (double)r->source[i].tokens);
        cJSON_AddNumberToObject(o, "tokens_used", (double)r->source[i].used);
        cJSON_AddItemToArray(list, o);
    }
    cJSON *kinds = cJSON_AddObjectToObject(json, "kinds");
    for (int k = 0; k < N_TEXT_KINDS; k++)
        if (r->of_kind[k] > 0)
            cJSON_AddNumberToObject(kinds, text_kind_name((enum text_kind)k),
                                    r->of_kind[k]);
    list = cJSON_AddArrayToObject(json, "curve");
    for (int64_t i = 0; i < r->n_points; i++)
        cJSON_AddItemToArray(list, point_json(&r->curve[i], r->n_regions));
}

void distill_json(cJSON *json, const struct distill_report *r)
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
        {"mapped_bytes", (double)r->mapped_bytes},
        {"disk_bytes", (double)r->disk_bytes},
        {"checkpoint_bytes", (double)r->checkpoint_bytes},
        {"step_disk_bytes", (double)r->step_disk_bytes},
        {"layers", (double)r->n_layers},
        {"layers_in_memory", (double)r->resident_layers},
        {"flops", r->flops},
        {"memory_bytes_per_s", r->bytes_per_s},
    };

    for (size_t i = 0; i < countof(numbers); i++)
        cJSON_AddNumberToObject(json, numbers[i].name, numbers[i].value);
    cJSON_AddStringToObject(json, "blas", r->blas_core);
    cJSON_AddStringToObject(json, "gemm", r->dnn[0] ? "bf16" : "f32");
    if (r->dnn[0])
        cJSON_AddStringToObject(json, "gemm_library", r->dnn);
    cJSON_AddBoolToObject(json, "improved", r->improved);
    cJSON_AddBoolToObject(json, "resumed", r->resumed);
    cJSON_AddBoolToObject(json, "stopped_early", r->stopped_early);
    if (r->recipe)
        cJSON_AddRawToObject(json, "recipe", r->recipe);
    add_regions(json, r);
}

void distill_text(struct str *out, const struct distill_report *r)
{
    str_printf(out, "%-32s %10s %10s\n", "held-out kld (nat)", "before", "after");
    for (int i = 0; i < r->n_regions; i++)
        str_printf(out, "%-32s %10.4f %10.4f\n", r->region[i].name, r->region[i].before,
                   r->region[i].after);
    str_printf(out, "%-32s %10.4f %10.4f\n", "mean", r->before, r->after);
    if (!r->improved)
        str_put(out,
                "no state was better in every region: the student is as it came\n");
    else
        str_printf(out,
                   "the state after step %lld of %lld was written; %lld of %lld codes "
                   "changed\n",
                   (long long)r->best_step, (long long)r->steps, (long long)r->changed,
                   (long long)r->n_trained);
}

enum b2_status distill_write_curve(const char *path, const struct distill_report *r,
                                   bool force, struct b2_err *err)
{
    struct curve c = {.title = "Held-out divergence while training",
                      .x_name = "tokens",
                      .y_name = "kld, nat",
                      .n_lines = 1 + (r->n_regions > 1 ? r->n_regions : 0)};
    struct str out = {0};

    c.n_points = (int)r->n_points;
    c.name[0] = r->n_regions > 1 ? "mean" : r->region[0].name;
    for (int k = 1; k < c.n_lines && k < CURVE_MAX_LINES; k++)
        c.name[k] = r->region[k - 1].name;
    c.n_lines = c.n_lines > CURVE_MAX_LINES ? CURVE_MAX_LINES : c.n_lines;
    enum b2_status rc = curve_begin(&c, err);
    for (int64_t i = 0; i < r->n_points && !rc; i++)
        for (int k = 0; k < c.n_lines; k++)
            curve_set(&c, k, (int)i, (double)r->curve[i].tokens,
                      k == 0 ? r->curve[i].held : r->curve[i].region[k - 1]);
    if (!rc) {
        curve_svg(&out, &c);
        rc = str_ok(&out) ? file_write_all(path, out.data, out.len, force, err)
                          : err_set(err, B2_ENOMEM, "%s: out of memory", path);
    }
    curve_end(&c);
    str_free(&out);
    return rc;
}

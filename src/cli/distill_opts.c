/*
 * distill_opts.c - words to the parameters of a distillation, its report to JSON and text.
 */
#include "cli/distill_opts.h"

#include <cjson/cJSON.h>
#include <string.h>

struct distill_words distill_words_make(void)
{
    return (struct distill_words){.schedule = "cosine",
                                  .tokens = 300000,
                                  .p = {.batch = 4,
                                        .ctx = 512,
                                        .held_tokens = 8192,
                                        .patience = 5,
                                        .rates = {1e-3, 1e-3, 1e-4},
                                        .schedule = {SCHEDULE_COSINE, 10, 0, 0.05},
                                        .temperature = 1,
                                        .clip = 1}};
}

int distill_words_read(struct distill_words *w, const struct cmd *cmd)
{
    struct distill_params *p = &w->p;

    if (strcmp(w->schedule, "cosine") != 0 && strcmp(w->schedule, "wsd") != 0)
        return cli_usage_error(cmd, "--schedule %.40s: cosine or wsd", w->schedule);
    p->schedule.kind = strcmp(w->schedule, "wsd") == 0 ? SCHEDULE_WSD : SCHEDULE_COSINE;
    if (p->micro == 0 || p->micro > p->batch)
        p->micro = p->batch;
    p->steps = w->steps ? w->steps : max_i64(1, w->tokens / (p->batch * p->ctx));
    if (p->eval_every == 0)
        p->eval_every = max_i64(1, p->steps / 10);
    p->schedule.warmup = min_i64(p->schedule.warmup, p->steps / 4);
    p->held = w->held.item;
    p->n_held = w->held.n;
    return OPT_RUN;
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
    };

    for (size_t i = 0; i < countof(numbers); i++)
        cJSON_AddNumberToObject(json, numbers[i].name, numbers[i].value);
    cJSON_AddStringToObject(json, "blas", r->blas_core);
    cJSON_AddBoolToObject(json, "resumed", r->resumed);
    cJSON_AddBoolToObject(json, "stopped_early", r->stopped_early);
    add_regions(json, r);
}

void distill_text(struct str *out, const struct distill_report *r)
{
    str_printf(out, "%-32s %10s %10s\n", "held-out kld (nat)", "before", "after");
    for (int i = 0; i < r->n_regions; i++)
        str_printf(out, "%-32s %10.4f %10.4f\n", r->region[i].name, r->region[i].before,
                   r->region[i].after);
    str_printf(out, "%-32s %10.4f %10.4f\n", "mean", r->before, r->after);
    if (r->best_step == 0)
        str_put(out,
                "no state was better in every region: the student is as it came\n");
    else
        str_printf(out,
                   "the state after step %lld of %lld was written; %lld of %lld codes "
                   "changed\n",
                   (long long)r->best_step, (long long)r->steps, (long long)r->changed,
                   (long long)r->n_trained);
}

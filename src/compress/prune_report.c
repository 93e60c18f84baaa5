/*
 * prune_report.c - what was taken away and what it cost, as JSON and as a table.
 */
#include "compress/prune.h"

#include "base/mem.h"

#include <cjson/cJSON.h>
#include <math.h>

static void put(cJSON *o, const char *key, double v)
{
    if (isfinite(v))
        cJSON_AddNumberToObject(o, key, v);
    else
        cJSON_AddNullToObject(o, key);
}

static cJSON *part_json(const struct prune_part *p)
{
    cJSON *o = cJSON_CreateObject(), *list = cJSON_CreateArray();

    cJSON_AddNumberToObject(o, "n", (double)p->n);
    cJSON_AddNumberToObject(o, "removed", (double)p->gone);
    put(o, "lost", p->plain);
    put(o, "lost_restored", p->restored);
    put(o, "damping", p->damp);
    put(o, "held_gain", p->held_gain);
    for (int64_t i = 0; i < p->gone; i++) {
        cJSON *pair = cJSON_CreateArray();
        cJSON_AddItemToArray(pair, cJSON_CreateNumber(p->unit[i]));
        cJSON_AddItemToArray(pair, isfinite(p->cost[i])
                                       ? cJSON_CreateNumber((double)p->cost[i])
                                       : cJSON_CreateNull());
        cJSON_AddItemToArray(list, pair);
    }
    cJSON_AddItemToObject(o, "units", list);
    return o;
}

struct cJSON *prune_report_json(const struct prune_report *r)
{
    cJSON *o = cJSON_CreateObject(), *layers = cJSON_CreateArray();
    cJSON *rounds = cJSON_CreateArray();

    for (int i = 0; i < r->rounds; i++)
        cJSON_AddItemToArray(rounds, isfinite(r->kld[i]) ? cJSON_CreateNumber(r->kld[i])
                                                         : cJSON_CreateNull());
    cJSON_AddItemToObject(o, "rounds_kld", rounds);
    cJSON_AddNumberToObject(o, "round_taken", r->taken + 1);
    put(o, "kld", r->rounds > 0 ? r->kld[r->taken] : (double)NAN);
    cJSON_AddNumberToObject(o, "params_before", (double)r->params_before);
    cJSON_AddNumberToObject(o, "params_after", (double)r->params_after);
    cJSON_AddNumberToObject(o, "bytes_before", (double)r->bytes_before);
    cJSON_AddNumberToObject(o, "output_bytes", (double)r->bytes_after);
    cJSON_AddStringToObject(o, "arch", r->arch);
    cJSON_AddBoolToObject(o, "uneven", r->uneven);
    cJSON_AddNumberToObject(o, "retyped_tensors", (double)r->retyped);
    for (int64_t i = 0; i < r->n_layers; i++) {
        const struct prune_layer *l = &r->layer[i];
        cJSON *e = cJSON_CreateObject();
        cJSON_AddNumberToObject(e, "layer", (double)i);
        cJSON_AddBoolToObject(e, "removed", l->gone);
        put(e, "layer_cost", l->skip);
        if (!l->gone) {
            cJSON_AddItemToObject(e, "ffn", part_json(&l->ffn));
            cJSON_AddItemToObject(e, "heads", part_json(&l->heads));
            cJSON_AddNumberToObject(e, "kv_groups", (double)l->kv);
            cJSON_AddNumberToObject(e, "kv_groups_removed", (double)l->kv_gone);
        }
        cJSON_AddItemToArray(layers, e);
    }
    cJSON_AddItemToObject(o, "layers", layers);
    return o;
}

static void part_text(const struct prune_part *p, struct str *out)
{
    str_printf(out, " %6lld of %-6lld", (long long)p->gone, (long long)p->n);
    if (p->gone > 0 && isfinite(p->plain))
        str_printf(out, " %8.4f %8.4f", p->plain, p->restored);
    else
        str_printf(out, " %8s %8s", "-", "-");
}

void prune_report_text(const struct prune_report *r, struct str *out)
{
    str_put(out, "layer  hidden values       lost restored   heads               lost "
                 "restored  kv groups\n");
    for (int64_t i = 0; i < r->n_layers; i++) {
        const struct prune_layer *l = &r->layer[i];
        str_printf(out, "%5lld", (long long)i);
        if (l->gone) {
            str_put(out, "  removed\n");
            continue;
        }
        part_text(&l->ffn, out);
        part_text(&l->heads, out);
        str_printf(out, " %4lld of %lld\n", (long long)l->kv_gone, (long long)l->kv);
    }
    str_put(out, "\nlost: share of the output's square on the calibration tokens\n");
    for (int i = 0; i < r->rounds; i++)
        if (isfinite(r->kld[i]))
            str_printf(out, "round %d   kld %.4f on the probe%s\n", i + 1, r->kld[i],
                       i < r->taken    ? ", on the way"
                       : i == r->taken ? ", taken"
                                       : ", too much: not taken");
    str_printf(out, "params    %lld -> %lld (%.1f %%)\nbytes     ",
               (long long)r->params_before, (long long)r->params_after,
               100.0 * (double)r->params_after / (double)r->params_before);
    str_put_bytes(out, r->bytes_before);
    str_put(out, " -> ");
    str_put_bytes(out, r->bytes_after);
    str_put(out, "\n");
    if (r->uneven)
        str_printf(out, "layers differ in size: architecture `%s`\n", r->arch);
    if (r->retyped > 0)
        str_printf(out,
                   "%lld matrices got another type: theirs cannot be written, or "
                   "not for that width\n",
                   (long long)r->retyped);
}

void prune_report_free(struct prune_report *r)
{
    for (int64_t i = 0; r->layer && i < r->n_layers; i++) {
        mem_free(r->layer[i].ffn.unit);
        mem_free(r->layer[i].ffn.cost);
        mem_free(r->layer[i].heads.unit);
        mem_free(r->layer[i].heads.cost);
    }
    mem_free(r->layer);
    *r = (struct prune_report){0};
}

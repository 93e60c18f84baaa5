/*
 * prune_plan.c - from shares and rules to numbers of units in each layer.
 */
#include "compress/prune_int.h"

#include "base/mem.h"
#include "compress/analyze_stats.h"
#include "compress/recipe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FFN, KV, HEADS, LAYER, N_KINDS };

enum b2_status prune_rule_read(struct prune_rule *r, const char *word,
                               struct b2_err *err)
{
    const char *eq = strrchr(word, '=');
    char *end = NULL;

    if (!eq || eq == word || (size_t)(eq - word) >= sizeof r->glob)
        return err_set(err, B2_EARG, "--rule %s: is not GLOB=SHARE", word);
    memcpy(r->glob, word, (size_t)(eq - word));
    r->glob[eq - word] = '\0';
    r->share = strtod(eq + 1, &end);
    if (end == eq + 1 || *end != '\0' || !(r->share >= 0.0 && r->share <= 1.0))
        return err_set(err, B2_EARG, "--rule %s: the share is not a number in 0..1",
                       word);
    return B2_OK;
}

/* ---- rules ---- */

/* Whether a rule names a kind of unit of a layer. Only whole layers may go entirely. */
static bool names(const struct prune_rule *r, int64_t layer, enum kind kind)
{
    static const struct {
        enum kind kind;
        const char *part;
    } parts[] = {
        {FFN, ".ffn_down"},      {FFN, ".ffn_up"}, {FFN, ".ffn_gate"},
        {KV, ".attn_k"},         {KV, ".attn_v"},  {HEADS, ".attn_q"},
        {HEADS, ".attn_output"}, {LAYER, ""},
    };
    char name[64];

    if ((r->share >= 1.0) != (kind == LAYER))
        return false;
    for (size_t i = 0; i < countof(parts); i++) {
        snprintf(name, sizeof name, "blk.%lld%s", (long long)layer, parts[i].part);
        if (parts[i].kind == kind && recipe_glob(r->glob, name))
            return true;
    }
    return false;
}

static double share_of(const struct prune_params *p, int64_t layer, enum kind kind)
{
    const double def[N_KINDS] = {p->ffn, p->kv, p->heads, 0.0};
    double share = def[kind];

    for (int i = 0; i < p->n_rules; i++)
        if (names(&p->rule[i], layer, kind))
            share = p->rule[i].share;
    return kind == LAYER ? share : fmin(share, p->cap);
}

static enum b2_status check_rules(const struct prune *k, struct b2_err *err)
{
    for (int i = 0; i < k->p->n_rules; i++) {
        bool any = false;
        for (int64_t l = 0; l < k->m->hp.n_layers; l++)
            for (int kind = 0; kind < N_KINDS; kind++)
                any = any || names(&k->p->rule[i], l, (enum kind)kind);
        if (!any)
            return err_set(err, B2_EARG,
                           "--rule %s=%g: matches nothing (blk.N.ffn_down, "
                           "blk.N.attn_k, blk.N.attn_q with a share below 1; blk.N "
                           "with 1)",
                           k->p->rule[i].glob, k->p->rule[i].share);
    }
    return B2_OK;
}

/* ---- one layer ---- */

/* Hidden values that go when `wanted` should: those that stay are a multiple. */
static int64_t whole_multiple(const struct prune *k, int64_t f, int64_t wanted)
{
    const int64_t m = k->p->multiple;
    const int64_t kept = (max_i64(1, f - wanted) + m - 1) / m * m;

    return max_i64(0, f - kept);
}

/* A hair more than the share, so that a tenth of thirty is three. */
static int64_t part_of(int64_t n, double share)
{
    return (int64_t)floor((double)n * share + 1e-9);
}

static void plan_layer(struct prune *k, int64_t i)
{
    const struct hparams *hp = &k->m->hp;
    struct prune_plan *to = &k->plan[i];
    const int64_t kv = hparams_kv_heads(hp, i), per = hparams_heads(hp, i) / kv;
    double of_kv = share_of(k->p, i, KV), of_heads = share_of(k->p, i, HEADS);

    to->gone = share_of(k->p, i, LAYER) > 0.0;
    to->ffn = part_of(hparams_f(hp, i), share_of(k->p, i, FFN));
    if (per == 1) { /* a head is its own group */
        of_kv = fmax(of_kv, of_heads);
        of_heads = 0.0;
    }
    to->kv = min_i64(kv - 1, part_of(kv, of_kv));
    to->per_group = min_i64(per - 1, part_of(per, of_heads));
}

struct prune_plan prune_plan_of(const struct prune *k, int round, int64_t layer)
{
    const struct prune_plan *all = &k->plan[layer];
    const int64_t a = round + 1, b = k->p->rounds;

    return (struct prune_plan){
        .gone = all->gone,
        .ffn = whole_multiple(k, hparams_f(&k->m->hp, layer), all->ffn * a / b),
        .kv = all->kv * a / b,
        .per_group = all->per_group * a / b};
}

bool prune_heads_change(const struct prune *k, int64_t layer)
{
    return k->plan[layer].kv > 0 || k->plan[layer].per_group > 0;
}

/* ---- by sensitivity ---- */

/* The divergence of a layer without a share of its hidden values: straight between what
 * was measured. */
static double kld_at(const struct sens_layer *l, double share)
{
    double from = 0.0, at = 0.0;

    for (int i = 0; i < SENS_SHARES; i++) {
        if (share <= sens_share[i])
            return at +
                   (l->prune_kld[i] - at) * (share - from) / (sens_share[i] - from);
        from = sens_share[i];
        at = l->prune_kld[i];
    }
    return (double)INFINITY; /* beyond what was measured */
}

/* Takes a step of hidden values where it costs least, until all shares are used up. */
static enum b2_status spread(struct prune *k, struct b2_err *err)
{
    const struct hparams *hp = &k->m->hp;
    int64_t left = 0;

    for (int64_t i = 0; i < hp->n_layers; i++) {
        if (!isfinite(k->sens.layer[i].prune_kld[SENS_SHARES - 1]))
            return err_set(err, B2_EARG,
                           "--uneven: %s has no prune_kld; analyze without --quick",
                           k->p->sensitivity);
        left += k->plan[i].gone ? 0 : part_of(hparams_f(hp, i), k->p->ffn);
        k->plan[i].ffn = 0;
    }
    while (left > 0) {
        double least = (double)INFINITY;
        int64_t best = -1;
        for (int64_t i = 0; i < hp->n_layers; i++) {
            const double f = (double)hparams_f(hp, i);
            const double next = (double)(k->plan[i].ffn + k->p->multiple) / f;
            const double now = (double)k->plan[i].ffn / f;
            if (k->plan[i].gone || next > k->p->cap)
                continue;
            const double cost =
                kld_at(&k->sens.layer[i], next) - kld_at(&k->sens.layer[i], now);
            if (cost < least) {
                least = cost;
                best = i;
            }
        }
        if (best < 0)
            break;
        k->plan[best].ffn += k->p->multiple;
        left -= k->p->multiple;
    }
    return B2_OK;
}

/* ---- layers ---- */

/* Influence of all layers on the calibration tokens. */
static enum b2_status influences(struct prune *k, double *out, struct b2_err *err)
{
    const int64_t n = k->n_calib * k->calib.ctx, d = k->m->hp.d;
    float *before = mem_calloc((size_t)(n * d), sizeof *before);
    enum b2_status rc = B2_OK;
    float *x = k->x[PRUNE_TEACHER];

    if (!before)
        return err_set(err, B2_ENOMEM, "out of memory");
    walk_embed(k->walk, x, k->calib.ids, k->n_calib, k->calib.ctx);
    for (int64_t i = 0; i < k->m->hp.n_layers && !rc; i++) {
        const struct walk_pass pass = {.layer = i,
                                       .weights = &k->teacher,
                                       .x = x,
                                       .n_seqs = k->n_calib,
                                       .n = k->calib.ctx};
        rc = walk_decode(k->walk, &k->teacher, i, err);
        if (rc)
            break;
        memcpy(before, x, (size_t)(n * d) * sizeof *x);
        walk_layer(k->walk, &pass);
        out[i] = 1.0 - stats_cosines(before, x, n, d) / (double)n;
    }
    mem_free(before);
    return rc;
}

/* The layers that cost least go. */
static enum b2_status choose_layers(struct prune *k, struct b2_err *err)
{
    const int64_t n = k->m->hp.n_layers;
    double *cost = mem_calloc((size_t)n, sizeof *cost);
    enum b2_status rc = B2_OK;
    bool known = k->sens.n_layers > 0;

    if (!cost)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < k->sens.n_layers; i++) {
        cost[i] = k->sens.layer[i].skip;
        known = known && isfinite(cost[i]);
    }
    if (!known && k->calib.n_seqs == 0)
        rc = err_set(err, B2_EARG,
                     "--layers needs --sensitivity FILE or --calib FILE to choose by");
    if (!rc && !known)
        rc = influences(k, cost, err);
    for (int64_t i = 0; i < n && !rc; i++)
        k->r->layer[i].skip = cost[i];
    for (int64_t gone = 0; gone < k->p->layers && !rc; gone++) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++)
            if (!k->plan[i].gone && (best < 0 || cost[i] < cost[best]))
                best = i;
        if (best >= 0)
            k->plan[best].gone = true;
    }
    mem_free(cost);
    return rc;
}

/* ---- all ---- */

static enum b2_status check_plan(const struct prune *k, struct b2_err *err)
{
    const struct arch *a = k->m->hp.arch;
    int64_t layers = 0, units = 0;

    for (int64_t i = 0; i < k->m->hp.n_layers; i++) {
        const struct prune_plan to = prune_plan_of(k, k->p->rounds - 1, i);
        layers += to.gone;
        units += to.gone ? 0 : to.ffn + to.kv + to.per_group;
    }
    if (layers == 0 && units == 0)
        return err_set(err, B2_EARG,
                       "nothing to take away: the shares come to less than one unit "
                       "(--multiple %lld)",
                       (long long)k->p->multiple);
    if (layers >= k->m->hp.n_layers)
        return err_set(err, B2_EARG, "no layer would be left");
    if (layers > 0 && (a->period > 0 || k->m->hp.window > 0))
        return err_set(err, B2_EUNSUP,
                       "`%s`: its layers see a window or everything by their number; "
                       "whole layers cannot go",
                       a->name);
    if (units > 0 && a->sub_norms)
        return err_set(err, B2_EUNSUP,
                       "`%s`: norms inside its blocks depend on every value of them; "
                       "only whole layers can go",
                       a->name);
    return B2_OK;
}

enum b2_status prune_make_plan(struct prune *k, struct b2_err *err)
{
    const int64_t n = k->m->hp.n_layers;
    enum b2_status rc = check_rules(k, err);

    k->plan = mem_calloc((size_t)n, sizeof *k->plan);
    if (!rc && !k->plan)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < n && !rc; i++)
        plan_layer(k, i);
    if (!rc && k->p->layers > 0)
        rc = choose_layers(k, err);
    if (!rc && k->p->uneven)
        rc = spread(k, err);
    return rc ? rc : check_plan(k, err);
}

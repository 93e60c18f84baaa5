/*
 * distill_modes.c - what is trained, at which rate, and when: kinds of matrices, frozen
 * parts, smooth codes.
 */
#include "base/opt.h"
#include "compress/distill_int.h"
#include "compress/recipe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Smooth codes: from nearly a line to nearly steps. */
static const double soft_first = 4.0, soft_last = 40.0;
static const double forever = 1e18;

/* GLOB or GLOB=WORD: a copy of the glob, and the word or NULL. False: too long. */
static bool split_rule(char *glob, const char **word, const char *rule)
{
    const char *eq = strrchr(rule, '=');
    const size_t n = eq ? (size_t)(eq - rule) : strlen(rule);

    if (n == 0 || n >= RECIPE_MAX_GLOB)
        return false;
    memcpy(glob, rule, n);
    glob[n] = '\0';
    *word = eq ? eq + 1 : NULL;
    return true;
}

/* The last of the rules that matches; NULL: none. */
static const char *find_rule(const struct distill_rules *rules, const char *name,
                             const char **word)
{
    char glob[RECIPE_MAX_GLOB];
    const char *found = NULL, *w;

    for (int i = 0; i < rules->n; i++) {
        if (split_rule(glob, &w, rules->item[i]) && recipe_glob(glob, name)) {
            found = rules->item[i];
            *word = w;
        }
    }
    return found;
}

void distill_kind(void *ctx, const char *name, struct latent_how *out)
{
    const struct distill_params *p = ctx;
    const char *word = NULL;

    out->kind = p->mode.kind;
    out->rank = p->mode.rank;
    if (!find_rule(&p->mode.free, name, &word))
        return;
    out->kind = LATENT_FREE;
    out->type = DT_Q8_0;
    for (int t = 0; word && t < N_DTYPES; t++)
        if (strcmp(dtype_info((enum dtype)t)->name, word) == 0)
            out->type = (enum dtype)t;
}

/* ---- what rules may say ---- */

struct matching {
    const char *glob;
    bool found;
};

static void match_norm(void *ctx, const char *name, int64_t at, int64_t len)
{
    struct matching *m = ctx;

    (void)at;
    (void)len;
    m->found = m->found || recipe_glob(m->glob, name);
}

static bool matches_any(const struct distill *d, const char *glob, bool norms)
{
    const struct netmodel n = {.m = d->sm}; /* the nets are made afterwards */
    struct matching m = {glob, false};
    char name[64];

    for (int64_t i = 0; i < d->sm->hp.n_layers * N_LINEARS && !m.found; i++) {
        netmodel_linear_name(name, i / N_LINEARS, (int)(i % N_LINEARS));
        m.found = recipe_glob(glob, name) && modelfile_find(d->sm->mf, name) >= 0;
    }
    if (norms)
        netmodel_each_norm(&n, match_norm, &m);
    return m.found;
}

static enum b2_status check_rules(const struct distill *d,
                                  const struct distill_rules *rules, const char *option,
                                  bool (*fits)(const char *word), struct b2_err *err)
{
    char glob[RECIPE_MAX_GLOB];
    const char *word;

    for (int i = 0; i < rules->n; i++) {
        const char *rule = rules->item[i];
        if (!split_rule(glob, &word, rule))
            return err_set(err, B2_EARG, "%s %.80s: no glob, or one over %d characters",
                           option, rule, RECIPE_MAX_GLOB - 1);
        if (word && !fits(word))
            return err_set(err, B2_EARG, "%s %.80s: `%.40s` %s", option, rule, word,
                           fits == distill_is_free_type
                               ? "is no type; free weights are Q8_0, F16, BF16 or F32"
                               : "is no number of steps");
        if (!matches_any(d, glob, fits != distill_is_free_type))
            return err_set(err, B2_EARG,
                           "%s %.80s: no tensor of a layer matches; names are like "
                           "blk.0.ffn_down.weight",
                           option, rule);
    }
    return B2_OK;
}

bool distill_is_free_type(const char *word)
{
    static const enum dtype types[] = {DT_Q8_0, DT_F16, DT_BF16, DT_F32};

    for (size_t i = 0; i < countof(types); i++)
        if (strcmp(word, dtype_info(types[i])->name) == 0)
            return true;
    return false;
}

static bool is_steps(const char *word)
{
    double n;

    return opt_parse_num(&n, word, 0.0, forever);
}

enum b2_status distill_check_modes(const struct distill *d, struct b2_err *err)
{
    const struct distill_mode *m = &d->p->mode;
    enum b2_status rc = B2_OK;

    if (m->kind == LATENT_LORA && (m->rank < 1 || m->rank > 1024))
        return err_set(err, B2_EARG, "a change of rank %lld: from 1 to 1024",
                       (long long)m->rank);
    if (m->soft > 0 && m->kind != LATENT_ALL)
        return err_set(err, B2_EARG,
                       "smooth codes need latents that move: not with scales or lora");
    rc = check_rules(d, &m->free, "--free", distill_is_free_type, err);
    if (!rc)
        rc = check_rules(d, &m->freeze, "--freeze", is_steps, err);
    return rc ? rc
              : check_rules(d, &m->freeze_scales, "--freeze-scales", is_steps, err);
}

/* ---- rates ---- */

/* Whether a part rests at this step, the first being 0. */
static bool frozen(const struct distill_rules *rules, const char *name, int64_t step)
{
    const char *word = NULL;
    double until = forever;

    if (!find_rule(rules, name, &word))
        return false;
    if (word)
        (void)opt_parse_num(&until, word, 0.0, forever); /* checked at the start */
    return (double)step < until;
}

struct each {
    struct distill *d;
    distill_param_fn *fn;
    void *ctx;
};

static void each_norm(void *ctx, const char *name, int64_t at, int64_t len)
{
    const struct each *e = ctx;
    struct distill *d = e->d;
    struct param p = d->s.norms;

    p.p += at;
    p.g += at;
    p.m += at;
    p.v += at;
    p.n = len;
    p.rate = frozen(&d->p->mode.freeze, name, d->st.step) ? 0 : (real)d->p->rates.norm;
    e->fn(d, &p, e->ctx);
}

void distill_each(struct distill *d, distill_param_fn *fn, void *ctx)
{
    const struct distill_rates *r = &d->p->rates;
    const struct distill_mode *m = &d->p->mode;
    struct latent_param part[3];
    struct each e = {d, fn, ctx};
    char name[64];

    for (int64_t i = 0; i < d->s.net.n_layers * N_LINEARS; i++) {
        const struct latent *l = &d->s.latent[i];
        netmodel_linear_name(name, i / N_LINEARS, (int)(i % N_LINEARS));
        const bool all = l->all && frozen(&m->freeze, name, d->st.step);
        const bool scale = all || frozen(&m->freeze_scales, name, d->st.step);
        const int n = l->all ? latent_params(l, part) : 0;
        for (int k = 0; k < n; k++) {
            const bool weight = part[k].part == LATENT_PART_WEIGHT;
            part[k].p.rate = (real)(weight ? r->latent : r->scale);
            if (weight ? all : scale)
                part[k].p.rate = 0;
            fn(d, &part[k].p, ctx);
        }
        if (n > 0)
            netmodel_rest(&d->s, i);
    }
    if (d->s.norms.n > 0)
        netmodel_each_norm(&d->s, each_norm, &e);
}

void distill_sharpen(struct distill *d, bool scoring)
{
    const double until = d->p->mode.soft * (double)d->p->steps;
    const double at = (double)d->st.step;
    float sharp = 0;

    if (!scoring && at < until)
        sharp = (float)(soft_first * pow(soft_last / soft_first, at / until));
    if (sharp != d->s.sharp) { /* else the layer at hand stays good */
        d->s.sharp = sharp;
        netmodel_moved(&d->s);
    }
}

/* ---- for the recipe that a checkpoint must agree with ---- */

static void put_rules(struct str *out, const char *key, const struct distill_rules *r)
{
    str_printf(out, ",\"%s\":[", key);
    for (int i = 0; i < r->n; i++) {
        str_put(out, i ? "," : "");
        recipe_json_string(out, r->item[i]);
    }
    str_put(out, "]");
}

void distill_modes_json(const struct distill_mode *m, struct str *out)
{
    static const char *const kinds[] = {"all", "scales", "lora"};

    str_printf(out, ",\"train\":\"%s\",\"rank\":%lld,\"soft\":%.9g", kinds[m->kind],
               (long long)m->rank, m->soft);
    put_rules(out, "free", &m->free);
    put_rules(out, "freeze", &m->freeze);
    put_rules(out, "freeze_scales", &m->freeze_scales);
}

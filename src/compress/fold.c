/*
 * fold.c - exponents tried, the best one's model made and compressed.
 */
#include "compress/fold_int.h"

#include "base/file.h"
#include "compress/memo.h"
#include "compress/outmeta.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MEASURE_TOKENS = 4096, TRY_TOKENS = 4096 };

const double fold_exponent[FOLD_TRIES] = {0.0, 0.25, 0.5, 0.75};

struct fold {
    const struct fold_params *fp;
    const struct pipeline_params *p;
    struct fold_report *found;
    struct model *m;
    struct fold_stats stats;
    uint64_t source_bytes;
    char sha256[65];                  /* of the source */
    struct str model, key, path, now; /* the rewritten model, what it depends on */
};

static enum b2_status put_path(struct str *to, const struct fold *k, const char *end,
                               struct b2_err *err)
{
    str_clear(to);
    str_printf(to, "%s.%s", k->p->output, end);
    return str_ok(to) ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

/* ---- the rewritten model ---- */

/* What a rewritten model depends on. */
static enum b2_status make_key(struct fold *k, double exponent, struct b2_err *err)
{
    str_clear(&k->now);
    str_printf(&k->now, "%s %s %s %g %d", B2_VERSION, k->sha256, k->stats.calibration,
               exponent, k->fp->sort);
    return str_ok(&k->now) ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

/* Whether the residual stream can change its order: the table is read by columns. */
static bool can_order_stream(const struct model *m)
{
    const struct tensor *t =
        modelfile_tensor(m->mf, modelfile_find(m->mf, "token_embd.weight"));

    return dtype_info(t->type)->block == 1;
}

/* Columns as they came: nothing is to be written. */
static bool is_source(const struct fold *k, double exponent)
{
    return exponent == 0.0 && !k->fp->sort;
}

/* Makes k->model, or finds that an earlier run made it. */
static enum b2_status rewrite(struct fold *k, double exponent, struct b2_err *err)
{
    struct fold_plan plan = {0};
    enum b2_status rc = make_key(k, exponent, err);

    if (rc || is_source(k, exponent))
        return rc;
    if (file_exists(k->model.data) && isfinite(memo_get(k->key.data, k->now.data)))
        return B2_OK;
    /* It would say what the model was before. */
    rc = file_remove_if_there(k->key.data, err);
    if (!rc)
        rc = fold_make_plan(&plan, &k->stats, exponent, k->fp->sort, k->found->stream,
                            err);
    if (!rc)
        rc = fold_write(&plan, k->m, k->model.data, k->sha256, k->p, err);
    if (!rc)
        rc = memo_put(k->key.data, k->now.data, exponent, err);
    fold_plan_free(&plan);
    return rc;
}

static struct pipeline_params params_of(const struct fold *k, double exponent)
{
    struct pipeline_params p = *k->p;

    if (!is_source(k, exponent)) {
        p.source_name = p.source_name ? p.source_name : p.source;
        p.source = k->model.data;
    }
    return p;
}

/* ---- trying ---- */

/* The asked-for types, or with a budget, which is dear to share out, ternary ones. */
static enum b2_status trial_recipe(struct recipe *r, struct b2_err *err)
{
    static const char *const rules[] = {"*=ternary", "token_embd*=keep",
                                        "output*=keep"};
    enum b2_status rc = B2_OK;

    r->effort = RECIPE_NORMAL;
    if (r->budget == RECIPE_NO_BUDGET)
        return B2_OK;
    r->budget = RECIPE_NO_BUDGET;
    r->only_types = false;
    r->n_rules = 0;
    for (size_t i = 0; i < countof(rules) && !rc; i++)
        rc = recipe_add_rule(r, rules[i], err);
    return rc;
}

/* What the trial of an exponent depends on, behind what its model does. */
static enum b2_status trial_key(struct fold *k, double exponent, const struct recipe *r,
                                struct b2_err *err)
{
    enum b2_status rc = make_key(k, exponent, err);

    if (rc)
        return rc;
    str_put(&k->now, " ");
    recipe_json(r, &k->now);
    return str_ok(&k->now) ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

static enum b2_status compress_trial(struct fold *k, double exponent,
                                     const struct recipe *recipe, double *kld,
                                     struct b2_err *err)
{
    struct pipeline_params p = params_of(k, exponent);
    struct calib_params calib = *p.calib;
    struct report r = {0};
    struct str out = {0};
    char end[32];

    snprintf(end, sizeof end, "fold-%g.gguf", exponent);
    calib.n_tokens = min_i64(calib.n_tokens, TRY_TOKENS);
    p.recipe = recipe;
    p.calib = &calib;
    p.costs = NULL;
    p.dry_run = false;
    p.force = true;
    enum b2_status rc = put_path(&out, k, end, err);
    p.output = out.data;
    if (!rc)
        rc = pipeline_run(&r, &p, err);
    *kld = (double)NAN;
    for (int i = 0; i < r.n_stages && !rc; i++)
        if (isfinite(r.stage[i].kld) && strcmp(r.stage[i].name, "round") == 0)
            *kld = r.stage[i].kld;
    if (!rc)
        rc = file_remove(out.data, err);
    report_free(&r);
    str_free(&out);
    return rc;
}

static enum b2_status try_one(struct fold *k, int i, struct b2_err *err)
{
    const double exponent = fold_exponent[i];
    struct recipe recipe = *k->p->recipe;
    char end[32];

    snprintf(end, sizeof end, "fold-%g.key", exponent);
    enum b2_status rc = trial_recipe(&recipe, err);
    if (!rc)
        rc = trial_key(k, exponent, &recipe, err);
    if (!rc)
        rc = put_path(&k->path, k, end, err);
    if (rc)
        return rc;
    k->found->kld[i] = memo_get(k->path.data, k->now.data);
    if (isfinite(k->found->kld[i]))
        return B2_OK;
    rc = rewrite(k, exponent, err);
    if (!rc)
        rc = compress_trial(k, exponent, &recipe, &k->found->kld[i], err);
    if (!rc && !isfinite(k->found->kld[i]))
        rc = err_set(err, B2_EARG,
                     "--fold auto: nothing of this model is compensated, "
                     "so no exponent can be told from another");
    if (!rc)
        rc = trial_key(k, exponent, &recipe, err);
    return rc ? rc : memo_put(k->path.data, k->now.data, k->found->kld[i], err);
}

static enum b2_status try_all(struct fold *k, struct b2_err *err)
{
    int best = 0;

    for (int i = 0; i < FOLD_TRIES; i++) {
        enum b2_status rc = try_one(k, i, err);
        if (rc)
            return rc;
        log_line(k->p->log, LOG_INFO, "columns scaled by rms^%g: kld %.4f on the probe",
                 fold_exponent[i], k->found->kld[i]);
        if (k->found->kld[i] < k->found->kld[best])
            best = i;
    }
    k->found->exponent = fold_exponent[best];
    return B2_OK;
}

/* ---- all ---- */

/* A file that a run like this one may have left: it says so itself. */
static bool has_key(const char *path, const char *key)
{
    struct modelfile *mf = NULL;
    bool has = false;

    if (!modelfile_open(&mf, path, NULL, NULL))
        has = meta_find(modelfile_meta(mf), key) != NULL;
    modelfile_close(mf);
    return has;
}

/* What lies where models in between go must be ours, and never the source. */
static enum b2_status check_between(struct fold *k, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int i = -1; i < FOLD_TRIES && !rc; i++) {
        const char *own = OUTMETA_FOLD "exponent";
        char end[32] = "folded.gguf";
        if (i >= 0) {
            own = "bonsai2.recipe";
            snprintf(end, sizeof end, "fold-%g.gguf", fold_exponent[i]);
        }
        rc = put_path(&k->path, k, end, err);
        if (!rc)
            rc = file_check_output(k->path.data, k->p->source,
                                   k->p->force || has_key(k->path.data, own), err);
    }
    return rc;
}

/* What can be known to fail before anything is measured. */
static enum b2_status check_recipe(const struct fold *k, struct b2_err *err)
{
    struct choose c = {0};

    if (meta_find(modelfile_meta(k->m->mf), OUTMETA_FOLD "exponent"))
        return err_set(err, B2_EUNSUP,
                       "%s: its columns were scaled or sorted before; start from the "
                       "model that was given then",
                       k->p->source);
    enum b2_status rc = choose_prepare(&c, k->m->mf, k->p->recipe, err);
    choose_free(&c);
    return rc;
}

static enum b2_status start(struct fold *k, struct b2_err *err)
{
    const struct model_params mp = {.no_tokenizer = true, .log = NULL};
    enum b2_status rc = file_check_output(k->p->output, k->p->source, k->p->force, err);

    if (!rc)
        rc = check_between(k, err);
    if (!rc)
        rc = model_open(&k->m, k->p->source, &mp, err);
    if (!rc)
        rc = check_recipe(k, err);
    if (!rc && k->m->hp.f > UINT16_MAX)
        rc = err_set(err, B2_EUNSUP,
                     "--fold and --sort: more than 65,535 hidden values");
    if (!rc)
        rc = modelfile_sha256(k->m->mf, k->sha256, err);
    if (!rc)
        k->source_bytes = modelfile_bytes(k->m->mf);
    if (!rc)
        rc = put_path(&k->model, k, "folded.gguf", err);
    if (!rc)
        rc = put_path(&k->key, k, "folded.key", err);
    if (!rc)
        rc = fold_measure(&k->stats, k->m, k->p, MEASURE_TOKENS, err);
    if (rc)
        return rc;
    k->found->sorted = k->fp->sort;
    k->found->stream = k->fp->sort && can_order_stream(k->m);
    if (k->fp->sort && !k->found->stream)
        log_line(
            k->p->log, LOG_INFO,
            "only hidden values are sorted: the table of tokens is stored in blocks");
    return B2_OK;
}

/* The trial of an exponent: its number, and what a run that was killed left. */
static enum b2_status clean_trial(struct fold *k, double exponent, struct b2_err *err)
{
    static const char *const ends[] = {"key", "gguf", "gguf.b2work"};
    enum b2_status rc = B2_OK;

    for (size_t i = 0; i < countof(ends) && !rc; i++) {
        char end[48];
        snprintf(end, sizeof end, "fold-%g.%s", exponent, ends[i]);
        rc = put_path(&k->path, k, end, err);
        if (!rc && file_is_dir(k->path.data))
            rc = file_remove_tree(k->path.data, err);
        else if (!rc)
            rc = file_remove_if_there(k->path.data, err);
    }
    return rc;
}

static enum b2_status clean(struct fold *k, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int i = 0; i < FOLD_TRIES && !rc; i++)
        rc = clean_trial(k, fold_exponent[i], err);
    if (!rc)
        rc = file_remove_if_there(k->model.data, err);
    return rc ? rc : file_remove_if_there(k->key.data, err);
}

static void drop_model(const struct fold *k)
{
    if (file_remove_if_there(k->model.data, NULL) ||
        file_remove_if_there(k->key.data, NULL))
        log_line(k->p->log, LOG_WARN, "%s: stays, it could not be removed",
                 k->model.data);
}

static enum b2_status compress_folded(struct report *r, struct fold *k,
                                      struct b2_err *err)
{
    const struct pipeline_params p = params_of(k, k->found->exponent);

    return remove_run(r, &k->found->removed, &p, k->fp->max_layers, err);
}

enum b2_status fold_run(struct report *r, struct fold_report *found,
                        const struct fold_params *fp, const struct pipeline_params *p,
                        struct b2_err *err)
{
    struct fold k = {.fp = fp, .p = p, .found = found};

    *found = (struct fold_report){.exponent = fp->exponent};
    *r = (struct report){0};
    for (int i = 0; i < FOLD_TRIES; i++)
        found->kld[i] = (double)NAN;
    enum b2_status rc = start(&k, err);
    const bool started = !rc;
    if (!rc && isnan(fp->exponent))
        rc = try_all(&k, err);
    if (!rc)
        rc = rewrite(&k, found->exponent, err);
    model_close(k.m);
    fold_stats_free(&k.stats);
    if (!rc)
        rc = compress_folded(r, &k, err);
    if (!rc)
        r->source_bytes = k.source_bytes;
    if (!rc && !p->dry_run) {
        rc = clean(&k, err);
        if (rc)
            report_free(r);
    } else if (rc && rc != B2_ECANCEL && rc != B2_EIO && k.model.data && started) {
        drop_model(&k); /* no run goes on from there */
    }
    str_free(&k.model);
    str_free(&k.key);
    str_free(&k.path);
    str_free(&k.now);
    return rc;
}

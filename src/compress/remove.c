/*
 * remove.c - plans for models of fewer and fewer layers, and the best of them made.
 */
#include "compress/remove.h"

#include "base/file.h"
#include "compress/memo.h"
#include "compress/prune.h"

#include <math.h>

enum { PRUNE_TOKENS = 4096 };

struct removing {
    const struct pipeline_params *p;
    struct remove_report *found;
    char sha256[65]; /* of the source */
    uint64_t source_bytes;
    struct str model, costs, key; /* paths of one choice */
    bool no_types;                /* the budget is below the smallest types */
};

static enum b2_status set_paths(struct removing *m, int layers, struct b2_err *err)
{
    struct str *const path[] = {&m->model, &m->costs, &m->key};
    static const char *const ends[] = {"gguf", "costs", "key"};

    for (size_t i = 0; i < countof(path); i++) {
        path[i]->len = 0;
        str_printf(path[i], "%s.removed-%d.%s", m->p->output, layers, ends[i]);
        if (!str_ok(path[i]))
            return err_set(err, B2_ENOMEM, "out of memory");
    }
    return B2_OK;
}

/* ---- a smaller model ---- */

/* What a smaller model depends on. */
static enum b2_status make_key(const struct removing *m, int layers, struct str *out,
                               struct b2_err *err)
{
    const struct calib_params *c = m->p->calib;

    str_printf(out, "%s %s %d %lld %lld %llu", B2_VERSION, m->sha256, layers,
               (long long)c->n_tokens, (long long)c->ctx,
               (unsigned long long)m->p->recipe->seed);
    for (int i = 0; i < c->n_files; i++)
        str_printf(out, " %s", c->files[i]);
    return str_ok(out) ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

static enum b2_status prune(const struct removing *m, int layers, double *kld,
                            struct b2_err *err)
{
    const struct pipeline_params *p = m->p;
    struct calib_params cp = *p->calib;
    struct prune_report r = {0};
    const struct prune_params pp = {.source = p->source,
                                    .output = m->model.data,
                                    .calib = &cp,
                                    .layers = layers,
                                    .cap = 0.5,
                                    .multiple = 64,
                                    .mismatch = 0.5,
                                    .rounds = 1,
                                    .max_kld = (double)NAN,
                                    .type = N_DTYPES,
                                    .seed = p->recipe->seed,
                                    .force = true,
                                    .mem_limit = p->mem_limit,
                                    .pool = p->env.pool,
                                    .log = p->log,
                                    .cancelled = p->env.cancelled,
                                    .on_stage = p->on_stage,
                                    .progress = p->env.progress,
                                    .ctx_of_calls = p->env.ctx};

    cp.n_tokens = min_i64(cp.n_tokens, PRUNE_TOKENS);
    enum b2_status rc = prune_run(&r, &pp, err);
    if (!rc)
        *kld = fmax(0.0, r.kld[r.taken]);
    prune_report_free(&r);
    return rc;
}

static enum b2_status smaller_model(struct removing *m, int layers, double *kld,
                                    struct b2_err *err)
{
    struct str key = {0};
    enum b2_status rc = make_key(m, layers, &key, err);

    if (!rc)
        *kld =
            file_exists(m->model.data) ? memo_get(m->key.data, key.data) : (double)NAN;
    if (!rc && !isfinite(*kld)) {
        rc = file_remove_if_there(m->key.data, err);
        if (!rc)
            rc = prune(m, layers, kld, err);
        if (!rc)
            rc = memo_put(m->key.data, key.data, *kld, err);
    }
    str_free(&key);
    return rc;
}

/* ---- what the budget would do with it ---- */

static struct pipeline_params params_of(struct removing *m, int layers)
{
    struct pipeline_params p = *m->p;

    p.source_name = p.source_name ? p.source_name : p.source;
    p.source = layers ? m->model.data : p.source;
    p.costs = layers || !p.costs ? m->costs.data : p.costs;
    p.too_small = &m->no_types;
    return p;
}

/* The sum of the damages; infinite: no types are small enough. */
static enum b2_status plan(struct removing *m, int layers, double *sum,
                           struct b2_err *err)
{
    struct pipeline_params p = params_of(m, layers);
    struct report r = {0};

    p.dry_run = true;
    m->no_types = false;
    *sum = 0.0;
    enum b2_status rc = pipeline_run(&r, &p, err);
    for (int64_t i = 0; i < r.n && !rc; i++)
        *sum += fmax(0.0, r.tensor[i].damage);
    report_free(&r);
    if (!rc || !m->no_types)
        return rc;
    *sum = (double)INFINITY;
    return B2_OK;
}

static double total(const struct remove_report *f, int layers)
{
    return f->pruned[layers] + f->types[layers];
}

static enum b2_status try_all(struct removing *m, int max_layers, struct b2_err *err)
{
    struct remove_report *f = m->found;
    enum b2_status rc = B2_OK;

    for (int n = 0; n <= max_layers && !rc; n++) {
        rc = set_paths(m, n, err);
        if (!rc && n > 0)
            rc = smaller_model(m, n, &f->pruned[n], err);
        if (!rc)
            rc = plan(m, n, &f->types[n], err);
        if (rc)
            return rc;
        f->n = n + 1;
        log_line(m->p->log, LOG_INFO, "%d layers less: %.4f nat by that, %.4f by types",
                 n, f->pruned[n], f->types[n]);
        if (total(f, n) < total(f, f->taken))
            f->taken = n;
        else if (n > 0 && isfinite(total(f, n)))
            break;
    }
    if (!isfinite(total(f, f->taken)))
        return err_set(err, B2_EARG,
                       "the budget is too small also with %d layers less: allow more "
                       "with --remove, or name smaller types with --types",
                       max_layers);
    return B2_OK;
}

static enum b2_status clean(struct removing *m, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int n = 0; n < m->found->n && !rc; n++) {
        rc = set_paths(m, n, err);
        const char *const path[] = {m->model.data, m->costs.data, m->key.data};
        for (size_t i = 0; i < countof(path) && !rc; i++)
            rc = file_remove_if_there(path[i], err);
    }
    return rc;
}

/* Of the source as it is. */
static enum b2_status start(struct removing *m, struct b2_err *err)
{
    struct modelfile *mf = NULL;
    enum b2_status rc = file_check_output(m->p->output, m->p->source, m->p->force, err);

    if (!rc)
        rc = modelfile_open(&mf, m->p->source, NULL, err);
    if (!rc)
        rc = modelfile_sha256(mf, m->sha256, err);
    if (!rc)
        m->source_bytes = modelfile_bytes(mf);
    modelfile_close(mf);
    return rc;
}

enum b2_status remove_run(struct report *r, struct remove_report *found,
                          const struct pipeline_params *p, int max_layers,
                          struct b2_err *err)
{
    struct removing m = {.p = p, .found = found};

    *found = (struct remove_report){0};
    *r = (struct report){0};
    if (max_layers < 1)
        return pipeline_run(r, p, err);
    enum b2_status rc = start(&m, err);
    if (!rc)
        rc = try_all(&m, max_layers < REMOVE_MAX ? max_layers : REMOVE_MAX, err);
    if (!rc)
        rc = set_paths(&m, found->taken, err);
    if (!rc) {
        const struct pipeline_params best = params_of(&m, found->taken);
        rc = pipeline_run(r, &best, err);
        if (!rc)
            r->source_bytes = m.source_bytes;
    }
    if (!rc && !p->dry_run) {
        rc = clean(&m, err);
        if (rc)
            report_free(r);
    }
    str_free(&m.model);
    str_free(&m.costs);
    str_free(&m.key);
    return rc;
}

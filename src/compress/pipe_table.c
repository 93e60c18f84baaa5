/*
 * pipe_table.c - the round stage of tables of tokens and heads, in the head's metric.
 */
#include "compress/pipeline_int.h"

#include "base/mem.h"

/* When the first of them is rounded: what was there needs none. */
static enum b2_status make_metric(struct pipeline *pl, struct b2_err *err)
{
    enum b2_status rc = pl->blas ? B2_OK : blas_open(&pl->blas, err);
    const struct table_walk walk = {.source = pl->p->source,
                                    .c = &pl->c,
                                    .calib = &pl->calib,
                                    .blas = pl->blas,
                                    .pool = pl->p->env.pool,
                                    .mem_limit = pl->p->mem_limit,
                                    .cancelled = pl->p->env.cancelled,
                                    .ctx = pl->p->env.ctx};

    if (rc || pl->metric.sums.h)
        return rc;
    return table_metric_make(&pl->metric, &walk, err);
}

void pipeline_drop_metric(struct pipeline *pl)
{
    table_metric_free(&pl->metric);
    blas_close(pl->blas);
    pl->blas = NULL;
}

/* In memory whole: it is small beside what making the layers takes. */
enum b2_status pipeline_round_table(struct pipeline *pl, int64_t k, uint64_t n_done,
                                    struct b2_err *err)
{
    const struct choose_item *it = &pl->c.item[k];
    const struct choose_candidate *cand = choose_picked(it);
    enum b2_status rc = make_metric(pl, err);
    const struct table_job j = {.c = &pl->c,
                                .it = it,
                                .cand = cand,
                                .metric = &pl->metric,
                                .passes = pl->recipe.refine,
                                .blas = pl->blas,
                                .pool = pl->p->env.pool,
                                .cancelled = pl->p->env.cancelled,
                                .ctx = pl->p->env.ctx,
                                .progress = pl->p->env.progress,
                                .before = n_done};
    uint8_t *bytes = rc ? NULL : mem_calloc((size_t)cand->n_bytes, 1);

    pl->stat[k] = (struct fit_stat){0};
    if (!rc)
        rc = bytes ? modelfile_load(pl->mf, it->index, err)
                   : err_set(err, B2_ENOMEM, "tensor %s: out of memory", it->t->name);
    if (!rc) {
        rc = table_round(bytes, &pl->stat[k], &j, err);
        modelfile_unload(pl->mf, it->index);
    }
    if (!rc)
        rc = work_piece_data(pl->work, bytes, cand->n_bytes, err);
    mem_free(bytes);
    return rc;
}

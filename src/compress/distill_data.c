/*
 * distill_data.c - which sequences are trained on, which are scored, and in what order.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "compress/distill_int.h"

#include <stdio.h>
#include <string.h>

enum {
    HELD_EVERY = 16
}; /* without files of regions: this one of each text's sequences */

static void name_region(struct distill_region *r, const char *path, size_t len)
{
    size_t from = len;

    while (from > 0 && path[from - 1] != '/')
        from--;
    snprintf(r->name, sizeof r->name, "%.*s", (int)(len - from), path + from);
}

static bool grow_held(struct distill *d, const int32_t *seq)
{
    const size_t n = (size_t)(d->n_held + 1) * (size_t)d->p->ctx;
    int32_t *more = mem_realloc(d->held_ids, n, sizeof *more);

    if (!more)
        return false;
    d->held_ids = more;
    memcpy(more + d->n_held * d->p->ctx, seq, (size_t)d->p->ctx * sizeof *more);
    d->n_held++;
    return true;
}

/* Every HELD_EVERY-th sequence of each source is scored and never trained on. The last
 * sequence of all, calib's probe, is not used: it lies among the others' windows. */
static enum b2_status split_training(struct distill *d, struct b2_err *err)
{
    const struct calib *c = &d->train;
    int64_t at = 0;

    for (int i = 0; i < c->n_sources; i++) {
        struct distill_region *r = &d->r->region[d->r->n_regions];
        const int64_t n = min_i64(c->source[i].seqs, c->n_seqs - 1 - at);
        name_region(r, c->source[i].path, c->source[i].path_len);
        for (int64_t k = 0; k < n; k++) {
            const int64_t mid = (min_i64(n, HELD_EVERY) - 1) / 2;
            const bool held = d->p->n_held == 0 && n > 1 && k % HELD_EVERY == mid;
            if (!held)
                d->pool_of[d->n_order++] = at + k;
            else if (!grow_held(d, c->ids + (at + k) * c->ctx))
                return err_set(err, B2_ENOMEM, "out of memory");
            r->seqs += held;
        }
        d->r->n_regions += r->seqs > 0;
        if (r->seqs == 0)
            *r = (struct distill_region){0};
        at += n;
    }
    return B2_OK;
}

static enum b2_status read_regions(struct distill *d, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int i = 0; i < d->p->n_held && !rc; i++) {
        struct calib_params cp = *d->p->data;
        struct calib c = {0};
        struct distill_region *r = &d->r->region[d->r->n_regions];
        cp.files = &d->p->held[i];
        cp.n_files = 1;
        cp.n_avoid = 0;
        cp.n_tokens = d->p->held_tokens;
        cp.ctx = d->p->ctx;
        rc = calib_make(&c, d->tm->tok, &cp, err);
        for (int64_t k = 0; !rc && k < c.n_seqs - 1; k++)
            if (!grow_held(d, c.ids + k * c.ctx))
                rc = err_set(err, B2_ENOMEM, "out of memory");
        if (rc) {
            err_wrap(err, "held-out region");
        } else {
            name_region(r, c.source[0].path, c.source[0].path_len);
            r->seqs = c.n_seqs - 1;
            d->r->n_regions++;
        }
        calib_free(&c);
    }
    return rc;
}

/* Texts of regions are evaluation texts for what is trained on. */
static enum b2_status make_training(struct distill *d, struct calib_params *cp,
                                    struct b2_err *err)
{
    const int n = cp->n_avoid + d->p->n_held;
    const char **avoid = mem_calloc((size_t)n + 1, sizeof *avoid);

    if (!avoid)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int i = 0; i < n; i++)
        avoid[i] = i < cp->n_avoid ? cp->avoid[i] : d->p->held[i - cp->n_avoid];
    cp->avoid = avoid;
    cp->n_avoid = n;
    enum b2_status rc = calib_make(&d->train, d->tm->tok, cp, err);
    mem_free(avoid);
    return rc;
}

enum b2_status distill_data(struct distill *d, struct b2_err *err)
{
    struct calib_params cp = *d->p->data;

    if (!d->tm->tok)
        return err_set(err, B2_ENOTFOUND, "%s: has no tokenizer", d->p->teacher);
    if (d->p->n_held > DISTILL_MAX_REGIONS)
        return err_set(err, B2_EARG, "%d held-out files: at most %d", d->p->n_held,
                       DISTILL_MAX_REGIONS);
    cp.ctx = d->p->ctx;
    cp.n_tokens = d->p->steps * d->p->batch * d->p->ctx;
    cp.meta = modelfile_meta(d->tm->mf);
    enum b2_status rc = make_training(d, &cp, err);
    if (rc)
        return rc;
    d->pool_of = mem_calloc((size_t)d->train.n_seqs, sizeof *d->pool_of);
    d->order = mem_calloc((size_t)d->train.n_seqs, sizeof *d->order);
    if (!d->pool_of || !d->order)
        return err_set(err, B2_ENOMEM, "out of memory");
    d->epoch = -1;
    rc = read_regions(d, err);
    if (!rc)
        rc = split_training(d, err);
    if (!rc && (d->n_order < 1 || d->n_held < 1))
        rc =
            err_set(err, B2_EARG,
                    "the texts give %lld sequences of %lld tokens to train on and %lld "
                    "to score: give longer texts or a smaller --ctx",
                    (long long)d->n_order, (long long)d->p->ctx, (long long)d->n_held);
    return rc;
}

const int32_t *distill_sequence(struct distill *d, int64_t k)
{
    const int64_t epoch = k / d->n_order;

    if (epoch != d->epoch) { /* a shuffle that depends on seed and epoch alone */
        struct rng rng = rng_make(d->p->seed * 0x9e3779b97f4a7c15u + (uint64_t)epoch);
        memcpy(d->order, d->pool_of, (size_t)d->n_order * sizeof *d->order);
        for (int64_t i = d->n_order - 1; i > 0; i--) {
            int64_t j = (int64_t)rng_below(&rng, (uint64_t)i + 1), was = d->order[i];
            d->order[i] = d->order[j];
            d->order[j] = was;
        }
        d->epoch = epoch;
    }
    return d->train.ids + d->order[k % d->n_order] * d->p->ctx;
}

/*
 * distill_eval.c - both models over some sequences, and what a state is worth.
 */
#include "base/mem.h"
#include "compress/distill_int.h"

#include <math.h>
#include <string.h>

bool distill_stopped(const struct distill *d)
{
    return d->p->cancelled && d->p->cancelled(d->p->ctx_of_calls);
}

/* Both models over the sequences in d->ids. dh set: gradients are added up. */
void distill_pass(struct distill *d, struct head_sums *sums, int64_t n_seqs,
                  real weight, real *dh)
{
    const struct layer_batch b = {n_seqs, d->p->ctx, d->pos, d->first};
    const int64_t n = n_seqs * d->p->ctx;

    for (int64_t i = 0; i < n; i++) /* each document starts at place 0 */
        d->pos[i] = (int32_t)(i % d->p->ctx) - d->first[i];
    const real *ht = NULL;
    if (!d->cache) {
        netmodel_embed(&d->t, net_input(d->tw), d->ids, n);
        ht = net_forward(&d->env, d->tw, &d->t.net, &b);
    }
    netmodel_embed(&d->s, net_input(d->sw), d->ids, n);
    const real *hs = net_forward(&d->env, d->sw, &d->s.net, &b);
    if (d->target)
        distill_targets(d, n_seqs);
    const struct head_io io = {.hs = hs,
                               .ht = ht,
                               .target = dh ? d->target : NULL,
                               .weight = weight,
                               .dhs = dh,
                               .row = ht ? NULL : distill_teacher_row,
                               .row_ctx = d};
    head_run(&d->env, sums, &d->loss, &io, n);
    distill_teacher_rest(d, n_seqs);
    if (dh) {
        const int64_t last = d->s.norms.n - d->s.net.d;
        net_backward(&d->env, d->sw, &d->s.net, &b, dh,
                     d->s.norms.n > 0 ? d->s.norms.g + last : NULL);
    }
}

enum b2_status distill_interrupted(const struct distill *d, struct b2_err *err)
{
    const int64_t n = d->st.n_points; /* evaluations that were saved */

    return n == 0 ? err_set(err, B2_ECANCEL, "interrupted before the first step")
                  : err_set(err, B2_ECANCEL,
                            "interrupted; the same command goes on from step %lld",
                            (long long)d->r->curve[n - 1].step);
}

static enum b2_status evaluate(struct distill *d, double *kl, struct b2_err *err)
{
    const int64_t ctx = d->p->ctx;
    const size_t bytes = (size_t)ctx * sizeof(int32_t);
    int64_t at = 0;

    d->hidden_now = 0;
    distill_sharpen(d, true);
    for (int i = 0; i < d->r->n_regions; i++) {
        struct head_sums sums = {0};
        for (int64_t k = 0; k < d->r->region[i].seqs; k += d->p->micro) {
            int64_t n = min_i64(d->p->micro, d->r->region[i].seqs - k);
            if (distill_stopped(d))
                return distill_interrupted(d, err);
            for (int64_t q = 0; q < n; q++) {
                const int32_t *held = d->held + 2 * (at + k + q) * ctx;
                memcpy(d->ids + q * ctx, held, bytes);
                memcpy(d->first + q * ctx, held + ctx, bytes);
                distill_teacher_held(d, q, at + k + q);
            }
            distill_pass(d, &sums, n, 0, NULL);
        }
        at += d->r->region[i].seqs;
        kl[i] = sums.kl / (double)sums.n;
    }
    return B2_OK;
}

double distill_mean(const double *x, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

static enum b2_status add_point(struct distill *d, const double *kl, struct b2_err *err)
{
    struct distill_state *st = &d->st;
    void *more =
        mem_realloc(d->r->curve, (size_t)st->n_points + 1, sizeof *d->r->curve);

    if (!more)
        return err_set(err, B2_ENOMEM, "out of memory");
    d->r->curve = more;
    struct distill_point *p = &d->r->curve[st->n_points++];
    const double n = st->sum_n > 0 ? (double)st->sum_n : (double)NAN;
    memset(p, 0, sizeof *p);
    p->step = st->step;
    p->tokens = st->step * d->p->batch * d->p->ctx;
    p->train = (struct distill_parts){st->sum.loss / n, st->sum.kl / n, st->sum.ce / n,
                                      st->sum.hidden / n, st->sum.scale / n};
    p->held = distill_mean(kl, d->r->n_regions);
    memcpy(p->region, kl, sizeof p->region);
    st->sum = (struct distill_parts){0};
    st->sum_n = 0;
    return B2_OK;
}

/* What the result must not be worse than: the student as it came. With free weights that is
 * another state than the first one of the training. */
static enum b2_status score_student(struct distill *d, double *kl, struct b2_err *err)
{
    d->s.as_came = true;
    netmodel_moved(&d->s);
    enum b2_status rc = evaluate(d, kl, err);
    d->s.as_came = false;
    netmodel_moved(&d->s);
    memcpy(d->st.before, kl, sizeof d->st.before);
    memcpy(d->st.after, kl, sizeof d->st.after);
    d->st.best = distill_mean(kl, d->r->n_regions);
    return rc;
}

/* Scores the state, keeps it when it is the best so far, and saves everything. */
enum b2_status distill_take_stock(struct distill *d, struct b2_err *err)
{
    struct distill_state *st = &d->st;
    const bool first = st->step == 0, other = d->s.n_free > 0;
    double kl[DISTILL_MAX_REGIONS] = {0};
    bool better = !first || other;
    enum b2_status rc = first ? score_student(d, kl, err) : B2_OK;

    if (!rc && better)
        rc = evaluate(d, kl, err);
    if (rc)
        return rc;
    const double held = distill_mean(kl, d->r->n_regions);
    for (int i = 0; i < d->r->n_regions; i++)
        better = better && kl[i] <= st->before[i];
    better = better && held < st->best;
    if (better) {
        st->best = held;
        st->best_step = st->step;
        st->improved = true;
        memcpy(st->after, kl, sizeof kl);
    }
    if (better || first)
        distill_keep(d);
    st->stale = better ? 0 : st->stale + !first;
    rc = add_point(d, kl, err);
    log_line(d->p->log, LOG_INFO, "step %lld of %lld: held-out kld %.4f, best %.4f%s",
             (long long)st->step, (long long)d->p->steps, held, st->best,
             better ? " (new)" : "");
    return rc ? rc : distill_save(d, err);
}

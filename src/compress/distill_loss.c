/*
 * distill_loss.c - the parts of the loss beside the divergence: hidden states on the way,
 * the tokens that follow, and scales that stay near where they began.
 */
#include "base/mem.h"
#include "compress/distill_int.h"
#include "train/hidden.h"

#include <math.h>

/* ---- hidden states ---- */

int64_t distill_n_taps(const struct distill_loss *l, int64_t n_layers)
{
    if (!(l->hidden > 0))
        return 0;
    return l->n_chosen > 0 ? l->n_chosen : min_i64(l->hidden_layers, n_layers);
}

/* Those chosen, or layers at even distances, the last one among them. -1: not this one. */
static int64_t tap_of(const struct distill *d, int64_t layer)
{
    const struct distill_loss *l = &d->p->loss;
    const int64_t n = d->n_taps, all = d->s.net.n_layers;

    for (int64_t k = 0; k < n; k++)
        if ((l->n_chosen > 0 ? l->chosen[k] : (k + 1) * all / n - 1) == layer)
            return k;
    return -1;
}

enum b2_status distill_check_loss(const struct distill *d, struct b2_err *err)
{
    const struct distill_loss *l = &d->p->loss;
    const int64_t n = d->tm->hp.n_layers;

    if (l->hidden > 0 && d->sm->hp.n_layers != n)
        return err_set(err, B2_EARG,
                       "--hidden compares layer by layer: the student has %lld, the "
                       "teacher %lld",
                       (long long)d->sm->hp.n_layers, (long long)n);
    for (int i = 0; i < l->n_chosen; i++) {
        bool again = false;
        for (int k = 0; k < i; k++)
            again = again || l->chosen[k] == l->chosen[i];
        if (l->chosen[i] < 0 || l->chosen[i] >= n || again)
            return err_set(err, B2_EARG,
                           "hidden states of layer %lld%s: layers are 0 to %lld",
                           (long long)l->chosen[i], again ? ", named twice" : "",
                           (long long)n - 1);
    }
    return B2_OK;
}

double distill_hidden_weight(const struct distill *d)
{
    const struct distill_loss *l = &d->p->loss;
    const double until = l->hidden_until * (double)d->p->steps;

    if (!(l->hidden_until > 0))
        return l->hidden;
    return l->hidden * fmax(0.0, 1.0 - (double)d->st.step / until);
}

static void teacher_made(void *ctx, int64_t i, const real *y, int64_t tokens)
{
    struct distill *d = ctx;
    const int64_t k = tap_of(d, i), n = tokens * d->s.net.d;

    if (k >= 0 && d->hidden_now > 0)
        memcpy(d->seen + k * n, y, (size_t)n * sizeof *y);
}

static void student_back(void *ctx, int64_t i, real *dy, int64_t tokens)
{
    struct distill *d = ctx;
    const int64_t k = tap_of(d, i), n = tokens * d->s.net.d;

    if (k < 0 || !(d->hidden_now > 0))
        return;
    const struct hidden_io io = {net_output(d->sw, i),
                                 d->seen + k * n,
                                 tokens,
                                 d->s.net.d,
                                 d->token_weight *
                                     (real)(d->hidden_now / (double)d->n_taps),
                                 dy};
    d->sum.hidden += hidden_run(&d->env, &io) / (double)d->n_taps;
}

enum b2_status distill_open_taps(struct distill *d, struct b2_err *err)
{
    const int64_t tokens = d->p->micro * d->p->ctx;

    d->n_taps = distill_n_taps(&d->p->loss, d->s.net.n_layers);
    if (d->n_taps < 1)
        return B2_OK;
    d->seen = mem_aligned(64, (size_t)(d->n_taps * tokens * d->s.net.d), sizeof(real));
    if (!d->seen)
        return err_set(err, B2_ENOMEM, "out of memory for hidden states");
    d->t_tap = (struct net_tap){.ctx = d, .made = teacher_made};
    d->s_tap = (struct net_tap){.ctx = d, .back = student_back};
    d->t.net.tap = &d->t_tap;
    d->s.net.tap = &d->s_tap;
    return B2_OK;
}

/* ---- tokens that follow ---- */

void distill_targets(const struct distill *d, int64_t n_seqs)
{
    const int64_t ctx = d->p->ctx;

    for (int64_t t = 0; t < n_seqs * ctx; t++) {
        const int64_t next = t % ctx + 1;
        /* none behind a sequence, and none of another document */
        const bool none = next == ctx || d->first[t + 1] == next;
        d->target[t] = none ? -1 : d->ids[t + 1];
    }
}

/* ---- scales ---- */

/* Of each matrix the mean of the squared logarithms, summed over matrices. */
double distill_scale_loss(struct distill *d)
{
    const double weight = d->p->loss.scale;
    double sum = 0;

    for (int64_t i = 0; i < d->s.net.n_layers * N_LINEARS && weight > 0; i++) {
        const struct latent *l = &d->s.latent[i];
        const int64_t n = l->gls ? l->rows * l->groups : 0;
        double squares = 0;
        for (int64_t g = 0; g < n; g++) {
            squares += (double)l->ls[g] * (double)l->ls[g];
            l->gls[g] += (float)(2 * weight / (double)n) * l->ls[g];
        }
        sum += n > 0 ? squares / (double)n : 0;
        netmodel_rest(&d->s, i);
    }
    return sum;
}

/* ---- all together ---- */

/* The parts' means over a step's tokens, and their weighted sum. */
struct distill_parts distill_loss_of(const struct distill *d,
                                     const struct head_sums *sums, double scale)
{
    const struct distill_loss *l = &d->p->loss;
    const double n = (double)sums->n, t = d->p->temperature;
    struct distill_parts out = {
        .kl = sums->kl / n,
        .ce = l->ce > 0 && sums->n_ce > 0 ? sums->ce / (double)sums->n_ce : (double)NAN,
        .hidden = d->hidden_now > 0 ? d->sum.hidden / n : (double)NAN,
        .scale = l->scale > 0 ? scale : (double)NAN};

    out.loss = l->kl * t * t * out.kl;
    if (l->ce > 0) /* as its gradient: over all tokens */
        out.loss += l->ce * sums->ce / n;
    if (d->hidden_now > 0)
        out.loss += d->hidden_now * out.hidden;
    if (l->scale > 0)
        out.loss += l->scale * scale;
    return out;
}

void distill_loss_json(const struct distill_loss *l, struct str *out)
{
    str_printf(out, ",\"loss\":{\"kl\":%.9g,\"ce\":%.9g,\"hidden\":%.9g,", l->kl, l->ce,
               l->hidden);
    if (l->n_chosen > 0) {
        for (int i = 0; i < l->n_chosen; i++)
            str_printf(out, "%s%lld", i ? "," : "\"hidden_layers\":[",
                       (long long)l->chosen[i]);
        str_put(out, "]");
    } else {
        str_printf(out, "\"hidden_layers\":%lld", (long long)l->hidden_layers);
    }
    str_printf(out, ",\"hidden_until\":%.9g,\"scale\":%.9g}", l->hidden_until,
               l->scale);
}

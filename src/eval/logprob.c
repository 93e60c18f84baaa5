/*
 * logprob.c - one pass for the largest logit, one for the sum.
 *
 * The divergence is computed as
 *   KL = (1 / sum_b) sum_v e_v (xb_v - xc_v)  -  lse_b + lse_c,   e_v = exp(xb_v - max_b)
 * which needs no second exponential. Logits are a few tens, so the three terms lose at
 * most some 1e-14 to cancellation, far below any divergence that is worth a name.
 */
#include "eval/logprob.h"

#include <math.h>

enum b2_status logprob_row(struct logprob *out, double *expo, const float *x,
                           int64_t vocab, struct b2_err *err)
{
    int64_t best = 0;
    double sum = 0.0, max;

    for (int64_t v = 0; v < vocab; v++) {
        if (!isfinite(x[v]))
            return err_set(err, B2_EFORMAT,
                           "logit %lld is %f: the model's weights are damaged, or its "
                           "arithmetic overflows; load the file again, or make it anew",
                           (long long)v, (double)x[v]);
        if (x[v] > x[best])
            best = v;
    }
    max = (double)x[best];
    for (int64_t v = 0; v < vocab; v++) {
        double e = exp((double)x[v] - max);
        sum += e;
        if (expo)
            expo[v] = e;
    }
    *out =
        (struct logprob){.max = max, .sum = sum, .lse = max + log(sum), .argmax = best};
    return B2_OK;
}

double logprob_kld(const struct logprob *b, const double *expo_b, const float *xb,
                   const struct logprob *c, const float *xc, int64_t vocab)
{
    double sum = 0.0, kld;

    for (int64_t v = 0; v < vocab; v++)
        sum += expo_b[v] * ((double)xb[v] - (double)xc[v]);
    kld = sum / b->sum - b->lse + c->lse;
    return kld > 0.0 ? kld : 0.0; /* rounding may leave -1e-15 */
}

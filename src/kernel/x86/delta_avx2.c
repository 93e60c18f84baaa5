/*
 * delta_avx2.c - the gated delta net in AVX2. Same bits as ref/delta_ref.c.
 *
 * The recurrence takes 32 columns of the state at a time: their rows of 128 bytes stay in
 * L1 between the two passes, and four sums in flight hide the latency of the additions.
 */
#include "kernel/variants.h"
#include "kernel/x86/float8.h"

#include <math.h>

void kernel_conv_silu_avx2(float *y, const float *const *x, const float *w,
                           int64_t w_step, int64_t taps, int64_t n)
{
    const __m256 one = _mm256_set1_ps(1.0f);

    for (int64_t i = 0; i < n; i += 8) {
        __m256i mask = first_lanes(n - i < 8 ? n - i : 8);
        __m256 acc = _mm256_mul_ps(_mm256_maskload_ps(x[0] + i, mask),
                                   _mm256_maskload_ps(w + i, mask));
        for (int64_t j = 1; j < taps; j++)
            acc = _mm256_add_ps(
                acc, _mm256_mul_ps(_mm256_maskload_ps(x[j] + i, mask),
                                   _mm256_maskload_ps(w + j * w_step + i, mask)));
        _mm256_maskstore_ps(y + i, mask, silu8(acc, one));
    }
}

void kernel_l2norm_avx2(float *y, const float *x, int64_t n, float eps)
{
    __m256d lo = _mm256_setzero_pd(), hi = _mm256_setzero_pd();

    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = load_tail(x + i, n - i < 8 ? n - i : 8);
        v = _mm256_mul_ps(v, v);
        lo = _mm256_add_pd(lo, _mm256_cvtps_pd(_mm256_castps256_ps128(v)));
        hi = _mm256_add_pd(hi, _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
    }
    lo = _mm256_add_pd(lo, hi);
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(lo), _mm256_extractf128_pd(lo, 1));
    s = _mm_add_sd(s, _mm_unpackhi_pd(s, s));
    float size = sqrtf((float)_mm_cvtsd_f64(s));
    __m256 r = _mm256_set1_ps(1.0f / (eps > size ? eps : size));
    for (int64_t i = 0; i < n; i += 8) {
        int64_t rest = n - i < 8 ? n - i : 8;
        store_tail(y + i, rest, _mm256_mul_ps(load_tail(x + i, rest), r));
    }
}

void kernel_sigmoid_mul_avx2(float *y, const float *gate, const float *x, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         sigmoid8(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(x + i)));
    if (i < n)
        store_tail(y + i, n - i,
                   sigmoid8(load_tail(gate + i, n - i), load_tail(x + i, n - i)));
}

/* n_r registers of columns from column i on; with one register the last may be cut. */
static ALWAYS_INLINE void delta_columns(float *out, float *state,
                                        const struct kd_step *d, int64_t i, int n_r)
{
    const __m256i mask = first_lanes(d->n_values - i < 8 ? d->n_values - i : 8);
    const __m256 decay = _mm256_set1_ps(d->decay), beta = _mm256_set1_ps(d->beta);
    const __m256 scale = _mm256_set1_ps(d->scale);
    __m256 acc[4], delta[4];

    for (int r = 0; r < n_r; r++)
        acc[r] = _mm256_setzero_ps();
    for (int64_t j = 0; j < d->n_keys; j++) {
        const float *s = state + j * d->n_values + i;
        __m256 k = _mm256_set1_ps(d->k[j]);
        for (int r = 0; r < n_r; r++) {
            __m256 v =
                n_r > 1 ? _mm256_loadu_ps(s + 8 * r) : _mm256_maskload_ps(s, mask);
            v = _mm256_mul_ps(_mm256_mul_ps(v, decay), k);
            acc[r] = _mm256_add_ps(acc[r], v);
        }
    }
    for (int r = 0; r < n_r; r++) {
        const float *v = d->v + i + 8 * r;
        delta[r] = n_r > 1 ? _mm256_loadu_ps(v) : _mm256_maskload_ps(v, mask);
        delta[r] = _mm256_mul_ps(beta, _mm256_sub_ps(delta[r], acc[r]));
        acc[r] = _mm256_setzero_ps();
    }
    for (int64_t j = 0; j < d->n_keys; j++) {
        float *s = state + j * d->n_values + i;
        __m256 k = _mm256_set1_ps(d->k[j]), q = _mm256_set1_ps(d->q[j]);
        for (int r = 0; r < n_r; r++) {
            __m256 v =
                n_r > 1 ? _mm256_loadu_ps(s + 8 * r) : _mm256_maskload_ps(s, mask);
            v = _mm256_add_ps(_mm256_mul_ps(v, decay), _mm256_mul_ps(k, delta[r]));
            if (n_r > 1)
                _mm256_storeu_ps(s + 8 * r, v);
            else
                _mm256_maskstore_ps(s, mask, v);
            acc[r] = _mm256_add_ps(acc[r], _mm256_mul_ps(v, q));
        }
    }
    for (int r = 0; r < n_r; r++) {
        __m256 o = _mm256_mul_ps(acc[r], scale);
        if (n_r > 1)
            _mm256_storeu_ps(out + i + 8 * r, o);
        else
            _mm256_maskstore_ps(out + i, mask, o);
    }
}

void kernel_delta_step_avx2(float *out, float *state, const struct kd_step *d)
{
    int64_t i = 0;

    for (; i + 32 <= d->n_values; i += 32)
        delta_columns(out, state, d, i, 4);
    for (; i < d->n_values; i += 8)
        delta_columns(out, state, d, i, 1);
}

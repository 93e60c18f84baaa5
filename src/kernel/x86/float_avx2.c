/*
 * float_avx2.c - norms, activation functions, softmax, rope, Hadamard, in AVX2 and F16C.
 *
 * Same bits as ref/float_ref.c. The last few elements go through the same vector code
 * under a mask; lanes beyond the end hold zeros and are not stored.
 */
#include "kernel/variants.h"
#include "kernel/x86/float8.h"
#include "tensor/hadamard.h"

#include <math.h>
#include <string.h>

void kernel_f32_from_f16_avx2(float *dst, const void *src, int64_t n)
{
    const uint8_t *p = src;
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(load128(p + 2 * i)));
    if (i < n) {
        uint16_t rest[8] = {0};
        memcpy(rest, p + 2 * i, (size_t)(n - i) * 2);
        store_tail(dst + i, n - i, _mm256_cvtph_ps(load128(rest)));
    }
}

static ALWAYS_INLINE __m256 from_bf16(__m128i v)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}

void kernel_f32_from_bf16_avx2(float *dst, const void *src, int64_t n)
{
    const uint8_t *p = src;
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, from_bf16(load128(p + 2 * i)));
    if (i < n) {
        uint16_t rest[8] = {0};
        memcpy(rest, p + 2 * i, (size_t)(n - i) * 2);
        store_tail(dst + i, n - i, from_bf16(load128(rest)));
    }
}

void kernel_f16_from_f32_avx2(uint16_t *dst, const float *src, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        store128(dst + i,
                 _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    if (i < n) {
        uint16_t rest[8];
        store128(rest,
                 _mm256_cvtps_ph(load_tail(src + i, n - i), _MM_FROUND_TO_NEAREST_INT));
        memcpy(dst + i, rest, (size_t)(n - i) * 2);
    }
}

void kernel_rmsnorm_avx2(float *y, const float *x, const float *gain, int64_t n,
                         float eps)
{
    __m256d lo = _mm256_setzero_pd(), hi = _mm256_setzero_pd();

    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = n - i >= 8 ? _mm256_loadu_ps(x + i) : load_tail(x + i, n - i);
        v = _mm256_mul_ps(v, v);
        lo = _mm256_add_pd(lo, _mm256_cvtps_pd(_mm256_castps256_ps128(v)));
        hi = _mm256_add_pd(hi, _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
    }
    lo = _mm256_add_pd(lo, hi);
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(lo), _mm256_extractf128_pd(lo, 1));
    s = _mm_add_sd(s, _mm_unpackhi_pd(s, s));
    float r = 1.0f / sqrtf((float)(_mm_cvtsd_f64(s) / (double)n) + eps);
    __m256 rv = _mm256_set1_ps(r);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), rv),
                                              _mm256_loadu_ps(gain + i)));
    if (i < n)
        store_tail(y + i, n - i,
                   _mm256_mul_ps(_mm256_mul_ps(load_tail(x + i, n - i), rv),
                                 load_tail(gain + i, n - i)));
}

void kernel_exp_avx2(float *y, const float *x, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, exp8(_mm256_loadu_ps(x + i)));
    if (i < n)
        store_tail(y + i, n - i, exp8(load_tail(x + i, n - i)));
}

void kernel_silu_mul_avx2(float *y, const float *gate, const float *up, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         silu8(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    if (i < n)
        store_tail(y + i, n - i,
                   silu8(load_tail(gate + i, n - i), load_tail(up + i, n - i)));
}

static ALWAYS_INLINE __m256 gelu8(__m256 gate, __m256 up)
{
    __m256 cube = _mm256_mul_ps(_mm256_mul_ps(gate, gate), gate);
    __m256 z = _mm256_add_ps(_mm256_mul_ps(cube, _mm256_set1_ps(GELU_CUBE)), gate);
    __m256 e = exp8(_mm256_mul_ps(z, _mm256_set1_ps(GELU_MINUS_2C)));

    gate = _mm256_div_ps(gate, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
    return _mm256_mul_ps(gate, up);
}

void kernel_gelu_mul_avx2(float *y, const float *gate, const float *up, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         gelu8(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    if (i < n)
        store_tail(y + i, n - i,
                   gelu8(load_tail(gate + i, n - i), load_tail(up + i, n - i)));
}

/* maxps gives the second operand for NaN, as the comparison of the reference does. */
static ALWAYS_INLINE __m256 relu2(__m256 gate, __m256 up)
{
    gate = _mm256_max_ps(gate, _mm256_setzero_ps());
    return _mm256_mul_ps(_mm256_mul_ps(gate, gate), up);
}

void kernel_relu2_mul_avx2(float *y, const float *gate, const float *up, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         relu2(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    if (i < n)
        store_tail(y + i, n - i,
                   relu2(load_tail(gate + i, n - i), load_tail(up + i, n - i)));
}

void kernel_scale_avx2(float *y, int64_t n, float by)
{
    __m256 v = _mm256_set1_ps(by);
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(y + i), v));
    for (; i < n; i++)
        y[i] *= by;
}

void kernel_add_avx2(float *y, const float *x, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
    for (; i < n; i++)
        y[i] += x[i];
}

void kernel_mul_avx2(float *y, const float *a, const float *b, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         _mm256_mul_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
    for (; i < n; i++)
        y[i] = a[i] * b[i];
}

static ALWAYS_INLINE __m256 softcap8(__m256 p, __m256 cap)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 z = _mm256_div_ps(p, cap);
    __m256 e = _mm256_add_ps(exp8(_mm256_add_ps(z, z)), one);

    return _mm256_mul_ps(cap,
                         _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0f), e)));
}

void kernel_softcap_avx2(float *p, int64_t n, float cap)
{
    __m256 capv = _mm256_set1_ps(cap);
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(p + i, softcap8(_mm256_loadu_ps(p + i), capv));
    if (i < n)
        store_tail(p + i, n - i, softcap8(load_tail(p + i, n - i), capv));
}

/* Multiplies p by scale and returns the largest product; NaN is passed over. */
static float scale_and_max(float *p, int64_t n, float scale)
{
    const __m256 least = _mm256_set1_ps(-INFINITY);
    __m256 sv = _mm256_set1_ps(scale), max = least;
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(p + i), sv);
        _mm256_storeu_ps(p + i, v);
        max = _mm256_max_ps(v, max);
    }
    if (i < n) {
        __m256 v = _mm256_mul_ps(load_tail(p + i, n - i), sv);
        store_tail(p + i, n - i, v);
        __m256 mask = _mm256_castsi256_ps(first_lanes(n - i));
        max = _mm256_max_ps(_mm256_blendv_ps(least, v, mask), max);
    }
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(max), _mm256_extractf128_ps(max, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

float kernel_softmax_avx2(float *p, int64_t n, float scale, float *max_out)
{
    float most = scale_and_max(p, n, scale) + 0.0f; /* one zero for both signs */
    __m256 max = _mm256_set1_ps(most);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};

    for (int64_t i = 0; i < n; i += 8) {
        int64_t rest = n - i < 8 ? n - i : 8;
        __m256i mask = first_lanes(rest);
        __m256 e = exp8(_mm256_sub_ps(_mm256_maskload_ps(p + i, mask), max));
        e = _mm256_and_ps(e, _mm256_castsi256_ps(mask));
        _mm256_maskstore_ps(p + i, mask, e);
        sum[i / 8 & 1] = _mm256_add_ps(sum[i / 8 & 1], e);
    }
    *max_out = most;
    return fold8(_mm256_add_ps(sum[0], sum[1]));
}

/* n_v registers of output, positions in order. */
static ALWAYS_INLINE void weighted_block(float *out, const float *p, const float *v,
                                         int64_t v_step, int64_t n_pos, int n_v)
{
    __m256 acc[8];

    for (int i = 0; i < n_v; i++)
        acc[i] = _mm256_loadu_ps(out + 8 * i);
    for (int64_t j = 0; j < n_pos; j++) {
        __m256 pj = _mm256_set1_ps(p[j]);
        for (int i = 0; i < n_v; i++)
            acc[i] = _mm256_add_ps(
                acc[i], _mm256_mul_ps(pj, _mm256_loadu_ps(v + j * v_step + 8 * i)));
    }
    for (int i = 0; i < n_v; i++)
        _mm256_storeu_ps(out + 8 * i, acc[i]);
}

void kernel_weighted_sum_avx2(float *out, const float *p, const float *v,
                              int64_t v_step, int64_t n_pos, int64_t dim)
{
    int64_t i = 0;

    for (; i + 64 <= dim; i += 64)
        weighted_block(out + i, p, v + i, v_step, n_pos, 8);
    for (; i + 8 <= dim; i += 8)
        weighted_block(out + i, p, v + i, v_step, n_pos, 1);
    if (i < dim) {
        __m256 acc = load_tail(out + i, dim - i);
        for (int64_t j = 0; j < n_pos; j++) {
            __m256 vj = load_tail(v + j * v_step + i, dim - i);
            acc = _mm256_add_ps(acc, _mm256_mul_ps(_mm256_set1_ps(p[j]), vj));
        }
        store_tail(out + i, dim - i, acc);
    }
}

/* Four numbers, each twice. */
static ALWAYS_INLINE __m256 twice(const float *p)
{
    const __m256i index = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);

    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), index);
}

void kernel_rope_norm_avx2(float *x, const float *c, const float *s, int64_t n_pairs)
{
    int64_t i = 0;

    for (; i + 4 <= n_pairs; i += 4) {
        __m256 v = _mm256_loadu_ps(x + 2 * i), swapped = _mm256_permute_ps(v, 0xb1);
        _mm256_storeu_ps(x + 2 * i,
                         _mm256_addsub_ps(_mm256_mul_ps(v, twice(c + i)),
                                          _mm256_mul_ps(swapped, twice(s + i))));
    }
    kernel_rope_norm_c(x + 2 * i, c + i, s + i, n_pairs - i);
}

void kernel_rope_neox_avx2(float *x, const float *c, const float *s, int64_t n_pairs)
{
    int64_t i = 0;

    for (; i + 8 <= n_pairs; i += 8) {
        __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + n_pairs + i);
        __m256 cv = _mm256_loadu_ps(c + i), sv = _mm256_loadu_ps(s + i);
        _mm256_storeu_ps(x + i,
                         _mm256_sub_ps(_mm256_mul_ps(a, cv), _mm256_mul_ps(b, sv)));
        _mm256_storeu_ps(x + n_pairs + i,
                         _mm256_add_ps(_mm256_mul_ps(b, cv), _mm256_mul_ps(a, sv)));
    }
    for (; i < n_pairs; i++) {
        float a = x[i], b = x[n_pairs + i];
        x[i] = a * c[i] - b * s[i];
        x[n_pairs + i] = b * c[i] + a * s[i];
    }
}

/* Scale and the butterflies of distance 1, 2, 4 on eight neighbours. In each, sum has
 * u + v in the lanes of u, and diff has u - v in the lanes of v. */
static ALWAYS_INLINE __m256 fwht8(__m256 x, __m256 scale)
{
    x = _mm256_mul_ps(x, scale);
    __m256 y = _mm256_permute_ps(x, 0xb1);
    x = _mm256_blend_ps(_mm256_add_ps(x, y), _mm256_sub_ps(y, x), 0xaa);
    y = _mm256_permute_ps(x, 0x4e);
    x = _mm256_blend_ps(_mm256_add_ps(x, y), _mm256_sub_ps(y, x), 0xcc);
    y = _mm256_permute2f128_ps(x, x, 1);
    return _mm256_blend_ps(_mm256_add_ps(x, y), _mm256_sub_ps(y, x), 0xf0);
}

void kernel_fwht_avx2(float *x, int64_t n, int64_t block)
{
    const int64_t pow2 = hadamard_pow2(block);

    if (pow2 < 8) {
        hadamard_apply(x, n, block);
        return;
    }
    __m256 scale = _mm256_set1_ps(1.0f / sqrtf((float)block));
    for (int64_t i = 0; i < n; i += 8)
        _mm256_storeu_ps(x + i, fwht8(_mm256_loadu_ps(x + i), scale));
    for (int64_t len = 8; len < pow2; len *= 2) {
        for (int64_t i = 0; i < n; i += 2 * len) {
            for (int64_t j = i; j < i + len; j += 8) {
                __m256 u = _mm256_loadu_ps(x + j), v = _mm256_loadu_ps(x + j + len);
                _mm256_storeu_ps(x + j, _mm256_add_ps(u, v));
                _mm256_storeu_ps(x + j + len, _mm256_sub_ps(u, v));
            }
        }
    }
    hadamard_rest(x, n, block);
}

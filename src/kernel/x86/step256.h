/*
 * step256.h - steps of 32 columns of eight packed rows times a token, in AVX2.
 */
#ifndef KERNEL_X86_STEP256_H
#define KERNEL_X86_STEP256_H

#include "kernel/x86/rows_avx2.h"

/* Asks for bytes of n rows of the next set: the processor's own prefetcher starts anew
 * with every row. Into L2: what L1 can wait for at a time is needed by the loads
 * themselves. Reaching past the end of the data never faults. */
static ALWAYS_INLINE void prefetch_rows(const struct row_set *s, int first, int n,
                                        int64_t at)
{
    for (int i = first; i < first + n; i++)
        _mm_prefetch((const char *)((uintptr_t)s->row[i] + s->ahead + (uint64_t)at),
                     _MM_HINT_T1);
}

/* One token's part of a step of 32 columns; sum is of e * q, sum0 of its first half. */
struct step_act {
    __m256i q, e;
    int32_t sum, sum0;
};

static ALWAYS_INLINE struct step_act step_at(const struct kq_act *x, int64_t t,
                                             int64_t step)
{
    int64_t c = step * KQ_STEP;

    return (struct step_act){load256(x->q + t * x->n + c),
                             load256(x->e + (t * x->n + c) / 2),
                             act_sum(x, t, 2 * step, 2), act_sum(x, t, 2 * step, 1)};
}

/* Codes up to 127 times a step: pairs fit 16 bits. */
static ALWAYS_INLINE __m256i dot_step(__m256i u, const struct step_act *a)
{
    return _mm256_madd_epi16(_mm256_maddubs_epi16(u, a->q), a->e);
}

/* The sums of each half of sum[0..7], rows in order; additions of neighbours, as hadd has
 * them, but in fewer steps. */
static ALWAYS_INLINE void row_sums(__m256i *first, __m256i *second, const __m256i *sum)
{
    __m256i v[4];

    for (int i = 0; i < 4; i++) /* rows 2 i and 2 i + 1 in turn, twice */
        v[i] = _mm256_add_epi32(_mm256_unpacklo_epi32(sum[2 * i], sum[2 * i + 1]),
                                _mm256_unpackhi_epi32(sum[2 * i], sum[2 * i + 1]));
    for (int i = 0; i < 2; i++) /* four rows */
        v[i] = _mm256_add_epi32(_mm256_unpacklo_epi64(v[2 * i], v[2 * i + 1]),
                                _mm256_unpackhi_epi64(v[2 * i], v[2 * i + 1]));
    *first = _mm256_permute2x128_si256(v[0], v[1], 0x20);
    *second = _mm256_permute2x128_si256(v[0], v[1], 0x31);
}

static ALWAYS_INLINE __m256i step_sums(const __m256i *sum)
{
    __m256i first, second;

    row_sums(&first, &second, sum);
    return _mm256_add_epi32(first, second);
}

static ALWAYS_INLINE __m256 scaled(__m256 scale, __m256i sums, int32_t lows)
{
    sums = _mm256_sub_epi32(sums, _mm256_set1_epi32(lows));
    return _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums));
}

static ALWAYS_INLINE __m256 less_min(__m256 term, __m256 min, int32_t sum)
{
    return _mm256_sub_ps(term, _mm256_mul_ps(min, _mm256_set1_ps((float)sum)));
}

#endif

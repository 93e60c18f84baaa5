/*
 * avx2.h - small helpers of the AVX2 files. Included by files built with -mavx2 alone.
 */
#ifndef KERNEL_X86_AVX2_H
#define KERNEL_X86_AVX2_H

#include "kernel/kernel.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* A kernel body with constant counts must become straight code in each of its callers. */
#if defined(__GNUC__)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#else
#define ALWAYS_INLINE inline
#define NOINLINE
#endif

enum { PREFETCH_BYTES = 1024 };

/* Asks for the bytes that a walk through memory at p will need soon: the processor's own
 * prefetcher stops at page ends. Reaching past the end of the data never faults. */
static ALWAYS_INLINE void prefetch_after(const void *p)
{
    _mm_prefetch((const char *)((uintptr_t)p + PREFETCH_BYTES), _MM_HINT_T0);
}

/* LANES of 8: lane[i] += lane[i + 4], then + 2, then + 1. */
static ALWAYS_INLINE float fold8(__m256 v)
{
    __m128 a = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    a = _mm_add_ss(a, _mm_shuffle_ps(a, a, 1));
    return _mm_cvtss_f32(a);
}

/* lo, hi: the sums of lanes 0-3, of lanes 4-7, of sum[0], sum[1], ... sum[7]. */
static ALWAYS_INLINE void sum_halves(__m256i *lo, __m256i *hi, const __m256i *sum)
{
    __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(sum[0], sum[1]),
                                  _mm256_hadd_epi32(sum[2], sum[3]));
    __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(sum[4], sum[5]),
                                  _mm256_hadd_epi32(sum[6], sum[7]));

    *lo = _mm256_permute2x128_si256(a, b, 0x20);
    *hi = _mm256_permute2x128_si256(a, b, 0x31);
}

/* The sums of all lanes of sum[0], sum[1], ... sum[7]. */
static ALWAYS_INLINE __m256i sum_each(const __m256i *sum)
{
    __m256i lo, hi;

    sum_halves(&lo, &hi, sum);
    return _mm256_add_epi32(lo, hi);
}

/* The sum of e * q over groups [g, g + n_g) of token t. */
static ALWAYS_INLINE int32_t act_sum(const struct kq_act *x, int64_t t, int64_t g,
                                     int64_t n_g)
{
    const int32_t *sum = x->sum + t * (x->n / KQ_GROUP + 1) + g;

    return (int32_t)((uint32_t)sum[n_g] - (uint32_t)sum[0]);
}

/* The first n lanes of 8 set (n in 0..8), for maskload and maskstore. */
static ALWAYS_INLINE __m256i first_lanes(int64_t n)
{
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), index);
}

static ALWAYS_INLINE __m256i load256(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

static ALWAYS_INLINE __m128i load128(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

static ALWAYS_INLINE void store256(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

static ALWAYS_INLINE void store128(void *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)p, v);
}

/* The 16 bytes at `at` of rows k and k + 4. */
static ALWAYS_INLINE __m256i sixteen_of(const uint8_t *const *row, int k, int64_t at)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(row[k] + at)),
                                   load128(row[k + 4] + at), 1);
}

/* Four dwords of each of eight rows: out[i] has dword i of all rows, in their order. */
static ALWAYS_INLINE void weave8(__m256i *out, const uint8_t *const *row, int64_t at)
{
    __m256i a = sixteen_of(row, 0, at), b = sixteen_of(row, 1, at);
    __m256i c = sixteen_of(row, 2, at), d = sixteen_of(row, 3, at);
    __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
    __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);

    out[0] = _mm256_unpacklo_epi64(ab0, cd0);
    out[1] = _mm256_unpackhi_epi64(ab0, cd0);
    out[2] = _mm256_unpacklo_epi64(ab1, cd1);
    out[3] = _mm256_unpackhi_epi64(ab1, cd1);
}

/* What a token brings to a group, side by side: its codes by position, and its factor
 * twice. */
enum { ACT_WORDS = KQ_GROUP / 4 + 1 };

static ALWAYS_INLINE void lay_codes(int32_t *act, const int8_t *q)
{
    memcpy(act, q, KQ_GROUP);
}

static ALWAYS_INLINE void lay_factor(int32_t *act, const int16_t *e)
{
    memcpy(&act[ACT_WORDS - 1], e, sizeof act[0]);
}

#endif

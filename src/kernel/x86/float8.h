/*
 * float8.h - eight floats at a time: tails under a mask, exp, silu. Same bits as
 * ref/float_ref.c. Included by files built with -mavx2 alone.
 */
#ifndef KERNEL_X86_FLOAT8_H
#define KERNEL_X86_FLOAT8_H

#include "kernel/exp.h"
#include "kernel/x86/avx2.h"

static ALWAYS_INLINE __m256 load_tail(const float *p, int64_t n)
{
    return _mm256_maskload_ps(p, first_lanes(n));
}

static ALWAYS_INLINE void store_tail(float *p, int64_t n, __m256 v)
{
    _mm256_maskstore_ps(p, first_lanes(n), v);
}

static ALWAYS_INLINE __m256 pow2(__m256i n)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

static ALWAYS_INLINE __m256 step(__m256 p, __m256 r, float c)
{
    return _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(c));
}

/* The operands of min and max are ordered so that NaN passes: they give the second
 * operand when the comparison is false. */
static ALWAYS_INLINE __m256 exp8(__m256 x)
{
    const __m256 round = _mm256_set1_ps(EXP_ROUND);

    x = _mm256_min_ps(_mm256_set1_ps(EXP_MAX), x);
    x = _mm256_max_ps(_mm256_set1_ps(EXP_MIN), x);
    __m256 fn = _mm256_mul_ps(x, _mm256_set1_ps(EXP_LOG2E));
    fn = _mm256_sub_ps(_mm256_add_ps(fn, round), round);
    __m256 r = _mm256_sub_ps(x, _mm256_mul_ps(fn, _mm256_set1_ps(EXP_LN2_HI)));
    r = _mm256_sub_ps(r, _mm256_mul_ps(fn, _mm256_set1_ps(EXP_LN2_LO)));
    __m256 p = _mm256_set1_ps(EXP_P5);
    p = step(p, r, EXP_P4);
    p = step(p, r, EXP_P3);
    p = step(p, r, EXP_P2);
    p = step(p, r, EXP_P1);
    p = step(p, r, EXP_P0);
    p = _mm256_add_ps(_mm256_mul_ps(p, _mm256_mul_ps(r, r)), r);
    p = _mm256_add_ps(p, _mm256_set1_ps(1.0f));
    __m256i n = _mm256_cvtps_epi32(fn), half = _mm256_srai_epi32(n, 1);
    p = _mm256_mul_ps(p, pow2(half));
    return _mm256_mul_ps(p, pow2(_mm256_sub_epi32(n, half)));
}

static ALWAYS_INLINE __m256 silu8(__m256 gate, __m256 up)
{
    __m256 e = exp8(_mm256_xor_ps(gate, _mm256_set1_ps(-0.0f)));

    gate = _mm256_div_ps(gate, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
    return _mm256_mul_ps(gate, up);
}

/* 1 / (1 + exp(-x)) times v. */
static ALWAYS_INLINE __m256 sigmoid8(__m256 x, __m256 v)
{
    __m256 e = exp8(_mm256_xor_ps(x, _mm256_set1_ps(-0.0f))),
           one = _mm256_set1_ps(1.0f);

    return _mm256_mul_ps(_mm256_div_ps(one, _mm256_add_ps(one, e)), v);
}

#endif

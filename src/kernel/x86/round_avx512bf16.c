/*
 * round_avx512bf16.c - F32 to BF16 by the instruction that is there for it.
 *
 * 32 numbers at a time where AVX2 needs a dozen operations for 16. It takes subnormal
 * numbers for zeros, and so do the products that the result goes to.
 */
#include "kernel/variants.h"

#include <immintrin.h>

enum { LANES = 16 };

static inline __mmask16 first_lanes(int64_t n)
{
    const unsigned all = 0xffff, some = (1u << (n > 0 ? n : 0) % LANES) - 1;

    return (__mmask16)(n >= LANES ? all : some);
}

/* n of 32 numbers; the others are not touched. */
static inline void round_some(uint16_t *dst, const float *src, int64_t n)
{
    const __mmask16 low = first_lanes(n), high = first_lanes(n - LANES);
    const __m512 a = _mm512_maskz_loadu_ps(low, src);
    const __m512 b = _mm512_maskz_loadu_ps(high, src + LANES);

    _mm512_mask_storeu_epi16(dst, (__mmask32)high << LANES | low,
                             (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

void kernel_bf16_from_f32_avx512bf16(uint16_t *dst, const float *src, int64_t n)
{
    int64_t i = 0;

    for (; i + 2 * LANES <= n; i += 2 * LANES)
        _mm512_storeu_si512(
            dst + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(src + i + LANES),
                                                  _mm512_loadu_ps(src + i)));
    if (i < n)
        round_some(dst + i, src + i, n - i);
}

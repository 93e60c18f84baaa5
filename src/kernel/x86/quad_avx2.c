/*
 * quad_avx2.c - rows of words of four codes: to codes and scales, and packed, in AVX2.
 */
#include "kernel/x86/quad256.h"

/* 16 words to 64 codes: pairs of codes from two tables of nibbles. */
static ALWAYS_INLINE void store_words(int8_t *code, __m128i v)
{
    const __m128i even =
        _mm_setr_epi8(-1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2);
    const __m128i odd =
        _mm_setr_epi8(-1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2);
    const __m128i low = _mm_set1_epi8(15);
    __m128i lo = _mm_and_si128(v, low), hi = _mm_and_si128(_mm_srli_epi16(v, 4), low);
    __m128i c0 = _mm_shuffle_epi8(even, lo), c1 = _mm_shuffle_epi8(odd, lo);
    __m128i c2 = _mm_shuffle_epi8(even, hi), c3 = _mm_shuffle_epi8(odd, hi);
    __m128i a = _mm_unpacklo_epi8(c0, c1), b = _mm_unpacklo_epi8(c2, c3);
    __m128i c = _mm_unpackhi_epi8(c0, c1), d = _mm_unpackhi_epi8(c2, c3);

    store128(code, _mm_unpacklo_epi16(a, b));
    store128(code + 16, _mm_unpackhi_epi16(a, b));
    store128(code + 32, _mm_unpacklo_epi16(c, d));
    store128(code + 48, _mm_unpackhi_epi16(c, d));
}

void unpack_b2_c128_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                         int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += C128_BYTES) {
        __m256i v = words_128(src);
        prefetch_after(src);
        _mm256_storeu_ps(scale + i / KQ_GROUP, _mm256_set1_ps(f32_from_log8(src[24])));
        store_words(code + i, _mm256_castsi256_si128(v));
        store_words(code + i + 64, _mm256_extracti128_si256(v, 1));
    }
}

void unpack_b2_c64_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                        int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 64, src += C64_BYTES) {
        prefetch_after(src);
        _mm_storeu_ps(scale + i / KQ_GROUP, _mm_set1_ps(f32_from_log8(src[12])));
        store_words(code + i, _mm256_castsi256_si128(words_64(src, src)));
    }
}

void packed_b2_c128_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                         int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, 128, one_c128, LINES_BY_PLANE,
                 take_c128);
}

void packed_b2_c64_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                        int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, 64, one_c64, LINES_BY_PLANE,
                 take_c64);
}

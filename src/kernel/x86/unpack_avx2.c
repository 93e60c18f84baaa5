/*
 * unpack_avx2.c - rows of the simple and ternary types to codes and scales, in AVX2.
 *
 * Same results as ref/unpack_ref.c. Base-3 digits: with w the byte times 3^k modulo 256,
 * digit k is (3 w) >> 8 = [w >= 86] + [w >= 171], and the next w is 3 w modulo 256; bytes
 * that no encoder writes follow the same rule.
 */
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"
#include "tensor/log8.h"

#include <string.h>

static ALWAYS_INLINE float f16_at(const uint8_t *p)
{
    uint16_t h;

    memcpy(&h, p, sizeof h);
    return _cvtsh_ss(h);
}

/* v for the groups of a block of 128 or 256 weights. */
static ALWAYS_INLINE void fill_groups(float *dst, float v, int n)
{
    for (int g = 0; g < n / KQ_GROUP; g += 8)
        _mm256_storeu_ps(dst + g, _mm256_set1_ps(v));
}

/* Nibbles of 16 bytes: low ones in the lower half, high ones in the upper. */
static ALWAYS_INLINE __m256i nibbles(const uint8_t *p)
{
    __m128i v = load128(p);
    __m256i both = _mm256_set_m128i(_mm_srli_epi16(v, 4), v);

    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

void unpack_q4_0_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    (void)min;
    for (int64_t b = 0; b < n / 32; b++, src += 18) {
        prefetch_after(src);
        scale[2 * b] = scale[2 * b + 1] = f16_at(src);
        store256(code + 32 * b, _mm256_sub_epi8(nibbles(src + 2), _mm256_set1_epi8(8)));
    }
}

void unpack_q4_1_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    for (int64_t b = 0; b < n / 32; b++, src += 20) {
        prefetch_after(src);
        scale[2 * b] = scale[2 * b + 1] = f16_at(src);
        min[2 * b] = min[2 * b + 1] = -f16_at(src + 2);
        store256(code + 32 * b, nibbles(src + 4));
    }
}

/* 32 bits to 32 bytes: all ones where the bit is set. */
static ALWAYS_INLINE __m256i spread_bits(const uint8_t *p)
{
    const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101,
                                               0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    int32_t word;

    memcpy(&word, p, sizeof word);
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32(word), byte_of);
    return _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit);
}

static ALWAYS_INLINE __m256i five_bits(const uint8_t *q, const uint8_t *high)
{
    __m256i fifth = _mm256_and_si256(spread_bits(high), _mm256_set1_epi8(16));

    return _mm256_or_si256(nibbles(q), fifth);
}

void unpack_q5_0_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    (void)min;
    for (int64_t b = 0; b < n / 32; b++, src += 22) {
        prefetch_after(src);
        scale[2 * b] = scale[2 * b + 1] = f16_at(src);
        store256(code + 32 * b,
                 _mm256_sub_epi8(five_bits(src + 6, src + 2), _mm256_set1_epi8(16)));
    }
}

void unpack_q5_1_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    for (int64_t b = 0; b < n / 32; b++, src += 24) {
        prefetch_after(src);
        scale[2 * b] = scale[2 * b + 1] = f16_at(src);
        min[2 * b] = min[2 * b + 1] = -f16_at(src + 2);
        store256(code + 32 * b, five_bits(src + 8, src + 4));
    }
}

void unpack_q8_0_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    (void)min;
    for (int64_t b = 0; b < n / 32; b++, src += 34) {
        prefetch_after(src);
        scale[2 * b] = scale[2 * b + 1] = f16_at(src);
        store256(code + 32 * b, load256(src + 2));
    }
}

void unpack_q1_0_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    const __m256i one = _mm256_set1_epi8(1);

    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += 18) {
        prefetch_after(src);
        fill_groups(scale + i / KQ_GROUP, f16_at(src), 128);
        for (int j = 0; j < 4; j++) { /* set: -1 becomes +1; clear: 0 becomes -1 */
            __m256i set = spread_bits(src + 2 + 4 * j);
            __m256i two = _mm256_add_epi8(set, set);
            store256(
                code + i + 32 * j,
                _mm256_sub_epi8(_mm256_sub_epi8(_mm256_setzero_si256(), two), one));
        }
    }
}

/* 16 bytes of four neighbouring 2-bit codes each: 64 codes less one. The two codes of a
 * nibble come from two tables. */
static ALWAYS_INLINE void unpack_pairs(int8_t *code, const uint8_t *src)
{
    const __m128i even =
        _mm_setr_epi8(-1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2);
    const __m128i odd =
        _mm_setr_epi8(-1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2);
    const __m128i low = _mm_set1_epi8(15);
    __m128i v = load128(src), lo = _mm_and_si128(v, low);
    __m128i hi = _mm_and_si128(_mm_srli_epi16(v, 4), low);
    __m128i c0 = _mm_shuffle_epi8(even, lo), c1 = _mm_shuffle_epi8(odd, lo);
    __m128i c2 = _mm_shuffle_epi8(even, hi), c3 = _mm_shuffle_epi8(odd, hi);
    __m128i a = _mm_unpacklo_epi8(c0, c1), b = _mm_unpacklo_epi8(c2, c3);
    __m128i c = _mm_unpackhi_epi8(c0, c1), d = _mm_unpackhi_epi8(c2, c3);

    store128(code, _mm_unpacklo_epi16(a, b));
    store128(code + 16, _mm_unpackhi_epi16(a, b));
    store128(code + 32, _mm_unpacklo_epi16(c, d));
    store128(code + 48, _mm_unpackhi_epi16(c, d));
}

void unpack_q2_0_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 64, src += 18) {
        prefetch_after(src);
        _mm_storeu_ps(scale + i / KQ_GROUP, _mm_set1_ps(f16_at(src)));
        unpack_pairs(code + i, src + 2);
    }
}

void unpack_q2_0_g128_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                           int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += 34) {
        prefetch_after(src);
        fill_groups(scale + i / KQ_GROUP, f16_at(src), 128);
        unpack_pairs(code + i, src + 2);
        unpack_pairs(code + i + 64, src + 18);
    }
}

void unpack_tq2_0_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                       int64_t n)
{
    const __m256i three = _mm256_set1_epi8(3), one = _mm256_set1_epi8(1);

    (void)min;
    for (int64_t i = 0; i < n; i += 256, src += 66) {
        prefetch_after(src);
        fill_groups(scale + i / KQ_GROUP, f16_at(src + 64), 256);
        for (int half = 0; half < 2; half++) {
            __m256i v = load256(src + 32 * half);
            for (int l = 0; l < 4; l++) {
                store256(code + i + 128 * half + 32 * l,
                         _mm256_sub_epi8(_mm256_and_si256(v, three), one));
                v = _mm256_srli_epi16(v, 2); /* the mask drops crossing bits */
            }
        }
    }
}

/* Plane k of 32 columns in the bits from 6 - 2 k on. */
void unpack_i2_s_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    const __m256i three = _mm256_set1_epi8(3), one = _mm256_set1_epi8(1);

    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += 32) {
        prefetch_after(src);
        fill_groups(scale + i / KQ_GROUP, 1.0f, 128);
        __m256i v = load256(src);
        for (int k = 3; k >= 0; k--) {
            store256(code + i + 32 * k,
                     _mm256_sub_epi8(_mm256_and_si256(v, three), one));
            v = _mm256_srli_epi16(v, 2); /* the mask drops crossing bits */
        }
    }
}

/* The top digit of w, less one: -1 + [w >= 86] + [w >= 171]. */
static ALWAYS_INLINE __m128i digit128(__m128i w)
{
    const __m128i t1 = _mm_set1_epi8(86), t2 = _mm_set1_epi8((char)171);
    __m128i a = _mm_cmpeq_epi8(_mm_max_epu8(w, t1), w);
    __m128i b = _mm_cmpeq_epi8(_mm_max_epu8(w, t2), w);

    return _mm_sub_epi8(_mm_set1_epi8(-1), _mm_add_epi8(a, b));
}

static ALWAYS_INLINE __m256i digit256(__m256i w)
{
    const __m256i t1 = _mm256_set1_epi8(86), t2 = _mm256_set1_epi8((char)171);
    __m256i a = _mm256_cmpeq_epi8(_mm256_max_epu8(w, t1), w);
    __m256i b = _mm256_cmpeq_epi8(_mm256_max_epu8(w, t2), w);

    return _mm256_sub_epi8(_mm256_set1_epi8(-1), _mm256_add_epi8(a, b));
}

static ALWAYS_INLINE __m128i triple128(__m128i w)
{
    return _mm_add_epi8(w, _mm_add_epi8(w, w));
}

static ALWAYS_INLINE __m256i triple256(__m256i w)
{
    return _mm256_add_epi8(w, _mm256_add_epi8(w, w));
}

/* Bytes times 1, 3, 9, 27 (16-bit factors in mul), modulo 256, as 16 bytes. */
static ALWAYS_INLINE __m128i times_powers(__m128i bytes, __m256i mul)
{
    __m256i v = _mm256_mullo_epi16(_mm256_cvtepu8_epi16(bytes), mul);

    v = _mm256_and_si256(v, _mm256_set1_epi16(255));
    return _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

void unpack_tq1_0_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                       int64_t n)
{
    const __m256i powers =
        _mm256_setr_epi16(1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27);

    (void)min;
    for (int64_t i = 0; i < n; i += 256, src += 54, code += 256) {
        prefetch_after(src);
        __m256i w = load256(src);
        __m128i v = load128(src + 32);
        int32_t last;
        fill_groups(scale + i / KQ_GROUP, f16_at(src + 52), 256);
        for (int k = 0; k < 5; k++) {
            store256(code + 32 * k, digit256(w));
            store128(code + 160 + 16 * k, digit128(v));
            w = triple256(w);
            v = triple128(v);
        }
        memcpy(&last, src + 48, sizeof last);
        store128(code + 240, digit128(times_powers(_mm_set1_epi32(last), powers)));
    }
}

void unpack_ptq1_0_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                        int64_t n)
{
    const __m256i powers =
        _mm256_setr_epi16(1, 1, 3, 3, 9, 9, 27, 27, 1, 1, 3, 3, 9, 9, 27, 27);

    (void)min;
    for (int64_t i = 0; i < n; i += 128, src += 28, code += 128) {
        prefetch_after(src);
        /* The 16 bytes in the lower half, the 8 in the upper. */
        __m256i w = _mm256_set_m128i(_mm_loadl_epi64((const __m128i *)(src + 16)),
                                     load128(src));
        int16_t last;
        fill_groups(scale + i / KQ_GROUP, f16_at(src + 26), 128);
        for (int k = 0; k < 5; k++) {
            __m256i digit = digit256(w);
            store128(code + 16 * k, _mm256_castsi256_si128(digit));
            _mm_storel_epi64((__m128i *)(code + 80 + 8 * k),
                             _mm256_extracti128_si256(digit, 1));
            w = triple256(w);
        }
        memcpy(&last, src + 24, sizeof last);
        _mm_storel_epi64((__m128i *)(code + 120),
                         digit128(times_powers(_mm_set1_epi16(last), powers)));
    }
}

/* Each store writes four codes too many, which the next one puts right. */
void unpack_b2_t64_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                        int64_t n)
{
    (void)min;
    for (int64_t i = 0; i < n; i += 64, src += 14, code += 64) {
        int32_t high;
        unsigned last = src[12];
        prefetch_after(src);
        memcpy(&high, src + 8, sizeof high);
        __m128i w = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)src),
                                       _mm_cvtsi32_si128(high));
        _mm_storeu_ps(scale + i / KQ_GROUP, _mm_set1_ps(f32_from_log8(src[13])));
        for (int k = 0; k < 5; k++) {
            store128(code + 12 * k, digit128(w));
            w = triple128(w);
        }
        for (int k = 0; k < 4; k++) {
            code[60 + k] = (int8_t)((int)(3 * last >> 8) - 1);
            last = 3 * last & 255;
        }
    }
}

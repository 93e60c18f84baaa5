/*
 * rows_avx512.h - sixteen packed rows at a time, two in a register, in AVX-512.
 *
 * Included by files built with AVX-512 F, BW, DQ, VL and VNNI alone.
 */
#ifndef KERNEL_X86_ROWS_AVX512_H
#define KERNEL_X86_ROWS_AVX512_H

#include "kernel/x86/avx2.h"

#include <string.h>

enum { ROWS16 = 16, PAIRS = ROWS16 / 2 };

/* Pair j < 4 has rows j and j + 4, pair 4 + j has rows 8 + j and 12 + j, so that sums come
 * out in the order of the rows. Rows beyond the last are the last. */
struct pair_rows {
    const uint8_t *a[PAIRS], *b[PAIRS];
    uint64_t ahead; /* bytes from a row to the one that has its place in the next set */
};

static ALWAYS_INLINE void pair_rows_at(struct pair_rows *s, const uint8_t *w,
                                       uint64_t row_bytes, int64_t r, int64_t rows)
{
    for (int j = 0; j < PAIRS; j++) {
        int64_t a = r + j % 4 + j / 4 * 8, b = a + 4;
        s->a[j] = w + (uint64_t)(a < rows ? a : rows - 1) * row_bytes;
        s->b[j] = w + (uint64_t)(b < rows ? b : rows - 1) * row_bytes;
    }
    s->ahead = ROWS16 * row_bytes;
}

/* Asks for bytes of the next set of rows, of n pairs: the processor's own prefetcher starts anew with
 * every row. Into L2: what L1 can wait for at a time is needed by the loads themselves.
 * Reaching past the end of the data never faults. */
static ALWAYS_INLINE void prefetch_pairs(const struct pair_rows *s, int first, int n,
                                         int64_t at)
{
    for (int j = first; j < first + n; j++) {
        _mm_prefetch((const char *)((uintptr_t)s->a[j] + s->ahead + (uint64_t)at),
                     _MM_HINT_T1);
        _mm_prefetch((const char *)((uintptr_t)s->b[j] + s->ahead + (uint64_t)at),
                     _MM_HINT_T1);
    }
}

static ALWAYS_INLINE __m512i two_halves(__m256i a, __m256i b)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

/* 32 bytes of both rows of pair j. */
static ALWAYS_INLINE __m512i pair_bytes(const struct pair_rows *s, int j, int64_t at)
{
    return two_halves(load256(s->a[j] + at), load256(s->b[j] + at));
}

static ALWAYS_INLINE __m512i same_halves(__m256i v)
{
    return _mm512_broadcast_i64x4(v);
}

/* The sums of each 128-bit lane of v[0], v[1], v[2], v[3]: four neighbours. */
static ALWAYS_INLINE __m512i lane_sums(const __m512i *v)
{
    __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]),
                                 _mm512_unpackhi_epi32(v[0], v[1]));
    __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]),
                                 _mm512_unpackhi_epi32(v[2], v[3]));

    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Of the lanes of eight pairs' sums: the first 16 columns of all rows, and the others. */
static ALWAYS_INLINE void row_sums(__m512i *first, __m512i *second, const __m512i *sum)
{
    __m512i a = lane_sums(sum), b = lane_sums(sum + 4);

    *first = _mm512_shuffle_i32x4(a, b, 0x88);
    *second = _mm512_shuffle_i32x4(a, b, 0xdd);
}

static ALWAYS_INLINE uint64_t load_half(const uint8_t *p)
{
    uint16_t h;

    memcpy(&h, p, sizeof h);
    return h;
}

static ALWAYS_INLINE uint64_t four_numbers(const uint8_t *const *row, int64_t at)
{
    return load_half(row[0] + at) | load_half(row[1] + at) << 16 |
           load_half(row[2] + at) << 32 | load_half(row[3] + at) << 48;
}

/* The FP16 numbers at byte `at` of all rows. */
static ALWAYS_INLINE __m512 row_halves(const struct pair_rows *s, int64_t at)
{
    return _mm512_cvtph_ps(_mm256_setr_epi64x(
        (int64_t)four_numbers(s->a, at), (int64_t)four_numbers(s->b, at),
        (int64_t)four_numbers(s->a + 4, at), (int64_t)four_numbers(s->b + 4, at)));
}

/* 16 bytes of rows k, k + 4, k + 8 and k + 12; k below 4. */
static ALWAYS_INLINE __m512i quad_bytes(const struct pair_rows *s, int k, int64_t at)
{
    __m512i v = _mm512_castsi128_si512(load128(s->a[k] + at));

    v = _mm512_inserti32x4(v, load128(s->b[k] + at), 1);
    v = _mm512_inserti32x4(v, load128(s->a[k + 4] + at), 2);
    return _mm512_inserti32x4(v, load128(s->b[k + 4] + at), 3);
}

/* out[i]: dword i of 16 bytes of all rows, in their order; v[k] as quad_bytes has it. */
static ALWAYS_INLINE void turn_dwords(__m512i *out, const __m512i *v)
{
    __m512i lo = _mm512_unpacklo_epi32(v[0], v[1]);
    __m512i hi = _mm512_unpackhi_epi32(v[0], v[1]);
    __m512i lo2 = _mm512_unpacklo_epi32(v[2], v[3]);
    __m512i hi2 = _mm512_unpackhi_epi32(v[2], v[3]);
    out[0] = _mm512_unpacklo_epi64(lo, lo2);
    out[1] = _mm512_unpackhi_epi64(lo, lo2);
    out[2] = _mm512_unpacklo_epi64(hi, hi2);
    out[3] = _mm512_unpackhi_epi64(hi, hi2);
}

static ALWAYS_INLINE void row_dwords(__m512i *out, const struct pair_rows *s,
                                     int64_t at)
{
    __m512i v[4];

    for (int k = 0; k < 4; k++)
        v[k] = quad_bytes(s, k, at);
    turn_dwords(out, v);
}

static ALWAYS_INLINE __m128i four_dwords(const uint8_t *const *row, int64_t at)
{
    int32_t v[4];

    for (int i = 0; i < 4; i++)
        memcpy(&v[i], row[i] + at, sizeof v[i]);
    return _mm_setr_epi32(v[0], v[1], v[2], v[3]);
}

/* One dword of all rows, in their order. */
static ALWAYS_INLINE __m512i row_dword(const struct pair_rows *s, int64_t at)
{
    __m512i v = _mm512_castsi128_si512(four_dwords(s->a, at));

    v = _mm512_inserti32x4(v, four_dwords(s->b, at), 1);
    v = _mm512_inserti32x4(v, four_dwords(s->a + 4, at), 2);
    return _mm512_inserti32x4(v, four_dwords(s->b + 4, at), 3);
}

/* The low words of dwords, FP16, as floats. */
static ALWAYS_INLINE __m512 low_halves(__m512i v)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

/* Writes n (at least one) of the rows' results, times d. */
static ALWAYS_INLINE void store_rows16(float *y, __m512 acc, float d, int64_t n)
{
    __mmask16 mask = (__mmask16)(n >= ROWS16 ? 0xffff : (1 << n) - 1);

    _mm512_mask_storeu_ps(y, mask, _mm512_mul_ps(_mm512_set1_ps(d), acc));
}

#endif

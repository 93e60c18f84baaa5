/*
 * rows_avx2.h - eight packed rows at a time, a lane of the result for each, in AVX2.
 */
#ifndef KERNEL_X86_ROWS_AVX2_H
#define KERNEL_X86_ROWS_AVX2_H

#include "kernel/x86/avx2.h"

#include <string.h>

enum { ROWS = 8, LINE = 64 };

/* Rows r.. of a matrix; rows beyond the last are the last. */
struct row_set {
    const uint8_t *row[ROWS];
    uint64_t ahead; /* bytes from a row to the one that has its place in the next set */
};

static ALWAYS_INLINE void rows_at(struct row_set *s, const uint8_t *w,
                                  uint64_t row_bytes, int64_t r, int64_t rows)
{
    for (int i = 0; i < ROWS; i++)
        s->row[i] = w + (uint64_t)(r + i < rows ? r + i : rows - 1) * row_bytes;
    s->ahead = ROWS * row_bytes;
}

static ALWAYS_INLINE short half_at(const uint8_t *p)
{
    short h;

    memcpy(&h, p, sizeof h);
    return h;
}

static ALWAYS_INLINE int32_t word_at(const uint8_t *p)
{
    int32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* The FP16 numbers at byte `at` of all rows. */
static ALWAYS_INLINE __m256 row_halves(const struct row_set *s, int64_t at)
{
    return _mm256_cvtph_ps(_mm_setr_epi16(
        half_at(s->row[0] + at), half_at(s->row[1] + at), half_at(s->row[2] + at),
        half_at(s->row[3] + at), half_at(s->row[4] + at), half_at(s->row[5] + at),
        half_at(s->row[6] + at), half_at(s->row[7] + at)));
}

/* Bytes at.. of rows i and i + 4, 16 of each. */
static ALWAYS_INLINE __m256i two_rows(const struct row_set *s, int i, int64_t at)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(s->row[i] + at)),
                                   load128(s->row[i + 4] + at), 1);
}

/* Writes n (at least one) of the rows' results, times d. */
static ALWAYS_INLINE void store_rows(float *y, __m256 acc, float d, int64_t n)
{
    acc = _mm256_mul_ps(_mm256_set1_ps(d), acc);
    if (n >= ROWS)
        _mm256_storeu_ps(y, acc);
    else
        _mm256_maskstore_ps(y, first_lanes(n), acc);
}

/* The same of sixteen rows, in two halves. */
static ALWAYS_INLINE void store_halves(float *y, const __m256 *acc, float d, int64_t n)
{
    store_rows(y, acc[0], d, n);
    if (n > ROWS)
        store_rows(y + ROWS, acc[1], d, n - ROWS);
}

#endif

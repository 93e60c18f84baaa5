/*
 * packed_avx2.c - packed ternary rows times activations, without unpacking, in AVX2.
 */
#include "kernel/x86/few256.h"
#include "kernel/x86/trits64_256.h"

PACKED_TRITS(packed_q2_0_g128_avx2, 128, LINES_BY_PLANE, one_q2_0_g128, take_q2_0_g128,
             few_take_q2_0_g128)

PACKED_TRITS(packed_tq2_0_avx2, 256, LINES_BY_POSITION, one_tq2_0, take_tq2_0,
             few_take_tq2_0)

PACKED_TRITS(packed_i2_s_avx2, 128, LINES_BY_POSITION, one_i2_s, take_i2_s,
             few_take_i2_s)

void packed_b2_t64_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                        int64_t rows, const struct kq_act *x)
{
    packed_trits(y, y_step, w, row_bytes, rows, x, 64, one_b2_t64, LINES_BY_POSITION,
                 take_b2_t64);
}

PACKED_TRITS(packed_ptq1_0_avx2, 128, LINES_BY_POSITION, one_ptq1_0, take_ptq1_0,
             few_take_ptq1_0)

PACKED_TRITS(packed_tq1_0_avx2, 256, LINES_BY_POSITION, one_tq1_0, take_tq1_0,
             few_take_tq1_0)

/* The 2-bit codes of v, from the low bits up, times four registers of q: sums of pairs,
 * at most 4 * 2 * 3 * 127. */
static ALWAYS_INLINE __m256i dot_2bits(__m256i v, const __m256i *q)
{
    const __m256i three = _mm256_set1_epi8(3);
    __m256i c = chain_start(_mm256_and_si256(v, three), q[0]);

    for (int k = 1; k < 4; k++) {
        v = _mm256_srli_epi16(v, 2);
        c = chain(c, _mm256_and_si256(v, three), q[k]);
    }
    return c;
}

/* 32 bytes, or 16 and zeros. */
static ALWAYS_INLINE __m256i zero_or_256(const void *p, bool whole)
{
    return whole ? load256(p)
                 : _mm256_inserti128_si256(_mm256_setzero_si256(), load128(p), 0);
}

/* Two blocks of 64 side by side: their bytes and planes are those of one of 128, each with
 * a scale for its half. The second may be missing at the end of a row. */
static void one_q2_0(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                     const struct kq_act *x, int64_t t)
{
    const int8_t *p = x->p + t * x->n;
    const int16_t *ep = x->ep + t * x->n / 8;

    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows);
        for (int64_t c = 0; c < x->n; c += 128) {
            bool both = c + 64 < x->n;
            int64_t plane = both ? 32 : 16, at = c / 64 * 18;
            prefetch_next(&s, at, 36);
            __m256i q[4], sum[ROWS], lo, hi, e = zero_or_256(ep + c / 8, both);
            for (int k = 0; k < 4; k++)
                q[k] = zero_or_256(p + c + plane * k, both);
            for (int i = 0; i < ROWS; i++) {
                const uint8_t *b = s.row[i] + at;
                __m256i v = _mm256_castsi128_si256(load128(b + 2));
                v = _mm256_inserti128_si256(v, load128(both ? b + 20 : b + 2), 1);
                sum[i] = _mm256_madd_epi16(dot_2bits(v, q), e);
            }
            sum_halves(&lo, &hi, sum);
            acc = add_block(acc, row_halves(&s, at), lo, act_sum(x, t, c / 16, 4));
            if (both)
                acc = add_block(acc, row_halves(&s, at + 18), hi,
                                act_sum(x, t, c / 16 + 4, 4));
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

void packed_q2_0_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_q2_0(y + t * y_step, w, row_bytes, rows, x, t);
}

/* 32 bytes of bits, or 16 twice. */
static ALWAYS_INLINE __m256i two_blocks(const uint8_t *a, const uint8_t *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(a)), load128(b), 1);
}

/* Two blocks of 128 bits side by side; the second may be missing at the end of a row. The
 * sum of the weights 2 bit - 1 is twice the sum of the bits less that of all. */
static void one_q1_0(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                     const struct kq_act *x, int64_t t)
{
    const __m256i one = _mm256_set1_epi8(1);

    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows);
        for (int64_t c = 0; c < x->n; c += 256) {
            bool both = c + 128 < x->n;
            const int8_t *p = x->p + t * x->n + c;
            int64_t plane = both ? 32 : 16, at = c / 128 * 18;
            __m256i sum[ROWS], lo, hi;
            __m256i e = zero_or_256(x->ep + (t * x->n + c) / 16, both);
            prefetch_next(&s, at, 36);
            for (int i = 0; i < ROWS; i++) {
                const uint8_t *b = s.row[i] + at;
                __m256i v = two_blocks(b + 2, both ? b + 20 : b + 2);
                __m256i d = _mm256_maddubs_epi16(_mm256_and_si256(v, one),
                                                 zero_or_256(p, both));
                for (int k = 1; k < 8; k++) {
                    v = _mm256_srli_epi16(v, 1);
                    __m256i u = _mm256_and_si256(v, one);
                    __m256i q = zero_or_256(p + k * plane, both);
                    d = _mm256_add_epi16(d, _mm256_maddubs_epi16(u, q));
                }
                d = _mm256_madd_epi16(d, e);
                sum[i] = _mm256_add_epi32(d, d);
            }
            sum_halves(&lo, &hi, sum);
            acc = add_block(acc, row_halves(&s, at), lo, act_sum(x, t, c / 16, 8));
            if (both)
                acc = add_block(acc, row_halves(&s, at + 18), hi,
                                act_sum(x, t, c / 16 + 8, 8));
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

void packed_q1_0_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_q1_0(y + t * y_step, w, row_bytes, rows, x, t);
}

/*
 * packed_avx2.c - packed weight rows times activations, without unpacking, in AVX2.
 *
 * For one token eight rows advance together: one load of the activations serves all of them, their
 * block sums meet in one register, and memory sees eight streams. Codes stay unsigned; what
 * the "- 1" of a ternary code costs is a sum that the activation brings along. Where
 * fewer rows are left, the last row is computed several times.
 */
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"

#include <string.h>

enum { ROWS = 8 };

/* Rows r.. of a matrix; rows beyond the last are the last. */
struct row_set {
    const uint8_t *row[ROWS];
    uint64_t ahead; /* bytes from a row to the one that has its place in the next set */
};

static ALWAYS_INLINE void rows_at(struct row_set *s, const uint8_t *w,
                                  uint64_t row_bytes, int64_t r, int64_t rows, int n)
{
    for (int i = 0; i < n; i++)
        s->row[i] = w + (uint64_t)(r + i < rows ? r + i : rows - 1) * row_bytes;
    s->ahead = (uint64_t)n * row_bytes;
}

/* Asks for the bytes at the same place of the next set of rows: the processor's own
 * prefetcher starts anew with every row. */
static ALWAYS_INLINE void prefetch_next(const struct row_set *s, int i, int64_t at)
{
    _mm_prefetch((const char *)((uintptr_t)s->row[i] + s->ahead + (uint64_t)at),
                 _MM_HINT_T1);
}

static ALWAYS_INLINE short half_at(const uint8_t *p)
{
    short h;

    memcpy(&h, p, sizeof h);
    return h;
}

/* The FP16 scales at byte `at` of eight rows. */
static ALWAYS_INLINE __m256 eight_scales(const struct row_set *s, int64_t at)
{
    return _mm256_cvtph_ps(_mm_setr_epi16(
        half_at(s->row[0] + at), half_at(s->row[1] + at), half_at(s->row[2] + at),
        half_at(s->row[3] + at), half_at(s->row[4] + at), half_at(s->row[5] + at),
        half_at(s->row[6] + at), half_at(s->row[7] + at)));
}

/* acc += scale * (float)(sums - lows). */
static ALWAYS_INLINE __m256 add_block(__m256 acc, __m256 scale, __m256i sums,
                                      int32_t lows)
{
    sums = _mm256_sub_epi32(sums, _mm256_set1_epi32(lows));
    return _mm256_add_ps(acc, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums)));
}

static ALWAYS_INLINE void store_rows(float *y, __m256 acc, float d, int64_t n)
{
    acc = _mm256_mul_ps(_mm256_set1_ps(d), acc);
    if (n >= ROWS)
        _mm256_storeu_ps(y, acc);
    else
        _mm256_maskstore_ps(y, first_lanes(n), acc);
}

/* The 2-bit codes of v, from the low bits up, times four registers of q: sums of pairs,
 * at most 4 * 2 * 3 * 127. */
static ALWAYS_INLINE __m256i dot_2bits(__m256i v, const __m256i *q)
{
    const __m256i three = _mm256_set1_epi8(3); /* drops what shifts across bytes */
    __m256i a = _mm256_maddubs_epi16(_mm256_and_si256(v, three), q[0]);
    __m256i b =
        _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(v, 2), three), q[1]);
    __m256i c =
        _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(v, 4), three), q[2]);
    __m256i d =
        _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(v, 6), three), q[3]);

    return _mm256_add_epi16(_mm256_add_epi16(a, b), _mm256_add_epi16(c, d));
}

/* Neighbouring codes share a byte, so plane k of 128 columns holds columns 4 j + k, and
 * a lane of four bytes is one group of 16 columns in every plane: one factor. */
static void one_q2_0_g128(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                          const struct kq_act *x, int64_t t)
{
    const int8_t *p = x->p + t * x->n;
    const int16_t *ep = x->ep + t * x->n / 8;

    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows, ROWS);
        for (int64_t b = 0; b < x->n / 128; b++) {
            __m256i q[4], sum[ROWS], e = load256(ep + 16 * b);
            for (int k = 0; k < 4; k++)
                q[k] = load256(p + 128 * b + 32 * k);
            for (int i = 0; i < ROWS; i++) {
                prefetch_next(&s, i, 34 * b);
                __m256i v = load256(s.row[i] + 34 * b + 2);
                sum[i] = _mm256_madd_epi16(dot_2bits(v, q), e);
            }
            acc = add_block(acc, eight_scales(&s, 34 * b), sum_each(sum),
                            act_sum(x, t, 8 * b, 8));
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
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
        rows_at(&s, w, row_bytes, r, rows, ROWS);
        for (int64_t c = 0; c < x->n; c += 128) {
            bool both = c + 64 < x->n;
            int64_t plane = both ? 32 : 16, at = c / 64 * 18;
            __m256i q[4], sum[ROWS], lo, hi, e = zero_or_256(ep + c / 8, both);
            for (int k = 0; k < 4; k++)
                q[k] = zero_or_256(p + c + plane * k, both);
            for (int i = 0; i < ROWS; i++) {
                const uint8_t *b = s.row[i] + at;
                prefetch_next(&s, i, at);
                __m256i v = _mm256_castsi128_si256(load128(b + 2));
                v = _mm256_inserti128_si256(v, load128(both ? b + 20 : b + 2), 1);
                sum[i] = _mm256_madd_epi16(dot_2bits(v, q), e);
            }
            sum_halves(&lo, &hi, sum);
            acc = add_block(acc, eight_scales(&s, at), lo, act_sum(x, t, c / 16, 4));
            if (both)
                acc = add_block(acc, eight_scales(&s, at + 18), hi,
                                act_sum(x, t, c / 16 + 4, 4));
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

/* Columns lie 32 by 32 in the planes of a half block: the order of q. */
static void one_tq2_0(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                      const struct kq_act *x, int64_t t)
{
    const __m256i three = _mm256_set1_epi8(3);
    const int8_t *q = x->q + t * x->n;
    const int16_t *e = x->e + t * x->n / 2;

    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows, ROWS);
        for (int64_t b = 0; b < x->n / 256; b++) {
            __m256i sum[ROWS];
            for (int i = 0; i < ROWS; i++) {
                sum[i] = _mm256_setzero_si256();
                prefetch_next(&s, i, 66 * b);
                for (int half = 0; half < 2; half++) {
                    __m256i v = load256(s.row[i] + 66 * b + 32 * half);
                    for (int k = 0; k < 4; k++) {
                        int64_t c = 256 * b + 128 * half + 32 * k;
                        __m256i d = _mm256_maddubs_epi16(_mm256_and_si256(v, three),
                                                         load256(q + c));
                        d = _mm256_madd_epi16(d, load256(e + c / 2));
                        sum[i] = _mm256_add_epi32(sum[i], d);
                        v = _mm256_srli_epi16(v, 2);
                    }
                }
            }
            acc = add_block(acc, eight_scales(&s, 66 * b + 64), sum_each(sum),
                            act_sum(x, t, 16 * b, 16));
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

/* The activation's part of a PTQ1_0 block, in the order of its digits: bytes 0-15 have
 * digit k of columns 16 k.., bytes 16-23 of columns 80 + 8 k.., bytes 24-25 of columns
 * 120 + 2 k.. (k < 4). The rest is zero, so that scale and padding count nothing. */
static ALWAYS_INLINE void order_ptq1_0(__m256i *q, __m256i *e, const int8_t *qs,
                                       const int16_t *ep)
{
    for (int k = 0; k < 5; k++) {
        int16_t last = 0, e7 = ep[14];
        if (k < 4)
            memcpy(&last, qs + 120 + 2 * k, sizeof last);
        __m128i hi = _mm_loadl_epi64((const __m128i *)(qs + 80 + 8 * k));
        __m128i ehi = _mm_set1_epi16(ep[10 + k / 2 * 2]);
        hi = _mm_insert_epi16(hi, last, 4);
        ehi = _mm_insert_epi16(ehi, e7, 4);
        q[k] = _mm256_set_m128i(hi, load128(qs + 16 * k));
        e[k] = _mm256_set_m128i(ehi, _mm_set1_epi16(ep[2 * k]));
    }
}

/* The top digits of bytes biased by -128: 0 - [x > -43] - [x > 42], as bytes. */
static ALWAYS_INLINE __m256i top_digits(__m256i x)
{
    __m256i a = _mm256_cmpgt_epi8(x, _mm256_set1_epi8(-43));
    __m256i b = _mm256_cmpgt_epi8(x, _mm256_set1_epi8(42));

    return _mm256_abs_epi8(_mm256_add_epi8(a, b));
}

/* Adds digits k = 0..4 of the biased bytes v times q[k], with factors e[k], to sum. The
 * bias survives the step to the next digit: 3 (w - 128) = 3 w - 128 modulo 256. */
static ALWAYS_INLINE __m256i add_digits(__m256i sum, __m256i v, const __m256i *q,
                                        const __m256i *e)
{
    for (int k = 0; k < 5; k++) {
        __m256i d = _mm256_maddubs_epi16(top_digits(v), q[k]);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(d, e[k]));
        v = _mm256_add_epi8(v, _mm256_add_epi8(v, v));
    }
    return sum;
}

/* 28 bytes, the last of which are the scale; no byte after them is read. */
static ALWAYS_INLINE __m256i load_28(const uint8_t *p)
{
    const __m256i seven = _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, -1, 0);

    return _mm256_maskload_epi32((const int *)(const void *)p, seven);
}

static void one_ptq1_0(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                       const struct kq_act *x, int64_t t)
{
    const __m256i bias = _mm256_set1_epi8(-128);
    const int8_t *qs = x->q + t * x->n;
    const int16_t *ep = x->ep + t * x->n / 8;

    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows, ROWS);
        for (int64_t b = 0; b < x->n / 128; b++) {
            __m256i q[5], e[5], sum[ROWS];
            order_ptq1_0(q, e, qs + 128 * b, ep + 16 * b);
            for (int i = 0; i < ROWS; i++) {
                prefetch_next(&s, i, 28 * b);
                __m256i v = _mm256_xor_si256(load_28(s.row[i] + 28 * b), bias);
                sum[i] = add_digits(_mm256_setzero_si256(), v, q, e);
            }
            acc = add_block(acc, eight_scales(&s, 28 * b + 26), sum_each(sum),
                            act_sum(x, t, 8 * b, 8));
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

/* Bytes 0-31 have digit k of columns 32 k..; bytes 32-47 of columns 160 + 16 k.., bytes
 * 48-51 of columns 240 + 4 k.. (k < 4). */
static void one_tq1_0(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                      const struct kq_act *x, int64_t t)
{
    const __m256i bias = _mm256_set1_epi8(-128);
    const __m256i five = _mm256_setr_epi32(-1, -1, -1, -1, -1, 0, 0, 0);

    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows, ROWS);
        for (int64_t b = 0; b < x->n / 256; b++) {
            const int8_t *qs = x->q + t * x->n + 256 * b;
            const int16_t *es = x->e + (t * x->n + 256 * b) / 2;
            __m256i q[5], e[5], q2[5], e2[5], sum[ROWS];
            for (int k = 0; k < 5; k++) {
                int32_t last = 0;
                if (k < 4)
                    memcpy(&last, qs + 240 + 4 * k, sizeof last);
                q[k] = load256(qs + 32 * k);
                e[k] = load256(es + 16 * k);
                q2[k] = _mm256_set_m128i(_mm_cvtsi32_si128(last),
                                         load128(qs + 160 + 16 * k));
                e2[k] = _mm256_set_m128i(load128(es + 120), load128(es + 80 + 8 * k));
            }
            for (int i = 0; i < ROWS; i++) {
                const uint8_t *p = s.row[i] + 54 * b;
                prefetch_next(&s, i, 54 * b);
                __m256i v = _mm256_xor_si256(load256(p), bias);
                sum[i] = add_digits(_mm256_setzero_si256(), v, q, e);
                v = _mm256_maskload_epi32((const int *)(const void *)(p + 32), five);
                sum[i] = add_digits(sum[i], _mm256_xor_si256(v, bias), q2, e2);
            }
            acc = add_block(acc, eight_scales(&s, 54 * b + 52), sum_each(sum),
                            act_sum(x, t, 16 * b, 16));
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

/* Two rows r, r + 1 times tokens t.. t + 3 of a 2-bit type whose 128 columns lie in four
 * planes: codes are taken apart once for four tokens. element 4 i + j is row r + i. */
static ALWAYS_INLINE void tile_q2_0_g128(float *y, int64_t y_step, const uint8_t *w,
                                         uint64_t row_bytes, const struct kq_act *x,
                                         int64_t t)
{
    const __m256i three = _mm256_set1_epi8(3);
    int64_t n = x->n;
    const int8_t *p = x->p + t * n;
    const int16_t *ep = x->ep + t * n / 8;
    __m256 acc = _mm256_setzero_ps();
    float v[ROWS];

    for (int64_t b = 0; b < n / 128; b++) {
        const uint8_t *at = w + 34 * b;
        __m256i sum[ROWS];
        for (int i = 0; i < 2; i++) {
            __m256i c = load256(at + (uint64_t)i * row_bytes + 2), u[4];
            for (int k = 0; k < 4; k++) {
                u[k] = _mm256_and_si256(c, three);
                c = _mm256_srli_epi16(c, 2);
            }
            for (int j = 0; j < 4; j++) {
                const int8_t *q = p + j * n + 128 * b;
                __m256i lo =
                    _mm256_add_epi16(_mm256_maddubs_epi16(u[0], load256(q)),
                                     _mm256_maddubs_epi16(u[1], load256(q + 32)));
                __m256i hi =
                    _mm256_add_epi16(_mm256_maddubs_epi16(u[2], load256(q + 64)),
                                     _mm256_maddubs_epi16(u[3], load256(q + 96)));
                sum[4 * i + j] = _mm256_madd_epi16(_mm256_add_epi16(lo, hi),
                                                   load256(ep + j * n / 8 + 16 * b));
            }
        }
        __m128i lows =
            _mm_setr_epi32(act_sum(x, t, 8 * b, 8), act_sum(x, t + 1, 8 * b, 8),
                           act_sum(x, t + 2, 8 * b, 8), act_sum(x, t + 3, 8 * b, 8));
        __m256i s = _mm256_sub_epi32(sum_each(sum), _mm256_broadcastsi128_si256(lows));
        __m128i halves = _mm_set1_epi16(half_at(at));
        halves = _mm_unpacklo_epi64(halves, _mm_set1_epi16(half_at(at + row_bytes)));
        acc = _mm256_add_ps(
            acc, _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_cvtepi32_ps(s)));
    }
    _mm256_storeu_ps(v, acc);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            y[(t + j) * y_step + i] = x->d[t + j] * v[4 * i + j];
}

void packed_q2_0_g128_avx2(float *y, int64_t y_step, const uint8_t *w,
                           uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    int64_t t = 0;

    for (; t + 4 <= x->rows; t += 4) {
        int64_t r = 0;
        for (; r + 2 <= rows; r += 2)
            tile_q2_0_g128(y + r, y_step, w + (uint64_t)r * row_bytes, row_bytes, x, t);
        for (int64_t j = t; j < t + 4 && r < rows; j++)
            one_q2_0_g128(y + j * y_step + r, w + (uint64_t)r * row_bytes, row_bytes,
                          rows - r, x, j);
    }
    for (; t < x->rows; t++)
        one_q2_0_g128(y + t * y_step, w, row_bytes, rows, x, t);
}

void packed_q2_0_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_q2_0(y + t * y_step, w, row_bytes, rows, x, t);
}

void packed_tq2_0_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                       int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_tq2_0(y + t * y_step, w, row_bytes, rows, x, t);
}

void packed_ptq1_0_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                        int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_ptq1_0(y + t * y_step, w, row_bytes, rows, x, t);
}

void packed_tq1_0_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                       int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_tq1_0(y + t * y_step, w, row_bytes, rows, x, t);
}

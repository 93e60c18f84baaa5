/*
 * packed_32_avx2.c - packed rows in blocks of 32 times single tokens, in AVX2.
 *
 * Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: eight rows advance together, a block is a step.
 */
#include "kernel/variants.h"
#include "kernel/x86/step256.h"

/* The layout of a type whose block has 32 weights. */
struct simple {
    int bytes, codes,
        high; /* of a block; place of nibbles or bytes, of fifth bits (0: none) */
    int low;
    bool byte, min; /* codes are bytes; there is an added number: minus the minimum */
};

/* 32 bits to 32 bytes: 16 where the bit is set. */
static ALWAYS_INLINE __m256i sixteens(const uint8_t *p)
{
    const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101,
                                               0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    int32_t word;

    memcpy(&word, p, sizeof word);
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32(word), byte_of);
    v = _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit);
    return _mm256_and_si256(v, _mm256_set1_epi8(16));
}

static ALWAYS_INLINE __m256i dot_simple(const uint8_t *p, const struct simple *f,
                                        const struct step_act *a)
{
    if (f->byte) { /* |code| meets q with its sign: a pair stays below 2^15 */
        __m256i v = load256(p + f->codes);
        v = _mm256_maddubs_epi16(_mm256_abs_epi8(v), _mm256_sign_epi8(a->q, v));
        return _mm256_madd_epi16(v, a->e);
    }
    __m128i v = load128(p + f->codes);
    __m256i u = _mm256_set_m128i(_mm_srli_epi16(v, 4), v);
    u = _mm256_and_si256(u, _mm256_set1_epi8(15));
    if (f->high)
        u = _mm256_or_si256(u, sixteens(p + f->high));
    return dot_step(u, a);
}

/* The scale of a block times its sum, less its minimum if there is one. */
static ALWAYS_INLINE __m256 add_block(__m256 acc, const struct row_set *s, int64_t at,
                                      const struct simple *f, __m256i sums, int32_t act)
{
    int32_t lows = (int32_t)((uint32_t)f->low * (uint32_t)act);
    __m256 term = scaled(row_halves(s, at), sums, lows);

    if (f->min)
        term = less_min(
            term, _mm256_xor_ps(_mm256_set1_ps(-0.0f), row_halves(s, at + 2)), act);
    return _mm256_add_ps(acc, term);
}

static ALWAYS_INLINE void one_simple(float *y, const uint8_t *w, uint64_t row_bytes,
                                     int64_t rows, const struct kq_act *x, int64_t t,
                                     const struct simple *f)
{
    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0, next = 0; b < x->n / KQ_STEP; b++) {
            struct step_act a = step_at(x, t, b);
            int64_t at = f->bytes * b;
            __m256i sum[ROWS];
            for (; next < at + f->bytes; next += LINE)
                prefetch_rows(&s, 0, ROWS, next);
            for (int i = 0; i < ROWS; i++)
                sum[i] = dot_simple(s.row[i] + at, f, &a);
            acc = add_block(acc, &s, at, f, step_sums(sum), a.sum);
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

/* The sums of each 128-bit lane of v[0], v[1], v[2], v[3]: four neighbours. */
static ALWAYS_INLINE __m256i lane_sums(const __m256i *v)
{
    __m256i a = _mm256_add_epi32(_mm256_unpacklo_epi32(v[0], v[1]),
                                 _mm256_unpackhi_epi32(v[0], v[1]));
    __m256i b = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2], v[3]),
                                 _mm256_unpackhi_epi32(v[2], v[3]));

    return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

/* Nibbles alone: a register has 16 bytes of two rows, so that a lane is one row's first
 * 16 columns (low nibbles) or last 16, which share a factor. */
static ALWAYS_INLINE void one_nibbles(float *y, const uint8_t *w, uint64_t row_bytes,
                                      int64_t rows, const struct kq_act *x, int64_t t,
                                      const struct simple *f)
{
    const __m256i low = _mm256_set1_epi8(15);

    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0, next = 0; b < x->n / KQ_STEP; b++) {
            int64_t at = f->bytes * b, c = t * x->n + b * KQ_STEP;
            __m256i q0 = _mm256_broadcastsi128_si256(load128(x->q + c));
            __m256i q1 = _mm256_broadcastsi128_si256(load128(x->q + c + 16));
            __m256i e0 = _mm256_set1_epi16(x->e[c / 2]);
            __m256i e1 = _mm256_set1_epi16(x->e[c / 2 + 8]), sum[4];
            for (; next < at + f->bytes; next += LINE)
                prefetch_rows(&s, 0, ROWS, next);
            for (int k = 0; k < 4; k++) {
                __m256i v = two_rows(&s, k, at + f->codes);
                __m256i u = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
                v = _mm256_maddubs_epi16(_mm256_and_si256(v, low), q0);
                u = _mm256_maddubs_epi16(u, q1);
                sum[k] = _mm256_add_epi32(_mm256_madd_epi16(v, e0),
                                          _mm256_madd_epi16(u, e1));
            }
            acc = add_block(acc, &s, at, f, lane_sums(sum), act_sum(x, t, 2 * b, 2));
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

void packed_q4_0_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    const struct simple f = {.bytes = 18, .codes = 2, .low = 8};

    for (int64_t t = 0; t < x->rows; t++)
        one_nibbles(y + t * y_step, w, row_bytes, rows, x, t, &f);
}

void packed_q4_1_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    const struct simple f = {.bytes = 20, .codes = 4, .min = true};

    for (int64_t t = 0; t < x->rows; t++)
        one_nibbles(y + t * y_step, w, row_bytes, rows, x, t, &f);
}

void packed_q5_0_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    const struct simple f = {.bytes = 22, .codes = 6, .high = 2, .low = 16};

    for (int64_t t = 0; t < x->rows; t++)
        one_simple(y + t * y_step, w, row_bytes, rows, x, t, &f);
}

void packed_q5_1_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    const struct simple f = {.bytes = 24, .codes = 8, .high = 4, .min = true};

    for (int64_t t = 0; t < x->rows; t++)
        one_simple(y + t * y_step, w, row_bytes, rows, x, t, &f);
}

void packed_q8_0_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    const struct simple f = {.bytes = 34, .codes = 2, .byte = true};

    for (int64_t t = 0; t < x->rows; t++)
        one_simple(y + t * y_step, w, row_bytes, rows, x, t, &f);
}

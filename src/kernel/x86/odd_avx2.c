/*
 * odd_avx2.c - rows of 4 or 8 odd levels: to codes and scales, and packed, in AVX2.
 *
 * Low bits: four planes of 16 bytes. High bits: bit k of byte m is column m + 8 k, so that
 * planes 2 j and 2 j + 1 of eight columns are the bits 2 j and 2 j + 1 of the same bytes.
 */
#include "kernel/x86/quad256.h"

enum { BLOCK = 64, LOW = 16 };

/* Levels c of 16 columns to 2 c - top. */
static ALWAYS_INLINE void store_odd(int8_t *code, __m128i c, int top)
{
    _mm_storeu_si128((__m128i *)code,
                     _mm_sub_epi8(_mm_add_epi8(c, c), _mm_set1_epi8((char)top)));
}

void unpack_b2_q2_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                       int64_t n)
{
    const __m128i three = _mm_set1_epi8(3);

    (void)min;
    for (int64_t i = 0; i < n; i += BLOCK, src += LOW + 1) {
        const __m128i v = _mm_loadu_si128((const __m128i *)src);
        _mm_storeu_ps(scale + i / KQ_GROUP, _mm_set1_ps(f32_from_log8(src[LOW])));
        store_odd(code + i, _mm_and_si128(v, three), 3);
        store_odd(code + i + 16, _mm_and_si128(_mm_srli_epi16(v, 2), three), 3);
        store_odd(code + i + 32, _mm_and_si128(_mm_srli_epi16(v, 4), three), 3);
        store_odd(code + i + 48, _mm_and_si128(_mm_srli_epi16(v, 6), three), 3);
    }
}

void unpack_b2_q3_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                       int64_t n)
{
    const __m128i three = _mm_set1_epi8(3), four = _mm_set1_epi8(4);
    /* Bit 0 in the first eight columns of a plane, bit 1 in the others. */
    const __m128i bit = _mm_set_epi64x(0x0202020202020202, 0x0101010101010101);

    (void)min;
    for (int64_t i = 0; i < n; i += BLOCK, src += LOW + 9) {
        __m128i v = _mm_loadu_si128((const __m128i *)src);
        __m128i h = _mm_loadl_epi64((const __m128i *)(src + LOW));
        h = _mm_unpacklo_epi64(h, h);
        _mm_storeu_ps(scale + i / KQ_GROUP, _mm_set1_ps(f32_from_log8(src[LOW + 8])));
        for (int k = 0; k < 4; k++) {
            const __m128i high =
                _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(h, bit), bit), four);
            store_odd(code + i + 16 * k, _mm_or_si128(_mm_and_si128(v, three), high),
                      7);
            v = _mm_srli_epi16(v, 2);
            h = _mm_srli_epi16(h, 2);
        }
    }
}

/* Twice the level numbers of 32 columns, planes 2 k and 2 k + 1; h: the third bits. */
static ALWAYS_INLINE __m256i twice_levels(__m128i low, __m128i h, int k, bool third)
{
    /* Bits 4 k to 4 k + 3, one for each eight columns. */
    const __m256i bit = _mm256_setr_epi64x(0x0101010101010101, 0x0202020202020202,
                                           0x0404040404040404, 0x0808080808080808);
    __m256i u =
        _mm256_set_m128i(_mm_srli_epi16(low, 4 * k + 2), _mm_srli_epi16(low, 4 * k));

    u = _mm256_and_si256(u, _mm256_set1_epi8(3));
    u = _mm256_add_epi8(u, u);
    if (!third)
        return u;
    __m256i v = _mm256_broadcastsi128_si256(_mm_srli_epi16(h, 4 * k));
    v = _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit);
    return _mm256_or_si256(u, _mm256_and_si256(v, _mm256_set1_epi8(8)));
}

/* A block of a row times q: pairs of columns are at most 2 * 14 * 127. */
static ALWAYS_INLINE __m256i dot_odd(const uint8_t *p, const __m256i *q,
                                     const __m256i *e, bool third)
{
    const __m128i low = load128(p);
    __m128i h = _mm_setzero_si128();
    __m256i sum[2];

    if (third) {
        h = _mm_loadl_epi64((const __m128i *)(p + LOW));
        h = _mm_unpacklo_epi64(h, h);
    }
    for (int k = 0; k < 2; k++)
        sum[k] = _mm256_madd_epi16(
            _mm256_maddubs_epi16(twice_levels(low, h, k, third), q[k]), e[k]);
    return _mm256_add_epi32(sum[0], sum[1]);
}

static ALWAYS_INLINE void one_odd(float *y, const uint8_t *w, uint64_t row_bytes,
                                  int64_t rows, const struct kq_act *x, int64_t t,
                                  bool third)
{
    const int at_scale = third ? LOW + 8 : LOW, top = third ? 7 : 3;

    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0; b < x->n / BLOCK; b++) {
            const int64_t at = b * (at_scale + 1), c = t * x->n + b * BLOCK;
            const __m256i q[2] = {load256(x->q + c), load256(x->q + c + 32)};
            const __m256i e[2] = {load256(x->e + c / 2), load256(x->e + c / 2 + 16)};
            __m256i sum[ROWS], scale;
            prefetch_next(&s, at, at_scale + 1);
            for (int i = 0; i < ROWS; i++)
                sum[i] = dot_odd(s.row[i] + at, q, e, third);
            scale = _mm256_setr_epi32(s.row[0][at + at_scale], s.row[1][at + at_scale],
                                      s.row[2][at + at_scale], s.row[3][at + at_scale],
                                      s.row[4][at + at_scale], s.row[5][at + at_scale],
                                      s.row[6][at + at_scale], s.row[7][at + at_scale]);
            const uint32_t lows = (uint32_t)top * (uint32_t)act_sum(x, t, 4 * b, 4);
            acc = add_block(acc, log_scales(_mm256_slli_epi32(scale, 24)),
                            sum_each(sum), (int32_t)lows);
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

void packed_b2_q2_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                       int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_odd(y + t * y_step, w, row_bytes, rows, x, t, false);
}

void packed_b2_q3_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                       int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_odd(y + t * y_step, w, row_bytes, rows, x, t, true);
}

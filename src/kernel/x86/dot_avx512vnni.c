/*
 * dot_avx512vnni.c - products of ternary and 2-bit weights, in AVX-512 BW and VNNI.
 *
 * As the AVX2 files, with two packed rows or 64 columns in a register. VNNI multiplies
 * pairs by the activation's factor and adds in one step (vpdpwssd). What has no gain
 * here, and the edges of a product, goes to AVX2.
 */
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"

#include <string.h>

enum { ROWS = 16, PAIRS = ROWS / 2, TILE = 4 };

/* The sums of each 128-bit lane of v[0], v[1], v[2], v[3]: four neighbours. */
static ALWAYS_INLINE __m512i sum_quads(const __m512i *v)
{
    __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]),
                                 _mm512_unpackhi_epi32(v[0], v[1]));
    __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]),
                                 _mm512_unpackhi_epi32(v[2], v[3]));

    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Even and odd 128-bit lanes of a, then of b, added. */
static ALWAYS_INLINE __m512i add_lane_pairs(__m512i a, __m512i b)
{
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88),
                            _mm512_shuffle_i32x4(a, b, 0xdd));
}

/* Sixteen rows in eight registers: pair j < 4 has rows j and j + 4, pair 4 + j has rows
 * 8 + j and 12 + j, so that the block sums come out in the order of the rows. Rows beyond
 * the last are the last. */
struct pair_set {
    const uint8_t *a[PAIRS], *b[PAIRS];
    uint64_t ahead;
};

static ALWAYS_INLINE void pairs_at(struct pair_set *s, const uint8_t *w,
                                   uint64_t row_bytes, int64_t r, int64_t rows)
{
    for (int j = 0; j < PAIRS; j++) {
        int64_t a = r + j % 4 + j / 4 * 8, b = a + 4;
        s->a[j] = w + (uint64_t)(a < rows ? a : rows - 1) * row_bytes;
        s->b[j] = w + (uint64_t)(b < rows ? b : rows - 1) * row_bytes;
    }
    s->ahead = ROWS * row_bytes;
}

static ALWAYS_INLINE __m512i load_pair(const struct pair_set *s, int j, int64_t at)
{
    _mm_prefetch((const char *)((uintptr_t)s->a[j] + s->ahead + (uint64_t)at),
                 _MM_HINT_T1);
    _mm_prefetch((const char *)((uintptr_t)s->b[j] + s->ahead + (uint64_t)at),
                 _MM_HINT_T1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(load256(s->a[j] + at)),
                              load256(s->b[j] + at), 1);
}

static ALWAYS_INLINE __m512i twice(__m256i v)
{
    return _mm512_broadcast_i64x4(v);
}

static ALWAYS_INLINE short half_at(const uint8_t *p)
{
    short h;

    memcpy(&h, p, sizeof h);
    return h;
}

/* The FP16 scales at byte `at` of four rows. */
static ALWAYS_INLINE uint64_t four_halves(const uint8_t *const *row, int64_t at)
{
    return (uint64_t)(uint16_t)half_at(row[0] + at) |
           (uint64_t)(uint16_t)half_at(row[1] + at) << 16 |
           (uint64_t)(uint16_t)half_at(row[2] + at) << 32 |
           (uint64_t)(uint16_t)half_at(row[3] + at) << 48;
}

static ALWAYS_INLINE __m512 row_scales(const struct pair_set *s, int64_t at)
{
    return _mm512_cvtph_ps(_mm256_setr_epi64x(
        (int64_t)four_halves(s->a, at), (int64_t)four_halves(s->b, at),
        (int64_t)four_halves(s->a + 4, at), (int64_t)four_halves(s->b + 4, at)));
}

/* acc += scale * (float)(block sums of the rows - lows). */
static ALWAYS_INLINE __m512 add_block(__m512 acc, __m512 scale, const __m512i *sum,
                                      int32_t lows)
{
    __m512i s = add_lane_pairs(sum_quads(sum), sum_quads(sum + 4));

    s = _mm512_sub_epi32(s, _mm512_set1_epi32(lows));
    return _mm512_add_ps(acc, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(s)));
}

static ALWAYS_INLINE void store_rows(float *y, __m512 acc, float d, int64_t n)
{
    unsigned bits = n >= ROWS ? 0xffffu : (1u << n) - 1;
    __mmask16 mask = (__mmask16)(bits & 0xffffu);

    _mm512_mask_storeu_ps(y, mask, _mm512_mul_ps(_mm512_set1_ps(d), acc));
}

/* A lane has the 16 columns of a group in four planes: their sum fits 16 bits, the lower
 * half of the lane, and meets the factor there. */
static void one_q2_0_g128(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                          const struct kq_act *x, int64_t t)
{
    const __m512i three = _mm512_set1_epi8(3), half = _mm512_set1_epi32(0xffff);
    const int8_t *p = x->p + t * x->n;
    const int16_t *ep = x->ep + t * x->n / 8;

    for (int64_t r = 0; r < rows; r += ROWS) {
        struct pair_set s;
        __m512 acc = _mm512_setzero_ps();
        pairs_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0; b < x->n / 128; b++) {
            __m512i q[4], sum[PAIRS];
            __m512i e = _mm512_and_si512(twice(load256(ep + 16 * b)), half);
            for (int k = 0; k < 4; k++)
                q[k] = twice(load256(p + 128 * b + 32 * k));
            for (int j = 0; j < PAIRS; j++) {
                __m512i v = load_pair(&s, j, 34 * b + 2);
                __m512i d = _mm512_setzero_si512();
                for (int k = 0; k < 4; k++) {
                    d = _mm512_dpbusd_epi32(d, _mm512_and_si512(v, three), q[k]);
                    v = _mm512_srli_epi16(v, 2);
                }
                sum[j] = _mm512_madd_epi16(d, e);
            }
            acc = add_block(acc, row_scales(&s, 34 * b), sum, act_sum(x, t, 8 * b, 8));
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

static void one_tq2_0(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                      const struct kq_act *x, int64_t t)
{
    const __m512i three = _mm512_set1_epi8(3);
    const int8_t *q = x->q + t * x->n;
    const int16_t *e = x->e + t * x->n / 2;

    for (int64_t r = 0; r < rows; r += ROWS) {
        struct pair_set s;
        __m512 acc = _mm512_setzero_ps();
        pairs_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0; b < x->n / 256; b++) {
            __m512i sum[PAIRS];
            for (int j = 0; j < PAIRS; j++)
                sum[j] = _mm512_setzero_si512();
            for (int half = 0; half < 2; half++) {
                __m512i qv[4], ev[4];
                for (int k = 0; k < 4; k++) {
                    int64_t c = 256 * b + 128 * half + 32 * k;
                    qv[k] = twice(load256(q + c));
                    ev[k] = twice(load256(e + c / 2));
                }
                for (int j = 0; j < PAIRS; j++) {
                    __m512i v = load_pair(&s, j, 66 * b + 32 * half);
                    for (int k = 0; k < 4; k++) {
                        __m512i d =
                            _mm512_maddubs_epi16(_mm512_and_si512(v, three), qv[k]);
                        sum[j] = _mm512_dpwssd_epi32(sum[j], d, ev[k]);
                        v = _mm512_srli_epi16(v, 2);
                    }
                }
            }
            acc = add_block(acc, row_scales(&s, 66 * b + 64), sum,
                            act_sum(x, t, 16 * b, 16));
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

/* The order of digits in a PTQ1_0 block: packed_avx2.c. */
static ALWAYS_INLINE void order_ptq1_0(__m512i *q, __m512i *e, const int8_t *qs,
                                       const int16_t *ep)
{
    for (int k = 0; k < 5; k++) {
        int16_t last = 0;
        if (k < 4)
            memcpy(&last, qs + 120 + 2 * k, sizeof last);
        __m128i hi = _mm_loadl_epi64((const __m128i *)(qs + 80 + 8 * k));
        __m128i ehi = _mm_set1_epi16(ep[10 + k / 2 * 2]);
        hi = _mm_insert_epi16(hi, last, 4);
        ehi = _mm_insert_epi16(ehi, ep[14], 4);
        q[k] = twice(_mm256_set_m128i(hi, load128(qs + 16 * k)));
        e[k] = twice(_mm256_set_m128i(ehi, _mm_set1_epi16(ep[2 * k])));
    }
}

/* As load_pair for blocks of 28 bytes; no byte after them is read. */
static ALWAYS_INLINE __m512i load_pair_28(const struct pair_set *s, int j, int64_t at)
{
    _mm_prefetch((const char *)((uintptr_t)s->a[j] + s->ahead + (uint64_t)at),
                 _MM_HINT_T1);
    _mm_prefetch((const char *)((uintptr_t)s->b[j] + s->ahead + (uint64_t)at),
                 _MM_HINT_T1);
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_maskz_loadu_epi32(0x7f, s->a[j] + at)),
        _mm256_maskz_loadu_epi32(0x7f, s->b[j] + at), 1);
}

/* The top digits of bytes: [v >= 86] + [v >= 171]. */
static ALWAYS_INLINE __m512i top_digits(__m512i v)
{
    const __m512i one = _mm512_set1_epi8(1);
    __m512i u =
        _mm512_maskz_mov_epi8(_mm512_cmpge_epu8_mask(v, _mm512_set1_epi8(86)), one);

    return _mm512_mask_add_epi8(
        u, _mm512_cmpge_epu8_mask(v, _mm512_set1_epi8((char)171)), u, one);
}

static void one_ptq1_0(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                       const struct kq_act *x, int64_t t)
{
    const int8_t *qs = x->q + t * x->n;
    const int16_t *ep = x->ep + t * x->n / 8;

    for (int64_t r = 0; r < rows; r += ROWS) {
        struct pair_set s;
        __m512 acc = _mm512_setzero_ps();
        pairs_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0; b < x->n / 128; b++) {
            __m512i q[5], e[5], sum[PAIRS];
            order_ptq1_0(q, e, qs + 128 * b, ep + 16 * b);
            for (int j = 0; j < PAIRS; j++) {
                __m512i v = load_pair_28(&s, j, 28 * b);
                sum[j] = _mm512_setzero_si512();
                for (int k = 0; k < 5; k++) {
                    __m512i d = _mm512_maddubs_epi16(top_digits(v), q[k]);
                    sum[j] = _mm512_dpwssd_epi32(sum[j], d, e[k]);
                    v = _mm512_add_epi8(v, _mm512_add_epi8(v, v));
                }
            }
            acc = add_block(acc, row_scales(&s, 28 * b + 26), sum,
                            act_sum(x, t, 8 * b, 8));
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

/* Eight rows r.. times tokens t.. t + 3: pairs of rows j and j + 4, codes taken apart once
 * for four tokens. */
static ALWAYS_INLINE void tile_q2_0_g128(float *y, int64_t y_step, const uint8_t *w,
                                         uint64_t row_bytes, const struct kq_act *x,
                                         int64_t t)
{
    const __m512i three = _mm512_set1_epi8(3), half = _mm512_set1_epi32(0xffff);
    int64_t n = x->n;
    const int8_t *p = x->p + t * n;
    const int16_t *ep = x->ep + t * n / 8;
    __m512 acc[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};

    for (int64_t b = 0; b < n / 128; b++) {
        __m512i sum[TILE][TILE]; /* [token][pair] */
        const uint8_t *at = w + 34 * b;
        for (int i = 0; i < TILE; i++) {
            const uint8_t *row = at + (uint64_t)i * row_bytes + 2;
            __m512i v = _mm512_inserti64x4(_mm512_castsi256_si512(load256(row)),
                                           load256(row + 4 * row_bytes), 1);
            __m512i u[4];
            for (int k = 0; k < 4; k++) {
                u[k] = _mm512_and_si512(v, three);
                v = _mm512_srli_epi16(v, 2);
            }
            for (int j = 0; j < TILE; j++) {
                const int8_t *q = p + j * n + 128 * b;
                __m512i d = _mm512_setzero_si512();
                for (int k = 0; k < 4; k++)
                    d = _mm512_dpbusd_epi32(d, u[k], twice(load256(q + 32 * k)));
                __m512i e = twice(load256(ep + j * n / 8 + 16 * b));
                sum[j][i] = _mm512_madd_epi16(d, _mm512_and_si512(e, half));
            }
        }
        const uint8_t *row[8];
        for (int i = 0; i < 8; i++)
            row[i] = at + (uint64_t)i * row_bytes;
        __m256 sv = _mm256_cvtph_ps(_mm_set_epi64x((int64_t)four_halves(row + 4, 0),
                                                   (int64_t)four_halves(row, 0)));
        __m512 scale = _mm512_broadcast_f32x8(sv);
        for (int j = 0; j < 2; j++) { /* tokens 2 j and 2 j + 1 */
            __m512i s =
                add_lane_pairs(sum_quads(sum[2 * j]), sum_quads(sum[2 * j + 1]));
            __m512i lows = _mm512_inserti64x4(
                _mm512_set1_epi32(act_sum(x, t + 2 * j, 8 * b, 8)),
                _mm256_set1_epi32(act_sum(x, t + 2 * j + 1, 8 * b, 8)), 1);
            s = _mm512_sub_epi32(s, lows);
            acc[j] = _mm512_add_ps(acc[j], _mm512_mul_ps(scale, _mm512_cvtepi32_ps(s)));
        }
    }
    for (int j = 0; j < TILE; j++) {
        __m256 v = j % 2 ? _mm512_extractf32x8_ps(acc[j / 2], 1)
                         : _mm512_castps512_ps256(acc[j / 2]);
        _mm256_storeu_ps(y + (t + j) * y_step,
                         _mm256_mul_ps(_mm256_set1_ps(x->d[t + j]), v));
    }
}

void packed_q2_0_g128_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                                 uint64_t row_bytes, int64_t rows,
                                 const struct kq_act *x)
{
    int64_t t = 0;

    for (; t + TILE <= x->rows; t += TILE) {
        int64_t r = 0;
        for (; r + 8 <= rows; r += 8)
            tile_q2_0_g128(y + r, y_step, w + (uint64_t)r * row_bytes, row_bytes, x, t);
        for (int64_t j = t; j < t + TILE && r < rows; j++)
            one_q2_0_g128(y + j * y_step + r, w + (uint64_t)r * row_bytes, row_bytes,
                          rows - r, x, j);
    }
    for (; t < x->rows; t++)
        one_q2_0_g128(y + t * y_step, w, row_bytes, rows, x, t);
}

void packed_tq2_0_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                             uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_tq2_0(y + t * y_step, w, row_bytes, rows, x, t);
}

void packed_ptq1_0_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                              uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_ptq1_0(y + t * y_step, w, row_bytes, rows, x, t);
}

/*
 * packed_avx512vnni.c - packed ternary rows times activations, in AVX-512 BW and VNNI.
 */
#include "kernel/x86/trits64_512.h"

/* A type whose blocks keep 2-bit codes in units of 128 columns, 32 bytes each. */
struct two_bits {
    int64_t bytes, codes, scale; /* of a block, and where in it they begin; NO_SCALE */
    int units;                   /* in a block */
    bool down;                   /* plane 0 is in the high bits */
};

enum { NO_SCALE = -1 }; /* one for the whole matrix, which the caller knows */

static const struct two_bits FORM_Q2_0_G128 = {34, 2, 0, 1, false},
                             FORM_TQ2_0 = {66, 0, 64, 2, false},
                             FORM_I2_S = {32, 0, NO_SCALE, 1, true};

static ALWAYS_INLINE __m512 scales_2bits(const struct pair_rows *s,
                                         const struct two_bits *w, int64_t at)
{
    return w->scale == NO_SCALE ? _mm512_set1_ps(1.0f) : row_halves(s, at + w->scale);
}

static ALWAYS_INLINE void one_2bits(float *y, const struct pair_rows *s,
                                    const struct kq_act *x, int64_t t, int64_t n_rows,
                                    const struct two_bits *w)
{
    const __m512i three = _mm512_set1_epi8(3); /* drops what shifts across bytes */
    const int8_t *p = x->p + t * x->n;
    const int16_t *ep = x->ep + t * x->n / 8;
    __m512 acc = _mm512_setzero_ps();

    for (int64_t b = 0; b < x->n / (128 * w->units); b++) {
        __m512i sum[PAIRS / 2] = {0}; /* gcc 12 does not see that h begins at 0 */
        prefetch_next(s, w->bytes * b, w->bytes);
        for (int h = 0; h < w->units; h++, p += 128, ep += 16) {
            __m512i e = word_factors(ep, 32), q[4];
            for (int k = 0; k < 4; k++)
                q[k] = spread(p + 32 * (w->down ? 3 - k : k), 32);
            for (int i = 0; i < PAIRS / 2; i++) {
                int64_t at = w->bytes * b + w->codes + 32 * h;
                __m512i v[2] = {pair_bytes(s, 2 * i, at), pair_bytes(s, 2 * i + 1, at)};
                __m512i c[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
                for (int k = 0; k < 4; k++)
                    for (int j = 0; j < 2; j++) {
                        c[j] = _mm512_dpbusd_epi32(c[j], _mm512_and_si512(v[j], three),
                                                   q[k]);
                        v[j] = _mm512_srli_epi16(v[j], 2);
                    }
                __m512i quads = packed_quads(c[0], c[1]);
                sum[i] = h ? _mm512_dpwssd_epi32(sum[i], quads, e)
                           : _mm512_madd_epi16(quads, e);
            }
        }
        acc = add_block(
            acc, scales_2bits(s, w, w->bytes * b),
            join_pairs(add_neighbours(sum[0], sum[1]), add_neighbours(sum[2], sum[3])),
            act_sum(x, t, 8 * w->units * b, 8 * w->units));
    }
    store_rows16(y, acc, x->d[t], n_rows);
}

/* Eight dwords of 2-bit codes of each row, a unit, to groups from i on. */
static ALWAYS_INLINE void put_unit(struct sink *k, const int few, int i,
                                   const struct pair_rows *p, int64_t at, bool down)
{
    __m512i v[8];

    eight_dwords(v, p, at);
    put_2bits(k, few, i, v[0], down);
    put_2bits(k, few, i + 1, v[1], down);
    put_2bits(k, few, i + 2, v[2], down);
    put_2bits(k, few, i + 3, v[3], down);
    put_2bits(k, few, i + 4, v[4], down);
    put_2bits(k, few, i + 5, v[5], down);
    put_2bits(k, few, i + 6, v[6], down);
    put_2bits(k, few, i + 7, v[7], down);
}

static ALWAYS_INLINE void take_2bits(struct sink *k, const int few,
                                     const struct line_source *s, int64_t r, int64_t g,
                                     int n_g, const struct two_bits *w)
{
    const int groups = 8 * w->units;
    struct pair_rows p;

    pair_rows_at(&p, s->w, s->bytes, r, s->rows);
    for (int64_t b = g / groups; b < (g + n_g) / groups; b++) {
        int64_t at = w->bytes * b;
        prefetch_next(&p, at, w->bytes);
        put_unit(k, few, 0, &p, at + w->codes, w->down);
        if (w->units == 2)
            put_unit(k, few, 8, &p, at + w->codes + 32, w->down);
        end_block(k, few, scales_2bits(&p, w, at));
        end_unit(k, few, groups);
    }
}

static ALWAYS_INLINE void one_q2_0_g128(float *y, const struct pair_rows *s,
                                        const struct kq_act *x, int64_t t,
                                        int64_t n_rows)
{
    one_2bits(y, s, x, t, n_rows, &FORM_Q2_0_G128);
}

static ALWAYS_INLINE void take_q2_0_g128(struct sink *k, const int few,
                                         const struct line_source *s, int64_t r,
                                         int64_t g, int n_g)
{
    take_2bits(k, few, s, r, g, n_g, &FORM_Q2_0_G128);
}

static ALWAYS_INLINE void one_tq2_0(float *y, const struct pair_rows *s,
                                    const struct kq_act *x, int64_t t, int64_t n_rows)
{
    one_2bits(y, s, x, t, n_rows, &FORM_TQ2_0);
}

static ALWAYS_INLINE void take_tq2_0(struct sink *k, const int few,
                                     const struct line_source *s, int64_t r, int64_t g,
                                     int n_g)
{
    take_2bits(k, few, s, r, g, n_g, &FORM_TQ2_0);
}

static ALWAYS_INLINE void one_i2_s(float *y, const struct pair_rows *s,
                                   const struct kq_act *x, int64_t t, int64_t n_rows)
{
    one_2bits(y, s, x, t, n_rows, &FORM_I2_S);
}

static ALWAYS_INLINE void take_i2_s(struct sink *k, const int few,
                                    const struct line_source *s, int64_t r, int64_t g,
                                    int n_g)
{
    take_2bits(k, few, s, r, g, n_g, &FORM_I2_S);
}

PACKED_ROWS(packed_i2_s_avx512vnni, 3, LINES_BY_POSITION, one_i2_s, take_i2_s)
PACKED_ROWS(packed_b2_t64_avx512vnni, 2, LINES_BY_POSITION, one_b2_t64, take_b2_t64)
PACKED_ROWS(packed_q2_0_g128_avx512vnni, 3, LINES_BY_PLANE, one_q2_0_g128,
            take_q2_0_g128)
PACKED_ROWS(packed_tq2_0_avx512vnni, 4, LINES_BY_POSITION, one_tq2_0, take_tq2_0)
PACKED_ROWS(packed_ptq1_0_avx512vnni, 3, LINES_BY_POSITION, one_ptq1_0, take_ptq1_0)
PACKED_ROWS(packed_tq1_0_avx512vnni, 4, LINES_BY_POSITION, one_tq1_0, take_tq1_0)

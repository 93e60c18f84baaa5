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

/* Planes of pair i of unit h: u[32 h + i / 4 * 16 + 4 k + i % 4]. */
static ALWAYS_INLINE void take_2bits(__m512i *u, const struct pair_rows *s, int64_t at,
                                     bool down)
{
    for (int i = 0; i < PAIRS; i++) {
        __m512i v = pair_bytes(s, i, at);
        for (int k = 0; k < 4; k++) {
            u[i / 4 * 16 + 4 * (down ? 3 - k : k) + i % 4] =
                _mm512_and_si512(v, _mm512_set1_epi8(3));
            v = _mm512_srli_epi16(v, 2);
        }
    }
}

static ALWAYS_INLINE void meet_2bits(__m512 *acc, const __m512i *u, __m512 scale,
                                     const struct part *a, const struct kq_act *x,
                                     int64_t t, int64_t b, int units, int n_t)
{
    __m512i half[MAX_TOKENS][2];

    prefetch_act(a, 128 * units, n_t);
    for (int h = 0; h < 2; h++) { /* eight rows at a time */
        __m512i sum[16], more[16];
        dot_planes(sum, u + 16 * h, 4, a, n_t);
        for (int v = 1; v < units; v++) {
            struct part next = *a;
            next.p += 128 * v;
            next.ep += 16 * v;
            dot_planes(more, u + 32 * v + 16 * h, 4, &next, n_t);
            for (int i = 0; i < 2 * n_t; i++)
                sum[i] = _mm512_add_epi32(sum[i], more[i]);
        }
        for (int j = 0; j < n_t; j++)
            half[j][h] = add_neighbours(sum[2 * j], sum[2 * j + 1]);
    }
    for (int j = 0; j < n_t; j++)
        acc[j] = add_block(acc[j], scale, join_pairs(half[j][0], half[j][1]),
                           act_sum(x, t + j, 8 * units * b, 8 * units));
}

static ALWAYS_INLINE void many_2bits(float *y, int64_t y_step,
                                     const struct pair_rows *s, const struct kq_act *x,
                                     int64_t t, int64_t n_t, int64_t n_rows,
                                     const struct two_bits *w)
{
    struct part first = {
        x->p + t * x->n, x->ep + t * x->n / 8, x->n, x->n / 8, 32, false};
    __m512 acc[TILE];
    __m512i u[64];

    for (int64_t j = 0; j < n_t; j++)
        acc[j] = _mm512_setzero_ps();
    for (int64_t b = 0; b < x->n / (128 * w->units); b++) {
        struct part a = first;
        int64_t at = w->bytes * b, j = 0;
        prefetch_next(s, at, w->bytes);
        for (int h = 0; h < w->units; h++)
            take_2bits(u + 32 * h, s, at + w->codes + 32 * h, w->down);
        __m512 scale = scales_2bits(s, w, at);
        for (; j + 4 <= n_t; j += 4, a.p += 4 * a.p_step, a.ep += 4 * a.ep_step)
            meet_2bits(acc + j, u, scale, &a, x, t + j, b, w->units, 4);
        for (; j < n_t; j++, a.p += a.p_step, a.ep += a.ep_step)
            meet_2bits(acc + j, u, scale, &a, x, t + j, b, w->units, 1);
        first.p += 128 * w->units;
        first.ep += 16 * w->units;
    }
    for (int64_t j = 0; j < n_t; j++)
        store_rows16(y + j * y_step, acc[j], x->d[t + j], n_rows);
}

static ALWAYS_INLINE void one_q2_0_g128(float *y, const struct pair_rows *s,
                                        const struct kq_act *x, int64_t t,
                                        int64_t n_rows)
{
    one_2bits(y, s, x, t, n_rows, &FORM_Q2_0_G128);
}

static ALWAYS_INLINE void many_q2_0_g128(float *y, int64_t y_step,
                                         const struct pair_rows *s,
                                         const struct kq_act *x, int64_t t, int64_t n_t,
                                         int64_t n_rows)
{
    many_2bits(y, y_step, s, x, t, n_t, n_rows, &FORM_Q2_0_G128);
}

static ALWAYS_INLINE void one_tq2_0(float *y, const struct pair_rows *s,
                                    const struct kq_act *x, int64_t t, int64_t n_rows)
{
    one_2bits(y, s, x, t, n_rows, &FORM_TQ2_0);
}

static ALWAYS_INLINE void many_tq2_0(float *y, int64_t y_step,
                                     const struct pair_rows *s, const struct kq_act *x,
                                     int64_t t, int64_t n_t, int64_t n_rows)
{
    many_2bits(y, y_step, s, x, t, n_t, n_rows, &FORM_TQ2_0);
}

static ALWAYS_INLINE void one_i2_s(float *y, const struct pair_rows *s,
                                   const struct kq_act *x, int64_t t, int64_t n_rows)
{
    one_2bits(y, s, x, t, n_rows, &FORM_I2_S);
}

static ALWAYS_INLINE void many_i2_s(float *y, int64_t y_step, const struct pair_rows *s,
                                    const struct kq_act *x, int64_t t, int64_t n_t,
                                    int64_t n_rows)
{
    many_2bits(y, y_step, s, x, t, n_t, n_rows, &FORM_I2_S);
}

void packed_i2_s_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                            uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_rows(y, y_step, w, row_bytes, rows, x, one_i2_s, many_i2_s);
}

void packed_b2_t64_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                              uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_rows(y, y_step, w, row_bytes, rows, x, one_b2_t64, many_b2_t64);
}

void packed_q2_0_g128_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                                 uint64_t row_bytes, int64_t rows,
                                 const struct kq_act *x)
{
    packed_rows(y, y_step, w, row_bytes, rows, x, one_q2_0_g128, many_q2_0_g128);
}

void packed_tq2_0_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                             uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_rows(y, y_step, w, row_bytes, rows, x, one_tq2_0, many_tq2_0);
}

void packed_ptq1_0_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                              uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_rows(y, y_step, w, row_bytes, rows, x, one_ptq1_0, many_ptq1_0);
}

void packed_tq1_0_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                             uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    packed_rows(y, y_step, w, row_bytes, rows, x, one_tq1_0, many_tq1_0);
}

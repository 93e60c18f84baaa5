/*
 * trits64_512.h - B2_T64 in 512-bit registers, as trits64_256.h has it, sixteen rows.
 */
#ifndef KERNEL_X86_TRITS64_512_H
#define KERNEL_X86_TRITS64_512_H

#include "kernel/x86/ternary512.h"

/* Which block of a unit of 128 columns, and whether it stands alone at the end of a row. */
enum t64_place { T64_FIRST, T64_SECOND, T64_ALONE };

/* The 14 bytes at p, and two zeros. */
static ALWAYS_INLINE __m128i fourteen(const uint8_t *p)
{
    return _mm_maskz_loadu_epi8(0x3fff, p);
}

/* The block of rows i, i + 4, i + 8, i + 12; its unit begins at `at`. */
static ALWAYS_INLINE __m512i t64_block(const struct pair_rows *s, int i, int64_t at,
                                       enum t64_place place)
{
    if (place == T64_FIRST)
        return quad_bytes(s, i, at);
    if (place == T64_SECOND)
        return _mm512_bsrli_epi128(quad_bytes(s, i, at + 12), 2);
    __m512i v = _mm512_castsi128_si512(fourteen(s->a[i] + at));
    v = _mm512_inserti32x4(v, fourteen(s->b[i] + at), 1);
    v = _mm512_inserti32x4(v, fourteen(s->a[i + 4] + at), 2);
    return _mm512_inserti32x4(v, fourteen(s->b[i + 4] + at), 3);
}

/* Byte 13 of all rows as scales: eighths of an octave above 2^-24, 0 is zero. */
static ALWAYS_INLINE __m512 t64_scales(const __m512i *block)
{
    const __m512i fraction = _mm512_setr_epi32(
        0x000000, 0x0b95c2, 0x1837f0, 0x25fed7, 0x3504f3, 0x45672a, 0x5744fd, 0x6ac0c7,
        0x000000, 0x0b95c2, 0x1837f0, 0x25fed7, 0x3504f3, 0x45672a, 0x5744fd, 0x6ac0c7);
    __m512i v = _mm512_unpackhi_epi64(_mm512_unpackhi_epi32(block[0], block[1]),
                                      _mm512_unpackhi_epi32(block[2], block[3]));
    __m512i q = _mm512_and_si512(_mm512_srli_epi32(v, 8), _mm512_set1_epi32(255));
    __mmask16 some = _mm512_test_epi32_mask(q, q);
    __m512i step = _mm512_sub_epi32(q, _mm512_set1_epi32(1));
    __m512i bits =
        _mm512_add_epi32(_mm512_srli_epi32(step, 3), _mm512_set1_epi32(127 - 24));

    bits = _mm512_maskz_or_epi32(some, _mm512_slli_epi32(bits, 23),
                                 _mm512_permutexvar_epi32(step, fraction));
    return _mm512_castsi512_ps(bits);
}

/* Token t's part of the first unit; the next one is 160 codes and 32 factors on. */
static ALWAYS_INLINE struct part t64_part(const struct kq_act *x, int64_t t)
{
    int64_t p_step = kq_p_step(KQ_TRITS64, x->n);
    int64_t ep_step = kq_ep_step(KQ_TRITS64, x->n);

    return (struct part){
        x->p + t * p_step, x->ep + t * ep_step, p_step, ep_step, 16, true};
}

static ALWAYS_INLINE void t64_next(struct part *a)
{
    a->p += 160;
    a->ep += 32;
}

/* acc plus the block in place of the unit at column c, of all rows times token t. */
static ALWAYS_INLINE __m512 t64_one(__m512 acc, const struct pair_rows *s,
                                    struct part a, const struct kq_act *x, int64_t t,
                                    int64_t c, const struct trits *tr,
                                    enum t64_place place)
{
    int half = place == T64_SECOND;
    __m512i block[4], sum[2];

    a.p += 16 * half;
    a.ep += 8 * half;
    for (int i = 0; i < 4; i++)
        block[i] = t64_block(s, i, c / 64 * 14, place);
    for (int i = 0; i < 2; i++)
        sum[i] = dot_two(block[2 * i], block[2 * i + 1], &a, tr);
    return add_block(acc, t64_scales(block), add_neighbours(sum[0], sum[1]),
                     act_sum(x, t, c / 16 + 4 * half, 4));
}

static ALWAYS_INLINE void one_b2_t64(float *y, const struct pair_rows *s,
                                     const struct kq_act *x, int64_t t, int64_t n_rows)
{
    const struct trits tr = trits_make();
    struct part a = t64_part(x, t);
    __m512 acc = _mm512_setzero_ps();
    int64_t c = 0;

    for (; c + 128 <= x->n; c += 128, t64_next(&a)) {
        prefetch_next(s, c / 64 * 14, 28);
        acc = t64_one(acc, s, a, x, t, c, &tr, T64_FIRST);
        acc = t64_one(acc, s, a, x, t, c, &tr, T64_SECOND);
    }
    if (c < x->n)
        acc = t64_one(acc, s, a, x, t, c, &tr, T64_ALONE);
    store_rows16(y, acc, x->d[t], n_rows);
}

/* acc[j] plus the block whose digits are u times n_t (1 or 4) tokens from t on. */
static ALWAYS_INLINE void meet_b2_t64(__m512 *acc, const __m512i *u, __m512 scale,
                                      const struct part *a, const struct kq_act *x,
                                      int64_t t, int64_t group, int n_t)
{
    __m512i sum[16];

    dot_planes(sum, u, 4, a, n_t);
    for (int j = 0; j < n_t; j++)
        acc[j] = add_block(acc[j], scale, add_neighbours(sum[2 * j], sum[2 * j + 1]),
                           act_sum(x, t + j, group, 4));
}

/* The same for n_t tokens and a block that is not taken apart. */
static ALWAYS_INLINE void t64_many(__m512 *acc, const struct pair_rows *s,
                                   struct part a, const struct kq_act *x, int64_t t,
                                   int64_t n_t, int64_t c, const struct trits *tr,
                                   enum t64_place place)
{
    int half = place == T64_SECOND;
    __m512i block[4], u[20];
    int64_t j = 0, group = c / 16 + 4 * half;

    a.p += 16 * half;
    a.ep += 8 * half;
    for (int i = 0; i < 4; i++) {
        block[i] = t64_block(s, i, c / 64 * 14, place);
        take_apart(u + i, 4, block[i], true, tr);
    }
    __m512 scale = t64_scales(block);
    for (; j + 4 <= n_t; j += 4, a.p += 4 * a.p_step, a.ep += 4 * a.ep_step) {
        if (!half)
            prefetch_act(&a, 160, 4);
        meet_b2_t64(acc + j, u, scale, &a, x, t + j, group, 4);
    }
    for (; j < n_t; j++, a.p += a.p_step, a.ep += a.ep_step)
        meet_b2_t64(acc + j, u, scale, &a, x, t + j, group, 1);
}

static ALWAYS_INLINE void many_b2_t64(float *y, int64_t y_step,
                                      const struct pair_rows *s, const struct kq_act *x,
                                      int64_t t, int64_t n_t, int64_t n_rows)
{
    const struct trits tr = trits_make();
    struct part a = t64_part(x, t);
    __m512 acc[TILE];
    int64_t c = 0;

    for (int64_t j = 0; j < n_t; j++)
        acc[j] = _mm512_setzero_ps();
    for (; c + 128 <= x->n; c += 128, t64_next(&a)) {
        prefetch_next(s, c / 64 * 14, 28);
        t64_many(acc, s, a, x, t, n_t, c, &tr, T64_FIRST);
        t64_many(acc, s, a, x, t, n_t, c, &tr, T64_SECOND);
    }
    if (c < x->n)
        t64_many(acc, s, a, x, t, n_t, c, &tr, T64_ALONE);
    for (int64_t j = 0; j < n_t; j++)
        store_rows16(y + j * y_step, acc[j], x->d[t + j], n_rows);
}

#endif

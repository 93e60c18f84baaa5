/*
 * trits64_512.h - B2_T64 in 512-bit registers, as trits64_256.h has it, sixteen rows.
 */
#ifndef KERNEL_X86_TRITS64_512_H
#define KERNEL_X86_TRITS64_512_H

#include "kernel/x86/lines512.h"

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

/* Byte 13 of all rows as scales, from their bytes 12 and 13 in the low halves of lanes:
 * eighths of an octave above 2^-24, 0 is zero. */
static ALWAYS_INLINE __m512 t64_log_scales(__m512i v)
{
    const __m512i fraction = _mm512_setr_epi32(
        0x000000, 0x0b95c2, 0x1837f0, 0x25fed7, 0x3504f3, 0x45672a, 0x5744fd, 0x6ac0c7,
        0x000000, 0x0b95c2, 0x1837f0, 0x25fed7, 0x3504f3, 0x45672a, 0x5744fd, 0x6ac0c7);
    __m512i q = _mm512_and_si512(_mm512_srli_epi32(v, 8), _mm512_set1_epi32(255));
    __mmask16 some = _mm512_test_epi32_mask(q, q);
    __m512i step = _mm512_sub_epi32(q, _mm512_set1_epi32(1));
    __m512i bits =
        _mm512_add_epi32(_mm512_srli_epi32(step, 3), _mm512_set1_epi32(127 - 24));

    bits = _mm512_maskz_or_epi32(some, _mm512_slli_epi32(bits, 23),
                                 _mm512_permutexvar_epi32(step, fraction));
    return _mm512_castsi512_ps(bits);
}

static ALWAYS_INLINE __m512 t64_scales(const __m512i *block)
{
    return t64_log_scales(
        _mm512_unpackhi_epi64(_mm512_unpackhi_epi32(block[0], block[1]),
                              _mm512_unpackhi_epi32(block[2], block[3])));
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

/* Digits 0-3 of byte 12 of each row, the rest of v is another's: four neighbouring columns. */
static ALWAYS_INLINE __m512i t64_last_quad(__m512i v, const struct trits *t)
{
    __m512i u[DIGITS];

    take_apart(u, 1, v, false, t);
    v = _mm512_maskz_mov_epi8(0x1111111111111111, u[0]);
    v = _mm512_mask_blend_epi8(0x2222222222222222, v, _mm512_slli_epi32(u[1], 8));
    v = _mm512_mask_blend_epi8(0x4444444444444444, v, _mm512_slli_epi32(u[2], 16));
    return _mm512_mask_blend_epi8(0x8888888888888888, v, _mm512_slli_epi32(u[3], 24));
}

/* The block in place of the unit at byte `at` to groups from i on: three dwords of five
 * digits, whose fifth ones are three quads of a group, and a byte of four. */
static ALWAYS_INLINE void put_b2_t64(struct sink *k, const int few, int i,
                                     const struct pair_rows *p, int64_t at,
                                     enum t64_place place, const struct trits *t)
{
    __m512i block[4], v[4], fifth[4];

    for (int j = 0; j < 4; j++)
        block[j] = t64_block(p, j, at, place);
    turn_dwords(v, block);
    put_digits(k, few, i, v[0], &fifth[0], t);
    put_digits(k, few, i + 1, v[1], &fifth[1], t);
    put_digits(k, few, i + 2, v[2], &fifth[2], t);
    fifth[3] = t64_last_quad(v[3], t);
    put_group(k, few, i + 3, fifth);
    end_block(k, few, t64_log_scales(v[3]));
}

static ALWAYS_INLINE void take_b2_t64(struct sink *k, const int few,
                                      const struct line_source *s, int64_t r, int64_t g,
                                      int n_g)
{
    const struct trits t = trits_make();
    struct pair_rows p;
    int64_t at = g / 4 * 14;

    pair_rows_at(&p, s->w, s->bytes, r, s->rows);
    for (int i = 0; i + 8 <= n_g; i += 8, at += 28) {
        prefetch_next(&p, at, 28);
        put_b2_t64(k, few, 0, &p, at, T64_FIRST, &t);
        put_b2_t64(k, few, 4, &p, at, T64_SECOND, &t);
        end_unit(k, few, 8);
    }
    if (n_g % 8) {
        put_b2_t64(k, few, 0, &p, at, T64_ALONE, &t);
        end_unit(k, few, 4);
    }
}

#endif

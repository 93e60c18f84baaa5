/*
 * trits64_256.h - B2_T64 in 256-bit registers: blocks of 64 columns in 14 bytes, twelve of
 * five digits, one of four, and a logarithmic scale (tensor/log8.h).
 *
 * Two rows' blocks fill a register, 16 bytes each: what a block lacks meets zeros of the
 * activation. Blocks are taken in twos, so that their 28 bytes are read without a byte
 * beyond; a row may end with a single one.
 */
#ifndef KERNEL_X86_TRITS64_256_H
#define KERNEL_X86_TRITS64_256_H

#include "kernel/x86/lines256.h"

/* Which block of a unit of 128 columns, and whether it stands alone at the end of a row. */
enum t64_place { T64_FIRST, T64_SECOND, T64_ALONE };

/* The 14 bytes at p, and two zeros. */
static ALWAYS_INLINE __m128i fourteen(const uint8_t *p)
{
    uint64_t lo, hi;

    memcpy(&lo, p, sizeof lo);
    memcpy(&hi, p + 6, sizeof hi);
    return _mm_set_epi64x((int64_t)(hi >> 16), (int64_t)lo);
}

/* The block of rows i and i + 4; its unit begins at `at`. */
static ALWAYS_INLINE __m256i t64_block(const struct row_set *s, int i, int64_t at,
                                       enum t64_place place)
{
    if (place == T64_ALONE)
        return _mm256_set_m128i(fourteen(s->row[i + 4] + at), fourteen(s->row[i] + at));
    if (place == T64_FIRST)
        return two_rows(s, i, at);
    return _mm256_srli_si256(two_rows(s, i, at + 12), 2);
}

/* Byte 13 of all rows as scales, from their bytes 12 and 13 in the low halves of lanes. */
static ALWAYS_INLINE __m256 t64_log_scales(__m256i v)
{
    return scales_log8(
        _mm256_and_si256(_mm256_srli_epi32(v, 8), _mm256_set1_epi32(255)));
}

/* The scales of rows 0-7 from their blocks, two rows each. */
static ALWAYS_INLINE __m256 t64_scales(const __m256i *block)
{
    return t64_log_scales(
        _mm256_unpackhi_epi64(_mm256_unpackhi_epi32(block[0], block[1]),
                              _mm256_unpackhi_epi32(block[2], block[3])));
}

/* Token t's part of the first unit; the next one is 160 codes and 32 factors on. */
static ALWAYS_INLINE struct part t64_part(const struct kq_act *x, int64_t t)
{
    return (struct part){x->p + t * kq_p_step(KQ_TRITS64, x->n),
                         x->ep + t * kq_ep_step(KQ_TRITS64, x->n), 16, true};
}

static ALWAYS_INLINE void t64_next(struct part *a)
{
    a->p += 160;
    a->ep += 32;
}

/* acc plus the block in place of the unit at column c, of all rows times token t. */
static ALWAYS_INLINE __m256 t64_one(__m256 acc, const struct row_set *s, struct part a,
                                    const struct kq_act *x, int64_t t, int64_t c,
                                    struct thirds th, enum t64_place place)
{
    int half = place == T64_SECOND;
    __m256i block[4], sum[4];

    a.p += 16 * half;
    a.ep += 8 * half;
    for (int i = 0; i < 4; i++) {
        block[i] = t64_block(s, i, c / 64 * 14, place);
        sum[i] = dot_digits(block[i], &a, th);
    }
    return add_block(acc, t64_scales(block), join_pairs(sum),
                     act_sum(x, t, c / 16 + 4 * half, 4));
}

static ALWAYS_INLINE void one_b2_t64(float *y, const struct row_set *s,
                                     const struct kq_act *x, int64_t t, int64_t n_rows)
{
    const struct thirds th = thirds_make();
    struct part a = t64_part(x, t);
    __m256 acc = _mm256_setzero_ps();
    int64_t c = 0;

    for (; c + 128 <= x->n; c += 128, t64_next(&a)) {
        prefetch_next(s, c / 64 * 14, 28);
        acc = t64_one(acc, s, a, x, t, c, th, T64_FIRST);
        acc = t64_one(acc, s, a, x, t, c, th, T64_SECOND);
    }
    if (c < x->n)
        acc = t64_one(acc, s, a, x, t, c, th, T64_ALONE);
    store_rows(y, acc, x->d[t], n_rows);
}

/* Digits 0-3 of byte 12 of each row, the rest of v is another's: four neighbouring columns. */
static ALWAYS_INLINE __m256i t64_last_quad(__m256i v, struct thirds th)
{
    const __m256i one = _mm256_set1_epi32(255);
    __m256i u[DIGITS];

    take_apart(u, v, false, th);
    __m256i lo = _mm256_or_si256(_mm256_and_si256(u[0], one),
                                 _mm256_slli_epi32(_mm256_and_si256(u[1], one), 8));
    __m256i hi = _mm256_or_si256(_mm256_and_si256(u[2], one),
                                 _mm256_slli_epi32(_mm256_and_si256(u[3], one), 8));
    return two_pairs(lo, hi);
}

/* Three dwords of five digits, whose fifth ones are three quads of a group, and a byte of
 * four. Blocks are copied, so that nothing beyond a row is read. */
static ALWAYS_INLINE void take_b2_t64(struct lines *m, const struct line_source *s,
                                      int64_t r)
{
    const struct thirds th = thirds_make();
    struct row_set half[HALVES];

    halves_at(half, s, r, m->g / 4 * 14, m->n_g / 4 * 14);
    for (int g = 0; g < m->n_g; g += 4)
        for (int h = 0; h < HALVES; h++) {
            uint8_t block[ROWS][16];
            const uint8_t *row[ROWS];
            __m256i v[4];
            for (int i = 0; i < ROWS; i++) {
                row[i] = block[i];
                store128(block[i], fourteen(half[h].row[i] + (m->g + g) / 4 * 14));
            }
            weave8(v, row, 0);
            for (int i = 0; i < 3; i++) {
                __m256i rest = take_group(m->code[g + i], h, v[i], th);
                m->code[g + 3][i][h] = top_digits(rest, th);
            }
            m->code[g + 3][3][h] = t64_last_quad(v[3], th);
            m->scale[g / 4][h] = t64_log_scales(v[3]);
        }
}

#endif

/*
 * ternary256.h - packed ternary rows times activations in 256-bit registers.
 *
 * The one text behind packed_avx2.c and packed_avxvnni.c, which differ in how products of
 * bytes are chained: pairs in 16 bits (vpmaddubsw, vpaddw), or quads in 32 (vpdpbusd).
 * Here: one token. Eight rows advance together, so that their block sums meet in one
 * register and memory sees eight streams; several tokens are lines256.h's. Codes stay unsigned; what the "- 1" of a ternary code costs is a sum that the activation brings
 * along. Where fewer rows are left, the last row is computed several times.
 */
#ifndef KERNEL_X86_TERNARY256_H
#define KERNEL_X86_TERNARY256_H

#include "kernel/variants.h"
#include "kernel/x86/chain256.h"
#include "tensor/log8.h"

/* Asks for bytes [at, at + n) of the next set of rows, once for each cache line: the
 * processor's own prefetcher starts anew with every row. Reaching past the end of the data
 * never faults. */
static ALWAYS_INLINE void prefetch_next(const struct row_set *s, int64_t at, int64_t n)
{
    for (int64_t l = (at + LINE - 1) / LINE * LINE; l < at + n; l += LINE)
        for (int i = 0; i < ROWS; i++)
            _mm_prefetch((const char *)((uintptr_t)s->row[i] + s->ahead + (uint64_t)l),
                         _MM_HINT_T1);
}

/* acc += scale * (float)(sums - lows). */
static ALWAYS_INLINE __m256 add_block(__m256 acc, __m256 scale, __m256i sums,
                                      int32_t lows)
{
    sums = _mm256_sub_epi32(sums, _mm256_set1_epi32(lows));
    return _mm256_add_ps(acc, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums)));
}

/* PTQ1_0: 16 bytes of five digits, 8 of five, 2 of four, and the scale. Two rows fill a
 * register with their first bytes, four with the next, eight with the last. */
struct parts {
    struct part wide, mid, last;
};

static ALWAYS_INLINE struct parts parts_ptq1_0(const struct kq_act *x, int64_t t)
{
    const int8_t *p = x->p + t * kq_p_step(KQ_TRITS128, x->n);
    const int16_t *ep = x->ep + t * kq_ep_step(KQ_TRITS128, x->n);

    return (struct parts){
        {p, ep, 16, true}, {p + 16, ep + 8, 8, true}, {p + 24, ep + 12, 4, false}};
}

/* TQ1_0: 32 bytes of five digits, 16 of five, 4 of four, and the scale. */
static ALWAYS_INLINE struct parts parts_tq1_0(const struct kq_act *x, int64_t t)
{
    const int8_t *p = x->p + t * kq_p_step(KQ_TRITS256, x->n);
    const int16_t *ep = x->ep + t * kq_ep_step(KQ_TRITS256, x->n);

    return (struct parts){
        {p, ep, 32, true}, {p + 160, ep + 32, 16, true}, {p + 176, ep + 40, 4, false}};
}

/* To the activation's next block, from the first one, which is n_p bytes and n_ep factors
 * long. */
static ALWAYS_INLINE void parts_next(struct parts *a, int n_p, int n_ep)
{
    a->wide.p += n_p;
    a->wide.ep += n_ep;
    a->mid.p += n_p;
    a->mid.ep += n_ep;
    a->last.p += n_p;
    a->last.ep += n_ep;
}

/* The scales in the upper halves of 32-bit lanes. */
static ALWAYS_INLINE __m256 upper_halves(__m256i v)
{
    __m256i h = _mm256_srli_epi32(v, 16);

    h = _mm256_permute4x64_epi64(_mm256_packus_epi32(h, h), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(h));
}

/* Lanes 0-3 and 4-7 added, of rows 0-3 in lo and rows 4-7 in hi. */
static ALWAYS_INLINE __m256i join_halves(__m256i lo, __m256i hi)
{
    return _mm256_add_epi32(_mm256_permute2x128_si256(lo, hi, 0x20),
                            _mm256_permute2x128_si256(lo, hi, 0x31));
}

static ALWAYS_INLINE void one_ptq1_0(float *y, const struct row_set *s,
                                     const struct kq_act *x, int64_t t, int64_t n_rows)
{
    const struct thirds th = thirds_make();
    struct parts a = parts_ptq1_0(x, t);
    __m256 acc = _mm256_setzero_ps();

    for (int64_t b = 0; b < x->n / 128; b++, parts_next(&a, 160, 32)) {
        int64_t at = 28 * b;
        __m256i wide[4], mid[2], v = all_rows(s, at + 24);
        prefetch_next(s, at, 28);
        for (int i = 0; i < 4; i++)
            wide[i] = dot_digits(two_rows(s, i, at), &a.wide, th);
        for (int i = 0; i < 2; i++)
            mid[i] = dot_digits(four_rows(s, 2 * i, at + 16), &a.mid, th);
        __m256i all = _mm256_add_epi32(join_pairs(wide), dot_digits(v, &a.last, th));
        all = _mm256_add_epi32(all, _mm256_hadd_epi32(mid[0], mid[1]));
        acc = add_block(acc, upper_halves(v), all, act_sum(x, t, 8 * b, 8));
    }
    store_rows(y, acc, x->d[t], n_rows);
}

static ALWAYS_INLINE void one_tq1_0(float *y, const struct row_set *s,
                                    const struct kq_act *x, int64_t t, int64_t n_rows)
{
    const struct thirds th = thirds_make();
    struct parts a = parts_tq1_0(x, t);
    __m256 acc = _mm256_setzero_ps();

    for (int64_t b = 0; b < x->n / 256; b++, parts_next(&a, 320, 64)) {
        int64_t at = 54 * b;
        __m256i wide[ROWS], mid[4];
        prefetch_next(s, at, 54);
        for (int i = 0; i < ROWS; i++)
            wide[i] = dot_digits(load256(s->row[i] + at), &a.wide, th);
        for (int i = 0; i < 4; i++)
            mid[i] = dot_digits(two_rows(s, i, at + 32), &a.mid, th);
        __m256i all = dot_digits(all_rows(s, at + 48), &a.last, th);
        all = _mm256_add_epi32(all, join_pairs(mid));
        all = _mm256_add_epi32(all, sum_each(wide));
        acc = add_block(acc, row_halves(s, at + 52), all, act_sum(x, t, 16 * b, 16));
    }
    store_rows(y, acc, x->d[t], n_rows);
}

/* Scales by their bytes (tensor/log8.h): eighths of an octave above 2^-24, 0 is zero. */
static ALWAYS_INLINE __m256 scales_log8(__m256i q)
{
    __m256i step = _mm256_sub_epi32(q, _mm256_set1_epi32(1));
    __m256i fraction = _mm256_permutevar8x32_epi32(load256(log8_fraction), step);
    __m256i octave =
        _mm256_add_epi32(_mm256_srli_epi32(step, 3), _mm256_set1_epi32(127 - 24));
    __m256i bits = _mm256_or_si256(_mm256_slli_epi32(octave, 23), fraction);

    return _mm256_castsi256_ps(
        _mm256_andnot_si256(_mm256_cmpeq_epi32(q, _mm256_setzero_si256()), bits));
}

/* A type whose blocks keep 2-bit codes in units of 128 columns, 32 bytes each. */
struct two_bits {
    int64_t bytes, codes, scale; /* of a block, and where in it they begin; NO_SCALE */
    int units;                   /* in a block */
    bool down;                   /* plane 0 is in the high bits */
};

enum { NO_SCALE = -1 }; /* one for the whole matrix, which the caller knows */

static ALWAYS_INLINE __m256 scales_2bits(const struct row_set *s,
                                         const struct two_bits *w, int64_t at)
{
    return w->scale == NO_SCALE ? _mm256_set1_ps(1.0f) : row_halves(s, at + w->scale);
}

/* Neighbouring codes share a byte (PQ2_0), or planes lie apart (TQ2_0): the activation's
 * p has the matching order, and a lane of four bytes is one group in every plane. */
static ALWAYS_INLINE void one_2bits(float *y, const struct row_set *s,
                                    const struct kq_act *x, int64_t t,
                                    const struct two_bits *w, int64_t n_rows)
{
    const __m256i three = _mm256_set1_epi8(3);
    const int8_t *p = x->p + t * x->n;
    const int16_t *ep = x->ep + t * x->n / 8;
    __m256 acc = _mm256_setzero_ps();

    for (int64_t b = 0; b < x->n / (128 * w->units); b++) {
        __m256i sum[ROWS];
        prefetch_next(s, w->bytes * b, w->bytes);
        for (int i = 0; i < ROWS; i++)
            sum[i] = _mm256_setzero_si256();
        for (int h = 0; h < w->units; h++, p += 128, ep += 16) {
            for (int i = 0; i < ROWS; i++) {
                __m256i v = load256(s->row[i] + w->bytes * b + w->codes + 32 * h);
                const int8_t *q = w->down ? p + 96 : p;
                __m256i c = chain_start(_mm256_and_si256(v, three), load256(q));
                for (int k = 1; k < 4; k++) {
                    v = _mm256_srli_epi16(v, 2);
                    c = chain(c, _mm256_and_si256(v, three),
                              load256(w->down ? q - 32 * k : q + 32 * k));
                }
                sum[i] = _mm256_add_epi32(sum[i], chain_end(c, load256(ep)));
            }
        }
        acc = add_block(acc, scales_2bits(s, w, w->bytes * b), sum_each(sum),
                        act_sum(x, t, 8 * w->units * b, 8 * w->units));
    }
    store_rows(y, acc, x->d[t], n_rows);
}

#endif

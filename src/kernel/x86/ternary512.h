/*
 * ternary512.h - packed ternary rows times activations in 512-bit registers with VNNI.
 *
 * The one text behind packed_avx512vnni.c and packed_avx512vbmi.c, which differ in how a
 * base-3 byte is taken apart. As ternary256.h, with sixteen rows; vpdpbusd joins the
 * products of four neighbours and of all planes in 32 bits, and the sum of a group meets
 * its factor in the lower half of its lane.
 */
#ifndef KERNEL_X86_TERNARY512_H
#define KERNEL_X86_TERNARY512_H

#include "kernel/variants.h"
#include "kernel/x86/rows_avx512.h"

enum { DIGITS = 5, LINE = 64, MAX_TOKENS = 4 };
enum { TILE = 16 }; /* tokens that meet a block together: their part of it fits L1 */

/* Asks for bytes [at, at + n) of the next set of rows, once for each cache line. */
static ALWAYS_INLINE void prefetch_next(const struct pair_rows *s, int64_t at,
                                        int64_t n)
{
    for (int64_t l = (at + LINE - 1) / LINE * LINE; l < at + n; l += LINE)
        prefetch_pairs(s, 0, PAIRS, l);
}

/* acc += scale * (float)(sums - lows). */
static ALWAYS_INLINE __m512 add_block(__m512 acc, __m512 scale, __m512i sums,
                                      int32_t lows)
{
    sums = _mm512_sub_epi32(sums, _mm512_set1_epi32(lows));
    return _mm512_add_ps(acc, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sums)));
}

/* n bytes (4, 8, 16 or 32) at p, as often as a register holds them. */
static ALWAYS_INLINE __m512i spread(const void *p, int n)
{
    int64_t q = 0;

    if (n == 32)
        return same_halves(load256(p));
    if (n == 16)
        return _mm512_broadcast_i32x4(load128(p));
    memcpy(&q, p, (size_t)n);
    return n == 8 ? _mm512_set1_epi64(q) : _mm512_set1_epi32((int32_t)q);
}

/* Factors as spread() has them, each once in the lower half of its lane. */
static ALWAYS_INLINE __m512i spread_factors(const int16_t *ep, int n)
{
    return _mm512_and_si512(spread(ep, n), _mm512_set1_epi32(0xffff));
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

static ALWAYS_INLINE __m512i next_digit(__m512i v)
{
    return _mm512_add_epi8(v, _mm512_add_epi8(v, v));
}

/* The way from a byte to its digits. */
struct trits {
#if defined(__AVX512VBMI__)
    __m512i four[4], fifth[4]; /* by byte value: digits 0-3 in 2 bits each; digit 4 */
#else
    char nothing;
#endif
};

static ALWAYS_INLINE struct trits trits_make(void)
{
    struct trits t = {0};
#if defined(__AVX512VBMI__)
    static const uint8_t first[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                      8, 9, 10, 11, 12, 13, 14, 15};
    const __m512i lane = _mm512_setr_epi64(0, 0, 0x1010101010101010, 0x1010101010101010,
                                           0x2020202020202020, 0x2020202020202020,
                                           0x3030303030303030, 0x3030303030303030);
    for (int i = 0; i < 4; i++) {
        __m512i v = _mm512_add_epi8(_mm512_broadcast_i32x4(load128(first)), lane);
        v = _mm512_add_epi8(v, _mm512_set1_epi8((char)(64 * i)));
        t.four[i] = _mm512_setzero_si512();
        for (int k = 0; k < 4;
             k++, v = next_digit(v)) /* a digit has 2 bits: none cross */
            t.four[i] = _mm512_or_si512(
                t.four[i], _mm512_sll_epi16(top_digits(v), _mm_cvtsi32_si128(2 * k)));
        t.fifth[i] = top_digits(v);
    }
#endif
    return t;
}

#if defined(__AVX512VBMI__)
static ALWAYS_INLINE __m512i look_up(__m512i v, __mmask64 upper, const __m512i *table)
{
    return _mm512_mask_blend_epi8(upper,
                                  _mm512_permutex2var_epi8(table[0], v, table[1]),
                                  _mm512_permutex2var_epi8(table[2], v, table[3]));
}
#endif

/* Digits of v, number k to u[k * step]. */
static ALWAYS_INLINE void take_apart(__m512i *u, int step, __m512i v, bool fifth,
                                     const struct trits *t)
{
#if defined(__AVX512VBMI__)
    __mmask64 upper = _mm512_movepi8_mask(v);
    __m512i four = look_up(v, upper, t->four);
    if (fifth)
        u[4 * step] = look_up(v, upper, t->fifth);
    for (int k = 0; k < 4; k++) {
        u[k * step] = _mm512_and_si512(four, _mm512_set1_epi8(3));
        four = _mm512_srli_epi16(four, 2);
    }
#else
    (void)t;
    for (int k = 0; k < (fifth ? DIGITS : DIGITS - 1); k++, v = next_digit(v))
        u[k * step] = top_digits(v);
#endif
}

/* Where registers of bytes find their part of the activation: n bytes of each plane, for
 * as many rows as a register holds. */
struct part {
    const int8_t *p;
    const int16_t *ep;
    int64_t p_step, ep_step; /* to the next token */
    int n;
    bool fifth; /* the bytes have a fifth digit */
};

/* The same once each, for sums of quads that stand in words: packed_quads(). */
static ALWAYS_INLINE __m512i word_factors(const int16_t *ep, int n)
{
    const __m512i first = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13));

    return _mm512_shuffle_epi8(spread(ep, n), first);
}

/* Sums of quads of two registers as words: those of a, then those of b, in each 128-bit
 * lane. Four planes of codes up to 3 stay below 2^13. */
static ALWAYS_INLINE __m512i packed_quads(__m512i a, __m512i b)
{
    return _mm512_packs_epi32(a, b);
}

/* Of n_v registers of codes, plane k at u[k * n_v], times n_t tokens; n_v * n_t is at most
 * 16. Two registers share a product by factors, which adds neighbours too: sum[j * n_v / 2
 * + i] has, in each 128-bit lane, two sums of register 2 i and two of the next. A single
 * register's sums are lanes of their own. */
static ALWAYS_INLINE void dot_planes(__m512i *sum, const __m512i *u, int n_v,
                                     const struct part *a, int n_t)
{
    const int half = n_v > 1 ? n_v / 2 : 1;
    __m512i c[16];

    for (int i = 0; i < n_v * n_t; i++)
        c[i] = _mm512_setzero_si512();
    for (int k = 0; k < 4; k++) {
        __m512i q[MAX_TOKENS];
        for (int j = 0; j < n_t; j++)
            q[j] = spread(a->p + j * a->p_step + 32 * k, a->n);
        for (int i = 0; i < n_v; i++)
            for (int j = 0; j < n_t; j++)
                c[j * n_v + i] =
                    _mm512_dpbusd_epi32(c[j * n_v + i], u[k * n_v + i], q[j]);
    }
    for (int j = 0; j < n_t; j++) {
        const int16_t *ep = a->ep + j * a->ep_step;
        __m512i e = n_v > 1 ? word_factors(ep, a->n) : spread_factors(ep, a->n);
        for (int i = 0; i < half; i++) {
            const __m512i *v = c + j * n_v + 2 * i;
            sum[j * half + i] =
                _mm512_madd_epi16(n_v > 1 ? packed_quads(v[0], v[1]) : v[0], e);
        }
    }
    for (int j = 0; j < n_t && a->fifth; j++) {
        const int16_t *ep = a->ep + j * a->ep_step + 16;
        __m512i e = n_v > 1 ? word_factors(ep, a->n) : spread_factors(ep, a->n);
        __m512i p = spread(a->p + j * a->p_step + 128, a->n), f[4];
        for (int i = 0; i < n_v; i++)
            f[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), u[4 * n_v + i], p);
        for (int i = 0; i < half; i++)
            sum[j * half + i] = _mm512_dpwssd_epi32(
                sum[j * half + i],
                n_v > 1 ? packed_quads(f[2 * i], f[2 * i + 1]) : f[0], e);
    }
}

/* The sum of the digits of v times one token. */
static ALWAYS_INLINE __m512i dot_digits(__m512i v, const struct part *a,
                                        const struct trits *t)
{
    __m512i u[DIGITS], sum;

    take_apart(u, 1, v, a->fifth, t);
    dot_planes(&sum, u, 1, a, 1);
    return sum;
}

/* The same of two registers, as dot_planes() joins them. */
static ALWAYS_INLINE __m512i dot_two(__m512i v, __m512i w, const struct part *a,
                                     const struct trits *t)
{
    __m512i u[2 * DIGITS], sum;

    take_apart(u, 2, v, a->fifth, t);
    take_apart(u + 1, 2, w, a->fifth, t);
    dot_planes(&sum, u, 2, a, 1);
    return sum;
}

static ALWAYS_INLINE __m128i two_eights(const uint8_t *a, const uint8_t *b)
{
    int64_t lo, hi;

    memcpy(&lo, a, sizeof lo);
    memcpy(&hi, b, sizeof hi);
    return _mm_set_epi64x(hi, lo);
}

/* Bytes at.. of rows i and i + 1 of each four, eight of each. */
static ALWAYS_INLINE __m512i eight_bytes(const struct pair_rows *s, int i, int64_t at)
{
    __m512i v = _mm512_castsi128_si512(two_eights(s->a[i] + at, s->a[i + 1] + at));

    v = _mm512_inserti32x4(v, two_eights(s->b[i] + at, s->b[i + 1] + at), 1);
    v = _mm512_inserti32x4(v, two_eights(s->a[i + 4] + at, s->a[i + 5] + at), 2);
    return _mm512_inserti32x4(v, two_eights(s->b[i + 4] + at, s->b[i + 5] + at), 3);
}

static ALWAYS_INLINE int32_t word_at(const uint8_t *p)
{
    int32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static ALWAYS_INLINE __m128i four_words(const uint8_t *const *row, int64_t at)
{
    return _mm_setr_epi32(word_at(row[0] + at), word_at(row[1] + at),
                          word_at(row[2] + at), word_at(row[3] + at));
}

/* Bytes at.. of all rows, four of each. */
static ALWAYS_INLINE __m512i all_rows(const struct pair_rows *s, int64_t at)
{
    __m512i v = _mm512_castsi128_si512(four_words(s->a, at));

    v = _mm512_inserti32x4(v, four_words(s->b, at), 1);
    v = _mm512_inserti32x4(v, four_words(s->a + 4, at), 2);
    return _mm512_inserti32x4(v, four_words(s->b + 4, at), 3);
}

/* Neighbours added, of a and b in turn in each 128-bit lane. */
static ALWAYS_INLINE __m512i add_neighbours(__m512i a, __m512i b)
{
    __m512 fa = _mm512_castsi512_ps(a), fb = _mm512_castsi512_ps(b);

    return _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(fa, fb, 0x88)),
                            _mm512_castps_si512(_mm512_shuffle_ps(fa, fb, 0xdd)));
}

/* Both halves' lanes of eight pairs' sums added, in the order of the rows; a and b are
 * lane sums of pairs 0-3 and 4-7. */
static ALWAYS_INLINE __m512i join_pairs(__m512i a, __m512i b)
{
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88),
                            _mm512_shuffle_i32x4(a, b, 0xdd));
}

struct parts {
    struct part wide, mid, last;
};

/* PTQ1_0: 16 bytes of five digits, 8 of five, 2 of four, and the scale. Four rows fill a
 * register with their first bytes, eight with the next, all with the last. */
static ALWAYS_INLINE struct parts parts_ptq1_0(const struct kq_act *x, int64_t t)
{
    int64_t p_step = kq_p_step(KQ_TRITS128, x->n),
            ep_step = kq_ep_step(KQ_TRITS128, x->n);
    const int8_t *p = x->p + t * p_step;
    const int16_t *ep = x->ep + t * ep_step;

    return (struct parts){{p, ep, p_step, ep_step, 16, true},
                          {p + 16, ep + 8, p_step, ep_step, 8, true},
                          {p + 24, ep + 12, p_step, ep_step, 4, false}};
}

/* TQ1_0: 32 bytes of five digits, 16 of five, 4 of four, and the scale. */
static ALWAYS_INLINE struct parts parts_tq1_0(const struct kq_act *x, int64_t t)
{
    int64_t p_step = kq_p_step(KQ_TRITS256, x->n),
            ep_step = kq_ep_step(KQ_TRITS256, x->n);
    const int8_t *p = x->p + t * p_step;
    const int16_t *ep = x->ep + t * ep_step;

    return (struct parts){{p, ep, p_step, ep_step, 32, true},
                          {p + 160, ep + 32, p_step, ep_step, 16, true},
                          {p + 176, ep + 40, p_step, ep_step, 4, false}};
}

/* Forward by n_p bytes and n_ep factors: to the next block, or to another token. */
static ALWAYS_INLINE void parts_move(struct parts *a, int64_t n_p, int64_t n_ep)
{
    a->wide.p += n_p;
    a->wide.ep += n_ep;
    a->mid.p += n_p;
    a->mid.ep += n_ep;
    a->last.p += n_p;
    a->last.ep += n_ep;
}

/* The scales in the upper halves of 32-bit lanes. */
static ALWAYS_INLINE __m512 upper_halves(__m512i v)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(v, 16)));
}

static ALWAYS_INLINE void one_ptq1_0(float *y, const struct pair_rows *s,
                                     const struct kq_act *x, int64_t t, int64_t n_rows)
{
    const struct trits tr = trits_make();
    struct parts a = parts_ptq1_0(x, t);
    __m512 acc = _mm512_setzero_ps();

    for (int64_t b = 0; b < x->n / 128; b++, parts_move(&a, 160, 32)) {
        int64_t at = 28 * b;
        __m512i wide[2], v = all_rows(s, at + 24);
        prefetch_next(s, at, 28);
        for (int i = 0; i < 2; i++)
            wide[i] = dot_two(quad_bytes(s, 2 * i, at), quad_bytes(s, 2 * i + 1, at),
                              &a.wide, &tr);
        __m512i all = dot_two(eight_bytes(s, 0, at + 16), eight_bytes(s, 2, at + 16),
                              &a.mid, &tr);
        all = _mm512_add_epi32(all, add_neighbours(wide[0], wide[1]));
        all = _mm512_add_epi32(all, dot_digits(v, &a.last, &tr));
        acc = add_block(acc, upper_halves(v), all, act_sum(x, t, 8 * b, 8));
    }
    store_rows16(y, acc, x->d[t], n_rows);
}

static ALWAYS_INLINE void one_tq1_0(float *y, const struct pair_rows *s,
                                    const struct kq_act *x, int64_t t, int64_t n_rows)
{
    const struct trits tr = trits_make();
    struct parts a = parts_tq1_0(x, t);
    __m512 acc = _mm512_setzero_ps();

    for (int64_t b = 0; b < x->n / 256; b++, parts_move(&a, 320, 64)) {
        int64_t at = 54 * b;
        __m512i wide[PAIRS / 2], mid[2];
        prefetch_next(s, at, 54);
        for (int i = 0; i < PAIRS / 2; i++)
            wide[i] = dot_two(pair_bytes(s, 2 * i, at), pair_bytes(s, 2 * i + 1, at),
                              &a.wide, &tr);
        for (int i = 0; i < 2; i++)
            mid[i] = dot_two(quad_bytes(s, 2 * i, at + 32),
                             quad_bytes(s, 2 * i + 1, at + 32), &a.mid, &tr);
        __m512i all = dot_digits(all_rows(s, at + 48), &a.last, &tr);
        all = _mm512_add_epi32(all, add_neighbours(mid[0], mid[1]));
        all = _mm512_add_epi32(all, join_pairs(add_neighbours(wide[0], wide[1]),
                                               add_neighbours(wide[2], wide[3])));
        acc = add_block(acc, row_halves(s, at + 52), all, act_sum(x, t, 16 * b, 16));
    }
    store_rows16(y, acc, x->d[t], n_rows);
}

#endif

/*
 * quad512.h - packed rows of words of four codes (tensor/quad.h) in 512-bit registers.
 *
 * The one text behind quad_avx512vnni.c and quad_avx512vbmi.c. As quad256.h, with sixteen
 * rows, two in a register. VBMI looks all 64 words up with one vpermb, which does not read
 * the high two bits of an index.
 */
#ifndef KERNEL_X86_QUAD512_H
#define KERNEL_X86_QUAD512_H

#include "kernel/x86/lines512.h"
#include "tensor/log8.h"
#include "tensor/quad.h"

enum { C128_BYTES = 25, C64_BYTES = 13 };

static ALWAYS_INLINE int64_t eight_at(const uint8_t *p)
{
    int64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* The values of all words and 85: 2-bit codes. Without VBMI the second half is unused. */
static ALWAYS_INLINE __m512i words_table(void)
{
    return _mm512_add_epi8(_mm512_loadu_si512(quad_value), _mm512_set1_epi8(85));
}

/* Bytes of four 2-bit codes, from the low four bits of indices in low and their high two
 * in bits 4 and 5 of high; other bits are anything. */
static ALWAYS_INLINE __m512i words_of(__m512i low, __m512i high, __m512i table)
{
    const __m512i fifteen = _mm512_set1_epi8(15);
#if defined(__AVX512VBMI__)
    /* fifteen ? low : high */
    __m512i index = _mm512_ternarylogic_epi64(fifteen, low, high, 0xca);
    return _mm512_permutexvar_epi8(index, table);
#else
    __mmask64 upper = _mm512_test_epi8_mask(high, _mm512_set1_epi8(16));
    __mmask64 minus = _mm512_test_epi8_mask(high, _mm512_set1_epi8(32));
    __m512i first = _mm512_shuffle_i32x4(table, table, 0x00);
    __m512i second = _mm512_shuffle_i32x4(table, table, 0x55);
    low = _mm512_and_si512(low, fifteen);
    __m512i v =
        _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(first, low), upper, second, low);
    /* Number 32 is the opposite of none. */
    __mmask64 last = _mm512_mask_testn_epi8_mask(minus & ~upper, low, low);
    v = _mm512_mask_sub_epi8(v, minus, _mm512_set1_epi8((char)170), v);
    return _mm512_mask_mov_epi8(v, last, _mm512_set1_epi8(85 - 84));
#endif
}

/* The words of blocks of 128 of both rows of pair j. */
static ALWAYS_INLINE __m512i pair_words_128(const struct pair_rows *s, int j,
                                            int64_t at, __m512i table)
{
    const uint8_t *a = s->a[j] + at, *b = s->b[j] + at;
    __m512i low = two_halves(_mm256_broadcastsi128_si256(load128(a)),
                             _mm256_broadcastsi128_si256(load128(b)));
    __m512i high = two_halves(_mm256_set1_epi64x(eight_at(a + 16)),
                              _mm256_set1_epi64x(eight_at(b + 16)));

    return words_of(
        _mm512_srlv_epi64(low, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4)),
        _mm512_rolv_epi64(high, _mm512_setr_epi64(4, 2, 0, 62, 4, 2, 0, 62)), table);
}

/* Eight bytes of two blocks, each twice; four bytes of two blocks, each four times. */
static ALWAYS_INLINE __m256i eights_64(const uint8_t *a, const uint8_t *b)
{
    return _mm256_blend_epi32(_mm256_set1_epi64x(eight_at(a)),
                              _mm256_set1_epi64x(eight_at(b)), 0xf0);
}

static ALWAYS_INLINE __m256i fours_64(const uint8_t *a, const uint8_t *b)
{
    return _mm256_blend_epi32(_mm256_set1_epi32(word_at(a)),
                              _mm256_set1_epi32(word_at(b)), 0xf0);
}

/* The words of two blocks of 64 of both rows of pair j, or of one block twice. */
static ALWAYS_INLINE __m512i pair_words_64(const struct pair_rows *s, int j, int64_t at,
                                           bool both, __m512i table)
{
    const __m512i turn =
        _mm512_broadcast_i32x4(_mm_setr_epi32(4, 2, 0, 30)); /* 30: 2 to the right */
    const uint8_t *a = s->a[j] + at, *b = s->b[j] + at;
    int64_t next = both ? C64_BYTES : 0;
    __m512i low = two_halves(eights_64(a, a + next), eights_64(b, b + next));
    __m512i high =
        two_halves(fours_64(a + 8, a + next + 8), fours_64(b + 8, b + next + 8));

    return words_of(_mm512_srlv_epi64(low, _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4)),
                    _mm512_rolv_epi32(high, turn), table);
}

/* The scales (tensor/log8.h) in the last bytes of dwords. */
static ALWAYS_INLINE __m512 log_scales(__m512i v)
{
    const __m512i fractions = same_halves(load256(log8_fraction));
    __m512i q = _mm512_srli_epi32(v, 24);
    __m512i step = _mm512_sub_epi32(q, _mm512_set1_epi32(1));
    __m512i octave =
        _mm512_add_epi32(_mm512_srli_epi32(step, 3), _mm512_set1_epi32(127 - 24));
    __m512i bits = _mm512_or_si512(_mm512_slli_epi32(octave, 23),
                                   _mm512_permutexvar_epi32(step, fractions));

    return _mm512_castsi512_ps(
        _mm512_maskz_mov_epi32(_mm512_test_epi32_mask(q, q), bits));
}

/* The 2-bit codes of v times the four planes q. */
static ALWAYS_INLINE __m512i dot_words(__m512i v, const __m512i *q)
{
    const __m512i three = _mm512_set1_epi8(3); /* drops what shifts across bytes */
    __m512i c = _mm512_setzero_si512();

    for (int k = 0; k < 4; k++) {
        c = _mm512_dpbusd_epi32(c, _mm512_and_si512(v, three), q[k]);
        v = _mm512_srli_epi16(v, 2);
    }
    return c;
}

/* Four dwords of 2-bit codes of each row to groups from i on. */
static ALWAYS_INLINE void put_four(struct sink *k, const int few, int i,
                                   const __m512i *v)
{
    put_2bits(k, few, i, v[0], false);
    put_2bits(k, few, i + 1, v[1], false);
    put_2bits(k, few, i + 2, v[2], false);
    put_2bits(k, few, i + 3, v[3], false);
}

/* ---- blocks of 128 ---- */

static ALWAYS_INLINE void one_c128(float *y, const struct pair_rows *s,
                                   const struct kq_act *x, int64_t t, int64_t n_rows)
{
    const __m512i table = words_table();
    const int8_t *p = x->p + t * x->n;
    const int16_t *ep = x->ep + t * x->n / 8;
    __m512 acc = _mm512_setzero_ps();

    for (int64_t b = 0; b < x->n / 128; b++, p += 128, ep += 16) {
        int64_t at = C128_BYTES * b;
        __m512i e = spread_factors(ep, 32), q[4], sum[PAIRS];
        prefetch_next(s, at, C128_BYTES);
        for (int k = 0; k < 4; k++)
            q[k] = spread(p + 32 * k, 32);
        for (int i = 0; i < PAIRS; i++)
            sum[i] =
                _mm512_madd_epi16(dot_words(pair_words_128(s, i, at, table), q), e);
        acc = add_block(acc, log_scales(all_rows(s, at + C128_BYTES - 4)),
                        join_pairs(lane_sums(sum), lane_sums(sum + 4)),
                        act_sum(x, t, 8 * b, 8));
    }
    store_rows16(y, acc, x->d[t], n_rows);
}

static ALWAYS_INLINE void take_c128(struct sink *k, const int few,
                                    const struct line_source *s, int64_t r, int64_t g,
                                    int n_g)
{
    const __m512i table = words_table();
    struct pair_rows p;

    pair_rows_at(&p, s->w, s->bytes, r, s->rows);
    for (int64_t b = g / 8; b < (g + n_g) / 8; b++) {
        int64_t at = C128_BYTES * b;
        __m512i pair[PAIRS], v[8];
        prefetch_next(&p, at, C128_BYTES);
        for (int j = 0; j < PAIRS; j++)
            pair[j] = pair_words_128(&p, j, at, table);
        turn_pairs(v, pair);
        put_four(k, few, 0, v);
        put_four(k, few, 4, v + 4);
        end_block(k, few, log_scales(all_rows(&p, at + C128_BYTES - 4)));
        end_unit(k, few, 8);
    }
}

/* ---- blocks of 64, two side by side ---- */

/* 32 bytes for each row, or 16 and zeros. */
static ALWAYS_INLINE __m512i whole_or_half(const void *p, bool whole)
{
    return same_halves(
        whole ? load256(p)
              : _mm256_inserti128_si256(_mm256_setzero_si256(), load128(p), 0));
}

/* Scales of the two blocks from column c on; the second may be missing at the end of a
 * row: its part of the activation is zeros then. */
struct two_blocks_64 {
    __m512 scale[2];
    int64_t c;
    bool both;
};

static ALWAYS_INLINE void scales_64(struct two_blocks_64 *w, const struct pair_rows *s,
                                    int64_t at)
{
    w->scale[0] = log_scales(all_rows(s, at + C64_BYTES - 4));
    if (w->both)
        w->scale[1] = log_scales(all_rows(s, at + 2 * C64_BYTES - 4));
}

static ALWAYS_INLINE __m512 add_two(__m512 acc, const struct two_blocks_64 *w,
                                    __m512i lo, __m512i hi, const struct kq_act *x,
                                    int64_t t)
{
    acc = add_block(acc, w->scale[0], lo, act_sum(x, t, w->c / 16, 4));
    if (w->both)
        acc = add_block(acc, w->scale[1], hi, act_sum(x, t, w->c / 16 + 4, 4));
    return acc;
}

/* The words v of all pairs times one token. */
static ALWAYS_INLINE __m512 add_words_64(__m512 acc, const __m512i *v,
                                         const struct two_blocks_64 *w,
                                         const struct kq_act *x, int64_t t)
{
    const int8_t *p = x->p + t * x->n + w->c;
    const __m512i words = _mm512_set1_epi32(0xffff);
    __m512i q[4], sum[PAIRS], lo, hi;
    __m512i e = whole_or_half(x->ep + (t * x->n + w->c) / 8, w->both);

    e = _mm512_and_si512(e, words);
    for (int k = 0; k < 4; k++)
        q[k] = whole_or_half(p + (w->both ? 32 : 16) * k, w->both);
    for (int i = 0; i < PAIRS; i++)
        sum[i] = _mm512_madd_epi16(dot_words(v[i], q), e);
    row_sums(&lo, &hi, sum);
    return add_two(acc, w, lo, hi, x, t);
}

static ALWAYS_INLINE void one_c64(float *y, const struct pair_rows *s,
                                  const struct kq_act *x, int64_t t, int64_t n_rows)
{
    const __m512i table = words_table();
    __m512 acc = _mm512_setzero_ps();

    for (int64_t c = 0; c < x->n; c += 128) {
        struct two_blocks_64 w = {.c = c, .both = c + 64 < x->n};
        int64_t at = c / 64 * C64_BYTES;
        __m512i v[PAIRS];
        prefetch_next(s, at, 2 * C64_BYTES);
        for (int i = 0; i < PAIRS; i++)
            v[i] = pair_words_64(s, i, at, w.both, table);
        scales_64(&w, s, at);
        acc = add_words_64(acc, v, &w, x, t);
    }
    store_rows16(y, acc, x->d[t], n_rows);
}

static ALWAYS_INLINE void take_c64(struct sink *k, const int few,
                                   const struct line_source *s, int64_t r, int64_t g,
                                   int n_g)
{
    const __m512i table = words_table();
    struct pair_rows p;
    int64_t at = g / 4 * C64_BYTES;

    pair_rows_at(&p, s->w, s->bytes, r, s->rows);
    for (int i = 0; i < n_g; i += 8, at += 2 * (int64_t)C64_BYTES) {
        bool both = i + 4 < n_g;
        __m512i pair[PAIRS], v[8];
        prefetch_next(&p, at, 2 * (int64_t)C64_BYTES);
        for (int j = 0; j < PAIRS; j++)
            pair[j] = pair_words_64(&p, j, at, both, table);
        turn_pairs(v, pair);
        put_four(k, few, 0, v);
        end_block(k, few, log_scales(all_rows(&p, at + C64_BYTES - 4)));
        if (both) {
            put_four(k, few, 4, v + 4);
            end_block(k, few,
                      log_scales(all_rows(&p, at + 2 * (int64_t)C64_BYTES - 4)));
        }
        end_unit(k, few, both ? 8 : 4);
    }
}

#endif

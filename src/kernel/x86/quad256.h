/*
 * quad256.h - rows of words of four codes (tensor/quad.h) in 256-bit registers.
 *
 * An index becomes the byte that PQ2_0 keeps for the same four codes; from there on the way
 * is that of 2-bit codes, in the same order of activations. 32 words are taken apart at
 * once: the low four bits look the value of the class up, bit 4 chooses between two tables,
 * bit 5 turns the sign. vpsignb gives 0 where its second operand is 0, and the index is 0
 * for the zero word alone: so the table may keep at class 0 what index 32 is the opposite
 * of.
 */
#ifndef KERNEL_X86_QUAD256_H
#define KERNEL_X86_QUAD256_H

#include "kernel/x86/lines256.h"

enum { C128_BYTES = 25, C64_BYTES = 13 };

static ALWAYS_INLINE int64_t eight_at(const uint8_t *p)
{
    int64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* Bytes of four 2-bit codes, from the low four bits of indices in low and their high two
 * at the top of the bytes of high; other bits are anything. */
static ALWAYS_INLINE __m256i words_of(__m256i low, __m256i high)
{
    const __m256i first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(84, 81, 80, 79, 76, 69, 68, 67, 65, 64, 63, 61, 60, 59, 52, 49));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(48, 47, 44, 21, 20, 19, 17, 16, 15, 13, 12, 11, 5, 4, 3, 1));

    low = _mm256_and_si256(low, _mm256_set1_epi8(15));
    high = _mm256_and_si256(high, _mm256_set1_epi8((char)0xc0));
    __m256i index = _mm256_or_si256(low, high);
    __m256i value = _mm256_blendv_epi8(_mm256_shuffle_epi8(first, low),
                                       _mm256_shuffle_epi8(second, low),
                                       _mm256_add_epi8(index, index));
    return _mm256_add_epi8(_mm256_sign_epi8(value, index), _mm256_set1_epi8(85));
}

/* The words of a block of 128. */
static ALWAYS_INLINE __m256i words_128(const uint8_t *p)
{
    __m256i low = _mm256_broadcastsi128_si256(load128(p));
    __m256i high = _mm256_set1_epi64x(eight_at(p + 16));

    return words_of(_mm256_srlv_epi64(low, _mm256_setr_epi64x(0, 0, 4, 4)),
                    _mm256_sllv_epi64(high, _mm256_setr_epi64x(6, 4, 2, 0)));
}

/* The words of two blocks of 64. */
static ALWAYS_INLINE __m256i words_64(const uint8_t *a, const uint8_t *b)
{
    __m256i low = _mm256_blend_epi32(_mm256_set1_epi64x(eight_at(a)),
                                     _mm256_set1_epi64x(eight_at(b)), 0xf0);
    __m256i high = _mm256_blend_epi32(_mm256_set1_epi32(word_at(a + 8)),
                                      _mm256_set1_epi32(word_at(b + 8)), 0xf0);

    return words_of(_mm256_srlv_epi64(low, _mm256_setr_epi64x(0, 4, 0, 4)),
                    _mm256_sllv_epi32(high, _mm256_setr_epi32(6, 4, 2, 0, 6, 4, 2, 0)));
}

/* The scales in the last bytes of dwords. */
static ALWAYS_INLINE __m256 log_scales(__m256i v)
{
    return scales_log8(_mm256_srli_epi32(v, 24));
}

/* The 2-bit codes of v times the four planes q. */
static ALWAYS_INLINE __m256i dot_words(__m256i v, const __m256i *q)
{
    const __m256i three = _mm256_set1_epi8(3);
    __m256i c = chain_start(_mm256_and_si256(v, three), q[0]);

    for (int k = 1; k < 4; k++) {
        v = _mm256_srli_epi16(v, 2);
        c = chain(c, _mm256_and_si256(v, three), q[k]);
    }
    return c;
}

/* ---- blocks of 128 ---- */

static ALWAYS_INLINE void one_c128(float *y, const struct row_set *s,
                                   const struct kq_act *x, int64_t t, int64_t n_rows)
{
    const int8_t *p = x->p + t * x->n;
    const int16_t *ep = x->ep + t * x->n / 8;
    __m256 acc = _mm256_setzero_ps();

    for (int64_t b = 0; b < x->n / 128; b++, p += 128, ep += 16) {
        int64_t at = C128_BYTES * b;
        __m256i sum[ROWS], q[4];
        prefetch_next(s, at, C128_BYTES);
        for (int k = 0; k < 4; k++)
            q[k] = load256(p + 32 * k);
        for (int i = 0; i < ROWS; i++)
            sum[i] = chain_end(dot_words(words_128(s->row[i] + at), q), load256(ep));
        acc = add_block(acc, log_scales(all_rows(s, at + C128_BYTES - 4)),
                        sum_each(sum), act_sum(x, t, 8 * b, 8));
    }
    store_rows(y, acc, x->d[t], n_rows);
}

/* ---- blocks of 64, two side by side ---- */

/* 32 bytes, or 16 and zeros. */
static ALWAYS_INLINE __m256i whole_or_half(const void *p, bool whole)
{
    return whole ? load256(p)
                 : _mm256_inserti128_si256(_mm256_setzero_si256(), load128(p), 0);
}

/* Scales and activation of the two blocks from column c on; the second may be missing at
 * the end of a row: its part is zeros then. */
struct two_blocks_64 {
    __m256 scale[2];
    int64_t c;
    bool both;
};

static ALWAYS_INLINE void scales_64(struct two_blocks_64 *w, const struct row_set *s,
                                    int64_t at)
{
    w->scale[0] = log_scales(all_rows(s, at + C64_BYTES - 4));
    if (w->both)
        w->scale[1] = log_scales(all_rows(s, at + 2 * C64_BYTES - 4));
}

/* acc += both blocks' sums: lo of the first, hi of the second. */
static ALWAYS_INLINE __m256 add_two(__m256 acc, const struct two_blocks_64 *w,
                                    __m256i lo, __m256i hi, const struct kq_act *x,
                                    int64_t t)
{
    acc = add_block(acc, w->scale[0], lo, act_sum(x, t, w->c / 16, 4));
    if (w->both)
        acc = add_block(acc, w->scale[1], hi, act_sum(x, t, w->c / 16 + 4, 4));
    return acc;
}

static ALWAYS_INLINE __m256i row_words_64(const struct row_set *s, int i, int64_t at,
                                          bool both)
{
    const uint8_t *p = s->row[i] + at;

    return words_64(p, both ? p + C64_BYTES : p);
}

static ALWAYS_INLINE void one_c64(float *y, const struct row_set *s,
                                  const struct kq_act *x, int64_t t, int64_t n_rows)
{
    const int8_t *p = x->p + t * x->n;
    const int16_t *ep = x->ep + t * x->n / 8;
    __m256 acc = _mm256_setzero_ps();

    for (int64_t c = 0; c < x->n; c += 128) {
        struct two_blocks_64 w = {.c = c, .both = c + 64 < x->n};
        int64_t plane = w.both ? 32 : 16, at = c / 64 * C64_BYTES;
        __m256i q[4], sum[ROWS], lo, hi, e = whole_or_half(ep + c / 8, w.both);
        prefetch_next(s, at, 2 * C64_BYTES);
        for (int k = 0; k < 4; k++)
            q[k] = whole_or_half(p + c + plane * k, w.both);
        for (int i = 0; i < ROWS; i++)
            sum[i] = chain_end(dot_words(row_words_64(s, i, at, w.both), q), e);
        sum_halves(&lo, &hi, sum);
        scales_64(&w, s, at);
        acc = add_two(acc, &w, lo, hi, x, t);
    }
    store_rows(y, acc, x->d[t], n_rows);
}

/* ---- several tokens ---- */

/* n bytes of 2-bit codes of each row, a multiple of 16, to groups g.. */
static ALWAYS_INLINE void take_words(struct lines *m, int g, int h, uint8_t (*byte)[32],
                                     int n)
{
    const uint8_t *row[ROWS];

    for (int i = 0; i < ROWS; i++)
        row[i] = byte[i];
    for (int i = 0; i < n; i += 16) {
        __m256i v[4];
        weave8(v, row, i);
        take_2bit_dwords(m, g + i / 4, h, v, false);
    }
}

static ALWAYS_INLINE void take_c128(struct lines *m, const struct line_source *s,
                                    int64_t r)
{
    struct row_set half[HALVES];

    halves_at(half, s, r, m->g / 8 * C128_BYTES, m->n_g / 8 * C128_BYTES);
    for (int g = 0; g < m->n_g; g += 8)
        for (int h = 0; h < HALVES; h++) {
            int64_t at = (m->g + g) / 8 * C128_BYTES;
            uint8_t byte[ROWS][32];
            for (int i = 0; i < ROWS; i++)
                store256(byte[i], words_128(half[h].row[i] + at));
            take_words(m, g, h, byte, 32);
            m->scale[g / 8][h] = log_scales(all_rows(&half[h], at + C128_BYTES - 4));
        }
}

/* Blocks in twos; the last of a row may be alone. */
static ALWAYS_INLINE void take_c64(struct lines *m, const struct line_source *s,
                                   int64_t r)
{
    struct row_set half[HALVES];

    halves_at(half, s, r, m->g / 4 * C64_BYTES, m->n_g / 4 * C64_BYTES);
    for (int g = 0; g < m->n_g; g += 8)
        for (int h = 0; h < HALVES; h++) {
            int64_t at = (m->g + g) / 4 * C64_BYTES;
            bool both = g + 4 < m->n_g;
            uint8_t byte[ROWS][32];
            for (int i = 0; i < ROWS; i++)
                store256(byte[i], row_words_64(&half[h], i, at, both));
            take_words(m, g, h, byte, both ? 32 : 16);
            for (int b = 0; b < (both ? 2 : 1); b++)
                m->scale[g / 4 + b][h] = log_scales(
                    all_rows(&half[h], at + (b + 1) * (int64_t)C64_BYTES - 4));
        }
}

#endif

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
#include "kernel/x86/avx2.h"

#include <string.h>

enum { ROWS = 8, DIGITS = 5, LINE = 64 };

/* Rows r.. of a matrix; rows beyond the last are the last. */
struct row_set {
    const uint8_t *row[ROWS];
    uint64_t ahead; /* bytes from a row to the one that has its place in the next set */
};

static ALWAYS_INLINE void rows_at(struct row_set *s, const uint8_t *w,
                                  uint64_t row_bytes, int64_t r, int64_t rows)
{
    for (int i = 0; i < ROWS; i++)
        s->row[i] = w + (uint64_t)(r + i < rows ? r + i : rows - 1) * row_bytes;
    s->ahead = ROWS * row_bytes;
}

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

static ALWAYS_INLINE short half_at(const uint8_t *p)
{
    short h;

    memcpy(&h, p, sizeof h);
    return h;
}

/* The FP16 scales at byte `at` of eight rows. */
static ALWAYS_INLINE __m256 eight_scales(const struct row_set *s, int64_t at)
{
    return _mm256_cvtph_ps(_mm_setr_epi16(
        half_at(s->row[0] + at), half_at(s->row[1] + at), half_at(s->row[2] + at),
        half_at(s->row[3] + at), half_at(s->row[4] + at), half_at(s->row[5] + at),
        half_at(s->row[6] + at), half_at(s->row[7] + at)));
}

/* acc += scale * (float)(sums - lows). */
static ALWAYS_INLINE __m256 add_block(__m256 acc, __m256 scale, __m256i sums,
                                      int32_t lows)
{
    sums = _mm256_sub_epi32(sums, _mm256_set1_epi32(lows));
    return _mm256_add_ps(acc, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums)));
}

static ALWAYS_INLINE void store_rows(float *y, __m256 acc, float d, int64_t n)
{
    acc = _mm256_mul_ps(_mm256_set1_ps(d), acc);
    if (n >= ROWS)
        _mm256_storeu_ps(y, acc);
    else
        _mm256_maskstore_ps(y, first_lanes(n), acc);
}

/* A chain of products u * q of unsigned and signed bytes, joined over four neighbours and
 * over the calls with c. A chain holds at most 5 * 2 * 3 * 127 a pair. */
static ALWAYS_INLINE __m256i chain_start(__m256i u, __m256i q)
{
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), u, q);
#else
    return _mm256_maddubs_epi16(u, q);
#endif
}

static ALWAYS_INLINE __m256i chain(__m256i c, __m256i u, __m256i q)
{
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(c, u, q);
#else
    c = _mm256_add_epi16(c, _mm256_maddubs_epi16(u, q));
    /* Keeps the sums in this order: as a tree they would need registers that are not there,
     * and gcc makes it one. */
    __asm__("" : "+x"(c));
    return c;
#endif
}

/* The chain times its groups' factors, which stand twice in each lane of e. The sum of a
 * quad fits the lower half of its lane. */
static ALWAYS_INLINE __m256i chain_end(__m256i c, __m256i e)
{
#if defined(__AVXVNNI__)
    return _mm256_madd_epi16(c, _mm256_and_si256(e, _mm256_set1_epi32(0xffff)));
#else
    return _mm256_madd_epi16(c, e);
#endif
}

/* n bytes (4, 8, 16 or 32) at p, as often as a register holds them. */
static ALWAYS_INLINE __m256i spread(const void *p, int n)
{
    int64_t q = 0;

    if (n == 32)
        return load256(p);
    if (n == 16)
        return _mm256_broadcastsi128_si256(load128(p));
    memcpy(&q, p, (size_t)n);
    return n == 8 ? _mm256_set1_epi64x(q) : _mm256_set1_epi32((int32_t)q);
}

/* A constant that the compiler does not see through: it would turn "greater than -43" into
 * "min, then equal -42", an instruction more. */
static ALWAYS_INLINE __m256i plain_bytes(int c)
{
    __m256i v = _mm256_set1_epi8((char)c);

    __asm__("" : "+x"(v));
    return v;
}

/* The thresholds of a base-3 digit in bytes biased by -128. */
struct thirds {
    __m256i lo, hi;
};

static ALWAYS_INLINE struct thirds thirds_make(void)
{
    return (struct thirds){plain_bytes(-43), plain_bytes(42)};
}

/* The top digits: [x > -43] + [x > 42]. */
static ALWAYS_INLINE __m256i top_digits(__m256i x, struct thirds th)
{
    __m256i a = _mm256_cmpgt_epi8(x, th.lo), b = _mm256_cmpgt_epi8(x, th.hi);

    return _mm256_sub_epi8(_mm256_sub_epi8(_mm256_setzero_si256(), a), b);
}

/* Where registers of bytes find their part of the activation: n bytes of each plane, for
 * as many rows as a register holds. */
struct part {
    const int8_t *p;
    const int16_t *ep;
    int n;
    bool fifth; /* the bytes have a fifth digit */
};

/* Digits of v, the top one first. The bias of the bytes survives the step to the next
 * digit: 3 (w - 128) = 3 w - 128 modulo 256. */
static ALWAYS_INLINE void take_apart(__m256i *u, __m256i v, bool fifth,
                                     struct thirds th)
{
    v = _mm256_xor_si256(v, _mm256_set1_epi8(-128));
    for (int k = 0; k < (fifth ? DIGITS : DIGITS - 1); k++) {
        u[k] = top_digits(v, th);
        v = _mm256_add_epi8(v, _mm256_add_epi8(v, v));
    }
}

/* The sum of the digits of v times one token. */
static ALWAYS_INLINE __m256i dot_digits(__m256i v, const struct part *a,
                                        struct thirds th)
{
    __m256i u[DIGITS], c, sum;

    take_apart(u, v, a->fifth, th);
    c = chain_start(u[0], spread(a->p, a->n));
    for (int k = 1; k < 4; k++)
        c = chain(c, u[k], spread(a->p + 32 * k, a->n));
    sum = chain_end(c, spread(a->ep, a->n));
    if (a->fifth) {
        c = chain_start(u[4], spread(a->p + 128, a->n));
        sum = _mm256_add_epi32(sum, chain_end(c, spread(a->ep + 16, a->n)));
    }
    return sum;
}

/* Bytes at.. of rows i and i + 4, 16 of each. */
static ALWAYS_INLINE __m256i two_rows(const struct row_set *s, int i, int64_t at)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(s->row[i] + at)),
                                   load128(s->row[i + 4] + at), 1);
}

static ALWAYS_INLINE __m128i two_eights(const uint8_t *a, const uint8_t *b)
{
    int64_t lo, hi;

    memcpy(&lo, a, sizeof lo);
    memcpy(&hi, b, sizeof hi);
    return _mm_set_epi64x(hi, lo);
}

/* Bytes at.. of rows i, i + 1, i + 4, i + 5, eight of each. */
static ALWAYS_INLINE __m256i four_rows(const struct row_set *s, int i, int64_t at)
{
    return _mm256_set_m128i(two_eights(s->row[i + 4] + at, s->row[i + 5] + at),
                            two_eights(s->row[i] + at, s->row[i + 1] + at));
}

static ALWAYS_INLINE int32_t word_at(const uint8_t *p)
{
    int32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* Bytes at.. of all rows, four of each. */
static ALWAYS_INLINE __m256i all_rows(const struct row_set *s, int64_t at)
{
    return _mm256_setr_epi32(word_at(s->row[0] + at), word_at(s->row[1] + at),
                             word_at(s->row[2] + at), word_at(s->row[3] + at),
                             word_at(s->row[4] + at), word_at(s->row[5] + at),
                             word_at(s->row[6] + at), word_at(s->row[7] + at));
}

/* Sums of rows i and i + 4, four lanes each, in sum[i], to one lane for each row. */
static ALWAYS_INLINE __m256i join_pairs(const __m256i *sum)
{
    return _mm256_hadd_epi32(_mm256_hadd_epi32(sum[0], sum[1]),
                             _mm256_hadd_epi32(sum[2], sum[3]));
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
        acc = add_block(acc, eight_scales(s, at + 52), all, act_sum(x, t, 16 * b, 16));
    }
    store_rows(y, acc, x->d[t], n_rows);
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
    return w->scale == NO_SCALE ? _mm256_set1_ps(1.0f) : eight_scales(s, at + w->scale);
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

typedef void trits_one(float *y, const struct row_set *s, const struct kq_act *x,
                       int64_t t, int64_t n_rows);

#endif

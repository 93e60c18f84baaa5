/*
 * chain256.h - digits of packed rows and their chained products, in 256-bit registers.
 *
 * AVX2 chains pairs in 16 bits (vpmaddubsw, vpaddw), AVX-VNNI quads in 32 (vpdpbusd); the
 * sums are the same. ternary256.h and what builds on it say which bytes meet.
 */
#ifndef KERNEL_X86_CHAIN256_H
#define KERNEL_X86_CHAIN256_H

#include "kernel/x86/rows_avx2.h"

enum { DIGITS = 5 };

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

#endif

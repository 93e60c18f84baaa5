/*
 * ternary256.h - packed ternary rows times activations in 256-bit registers.
 *
 * The one text behind packed_avx2.c and packed_avxvnni.c, which differ in how products of
 * bytes are chained (chain256.h).
 * Eight rows advance together, so that their block sums meet in one register and memory
 * sees eight streams. Several tokens share the work of taking codes apart: those of one block
 * go to a piece of stack that stays in L1, where all tokens of a tile meet them. Codes stay
 * unsigned; what the "- 1" of a ternary code costs is a sum that the activation brings
 * along. Where fewer rows are left, the last row is computed several times.
 */
#ifndef KERNEL_X86_TERNARY256_H
#define KERNEL_X86_TERNARY256_H

#include "kernel/variants.h"
#include "kernel/x86/chain256.h"

enum { TILE = 16 }; /* tokens that meet a block together: their part of it fits L1 */

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

/* A block of eight rows times n_t (1 or 2) tokens from t on. Sums are joined as soon as
 * they are there: more of them than this would not fit the registers. */
static ALWAYS_INLINE void meet_ptq1_0(__m256 *acc, const __m256i *u, __m256 scale,
                                      const struct parts *a, const struct kq_act *x,
                                      int64_t t, int64_t b, int n_t)
{
    __m256i sum[8], all[2];

    prefetch_act(&a->wide, 160, n_t);
    dot_planes(sum, u, 4, &a->wide, n_t);
    for (int j = 0; j < n_t; j++)
        all[j] = join_pairs(sum + 4 * j);
    dot_planes(sum, u + 20, 2, &a->mid, n_t);
    for (int j = 0; j < n_t; j++)
        all[j] =
            _mm256_add_epi32(all[j], _mm256_hadd_epi32(sum[2 * j], sum[2 * j + 1]));
    dot_planes(sum, u + 30, 1, &a->last, n_t);
    for (int j = 0; j < n_t; j++)
        acc[j] = add_block(acc[j], scale, _mm256_add_epi32(all[j], sum[j]),
                           act_sum(x, t + j, 8 * b, 8));
}

static ALWAYS_INLINE void meet_tq1_0(__m256 *acc, const __m256i *u, __m256 scale,
                                     const struct parts *a, const struct kq_act *x,
                                     int64_t t, int64_t b, int n_t)
{
    __m256i sum[8], lo[2], all[2];

    prefetch_act(&a->wide, 320, n_t);
    dot_planes(sum, u, 4, &a->wide, n_t);
    for (int j = 0; j < n_t; j++)
        lo[j] = join_pairs(sum + 4 * j);
    dot_planes(sum, u + 20, 4, &a->wide, n_t);
    for (int j = 0; j < n_t; j++)
        all[j] = join_halves(lo[j], join_pairs(sum + 4 * j));
    dot_planes(sum, u + 40, 4, &a->mid, n_t);
    for (int j = 0; j < n_t; j++)
        all[j] = _mm256_add_epi32(all[j], join_pairs(sum + 4 * j));
    dot_planes(sum, u + 60, 1, &a->last, n_t);
    for (int j = 0; j < n_t; j++)
        acc[j] = add_block(acc[j], scale, _mm256_add_epi32(all[j], sum[j]),
                           act_sum(x, t + j, 16 * b, 16));
}

/* Tokens of a tile are those from t on, n_t <= TILE of them. */
static ALWAYS_INLINE void parts_token(struct parts *a, int64_t n_tokens)
{
    a->wide.p += n_tokens * a->wide.p_step;
    a->wide.ep += n_tokens * a->wide.ep_step;
    a->mid.p += n_tokens * a->wide.p_step;
    a->mid.ep += n_tokens * a->wide.ep_step;
    a->last.p += n_tokens * a->wide.p_step;
    a->last.ep += n_tokens * a->wide.ep_step;
}

static ALWAYS_INLINE void many_ptq1_0(float *y, int64_t y_step, const struct row_set *s,
                                      const struct kq_act *x, int64_t t, int64_t n_t,
                                      int64_t n_rows)
{
    const struct thirds th = thirds_make();
    struct parts first = parts_ptq1_0(x, t);
    __m256 acc[TILE];
    __m256i u[34];

    for (int64_t j = 0; j < n_t; j++)
        acc[j] = _mm256_setzero_ps();
    for (int64_t b = 0; b < x->n / 128; b++, parts_next(&first, 160, 32)) {
        int64_t at = 28 * b, j = 0;
        struct parts a = first;
        __m256i v = all_rows(s, at + 24);
        prefetch_next(s, at, 28);
        for (int i = 0; i < 4; i++)
            take_apart(u + i, 4, two_rows(s, i, at), true, th);
        for (int i = 0; i < 2; i++)
            take_apart(u + 20 + i, 2, four_rows(s, 2 * i, at + 16), true, th);
        take_apart(u + 30, 1, v, false, th);
        __m256 scale = upper_halves(v);
        for (; j + 2 <= n_t; j += 2, parts_token(&a, 2))
            meet_ptq1_0(acc + j, u, scale, &a, x, t + j, b, 2);
        if (j < n_t)
            meet_ptq1_0(acc + j, u, scale, &a, x, t + j, b, 1);
    }
    for (int64_t j = 0; j < n_t; j++)
        store_rows(y + j * y_step, acc[j], x->d[t + j], n_rows);
}

static ALWAYS_INLINE void many_tq1_0(float *y, int64_t y_step, const struct row_set *s,
                                     const struct kq_act *x, int64_t t, int64_t n_t,
                                     int64_t n_rows)
{
    const struct thirds th = thirds_make();
    struct parts first = parts_tq1_0(x, t);
    __m256 acc[TILE];
    __m256i u[64];

    for (int64_t j = 0; j < n_t; j++)
        acc[j] = _mm256_setzero_ps();
    for (int64_t b = 0; b < x->n / 256; b++, parts_next(&first, 320, 64)) {
        int64_t at = 54 * b, j = 0;
        struct parts a = first;
        prefetch_next(s, at, 54);
        for (int i = 0; i < ROWS; i++)
            take_apart(u + i / 4 * 20 + i % 4, 4, load256(s->row[i] + at), true, th);
        for (int i = 0; i < 4; i++)
            take_apart(u + 40 + i, 4, two_rows(s, i, at + 32), true, th);
        take_apart(u + 60, 1, all_rows(s, at + 48), false, th);
        __m256 scale = row_halves(s, at + 52);
        for (; j + 2 <= n_t; j += 2, parts_token(&a, 2))
            meet_tq1_0(acc + j, u, scale, &a, x, t + j, b, 2);
        if (j < n_t)
            meet_tq1_0(acc + j, u, scale, &a, x, t + j, b, 1);
    }
    for (int64_t j = 0; j < n_t; j++)
        store_rows(y + j * y_step, acc[j], x->d[t + j], n_rows);
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

/* Eight registers of codes, of 128 columns each, to their four planes: row i, plane k at
 * u[i / 4 * 16 + 4 k + i % 4]. */
static ALWAYS_INLINE void take_2bits(__m256i *u, const struct row_set *s, int64_t at,
                                     bool down)
{
    const __m256i three = _mm256_set1_epi8(3); /* drops what shifts across bytes */

    for (int i = 0; i < ROWS; i++) {
        __m256i v = load256(s->row[i] + at);
        for (int k = 0; k < 4; k++) {
            u[i / 4 * 16 + 4 * (down ? 3 - k : k) + i % 4] = _mm256_and_si256(v, three);
            v = _mm256_srli_epi16(v, 2);
        }
    }
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

static ALWAYS_INLINE void meet_2bits(__m256 *acc, const __m256i *u, __m256 scale,
                                     const struct part *a, const struct kq_act *x,
                                     int64_t t, int64_t b, int units, int n_t)
{
    __m256i half[2][2];

    prefetch_act(a, 128 * units, n_t);
    for (int h = 0; h < 2; h++) { /* four rows at a time */
        __m256i sum[8], more[8];
        dot_planes(sum, u + 16 * h, 4, a, n_t);
        for (int v = 1; v < units; v++) {
            struct part next = *a;
            next.p += 128 * v;
            next.ep += 16 * v;
            dot_planes(more, u + 32 * v + 16 * h, 4, &next, n_t);
            for (int i = 0; i < 4 * n_t; i++)
                sum[i] = _mm256_add_epi32(sum[i], more[i]);
        }
        for (int j = 0; j < n_t; j++) {
            half[j][h] = join_pairs(sum + 4 * j);
            __asm__("" : "+x"(half[j][h])); /* now, not after the next four */
        }
    }
    for (int j = 0; j < n_t; j++)
        acc[j] = add_block(acc[j], scale, join_halves(half[j][0], half[j][1]),
                           act_sum(x, t + j, 8 * units * b, 8 * units));
}

static ALWAYS_INLINE void many_2bits(float *y, int64_t y_step, const struct row_set *s,
                                     const struct kq_act *x, int64_t t, int64_t n_t,
                                     const struct two_bits *w, int64_t n_rows)
{
    struct part first = {
        x->p + t * x->n, x->ep + t * x->n / 8, x->n, x->n / 8, 32, false};
    __m256 acc[TILE];
    __m256i u[64];

    for (int64_t j = 0; j < n_t; j++)
        acc[j] = _mm256_setzero_ps();
    for (int64_t b = 0; b < x->n / (128 * w->units); b++) {
        struct part a = first;
        int64_t at = w->bytes * b, j = 0;
        prefetch_next(s, at, w->bytes);
        for (int h = 0; h < w->units; h++)
            take_2bits(u + 32 * h, s, at + w->codes + 32 * h, w->down);
        __m256 scale = scales_2bits(s, w, at);
        for (; j + 2 <= n_t; j += 2) {
            meet_2bits(acc + j, u, scale, &a, x, t + j, b, w->units, 2);
            a.p += 2 * a.p_step;
            a.ep += 2 * a.ep_step;
        }
        if (j < n_t)
            meet_2bits(acc + j, u, scale, &a, x, t + j, b, w->units, 1);
        first.p += 128 * w->units;
        first.ep += 16 * w->units;
    }
    for (int64_t j = 0; j < n_t; j++)
        store_rows(y + j * y_step, acc[j], x->d[t + j], n_rows);
}

static ALWAYS_INLINE void packed_2bits(float *y, int64_t y_step, const uint8_t *w,
                                       uint64_t row_bytes, int64_t rows,
                                       const struct kq_act *x, const struct two_bits *f)
{
    for (int64_t t = 0; t < x->rows; t += TILE) {
        int64_t n_t = min_i64(x->rows - t, TILE);
        for (int64_t r = 0; r < rows; r += ROWS) {
            struct row_set s;
            rows_at(&s, w, row_bytes, r, rows);
            if (n_t == 1)
                one_2bits(y + t * y_step + r, &s, x, t, f, rows - r);
            else
                many_2bits(y + t * y_step + r, y_step, &s, x, t, n_t, f, rows - r);
        }
    }
}

typedef void trits_one(float *y, const struct row_set *s, const struct kq_act *x,
                       int64_t t, int64_t n_rows);
typedef void trits_many(float *y, int64_t y_step, const struct row_set *s,
                        const struct kq_act *x, int64_t t, int64_t n_t, int64_t n_rows);

static ALWAYS_INLINE void packed_trits(float *y, int64_t y_step, const uint8_t *w,
                                       uint64_t row_bytes, int64_t rows,
                                       const struct kq_act *x, trits_one *one,
                                       trits_many *many)
{
    for (int64_t t = 0; t < x->rows; t += TILE) {
        int64_t n_t = min_i64(x->rows - t, TILE);
        for (int64_t r = 0; r < rows; r += ROWS) {
            struct row_set s;
            rows_at(&s, w, row_bytes, r, rows);
            if (n_t == 1)
                one(y + t * y_step + r, &s, x, t, rows - r);
            else
                many(y + t * y_step + r, y_step, &s, x, t, n_t, rows - r);
        }
    }
}

#endif

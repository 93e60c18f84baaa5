/*
 * sets512.h - repacked ternary rows times activations in 512-bit registers with VNNI.
 *
 * The one text behind sets_avx512vnni.c and sets_avx512vbmi.c, which differ in how a base-3
 * byte is taken apart. A line of a set is a register with a row in each lane, so a group's
 * product is four vpdpbusd with dwords of the activation, and one vpdpwssd by its factor.
 */
#ifndef KERNEL_X86_SETS512_H
#define KERNEL_X86_SETS512_H

#include "kernel/sets.h"
#include "kernel/x86/ternary512.h"

enum { PLANES = 4 };
/* Bytes of the stream that are asked for ahead, into L2 and into L1. */
enum { FAR_AHEAD = 8192, NEAR_AHEAD = 2048 };
enum { PIECE_GROUPS = 10 }; /* that meet all tokens of a tile: 2.5 KB */

/* Block sums on their way to results, a register of sixteen rows each. */
struct set_acc {
    __m512 acc;
    __m512i sum;
};

/* What a token brings. */
struct set_token {
    const int8_t *q;
    const int16_t *e;
    const int32_t *sum; /* before each group */
};

static ALWAYS_INLINE struct set_token set_token_at(const struct kq_act *x, int64_t t)
{
    return (struct set_token){x->q + t * x->n, x->e + t * x->n / 2,
                              x->sum + t * (x->n / KQ_GROUP + 1)};
}

/* Four neighbouring codes, in all lanes. */
static ALWAYS_INLINE __m512i four_codes(const int8_t *q)
{
    int32_t v;

    memcpy(&v, q, sizeof v);
    return _mm512_set1_epi32(v);
}

/* The factor of group g in the lower half of all lanes. */
static ALWAYS_INLINE __m512i factor(const int16_t *e, int64_t g)
{
    int32_t v;

    memcpy(&v, e + 8 * g, sizeof v);
    return _mm512_and_si512(_mm512_set1_epi32(v), _mm512_set1_epi32(0xffff));
}

/* Reaching past the end of the data never faults. */
static ALWAYS_INLINE void prefetch_far(const uint8_t *p)
{
    _mm_prefetch((const char *)((uintptr_t)p + FAR_AHEAD), _MM_HINT_T1);
}

static ALWAYS_INLINE void prefetch_line(const uint8_t *line)
{
    prefetch_far(line);
    _mm_prefetch((const char *)((uintptr_t)line + NEAR_AHEAD), _MM_HINT_T0);
}

/* Where a set's lines begin. Lines ask for what is FAR_AHEAD of them; what is as far ahead
 * of the scales is asked for here, at once. */
static ALWAYS_INLINE const uint8_t *first_line(const uint8_t *set, int groups,
                                               const struct kq_act *x)
{
    const int64_t scales = kset_scale_bytes(groups * KQ_GROUP, x->n);

    for (int64_t i = 0; i < scales; i += KSET_LINE)
        prefetch_far(set + i);
    return set + scales;
}

/* Ends a block of `groups` whose last group is g. */
static ALWAYS_INLINE void end_block(struct set_acc *a, const uint8_t *set,
                                    const int32_t *sum, int64_t g, int groups)
{
    int64_t b = g / groups;
    int32_t lows = (int32_t)((uint32_t)sum[g + 1] - (uint32_t)sum[g + 1 - groups]);
    const uint8_t *at = set + b * KSET_ROWS * (int64_t)sizeof(uint16_t);
    __m512 scale = _mm512_cvtph_ps(load256(at));

    a->acc = add_block(a->acc, scale, a->sum, lows);
    a->sum = _mm512_setzero_si512();
}

/* a's sum and the sums c of group g; the block ends where it ends. */
static ALWAYS_INLINE void add_group(struct set_acc *a, __m512i c, const uint8_t *set,
                                    const struct set_token *x, int64_t g, int groups)
{
    a->sum = _mm512_dpwssd_epi32(a->sum, c, factor(x->e, g));
    if ((g & (groups - 1)) == groups - 1)
        end_block(a, set, x->sum, g, groups);
}

static ALWAYS_INLINE __m512i load_line(const uint8_t *line)
{
    return _mm512_loadu_si512(line);
}

static ALWAYS_INLINE void planes_of(__m512i *u, __m512i v)
{
    for (int k = 0; k < PLANES; k++) {
        u[k] = _mm512_and_si512(v, _mm512_set1_epi8(3)); /* drops what crosses bytes */
        v = _mm512_srli_epi16(v, 2);
    }
}

/* One line of 2-bit codes times one token's group. */
static ALWAYS_INLINE __m512i dot_line(const uint8_t *line, const int8_t *q)
{
    __m512i u[PLANES], c = _mm512_setzero_si512();

    planes_of(u, load_line(line));
    for (int k = 0; k < PLANES; k++)
        c = _mm512_dpbusd_epi32(c, u[k], four_codes(q + 4 * k));
    return c;
}

/* Groups g.. in lines of 2-bit codes, one token. */
static ALWAYS_INLINE void one_2bits(struct set_acc *a, const uint8_t *set,
                                    const uint8_t *line, const struct set_token *x,
                                    int64_t g, int64_t end, int groups)
{
    for (; g < end; g++, line += KSET_LINE) {
        prefetch_far(line);
        add_group(a, dot_line(line, x->q + KQ_GROUP * g), set, x, g, groups);
    }
}

/* Bytes of sets are biased, those of ternary512.h are not. */
static ALWAYS_INLINE void set_digits(__m512i *u, int step, __m512i v,
                                     const struct trits *tr)
{
#if defined(__AVX512VBMI__)
    take_apart(u, step, v, true, tr);
#else
    take_apart(u, step, _mm512_xor_si512(v, _mm512_set1_epi8(-128)), true, tr);
#endif
}

static ALWAYS_INLINE struct trits set_trits_make(void)
{
    struct trits t = trits_make();
#if defined(__AVX512VBMI__)
    for (int i = 0; i < 2; i++) {
        __m512i four = t.four[i], fifth = t.fifth[i];
        t.four[i] = t.four[i + 2];
        t.fifth[i] = t.fifth[i + 2];
        t.four[i + 2] = four;
        t.fifth[i + 2] = fifth;
    }
#endif
    return t;
}

/* A unit of five groups from g on, one token. */
static ALWAYS_INLINE void one_unit(struct set_acc *a, const uint8_t *set,
                                   const uint8_t *line, const struct set_token *x,
                                   int64_t g, int groups, const struct trits *tr)
{
    const int8_t *q = x->q + KQ_GROUP * g;
    __m512i last = _mm512_setzero_si512();

    for (int l = 0; l < PLANES; l++, line += KSET_LINE) {
        __m512i u[DIGITS], c = _mm512_setzero_si512();
        prefetch_line(line);
        set_digits(u, 1, load_line(line), tr);
        for (int k = 0; k < PLANES; k++)
            c = _mm512_dpbusd_epi32(c, u[k], four_codes(q + KQ_GROUP * l + 4 * k));
        last = _mm512_dpbusd_epi32(last, u[4], four_codes(q + KQ_GROUP * 4 + 4 * l));
        add_group(a, c, set, x, g + l, groups);
    }
    add_group(a, last, set, x, g + 4, groups);
}

static ALWAYS_INLINE void one_set(float *y, const uint8_t *set, int64_t n_rows,
                                  int groups, const struct kq_act *x, int64_t t,
                                  enum kset_form form, const struct trits *tr)
{
    const int64_t n_groups = x->n / KQ_GROUP;
    const struct set_token tok = set_token_at(x, t);
    const uint8_t *line = first_line(set, groups, x);
    struct set_acc a = {_mm512_setzero_ps(), _mm512_setzero_si512()};
    int64_t g = 0;

    if (form == KSET_TRITS)
        for (; g + KSET_UNIT <= n_groups; g += KSET_UNIT) {
            one_unit(&a, set, line, &tok, g, groups, tr);
            line += (ptrdiff_t)PLANES * KSET_LINE;
        }
    one_2bits(&a, set, line, &tok, g, n_groups, groups);
    store_rows16(y, a.acc, x->d[t], n_rows);
}

/* The codes of n groups, planes of group i at u[4 i], times n_t tokens from t on. */
static ALWAYS_INLINE void meet_groups(struct set_acc *to, const __m512i *u,
                                      const uint8_t *set, const struct kq_act *x,
                                      int64_t t, int64_t g, int n, int groups, int n_t)
{
    struct set_token tok[MAX_TOKENS];
    struct set_acc a[MAX_TOKENS];

    for (int j = 0; j < n_t; j++) {
        tok[j] = set_token_at(x, t + j);
        a[j] = to[j];
    }
    for (int i = 0; i < n; i++, g++) {
        __m512i c[MAX_TOKENS];
        for (int j = 0; j < n_t; j++)
            c[j] = _mm512_setzero_si512();
        for (int k = 0; k < PLANES; k++)
            for (int j = 0; j < n_t; j++)
                c[j] = _mm512_dpbusd_epi32(c[j], u[PLANES * i + k],
                                           four_codes(tok[j].q + KQ_GROUP * g + 4 * k));
        for (int j = 0; j < n_t; j++)
            a[j].sum = _mm512_dpwssd_epi32(a[j].sum, c[j], factor(tok[j].e, g));
        if ((g & (groups - 1)) == groups - 1)
            for (int j = 0; j < n_t; j++)
                end_block(&a[j], set, tok[j].sum, g, groups);
    }
    for (int j = 0; j < n_t; j++)
        to[j] = a[j];
}

/* Codes of the groups from g on, at most PIECE_GROUPS of them; returns how many. */
static ALWAYS_INLINE int take_piece(__m512i *u, const uint8_t **line, int64_t g,
                                    int64_t n_groups, enum kset_form form,
                                    const struct trits *tr)
{
    int n = 0;

    while (n < PIECE_GROUPS && g + n < n_groups) {
        bool unit = form == KSET_TRITS && g + n < n_groups / KSET_UNIT * KSET_UNIT;
        if (!unit) {
            prefetch_line(*line);
            planes_of(u + (ptrdiff_t)PLANES * n++, load_line(*line));
            *line += KSET_LINE;
            continue;
        }
        for (int l = 0; l < PLANES; l++, *line += KSET_LINE) {
            __m512i d[DIGITS];
            prefetch_line(*line);
            set_digits(d, 1, load_line(*line), tr);
            for (int k = 0; k < PLANES; k++)
                u[PLANES * (n + l) + k] = d[k];
            u[PLANES * (n + 4) + l] = d[4];
        }
        n += KSET_UNIT;
    }
    return n;
}

static ALWAYS_INLINE void many_set(float *y, int64_t y_step, const uint8_t *set,
                                   int64_t n_rows, int groups, const struct kq_act *x,
                                   int64_t t, int64_t n_t, enum kset_form form,
                                   const struct trits *tr)
{
    const int64_t n_groups = x->n / KQ_GROUP;
    const uint8_t *line = first_line(set, groups, x);
    struct set_acc a[TILE];
    __m512i u[PIECE_GROUPS * PLANES];

    for (int64_t j = 0; j < n_t; j++)
        a[j] = (struct set_acc){_mm512_setzero_ps(), _mm512_setzero_si512()};
    for (int64_t g = 0; g < n_groups;) {
        int n = take_piece(u, &line, g, n_groups, form, tr);
        int64_t j = 0;
        for (; j + MAX_TOKENS <= n_t; j += MAX_TOKENS)
            meet_groups(a + j, u, set, x, t + j, g, n, groups, MAX_TOKENS);
        for (; j < n_t; j++)
            meet_groups(a + j, u, set, x, t + j, g, n, groups, 1);
        g += n;
    }
    for (int64_t j = 0; j < n_t; j++)
        store_rows16(y + j * y_step, a[j].acc, x->d[t + j], n_rows);
}

static ALWAYS_INLINE void all_sets(float *y, int64_t y_step, const uint8_t *set,
                                   int64_t rows, int block, const struct kq_act *x,
                                   enum kset_form form)
{
    const uint64_t bytes = kset_bytes(form, block, x->n);
    const struct trits tr = set_trits_make();
    const int groups = block / KQ_GROUP;

    for (int64_t r = 0; r < rows; r += KSET_ROWS, set += bytes) {
        if (x->rows == 1) {
            one_set(y + r, set, rows - r, groups, x, 0, form, &tr);
            continue;
        }
        for (int64_t t = 0; t < x->rows; t += TILE)
            many_set(y + t * y_step + r, y_step, set, rows - r, groups, x, t,
                     min_i64(x->rows - t, TILE), form, &tr);
    }
}

#endif

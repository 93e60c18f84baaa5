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
#include "kernel/x86/lines512.h"

/* Bytes of the stream that are asked for ahead, into L2 and into L1. */
enum { FAR_AHEAD = 8192, NEAR_AHEAD = 2048 };
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
static ALWAYS_INLINE void end_set_block(struct set_acc *a, const uint8_t *set,
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
        end_set_block(a, set, x->sum, g, groups);
}

static ALWAYS_INLINE __m512i load_line(const uint8_t *line)
{
    return _mm512_loadu_si512(line);
}

static ALWAYS_INLINE void planes_of(__m512i *u, __m512i v)
{
    for (int k = 0; k < QUADS; k++) {
        u[k] = _mm512_and_si512(v, _mm512_set1_epi8(3)); /* drops what crosses bytes */
        v = _mm512_srli_epi16(v, 2);
    }
}

/* One line of 2-bit codes times one token's group. */
static ALWAYS_INLINE __m512i dot_line(const uint8_t *line, const int8_t *q)
{
    __m512i u[QUADS], c = _mm512_setzero_si512();

    planes_of(u, load_line(line));
    for (int k = 0; k < QUADS; k++)
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

    for (int l = 0; l < QUADS; l++, line += KSET_LINE) {
        __m512i u[DIGITS], c = _mm512_setzero_si512();
        prefetch_line(line);
        set_digits(u, 1, load_line(line), tr);
        for (int k = 0; k < QUADS; k++)
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
            line += (ptrdiff_t)QUADS * KSET_LINE;
        }
    one_2bits(&a, set, line, &tok, g, n_groups, groups);
    store_rows16(y, a.acc, x->d[t], n_rows);
}

/* ---- several tokens ---- */

/* What a set is to a take function. */
struct set_lines {
    const uint8_t *set, *line; /* the next one */
    int64_t g;                 /* the group that it begins */
};

/* The block ends if group g is its last. */
static ALWAYS_INLINE void end_group(struct sink *k, const int few, const uint8_t *set,
                                    int64_t g)
{
    const int log = k->m->block_log;

    if ((~g & ((1 << log) - 1)) == 0)
        end_block(k, few,
                  _mm512_cvtph_ps(load256(set + (g >> log) * KSET_ROWS *
                                                    (int64_t)sizeof(uint16_t))));
}

/* A line of 2-bit codes to group i of the piece. */
static ALWAYS_INLINE void put_line(struct sink *k, const int few, int i,
                                   struct set_lines *l)
{
    prefetch_line(l->line);
    put_2bits(k, few, i, load_line(l->line), false);
    end_group(k, few, l->set, l->g++);
    l->line += KSET_LINE;
}

/* A line of base-3 bytes, the same; fifth digits to *fifth. */
static ALWAYS_INLINE void put_trits(struct sink *k, const int few, int i,
                                    struct set_lines *l, __m512i *fifth,
                                    const struct trits *tr)
{
    __m512i u[DIGITS];

    prefetch_line(l->line);
    set_digits(u, 1, load_line(l->line), tr);
    *fifth = u[4];
    put_group(k, few, i, u);
    end_group(k, few, l->set, l->g++);
    l->line += KSET_LINE;
}

static ALWAYS_INLINE void put_unit(struct sink *k, const int few, int i,
                                   struct set_lines *l, const struct trits *tr)
{
    __m512i fifth[QUADS];

    put_trits(k, few, i, l, &fifth[0], tr);
    put_trits(k, few, i + 1, l, &fifth[1], tr);
    put_trits(k, few, i + 2, l, &fifth[2], tr);
    put_trits(k, few, i + 3, l, &fifth[3], tr);
    put_group(k, few, i + 4, fifth);
    end_group(k, few, l->set, l->g++);
}

/* A set's lines from group g on, which begins a unit or a line; the first `units` units
 * are base-3. */
static ALWAYS_INLINE struct set_lines set_lines_at(const struct sink *k,
                                                   const struct line_source *s,
                                                   int64_t r, int64_t g, int64_t units)
{
    const uint8_t *set = s->w + (uint64_t)(r / KSET_ROWS) * s->bytes;
    const int64_t in_units = min_i64(g / KSET_UNIT, units);
    const int64_t before = in_units * QUADS + g - in_units * KSET_UNIT;

    return (struct set_lines){
        set, first_line(set, 1 << k->m->block_log, k->m->x) + before * KSET_LINE, g};
}

static ALWAYS_INLINE void take_set_2bits(struct sink *k, const int few,
                                         const struct line_source *s, int64_t r,
                                         int64_t g, int n_g)
{
    struct set_lines l = set_lines_at(k, s, r, g, 0);

    while (l.g < g + n_g) { /* of whole blocks */
        int n = (int)min_i64(g + n_g - l.g, UNIT_GROUPS);
        for (int i = 0; i < n; i += 4) {
            put_line(k, few, i, &l);
            put_line(k, few, i + 1, &l);
            put_line(k, few, i + 2, &l);
            put_line(k, few, i + 3, &l);
        }
        end_unit(k, few, n);
    }
}

static ALWAYS_INLINE void take_set_trits(struct sink *k, const int few,
                                         const struct line_source *s, int64_t r,
                                         int64_t g, int n_g)
{
    const struct trits tr = set_trits_make();
    const int64_t units = k->m->x->n / KQ_GROUP / KSET_UNIT;
    const int64_t end = min_i64(g + n_g, units * KSET_UNIT);
    struct set_lines l = set_lines_at(k, s, r, g, units);
    int n = 0;

    while (l.g + 2 * KSET_UNIT <= end) {
        put_unit(k, few, 0, &l, &tr);
        put_unit(k, few, KSET_UNIT, &l, &tr);
        end_unit(k, few, 2 * KSET_UNIT);
    }
    if (l.g < end) {
        put_unit(k, few, 0, &l, &tr);
        end_unit(k, few, KSET_UNIT);
    }
    for (; l.g < g + n_g; n++)
        put_line(k, few, n, &l);
    if (n)
        end_unit(k, few, n);
}

/* kernel_sets of a form; several tokens apart, as PACKED_ROWS has them. */
static ALWAYS_INLINE void one_token_sets(float *y, const struct line_source *s,
                                         int groups, const struct kq_act *x,
                                         enum kset_form form)
{
    const struct trits tr = set_trits_make();

    for (int64_t r = 0; r < s->rows; r += KSET_ROWS)
        one_set(y + r, s->w + (uint64_t)(r / KSET_ROWS) * s->bytes, s->rows - r, groups,
                x, 0, form, &tr);
}

#define SETS(name, form, take)                                                         \
    static NOINLINE void name##_many(float *y, int64_t y_step,                         \
                                     const struct line_source *s, int block_log,       \
                                     const struct kq_act *x)                           \
    {                                                                                  \
        lines_product(y, y_step, s, block_log, x, LINES_BY_POSITION, take);            \
    }                                                                                  \
    void name(float *y, int64_t y_step, const uint8_t *set, int64_t rows, int block,   \
              const struct kq_act *x)                                                  \
    {                                                                                  \
        const struct line_source s = {set, kset_bytes(form, block, x->n), rows};       \
        if (x->rows == 1)                                                              \
            one_token_sets(y, &s, block / KQ_GROUP, x, form);                          \
        else                                                                           \
            name##_many(y, y_step, &s, block == 64 ? 2 : block == 128 ? 3 : 4, x);     \
    }

#endif

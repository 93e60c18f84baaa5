/*
 * sets256.h - repacked ternary rows times activations in 256-bit registers.
 *
 * The one text behind sets_avx2.c and sets_avxvnni.c. As sets512.h; a line is two
 * registers, which share the activation's dwords.
 */
#ifndef KERNEL_X86_SETS256_H
#define KERNEL_X86_SETS256_H

#include "kernel/sets.h"
#include "kernel/x86/few256.h"

/* Bytes of the stream that are asked for ahead, into L2 and into L1. */
enum { FAR_AHEAD = 8192, NEAR_AHEAD = 2048 };

/* Block sums on their way to results, rows 0-7 and 8-15. */
struct set_acc {
    __m256 acc[HALVES];
    __m256i sum[HALVES];
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
    const uint8_t *scale = set + g / groups * KSET_ROWS * (int64_t)sizeof(uint16_t);
    int32_t lows = (int32_t)((uint32_t)sum[g + 1] - (uint32_t)sum[g + 1 - groups]);

    for (int h = 0; h < HALVES; h++) {
        a->acc[h] = add_block(a->acc[h], _mm256_cvtph_ps(load128(scale + 16 * h)),
                              a->sum[h], lows);
        a->sum[h] = _mm256_setzero_si256();
    }
}

/* a's sums and the chains c of group g; the block ends where it ends. */
static ALWAYS_INLINE void add_group(struct set_acc *a, const __m256i *c,
                                    const uint8_t *set, const struct set_token *x,
                                    int64_t g, int groups)
{
    __m256i e = spread(x->e + 8 * g, 4);

    for (int h = 0; h < HALVES; h++)
        a->sum[h] = _mm256_add_epi32(a->sum[h], chain_end(c[h], e));
    if ((g & (groups - 1)) == groups - 1)
        end_block(a, set, x->sum, g, groups);
}

/* One line of 2-bit codes times one token's group. */
static ALWAYS_INLINE void dot_line(__m256i *c, const uint8_t *line, const int8_t *q)
{
    const __m256i three = _mm256_set1_epi8(3);
    __m256i v[HALVES] = {load256(line), load256(line + 32)};

    for (int k = 0; k < QUADS; k++) {
        __m256i x = spread(q + 4 * k, 4);
        for (int h = 0; h < HALVES; h++) {
            __m256i u = _mm256_and_si256(v[h], three);
            c[h] = k ? chain(c[h], u, x) : chain_start(u, x);
            v[h] = _mm256_srli_epi16(v[h], 2);
        }
    }
}

/* Groups g.. in lines of 2-bit codes, one token. */
static ALWAYS_INLINE void one_2bits_set(struct set_acc *a, const uint8_t *set,
                                        const uint8_t *line, const struct set_token *x,
                                        int64_t g, int64_t end, int groups)
{
    for (; g < end; g++, line += KSET_LINE) {
        __m256i c[HALVES];
        prefetch_line(line);
        dot_line(c, line, x->q + KQ_GROUP * g);
        add_group(a, c, set, x, g, groups);
    }
}

static ALWAYS_INLINE __m256i times_three(__m256i v)
{
    return _mm256_add_epi8(v, _mm256_add_epi8(v, v));
}

/* A unit of five groups from g on, one token. */
static ALWAYS_INLINE void one_unit(struct set_acc *a, const uint8_t *set,
                                   const uint8_t *line, const struct set_token *x,
                                   int64_t g, int groups, struct thirds th)
{
    const int8_t *q = x->q + KQ_GROUP * g;
    __m256i last[HALVES];

    for (int l = 0; l < QUADS; l++, line += KSET_LINE) {
        __m256i v[HALVES] = {load256(line), load256(line + 32)}, c[HALVES];
        prefetch_line(line);
        for (int k = 0; k < QUADS; k++) {
            __m256i s = spread(q + KQ_GROUP * l + 4 * k, 4);
            for (int h = 0; h < HALVES; h++) {
                __m256i u = top_digits(v[h], th);
                c[h] = k ? chain(c[h], u, s) : chain_start(u, s);
                v[h] = times_three(v[h]);
            }
        }
        __m256i s = spread(q + KQ_GROUP * 4 + 4 * l, 4);
        for (int h = 0; h < HALVES; h++) {
            __m256i u = top_digits(v[h], th);
            last[h] = l ? chain(last[h], u, s) : chain_start(u, s);
        }
        add_group(a, c, set, x, g + l, groups);
    }
    add_group(a, last, set, x, g + 4, groups);
}

static ALWAYS_INLINE struct set_acc set_acc_zero(void)
{
    return (struct set_acc){{_mm256_setzero_ps(), _mm256_setzero_ps()},
                            {_mm256_setzero_si256(), _mm256_setzero_si256()}};
}

static ALWAYS_INLINE void one_set(float *y, const uint8_t *set, int64_t n_rows,
                                  int groups, const struct kq_act *x,
                                  enum kset_form form)
{
    const struct thirds th = thirds_make();
    const int64_t n_groups = x->n / KQ_GROUP;
    const struct set_token tok = set_token_at(x, 0);
    const uint8_t *line = first_line(set, groups, x);
    struct set_acc a = set_acc_zero();
    int64_t g = 0;

    if (form == KSET_TRITS)
        for (; g + KSET_UNIT <= n_groups; g += KSET_UNIT) {
            one_unit(&a, set, line, &tok, g, groups, th);
            line += (ptrdiff_t)QUADS * KSET_LINE;
        }
    one_2bits_set(&a, set, line, &tok, g, n_groups, groups);
    store_halves(y, a.acc, x->d[0], n_rows);
}

/* A line of 2-bit codes to a group. */
static ALWAYS_INLINE void take_line(__m256i (*code)[HALVES], const uint8_t *line)
{
    const __m256i three = _mm256_set1_epi8(3);

    prefetch_line(line);
    for (int h = 0; h < HALVES; h++)
        for (int k = 0; k < QUADS; k++)
            code[k][h] = _mm256_and_si256(
                _mm256_srli_epi16(load256(line + 32 * h), 2 * k), three);
}

/* Four lines of base-3 bytes to five groups. */
static ALWAYS_INLINE void take_unit(__m256i (*code)[QUADS][HALVES], const uint8_t *line,
                                    struct thirds th)
{
    for (int l = 0; l < QUADS; l++, line += KSET_LINE) {
        prefetch_line(line);
        for (int h = 0; h < HALVES; h++) {
            __m256i v = load256(line + 32 * h);
            for (int k = 0; k < QUADS; k++) {
                code[l][k][h] = top_digits(v, th);
                v = times_three(v);
            }
            code[4][l][h] = top_digits(v, th);
        }
    }
}

/* The chunk of the set of rows r..; its units may begin before it and end behind it. */
static ALWAYS_INLINE void take_set(struct lines *m, const struct line_source *s,
                                   int64_t r, enum kset_form form)
{
    const struct thirds th = thirds_make();
    const uint8_t *set = s->w + (uint64_t)(r / KSET_ROWS) * s->bytes;
    const int64_t n_groups = m->x->n / KQ_GROUP, end = m->g + m->n_g;
    const int block = m->groups * KQ_GROUP, from = (int)(m->g / m->groups);
    int64_t g = form == KSET_TRITS ? m->g / KSET_UNIT * KSET_UNIT : m->g;
    int64_t units = form == KSET_TRITS ? n_groups / KSET_UNIT : 0;
    const uint8_t *line = set + kset_scale_bytes(block, m->x->n);
    __m256i(*code)[QUADS][HALVES] = m->code;

    m->first = (int)(m->g - g);
    line += (g < units * KSET_UNIT ? g / KSET_UNIT * QUADS
                                   : units * QUADS + g - units * KSET_UNIT) *
            KSET_LINE;
    while (g < end) {
        bool unit = g < units * KSET_UNIT;
        unit ? take_unit(code, line, th) : take_line(*code, line);
        line += (unit ? QUADS : 1) * (ptrdiff_t)KSET_LINE;
        code += unit ? KSET_UNIT : 1;
        g += unit ? KSET_UNIT : 1;
    }
    for (int b = 0; b * m->groups < m->n_g; b++)
        for (int h = 0; h < HALVES; h++)
            m->scale[b][h] =
                _mm256_cvtph_ps(load128(set + ((from + b) * KSET_ROWS + ROWS * h) * 2));
}

static ALWAYS_INLINE void take_set_2bits(struct lines *m, const struct line_source *s,
                                         int64_t r)
{
    take_set(m, s, r, KSET_2BITS);
}

static ALWAYS_INLINE void take_set_trits(struct lines *m, const struct line_source *s,
                                         int64_t r)
{
    take_set(m, s, r, KSET_TRITS);
}

/* lines_product() with a constant block. */
static ALWAYS_INLINE void many_sets(float *y, int64_t y_step,
                                    const struct line_source *s, int block,
                                    const struct kq_act *x, lines_take *take)
{
    if (block == 128)
        lines_product(y, y_step, s, 128, x, LINES_BY_POSITION, take);
    else if (block == 256)
        lines_product(y, y_step, s, 256, x, LINES_BY_POSITION, take);
    else
        lines_product(y, y_step, s, 64, x, LINES_BY_POSITION, take);
}

/* ---- two to four tokens ---- */

/* What a set is to a take function. */
struct set_lines {
    const uint8_t *set, *line; /* the next one */
    int64_t g;                 /* the group that it begins */
};

/* The block ends if group g is its last. */
static ALWAYS_INLINE void few_end_group(struct few *m, int n_t, const uint8_t *set,
                                        int64_t g)
{
    const uint8_t *at =
        set + (g >> m->block_log) * KSET_ROWS * (int64_t)sizeof(uint16_t);

    if (~g & ((1 << m->block_log) - 1))
        return;
    const __m256 scale[HALVES] = {_mm256_cvtph_ps(load128(at)),
                                  _mm256_cvtph_ps(load128(at + 16))};
    few_end_block(m, n_t, scale);
}

static ALWAYS_INLINE void few_line(struct few *m, int n_t, int i, struct set_lines *l)
{
    const __m256i v[HALVES] = {load256(l->line), load256(l->line + 32)};

    prefetch_line(l->line);
    few_2bits(m, n_t, i, v, false);
    few_end_group(m, n_t, l->set, l->g++);
    l->line += KSET_LINE;
}

static ALWAYS_INLINE void few_line_trits(struct few *m, int n_t, int i,
                                         struct set_lines *l, __m256i *fifth,
                                         struct thirds th)
{
    const __m256i v[HALVES] = {load256(l->line), load256(l->line + 32)};

    prefetch_line(l->line);
    few_digits(m, n_t, i, v, fifth, th);
    few_end_group(m, n_t, l->set, l->g++);
    l->line += KSET_LINE;
}

static ALWAYS_INLINE struct set_lines
few_lines_at(const struct few *m, const struct line_source *s, int64_t r, int64_t units)
{
    const uint8_t *set = s->w + (uint64_t)(r / KSET_ROWS) * s->bytes;
    const int64_t in_units = min_i64(m->g / KSET_UNIT, units);
    const int64_t before = in_units * QUADS + m->g - in_units * KSET_UNIT;

    return (struct set_lines){
        set, first_line(set, 1 << m->block_log, m->x) + before * KSET_LINE, m->g};
}

static ALWAYS_INLINE void few_set_2bits(struct few *m, int n_t,
                                        const struct line_source *s, int64_t r)
{
    struct set_lines l = few_lines_at(m, s, r, 0);

    while (l.g < m->g + m->n_g) { /* of whole blocks */
        int n = (int)min_i64(m->g + m->n_g - l.g, FEW_UNIT);
        for (int i = 0; i < n; i += 4) {
            few_line(m, n_t, i, &l);
            few_line(m, n_t, i + 1, &l);
            few_line(m, n_t, i + 2, &l);
            few_line(m, n_t, i + 3, &l);
        }
        few_end_unit(m, n_t, n);
    }
}

static ALWAYS_INLINE void few_set_trits(struct few *m, int n_t,
                                        const struct line_source *s, int64_t r)
{
    const struct thirds th = thirds_make();
    const int64_t units = m->x->n / KQ_GROUP / KSET_UNIT;
    const int64_t end = min_i64(m->g + m->n_g, units * KSET_UNIT);
    struct set_lines l = few_lines_at(m, s, r, units);
    int n = 0;

    while (l.g < end) {
        __m256i fifth[QUADS][HALVES];
        few_line_trits(m, n_t, 0, &l, fifth[0], th);
        few_line_trits(m, n_t, 1, &l, fifth[1], th);
        few_line_trits(m, n_t, 2, &l, fifth[2], th);
        few_line_trits(m, n_t, 3, &l, fifth[3], th);
        few_put(m, n_t, 4, fifth);
        few_end_group(m, n_t, l.set, l.g++);
        few_end_unit(m, n_t, KSET_UNIT);
    }
    for (; l.g < m->g + m->n_g; n++)
        few_line(m, n_t, n, &l);
    if (n)
        few_end_unit(m, n_t, n);
}

static ALWAYS_INLINE void all_sets(float *y, int64_t y_step, const uint8_t *set,
                                   int64_t rows, int block, const struct kq_act *x,
                                   enum kset_form form)
{
    const struct line_source s = {set, kset_bytes(form, block, x->n), rows};

    if (x->rows > 1 && x->rows <= FEW)
        few_product(y, y_step, &s,
                    block == 64    ? 2
                    : block == 128 ? 3
                                   : 4,
                    x, LINES_BY_POSITION,
                    form == KSET_TRITS ? few_set_trits : few_set_2bits);
    else if (x->rows > 1)
        many_sets(y, y_step, &s, block, x,
                  form == KSET_TRITS ? take_set_trits : take_set_2bits);
    else
        for (int64_t r = 0; r < rows; r += KSET_ROWS, set += s.bytes)
            one_set(y + r, set, rows - r, block / KQ_GROUP, x, form);
}

#endif

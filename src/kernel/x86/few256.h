/*
 * few256.h - ternary rows times two to four tokens in 256-bit registers.
 *
 * As lines256.h, but a group's lines meet the first two tokens in the registers where they
 * were made, so that taking apart and multiplying go on side by side. The other two find the
 * lines of a unit in L1 afterwards: registers hold the sums of two tokens and sixteen rows.
 */
#ifndef KERNEL_X86_FEW256_H
#define KERNEL_X86_FEW256_H

#include "kernel/x86/lines256.h"

enum {
    PAIR = 2,          /* tokens that meet a line at a time */
    FEW_SETS = 16,     /* of rows, that share what is laid out */
    FEW_STRETCH = 640, /* groups that are laid out at a time */
    FEW_UNIT = 16,     /* the most groups that lie in L1 */
};

/* Sums and results of two tokens. */
struct few_sums {
    __m256i sum[PAIR][HALVES];
    __m256 acc[PAIR][HALVES];
};

struct few {
    const struct kq_act *x;
    int64_t g;      /* first group of the stretch */
    int n_t, n_g;   /* tokens, groups of the stretch */
    int block_log;  /* a block has 1 << block_log groups */
    int at, n_ends; /* the unit's first group in the stretch; blocks that ended in it */
    const struct brings *next; /* of the unit's first group */
    const int32_t *lows;       /* of the block that ends next */
    struct few_sums first, rest;
    __m256i code[FEW_UNIT][QUADS][HALVES];
    __m256 scale[FEW_UNIT / 4][HALVES];
    struct brings a[FEW_STRETCH * FEW];
    int32_t block_lows[FEW_STRETCH / 4 * FEW];
    __m256 acc[FEW_SETS][FEW][HALVES];
};

/* Groups [m->g, m->g + m->n_g) of the rows r.., unit by unit. */
typedef void few_take(struct few *m, int n_t, const struct line_source *s, int64_t r);

/* sum += the lines u of a group times what n_t tokens bring. */
static ALWAYS_INLINE void few_meet(__m256i (*sum)[HALVES], __m256i (*u)[HALVES],
                                   const struct brings *a, int n_t)
{
    __m256i c[PAIR][HALVES];

    for (int l = 0; l < QUADS; l++) {
        __m256i v[HALVES] = {u[l][0], u[l][1]};
        __asm__("" : "+x"(v[0]), "+x"(v[1])); /* one load each */
        for (int j = 0; j < n_t; j++) {
            __m256i q = _mm256_set1_epi32(a[j].q[l]);
            for (int h = 0; h < HALVES; h++)
                c[j][h] = l ? chain(c[j][h], v[h], q) : chain_start(v[h], q);
        }
    }
    for (int j = 0; j < n_t; j++) {
        __m256i e = _mm256_set1_epi32(a[j].e);
        for (int h = 0; h < HALVES; h++)
            sum[j][h] = _mm256_add_epi32(sum[j][h], chain_end(c[j][h], e));
    }
}

static ALWAYS_INLINE void few_end(struct few_sums *k, const int32_t *lows,
                                  const __m256 *scale, int n_t)
{
    for (int j = 0; j < n_t; j++)
        for (int h = 0; h < HALVES; h++) {
            __m256i s = _mm256_add_epi32(k->sum[j][h], _mm256_set1_epi32(lows[j]));
            k->acc[j][h] = _mm256_add_ps(
                k->acc[j][h], _mm256_mul_ps(scale[h], _mm256_cvtepi32_ps(s)));
            k->sum[j][h] = _mm256_setzero_si256();
        }
}

/* n groups of m->code times the n_t - PAIR tokens that have not met them. */
static ALWAYS_INLINE void few_rest_of(struct few *m, int n, int n_t)
{
    const struct brings *a = m->a + m->at * n_t + PAIR;
    const int32_t *lows = m->block_lows + (m->at >> m->block_log) * n_t + PAIR;
    const int within = (1 << m->block_log) - 1;
    struct few_sums k = m->rest;
    int ends = 0;

    for (int i = 0; i < n; i++, a += n_t) {
        few_meet(k.sum, m->code[i], a, n_t - PAIR);
        if ((~(m->at + i) & within) == 0) {
            few_end(&k, lows, m->scale[ends++], n_t - PAIR);
            lows += n_t;
        }
    }
    m->rest = k;
}

static NOINLINE void few_rest(struct few *m, int n)
{
    if (m->n_t == 3)
        few_rest_of(m, n, 3);
    else
        few_rest_of(m, n, 4);
}

/* Group i of the unit. */
static ALWAYS_INLINE void few_put(struct few *m, int n_t, int i, __m256i (*u)[HALVES])
{
    for (int l = 0; l < QUADS && n_t > PAIR; l++)
        for (int h = 0; h < HALVES; h++)
            m->code[i][l][h] = u[l][h];
    few_meet(m->first.sum, u, m->next + i * n_t, PAIR);
}

/* A block ends behind the group that was put last. */
static ALWAYS_INLINE void few_end_block(struct few *m, int n_t, const __m256 *scale)
{
    few_end(&m->first, m->lows, scale, PAIR);
    m->lows += n_t;
    for (int h = 0; h < HALVES && n_t > PAIR; h++)
        m->scale[m->n_ends][h] = scale[h];
    m->n_ends++;
}

/* n groups are put; the next is number 0. */
static ALWAYS_INLINE void few_end_unit(struct few *m, int n_t, int n)
{
    if (n_t > PAIR)
        few_rest(m, n);
    m->next += n * n_t;
    m->at += n;
    m->n_ends = 0;
}

/* The stretch of the set of rows r... */
static ALWAYS_INLINE void few_set(struct few *m, const struct line_source *s, int64_t r,
                                  __m256 (*acc)[HALVES], int n_t, few_take *take)
{
    memset(&m->first, 0, sizeof m->first);
    memset(&m->rest, 0, sizeof m->rest);
    for (int j = 0; j < n_t; j++)
        for (int h = 0; h < HALVES; h++)
            *(j < PAIR ? &m->first.acc[j][h] : &m->rest.acc[j - PAIR][h]) = acc[j][h];
    m->next = m->a;
    m->lows = m->block_lows;
    m->at = m->n_ends = 0;
    take(m, n_t, s, r);
    for (int j = 0; j < n_t; j++)
        for (int h = 0; h < HALVES; h++)
            acc[j][h] = j < PAIR ? m->first.acc[j][h] : m->rest.acc[j - PAIR][h];
}

/* Rows r.., at most FEW_SETS sets of them. */
static ALWAYS_INLINE void few_rows(struct few *m, float *y, int64_t y_step,
                                   const struct line_source *s, int64_t r,
                                   enum line_order order, int n_t, few_take *take)
{
    const int64_t n_groups = m->x->n / KQ_GROUP;
    const int n_sets = (int)min_i64((s->rows - r + SET_ROWS - 1) / SET_ROWS, FEW_SETS);

    memset(m->acc, 0, sizeof m->acc);
    for (m->g = 0; m->g < n_groups; m->g += FEW_STRETCH) {
        m->n_g = (int)min_i64(FEW_STRETCH, n_groups - m->g);
        lay_tokens(m->a, m->block_lows,
                   &(struct stretch){m->x, m->g, m->n_g, m->block_log, order, true}, 0,
                   n_t);
        for (int i = 0; i < n_sets; i++)
            few_set(m, s, r + (int64_t)i * SET_ROWS, m->acc[i], n_t, take);
    }
    for (int i = 0; i < n_sets; i++, r += SET_ROWS)
        for (int j = 0; j < n_t; j++)
            store_halves(y + j * y_step + r, m->acc[i][j], m->x->d[j], s->rows - r);
}

/* y[t * y_step + r] = row r of s, blocks of 1 << block_log groups, times token t of x, which
 * has two to four. */
static ALWAYS_INLINE void few_product(float *y, int64_t y_step,
                                      const struct line_source *s, int block_log,
                                      const struct kq_act *x, enum line_order order,
                                      few_take *take)
{
    struct few m;

    m.x = x;
    m.n_t = (int)x->rows;
    m.block_log = block_log;
    for (int64_t r = 0; r < s->rows; r += FEW_SETS * SET_ROWS) {
        if (m.n_t == 2)
            few_rows(&m, y, y_step, s, r, order, 2, take);
        else if (m.n_t == 3)
            few_rows(&m, y, y_step, s, r, order, 3, take);
        else
            few_rows(&m, y, y_step, s, r, order, 4, take);
    }
}

/* ---- rows in place ---- */

/* A group out of a dword of 2-bit codes of each row. */
static ALWAYS_INLINE void few_2bits(struct few *m, int n_t, int i, const __m256i *v,
                                    bool down)
{
    const __m256i three = _mm256_set1_epi8(3);
    __m256i u[QUADS][HALVES];

    for (int l = 0; l < QUADS; l++)
        for (int h = 0; h < HALVES; h++)
            u[down ? QUADS - 1 - l : l][h] =
                _mm256_and_si256(_mm256_srli_epi16(v[h], 2 * l), three);
    few_put(m, n_t, i, u);
}

/* A group out of the digits 0-3 of a dword, biased by -128; fifth ones to fifth. */
static ALWAYS_INLINE void few_digits(struct few *m, int n_t, int i, const __m256i *v,
                                     __m256i *fifth, struct thirds th)
{
    __m256i u[QUADS][HALVES], w[HALVES] = {v[0], v[1]};

    for (int l = 0; l < QUADS; l++)
        for (int h = 0; h < HALVES; h++) {
            u[l][h] = top_digits(w[h], th);
            w[h] = _mm256_add_epi8(w[h], _mm256_add_epi8(w[h], w[h]));
        }
    for (int h = 0; h < HALVES; h++)
        fifth[h] = top_digits(w[h], th);
    few_put(m, n_t, i, u);
}

/* Four dwords of each row, at byte at. */
static ALWAYS_INLINE void few_dwords(__m256i (*v)[HALVES], const struct row_set *half,
                                     int64_t at)
{
    for (int h = 0; h < HALVES; h++) {
        __m256i w[4];
        weave8(w, half[h].row, at);
        for (int i = 0; i < 4; i++)
            v[i][h] = w[i];
    }
}

static ALWAYS_INLINE void few_halves(struct row_set *half, const struct line_source *s,
                                     int64_t r)
{
    for (int h = 0; h < HALVES; h++) {
        rows_at(&half[h], s->w, s->bytes, min_i64(r + ROWS * h, s->rows - 1), s->rows);
        half[h].ahead *= HALVES;
    }
}

static ALWAYS_INLINE void few_four(struct few *m, int n_t, int i,
                                   const struct row_set *half, int64_t at, bool down)
{
    __m256i v[4][HALVES];

    few_dwords(v, half, at);
    few_2bits(m, n_t, i, v[0], down); /* as loops, gcc leaves them rolled */
    few_2bits(m, n_t, i + 1, v[1], down);
    few_2bits(m, n_t, i + 2, v[2], down);
    few_2bits(m, n_t, i + 3, v[3], down);
}

static ALWAYS_INLINE void few_take_2bits(struct few *m, int n_t,
                                         const struct line_source *s, int64_t r,
                                         const struct two_bits *f)
{
    const int groups = 8 * f->units;
    struct row_set half[HALVES];

    few_halves(half, s, r);
    for (int64_t b = m->g / groups; b < (m->g + m->n_g) / groups; b++) {
        int64_t at = f->bytes * b;
        __m256 scale[HALVES];
        for (int h = 0; h < HALVES; h++) {
            prefetch_next(&half[h], at, f->bytes);
            scale[h] = scales_2bits(&half[h], f, at);
        }
        few_four(m, n_t, 0, half, at + f->codes, f->down);
        few_four(m, n_t, 4, half, at + f->codes + 16, f->down);
        if (f->units == 2) {
            few_four(m, n_t, 8, half, at + f->codes + 32, f->down);
            few_four(m, n_t, 12, half, at + f->codes + 48, f->down);
        }
        few_end_block(m, n_t, scale);
        few_end_unit(m, n_t, groups);
    }
}

static ALWAYS_INLINE void biased(__m256i *to, const __m256i *v)
{
    for (int h = 0; h < HALVES; h++)
        to[h] = _mm256_xor_si256(v[h], _mm256_set1_epi8(-128));
}

static ALWAYS_INLINE void few_bytes(struct few *m, int n_t, int i, const __m256i *v,
                                    __m256i *fifth, struct thirds th)
{
    __m256i w[HALVES];

    biased(w, v);
    few_digits(m, n_t, i, w, fifth, th);
}

static ALWAYS_INLINE void few_ptq1_0(struct few *m, int n_t, const struct row_set *half,
                                     int64_t at, struct thirds th)
{
    __m256i v[7][HALVES], fifth[QUADS][HALVES];
    __m256 scale[HALVES];

    few_dwords(v, half, at);
    few_dwords(v + 3, half, at + 12);
    few_bytes(m, n_t, 0, v[0], fifth[0], th);
    few_bytes(m, n_t, 1, v[1], fifth[1], th);
    few_bytes(m, n_t, 2, v[2], fifth[2], th);
    few_bytes(m, n_t, 3, v[3], fifth[3], th);
    few_put(m, n_t, 4, fifth);
    few_bytes(m, n_t, 5, v[4], fifth[0], th);
    few_bytes(m, n_t, 6, v[5], fifth[1], th);
    for (int h = 0; h < HALVES; h++) {
        __m256i last[QUADS][HALVES];
        take_group(last, h, v[6][h], th);
        fifth[2][h] = two_pairs(last[0][h], last[1][h]);
        fifth[3][h] = two_pairs(last[2][h], last[3][h]);
        scale[h] = upper_halves(v[6][h]);
    }
    few_put(m, n_t, 7, fifth);
    few_end_block(m, n_t, scale);
    few_end_unit(m, n_t, 8);
}

static ALWAYS_INLINE void few_take_ptq1_0(struct few *m, int n_t,
                                          const struct line_source *s, int64_t r)
{
    const struct thirds th = thirds_make();
    struct row_set half[HALVES];

    few_halves(half, s, r);
    for (int64_t b = m->g / 8; b < (m->g + m->n_g) / 8; b++) {
        for (int h = 0; h < HALVES; h++)
            prefetch_next(&half[h], 28 * b, 28);
        few_ptq1_0(m, n_t, half, 28 * b, th);
    }
}

static ALWAYS_INLINE void few_tq1_0(struct few *m, int n_t, const struct row_set *half,
                                    int64_t at, struct thirds th)
{
    __m256i v[4][HALVES], fifth[QUADS][HALVES], last[QUADS][HALVES];
    __m256 scale[HALVES];

    for (int i = 0; i < 8;
         i += 4) { /* eight dwords, whose fifth digits are two groups */
        few_dwords(v, half, at + 4 * (int64_t)i);
        few_bytes(m, n_t, i, v[0], fifth[0], th);
        few_bytes(m, n_t, i + 1, v[1], fifth[1], th);
        few_bytes(m, n_t, i + 2, v[2], fifth[2], th);
        few_bytes(m, n_t, i + 3, v[3], fifth[3], th);
        few_put(m, n_t, 8 + i / 4, fifth);
    }
    few_dwords(v, half, at + 32);
    few_bytes(m, n_t, 10, v[0], fifth[0], th);
    few_bytes(m, n_t, 11, v[1], fifth[1], th);
    few_bytes(m, n_t, 12, v[2], fifth[2], th);
    few_bytes(m, n_t, 13, v[3], fifth[3], th);
    few_put(m, n_t, 14, fifth);
    for (int h = 0; h < HALVES; h++) {
        take_group(last, h, all_rows(&half[h], at + 48), th);
        scale[h] = row_halves(&half[h], at + 52);
    }
    few_put(m, n_t, 15, last);
    few_end_block(m, n_t, scale);
    few_end_unit(m, n_t, 16);
}

static ALWAYS_INLINE void few_take_tq1_0(struct few *m, int n_t,
                                         const struct line_source *s, int64_t r)
{
    const struct thirds th = thirds_make();
    struct row_set half[HALVES];

    few_halves(half, s, r);
    for (int64_t b = m->g / 16; b < (m->g + m->n_g) / 16; b++) {
        for (int h = 0; h < HALVES; h++)
            prefetch_next(&half[h], 54 * b, 54);
        few_tq1_0(m, n_t, half, 54 * b, th);
    }
}

static ALWAYS_INLINE void few_take_q2_0_g128(struct few *m, int n_t,
                                             const struct line_source *s, int64_t r)
{
    few_take_2bits(m, n_t, s, r, &FORM_Q2_0_G128);
}

static ALWAYS_INLINE void few_take_tq2_0(struct few *m, int n_t,
                                         const struct line_source *s, int64_t r)
{
    few_take_2bits(m, n_t, s, r, &FORM_TQ2_0);
}

static ALWAYS_INLINE void few_take_i2_s(struct few *m, int n_t,
                                        const struct line_source *s, int64_t r)
{
    few_take_2bits(m, n_t, s, r, &FORM_I2_S);
}

/* kernel_packed of a type for two to four tokens, and any other number. Apart, so that
 * one token's registers are not theirs. */
#define PACKED_TRITS(name, block, order, one, take, few)                               \
    static NOINLINE void name##_few(                                                   \
        float *y, int64_t y_step, const struct line_source *s, const struct kq_act *x) \
    {                                                                                  \
        few_product(y, y_step, s, (block) == 128 ? 3 : 4, x, order, few);              \
    }                                                                                  \
    void name(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,          \
              int64_t rows, const struct kq_act *x)                                    \
    {                                                                                  \
        const struct line_source s = {w, row_bytes, rows};                             \
        if (x->rows > 1 && x->rows <= FEW)                                             \
            name##_few(y, y_step, &s, x);                                              \
        else                                                                           \
            packed_trits(y, y_step, w, row_bytes, rows, x, block, one, order, take);   \
    }

#endif

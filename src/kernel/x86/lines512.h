/*
 * lines512.h - ternary rows times several tokens in 512-bit registers with VNNI.
 *
 * Sixteen rows are taken apart together. A line, a register, has four codes of each row, a
 * dword for each, so that every lane is a row and no sum crosses lanes. A group of
 * KQ_GROUP positions is four lines: their products with a token's dwords, which the
 * processor broadcasts out of memory, are chained in 32 bits and meet the group's factor
 * once. Up to FEW tokens meet a group's lines in the registers where they were made; more
 * tokens find the lines of a piece in L1, FEW at a time. What tokens bring is laid out
 * beforehand, once for all rows of a call: one pointer instead of three for each token,
 * and rows of an activation as they lie would meet in the same few lines of the cache.
 * How a type's bytes become lines is its take function.
 */
#ifndef KERNEL_X86_LINES512_H
#define KERNEL_X86_LINES512_H

#include "kernel/x86/brings.h"
#include "kernel/x86/ternary512.h"

enum {
    MANY = 9,          /* tokens, from which on lines are kept for all */
    TILE_TOKENS = 32,  /* that meet a piece */
    TILE_SETS = 16,    /* of rows, that share what is laid out */
    PIECE_GROUPS = 32, /* that lie in L1: 8 KB */
    UNIT_GROUPS = 16,  /* the most that end_unit() adds to it */
    ROOM = 2560,       /* tokens times groups that are laid out at a time: 50 KB */
    STRETCH = 640,     /* the most groups of those */
    STRETCH_STEP = 80, /* whole blocks of every type, whole units of repacked rows */
    LEAST_BLOCK_GROUPS = 4 /* of the types' blocks */
};

/* Where rows come from: rows in a file, or sets of them (form, bytes of a set). */
struct line_source {
    const uint8_t *w;
    uint64_t bytes; /* of a row, of a set */
    int64_t rows;
};

/* A tile of tokens and a stretch of groups. a and lows lie by FEW tokens, in these by
 * group or block, then by token. */
struct lines {
    const struct kq_act *x;
    int64_t t, g;  /* first token, first group */
    int n_t, n_g;  /* how many */
    int block_log; /* a block has 1 << block_log groups */
    struct brings a[ROOM];
    int32_t lows[ROOM / LEAST_BLOCK_GROUPS]; /* - the sum of e * q */
    __m512i code[PIECE_GROUPS][QUADS];
    __m512 scale[PIECE_GROUPS / LEAST_BLOCK_GROUPS]; /* of blocks that end in a piece */
    __m512i sum[TILE_TOKENS]; /* of a block that began in the piece before */
    __m512 acc[TILE_SETS][TILE_TOKENS];
};

/* Where a take function puts groups: into the sums of `few` tokens, or, where that is 0, to
 * m->code for all of the tile. */
struct sink {
    struct lines *m;
    const struct brings *a; /* few: of the unit's first group */
    const int32_t *lows;    /* of the block that ends next */
    __m512i sum[FEW];
    __m512 acc[FEW];
    int set, from, n,
        n_ends; /* else: whose; the piece's first group in the stretch; its
                               * groups, and the blocks that ended in it */
};

/* Groups [g, g + n_g) of the rows r.., unit by unit, to the sink. */
typedef void lines_take(struct sink *k, const int few, const struct line_source *s,
                        int64_t r, int64_t g, int n_g);

typedef int32_t dword_in_memory __attribute__((may_alias, aligned(1)));

/* c + u times the four bytes at q. gcc would load q into a register of its own first. */
static ALWAYS_INLINE __m512i dot_quad(__m512i c, __m512i u, const int32_t *q)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(c)
            : "v"(u), "m"(*(const dword_in_memory *)q));
    return c;
}

/* sum + c times the factor at e. */
static ALWAYS_INLINE __m512i dot_factor(__m512i sum, __m512i c, const int32_t *e)
{
    __asm__("vpdpwssd %2%{1to16%}, %1, %0"
            : "+v"(sum)
            : "v"(c), "m"(*(const dword_in_memory *)e));
    return sum;
}

/* sum[j] += the group's lines u times what token j of n_t brings. */
static ALWAYS_INLINE void meet_group(__m512i *sum, const __m512i *u,
                                     const struct brings *a, int n_t)
{
    __m512i c[FEW];

    for (int j = 0; j < n_t; j++)
        c[j] = _mm512_setzero_si512();
    for (int l = 0; l < QUADS; l++)
        for (int j = 0; j < n_t; j++)
            c[j] = dot_quad(c[j], u[l], &a[j].q[l]);
    for (int j = 0; j < n_t; j++)
        sum[j] = dot_factor(sum[j], c[j], &a[j].e);
}

/* Ends a block: its sums go to acc. */
static ALWAYS_INLINE void meet_end(__m512 *acc, __m512i *sum, const int32_t *lows,
                                   __m512 scale, int n_t)
{
    for (int j = 0; j < n_t; j++) {
        __m512i s = _mm512_add_epi32(sum[j], _mm512_set1_epi32(lows[j]));
        acc[j] = _mm512_add_ps(acc[j], _mm512_mul_ps(scale, _mm512_cvtepi32_ps(s)));
        sum[j] = _mm512_setzero_si512();
    }
}

/* ---- pieces that lie in L1 ---- */

/* n groups of m->code, the first of which is number g of the stretch, times n_t tokens from
 * j on. */
static ALWAYS_INLINE void meet_piece_of(struct lines *m, __m512 *to, int g, int n,
                                        int j, int n_t)
{
    const struct brings *a = m->a + j * m->n_g + g * n_t;
    const int32_t *lows =
        m->lows + j * (m->n_g >> m->block_log) + (g >> m->block_log) * n_t;
    const int within = (1 << m->block_log) - 1;
    __m512i sum[FEW];
    __m512 acc[FEW];
    int ends = 0;

    for (int i = 0; i < n_t; i++) {
        sum[i] = m->sum[j + i];
        acc[i] = to[j + i];
    }
    for (int i = 0; i < n; i++, a += n_t) {
        meet_group(sum, m->code[i], a, n_t);
        if ((~(g + i) & within) == 0) {
            meet_end(acc, sum, lows, m->scale[ends++], n_t);
            lows += n_t;
        }
    }
    for (int i = 0; i < n_t; i++) {
        m->sum[j + i] = sum[i];
        to[j + i] = acc[i];
    }
}

static NOINLINE void meet_piece(struct lines *m, __m512 *to, int g, int n)
{
    int j = 0;

    for (; j + FEW <= m->n_t; j += FEW)
        meet_piece_of(m, to, g, n, j, FEW);
    if (m->n_t - j == 3)
        meet_piece_of(m, to, g, n, j, 3);
    else if (m->n_t - j == 2)
        meet_piece_of(m, to, g, n, j, 2);
    else if (m->n_t - j == 1)
        meet_piece_of(m, to, g, n, j, 1);
}

/* ---- what take functions call ---- */

/* Group i of the unit. */
static ALWAYS_INLINE void put_group(struct sink *k, const int few, int i,
                                    const __m512i *u)
{
    if (few)
        meet_group(k->sum, u, k->a + i * few, few);
    else
        for (int l = 0; l < QUADS; l++)
            k->m->code[k->n + i][l] = u[l];
}

/* A block ends behind the group that was put last. */
static ALWAYS_INLINE void end_block(struct sink *k, const int few, __m512 scale)
{
    if (few) {
        meet_end(k->acc, k->sum, k->lows, scale, few);
        k->lows += few;
    } else {
        k->m->scale[k->n_ends++] = scale;
    }
}

static ALWAYS_INLINE void meet_all(struct sink *k)
{
    meet_piece(k->m, k->m->acc[k->set], k->from, k->n);
    k->from += k->n;
    k->n = k->n_ends = 0;
}

/* n groups are put, at most UNIT_GROUPS; the next is number 0. */
static ALWAYS_INLINE void end_unit(struct sink *k, const int few, int n)
{
    if (few) {
        k->a += n * few;
        return;
    }
    k->n += n;
    if (k->n > PIECE_GROUPS - UNIT_GROUPS)
        meet_all(k);
}

/* A group out of a dword of 2-bit codes of each row. */
static ALWAYS_INLINE void put_2bits(struct sink *k, const int few, int i, __m512i v,
                                    bool down)
{
    const __m512i three = _mm512_set1_epi8(3); /* drops what shifts across bytes */
    __m512i u[QUADS];

    for (int l = 0; l < QUADS; l++) {
        u[down ? QUADS - 1 - l : l] = _mm512_and_si512(v, three);
        v = _mm512_srli_epi16(v, 2);
    }
    put_group(k, few, i, u);
}

/* A group out of the digits 0-3 of a dword of each row; the fifth ones to *fifth. */
static ALWAYS_INLINE void put_digits(struct sink *k, const int few, int i, __m512i v,
                                     __m512i *fifth, const struct trits *t)
{
    __m512i u[DIGITS];

    take_apart(u, 1, v, true, t);
    *fifth = u[4];
    put_group(k, few, i, u);
}

/* Eight dwords of each row out of the 32 bytes of both rows of each pair. */
static ALWAYS_INLINE void turn_pairs(__m512i *out, const __m512i *v)
{
    __m512i a[4], b[4];

    turn_dwords(a, v);
    turn_dwords(b, v + 4);
    for (int i = 0; i < 4; i++) {
        out[i] = _mm512_shuffle_i32x4(a[i], b[i], 0x88);
        out[4 + i] = _mm512_shuffle_i32x4(a[i], b[i], 0xdd);
    }
}

static ALWAYS_INLINE void eight_dwords(__m512i *out, const struct pair_rows *s,
                                       int64_t at)
{
    __m512i v[PAIRS];

    for (int j = 0; j < PAIRS; j++)
        v[j] = pair_bytes(s, j, at);
    turn_pairs(out, v);
}

/* Two digits of two bytes each, from two lines whose upper halves do not count. */
static ALWAYS_INLINE __m512i two_pairs(__m512i a, __m512i b)
{
    return _mm512_mask_blend_epi16((__mmask32)0xaaaaaaaa, a, _mm512_slli_epi32(b, 16));
}

/* ---- tiles ---- */

/* The stretch of the set of rows r.. times the tile. */
static ALWAYS_INLINE void lines_set(struct lines *m, const struct line_source *s,
                                    int64_t r, int set, int few, lines_take *take)
{
    struct sink k = {.m = m, .a = m->a, .lows = m->lows, .set = set};

    for (int j = 0; j < few; j++) {
        k.sum[j] = _mm512_setzero_si512();
        k.acc[j] = m->acc[set][j];
    }
    take(&k, few, s, r, m->g, m->n_g);
    if (!few && k.n > 0)
        meet_all(&k);
    for (int j = 0; j < few; j++)
        m->acc[set][j] = k.acc[j];
}

/* Rows r.., at most TILE_SETS sets of them, times the tile. */
static ALWAYS_INLINE void lines_tile(struct lines *m, float *y, int64_t y_step,
                                     const struct line_source *s, int64_t r,
                                     enum line_order order, int few, lines_take *take)
{
    const int64_t n_groups = m->x->n / KQ_GROUP;
    const int n_sets = (int)min_i64((s->rows - r + ROWS16 - 1) / ROWS16, TILE_SETS);
    const int stretch = few ? STRETCH : ROOM / m->n_t / STRETCH_STEP * STRETCH_STEP;

    for (int i = 0; i < n_sets; i++)
        for (int j = 0; j < m->n_t; j++)
            m->acc[i][j] = _mm512_setzero_ps();
    for (int j = 0; j < m->n_t; j++)
        m->sum[j] = _mm512_setzero_si512();
    for (m->g = 0; m->g < n_groups; m->g += stretch) {
        m->n_g = (int)min_i64(stretch, n_groups - m->g);
        lay_tokens(m->a, m->lows,
                   &(struct stretch){m->x, m->g, m->n_g, m->block_log, order, false},
                   m->t, m->n_t);
        for (int i = 0; i < n_sets; i++)
            lines_set(m, s, r + (int64_t)i * ROWS16, i, few, take);
    }
    for (int i = 0; i < n_sets; i++, r += ROWS16)
        for (int j = 0; j < m->n_t; j++)
            store_rows16(y + (m->t + j) * y_step + r, m->acc[i][j], m->x->d[m->t + j],
                         s->rows - r);
}

/* How many of n tokens are a tile: few, or a share that leaves no small rest. */
static int tile_tokens(int64_t n)
{
    int64_t tiles =
        n < MANY ? (n + FEW - 1) / FEW : (n + TILE_TOKENS - 1) / TILE_TOKENS;

    return (int)((n + tiles - 1) / tiles);
}

/* y[t * y_step + r] = row r of s, blocks of 1 << block_log groups, times token t of x. */
static ALWAYS_INLINE void lines_product(float *y, int64_t y_step,
                                        const struct line_source *s, int block_log,
                                        const struct kq_act *x, enum line_order order,
                                        lines_take *take)
{
    struct lines m;

    m.x = x;
    m.block_log = block_log;
    for (m.t = 0; m.t < x->rows; m.t += m.n_t) {
        m.n_t = tile_tokens(x->rows - m.t);
        for (int64_t r = 0; r < s->rows; r += TILE_SETS * ROWS16) {
            if (m.n_t == 2)
                lines_tile(&m, y, y_step, s, r, order, 2, take);
            else if (m.n_t == 3)
                lines_tile(&m, y, y_step, s, r, order, 3, take);
            else if (m.n_t == 4)
                lines_tile(&m, y, y_step, s, r, order, 4, take);
            else
                lines_tile(&m, y, y_step, s, r, order, 0, take);
        }
    }
}

/* ---- rows in place ---- */

/* A block of PTQ1_0: four dwords of five digits, whose fifth ones are a group, two more,
 * and two bytes of four digits. */
static ALWAYS_INLINE void put_ptq1_0(struct sink *k, const int few,
                                     const struct pair_rows *p, int64_t at, bool whole,
                                     const struct trits *t)
{
    __m512i v[8], fifth[4], u[DIGITS];

    prefetch_next(p, at, 28);
    if (whole) {
        eight_dwords(v, p, at);
    } else { /* nothing beyond the block */
        row_dwords(v, p, at);
        row_dwords(v + 3, p, at + 12);
    }
    put_digits(k, few, 0, v[0], &fifth[0], t); /* as loops, gcc leaves them rolled */
    put_digits(k, few, 1, v[1], &fifth[1], t);
    put_digits(k, few, 2, v[2], &fifth[2], t);
    put_digits(k, few, 3, v[3], &fifth[3], t);
    put_group(k, few, 4, fifth);
    put_digits(k, few, 5, v[4], &fifth[0], t);
    put_digits(k, few, 6, v[5], &fifth[1], t);
    take_apart(u, 1, v[6], false, t);
    fifth[2] = two_pairs(u[0], u[1]);
    fifth[3] = two_pairs(u[2], u[3]);
    put_group(k, few, 7, fifth);
    end_block(k, few, upper_halves(v[6]));
    end_unit(k, few, 8);
}

static ALWAYS_INLINE void take_ptq1_0(struct sink *k, const int few,
                                      const struct line_source *s, int64_t r, int64_t g,
                                      int n_g)
{
    const struct trits t = trits_make();
    struct pair_rows p;

    pair_rows_at(&p, s->w, s->bytes, r, s->rows);
    for (int64_t b = g / 8; b < (g + n_g) / 8; b++)
        put_ptq1_0(k, few, &p, 28 * b, 28 * b + 32 <= (int64_t)s->bytes, &t);
}

/* A block of TQ1_0: eight dwords of five digits, whose fifth ones are two groups, four
 * more, whose fifth ones are one, and four bytes of four digits. */
static ALWAYS_INLINE void put_tq1_0(struct sink *k, const int few,
                                    const struct pair_rows *p, int64_t at,
                                    const struct trits *t)
{
    __m512i v[8], fifth[4], u[DIGITS];

    prefetch_next(p, at, 54);
    eight_dwords(v, p, at);
    put_digits(k, few, 0, v[0], &fifth[0], t);
    put_digits(k, few, 1, v[1], &fifth[1], t);
    put_digits(k, few, 2, v[2], &fifth[2], t);
    put_digits(k, few, 3, v[3], &fifth[3], t);
    put_group(k, few, 8, fifth);
    put_digits(k, few, 4, v[4], &fifth[0], t);
    put_digits(k, few, 5, v[5], &fifth[1], t);
    put_digits(k, few, 6, v[6], &fifth[2], t);
    put_digits(k, few, 7, v[7], &fifth[3], t);
    put_group(k, few, 9, fifth);
    row_dwords(v, p, at + 32);
    put_digits(k, few, 10, v[0], &fifth[0], t);
    put_digits(k, few, 11, v[1], &fifth[1], t);
    put_digits(k, few, 12, v[2], &fifth[2], t);
    put_digits(k, few, 13, v[3], &fifth[3], t);
    put_group(k, few, 14, fifth);
    take_apart(u, 1, all_rows(p, at + 48), false, t);
    put_group(k, few, 15, u);
    end_block(k, few, row_halves(p, at + 52));
    end_unit(k, few, 16);
}

static ALWAYS_INLINE void take_tq1_0(struct sink *k, const int few,
                                     const struct line_source *s, int64_t r, int64_t g,
                                     int n_g)
{
    const struct trits t = trits_make();
    struct pair_rows p;

    pair_rows_at(&p, s->w, s->bytes, r, s->rows);
    for (int64_t b = g / 16; b < (g + n_g) / 16; b++)
        put_tq1_0(k, few, &p, 54 * b, &t);
}

typedef void rows_one(float *y, const struct pair_rows *s, const struct kq_act *x,
                      int64_t t, int64_t n_rows);

/* One token. */
static ALWAYS_INLINE void one_token(float *y, const struct line_source *s,
                                    const struct kq_act *x, rows_one *one)
{
    for (int64_t r = 0; r < s->rows; r += ROWS16) {
        struct pair_rows p;
        pair_rows_at(&p, s->w, s->bytes, r, s->rows);
        one(y + r, &p, x, 0, s->rows - r);
    }
}

/* kernel_packed of a type. Several tokens are a function of their own: as a part of this
 * one they made gcc spill what a single token needs. */
#define PACKED_ROWS(name, block_log, order, one, take)                                 \
    static NOINLINE void name##_many(                                                  \
        float *y, int64_t y_step, const struct line_source *s, const struct kq_act *x) \
    {                                                                                  \
        lines_product(y, y_step, s, block_log, x, order, take);                        \
    }                                                                                  \
    void name(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,          \
              int64_t rows, const struct kq_act *x)                                    \
    {                                                                                  \
        const struct line_source s = {w, row_bytes, rows};                             \
        if (x->rows == 1)                                                              \
            one_token(y, &s, x, one);                                                  \
        else                                                                           \
            name##_many(y, y_step, &s, x);                                             \
    }

#endif

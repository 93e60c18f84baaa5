/*
 * lines256.h - ternary rows times several tokens in 256-bit registers.
 *
 * Sixteen rows are taken apart together, a chunk of columns at a time: a line has four
 * codes of each row, a dword for each, so that every lane is a row and no sum crosses
 * lanes. Lines stay in L1 while all tokens of a tile meet them, two at a time in
 * registers; what the tokens bring is laid out beside them once for all rows of a call,
 * because rows of an activation as they lie would meet in the same few lines of the cache.
 * How a type's bytes become lines is its take function.
 */
#ifndef KERNEL_X86_LINES256_H
#define KERNEL_X86_LINES256_H

#include "kernel/x86/brings.h"
#include "kernel/x86/ternary256.h"

enum {
    HALVES = 2,        /* registers of a line, ROWS each */
    SET_ROWS = 16,     /* HALVES * ROWS */
    CHUNK_GROUPS = 16, /* whole blocks of every type */
    MAX_GROUPS = 25,   /* that a take function writes at a time: sets256.h */
    TILE_TOKENS = 64,  /* that meet a chunk, or fewer that meet more chunks */
    TILE_SETS = 8,     /* that share what is laid out of the tokens */
};

struct lines {
    const struct kq_act *x;
    int64_t t, g;      /* first token of the tile, first group of the chunk */
    int n_tokens, n_g; /* of the tile, of the chunk */
    int groups;        /* of a block */
    int slot;          /* in act and lows, of the chunk's first token */
    int first;         /* the chunk's first group in code */
    __m256i code[MAX_GROUPS][QUADS][HALVES];
    __m256 scale[CHUNK_GROUPS][HALVES]; /* by block */
    int32_t act[TILE_TOKENS][CHUNK_GROUPS][ACT_WORDS];
    int32_t lows[TILE_TOKENS][CHUNK_GROUPS]; /* - the sum of e * q, by block */
    float acc[TILE_SETS][TILE_TOKENS][SET_ROWS];
};

/* Where rows come from: rows in a file, or sets of them (form, bytes of a set). */
struct line_source {
    const uint8_t *w;
    uint64_t bytes; /* of a row, of a set */
    int64_t rows;
};

/* Codes plus one and scales of rows r.. of the chunk at m->g, to m. */
typedef void lines_take(struct lines *m, const struct line_source *s, int64_t r);

/* The plane dwords of a unit of `groups` groups, 8 but for the end of a row. */
static ALWAYS_INLINE void lay_unit(int32_t (*to)[ACT_WORDS], const int8_t *p,
                                   int groups)
{
    for (int k = 0; k < QUADS; k++)
        for (int i = 0; i < groups; i++)
            memcpy(&to[i][k], p + 4 * (k * groups + i), sizeof to[i][k]);
}

/* What the tile's tokens bring to the chunk at m->g. */
static void lay_tile(struct lines *m, enum line_order order)
{
    const struct kq_act *x = m->x;

    for (int j = 0; j < m->n_tokens; j++) {
        int64_t at = (m->t + j) * x->n + m->g * KQ_GROUP;
        const int32_t *sum = x->sum + (m->t + j) * (x->n / KQ_GROUP + 1) + m->g;
        const int8_t *p = order == LINES_BY_PLANE ? x->p + at : x->q + at;
        int32_t(*act)[ACT_WORDS] = m->act[m->slot + j];
        for (int i = 0; i < m->n_g; i++) {
            if (order == LINES_BY_POSITION)
                lay_codes(act[i], p + (ptrdiff_t)i * KQ_GROUP);
            else if (i % 8 == 0)
                lay_unit(&act[i], p + (ptrdiff_t)i * KQ_GROUP,
                         m->n_g - i < 8 ? m->n_g - i : 8);
            lay_factor(act[i], x->e + at / 2 + i * (KQ_GROUP / 2));
        }
        for (int b = 0; b * m->groups < m->n_g; b++, sum += m->groups)
            m->lows[m->slot + j][b] =
                (int32_t)((uint32_t)sum[0] - (uint32_t)sum[m->groups]);
    }
}

/* sum += group g of the lines times n_t tokens from j on. */
static ALWAYS_INLINE void meet_group(__m256i (*sum)[HALVES], const struct lines *m,
                                     int g, int j, int n_t)
{
    const __m256i(*code)[HALVES] = m->code[m->first + g];
    __m256i c[2][HALVES];

    for (int k = 0; k < QUADS; k++) {
        __m256i u[HALVES] = {code[k][0], code[k][1]};
        __asm__(""
                : "+x"(u[0]), "+x"(u[1])); /* one load each: loads are what is scarce */
        for (int i = 0; i < n_t; i++) {
            __m256i q = _mm256_set1_epi32(m->act[m->slot + j + i][g][k]);
            for (int h = 0; h < HALVES; h++)
                c[i][h] = k ? chain(c[i][h], u[h], q) : chain_start(u[h], q);
        }
    }
    for (int i = 0; i < n_t; i++) {
        __m256i e = _mm256_set1_epi32(m->act[m->slot + j + i][g][QUADS]);
        for (int h = 0; h < HALVES; h++)
            sum[i][h] = _mm256_add_epi32(sum[i][h], chain_end(c[i][h], e));
    }
}

/* The chunk's lines, in blocks of `groups`, times n_t (1 or 2) tokens from j on. */
static ALWAYS_INLINE void meet_lines(const struct lines *m, float (*acc)[SET_ROWS],
                                     int groups, int j, int n_t)
{
    for (int b = 0, g = 0; g < m->n_g; b++, g += groups) {
        __m256i sum[2][HALVES];
        for (int i = 0; i < n_t; i++)
            sum[i][0] = sum[i][1] = _mm256_set1_epi32(m->lows[m->slot + j + i][b]);
        for (int i = 0; i < groups; i += 4) { /* straight code for four */
            meet_group(sum, m, g + i, j, n_t);
            meet_group(sum, m, g + i + 1, j, n_t);
            meet_group(sum, m, g + i + 2, j, n_t);
            meet_group(sum, m, g + i + 3, j, n_t);
        }
        for (int i = 0; i < n_t; i++)
            for (int h = 0; h < HALVES; h++) {
                float *to = acc[j + i] + ROWS * h;
                __m256 s = _mm256_cvtepi32_ps(sum[i][h]);
                s = _mm256_mul_ps(m->scale[b][h], s);
                _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), s));
            }
    }
}

/* Chunks from group `from` on, of which m->act holds what the tile brings, to m; false
 * behind the last. */
static ALWAYS_INLINE bool chunk_at(struct lines *m, int64_t from, int i)
{
    const int64_t n_groups = m->x->n / KQ_GROUP;

    m->g = from + (int64_t)i * CHUNK_GROUPS;
    m->n_g = (int)min_i64(n_groups - m->g, CHUNK_GROUPS);
    m->slot = i * m->n_tokens;
    return m->g < n_groups && m->slot + m->n_tokens <= TILE_TOKENS;
}

/* The chunk of the set of rows r.. times the tile. */
static ALWAYS_INLINE void lines_chunk(struct lines *m, float (*acc)[SET_ROWS],
                                      const struct line_source *s, int64_t r,
                                      int groups, lines_take *take)
{
    int j = 0;

    m->first = 0;
    take(m, s, r);
    for (; j + 2 <= m->n_tokens; j += 2)
        meet_lines(m, acc, groups, j, 2);
    if (j < m->n_tokens)
        meet_lines(m, acc, groups, j, 1);
}

/* Sets of rows from r on, n_sets of them, times the tile. A full tile meets a chunk of all
 * sets, then the next chunk; few tokens meet many chunks of a set, so that rows are read
 * in longer pieces. */
static ALWAYS_INLINE void lines_tile(struct lines *m, float *y, int64_t y_step,
                                     const struct line_source *s, int64_t r, int n_sets,
                                     int groups, enum line_order order,
                                     lines_take *take)
{
    const int at_a_time = TILE_TOKENS / m->n_tokens;

    for (int i = 0; i < n_sets; i++)
        memset(m->acc[i], 0, (size_t)m->n_tokens * sizeof m->acc[i][0]);
    for (int64_t g = 0; g < m->x->n / KQ_GROUP; g += at_a_time * CHUNK_GROUPS) {
        for (int c = 0; chunk_at(m, g, c); c++)
            lay_tile(m, order);
        for (int i = 0; i < n_sets; i++)
            for (int c = 0; chunk_at(m, g, c); c++)
                lines_chunk(m, m->acc[i], s, r + (int64_t)i * SET_ROWS, groups, take);
    }
    for (int i = 0; i < n_sets; i++, r += SET_ROWS)
        for (int j = 0; j < m->n_tokens; j++) {
            const float *sums = m->acc[i][j];
            const __m256 acc[2] = {_mm256_loadu_ps(sums), _mm256_loadu_ps(sums + ROWS)};
            store_halves(y + (m->t + j) * y_step + r, acc, m->x->d[m->t + j],
                         s->rows - r);
        }
}

/* y[t * y_step + r] = row r of s, blocks of `block` columns, times token t of x. */
static ALWAYS_INLINE void lines_product(float *y, int64_t y_step,
                                        const struct line_source *s, int block,
                                        const struct kq_act *x, enum line_order order,
                                        lines_take *take)
{
    struct lines m;

    m.x = x;
    m.groups = block / KQ_GROUP;
    for (m.t = 0; m.t < x->rows; m.t += TILE_TOKENS) {
        m.n_tokens = (int)min_i64(x->rows - m.t, TILE_TOKENS);
        for (int64_t r = 0; r < s->rows; r += TILE_SETS * SET_ROWS) {
            int64_t sets = (s->rows - r + SET_ROWS - 1) / SET_ROWS;
            lines_tile(&m, y, y_step, s, r, (int)min_i64(sets, TILE_SETS),
                       block / KQ_GROUP, order, take);
        }
    }
}

/* ---- rows in place ---- */

/* Rows r.. in halves; asks for bytes [at, at + n) of the next set. */
static ALWAYS_INLINE void halves_at(struct row_set *half, const struct line_source *s,
                                    int64_t r, int64_t at, int64_t n)
{
    for (int h = 0; h < HALVES; h++) {
        rows_at(&half[h], s->w, s->bytes, min_i64(r + ROWS * h, s->rows - 1), s->rows);
        half[h].ahead *= HALVES;
        prefetch_next(&half[h], at, n);
    }
}

/* Digits 0-3 of four bytes of each row are the four quads of a group; returns what has the
 * fifth on top. */
static ALWAYS_INLINE __m256i take_group(__m256i (*code)[HALVES], int h, __m256i v,
                                        struct thirds th)
{
    v = _mm256_xor_si256(v, _mm256_set1_epi8(-128));
    for (int k = 0; k < QUADS; k++) {
        code[k][h] = top_digits(v, th);
        v = _mm256_add_epi8(v, _mm256_add_epi8(v, v));
    }
    return v;
}

/* Two digits of two bytes each, from two lines whose upper halves do not count. */
static ALWAYS_INLINE __m256i two_pairs(__m256i a, __m256i b)
{
    return _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
}

/* A block of PTQ1_0: four dwords of five digits, whose fifth ones are a group, two more,
 * and two bytes of four digits. */
static ALWAYS_INLINE void take_ptq1_0(struct lines *m, const struct line_source *s,
                                      int64_t r)
{
    const struct thirds th = thirds_make();
    struct row_set half[HALVES];

    halves_at(half, s, r, m->g / 8 * 28, m->n_g / 8 * 28);
    for (int g = 0; g < m->n_g; g += 8)
        for (int h = 0; h < HALVES; h++) {
            int64_t at = (m->g + g) / 8 * 28;
            __m256i v[7], last[QUADS][HALVES];
            weave8(v, half[h].row, at);
            weave8(v + 3, half[h].row, at + 12);
            for (int i = 0; i < 6; i++) {
                int to = i < 4 ? g + i : g + i + 1;
                __m256i rest = take_group(m->code[to], h, v[i], th);
                m->code[i < 4 ? g + 4 : g + 7][i % 4][h] = top_digits(rest, th);
            }
            take_group(last, h, v[6], th);
            m->code[g + 7][2][h] = two_pairs(last[0][h], last[1][h]);
            m->code[g + 7][3][h] = two_pairs(last[2][h], last[3][h]);
            m->scale[g / 8][h] = upper_halves(v[6]);
        }
}

/* A block of TQ1_0: eight dwords of five digits, whose fifth ones are two groups, four
 * more, whose fifth ones are one, and four bytes of four digits. */
static ALWAYS_INLINE void take_tq1_0(struct lines *m, const struct line_source *s,
                                     int64_t r)
{
    const struct thirds th = thirds_make();
    const int64_t at = m->g / 16 * 54;
    struct row_set half[HALVES];

    halves_at(half, s, r, at, 54);
    for (int h = 0; h < HALVES; h++) {
        __m256i v[13];
        for (int i = 0; i < 12; i += 4)
            weave8(v + i, half[h].row, at + 4 * (int64_t)i);
        v[12] = all_rows(&half[h], at + 48);
        for (int i = 0; i < 12; i++) {
            __m256i rest = take_group(m->code[i < 8 ? i : i + 2], h, v[i], th);
            m->code[i < 8 ? 8 + i / 4 : 14][i % 4][h] = top_digits(rest, th);
        }
        take_group(m->code[15], h, v[12], th);
        m->scale[0][h] = row_halves(&half[h], at + 52);
    }
}

/* Four dwords of 2-bit codes of eight rows to a group each. */
static ALWAYS_INLINE void take_2bit_dwords(struct lines *m, int g, int h,
                                           const __m256i *v, bool down)
{
    const __m256i three = _mm256_set1_epi8(3);

    for (int i = 0; i < 4; i++)
        for (int k = 0; k < QUADS; k++)
            m->code[g + i][down ? 3 - k : k][h] =
                _mm256_and_si256(_mm256_srli_epi16(v[i], 2 * k), three);
}

static ALWAYS_INLINE void take_2bits(struct lines *m, const struct line_source *s,
                                     int64_t r, const struct two_bits *f)
{
    const int groups = 8 * f->units;
    struct row_set half[HALVES];

    halves_at(half, s, r, m->g / groups * f->bytes, m->n_g / groups * f->bytes);
    for (int g = 0; g < m->n_g; g += groups)
        for (int h = 0; h < HALVES; h++) {
            int64_t at = (m->g + g) / groups * f->bytes;
            for (int u = 0; u < 2 * f->units; u++) {
                __m256i v[4];
                weave8(v, half[h].row, at + f->codes + 16 * (int64_t)u);
                take_2bit_dwords(m, g + 4 * u, h, v, f->down);
            }
            m->scale[g / groups][h] = scales_2bits(&half[h], f, at);
        }
}

/* The types of 2-bit codes: how rows lie, one token, several. */
static const struct two_bits FORM_Q2_0_G128 = {34, 2, 0, 1, false},
                             FORM_TQ2_0 = {66, 0, 64, 2, false},
                             FORM_I2_S = {32, 0, NO_SCALE, 1, true};

static ALWAYS_INLINE void one_q2_0_g128(float *y, const struct row_set *s,
                                        const struct kq_act *x, int64_t t,
                                        int64_t n_rows)
{
    one_2bits(y, s, x, t, &FORM_Q2_0_G128, n_rows);
}

static ALWAYS_INLINE void take_q2_0_g128(struct lines *m, const struct line_source *s,
                                         int64_t r)
{
    take_2bits(m, s, r, &FORM_Q2_0_G128);
}

static ALWAYS_INLINE void one_tq2_0(float *y, const struct row_set *s,
                                    const struct kq_act *x, int64_t t, int64_t n_rows)
{
    one_2bits(y, s, x, t, &FORM_TQ2_0, n_rows);
}

static ALWAYS_INLINE void take_tq2_0(struct lines *m, const struct line_source *s,
                                     int64_t r)
{
    take_2bits(m, s, r, &FORM_TQ2_0);
}

static ALWAYS_INLINE void one_i2_s(float *y, const struct row_set *s,
                                   const struct kq_act *x, int64_t t, int64_t n_rows)
{
    one_2bits(y, s, x, t, &FORM_I2_S, n_rows);
}

static ALWAYS_INLINE void take_i2_s(struct lines *m, const struct line_source *s,
                                    int64_t r)
{
    take_2bits(m, s, r, &FORM_I2_S);
}

/* One token, by rows of a set of ROWS. */
typedef void trits_one(float *y, const struct row_set *s, const struct kq_act *x,
                       int64_t t, int64_t n_rows);

/* kernel_packed of a type with blocks of `block` columns. */
static ALWAYS_INLINE void packed_trits(float *y, int64_t y_step, const uint8_t *w,
                                       uint64_t row_bytes, int64_t rows,
                                       const struct kq_act *x, int block,
                                       trits_one *one, enum line_order order,
                                       lines_take *take)
{
    const struct line_source from = {w, row_bytes, rows};

    if (x->rows > 1)
        lines_product(y, y_step, &from, block, x, order, take);
    else
        for (int64_t r = 0; r < rows; r += ROWS) {
            struct row_set s;
            rows_at(&s, w, row_bytes, r, rows);
            one(y + r, &s, x, 0, rows - r);
        }
}

#endif

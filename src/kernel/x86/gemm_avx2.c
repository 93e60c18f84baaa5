/*
 * gemm_avx2.c - unpacked rows times activations, in AVX2.
 *
 * Eight rows are a panel: a register has 4 columns of each, so that a lane is a row and no
 * sum ever crosses lanes. A panel is woven from the unpacked rows once for each chunk of
 * columns and meets all tokens, four at a time in registers; activations come as
 * broadcasts of four columns.
 */
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"

#include <string.h>

enum {
    ROWS = 8,    /* of a panel: lanes of a register */
    PANELS = 8,  /* that share what is laid out of the activations */
    TOKENS = 64, /* at a time */
    TILE = 4,    /* tokens in registers */
    CHUNK = 256, /* columns at a time: whole blocks of every type */
    GROUPS = CHUNK / KQ_GROUP,
};

/* How codes meet the activation, by the largest of them. */
enum form {
    SUM_4, /* up to 31: four products of pairs fit 16 bits */
    SUM_2, /* up to 63: two do */
    SIGNED /* any int8: |code| times the activation with the code's sign */
};

/* Codes are kq_mat.code + low, or as they are. Quad i has columns 4 i.. of each row. */
struct panel {
    int8_t code[CHUNK / 4][4 * ROWS];
    float scale[GROUPS][ROWS], min[GROUPS][ROWS]; /* at the first group of a block */
};

/* What a product's parts share. */
struct gemm {
    const struct kq_mat *w;
    const struct kq_act *x;
    int64_t r, t, c;                       /* first row, token, column */
    int n_panels, n_tokens, cols, n_block; /* n_block: blocks of the chunk */
    int block_groups; /* groups of a block; the last may have fewer */
    int32_t act[TOKENS][GROUPS][ACT_WORDS];
    int32_t lows[TOKENS][GROUPS]; /* - low * sum of e * q, by block */
    float sum[TOKENS][GROUPS];    /* of e * q, by block */
    struct panel panel;
    float acc[PANELS][TOKENS][ROWS];
};

/* Numbers of a block's first group, of all rows. */
static void weave_floats(float (*out)[ROWS], const struct gemm *m,
                         const float *const *from)
{
    int n = m->cols / KQ_GROUP, g = 0;
    const uint8_t *row[ROWS];

    for (int i = 0; i < ROWS; i++)
        row[i] = (const uint8_t *)from[i];
    for (; g + 4 <= n; g += 4) {
        __m256i v[4];
        if (g % m->block_groups)
            continue;
        weave8(v, row, g * (int64_t)sizeof(float));
        for (int i = 0; i < 4; i++)
            store256(out[g + i], v[i]);
    }
    for (; g < n; g++)
        for (int i = 0; i < ROWS; i++)
            out[g][i] = from[i][g];
}

/* Rows from r on; those beyond the last are the last. */
static void fill_panel(struct gemm *m, int64_t r)
{
    const struct kq_mat *w = m->w;
    const __m256i low = _mm256_set1_epi8((char)(w->low < 0 ? 0 : w->low));
    const float *scale[ROWS], *min[ROWS];
    const uint8_t *row[ROWS];

    for (int i = 0; i < ROWS; i++) {
        int64_t at = min_i64(r + i, w->rows - 1);
        row[i] = (const uint8_t *)w->code + at * w->code_step + m->c;
        scale[i] = w->scale + at * w->group_step + m->c / KQ_GROUP;
        min[i] = w->min ? w->min + at * w->group_step + m->c / KQ_GROUP : NULL;
    }
    for (int c = 0; c < m->cols; c += 16) {
        __m256i v[4];
        weave8(v, row, c);
        for (int i = 0; i < 4; i++)
            store256(m->panel.code[c / 4 + i], _mm256_add_epi8(v[i], low));
    }
    weave_floats(m->panel.scale, m, scale);
    if (w->min)
        weave_floats(m->panel.min, m, min);
}

/* What the tokens bring, side by side: rows of an activation as they lie would meet in the
 * same few lines of the cache. */
static void fill_act(struct gemm *m)
{
    const struct kq_act *x = m->x;
    int n = m->cols / KQ_GROUP, low = m->w->low < 0 ? 0 : m->w->low;

    for (int j = 0; j < m->n_tokens; j++) {
        const int32_t *sum =
            x->sum + (m->t + j) * (x->n / KQ_GROUP + 1) + m->c / KQ_GROUP;
        int64_t at = (m->t + j) * x->n + m->c;
        for (int g = 0; g < n; g++) {
            lay_codes(m->act[j][g], x->q + at + (ptrdiff_t)g * KQ_GROUP);
            lay_factor(m->act[j][g], x->e + at / 2 + g * (KQ_GROUP / 2));
        }
        for (int b = 0; b < m->n_block; b++) {
            int from = b * m->block_groups, to = from + m->block_groups;
            uint32_t s = (uint32_t)sum[to < n ? to : n] - (uint32_t)sum[from];
            m->lows[j][b] = -(int32_t)((uint32_t)low * s);
            m->sum[j][b] = (float)(int32_t)s;
        }
    }
}

/* sum[j] += e * (codes times q) over group g, for n_t tokens from j0 on. */
static ALWAYS_INLINE void add_group(__m256i *sum, const struct gemm *m, int j0, int n_t,
                                    int g, enum form form)
{
    __m256i d[TILE];

    for (int i = 0; i < 4; i++) {
        __m256i w = load256(m->panel.code[4 * g + i]), mag = w;
        if (form == SIGNED)
            mag = _mm256_abs_epi8(w);
        __asm__("" : "+x"(mag)); /* one load; see below */
        for (int j = 0; j < n_t; j++) {
            __m256i v = _mm256_set1_epi32(m->act[j0 + j][g][i]);
            if (form == SIGNED)
                v = _mm256_sign_epi8(v, w);
            v = _mm256_maddubs_epi16(mag, v);
            bool first = form == SIGNED || i == 0 || (form == SUM_2 && i == 2);
            bool last = form == SIGNED || i == 3 || (form == SUM_2 && i == 1);
            d[j] = first ? v : _mm256_add_epi16(d[j], v);
            /* Keeps the order: gcc takes products of all quads first and adds them as a
             * tree, for which there are not registers enough. */
            __asm__("" : "+x"(d[j]));
            if (last)
                sum[j] = _mm256_add_epi32(
                    sum[j],
                    _mm256_madd_epi16(
                        d[j], _mm256_set1_epi32(m->act[j0 + j][g][ACT_WORDS - 1])));
        }
    }
}

/* One panel times n_t tokens from j0 on, over one chunk. */
static ALWAYS_INLINE void tile(struct gemm *m, float (*to)[ROWS], int j0, int n_t,
                               enum form form, bool has_min)
{
    int n = m->cols / KQ_GROUP;

    for (int b = 0, g = 0; g < n; b++) {
        __m256i sum[TILE];
        __m256 scale = _mm256_loadu_ps(m->panel.scale[g]);
        __m256 min = has_min ? _mm256_loadu_ps(m->panel.min[g]) : scale;
        int end = g + m->block_groups < n ? g + m->block_groups : n;
        for (int j = 0; j < n_t; j++)
            sum[j] = _mm256_set1_epi32(m->lows[j0 + j][b]);
        for (; g < end; g++)
            add_group(sum, m, j0, n_t, g, form);
        for (int j = 0; j < n_t; j++) {
            __m256 term = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum[j]));
            if (has_min)
                term = _mm256_sub_ps(
                    term, _mm256_mul_ps(min, _mm256_set1_ps(m->sum[j0 + j][b])));
            _mm256_storeu_ps(to[j0 + j],
                             _mm256_add_ps(_mm256_loadu_ps(to[j0 + j]), term));
        }
    }
}

static ALWAYS_INLINE void all_tokens(struct gemm *m, float (*to)[ROWS], enum form form,
                                     bool has_min)
{
    int j = 0;

    for (; j + TILE <= m->n_tokens; j += TILE)
        tile(m, to, j, TILE, form, has_min);
    for (; j < m->n_tokens; j++)
        tile(m, to, j, 1, form, has_min);
}

static void multiply(struct gemm *m, float (*to)[ROWS])
{
    enum form form = m->w->low < 0 ? SIGNED : m->w->top <= 31 ? SUM_4 : SUM_2;

    if (form == SIGNED)
        m->w->min ? all_tokens(m, to, SIGNED, true) : all_tokens(m, to, SIGNED, false);
    else if (form == SUM_4)
        m->w->min ? all_tokens(m, to, SUM_4, true) : all_tokens(m, to, SUM_4, false);
    else
        m->w->min ? all_tokens(m, to, SUM_2, true) : all_tokens(m, to, SUM_2, false);
}

/* Up to PANELS panels times up to TOKENS tokens, all columns. */
static void gemm_part(struct gemm *m, float *y, int64_t y_step)
{
    int64_t n = m->x->n;

    memset(m->acc, 0, (size_t)m->n_panels * sizeof m->acc[0]);
    for (m->c = 0; m->c < n; m->c += CHUNK) {
        m->cols = (int)min_i64(CHUNK, n - m->c);
        m->n_block = (m->cols + m->w->block - 1) / m->w->block;
        fill_act(m);
        for (int p = 0; p < m->n_panels; p++) {
            fill_panel(m, m->r + p * ROWS);
            multiply(m, m->acc[p]);
        }
    }
    for (int p = 0; p < m->n_panels; p++) {
        int64_t r = m->r + p * ROWS;
        __m256i mask = first_lanes(min_i64(ROWS, m->w->rows - r));
        for (int j = 0; j < m->n_tokens; j++) {
            __m256 v = _mm256_mul_ps(_mm256_set1_ps(m->x->d[m->t + j]),
                                     _mm256_loadu_ps(m->acc[p][j]));
            _mm256_maskstore_ps(y + (m->t + j) * y_step + r, mask, v);
        }
    }
}

void kernel_qdot_avx2(float *y, int64_t y_step, const struct kq_mat *w,
                      const struct kq_act *x)
{
    struct gemm m;

    m.w = w;
    m.x = x;
    m.block_groups = w->block / KQ_GROUP;
    for (m.t = 0; m.t < x->rows; m.t += TOKENS) {
        m.n_tokens = (int)min_i64(TOKENS, x->rows - m.t);
        for (m.r = 0; m.r < w->rows; m.r += PANELS * ROWS) {
            int64_t panels = (w->rows - m.r + ROWS - 1) / ROWS;
            m.n_panels = (int)min_i64(PANELS, panels);
            gemm_part(&m, y, y_step);
        }
    }
}

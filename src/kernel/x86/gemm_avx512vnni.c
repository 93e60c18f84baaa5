/*
 * gemm_avx512vnni.c - unpacked rows times activations, in AVX-512 VNNI.
 *
 * Panels of sixteen rows meet eight tokens at a time in registers; activations come as
 * broadcasts of four columns. A chunk's sums of the activations, which unsigned codes
 * and minima ask for, are laid out once for all panels.
 */
#include "kernel/variants.h"
#include "kernel/x86/gemm_avx512.h"

enum { NARROW = 16 }; /* codes up to it: a group's sum fits 16 bits */

static ALWAYS_INLINE __m512i quad(const int8_t *q)
{
    int32_t v;

    memcpy(&v, q, sizeof v);
    return _mm512_set1_epi32(v);
}

/* sum[j] += e * (codes times q) over group g, for n_t tokens from j0 on. */
static ALWAYS_INLINE void add_group(__m512i *sum, const struct gemm *m, int j0, int n_t,
                                    int g, bool narrow)
{
    const int8_t *q = m->x->q + (m->t + j0) * m->x->n + m->c + g * KQ_GROUP;
    __m512i w[4];

    for (int i = 0; i < 4; i++)
        w[i] = _mm512_loadu_si512(m->panel.code[4 * g + i]);
    for (int j = 0; j < n_t; j++) {
        __m512i d = _mm512_setzero_si512(), e = _mm512_set1_epi32(m->act.e[j0 + j][g]);
        for (int i = 0; i < 4; i++)
            d = _mm512_dpbusd_epi32(d, w[i], quad(q + j * m->x->n + 4 * i));
        if (narrow) /* the upper half of e is zero: that of d does not count */
            sum[j] = _mm512_dpwssd_epi32(sum[j], d, e);
        else
            sum[j] = _mm512_add_epi32(sum[j], _mm512_mullo_epi32(d, e));
    }
}

/* One panel times n_t tokens from j0 on, over one chunk. */
static ALWAYS_INLINE void tile(struct gemm *m, float (*to)[ROWS], int j0, int n_t,
                               bool narrow, bool has_min)
{
    int n = m->cols / KQ_GROUP;
    __m512 acc[8];

    for (int j = 0; j < n_t; j++)
        acc[j] = _mm512_loadu_ps(to[j0 + j]);
    for (int b = 0, g = 0; g < n; b++) {
        __m512i sum[8];
        __m512 scale = _mm512_loadu_ps(m->panel.scale[g]);
        __m512 min = has_min ? _mm512_loadu_ps(m->panel.min[g]) : scale;
        int end = g + m->block_groups < n ? g + m->block_groups : n;
        for (int j = 0; j < n_t; j++)
            sum[j] = _mm512_set1_epi32(m->act.lows[j0 + j][b]);
        for (; g < end; g++)
            add_group(sum, m, j0, n_t, g, narrow);
        for (int j = 0; j < n_t; j++) {
            __m512 term = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum[j]));
            if (has_min)
                term = _mm512_sub_ps(
                    term, _mm512_mul_ps(min, _mm512_set1_ps(m->act.sum[j0 + j][b])));
            acc[j] = _mm512_add_ps(acc[j], term);
        }
    }
    for (int j = 0; j < n_t; j++)
        _mm512_storeu_ps(to[j0 + j], acc[j]);
}

static ALWAYS_INLINE void all_tokens(struct gemm *m, float (*to)[ROWS], bool narrow,
                                     bool has_min)
{
    int j = 0;

    for (; j + 8 <= m->n_tokens; j += 8)
        tile(m, to, j, 8, narrow, has_min);
    if (j + 4 <= m->n_tokens) {
        tile(m, to, j, 4, narrow, has_min);
        j += 4;
    }
    for (; j < m->n_tokens; j++)
        tile(m, to, j, 1, narrow, has_min);
}

static void multiply(struct gemm *m, float (*to)[ROWS])
{
    bool narrow = m->w->top <= NARROW;

    if (narrow && m->w->min)
        all_tokens(m, to, true, true);
    else if (narrow)
        all_tokens(m, to, true, false);
    else if (m->w->min)
        all_tokens(m, to, false, true);
    else
        all_tokens(m, to, false, false);
}

/* Up to PANELS panels times up to TOKENS tokens, all columns. */
static void gemm_part(struct gemm *m, float *y, int64_t y_step)
{
    memset(m->acc, 0, (size_t)m->n_panels * sizeof m->acc[0]);
    for (int64_t c = 0; c < m->x->n; c += CHUNK) {
        begin_chunk(m, c);
        for (int p = 0; p < m->n_panels; p++) {
            fill_panel(m, m->r + p * ROWS);
            multiply(m, m->acc[p]);
        }
    }
    put_results(m, y, y_step);
}

void kernel_qdot_avx512vnni(float *y, int64_t y_step, const struct kq_mat *w,
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

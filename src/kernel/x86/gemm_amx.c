/*
 * gemm_amx.c - unpacked rows of wide blocks times many tokens, in AMX int8.
 *
 * A tile product sums 64 columns of 16 tokens and 16 rows at once, but an activation's
 * factor changes every 16 columns. So e * q, below 2^19 in magnitude, is split into three
 * signed bytes, e q = a + 256 b + 65536 c, and each meets the codes in a tile of its own;
 * the three sums of a block make the exact integer of the contract. Three products for
 * one pay from blocks of 128 columns on; everything else goes to AVX-512 VNNI.
 */
#include "kernel/variants.h"
#include "kernel/x86/amx.h"
#include "kernel/x86/gemm_avx512.h"

enum {
    LEAST_BLOCK = 128,
    LEAST_TOKENS = 16,
    TILE = 16, /* tokens and rows of a tile */
    SLAB = 64, /* columns of a tile */
    PARTS = 3, /* bytes of e * q */
};

/* The activations of a chunk as bytes; rows of tokens that do not exist are zero, and so
 * are columns beyond the last. */
struct act_bytes {
    int8_t v[PARTS][TOKENS][CHUNK];
};

struct amx_gemm {
    struct gemm m;
    struct act_bytes act;
    int32_t sum[PARTS][TILE][ROWS];
};

/* Tile state is per thread and shared with nobody: set at the begin of a product and
 * released at its end. */
static void set_tiles(void)
{
    struct amx_config c = {.palette = 1};

    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = SLAB;
        c.rows[i] = TILE;
    }
    /* gcc 12 does not know that LDTILECFG reads memory and drops the stores above. */
    __asm__ volatile("" : : "r"(&c) : "memory");
    AMX_CONFIG(&c);
}

/* The signed byte at the bottom of each number; v becomes what is left, divided by 256. */
static ALWAYS_INLINE __m128i split_byte(__m512i *v)
{
    __m128i low = _mm512_cvtepi32_epi8(*v);

    *v = _mm512_srai_epi32(_mm512_sub_epi32(*v, _mm512_cvtepi8_epi32(low)), 8);
    return low;
}

static void fill_bytes(struct amx_gemm *g)
{
    const struct gemm *m = &g->m;
    int n = m->cols / KQ_GROUP;

    memset(&g->act, 0, sizeof g->act);
    for (int j = 0; j < m->n_tokens; j++) {
        const int8_t *q = m->x->q + (m->t + j) * m->x->n + m->c;
        for (int i = 0; i < n; i++) {
            __m512i v = _mm512_cvtepi8_epi32(load128(q + i * KQ_GROUP));
            v = _mm512_mullo_epi32(v, _mm512_set1_epi32(m->act.e[j][i]));
            for (int k = 0; k < PARTS; k++)
                store128(g->act.v[k][j] + i * KQ_GROUP, split_byte(&v));
        }
    }
}

/* Columns [c, end) of a chunk: sums of 16 tokens from j on and 16 rows. */
static void block_sums(struct amx_gemm *g, int j, int c, int end)
{
    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    for (; c < end; c += SLAB) {
        AMX_LOAD(6, g->m.panel.code[c / 4], 4 * ROWS);
        AMX_LOAD(3, g->act.v[0][j] + c, CHUNK);
        AMX_DOT(0, 3, 6);
        AMX_LOAD(4, g->act.v[1][j] + c, CHUNK);
        AMX_DOT(1, 4, 6);
        AMX_LOAD(5, g->act.v[2][j] + c, CHUNK);
        AMX_DOT(2, 5, 6);
    }
    AMX_STORE(0, g->sum[0], 4 * ROWS);
    AMX_STORE(1, g->sum[1], 4 * ROWS);
    AMX_STORE(2, g->sum[2], 4 * ROWS);
}

/* One panel times 16 tokens from j0 on, over one chunk. */
static void tile(struct amx_gemm *g, float (*to)[ROWS], int j0)
{
    const struct gemm *m = &g->m;
    int block = m->w->block, n = m->n_tokens - j0 < TILE ? m->n_tokens - j0 : TILE;

    for (int b = 0; b < m->n_block; b++) {
        int end = (b + 1) * block < m->cols ? (b + 1) * block : m->cols;
        __m512 scale = _mm512_loadu_ps(m->panel.scale[b * m->block_groups]);
        block_sums(g, j0, b * block, end);
        for (int j = 0; j < n; j++) {
            __m512i s = _mm512_loadu_si512(g->sum[2][j]);
            s = _mm512_add_epi32(_mm512_slli_epi32(s, 8),
                                 _mm512_loadu_si512(g->sum[1][j]));
            s = _mm512_add_epi32(_mm512_slli_epi32(s, 8),
                                 _mm512_loadu_si512(g->sum[0][j]));
            s = _mm512_add_epi32(s, _mm512_set1_epi32(m->act.lows[j0 + j][b]));
            __m512 acc = _mm512_loadu_ps(to[j0 + j]);
            acc = _mm512_add_ps(acc, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(s)));
            _mm512_storeu_ps(to[j0 + j], acc);
        }
    }
}

static void gemm_part(struct amx_gemm *g, float *y, int64_t y_step)
{
    struct gemm *m = &g->m;

    memset(m->acc, 0, (size_t)m->n_panels * sizeof m->acc[0]);
    for (int64_t c = 0; c < m->x->n; c += CHUNK) {
        begin_chunk(m, c);
        fill_bytes(g);
        for (int p = 0; p < m->n_panels; p++) {
            fill_panel(m, m->r + p * ROWS);
            for (int j = 0; j < m->n_tokens; j += TILE)
                tile(g, m->acc[p], j);
        }
    }
    put_results(m, y, y_step);
}

void kernel_qdot_amx(float *y, int64_t y_step, const struct kq_mat *w,
                     const struct kq_act *x)
{
    struct amx_gemm g;

    if (w->block < LEAST_BLOCK || w->min || x->rows < LEAST_TOKENS) {
        kernel_qdot_avx512vnni(y, y_step, w, x);
        return;
    }
    g.m.w = w;
    g.m.x = x;
    g.m.block_groups = w->block / KQ_GROUP;
    memset(&g.m.panel, 0, sizeof g.m.panel); /* a last slab may be cut short */
    set_tiles();
    for (g.m.t = 0; g.m.t < x->rows; g.m.t += TOKENS) {
        g.m.n_tokens = (int)min_i64(TOKENS, x->rows - g.m.t);
        for (g.m.r = 0; g.m.r < w->rows; g.m.r += PANELS * ROWS) {
            int64_t panels = (w->rows - g.m.r + ROWS - 1) / ROWS;
            g.m.n_panels = (int)min_i64(PANELS, panels);
            gemm_part(&g, y, y_step);
        }
    }
    AMX_RELEASE();
}

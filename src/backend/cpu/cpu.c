/*
 * cpu.c - the CPU backend's lifetime, and the operations without tiling.
 */
#include "base/cpu.h"
#include "backend/cpu/cpu_int.h"
#include "base/mem.h"
#include "base/pool.h"
#include "tensor/quant.h"

#include <assert.h>
#include <string.h>

/* Pieces of work: rows of a norm, elements of an activation function, tokens. */
enum {
    ROWS_CHUNK = 8,
    ELEMS_CHUNK = 16384,
    GLU_CHUNK = 1024, /* with an exponential each: under a microsecond */
    GLU_AT_ONCE = 16,
    TOKENS_CHUNK = 4
};

enum { PIECE = 1024 }; /* weights decoded at a time, a multiple of every block */

enum b2_status backend_cpu_new(struct backend **out, const struct backend_config *cfg,
                               struct b2_err *err)
{
    struct backend *be = mem_calloc(1, sizeof *be);

    if (!be)
        goto fail;
    kernels_init(&be->k, cfg->cpu);
    be->pool = cfg->pool;
    be->log = cfg->log;
    be->exact = cfg->exact;
    be->n_threads = cfg->pool ? pool_threads(cfg->pool) : 1;
    be->scratch = mem_aligned(CPU_ALIGN, (size_t)be->n_threads, CPU_SCRATCH);
    if (!be->scratch)
        goto fail;
    *out = be;
    return B2_OK;

fail:
    backend_free(be);
    return err_set(err, B2_ENOMEM, "CPU backend: out of memory");
}

void backend_free(struct backend *be)
{
    if (!be)
        return;
    mem_free(be->parts);
    mem_free(be->scratch);
    mem_free(be);
}

const char *backend_kernel_name(const struct backend *be)
{
    return be->k.name;
}

bool backend_is_exact(const struct backend *be)
{
    return be->exact;
}

void cpu_run(struct backend *be,
             void (*fn)(void *ctx, int64_t begin, int64_t end, int thread), void *ctx,
             int64_t n, int64_t chunk)
{
    if (n <= 0)
        return;
    if (n <= chunk)
        fn(ctx, 0, n, 0);
    else
        pool_run(be->pool, fn, ctx, n, chunk);
}

/* Quantised rows by the kernels, a piece at a time: the same values as
 * quant_decode_row(), at many times its speed. */
static void decode_quantised(const struct kernels *k, enum dtype t, float *dst,
                             const uint8_t *src, int64_t n)
{
    const struct dtype_info *info = dtype_info(t);
    int8_t code[PIECE];
    float scale[PIECE / KQ_GROUP], min[PIECE / KQ_GROUP];

    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t piece = min_i64(PIECE, n - i);
        k->unpack[t](code, scale, min, src + i / info->block * info->bytes, piece);
        k->dequant(dst + i, code, scale, kernel_has_min(t) ? min : NULL, piece);
    }
}

void cpu_decode_row(const struct backend *be, enum dtype t, float *dst,
                    const uint8_t *src, int64_t n)
{
    if (t == DT_F16)
        be->k.f32_from_f16(dst, src, n);
    else if (t == DT_BF16)
        be->k.f32_from_bf16(dst, src, n);
    else if (kernel_is_quant(t))
        decode_quantised(&be->k, t, dst, src, n);
    else
        quant_decode_row(t, dst, src, n);
}

struct embed_job {
    struct backend *be;
    float *dst;
    const struct weight *w;
    const int32_t *ids;
};

static void embed_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct embed_job *j = ctx;
    const struct kernels *k = &j->be->k;

    for (int64_t t = begin; t < end; t++) {
        int64_t r = j->ids[t];
        const struct weight *w = weight_of_row(j->w, &r);
        const uint8_t *src = w->data + (uint64_t)r * w->row_bytes;
        float *row = j->dst + t * w->cols;
        float *to = w->pad ? cpu_scratch(j->be, thread) : row;
        cpu_decode_row(j->be, w->type, to, src, weight_stored(w));
        if (dtype_info(w->type)->flags & DTF_APART)
            k->scale(to, w->cols, w->scale);
        if (w->pad)
            memcpy(row, to, (size_t)w->cols * sizeof *row);
        if (w->rot) { /* the inverse: transform first, then signs */
            k->fwht(row, w->cols, w->rot->block);
            if (w->rot->signs)
                k->mul(row, row, w->rot->signs, w->cols);
        }
    }
}

void backend_embed(struct backend *be, float *dst, const struct weight *w,
                   const int32_t *ids, int64_t n_tokens)
{
    struct embed_job j = {be, dst, w, ids};

    assert(weight_stored(w) <= CPU_MAX_WIDTH);
    cpu_run(be, embed_part, &j, n_tokens, TOKENS_CHUNK);
}

/* Rows of a piece: short ones are not worth another thread. */
static int64_t rows_chunk(int64_t d)
{
    return max_i64(ROWS_CHUNK, ELEMS_CHUNK / d);
}

struct norm_job {
    const struct kernels *k;
    float *y;
    const float *x, *gain;
    int64_t d;
    float eps;
};

static void norm_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct norm_job *j = ctx;

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        j->k->rmsnorm(j->y + r * j->d, j->x + r * j->d, j->gain, j->d, j->eps);
}

void backend_rmsnorm(struct backend *be, float *y, const float *x, const float *gain,
                     int64_t n_rows, int64_t d, float eps)
{
    struct norm_job j = {&be->k, y, x, gain, d, eps};

    cpu_run(be, norm_part, &j, n_rows, rows_chunk(d));
}

struct rope_job {
    struct backend *be;
    float *x;
    int64_t n_heads, pos0;
    const struct rope_args *args;
};

/* Where the token at pos is turned as if it stood. */
static int64_t rope_pos(const struct rope_args *a, int64_t pos)
{
    return a->max_pos ? min_i64(pos, a->max_pos) : pos;
}

/* cos and sin of all pairs at a position, as they are multiplied. */
static void rope_angles(float *c, float *s, const struct rope_args *a, int64_t pos)
{
    for (int64_t i = 0; i < a->n_rot / 2; i++) {
        kernel_sincos(&s[i], &c[i], (double)pos * (double)a->freq[i]);
        s[i] *= a->mscale;
        c[i] *= a->mscale;
    }
}

static void rope_heads(const struct rope_job *j, int64_t t, const float *c,
                       const float *s)
{
    const struct rope_args *a = j->args;

    for (int64_t h = 0; h < j->n_heads; h++) {
        float *x = j->x + (t * j->n_heads + h) * a->head_dim;
        if (a->kind == ROPE_NEOX)
            j->be->k.rope_neox(x, c, s, a->n_rot / 2);
        else
            j->be->k.rope_norm(x, c, s, a->n_rot / 2);
    }
}

static void rope_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct rope_job *j = ctx;
    float *c = cpu_scratch(j->be, thread), *s = c + j->args->n_rot / 2;

    for (int64_t t = begin; t < end; t++) {
        rope_angles(c, s, j->args, rope_pos(j->args, j->pos0 + t));
        rope_heads(j, t, c, s);
    }
}

/* One token: all layers turn by the same angles, so the last ones are kept. */
static void rope_one(const struct rope_job *j)
{
    const struct rope_args *a = j->args;
    struct rope_kept *r = &j->be->rope;
    const size_t bytes = (size_t)(a->n_rot / 2) * sizeof *a->freq;
    const int64_t pos = rope_pos(a, j->pos0);

    if (r->pos != pos || r->n_rot != a->n_rot || r->mscale != a->mscale ||
        memcmp(r->freq, a->freq, bytes) != 0) {
        rope_angles(r->c, r->s, a, pos);
        memcpy(r->freq, a->freq, bytes);
        r->pos = pos;
        r->n_rot = a->n_rot;
        r->mscale = a->mscale;
    }
    rope_heads(j, 0, r->c, r->s);
}

void backend_rope(struct backend *be, float *x, int64_t n_tokens, int64_t n_heads,
                  int64_t pos0, const struct rope_args *args)
{
    struct rope_job j = {be, x, n_heads, pos0, args};

    if (n_tokens == 1 && args->n_rot / 2 <= ROPE_KEPT)
        rope_one(&j);
    else
        cpu_run(be, rope_part, &j, n_tokens, TOKENS_CHUNK);
}

/* Element by element; what is not used stays NULL. */
struct elem_job {
    const struct kernels *k;
    void (*glu)(float *y, const float *gate, const float *up, int64_t n);
    float *y;
    const float *a, *b;
    float number;
};

static void glu_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct elem_job *j = ctx;

    (void)thread;
    j->glu(j->y + begin, j->a + begin, j->b + begin, end - begin);
}

void backend_glu(struct backend *be, enum glu_kind kind, float *y, const float *gate,
                 const float *up, int64_t n)
{
    struct elem_job j = {.y = y, .a = gate, .b = up};

    switch (kind) {
    case GLU_SILU:
        j.glu = be->k.silu_mul;
        break;
    case GLU_GELU:
        j.glu = be->k.gelu_mul;
        break;
    case GLU_RELU2:
        j.glu = be->k.relu2_mul;
        break;
    }
    pool_run_long(be->pool, glu_part, &j, n, GLU_CHUNK, GLU_AT_ONCE);
}

static void add_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct elem_job *j = ctx;

    (void)thread;
    j->k->add(j->y + begin, j->a + begin, end - begin);
}

void backend_add(struct backend *be, float *y, const float *x, int64_t n)
{
    struct elem_job j = {.k = &be->k, .y = y, .a = x};

    cpu_run(be, add_part, &j, n, ELEMS_CHUNK);
}

struct bias_job {
    const struct kernels *k;
    float *y;
    const float *bias;
    int64_t d;
};

static void bias_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct bias_job *j = ctx;

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        j->k->add(j->y + r * j->d, j->bias, j->d);
}

void backend_add_bias(struct backend *be, float *y, const float *bias, int64_t n_rows,
                      int64_t d)
{
    struct bias_job j = {&be->k, y, bias, d};

    cpu_run(be, bias_part, &j, n_rows, rows_chunk(d));
}

static void scale_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct elem_job *j = ctx;

    (void)thread;
    j->k->scale(j->y + begin, end - begin, j->number);
}

void backend_scale(struct backend *be, float *y, int64_t n, float by)
{
    struct elem_job j = {.k = &be->k, .y = y, .number = by};

    cpu_run(be, scale_part, &j, n, ELEMS_CHUNK);
}

static void softcap_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct elem_job *j = ctx;

    (void)thread;
    j->k->softcap(j->y + begin, end - begin, j->number);
}

void backend_softcap(struct backend *be, float *y, int64_t n, float cap)
{
    struct elem_job j = {.k = &be->k, .y = y, .number = cap};

    cpu_run(be, softcap_part, &j, n, ELEMS_CHUNK);
}

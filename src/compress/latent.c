/*
 * latent.c - codes from latents and back, row by row.
 */
#include "compress/latent.h"

#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "compress/rotate.h"
#include "compress/words.h"
#include "tensor/quant.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { ROWS = 4, ALIGN = 16, LANES = 16 };

static const float spread = 0.3f;  /* of latents that the teacher puts elsewhere */
static const float margin = 1e-3f; /* nothing stands on a threshold at the start */

static int64_t padded(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t floats_of(int64_t values, int64_t scales)
{
    return 4 * padded(values) + 5 * padded(scales);
}

uint64_t latent_bytes(const struct weight *student)
{
    const int64_t stored = weight_stored(student);
    const int64_t groups = stored / dtype_info(student->type)->block;

    return (uint64_t)floats_of(student->rows * stored, student->rows * groups) *
           sizeof(float);
}

static enum b2_status check_kind(struct latent *l, const struct weight *w,
                                 struct b2_err *err)
{
    if (!codes_of(&l->codes, w->type) || !l->codes.ternary ||
        (dtype_info(w->type)->flags & DTF_APART))
        return err_set(err, B2_EUNSUP,
                       "%s: type %s is not trained (ternary types with a scale per "
                       "group are)",
                       w->name, dtype_info(w->type)->name);
    if (w->rot && w->rot->head)
        return err_set(err, B2_EUNSUP,
                       "%s: a rotation that reorders heads is not trained", w->name);
    return B2_OK;
}

static enum b2_status cut(struct latent *l, struct b2_err *err)
{
    const int64_t n = padded(l->rows * l->stored), s = padded(l->rows * l->groups);
    float **const to[] = {&l->u,  &l->gu,  &l->mu,  &l->vu, &l->a0,
                          &l->ls, &l->gls, &l->mls, &l->vls};

    l->all = mem_calloc((size_t)(4 * n + 5 * s), sizeof *l->all);
    if (!l->all)
        return err_set(err, B2_ENOMEM, "out of memory for the latents of a matrix");
    float *p = l->all;
    for (size_t i = 0; i < countof(to); i++) {
        *to[i] = p;
        p += i < 4 ? n : s;
    }
    return B2_OK;
}

/* y = R x in place: signs, then the transform of each block. */
static void fold(const struct rotation *rot, float *x)
{
    for (int64_t i = 0; rot && i < rot->width; i++)
        x[i] *= rot->signs ? rot->signs[i] : 1.0f;
    for (int64_t i = 0; rot && i < rot->width; i += rot->block)
        rotate_hadamard(x + i, rot->block);
}

static void unfold(const struct rotation *rot, float *x)
{
    for (int64_t i = 0; rot && i < rot->width; i += rot->block)
        rotate_hadamard(x + i, rot->block);
    for (int64_t i = 0; rot && i < rot->width; i++)
        x[i] *= rot->signs ? rot->signs[i] : 1.0f;
}

struct job {
    struct latent *l;
    const struct latent *cl;
    const struct weight *student;
    const float *teacher;
    uint64_t seed;
    float *w;
    uint8_t *bytes;
    uint64_t row_bytes;
    atomic_bool bad;
};

/* Where a latent starts: t is the teacher's weight in units of the scale, r random in
 * [0, 1). The threshold lies at one half. */
static float start_at(int code, float t, double r)
{
    const float apart = fmaxf(margin, spread * (float)r);

    if (code == 0)
        return fabsf(t) < 0.5f - margin ? t : copysignf(0.5f - apart, t);
    t *= (float)code;
    return (float)code * (t > 0.5f + margin ? t : 0.5f + apart);
}

/* Whether the teacher's weights from u on give these codes as they are: a word's zero may
 * be a large weight beside three larger ones. */
static bool gives_word(const struct latent *l, const float *u, float a,
                       const int8_t *code)
{
    float t[QUAD];
    int8_t now[QUAD];

    if (l->codes.unit == 1 || !(a > 0.0f))
        return false;
    for (int i = 0; i < QUAD; i++)
        t[i] = u[i] / a;
    codes_project(&l->codes, now, t, NULL, QUAD);
    return memcmp(now, code, sizeof now) == 0;
}

static bool start_row(struct latent *l, const struct job *j, int64_t row, int8_t *code)
{
    const int64_t group = l->codes.group;
    struct rng rng = rng_make(j->seed ^ (uint64_t)row * 0x9e3779b97f4a7c15u);
    float *u = l->u + row * l->stored, *a0 = l->a0 + row * l->groups;

    quant_ternary_split(j->student->type, code, a0,
                        j->student->data + (uint64_t)row * j->student->row_bytes,
                        l->stored);
    memcpy(u, j->teacher + row * l->cols, (size_t)l->cols * sizeof *u);
    fold(l->rot, u);
    bool keep = false;
    for (int64_t i = 0; i < l->stored; i++) { /* a negative scale turns its codes */
        float a = fabsf(a0[i / group]);
        if (a0[i / group] < 0.0f)
            code[i] = (int8_t)-code[i];
        double r = rng_f64(&rng);
        if (code[i] < -1 || code[i] > 1 || !isfinite(u[i]))
            return false;
        if (i % l->codes.unit == 0)
            keep = gives_word(l, u + i, a, code + i);
        if (!(a > 0.0f) || i >= l->cols)
            u[i] = 0.0f;
        else if (keep)
            u[i] /= a;
        else
            u[i] = start_at(code[i], u[i] / a, r);
    }
    for (int64_t g = 0; g < l->groups; g++)
        a0[g] = fabsf(a0[g]);
    return true;
}

static void start_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    struct job *j = ctx;
    int8_t *code = mem_calloc((size_t)j->l->stored, 1);

    (void)thread;
    for (int64_t r = begin; r < end && code; r++)
        if (!start_row(j->l, j, r, code))
            atomic_store(&j->bad, true);
    if (!code)
        atomic_store(&j->bad, true);
    mem_free(code);
}

enum b2_status latent_new(struct latent *out, const struct weight *student,
                          const float *teacher, uint64_t seed, struct pool *pool,
                          struct b2_err *err)
{
    struct job j = {.student = student, .teacher = teacher, .seed = seed};

    *out = (struct latent){.rot = student->rot,
                           .rows = student->rows,
                           .cols = student->cols,
                           .stored = weight_stored(student)};
    enum b2_status rc = check_kind(out, student, err);
    if (rc)
        return rc;
    out->groups = out->stored / out->codes.group;
    rc = cut(out, err);
    if (rc)
        return rc;
    j.l = out;
    pool_run(pool, start_rows, &j, out->rows, ROWS);
    if (!atomic_load(&j.bad))
        return B2_OK;
    latent_free(out);
    return err_set(err, B2_EFORMAT,
                   "%s: holds codes that no encoder writes, or its teacher's weight is "
                   "no number",
                   student->name);
}

void latent_free(struct latent *l)
{
    mem_free(l->all);
    *l = (struct latent){0};
}

/* The scale of a group as the type stores it. What leaves the type's range stays at the
 * first one. */
static float scale_of(const struct latent *l, int64_t g)
{
    const float a0 = l->a0[g];
    const float a = a0 > 0.0f ? codes_scale(&l->codes, a0 * expf(l->ls[g]), a0) : 0.0f;

    return a > 0.0f ? a : a0;
}

/* Without a branch, so that compilers make it wide. */
static inline int code_at(float u, float threshold)
{
    return (u >= threshold) - (u <= -threshold);
}

/* Group g of all: its scale, and the threshold of its latents. */
static float threshold_of(const struct latent *l, int64_t g, float *scale)
{
    *scale = scale_of(l, g);
    return l->a0[g] > 0.0f ? *scale / (2.0f * l->a0[g]) : INFINITY;
}

/* Codes of n latents of a group from its first on. */
static void codes_at(const struct latent *l, int8_t *code, const float *u, int64_t n,
                     float threshold)
{
    float t[TERNARISE_MAX_GROUP];

    if (l->codes.unit == 1) {
        for (int64_t i = 0; i < n; i++)
            code[i] = (int8_t)code_at(u[i], threshold);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        t[i] = u[i] * (0.5f / threshold);
    codes_project(&l->codes, code, t, NULL, n);
}

static void weight_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const struct latent *l = j->cl;
    const int64_t group = l->codes.group;
    int8_t code[TERNARISE_MAX_GROUP];

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        float *w = j->w + r * l->cols;
        for (int64_t g = 0; g < l->groups; g++) {
            const float *u = l->u + r * l->stored + g * group;
            const int64_t n = min_i64(group, l->cols - g * group);
            float a, at = threshold_of(l, r * l->groups + g, &a);
            if (l->codes.unit > 1) {
                codes_at(l, code, u, group, at);
                for (int64_t i = 0; i < n; i++)
                    w[g * group + i] = a * (float)code[i];
                continue;
            }
            for (int64_t i = 0; i < n; i++)
                w[g * group + i] = a * (float)code_at(u[i], at);
        }
        unfold(l->rot, w);
    }
}

void latent_weights(const struct latent *l, float *w, struct pool *pool)
{
    pool_run(pool, weight_rows, &(struct job){.cl = l, .w = w}, l->rows, ROWS);
}

/* sum of d times code, in lanes that are added in order at the end */
static float dot_codes(const float *d, const float *u, int64_t n, float threshold)
{
    float lane[LANES] = {0}, sum = 0.0f;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += d[i + k] * (float)code_at(u[i + k], threshold);
    for (; i < n; i++)
        lane[i % LANES] += d[i] * (float)code_at(u[i], threshold);
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

/* The same where codes make words. */
static float dot_words(const struct latent *l, const float *d, const float *u,
                       int64_t n, float threshold)
{
    int8_t code[TERNARISE_MAX_GROUP];
    float lane[LANES] = {0}, sum = 0.0f;

    codes_at(l, code, u, l->codes.group, threshold);
    for (int64_t i = 0; i < n; i++)
        lane[i % LANES] += d[i] * (float)code[i];
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

static void collect_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const struct latent *l = j->cl;
    const int64_t group = l->codes.group;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        float *dw = j->w + r * l->cols;
        fold(l->rot, dw);
        for (int64_t g = 0; g < l->groups; g++) {
            const int64_t at = r * l->stored + g * group;
            const int64_t n = min_i64(group, l->cols - g * group);
            const float a0 = l->a0[r * l->groups + g];
            float a, threshold = threshold_of(l, r * l->groups + g, &a);
            float dot = l->codes.unit > 1
                            ? dot_words(l, dw + g * group, l->u + at, n, threshold)
                            : dot_codes(dw + g * group, l->u + at, n, threshold);
            l->gls[r * l->groups + g] += a * dot;
            for (int64_t i = 0; i < n; i++)
                l->gu[at + i] += dw[g * group + i] * a0;
        }
    }
}

void latent_collect(struct latent *l, float *dw, struct pool *pool)
{
    pool_run(pool, collect_rows, &(struct job){.cl = l, .w = dw}, l->rows, ROWS);
}

/* Codes of a group, zeros where only padding is. */
static float group_codes(const struct latent *l, int64_t row, int64_t g, int8_t *code)
{
    const int64_t group = l->codes.group;
    const float *u = l->u + row * l->stored + g * group;
    float a, at = threshold_of(l, row * l->groups + g, &a);

    codes_at(l, code, u, group, at);
    for (int64_t i = max_i64(0, l->cols - g * group); i < group; i++)
        code[i] = 0;
    return a;
}

static void pack_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const struct latent *l = j->cl;
    const int64_t bytes = dtype_info(l->codes.type)->bytes;
    int8_t code[TERNARISE_MAX_GROUP];

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        uint8_t *dst = j->bytes + (uint64_t)r * j->row_bytes;
        for (int64_t g = 0; g < l->groups; g++) {
            float a = group_codes(l, r, g, code);
            codes_join(&l->codes, dst + g * bytes, code, a, 0.0f);
        }
    }
}

static uint64_t row_bytes(const struct latent *l)
{
    return (uint64_t)l->groups * (uint64_t)dtype_info(l->codes.type)->bytes;
}

void latent_pack(const struct latent *l, uint8_t *bytes, struct pool *pool)
{
    struct job j = {.cl = l, .bytes = bytes, .row_bytes = row_bytes(l)};

    pool_run(pool, pack_rows, &j, l->rows, ROWS);
}

int64_t latent_changed(const struct latent *l, const uint8_t *bytes)
{
    const int64_t group = l->codes.group, size = dtype_info(l->codes.type)->bytes;
    int8_t was[TERNARISE_MAX_GROUP], is[TERNARISE_MAX_GROUP];
    int64_t n = 0;
    float scale;

    for (int64_t g = 0; g < l->rows * l->groups; g++) {
        quant_ternary_split(l->codes.type, was, &scale, bytes + g * size, group);
        group_codes(l, g / l->groups, g % l->groups, is);
        for (int64_t i = 0; i < group; i++)
            n += was[i] != is[i];
    }
    return n;
}

struct param latent_param_u(const struct latent *l, float rate)
{
    return (struct param){l->u, l->gu, l->mu, l->vu, l->rows * l->stored, rate};
}

struct param latent_param_scale(const struct latent *l, float rate)
{
    return (struct param){l->ls, l->gls, l->mls, l->vls, l->rows * l->groups, rate};
}

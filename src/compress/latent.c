/*
 * latent.c - codes from latents and back, row by row.
 */
#include "compress/latent_int.h"

#include "base/mem.h"
#include "base/pool.h"
#include "compress/heads.h"
#include "tensor/hadamard.h"
#include "tensor/quant.h"
#include "train/soft.h"

#include <math.h>
#include <string.h>

enum { ROWS = 4, ALIGN = 16, LANES = 16, MAX_PARTS = 24 };

static int64_t padded(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- memory ---- */

struct part {
    float **at;
    int64_t n;
};

/* The arrays of a matrix of l's kind; returns how many there are. */
static int list_parts(struct part *c, struct latent *l)
{
    const bool moves = l->kind == LATENT_ALL || l->kind == LATENT_FREE;
    const int64_t n = l->rows * l->stored, m = moves ? n : 0;
    const int64_t s = l->kind == LATENT_FREE ? 0 : l->rows * l->groups;
    const int64_t a = l->lora.rank * l->cols, b = l->lora.rank * l->rows;
    const struct part all[] = {
        {&l->u, n},
        {&l->gu, m},
        {&l->mu, m},
        {&l->vu, m},
        {&l->a0, max_i64(s, 1)},
        {&l->ls, s},
        {&l->gls, s},
        {&l->mls, s},
        {&l->vls, s},
        {&l->lora.a, a},
        {&l->lora.ga, a},
        {&l->ma, a},
        {&l->va, a},
        {&l->lora.b, b},
        {&l->lora.gb, b},
        {&l->mb, b},
        {&l->vb, b},
    };

    memcpy(c, all, sizeof all);
    return (int)countof(all);
}

static int64_t sum_parts(const struct part *c, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += padded(c[i].n);
    return sum;
}

static enum b2_status cut(struct latent *l, float *place, struct b2_err *err)
{
    struct part c[MAX_PARTS];
    const int n = list_parts(c, l);

    l->placed = place != NULL;
    l->n_bytes = (uint64_t)sum_parts(c, n) * sizeof(float);
    l->all = place ? place : mem_calloc((size_t)sum_parts(c, n), sizeof *l->all);
    if (!l->all)
        return err_set(err, B2_ENOMEM, "out of memory for the latents of a matrix");
    float *p = l->all;
    for (int i = 0; i < n; i++) {
        *c[i].at = c[i].n > 0 ? p : NULL;
        p += padded(c[i].n);
    }
    return B2_OK;
}

static void set_sizes(struct latent *l, const struct weight *w,
                      const struct latent_how *how)
{
    *l = (struct latent){.kind = how->kind,
                         .type = w->type,
                         .rot = w->rot,
                         .rows = w->rows,
                         .cols = w->cols,
                         .stored = weight_stored(w)};
    l->groups = l->stored / dtype_info(w->type)->block;
    if (how->kind == LATENT_LORA)
        l->lora = (struct lora){.rows = w->rows, .cols = w->cols, .rank = how->rank};
}

uint64_t latent_bytes(const struct weight *student, const struct latent_how *how)
{
    struct latent l;
    struct part c[MAX_PARTS];

    set_sizes(&l, student, how);
    return (uint64_t)sum_parts(c, list_parts(c, &l)) * sizeof(float);
}

uint64_t latent_saved_bytes(const struct weight *student, const struct latent_how *how)
{
    struct latent l;

    set_sizes(&l, student, how);
    const bool moves = l.kind == LATENT_ALL || l.kind == LATENT_FREE;
    const int64_t n = (moves ? l.rows * l.stored : 0) +
                      (l.kind == LATENT_FREE ? 0 : l.rows * l.groups) +
                      l.lora.rank * (l.cols + l.rows);
    return 3 * (uint64_t)n * sizeof(float);
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
    return B2_OK;
}

static struct heads heads_of(const struct rotation *rot)
{
    const int64_t v = rot && rot->head > 0 ? rot->width / rot->head : 0;

    return (struct heads){v > 0 ? v / rot->reps : 0, v};
}

/* y = R x in place: heads in their order, signs, then the transform of each block. */
void latent_fold(const struct rotation *rot, float *x)
{
    const struct heads h = heads_of(rot);

    heads_group(&h, x, rot ? rot->width : 0);
    for (int64_t i = 0; rot && i < rot->width; i++)
        x[i] *= rot->signs ? rot->signs[i] : 1.0f;
    if (rot)
        hadamard_apply(x, rot->width, rot->block);
}

void latent_unfold(const struct rotation *rot, float *x)
{
    const struct heads h = heads_of(rot);

    if (rot)
        hadamard_apply(x, rot->width, rot->block);
    for (int64_t i = 0; rot && i < rot->width; i++)
        x[i] *= rot->signs ? rot->signs[i] : 1.0f;
    heads_ungroup(&h, x, rot ? rot->width : 0);
}

/* ---- the start ---- */

enum b2_status latent_new(struct latent *out, const struct weight *student,
                          const struct latent_how *how, struct pool *pool,
                          struct b2_err *err)
{
    struct latent_job j = {.l = out, .student = student, .how = how};
    const bool is_free = how->kind == LATENT_FREE;

    set_sizes(out, student, how);
    enum b2_status rc = is_free ? latent_free_check(out, student, how, err)
                                : check_kind(out, student, err);
    if (!rc)
        rc = cut(out, how->place, err);
    if (rc)
        return rc;
    if (is_free)
        atomic_store(&j.bad, !latent_free_start(out, how));
    else
        pool_run(pool, latent_start_rows, &j, out->rows, ROWS);
    if (how->kind == LATENT_LORA)
        latent_start_lora(out, how->seed);
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
    if (!l->placed)
        mem_free(l->all);
    *l = (struct latent){0};
}

/* ---- codes and weights ---- */

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

/* Group g of row r: latents with the change in them, scale and threshold. */
struct group {
    const float *u;
    int64_t at, n; /* in the row; weights without padding */
    int64_t of_all;
    float a, a0, threshold;
    float with[TERNARISE_MAX_GROUP];
};

static void open_group(struct group *g, const struct latent_job *j, int64_t r,
                       int64_t k)
{
    const struct latent *l = j->cl;

    g->at = k * l->codes.group;
    g->n = min_i64(l->codes.group, l->cols - g->at);
    g->of_all = r * l->groups + k;
    g->a = scale_of(l, g->of_all);
    g->a0 = l->a0[g->of_all];
    g->u = l->u + r * l->stored + g->at;
    /* codes that rest must not flip when their scale moves */
    g->threshold = l->kind == LATENT_SCALES ? 0.5f : g->a / (2.0f * g->a0);
    if (!(g->a0 > 0.0f)) {
        g->threshold = INFINITY;
    } else if (j->delta) {
        const float *d = j->delta + r * l->cols + g->at;
        for (int64_t i = 0; i < g->n; i++)
            g->with[i] = g->u[i] + d[i] / g->a0;
        for (int64_t i = g->n; i < l->codes.group; i++)
            g->with[i] = 0.0f;
        g->u = g->with;
    }
}

/* Codes of a whole group. Where they make words, the nearest words. */
static void group_codes(const struct latent *l, int8_t *code, const struct group *g)
{
    float t[TERNARISE_MAX_GROUP];

    for (int64_t i = 0; i < l->codes.group && l->codes.unit == 1; i++)
        code[i] = (int8_t)code_at(g->u[i], g->threshold);
    if (l->codes.unit == 1)
        return;
    for (int64_t i = 0; i < l->codes.group; i++)
        t[i] = g->u[i] * (0.5f / g->threshold);
    codes_project(&l->codes, code, t, NULL, l->codes.group);
}

static void weight_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct latent_job *j = ctx;
    const struct latent *l = j->cl;
    int8_t code[TERNARISE_MAX_GROUP];
    struct group g;
    float slope;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        float *w = j->w + r * l->cols;
        for (int64_t k = 0; k < l->groups; k++) {
            open_group(&g, j, r, k);
            float *to = w + g.at;
            if (j->sharp > 0.0f && g.a0 > 0.0f) {
                const float by = g.a0 / g.a;
                for (int64_t i = 0; i < g.n; i++)
                    to[i] = g.a * soft_code(g.u[i] * by, j->sharp, &slope);
            } else if (l->codes.unit > 1) {
                group_codes(l, code, &g);
                for (int64_t i = 0; i < g.n; i++)
                    to[i] = g.a * (float)code[i];
            } else {
                for (int64_t i = 0; i < g.n; i++)
                    to[i] = g.a * (float)code_at(g.u[i], g.threshold);
            }
        }
        latent_unfold(l->rot, w);
    }
}

/* delta = the change of rank r, or NULL when there is none. */
static float *change(const struct latent *l, const struct env *e, float *delta)
{
    if (l->kind != LATENT_LORA)
        return NULL;
    lora_delta(e, &l->lora, delta);
    return delta;
}

/* Words have no smooth form. */
static float sharpness(const struct latent *l, float sharp)
{
    return l->codes.unit > 1 ? 0.0f : sharp;
}

void latent_weights(const struct latent *l, const struct env *e, float *w, float sharp)
{
    /* the change may lie where the weights will: a group is read before it is written */
    struct latent_job j = {
        .cl = l, .w = w, .delta = change(l, e, w), .sharp = sharpness(l, sharp)};

    pool_run(e->pool, l->kind == LATENT_FREE ? latent_free_weights : weight_rows, &j,
             l->rows, ROWS);
}

/* ---- gradients ---- */

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
static float dot_words(const struct latent *l, const float *d, const struct group *g)
{
    int8_t code[TERNARISE_MAX_GROUP];
    float lane[LANES] = {0}, sum = 0.0f;

    group_codes(l, code, g);
    for (int64_t i = 0; i < g->n; i++)
        lane[i % LANES] += d[i] * (float)code[i];
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

/* Smooth codes: d becomes the gradient of the latents in units of weights; returns that of
 * the logarithm of the scale. */
static float collect_soft(const struct group *g, float *d, float sharp)
{
    const float by = g->a0 / g->a;
    float sum = 0.0f;

    for (int64_t i = 0; i < g->n; i++) {
        float v = g->u[i] * by, slope, c = soft_code(v, sharp, &slope);
        sum += d[i] * (c - slope * v);
        d[i] *= slope;
    }
    return g->a * sum;
}

static void collect_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct latent_job *j = ctx;
    const struct latent *l = j->cl;
    struct group g;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        float *dw = j->w + r * l->cols;
        latent_fold(l->rot, dw);
        for (int64_t k = 0; k < l->groups; k++) {
            open_group(&g, j, r, k);
            float *d = dw + g.at;
            if (!(g.a0 > 0.0f)) { /* rests */
                memset(d, 0, (size_t)g.n * sizeof *d);
                continue;
            }
            if (j->sharp > 0.0f)
                l->gls[g.of_all] += collect_soft(&g, d, j->sharp);
            else if (l->codes.unit > 1)
                l->gls[g.of_all] += g.a * dot_words(l, d, &g);
            else
                l->gls[g.of_all] += g.a * dot_codes(d, g.u, g.n, g.threshold);
            for (int64_t i = 0; l->gu && i < g.n; i++)
                l->gu[r * l->stored + g.at + i] += d[i] * g.a0;
        }
    }
}

void latent_collect(struct latent *l, const struct env *e, float *dw, float *delta,
                    float sharp)
{
    struct latent_job j = {
        .cl = l, .w = dw, .delta = change(l, e, delta), .sharp = sharpness(l, sharp)};

    pool_run(e->pool, l->kind == LATENT_FREE ? latent_free_collect : collect_rows, &j,
             l->rows, ROWS);
    if (l->kind == LATENT_LORA)
        lora_collect(e, &l->lora, dw);
}

/* ---- packing ---- */

static void pack_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct latent_job *j = ctx;
    const struct latent *l = j->cl;
    const int64_t bytes = dtype_info(l->type)->bytes;
    int8_t code[TERNARISE_MAX_GROUP];
    struct group g;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        uint8_t *dst = j->bytes + (uint64_t)r * j->row_bytes;
        for (int64_t k = 0; k < l->groups; k++) {
            open_group(&g, j, r, k);
            group_codes(l, code, &g);
            for (int64_t i = g.n; i < l->codes.group; i++) /* only padding is there */
                code[i] = 0;
            codes_join(&l->codes, dst + k * bytes, code, g.a, 0.0f);
        }
    }
}

static uint64_t row_bytes(const struct latent *l)
{
    const struct dtype_info *info = dtype_info(l->type);

    return (uint64_t)(l->stored / info->block) * (uint64_t)info->bytes;
}

uint64_t latent_packed_bytes(const struct latent *l)
{
    return (uint64_t)l->rows * row_bytes(l);
}

uint64_t latent_packed_size(const struct weight *student, const struct latent_how *how)
{
    struct latent l;

    set_sizes(&l, student, how);
    if (how->kind == LATENT_FREE)
        l.type = how->type;
    return latent_packed_bytes(&l);
}

void latent_pack(const struct latent *l, const struct env *e, uint8_t *bytes,
                 float *delta)
{
    struct latent_job j = {.cl = l,
                           .bytes = bytes,
                           .row_bytes = row_bytes(l),
                           .delta = change(l, e, delta)};

    pool_run(e->pool, l->kind == LATENT_FREE ? latent_free_pack : pack_rows, &j,
             l->rows, ROWS);
}

int64_t latent_changed(const struct latent *l, const uint8_t *a, const uint8_t *b)
{
    const int64_t group = l->codes.group, size = dtype_info(l->type)->bytes;
    int8_t was[TERNARISE_MAX_GROUP], is[TERNARISE_MAX_GROUP];
    int64_t n = 0;
    float sa, sb;

    for (int64_t g = 0; l->kind != LATENT_FREE && g < l->rows * l->groups; g++) {
        quant_ternary_split(l->type, was, &sa, a + g * size, group);
        quant_ternary_split(l->type, is, &sb, b + g * size, group);
        for (int64_t i = 0; i < group; i++) /* a negative scale turns its codes */
            n += (sa < 0.0f ? -was[i] : was[i]) != (sb < 0.0f ? -is[i] : is[i]);
    }
    return n;
}

static void merge_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct latent_job *j = ctx;
    const struct latent *l = j->cl;
    struct group g;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        for (int64_t k = 0; k < l->groups; k++) {
            open_group(&g, j, r, k);
            memcpy(l->u + r * l->stored + g.at, g.u, (size_t)g.n * sizeof *g.u);
        }
    }
}

void latent_merge(struct latent *l, const struct env *e, float *delta)
{
    struct latent_job j = {.cl = l, .delta = change(l, e, delta)};

    if (!j.delta)
        return;
    pool_run(e->pool, merge_rows, &j, l->rows, ROWS);
    memset(l->lora.b, 0, (size_t)(l->lora.rank * l->rows) * sizeof(float));
    memset(l->mb, 0, (size_t)(l->lora.rank * l->rows) * sizeof(float));
    memset(l->vb, 0, (size_t)(l->lora.rank * l->rows) * sizeof(float));
}

int latent_params(const struct latent *l, struct latent_param *out)
{
    const int64_t a = l->lora.rank * l->cols, b = l->lora.rank * l->rows;
    int n = 0;

    if (l->gu)
        out[n++] = (struct latent_param){
            LATENT_PART_WEIGHT, {l->u, l->gu, l->mu, l->vu, l->rows * l->stored, 1}};
    if (l->kind == LATENT_LORA) {
        out[n++] = (struct latent_param){LATENT_PART_WEIGHT,
                                         {l->lora.a, l->lora.ga, l->ma, l->va, a, 1}};
        out[n++] = (struct latent_param){LATENT_PART_WEIGHT,
                                         {l->lora.b, l->lora.gb, l->mb, l->vb, b, 1}};
    }
    if (l->gls)
        out[n++] = (struct latent_param){
            LATENT_PART_SCALE, {l->ls, l->gls, l->mls, l->vls, l->rows * l->groups, 1}};
    return n;
}

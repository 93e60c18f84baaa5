/*
 * comp_steps.c - sweep, scales and descent on a block of rows.
 */
#include "compress/compensate_int.h"

#include <math.h>
#include <string.h>

static float inverse(float scale)
{
    return scale != 0.0f ? 1.0f / scale : 0.0f;
}

/* ---- sweep ---- */

/* The group's weights of one row in the order of the row itself, for fitting. */
static void gather(const struct comp_block *k, float *dst, const float *row, int64_t at)
{
    int64_t first = k->m->perm[at] / k->m->group * k->m->group;

    for (int64_t p = at; p < at + k->m->group; p++)
        dst[k->m->perm[p] - first] = row[p];
}

/* Rounds the columns of the group that begins at position `at`, in one row; err gets
 * what each lost in units of its diagonal. */
static void sweep_row(struct comp_block *k, int64_t r, int64_t at, float scale,
                      float min)
{
    const float *u = k->m->u;
    int64_t d = k->d, n = k->m->group;
    float *w = k->work + r * d + at, *value = k->value + r * d + at;
    float *err = k->err + r * n;
    int8_t *code = k->code + r * d + at;
    float inv = inverse(scale);

    for (int64_t j = 0; j < n; j++) {
        const float *row = u + (at + j) * d + at;
        int c = codes_nearest(k->codes, w[j], inv, min);
        code[j] = (int8_t)c;
        value[j] = scale * (float)c + min;
        float e = (w[j] - value[j]) / row[j];
        err[j] = e;
        for (int64_t i = j + 1; i < n; i++)
            w[i] -= e * row[i];
    }
}

void comp_choose_empty(struct comp_block *k, int64_t n)
{
    const int64_t d = k->d, G = k->n_groups, group = k->m->group;

    memset(k->empty, 0, (size_t)(k->rows * G));
    for (int64_t r = 0; r < k->rows && n > 0; r++) {
        for (int64_t g = 0; g < G; g++)
            k->ranked[g] =
                (struct ranked){0.0, (int32_t)(k->m->perm[g * group] / group)};
        for (int64_t p = 0; p < d; p++) {
            const double w = (double)k->goal[r * d + p];
            k->ranked[p / group].key += w * w * (double)k->m->h[p * d + p];
        }
        rank_falling(k->ranked, G);
        for (int64_t i = G - n; i < G; i++)
            k->empty[r * G + k->ranked[i].at] = 1;
    }
}

bool comp_sweep(struct comp_block *k, enum ternarise_rule rule, int64_t *bad)
{
    int64_t d = k->d, n = k->m->group;

    memcpy(k->work, k->goal, (size_t)(k->rows * d) * sizeof *k->work);
    for (int64_t g = 0; g < k->n_groups; g++) {
        int64_t at = g * n, after = at + n;
        if (k->codes->unit > 1)
            comp_words_sweep(k, at, n);
        for (int64_t r = 0; r < k->rows; r++) {
            float fit[FIT_MAX_BLOCK], *scale = k->scale + r * k->n_groups + g;
            float *min = k->min + r * k->n_groups + g;
            gather(k, fit, k->work + r * d, at);
            if (!codes_fit(k->codes, scale, min, fit, rule)) {
                *bad = r;
                return false;
            }
            if (k->empty[r * k->n_groups + k->m->perm[at] / n])
                *scale = *min = 0.0f; /* and so all codes */
            if (k->codes->unit > 1)
                comp_words_sweep_row(k, r, at, *scale);
            else
                sweep_row(k, r, at, *scale, *min);
        }
        blas_gemm(k->b, k->work + after, d, (struct blas_size){k->rows, d - after, n},
                  (struct blas_mat){k->err, n, false},
                  (struct blas_mat){k->m->u + at * d + after, d, false}, -1.0f, 1.0f);
    }
    return true;
}

/* ---- scales ---- */

void comp_gradient(struct comp_block *k)
{
    int64_t n = k->rows * k->d;

    for (int64_t i = 0; i < n; i++)
        k->other[i] = k->goal[i] - k->value[i];
    blas_gemm(k->b, k->work, k->d, (struct blas_size){k->rows, k->d, k->d},
              (struct blas_mat){k->other, k->d, false},
              (struct blas_mat){k->m->h, k->d, false}, 1.0f, 0.0f);
}

static double dot_codes(const int8_t *code, const float *x, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)((float)code[i] * x[i]);
    return sum;
}

/* normal[r][g][h] = t_g H t_h for the codes t; right[r][g] = t_g H (goal - min). */
static void make_normal(struct comp_block *k)
{
    int64_t d = k->d, n = k->m->group, G = k->n_groups;

    for (int64_t r = 0; r < k->rows; r++) /* other = goal - min */
        for (int64_t p = 0; p < d; p++)
            k->other[r * d + p] = k->goal[r * d + p] - k->min[r * G + p / n];
    blas_gemm(k->b, k->work, d, (struct blas_size){k->rows, d, d},
              (struct blas_mat){k->other, d, false},
              (struct blas_mat){k->m->h, d, false}, 1.0f, 0.0f);
    for (int64_t r = 0; r < k->rows; r++)
        for (int64_t g = 0; g < G; g++)
            k->right[r * G + g] =
                dot_codes(k->code + r * d + g * n, k->work + r * d + g * n, n);
    for (int64_t g = 0; g < G; g++) {
        for (int64_t r = 0; r < k->rows; r++)
            for (int64_t i = 0; i < n; i++)
                k->err[r * n + i] = (float)k->code[r * d + g * n + i];
        blas_gemm(k->b, k->work, d, (struct blas_size){k->rows, d, n},
                  (struct blas_mat){k->err, n, false},
                  (struct blas_mat){k->m->h + g * n * d, d, false}, 1.0f, 0.0f);
        for (int64_t r = 0; r < k->rows; r++)
            for (int64_t h = 0; h < G; h++)
                k->normal[(r * G + g) * G + h] =
                    dot_codes(k->code + r * d + h * n, k->work + r * d + h * n, n);
    }
}

/* a x = y by elimination without pivots; a positive semidefinite, y in x. A group whose
 * codes are all 0 has an empty row: its scale stays as it is. */
static void solve_scales(double *x, double *a, int64_t G, const float *old)
{
    for (int64_t g = 0; g < G; g++) {
        if (!(a[g * G + g] > 0.0)) {
            for (int64_t h = 0; h < G; h++)
                a[g * G + h] = a[h * G + g] = 0.0;
            a[g * G + g] = 1.0;
            x[g] = (double)old[g];
        }
    }
    for (int64_t g = 0; g < G; g++) {
        double pivot = a[g * G + g];
        if (!(pivot > 0.0))
            pivot = a[g * G + g] = 1e-30;
        for (int64_t h = g + 1; h < G; h++) {
            double f = a[h * G + g] / pivot;
            for (int64_t i = g + 1; i < G && f != 0.0; i++)
                a[h * G + i] -= f * a[g * G + i];
            x[h] -= f * x[g];
        }
    }
    for (int64_t g = G - 1; g >= 0; g--) {
        for (int64_t h = g + 1; h < G; h++)
            x[g] -= a[g * G + h] * x[h];
        x[g] /= a[g * G + g];
    }
}

/* The best of the scales that the type can store, one group after the other, starting
 * from the solution in real numbers. */
static void store_scales(struct comp_block *k, int64_t r, const double *a)
{
    int64_t G = k->n_groups;
    float *s = k->scale + r * G;
    const double *y = k->right + r * G;

    for (int64_t g = 0; g < G; g++) {
        float stored = codes_scale(k->codes, (float)k->solved[g], s[g]);
        s[g] = stored != 0.0f ? stored : s[g];
    }
    for (int round = 0; round < 2; round++) {
        for (int64_t g = 0; g < G; g++) {
            double rest = y[g];
            for (int64_t h = 0; h < G; h++)
                rest -= h == g ? 0.0 : a[g * G + h] * (double)s[h];
            float want = a[g * G + g] > 0.0 ? (float)(rest / a[g * G + g]) : s[g];
            float stored = codes_scale(k->codes, want, s[g]);
            s[g] = stored != 0.0f ? stored : s[g];
        }
    }
}

void comp_scales(struct comp_block *k)
{
    int64_t d = k->d, n = k->m->group, G = k->n_groups;
    double *copy = k->normal + COMP_ROWS * G * G;

    make_normal(k);
    for (int64_t r = 0; r < k->rows; r++) {
        const double *a = k->normal + r * G * G;
        memcpy(copy, a, (size_t)(G * G) * sizeof *copy);
        memcpy(k->solved, k->right + r * G, (size_t)G * sizeof *k->solved);
        solve_scales(k->solved, copy, G, k->scale + r * G);
        store_scales(k, r, a);
        for (int64_t p = 0; p < d; p++)
            k->value[r * d + p] = k->scale[r * G + p / n] * (float)k->code[r * d + p] +
                                  k->min[r * G + p / n];
    }
}

/* ---- descent ---- */

/* Sets each code of positions [at, at + n) to its best given all others. delta gets how
 * the values changed. */
static void descend_row(struct comp_block *k, int64_t r, int64_t at, int64_t n,
                        float *delta)
{
    int64_t d = k->d, G = k->n_groups;
    const float *grad = k->work + r * d + at;
    float *value = k->value + r * d + at, local[COMP_BLOCK];
    int8_t *code = k->code + r * d + at;

    memcpy(local, grad, (size_t)n * sizeof *local);
    for (int64_t j = 0; j < n; j++) {
        const float *h = k->m->h + (at + j) * d + at;
        int64_t g = (at + j) / k->m->group;
        float scale = k->scale[r * G + g], min = k->min[r * G + g];
        int c =
            codes_nearest(k->codes, value[j] + local[j] / h[j], inverse(scale), min);
        delta[j] = 0.0f;
        if (c == code[j])
            continue;
        float now = scale * (float)c + min, change = now - value[j];
        code[j] = (int8_t)c;
        value[j] = now;
        delta[j] = change;
        for (int64_t i = 0; i < n; i++)
            local[i] -= change * h[i];
    }
}

void comp_descend(struct comp_block *k)
{
    int64_t d = k->d;

    comp_gradient(k);
    for (int64_t at = 0; at < d; at += COMP_BLOCK) {
        int64_t n = min_i64(COMP_BLOCK, d - at);
        if (k->codes->unit > 1)
            comp_words_descend(k, at, n);
        for (int64_t r = 0; r < k->rows; r++)
            if (k->codes->unit > 1)
                comp_words_descend_row(k, r, at, n, k->err + r * n);
            else
                descend_row(k, r, at, n, k->err + r * n);
        blas_gemm(k->b, k->work, d, (struct blas_size){k->rows, d, n},
                  (struct blas_mat){k->err, n, false},
                  (struct blas_mat){k->m->h + at * d, d, false}, -1.0f, 1.0f);
    }
}

/*
 * check_dot.c - activations to 8 bits, and the two dot products.
 *
 * Against the scalar reference bit for bit; the reference itself against sums in double.
 */
#include "kernel/check.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Row and token counts around every block size of the variants. */
static const int64_t shapes[][2] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1},  {9, 1},
                                    {1, 2}, {2, 2}, {2, 3}, {3, 4}, {4, 5},  {5, 7},
                                    {7, 8}, {4, 9}, {1, 7}, {9, 3}, {12, 13}};

static void check_act_quant(struct kcheck *t)
{
    for (int64_t groups = 0; groups <= 9; groups++) {
        int64_t n = groups * KQ_GROUP;
        for (int fill = 0; fill < KC_N_FILLS; fill++) {
            float *x = kcheck_buffer(t, (size_t)n * 4);
            int8_t *q = kcheck_buffer(t, (size_t)n),
                   *q_ref = kcheck_buffer(t, (size_t)n);
            float *ds = kcheck_buffer(t, (size_t)groups * 8);
            float *ds_ref = kcheck_buffer(t, (size_t)groups * 8);
            kcheck_floats(t, x, n, (enum kcheck_fill)fill);
            t->k.act_quant(q, ds, ds + groups, x, n);
            t->ref.act_quant(q_ref, ds_ref, ds_ref + groups, x, n);
            if (memcmp(q, q_ref, (size_t)n) != 0 ||
                kcheck_diff(ds, ds_ref, 2 * groups) >= 0)
                kcheck_fail(t, "act_quant", "groups=%lld fill=%d", (long long)groups,
                            fill);
            kcheck_reset(t);
        }
    }
}

/* q is the nearest integer to x / d, and codes stay in -127..127. */
static void check_act_quant_values(struct kcheck *t)
{
    float x[KQ_GROUP * 64], d[64], s[64];
    int8_t q[KQ_GROUP * 64];

    for (int fill = KC_NORMAL; fill <= KC_MIXED; fill++) {
        kcheck_floats(t, x, countof(x), (enum kcheck_fill)fill);
        t->k.act_quant(q, d, s, x, countof(x));
        for (size_t i = 0; i < countof(x); i++) {
            double err = fabs((double)x[i] - (double)d[i / KQ_GROUP] * q[i]);
            double bound = fill == KC_TINY ? 1.0 : 0.5001 * (double)d[i / KQ_GROUP];
            if (q[i] < -127 || !(err <= bound))
                kcheck_fail(t, "act_quant values", "fill=%d i=%zu x=%a q=%d", fill, i,
                            (double)x[i], q[i]);
        }
        for (size_t g = 0; g < 64; g++) {
            int sum = 0;
            for (int i = 0; i < KQ_GROUP; i++)
                sum += q[g * KQ_GROUP + (size_t)i];
            if (s[g] != d[g] * (float)sum)
                kcheck_fail(t, "act_quant sums", "group %zu", g);
        }
    }
}

/* One 8-bit product with its inputs. */
struct qcase {
    struct kq_mat w;
    struct kq_act x;
    int64_t n;
    float *y, *y_ref;
};

static struct qcase make_qcase(struct kcheck *t, const int64_t *shape, int64_t n,
                               bool min, int fill)
{
    size_t rows = (size_t)shape[0], tokens = (size_t)shape[1];
    size_t groups = (size_t)n / KQ_GROUP, cols = (size_t)n;
    int8_t *code = kcheck_buffer(t, rows * cols), *q = kcheck_buffer(t, tokens * cols);
    float *scale = kcheck_buffer(t, rows * groups * 4);
    float *m = kcheck_buffer(t, rows * groups * 4);
    float *d = kcheck_buffer(t, tokens * groups * 4),
          *s = kcheck_buffer(t, tokens * groups * 4);
    size_t y_bytes = rows * tokens * 4;
    struct qcase c = {
        {code, scale, min ? m : NULL, shape[0], n, (int64_t)groups},
        {q, d, s, shape[1], n, (int64_t)groups},
        n,
        kcheck_buffer(t, y_bytes),
        kcheck_buffer(t, y_bytes),
    };

    if (fill == 0) { /* the largest integers, of one sign */
        memset(code, -128, rows * cols);
        memset(q, -127, tokens * cols);
    } else if (fill == 1) { /* of both signs */
        for (size_t i = 0; i < rows * cols; i++)
            code[i] = i & 1 ? 127 : -128;
        for (size_t i = 0; i < tokens * cols; i++)
            q[i] = i & 1 ? 127 : -127;
    } else {
        kcheck_bytes(t, code, rows * cols);
        for (size_t i = 0; i < tokens * cols; i++)
            q[i] = (int8_t)((int)rng_below(&t->rng, 255) - 127);
    }
    kcheck_floats(t, scale, (int64_t)(rows * groups), fill ? KC_MIXED : KC_NORMAL);
    kcheck_floats(t, m, (int64_t)(rows * groups), fill ? KC_MIXED : KC_NORMAL);
    kcheck_floats(t, d, (int64_t)(tokens * groups), KC_NORMAL);
    kcheck_floats(t, s, (int64_t)(tokens * groups), KC_NORMAL);
    return c;
}

/* The reference against double, within the error of its chain of F32 operations: each
 * lane adds n / 32 terms, each term carries two roundings. */
static void check_qdot_value(struct kcheck *t, const struct qcase *c)
{
    for (int64_t i = 0; i < c->w.rows; i++) {
        for (int64_t j = 0; j < c->x.rows; j++) {
            double sum = 0, mag = 0;
            for (int64_t p = 0; p < c->n; p++) {
                int64_t wg = i * c->w.group_step + p / KQ_GROUP;
                int64_t xg = j * c->x.group_step + p / KQ_GROUP;
                double v = (double)c->w.scale[wg] * (double)c->x.d[xg] *
                           c->w.code[i * c->n + p] * c->x.q[j * c->n + p];
                if (c->w.min && p % KQ_GROUP == 0) {
                    double m = (double)c->w.min[wg] * (double)c->x.s[xg];
                    sum -= m;
                    mag += fabs(m);
                }
                sum += v;
                mag += fabs(v);
            }
            double bound = ((double)c->n / 32 + 12) * (double)FLT_EPSILON * mag;
            double got = (double)c->y_ref[j * c->w.rows + i];
            if (!(fabs(got - sum) <= bound))
                kcheck_fail(t, "qdot value", "n=%lld %g, double gives %g, bound %g",
                            (long long)c->n, got, sum, bound);
        }
    }
}

static void check_qdot(struct kcheck *t)
{
    static const int64_t steps[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 18};

    for (size_t i = 0; i < countof(steps); i++) {
        for (size_t s = 0; s < countof(shapes); s++) {
            for (int fill = 0; fill < 6; fill++) {
                struct qcase c =
                    make_qcase(t, shapes[s], steps[i] * KQ_STEP, fill & 1, fill / 2);
                int64_t n_y = c.w.rows * c.x.rows;
                t->k.qdot(c.y, c.w.rows, &c.w, &c.x, c.n);
                t->ref.qdot(c.y_ref, c.w.rows, &c.w, &c.x, c.n);
                int64_t at = kcheck_diff(c.y, c.y_ref, n_y);
                if (at >= 0)
                    kcheck_fail(
                        t, "qdot", "rows=%lld tokens=%lld n=%lld fill=%d: %a not %a",
                        (long long)c.w.rows, (long long)c.x.rows, (long long)c.n, fill,
                        (double)c.y[at], (double)c.y_ref[at]);
                check_qdot_value(t, &c);
                kcheck_reset(t);
            }
        }
    }
}

static void check_dequant(struct kcheck *t)
{
    for (int64_t groups = 0; groups <= 9; groups++) {
        int64_t n = groups * KQ_GROUP;
        int8_t *code = kcheck_buffer(t, (size_t)n);
        float *scale = kcheck_buffer(t, (size_t)groups * 4);
        float *min = kcheck_buffer(t, (size_t)groups * 4);
        float *y = kcheck_buffer(t, (size_t)n * 4),
              *y_ref = kcheck_buffer(t, (size_t)n * 4);
        kcheck_bytes(t, code, (size_t)n);
        kcheck_floats(t, scale, groups, KC_SPECIAL);
        kcheck_floats(t, min, groups, KC_SPECIAL);
        for (int with_min = 0; with_min < 2; with_min++) {
            t->k.dequant(y, code, scale, with_min ? min : NULL, n);
            t->ref.dequant(y_ref, code, scale, with_min ? min : NULL, n);
            if (kcheck_diff(y, y_ref, n) >= 0)
                kcheck_fail(t, "dequant", "n=%lld min=%d", (long long)n, with_min);
        }
        kcheck_reset(t);
    }
}

static void check_fdot_value(struct kcheck *t, const struct kf_mat *w,
                             const struct kf_mat *x, int64_t n, const float *y)
{
    for (int64_t i = 0; i < w->rows; i++) {
        for (int64_t j = 0; j < x->rows; j++) {
            double sum = 0, mag = 0;
            for (int64_t p = 0; p < n; p++) {
                double v =
                    (double)w->v[i * w->step + p] * (double)x->v[j * x->step + p];
                sum += v;
                mag += fabs(v);
            }
            double bound = ((double)n / 16 + 6) * (double)FLT_EPSILON * mag;
            if (!(fabs((double)y[j * w->rows + i] - sum) <= bound))
                kcheck_fail(t, "fdot value", "n=%lld %g, double gives %g", (long long)n,
                            (double)y[j * w->rows + i], sum);
        }
    }
}

static void check_fdot(struct kcheck *t)
{
    static const int64_t lengths[] = {0,  1,  2,  7,  8,  9,  15,  16,  17,
                                      23, 24, 25, 31, 32, 48, 145, 172, 576};

    for (size_t l = 0; l < countof(lengths); l++) {
        for (size_t s = 0; s < countof(shapes); s++) {
            int64_t n = lengths[l], rows = shapes[s][0], tokens = shapes[s][1];
            size_t y_bytes = (size_t)(rows * tokens) * 4;
            float *wv = kcheck_buffer(t, (size_t)(rows * n) * 4);
            float *xv = kcheck_buffer(t, (size_t)(tokens * n) * 4);
            float *y = kcheck_buffer(t, y_bytes), *y_ref = kcheck_buffer(t, y_bytes);
            struct kf_mat w = {wv, rows, n}, x = {xv, tokens, n};
            kcheck_floats(t, wv, rows * n, s & 1 ? KC_MIXED : KC_NORMAL);
            kcheck_floats(t, xv, tokens * n, KC_NORMAL);
            t->k.fdot(y, rows, &w, &x, n);
            t->ref.fdot(y_ref, rows, &w, &x, n);
            if (kcheck_diff(y, y_ref, rows * tokens) >= 0)
                kcheck_fail(t, "fdot", "rows=%lld tokens=%lld n=%lld", (long long)rows,
                            (long long)tokens, (long long)n);
            check_fdot_value(t, &w, &x, n, y_ref);
            kcheck_reset(t);
        }
    }
}

const struct kcheck_item kcheck_dot[] = {
    {"act_quant", check_act_quant}, {"act_quant values", check_act_quant_values},
    {"qdot", check_qdot},           {"dequant", check_dequant},
    {"fdot", check_fdot},           {NULL, NULL},
};

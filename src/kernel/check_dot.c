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
static const int64_t shapes[][2] = {
    {1, 1}, {2, 1}, {3, 1},   {4, 1},  {5, 1},  {9, 1},   {1, 2},
    {2, 2}, {2, 3}, {3, 4},   {4, 5},  {5, 7},  {7, 8},   {4, 9},
    {1, 7}, {9, 3}, {12, 13}, {17, 8}, {65, 3}, {33, 17}, {3, 67}};

/* The part of row 0 that differs, or NULL. */
static const char *act_diff(const struct kq_act *a, const struct kq_act *b)
{
    size_t n = (size_t)a->n;

    if (memcmp(a->q, b->q, n) != 0)
        return "q";
    if (memcmp(a->p, b->p, (size_t)kq_p_step(a->order, a->n)) != 0)
        return "p";
    if (memcmp(a->e, b->e, n) != 0)
        return "e";
    if (memcmp(a->ep, b->ep, 2 * (size_t)kq_ep_step(a->order, a->n)) != 0)
        return "ep";
    if (memcmp(a->sum, b->sum, (n / KQ_GROUP + 1) * sizeof *a->sum) != 0)
        return "sum";
    if (kcheck_diff(a->s, b->s, a->n / KQ_GROUP) >= 0)
        return "s";
    return kcheck_diff(a->d, b->d, 1) >= 0 ? "d" : NULL;
}

static void check_act_quant(struct kcheck *t)
{
    for (int o = 0; o < KQ_N_ORDERS; o++) {
        for (int64_t blocks = 0; blocks <= (o == KQ_FLAT ? 13 : 5); blocks++) {
            int64_t n = blocks * kq_order_block((enum kq_order)o);
            for (int fill = 0; fill < KC_N_FILLS; fill++) {
                float *x = kcheck_buffer(t, (size_t)n * sizeof *x);
                struct kq_act a = kcheck_act(t, 1, n, (enum kq_order)o);
                struct kq_act ref = kcheck_act(t, 1, n, (enum kq_order)o);
                kcheck_floats(t, x, n, (enum kcheck_fill)fill);
                t->k.act_quant(&a, 0, x);
                t->ref.act_quant(&ref, 0, x);
                const char *part = act_diff(&a, &ref);
                if (part)
                    kcheck_fail(t, "act_quant", "order=%d n=%lld fill=%d: %s", o,
                                (long long)n, fill, part);
                kcheck_reset(t);
            }
        }
    }
}

/* d * e * q is x to half a step, a step is hardly wider than the group's largest value
 * asks for, and the sums are what they say; every column has one position. */
static void check_group_values(struct kcheck *t, const struct kq_act *a, const float *x,
                               int g, int32_t *before, uint8_t *seen)
{
    int e = a->e[g * KQ_GROUP / 2], quads = kq_order_block(a->order) / 4, sum = 0;
    double top = 0, step = (double)a->d[0] * e;

    for (int i = g * KQ_GROUP; i < (g + 1) * KQ_GROUP; i++) {
        int u = i / 4;
        int c = 4 * (u - u % quads + kq_quad(a->order, u % quads)) + i % 4;
        double err = fabs((double)x[c] - step * a->q[i]);
        top = fmax(top, fabs((double)x[c]));
        sum += a->q[i];
        if (a->q[i] < -127 || !(err <= 0.5001 * step) || a->e[i / 2] != e || seen[c]++)
            kcheck_fail(t, "act_quant values", "order=%d position %d x=%a q=%d",
                        (int)a->order, i, (double)x[c], a->q[i]);
        int b = i / KQ_PLANE * KQ_PLANE, j = i - b;
        if (a->order == KQ_FLAT &&
            (a->p[b + j / 4 + j % 4 * (KQ_PLANE / 4)] != a->q[i] ||
             a->ep[2 * g + i % 2] != e))
            kcheck_fail(t, "act_quant planes", "position %d", i);
    }
    if (step * 127 > top + (double)a->d[0] * 127.01)
        kcheck_fail(t, "act_quant steps", "group %d: %g for %g", g, step, top);
    sum *= e;
    *before = (int32_t)((uint32_t)*before + (uint32_t)sum);
    if (a->s[g] != (float)sum || a->sum[g + 1] != *before)
        kcheck_fail(t, "act_quant sums", "group %d", g);
}

static void check_act_quant_values(struct kcheck *t)
{
    enum { N = 64 * KQ_GROUP };

    for (int o = 0; o < KQ_N_ORDERS; o++) {
        float *x = kcheck_buffer(t, N * sizeof *x);
        struct kq_act a = kcheck_act(t, 1, N, (enum kq_order)o);
        for (int fill = KC_NORMAL; fill <= KC_MIXED; fill++) {
            uint8_t seen[N] = {0};
            int32_t before = 0;
            kcheck_floats(t, x, N, (enum kcheck_fill)fill);
            t->k.act_quant(&a, 0, x);
            for (int g = 0; g < N / KQ_GROUP && fill != KC_TINY; g++) /* < 2^-100 */
                check_group_values(t, &a, x, g, &before, seen);
        }
        kcheck_reset(t);
    }
}

/* One 8-bit product with its inputs. */
struct qcase {
    struct kq_mat w;
    struct kq_act x;
    float *y, *y_ref;
};

/* Scale blocks, lowest and largest codes: every set that a type has, and some more. */
static const struct {
    int block, low, top;
    bool min;
} forms[] = {{16, 32, 63, false},  {16, 4, 7, false},    {16, 0, 3, true},
             {16, -1, 255, false}, {32, -1, 255, false}, {32, 8, 15, false},
             {32, 16, 31, false},  {32, 0, 15, true},    {32, 0, 31, true},
             {64, 1, 3, false},    {128, 1, 3, false},   {256, 1, 3, false},
             {32, -1, 255, true},  {64, 0, 63, true},    {128, 16, 31, false}};

/* Codes in the form's range: fill 0 the lowest, 1 lowest and highest in turn. */
static void fill_codes(struct kcheck *t, int8_t *code, size_t n, const struct kq_mat *w,
                       int fill)
{
    int lo = w->low < 0 ? -128 : -w->low, hi = w->low < 0 ? 127 : w->top - w->low;

    lo = lo < -KQ_MAX_SUM / w->block ? -KQ_MAX_SUM / w->block : lo;
    hi = hi > KQ_MAX_SUM / w->block ? KQ_MAX_SUM / w->block : hi;
    for (size_t i = 0; i < n; i++) {
        int random = lo + (int)rng_below(&t->rng, (uint64_t)(hi - lo) + 1);
        code[i] = (int8_t)(fill > 1 ? random : fill == 1 && i & 1 ? hi : lo);
    }
}

static struct qcase make_qcase(struct kcheck *t, const int64_t *shape, int64_t n,
                               size_t form, int fill)
{
    size_t rows = (size_t)shape[0], groups = (size_t)n / KQ_GROUP, cols = (size_t)n;
    size_t y_bytes = rows * (size_t)shape[1] * sizeof(float);
    float *x = kcheck_buffer(t, cols * sizeof *x);
    int8_t *code = kcheck_buffer(t, rows * cols);
    float *scale = kcheck_buffer(t, rows * groups * sizeof *scale);
    float *m = kcheck_buffer(t, rows * groups * sizeof *m);
    struct qcase c = {
        {code, scale, forms[form].min ? m : NULL, shape[0], n, (int64_t)groups,
         forms[form].block, forms[form].low, forms[form].top},
        kcheck_act(t, shape[1], n, KQ_FLAT),
        kcheck_buffer(t, y_bytes),
        kcheck_buffer(t, y_bytes),
    };

    fill_codes(t, code, rows * cols, &c.w, fill);
    for (int64_t j = 0; j < shape[1]; j++) {
        kcheck_floats(t, x, n, j % 3 ? KC_NORMAL : KC_MIXED);
        for (int64_t i = 0; i < n && fill < 2; i++) /* the largest codes and factors */
            x[i] = fill == 1 && i & 1 ? 1.0f : -1.0f;
        t->ref.act_quant(&c.x, j, x);
    }
    kcheck_floats(t, scale, (int64_t)(rows * groups), fill ? KC_MIXED : KC_NORMAL);
    kcheck_floats(t, m, (int64_t)(rows * groups), fill ? KC_MIXED : KC_NORMAL);
    for (size_t g = 0; g < rows * groups; g++) { /* columns of a block share them */
        size_t first = g - g % groups % ((size_t)c.w.block / KQ_GROUP);
        scale[g] = scale[first];
        m[g] = m[first];
    }
    return c;
}

/* The reference against double, within the error of its chain of F32 operations: one
 * sum for each block or step, each term rounded three times. */
static void check_qdot_value(struct kcheck *t, const struct qcase *c)
{
    int64_t n = c->x.n;

    for (int64_t i = 0; i < c->w.rows; i++) {
        for (int64_t j = 0; j < c->x.rows; j++) {
            double sum = 0, mag = 0;
            for (int64_t p = 0; p < n; p++) {
                int64_t wg = i * c->w.group_step + p / KQ_GROUP;
                int e = c->x.e[(j * n + p) / 2];
                double d = (double)c->x.d[j] * e;
                double v = (double)c->w.scale[wg] * d * c->w.code[i * n + p] *
                           c->x.q[j * n + p];
                if (c->w.min && p % KQ_GROUP == 0) {
                    double m = (double)c->w.min[wg] * (double)c->x.d[j] *
                               (double)c->x.s[(j * n + p) / KQ_GROUP];
                    sum -= m;
                    mag += fabs(m);
                }
                sum += v;
                mag += fabs(v);
            }
            double bound = ((double)n / KQ_STEP + 12) * (double)FLT_EPSILON * mag;
            double got = (double)c->y_ref[j * c->w.rows + i];
            if (!(fabs(got - sum) <= bound))
                kcheck_fail(t, "qdot value", "n=%lld %g, double gives %g, bound %g",
                            (long long)n, got, sum, bound);
        }
    }
}

static void check_qdot(struct kcheck *t)
{
    static const int64_t steps[] = {0, 1, 2, 3, 5, 9};

    for (size_t f = 0; f < countof(forms); f++) {
        for (size_t i = 0; i < countof(steps); i++) {
            for (size_t s = 0; s < countof(shapes); s++) {
                /* Of three cases one ends within a block. */
                int64_t n = steps[i] * max_i64(forms[f].block, KQ_STEP);
                n -= n && s % 3 == 2 ? max_i64(0, forms[f].block - KQ_STEP) : 0;
                if (steps[i] * forms[f].block > 300 && (s + i) % 5)
                    continue;
                struct qcase c = make_qcase(t, shapes[s], n, f, (int)((i + s) % 4));
                t->k.qdot(c.y, c.w.rows, &c.w, &c.x);
                t->ref.qdot(c.y_ref, c.w.rows, &c.w, &c.x);
                int64_t at = kcheck_diff(c.y, c.y_ref, c.w.rows * c.x.rows);
                if (at >= 0)
                    kcheck_fail(t, "qdot",
                                "block=%d low=%d rows=%lld tokens=%lld n=%lld: %a not "
                                "%a",
                                c.w.block, c.w.low, (long long)c.w.rows,
                                (long long)c.x.rows, (long long)n, (double)c.y[at],
                                (double)c.y_ref[at]);
                check_qdot_value(t, &c);
                kcheck_reset(t);
            }
        }
    }
}

/* Products of packed rows against unpack and qdot of the reference. The rows' last byte is
 * the last of its buffer: nothing after it may be touched. */
static void check_packed_case(struct kcheck *t, enum dtype type, int64_t rows,
                              int64_t tokens, int64_t blocks)
{
    const struct dtype_info *info = dtype_info(type);
    int64_t n = blocks * info->block, groups = n / KQ_GROUP;
    size_t row_bytes = (size_t)(blocks * info->bytes), cells = (size_t)(rows * groups);
    uint8_t *src = kcheck_buffer(t, row_bytes * (size_t)rows);
    int8_t *code = kcheck_buffer(t, (size_t)(rows * n));
    float *scale = kcheck_buffer(t, cells * sizeof *scale);
    float *min = kcheck_buffer(t, cells * sizeof *min);
    float *x = kcheck_buffer(t, (size_t)n * sizeof *x);
    float *y = kcheck_buffer(t, (size_t)(rows * tokens) * sizeof *y);
    float *y_ref = kcheck_buffer(t, (size_t)(rows * tokens) * sizeof *y_ref);
    struct kq_act a = kcheck_act(t, tokens, n, kernel_order(type));
    struct kq_mat w = {code,
                       scale,
                       kernel_has_min(type) ? min : NULL,
                       rows,
                       n,
                       groups,
                       kernel_block(type),
                       kernel_low(type),
                       kernel_top(type)};

    kcheck_bytes(t, src, row_bytes * (size_t)rows);
    for (int64_t j = 0; j < tokens; j++) {
        kcheck_floats(t, x, n, j % 2 ? KC_MIXED : KC_NORMAL);
        t->ref.act_quant(&a, j, x);
    }
    for (int64_t r = 0; r < rows; r++)
        t->ref.unpack[type](code + r * n, scale + r * groups, min + r * groups,
                            src + (size_t)r * row_bytes, n);
    for (int64_t r = 0; r < rows; r++)
        kernel_place(a.order, code + r * n, n);
    t->ref.qdot(y_ref, rows, &w, &a);
    t->k.packed[type](y, rows, src, row_bytes, rows, &a);
    int64_t at = kcheck_diff(y, y_ref, rows * tokens);
    if (at >= 0)
        kcheck_fail(t, "packed", "%s rows=%lld tokens=%lld n=%lld at %lld: %a not %a",
                    info->name, (long long)rows, (long long)tokens, (long long)n,
                    (long long)at, (double)y[at], (double)y_ref[at]);
    kcheck_reset(t);
}

static void check_packed(struct kcheck *t)
{
    static const int64_t rows[] = {1, 2, 3, 7, 8, 9, 17};
    static const int64_t tokens[] = {1, 2, 5, 8, 3};
    /* Past what kernels take at a time: rows, tokens, columns. */
    static const struct {
        int64_t rows, tokens, columns;
    } tiles[] = {{3, 4, 10240}, {270, 4, 128}, {17, 13, 3840}, {9, 67, 1280}};

    for (int type = 0; type < N_DTYPES; type++)
        for (size_t r = 0; t->k.packed[type] && r < countof(rows); r++)
            for (size_t j = 0; j < countof(tokens); j++)
                check_packed_case(t, (enum dtype)type, rows[r], tokens[j],
                                  1 + (int64_t)(r + j) % 4);
    for (int type = 0; type < N_DTYPES; type++)
        for (size_t i = 0; t->k.packed[type] && i < countof(tiles); i++)
            check_packed_case(t, (enum dtype)type, tiles[i].rows, tiles[i].tokens,
                              1 + tiles[i].columns /
                                      dtype_info((enum dtype)type)->block);
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
    {"act_quant", check_act_quant},
    {"act_quant values", check_act_quant_values},
    {"qdot", check_qdot},
    {"dequant", check_dequant},
    {"packed", check_packed},
    {"fdot", check_fdot},
    {NULL, NULL},
};

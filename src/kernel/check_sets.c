/*
 * check_sets.c - repacked ternary rows: the layout both ways, and products.
 *
 * Products against unpack and qdot of the reference on the rows before they were packed.
 */
#include "kernel/check.h"
#include "kernel/sets.h"

#include <string.h>

struct sets_case {
    enum dtype type;
    enum kset_form form;
    int64_t rows, tokens, n;
    struct kq_mat w; /* as the reference unpacks and places them */
    struct kq_act x;
    uint8_t *sets;
};

/* Random bytes of the type. Sets end where their buffer ends. */
static void make_case(struct kcheck *t, struct sets_case *c)
{
    const struct dtype_info *info = dtype_info(c->type);
    const int64_t n = c->n, groups = n / KQ_GROUP;
    const size_t row_bytes = (size_t)(n / info->block * info->bytes);
    const int64_t n_sets = (c->rows + KSET_ROWS - 1) / KSET_ROWS;
    uint8_t *src = kcheck_buffer(t, row_bytes * (size_t)c->rows);
    int8_t *code = kcheck_buffer(t, (size_t)(c->rows * n));
    float *scale = kcheck_buffer(t, (size_t)(c->rows * groups) * sizeof *scale);
    float *min = kcheck_buffer(t, (size_t)groups * sizeof *min);
    float *x = kcheck_buffer(t, (size_t)n * sizeof *x);
    uint64_t bytes = kset_bytes(c->form, kernel_block(c->type), n);

    c->w = (struct kq_mat){.code = code,
                           .scale = scale,
                           .rows = c->rows,
                           .code_step = n,
                           .group_step = groups,
                           .block = kernel_block(c->type),
                           .low = kernel_low(c->type),
                           .top = kernel_top(c->type)};
    c->x = kcheck_act(t, c->tokens, n, kernel_order(c->type));
    c->sets = kcheck_buffer(t, bytes * (size_t)n_sets);
    kcheck_bytes(t, src, row_bytes * (size_t)c->rows);
    for (int64_t r = 0; r < c->rows; r++) {
        t->ref.unpack[c->type](code + r * n, scale + r * groups, min,
                               src + (size_t)r * row_bytes, n);
        kernel_place(c->x.order, code + r * n, n);
    }
    for (int64_t j = 0; j < c->tokens; j++) {
        kcheck_floats(t, x, n, j % 2 ? KC_MIXED : KC_NORMAL);
        t->ref.act_quant(&c->x, j, x);
    }
    for (int64_t s = 0; s < n_sets; s++) {
        struct kq_mat m = c->w;
        m.code += s * KSET_ROWS * n;
        m.scale += s * KSET_ROWS * groups;
        m.rows = min_i64(KSET_ROWS, c->rows - s * KSET_ROWS);
        kset_pack(c->sets + (uint64_t)s * bytes, c->form, &m);
    }
}

static void check_back(struct kcheck *t, const struct sets_case *c)
{
    const int64_t n = c->n, groups = n / KQ_GROUP;
    const uint64_t bytes = kset_bytes(c->form, c->w.block, n);
    int8_t *code = kcheck_buffer(t, (size_t)n);
    float *scale = kcheck_buffer(t, (size_t)groups * sizeof *scale);
    struct kq_mat m = c->w;

    m.code = code;
    m.scale = scale;
    m.rows = 1;
    for (int64_t r = 0; r < c->rows; r++) {
        kset_unpack(&m, c->sets + (uint64_t)(r / KSET_ROWS) * bytes, c->form,
                    r % KSET_ROWS);
        if (memcmp(code, c->w.code + r * n, (size_t)n) != 0 ||
            kcheck_diff(scale, c->w.scale + r * groups, groups) >= 0)
            kcheck_fail(t, "sets", "%s form %d: row %lld of %lld, n=%lld",
                        dtype_info(c->type)->name, (int)c->form, (long long)r,
                        (long long)c->rows, (long long)n);
    }
}

static void check_products(struct kcheck *t, const struct sets_case *c)
{
    size_t y_bytes = (size_t)(c->rows * c->tokens) * sizeof(float);
    float *y = kcheck_buffer(t, y_bytes), *y_ref = kcheck_buffer(t, y_bytes);

    t->ref.qdot(y_ref, c->rows, &c->w, &c->x);
    t->k.sets[c->form](y, c->rows, c->sets, c->rows, c->w.block, &c->x);
    int64_t at = kcheck_diff(y, y_ref, c->rows * c->tokens);
    if (at >= 0)
        kcheck_fail(t, "sets",
                    "%s form %d rows=%lld tokens=%lld n=%lld at %lld: %a not %a",
                    dtype_info(c->type)->name, (int)c->form, (long long)c->rows,
                    (long long)c->tokens, (long long)c->n, (long long)at, (double)y[at],
                    (double)y_ref[at]);
}

/* Rows around the size of a set, tokens around those that registers and tiles take, and
 * lengths with every number of groups left over after units of five; then past what is
 * taken at a time. */
static void check_sets(struct kcheck *t)
{
    static const int64_t rows[] = {1, 7, 8, 9, 15, 16, 17, 33, 3, 17, 270, 9};
    static const int64_t tokens[] = {1, 2, 4, 5, 16, 1, 19, 3, 4, 13, 4, 35};
    static const int64_t columns[] = {0, 0, 0, 0, 0, 0, 0, 0, 10240, 3840, 0, 1280};
    struct sets_case c = {0};

    for (int type = 0; type < N_DTYPES; type++)
        for (int form = 0; form < KSET_N_FORMS; form++)
            for (size_t i = 0; i < countof(rows); i++) {
                c.type = (enum dtype)type;
                c.form = (enum kset_form)form;
                if (!kset_possible(c.type, c.form))
                    break;
                c.rows = rows[i];
                c.tokens = tokens[i];
                c.n = columns[i] +
                      (1 + (int64_t)(i + (size_t)form) % 5) * dtype_info(c.type)->block;
                make_case(t, &c);
                check_back(t, &c);
                if (t->k.sets[form])
                    check_products(t, &c);
                kcheck_reset(t);
            }
}

const struct kcheck_item kcheck_sets[] = {
    {"sets", check_sets},
    {NULL, NULL},
};

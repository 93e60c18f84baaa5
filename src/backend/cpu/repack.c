/*
 * repack.c - ternary rows into sets of sixteen (kernel/sets.h), by all threads.
 */
#include "backend/cpu/cpu_int.h"
#include "kernel/sets.h"

_Static_assert((int)REPACK_2BITS == (int)KSET_2BITS &&
                   (int)REPACK_TRITS == (int)KSET_TRITS &&
                   (int)REPACK_N_FORMS == (int)KSET_N_FORMS,
               "forms of the backend are those of the kernels");

/* Scratch of one set: sixteen rows of codes and scales, and one of minima, which no
 * ternary type has. */
static int64_t set_scratch(int64_t n)
{
    return KSET_ROWS * (n + n / KQ_GROUP * (int64_t)sizeof(float)) +
           n / KQ_GROUP * (int64_t)sizeof(float);
}

bool backend_can_repack(const struct backend *be, const struct weight *w,
                        enum repack_form form)
{
    return !be->exact && w->pad == 0 && be->k.sets[form] &&
           kset_possible(w->type, (enum kset_form)form) &&
           set_scratch(w->cols) <= CPU_SCRATCH;
}

static uint64_t set_bytes(const struct weight *w, enum repack_form form)
{
    return kset_bytes((enum kset_form)form, kernel_block(w->type), w->cols);
}

uint64_t backend_repack_bytes(const struct weight *w, enum repack_form form)
{
    return (uint64_t)((w->rows + KSET_ROWS - 1) / KSET_ROWS) * set_bytes(w, form);
}

struct repack_job {
    struct backend *be;
    const struct weight *w;
    uint8_t *sets;
    enum repack_form form;
    int64_t first, end; /* rows */
};

static void repack_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct repack_job *j = ctx;
    const struct weight *w = j->w;
    const struct kernels *k = &j->be->k;
    int64_t n = w->cols, groups = n / KQ_GROUP;
    float *scale = cpu_scratch(j->be, thread), *min = scale + KSET_ROWS * groups;
    int8_t *code = (int8_t *)(min + groups);
    struct kq_mat m = {.code = code,
                       .scale = scale,
                       .code_step = n,
                       .group_step = groups,
                       .block = kernel_block(w->type),
                       .low = kernel_low(w->type),
                       .top = kernel_top(w->type)};

    for (int64_t s = begin; s < end; s++) {
        int64_t r = j->first + s * KSET_ROWS;
        m.rows = min_i64(KSET_ROWS, j->end - r);
        for (int64_t i = 0; i < m.rows; i++) {
            k->unpack[w->type](code + i * n, scale + i * groups, min,
                               w->data + (uint64_t)(r + i) * w->row_bytes, n);
            kernel_place(kernel_order(w->type), code + i * n, n);
        }
        kset_pack(j->sets + (uint64_t)(r / KSET_ROWS) * set_bytes(w, j->form),
                  (enum kset_form)j->form, &m);
    }
}

void backend_repack(struct backend *be, uint8_t *sets, const struct weight *w,
                    enum repack_form form, int64_t first, int64_t n)
{
    struct repack_job j = {be, w, sets, form, first, first + n};

    cpu_run(be, repack_part, &j, (n + KSET_ROWS - 1) / KSET_ROWS, 1);
}

/*
 * cpu_int.h - what the files of the CPU backend share.
 *
 * A backend owns the kernel table and one scratch area per thread. The scratch has a
 * fixed size, so that no operation ever allocates: tiles are cut to fit it.
 */
#ifndef BACKEND_CPU_INT_H
#define BACKEND_CPU_INT_H

#include "backend/backend.h"
#include "kernel/kernel.h"

enum {
    CPU_SCRATCH = 512 * 1024, /* bytes per thread: 16 unpacked rows of 21,845 columns */
    CPU_MAX_WIDTH = 64 * 1024, /* one F32 row must fit the scratch */
    CPU_ALIGN = 64,
};

enum { ROPE_KEPT = 256 }; /* pairs of the widest head whose angles are kept */

/* The angles by which one token was turned last. n_rot 0: none yet. */
struct rope_kept {
    int64_t pos, n_rot;
    float mscale, freq[ROPE_KEPT], c[ROPE_KEPT], s[ROPE_KEPT];
};

struct backend {
    struct kernels k;
    struct pool *pool;
    const struct log *log;
    bool exact;
    int n_threads;
    uint8_t *scratch; /* [n_threads][CPU_SCRATCH] */
    struct rope_kept rope;
    float *parts;     /* attention of single pieces of the context: backend_reserve */
    uint64_t n_parts; /* floats */
};

/* An activation as one kind of weight reads it. */
struct act_form {
    const struct rotation *rot; /* NULL: plain */
    const float *x;             /* [T, width] */
    float *rotated;             /* storage behind x when rot is set */
    struct kq_act q;            /* in 8 bits, q_width columns; NULLs in exact mode */
    bool have_x, have_q;
};

enum { CPU_MAX_BLOCK = 256 }; /* of any type and order */

/* Columns of an activation in 8 bits as weights of this type want it: whole blocks, the
 * last ones 0. Only padded weights have columns that are no multiple of it, and then this
 * is what they store. */
static inline int64_t cpu_q_width(enum dtype t, int64_t width)
{
    int64_t block = max_i64(kq_order_block(kernel_order(t)), dtype_info(t)->block);

    return (width + block - 1) / block * block;
}

struct act_cpu {
    int64_t max_tokens, max_width;
    uint8_t *mem; /* holds everything that the forms and a->x point to */
    struct act_form plain, turned;
};

static inline void *cpu_scratch(const struct backend *be, int thread)
{
    return be->scratch + (size_t)thread * CPU_SCRATCH;
}

/* pool_run() that does not wake anybody for a single piece. */
void cpu_run(struct backend *be,
             void (*fn)(void *ctx, int64_t begin, int64_t end, int thread), void *ctx,
             int64_t n, int64_t chunk);

/* n weights of a row to F32. */
void cpu_decode_row(const struct backend *be, enum dtype t, float *dst,
                    const uint8_t *src, int64_t n);

/* act.c: the form for a weight folded with rot; made now if it is not there. Asking for
 * another rotation drops the form of the former one. */
const struct act_form *cpu_act_form(struct backend *be, struct act *a,
                                    const struct rotation *rot);

/* The same with 8-bit codes as weights of this type want them. A form keeps the codes of
 * one order and width at a time. */
const struct act_form *cpu_act_form_q(struct backend *be, struct act *a,
                                      const struct rotation *rot, enum dtype type);

#endif

/*
 * kv.c - how a cache of keys and values lies in memory, and how rows get into it.
 */
#include "backend/cpu/attn_int.h"
#include "base/reader.h"

#include <assert.h>

enum { STORE_CHUNK = 8 }; /* tokens per piece of work */

enum b2_status backend_kv_check(enum dtype type, int64_t head_dim, struct b2_err *err)
{
    if (type != DT_F16 && type != DT_Q8_0 && type != DT_Q4_0)
        return err_set(err, B2_EARG, "a cache is F16, Q8_0 or Q4_0, not type %d",
                       (int)type);
    if (type != DT_F16 && head_dim % KV_BLOCK != 0)
        return err_set(err, B2_EUNSUP,
                       "a %s cache needs heads of a multiple of %d values, but this "
                       "model's have %lld: --cache f16 holds them",
                       dtype_info(type)->name, KV_BLOCK, (long long)head_dim);
    return B2_OK;
}

/* Bytes of one row without its scales. */
static int64_t row_bytes(enum dtype type, int64_t head_dim)
{
    return type == DT_F16 ? 2 * head_dim : type == DT_Q8_0 ? head_dim : head_dim / 2;
}

/* Bytes of all rows of keys, and of their scales, each a multiple of CPU_ALIGN. */
static uint64_t rows_bytes(enum dtype type, int64_t n_kv_heads, int64_t head_dim,
                           int64_t cap)
{
    return align_up_u64(
        (uint64_t)(n_kv_heads * cap) * (uint64_t)row_bytes(type, head_dim), CPU_ALIGN);
}

static uint64_t scales_bytes(enum dtype type, int64_t n_kv_heads, int64_t head_dim,
                             int64_t cap)
{
    if (type == DT_F16)
        return 0;
    return align_up_u64((uint64_t)(n_kv_heads * cap) * (uint64_t)(head_dim / KV_BLOCK) *
                            sizeof(uint16_t),
                        CPU_ALIGN);
}

uint64_t backend_kv_bytes(enum dtype type, int64_t n_kv_heads, int64_t head_dim,
                          int64_t cap)
{
    return 2 * (rows_bytes(type, n_kv_heads, head_dim, cap) +
                scales_bytes(type, n_kv_heads, head_dim, cap));
}

void backend_kv_place(struct kv_layer *kv, void *mem, int64_t n_kv_heads,
                      int64_t head_dim)
{
    uint64_t rows = rows_bytes(kv->type, n_kv_heads, head_dim, kv->cap);
    uint64_t scales = scales_bytes(kv->type, n_kv_heads, head_dim, kv->cap);
    uint8_t *p = mem;

    kv->k = p;
    kv->v = p + rows;
    kv->k_scale = kv->v_scale = NULL;
    if (scales > 0) {
        kv->k_scale = (uint16_t *)(void *)(p + 2 * rows);
        kv->v_scale = (uint16_t *)(void *)(p + 2 * rows + scales);
    }
}

struct kv_rows cpu_kv_rows(const struct kv_layer *kv, bool values, int64_t kv_head,
                           int64_t head_dim, int64_t pos)
{
    int64_t bytes = row_bytes(kv->type, head_dim), slot = kv_slot(kv, pos);
    const uint16_t *scale = values ? kv->v_scale : kv->k_scale;
    struct kv_rows r = {
        .row = (values ? kv->v : kv->k) + (kv_head * kv->cap + slot) * bytes,
        .row_bytes = bytes,
        .scale_step = kv->cap,
        .n = kv->cap - slot,
        .dim = head_dim,
    };

    if (scale)
        r.scale = scale + kv_head * (head_dim / KV_BLOCK) * kv->cap + slot;
    return r;
}

struct store_job {
    struct backend *be;
    struct kv_layer *kv;
    const float *k, *v;
    int64_t n_kv_heads, head_dim, pos0;
};

static void put_row(const struct store_job *j, bool values, int64_t h, int64_t slot,
                    const float *x)
{
    const struct kv_layer *kv = j->kv;
    const struct kernels *k = &j->be->k;
    int64_t bytes = row_bytes(kv->type, j->head_dim);
    uint8_t *row = (values ? kv->v : kv->k) + (h * kv->cap + slot) * bytes;
    uint16_t *scale = values ? kv->v_scale : kv->k_scale;

    if (kv->type == DT_F16) {
        k->f16_from_f32((uint16_t *)(void *)row, x, j->head_dim);
        return;
    }
    scale += h * (j->head_dim / KV_BLOCK) * kv->cap + slot;
    if (kv->type == DT_Q8_0)
        k->attn.put_q8(row, scale, kv->cap, x, j->head_dim);
    else
        k->attn.put_q4(row, scale, kv->cap, x, j->head_dim);
}

static void store_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct store_job *j = ctx;

    (void)thread;
    for (int64_t t = begin; t < end; t++) {
        int64_t slot = kv_slot(j->kv, j->pos0 + t);
        for (int64_t h = 0; h < j->n_kv_heads; h++) {
            int64_t from = (t * j->n_kv_heads + h) * j->head_dim;
            put_row(j, false, h, slot, j->k + from);
            put_row(j, true, h, slot, j->v + from);
        }
    }
}

void backend_kv_store(struct backend *be, struct kv_layer *kv, const float *k,
                      const float *v, int64_t n_tokens, int64_t n_kv_heads,
                      int64_t head_dim, int64_t pos0)
{
    struct store_job j = {be, kv, k, v, n_kv_heads, head_dim, pos0};

    /* Else two tokens of one batch would share a slot. */
    assert(n_tokens <= kv->cap - kv->sinks);
    cpu_run(be, store_part, &j, n_tokens, STORE_CHUNK);
}

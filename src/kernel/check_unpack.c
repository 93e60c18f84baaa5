/*
 * check_unpack.c - unpackers of every quantised type.
 *
 * Against the scalar reference bit for bit, and scale * code - min against
 * quant_decode_row(), which was written apart from them and is tested against gguf-py.
 */
#include "kernel/check.h"
#include "tensor/quant.h"

#include <string.h>

enum { MAX_BLOCKS = 9, MAX_N = MAX_BLOCKS * 256 };

static void check_values(struct kcheck *t, enum dtype type, const int8_t *code,
                         const float *scale, const float *min, const uint8_t *src,
                         int64_t n)
{
    float want[MAX_N], got[MAX_N];

    quant_decode_row(type, want, src, n);
    t->k.dequant(got, code, scale, kernel_has_min(type) ? min : NULL, n);
    int64_t at = kcheck_diff(got, want, n);
    if (at >= 0)
        kcheck_fail(t, "unpack values", "%s: weight %lld is %a, quant.c says %a",
                    dtype_info(type)->name, (long long)at, (double)got[at],
                    (double)want[at]);
}

static void check_type(struct kcheck *t, enum dtype type, int64_t n_blocks)
{
    const struct dtype_info *info = dtype_info(type);
    int64_t n = n_blocks * info->block;
    size_t groups = (size_t)n / KQ_GROUP, src_bytes = (size_t)(n_blocks * info->bytes);
    uint8_t *src = kcheck_buffer(t, src_bytes);
    int8_t *code = kcheck_buffer(t, (size_t)n), *code_ref = kcheck_buffer(t, (size_t)n);
    float *scale = kcheck_buffer(t, groups * 4),
          *scale_ref = kcheck_buffer(t, groups * 4);
    float *min = kcheck_buffer(t, groups * 4), *min_ref = kcheck_buffer(t, groups * 4);

    kcheck_bytes(t, src, src_bytes); /* any bytes must do, also no encoder's */
    t->k.unpack[type](code, scale, min, src, n);
    t->ref.unpack[type](code_ref, scale_ref, min_ref, src, n);
    if (memcmp(code, code_ref, (size_t)n) != 0)
        kcheck_fail(t, "unpack codes", "%s: %lld blocks", info->name,
                    (long long)n_blocks);
    if (kcheck_diff(scale, scale_ref, (int64_t)groups) >= 0 ||
        (kernel_has_min(type) && kcheck_diff(min, min_ref, (int64_t)groups) >= 0))
        kcheck_fail(t, "unpack scales", "%s: %lld blocks", info->name,
                    (long long)n_blocks);
    check_values(t, type, code, scale, min, src, n);
    kcheck_reset(t);
}

static void check_unpack(struct kcheck *t)
{
    for (int type = 0; type < N_DTYPES; type++) {
        if (kernel_is_quant((enum dtype)type) != (t->k.unpack[type] != NULL))
            kcheck_fail(t, "unpack table", "%s", dtype_info((enum dtype)type)->name);
        if (!t->k.unpack[type])
            continue;
        for (int repeat = 0; repeat < 8; repeat++)
            for (int64_t n_blocks = 0; n_blocks <= MAX_BLOCKS; n_blocks++)
                check_type(t, (enum dtype)type, n_blocks);
    }
}

/* Every byte value in every place of a base-3 block. */
static void check_base3(struct kcheck *t)
{
    static const enum dtype types[] = {DT_TQ1_0, DT_PTQ1_0, DT_B2_T64};
    uint8_t src[64];
    int8_t code[256];
    float scale[16], min[16];

    for (size_t i = 0; i < countof(types); i++) {
        const struct dtype_info *info = dtype_info(types[i]);
        for (int v = 0; v < 256; v++) {
            memset(src, v, sizeof src);
            if (types[i] != DT_B2_T64) { /* where every byte is a scale */
                src[info->bytes - 2] = 0;
                src[info->bytes - 1] = 0x3c; /* 1.0 */
            }
            t->k.unpack[types[i]](code, scale, min, src, info->block);
            check_values(t, types[i], code, scale, min, src, info->block);
        }
    }
}

const struct kcheck_item kcheck_unpack[] = {
    {"unpack", check_unpack},
    {"base-3 bytes", check_base3},
    {NULL, NULL},
};

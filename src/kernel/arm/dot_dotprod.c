/*
 * dot_dotprod.c - the 8-bit product with the dot-product instructions of ARMv8.2.
 */
#include "kernel/variants.h"

#include <arm_neon.h>

static inline int32x4_t dot16(int8x16_t w, int8x16_t q)
{
    return vdotq_s32(vdupq_n_s32(0), w, q);
}

#include "kernel/arm/qdot_body.h"

void kernel_qdot_dotprod(float *y, int64_t y_step, const struct kq_mat *w,
                         const struct kq_act *x)
{
    for (int64_t r = 0; r < w->rows; r += TILE_ROWS) {
        struct row_tile s = rows_at(w, r);
        int64_t t = 0;
        for (; t + TILE_TOKENS <= x->rows; t += TILE_TOKENS)
            qdot_tile(y + r, y_step, w, &s, x, t, TILE_TOKENS);
        for (; t < x->rows; t++)
            qdot_tile(y + r, y_step, w, &s, x, t, 1);
    }
}

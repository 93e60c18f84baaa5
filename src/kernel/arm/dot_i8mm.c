/*
 * dot_i8mm.c - the 8-bit product with the matrix instructions of ARMv8.6.
 *
 * smmla multiplies 2 rows by 2 tokens over 8 columns: sums come as row 0 token 0, row 0
 * token 1, row 1 token 0, row 1 token 1. Four rows and four tokens advance together.
 */
#include "kernel/variants.h"

#include <arm_neon.h>

static inline int32x4_t dot16(int8x16_t w, int8x16_t q)
{
    return vdotq_s32(vdupq_n_s32(0), w, q);
}

#include "kernel/arm/qdot_body.h"

/* Bytes 0-7 of a and of b, and bytes 8-15 of both. */
static ALWAYS_INLINE void pair_up(int8x16_t *lo, int8x16_t *hi, const int8_t *a,
                                  const int8_t *b)
{
    int64x2_t va = vreinterpretq_s64_s8(vld1q_s8(a));
    int64x2_t vb = vreinterpretq_s64_s8(vld1q_s8(b));

    *lo = vreinterpretq_s8_s64(vzip1q_s64(va, vb));
    *hi = vreinterpretq_s8_s64(vzip2q_s64(va, vb));
}

/* sum[i][j]: rows 2 i, 2 i + 1 times tokens 2 j, 2 j + 1, over group g with factors. */
static ALWAYS_INLINE void add_group(int32x4_t (*sum)[2], const struct row_tile *s,
                                    const struct kq_act *x, int64_t t, int64_t g)
{
    const int8_t *q = x->q + t * x->n + g * KQ_GROUP;
    const int16_t *e16 = x->e + (t * x->n + g * KQ_GROUP) / 2;
    int8x16_t lo[2], hi[2];
    int32x4_t e[2];

    for (int j = 0; j < 2; j++) {
        const int8_t *p = q + 2 * j * x->n;
        const int16_t *f = e16 + j * x->n;
        pair_up(&lo[j], &hi[j], p, p + x->n);
        e[j] = vsetq_lane_s32(f[x->n / 2], vdupq_n_s32(f[0]), 1);
        e[j] = vcombine_s32(vget_low_s32(e[j]), vget_low_s32(e[j]));
    }
    for (int i = 0; i < 2; i++) {
        int8x16_t wl, wh;
        pair_up(&wl, &wh, s->code[2 * i] + g * KQ_GROUP,
                s->code[2 * i + 1] + g * KQ_GROUP);
        for (int j = 0; j < 2; j++) {
            int32x4_t d = vmmlaq_s32(vdupq_n_s32(0), wl, lo[j]);
            d = vmmlaq_s32(d, wh, hi[j]);
            sum[i][j] = vmlaq_s32(sum[i][j], d, e[j]);
        }
    }
}

/* Rows s times tokens t.. t + 3: qdot_tile over pairs. */
static void mm_tile(float *y, int64_t y_step, const struct kq_mat *w,
                    const struct row_tile *s, const struct kq_act *x, int64_t t)
{
    float32x4_t acc[TILE_TOKENS];
    int64_t block = w->block / KQ_GROUP, n = x->n / KQ_GROUP;

    for (int j = 0; j < TILE_TOKENS; j++)
        acc[j] = vdupq_n_f32(0.0f);
    for (int64_t b = 0; b < n; b += block) {
        int64_t end = b + block < n ? b + block : n;
        int32x4_t sum[2][2] = {{vdupq_n_s32(0), vdupq_n_s32(0)},
                               {vdupq_n_s32(0), vdupq_n_s32(0)}};
        for (int64_t g = b; g < end; g++)
            add_group(sum, s, x, t, g);
        float32x4_t scale = numbers(s->scale, b);
        float32x4_t min = w->min ? numbers(s->min, b) : scale;
        for (int j = 0; j < TILE_TOKENS; j++) {
            int32x4_t a = sum[0][j / 2], c = sum[1][j / 2];
            int32x4_t all = j % 2 ? vuzp2q_s32(a, c) : vuzp1q_s32(a, c);
            float act = w->min ? (float)act_sum(x, t + j, b, end - b) : 0.0f;
            acc[j] = add_block(acc[j], scale, all, w->min != NULL, min, act);
        }
    }
    for (int j = 0; j < TILE_TOKENS; j++)
        put_rows(y + (t + j) * y_step, acc[j], x->d[t + j], s->n);
}

void kernel_qdot_i8mm(float *y, int64_t y_step, const struct kq_mat *w,
                      const struct kq_act *x)
{
    for (int64_t r = 0; r < w->rows; r += TILE_ROWS) {
        struct row_tile s = rows_at(w, r);
        int64_t t = 0;
        for (; t + TILE_TOKENS <= x->rows; t += TILE_TOKENS)
            mm_tile(y + r, y_step, w, &s, x, t);
        for (; t < x->rows; t++)
            qdot_tile(y + r, y_step, w, &s, x, t, 1);
    }
}

/*
 * qdot_body.h - the 8-bit product of the NEON levels, over one way to multiply 16 bytes.
 *
 * Included by dot_neon.c, dot_dotprod.c and dot_i8mm.c, each of which defines dot16(w, q)
 * before: four sums whose total is the sum of w * q over 16 columns. Four rows and up to
 * four tokens advance together; a group's sums meet the factor as integers, and four
 * rows' block sums share a register.
 */
#ifndef KERNEL_ARM_QDOT_BODY_H
#define KERNEL_ARM_QDOT_BODY_H

#include "kernel/arm/neon.h"

enum { TILE_ROWS = 4, TILE_TOKENS = 4 };

/* Four rows of a product; rows beyond the last are the last. */
struct row_tile {
    const int8_t *code[TILE_ROWS];
    const float *scale[TILE_ROWS], *min[TILE_ROWS];
    int64_t n; /* rows that exist */
};

static ALWAYS_INLINE struct row_tile rows_at(const struct kq_mat *w, int64_t r)
{
    struct row_tile s = {.n = w->rows - r < TILE_ROWS ? w->rows - r : TILE_ROWS};

    for (int i = 0; i < TILE_ROWS; i++) {
        int64_t at = r + i < w->rows ? r + i : w->rows - 1;
        s.code[i] = w->code + at * w->code_step;
        s.scale[i] = w->scale + at * w->group_step;
        s.min[i] = w->min ? w->min + at * w->group_step : NULL;
    }
    return s;
}

/* Number g of each row. */
static ALWAYS_INLINE float32x4_t numbers(const float *const *row, int64_t g)
{
    float32x4_t v = vdupq_n_f32(row[0][g]);

    v = vsetq_lane_f32(row[1][g], v, 1);
    v = vsetq_lane_f32(row[2][g], v, 2);
    return vsetq_lane_f32(row[3][g], v, 3);
}

/* acc + scale * (float)sums, less the minima's part: one block of four rows. */
static ALWAYS_INLINE float32x4_t add_block(float32x4_t acc, float32x4_t scale,
                                           int32x4_t sums, bool has_min,
                                           float32x4_t min, float act)
{
    float32x4_t term = vmulq_f32(scale, vcvtq_f32_s32(sums));

    if (has_min)
        term = vsubq_f32(term, vmulq_f32(min, vdupq_n_f32(act)));
    return vaddq_f32(acc, term);
}

static ALWAYS_INLINE void put_rows(float *y, float32x4_t acc, float d, int64_t n)
{
    float v[TILE_ROWS];

    vst1q_f32(v, vmulq_f32(vdupq_n_f32(d), acc));
    for (int64_t i = 0; i < n; i++)
        y[i] = v[i];
}

/* Rows s times tokens t.. t + n_t - 1 of x; n_t a constant. */
static ALWAYS_INLINE void qdot_tile(float *y, int64_t y_step, const struct kq_mat *w,
                                    const struct row_tile *s, const struct kq_act *x,
                                    int64_t t, int n_t)
{
    float32x4_t acc[TILE_TOKENS];
    int64_t block = w->block / KQ_GROUP, n = x->n / KQ_GROUP;

    for (int j = 0; j < n_t; j++)
        acc[j] = vdupq_n_f32(0.0f);
    for (int64_t b = 0; b < n; b += block) {
        int64_t end = b + block < n ? b + block : n;
        int32x4_t sum[TILE_ROWS][TILE_TOKENS];
        for (int i = 0; i < TILE_ROWS; i++)
            for (int j = 0; j < n_t; j++)
                sum[i][j] = vdupq_n_s32(0);
        for (int64_t g = b; g < end; g++) {
            int8x16_t q[TILE_TOKENS];
            for (int j = 0; j < n_t; j++)
                q[j] = vld1q_s8(x->q + (t + j) * x->n + g * KQ_GROUP);
            for (int i = 0; i < TILE_ROWS; i++) {
                int8x16_t v = vld1q_s8(s->code[i] + g * KQ_GROUP);
                for (int j = 0; j < n_t; j++)
                    sum[i][j] = vmlaq_n_s32(sum[i][j], dot16(v, q[j]),
                                            x->e[((t + j) * x->n + g * KQ_GROUP) / 2]);
            }
        }
        float32x4_t scale = numbers(s->scale, b);
        float32x4_t min = w->min ? numbers(s->min, b) : scale;
        for (int j = 0; j < n_t; j++) {
            int32x4_t all = vpaddq_s32(vpaddq_s32(sum[0][j], sum[1][j]),
                                       vpaddq_s32(sum[2][j], sum[3][j]));
            float act = w->min ? (float)act_sum(x, t + j, b, end - b) : 0.0f;
            acc[j] = add_block(acc[j], scale, all, w->min != NULL, min, act);
        }
    }
    for (int j = 0; j < n_t; j++)
        put_rows(y + (t + j) * y_step, acc[j], x->d[t + j], s->n);
}

#endif

/*
 * attn_neon.c - cache rows, scores and weighted values, in NEON.
 *
 * Same bits as ref/attn_ref.c. Four positions are scored together: the products of a
 * block come out of pairwise additions as four neighbours, which one register of scales
 * turns into floats. Keys and values are widened once for two rows.
 */
#include "base/reader.h"
#include "kernel/arm/neon.h"
#include "kernel/variants.h"
#include "tensor/f16.h"

#include <math.h>
#include <string.h>

enum { POS = 4, HALF = KV_BLOCK / 2, QUADS = KV_BLOCK / 4 };

static const uint32_t INF_BITS = 0x7f800000u;

/* ---- rows into the cache ---- */

/* The bits of the largest |x| of a block, as integers: a NaN is the largest. */
static ALWAYS_INLINE uint32_t max_bits(const float *x)
{
    const uint32x4_t mask = vdupq_n_u32(0x7fffffff);
    uint32x4_t m = vdupq_n_u32(0);

    for (int i = 0; i < QUADS; i++) {
        uint32x4_t v = vreinterpretq_u32_f32(vld1q_f32(x + 4 * i));
        m = vmaxq_u32(m, vandq_u32(v, mask));
    }
    return vmaxvq_u32(m);
}

/* The first value of a block with these bits, the sign apart. */
static float first_of(const float *x, uint32_t bits)
{
    int i = 0;

    while (i < KV_BLOCK - 1 && (f32_bits(x[i]) & 0x7fffffffu) != bits)
        i++;
    return x[i];
}

static bool finite_bits(float x)
{
    return (f32_bits(x) & 0x7fffffffu) < INF_BITS;
}

static float inverse(float scale)
{
    float inv = 1.0f / scale;

    return finite_bits(scale) && finite_bits(inv) ? inv : 0.0f;
}

/* Eight codes from x on, cut to [low, high]. */
static ALWAYS_INLINE int16x8_t round_words(const float *x, float inv, float low,
                                           float high)
{
    int32x4_t v[2];

    for (int i = 0; i < 2; i++) {
        float32x4_t f = vmulq_f32(vld1q_f32(x + 4 * i), vdupq_n_f32(inv));
        f = vmaxq_f32(vminq_f32(f, vdupq_n_f32(high)), vdupq_n_f32(low));
        v[i] = vcvtnq_s32_f32(f);
    }
    return vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
}

static ALWAYS_INLINE int8x16_t round_bytes(const float *x, float inv, float low,
                                           float high)
{
    return vcombine_s8(vmovn_s16(round_words(x, inv, low, high)),
                       vmovn_s16(round_words(x + 8, inv, low, high)));
}

void kernel_kv_put_q8_neon(uint8_t *code, uint16_t *scale, int64_t scale_step,
                           const float *x, int64_t dim)
{
    for (int64_t b = 0; b < dim / KV_BLOCK; b++, x += KV_BLOCK, code += KV_BLOCK) {
        uint32_t most = max_bits(x);
        bool fine = most < INF_BITS;
        uint16_t d = f16_from_f32(fine ? f32_from_bits(most) / 127.0f : NAN);
        float inv = inverse(f32_from_f16(d));
        scale[b * scale_step] = d;
        for (int i = 0; i < KV_BLOCK; i += 16) {
            int8x16_t v =
                fine ? round_bytes(x + i, inv, -127.0f, 127.0f) : vdupq_n_s8(0);
            vst1q_u8(code + i, vreinterpretq_u8_s8(v));
        }
    }
}

void kernel_kv_put_q4_neon(uint8_t *code, uint16_t *scale, int64_t scale_step,
                           const float *x, int64_t dim)
{
    for (int64_t b = 0; b < dim / KV_BLOCK; b++, x += KV_BLOCK, code += HALF) {
        uint32_t most = max_bits(x);
        bool fine = most < INF_BITS;
        uint16_t d = f16_from_f32(fine ? first_of(x, most) / -8.0f : NAN);
        float inv = inverse(f32_from_f16(d));
        int8x16_t lo = vdupq_n_s8(0), hi = lo;
        scale[b * scale_step] = d;
        if (fine) {
            lo = round_bytes(x, inv, -8.0f, 7.0f);
            hi = round_bytes(x + HALF, inv, -8.0f, 7.0f);
        }
        lo = vaddq_s8(lo, vdupq_n_s8(8));
        hi = vshlq_n_s8(vaddq_s8(hi, vdupq_n_s8(8)), 4);
        vst1q_u8(code, vreinterpretq_u8_s8(vorrq_s8(lo, hi)));
    }
}

void kernel_kv_query_neon(const struct kv_query *q, int64_t r, const float *x)
{
    const float most_code = KV_QUERY_MAX;
    int16_t *code = q->code + r * q->dim;
    float *scale = q->scale + r * (q->dim / KV_BLOCK);

    for (int64_t b = 0; b < q->dim / KV_BLOCK; b++, x += KV_BLOCK, code += KV_BLOCK) {
        uint32_t most = max_bits(x);
        bool fine = most < INF_BITS;
        float d = fine ? f32_from_bits(most) / most_code : NAN, inv = inverse(d);
        scale[b] = d;
        for (int i = 0; i < KV_BLOCK; i += 8)
            vst1q_s16(code + i, fine ? round_words(x + i, inv, -most_code, most_code)
                                     : vdupq_n_s16(0));
    }
}

/* ---- rows out of it ---- */

void kernel_kv_widen_q4_neon(int8_t *dst, const struct kv_rows *rows)
{
    const uint8x16_t low = vdupq_n_u8(15), eight = vdupq_n_u8(8);

    for (int64_t p = 0; p < rows->n; p++) {
        const uint8_t *src = rows->row + p * rows->row_bytes;
        for (int64_t b = 0; b < rows->dim / KV_BLOCK;
             b++, src += HALF, dst += KV_BLOCK) {
            uint8x16_t v = vld1q_u8(src);
            uint8x16_t lo = vsubq_u8(vandq_u8(v, low), eight);
            uint8x16_t hi = vsubq_u8(vshrq_n_u8(v, 4), eight);
            vst1q_s8(dst, vreinterpretq_s8_u8(lo));
            vst1q_s8(dst + HALF, vreinterpretq_s8_u8(hi));
        }
    }
}

static ALWAYS_INLINE int8x16_t sixteen_codes(const uint8_t *p)
{
    return vreinterpretq_s8_u8(vld1q_u8(p));
}

/* 16 codes as floats, times scale. */
static ALWAYS_INLINE void code_floats(float32x4_t *v, const uint8_t *p, float scale)
{
    int8x16_t c = sixteen_codes(p);
    int16x8_t lo = vmovl_s8(vget_low_s8(c)), hi = vmovl_s8(vget_high_s8(c));

    v[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo)));
    v[1] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(lo)));
    v[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi)));
    v[3] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(hi)));
    for (int i = 0; i < 4; i++)
        v[i] = vmulq_f32(vdupq_n_f32(scale), v[i]);
}

static ALWAYS_INLINE float scale_at(const struct kv_rows *rows, int64_t p, int64_t b)
{
    return f32_from_f16(rows->scale[b * rows->scale_step + p]);
}

void kernel_kv_get_q8_neon(float *dst, const struct kv_rows *rows)
{
    for (int64_t p = 0; p < rows->n; p++) {
        const uint8_t *src = rows->row + p * rows->row_bytes;
        for (int64_t i = 0; i < rows->dim; i += 16, dst += 16) {
            float32x4_t v[4];
            code_floats(v, src + i, scale_at(rows, p, i / KV_BLOCK));
            for (int k = 0; k < 4; k++)
                vst1q_f32(dst + 4 * k, v[k]);
        }
    }
}

/* ---- scores ---- */

/* The products of a block of codes and 32 numbers of a query, in four sums. */
static ALWAYS_INLINE int32x4_t dot_block(const int16x8_t *key, const int16_t *q)
{
    int32x4_t a = vdupq_n_s32(0);

    for (int i = 0; i < 4; i++) {
        int16x8_t v = vld1q_s16(q + 8 * i);
        a = vmlal_s16(a, vget_low_s16(key[i]), vget_low_s16(v));
        a = vmlal_high_s16(a, key[i], v);
    }
    return a;
}

/* Four positions from p on for n_r (1 or 2) queries from r on. */
static ALWAYS_INLINE void score_four(float *y, int64_t y_step, const struct kv_rows *k,
                                     int64_t p, const struct kv_query *q, int64_t r,
                                     int n_r)
{
    const int64_t n_blocks = q->dim / KV_BLOCK;
    float32x4_t acc[2] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};

    for (int64_t b = 0; b < n_blocks; b++) {
        int32x4_t sum[2][POS];
        for (int j = 0; j < POS; j++) {
            const uint8_t *at = k->row + (p + j) * k->row_bytes + b * KV_BLOCK;
            int16x8_t key[4];
            for (int i = 0; i < 2; i++) {
                int8x16_t c = sixteen_codes(at + 16 * i);
                key[2 * i] = vmovl_s8(vget_low_s8(c));
                key[2 * i + 1] = vmovl_s8(vget_high_s8(c));
            }
            for (int i = 0; i < n_r; i++)
                sum[i][j] = dot_block(key, q->code + (r + i) * q->dim + b * KV_BLOCK);
        }
        float16x4_t half =
            vreinterpret_f16_u16(vld1_u16(k->scale + b * k->scale_step + p));
        float32x4_t scale = vcvt_f32_f16(half);
        for (int i = 0; i < n_r; i++) {
            int32x4_t s = vpaddq_s32(vpaddq_s32(sum[i][0], sum[i][1]),
                                     vpaddq_s32(sum[i][2], sum[i][3]));
            float32x4_t by =
                vmulq_f32(scale, vdupq_n_f32(q->scale[(r + i) * n_blocks + b]));
            acc[i] = vaddq_f32(acc[i], vmulq_f32(by, vcvtq_f32_s32(s)));
        }
    }
    for (int i = 0; i < n_r; i++)
        vst1q_f32(y + (r + i) * y_step + p, acc[i]);
}

void kernel_kv_score_q8_neon(float *y, int64_t y_step, const struct kv_rows *k,
                             const struct kv_query *q)
{
    struct kv_rows rest = *k;
    int64_t p = 0;

    for (; p + POS <= k->n; p += POS) {
        int64_t r = 0;
        for (; r + 2 <= q->rows; r += 2)
            score_four(y, y_step, k, p, q, r, 2);
        if (r < q->rows)
            score_four(y, y_step, k, p, q, r, 1);
    }
    rest.row += p * k->row_bytes;
    rest.scale += p;
    rest.n -= p;
    kernel_kv_score_q8_c(y + p, y_step, &rest, q);
}

static ALWAYS_INLINE float32x4_t four_halves(const uint8_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

/* The key at `row` for n_r queries from r on: lanes of an element are four registers. */
static ALWAYS_INLINE void score_half(float *y, int64_t y_step, const uint8_t *row,
                                     int64_t dim, const struct kf_mat *q, int64_t r,
                                     int n_r)
{
    float32x4_t acc[2][4];
    const float *x = q->v + r * q->step;
    int64_t i = 0;

    for (int j = 0; j < n_r; j++)
        for (int k = 0; k < 4; k++)
            acc[j][k] = vdupq_n_f32(0.0f);
    for (; i + KF_LANES <= dim; i += KF_LANES)
        for (int k = 0; k < 4; k++) {
            float32x4_t v = four_halves(row + 2 * (i + 4 * k));
            for (int j = 0; j < n_r; j++) {
                float32x4_t w = vld1q_f32(x + j * q->step + i + 4 * k);
                acc[j][k] = vaddq_f32(acc[j][k], vmulq_f32(v, w));
            }
        }
    for (int j = 0; j < n_r; j++) {
        float lanes[KF_LANES] = {0}; /* +0 to the other lanes changes nothing */
        for (int64_t c = i; c < dim; c++)
            lanes[c - i] = f32_from_f16(le_get16(row + 2 * c)) * x[j * q->step + c];
        for (int k = 0; k < 4 && i < dim; k++)
            acc[j][k] = vaddq_f32(acc[j][k], vld1q_f32(lanes + 4 * k));
        y[(r + j) * y_step] = fold_quads(acc[j], 4);
    }
}

void kernel_kv_score_f16_neon(float *y, int64_t y_step, const struct kv_rows *k,
                              const struct kf_mat *q)
{
    for (int64_t p = 0; p < k->n; p++) {
        const uint8_t *row = k->row + p * k->row_bytes;
        int64_t r = 0;
        for (; r + 2 <= q->rows; r += 2)
            score_half(y + p, y_step, row, k->dim, q, r, 2);
        if (r < q->rows)
            score_half(y + p, y_step, row, k->dim, q, r, 1);
    }
}

/* ---- values ---- */

/* Columns i..i + 15 of n_r (1 or 2) rows from r on, all positions. */
static ALWAYS_INLINE void mix_columns(float *out, const float *w, int64_t w_step,
                                      int64_t r, int n_r, const struct kv_rows *v,
                                      int64_t i, bool half)
{
    float32x4_t acc[2][4], x[4];

    for (int j = 0; j < n_r; j++)
        for (int k = 0; k < 4; k++)
            acc[j][k] = vld1q_f32(out + (r + j) * v->dim + i + 4 * k);
    for (int64_t p = 0; p < v->n; p++) {
        const uint8_t *row = v->row + p * v->row_bytes;
        if (half)
            for (int k = 0; k < 4; k++)
                x[k] = four_halves(row + 2 * (i + 4 * k));
        else
            code_floats(x, row + i, scale_at(v, p, i / KV_BLOCK));
        for (int j = 0; j < n_r; j++) {
            float32x4_t by = vdupq_n_f32(w[(r + j) * w_step + p]);
            for (int k = 0; k < 4; k++)
                acc[j][k] = vaddq_f32(acc[j][k], vmulq_f32(by, x[k]));
        }
    }
    for (int j = 0; j < n_r; j++)
        for (int k = 0; k < 4; k++)
            vst1q_f32(out + (r + j) * v->dim + i + 4 * k, acc[j][k]);
}

static ALWAYS_INLINE void mix_all(float *out, const float *w, int64_t w_step,
                                  int64_t rows, const struct kv_rows *v, bool half)
{
    for (int64_t i = 0; i + 16 <= v->dim; i += 16) {
        int64_t r = 0;
        for (; r + 2 <= rows; r += 2)
            mix_columns(out, w, w_step, r, 2, v, i, half);
        if (r < rows)
            mix_columns(out, w, w_step, r, 1, v, i, half);
    }
}

void kernel_kv_mix_q8_neon(float *out, const float *w, int64_t w_step, int64_t rows,
                           const struct kv_rows *v)
{
    mix_all(out, w, w_step, rows, v, false);
}

void kernel_kv_mix_f16_neon(float *out, const float *w, int64_t w_step, int64_t rows,
                            const struct kv_rows *v)
{
    const int64_t left = v->dim / 16 * 16;

    mix_all(out, w, w_step, rows, v, true);
    for (int64_t r = 0; r < rows && left < v->dim; r++)
        for (int64_t p = 0; p < v->n; p++)
            for (int64_t i = left; i < v->dim; i++)
                out[r * v->dim + i] +=
                    w[r * w_step + p] *
                    f32_from_f16(le_get16(v->row + p * v->row_bytes + 2 * i));
}

/*
 * attn_ref.c - cache rows, scores and weighted values. Scalar; defines the bits.
 */
#include "base/reader.h"
#include "kernel/variants.h"
#include "tensor/f16.h"

#include <math.h>

enum { HALF = KV_BLOCK / 2, LANES = KF_LANES };

static const uint32_t INF_BITS = 0x7f800000u;

/* The first value of a block whose magnitude is the largest; NaN is larger than all. */
static float largest(const float *x)
{
    uint32_t max = f32_bits(x[0]) & 0x7fffffffu;
    float v = x[0];

    for (int i = 1; i < KV_BLOCK; i++) {
        uint32_t bits = f32_bits(x[i]) & 0x7fffffffu;
        if (bits > max) {
            max = bits;
            v = x[i];
        }
    }
    return v;
}

/* x * inv to an integer in [low, high]; both within what a float holds exactly. */
static int round_to(float x, float inv, float low, float high)
{
    static const float round = 12582912.0f; /* 1.5 * 2^23 */
    float v = x * inv;

    v = v > high ? high : v;
    v = v < low ? low : v;
    return (int)((v + round) - round);
}

static bool finite_bits(float x)
{
    return (f32_bits(x) & 0x7fffffffu) < INF_BITS;
}

/* 1 / scale, or 0 where there is no such number: codes are then 0. */
static float inverse(float scale)
{
    float inv = 1.0f / scale;

    return finite_bits(scale) && finite_bits(inv) ? inv : 0.0f;
}

void kernel_kv_put_q8_c(uint8_t *code, uint16_t *scale, int64_t scale_step,
                        const float *x, int64_t dim)
{
    for (int64_t b = 0; b < dim / KV_BLOCK; b++, x += KV_BLOCK, code += KV_BLOCK) {
        float most = largest(x);
        bool fine = finite_bits(most);
        uint16_t d = f16_from_f32(fine ? fabsf(most) / 127.0f : NAN);
        float inv = inverse(f32_from_f16(d));
        scale[b * scale_step] = d;
        for (int i = 0; i < KV_BLOCK; i++)
            code[i] = (uint8_t)(fine ? round_to(x[i], inv, -127.0f, 127.0f) : 0);
    }
}

void kernel_kv_put_q4_c(uint8_t *code, uint16_t *scale, int64_t scale_step,
                        const float *x, int64_t dim)
{
    for (int64_t b = 0; b < dim / KV_BLOCK; b++, x += KV_BLOCK, code += HALF) {
        float most = largest(x);
        bool fine = finite_bits(most);
        uint16_t d = f16_from_f32(fine ? most / -8.0f : NAN);
        float inv = inverse(f32_from_f16(d));
        scale[b * scale_step] = d;
        for (int i = 0; i < HALF; i++) {
            int lo = fine ? round_to(x[i], inv, -8.0f, 7.0f) : 0;
            int hi = fine ? round_to(x[i + HALF], inv, -8.0f, 7.0f) : 0;
            code[i] = (uint8_t)((lo + 8) | (hi + 8) << 4);
        }
    }
}

void kernel_kv_query_c(const struct kv_query *q, int64_t r, const float *x)
{
    const float most_code = KV_QUERY_MAX;
    int16_t *code = q->code + r * q->dim;
    float *scale = q->scale + r * (q->dim / KV_BLOCK);

    for (int64_t b = 0; b < q->dim / KV_BLOCK; b++, x += KV_BLOCK, code += KV_BLOCK) {
        float most = largest(x);
        bool fine = finite_bits(most);
        float d = fine ? fabsf(most) / most_code : NAN, inv = inverse(d);
        scale[b] = d;
        for (int i = 0; i < KV_BLOCK; i++)
            code[i] = (int16_t)(fine ? round_to(x[i], inv, -most_code, most_code) : 0);
    }
}

void kernel_kv_widen_q4_c(int8_t *dst, const struct kv_rows *rows)
{
    for (int64_t p = 0; p < rows->n; p++) {
        const uint8_t *src = rows->row + p * rows->row_bytes;
        for (int64_t b = 0; b < rows->dim / KV_BLOCK; b++, src += HALF, dst += KV_BLOCK)
            for (int i = 0; i < HALF; i++) {
                dst[i] = (int8_t)((src[i] & 15) - 8);
                dst[i + HALF] = (int8_t)((src[i] >> 4) - 8);
            }
    }
}

/* Codes are signed bytes in a plain byte array. */
static int code_at(const struct kv_rows *rows, int64_t p, int64_t i)
{
    int v = rows->row[p * rows->row_bytes + i];

    return v < 128 ? v : v - 256;
}

static float scale_at(const struct kv_rows *rows, int64_t p, int64_t b)
{
    return f32_from_f16(rows->scale[b * rows->scale_step + p]);
}

void kernel_kv_get_q8_c(float *dst, const struct kv_rows *rows)
{
    for (int64_t p = 0; p < rows->n; p++)
        for (int64_t i = 0; i < rows->dim; i++)
            *dst++ = scale_at(rows, p, i / KV_BLOCK) * (float)code_at(rows, p, i);
}

void kernel_kv_score_q8_c(float *y, int64_t y_step, const struct kv_rows *k,
                          const struct kv_query *q)
{
    const int64_t n_blocks = q->dim / KV_BLOCK;

    for (int64_t r = 0; r < q->rows; r++) {
        for (int64_t p = 0; p < k->n; p++) {
            float acc = 0.0f;
            for (int64_t b = 0; b < n_blocks; b++) {
                int sum = 0;
                for (int64_t i = b * KV_BLOCK; i < (b + 1) * KV_BLOCK; i++)
                    sum += code_at(k, p, i) * q->code[r * q->dim + i];
                acc += (scale_at(k, p, b) * q->scale[r * n_blocks + b]) * (float)sum;
            }
            y[r * y_step + p] = acc;
        }
    }
}

static float half_at(const struct kv_rows *rows, int64_t p, int64_t i)
{
    return f32_from_f16(le_get16(rows->row + p * rows->row_bytes + 2 * i));
}

void kernel_kv_score_f16_c(float *y, int64_t y_step, const struct kv_rows *k,
                           const struct kf_mat *q)
{
    for (int64_t r = 0; r < q->rows; r++) {
        const float *x = q->v + r * q->step;
        for (int64_t p = 0; p < k->n; p++) {
            float lane[LANES] = {0};
            for (int64_t i = 0; i < k->dim; i++)
                lane[i % LANES] += half_at(k, p, i) * x[i];
            for (int h = LANES / 2; h; h /= 2)
                for (int i = 0; i < h; i++)
                    lane[i] += lane[i + h];
            y[r * y_step + p] = lane[0];
        }
    }
}

void kernel_kv_mix_q8_c(float *out, const float *w, int64_t w_step, int64_t rows,
                        const struct kv_rows *v)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t p = 0; p < v->n; p++)
            for (int64_t i = 0; i < v->dim; i++)
                out[r * v->dim + i] +=
                    w[r * w_step + p] *
                    (scale_at(v, p, i / KV_BLOCK) * (float)code_at(v, p, i));
}

void kernel_kv_mix_f16_c(float *out, const float *w, int64_t w_step, int64_t rows,
                         const struct kv_rows *v)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t p = 0; p < v->n; p++)
            for (int64_t i = 0; i < v->dim; i++)
                out[r * v->dim + i] += w[r * w_step + p] * half_at(v, p, i);
}

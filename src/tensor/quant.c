/*
 * quant.c - picks the codec of a type; plain numbers; checks that all types share.
 */
#include "tensor/log8.h"
#include "tensor/quant_int.h"
#include "tensor/tensor.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* ---- plain numbers ---- */

/* FP8 E4M3 ("fn": no infinity, all ones is NaN): bias 7, three fraction bits. */
static float f32_from_f8_e4m3(uint8_t v)
{
    int exp = v >> 3 & 15, frac = v & 7;
    float mag;

    if (exp == 15 && frac == 7)
        return f32_from_bits(0x7fc00000u | (uint32_t)(v & 0x80) << 24);
    if (exp == 0)
        mag = (float)frac * 0x1p-9f;
    else
        mag = f32_from_bits((uint32_t)(exp + 120) << 23 | (uint32_t)frac << 20);
    return v & 0x80 ? -mag : mag;
}

static float f32_from_f64_bits(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof d);
    return (float)d;
}

/* One number of a plain type at p. */
static float plain_at(enum dtype t, const uint8_t *p)
{
    switch ((int)t) {
    case DT_F32:
        return f32_from_bits(le_get32(p));
    case DT_F16:
        return f32_from_f16(le_get16(p));
    case DT_BF16:
        return f32_from_bf16(le_get16(p));
    case DT_F64:
        return f32_from_f64_bits(le_get64(p));
    case DT_I8:
        return (float)(int8_t)*p;
    case DT_I16:
        return (float)(int16_t)le_get16(p);
    case DT_I32:
        return (float)(int32_t)le_get32(p);
    case DT_I64:
        return (float)(int64_t)le_get64(p);
    case DT_BOOL:
        return *p ? 1.0f : 0.0f;
    case DT_F8_E4M3:
        return f32_from_f8_e4m3(*p);
    case DT_F8_E5M2: /* the upper byte of a half */
        return f32_from_f16((uint16_t)(*p << 8));
    default: /* DT_U8 */
        return (float)*p;
    }
}

static void plain_decode(enum dtype t, float *dst, const uint8_t *src, int64_t n)
{
    int step = dtype_info(t)->bytes;

    switch ((int)t) { /* the three weight types get loops of their own, for speed */
    case DT_F32:
        for (int64_t i = 0; i < n; i++)
            dst[i] = f32_from_bits(le_get32(src + 4 * i));
        break;
    case DT_F16:
        for (int64_t i = 0; i < n; i++)
            dst[i] = f32_from_f16(le_get16(src + 2 * i));
        break;
    case DT_BF16:
        for (int64_t i = 0; i < n; i++)
            dst[i] = f32_from_bf16(le_get16(src + 2 * i));
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            dst[i] = plain_at(t, src + step * i);
    }
}

static void plain_encode(enum dtype t, uint8_t *dst, const float *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (t == DT_F32)
            le_put32(dst + 4 * i, f32_bits(src[i]));
        else if (t == DT_F16)
            le_put16(dst + 2 * i, f16_from_f32(src[i]));
        else
            le_put16(dst + 2 * i, bf16_from_f32(src[i]));
    }
}

/* ---- dispatch ---- */

void quant_decode_row(enum dtype t, float *dst, const void *src, int64_t n)
{
    const struct dtype_info *info = dtype_info(t);
    int64_t n_blocks = n / info->block;

    assert(n >= 0 && n % info->block == 0);
    switch ((int)t) {
    case DT_Q4_0:
        quant_q4_0_decode(dst, src, n_blocks);
        break;
    case DT_Q4_1:
        quant_q4_1_decode(dst, src, n_blocks);
        break;
    case DT_Q5_0:
        quant_q5_0_decode(dst, src, n_blocks);
        break;
    case DT_Q5_1:
        quant_q5_1_decode(dst, src, n_blocks);
        break;
    case DT_Q8_0:
        quant_q8_0_decode(dst, src, n_blocks);
        break;
    case DT_Q2_K:
        quant_q2_k_decode(dst, src, n_blocks);
        break;
    case DT_Q3_K:
        quant_q3_k_decode(dst, src, n_blocks);
        break;
    case DT_Q4_K:
        quant_q4_k_decode(dst, src, n_blocks);
        break;
    case DT_Q5_K:
        quant_q5_k_decode(dst, src, n_blocks);
        break;
    case DT_Q6_K:
        quant_q6_k_decode(dst, src, n_blocks);
        break;
    case DT_B2_Q2:
    case DT_B2_Q3:
        quant_odd_decode(t, dst, src, n_blocks);
        break;
    default:
        if (ternary_has(t))
            ternary_decode(t, dst, src, n_blocks);
        else
            plain_decode(t, dst, src, n);
    }
}

void quant_decode_tensor_row(const struct tensor *t, float *dst, const void *src)
{
    float scale = tensor_scale(t);

    quant_decode_row(t->type, dst, src, t->ne[0]);
    for (int64_t i = 0; scale != 1.0f && i < t->ne[0]; i++)
        dst[i] *= scale;
}

void quant_encode_row(enum dtype t, void *dst, const float *src, int64_t n)
{
    const struct dtype_info *info = dtype_info(t);
    int64_t n_blocks = n / info->block;

    assert(info->flags & DTF_WRITE && n >= 0 && n % info->block == 0);
    switch ((int)t) {
    case DT_Q4_0:
        quant_q4_0_encode(dst, src, n_blocks);
        break;
    case DT_Q4_1:
        quant_q4_1_encode(dst, src, n_blocks);
        break;
    case DT_Q5_0:
        quant_q5_0_encode(dst, src, n_blocks);
        break;
    case DT_Q5_1:
        quant_q5_1_encode(dst, src, n_blocks);
        break;
    case DT_Q8_0:
        quant_q8_0_encode(dst, src, n_blocks);
        break;
    case DT_B2_Q2:
    case DT_B2_Q3:
        quant_odd_encode(t, dst, src, n_blocks);
        break;
    default:
        if (ternary_has(t))
            ternary_encode(t, dst, src, n_blocks);
        else
            plain_encode(t, dst, src, n);
    }
}

/* ---- checks ---- */

enum b2_status quant_check_row(const float *src, int64_t n, int64_t *col,
                               struct b2_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(src[i]))
            continue;
        if (col)
            *col = i;
        return err_set(err, B2_EFORMAT, "column %" PRId64 " is %s", i,
                       isnan(src[i]) ? "NaN" : "infinite");
    }
    return B2_OK;
}

/* The largest magnitude among the scale fields that a group would get. */
static float largest_field(enum dtype t, const float *x, int block)
{
    float min = x[0], max = x[0], sum = 0.0f;

    for (int i = 0; i < block; i++) {
        min = fminf(min, x[i]);
        max = fmaxf(max, x[i]);
        sum += fabsf(x[i]);
    }
    float amax = fmaxf(fabsf(min), fabsf(max));
    switch ((int)t) {
    case DT_Q4_0:
        return amax / 8.0f;
    case DT_Q4_1:
        return fmaxf((max - min) / 15.0f, fabsf(min));
    case DT_Q5_0:
        return amax / 16.0f;
    case DT_Q5_1:
        return fmaxf((max - min) / 31.0f, fabsf(min));
    case DT_Q8_0:
        return amax / 127.0f;
    case DT_B2_Q2:
        return amax / 3.0f;
    case DT_B2_Q3:
        return amax / 7.0f;
    case DT_Q1_0:
        return sum / (float)block;
    default:
        return amax;
    }
}

bool quant_scale_fits(enum dtype t, const float *src, int64_t n, int64_t *col)
{
    int block = dtype_info(t)->block;

    for (int64_t b = 0; block > 1 && b < n / block; b++) {
        /* 65520 is the first value that rounds to infinity. */
        float largest = largest_field(t, src + b * block, block);
        bool fits = dtype_info(t)->flags & DTF_PRIVATE ? isfinite(log8_stored(largest))
                                                       : largest < 65520.0f;
        if (!fits) {
            if (col)
                *col = b * block;
            return false;
        }
    }
    return true;
}

/* Byte offsets of the FP16 fields in a block; -1: none. */
static void scale_fields(enum dtype t, int at[2])
{
    at[0] = 0;
    at[1] = -1;
    switch ((int)t) {
    case DT_I2_S: /* its scale is no part of a block */
        at[0] = -1;
        break;
    case DT_Q4_1:
    case DT_Q5_1:
    case DT_Q4_K:
    case DT_Q5_K:
        at[1] = 2;
        break;
    case DT_Q2_K:
        at[0] = 80;
        at[1] = 82;
        break;
    case DT_Q3_K:
    case DT_Q6_K:
    case DT_TQ1_0:
    case DT_TQ2_0:
    case DT_PTQ1_0: /* the scale ends the block */
        at[0] = dtype_info(t)->bytes - 2;
        break;
    case DT_B2_T64: /* every byte is a finite scale */
    case DT_B2_C128:
    case DT_B2_C64:
    case DT_B2_Q2:
    case DT_B2_Q3:
        at[0] = -1;
        break;
    default:
        break;
    }
}

/* Whether a half is NaN or infinite. */
static bool half_is_special(const uint8_t *p)
{
    return (le_get16(p) & 0x7c00) == 0x7c00;
}

static int64_t verify_plain(enum dtype t, const uint8_t *src, int64_t n,
                            const char **what)
{
    int step = dtype_info(t)->bytes;

    if (!(dtype_info(t)->flags & DTF_FLOAT))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(plain_at(t, src + step * i))) {
            *what = "a NaN or an infinity";
            return i;
        }
    }
    return -1;
}

int64_t quant_verify_row(enum dtype t, const void *src, int64_t n, const char **what)
{
    const struct dtype_info *info = dtype_info(t);
    const uint8_t *p = src;
    const char *ignored;
    int64_t n_blocks = n / info->block, bad_code = -1;
    int at[2];

    what = what ? what : &ignored;
    if (info->block == 1)
        return verify_plain(t, src, n, what);
    if (ternary_has(t))
        bad_code = ternary_verify(t, src, n_blocks, what);
    /* Blocks before a bad code may have a bad scale; the first block of both counts. */
    scale_fields(t, at);
    for (int64_t b = 0; b < (bad_code >= 0 ? bad_code : n_blocks); b++) {
        const uint8_t *block = p + b * info->bytes;
        for (int i = 0; i < 2; i++) {
            if (at[i] >= 0 && half_is_special(block + at[i])) {
                *what = "a scale that is NaN or infinite";
                return b;
            }
        }
    }
    return bad_code;
}

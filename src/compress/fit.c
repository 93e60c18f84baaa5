/*
 * fit.c - least-squares rounding of blocks.
 *
 * Symmetric types (Q4_0, Q5_0, Q8_0) store w = d q. For given codes the best scale is
 * d = sum(w q) / sum(q^2), and the error falls by (sum w q)^2 / sum q^2. The codes are
 * tried for a ladder of scales around the one that maps the largest weight to the end
 * of the code range; the best is refitted. Types with a minimum (Q4_1, Q5_1) store
 * w = d q + m and solve two normal equations instead of one. Then d (and m) are rounded
 * to FP16, codes are chosen for the rounded values, and the reference encoder's block
 * is taken instead where it is closer.
 *
 * Every weight has an importance k that its squared error is multiplied by: 1, or more
 * for large weights (struct fit_how); the sums above then have a factor k in each term.
 *
 * Difference from ggml's make_qx_quants: the last step, which turns "usually better"
 * into "never worse".
 */
#include "compress/fit.h"

#include "base/reader.h"
#include "tensor/f16.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 32, LANES = 8, STEPS = 9, MAX_BLOCK = FIT_MAX_BLOCK, MAX_BYTES = 1024 };

void fit_stat_add(struct fit_stat *sum, const struct fit_stat *part)
{
    sum->err += part->err;
    sum->energy += part->energy;
    sum->n += part->n;
    sum->zeros += part->zeros;
    sum->zero_groups += part->zero_groups;
    sum->underflows += part->underflows;
}

double fit_stat_error(const struct fit_stat *s)
{
    return s->energy > 0.0 ? s->err / s->energy : 0.0;
}

double fit_stat_zero_share(const struct fit_stat *s)
{
    return s->n ? (double)s->zeros / (double)s->n : 0.0;
}

void fit_stat_drop_pad(struct fit_stat *s, enum dtype t, const uint8_t *enc, int64_t n,
                       int64_t pad)
{
    const struct dtype_info *info = dtype_info(t);
    float last[MAX_BLOCK];

    if (pad == 0)
        return;
    quant_decode_row(t, last, enc + (n / info->block - 1) * info->bytes, info->block);
    for (int64_t i = info->block - pad; i < info->block; i++) {
        s->err -= (double)last[i] * (double)last[i];
        s->zeros -= last[i] == 0.0f;
    }
    s->err = s->err > 0.0 ? s->err : 0.0; /* sums in another order */
    s->n -= pad;
}

/* Nearest integer in [lo, hi]. Adding 1.5 * 2^23 rounds to nearest for |v| < 2^22, and
 * vectorises where lrintf would not; the clamp comes first so that it holds. */
static inline float nearest(float v, float lo, float hi)
{
    const float magic = 12582912.0f;

    v = v < lo ? lo : v;
    v = v > hi ? hi : v;
    return (v + magic) - magic;
}

/* Sums over a block in LANES running sums that are added in order, so that the compiler
 * may use vectors without changing a bit. */
struct sums {
    float q, qq, xq;
};

static struct sums code_sums(const float *x, float inv, float shift, float lo, float hi)
{
    float q1[LANES] = {0}, q2[LANES] = {0}, xq[LANES] = {0};
    struct sums s = {0};

    for (int i = 0; i < BLOCK; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            float q = nearest(inv * (x[i + l] - shift), lo, hi);
            q1[l] += q;
            q2[l] += q * q;
            xq[l] += x[i + l] * q;
        }
    }
    for (int l = 0; l < LANES; l++) {
        s.q += q1[l];
        s.qq += q2[l];
        s.xq += xq[l];
    }
    return s;
}

static float to_f16_and_back(float v)
{
    return f32_from_f16(f16_from_f32(v));
}

/* The same for w = d q, with importances. */
static struct sums weighted_sums(const float *x, const float *imp, float inv, float lo,
                                 float hi)
{
    float q2[LANES] = {0}, xq[LANES] = {0};
    struct sums s = {0};

    for (int i = 0; i < BLOCK; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            float q = nearest(inv * x[i + l], lo, hi), kq = imp[i + l] * q;
            q2[l] += kq * q;
            xq[l] += kq * x[i + l];
        }
    }
    for (int l = 0; l < LANES; l++) {
        s.qq += q2[l];
        s.xq += xq[l];
    }
    return s;
}

/* The scale of a symmetric block, FP16 exact. lo is the end of the range that has one
 * code more (-8 of -8..7). */
static float fit_scale(const float *x, const float *imp, float lo, float hi)
{
    float amax = 0.0f, max = 0.0f, best = 0.0f, scale = 0.0f;

    for (int i = 0; i < BLOCK; i++) {
        if (fabsf(x[i]) > amax) {
            amax = fabsf(x[i]);
            max = x[i];
        }
    }
    if (amax < 1e-30f)
        return 0.0f;
    for (int step = -STEPS; step <= STEPS; step++) {
        float inv = (lo + (float)step * (lo < -100.0f ? 0.5f : 0.1f)) / max;
        struct sums s = weighted_sums(x, imp, inv, lo, hi);
        if (s.qq > 0.0f && s.xq * s.xq > best * s.qq) {
            best = s.xq * s.xq / s.qq;
            scale = s.xq / s.qq;
        }
    }
    return to_f16_and_back(scale);
}

/* Scale and minimum of a block with both, FP16 exact. hi is the largest code. */
static void fit_scale_min(const float *x, float hi, float *scale, float *min)
{
    float lo_x = x[0], hi_x = x[0], sum_x = 0.0f, best = -1.0f;

    for (int i = 0; i < BLOCK; i++) {
        lo_x = x[i] < lo_x ? x[i] : lo_x;
        hi_x = x[i] > hi_x ? x[i] : hi_x;
        sum_x += x[i];
    }
    *scale = 0.0f;
    *min = to_f16_and_back(lo_x);
    if (hi_x - lo_x < 1e-30f)
        return;
    for (int step = -STEPS; step <= STEPS; step++) {
        float inv = (hi + 0.1f * (float)step) / (hi_x - lo_x);
        struct sums s = code_sums(x, inv, lo_x, 0.0f, hi);
        float det = (float)BLOCK * s.qq - s.q * s.q;
        if (!(det > 0.0f))
            continue;
        float d = ((float)BLOCK * s.xq - sum_x * s.q) / det;
        float m = (s.qq * sum_x - s.q * s.xq) / det;
        float gain = d * s.xq + m * sum_x; /* energy minus error */
        if (gain > best) {
            best = gain;
            *scale = to_f16_and_back(d);
            *min = to_f16_and_back(m);
        }
    }
}

/* Codes of a block for w = d q + m, q in [lo, hi], as unsigned numbers from 0. */
static void choose_codes(uint8_t *q, const float *x, float d, float m, float lo,
                         float hi)
{
    float inv = d != 0.0f ? 1.0f / d : 0.0f;

    if (!isfinite(inv))
        inv = 0.0f;
    for (int i = 0; i < BLOCK; i++)
        q[i] = (uint8_t)(nearest(inv * (x[i] - m), lo, hi) - lo);
}

/* Four-bit halves: byte j holds codes j (low) and j + 16 (high). */
static void put_nibbles(uint8_t *dst, const uint8_t *q)
{
    for (int j = 0; j < BLOCK / 2; j++)
        dst[j] = (uint8_t)((q[j] & 15) | (q[j + BLOCK / 2] & 15) << 4);
}

/* The fifth bits, bit j of a 32-bit word for code j. */
static void put_fifth_bits(uint8_t *dst, const uint8_t *q)
{
    uint32_t bits = 0;

    for (int j = 0; j < BLOCK; j++)
        bits |= (uint32_t)(q[j] >> 4 & 1) << j;
    le_put32(dst, bits);
}

/* A fitted block of one of the five types (FORMATS: the ggml layouts). */
static void fit_block(enum dtype t, uint8_t *dst, const float *x, const float *imp)
{
    uint8_t q[BLOCK];
    float d, m = 0.0f;

    if (t == DT_Q8_0) {
        d = fit_scale(x, imp, -127.0f, 127.0f);
        choose_codes(q, x, d, 0.0f, -127.0f, 127.0f);
        le_put16(dst, f16_from_f32(d));
        for (int i = 0; i < BLOCK; i++)
            dst[2 + i] = (uint8_t)(q[i] - 127);
        return;
    }
    bool five = t == DT_Q5_0 || t == DT_Q5_1;
    bool has_min = t == DT_Q4_1 || t == DT_Q5_1;
    float levels = five ? 32.0f : 16.0f;
    if (has_min) {
        fit_scale_min(x, levels - 1.0f, &d, &m);
        choose_codes(q, x, d, m, 0.0f, levels - 1.0f);
    } else {
        d = fit_scale(x, imp, -levels / 2.0f, levels / 2.0f - 1.0f);
        choose_codes(q, x, d, 0.0f, -levels / 2.0f, levels / 2.0f - 1.0f);
    }
    le_put16(dst, f16_from_f32(d));
    dst += 2;
    if (has_min) {
        le_put16(dst, f16_from_f32(m));
        dst += 2;
    }
    if (five) {
        put_fifth_bits(dst, q);
        dst += 4;
    }
    put_nibbles(dst, q);
}

/* Importances of a block's weights: 1, or what favours large ones, scaled by the largest
 * square so that tiny weights do not vanish in it. */
static void set_importance(float *imp, const float *x, bool favour_large)
{
    float max = 0.0f, sum = 0.0f;

    for (int i = 0; i < BLOCK; i++) {
        imp[i] = 1.0f;
        max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    }
    if (!favour_large || max < 1e-30f)
        return;
    for (int i = 0; i < BLOCK; i++) {
        imp[i] = x[i] / max * (x[i] / max);
        sum += imp[i];
    }
    for (int i = 0; i < BLOCK; i++)
        imp[i] += sum / BLOCK;
}

/* Squared error of a block's weights by their importance; infinite when a decoded value
 * is not finite. */
static double decoded_error(enum dtype t, const uint8_t *enc, const float *x,
                            const float *imp, float *decoded)
{
    double err = 0.0;

    quant_decode_row(t, decoded, enc, BLOCK);
    for (int i = 0; i < BLOCK; i++) {
        double e = (double)x[i] - (double)decoded[i];
        err += (double)imp[i] * e * e;
    }
    return isfinite(err) ? err : (double)INFINITY;
}

static bool is_fitted(enum dtype t)
{
    return t == DT_Q4_0 || t == DT_Q4_1 || t == DT_Q5_0 || t == DT_Q5_1 || t == DT_Q8_0;
}

/* Whether a scale of the block (or its minimum) leaves FP16. The reference encoders cut
 * such a scale to the largest half, which gives weights that are finite and wrong. */
static bool beyond_f16(enum dtype t, const float *x, int n)
{
    const float max = 65504.0f;
    float lo = x[0], hi = x[0];

    for (int i = 1; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    float amax = -lo > hi ? -lo : hi;
    switch (t) {
    case DT_Q4_0:
        return amax / 8.0f > max;
    case DT_Q5_0:
        return amax / 16.0f > max;
    case DT_Q8_0:
        return amax / 127.0f > max;
    case DT_Q4_1:
        return fabsf(lo) > max || (hi - lo) / 15.0f > max;
    case DT_Q5_1:
        return fabsf(lo) > max || (hi - lo) / 31.0f > max;
    case DT_B2_Q2:
    case DT_B2_Q3:
        return !quant_scale_fits(t, x, n, NULL);
    case DT_F32:
    case DT_BF16:
        return false;
    default: /* F16 values, and types with a scale near the weights in size */
        return amax > max;
    }
}

/* Takes the fitted block instead of the reference encoder's in dst if it is closer. */
static void improve_block(enum dtype t, uint8_t *dst, const float *x,
                          const struct fit_how *how, float *decoded)
{
    bool has_min = t == DT_Q4_1 || t == DT_Q5_1;
    uint8_t fitted[MAX_BYTES];
    float imp[BLOCK], other[BLOCK];

    set_importance(imp, x, how->favour_large && !has_min);
    double err = decoded_error(t, dst, x, imp, decoded);
    if (!(err > 0.0))
        return;
    fit_block(t, fitted, x, imp);
    if (decoded_error(t, fitted, x, imp, other) < err) {
        memcpy(dst, fitted, (size_t)dtype_info(t)->bytes);
        memcpy(decoded, other, sizeof other);
    }
}

/* Encodes one block and leaves its values in decoded. False: beyond FP16. */
static bool encode_block(enum dtype t, uint8_t *dst, const float *x, int n,
                         const struct fit_how *how, float *decoded)
{
    if (dtype_info(t)->flags & DTF_TERNARY) {
        int8_t codes[MAX_BLOCK];
        float scale;
        if (!ternarise_group_as(t, codes, &scale, x, n, how->rule))
            return false;
        quant_ternary_join(t, dst, codes, &scale, n);
        quant_decode_row(t, decoded, dst, n);
        return true;
    }
    if (beyond_f16(t, x, n))
        return false;
    quant_encode_row(t, dst, x, n);
    if (is_fitted(t))
        improve_block(t, dst, x, how, decoded);
    else
        quant_decode_row(t, decoded, dst, n);
    return true;
}

enum b2_status fit_row(enum dtype t, void *dst, const float *src, int64_t n,
                       const struct fit_how *how, struct fit_stat *stat,
                       struct b2_err *err)
{
    const struct dtype_info *info = dtype_info(t);
    bool ternary = (info->flags & DTF_TERNARY) != 0;
    int64_t block = info->block; /* weights */
    int64_t step = block <= 1 ? MAX_BLOCK : block;
    uint8_t *out = dst;
    float decoded[MAX_BLOCK];

    *stat = (struct fit_stat){.n = n};
    for (int64_t at = 0; at < n; at += step) {
        int len = (int)min_i64(step, n - at);
        const float *x = src + at;
        if (!encode_block(t, out, x, len, how, decoded))
            return err_set(err, B2_EUNSUP,
                           "columns %lld to %lld: the scale is beyond the FP16 range "
                           "(65504) of %s",
                           (long long)at, (long long)(at + len - 1), info->name);
        int zeros = 0;
        double energy = 0.0;
        for (int i = 0; i < len; i++) {
            double e = (double)x[i] - (double)decoded[i];
            stat->err += e * e;
            energy += (double)x[i] * (double)x[i];
            zeros += decoded[i] == 0.0f;
        }
        stat->energy += energy;
        stat->zeros += zeros;
        if (ternary && zeros == len) {
            stat->zero_groups++;
            stat->underflows += energy > 0.0;
        }
        out += (block <= 1 ? len : 1) * (int64_t)info->bytes;
    }
    return B2_OK;
}

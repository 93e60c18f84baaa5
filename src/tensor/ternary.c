/*
 * ternary.c - the block layouts of few-valued weights: TQ1_0, TQ2_0, Q1_0, Q2_0 (both),
 * PQ2_0, PTQ1_0, I2_S (FORMATS.md 1.2 to 1.4), and ours (format/private.h).
 *
 * A block is one scale d (FP16; in our types one logarithmic byte) and runs of bytes that
 * hold several digits each; a weight is (digit - 1) * d, for the binary type
 * (2 * digit - 1) * d. Three radices, and words:
 *
 *   2  bit n of the byte is digit n
 *   4  bits 2n and 2n + 1 are digit n (a fourth code, 3, exists and decodes to +2)
 *   3  the digits x_0 x_1 … of a five-digit number V, most significant first, stored as
 *      byte = ceil(256 V / 243), the fraction V / 243 in 8 bits. Digit n comes back
 *      without division: w = byte * 3^n mod 256, x = 3 w >> 8.
 *   64 four codes in six bits: tensor/quad.h
 *
 * I2_S has no scale in its blocks. Three packings of it are about under one id, and
 * nothing in a file tells them apart; read is that of the published BitNet files (128
 * weights in 32 bytes), not the one of ARM quantisers (64 in 16) nor the interleaving of
 * four rows of newer x86 builds.
 *
 * The layouts differ only in where digit n of byte m goes, which one table says.
 */
#include "tensor/log8.h"
#include "tensor/quad.h"
#include "tensor/quant_int.h"

#include <assert.h>
#include <string.h>

enum { MAX_BLOCK = 256, MAX_SPANS = 3, NO_SCALE = -1, WORDS = 64 };

/* Bytes [at, at + n_bytes) of a block; digit n of byte m is weight
 * first + m * byte_step + n * digit_step. */
struct span {
    int at, n_bytes, digits;
    int first, byte_step, digit_step;
};

struct layout {
    int radix;
    int scale_at;   /* NO_SCALE: lies elsewhere, taken as 1 */
    bool log_scale; /* one byte, see log8.h; else FP16 */
    int n_spans;
    struct span span[MAX_SPANS];
};

static const struct layout tq1_0 = {
    3,
    52,
    false,
    3,
    {{0, 32, 5, 0, 1, 32}, {32, 16, 5, 160, 1, 16}, {48, 4, 4, 240, 1, 4}}};
static const struct layout tq2_0 = {
    4, 64, false, 2, {{0, 32, 4, 0, 1, 32}, {32, 32, 4, 128, 1, 32}}};
static const struct layout q1_0 = {2, 0, false, 1, {{2, 16, 8, 0, 8, 1}}};
static const struct layout q2_0 = {4, 0, false, 1, {{2, 16, 4, 0, 4, 1}}};
static const struct layout pq2_0 = {4, 0, false, 1, {{2, 32, 4, 0, 4, 1}}};
static const struct layout ptq1_0 = {
    3,
    26,
    false,
    3,
    {{0, 16, 5, 0, 1, 16}, {16, 8, 5, 80, 1, 8}, {24, 2, 4, 120, 1, 2}}};

static const struct layout b2_t64 = {
    3, 13, true, 2, {{0, 12, 5, 0, 1, 12}, {12, 1, 4, 60, 1, 1}}};

/* The bytes are those of all words; where they lie is quad.h's. */
static const struct layout b2_c128 = {WORDS, 24, true, 1, {{.n_bytes = 24}}};
static const struct layout b2_c64 = {WORDS, 12, true, 1, {{.n_bytes = 12}}};

static const struct layout i2_s = {4, NO_SCALE, false, 1, {{0, 32, 4, 96, 1, -32}}};

static const struct layout *find_layout(enum dtype t)
{
    switch ((int)t) {
    case DT_TQ1_0:
        return &tq1_0;
    case DT_TQ2_0:
        return &tq2_0;
    case DT_Q1_0:
        return &q1_0;
    case DT_Q2_0:
        return &q2_0;
    case DT_Q2_0_G128: /* the same bytes under another id */
    case DT_PQ2_0:
        return &pq2_0;
    case DT_PTQ1_0:
        return &ptq1_0;
    case DT_I2_S:
        return &i2_s;
    case DT_B2_T64:
        return &b2_t64;
    case DT_B2_C128:
        return &b2_c128;
    case DT_B2_C64:
        return &b2_c64;
    default:
        return NULL;
    }
}

bool ternary_has(enum dtype t)
{
    return find_layout(t) != NULL;
}

/* ---- scales ---- */

uint8_t log8_from_f32(float d)
{
    int low = 1, high = 255;

    if (!(d > 0x1p-25f)) /* halfway between zero and the smallest */
        return 0;
    while (low < high) {
        int mid = (low + high) / 2;
        float next = f32_from_log8((uint8_t)(mid + 1));
        if (d >= 0.5f * (f32_from_log8((uint8_t)mid) + next))
            low = mid + 1;
        else
            high = mid;
    }
    return (uint8_t)low;
}

static float get_scale(const uint8_t *block, const struct layout *l)
{
    const uint8_t *p = block + l->scale_at;

    if (l->scale_at == NO_SCALE)
        return 1.0f;
    return l->log_scale ? f32_from_log8(*p) : quant_get_f16(p);
}

static void put_scale(uint8_t *block, const struct layout *l, float d)
{
    uint8_t *p = block + l->scale_at;

    if (l->log_scale)
        *p = log8_from_f32(d);
    else
        le_put16(p, quant_scale_bits(d));
}

float quant_ternary_scale(enum dtype t, float d)
{
    const struct layout *l = find_layout(t);

    assert(l);
    if (!l->log_scale)
        return f32_from_f16(f16_from_f32(d)); /* infinite beyond */
    return log8_stored(d);
}

/* ---- digits of one block ---- */

static void unpack_base3(int8_t *code, const uint8_t *p, const struct span *s)
{
    unsigned pow3 = 1;

    for (int n = 0; n < s->digits; n++, pow3 *= 3) {
        int8_t *out = code + s->first + n * s->digit_step;
        for (int m = 0; m < s->n_bytes; m++) {
            unsigned w = p[m] * pow3 & 255;
            out[m] = (int8_t)((int)(3 * w >> 8) - 1);
        }
    }
}

static void unpack_bits(int8_t *code, const uint8_t *p, const struct span *s, int radix)
{
    int width = radix == 4 ? 2 : 1, scale = radix == 4 ? 1 : 2;

    for (int m = 0; m < s->n_bytes; m++) {
        int8_t *out = code + s->first + m * s->byte_step;
        for (int n = 0; n < s->digits; n++) {
            int digit = p[m] >> width * n & (radix - 1);
            out[n * s->digit_step] = (int8_t)(scale * digit - 1);
        }
    }
}

/* Codes -1, 0, +1 (and +2 in radix 4) of one block, in weight order. */
static void unpack(int8_t *code, const uint8_t *block, const struct layout *l)
{
    for (int i = 0; i < l->n_spans; i++) {
        const struct span *s = &l->span[i];
        if (l->radix == WORDS)
            quad_unpack(code, block, s->n_bytes * 4 / 3);
        else if (l->radix == 3)
            unpack_base3(code, block + s->at, s);
        else
            unpack_bits(code, block + s->at, s, l->radix);
    }
}

/* Missing digits of a base-3 byte count as 0 at the least significant end. */
static uint8_t pack_base3(const int8_t *code, const struct span *s)
{
    unsigned v = 0;

    for (int n = 0; n < 5; n++)
        v = 3 * v + (n < s->digits ? (unsigned)(code[n * s->digit_step] + 1) : 0);
    return (uint8_t)((256 * v + 242) / 243);
}

static uint8_t pack_bits(const int8_t *code, const struct span *s, int radix)
{
    unsigned byte = 0;

    for (int n = 0; n < s->digits; n++) {
        const int8_t *c = &code[n * s->digit_step];
        byte |= radix == 4 ? (unsigned)(*c + 1) << 2 * n : (unsigned)(*c > 0) << n;
    }
    return (uint8_t)byte;
}

static void pack(uint8_t *block, const int8_t *code, const struct layout *l)
{
    if (l->radix == WORDS) {
        quad_pack(block, code, l->span[0].n_bytes * 4 / 3);
        return;
    }
    for (int i = 0; i < l->n_spans; i++) {
        const struct span *s = &l->span[i];
        for (int m = 0; m < s->n_bytes; m++) {
            const int8_t *c = code + s->first + m * s->byte_step;
            block[s->at + m] =
                l->radix == 3 ? pack_base3(c, s) : pack_bits(c, s, l->radix);
        }
    }
}

/* ---- rows ---- */

void ternary_decode(enum dtype t, float *dst, const uint8_t *src, int64_t n_blocks)
{
    const struct layout *l = find_layout(t);
    const struct dtype_info *info = dtype_info(t);
    int8_t code[MAX_BLOCK];

    for (int64_t b = 0; b < n_blocks; b++, src += info->bytes, dst += info->block) {
        float d = get_scale(src, l);
        unpack(code, src, l);
        for (int i = 0; i < info->block; i++)
            dst[i] = (float)code[i] * d;
    }
}

/* d = max |x| and code = round(x / d), half away from zero. */
static float round_ternary(int8_t *code, const float *x, int n)
{
    float d = 0.0f;

    for (int i = 0; i < n; i++)
        d = fabsf(x[i]) > d ? fabsf(x[i]) : d;
    float id = quant_inverse(d);
    for (int i = 0; i < n; i++)
        code[i] = (int8_t)roundf(x[i] * id);
    return d;
}

/* d = mean |x|, summed in order, and code = the sign (zero counts as plus). */
static float round_binary(int8_t *code, const float *x, int n)
{
    float sum = 0.0f;

    for (int i = 0; i < n; i++) {
        sum += fabsf(x[i]);
        code[i] = x[i] >= 0.0f ? 1 : -1;
    }
    return sum / (float)n;
}

void ternary_encode(enum dtype t, uint8_t *dst, const float *src, int64_t n_blocks)
{
    const struct layout *l = find_layout(t);
    const struct dtype_info *info = dtype_info(t);
    int8_t code[MAX_BLOCK];

    for (int64_t b = 0; b < n_blocks; b++, dst += info->bytes, src += info->block) {
        float d = l->radix == 2 ? round_binary(code, src, info->block)
                                : round_ternary(code, src, info->block);
        if (l->radix == WORDS)
            quad_drop_smallest(code, src, info->block);
        put_scale(dst, l, d);
        pack(dst, code, l);
    }
}

void quant_ternary_split(enum dtype t, int8_t *codes, float *scales, const void *src,
                         int64_t n)
{
    const struct layout *l = find_layout(t);
    const struct dtype_info *info = dtype_info(t);
    const uint8_t *p = src;

    assert(l && n % info->block == 0);
    for (int64_t b = 0; b < n / info->block; b++, p += info->bytes) {
        scales[b] = get_scale(p, l);
        unpack(codes + b * info->block, p, l);
    }
}

void quant_ternary_join(enum dtype t, void *dst, const int8_t *codes,
                        const float *scales, int64_t n)
{
    const struct layout *l = find_layout(t);
    const struct dtype_info *info = dtype_info(t);
    uint8_t *p = dst;

    assert(l && n % info->block == 0);
    for (int64_t b = 0; b < n / info->block; b++, p += info->bytes) {
        put_scale(p, l, scales[b]);
        pack(p, codes + b * info->block, l);
    }
}

/* ---- what no encoder writes ---- */

/* Whether the byte is ceil(256 V / 243) of a number whose missing digits are 0. */
static bool is_base3(unsigned byte, int digits)
{
    unsigned v = byte * 243 >> 8;

    return (256 * v + 242) / 243 == byte && (digits == 5 || v % 3 == 0);
}

static bool has_code_3(unsigned byte)
{
    return (byte & byte >> 1 & 0x55) != 0;
}

static bool block_ok(const uint8_t *block, const struct layout *l, const char **what)
{
    for (int i = 0; i < l->n_spans; i++) {
        const struct span *s = &l->span[i];
        for (int m = 0; m < s->n_bytes; m++) {
            unsigned byte = block[s->at + m];
            if (l->radix == 3 && !is_base3(byte, s->digits)) {
                *what = "a byte that no base-3 code gives";
                return false;
            }
            if (l->radix == 4 && has_code_3(byte)) {
                *what = "code 3, which decodes to twice the scale";
                return false;
            }
        }
    }
    return true;
}

int64_t ternary_verify(enum dtype t, const uint8_t *src, int64_t n_blocks,
                       const char **what)
{
    const struct layout *l = find_layout(t);

    for (int64_t b = 0; b < n_blocks; b++, src += dtype_info(t)->bytes) {
        if (!block_ok(src, l, what))
            return b;
    }
    return -1;
}

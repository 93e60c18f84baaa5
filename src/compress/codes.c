/*
 * codes.c - the block layouts of tensor/quant_basic.c, from codes and scales.
 */
#include "compress/codes.h"

#include "base/reader.h"
#include "compress/words.h"
#include "tensor/f16.h"
#include "tensor/log8.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

enum { MAX_BLOCK_BYTES = 80 };

static bool is_odd(enum dtype t)
{
    return (dtype_info(t)->flags & DTF_ODD) != 0;
}

bool codes_of(struct codes *out, enum dtype t)
{
    static const struct {
        enum dtype type;
        int lo, hi;
        bool has_min;
    } table[] = {
        {DT_Q4_0, -8, 7, false},     {DT_Q4_1, 0, 15, true}, {DT_Q5_0, -16, 15, false},
        {DT_Q8_0, -127, 127, false}, {DT_Q5_1, 0, 31, true}, {DT_B2_Q2, -3, 3, false},
        {DT_B2_Q3, -7, 7, false},
    };
    const struct dtype_info *info = dtype_info(t);

    if (info->flags & DTF_TERNARY) {
        *out = (struct codes){t, info->block, -1,   1,
                              1, false,       true, info->flags & DTF_QUADS ? QUAD : 1};
        return (info->flags & DTF_WRITE) != 0;
    }
    for (size_t i = 0; i < countof(table); i++) {
        if (table[i].type == t) {
            *out = (struct codes){t,
                                  info->block,
                                  table[i].lo,
                                  table[i].hi,
                                  is_odd(t) ? 2 : 1,
                                  table[i].has_min,
                                  false,
                                  1};
            return true;
        }
    }
    return false;
}

bool codes_fit(const struct codes *c, float *scale, float *min, const float *w,
               enum ternarise_rule rule)
{
    uint8_t block[MAX_BLOCK_BYTES];
    int8_t unused[TERNARISE_MAX_GROUP];
    const struct fit_how how = {.rule = rule};
    struct fit_stat stat;

    *min = 0.0f;
    if (c->ternary)
        return ternarise_group_as(c->type, unused, scale, w, c->group, rule);
    if (fit_row(c->type, block, w, c->group, &how, &stat, NULL))
        return false;
    *scale = is_odd(c->type) ? f32_from_log8(block[dtype_info(c->type)->bytes - 1])
                             : f32_from_f16(le_get16(block));
    if (c->has_min)
        *min = f32_from_f16(le_get16(block + 2));
    return true;
}

float codes_scale(const struct codes *c, float want, float old)
{
    float s;

    if (c->ternary)
        s = want > 0.0f ? quant_ternary_scale(c->type, want) : 0.0f;
    else if (is_odd(c->type))
        s = want > 0.0f ? log8_stored(want) : 0.0f;
    else
        s = f32_from_f16(f16_from_f32(want));
    return isfinite(s) && s * old > 0.0f ? s : 0.0f;
}

void codes_project(const struct codes *c, int8_t *code, const float *t,
                   const float *imp, int64_t n)
{
    if (c->unit == QUAD) {
        words_project(code, t, imp, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) /* each on its own: imp has no say */
        code[i] = (int8_t)codes_nearest(c, t[i], 1.0f, 0.0f);
}

/* Two codes of four bits in a byte, the fifth bits apart. */
static void join_nibbles(uint8_t *dst, uint32_t *high, const int8_t *code, int off)
{
    *high = 0;
    for (int j = 0; j < 16; j++) {
        unsigned a = (unsigned)(code[j] + off), b = (unsigned)(code[16 + j] + off);
        dst[j] = (uint8_t)((a & 15) | (b & 15) << 4);
        *high |= (a >> 4 & 1) << j | (b >> 4 & 1) << (j + 16);
    }
}

void codes_join(const struct codes *c, uint8_t *dst, const int8_t *code, float scale,
                float min)
{
    uint8_t *p = dst + (c->has_min ? 4 : 2);
    uint32_t high;

    if (c->ternary) {
        quant_ternary_join(c->type, dst, code, &scale, c->group);
        return;
    }
    if (is_odd(c->type)) {
        quant_odd_join(c->type, dst, code, scale);
        return;
    }
    le_put16(dst, f16_from_f32(scale));
    if (c->has_min)
        le_put16(dst + 2, f16_from_f32(min));
    if (c->type == DT_Q8_0) {
        memcpy(p, code, (size_t)c->group);
    } else if (c->type == DT_Q4_0 || c->type == DT_Q4_1) {
        join_nibbles(p, &high, code, -c->lo);
    } else {
        join_nibbles(p + 4, &high, code, -c->lo);
        le_put32(p, high);
    }
}

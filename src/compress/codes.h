/*
 * codes.h - a group of weights as a scale, a minimum and small integers, for every type
 * that error compensation can make.
 *
 *   value = scale * code + min     lo <= code <= hi, odd codes alone where step is 2
 *
 * Scales and minima are those that the type stores, so that what is computed with them
 * is what a reader decodes.
 */
#ifndef COMPRESS_CODES_H
#define COMPRESS_CODES_H

#include "compress/fit.h"

struct codes {
    enum dtype type;
    int group;  /* weights that share a scale: the type's block */
    int lo, hi; /* of the codes */
    int step;   /* between codes: 1, or 2 */
    bool has_min;
    bool ternary;
    int unit; /* columns whose codes are chosen together: 1, or QUAD where they make words */
};

/* False: the type has no such form (plain floats, K types, Q1_0). */
bool codes_of(struct codes *out, enum dtype t);

/* The scale and minimum of fitted rounding (fit.h) for w [group]. False: beyond the type. */
bool codes_fit(const struct codes *c, float *scale, float *min, const float *w,
               enum ternarise_rule rule);

/* A wanted scale as the type stores it; 0 when it cannot take the place of old: another
 * sign, no number, beyond the type. */
float codes_scale(const struct codes *c, float want, float old);

/* The code nearest to w; inv = 1 / scale, or 0 for a scale of 0. */
static inline int codes_nearest(const struct codes *c, float w, float inv, float min)
{
    float t = (w - min) * inv;

    t = t < (float)c->lo ? (float)c->lo : t > (float)c->hi ? (float)c->hi : t;
    if (c->step == 2)
        return c->lo + 2 * (int)((t - (float)c->lo) * 0.5f + 0.5f);
    return (int)(t + (t < 0.0f ? -0.5f : 0.5f));
}

/* Codes [n] of columns side by side, n a multiple of the unit: the nearest that the type
 * can say to t, in units of the scale, in the sum of imp (t - code)^2; imp >= 0, or NULL:
 * all 1. The same for any type; a trainer projects with it at every step. */
void codes_project(const struct codes *c, int8_t *code, const float *t,
                   const float *imp, int64_t n);

/* Writes one block from code [group]. */
void codes_join(const struct codes *c, uint8_t *dst, const int8_t *code, float scale,
                float min);

#endif

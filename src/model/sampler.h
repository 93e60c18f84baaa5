/*
 * sampler.h - from logits to the next token.
 *
 * Order: penalties, then greedy when temperature is 0; else temperature, top-k, top-p,
 * min-p, draw. Ties go to the smaller id. NaN logits are an error, never sampled.
 * A pick allocates nothing. One seed gives one sequence of draws. Not thread-safe.
 */
#ifndef MODEL_SAMPLER_H
#define MODEL_SAMPLER_H

#include "base/error.h"

struct sampler_params {
    float temperature;       /* 0: greedy */
    int64_t top_k;           /* 0: off */
    float top_p;             /* 1: off */
    float min_p;             /* 0: off */
    float repeat_penalty;    /* 1: off; divides positive, multiplies negative logits */
    float presence_penalty;  /* 0: off */
    float frequency_penalty; /* 0: off */
    int64_t penalty_last_n;  /* tokens looked back; 0: none, -1: all */
    uint64_t seed;
};

#define SAMPLER_PARAMS_GREEDY                                                          \
    ((struct sampler_params){                                                          \
        .top_p = 1.0f, .repeat_penalty = 1.0f, .penalty_last_n = 64})

struct sampler;

/* B2_EARG: a number out of its range (named). vocab: length of the logits. */
enum b2_status sampler_new(struct sampler **out, const struct sampler_params *p,
                           int64_t vocab, struct b2_err *err) NODISCARD;
void sampler_free(struct sampler *s);               /* NULL is fine */
void sampler_accept(struct sampler *s, int32_t id); /* for the penalties */
void sampler_reset(struct sampler *s); /* forgets tokens, restarts the seed */

/* logits [V], read only. B2_EFORMAT: a NaN or +infinity (index in the message), or no
 * finite logit at all. Does not accept the id: the caller does. */
enum b2_status sampler_pick(struct sampler *s, const float *logits, int32_t *id,
                            struct b2_err *err) NODISCARD;

#endif

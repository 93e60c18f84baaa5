/*
 * rope.c - the angles of rotary positions, with every kind of stretching.
 *
 *   plain    freq_i = base^(-2i/n_rot) / factors_i
 *   linear   freq_i / factor
 *   YaRN     freq_i * (ramp_i + (1 - ramp_i) / factor), where ramp_i falls from 1 to 0
 *            between the pairs that turn beta_fast and beta_slow times over the original
 *            context; cos and sin are multiplied by 1 + 0.1 ln(factor)
 *            (arXiv:2309.00071, sections 3.2 and 3.4)
 *
 * The stretching of Llama 3.1 comes as the factors of the first line. The order of
 * operations follows llama.cpp, so that F32 results agree closely.
 */
#include "model/rope.h"

#include <math.h>

static const float two_pi = 6.28318530717958647692f;

/* The pair, as a real number, that turns n_turns times over orig_ctx positions. */
static float pair_of_turns(const struct hparams *hp, float n_turns)
{
    return (float)hp->n_rot * logf(hp->rope_orig_ctx / (n_turns * two_pi)) /
           (2.0f * logf(hp->rope_base));
}

/* 1 where the pair keeps its frequency, 0 where it is interpolated. */
static float yarn_ramp(const struct hparams *hp, int64_t pair)
{
    float low = fmaxf(0.0f, floorf(pair_of_turns(hp, hp->yarn_beta_fast)));
    float high =
        fminf((float)hp->n_rot - 1.0f, ceilf(pair_of_turns(hp, hp->yarn_beta_slow)));
    float y = ((float)pair - low) / fmaxf(0.001f, high - low);

    return 1.0f - fminf(1.0f, fmaxf(0.0f, y));
}

void rope_angles(const struct hparams *hp, const float *factors, float *freq,
                 float *mscale)
{
    float step = powf(hp->rope_base, -2.0f / (float)hp->n_rot), plain = 1.0f;
    bool yarn = hp->rope_scaling == ROPE_SCALE_YARN;

    for (int64_t i = 0; i < hp->n_rot / 2; i++, plain *= step) {
        float f = factors ? plain / factors[i] : plain;
        if (hp->rope_scaling == ROPE_SCALE_LINEAR) {
            f /= hp->rope_factor;
        } else if (yarn) {
            float keep = yarn_ramp(hp, i) * hp->yarn_ext;
            f = f / hp->rope_factor * (1.0f - keep) + f * keep;
        }
        freq[i] = f;
    }
    *mscale = hp->rope_attn_factor;
    if (yarn && hp->yarn_ext != 0.0f)
        *mscale *= 1.0f + 0.1f * logf(hp->rope_factor);
}

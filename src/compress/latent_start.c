/*
 * latent_start.c - where latents stand before the first step.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "compress/latent_int.h"
#include "compress/words.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

static const float spread = 0.3f;  /* of latents that the teacher puts elsewhere */
static const float margin = 1e-3f; /* nothing stands on a threshold at the start */

/* Where a latent starts: t is the teacher's weight in units of the scale, r random in
 * [0, 1). The threshold lies at one half. */
static float start_at(int code, float t, double r)
{
    const float apart = fmaxf(margin, spread * (float)r);

    if (code == 0)
        return fabsf(t) < 0.5f - margin ? t : copysignf(0.5f - apart, t);
    t *= (float)code;
    return (float)code * (t > 0.5f + margin ? t : 0.5f + apart);
}

/* Whether the teacher's weights from u on give these codes as they are: a word's zero may
 * be a large weight beside three larger ones. */
static bool gives_word(const struct latent *l, const float *u, float a,
                       const int8_t *code)
{
    float t[QUAD];
    int8_t now[QUAD];

    if (l->codes.unit == 1 || !(a > 0.0f))
        return false;
    for (int i = 0; i < QUAD; i++)
        t[i] = u[i] / a;
    codes_project(&l->codes, now, t, NULL, QUAD);
    return memcmp(now, code, sizeof now) == 0;
}

static bool start_row(struct latent *l, const struct latent_job *j, int64_t row,
                      int8_t *code)
{
    const int64_t group = l->codes.group;
    struct rng rng = rng_make(j->how->seed ^ (uint64_t)row * 0x9e3779b97f4a7c15u);
    float *u = l->u + row * l->stored, *a0 = l->a0 + row * l->groups;

    quant_ternary_split(j->student->type, code, a0,
                        j->student->data + (uint64_t)row * j->student->row_bytes,
                        l->stored);
    memcpy(u, j->how->teacher + row * l->cols, (size_t)l->cols * sizeof *u);
    latent_fold(l->rot, u);
    bool keep = false;
    for (int64_t i = 0; i < l->stored; i++) { /* a negative scale turns its codes */
        float a = fabsf(a0[i / group]);
        if (a0[i / group] < 0.0f)
            code[i] = (int8_t)-code[i];
        double r = rng_f64(&rng);
        if (code[i] < -1 || code[i] > 1 || !isfinite(u[i]))
            return false;
        if (i % l->codes.unit == 0)
            keep = gives_word(l, u + i, a, code + i);
        if (!(a > 0.0f) || i >= l->cols)
            u[i] = 0.0f;
        else if (keep)
            u[i] /= a;
        else
            u[i] = start_at(code[i], u[i] / a, r);
    }
    for (int64_t g = 0; g < l->groups; g++)
        a0[g] = fabsf(a0[g]);
    return true;
}

void latent_start_rows(void *job, int64_t begin, int64_t end, int thread)
{
    struct latent_job *j = job;
    int8_t *code = mem_calloc((size_t)j->l->stored, 1);

    (void)thread;
    for (int64_t r = begin; r < end && code; r++)
        if (!start_row(j->l, j, r, code))
            atomic_store(&j->bad, true);
    if (!code)
        atomic_store(&j->bad, true);
    mem_free(code);
}

/* The factors of a change: the unit is the mean scale, and entries of A are so large that
 * a step of size r in B moves latents by about r. */
void latent_start_lora(struct latent *l, uint64_t seed)
{
    struct rng rng = rng_make(seed ^ 0x10a5u);
    const int64_t n = l->rows * l->groups;
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)l->a0[i];
    l->lora.unit = (float)(sum / (double)n);
    for (int64_t i = 0; i < l->lora.rank * l->cols; i++)
        l->lora.a[i] = (float)(rng_normal(&rng) / sqrt((double)l->lora.rank));
    memset(l->lora.b, 0, (size_t)(l->lora.rank * l->rows) * sizeof(float));
}

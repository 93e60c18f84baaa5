/*
 * comp_words.c - sweep and descent where four columns make a word.
 *
 * The four codes of a word are chosen together, exactly in the metric that holds at that
 * place: in the sweep what they lose when all later columns make up for them, in descent
 * the Hessian's own.
 */
#include "compress/compensate_int.h"

#include <string.h>

void comp_words_sweep(struct comp_block *k, int64_t at, int64_t n)
{
    for (int64_t j = 0; j < n; j += QUAD)
        word_metric_of_factor(&k->word[j / QUAD], k->m->u + (at + j) * k->d + at + j,
                              k->d);
}

void comp_words_descend(struct comp_block *k, int64_t at, int64_t n)
{
    for (int64_t j = 0; j < n; j += QUAD)
        word_metric_of(&k->word[j / QUAD], k->m->h + (at + j) * k->d + at + j, k->d);
}

/* The word nearest to t A / scale. */
static void choose(int8_t *code, const struct word_metric *m, const float *r,
                   float scale)
{
    float unit[QUAD];

    memset(code, 0, QUAD);
    if (!(scale > 0.0f))
        return;
    for (int i = 0; i < QUAD; i++)
        unit[i] = r[i] / scale;
    word_nearest(code, m, unit);
}

void comp_words_sweep_row(struct comp_block *k, int64_t r, int64_t at, float scale)
{
    int64_t d = k->d, n = k->m->group;
    float *w = k->work + r * d + at, *value = k->value + r * d + at;
    float *err = k->err + r * n;
    int8_t *code = k->code + r * d + at;

    for (int64_t j = 0; j < n; j++) {
        const float *row = k->m->u + (at + j) * d + at;
        if (j % QUAD == 0) {
            float to[QUAD];
            word_times(to, &k->word[j / QUAD], w + j);
            choose(code + j, &k->word[j / QUAD], to, scale);
        }
        value[j] = scale * (float)code[j];
        float e = (w[j] - value[j]) / row[j];
        err[j] = e;
        for (int64_t i = j + 1; i < n; i++)
            w[i] -= e * row[i];
    }
}

void comp_words_descend_row(struct comp_block *k, int64_t r, int64_t at, int64_t n,
                            float *delta)
{
    int64_t d = k->d;
    float *value = k->value + r * d + at, local[COMP_BLOCK];
    int8_t *code = k->code + r * d + at;

    memcpy(local, k->work + r * d + at, (size_t)n * sizeof *local);
    for (int64_t j = 0; j < n; j += QUAD) {
        const struct word_metric *m = &k->word[j / QUAD];
        float scale = k->scale[r * k->n_groups + (at + j) / k->m->group], to[QUAD];
        int8_t now[QUAD];
        word_times(to, m, value + j);
        for (int i = 0; i < QUAD; i++)
            to[i] += local[j + i];
        choose(now, m, to, scale);
        for (int64_t i = j; i < j + QUAD; i++) {
            const float *h = k->m->h + (at + i) * d + at;
            delta[i] = 0.0f;
            if (now[i - j] == code[i])
                continue;
            delta[i] = scale * (float)now[i - j] - value[i];
            code[i] = now[i - j];
            value[i] = scale * (float)code[i];
            for (int64_t p = 0; p < n; p++)
                local[p] -= delta[i] * h[p];
        }
    }
}

/*
 * words.c - the nearest words of four codes.
 */
#include "compress/words.h"

#include <math.h>

/* Code k of every word, in F32, so that loops over words become wide. */
static const float word_code[QUAD][QUAD_WORDS] = {
    {0, 1, 0,  -1, 0, 1,  0, -1, 1,  0, -1, 1,  0, -1, 0, 1,  0,  -1, 0,  1, 0, -1,
     1, 0, -1, 1,  0, -1, 1, 0,  -1, 1, 0,  -1, 0, 1,  0, -1, 0,  1,  -1, 0, 1, -1,
     0, 1, 0,  -1, 0, 1,  0, -1, 0,  1, -1, 0,  1, -1, 0, 1,  -1, 0,  1,  -1},
    {0, 0, 0,  0,  -1, 1,  1, 1,  0,  0,  0,  -1, -1, -1, 1, 0,  0,  0,  -1, 1, 1, 1,
     0, 0, 0,  -1, -1, -1, 1, 1,  1,  0,  -1, 0,  0,  0,  1, -1, -1, -1, 0,  0, 0, 1,
     1, 1, -1, 0,  0,  0,  1, -1, -1, -1, 0,  0,  0,  1,  1, 1,  -1, -1, -1, 0},
    {0, 1, 1, 1, 1, 0, 0, 0,  0,  0,  0,  0,  0,  0,  -1, -1, -1, -1, -1, 1, 1, 1,
     1, 1, 1, 1, 1, 1, 0, 0,  0,  0,  -1, -1, -1, -1, -1, 0,  0,  0,  0,  0, 0, 0,
     0, 0, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0,  0,  0,  0},
    {0,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,  1,
     1,  1,  1,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
     -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
     -1, -1, -1, 0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0},
};

/* The word of least cost: own - 2 c r, which is (t - c) A (t - c) less what all share. */
static int least(const float *own, const float *r)
{
    float cost[QUAD_WORDS];
    int best = 0;

    for (int w = 0; w < QUAD_WORDS; w++)
        cost[w] = own[w] - 2.0f * (((word_code[0][w] * r[0] + word_code[1][w] * r[1]) +
                                    word_code[2][w] * r[2]) +
                                   word_code[3][w] * r[3]);
    for (int w = 1; w < QUAD_WORDS; w++)
        best = cost[w] < cost[best] ? w : best;
    return best;
}

static void put_word(int8_t *code, int index)
{
    for (int k = 0; k < QUAD; k++)
        code[k] = (int8_t)word_code[k][index];
}

void word_nearest(int8_t *code, const struct word_metric *m, const float *r)
{
    put_word(code, least(m->own, r));
}

/* ---- metrics of four columns ---- */

static void set_own(struct word_metric *m)
{
    for (int w = 0; w < QUAD_WORDS; w++) {
        float c[QUAD], r[QUAD];
        for (int k = 0; k < QUAD; k++)
            c[k] = word_code[k][w];
        word_times(r, m, c);
        m->own[w] = ((c[0] * r[0] + c[1] * r[1]) + c[2] * r[2]) + c[3] * r[3];
    }
}

void word_metric_of(struct word_metric *m, const float *a, int64_t step)
{
    for (int i = 0; i < QUAD; i++)
        for (int k = 0; k < QUAD; k++)
            m->a[i][k] = a[i * step + k];
    set_own(m);
}

void word_metric_of_factor(struct word_metric *m, const float *u, int64_t step)
{
    double inv[QUAD][QUAD] = {{0}};

    for (int k = 0; k < QUAD; k++) { /* column k of the inverse, from below */
        inv[k][k] = 1.0 / (double)u[k * step + k];
        for (int i = k - 1; i >= 0; i--) {
            double sum = 0.0;
            for (int j = i + 1; j <= k; j++)
                sum += (double)u[i * step + j] * inv[j][k];
            inv[i][k] = -sum / (double)u[i * step + i];
        }
    }
    for (int i = 0; i < QUAD; i++) {
        for (int k = 0; k < QUAD; k++) {
            double sum = 0.0;
            for (int j = 0; j < QUAD; j++)
                sum += inv[i][j] * inv[k][j];
            m->a[i][k] = (float)sum;
        }
    }
    set_own(m);
}

/* ---- the diagonal metric ---- */

static inline float importance(const float *imp, int k)
{
    return imp ? imp[k] : 1.0f;
}

/* The nearest word to t where rounding gave the missing one of three non-zeros. */
static void search(int8_t *code, const float *t, const float *imp)
{
    float own[QUAD_WORDS] = {0}, r[QUAD];

    for (int k = 0; k < QUAD; k++) {
        float a = importance(imp, k);
        r[k] = a * t[k];
        for (int w = 0; w < QUAD_WORDS; w++)
            own[w] += a * (word_code[k][w] * word_code[k][w]);
    }
    put_word(code, least(own, r));
}

/* Sets the code of four non-zeros to 0 that costs least: imp (t^2 - (|t| - 1)^2). */
static void drop_cheapest(int8_t *code, const float *t, const float *imp)
{
    int cheapest = 0;
    float least_cost = INFINITY;

    for (int k = 0; k < QUAD; k++) {
        float cost = importance(imp, k) * (2.0f * fabsf(t[k]) - 1.0f);
        cheapest = cost < least_cost ? k : cheapest;
        least_cost = cost < least_cost ? cost : least_cost;
    }
    code[cheapest] = 0;
}

void words_project(int8_t *code, const float *t, const float *imp, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        code[i] = (int8_t)((t[i] >= 0.5f) - (t[i] <= -0.5f));
    for (int64_t i = 0; i < n; i += QUAD) {
        const float *weight = imp ? imp + i : NULL;
        if (quad_index(code + i) >= 0)
            continue;
        if (code[i] && code[i + 1] && code[i + 2] && code[i + 3])
            drop_cheapest(code + i, t + i, weight);
        if (quad_index(code + i) < 0)
            search(code + i, t + i, weight);
    }
}

/*
 * delta.c - the gated delta net: convolution, gates, recurrence, and output gates.
 *
 * Threads share channels, tokens or heads, never the tokens of one head: each state is
 * walked by one thread from the first token to the last, whatever the batch.
 */
#include "backend/cpu/cpu_int.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { CONV_CHANNELS = 256, GATE_TOKENS = 4, GATE_ELEMS = 16384, SPLIT_ROWS = 16 };

struct conv_job {
    const struct kernels *k;
    float *y, *state;
    const float *u, *w;
    int64_t n_tokens, n_channels, taps;
};

/* Row t of the saved rows followed by u's. */
static const float *conv_row(const struct conv_job *j, int64_t t)
{
    int64_t saved = j->taps - 1;

    return t < saved ? j->state + t * j->n_channels
                     : j->u + (t - saved) * j->n_channels;
}

/* Channels [begin, end) of all tokens, then of the state. */
static void conv_channels(const struct conv_job *j, int64_t begin, int64_t end)
{
    const float *x[CONV_MAX_TAPS];

    for (int64_t t = 0; t < j->n_tokens; t++) {
        for (int64_t i = 0; i < j->taps; i++)
            x[i] = conv_row(j, t + i) + begin;
        j->k->conv_silu(j->y + t * j->n_channels + begin, x, j->w + begin,
                        j->n_channels, j->taps, end - begin);
    }
    for (int64_t i = 0; i < j->taps - 1; i++) /* from the oldest: none is lost */
        memmove(j->state + i * j->n_channels + begin,
                conv_row(j, j->n_tokens + i) + begin,
                (size_t)(end - begin) * sizeof *j->state);
}

static void conv_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct conv_job *j = ctx;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        conv_channels(j, i * CONV_CHANNELS,
                      min_i64((i + 1) * CONV_CHANNELS, j->n_channels));
}

void backend_conv(struct backend *be, float *y, const float *u, float *state,
                  const float *w, int64_t n_tokens, int64_t n_channels, int64_t taps)
{
    struct conv_job j = {&be->k, y, state, u, w, n_tokens, n_channels, taps};

    assert(taps >= 1 && taps <= CONV_MAX_TAPS && y != u);
    cpu_run(be, conv_part, &j, (n_channels + CONV_CHANNELS - 1) / CONV_CHANNELS, 1);
}

struct gates_job {
    struct backend *be;
    float *decay, *beta;
    const float *rate, *bias;
    int64_t n_heads;
};

static void gates_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct gates_job *j = ctx;
    const struct kernels *k = &j->be->k;
    const int64_t n = j->n_heads;
    float *e = cpu_scratch(j->be, thread);

    for (int64_t t = begin; t < end; t++) {
        float *a = j->decay + t * n, *b = j->beta + t * n;
        k->add(a, j->bias, n);
        k->exp(e, a, n);
        for (int64_t i = 0; i < n; i++)
            a[i] = j->rate[i] * kernel_softplus(a[i], e[i]);
        k->exp(a, a, n);
        for (int64_t i = 0; i < n; i++)
            e[i] = 1.0f;
        k->sigmoid_mul(b, b, e, n);
    }
}

void backend_delta_gates(struct backend *be, float *decay, float *beta,
                         const float *rate, const float *bias, int64_t n_tokens,
                         int64_t n_heads)
{
    struct gates_job j = {be, decay, beta, rate, bias, n_heads};

    assert(n_heads <= DELTA_MAX_KEYS);
    cpu_run(be, gates_part, &j, n_tokens, GATE_TOKENS);
}

struct delta_job {
    struct backend *be;
    float *out, *state;
    const float *qkv, *decay, *beta;
    int64_t n_tokens;
    const struct delta_args *args;
};

/* All tokens of value head h. */
static void delta_head(const struct delta_job *j, int64_t h, float *q, float *k)
{
    const struct delta_args *a = j->args;
    const struct kernels *kt = &j->be->k;
    const int64_t keys = a->n_k_heads * a->k_dim, values = a->n_v_heads * a->v_dim;
    float *state = j->state + h * a->k_dim * a->v_dim;
    struct kd_step d = {.q = q,
                        .k = k,
                        .scale = 1.0f / sqrtf((float)a->k_dim),
                        .n_keys = a->k_dim,
                        .n_values = a->v_dim};

    for (int64_t t = 0; t < j->n_tokens; t++) {
        const float *row = j->qkv + t * (2 * keys + values);
        int64_t at = h % a->n_k_heads * a->k_dim;
        kt->l2norm(q, row + at, a->k_dim, a->eps);
        kt->l2norm(k, row + keys + at, a->k_dim, a->eps);
        d.v = row + 2 * keys + h * a->v_dim;
        d.decay = j->decay[t * a->n_v_heads + h];
        d.beta = j->beta[t * a->n_v_heads + h];
        kt->delta_step(j->out + t * values + h * a->v_dim, state, &d);
    }
}

static void delta_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct delta_job *j = ctx;
    float *q = cpu_scratch(j->be, thread), *k = q + j->args->k_dim;

    for (int64_t h = begin; h < end; h++)
        delta_head(j, h, q, k);
}

void backend_delta(struct backend *be, float *out, const float *qkv, const float *decay,
                   const float *beta, float *state, int64_t n_tokens,
                   const struct delta_args *args)
{
    struct delta_job j = {be, out, state, qkv, decay, beta, n_tokens, args};

    assert(args->k_dim <= DELTA_MAX_KEYS);
    cpu_run(be, delta_part, &j, args->n_v_heads, 1);
}

struct split_job {
    float *q, *gate;
    const float *x;
    int64_t d;
};

static void split_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct split_job *j = ctx;
    const size_t bytes = (size_t)j->d * sizeof *j->x;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        memcpy(j->q + r * j->d, j->x + 2 * r * j->d, bytes);
        memcpy(j->gate + r * j->d, j->x + (2 * r + 1) * j->d, bytes);
    }
}

void backend_split(struct backend *be, float *q, float *gate, const float *x,
                   int64_t n_rows, int64_t d)
{
    struct split_job j = {q, gate, x, d};

    cpu_run(be, split_part, &j, n_rows, SPLIT_ROWS);
}

struct sigmoid_job {
    const struct kernels *k;
    float *y;
    const float *gate, *x;
};

static void sigmoid_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct sigmoid_job *j = ctx;

    (void)thread;
    j->k->sigmoid_mul(j->y + begin, j->gate + begin, j->x + begin, end - begin);
}

void backend_sigmoid_mul(struct backend *be, float *y, const float *gate,
                         const float *x, int64_t n)
{
    struct sigmoid_job j = {&be->k, y, gate, x};

    cpu_run(be, sigmoid_part, &j, n, GATE_ELEMS);
}

/*
 * attention.c - processor time of one token's attention, by type of cache and depth.
 *
 * usage: bench_attention [HEADS KV_HEADS HEAD_DIM [LEVEL]]
 * One thread; processor time, so that a busy neighbour changes little. Prints a line per
 * type and depth: microseconds a layer, and 10^9 bytes of cache read per second.
 */
#include "backend/backend.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_CTX = 8192, LAYERS = 8 }; /* more cache than the processor's own holds */

struct run {
    struct backend *be;
    struct kv_layer kv[LAYERS];
    void *mem[LAYERS];
    float *q, *out;
    int64_t heads, kv_heads, dim;
};

static double cpu_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void fill(struct run *r, enum dtype type, struct rng *rng)
{
    int64_t n = r->kv_heads * r->dim;
    float *x = mem_calloc((size_t)n, sizeof *x);

    for (int l = 0; l < LAYERS; l++) {
        r->kv[l] = (struct kv_layer){.type = type, .cap = MAX_CTX};
        r->mem[l] = mem_aligned(
            64, (size_t)backend_kv_bytes(type, r->kv_heads, r->dim, MAX_CTX), 1);
        if (!x || !r->mem[l])
            exit(1);
        backend_kv_place(&r->kv[l], r->mem[l], r->kv_heads, r->dim);
        for (int64_t p = 0; p < MAX_CTX; p++) {
            for (int64_t i = 0; i < n; i++)
                x[i] = (float)rng_f64(rng) - 0.5f;
            backend_kv_store(r->be, &r->kv[l], x, x, 1, r->kv_heads, r->dim, p);
        }
    }
    mem_free(x);
}

static void measure(struct run *r, const char *name, int64_t ctx, int64_t tokens)
{
    const struct attn_args a = {.n_heads = r->heads,
                                .n_kv_heads = r->kv_heads,
                                .head_dim = r->dim,
                                .pos0 = ctx - tokens,
                                .scale = 0.1f};
    double best = 1e9;

    for (int i = 0; i < 5; i++) {
        double start = cpu_s();
        for (int l = 0; l < LAYERS; l++)
            backend_attention(r->be, r->out, r->q, &r->kv[l], tokens, &a);
        double s = (cpu_s() - start) / LAYERS;
        best = s < best ? s : best;
    }
    double bytes = (double)backend_kv_bytes(r->kv[0].type, r->kv_heads, r->dim, ctx);
    printf("%-5s %5lld positions %3lld tokens  %9.1f us  %6.2f GB/s\n", name,
           (long long)ctx, (long long)tokens, 1e6 * best, 1e-9 * bytes / best);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        enum dtype type;
    } types[] = {{"f16", DT_F16}, {"q8_0", DT_Q8_0}, {"q4_0", DT_Q4_0}};
    static const int64_t depths[] = {256, 1024, 4096, 8192};
    struct run r = {.heads = argc > 1 ? strtoll(argv[1], NULL, 10) : 16,
                    .kv_heads = argc > 2 ? strtoll(argv[2], NULL, 10) : 8,
                    .dim = argc > 3 ? strtoll(argv[3], NULL, 10) : 128};
    struct backend_config cfg = {0};
    struct rng rng = rng_make(1);

    if (cpu_limit(&cfg.cpu, cpu_features(), argc > 4 ? argv[4] : NULL, NULL) ||
        backend_cpu_new(&r.be, &cfg, NULL) ||
        backend_reserve(r.be, &(struct attn_limits){r.heads, r.dim, MAX_CTX}, NULL))
        return 1;
    r.q = mem_calloc((size_t)(64 * r.heads * r.dim), sizeof *r.q);
    r.out = mem_calloc((size_t)(64 * r.heads * r.dim), sizeof *r.out);
    for (int64_t i = 0; i < 64 * r.heads * r.dim; i++)
        r.q[i] = (float)rng_f64(&rng) - 0.5f;
    for (size_t t = 0; t < countof(types); t++) {
        fill(&r, types[t].type, &rng);
        for (size_t d = 0; d < countof(depths); d++)
            measure(&r, types[t].name, depths[d], 1);
        measure(&r, types[t].name, 4096, 64);
        for (int l = 0; l < LAYERS; l++)
            mem_free(r.mem[l]);
    }
    return 0;
}

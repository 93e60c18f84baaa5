/*
 * kernels.c - speed of the products, by type, form and number of threads.
 *
 * Prints rows of `type,form,threads,gmacs` (10^9 multiply-accumulates per second) for
 * weights of a size that leaves the caches: matvec is one token, matmat 64. Fastest of
 * several runs. The conditions (processor, level, shape) go before the rows.
 */
#include "backend/backend.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLS = 2048, ROWS = 16384, TOKENS = 64, RUNS = 3 };

struct bench {
    struct act *a;
    float *y;
    uint8_t *data;
    int64_t cols, rows;
};

static double time_matmul(struct backend *be, const struct bench *b, enum dtype type,
                          int64_t n_tokens)
{
    uint64_t row_bytes = 0;
    double best = 1e30, begin = clock_s();

    if (dtype_row_bytes(&row_bytes, type, (uint64_t)b->cols, NULL))
        return 0;
    struct weight w = {.name = "bench",
                       .type = type,
                       .cols = b->cols,
                       .rows = b->rows,
                       .data = b->data,
                       .row_bytes = row_bytes};
    for (int run = 0; run < RUNS || clock_s() - begin < 0.3; run++) {
        act_changed(b->a, n_tokens, b->cols);
        double t0 = clock_s();
        backend_matmul(be, b->y, &w, b->a);
        double t = clock_s() - t0;
        best = t < best ? t : best;
    }
    return (double)b->cols * (double)b->rows * (double)n_tokens / best * 1e-9;
}

static void bench_threads(struct bench *b, unsigned cpu, int n_threads)
{
    static const enum dtype types[] = {DT_Q4_1,  DT_Q4_0,  DT_Q8_0, DT_PQ2_0, DT_PTQ1_0,
                                       DT_TQ1_0, DT_TQ2_0, DT_Q6_K, DT_F16,   DT_F32};
    struct pool *pool = pool_new(n_threads);
    struct backend_config cfg = {.pool = pool, .cpu = cpu};
    struct backend *be = NULL;

    if (!pool || backend_cpu_new(&be, &cfg, NULL) ||
        act_new(&b->a, be, TOKENS, b->cols, NULL)) {
        fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    for (int64_t i = 0; i < TOKENS * b->cols; i++)
        b->a->x[i] = (float)(i % 97 - 48) / 48.0f;
    for (size_t i = 0; i < countof(types); i++) {
        const char *name = dtype_info(types[i])->name;
        printf("%s,matvec,%d,%.2f\n", name, n_threads, time_matmul(be, b, types[i], 1));
        printf("%s,matmat,%d,%.2f\n", name, n_threads,
               time_matmul(be, b, types[i], TOKENS));
    }
    act_free(be, b->a);
    backend_free(be);
    pool_free(pool);
}

int main(void)
{
    struct bench b = {.cols = COLS, .rows = ROWS};
    struct rng rng = rng_make(1);
    size_t n_bytes = (size_t)COLS * ROWS * sizeof(float);
    char cpu_name[128];
    unsigned cpu;
    struct kernels k;

    b.data = mem_aligned(64, n_bytes, 1);
    b.y = mem_calloc((size_t)ROWS * TOKENS, sizeof *b.y);
    if (!b.data || !b.y || cpu_limit(&cpu, cpu_features(), getenv("B2_CPU"), NULL)) {
        fprintf(stderr, "out of memory, or B2_CPU names no level of this machine\n");
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < n_bytes;
         i += 8) { /* small numbers also when read as floats */
        uint64_t v = rng_u64(&rng) & 0x3fff3fff3fff3fff;
        memcpy(b.data + i, &v, sizeof v);
    }
    kernels_init(&k, cpu);
    cpu_model_name(cpu_name, sizeof cpu_name);
    printf("# %s, level %s, %d rows x %d columns, %d tokens in matmat\n", cpu_name,
           k.name, ROWS, COLS, TOKENS);
    printf("type,form,threads,gmacs\n");
    bench_threads(&b, cpu, 1);
    bench_threads(&b, cpu, 2);
    mem_free(b.y);
    mem_free(b.data);
    return EXIT_SUCCESS;
}

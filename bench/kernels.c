/*
 * kernels.c - speed of the products on one thread, by type and number of tokens.
 *
 *     bench_kernels [TOKENS...]     1 8 64 if none is given
 *
 * Prints rows of `level,type,tokens,rows,cols,gmacs` (10^9 multiply-accumulates per
 * second) for a matrix of the 27B shape, which leaves the caches. Time is processor time
 * of the process, so that neighbours on the same cores count little; median of at least
 * RUNS runs. B2_CPU holds the level down, B2_TYPES=Q4_0,F16 picks types, B2_ROWS=64 makes
 * a matrix that fits a cache. bench/kernels.sh compares two programs.
 */
#include "backend/backend.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COLS = 5120, ROWS = 17408, MAX_TOKENS = 512, RUNS = 5, MAX_RUNS = 200 };

struct bench {
    struct act *a;
    float *y;
    uint8_t *data;
    size_t n_bytes; /* of data */
    int64_t cols, rows;
};

static double cpu_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static double time_matmul(struct backend *be, const struct bench *b, enum dtype type,
                          int64_t n_tokens)
{
    uint64_t row_bytes = 0;
    double time[MAX_RUNS], begin = cpu_s();
    size_t at = 0, bytes;
    int n = 0;

    if (dtype_row_bytes(&row_bytes, type, (uint64_t)b->cols, NULL))
        return 0;
    struct weight w = {.name = "bench",
                       .type = type,
                       .cols = b->cols,
                       .rows = b->rows,
                       .data = b->data,
                       .row_bytes = row_bytes};
    bytes = (size_t)b->rows * row_bytes;
    while (n < RUNS || (cpu_s() - begin < 0.3 && n < MAX_RUNS)) {
        if (b->rows == ROWS) { /* other memory each time: packed rows would fit L3 */
            at = at + 2 * bytes <= b->n_bytes ? at + bytes : 0;
            w.data = b->data + at;
        }
        act_changed(b->a, n_tokens, b->cols);
        double t0 = cpu_s();
        backend_matmul(be, b->y, &w, b->a);
        time[n++] = cpu_s() - t0;
    }
    qsort(time, (size_t)n, sizeof *time, compare);
    return (double)b->cols * (double)b->rows * (double)n_tokens / time[n / 2] * 1e-9;
}

/* Whether name is in the list; NULL has all. */
static bool wanted(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == n && memcmp(p, name, n) == 0)
            return true;
    return !list;
}

static void bench_tokens(struct backend *be, const struct bench *b, const char *level,
                         int64_t n_tokens)
{
    static const enum dtype types[] = {
        DT_PQ2_0, DT_PTQ1_0, DT_TQ1_0, DT_TQ2_0, DT_I2_S, DT_B2_T64,  DT_Q2_0,
        DT_Q1_0,  DT_Q4_0,   DT_Q4_1,  DT_Q8_0,  DT_Q2_K, DT_Q3_K,    DT_Q4_K,
        DT_Q5_K,  DT_Q6_K,   DT_F16,   DT_BF16,  DT_F32,  DT_B2_C128, DT_B2_C64};

    for (size_t i = 0; i < countof(types); i++) {
        if (!wanted(getenv("B2_TYPES"), dtype_info(types[i])->name))
            continue;
        double gmacs = time_matmul(be, b, types[i], n_tokens);
        printf("%s,%s,%d,%d,%d,%.2f\n", level, dtype_info(types[i])->name,
               (int)n_tokens, (int)b->rows, COLS, gmacs);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    const char *rows = getenv("B2_ROWS");
    struct bench b = {.cols = COLS, .rows = rows ? strtoll(rows, NULL, 10) : ROWS};
    struct rng rng = rng_make(1);
    size_t n_bytes = (size_t)COLS * ROWS * sizeof(float); /* F32, the largest */
    struct backend_config cfg = {0};
    struct backend *be = NULL;

    b.n_bytes = n_bytes;
    b.rows = b.rows < 1 || b.rows > ROWS ? ROWS : b.rows;
    b.data = mem_aligned(64, n_bytes, 1);
    b.y = mem_calloc((size_t)ROWS * MAX_TOKENS, sizeof *b.y);
    if (!b.data || !b.y ||
        cpu_limit(&cfg.cpu, cpu_features(), getenv("B2_CPU"), NULL) ||
        backend_cpu_new(&be, &cfg, NULL) ||
        act_new(&b.a, be, MAX_TOKENS, b.cols, NULL)) {
        fprintf(stderr, "out of memory, or B2_CPU names no level of this machine\n");
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < n_bytes; i += 8) { /* scales are finite for any type */
        uint64_t v = rng_u64(&rng) & 0x3fff3fff3fff3fff;
        memcpy(b.data + i, &v, sizeof v);
    }
    for (int64_t i = 0; i < MAX_TOKENS * b.cols; i++)
        b.a->x[i] = (float)(i % 97 - 48) / 48.0f;
    printf("level,type,tokens,rows,cols,gmacs\n");
    for (int i = 1; i < argc; i++)
        bench_tokens(be, &b, backend_kernel_name(be),
                     min_i64(MAX_TOKENS, max_i64(1, strtoll(argv[i], NULL, 10))));
    for (int tokens = 1; argc < 2 && tokens <= 64; tokens *= 8)
        bench_tokens(be, &b, backend_kernel_name(be), tokens);
    act_free(be, b.a);
    backend_free(be);
    mem_free(b.y);
    mem_free(b.data);
    return EXIT_SUCCESS;
}

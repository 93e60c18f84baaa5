/*
 * test_adam.c - AdamW against PyTorch, schedules at their corners, norms by parts.
 */
#include "base/mem.h"
#include "base/pool.h"
#include "format/safetensors.h"
#include "train/adam.h"
#include "unit/unit.h"

enum { N = 10, STEPS = 6 };

static const float *values(const struct safetensors *s, const char *name)
{
    for (int64_t i = 0; i < s->n_tensors; i++)
        if (strcmp(s->tensors[i].name, name) == 0)
            return (const float *)(const void *)s->tensors[i].data;
    fail_msg("no tensor %s", name);
    return NULL;
}

static void test_pytorch(void **state)
{
    const struct env e = {0};
    struct safetensors s;
    struct b2_err err;
    char *file;
    size_t size;
    float p[N], g[N], m[N] = {0}, v[N] = {0};
    struct param param = {p, g, m, v, N, 0.03f};
    struct adam a = {0.9f, 0.95f, 1e-8f, 0.1f, 1};

    (void)state;
    if (file_read_all(&file, &size, B2_GOLDEN_DIR "/train/adam.safetensors", 1 << 16,
                      &err) ||
        safetensors_parse(&s, file, size, &err))
        fail_msg("%s", err.msg);
    memcpy(p, values(&s, "start"), sizeof p);
    for (; a.step <= STEPS; a.step++) {
        for (int i = 0; i < N;
             i++) /* halved here and doubled by clip: nothing changes */
            g[i] = values(&s, "grads")[(a.step - 1) * N + i] / 2;
        adam_step(&e, &a, &param, 1.0f, 2.0f);
        assert_true(g[0] == 0.0f);
    }
    for (int i = 0; i < N; i++)
        ROW_CHECK(i, fabsf(p[i] - values(&s, "end")[i]) < 2e-6f);
    safetensors_close(&s);
    mem_free(file);
}

static void test_schedule(void **state)
{
    static const struct {
        struct schedule s;
        int64_t step;
        double want;
    } rows[] = {
        {{SCHEDULE_COSINE, 10, 110, 0.05}, 1, 0.1},
        {{SCHEDULE_COSINE, 10, 110, 0.05}, 10, 1.0},
        {{SCHEDULE_COSINE, 10, 110, 0.05}, 60, 0.525},
        {{SCHEDULE_COSINE, 10, 110, 0.05}, 110, 0.05},
        {{SCHEDULE_COSINE, 0, 1, 0.05}, 1, 0.05},
        {{SCHEDULE_WSD, 10, 110, 0.1}, 80, 1.0},
        {{SCHEDULE_WSD, 10, 110, 0.1}, 95, 0.55},
        {{SCHEDULE_WSD, 10, 110, 0.1}, 200, 0.1},
        {{SCHEDULE_WSD, 10, 10, 0.1}, 10, 1.0},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++)
        ROW_CHECK(i,
                  fabs(schedule_at(&rows[i].s, rows[i].step) - rows[i].want) < 1e-12);
}

/* Steps and norms of many numbers have the same bits for any number of threads. */
static void test_threads(void **state)
{
    enum { MANY = 50000 };
    const struct adam a = {0.9f, 0.95f, 1e-8f, 0.0f, 3};
    float *x[2];
    double norm[2];

    (void)state;
    for (int k = 0; k < 2; k++) {
        const struct env e = {.pool = pool_new(k + 1)};
        x[k] = mem_calloc(4 * MANY, sizeof *x[k]);
        const struct param p = {x[k], x[k] + MANY, x[k] + 2 * MANY, x[k] + 3 * MANY,
                                MANY, 0.01f};
        double *parts = mem_calloc((size_t)adam_parts(MANY), sizeof *parts);
        for (int i = 0; i < MANY; i++)
            p.g[i] = (float)(i % 101) - 50.0f;
        norm[k] = adam_norm2(&e, &p, parts);
        adam_step(&e, &a, &p, 0.5f, 0.1f);
        mem_free(parts);
        pool_free(e.pool);
    }
    assert_true(norm[0] == norm[1] && norm[0] > 0.0);
    assert_memory_equal(x[0], x[1], 4 * MANY * sizeof(float));
    const struct param rest = {x[0], x[0] + MANY, x[0] + 2 * MANY, x[0] + 3 * MANY,
                               MANY, 0.0f};
    rest.g[5] = 1.0f;
    adam_step(&(struct env){0}, &a, &rest, 0.5f, 0.1f); /* what rests does not move */
    assert_memory_equal(x[0], x[1], MANY * sizeof(float));
    assert_true(rest.g[5] == 0.0f);
    mem_free(x[0]);
    mem_free(x[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorch),
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

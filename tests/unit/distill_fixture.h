/*
 * distill_fixture.h - what the tests of distillation share: a tiny teacher and its ternary
 * student, texts of made-up words, settings under which it learns within a second. Include
 * it once a program, behind _GNU_SOURCE.
 */
#ifndef UNIT_DISTILL_FIXTURE_H
#define UNIT_DISTILL_FIXTURE_H

#include "compress/distill.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "train/blas.h"
#include "unit/scratch.h"
#include "unit/tiny_model.h"
#include "unit/unit.h"

enum { STEPS = 12 };

static struct scratch scratch;
static char teacher[300], student[300], text[300], held[300], out[300], other[300];
static const char *const files[] = {text};
static const struct calib_params data = {.files = files, .n_files = 1};

struct stop {
    int calls, after; /* says stop from the call of this number on; 0: never */
};

static struct stop never;

static inline bool is_cancelled(void *ctx)
{
    struct stop *s = ctx;

    return s->after > 0 && ++s->calls >= s->after;
}

static inline struct distill_params plain(void)
{
    return (struct distill_params){.teacher = teacher,
                                   .student = student,
                                   .output = out,
                                   .force = true,
                                   .data = &data,
                                   .steps = STEPS,
                                   .batch = 3,
                                   .micro = 2, /* the last pass of a step is smaller */
                                   .ctx = 32,
                                   .held_tokens = 96,
                                   .eval_every = 4,
                                   .rates = {3e-3, 3e-3, 1e-3},
                                   .loss = {.kl = 1, .hidden_layers = 2},
                                   .mode = {.rank = 4},
                                   .schedule = {SCHEDULE_COSINE, 2, 0, 0.05},
                                   .temperature = 1,
                                   .clip = 1,
                                   .gemm = DISTILL_F32, /* on every machine */
                                   .seed = 5,
                                   .cancelled = is_cancelled,
                                   .ctx_of_calls = &never};
}

static inline void run(struct distill_report *r, const struct distill_params *p)
{
    struct b2_err err = {0};

    if (distill_run(r, p, &err))
        fail_msg("%s", err.msg);
}

static inline void refuse(const struct distill_params *p, enum b2_status want,
                          const char *word)
{
    struct distill_report r;
    struct b2_err err = {0};

    assert_int_equal(distill_run(&r, p, &err), want);
    if (!strstr(err.msg, word))
        fail_msg("`%s` lacks `%s`", err.msg, word);
    distill_report_free(&r);
}

static inline char *bytes_of(const char *path, size_t *n)
{
    struct b2_err err = {0};
    char *file;

    if (file_read_all(&file, n, path, 1 << 24, &err))
        fail_msg("%s", err.msg);
    return file;
}

static inline void assert_same_file(const char *a, const char *b)
{
    size_t na, nb;
    char *x = bytes_of(a, &na), *y = bytes_of(b, &nb);

    assert_int_equal(na, nb);
    assert_memory_equal(x, y, na);
    mem_free(x);
    mem_free(y);
}

static inline void make_files(void)
{
    struct tiny_params p = {.seed = 7, .type = DT_F32, .vec_type = DT_F32};
    struct b2_err err = {0};
    struct rng r = rng_make(11);
    struct str s = {0}, h = {0};

    snprintf(teacher, sizeof teacher, "%s/teacher.gguf", scratch.dir);
    snprintf(student, sizeof student, "%s/student.gguf", scratch.dir);
    snprintf(held, sizeof held, "%s/held.txt", scratch.dir);
    snprintf(text, sizeof text, "%s/text.txt", scratch.dir);
    snprintf(out, sizeof out, "%s/out.gguf", scratch.dir);
    snprintf(other, sizeof other, "%s/other.gguf", scratch.dir);
    assert_int_equal(tiny_model_write(teacher, &p, &err), B2_OK);
    p.type = DT_Q2_0;
    assert_int_equal(tiny_model_write(student, &p, &err), B2_OK);
    for (int i = 0; i < 900; i++)
        str_printf(i < 200 ? &h : &s, "w%d%s", (int)rng_below(&r, 97),
                   i % 9 == 8 ? "\n" : " ");
    assert_int_equal(file_write_all(text, s.data, s.len, true, &err), B2_OK);
    assert_int_equal(file_write_all(held, h.data, h.len, true, &err), B2_OK);
    str_free(&s);
    str_free(&h);
}

/* OpenBLAS is missing, and says so: the test is to end with 77. */
static inline bool is_skipped(void)
{
    struct blas *blas;
    struct b2_err err = {0};

    if (blas_open(&blas, &err)) {
        printf("skipped: %s\n", err.msg);
        return true;
    }
    blas_close(blas);
    return false;
}

static inline int set_up(void **state)
{
    (void)state;
    scratch_make(&scratch);
    make_files();
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

#endif

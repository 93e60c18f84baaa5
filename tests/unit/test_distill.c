/*
 * test_distill.c - distillation of a tiny student: the divergence falls, what is evaluated
 * is what is written, and nothing that goes wrong on the way makes the result worse.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "unit/distill_fixture.h"

#include "base/cpu.h"
#include "format/modelfile.h"

#include <math.h>

static const char *const regions[] = {held, text};

static void drop(const char *path)
{
    struct b2_err err = {0};

    if (file_exists(path) && file_remove(path, &err))
        fail_msg("%s", err.msg);
}

static void test_falls(void **state)
{
    struct distill_params p = plain();
    struct distill_report r, again;

    (void)state;
    p.held = regions;
    p.n_held = 1;
    p.held_tokens = 300;
    run(&r, &p);
    assert_int_equal(r.n_regions, 1);
    assert_string_equal(r.region[0].name, "held.txt");
    assert_true(r.after < 0.8 * r.before && r.best_step > 0 && r.changed > 0);
    assert_int_equal(r.n_points, 1 + STEPS / 4);
    assert_int_equal(r.tokens, STEPS * 3 * 32);
    assert_false(r.resumed);
    /* the written file as a student: it scores exactly what was said of it */
    p.student = out;
    p.output = other;
    p.steps = 1;
    p.rates = (struct distill_rates){0, 0, 0};
    run(&again, &p);
    assert_true(again.before == r.after);
    assert_int_equal(again.best_step, 0);
    distill_report_free(&r);
    distill_report_free(&again);
}

static void test_threads(void **state)
{
    struct distill_report r;

    (void)state;
    for (int i = 1; i <= 2; i++) {
        struct distill_params p = plain();
        p.pool = pool_new(i);
        p.output = i == 1 ? out : other;
        run(&r, &p);
        distill_report_free(&r);
        pool_free(p.pool);
    }
    assert_same_file(out, other);
}

/* Stopped wherever it is, a run goes on and ends with the same bytes. */
static void test_resume(void **state)
{
    struct distill_params p = plain();
    struct distill_report r;
    struct b2_err err;
    char left[600];

    (void)state;
    run(&r, &p);
    distill_report_free(&r);
    for (int after = 1; after < 14; after += 4) {
        struct stop stop = {0, after};
        p = plain();
        p.ctx_of_calls = &stop;
        p.output = other;
        drop(other);
        assert_int_equal(distill_run(&r, &p, &err), B2_ECANCEL);
        assert_false(file_exists(other));
        distill_report_free(&r);
        snprintf(left, sizeof left, "%s.b2distill", other);
        const bool begun = file_exists(left); /* not before the first scores */
        ROW_CHECK(after, begun == (after > 1));
        stop.after = 0;
        p.force = false;
        run(&r, &p);
        ROW_CHECK(after, r.resumed == begun && !file_exists(left));
        assert_int_equal(r.n_points, 1 + STEPS / 4);
        distill_report_free(&r);
        assert_same_file(out, other);
    }
}

/* Products in BF16: the same road, the same bytes for any number of threads and over a
 * stop. Skipped in words where the machine has none. */
static void test_bf16(void **state)
{
    struct distill_params p = plain();
    struct distill_report f32, r;
    struct stop stop = {0, 9};
    struct b2_err err = {0};

    (void)state;
    run(&f32, &p);
    assert_string_equal(f32.dnn, "");
    p.gemm = DISTILL_BF16;
    refuse(&p, B2_EUNSUP, "AVX512_BF16"); /* p.cpu allows nothing */
    p.gemm = DISTILL_AUTO;
    run(&r, &p);
    assert_string_equal(r.dnn, "");
    assert_true(r.after == f32.after);
    distill_report_free(&r);
    p.gemm = DISTILL_BF16;
    p.cpu = cpu_features();
    if (distill_run(&r, &p, &err)) {
        print_message("skipped: %s\n", err.msg);
        distill_report_free(&r);
        distill_report_free(&f32);
        return;
    }
    assert_true(strncmp(r.dnn, "oneDNN ", 7) == 0);
    assert_true(r.before == f32.before); /* scores are of F32 */
    assert_true(fabs(r.after - f32.after) < 0.02 * f32.after);
    distill_report_free(&r);
    distill_report_free(&f32);
    p.output = other;
    p.pool = pool_new(2);
    p.ctx_of_calls = &stop;
    assert_int_equal(distill_run(&r, &p, &err), B2_ECANCEL);
    distill_report_free(&r);
    stop.after = 0;
    p.force = false;
    drop(other);
    run(&r, &p);
    assert_true(r.resumed);
    assert_same_file(out, other);
    distill_report_free(&r);
    pool_free(p.pool);
}

/* A loss that is no number, one that jumps, and one that is as high again. */
static void test_faults(void **state)
{
    static const struct {
        double value;
        bool stays;
        int64_t again, faults, back;
        double share;
    } rows[] = {{(double)NAN, false, 0, 1, 0, .5},
                {(double)INFINITY, false, 0, 1, 0, .5},
                {1e6, false, 0, 0, 1, .5},
                {1e6, true, 0, 0, 0, 1},  /* a hard text */
                {1e6, true, 8, 0, 0, 1},  /* and the one behind it */
                {1e6, true, 6, 0, 0, 1}}; /* and the one before it */

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct distill_params p = plain();
        struct distill_report r;
        p.fault_step = 7;
        p.fault_value = rows[i].value;
        p.fault_stays = rows[i].stays;
        p.fault_again = rows[i].again;
        run(&r, &p);
        ROW_CHECK(i, r.n_faults == rows[i].faults && r.n_back == rows[i].back);
        ROW_CHECK(i, r.rate_share == rows[i].share && r.steps == STEPS);
        ROW_CHECK(i, r.n_points == 1 + STEPS / 4);
        ROW_CHECK(i, r.after < 0.9 * r.before && r.best_step > 0);
        distill_report_free(&r);
    }
}

/* Rates that destroy the model: the student is written as it came. */
static void test_never_worse(void **state)
{
    struct distill_params p = plain();
    struct distill_report r;
    struct modelfile *was, *is;
    struct b2_err err = {0};

    (void)state;
    p.rates = (struct distill_rates){30, 0, 10};
    p.schedule.warmup = 0;
    p.schedule.floor = 1;
    p.steps = 1;
    run(&r, &p);
    assert_true(r.after == r.before && r.best_step == 0 && r.changed == 0);
    distill_report_free(&r);
    assert_int_equal(modelfile_open(&was, student, NULL, &err), B2_OK);
    assert_int_equal(modelfile_open(&is, out, NULL, &err), B2_OK);
    for (int64_t i = 0; i < modelfile_n_tensors(was); i++) {
        const struct tensor *a = modelfile_tensor(was, i), *b = modelfile_tensor(is, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->n_bytes, b->n_bytes);
        assert_memory_equal(a->data, b->data, a->n_bytes);
    }
    assert_non_null(meta_find(modelfile_meta(is), "bonsai2.distill.recipe"));
    modelfile_close(was);
    modelfile_close(is);
}

/* Stops when nothing gets better; a plan over the limit is refused; nothing is written by
 * a trial. */
static void test_limits(void **state)
{
    struct distill_params p = plain();
    struct distill_report r;
    struct b2_err err = {0};

    (void)state;
    p.rates = (struct distill_rates){0, 0, 0};
    p.patience = 1;
    run(&r, &p);
    assert_true(r.stopped_early && r.steps == 4);
    distill_report_free(&r);

    drop(other);
    p.output = other;
    p.dry_run = true;
    run(&r, &p);
    assert_true(r.plan_bytes > 1 << 20 && r.tokens_per_s > 0 && !file_exists(other));
    assert_true(r.flops > 0 && r.bytes_per_s > 0 && r.disk_bytes == 0);
    assert_int_equal(r.resident_layers, r.n_layers);
    p.mem_limit = 1;
    distill_report_free(&r);
    assert_int_equal(distill_run(&r, &p, &err), B2_ENOMEM);
    assert_non_null(strstr(err.msg, "more than --mem-limit"));
    distill_report_free(&r);
}

/* With latents on the disk the same bytes come, also after a stop. */
static void test_windows(void **state)
{
    struct distill_params p = plain();
    struct distill_report r;
    struct b2_err err = {0};

    (void)state;
    p.micro = 1; /* the plan's smallest part is then that of latents */
    run(&r, &p);
    assert_int_equal(r.disk_bytes, 0);
    distill_report_free(&r);
    p.dry_run = true;
    p.mem_limit = 1;
    assert_int_equal(distill_run(&r, &p, &err), B2_ENOMEM);
    const uint64_t least = r.plan_bytes;
    distill_report_free(&r);
    p.dry_run = false;
    p.output = other;
    for (int i = 0; i < 2; i++) {
        struct stop stop = {0, i == 0 ? 9 : 0};
        p.ctx_of_calls = &stop;
        p.force = i == 0;
        p.mem_limit = least;
        const enum b2_status rc = distill_run(&r, &p, &err);
        assert_int_equal(rc, i == 0 ? B2_ECANCEL : B2_OK);
        assert_true(r.disk_bytes > 0 && r.plan_bytes <= least);
        assert_true(r.step_disk_bytes > r.disk_bytes);
        assert_int_equal(r.resident_layers, 0);
        distill_report_free(&r);
        drop(i == 0 ? other : "");
    }
    assert_same_file(out, other);
}

/* The teacher's distributions from a file: with all tokens as if it ran along, with few a
 * smaller divergence; the same bytes for any number of threads, after a stop, and when the
 * file is used again; another's file is refused. */
static void test_teacher_cache(void **state)
{
    static const int64_t ks[] = {1 << 16, 8};
    struct distill_params p = plain();
    struct distill_report r;
    struct b2_err err = {0};
    char cache[320];
    double whole, first = 0;

    (void)state;
    run(&r, &p);
    whole = r.before;
    first = r.after;
    distill_report_free(&r);
    for (int i = 0; i < 2; i++) {
        snprintf(cache, sizeof cache, "%s/cache%d", scratch.dir, i);
        p = plain();
        p.teacher_cache = cache;
        p.teacher_k = ks[i];
        p.output = out;
        p.pool = pool_new(2);
        run(&r, &p);
        pool_free(p.pool);
        p.pool = NULL;
        const double near = fabs(r.before - whole) + fabs(r.after - first);
        ROW_CHECK(i, i == 1 || near < 1e-4);
        ROW_CHECK(i, r.before <= whole + 1e-5 && r.after < 0.9 * r.before);
        distill_report_free(&r);
        /* once more, cut short and gone on with */
        size_t n;
        char *bytes = bytes_of(cache, &n);
        assert_int_equal(file_write_all(cache, bytes, n / 2, true, &err), B2_OK);
        p.output = other;
        run(&r, &p);
        distill_report_free(&r);
        assert_same_file(out, other);
        run(&r, &p);
        distill_report_free(&r);
        assert_same_file(out, other);
        bytes[n / 2] ^= 1;
        assert_int_equal(file_write_all(cache, bytes, n, true, &err), B2_OK);
        assert_true(distill_run(&r, &p, &err) == B2_EFORMAT);
        distill_report_free(&r);
        mem_free(bytes);
    }
    p.steps++;
    assert_int_equal(distill_run(&r, &p, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "other sequences"));
    distill_report_free(&r);
    p.temperature = 2;
    assert_int_equal(distill_run(&r, &p, &err), B2_EARG);
    distill_report_free(&r);
}

static void test_refused(void **state)
{
    struct distill_params p = plain();
    struct stop stop = {0, 12};
    char small[600];
    struct b2_err err = {0};
    const struct tiny_params three = {7, DT_F32, DT_F32, 3, 0, 0, 0, 0, 0, 0, 0};

    (void)state;
    snprintf(small, sizeof small, "%s/three.gguf", scratch.dir);
    assert_int_equal(tiny_model_write(small, &three, &err), B2_OK);
    p.teacher = small;
    refuse(&p, B2_EUNSUP, "different shapes");
    p.teacher = p.student = teacher;
    refuse(&p, B2_EUNSUP, "no ternary matrix");
    p = plain();
    p.output = student;
    refuse(&p, B2_EARG, "student");
    p.output = teacher;
    refuse(&p, B2_EARG, "teacher");
    p = plain();
    p.ctx = 20000;
    refuse(&p, B2_EARG, "tokens");
    /* the state of another run, and a broken one */
    p = plain();
    p.ctx_of_calls = &stop;
    p.output = other;
    drop(other);
    refuse(&p, B2_ECANCEL, "goes on");
    stop.after = 0;
    p.force = false;
    p.seed++;
    refuse(&p, B2_EARG, "other settings");
    p.seed--;
    snprintf(small, sizeof small, "%s.b2distill", other);
    size_t n;
    char *file = bytes_of(small, &n);
    file[n / 2] ^= 1;
    assert_int_equal(file_write_all(small, file, n, true, &err), B2_OK);
    refuse(&p, B2_EFORMAT, "checksum");
    for (size_t cut = 0; cut < n; cut += n / 7) {
        struct distill_report r;
        assert_int_equal(file_write_all(small, file, cut, true, &err), B2_OK);
        assert_true(distill_run(&r, &p, &err) != B2_OK);
        distill_report_free(&r);
    }
    mem_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_falls),         cmocka_unit_test(test_threads),
        cmocka_unit_test(test_resume),        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_never_worse),   cmocka_unit_test(test_limits),
        cmocka_unit_test(test_teacher_cache), cmocka_unit_test(test_windows),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_bf16),
    };

    return is_skipped() ? 77 : cmocka_run_group_tests(tests, set_up, tear_down);
}

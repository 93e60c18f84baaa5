/*
 * test_pipeline.c - the whole road on a tiny model: same bytes in every way there is to
 * get to them, whatever stops it or lies in its way.
 */
#define _GNU_SOURCE
#include "unit/pipeline_fixture.h"

#include <math.h>

/* Questions asked while the source is read: one per tensor. */
enum { STOPS_IN_SCAN = 2 + 9 * TINY_LAYERS };

static void test_same_for_any_threads(void **state)
{
    static const int threads[] = {1, 2, 7};
    struct recipe r = recipe_of("500000", NULL, NULL);
    char *want = NULL;
    size_t size = 0;

    (void)state;
    make_source(&(struct tiny_params){.seed = 1});
    for (int rotate = 0; rotate < 2; rotate++) {
        r.rotate = rotate ? RECIPE_ROTATE_AUTO : RECIPE_ROTATE_NONE;
        for (size_t i = 0; i < countof(threads); i++) {
            struct pool *pool = pool_new(threads[i]);
            struct pipeline_params p = {.source = src,
                                        .output = out,
                                        .recipe = &r,
                                        .force = true,
                                        .env = {.pool = pool}};
            struct report report;
            struct b2_err err = {0};
            if (pipeline_run(&report, &p, &err))
                fail_msg("%s", err.msg);
            report_free(&report);
            pool_free(pool);
            if (i == 0)
                want = slurp(out, &size);
            else
                assert_same_file(out, want, size);
        }
        mem_free(want);
    }
}

/* Says "stop" at the n-th question. */
static bool stop_at(void *ctx)
{
    int *left = ctx;

    return --*left < 0;
}

static void test_resume_after_any_stop(void **state)
{
    struct recipe r = recipe_of(NULL, "*=ternary", NULL);
    size_t size;
    int64_t most_resumed = 0;
    bool finished = false;

    (void)state;
    make_source(&(struct tiny_params){.seed = 2});
    compress_ok(&r, NULL);
    char *want = slurp(out, &size);
    /* Every moment of rounding and writing, a few of reading. */
    for (int n = 0; !finished; n += n < STOPS_IN_SCAN - 1 ? 7 : 1) {
        int left = n;
        struct pipeline_params p = {.source = src,
                                    .output = other,
                                    .recipe = &r,
                                    .env = {.cancelled = stop_at, .ctx = &left}};
        struct report report = {0};
        struct b2_err err = {0};
        enum b2_status rc = pipeline_run(&report, &p, &err);
        report_free(&report);
        finished = rc == B2_OK;
        if (!finished) {
            assert_int_equal(rc, B2_ECANCEL);
            assert_false(file_exists(other));
            p.env = (struct scan_env){0};
            if (pipeline_run(&report, &p, &err))
                fail_msg("stopped at %d, then: %s", n, err.msg);
            most_resumed = max_i64(most_resumed, report.pieces_resumed);
            /* The report of a resumed run knows the errors of what it did not do. */
            for (int64_t i = 0; i < report.n; i++)
                assert_true(report.tensor[i].copy || report.tensor[i].error > 0.0 ||
                            report.tensor[i].why == CHOOSE_VECTOR);
            report_free(&report);
        }
        assert_same_file(other, want, size);
        assert_int_equal(file_remove(other, NULL), B2_OK);
    }
    assert_int_equal(most_resumed, 4); /* embedding, two layers, last norm */
    mem_free(want);
}

/* Leaves an unfinished run of r for out behind, with all pieces done but the output not
 * written, or fewer. */
static void leave_state(const struct recipe *r, int stop)
{
    struct pipeline_params p = {.source = src,
                                .output = out,
                                .recipe = r,
                                .force = true,
                                .env = {.cancelled = stop_at, .ctx = &stop}};
    struct report report = {0};
    struct b2_err err = {0};

    assert_int_equal(pipeline_run(&report, &p, &err), B2_ECANCEL);
    assert_non_null(strstr(err.msg, "b2work"));
    assert_non_null(strstr(err.msg, "same command"));
    assert_true(file_exists(work));
}

static void test_foreign_state(void **state)
{
    struct recipe a = recipe_of(NULL, "*=ternary", NULL);
    struct recipe b = recipe_of(NULL, "*=Q4_0", NULL);
    struct b2_err err = {0};
    struct report report = {0};
    struct pipeline_params p = {.source = src, .output = out, .recipe = &b};
    size_t size;

    (void)state;
    make_source(&(struct tiny_params){.seed = 3});
    compress_ok(&b, NULL);
    char *want = slurp(out, &size);
    assert_int_equal(file_remove(out, NULL), B2_OK);
    leave_state(&a, STOPS_IN_SCAN + 8);
    assert_int_equal(pipeline_run(&report, &p, &err), B2_EEXIST);
    assert_non_null(strstr(err.msg, "unfinished run"));
    assert_true(file_exists(work)); /* untouched */
    p.force = true;
    assert_int_equal(pipeline_run(&report, &p, &err), B2_OK);
    report_free(&report);
    assert_same_file(out, want, size);
    mem_free(want);

    /* A state in which nothing is finished yet is no work to lose: it gives way. */
    assert_int_equal(file_remove(out, NULL), B2_OK);
    leave_state(&a, STOPS_IN_SCAN);
    p.force = false;
    assert_int_equal(pipeline_run(&report, &p, &err), B2_OK);
    report_free(&report);

    /* A source that changed is another state. */
    leave_state(&b, STOPS_IN_SCAN + 8);
    make_source(&(struct tiny_params){.seed = 4});
    p.force = false;
    assert_int_equal(file_remove(out, NULL), B2_OK);
    assert_int_equal(pipeline_run(&report, &p, &err), B2_EEXIST);
    compress_ok(&b, NULL);

    /* An output that is there is not replaced unasked. */
    assert_int_equal(pipeline_run(&report, &p, &err), B2_EEXIST);
    assert_non_null(strstr(err.msg, "--force"));
}

static void test_damaged_piece_and_lock(void **state)
{
    struct recipe r = recipe_of(NULL, "*=ternary", NULL);
    struct b2_err err = {0};
    char path[700];
    size_t size, piece_size;
    int fd;

    (void)state;
    make_source(&(struct tiny_params){.seed = 5});
    compress_ok(&r, NULL);
    char *want = slurp(out, &size);

    static const char *const names[] = {"00000.piece", "00001.piece", "00002.piece"};
    for (size_t i = 0; i < countof(names); i++) {
        leave_state(&r, 2 * STOPS_IN_SCAN); /* all pieces, nothing written */
        snprintf(path, sizeof path, "%s/%s", work, names[i]);
        assert_true(file_exists(path));
        char *piece = slurp(path, &piece_size);
        piece[i == 1 ? piece_size - 150 : 10] ^= 4; /* statistics, payload */
        assert_int_equal(file_write_all(path, piece,
                                        i == 2 ? piece_size - 1 : piece_size, true,
                                        NULL),
                         B2_OK);
        mem_free(piece);
        compress_ok(&r, NULL);
        assert_same_file(out, want, size);
    }
    mem_free(want);

    assert_int_equal(file_make_dir(work, NULL), B2_OK);
    snprintf(path, sizeof path, "%s/lock", work);
    assert_int_equal(file_lock(&fd, path, NULL), B2_OK);
    assert_int_equal(compress(&r, NULL, &err), B2_EEXIST);
    assert_non_null(strstr(err.msg, "another process"));
    file_unlock(fd);
    compress_ok(&r, NULL);
}

static void test_dry_run(void **state)
{
    struct recipe r = recipe_of("400000", NULL, NULL);
    struct pipeline_params p = {.source = src, .recipe = &r, .dry_run = true};
    struct report dry, report;
    struct b2_err err = {0};

    (void)state;
    make_source(&(struct tiny_params){.seed = 11});
    if (file_exists(out))
        assert_int_equal(file_remove(out, NULL), B2_OK);
    assert_int_equal(pipeline_run(&dry, &p, &err), B2_OK);
    assert_false(file_exists(out) || file_exists(work));
    compress_ok(&r, &report);
    assert_int_equal(dry.output_bytes, report.output_bytes);
    assert_int_equal(dry.n, report.n);
    for (int64_t i = 0; i < dry.n; i++) {
        assert_int_equal(dry.tensor[i].type, report.tensor[i].type);
        /* At least every second row was a sample here. */
        assert_true(fabs(dry.tensor[i].error - report.tensor[i].error) <
                    0.1 * report.tensor[i].error + 1e-9);
    }
    report_free(&dry);
    report_free(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_for_any_threads),
        cmocka_unit_test(test_resume_after_any_stop),
        cmocka_unit_test(test_foreign_state),
        cmocka_unit_test(test_damaged_piece_and_lock),
        cmocka_unit_test(test_dry_run),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}

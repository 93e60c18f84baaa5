/*
 * pipeline_fixture.h - what the tests of whole compressions share: paths, a tiny source,
 * recipes from words, and files compared. Include it once a program.
 */
#ifndef UNIT_PIPELINE_FIXTURE_H
#define UNIT_PIPELINE_FIXTURE_H

#include "unit/unit.h"

#include "base/mem.h"
#include "compress/pipeline.h"
#include "unit/scratch.h"
#include "unit/tiny_model.h"

static struct scratch scratch;

/* Paths of this test, side by side: scratch_path() keeps only one. */
static char src[600], out[600], other[600], work[620];

static inline void set_paths(void)
{
    snprintf(src, sizeof src, "%s/source.gguf", scratch.dir);
    snprintf(out, sizeof out, "%s/out.gguf", scratch.dir);
    snprintf(other, sizeof other, "%s/other.gguf", scratch.dir);
    snprintf(work, sizeof work, "%s.b2work", out);
}

static inline void make_source(const struct tiny_params *p)
{
    struct b2_err err = {0};

    if (tiny_model_write(src, p, &err))
        fail_msg("source: %s", err.msg);
}

/* A recipe from words: budget (may be NULL) and rules. */
static inline struct recipe recipe_of(const char *budget, const char *rule1,
                                      const char *rule2)
{
    struct recipe r = {.seed = 1};

    if (budget)
        assert_int_equal(recipe_set_budget(&r, budget, NULL), B2_OK);
    if (rule1)
        assert_int_equal(recipe_add_rule(&r, rule1, NULL), B2_OK);
    if (rule2)
        assert_int_equal(recipe_add_rule(&r, rule2, NULL), B2_OK);
    return r;
}

static inline enum b2_status compress(const struct recipe *r, struct report *report,
                                      struct b2_err *err)
{
    struct pipeline_params p = {
        .source = src, .output = out, .recipe = r, .force = true};
    struct report own = {0};
    enum b2_status rc = pipeline_run(&own, &p, err);

    if (report)
        *report = own;
    else
        report_free(&own);
    return rc;
}

static inline void compress_ok(const struct recipe *r, struct report *report)
{
    struct b2_err err = {0};

    if (compress(r, report, &err))
        fail_msg("compress: %s", err.msg);
    assert_false(file_exists(work));
}

/* The bytes of a file; mem_free(). */
static inline char *slurp(const char *path, size_t *size)
{
    struct b2_err err = {0};
    char *data = NULL;

    if (file_read_all(&data, size, path, 64 << 20, &err))
        fail_msg("%s", err.msg);
    return data;
}

static inline void assert_same_file(const char *path, const char *want,
                                    size_t want_size)
{
    size_t size;
    char *data = slurp(path, &size);

    assert_int_equal(size, want_size);
    assert_memory_equal(data, want, size);
    mem_free(data);
}

static inline struct modelfile *open_out(void)
{
    struct modelfile *mf = NULL;
    struct b2_err err = {0};

    if (modelfile_open(&mf, out, NULL, &err))
        fail_msg("%s", err.msg);
    return mf;
}

static inline enum dtype out_type(const struct modelfile *mf, const char *name)
{
    int64_t i = modelfile_find(mf, name);

    assert_true(i >= 0);
    return modelfile_tensor(mf, i)->type;
}

static inline int set_up(void **state)
{
    (void)state;
    scratch_make(&scratch);
    set_paths();
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

#endif

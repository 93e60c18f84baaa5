/*
 * test_compress_pad.c - --tail pad from the source to the file, and what other commands
 * make of that file. Rows of 192 become rows of 256 = 2 groups of PTQ1_0.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "unit/unit.h"

#include "base/mem.h"
#include "compress/convert.h"
#include "compress/pipeline.h"
#include "model/model.h"
#include "tensor/quant.h"
#include "unit/scratch.h"
#include "unit/tiny_model.h"

#include <math.h>

enum { STORED = 256, N_WIDE = 1 + 6 * TINY_LAYERS }; /* embedding; q k v o gate up */

static struct scratch scratch;
static char src[600], out[600], other[600];

static void must(enum b2_status rc, const struct b2_err *err)
{
    if (rc)
        fail_msg("%s", err->msg);
}

static struct modelfile *open_file(const char *path)
{
    struct modelfile *mf = NULL;
    struct b2_err err = {0};

    must(modelfile_open(&mf, path, NULL, &err), &err);
    return mf;
}

static const struct tensor *tensor_of(struct modelfile *mf, const char *name)
{
    struct b2_err err = {0};
    int64_t i = modelfile_find(mf, name);

    assert_true(i >= 0);
    must(modelfile_load(mf, i, &err), &err);
    return modelfile_tensor(mf, i);
}

static struct recipe pad_recipe(const char *rule)
{
    struct recipe r = {.seed = 1, .tail = RECIPE_TAIL_PAD};

    if (rule)
        assert_int_equal(recipe_add_rule(&r, rule, NULL), B2_OK);
    return r;
}

static enum b2_status compress(const char *from, const char *to, const struct recipe *r,
                               struct report *report, struct b2_err *err)
{
    struct pipeline_params p = {
        .source = from, .output = to, .recipe = r, .force = true};
    struct report own;
    enum b2_status rc = pipeline_run(&own, &p, err);

    if (rc == B2_OK && report)
        *report = own;
    else if (rc == B2_OK)
        report_free(&own);
    return rc;
}

static void make_padded(struct report *report)
{
    struct b2_err err = {0};
    struct recipe r = pad_recipe("*=PTQ1_0");

    must(tiny_model_write(src, &(struct tiny_params){.seed = 31}, &err), &err);
    must(compress(src, out, &r, report, &err), &err);
}

/* Shapes, keys, and values against the source without any help of the report. */
static void test_file(void **state)
{
    struct report report = {0};
    int n_padded = 0;

    (void)state;
    make_padded(&report);
    struct modelfile *mf = open_file(out), *from = open_file(src);
    int64_t n_params = 0;
    uint64_t bytes = 0;
    assert_int_equal(report.n, modelfile_n_tensors(mf));
    for (int64_t i = 0; report.tensor && i < report.n; i++) {
        const struct tensor *s = modelfile_tensor(from, i);
        const struct tensor *t = tensor_of(mf, s->name);
        const struct report_tensor *rt = &report.tensor[i];
        bool wide = s->rank == 2 && s->ne[0] == TINY_D;
        double sum = 0, energy = 0;
        float row[STORED] = {0};
        assert_int_equal(t->ne[0], wide ? STORED : s->ne[0]);
        assert_int_equal(t->pad, wide ? STORED - TINY_D : 0);
        assert_int_equal(rt->pad, t->pad);
        assert_int_equal(rt->stat.n, tensor_count(s));
        n_padded += t->pad > 0;
        n_params += tensor_count(t);
        bytes += t->n_bytes;
        for (int64_t r = 0; r < tensor_rows(t); r++) {
            const float *w = (const float *)(const void *)s->data + r * s->ne[0];
            quant_decode_row(t->type, row,
                             t->data +
                                 (uint64_t)r * t->n_bytes / (uint64_t)tensor_rows(t),
                             t->ne[0]);
            for (int64_t c = 0; c < t->ne[0]; c++) {
                double d = c < s->ne[0] ? (double)w[c] - (double)row[c] : 0.0;
                sum += d * d;
                energy += c < s->ne[0] ? (double)w[c] * (double)w[c] : 0.0;
                assert_true(c < s->ne[0] || row[c] == 0.0f); /* zero codes */
            }
        }
        assert_true(fabs(sum / energy - rt->error) <= 1e-9);
        assert_true(t->rank == 1 || sum < 0.4 * energy);
    }
    assert_int_equal(n_padded, N_WIDE);
    assert_int_equal(report.padded, N_WIDE);
    assert_int_equal(n_params, report.n_params);  /* padding is no parameter … */
    assert_int_equal(bytes, report.tensor_bytes); /* … but it takes bytes */
    assert_int_equal(report.output_bytes, modelfile_bytes(mf));
    modelfile_close(from);
    modelfile_close(mf);
    report_free(&report);
}

/* The text and the JSON say it; a model that is opened has the true widths. */
static void test_said(void **state)
{
    struct str text = {0};
    struct report report = {0};
    struct model *m = NULL;
    struct b2_err err = {0};
    const struct model_params mp = {.no_tokenizer = true};

    (void)state;
    make_padded(&report);
    report_text(&report, true, &text);
    assert_true(str_ok(&text));
    assert_non_null(strstr(text.data, "padding      13 tensors"));
    assert_non_null(strstr(text.data, "192 stored as 256"));
    str_free(&text);
    report_free(&report);
    must(model_open(&m, out, &mp, &err), &err);
    assert_int_equal(m->embd.cols, TINY_D);
    assert_int_equal(m->embd.pad, STORED - TINY_D);
    assert_int_equal(m->layers[1].up.pad, STORED - TINY_D);
    assert_int_equal(m->layers[1].down.pad, 0);
    model_close(m);
}

/* Same bytes at any number of threads; budgets hold; rotation comes before padding. */
static void test_ways(void **state)
{
    static const char *const budgets[] = {"163000", "200000", "2.3bpw"};
    struct b2_err err = {0};
    struct recipe r = pad_recipe("*=PTQ1_0");
    struct report report = {0};
    char first[65], hex[65];
    const struct model_params mp = {.no_tokenizer = true};
    struct model *m = NULL;

    (void)state;
    r.rotate = RECIPE_ROTATE_AUTO;
    must(tiny_model_write(src, &(struct tiny_params){.seed = 32}, &err), &err);
    for (int n = 1; n <= 7; n += 3) {
        struct pool *pool = pool_new(n);
        struct pipeline_params p = {.source = src,
                                    .output = out,
                                    .recipe = &r,
                                    .force = true,
                                    .env.pool = pool};
        must(pipeline_run(&report, &p, &err), &err);
        assert_int_equal(report.rotate_block, 64);
        report_free(&report);
        pool_free(pool);
        struct modelfile *mf = open_file(out);
        must(modelfile_sha256(mf, hex, &err), &err);
        modelfile_close(mf);
        if (n == 1)
            memcpy(first, hex, sizeof first);
        assert_string_equal(hex, first);
    }
    must(model_open(&m, out, &mp, &err), &err);
    assert_int_equal(m->layers[0].q.rot->width, TINY_D);
    assert_int_equal(m->layers[0].q.pad, STORED - TINY_D);
    model_close(m);
    for (size_t i = 0; i < countof(budgets); i++) {
        r = pad_recipe(NULL);
        must(recipe_set_budget(&r, budgets[i], &err), &err);
        must(compress(src, out, &r, &report, &err), &err);
        struct modelfile *mf = open_file(out);
        ROW_CHECK(i, modelfile_bytes(mf) == report.output_bytes);
        ROW_CHECK(i,
                  !report.budget_bytes || report.output_bytes <= report.budget_bytes);
        ROW_CHECK(i,
                  report.budget_bpw <= 0.0 || report_bits_per_weight(&report) <= 2.3);
        modelfile_close(mf);
        report_free(&report);
    }
}

/* A padded file as a source: its bytes are kept, or its values go on without padding. */
static void test_as_source(void **state)
{
    static const struct {
        const char *rule;
        enum recipe_tail tail;
        enum dtype type;
        int64_t pad;
    } cases[] = {
        {"*=keep", RECIPE_TAIL_REFUSE, DT_PTQ1_0, 64},
        {"*=PTQ1_0", RECIPE_TAIL_REFUSE, DT_PTQ1_0, 64},
        {"*=Q2_0", RECIPE_TAIL_REFUSE, DT_Q2_0, 0},
        {"*=F16", RECIPE_TAIL_REFUSE, DT_F16, 0},
        {"*=PQ2_0", RECIPE_TAIL_PAD, DT_PQ2_0, 64},
        {"*=ternary", RECIPE_TAIL_PAD, DT_Q2_0, 0}, /* a group divides: none needed */
    };
    static const char name[] = "blk.0.attn_q.weight";
    struct b2_err err = {0};

    (void)state;
    make_padded(NULL);
    struct modelfile *from = open_file(out);
    const struct tensor *s = tensor_of(from, name);
    for (size_t i = 0; i < countof(cases); i++) {
        struct recipe r = pad_recipe(cases[i].rule);
        r.tail = cases[i].tail;
        must(compress(out, other, &r, NULL, &err), &err);
        struct modelfile *mf = open_file(other);
        const struct tensor *t = tensor_of(mf, name);
        float a[STORED], b[STORED];
        ROW_CHECK(i, t->type == cases[i].type && t->pad == cases[i].pad);
        ROW_CHECK(i, t->ne[0] == TINY_D + cases[i].pad);
        quant_decode_row(s->type, a, s->data, STORED);
        quant_decode_row(t->type, b, t->data, t->ne[0]);
        for (int c = 0; c < TINY_D && cases[i].type != DT_F16; c++)
            ROW_CHECK(i, fabsf(a[c] - b[c]) <= 1e-3f * fabsf(a[c]));
        if (t->type == s->type)
            assert_memory_equal(s->data, t->data, t->n_bytes);
        modelfile_close(mf);
    }
    modelfile_close(from);
}

static void test_export(void **state)
{
    static const struct {
        const char *format;
        enum dtype type;
        int64_t pad;
    } cases[] = {
        {"gguf", DT_PTQ1_0, 64},      {"gguf-ptq1_0", DT_PTQ1_0, 64},
        {"gguf-pq2_0", DT_PQ2_0, 64}, {"gguf-q2_0", DT_Q2_0, 0},
        {"gguf-f32", DT_F32, 0},
    };
    static const char name[] = "blk.1.ffn_up.weight";
    struct b2_err err = {0};
    struct convert_report report;

    (void)state;
    make_padded(NULL);
    struct modelfile *from = open_file(out);
    const struct tensor *s = tensor_of(from, name);
    for (size_t i = 0; i < countof(cases); i++) {
        struct convert_params p = {.format = cases[i].format, .force = true};
        float a[STORED], b[STORED];
        must(convert_model(from, other, &p, &report, &err), &err);
        ROW_CHECK(i, report.n_lossy == 0);
        struct modelfile *mf = open_file(other);
        const struct tensor *t = tensor_of(mf, name);
        ROW_CHECK(i, t->type == cases[i].type && t->pad == cases[i].pad);
        ROW_CHECK(i, t->ne[0] == TINY_D + cases[i].pad);
        ROW_CHECK(i, (meta_find(modelfile_meta(mf), "bonsai2.tail.names") != NULL) ==
                         (cases[i].pad > 0));
        for (int64_t r = 0; r < TINY_F; r += TINY_F - 1) {
            quant_decode_row(s->type, a, s->data + (uint64_t)r * s->n_bytes / TINY_F,
                             STORED);
            quant_decode_row(t->type, b, t->data + (uint64_t)r * t->n_bytes / TINY_F,
                             t->ne[0]);
            for (int c = 0; c < TINY_D; c++)
                ROW_CHECK(i, a[c] == b[c]);
        }
        modelfile_close(mf);
    }
    modelfile_close(from);
}

static void test_refusals(void **state)
{
    struct b2_err err = {0};
    struct recipe r = pad_recipe("*=Q1_0");

    (void)state;
    must(tiny_model_write(src, &(struct tiny_params){.seed = 33}, &err), &err);
    assert_int_equal(compress(src, out, &r, NULL, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "has no zero"));
    r = pad_recipe("*=PTQ1_0");
    r.tail = RECIPE_TAIL_REFUSE;
    assert_int_equal(compress(src, out, &r, NULL, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "remainder 64"));
    assert_non_null(strstr(err.msg, "--tail pad"));
}

static int setup(void **state)
{
    (void)state;
    scratch_make(&scratch);
    snprintf(src, sizeof src, "%s/source.gguf", scratch.dir);
    snprintf(out, sizeof out, "%s/out.gguf", scratch.dir);
    snprintf(other, sizeof other, "%s/other.gguf", scratch.dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file),   cmocka_unit_test(test_said),
        cmocka_unit_test(test_ways),   cmocka_unit_test(test_as_source),
        cmocka_unit_test(test_export), cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

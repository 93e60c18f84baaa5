/*
 * test_rotated.c - rotated ternary Qwen 3.5 models against transformers on what their
 * weights mean, and the compressor's rotation of such a model.
 *
 * golden/arch/rotated-*.gguf come from a script that shares no code with us
 * (make_rotated.py): packed trits of folded weights, grouped columns of ssm_out, a folded
 * token table; versions 1 and 2 of the contract, explicit and identity signs.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "base/rng.h"
#include "compress/convert.h"
#include "compress/convert_rows.h"
#include "compress/pipeline.h"
#include "tensor/hadamard.h"
#include "unit/golden_logits.h"
#include "unit/scratch.h"

static struct scratch scratch;
static float want[GL_T * GL_V], got[GL_T * GL_V];

static struct model *open_model(const char *path)
{
    const struct model_params p = {.no_tokenizer = true};
    struct model *m = NULL;
    struct b2_err err = {0};

    gl_must(model_open(&m, path, &p, &err), &err);
    return m;
}

static void test_goldens(void **state)
{
    static const struct way exact = {.exact = true, .threads = 2, .piece = GL_T};
    static const struct {
        const char *file, *golden;
        uint32_t version;
        bool explicit_signs, tied;
    } cases[] = {
        {"rotated-ptq1_0.gguf", "rotated.bin", 1, true, false},
        {"rotated-pq2_0.gguf", "rotated.bin", 1, true, false},
        {"rotated-tied.gguf", "rotated-tied.bin", 2, false, true},
    };
    static struct golden g;

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/arch/%s", B2_GOLDEN_DIR, cases[i].file);
        struct model *m = open_model(path);
        assert_int_equal(m->rotation.version, cases[i].version);
        assert_int_equal(m->rotation.explicit_signs, cases[i].explicit_signs);
        assert_int_equal(m->tied, cases[i].tied);
        assert_non_null(m->layers[0].delta->out.rot);
        assert_true(m->layers[0].delta->out.rot->head > 0);
        assert_null(m->layers[0].delta->alpha.rot);
        assert_non_null(m->embd.rot);
        gl_read(&g, cases[i].golden);
        gl_run(got, m, g.ids, &exact);
        model_close(m);
        gl_check(cases[i].file, &g, got);
        if (i == 1) /* the same weights in another type: the same bits */
            assert_memory_equal(got, want, sizeof want);
        memcpy(want, got, sizeof want);
    }
}

/* The fixtures have no vocabulary, which a folder needs: that of another one is lent. */
static void lend_vocabulary(struct modelfile *mf)
{
    struct modelfile *from = NULL;
    struct b2_err err = {0};
    union {
        const struct meta *shared;
        struct meta *own;
    } m = {modelfile_meta(mf)};

    gl_must(modelfile_open(&from, B2_GOLDEN_DIR "/arch/qwen35", NULL, &err), &err);
    for (int64_t i = 0; i < meta_count(modelfile_meta(from)); i++) {
        const struct meta_kv *kv = meta_at(modelfile_meta(from), i);
        if (strncmp(kv->key, "tokenizer.", 10) == 0)
            gl_must(meta_copy(m.own, kv, &err), &err);
    }
    modelfile_close(from);
}

/* Folders have no rotation: what is exported to one is rotated back, heads and all; and
 * so is a GGUF that shall have none. */
static void test_unpacked(void **state)
{
    static const struct way exact = {.exact = true, .threads = 2, .piece = GL_T};
    static const struct {
        const char *file, *golden, *format, *out;
    } cases[] = {
        {"rotated-ptq1_0.gguf", "rotated.bin", "hf-f32", "unpacked"},
        {"rotated-tied.gguf", "rotated-tied.bin", "hf-f32", "unpacked"},
        {"rotated-pq2_0.gguf", "rotated.bin", "gguf-f32", "unpacked.gguf"},
        {"rotated-tied.gguf", "rotated-tied.bin", "gguf-f32", "unpacked.gguf"},
    };
    static struct golden g;

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        const struct convert_params p = {
            .format = cases[i].format, .force = true, .unrotate = true};
        struct convert_report report;
        struct modelfile *mf = NULL;
        struct b2_err err = {0};
        char path[512];
        snprintf(path, sizeof path, "%s/arch/%s", B2_GOLDEN_DIR, cases[i].file);
        gl_must(modelfile_open(&mf, path, NULL, &err), &err);
        lend_vocabulary(mf);
        gl_must(
            convert_model(mf, scratch_path(&scratch, cases[i].out), &p, &report, &err),
            &err);
        modelfile_close(mf);
        assert_true(report.n_unrotated > 0);
        struct model *m = open_model(scratch.path);
        assert_int_equal(m->rotation.version, 0);
        gl_read(&g, cases[i].golden);
        gl_run(got, m, g.ids, &exact);
        model_close(m);
        gl_check(cases[i].file, &g, got);
    }
}

/* Pieces and threads, with activations in 8 bits. */
static void test_same_bits(void **state)
{
    static const struct way ways[] = {
        {false, 1, GL_T}, {false, 2, 64}, {false, 7, 7}, {false, 1, 1}};
    static struct golden g;
    struct model *m = open_model(B2_GOLDEN_DIR "/arch/rotated-ptq1_0.gguf");

    (void)state;
    gl_read(&g, "rotated.bin");
    for (size_t k = 0; k < countof(ways); k++) {
        gl_run(got, m, g.ids, &ways[k]);
        if (k == 0)
            memcpy(want, got, sizeof want);
        if (memcmp(got, want, sizeof want) != 0)
            fail_msg("pieces of %d: other bits", (int)ways[k].piece);
    }
    model_close(m);
}

/* y = W x of a weight for one fixed x. */
static void product(float *y, const struct model *m, const struct weight *w)
{
    struct rng rng = rng_make(3);
    struct act *a = NULL;
    struct rig r;

    assert_int_equal(rig_open(&r, m, 1, true, NULL, NULL), B2_OK);
    assert_int_equal(act_new(&a, r.be, 1, w->cols, NULL), B2_OK);
    for (int64_t i = 0; i < w->cols; i++)
        a->x[i] = (float)rng_normal(&rng);
    act_changed(a, 1, w->cols);
    backend_matmul(r.be, y, w, a);
    act_free(r.be, a);
    rig_close(&r);
}

/* The compressor folds ssm_out in the order of heads that it declares: the product with an
 * activation is off by what rounding to trits costs, not by another order (1.4 then). */
static void test_compress(void **state)
{
    struct recipe recipe = {.seed = 1, .rotate = 32};
    struct report report;
    struct b2_err err = {0};
    float y[64], y_want[64];
    const char *out = scratch_path(&scratch, "out.gguf");
    const struct pipeline_params p = {.source = B2_GOLDEN_DIR "/arch/qwen35",
                                      .output = out,
                                      .recipe = &recipe,
                                      .force = true};

    (void)state;
    gl_must(recipe_add_rule(&recipe, "*=keep", &err), &err);
    gl_must(recipe_add_rule(&recipe, "blk.*.ssm_out.weight=Q2_0", &err), &err);
    gl_must(recipe_add_rule(&recipe, "blk.*.attn_gate.weight=Q2_0", &err), &err);
    gl_must(pipeline_run(&report, &p, &err), &err);
    report_free(&report);
    struct model *before = open_model(p.source), *after = open_model(out);
    assert_true(after->rotation.gdn_v_grouped);
    for (int64_t i = 0; i < before->hp.n_layers; i++) {
        const struct delta_weights *b = before->layers[i].delta;
        const struct delta_weights *a = after->layers[i].delta;
        if (!b)
            continue;
        assert_true(a->out.rot && a->out.rot->head == 16 && a->out.rot->reps == 2);
        assert_true(a->z.rot && a->z.rot->head == 0);
        assert_int_equal(a->alpha.type, b->alpha.type);
        product(y, after, &a->out);
        product(y_want, before, &b->out);
        assert_true(gl_error(y, y_want, 64) < 0.7f);
        product(y, after, &a->z);
        product(y_want, before, &b->z);
        assert_true(gl_error(y, y_want, 64) < 0.7f);
    }
    model_close(before);
    model_close(after);
}

/* The file of one type exported as the other has the other's bytes, tensor by tensor. */
static void test_export(void **state)
{
    static const char *const files[] = {"rotated-ptq1_0.gguf", "rotated-pq2_0.gguf"};
    static const char *const formats[] = {"gguf-ptq1_0", "gguf-pq2_0"};
    struct b2_err err = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct convert_params p = {.format = formats[1 - i], .force = true};
        struct modelfile *from = NULL, *to = NULL, *golden = NULL;
        struct convert_report report;
        char path[512];
        snprintf(path, sizeof path, "%s/arch/%s", B2_GOLDEN_DIR, files[i]);
        gl_must(modelfile_open(&from, path, NULL, &err), &err);
        snprintf(path, sizeof path, "%s/arch/%s", B2_GOLDEN_DIR, files[1 - i]);
        gl_must(modelfile_open(&golden, path, NULL, &err), &err);
        gl_must(
            convert_model(from, scratch_path(&scratch, "e.gguf"), &p, &report, &err),
            &err);
        assert_int_equal(report.n_lossy, 0);
        gl_must(modelfile_open(&to, scratch.path, NULL, &err), &err);
        assert_int_equal(modelfile_n_tensors(to), modelfile_n_tensors(golden));
        for (int64_t k = 0; k < modelfile_n_tensors(golden); k++) {
            const struct tensor *a = modelfile_tensor(golden, k);
            int64_t at = modelfile_find(to, a->name);
            assert_true(at >= 0);
            gl_must(modelfile_load(golden, k, &err), &err);
            gl_must(modelfile_load(to, at, &err), &err);
            const struct tensor *b = modelfile_tensor(to, at);
            if (a->type != b->type || a->n_bytes != b->n_bytes ||
                memcmp(a->data, b->data, (size_t)a->n_bytes) != 0)
                fail_msg("%s: other bytes", a->name);
        }
        modelfile_close(from);
        modelfile_close(to);
        modelfile_close(golden);
    }
}

/* A row that was put into groups and folded comes back as it was. */
static void test_unfold(void **state)
{
    enum { WIDTH = 96 };
    const struct heads heads = {2, 6};
    struct rotate *fold = rotate_new(32, 7);
    struct arena *a = arena_new(1 << 20);
    struct rng rng = rng_make(4);
    struct convert_rows *rows = NULL;
    struct convert_error e = {0};
    float before[WIDTH], row[WIDTH], after[WIDTH], signs[WIDTH];
    struct b2_err err = {0};

    (void)state;
    gl_must(rotate_add_width(fold, WIDTH, &err), &err);
    for (int i = 0; i < WIDTH; i++)
        row[i] = before[i] = (float)rng_normal(&rng);
    heads_group(&heads, row, WIDTH);
    rotate_fold_row(fold, row, WIDTH);
    /* The signs from the fold of a row of ones, transformed back. */
    for (int i = 0; i < WIDTH; i++)
        signs[i] = 1.0f;
    rotate_fold_row(fold, signs, WIDTH);
    for (int i = 0; i < WIDTH; i += 32)
        hadamard_apply(signs + i, 32, 32);
    for (int i = 0; i < WIDTH; i++)
        signs[i] = signs[i] > 0 ? 1.0f : -1.0f;
    const struct rotation rot = {
        .width = WIDTH, .block = 32, .signs = signs, .head = 16, .reps = 3};
    const struct convert_rows_shape shape = {
        .from = DT_F32, .to = DT_F32, .n_src = WIDTH, .n_dst = WIDTH, .unfold = &rot};
    gl_must(convert_rows_new(&rows, &shape, a, &err), &err);
    gl_must(convert_rows_row(rows, (uint8_t *)after, (const uint8_t *)row, &e, &err),
            &err);
    for (int i = 0; i < WIDTH; i++)
        assert_true(fabsf(after[i] - before[i]) < 1e-5f);
    rotate_free(fold);
    arena_free(a);
}

/* Every word for the same order: the plain definition of FORMATS.md §1.5. */
static void test_heads(void **state)
{
    static const struct heads cases[] = {{2, 4}, {16, 48}, {3, 12}, {2, 6}, {8, 16}};
    float row[48 * 3];

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        int64_t k = cases[i].k, v = cases[i].v, reps = v / k;
        for (int64_t at = 0; at < 3 * v; at++)
            row[at] = (float)at;
        heads_group(&cases[i], row, 3 * v);
        for (int64_t g = 0; g < k; g++)
            for (int64_t r = 0; r < reps; r++)
                for (int64_t d = 0; d < 3; d++)
                    ROW_CHECK(i, row[(g * reps + r) * 3 + d] ==
                                     (float)((r * k + g) * 3 + d));
        heads_ungroup(&cases[i], row, 3 * v);
        for (int64_t at = 0; at < 3 * v; at++)
            ROW_CHECK(i, row[at] == (float)at);
    }
}

static int make_scratch(void **state)
{
    (void)state;
    scratch_make(&scratch);
    return 0;
}

static int remove_scratch(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),   cmocka_unit_test(test_unpacked),
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_compress),
        cmocka_unit_test(test_export),    cmocka_unit_test(test_unfold),
        cmocka_unit_test(test_heads),
    };

    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

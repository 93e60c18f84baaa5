/*
 * test_pipeline_types.c - what a compressed tiny model is made of: budgets to the byte,
 * types by rule, rotations and keys, refusals before any work.
 */
#define _GNU_SOURCE
#include "unit/pipeline_fixture.h"

#include "tensor/quant.h"

#include <math.h>

/* Budgets hold to the byte, down to the smallest file, which the refusal names. */
static void test_budgets(void **state)
{
    struct b2_err err = {0};
    struct recipe r = recipe_of("1000", NULL, NULL);
    uint64_t smallest = 0;
    double last_damage = HUGE_VAL;

    (void)state;
    make_source(&(struct tiny_params){.seed = 6});
    for (int rotate = 0; rotate < 2; rotate++) {
        r.rotate = rotate ? RECIPE_ROTATE_AUTO : RECIPE_ROTATE_NONE;
        r.budget_bytes = 1000;
        assert_int_equal(compress(&r, NULL, &err), B2_EARG);
        const char *number = strstr(err.msg, "give has ");
        assert_non_null(number);
        smallest = strtoull(number + 9, NULL, 10);
        /* The recipe with the budget is in the file: one digit more, 32 bytes at most. */
        r.budget_bytes = smallest + 32;
        compress_ok(&r, NULL);
        last_damage = HUGE_VAL;
        for (int step = 0; step <= 12; step += 3) {
            struct report report;
            uint64_t size;
            double damage = 0.0;
            r.budget_bytes = smallest + 32 + smallest * (uint64_t)(step * step) / 20;
            compress_ok(&r, &report);
            assert_int_equal(file_size(&size, out, NULL), B2_OK);
            assert_true(size <= r.budget_bytes);
            assert_int_equal(size, report.output_bytes);
            for (int64_t i = 0; i < report.n; i++)
                damage += report.tensor[i].stat.err;
            if (damage > last_damage * 1.2)
                fail_msg("step %d: %g after %g", step, damage, last_damage);
            last_damage = damage;
            report_free(&report);
        }
    }
}

static void test_bits_per_weight(void **state)
{
    struct recipe r = recipe_of("3.5bpw", NULL, NULL);
    struct report report;
    struct b2_err err = {0};

    (void)state;
    make_source(&(struct tiny_params){.seed = 7});
    compress_ok(&r, &report);
    assert_true(report_bits_per_weight(&report) <= 3.5);
    assert_true(report_bits_per_weight(&report) > 3.2);
    double sum = 0.0;
    for (int64_t i = 0; i < report.n; i++)
        sum += (double)report.tensor[i].n_bytes;
    assert_true(fabs(8.0 * sum / (double)report.n_params -
                     report_bits_per_weight(&report)) < 1e-12);
    report_free(&report);
    r.budget_bpw = 1.5;
    assert_int_equal(compress(&r, NULL, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "the smallest types give"));
}

/* Types by rule, and what is kept whatever the rules say. */
static void test_rules_and_keys(void **state)
{
    struct recipe r = recipe_of(NULL, "*=ternary", "token_embd.weight=Q8_0");
    struct report report;
    const char *text = NULL;
    uint32_t u = 0;

    (void)state;
    make_source(&(struct tiny_params){
        .seed = 8, .type = DT_BF16, .vec_type = DT_BF16, .zero_group = true});
    compress_ok(&r, &report);
    struct modelfile *mf = open_out();
    assert_int_equal(out_type(mf, "token_embd.weight"), DT_Q8_0);
    assert_int_equal(out_type(mf, "blk.0.attn_q.weight"), DT_Q2_0); /* 192 = 3 * 64 */
    assert_int_equal(out_type(mf, "blk.1.ffn_down.weight"), DT_TQ1_0);
    assert_int_equal(out_type(mf, "blk.1.attn_norm.weight"), DT_F32);
    for (int64_t i = 0; i < report.n; i++) {
        const struct report_tensor *t = &report.tensor[i];
        assert_int_equal(out_type(mf, t->name), t->type);
        assert_int_equal(t->stat.zero_groups, !strcmp(t->name, "blk.0.ffn_up.weight"));
        bool ternary = (dtype_info(t->type)->flags & DTF_TERNARY) != 0;
        assert_true(!ternary || (t->error > 0.1 && t->error < 0.35));
    }
    const struct meta *m = modelfile_meta(mf);
    assert_int_equal(meta_get_str(m, "tokenizer.chat_template", &text, NULL), B2_OK);
    assert_string_equal(text, "{{ messages }}");
    assert_int_equal(meta_get_str(m, "general.license", &text, NULL), B2_OK);
    assert_int_equal(meta_find(m, "tokenizer.ggml.tokens")->n, TINY_V);
    assert_int_equal(meta_get_u32(m, "general.file_type", &u, NULL), B2_OK);
    assert_int_equal(u, 41); /* most weights are Q2_0 */
    assert_int_equal(meta_get_u32(m, "general.quantization_version", &u, NULL), B2_OK);
    assert_int_equal(meta_get_str(m, "bonsai2.ternary.rule", &text, NULL), B2_OK);
    assert_string_equal(text, "ls");
    assert_int_equal(meta_get_str(m, "bonsai2.ternary.scale", &text, NULL), B2_OK);
    assert_int_equal(meta_get_str(m, "bonsai2.source.name", &text, NULL), B2_OK);
    assert_string_equal(text, "source.gguf");
    assert_int_equal(meta_get_str(m, "bonsai2.source.sha256", &text, NULL), B2_OK);
    assert_string_equal(text, report.source_sha256);
    assert_int_equal(meta_get_str(m, "bonsai2.recipe", &text, NULL), B2_OK);
    assert_string_equal(text, report.recipe);
    assert_null(meta_find(m, "general.alignment"));
    assert_null(meta_find(m, "prism.hadamard.version"));
    modelfile_close(mf);
    report_free(&report);
}

/* Folded weights times rotated inputs are the old products, up to rounding. */
static void test_rotation(void **state)
{
    struct recipe r = recipe_of(NULL, "*=ternary", "token_embd.weight=keep");
    struct report plain, report;
    const struct meta_str *names;
    uint64_t n;
    uint32_t block;
    struct b2_err err = {0};

    (void)state;
    make_source(&(struct tiny_params){.seed = 9, .untied = true});
    compress_ok(&r, &plain);
    r.rotate = RECIPE_ROTATE_AUTO;
    compress_ok(&r, &report);
    assert_int_equal(report.rotate_block, 64);
    struct modelfile *mf = open_out();
    const struct meta *m = modelfile_meta(mf);
    assert_int_equal(meta_get_u32(m, "prism.hadamard.block_size", &block, NULL), B2_OK);
    assert_int_equal(block, 64);
    assert_int_equal(meta_get_strs(m, "prism.hadamard.weight_names", &names, &n, NULL),
                     B2_OK);
    assert_int_equal(n, 7 * TINY_LAYERS + 1);
    assert_string_equal(names[n - 1].data, "output.weight");
    assert_int_equal(out_type(mf, "blk.1.ffn_down.weight"), DT_PTQ1_0);
    assert_int_equal(out_type(mf, "token_embd.weight"), DT_F32);

    double before = 0.0, after = 0.0; /* heavy tails: rotation must help */
    for (int64_t i = 0; i < report.n; i++) {
        if (report.tensor[i].fold) {
            before += plain.tensor[i].error;
            after += report.tensor[i].error;
        }
    }
    assert_true(after < 0.9 * before);
    modelfile_close(mf);
    report_free(&plain);
    report_free(&report);

    /* The rotated file as a source: its basis is kept, a second rotation refused. */
    assert_int_equal(file_rename(out, src, NULL), B2_OK);
    assert_int_equal(compress(&r, NULL, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "rotated already"));
    r.rotate = RECIPE_ROTATE_NONE;
    compress_ok(&r, NULL);
    mf = open_out();
    assert_non_null(meta_find(modelfile_meta(mf), "prism.hadamard.sign_values"));
    assert_non_null(meta_find(modelfile_meta(mf), "bonsai2.source.recipe"));
    modelfile_close(mf);

    make_source(&(struct tiny_params){.seed = 9});
    r.rotate = 128;
    assert_int_equal(compress(&r, NULL, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "remainder 64"));
}

static void test_refusals(void **state)
{
    static const struct {
        struct tiny_params source;
        const char *budget, *rule1, *rule2;
        enum b2_status rc;
        const char *says[4];
    } cases[] = {
        {{.bad_name = "blk.1.attn_k.weight",
          .bad_row = 3,
          .bad_col = 7,
          .bad_value = NAN},
         NULL,
         "*=ternary",
         NULL,
         B2_EFORMAT,
         {"blk.1.attn_k.weight", "row 3", "column 7", "NaN"}},
        {{.bad_name = "token_embd.weight",
          .bad_row = 319,
          .bad_col = 191,
          .bad_value = -INFINITY},
         "500000",
         NULL,
         NULL,
         B2_EFORMAT,
         {"token_embd.weight", "row 319", "column 191", "infinity"}},
        {{.bad_name = "blk.0.ffn_up.weight",
          .bad_row = 9,
          .bad_col = 1,
          .bad_value = 70000.0f},
         NULL,
         "*=ternary",
         NULL,
         B2_EUNSUP,
         {"blk.0.ffn_up.weight", "row 9", "column 1", "65504"}},
        {{0},
         NULL,
         "*=PTQ1_0",
         NULL,
         B2_EARG,
         {"token_embd.weight", "192", "128", "remainder 64"}},
        {{0},
         NULL,
         "blk.*=ternary",
         NULL,
         B2_EARG,
         {"token_embd.weight", "no rule", "--budget", ""}},
        {{0},
         NULL,
         "*=keep",
         "blk.*.attn_x.weight=keep",
         B2_EARG,
         {"attn_x", "matches no tensor", "", ""}},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct recipe r = recipe_of(cases[i].budget, cases[i].rule1, cases[i].rule2);
        struct b2_err err = {0};
        make_source(&cases[i].source);
        if (file_exists(out))
            assert_int_equal(file_remove(out, NULL), B2_OK);
        ROW_CHECK(i, compress(&r, NULL, &err) == cases[i].rc);
        for (int k = 0; k < 4; k++)
            ROW_CHECK(i, !cases[i].says[k] || strstr(err.msg, cases[i].says[k]));
        ROW_CHECK(i, !file_exists(out) && !file_exists(work)); /* before any work */
    }
}

static void test_tail_keep_and_exceptions(void **state)
{
    struct recipe r = recipe_of(NULL, "*=PTQ1_0", NULL);
    struct report report;
    struct str text = {0};

    (void)state;
    make_source(&(struct tiny_params){.seed = 10, .router = true});
    r.tail = RECIPE_TAIL_KEEP;
    compress_ok(&r, &report);
    struct modelfile *mf = open_out();
    assert_int_equal(out_type(mf, "blk.0.ffn_up.weight"), DT_Q8_0);
    assert_int_equal(out_type(mf, "blk.0.ffn_down.weight"), DT_PTQ1_0);
    modelfile_close(mf);
    report_text(&report, true, &text);
    assert_true(str_ok(&text));
    assert_non_null(strstr(text.data, "blk.0.ffn_up.weight is Q8_0"));
    str_free(&text);
    report_free(&report);

    /* A budget leaves what is no linear layer alone. */
    r = recipe_of("600000", NULL, NULL);
    compress_ok(&r, &report);
    mf = open_out();
    assert_int_equal(out_type(mf, "blk.0.ffn_gate_inp.weight"), DT_F32);
    modelfile_close(mf);
    report_free(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_bits_per_weight),
        cmocka_unit_test(test_rules_and_keys),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_tail_keep_and_exceptions),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}

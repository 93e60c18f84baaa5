/*
 * test_pipeline.c - the whole road on a tiny model: same bytes in every way there is to
 * get to them, budgets to the byte, refusals before any work.
 */
#define _GNU_SOURCE
#include "unit/unit.h"

#include "base/mem.h"
#include "compress/pipeline.h"
#include "tensor/quant.h"
#include "unit/scratch.h"
#include "unit/tiny_model.h"

#include <math.h>

/* Questions asked while the source is read: one per tensor. */
enum { STOPS_IN_SCAN = 2 + 9 * TINY_LAYERS };

static struct scratch scratch;

/* Paths of this test, side by side: scratch_path() keeps only one. */
static char src[600], out[600], other[600], work[620];

static void set_paths(void)
{
    snprintf(src, sizeof src, "%s/source.gguf", scratch.dir);
    snprintf(out, sizeof out, "%s/out.gguf", scratch.dir);
    snprintf(other, sizeof other, "%s/other.gguf", scratch.dir);
    snprintf(work, sizeof work, "%s.b2work", out);
}

static void make_source(const struct tiny_params *p)
{
    struct b2_err err = {0};

    if (tiny_model_write(src, p, &err))
        fail_msg("source: %s", err.msg);
}

/* A recipe from words: budget (may be NULL) and rules. */
static struct recipe recipe_of(const char *budget, const char *rule1, const char *rule2)
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

static enum b2_status compress(const struct recipe *r, struct report *report,
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

static void compress_ok(const struct recipe *r, struct report *report)
{
    struct b2_err err = {0};

    if (compress(r, report, &err))
        fail_msg("compress: %s", err.msg);
    assert_false(file_exists(work));
}

/* The bytes of a file; mem_free(). */
static char *slurp(const char *path, size_t *size)
{
    struct b2_err err = {0};
    char *data = NULL;

    if (file_read_all(&data, size, path, 64 << 20, &err))
        fail_msg("%s", err.msg);
    return data;
}

static void assert_same_file(const char *path, const char *want, size_t want_size)
{
    size_t size;
    char *data = slurp(path, &size);

    assert_int_equal(size, want_size);
    assert_memory_equal(data, want, size);
    mem_free(data);
}

static struct modelfile *open_out(void)
{
    struct modelfile *mf = NULL;
    struct b2_err err = {0};

    if (modelfile_open(&mf, out, NULL, &err))
        fail_msg("%s", err.msg);
    return mf;
}

static enum dtype out_type(const struct modelfile *mf, const char *name)
{
    int64_t i = modelfile_find(mf, name);

    assert_true(i >= 0);
    return modelfile_tensor(mf, i)->type;
}

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

static int setup(void **state)
{
    (void)state;
    scratch_make(&scratch);
    set_paths();
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
        cmocka_unit_test(test_same_for_any_threads),
        cmocka_unit_test(test_resume_after_any_stop),
        cmocka_unit_test(test_foreign_state),
        cmocka_unit_test(test_damaged_piece_and_lock),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_bits_per_weight),
        cmocka_unit_test(test_rules_and_keys),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_tail_keep_and_exceptions),
        cmocka_unit_test(test_dry_run),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

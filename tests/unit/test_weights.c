/*
 * test_weights.c - what a file must hold, and how its mistakes are told.
 */
#include "base/file.h"
#include "base/mem.h"
#include "format/tail.h"

#include "unit/unit.h"
#include "unit/variant.h"

#include <math.h>
#include <unistd.h>

/* Keeps the notes of an opening. */
static char notes[4096];

static void keep(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    size_t n = strlen(notes);
    snprintf(notes + n, sizeof notes - n, "%s\n", line);
}

static const struct log keeper = {.level = LOG_WARN, .sink = keep};
static const struct log strict_keeper = {
    .level = LOG_WARN, .sink = keep, .strict = true};

static enum b2_status open_variant(const struct variant *v, const struct log *log,
                                   struct b2_err *err)
{
    struct model *m = NULL;
    const struct model_params mp = {.log = log};

    notes[0] = '\0';
    enum b2_status rc = variant_open(&m, v, &mp, err);
    if (rc)
        assert_null(m);
    model_close(m);
    return rc;
}

static void test_refused(void **state)
{
    static const struct {
        struct variant v;
        enum b2_status want;
        const char *says;
    } cases[] = {
        {{.skip = "blk.2.attn_k.weight"},
         B2_ENOTFOUND,
         "blk.2.attn_k.weight is missing"},
        {{.skip = "output_norm.weight"}, B2_ENOTFOUND, "output_norm.weight is missing"},
        {{.skip = "token_embd.weight"}, B2_ENOTFOUND, "expected [64, 512]"},
        {{.resize = "blk.0.ffn_up.weight"},
         B2_EFORMAT,
         "expected [64, 172], found [64, 86, 1, 1]"},
        {{.resize = "token_embd.weight"}, B2_EFORMAT, "expected [64, 512]"},
        {{.add = "blk.0.attn_q.bias", .add_cols = 64, .add_rows = 1},
         B2_EUNSUP,
         "blk.0.attn_q.bias of a `llama`: biases"},
        {{.add = "blk.0.attn_q.scale", .add_cols = 1, .add_rows = 1},
         B2_EUNSUP,
         "per-tensor scales"},
        {{.add = "blk.0.attn_q_norm.weight", .add_cols = 8, .add_rows = 1},
         B2_EUNSUP,
         "further normalisation"},
        {{.add = "rope_factors_long.weight", .add_cols = 4, .add_rows = 1},
         B2_EUNSUP,
         "longrope"},
        {{.add = "rope_freqs.weight", .add_cols = 4, .add_rows = 1},
         B2_EFORMAT,
         "factor 0 is 0"},
        {{.add = "rope_freqs.weight", .add_cols = 5, .add_rows = 1},
         B2_EFORMAT,
         "expected [4, 1]"},
        {{.retype = "blk.0.attn_norm.weight", .type = DT_Q4_0},
         B2_EUNSUP,
         "found Q4_0"},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct b2_err err = {0};
        enum b2_status rc = open_variant(&cases[i].v, NULL, &err);
        if (rc != cases[i].want || !strstr(err.msg, cases[i].says))
            fail_msg("row %zu: status %d, %s", i, rc, err.msg);
    }
}

/* NaN in a norm poisons everything: found at opening. */
static void spoil_norm(const char *name, float *w, int64_t rows, int64_t cols)
{
    (void)rows;
    if (strcmp(name, "blk.1.ffn_norm.weight") == 0)
        w[cols - 1] = (float)NAN;
}

static void test_nan_in_norm(void **state)
{
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(open_variant(&(struct variant){.values = spoil_norm}, NULL, &err),
                     B2_EFORMAT);
    assert_non_null(strstr(err.msg, "blk.1.ffn_norm.weight"));
}

/* Unknown tensors and keys are named, and refused under --strict. */
static enum b2_status novel_key(struct meta *m, struct b2_err *err)
{
    return meta_set_u32(m, "llama.novelty", 1, err);
}

static void test_unexpected(void **state)
{
    const struct variant tensor = {
        .add = "extra.weight", .add_cols = 64, .add_rows = 2};
    const struct variant key = {.keys = novel_key};
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(open_variant(&tensor, &keeper, &err), B2_OK);
    assert_non_null(strstr(notes, "extra.weight"));
    assert_int_equal(open_variant(&tensor, &strict_keeper, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "extra.weight"));
    assert_int_equal(open_variant(&key, &keeper, &err), B2_OK);
    assert_non_null(strstr(notes, "llama.novelty"));
    assert_int_equal(open_variant(&key, &strict_keeper, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "llama.novelty"));
}

/* T07 (c): type 142 without a declared rotation runs, with one line. */
static void test_note_142(void **state)
{
    const struct variant v = {
        .add = "extra.weight", .add_cols = 128, .add_rows = 2, .type = DT_PQ2_0};
    struct b2_err err = {0};
    const char *at;

    (void)state;
    assert_int_equal(open_variant(&v, &keeper, &err), B2_OK);
    at = strstr(notes, "PQ2_0 weights without a declared rotation");
    assert_non_null(at);
    assert_null(strstr(at + 10, "PQ2_0 weights")); /* said once */
    assert_int_equal(open_variant(&(struct variant){0}, &keeper, &err), B2_OK);
    assert_string_equal(notes, "");
}

/* Weights of other types take their place; norms may be half floats. */
static void test_types(void **state)
{
    static const struct variant cases[] = {
        {.retype = "blk.0.attn_q.weight", .type = DT_Q8_0},
        {.retype = "blk.0.attn_q.weight", .type = DT_BF16},
        {.retype = "blk.4.ffn_gate.weight", .type = DT_Q2_0},
        {.retype = "token_embd.weight", .type = DT_Q4_1},
        {.retype = "blk.0.attn_norm.weight", .type = DT_F16},
        {.retype = "output_norm.weight", .type = DT_BF16},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct b2_err err = {0};
        if (open_variant(&cases[i], NULL, &err) != B2_OK)
            fail_msg("row %zu: %s", i, err.msg);
    }
}

/* A table of type 142 whose id is then changed to 42: the bytes of the legacy layout. */
static enum b2_status wide_keys(struct meta *m, struct b2_err *err)
{
    return meta_set_u32(m, "llama.embedding_length", 128, err);
}

/* Changes the type of the table in the file at path. */
static enum b2_status make_legacy(const char *path)
{
    static const char name[] = "token_embd.weight";
    char *bytes = NULL;
    size_t size, at = 0;
    enum b2_status rc = file_read_all(&bytes, &size, path, 1 << 24, NULL);

    if (rc)
        return rc;
    while (at + sizeof name < size && memcmp(bytes + at, name, sizeof name - 1) != 0)
        at++;
    at += sizeof name - 1 + 4 + 2 * 8; /* rank and two dimensions */
    if ((unsigned char)bytes[at] == 142) {
        bytes[at] = 42;
        rc = file_write_all(path, bytes, size, true, NULL);
    }
    mem_free(bytes);
    return rc;
}

static void test_legacy_42(void **state)
{
    const struct variant v = {.skip = "token_embd.weight",
                              .add = "token_embd.weight",
                              .add_cols = 128,
                              .add_rows = 512,
                              .type = DT_PQ2_0,
                              .keys = wide_keys};
    char path[64];
    struct model *m = NULL;
    struct b2_err err = {0};

    (void)state;
    snprintf(path, sizeof path, "legacy-%ld.gguf", (long)getpid());
    enum b2_status rc = variant_write(path, &v, &err);
    if (rc == B2_OK)
        rc = make_legacy(path);
    if (rc == B2_OK)
        rc = model_open(&m, path, NULL, &err);
    remove(path);
    assert_null(m);
    assert_int_equal(rc, B2_ELAYOUT);
    assert_non_null(strstr(err.msg, "token_embd.weight"));
    assert_non_null(strstr(err.msg, "--format gguf-pq2_0"));
}

/* attn_q of layer 0 in rows of 128, of which the keys say how many count. */
static uint32_t tail_width;

static enum b2_status tail_keys(struct meta *m, struct b2_err *err)
{
    static const struct meta_str name = {"blk.0.attn_q.weight", 19};

    return tail_set_keys(m, &name, &tail_width, 1, err);
}

/* Padding that matches the model is taken; another width, or none declared where the
 * stored one is not the model's, contradicts it. */
static void test_padded(void **state)
{
    static const struct {
        uint32_t width; /* 0: no keys */
        int64_t rows;
        enum b2_status want;
        const char *says;
    } cases[] = {
        {64, 64, B2_OK, ""},
        {63, 64, B2_EFORMAT, "expected rows of 64, but 63 of the 128 stored values"},
        {65, 64, B2_EFORMAT, "expected rows of 64, but 65 of the 128 stored values"},
        {64, 32, B2_EFORMAT, "expected [64, 64]"},
        {0, 64, B2_EFORMAT, "expected [64, 64], found [128, 64"},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        const struct variant v = {.skip = "blk.0.attn_q.weight",
                                  .add = "blk.0.attn_q.weight",
                                  .add_cols = 128,
                                  .add_rows = cases[i].rows,
                                  .type = DT_PTQ1_0,
                                  .keys = cases[i].width ? tail_keys : NULL};
        struct b2_err err = {0};
        tail_width = cases[i].width;
        enum b2_status rc = open_variant(&v, NULL, &err);
        if (rc != cases[i].want || !strstr(err.msg, cases[i].says))
            fail_msg("row %zu: status %d, %s", i, rc, err.msg);
    }
}

static void test_no_file(void **state)
{
    struct model *m = NULL;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(model_open(&m, "no/such/file.gguf", NULL, &err), B2_ENOTFOUND);
    assert_non_null(strstr(err.msg, "no/such/file.gguf"));
    assert_null(m);
    model_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_nan_in_norm),
        cmocka_unit_test(test_unexpected), cmocka_unit_test(test_note_142),
        cmocka_unit_test(test_legacy_42),  cmocka_unit_test(test_types),
        cmocka_unit_test(test_no_file),    cmocka_unit_test(test_padded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_convert.c - changes of type inside GGUF: what is exact stays exact, what is not is
 * refused or reported.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "compress/convert.h"

#include "base/mem.h"
#include "format/gguf.h"
#include "tensor/f16.h"
#include "tensor/quant.h"
#include "unit/gguf_build.h"
#include "unit/scratch.h"
#include "unit/unit.h"

#include <math.h>

enum { COLS = 512, ROWS = 3 };

struct source {           /* a model of two matrices and a vector */
    enum dtype type;      /* of the matrix w */
    float w[ROWS * COLS]; /* its values before encoding */
    bool code_3;          /* a fourth code in block 1 of row 2 */
};

/* Ternary values, one scale per 256: every ternary type holds them exactly. */
static void fill(struct source *s, enum dtype type)
{
    *s = (struct source){.type = type};
    for (int i = 0; i < ROWS * COLS; i++)
        s->w[i] = (float)(i * 7 % 11 % 3 - 1) * ldexpf(1.25f, -(i / 256) % 5);
}

static void must(enum b2_status rc, const struct b2_err *err)
{
    if (rc)
        fail_msg("%s", err->msg);
}

static void write_source(const struct source *s, const char *path)
{
    struct b2_err err = {0};
    struct meta *m = meta_new(1 << 20);
    struct gguf_out *o = NULL;
    uint8_t row[COLS * 4];
    uint64_t bytes;
    float embed[64];

    assert_non_null(m);
    must(meta_set_str(m, "general.architecture", "llama", &err), &err);
    must(meta_set_u32(m, "general.file_type", 999, &err), &err);
    must(gguf_out_open(&o, path, true, m, &err), &err);
    must(gguf_out_tensor(o, "token_embd.weight", DT_F32, 2, (int64_t[]){32, 2, 1, 1},
                         &err),
         &err);
    must(gguf_out_tensor(o, "blk.0.ffn_up.weight", s->type, 2,
                         (int64_t[]){COLS, ROWS, 1, 1}, &err),
         &err);
    must(gguf_out_tensor(o, "output_norm.weight", DT_F16, 1, (int64_t[]){3, 1, 1, 1},
                         &err),
         &err);
    must(gguf_out_header(o, &err), &err);
    for (int i = 0; i < 64; i++)
        embed[i] = (float)i / 3.0f;
    must(gguf_out_data(o, embed, sizeof embed, &err), &err);
    must(dtype_row_bytes(&bytes, s->type, COLS, &err), &err);
    for (int r = 0; r < ROWS; r++) {
        quant_encode_row(s->type, row, s->w + r * COLS, COLS);
        if (s->code_3 && r == 2)
            row[34 + 10] |= 3;
        must(gguf_out_data(o, row, (size_t)bytes, &err), &err);
    }
    must(gguf_out_data(o, "\0\x3c\0\x40\0\xbc", 6, &err), &err); /* 1, 2, -1 */
    must(gguf_out_finish(o, &err), &err);
    meta_free(m);
}

static enum b2_status run(const char *in, const char *out, const char *format,
                          bool lossy, struct convert_report *r, struct b2_err *err)
{
    struct convert_params p = {.format = format, .lossy = lossy};
    struct modelfile *mf = NULL;

    must(modelfile_open(&mf, in, NULL, err), err);
    enum b2_status rc = convert_model(mf, out, &p, r, err);
    modelfile_close(mf);
    return rc;
}

/* The type and the decoded rows of w in the file at path. */
static enum dtype read_back(const char *path, float *values, uint8_t *bytes)
{
    struct b2_err err = {0};
    struct modelfile *mf = NULL;

    must(modelfile_open(&mf, path, NULL, &err), &err);
    int64_t i = modelfile_find(mf, "blk.0.ffn_up.weight");
    assert_true(i >= 0);
    const struct tensor *t = modelfile_tensor(mf, i);
    must(modelfile_load(mf, i, &err), &err);
    quant_decode_row(t->type, values, t->data, ROWS * COLS);
    if (bytes)
        memcpy(bytes, t->data, (size_t)t->n_bytes);
    enum dtype type = t->type;
    modelfile_close(mf);
    return type;
}

struct paths {
    struct scratch s;
    char a[512], b[512], c[512];
};

static void paths_make(struct paths *p)
{
    scratch_make(&p->s);
    memcpy(p->a, scratch_path(&p->s, "a.gguf"), sizeof p->a);
    memcpy(p->b, scratch_path(&p->s, "b.gguf"), sizeof p->b);
    memcpy(p->c, scratch_path(&p->s, "c.gguf"), sizeof p->c);
}

static bool same_floats(const float *a, const float *b, int n)
{
    int i = 0;

    while (i < n && f32_bits(a[i]) == f32_bits(b[i]))
        i++;
    return i == n;
}

/* There and back gives the same bytes; the values are those of the source throughout. */
static void test_round_trips(void **state)
{
    static const struct {
        enum dtype from;
        const char *there, *back;
    } cases[] = {
        {DT_PTQ1_0, "gguf-pq2_0", "gguf-ptq1_0"},
        {DT_PQ2_0, "gguf-ptq1_0", "gguf-PQ2_0"},
        {DT_TQ1_0, "gguf-tq2_0", "gguf-tq1_0"},
        {DT_TQ2_0, "gguf-tq1_0", "gguf-tq2_0"},
        {DT_PQ2_0, "gguf-q2_0", "gguf-pq2_0"},
        {DT_TQ1_0, "gguf-ptq1_0", "gguf-tq1_0"},
        {DT_Q2_0, "gguf-f32", "gguf-q2_0"},
        {DT_PTQ1_0, "gguf-bf16", "gguf-f16"},
        {DT_F16, "gguf-f32", "gguf-f16"},
    };
    static float before[ROWS * COLS], after[ROWS * COLS];
    static uint8_t raw[2][ROWS * COLS * 4];
    struct paths p;
    struct source s;
    struct convert_report r;
    struct b2_err err = {0};

    (void)state;
    paths_make(&p);
    for (size_t i = 0; i < countof(cases); i++) {
        fill(&s, cases[i].from);
        write_source(&s, p.a);
        memset(raw, 0, sizeof raw);
        enum dtype from = read_back(p.a, before, raw[0]);
        (void)remove(p.b);
        (void)remove(p.c);
        struct convert_params only = {.format = cases[i].there,
                                      .only = "blk.*"}; /* the embedding stays */
        struct modelfile *mf = NULL;
        must(modelfile_open(&mf, p.a, NULL, &err), &err);
        must(convert_model(mf, p.b, &only, &r, &err), &err);
        modelfile_close(mf);
        ROW_CHECK(i, r.n_lossy == 0 && r.max_error == 0 && r.n_tensors == 3);
        ROW_CHECK(i, r.n_changed == 2); /* the matrix, and the vector to F32 */
        read_back(p.b, after, NULL);
        ROW_CHECK(i, same_floats(before, after, ROWS * COLS));
        only.format = cases[i].back;
        must(modelfile_open(&mf, p.b, NULL, &err), &err);
        must(convert_model(mf, p.c, &only, &r, &err), &err);
        modelfile_close(mf);
        enum dtype back = read_back(p.c, after, raw[1]);
        ROW_CHECK(i, same_floats(before, after, ROWS * COLS));
        if (back == from)
            ROW_CHECK(i, memcmp(raw[0], raw[1], sizeof raw[0]) == 0);
    }
    scratch_remove(&p.s);
}

/* There and back: the same file to the last byte. Keys around the one of the file's type
 * show that each stays where it was, and so does the alignment. */
static void test_same_file(void **state)
{
    static float w[ROWS * COLS];
    uint8_t rows[ROWS * COLS / 128 * 28];
    char *a = NULL, *c = NULL;
    size_t n_a = 0, n_c = 0;
    struct meta *m = meta_new(1 << 20);
    struct gguf_out *o = NULL;
    struct paths p;
    struct source s;
    struct convert_report r;
    struct b2_err err = {0};

    (void)state;
    paths_make(&p);
    fill(&s, DT_PTQ1_0);
    assert_non_null(m);
    must(meta_set_u32(m, "general.alignment", 64, &err), &err);
    must(meta_set_u32(m, "general.quantization_version", 2, &err), &err);
    must(meta_set_u32(m, "general.file_type", 143, &err), &err);
    must(meta_set_str(m, "general.architecture", "llama", &err), &err);
    must(gguf_out_open(&o, p.a, true, m, &err), &err);
    must(gguf_out_tensor(o, "blk.0.ffn_up.weight", DT_PTQ1_0, 2,
                         (int64_t[]){COLS, ROWS, 1, 1}, &err),
         &err);
    must(gguf_out_header(o, &err), &err);
    quant_encode_row(DT_PTQ1_0, rows, s.w, ROWS * COLS);
    must(gguf_out_data(o, rows, sizeof rows, &err), &err);
    must(gguf_out_finish(o, &err), &err);
    meta_free(m);
    must(run(p.a, p.b, "gguf-pq2_0", false, &r, &err), &err);
    assert_int_equal(read_back(p.b, w, NULL), DT_PQ2_0);
    must(run(p.b, p.c, "gguf-ptq1_0", false, &r, &err), &err);
    must(file_read_all(&a, &n_a, p.a, 1 << 20, &err), &err);
    must(file_read_all(&c, &n_c, p.c, 1 << 20, &err), &err);
    assert_int_equal(n_a, n_c);
    assert_memory_equal(a, c, n_a);
    mem_free(a);
    mem_free(c);
    scratch_remove(&p.s);
}

/* Id 42 with groups of 128, which our writer refuses to make: two tensors, built by hand. */
static void write_legacy(const uint8_t *blocks, size_t n, const char *path)
{
    static struct gb g;
    struct b2_err err = {0};

    g.n = 0;
    gb_header(&g, 3, 2, 1);
    gb_key_str(&g, "general.architecture", "llama");
    gb_tensor(&g, "blk.0.ffn_up.weight", COLS, ROWS, 42, 0);
    gb_tensor(&g, "output_norm.weight", 4, GB_RANK1, 0, align_up_u64(n, 32));
    gb_pad(&g, 32);
    gb_bytes(&g, blocks, n);
    gb_pad(&g, 32);
    gb_zeros(&g, 16);
    must(file_write_all(path, g.b, g.n, true, &err), &err);
}

/* The legacy layout of id 42 becomes PQ2_0 with the same bytes, whatever the format. */
static void test_legacy(void **state)
{
    static float after[ROWS * COLS];
    static uint8_t raw[ROWS * COLS * 4];
    uint8_t blocks[ROWS * COLS / 128 * 34];
    struct paths p;
    struct source s;
    struct convert_report r;
    struct b2_err err = {0};

    (void)state;
    paths_make(&p);
    fill(&s, DT_PQ2_0);
    quant_encode_row(DT_PQ2_0, blocks, s.w, ROWS * COLS);
    write_legacy(blocks, sizeof blocks, p.a);
    assert_int_equal(read_back(p.a, after, NULL), DT_Q2_0_G128);
    must(run(p.a, p.b, "gguf", false, &r, &err), &err);
    assert_int_equal(read_back(p.b, after, raw), DT_PQ2_0);
    assert_memory_equal(raw, blocks, sizeof blocks);
    assert_int_equal(r.n_changed, 1);
    assert_int_equal(r.n_lossy, 0);
    scratch_remove(&p.s);
}

/* A change of values is refused with the tensor and the error, and leaves no file; with
 * lossy it is measured. Rounding to BF16 is asked for by name and only measured. */
static void test_lossy(void **state)
{
    static const struct {
        const char *format;
        bool refused;
    } cases[] = {{"gguf-q8_0", true},
                 {"gguf-q4_0", true},
                 {"gguf-tq1_0", true},
                 {"gguf-bf16", false}};
    static float before[ROWS * COLS], after[ROWS * COLS];
    struct paths p;
    struct source s;
    struct convert_report r;
    struct b2_err err = {0};

    (void)state;
    paths_make(&p);
    fill(&s, DT_F32);
    for (int i = 0; i < ROWS * COLS; i++)
        s.w[i] += (float)(i % 13) * 1e-3f;
    write_source(&s, p.a);
    read_back(p.a, before, NULL);
    for (size_t i = 0; i < countof(cases); i++) {
        struct convert_params only = {.format = cases[i].format, .only = "blk.*"};
        struct modelfile *mf = NULL;
        double max = 0;
        (void)remove(p.b);
        must(modelfile_open(&mf, p.a, NULL, &err), &err);
        enum b2_status rc = convert_model(mf, p.b, &only, &r, &err);
        ROW_CHECK(i, rc == (cases[i].refused ? B2_EUNSUP : B2_OK));
        if (cases[i].refused) {
            ROW_CHECK(i, strstr(err.msg, "blk.0.ffn_up.weight"));
            ROW_CHECK(i, strstr(err.msg, "--lossy"));
            ROW_CHECK(i, !file_exists(p.b));
            only.lossy = true;
            must(convert_model(mf, p.b, &only, &r, &err), &err);
        }
        modelfile_close(mf);
        read_back(p.b, after, NULL);
        for (int k = 0; k < ROWS * COLS; k++)
            max = fmax(max, fabs((double)before[k] - (double)after[k]));
        ROW_CHECK(i, r.n_lossy == 1 && r.max_error == max && max > 0);
        ROW_CHECK(i, r.rms_error > 0 && r.rms_error < max);
        ROW_CHECK(i, strcmp(r.worst, "blk.0.ffn_up.weight") == 0);
    }
    scratch_remove(&p.s);
}

/* Values that no rounding can save are refused even where loss is allowed. */
static void test_refused(void **state)
{
    static const struct {
        float value;
        const char *format, *word;
        bool lossy;
    } cases[] = {
        {NAN, "gguf-q8_0", "column 5 is NaN", true},
        {INFINITY, "gguf-tq2_0", "column 5 is infinite", true},
        {1e9f, "gguf-tq2_0", "65504", true},
        {1e9f, "gguf-f16", "--lossy", false}, /* would become an infinity */
    };
    struct paths p;
    struct source s;
    struct convert_report r;
    struct b2_err err = {0};

    (void)state;
    paths_make(&p);
    for (size_t i = 0; i < countof(cases); i++) {
        fill(&s, DT_F32);
        s.w[2 * COLS + 5] = cases[i].value;
        write_source(&s, p.a);
        struct convert_params only = {
            .format = cases[i].format, .only = "blk.*", .lossy = cases[i].lossy};
        struct modelfile *mf = NULL;
        must(modelfile_open(&mf, p.a, NULL, &err), &err);
        ROW_CHECK(i, convert_model(mf, p.b, &only, &r, &err) != B2_OK);
        ROW_CHECK(i, strstr(err.msg, cases[i].word));
        ROW_CHECK(i, strstr(err.msg, "blk.0.ffn_up.weight"));
        ROW_CHECK(i, !file_exists(p.b));
        modelfile_close(mf);
    }
    /* A fourth code has no place in a ternary type: tensor, row and block are named. */
    fill(&s, DT_PQ2_0);
    s.code_3 = true;
    write_source(&s, p.a);
    assert_int_equal(run(p.a, p.b, "gguf-ptq1_0", false, &r, &err), B2_EFORMAT);
    assert_non_null(strstr(err.msg, "blk.0.ffn_up.weight"));
    assert_non_null(strstr(err.msg, "row 2"));
    assert_non_null(strstr(err.msg, "block 1"));
    must(run(p.a, p.b, "gguf-f32", false, &r, &err), &err); /* plainly +2 d there */
    /* Rows that the group does not divide, and outputs that are there. */
    assert_int_equal(run(p.a, p.c, "gguf-q8_0", true, &r, &err), B2_OK);
    assert_int_equal(run(p.a, p.c, "gguf", false, &r, &err), B2_EEXIST);
    fill(&s, DT_F32);
    write_source(&s, p.a);
    (void)remove(p.b);
    assert_int_equal(run(p.a, p.b, "gguf-ptq1_0", false, &r, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "token_embd.weight"));
    scratch_remove(&p.s);
}

static void test_formats(void **state)
{
    static const char *const good[] = {"gguf", "GGUF", "gguf-F32", "gguf-ptq1_0",
                                       "hf-bf16"};
    static const char *const bad[] = {"",        "gguf-",         "gguf-q4_k",
                                      "hf-q8_0", "gguff32",       "gguf-xx",
                                      "hf",      "gguf-q2_0_g128"};
    struct b2_err err = {0};

    (void)state;
    for (size_t i = 0; i < countof(good); i++)
        ROW_CHECK(i, convert_check_format(good[i], &err) == B2_OK);
    for (size_t i = 0; i < countof(bad); i++) {
        ROW_CHECK(i, convert_check_format(bad[i], &err) == B2_EARG);
        ROW_CHECK(i, strstr(err.msg, "hf-bf16"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_same_file),
        cmocka_unit_test(test_legacy),      cmocka_unit_test(test_lossy),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_formats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_tail.c - the declaration of padded rows: what it means, and each way to be wrong.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "format/tail.h"

#include "format/modelfile.h"
#include "unit/gguf_build.h"
#include "unit/scratch.h"
#include "unit/unit.h"

static struct scratch scratch;

struct keys { /* of one file; absent where NULL or n < 0 */
    const char *names[3];
    int n_names;
    uint32_t widths[3];
    int n_widths;
    const char *stranger; /* a further key */
    uint32_t width_type;  /* 0: u32 */
};

/* A vector, and matrices of 256 (Q2_0), 128 (PTQ1_0) and 8 (F32) columns. */
static void build(struct gb *g, const struct keys *k)
{
    int n_keys = (k->n_names >= 0) + (k->n_widths >= 0) + (k->stranger != NULL);

    *g = (struct gb){0};
    gb_header(g, 3, 4, (uint64_t)n_keys + 1);
    gb_key_str(g, "general.architecture", "llama");
    if (k->n_names >= 0) {
        gb_key(g, "bonsai2.tail.names", 9);
        gb_u32(g, 8);
        gb_u64(g, (uint64_t)k->n_names);
        for (int i = 0; i < k->n_names; i++)
            gb_str(g, k->names[i]);
    }
    if (k->n_widths >= 0) {
        gb_key(g, "bonsai2.tail.widths", 9);
        gb_u32(g, k->width_type ? k->width_type : 4);
        gb_u64(g, (uint64_t)k->n_widths);
        for (int i = 0; i < k->n_widths; i++)
            gb_u32(g, k->widths[i]);
    }
    if (k->stranger)
        gb_key_u32(g, k->stranger, 1);
    gb_tensor(g, "norm", 64, GB_RANK1, 0, 0);
    gb_tensor(g, "q2", 256, 2, 42, 256);
    gb_tensor(g, "ptq", 128, 3, 143, 416);
    gb_tensor(g, "f32", 8, 2, 0, 512);
    gb_pad(g, 32);
    gb_zeros(g, 512 + 64);
}

static enum b2_status open_keys(struct modelfile **mf, const struct keys *k,
                                struct b2_err *err)
{
    static struct gb g;
    const char *path = scratch_path(&scratch, "t.gguf");

    *mf = NULL;
    build(&g, k);
    assert_int_equal(file_write_all(path, g.b, g.n, true, err), B2_OK);
    return modelfile_open(mf, path, NULL, err);
}

static void test_meaning(void **state)
{
    static const struct keys k = {{"ptq", "q2"}, 2, {100, 193}, 2, NULL, 0};
    static const struct keys none = {.n_names = -1, .n_widths = -1};
    static const struct keys empty = {.n_names = 0, .n_widths = 0};
    static const struct keys i32 = {{"ptq"}, 1, {127}, 1, NULL, 5};
    struct modelfile *mf;
    struct b2_err err = {0};

    (void)state;
    if (open_keys(&mf, &k, &err))
        fail_msg("%s", err.msg);
    const struct tensor *q2 = modelfile_tensor(mf, 1), *ptq = modelfile_tensor(mf, 2);
    assert_int_equal(q2->pad, 63);
    assert_int_equal(q2->ne[0], 256); /* as stored */
    assert_int_equal(tensor_width(q2), 193);
    assert_int_equal(tensor_count(q2), 193 * 2);
    assert_int_equal(q2->n_bytes, 144); /* all of them */
    assert_int_equal(tensor_width(ptq), 100);
    assert_int_equal(tensor_count(ptq), 300);
    assert_int_equal(modelfile_tensor(mf, 0)->pad, 0);
    assert_int_equal(modelfile_tensor(mf, 3)->pad, 0);
    modelfile_close(mf);
    assert_int_equal(open_keys(&mf, &none, &err), B2_OK);
    assert_int_equal(tensor_count(modelfile_tensor(mf, 1)), 512);
    modelfile_close(mf);
    assert_int_equal(open_keys(&mf, &empty, &err), B2_OK);
    modelfile_close(mf);
    assert_int_equal(open_keys(&mf, &i32, &err), B2_OK);
    assert_int_equal(tensor_width(modelfile_tensor(mf, 2)), 127);
    modelfile_close(mf);
}

static void test_refused(void **state)
{
    static const struct {
        struct keys k;
        enum b2_status want;
        const char *says[2];
    } cases[] = {
        {{{"no.weight"}, 1, {5}, 1, NULL, 0},
         B2_EFORMAT,
         {"no such tensor", "no.weig"}},
        {{{"q2"}, 1, {256}, 1, NULL, 0}, B2_EFORMAT, {"q2", "below"}},
        {{{"q2"}, 1, {300}, 1, NULL, 0}, B2_EFORMAT, {"300", "below"}},
        {{{"q2"}, 1, {0}, 1, NULL, 0}, B2_EFORMAT, {"q2", "above 0"}},
        {{{"q2"}, 1, {192}, 1, NULL, 0}, B2_EFORMAT, {"padding of 64", "Q2_0 (64)"}},
        {{{"q2"}, 1, {1}, 1, NULL, 0}, B2_EFORMAT, {"padding of 255", "group"}},
        {{{"f32"}, 1, {7}, 1, NULL, 0}, B2_EFORMAT, {"padding of 1", "F32 (1)"}},
        {{{"norm"}, 1, {60}, 1, NULL, 0}, B2_EFORMAT, {"norm", "no matrix"}},
        {{{"q2", "q2"}, 2, {200, 200}, 2, NULL, 0}, B2_EFORMAT, {"q2 twice", "names"}},
        {{{"q2", "ptq"}, 2, {200}, 1, NULL, 0}, B2_EFORMAT, {"1 widths", "2 names"}},
        {{{"q2"}, 1, {200, 100}, 2, NULL, 0}, B2_EFORMAT, {"2 widths", "1 names"}},
        {{{"q2"}, 1, {0}, -1, NULL, 0}, B2_ENOTFOUND, {"bonsai2.tail.widths", ""}},
        {{{NULL}, -1, {200}, 1, NULL, 0}, B2_ENOTFOUND, {"bonsai2.tail.names", ""}},
        {{{"q2"}, 1, {200}, 1, NULL, 6}, B2_EFORMAT, {"bonsai2.tail.widths", ""}},
        {{{"q2"}, 1, {UINT32_MAX}, 1, NULL, 0},
         B2_EFORMAT,
         {"bonsai2.tail.widths", ""}},
        {{{"q2"}, 1, {200}, 1, "bonsai2.tail.fill", 0},
         B2_EUNSUP,
         {"bonsai2.tail.fill", "not known"}},
        {{{NULL}, -1, {0}, -1, "bonsai2.tail.version", 0},
         B2_EUNSUP,
         {"bonsai2.tail.version", "not known"}},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct b2_err err = {0};
        struct modelfile *mf;
        enum b2_status rc = open_keys(&mf, &cases[i].k, &err);
        assert_null(mf);
        if (rc != cases[i].want || !strstr(err.msg, cases[i].says[0]) ||
            !strstr(err.msg, cases[i].says[1]))
            fail_msg("row %zu: status %d, %s", i, rc, err.msg);
    }
}

/* What is written is read back. */
static void test_keys(void **state)
{
    const struct meta_str names[] = {{"a", 1}, {"bb", 2}};
    const uint32_t widths[] = {3, 4};
    struct meta *m = meta_new(1 << 16);
    const struct meta_str *s;
    const int32_t *w;
    uint64_t n;

    (void)state;
    assert_non_null(m);
    assert_int_equal(tail_set_keys(m, NULL, NULL, 0, NULL), B2_OK);
    assert_int_equal(meta_count(m), 0);
    assert_int_equal(tail_set_keys(m, names, widths, 2, NULL), B2_OK);
    assert_int_equal(meta_get_strs(m, "bonsai2.tail.names", &s, &n, NULL), B2_OK);
    assert_true(n == 2 && strcmp(s[1].data, "bb") == 0);
    assert_int_equal(meta_get_i32s(m, "bonsai2.tail.widths", &w, &n, NULL), B2_OK);
    assert_true(n == 2 && w[0] == 3 && w[1] == 4);
    assert_true(tail_is_key("bonsai2.tail.names") && !tail_is_key("bonsai2.tails"));
    assert_int_equal(tail_pad(DT_PTQ1_0, 576), 64);
    assert_int_equal(tail_pad(DT_PTQ1_0, 640), 0);
    assert_int_equal(tail_pad(DT_F32, 577), 0);
    meta_free(m);
}

static int setup(void **state)
{
    (void)state;
    scratch_make(&scratch);
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
        cmocka_unit_test(test_meaning),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_keys),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

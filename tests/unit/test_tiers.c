/*
 * test_tiers.c - tables in two types: the marks, both tensors as one, each way to be wrong.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "format/tiers.h"

#include "format/modelfile.h"
#include "unit/gguf_build.h"
#include "unit/scratch.h"
#include "unit/unit.h"

enum { ROWS = 11, COLS = 32 };

static struct scratch scratch;

struct file { /* a table of ROWS rows, hot ones in F32, others in Q8_0 */
    uint8_t marks[4];
    int n_marks, mark_type; /* of the key; no key: n_marks < 0 */
    int n_hot, n_rare;      /* rows of the tensors; 0: no tensor */
    bool whole;             /* token_embd.weight is there too */
    const char *stranger;   /* a further key */
    int rare_cols;          /* 0: COLS */
};

/* Row r of the hot ones has values r + 1, of the rare ones -(r + 1). */
static void put_values(struct gb *g, const struct file *f)
{
    for (int r = 0; r < f->n_hot; r++)
        for (int i = 0; i < COLS; i++) {
            const float v = (float)(r + 1);
            gb_bytes(g, &v, sizeof v);
        }
    for (int r = 0; r < f->n_rare; r++) {
        gb_u8(g, 0), gb_u8(g, 0x3c); /* 1 in FP16 */
        for (int i = 0; i < COLS; i++)
            gb_u8(g, (uint8_t)(-(r + 1)));
    }
    gb_zeros(g, 512); /* the others' values */
}

static void build(struct gb *g, const struct file *f)
{
    const int n_tensors = 1 + (f->n_hot > 0) + (f->n_rare > 0) + f->whole;
    const uint64_t hot_bytes = (uint64_t)f->n_hot * COLS * 4, behind = hot_bytes + 256;

    *g = (struct gb){0};
    gb_header(g, 3, (uint64_t)n_tensors,
              1u + (f->n_marks >= 0) + (f->stranger != NULL));
    gb_key_str(g, "general.architecture", "llama");
    if (f->n_marks >= 0) {
        gb_key(g, TIERS_KEY, 9);
        gb_u32(g, (uint32_t)f->mark_type);
        gb_u64(g, (uint64_t)f->n_marks);
        for (int i = 0; i < f->n_marks; i++)
            gb_u8(g, f->marks[i]);
    }
    if (f->stranger)
        gb_key_u32(g, f->stranger, 1);
    if (f->n_hot)
        gb_tensor(g, TIERS_HOT, COLS, (uint64_t)f->n_hot, 0, 0);
    if (f->n_rare)
        gb_tensor(g, TIERS_RARE, f->rare_cols ? (uint64_t)f->rare_cols : COLS,
                  (uint64_t)f->n_rare, 8, hot_bytes);
    gb_tensor(g, "norm", 8, GB_RANK1, 0, behind);
    if (f->whole)
        gb_tensor(g, TIERS_TABLE, 8, 2, 0, behind + 64);
    gb_pad(g, 32);
    put_values(g, f);
    gb_pad(g, 32);
}

static enum b2_status open_file(struct modelfile **mf, const struct file *f,
                                struct b2_err *err)
{
    static struct gb g;
    const char *path = scratch_path(&scratch, "t.gguf");

    *mf = NULL;
    build(&g, f);
    assert_int_equal(file_write_all(path, g.b, g.n, true, err), B2_OK);
    return modelfile_open(mf, path, NULL, err);
}

/* Rows 0, 3, 8 and 10 are hot. */
static const struct file good = {{0x09, 0x05}, 2, 0, 4, 7, false, NULL, 0};

static void test_join(void **state)
{
    static const float want[ROWS] = {1, -1, -2, 2, -3, -4, -5, -6, 3, -7, 4};
    struct modelfile *mf;
    struct b2_err err = {0};

    (void)state;
    if (open_file(&mf, &good, &err))
        fail_msg("%s", err.msg);
    assert_true(tiers_declared(modelfile_meta(mf)));
    assert_int_equal(modelfile_n_tensors(mf), 3); /* as it is, until it is joined */
    if (modelfile_join_tiers(mf, &err))
        fail_msg("%s", err.msg);
    assert_false(tiers_declared(modelfile_meta(mf)));
    assert_int_equal(modelfile_n_tensors(mf), 2);
    assert_true(modelfile_find(mf, TIERS_HOT) < 0 &&
                modelfile_find(mf, TIERS_RARE) < 0);
    assert_int_equal(modelfile_find(mf, "norm"), 1);
    assert_int_equal(modelfile_find(mf, TIERS_TABLE), 0);
    const struct tensor *t = modelfile_tensor(mf, 0);
    assert_true(t->type == DT_F32 && t->ne[0] == COLS && t->ne[1] == ROWS);
    assert_int_equal(modelfile_load_bytes(mf, 0), ROWS * COLS * 4);
    if (modelfile_load(mf, 0, &err))
        fail_msg("%s", err.msg);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < COLS; i++) {
            float v;
            memcpy(&v, t->data + (r * COLS + i) * 4, sizeof v);
            if (v != want[r])
                fail_msg("row %d, column %d: %g", r, i, (double)v);
        }
    modelfile_unload(mf, 0);
    if (modelfile_join_tiers(mf, &err)) /* nothing left to do */
        fail_msg("%s", err.msg);
    modelfile_close(mf);
}

static void test_refused(void **state)
{
    static const struct {
        struct file f;
        enum b2_status want;
        const char *says;
    } cases[] = {
        {{{0x09}, 1, 0, 4, 7, false, NULL, 0}, B2_EFORMAT, "2 bytes of marks"},
        {{{0x09, 5, 0}, 3, 0, 4, 7, false, NULL, 0}, B2_EFORMAT, "2 bytes of marks"},
        {{{0x09, 5}, 2, 1, 4, 7, false, NULL, 0}, B2_EFORMAT, "2 bytes of marks"},
        {{{0}, -1, 0, 4, 7, false, "bonsai2.tiers.more", 0}, B2_EUNSUP, "not known"},
        {{{0x09, 5}, 2, 0, 4, 7, false, "bonsai2.tiers.more", 0}, B2_EUNSUP, "newer"},
        {{{0x09, 0x0d}, 2, 0, 4, 7, false, NULL, 0}, B2_EFORMAT, "row 11 is marked"},
        {{{0, 0}, 2, 0, 4, 7, false, NULL, 0}, B2_EFORMAT, "0 of 11 rows"},
        {{{255, 7}, 2, 0, 4, 7, false, NULL, 0}, B2_EFORMAT, "11 of 11 rows"},
        {{{0x09, 1}, 2, 0, 4, 7, false, NULL, 0}, B2_EFORMAT, "3 rows are marked"},
        {{{0x09, 5}, 2, 0, 0, 7, false, NULL, 0}, B2_EFORMAT, "expected the tensors"},
        {{{0x09, 5}, 2, 0, 4, 0, false, NULL, 0}, B2_EFORMAT, "expected the tensors"},
        {{{0x09, 5}, 2, 0, 4, 7, true, NULL, 0}, B2_EFORMAT, "no token_embd.weight"},
        {{{0x09, 5}, 2, 0, 4, 3, false, NULL, 64}, B2_EFORMAT, "rows of one length"},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct b2_err err = {0};
        struct modelfile *mf;
        if (open_file(&mf, &cases[i].f, &err))
            fail_msg("row %zu: %s", i, err.msg);
        enum b2_status rc = modelfile_join_tiers(mf, &err);
        if (rc != cases[i].want || !strstr(err.msg, cases[i].says))
            fail_msg("row %zu: status %d, %s", i, rc, err.msg);
        modelfile_close(mf);
    }
}

/* What is written is read back. */
static void test_keys(void **state)
{
    static const int32_t rows[] = {0, 7, 8, 100, 104};
    struct meta *m = meta_new(1 << 16);
    struct arena *a = arena_new(1 << 16);
    const int32_t *got = NULL;
    int64_t n = 0;

    (void)state;
    assert_true(m && a && !tiers_declared(m));
    assert_int_equal(tiers_set_key(m, rows, countof(rows), 105, NULL), B2_OK);
    assert_true(tiers_declared(m));
    assert_int_equal(tiers_read(&got, &n, m, 105, a, NULL), B2_OK);
    assert_int_equal(n, countof(rows));
    assert_memory_equal(got, rows, sizeof rows);
    assert_int_equal(tiers_read(&got, &n, m, 104, a, NULL), B2_EFORMAT); /* row 104 */
    assert_true(tiers_is_key("bonsai2.tiers.hot") && !tiers_is_key("bonsai2.tier"));
    assert_int_equal(tiers_mark_bytes(8), 1);
    assert_int_equal(tiers_mark_bytes(9), 2);
    arena_free(a);
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
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_keys),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

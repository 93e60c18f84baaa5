/*
 * test_private.c - types of our own: a file declares them or is refused; B2_T64's bytes.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "format/private.h"

#include "format/modelfile.h"
#include "tensor/log8.h"
#include "tensor/quant.h"
#include "unit/gguf_build.h"
#include "unit/scratch.h"
#include "unit/unit.h"

#include <math.h>

static struct scratch scratch;

enum { ID = 0x42320040 };

struct decl {
    const char *name;
    uint32_t id, group, bytes;
    const char *stranger;
    enum b2_status want;
    const char *says;
};

static void put_array(struct gb *g, const char *key, uint32_t v)
{
    gb_key(g, key, 9);
    gb_u32(g, 4);
    gb_u64(g, 1);
    gb_u32(g, v);
}

static enum b2_status open_decl(const struct decl *d, struct b2_err *err)
{
    static struct gb g;
    const char *path = scratch_path(&scratch, "t.gguf");
    struct modelfile *mf = NULL;

    g = (struct gb){0};
    gb_header(&g, 3, 1, (d->name ? 5u : 1u) + (d->stranger ? 1u : 0u));
    gb_key_str(&g, "general.architecture", "llama");
    if (d->name) {
        gb_key(&g, "bonsai2.types.names", 9);
        gb_u32(&g, 8);
        gb_u64(&g, 1);
        gb_str(&g, d->name);
        put_array(&g, "bonsai2.types.ids", d->id);
        put_array(&g, "bonsai2.types.groups", d->group);
        put_array(&g, "bonsai2.types.bytes", d->bytes);
    }
    if (d->stranger)
        gb_key_u32(&g, d->stranger, 1);
    gb_tensor(&g, "w", 128, 2, d->want == B2_OK ? d->id : ID, 0);
    gb_pad(&g, 32);
    gb_zeros(&g, 128);
    assert_int_equal(file_write_all(path, g.b, g.n, true, err), B2_OK);
    enum b2_status rc = modelfile_open(&mf, path, NULL, err);
    modelfile_close(mf);
    return rc;
}

static void test_declared(void **state)
{
    static const struct decl rows[] = {
        {"B2_T64", ID, 64, 14, NULL, B2_OK, ""},
        {"B2_C128", 0x42320180, 128, 25, NULL, B2_OK, ""},
        {"B2_C64", 0x42320140, 64, 13, NULL, B2_OK, ""},
        {"B2_Q2", 0x42320240, 64, 17, NULL, B2_OK, ""},
        {"B2_Q3", 0x42320340, 64, 25, NULL, B2_OK, ""},
        {"B2_Q3", 0x42320340, 64, 24, NULL, B2_EUNSUP, "24 bytes"},
        {NULL, 0, 0, 0, NULL, B2_EFORMAT, "does not declare"},
        {"B2_T65", ID, 64, 14, NULL, B2_EUNSUP, "B2_T65"},
        {"B2_T64", ID + 1, 64, 14, NULL, B2_EUNSUP, "not a type known"},
        {"B2_T64", ID, 128, 14, NULL, B2_EUNSUP, "128 weights"},
        {"B2_T64", ID, 64, 15, NULL, B2_EUNSUP, "15 bytes"},
        {"B2_C128", 0x42320140, 128, 25, NULL, B2_EUNSUP, "B2_C128"},
        {"B2_C128", ID, 128, 25, NULL, B2_EUNSUP, "B2_C128"},
        {"PTQ1_0", 143, 128, 28, NULL, B2_EUNSUP, "PTQ1_0"}, /* not ours */
        {"B2_T64", ID, 64, 14, "bonsai2.types.order", B2_EUNSUP, "order"},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct b2_err err = {0};
        enum b2_status rc = open_decl(&rows[i], &err);
        if (rc != rows[i].want || !strstr(err.msg, rows[i].says))
            fail_msg("row %zu: status %d, %s", i, rc, err.msg);
    }
}

static void test_scale(void **state)
{
    (void)state;
    for (int q = 1; q < 256; q++) {
        float s = f32_from_log8((uint8_t)q);
        double want = pow(2.0, (q - 1) / 8.0 - 24.0);
        ROW_CHECK(q, fabs((double)s - want) < 1e-7 * want);
        ROW_CHECK(q, log8_from_f32(s) == q);
        ROW_CHECK(q, s > f32_from_log8((uint8_t)(q - 1)));
        ROW_CHECK(q, q == 255 || log8_from_f32(1.04f * s) == q);
    }
    assert_int_equal(log8_from_f32(0.0f), 0);
    assert_int_equal(log8_from_f32(0x1p-26f), 0);
    assert_int_equal(log8_from_f32(1e9f), 255);
    assert_true(isinf(quant_ternary_scale(DT_B2_T64, 300.0f)));
    assert_true(isinf(quant_ternary_scale(DT_PTQ1_0, 70000.0f)));
}

/* The block from its description: five digits a byte, twelve apart, most significant
 * first, as the fraction V / 243 in 8 bits; four in the last byte; the scale. */
static void test_block(void **state)
{
    int8_t code[64], back[64];
    uint8_t block[14], want[14];
    float scale = 1.0f, got, x[64];

    (void)state;
    for (int i = 0; i < 64; i++)
        code[i] = (int8_t)((i * i + 3 * i + 7) / 5 % 3 - 1);
    for (int m = 0; m < 13; m++) {
        unsigned v = 0;
        for (int n = 0; n < 5; n++) {
            int at = m < 12 ? m + 12 * n : 60 + n;
            v = 3 * v + (m < 12 || n < 4 ? (unsigned)(code[at] + 1) : 0);
        }
        want[m] = (uint8_t)((256 * v + 242) / 243);
    }
    want[13] = 1 + 8 * 24; /* 2^0 */
    quant_ternary_join(DT_B2_T64, block, code, &scale, 64);
    assert_memory_equal(block, want, sizeof want);
    quant_ternary_split(DT_B2_T64, back, &got, block, 64);
    assert_memory_equal(back, code, sizeof code);
    quant_decode_row(DT_B2_T64, x, block, 64);
    for (int i = 0; i < 64; i++)
        ROW_CHECK(i, x[i] == (float)code[i]);
    assert_int_equal(quant_verify_row(DT_B2_T64, block, 64, NULL), -1);
    block[3] = 1; /* no encoder writes it */
    assert_int_equal(quant_verify_row(DT_B2_T64, block, 64, NULL), 0);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(&scratch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_declared),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_block),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/*
 * test_rotation_own.c - a rotation with a block per width: written, read, applied, and
 * refused when it is not understood completely.
 */
#include "backend/backend.h"
#include "base/cpu.h"
#include "base/rng.h"
#include "compress/rotate.h"
#include "model/rotation.h"
#include "unit/unit.h"

#include <math.h>

#define P "bonsai2.rotation."

static const char *const names[] = {"blk.0.attn_q.weight", "blk.0.ffn_down.weight"};

/* Widths of 576 and 1536: blocks of 64 and 512, or whole. */
static struct rotate *make(struct meta *m, int64_t mode)
{
    struct rotate *r = rotate_new(mode, 11);
    struct meta_str s[countof(names)];

    assert_int_equal(rotate_add_width(r, 576, NULL), B2_OK);
    /* while it is the only one */
    assert_int_equal(rotate_block(r), mode == ROTATE_EACH ? 64 : 0);
    assert_int_equal(rotate_add_width(r, 1536, NULL), B2_OK);
    assert_int_equal(rotate_block(r), 0);
    for (size_t i = 0; i < countof(names); i++)
        s[i] = (struct meta_str){names[i], strlen(names[i])};
    assert_int_equal(rotate_set_keys(r, m, s, countof(names), NULL), B2_OK);
    return r;
}

static void test_round_trip(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct meta *m = meta_new(1 << 20);
        struct rotation_decl d;
        struct b2_err err = {0};
        struct rotate *r = make(m, i ? ROTATE_WHOLE : ROTATE_EACH);
        assert_null(meta_find(m, "prism.hadamard.version"));
        if (rotation_read(&d, m, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(d.version, 1);
        assert_int_equal(d.n_widths, 2);
        assert_int_equal(d.blocks[0], i ? 576 : 64);
        assert_int_equal(d.blocks[1], i ? 1536 : 512);
        assert_int_equal(d.n_forward, 2);
        assert_int_equal(d.n_inverse, 0);
        rotate_free(r);
        meta_free(m);
    }
}

/* One block for all widths is the vendor's contract. */
static void test_equal_blocks(void **state)
{
    struct meta *m = meta_new(1 << 20);
    struct rotate *r = rotate_new(ROTATE_EACH, 11);
    struct meta_str s = {names[0], strlen(names[0])};
    struct rotation_decl d;

    (void)state;
    assert_int_equal(rotate_add_width(r, 2048, NULL), B2_OK);
    assert_int_equal(rotate_add_width(r, 5120, NULL), B2_OK);
    assert_int_equal(rotate_set_keys(r, m, &s, 1, NULL), B2_OK);
    assert_int_equal(rotation_read(&d, m, NULL), B2_OK);
    assert_null(d.blocks);
    assert_int_equal(d.block, 1024);
    assert_int_equal(rotate_add_width(r, 27, NULL), B2_EARG); /* no power of two */
    rotate_free(r);
    meta_free(m);
}

/* W' and the rotated input give what W and the input give; unfolding gives W back. */
static void applied(int64_t mode)
{
    enum { D = 1536, ROWS = 5 };
    static float w[ROWS * D], folded[ROWS * D], y[ROWS], plain[ROWS];
    static float signs[D];
    struct meta *m = meta_new(1 << 20);
    struct rotate *r = make(m, mode);
    struct rotation_decl d;
    struct rng rng = rng_make(4);
    struct backend *be = NULL;
    struct act *a = NULL;
    const struct backend_config cfg = {.cpu = cpu_features(), .exact = true};

    assert_int_equal(rotation_read(&d, m, NULL), B2_OK);
    for (int i = 0; i < D; i++)
        signs[i] = (float)d.signs[576 + i];
    const struct rotation rot = {.width = D, .block = d.blocks[1], .signs = signs};
    assert_int_equal(backend_cpu_new(&be, &cfg, NULL), B2_OK);
    assert_int_equal(act_new(&a, be, 1, D, NULL), B2_OK);
    for (int i = 0; i < ROWS * D; i++)
        w[i] = (float)rng_normal(&rng);
    memcpy(folded, w, sizeof w);
    for (int i = 0; i < ROWS; i++)
        rotate_fold_row(r, folded + i * D, D);
    for (int i = 0; i < D; i++)
        a->x[i] = (float)rng_normal(&rng);
    struct weight weight = {.name = "w",
                            .type = DT_F32,
                            .cols = D,
                            .rows = ROWS,
                            .data = (const uint8_t *)w,
                            .row_bytes = 4 * D};
    act_changed(a, 1, D);
    backend_matmul(be, plain, &weight, a);
    weight.data = (const uint8_t *)folded;
    weight.rot = &rot;
    backend_matmul(be, y, &weight, a);
    for (int i = 0; i < ROWS; i++) {
        ROW_CHECK(i, fabsf(y[i] - plain[i]) < 1e-3f);
        rotate_unfold_row(r, folded + i * D, D);
    }
    for (int i = 0; i < ROWS * D; i++)
        assert_true(fabsf(folded[i] - w[i]) < 1e-5f);
    act_free(be, a);
    backend_free(be);
    rotate_free(r);
    meta_free(m);
}

static void test_applied(void **state)
{
    (void)state;
    applied(ROTATE_EACH);
    applied(ROTATE_WHOLE);
}

static void set_i32s(struct meta *m, const char *key, const int32_t *v, uint64_t n)
{
    assert_int_equal(meta_set_arr(m, key, MT_I32, v, n, NULL), B2_OK);
}

static void test_refused(void **state)
{
    static const int32_t odd[] = {64, 96}, six[] = {64, 6}, wide[] = {128, 512},
                         one[] = {64};
    static const int32_t twice[] = {576, 576}, half[] = {0};
    static const struct meta_str norm = {"blk.0.attn_norm.weight", 22};

    (void)state;
    for (int i = 0; i < 11; i++) {
        static const struct {
            enum b2_status want;
            const char *says;
        } cases[] = {
            {B2_EUNSUP, "version = 2"}, {B2_EUNSUP, "dct"},
            {B2_EUNSUP, "twist"},       {B2_EFORMAT, "power of two"},
            {B2_EFORMAT, "multiple"},   {B2_EFORMAT, "equal"},
            {B2_EFORMAT, "twice"},      {B2_EFORMAT, "signs"},
            {B2_EFORMAT, "attn_norm"},  {B2_EFORMAT, "one rotation"},
            {B2_EFORMAT, "12, 20"},
        };
        struct meta *m = meta_new(1 << 20);
        struct rotate *r = make(m, ROTATE_EACH);
        struct rotation_decl d;
        struct b2_err err = {0};
        enum b2_status rc = B2_OK;
        switch (i) {
        case 0:
            rc = meta_set_u32(m, P "version", 2, NULL);
            break;
        case 1:
            rc = meta_set_str(m, P "transform", "dct", NULL);
            break;
        case 2:
            rc = meta_set_u32(m, P "twist", 1, NULL);
            break;
        case 3:
            set_i32s(m, P "blocks", odd, 2);
            break;
        case 4:
            set_i32s(m, P "blocks", wide, 2);
            break;
        case 5:
            set_i32s(m, P "blocks", one, 1);
            break;
        case 6:
            set_i32s(m, P "widths", twice, 2);
            set_i32s(m, P "blocks", (const int32_t[]){64, 64}, 2);
            break;
        case 7:
            set_i32s(m, P "sign_values", half, 1);
            break;
        case 8:
            rc = meta_set_strs(m, P "weight_names", &norm, 1, NULL);
            break;
        case 10:
            rc = meta_set_str(m, P "transform", "normalized-sylvester-paley-hadamard",
                              NULL);
            set_i32s(m, P "blocks", six, 2);
            break;
        default: {
            struct rotate *v = rotate_new(64, 1);
            struct meta_str s = {names[0], strlen(names[0])};
            assert_int_equal(rotate_add_width(v, 576, NULL), B2_OK);
            rc = rotate_set_keys(v, m, &s, 1, NULL);
            rotate_free(v);
        }
        }
        assert_int_equal(rc, B2_OK);
        rc = rotation_read(&d, m, &err);
        if (rc != cases[i].want || !strstr(err.msg, cases[i].says))
            fail_msg("row %d: status %d, %s", i, rc, err.msg);
        rotate_free(r);
        meta_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_equal_blocks),
        cmocka_unit_test(test_applied),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

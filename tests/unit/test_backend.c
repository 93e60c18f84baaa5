/*
 * test_backend.c - lifetime and limits of the CPU backend and its activations.
 */
#include "unit/backend_fixture.h"

static void test_limits(void **state)
{
    struct backend_config cfg = {.cpu = 0};
    struct backend *be = NULL;
    struct act *a = NULL;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(backend_cpu_new(&be, &cfg, &err), B2_OK);
    assert_int_equal(act_new(&a, be, 1, 1 << 20, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "1048576"));
    assert_int_equal(act_new(&a, be, 0, 16, NULL), B2_EARG);
    assert_null(a);
    act_free(be, NULL);
    backend_free(be);
    backend_free(NULL);
}

/* What is promised to the planner is what is allocated, give or take alignment. */
static void test_bytes(void **state)
{
    struct fixture f = fixture_open((struct variant){false, 2}, false, 8, 512);
    const struct attn_limits limits = {6, 64, 1000}, none = {6, 64, 0};
    uint64_t act = backend_act_bytes(f.be, 8, 512);
    uint64_t scratch = backend_reserve_bytes(f.be, &limits);

    (void)state;
    /* F32 twice; twice codes in two orders, factors, and sums and more by groups. */
    assert_in_range(act, 8 * 512 * (2 * 4 + 2 * 3), 8 * 512 * 17);
    /* one token's parts: a segment for each 256 positions */
    assert_in_range(scratch, 4 * 6 * 64 * 4, 2 << 20);
    assert_int_equal(backend_reserve(f.be, &none, NULL), B2_EARG);
    assert_false(backend_is_exact(f.be));
    assert_string_equal(backend_kernel_name(f.be), "scalar");
    fixture_close(&f);
}

/* Scratch grows with the largest limits asked for and keeps the work right. */
static void test_reserve_grows(void **state)
{
    enum { HD = 16, CTX = 40 };
    struct rng r = rng_make(12);
    struct fixture f = fixture_open((struct variant){true, 2}, false, 1, 16);
    float *q = random_floats(&r, CTX * HD), *out = random_floats(&r, CTX * HD);
    uint16_t *cache = mem_calloc(2 * CTX * HD, sizeof *cache);

    (void)state;
    assert_non_null(cache);
    for (int64_t ctx = 1; ctx <= CTX; ctx += 13) {
        struct kv_layer kv = {.type = DT_F16, .cap = CTX};
        struct attn_args args = {1, 1, HD, .scale = 0.25f};
        const struct attn_limits limits = {1, HD, ctx}, less = {1, HD, 1};
        backend_kv_place(&kv, cache, 1, HD);
        assert_int_equal(backend_reserve(f.be, &limits, NULL), B2_OK);
        assert_int_equal(backend_reserve(f.be, &less, NULL), B2_OK); /* keeps */
        backend_kv_store(f.be, &kv, q, q, ctx, 1, HD, 0);
        backend_attention(f.be, out, q, &kv, ctx, &args);
        for (int64_t i = 0; i < HD; i++) /* the first token sees itself alone */
            assert_true(out[i] == f32_from_f16(f16_from_f32(q[i])));
    }
    mem_free(cache);
    mem_free(out);
    mem_free(q);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_reserve_grows),
    };

    return cmocka_run_group_tests_name("backend", tests, NULL, NULL);
}

/*
 * test_hf_sampling.c - generation_config.json as the keys general.sampling.*.
 */
#include "format/hf.h"
#include "unit/unit.h"

#include <math.h>

static void test_keys(void **state)
{
    static const struct {
        const char *json;
        double temp, top_k, top_p, min_p, repeat; /* -1: no such key */
    } cases[] = {
        {"{}", -1, -1, -1, -1, -1},
        {"{\"do_sample\": true, \"temperature\": 0.6, \"top_k\": 20, \"top_p\": 0.95}",
         0.6, 20, 0.95, -1, -1},
        {"{\"do_sample\": false, \"temperature\": 0.6}", 0, -1, -1, -1, -1},
        {"{\"min_p\": 0.05, \"repetition_penalty\": 1.05}", -1, -1, -1, 0.05, 1.05},
        {"{\"top_k\": -1, \"top_p\": \"x\", \"temperature\": null}", -1, -1, -1, -1,
         -1},
        {"{\"top_k\": 1.5}", -1, -1, -1, -1, -1},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        static const char *const keys[] = {"temp", "top_k", "top_p", "min_p",
                                           "penalty_repeat"};
        const double want[] = {cases[i].temp, cases[i].top_k, cases[i].top_p,
                               cases[i].min_p, cases[i].repeat};
        struct meta *m = meta_new(1 << 16);
        struct b2_err err = {0};
        enum b2_status rc =
            m ? hf_sampling_meta(m, cases[i].json, strlen(cases[i].json), &err)
              : B2_ENOMEM;
        bool ok = rc == B2_OK;
        for (size_t k = 0; ok && k < countof(keys); k++) {
            char key[64];
            uint32_t u = 0;
            float f = -1;
            (void)snprintf(key, sizeof key, "general.sampling.%s", keys[k]);
            if (meta_get_u32(m, key, &u, NULL) == B2_OK)
                f = (float)u;
            else
                (void)!meta_get_f32(m, key, &f, NULL);
            ok = fabs((double)f - want[k]) < 1e-6;
        }
        meta_free(m);
        if (!ok && rc != B2_ENOMEM)
            fail_msg("row %zu: %d %s", i, rc, err.msg);
    }
}

static void test_bad(void **state)
{
    struct meta *m = meta_new(1 << 16);
    struct b2_err err = {0};
    enum b2_status rc = m ? hf_sampling_meta(m, "{", 1, &err) : B2_ENOMEM;

    (void)state;
    meta_free(m);
    assert_true(rc == B2_EFORMAT || rc == B2_ENOMEM);
    if (rc == B2_EFORMAT)
        assert_non_null(strstr(err.msg, "generation_config.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

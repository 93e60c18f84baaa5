/*
 * test_rotation.c - a rotation is understood completely or refused; a folded model says
 * the same as the plain one.
 */
#include "model/rotation.h"

#include "unit/unit.h"
#include "unit/variant.h"

#include <math.h>

#define P "prism.hadamard."

static enum b2_status set_str(struct meta *m, const char *key, const char *v)
{
    return meta_set_str(m, key, v, NULL);
}

static enum b2_status set_names(struct meta *m, const char *key,
                                const char *const *names, size_t n)
{
    struct meta_str s[64];

    for (size_t i = 0; i < n; i++)
        s[i] = (struct meta_str){names[i], strlen(names[i])};
    return meta_set_strs(m, key, s, n, NULL);
}

static const char *const folded[] = {
    "blk.0.attn_q.weight", "blk.0.attn_k.weight",   "blk.0.attn_v.weight",
    "blk.3.ffn_up.weight", "blk.3.ffn_gate.weight", "blk.4.attn_output.weight",
};
static int32_t signs[64];

/* A valid declaration over rows of 64, in blocks of 32. */
static enum b2_status declare(struct meta *m, struct b2_err *err)
{
    static const int32_t widths[] = {64};

    (void)err;
    for (int i = 0; i < 64; i++)
        signs[i] = i * i % 5 < 2 ? -1 : 1;
    assert_int_equal(meta_set_u32(m, P "version", 1, NULL), B2_OK);
    assert_int_equal(meta_set_u32(m, P "block_size", 32, NULL), B2_OK);
    assert_int_equal(set_str(m, P "transform", "normalized-sylvester-walsh-hadamard"),
                     B2_OK);
    assert_int_equal(set_str(m, P "axis", "input-last-dimension"), B2_OK);
    assert_int_equal(set_str(m, P "sign_mode", "explicit"), B2_OK);
    assert_int_equal(meta_set_arr(m, P "sign_widths", MT_I32, widths, 1, NULL), B2_OK);
    assert_int_equal(meta_set_arr(m, P "sign_values", MT_I32, signs, 64, NULL), B2_OK);
    assert_int_equal(set_names(m, P "weight_names", folded, countof(folded)), B2_OK);
    return B2_OK;
}

static void test_none(void **state)
{
    struct meta *m = meta_new(1 << 16);
    struct rotation_decl d;

    (void)state;
    assert_non_null(m);
    assert_int_equal(rotation_read(&d, m, NULL), B2_OK);
    assert_int_equal(d.version, 0);
    meta_free(m);
}

static void test_valid(void **state)
{
    struct meta *m = meta_new(1 << 16);
    struct rotation_decl d;
    struct b2_err err = {0};

    (void)state;
    assert_non_null(m);
    declare(m, NULL);
    if (rotation_read(&d, m, &err) != B2_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(d.version, 1);
    assert_int_equal(d.block, 32);
    assert_true(d.explicit_signs && !d.tied_output && !d.gdn_v_grouped);
    assert_int_equal(d.n_widths, 1);
    assert_int_equal(d.n_forward, countof(folded));
    assert_int_equal(d.n_inverse, 0);
    meta_free(m);
}

/* ---- every way to be wrong, each with its own words (USERS T07 b) ---- */

static void future_version(struct meta *m)
{
    assert_int_equal(meta_set_u32(m, P "version", 3, NULL), B2_OK);
}

static void no_version(struct meta *m)
{
    meta_remove(m, P "version");
}

static void foo_mode(struct meta *m)
{
    assert_int_equal(set_str(m, P "sign_mode", "foo"), B2_OK);
}

static void other_transform(struct meta *m)
{
    assert_int_equal(set_str(m, P "transform", "dct"), B2_OK);
}

static void other_axis(struct meta *m)
{
    assert_int_equal(set_str(m, P "axis", "output"), B2_OK);
}

static void short_signs(struct meta *m)
{
    assert_int_equal(meta_set_arr(m, P "sign_values", MT_I32, signs, 63, NULL), B2_OK);
}

static void half_sign(struct meta *m)
{
    float f[64] = {0.5f};

    assert_int_equal(meta_set_arr(m, P "sign_values", MT_F32, f, 64, NULL), B2_OK);
}

static void zero_sign(struct meta *m)
{
    int32_t s[64];

    memcpy(s, signs, sizeof s);
    s[17] = 0;
    assert_int_equal(meta_set_arr(m, P "sign_values", MT_I32, s, 64, NULL), B2_OK);
}

static void odd_block(struct meta *m)
{
    assert_int_equal(meta_set_u32(m, P "block_size", 48, NULL), B2_OK);
}

static void wide_block(struct meta *m)
{
    assert_int_equal(meta_set_u32(m, P "block_size", 128, NULL), B2_OK);
}

static void double_width(struct meta *m)
{
    static const int32_t widths[] = {32, 32};

    assert_int_equal(meta_set_arr(m, P "sign_widths", MT_I32, widths, 2, NULL), B2_OK);
}

static void folded_norm(struct meta *m)
{
    static const char *const names[] = {"blk.0.attn_norm.weight"};

    assert_int_equal(set_names(m, P "weight_names", names, 1), B2_OK);
}

/* The small projections of a gated delta net read the activation as it is. */
static void folded_alpha(struct meta *m)
{
    static const char *const names[] = {"blk.0.ssm_out.weight",
                                        "blk.0.ssm_alpha.weight"};

    assert_int_equal(set_names(m, P "weight_names", names, 2), B2_OK);
}

static void folded_beta(struct meta *m)
{
    static const char *const names[] = {"blk.0.ssm_beta.weight"};

    assert_int_equal(set_names(m, P "weight_names", names, 1), B2_OK);
}

static void folded_conv(struct meta *m)
{
    static const char *const names[] = {"blk.0.ssm_conv1d.weight"};

    assert_int_equal(set_names(m, P "weight_names", names, 1), B2_OK);
}

static void odd_heads(struct meta *m)
{
    assert_int_equal(meta_set_bool(m, P "gdn_v_grouped", true, NULL), B2_OK);
    assert_int_equal(set_str(m, "general.architecture", "qwen35"), B2_OK);
    assert_int_equal(meta_set_u32(m, "qwen35.ssm.group_count", 3, NULL), B2_OK);
    assert_int_equal(meta_set_u32(m, "qwen35.ssm.time_step_rank", 4, NULL), B2_OK);
}

static void inverse_head(struct meta *m)
{
    static const char *const names[] = {"output.weight"};

    assert_int_equal(set_names(m, P "inverse_weight_names", names, 1), B2_OK);
}

static void tied_version_1(struct meta *m)
{
    assert_int_equal(meta_set_bool(m, P "tied_output", true, NULL), B2_OK);
}

static void tied_without_table(struct meta *m)
{
    assert_int_equal(meta_set_u32(m, P "version", 2, NULL), B2_OK);
    assert_int_equal(meta_set_bool(m, P "tied_output", true, NULL), B2_OK);
}

static void unknown_key(struct meta *m)
{
    assert_int_equal(meta_set_u32(m, P "twist", 1, NULL), B2_OK);
}

static void identity_with_signs(struct meta *m)
{
    assert_int_equal(set_str(m, P "sign_mode", "identity"), B2_OK);
}

static void test_refused(void **state)
{
    static const struct {
        void (*spoil)(struct meta *);
        enum b2_status want;
        const char *says;
    } cases[] = {
        {future_version, B2_EUNSUP, "version = 3"},
        {no_version, B2_ENOTFOUND, "version"},
        {foo_mode, B2_EUNSUP, "sign_mode = foo"},
        {other_transform, B2_EUNSUP, "transform = dct"},
        {other_axis, B2_EUNSUP, "axis = output"},
        {short_signs, B2_EFORMAT, "63 signs"},
        {half_sign, B2_EFORMAT, "sign_values"},
        {zero_sign, B2_EFORMAT, "sign_values[17] = 0"},
        {odd_block, B2_EFORMAT, "power of two"},
        {wide_block, B2_EFORMAT, "multiple of block_size 128"},
        {double_width, B2_EFORMAT, "twice"},
        {folded_norm, B2_EFORMAT, "attn_norm"},
        {folded_alpha, B2_EFORMAT, "blk.0.ssm_alpha.weight is not a kind"},
        {folded_beta, B2_EFORMAT, "blk.0.ssm_beta.weight is not a kind"},
        {folded_conv, B2_EFORMAT, "blk.0.ssm_conv1d.weight is not a kind"},
        {odd_heads, B2_EFORMAT, "no multiple of 3 key heads"},
        {inverse_head, B2_EFORMAT, "rotated back"},
        {tied_version_1, B2_EFORMAT, "contradicts"},
        {tied_without_table, B2_EFORMAT, "tied_output"},
        {unknown_key, B2_EUNSUP, "twist"},
        {identity_with_signs, B2_EFORMAT, "identity"},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct meta *m = meta_new(1 << 16);
        struct rotation_decl d;
        struct b2_err err = {0};
        assert_non_null(m);
        declare(m, NULL);
        cases[i].spoil(m);
        enum b2_status rc = rotation_read(&d, m, &err);
        if (rc != cases[i].want || !strstr(err.msg, cases[i].says))
            fail_msg("row %zu: status %d, %s", i, rc, err.msg);
        meta_free(m);
    }
}

/* ---- against the tensors of a file ---- */

/* W' = W diag(s) H per row: the plain sum, so that no fast transform is trusted. */
static void fold(const char *name, float *w, int64_t rows, int64_t cols)
{
    bool hit = false;

    for (size_t i = 0; i < countof(folded); i++)
        hit = hit || strcmp(name, folded[i]) == 0;
    for (int64_t r = 0; hit && r < rows; r++, w += cols) {
        double out[64] = {0};
        assert_int_equal(cols, 64);
        for (int c = 0; c < 64; c++)
            for (int k = 0; k < 32; k++) {
                int at = c / 32 * 32 + k;
                int h = __builtin_popcount((unsigned)(k & c % 32)) % 2 ? -1 : 1;
                out[c] += (double)w[at] * signs[at] * h / sqrt(32);
            }
        for (int c = 0; c < 64; c++)
            w[c] = (float)out[c];
    }
}

static void logits_of(float *out, const struct variant *v)
{
    static const int32_t ids[] = {1, 403, 407, 261, 378};
    const struct session_params sp = {.ctx = 16};
    struct model *m = NULL;
    struct rig r;
    struct b2_err err = {0};

    if (variant_open(&m, v, NULL, &err) != B2_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(rig_open(&r, m, 1, true, &sp, NULL), B2_OK);
    assert_int_equal(session_sync(r.s, ids, countof(ids), NULL, NULL), B2_OK);
    memcpy(out, session_logits(r.s), 512 * sizeof *out);
    rig_close(&r);
    model_close(m);
}

static void test_folded_model(void **state)
{
    static float plain[512], rotated[512];

    (void)state;
    logits_of(plain, &(struct variant){0});
    logits_of(rotated, &(struct variant){.keys = declare, .values = fold});
    for (int i = 0; i < 512; i++)
        if (fabsf(plain[i] - rotated[i]) > 1e-3f)
            fail_msg("logit %d: %g plain, %g folded", i, (double)plain[i],
                     (double)rotated[i]);
}

/* The tied table of version 2: rows come back rotated, the head wants rotated inputs. */
static enum b2_status declare_tied(struct meta *m, struct b2_err *err)
{
    static const char *const table[] = {"token_embd.weight"};

    declare(m, err);
    assert_int_equal(meta_set_u32(m, P "version", 2, NULL), B2_OK);
    assert_int_equal(meta_set_bool(m, P "tied_output", true, NULL), B2_OK);
    return set_names(m, P "inverse_weight_names", table, 1);
}

static void fold_tied(const char *name, float *w, int64_t rows, int64_t cols)
{
    fold(strcmp(name, "token_embd.weight") == 0 ? folded[0] : name, w, rows, cols);
}

static void test_tied_model(void **state)
{
    static float plain[512], rotated[512];

    (void)state;
    logits_of(plain, &(struct variant){0});
    logits_of(rotated, &(struct variant){.keys = declare_tied, .values = fold_tied});
    for (int i = 0; i < 512; i++)
        if (fabsf(plain[i] - rotated[i]) > 1e-3f)
            fail_msg("logit %d: %g plain, %g folded", i, (double)plain[i],
                     (double)rotated[i]);
}

static enum b2_status name_absent(struct meta *m, struct b2_err *err)
{
    static const char *const names[] = {"blk.9.attn_q.weight"};

    declare(m, err);
    return set_names(m, P "weight_names", names, 1);
}

static enum b2_status name_twice(struct meta *m, struct b2_err *err)
{
    static const char *const names[] = {"blk.1.attn_q.weight", "blk.1.attn_q.weight"};

    declare(m, err);
    return set_names(m, P "weight_names", names, 2);
}

/* ffn_down has rows of 172. */
static enum b2_status width_undivided(struct meta *m, struct b2_err *err)
{
    static const char *const names[] = {"blk.1.ffn_down.weight"};

    declare(m, err);
    return set_names(m, P "weight_names", names, 1);
}

static enum b2_status width_undeclared(struct meta *m, struct b2_err *err)
{
    static const int32_t widths[] = {32};

    declare(m, err);
    assert_int_equal(meta_set_arr(m, P "sign_widths", MT_I32, widths, 1, NULL), B2_OK);
    return meta_set_arr(m, P "sign_values", MT_I32, signs, 32, NULL);
}

static enum b2_status width_extra(struct meta *m, struct b2_err *err)
{
    static const int32_t widths[] = {64, 32};
    int32_t more[96];

    declare(m, err);
    for (int i = 0; i < 96; i++)
        more[i] = 1;
    assert_int_equal(meta_set_arr(m, P "sign_widths", MT_I32, widths, 2, NULL), B2_OK);
    return meta_set_arr(m, P "sign_values", MT_I32, more, 96, NULL);
}

static enum b2_status table_untold(struct meta *m, struct b2_err *err)
{
    static const char *const table[] = {"token_embd.weight"};

    declare(m, err);
    return set_names(m, P "inverse_weight_names", table, 1);
}

/* ssm_out has rows of 64: no heads are declared, or too many. */
static enum b2_status heads_untold(struct meta *m, struct b2_err *err)
{
    static const char *const names[] = {"blk.0.ssm_out.weight"};

    declare(m, err);
    assert_int_equal(meta_set_bool(m, P "gdn_v_grouped", true, NULL), B2_OK);
    return set_names(m, P "weight_names", names, 1);
}

static enum b2_status heads_too_many(struct meta *m, struct b2_err *err)
{
    assert_int_equal(heads_untold(m, err), B2_OK);
    assert_int_equal(meta_set_u32(m, "llama.ssm.group_count", 2, NULL), B2_OK);
    return meta_set_u32(m, "llama.ssm.time_step_rank", 6, err);
}

static void test_bind_refused(void **state)
{
    static const struct {
        enum b2_status (*keys)(struct meta *, struct b2_err *);
        const char *says;
        const char *add;
    } cases[] = {
        {name_absent, "no such tensor", NULL},
        {name_twice, "twice", NULL},
        {width_undivided, "172", NULL},
        {width_undeclared, "no signs for its rows", NULL},
        {width_extra, "signs for rows of 32", NULL},
        {table_untold, "head", NULL},
        {heads_untold, "0 heads", "blk.0.ssm_out.weight"},
        {heads_too_many, "64 are not 6 heads", "blk.0.ssm_out.weight"},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct model *m = NULL;
        struct b2_err err = {0};
        const struct variant v = {
            .keys = cases[i].keys, .add = cases[i].add, .add_cols = 64, .add_rows = 64};
        enum b2_status rc = variant_open(&m, &v, NULL, &err);
        if (rc != B2_EFORMAT || !strstr(err.msg, cases[i].says))
            fail_msg("row %zu: status %d, %s", i, rc, err.msg);
        assert_null(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none),       cmocka_unit_test(test_valid),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_folded_model),
        cmocka_unit_test(test_tied_model), cmocka_unit_test(test_bind_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

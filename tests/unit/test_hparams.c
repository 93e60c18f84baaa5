/*
 * test_hparams.c - keys are applied or refused by name.
 */
#include "model/hparams.h"
#include "model/rope.h"

#include "unit/unit.h"

#include <math.h>

/* The keys of a small `llama`. */
static struct meta *base_keys(void)
{
    static const struct {
        const char *key;
        uint32_t v;
    } counts[] = {
        {"llama.block_count", 3},          {"llama.context_length", 256},
        {"llama.embedding_length", 64},    {"llama.feed_forward_length", 96},
        {"llama.attention.head_count", 8}, {"llama.attention.head_count_kv", 2},
        {"llama.vocab_size", 500},
    };
    struct meta *m = meta_new(1 << 20);

    assert_non_null(m);
    assert_int_equal(meta_set_str(m, "general.architecture", "llama", NULL), B2_OK);
    for (size_t i = 0; i < countof(counts); i++)
        assert_int_equal(meta_set_u32(m, counts[i].key, counts[i].v, NULL), B2_OK);
    assert_int_equal(
        meta_set_f32(m, "llama.attention.layer_norm_rms_epsilon", 1e-5f, NULL), B2_OK);
    return m;
}

static void test_plain(void **state)
{
    struct meta *m = base_keys();
    struct hparams hp;
    struct b2_err err = {0};

    (void)state;
    if (hparams_read(&hp, m, &err) != B2_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(hp.n_layers, 3);
    assert_int_equal(hp.head_dim, 8);
    assert_int_equal(hp.n_rot, 8);
    assert_int_equal(hp.n_kv_heads, 2);
    assert_int_equal(hp.vocab, 500);
    assert_int_equal(hp.window, 0);
    assert_true(hp.rope_base == 10000.0f && hp.rope_scaling == ROPE_SCALE_NONE);
    assert_true(fabsf(hp.attn_scale - 0.35355339f) < 1e-7f);
    /* The token list wins over the key, as in other readers. */
    const struct meta_str tokens[] = {{"a", 1}, {"b", 1}};
    assert_int_equal(meta_set_strs(m, "tokenizer.ggml.tokens", tokens, 2, NULL), B2_OK);
    assert_int_equal(hparams_read(&hp, m, NULL), B2_OK);
    assert_int_equal(hp.vocab, 2);
    meta_free(m);
}

/* One key set to a number (or a word), and what must come of it. */
struct key_case {
    const char *key;
    double number;
    const char *word; /* instead of the number */
    enum b2_status want;
    const char *says; /* must stand in the message */
};

static const struct key_case key_cases[] = {
    {"general.architecture", 0, "mamba", B2_EUNSUP, "known: llama, deci, qwen2"},
    {"llama.attention.sliding_window", 128, NULL, B2_OK, NULL},
    {"llama.attention.key_length", 16, NULL, B2_OK, NULL},
    {"llama.attention.value_length", 16, NULL, B2_EUNSUP, "value_length"},
    {"llama.rope.dimension_count", 4, NULL, B2_OK, NULL},
    {"llama.rope.dimension_count", 3, NULL, B2_EFORMAT, "dimension_count"},
    {"llama.rope.dimension_count", 16, NULL, B2_EFORMAT, "dimension_count"},
    {"llama.attention.head_count_kv", 3, NULL, B2_EFORMAT, "multiple"},
    {"llama.attention.head_count", 7, NULL, B2_EFORMAT, "multiple"},
    {"llama.block_count", 0, NULL, B2_EFORMAT, "llama.block_count"},
    {"llama.embedding_length", 0, NULL, B2_EFORMAT, "embedding_length"},
    {"llama.expert_count", 0, NULL, B2_OK, NULL},
    {"llama.expert_count", 8, NULL, B2_EUNSUP, "llama.expert_count = 8"},
    {"llama.logit_scale", 1, NULL, B2_OK, NULL},
    {"llama.logit_scale", 0.5, NULL, B2_EUNSUP, "llama.logit_scale = 0.5"},
    {"llama.embedding_scale", 12, NULL, B2_EUNSUP, "embedding_scale"},
    {"llama.residual_scale", 0.22, NULL, B2_EUNSUP, "residual_scale"},
    {"llama.attn_logit_softcapping", 50, NULL, B2_EUNSUP, "softcapping"},
    {"llama.attention.clamp_kqv", 8, NULL, B2_EUNSUP, "clamp_kqv"},
    {"llama.attention.causal", 0, NULL, B2_EUNSUP, "looks ahead"},
    {"llama.rope.scaling.type", 0, "longrope", B2_EUNSUP, "longrope"},
    {"llama.rope.scaling.type", 0, "none", B2_OK, NULL},
    {"llama.rope.scaling.factor", -1, NULL, B2_EFORMAT, "negative"},
    {"llama.rope.scaling.yarn_log_multiplier", 0.1, NULL, B2_EUNSUP, "log_multiplier"},
    {"llama.rope.freq_base", -5, NULL, B2_EFORMAT, "freq_base"},
    {"llama.attention.layer_norm_rms_epsilon", 2, NULL, B2_EFORMAT, "epsilon"},
};

static void test_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(key_cases); i++) {
        const struct key_case *c = &key_cases[i];
        struct meta *m = base_keys();
        struct hparams hp;
        struct b2_err err = {0};
        bool whole = floor(c->number) == c->number && c->number >= 0;

        if (c->word)
            ROW_CHECK(i, meta_set_str(m, c->key, c->word, NULL) == B2_OK);
        else if (whole && !strstr(c->key, "scale") && !strstr(c->key, "epsilon"))
            ROW_CHECK(i, meta_set_u32(m, c->key, (uint32_t)c->number, NULL) == B2_OK);
        else
            ROW_CHECK(i, meta_set_f32(m, c->key, (float)c->number, NULL) == B2_OK);
        enum b2_status rc = hparams_read(&hp, m, &err);
        if (rc != c->want || (c->says && !strstr(err.msg, c->says)))
            fail_msg("row %zu, %s: status %d, %s", i, c->key, rc, err.msg);
        meta_free(m);
    }
}

static void test_missing_keys(void **state)
{
    static const char *const needed[] = {
        "general.architecture",
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
        "llama.vocab_size",
    };

    (void)state;
    for (size_t i = 0; i < countof(needed); i++) {
        struct meta *m = base_keys();
        struct hparams hp;
        struct b2_err err = {0};
        meta_remove(m, needed[i]);
        ROW_CHECK(i, hparams_read(&hp, m, &err) == B2_ENOTFOUND);
        ROW_CHECK(i, strstr(err.msg, needed[i]) != NULL);
        meta_free(m);
    }
}

/* One value per layer: kept apart where they differ. */
static void test_per_layer(void **state)
{
    int32_t same[] = {2, 2, 2}, other[] = {2, 4, 2}, odd[] = {2, 3, 2};
    struct meta *m = base_keys();
    struct hparams hp;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(
        meta_set_arr(m, "llama.attention.head_count_kv", MT_I32, same, 3, NULL), B2_OK);
    assert_int_equal(hparams_read(&hp, m, &err), B2_OK);
    assert_int_equal(hp.n_kv_heads, 2);
    assert_null(hp.kv_heads_of);
    assert_int_equal(
        meta_set_arr(m, "llama.attention.head_count_kv", MT_I32, other, 3, NULL),
        B2_OK);
    assert_int_equal(hparams_read(&hp, m, &err), B2_OK);
    assert_int_equal(hp.n_kv_heads, 4);
    assert_int_equal(hparams_kv_heads(&hp, 0), 2);
    assert_int_equal(hparams_kv_heads(&hp, 1), 4);
    assert_int_equal(
        meta_set_arr(m, "llama.attention.head_count_kv", MT_I32, odd, 3, NULL), B2_OK);
    assert_int_equal(hparams_read(&hp, m, &err), B2_EFORMAT);
    assert_non_null(strstr(err.msg, "layer 1"));
    meta_free(m);
}

static void test_unknown_keys(void **state)
{
    struct meta *m = base_keys();
    int64_t i = 0;

    (void)state;
    assert_null(hparams_unknown_key(m, &i));
    assert_int_equal(meta_set_u32(m, "llama.attention.novelty", 1, NULL), B2_OK);
    assert_int_equal(meta_set_u32(m, "other.novelty", 1, NULL), B2_OK);
    i = 0;
    assert_string_equal(hparams_unknown_key(m, &i), "llama.attention.novelty");
    assert_null(hparams_unknown_key(m, &i));
    meta_free(m);
}

/* Linear stretching is the same angle at factor times the position; YaRN keeps the
 * fastest pair and divides the slowest. */
static void test_angles(void **state)
{
    struct hparams hp = {.n_rot = 64,
                         .rope_base = 10000,
                         .rope_factor = 4,
                         .rope_orig_ctx = 2048,
                         .rope_attn_factor = 1,
                         .yarn_ext = 1,
                         .yarn_beta_fast = 32,
                         .yarn_beta_slow = 1};
    float plain[32], other[32], mscale;

    (void)state;
    rope_angles(&hp, NULL, plain, &mscale);
    assert_true(mscale == 1.0f && plain[0] == 1.0f);
    for (int i = 0; i < 32; i++)
        ROW_CHECK(i, fabs((double)plain[i] / pow(10000, -i / 32.0) - 1) < 1e-5);
    hp.rope_scaling = ROPE_SCALE_LINEAR;
    rope_angles(&hp, NULL, other, &mscale);
    for (int i = 0; i < 32; i++)
        ROW_CHECK(i, other[i] == plain[i] / 4);
    hp.rope_scaling = ROPE_SCALE_YARN;
    rope_angles(&hp, NULL, other, &mscale);
    assert_true(other[0] == plain[0] && fabsf(other[31] * 4 / plain[31] - 1) < 1e-6f);
    for (int i = 0; i < 32; i++)
        ROW_CHECK(i, other[i] <= plain[i] && other[i] >= plain[i] / 4 * 0.999999f);
    assert_true(fabsf(mscale - 1.1386294f) < 1e-6f); /* 1 + 0.1 ln 4 */
}

/* The keys of a small `gemma3`. */
static struct meta *gemma3_keys(void)
{
    static const char *const counts[] = {
        "block_count",         "context_length",           "embedding_length",
        "feed_forward_length", "attention.head_count",     "attention.key_length",
        "vocab_size",          "attention.sliding_window",
    };
    static const uint32_t values[] = {8, 256, 64, 96, 4, 32, 500, 64};
    struct meta *m = meta_new(1 << 20);
    char key[64];

    assert_non_null(m);
    assert_int_equal(meta_set_str(m, "general.architecture", "gemma3", NULL), B2_OK);
    for (size_t i = 0; i < countof(counts); i++) {
        snprintf(key, sizeof key, "gemma3.%s", counts[i]);
        assert_int_equal(meta_set_u32(m, key, values[i], NULL), B2_OK);
    }
    assert_int_equal(
        meta_set_f32(m, "gemma3.attention.layer_norm_rms_epsilon", 1e-6f, NULL), B2_OK);
    return m;
}

/* Which of the 8 layers slide, as bits. */
static unsigned sliding(const struct meta *m)
{
    struct hparams hp;
    struct b2_err err = {0};
    unsigned bits = 0;

    if (hparams_read(&hp, m, &err))
        fail_msg("%s", err.msg);
    for (int i = 0; i < 8; i++)
        bits |= hparams_slides(&hp, i) ? 1u << i : 0;
    return bits;
}

static void test_gemma3(void **state)
{
    struct meta *m = gemma3_keys();
    struct hparams hp;

    (void)state;
    assert_int_equal(hparams_read(&hp, m, NULL), B2_OK);
    assert_true(hp.embd_scale == 8.0f && hp.rope_base_local == 10000.0f);
    assert_true(fabsf(hp.attn_scale - 0.17677669f) < 1e-7f);
    assert_int_equal(meta_set_f32(m, "gemma3.final_logit_softcapping", 30, NULL),
                     B2_OK);
    assert_int_equal(meta_set_f32(m, "gemma3.rope.freq_base_swa", 500, NULL), B2_OK);
    assert_int_equal(hparams_read(&hp, m, NULL), B2_OK);
    assert_true(hp.final_softcap == 30.0f && hp.rope_base_local == 500.0f);
    assert_int_equal(meta_set_f32(m, "gemma3.attn_logit_softcapping", 50, NULL), B2_OK);
    assert_int_equal(hparams_read(&hp, m, NULL), B2_EUNSUP);
    meta_remove(m, "gemma3.attn_logit_softcapping");
    /* The 27B is known by its layers: 64 wide in 4 heads. */
    assert_int_equal(meta_set_u32(m, "gemma3.block_count", 62, NULL), B2_OK);
    assert_int_equal(hparams_read(&hp, m, NULL), B2_OK);
    assert_true(hp.attn_scale == 0.25f);
    meta_free(m);
}

static void test_sliding_layers(void **state)
{
    static const char key[] = "gemma3.attention.sliding_window_pattern";
    struct meta *m = gemma3_keys(), *llama = base_keys();
    struct hparams hp;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(sliding(m), 0xdf); /* every sixth sees everything */
    assert_int_equal(meta_set_u32(m, key, 3, NULL), B2_OK);
    assert_int_equal(sliding(m), 0xdb);
    assert_int_equal(meta_set_u32(m, key, 1, NULL), B2_OK);
    assert_int_equal(sliding(m), 0);
    assert_int_equal(meta_set_u32(m, key, 0, NULL), B2_OK);
    assert_int_equal(sliding(m), 0xff);
    for (unsigned period = 0; period <= 9; period++) { /* the same as flags */
        bool flags[8];
        unsigned want = 0;
        for (unsigned i = 0; i < 8; i++) {
            flags[i] = period == 0 || i % period < period - 1;
            want |= flags[i] ? 1u << i : 0;
        }
        assert_int_equal(meta_set_arr(m, key, MT_BOOL, flags, 8, NULL), B2_OK);
        ROW_CHECK(period, sliding(m) == want);
    }
    const bool odd[8] = {true, false, true, true};
    assert_int_equal(meta_set_arr(m, key, MT_BOOL, odd, 8, NULL), B2_OK);
    assert_int_equal(hparams_read(&hp, m, &err), B2_EUNSUP);
    assert_int_equal(meta_set_arr(m, key, MT_BOOL, odd, 7, NULL), B2_OK);
    assert_int_equal(hparams_read(&hp, m, &err), B2_EFORMAT);
    assert_int_equal(meta_set_f32(m, key, 2.5f, NULL), B2_OK);
    assert_int_equal(hparams_read(&hp, m, &err), B2_EFORMAT);
    meta_free(m);
    /* A window of `llama` is for all layers. */
    assert_int_equal(meta_set_u32(llama, "llama.attention.sliding_window", 64, NULL),
                     B2_OK);
    assert_int_equal(sliding(llama), 0xff);
    meta_free(llama);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_missing_keys), cmocka_unit_test(test_per_layer),
        cmocka_unit_test(test_unknown_keys), cmocka_unit_test(test_angles),
        cmocka_unit_test(test_gemma3),       cmocka_unit_test(test_sliding_layers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

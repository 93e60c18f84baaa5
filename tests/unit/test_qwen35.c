/*
 * test_qwen35.c - keys and tensors of models with gated delta nets: what is read, what is
 * refused, and the blocks that are there and not run.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "format/gguf.h"
#include "unit/golden_logits.h"
#include "unit/scratch.h"

static struct scratch scratch;

#define A "qwen35."

/* The published 27B (MODELS.md §1.1), and one further block for further tokens. */
static struct meta *keys_27b(uint32_t n_mtp)
{
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        {A "context_length", 262144},      {A "embedding_length", 5120},
        {A "feed_forward_length", 17408},  {A "attention.head_count", 24},
        {A "attention.head_count_kv", 4},  {A "attention.key_length", 256},
        {A "attention.value_length", 256}, {A "rope.dimension_count", 64},
        {A "ssm.conv_kernel", 4},          {A "ssm.state_size", 128},
        {A "ssm.group_count", 16},         {A "ssm.time_step_rank", 48},
        {A "ssm.inner_size", 6144},        {A "full_attention_interval", 4},
        {A "vocab_size", 248320},
    };
    static const int32_t sections[] = {11, 11, 10, 0};
    struct meta *m = meta_new(1 << 20);

    assert_non_null(m);
    assert_int_equal(meta_set_str(m, "general.architecture", "qwen35", NULL), B2_OK);
    for (size_t i = 0; i < countof(numbers); i++)
        assert_int_equal(meta_set_u32(m, numbers[i].key, numbers[i].value, NULL),
                         B2_OK);
    assert_int_equal(meta_set_u32(m, A "block_count", 64 + n_mtp, NULL), B2_OK);
    if (n_mtp)
        assert_int_equal(meta_set_u32(m, A "nextn_predict_layers", n_mtp, NULL), B2_OK);
    assert_int_equal(meta_set_f32(m, A "attention.layer_norm_rms_epsilon", 1e-6f, NULL),
                     B2_OK);
    assert_int_equal(meta_set_f32(m, A "rope.freq_base", 1e7f, NULL), B2_OK);
    assert_int_equal(
        meta_set_arr(m, A "rope.dimension_sections", MT_I32, sections, 4, NULL), B2_OK);
    return m;
}

static void test_27b(void **state)
{
    (void)state;
    for (uint32_t mtp = 0; mtp < 2; mtp++) {
        struct meta *m = keys_27b(mtp);
        struct hparams hp;
        struct b2_err err = {0};
        int64_t i = 0, n = 0;
        gl_must(hparams_read(&hp, m, &err), &err);
        assert_null(hparams_unknown_key(m, &i));
        assert_int_equal(hp.n_layers, 64);
        assert_int_equal(hp.n_mtp, mtp);
        assert_int_equal(hp.n_rot, 64);
        assert_int_equal(hp.head_dim, 256);
        assert_int_equal(hparams_conv_channels(&hp), 10240);
        assert_true(hp.attn_scale == 0.0625f);
        for (int64_t l = 0; l < 64; l++) {
            assert_true(hparams_recurrent(&hp, l) == (l % 4 != 3));
            n += hparams_recurrent(&hp, l);
        }
        assert_int_equal(n, 48);
        meta_free(m);
    }
}

static void test_layers(void **state)
{
    uint8_t flags[65];
    int32_t numbers[64];
    struct hparams hp;
    struct b2_err err = {0};
    struct meta *m = keys_27b(1);

    (void)state;
    /* The default interval. */
    meta_remove(m, A "full_attention_interval");
    gl_must(hparams_read(&hp, m, &err), &err);
    assert_true(!hparams_recurrent(&hp, 3) && hparams_recurrent(&hp, 4));
    /* Flags go first, also with one for the further block. */
    for (int i = 0; i < 65; i++)
        flags[i] = i % 2 == 0;
    assert_int_equal(
        meta_set_arr(m, A "attention.recurrent_layers", MT_BOOL, flags, 65, NULL),
        B2_OK);
    gl_must(hparams_read(&hp, m, &err), &err);
    assert_true(hparams_recurrent(&hp, 0) && !hparams_recurrent(&hp, 1));
    for (int i = 0; i < 64; i++)
        numbers[i] = i == 7;
    assert_int_equal(
        meta_set_arr(m, A "attention.recurrent_layers", MT_I32, numbers, 64, NULL),
        B2_OK);
    gl_must(hparams_read(&hp, m, &err), &err);
    assert_true(hparams_recurrent(&hp, 7) && !hparams_recurrent(&hp, 8));
    meta_free(m);
}

static void test_refused(void **state)
{
    static const struct {
        const char *key;
        uint32_t value;
        enum b2_status want;
        const char *says;
    } cases[] = {
        {A "ssm.conv_kernel", 0, B2_EFORMAT, "ssm.conv_kernel"},
        {A "ssm.conv_kernel", 9, B2_EFORMAT, "ssm.conv_kernel"},
        {A "ssm.group_count", 0, B2_EFORMAT, "ssm.group_count"},
        {A "ssm.group_count", 7, B2_EFORMAT, "not a multiple of ssm.group_count"},
        {A "ssm.time_step_rank", 32, B2_EFORMAT, "ssm.inner_size 6144"},
        {A "ssm.state_size", 64, B2_EFORMAT, "ssm.state_size 64"},
        {A "ssm.inner_size", 4096, B2_EFORMAT, "ssm.inner_size 4096"},
        {A "full_attention_interval", 0, B2_EFORMAT, "full_attention_interval"},
        {A "nextn_predict_layers", 64, B2_EFORMAT, "none is left"},
        {A "rope.dimension_count", 66, B2_EUNSUP, "dimension_sections"},
        {A "rope.dimension_sections", 1, B2_EFORMAT, "dimension_sections"},
        {A "attention.recurrent_layers", 1, B2_EFORMAT, "recurrent_layers"},
    };
    static const char *const needed[] = {
        A "ssm.conv_kernel",    A "ssm.group_count", A "ssm.state_size",
        A "ssm.time_step_rank", A "ssm.inner_size",
    };
    struct hparams hp;

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct meta *m = keys_27b(0);
        struct b2_err err = {0};
        assert_int_equal(meta_set_u32(m, cases[i].key, cases[i].value, NULL), B2_OK);
        enum b2_status rc = hparams_read(&hp, m, &err);
        if (rc != cases[i].want || !strstr(err.msg, cases[i].says))
            fail_msg("row %zu: status %d, %s", i, rc, err.msg);
        meta_free(m);
    }
    for (size_t i = 0; i < countof(needed); i++) {
        struct meta *m = keys_27b(0);
        struct b2_err err = {0};
        meta_remove(m, needed[i]);
        ROW_CHECK(i, hparams_read(&hp, m, &err) == B2_ENOTFOUND);
        ROW_CHECK(i, strstr(err.msg, needed[i]) != NULL);
        meta_free(m);
    }
}

/* ---- files: changed copies of the tiny model ---- */

/* What differs: a tensor left out, one in another shape, blocks for further tokens. */
struct change {
    const char *skip, *widen;
    bool mtp;
};

static enum b2_status declare(struct gguf_out *out, struct modelfile *mf,
                              const struct change *c, struct b2_err *err)
{
    static const int64_t square[] = {128, 64}, one[] = {64};
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < modelfile_n_tensors(mf) && !rc; i++) {
        struct tensor t = *modelfile_tensor(mf, i);
        if (c->skip && strcmp(t.name, c->skip) == 0)
            continue;
        if (c->widen && strcmp(t.name, c->widen) == 0)
            t.ne[1] *= 2;
        rc = gguf_out_tensor(out, t.name, t.type, t.rank, t.ne, err);
    }
    if (!rc && c->mtp)
        rc = gguf_out_tensor(out, "blk.4.nextn.eh_proj.weight", DT_F32, 2, square, err);
    if (!rc && c->mtp)
        rc = gguf_out_tensor(out, "blk.4.attn_norm.weight", DT_F32, 1, one, err);
    return rc ? rc : gguf_out_header(out, err);
}

static enum b2_status put_data(struct gguf_out *out, struct modelfile *mf,
                               const struct change *c, struct b2_err *err)
{
    static const float zeros[128 * 64];
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < modelfile_n_tensors(mf) && !rc; i++) {
        const struct tensor *t = modelfile_tensor(mf, i);
        rc = modelfile_load(mf, i, err);
        if (rc || (c->skip && strcmp(t->name, c->skip) == 0))
            continue;
        int copies = c->widen && strcmp(t->name, c->widen) == 0 ? 2 : 1;
        for (int k = 0; k < copies && !rc; k++)
            rc = gguf_out_data(out, t->data, (size_t)t->n_bytes, err);
    }
    if (!rc && c->mtp)
        rc = gguf_out_data(out, zeros, sizeof zeros, err);
    if (!rc && c->mtp)
        rc = gguf_out_data(out, zeros, 64 * sizeof *zeros, err);
    return rc;
}

static const char *write_changed(const struct change *c)
{
    const char *path = scratch_path(&scratch, "changed.gguf");
    struct modelfile *mf = NULL;
    struct gguf_out *out = NULL;
    struct meta *m = meta_new(1 << 20);
    struct b2_err err = {0};

    gl_must(modelfile_open(&mf, B2_GOLDEN_DIR "/arch/qwen35", NULL, &err), &err);
    for (int64_t i = 0; i < meta_count(modelfile_meta(mf)); i++)
        gl_must(meta_copy(m, meta_at(modelfile_meta(mf), i), &err), &err);
    if (c->mtp) {
        gl_must(meta_set_u32(m, A "block_count", 5, &err), &err);
        gl_must(meta_set_u32(m, A "nextn_predict_layers", 1, &err), &err);
    }
    gl_must(gguf_out_open(&out, path, true, m, &err), &err);
    gl_must(declare(out, mf, c, &err), &err);
    gl_must(put_data(out, mf, c, &err), &err);
    gl_must(gguf_out_finish(out, &err), &err);
    meta_free(m);
    modelfile_close(mf);
    return path;
}

struct heard {
    int n;
    char last[256];
};

static void listen(void *ctx, enum log_level level, const char *line)
{
    struct heard *h = ctx;

    (void)level;
    h->n++;
    snprintf(h->last, sizeof h->last, "%s", line);
}

/* A further block is counted in one note and changes no bit. */
static void test_mtp(void **state)
{
    static const struct way way = {.threads = 1, .piece = GL_T};
    static float want[GL_T * GL_V], got[GL_T * GL_V];
    static struct golden g;
    struct heard heard = {0};
    const struct log log = {
        .level = LOG_INFO, .sink = listen, .ctx = &heard, .strict = true};
    const struct model_params p = {.log = &log};
    struct model *m = NULL;
    struct b2_err err = {0};

    (void)state;
    gl_read(&g, "qwen35/logits.bin");
    gl_must(model_open(&m, write_changed(&(struct change){0}), NULL, &err), &err);
    gl_run(want, m, g.ids, &way);
    model_close(m);
    gl_must(model_open(&m, write_changed(&(struct change){.mtp = true}), &p, &err),
            &err);
    assert_int_equal(m->hp.n_layers, 4);
    assert_int_equal(heard.n, 1);
    assert_non_null(strstr(heard.last, "2 tensors that predict further tokens"));
    gl_run(got, m, g.ids, &way);
    model_close(m);
    assert_memory_equal(got, want, sizeof want);
}

static void test_tensors(void **state)
{
    static const struct {
        const char *name;
        bool wide; /* else left out */
    } cases[] = {
        {"blk.0.attn_qkv.weight", false},
        {"blk.0.attn_gate.weight", false},
        {"blk.1.ssm_alpha.weight", false},
        {"blk.1.ssm_beta.weight", false},
        {"blk.0.ssm_a", false},
        {"blk.0.ssm_dt.bias", false},
        {"blk.0.ssm_norm.weight", false},
        {"blk.2.ssm_conv1d.weight", false},
        {"blk.0.ssm_out.weight", false},
        {"blk.0.post_attention_norm.weight", false},
        {"blk.3.attn_q.weight", false},
        {"blk.3.attn_q_norm.weight", false},
        {"blk.0.attn_qkv.weight", true},
        {"blk.0.ssm_conv1d.weight", true},
        {"blk.3.attn_q.weight", true},
        {"blk.0.ssm_beta.weight", true},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct change c = {0};
        *(cases[i].wide ? &c.widen : &c.skip) = cases[i].name;
        struct model *m = NULL;
        struct b2_err err = {0};
        enum b2_status rc = model_open(&m, write_changed(&c), NULL, &err);
        if (rc != (cases[i].wide ? B2_EFORMAT : B2_ENOTFOUND) ||
            !strstr(err.msg, cases[i].name))
            fail_msg("row %zu: status %d, %s", i, rc, err.msg);
        assert_null(m);
    }
}

static int make_scratch(void **state)
{
    (void)state;
    scratch_make(&scratch);
    return 0;
}

static int remove_scratch(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_27b),     cmocka_unit_test(test_layers),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_mtp),
        cmocka_unit_test(test_tensors),
    };

    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}

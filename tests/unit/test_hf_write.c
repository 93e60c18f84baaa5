/*
 * test_hf_write.c - a GGUF becomes a Hugging Face folder that is the same model.
 *
 * The folder is read by format/hf, which tests/golden checks against real folders; the
 * small trained model has a SentencePiece vocabulary, a byte-level one is made here.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "compress/convert.h"

#include "base/mem.h"
#include "base/str.h"
#include "compress/rotate.h"
#include "format/hf_tokenizer.h"
#include "format/hf_write_vocab.h"
#include "format/json.h"
#include "model/vocab.h"
#include "tensor/quant.h"
#include "unit/scratch.h"
#include "unit/unit.h"
#include "unit/variant.h"

#include <math.h>

static void must(enum b2_status rc, const struct b2_err *err)
{
    if (rc)
        fail_msg("%s", err->msg);
}

static enum b2_status export(const char *in, const char *out, const char *format,
                             struct convert_report *r, struct b2_err *err) {
    struct convert_params p = {.format = format, .force = true};
    struct modelfile *mf = NULL;

    must(modelfile_open(&mf, in, NULL, err), err);
    enum b2_status rc = convert_model(mf, out, &p, r, err);
    modelfile_close(mf);
    return rc;
}

/* Largest difference of any value; names, ranks and shapes must agree. */
static double compare(const char *path_a, const char *path_b)
{
    struct modelfile *a = NULL, *b = NULL;
    struct b2_err err = {0};
    double max = 0;

    must(modelfile_open(&a, path_a, NULL, &err), &err);
    must(modelfile_open(&b, path_b, NULL, &err), &err);
    assert_int_equal(modelfile_n_tensors(a), modelfile_n_tensors(b));
    for (int64_t i = 0; i < modelfile_n_tensors(a); i++) {
        const struct tensor *t = modelfile_tensor(a, i);
        int64_t k = modelfile_find(b, t->name);
        assert_true(k >= 0);
        const struct tensor *u = modelfile_tensor(b, k);
        assert_int_equal(t->rank, u->rank);
        assert_memory_equal(t->ne, u->ne, sizeof t->ne);
        must(modelfile_load(a, i, &err), &err);
        must(modelfile_load(b, k, &err), &err);
        int64_t n = tensor_count(t);
        float *x = mem_calloc((size_t)n, sizeof *x),
              *y = mem_calloc((size_t)n, sizeof *y);
        assert_true(x && y);
        quant_decode_row(t->type, x, t->data, n);
        quant_decode_row(u->type, y, u->data, n);
        for (int64_t j = 0; j < n; j++)
            max = fmax(max, fabs((double)x[j] - (double)y[j]));
        mem_free(x);
        mem_free(y);
    }
    modelfile_close(a);
    modelfile_close(b);
    return max;
}

/* Both files cut texts to the same ids. */
static void compare_tokenizers(const char *path_a, const char *path_b)
{
    static const char *const texts[] = {"", " ", "Once upon a time", "  two  spaces\n",
                                        "Lily\u00e9 \U0001F600 <s>x</s>"};
    struct modelfile *a = NULL, *b = NULL;
    struct tokenizer *s = NULL, *t = NULL;
    struct b2_err err = {0};

    must(modelfile_open(&a, path_a, NULL, &err), &err);
    must(modelfile_open(&b, path_b, NULL, &err), &err);
    must(vocab_tokenizer(&s, modelfile_meta(a), &err), &err);
    must(vocab_tokenizer(&t, modelfile_meta(b), &err), &err);
    for (size_t i = 0; i < countof(texts); i++) {
        struct tok_ids x = {0}, y = {0};
        unsigned flags = TOK_SPECIAL | TOK_ADD_BOS;
        must(tok_encode(s, texts[i], strlen(texts[i]), flags, &x, &err), &err);
        must(tok_encode(t, texts[i], strlen(texts[i]), flags, &y, &err), &err);
        ROW_CHECK(i,
                  x.n == y.n && (x.n == 0 || memcmp(x.id, y.id, (size_t)x.n * 4) == 0));
        tok_ids_free(&x);
        tok_ids_free(&y);
    }
    tok_free(s);
    tok_free(t);
    modelfile_close(a);
    modelfile_close(b);
}

static void check_number(const char *path, const char *key, double want)
{
    struct modelfile *mf = NULL;
    struct b2_err err = {0};
    float f = -1;
    uint32_t u;

    must(modelfile_open(&mf, path, NULL, &err), &err);
    if (meta_get_u32(modelfile_meta(mf), key, &u, NULL) == B2_OK)
        f = (float)u;
    else
        must(meta_get_f32(modelfile_meta(mf), key, &f, &err), &err);
    if ((float)want != f)
        fail_msg("%s: %g, want %g", key, (double)f, want);
    modelfile_close(mf);
}

/* There, and back: F32 exact, the 16-bit formats as far as they round. */
static void test_round_trip(void **state)
{
    static const struct {
        const char *format;
        double bound; /* relative to values below 4 */
    } cases[] = {{"hf-f32", 0}, {"hf-f16", 4.0 / 2048}, {"hf-bf16", 4.0 / 256}};
    struct scratch s;
    struct convert_report r;
    struct b2_err err = {0};

    (void)state;
    scratch_make(&s);
    const char *dir = scratch_path(&s, "folder");
    for (size_t i = 0; i < countof(cases); i++) {
        must(export(B2_STORIES, dir, cases[i].format, &r, &err), &err);
        double diff = compare(B2_STORIES, dir);
        ROW_CHECK(i, diff <= cases[i].bound && diff == r.max_error);
        compare_tokenizers(B2_STORIES, dir);
        check_number(dir, "llama.embedding_length", 64);
        check_number(dir, "llama.attention.head_count", 8);
        check_number(dir, "llama.attention.head_count_kv", 4);
        check_number(dir, "llama.attention.layer_norm_rms_epsilon", 1e-5);
        check_number(dir, "llama.rope.freq_base", 10000);
        check_number(dir, "llama.context_length", 512);
        check_number(dir, "tokenizer.ggml.bos_token_id", 1);
        check_number(dir, "tokenizer.ggml.eos_token_id", 2);
    }
    /* A folder is a source like any other, and is not replaced without being asked. */
    char back[512];
    snprintf(back, sizeof back, "%s/back.gguf", s.dir);
    must(export(dir, back, "gguf", &r, &err), &err);
    assert_true(compare(dir, back) == 0);
    struct convert_params p = {.format = "hf-f32"};
    struct modelfile *mf = NULL;
    must(modelfile_open(&mf, back, NULL, &err), &err);
    assert_int_equal(convert_model(mf, dir, &p, &r, &err), B2_EEXIST);
    modelfile_close(mf);
    scratch_remove(&s);
}

/* ---- rotation ---- */

static struct rotate *rotation; /* of the variant that is being written */

static bool is_folded(const char *name)
{
    return strcmp(name, "blk.1.attn_q.weight") == 0 ||
           strcmp(name, "blk.2.ffn_up.weight") == 0;
}

static void fold(const char *name, float *w, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; is_folded(name) && r < rows; r++)
        rotate_fold_row(rotation, w + r * cols, cols);
}

static enum b2_status rotation_keys(struct meta *m, struct b2_err *err)
{
    static const struct meta_str names[] = {{"blk.1.attn_q.weight", 19},
                                            {"blk.2.ffn_up.weight", 19}};

    return rotate_set_keys(rotation, m, names, 2, err);
}

/* Rotated weights come out as they were before; a GGUF keeps them and the keys. */
static void test_unfold(void **state)
{
    struct variant v = {.keys = rotation_keys, .values = fold};
    struct scratch s;
    struct convert_report r;
    struct b2_err err = {0};
    char file[512], copy[512];

    (void)state;
    scratch_make(&s);
    snprintf(file, sizeof file, "%s/rotated.gguf", s.dir);
    snprintf(copy, sizeof copy, "%s/copy.gguf", s.dir);
    rotation = rotate_new(32, 7);
    assert_non_null(rotation);
    must(rotate_add_width(rotation, 64, &err), &err);
    must(variant_write(file, &v, &err), &err);
    assert_true(compare(B2_STORIES, file) > 0.1);
    must(export(file, scratch_path(&s, "folder"), "hf-f32", &r, &err), &err);
    assert_true(compare(B2_STORIES, s.path) < 1e-6);
    must(export(file, copy, "gguf-f32", &r, &err), &err);
    assert_true(compare(file, copy) == 0);
    check_number(copy, "prism.hadamard.block_size", 32);
    rotate_free(rotation);
    scratch_remove(&s);
}

/* ---- rotary positions ---- */

static float factors[4]; /* heads of 8 */

static enum b2_status no_keys(struct meta *m, struct b2_err *err)
{
    (void)m;
    (void)err;
    return B2_OK;
}

/* A table of llama3 divisors becomes four numbers and comes back; another is refused. */
static void test_llama3(void **state)
{
    struct variant v = {.keys = no_keys,
                        .add = "rope_freqs.weight",
                        .type = DT_F32,
                        .add_cols = 4,
                        .add_rows = 1,
                        .add_data = factors};
    struct scratch s;
    struct convert_report r;
    struct b2_err err = {0};
    char file[512];

    (void)state;
    scratch_make(&s);
    snprintf(file, sizeof file, "%s/rope.gguf", s.dir);
    /* theta 1e4: waves of 6.28, 62.8, 628 and 6283 positions. With 4096 positions before
     * stretching the first three are short (below 1024) and the last is long. */
    factors[0] = factors[1] = factors[2] = 1.0f;
    factors[3] = 8.0f;
    must(variant_write(file, &v, &err), &err);
    must(export(file, scratch_path(&s, "f"), "hf-f32", &r, &err), &err);
    assert_true(compare(file, s.path) < 1e-6);
    must(file_remove_tree(s.path, &err), &err);
    factors[1] = 2.0f; /* shorter waves are never stretched more than longer ones */
    must(variant_write(file, &v, &err), &err);
    assert_int_equal(export(file, s.path, "hf-f32", &r, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "rope_freqs.weight"));
    assert_false(file_exists(s.path)); /* refused before anything is made */
    scratch_remove(&s);
}

static enum b2_status yarn(struct meta *m, struct b2_err *err)
{
    enum b2_status rc = meta_set_str(m, "llama.rope.scaling.type", "yarn", err);

    rc = rc ? rc : meta_set_f32(m, "llama.rope.scaling.factor", 4.0f, err);
    return rc ? rc
              : meta_set_u32(m, "llama.rope.scaling.original_context_length", 128, err);
}

static enum b2_status linear(struct meta *m, struct b2_err *err)
{
    enum b2_status rc = meta_set_str(m, "llama.rope.scaling.type", "linear", err);

    return rc ? rc : meta_set_f32(m, "llama.rope.scaling.factor", 2.5f, err);
}

static void test_scaling(void **state)
{
    static const struct {
        enum b2_status (*keys)(struct meta *, struct b2_err *);
        double factor;
    } cases[] = {{yarn, 4}, {linear, 2.5}};
    struct scratch s;
    struct convert_report r;
    struct b2_err err = {0};
    char file[512];

    (void)state;
    scratch_make(&s);
    snprintf(file, sizeof file, "%s/rope.gguf", s.dir);
    for (size_t i = 0; i < countof(cases); i++) {
        struct variant v = {.keys = cases[i].keys};
        must(variant_write(file, &v, &err), &err);
        must(export(file, scratch_path(&s, "f"), "hf-f32", &r, &err), &err);
        check_number(s.path, "llama.rope.scaling.factor", cases[i].factor);
        if (i == 0)
            check_number(s.path, "llama.rope.scaling.original_context_length", 128);
    }
    scratch_remove(&s);
}

/* ---- what a folder cannot say ---- */

static enum b2_status other_arch(struct meta *m, struct b2_err *err)
{
    return meta_set_str(m, "general.architecture", "gemma3", err);
}

static enum b2_status odd_key(struct meta *m, struct b2_err *err)
{
    return meta_set_f32(m, "llama.logit_scale", 2.0f, err);
}

static enum b2_status no_tokens(struct meta *m, struct b2_err *err)
{
    (void)err;
    meta_remove(m, "tokenizer.ggml.tokens");
    return B2_OK;
}

static enum b2_status odd_tokenizer(struct meta *m, struct b2_err *err)
{
    return meta_set_str(m, "tokenizer.ggml.model", "t5", err);
}

static void test_refused(void **state)
{
    static const struct {
        enum b2_status (*keys)(struct meta *, struct b2_err *);
        const char *add, *word;
    } cases[] = {
        {other_arch, NULL, "gemma3"},
        {odd_key, NULL, "llama.logit_scale"},
        {no_tokens, NULL, "tokenizer.ggml.tokens"},
        {odd_tokenizer, NULL, "t5"},
        {NULL, "blk.0.attn_q.bias", "blk.0.attn_q.bias"},
    };
    struct scratch s;
    struct convert_report r;
    struct b2_err err = {0};
    char file[512];

    (void)state;
    scratch_make(&s);
    snprintf(file, sizeof file, "%s/odd.gguf", s.dir);
    for (size_t i = 0; i < countof(cases); i++) {
        struct variant v = {.keys = cases[i].keys,
                            .add = cases[i].add,
                            .type = DT_F32,
                            .add_cols = 64,
                            .add_rows = 1};
        must(variant_write(file, &v, &err), &err);
        ROW_CHECK(i, export(file, scratch_path(&s, "f"), "hf-f32", &r, &err) != B2_OK);
        ROW_CHECK(i, strstr(err.msg, cases[i].word));
        ROW_CHECK(i, !file_exists(s.path));
    }
    scratch_remove(&s);
}

/* ---- byte-level vocabularies ---- */

static struct meta *byte_level(const char *pre, bool add_bos)
{
    static const struct meta_str tokens[] = {
        {"<s>", 3},     {"a", 1},      {"b", 1},         {"ab", 2},
        {"\u0120a", 3}, {"\u0120", 2}, {"say \"\\\n", 7}};
    static const int32_t types[] = {3, 1, 1, 1, 1, 1, 4};
    static const struct meta_str merges[] = {{"a b", 3}, {"\u0120 a", 4}};
    struct meta *m = meta_new(1 << 20);
    struct b2_err err = {0};

    assert_non_null(m);
    must(meta_set_str(m, "tokenizer.ggml.model", "gpt2", &err), &err);
    must(meta_set_str(m, "tokenizer.ggml.pre", pre, &err), &err);
    must(meta_set_strs(m, "tokenizer.ggml.tokens", tokens, countof(tokens), &err),
         &err);
    must(meta_set_strs(m, "tokenizer.ggml.merges", merges, countof(merges), &err),
         &err);
    must(meta_set_arr(m, "tokenizer.ggml.token_type", MT_I32, types, countof(types),
                      &err),
         &err);
    must(meta_set_u32(m, "tokenizer.ggml.bos_token_id", 0, &err), &err);
    must(meta_set_bool(m, "tokenizer.ggml.add_bos_token", add_bos, &err), &err);
    return m;
}

/* The reader of tokenizer.json takes what is written for what it was. */
static void test_byte_level(void **state)
{
    static const struct {
        const char *pre, *back; /* one of the names of the same pattern */
    } cases[] = {
        {"gpt-2", "gpt-2"},      {"smollm", "smollm"},
        {"starcoder", "smollm"}, {"llama-bpe", "llama-bpe"},
        {"qwen2", "qwen2"},      {"qwen35", "qwen35"},
        {"dbrx", "smaug-bpe"},   {"gpt-4o", "gpt-4o"},
        {"tekken", "tekken"},    {"deepseek-v3", "deepseek-v3"},
    };
    struct b2_err err = {0};

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct meta *m = byte_level(cases[i].pre, i % 2 == 0), *got = meta_new(1 << 20);
        struct hf_write_vocab v;
        struct str s = {0};
        const char *pre;
        const struct meta_str *a, *b;
        uint64_t n, k;
        bool bos;
        assert_non_null(got);
        must(hf_write_vocab_read(&v, m, &err), &err);
        must(hf_write_vocab_json(&s, &v, &err), &err);
        must(hf_tokenizer_meta(got, s.data, s.len, NULL, 0, 0, &err), &err);
        must(meta_get_str(got, "tokenizer.ggml.pre", &pre, &err), &err);
        ROW_CHECK(i, strcmp(pre, cases[i].back) == 0);
        must(meta_opt_bool(got, "tokenizer.ggml.add_bos_token", &bos, false, &err),
             &err);
        ROW_CHECK(i, bos == (i % 2 == 0));
        must(meta_get_strs(m, "tokenizer.ggml.tokens", &a, &n, &err), &err);
        must(meta_get_strs(got, "tokenizer.ggml.tokens", &b, &k, &err), &err);
        ROW_CHECK(i, n == k);
        for (uint64_t t = 0; t < n; t++)
            ROW_CHECK(i, strcmp(a[t].data, b[t].data) == 0);
        must(meta_get_strs(got, "tokenizer.ggml.merges", &b, &k, &err), &err);
        ROW_CHECK(i, k == 2 && strcmp(b[0].data, "a b") == 0);
        str_free(&s);
        meta_free(m);
        meta_free(got);
    }
    struct meta *m = byte_level("martian", false);
    struct hf_write_vocab v;
    assert_int_equal(hf_write_vocab_read(&v, m, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "martian"));
    meta_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_unfold),
        cmocka_unit_test(test_llama3),     cmocka_unit_test(test_scaling),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_byte_level),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

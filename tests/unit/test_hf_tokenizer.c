/*
 * test_hf_tokenizer.c - tokenizer.json to keys: what is set, what is refused and how.
 * That the ids are right is the business of test_tok_vectors.c.
 */
#include "format/hf_tokenizer.h"
#include "model/vocab.h"
#include "unit/unit.h"

enum { META_BYTES = 8 << 20 };

#define BYTE_LEVEL                                                                     \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"            \
    "\"use_regex\":true}"
#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]"
#define MODEL "\"model\":{\"type\":\"BPE\"," VOCAB "}"
#define SPM                                                                            \
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","    \
    "\"prepend\":\"\xE2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" "  \
    "\"},\"content\":\"\xE2\x96\x81\"}]},\"model\":{\"type\":\"BPE\","                 \
    "\"byte_fallback\":true,\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,"           \
    "\"<0x41>\":1,\"a\":2,\"b\":3,\"ab\":4},\"merges\":[[\"a\",\"b\"]]},"              \
    "\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true}]"

static enum b2_status translate(struct meta **m, const char *json, const char *config,
                                int64_t vocab_size, struct b2_err *err)
{
    *m = meta_new(META_BYTES);
    if (!*m)
        return err_set(err, B2_ENOMEM, "no memory for the test");
    return hf_tokenizer_meta(*m, json, strlen(json), config,
                             config ? strlen(config) : 0, vocab_size, err);
}

static struct meta *must(const char *json, const char *config, int64_t vocab_size)
{
    struct meta *m = NULL;
    struct b2_err err = {0};

    if (translate(&m, json, config, vocab_size, &err)) {
        meta_free(m);
        fail_msg("%s", err.msg);
    }
    return m;
}

static void has_str(const struct meta *m, const char *key, const char *want)
{
    const char *got = NULL;

    assert_int_equal(meta_get_str(m, key, &got, NULL), B2_OK);
    assert_string_equal(got, want);
}

static void has_bool(const struct meta *m, const char *key, bool want)
{
    bool got = !want;

    assert_int_equal(meta_get_bool(m, key, &got, NULL), B2_OK);
    assert_int_equal(got, want);
}

static void has_u32(const struct meta *m, const char *key, uint32_t want)
{
    uint32_t got = 0;

    assert_int_equal(meta_get_u32(m, key, &got, NULL), B2_OK);
    assert_int_equal(got, want);
}

static void has_token(const struct meta *m, uint64_t id, const char *text, int32_t type)
{
    const struct meta_str *tokens;
    const int32_t *types;
    uint64_t n;

    assert_int_equal(meta_get_strs(m, "tokenizer.ggml.tokens", &tokens, &n, NULL),
                     B2_OK);
    assert_true(id < n);
    assert_string_equal(tokens[id].data, text);
    assert_int_equal(meta_get_i32s(m, "tokenizer.ggml.token_type", &types, &n, NULL),
                     B2_OK);
    assert_int_equal(types[id], type);
}

static void test_byte_level(void **state)
{
    static const char json[] =
        "{" BYTE_LEVEL "," MODEL ",\"normalizer\":{\"type\":\"NFC\"},\"added_tokens\":["
        "{\"id\":4,\"content\":\"<x>\",\"special\":true,\"lstrip\":true},"
        "{\"id\":5,\"content\":\"<y>\",\"special\":false}]}";
    static const char config[] =
        "{\"bos_token\":null,\"eos_token\":{\"content\":\"<x>\"},\"pad_token\":\"<y>\","
        "\"add_bos_token\":false,\"chat_template\":\"{{x}}\"}";

    (void)state;
    struct meta *m = must(json, config, 8);
    has_str(m, "tokenizer.ggml.model", "gpt2");
    has_str(m, "tokenizer.ggml.pre", "gpt-2");
    has_bool(m, "bonsai2.tokenizer.nfc", true);
    has_bool(m, "bonsai2.tokenizer.ignore_merges", false);
    has_bool(m, "tokenizer.ggml.add_bos_token", false);
    has_bool(m, "tokenizer.ggml.add_space_prefix", false);
    has_u32(m, "tokenizer.ggml.eos_token_id", 4);
    has_u32(m, "tokenizer.ggml.padding_token_id", 5);
    assert_null(meta_find(m, "tokenizer.ggml.bos_token_id"));
    assert_null(meta_find(m, "bonsai2.tokenizer.rstrip"));
    const struct meta_kv *lstrip = meta_find(m, "bonsai2.tokenizer.lstrip");
    assert_true(lstrip && lstrip->n == 8 && lstrip->elem == MT_BOOL);
    has_str(m, "tokenizer.chat_template", "{{x}}");
    has_token(m, 2, "ab", TOK_NORMAL);
    has_token(m, 3, "[PAD3]", TOK_UNUSED);
    has_token(m, 4, "<x>", TOK_CONTROL);
    has_token(m, 5, "<y>", TOK_USER);
    has_token(m, 7, "[PAD7]", TOK_UNUSED);
    meta_free(m);
}

static void test_spm(void **state)
{
    const float *scores;
    uint64_t n;

    (void)state;
    struct meta *m = must("{" SPM "}", NULL, 0);
    has_str(m, "tokenizer.ggml.model", "llama");
    has_str(m, "bonsai2.tokenizer.space_prefix", "always");
    has_bool(m, "tokenizer.ggml.add_space_prefix", true);
    has_bool(m, "tokenizer.ggml.add_bos_token", false);
    has_u32(m, "tokenizer.ggml.unknown_token_id", 0);
    has_token(m, 0, "<unk>", TOK_UNKNOWN);
    has_token(m, 1, "<0x41>", TOK_BYTE);
    assert_int_equal(meta_get_f32s(m, "tokenizer.ggml.scores", &scores, &n, NULL),
                     B2_OK);
    assert_int_equal(n, 5);
    assert_true(scores[4] > scores[2]); /* made by a merge, so above single letters */
    meta_free(m);
}

static void test_template_decides(void **state)
{
    static const char json[] =
        "{" BYTE_LEVEL "," MODEL
        ",\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true}],"
        "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":"
        "\"ByteLevel\"},{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
        "{"
        "\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]}]}"
        "}";

    (void)state;
    struct meta *m = must(json, NULL, 0);
    has_bool(m, "tokenizer.ggml.add_bos_token", true);
    has_bool(m, "tokenizer.ggml.add_eos_token", false);
    has_u32(m, "tokenizer.ggml.bos_token_id", 3);
    meta_free(m);
    m = must(json, "{\"bos_token\":\"<s>\",\"add_bos_token\":false}", 0);
    has_bool(m, "tokenizer.ggml.add_bos_token", false); /* the flag wins */
    meta_free(m);
}

static void test_named_templates(void **state)
{
    const struct meta_str *names;
    uint64_t n;

    (void)state;
    struct meta *m =
        must("{" BYTE_LEVEL "," MODEL "}",
             "{\"chat_template\":[{\"name\":\"default\",\"template\":\"D\"},"
             "{\"name\":\"tool_use\",\"template\":\"T\"}]}",
             0);
    has_str(m, "tokenizer.chat_template", "D");
    has_str(m, "tokenizer.chat_template.tool_use", "T");
    assert_int_equal(meta_get_strs(m, "tokenizer.chat_templates", &names, &n, NULL),
                     B2_OK);
    assert_int_equal(n, 1);
    assert_string_equal(names[0].data, "tool_use");
    meta_free(m);
}

#define PRE(x) "{\"pre_tokenizer\":" x "," MODEL "}"
#define IN_MODEL(x) "{" BYTE_LEVEL ",\"model\":{" x "}}"
#define SPLIT(x, y) "{\"type\":\"Sequence\",\"pretokenizers\":[" x "," y "]}"
#define BYTES_ONLY                                                                     \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"

static void test_refusals(void **state)
{
    static const struct {
        const char *json;
        enum b2_status want;
        const char *word;
    } rows[] = {
        {"", B2_EFORMAT, "tokenizer.json"},
        {"[]", B2_EFORMAT, "no model"},
        {"{\"model\":{\"type\":\"Unigram\"}}", B2_EUNSUP, "Unigram"},
        {IN_MODEL("\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"," VOCAB), B2_EUNSUP,
         "end_of_word_suffix"},
        {IN_MODEL("\"type\":\"BPE\",\"dropout\":0.1," VOCAB), B2_EUNSUP, "dropout"},
        {IN_MODEL("\"type\":\"BPE\",\"vocab\":[],\"merges\":[]"), B2_EFORMAT, "vocab"},
        {IN_MODEL("\"vocab\":{},\"merges\":[]"), B2_EFORMAT, "empty"},
        {IN_MODEL("\"vocab\":{\"a\":-1},\"merges\":[]"), B2_EFORMAT, "usable id"},
        {IN_MODEL("\"vocab\":{\"a\":1e9},\"merges\":[]"), B2_EFORMAT, "usable id"},
        {IN_MODEL("\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]"), B2_EFORMAT,
         "both have"},
        {IN_MODEL("\"vocab\":{\"a\":0},\"merges\":{}"), B2_EFORMAT, "merges"},
        {IN_MODEL("\"vocab\":{\"a\":0},\"merges\":[\"a\"]"), B2_EFORMAT, "merge 0"},
        {IN_MODEL("\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"b c\"]]"), B2_EFORMAT,
         "merge 0"},
        {"{" BYTE_LEVEL "," MODEL ",\"added_tokens\":[{\"id\":9}]}", B2_EFORMAT,
         "no content"},
        {"{" BYTE_LEVEL "," MODEL
         ",\"added_tokens\":[{\"id\":3,\"content\":\"w\",\"single_word\":true}]}",
         B2_EUNSUP, "single_word"},
        {"{" BYTE_LEVEL "," MODEL ",\"normalizer\":{\"type\":\"NFKC\"}}", B2_EUNSUP,
         "NFKC"},
        {PRE("null"), B2_EUNSUP, "byte fallback"},
        {PRE("{\"type\":\"Whitespace\"}"), B2_EUNSUP, "Whitespace"},
        {PRE("{\"type\":\"ByteLevel\"}"), B2_EUNSUP, "add_prefix_space"},
        {PRE(SPLIT("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\w+odd\"},"
                   "\"behavior\":\"Isolated\"}",
                   BYTES_ONLY)),
         B2_EUNSUP, "\\w+odd"},
        {PRE(SPLIT("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},"
                   "\"behavior\":\"Removed\"}",
                   BYTES_ONLY)),
         B2_EUNSUP, "Removed"},
        {PRE(SPLIT("{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"}}", BYTES_ONLY)),
         B2_EUNSUP, "string x"},
        {PRE("{\"type\":\"Metaspace\",\"replacement\":\"_\"}"), B2_EUNSUP, "_"},
        {PRE("{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\"}"), B2_EUNSUP,
         "each word"},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct meta *m = NULL;
        struct b2_err err = {0};
        enum b2_status rc = translate(&m, rows[i].json, NULL, 0, &err);
        meta_free(m);
        if (rc != rows[i].want || !strstr(err.msg, rows[i].word))
            fail_msg("row %d: %d \"%s\"", (int)i, rc, err.msg);
    }
}

static void test_sizes(void **state)
{
    struct meta *m = NULL;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(translate(&m, "{" BYTE_LEVEL "," MODEL "}", NULL, 2, &err),
                     B2_EFORMAT);
    assert_non_null(strstr(err.msg, "the model has 2 rows"));
    meta_free(m);
    assert_int_equal(
        translate(&m, "{" BYTE_LEVEL "," MODEL "}", NULL, (int64_t)1 << 40, &err),
        B2_EUNSUP);
    meta_free(m);
    assert_int_equal(translate(&m, "{" BYTE_LEVEL "," MODEL "}", "nonsense", 0, &err),
                     B2_EFORMAT);
    assert_non_null(strstr(err.msg, "tokenizer_config.json"));
    meta_free(m);
}

/* ---- keys to tokenizer ---- */

static void expect_vocab_error(const struct meta *m, enum b2_status want,
                               const char *word)
{
    struct tokenizer *t = NULL;
    struct b2_err err = {0};
    enum b2_status rc = vocab_tokenizer(&t, m, &err);

    tok_free(t);
    if (rc != want || !strstr(err.msg, word))
        fail_msg("%d \"%s\", wanted \"%s\"", rc, err.msg, word);
}

static void test_vocab_errors(void **state)
{
    static const int32_t types[2] = {1, 1};
    static const uint8_t flags[3] = {0, 1, 2};

    (void)state;
    struct meta *m = must("{" BYTE_LEVEL "," MODEL "}", NULL, 0);
    assert_int_equal(meta_set_str(m, "tokenizer.ggml.model", "bert", NULL), B2_OK);
    expect_vocab_error(m, B2_EUNSUP, "\"bert\"; known: gpt2");
    assert_int_equal(meta_set_str(m, "tokenizer.ggml.model", "gpt2", NULL), B2_OK);
    assert_int_equal(meta_set_str(m, "tokenizer.ggml.pre", "gpt-9", NULL), B2_OK);
    expect_vocab_error(m, B2_EUNSUP, "gpt-9");
    meta_remove(m, "tokenizer.ggml.pre");
    expect_vocab_error(m, B2_EUNSUP, "tokenizer.ggml.pre is missing");
    expect_vocab_error(m, B2_EUNSUP, "(none)");
    assert_int_equal(meta_set_str(m, "tokenizer.ggml.pre", "gpt-2", NULL), B2_OK);
    assert_int_equal(
        meta_set_arr(m, "bonsai2.tokenizer.lstrip", MT_BOOL, flags, 3, NULL), B2_OK);
    expect_vocab_error(m, B2_EFORMAT, "no bool");
    meta_remove(m, "bonsai2.tokenizer.lstrip");
    assert_int_equal(
        meta_set_arr(m, "tokenizer.ggml.token_type", MT_I32, types, 2, NULL), B2_OK);
    expect_vocab_error(m, B2_EFORMAT, "2 values for 3 tokens");
    meta_remove(m, "tokenizer.ggml.token_type");
    assert_int_equal(meta_set_u32(m, "tokenizer.ggml.bos_token_id", 3, NULL), B2_OK);
    expect_vocab_error(m, B2_EFORMAT, "special token 3");
    meta_remove(m, "tokenizer.ggml.bos_token_id");
    assert_int_equal(meta_set_u32(m, "tokenizer.ggml.padding_token_id", 3, NULL),
                     B2_OK);
    struct tokenizer *t = NULL; /* a pad id one past the end is common and harmless */
    assert_int_equal(vocab_tokenizer(&t, m, NULL), B2_OK);
    tok_free(t);
    meta_remove(m, "tokenizer.ggml.merges");
    expect_vocab_error(m, B2_ENOTFOUND, "tokenizer.ggml.merges");
    meta_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_level),       cmocka_unit_test(test_spm),
        cmocka_unit_test(test_template_decides), cmocka_unit_test(test_named_templates),

        cmocka_unit_test(test_refusals),         cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_vocab_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

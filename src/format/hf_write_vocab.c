/*
 * hf_write_vocab.c - reads a vocabulary's keys and knows the pre-tokenizers.
 *
 * The pre-tokenizers are those of the models' own tokenizer.json, so that the
 * `tokenizers` library, and this program's reader, cut text as the model was trained.
 * Names are llama.cpp's values of tokenizer.ggml.pre.
 */
#include "format/hf_write_vocab.h"

#include <inttypes.h>
#include <string.h>

#define OURS "bonsai2.tokenizer."

/* JSON of one step that cuts by a pattern and keeps both sides. */
#define SPLIT(regex)                                                                   \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex                              \
    "\"},\"behavior\":\"Isolated\",\"invert\":false},"
#define BYTE_LEVEL(use_regex)                                                          \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"        \
    "\"use_regex\":" use_regex "}"
#define SEQUENCE(steps) "{\"type\":\"Sequence\",\"pretokenizers\":[" steps "]}"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LINES "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define LLAMA3(number)                                                                 \
    SEQUENCE(SPLIT(CONTRACTION "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" number      \
                               "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|" LINES)     \
                 BYTE_LEVEL("false"))
#define UPPER "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define CASED(suffix, number)                                                          \
    SEQUENCE(SPLIT("[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "*" LOWER "+" suffix         \
                   "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "+" LOWER "*" suffix        \
                   "|" number "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|" LINES)     \
                 BYTE_LEVEL("false"))

static const char gpt2[] = BYTE_LEVEL("true");
static const char smollm[] =
    SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true}," BYTE_LEVEL("true"));
static const char llama3[] = LLAMA3("\\\\p{N}{1,3}");
static const char qwen2[] = LLAMA3("\\\\p{N}");
static const char qwen35[] = SEQUENCE(
    SPLIT(CONTRACTION "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}"
                      "| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|" LINES)
        BYTE_LEVEL("false"));
static const char gpt4o[] = CASED(CONTRACTION "?", "\\\\p{N}{1,3}");
static const char tekken[] = CASED("", "\\\\p{N}");
static const char deepseek3[] = SEQUENCE(
    SPLIT("\\\\p{N}{1,3}") SPLIT("[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+")
        SPLIT("[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+"
              "|[^\\r\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+"
              "| ?[\\\\p{P}\\\\p{S}]+[\\r\\n]*|\\\\s*[\\r\\n]+|\\\\s+(?!\\\\S)|\\\\s+")
            BYTE_LEVEL("false"));

static const struct hf_write_pre pres[] = {
    /* name, json, ignore_merges, nfc, add_bos */
    {"gpt-2", gpt2, false, false, false},
    {"phi-2", gpt2, false, false, false},
    {"olmo", gpt2, false, true, false},
    {"smollm", smollm, false, false, false},
    {"starcoder", smollm, false, false, false},
    {"refact", smollm, false, false, false},
    {"codeshell", smollm, false, false, false},
    {"llama-bpe", llama3, true, false, true},
    {"llama3", llama3, true, false, true},
    {"llama-v3", llama3, true, false, true},
    {"falcon3", llama3, true, false, true},
    {"lfm2", llama3, true, false, true},
    {"dbrx", llama3, false, false, false},
    {"smaug-bpe", llama3, false, false, false},
    {"qwen2", qwen2, false, true, false},
    {"qwen35", qwen35, false, true, false},
    {"deepseek-r1-qwen", qwen2, false, true, false},
    {"megrez", qwen2, false, true, false},
    {"stablelm2", qwen2, false, false, false},
    {"gpt-4o", gpt4o, false, false, false},
    {"tekken", tekken, true, false, true},
    {"deepseek-v3", deepseek3, false, false, false},
};

static enum b2_status find_pre(const struct hf_write_pre **out, const char *name,
                               struct b2_err *err)
{
    char list[512];
    size_t len = 0;

    for (size_t i = 0; i < countof(pres); i++) {
        size_t n = strlen(pres[i].name);
        if (strcmp(pres[i].name, name) == 0) {
            *out = &pres[i];
            return B2_OK;
        }
        if (len + n + 3 < sizeof list) {
            memcpy(list + len, pres[i].name, n);
            memcpy(list + len + n, ", ", 2);
            len += n + 2;
        }
    }
    list[len - 2] = '\0';
    return err_set(err, B2_EUNSUP,
                   "tokenizer.ggml.pre = %.40s: how its tokenizer.json cuts words is "
                   "not known here (known: %s); export to a GGUF format instead",
                   name, list);
}

/* The id under key, -1 if the key is absent or, as some files write for "none", out of
 * range. */
static enum b2_status opt_id(const struct meta *m, const char *key, uint64_t n_tokens,
                             int64_t *out, struct b2_err *err)
{
    uint32_t id;
    enum b2_status rc = meta_opt_u32(m, key, &id, UINT32_MAX, err);

    if (!rc)
        *out = id < n_tokens ? (int64_t)id : -1;
    return rc;
}

static enum b2_status read_special(struct hf_write_vocab *v, const struct meta *m,
                                   struct b2_err *err)
{
    const uint64_t n = v->n_tokens;
    bool bos = v->kind == HF_WRITE_SPM || v->pre->add_bos;
    enum b2_status rc;

    if ((rc = opt_id(m, "tokenizer.ggml.bos_token_id", n, &v->bos, err)) ||
        (rc = opt_id(m, "tokenizer.ggml.eos_token_id", n, &v->eos, err)) ||
        (rc = opt_id(m, "tokenizer.ggml.unknown_token_id", n, &v->unk, err)) ||
        (rc = opt_id(m, "tokenizer.ggml.padding_token_id", n, &v->pad, err)) ||
        (rc =
             meta_opt_bool(m, "tokenizer.ggml.add_bos_token", &v->add_bos, bos, err)) ||
        (rc =
             meta_opt_bool(m, "tokenizer.ggml.add_eos_token", &v->add_eos, false, err)))
        return rc;
    v->add_bos = v->add_bos && v->bos >= 0;
    v->add_eos = v->add_eos && v->eos >= 0;
    return B2_OK;
}

/* Per-token tables have one entry per token. */
static enum b2_status check_count(const char *key, uint64_t n, uint64_t n_tokens,
                                  struct b2_err *err)
{
    if (n == n_tokens)
        return B2_OK;
    return err_set(err, B2_EFORMAT,
                   "key %s: %" PRIu64 " entries for %" PRIu64 " tokens", key, n,
                   n_tokens);
}

static enum b2_status read_kind(struct hf_write_vocab *v, const struct meta *m,
                                struct b2_err *err)
{
    const char *model, *pre;
    uint64_t n;
    enum b2_status rc = meta_get_str(m, "tokenizer.ggml.model", &model, err);

    if (rc)
        return rc;
    if (strcmp(model, "llama") == 0) {
        v->kind = HF_WRITE_SPM;
        if (meta_find(m, "tokenizer.ggml.merges")) /* came from a tokenizer.json */
            return meta_get_strs(m, "tokenizer.ggml.merges", &v->merges, &v->n_merges,
                                 err);
        rc = meta_get_f32s(m, "tokenizer.ggml.scores", &v->scores, &n, err);
        return rc ? rc : check_count("tokenizer.ggml.scores", n, v->n_tokens, err);
    }
    if (strcmp(model, "gpt2") != 0)
        return err_set(
            err, B2_EUNSUP,
            "tokenizer.ggml.model = %.40s: only \"gpt2\" (byte-level BPE) and "
            "\"llama\" (SentencePiece) become a tokenizer.json",
            model);
    v->kind = HF_WRITE_BPE;
    rc = meta_get_strs(m, "tokenizer.ggml.merges", &v->merges, &v->n_merges, err);
    if (!rc)
        rc = meta_opt_str(m, "tokenizer.ggml.pre", &pre, "default", err);
    return rc ? rc : find_pre(&v->pre, pre, err);
}

/* One flag per token, or NULL when the key is absent. */
static enum b2_status opt_flags(const struct meta *m, const char *key,
                                uint64_t n_tokens, const uint8_t **out,
                                struct b2_err *err)
{
    const struct meta_kv *kv = meta_find(m, key);

    if (!kv)
        return B2_OK;
    if (kv->type != MT_ARR || kv->elem != MT_BOOL)
        return err_set(err, B2_EFORMAT, "key %s is not an array of bools", key);
    *out = kv->v.raw;
    return check_count(key, kv->n, n_tokens, err);
}

/* How text is prepared, by our own keys or as models of that kind do it. */
static enum b2_status read_text(struct hf_write_vocab *v, const struct meta *m,
                                struct b2_err *err)
{
    static const char *const prefixes[] = {"none", "always", "first", "unless_space"};
    bool spm = v->kind == HF_WRITE_SPM, space;
    enum b2_status rc;

    if ((rc = meta_opt_bool(m, OURS "nfc", &v->nfc, !spm && v->pre->nfc, err)) ||
        (rc = meta_opt_bool(m, OURS "ignore_merges", &v->ignore_merges,
                            !spm && v->pre->ignore_merges, err)) ||
        (rc = meta_opt_bool(m, "tokenizer.ggml.add_space_prefix", &space, true, err)) ||
        (rc = meta_opt_str(m, OURS "space_prefix", &v->prefix,
                           space ? "always" : "none", err)) ||
        (rc = opt_flags(m, OURS "lstrip", v->n_tokens, &v->lstrip, err)) ||
        (rc = opt_flags(m, OURS "rstrip", v->n_tokens, &v->rstrip, err)))
        return rc;
    for (size_t i = 0; i < countof(prefixes); i++) {
        if (strcmp(v->prefix, prefixes[i]) == 0)
            return B2_OK;
    }
    return err_set(err, B2_EUNSUP, "key " OURS "space_prefix = %.40s is not known",
                   v->prefix);
}

enum b2_status hf_write_vocab_read(struct hf_write_vocab *v, const struct meta *m,
                                   struct b2_err *err)
{
    uint64_t n;
    enum b2_status rc;

    *v = (struct hf_write_vocab){0};
    rc = meta_get_strs(m, "tokenizer.ggml.tokens", &v->tokens, &v->n_tokens, err);
    if (!rc && v->n_tokens > INT32_MAX)
        rc = err_set(err, B2_EFORMAT, "%" PRIu64 " tokens are too many", v->n_tokens);
    if (!rc)
        rc = read_kind(v, m, err);
    if (!rc && meta_find(m, "tokenizer.ggml.token_type")) {
        rc = meta_get_i32s(m, "tokenizer.ggml.token_type", &v->attrs, &n, err);
        if (!rc)
            rc = check_count("tokenizer.ggml.token_type", n, v->n_tokens, err);
    }
    if (!rc)
        rc = read_special(v, m, err);
    return rc ? rc : read_text(v, m, err);
}

/*
 * hf_tokenizer_int.h - what hf_tokenizer.c and its two helpers share.
 */
#ifndef FORMAT_HF_TOKENIZER_INT_H
#define FORMAT_HF_TOKENIZER_INT_H

#include "format/hf_tokenizer.h"
#include "format/json.h"

enum { /* token types of GGUF */
       HF_NORMAL = 1,
       HF_UNKNOWN = 2,
       HF_CONTROL = 3,
       HF_USER = 4,
       HF_UNUSED = 5,
       HF_BYTE = 6,
};

enum { HF_MAX_TOKENS = 1 << 24 };

/* ---- hf_split.c: normaliser and pre-tokenizer ---- */

struct hf_split {
    bool spm;           /* SentencePiece-style, else byte-level */
    bool nfc;           /* byte-level */
    const char *pre;    /* byte-level: name of the pattern */
    const char *prefix; /* SPM: value of bonsai2.tokenizer.space_prefix */
};

/* Recognises what root's normalizer and pre_tokenizer do. ignore_merges tells two names
 * of one pattern apart. */
enum b2_status hf_split_read(struct hf_split *out, const cJSON *root,
                             bool ignore_merges, struct b2_err *err) NODISCARD;

/* ---- hf_vocab.c: tokens, types, merges ---- */

struct hf_vocab {
    int64_t n;               /* with padding */
    struct meta_str *tokens; /* [n] borrowed from the JSON, or from pool */
    int32_t *types;          /* [n] */
    float *scores;           /* [n], SPM */
    bool *lstrip, *rstrip;   /* [n], NULL: no token strips */
    struct meta_str *merges;
    int64_t n_merges;
    char *pad_pool, *merge_pool;
};

/* Fills v from root's model and added_tokens; v is zeroed by the caller and freed by
 * hf_vocab_free in every case. */
enum b2_status hf_vocab_read(struct hf_vocab *v, const cJSON *root, bool spm,
                             int64_t vocab_size, struct b2_err *err) NODISCARD;
/* Id of a token text, -1 if none. */
int64_t hf_vocab_find(const struct hf_vocab *v, const char *text);
void hf_vocab_free(struct hf_vocab *v);

/* ---- small readers, hf_vocab.c ---- */

/* obj.key as a string; NULL when absent, null or of another type. obj may be NULL. */
const char *hf_vocab_str(const cJSON *obj, const char *key);
/* obj.key as a bool; def when it is absent or no bool. */
bool hf_vocab_bool(const cJSON *obj, const char *key, bool def);

#endif

/*
 * hf_write_vocab.h - a GGUF vocabulary as the text of a tokenizer.json.
 *
 * Byte-level BPE keeps its merges; SentencePiece-style vocabularies (scores) get merges
 * derived from the scores, as the conversion in `transformers` does.
 */
#ifndef FORMAT_HF_WRITE_VOCAB_H
#define FORMAT_HF_WRITE_VOCAB_H

#include "base/str.h"
#include "format/meta.h"

enum hf_write_vocab_kind { HF_WRITE_BPE, HF_WRITE_SPM };

enum {
    HF_ATTR_NORMAL = 1,
    HF_ATTR_UNKNOWN,
    HF_ATTR_CONTROL,
    HF_ATTR_USER
}; /* GGUF's */

/* How the models with one value of tokenizer.ggml.pre cut text. */
struct hf_write_pre {
    const char *name;
    const char *json; /* the "pre_tokenizer" object */
    bool ignore_merges, nfc;
    bool add_bos; /* where the file does not say */
};

/* What tokenizer.ggml.* and bonsai2.tokenizer.* (model/vocab.h) say; all pointers
 * borrowed from the meta. */
struct hf_write_vocab {
    enum hf_write_vocab_kind kind;
    const struct meta_str *tokens;
    uint64_t n_tokens;
    const int32_t *attrs; /* [n_tokens], or NULL: all normal */
    const float *scores;  /* [n_tokens], SPM without merges */
    const struct meta_str *merges;
    uint64_t n_merges;
    int64_t bos, eos, unk, pad; /* -1: none */
    bool add_bos, add_eos, nfc, ignore_merges;
    const char *prefix;             /* SPM: "none", "always", "first", "unless_space" */
    const uint8_t *lstrip, *rstrip; /* [n_tokens] flags, or NULL */
    const struct hf_write_pre *pre; /* BPE */
};

/* Reads and checks the keys. B2_ENOTFOUND: the file has no vocabulary. B2_EUNSUP: a
 * kind of tokenizer or a pre-tokenizer whose tokenizer.json is not known (named). */
enum b2_status hf_write_vocab_read(struct hf_write_vocab *v, const struct meta *m,
                                   struct b2_err *err) NODISCARD;

/* Appends tokenizer.json. B2_ENOMEM; B2_EUNSUP: a token that JSON text cannot hold. */
enum b2_status hf_write_vocab_json(struct str *out, const struct hf_write_vocab *v,
                                   struct b2_err *err) NODISCARD;

#endif

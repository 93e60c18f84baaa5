/*
 * hf_tokenizer.h - tokenizer.json and tokenizer_config.json to tokenizer.ggml.* keys.
 *
 * Two kinds of tokenizer.json are translated, both of model type BPE: byte-level
 * (tokenizer.ggml.model "gpt2"; the pre-tokenizer is recognised by its text and becomes
 * tokenizer.ggml.pre) and SentencePiece-style with byte fallback ("llama"; scores are
 * minus the merge's rank, for other programs, and the merges are written beside them, because only their
 * order gives the ids of the `tokenizers` library where two merges make one token).
 * What GGUF has no key for goes to bonsai2.tokenizer.* (listed in model/vocab.h).
 * Everything else is refused by name: the ids would be wrong without a sign.
 */
#ifndef FORMAT_HF_TOKENIZER_H
#define FORMAT_HF_TOKENIZER_H

#include "format/meta.h"

/* Sets the keys in m from tokenizer_json (n bytes). tokenizer_config_json (n2 bytes, may
 * be NULL) gives bos, eos, unk, pad, add_bos_token, add_eos_token and the chat template;
 * without it the template of the post-processor decides on begin and end tokens.
 * vocab_size: rows of the model's embedding, 0: unknown; a smaller vocabulary is filled
 * up with unused tokens "[PAD123]", a larger one is B2_EFORMAT.
 * B2_EFORMAT: not JSON, ids twice or out of range. B2_EUNSUP: a model, normaliser or
 * pre-tokenizer that is not known (the message shows its type or pattern). */
enum b2_status hf_tokenizer_meta(struct meta *m, const char *tokenizer_json, size_t n,
                                 const char *tokenizer_config_json, size_t n2,
                                 int64_t vocab_size, struct b2_err *err) NODISCARD;

#endif

/*
 * vocab.h - the tokenizer that a model's keys describe.
 *
 * Read: tokenizer.ggml.model ("gpt2": byte-level BPE, "llama": SentencePiece-style), pre,
 * tokens, token_type, scores, merges, {bos,eos,eot,unknown,padding}_token_id,
 * add_bos_token, add_eos_token, add_space_prefix. What GGUF has no key for comes from
 * ours, which format/hf_tokenizer.c writes when it translates a tokenizer.json:
 *   bonsai2.tokenizer.nfc            bool: normalise to NFC first
 *   bonsai2.tokenizer.ignore_merges  bool: a whole word in the vocabulary wins
 *   bonsai2.tokenizer.space_prefix   "none", "always", "unless_space" or "first"
 *   bonsai2.tokenizer.lstrip, rstrip bool arrays, one per token
 * Without them the pre-tokenizer's name decides as it does for the models of that name.
 */
#ifndef MODEL_VOCAB_H
#define MODEL_VOCAB_H

#include "format/meta.h"
#include "text/tokenizer.h"

/* Builds the tokenizer from tokenizer.ggml.* keys (format/ translates tokenizer.json
 * into the same keys). Errors as tok_new, and B2_ENOTFOUND with the missing key.
 * B2_EUNSUP: a tokenizer.ggml.model or .pre that is not known (named, with the known
 * ones). A BPE vocabulary without the key pre is refused too: such files are from
 * before April 2024 and of every family (old Llama 3 ones among them), so any guess
 * would cut many of them wrongly without a sign. */
enum b2_status vocab_tokenizer(struct tokenizer **out, const struct meta *m,
                               struct b2_err *err) NODISCARD;

#endif

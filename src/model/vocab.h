/*
 * vocab.h - the tokenizer that a model's keys describe.
 */
#ifndef MODEL_VOCAB_H
#define MODEL_VOCAB_H

#include "format/meta.h"
#include "text/tokenizer.h"

/* Builds the tokenizer from tokenizer.ggml.* keys (format/ translates tokenizer.json
 * into the same keys). Errors as tok_new, and B2_ENOTFOUND with the missing key. */
enum b2_status vocab_tokenizer(struct tokenizer **out, const struct meta *m,
                               struct b2_err *err) NODISCARD;

#endif

/*
 * textset.h - a text cut into scored windows, under a named convention.
 *
 * "llama.cpp": the whole text is tokenised once, cut into consecutive chunks of ctx
 * tokens; where the vocabulary asks for a begin token the first token of each chunk is
 * replaced by it; positions ctx/2 … ctx-2 are scored against their next token.
 * "rolling" (lm-evaluation-harness's loglikelihood_rolling): each token scored once,
 * windows of ctx, the first window starts with bos/eos as context, the following overlap so that
 * the last window is full.
 */
#ifndef EVAL_TEXTSET_H
#define EVAL_TEXTSET_H

#include "text/tokenizer.h"

enum text_convention { CONV_LLAMA_CPP, CONV_ROLLING };

struct text_window {
    const int32_t *ids; /* [n] input tokens */
    int64_t n;
    int64_t score_from, score_to; /* positions whose next token is scored: [from, to) */
    const int32_t *target;        /* [n] next token of each position */
};

struct textset {
    struct text_window *win;
    int64_t n_windows, n_scored;
    struct tok_ids all;
    int64_t ctx, stride;
    char sha256[65]; /* of the text bytes */
    void *owned;
};

/* max_windows: 0 all. B2_EARG: fewer tokens than one window needs (says how many there are). */
enum b2_status textset_make(struct textset *out, const struct tokenizer *tok,
                            const char *text, size_t n_bytes, enum text_convention conv,
                            int64_t ctx, int64_t max_windows,
                            struct b2_err *err) NODISCARD;
void textset_free(struct textset *t); /* zeroed is fine */

#endif

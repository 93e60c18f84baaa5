/*
 * textset.h - a text cut into scored windows, under a named convention.
 *
 * "llama.cpp": the whole text is tokenised once, cut into consecutive chunks of ctx
 * tokens; where the vocabulary asks for a begin token the first token of each chunk is
 * replaced by it; positions ctx/2 … ctx-2 are scored against their next token.
 * "rolling" (lm-evaluation-harness's loglikelihood_rolling): each token scored once,
 * the first window starts with the begin (else end) token as context, each later one
 * with the token before it; the last window is filled from the left, so that it is
 * full and scores only what is left.
 */
#ifndef EVAL_TEXTSET_H
#define EVAL_TEXTSET_H

#include "text/tokenizer.h"

enum text_convention { CONV_LLAMA_CPP, CONV_ROLLING };

struct text_window {
    const int32_t *ids; /* [n] input tokens */
    int64_t n;
    int64_t score_from, score_to; /* positions whose next token is scored: [from, to) */
    const int32_t *target;        /* [n] next token of each position, -1 if none */
};

struct textset {
    struct text_window *win;
    int64_t n_windows, n_scored;
    struct tok_ids all;
    int64_t ctx, stride;
    bool begins; /* windows (rolling: the first) start with a token that is not text */
    char sha256[65]; /* of the text bytes; empty for a set made from ids */
    void *owned;
};

enum { TEXTSET_MIN_CTX = 4 };

/* "llama.cpp", "rolling". Never NULL. */
const char *textset_convention_name(enum text_convention conv);

/* Tokenises and cuts. max_windows: 0 all. B2_EARG: fewer tokens than one window needs
 * (says how many there are), ctx below TEXTSET_MIN_CTX. */
enum b2_status textset_make(struct textset *out, const struct tokenizer *tok,
                            const char *text, size_t n_bytes, enum text_convention conv,
                            int64_t ctx, int64_t max_windows,
                            struct b2_err *err) NODISCARD;

/* Cuts ids, which out takes (also on failure). first: the token that starts each chunk
 * (llama.cpp; -1: none, the text's own token stays) or the first window (rolling; -1 is
 * B2_EARG). Errors as above. */
enum b2_status textset_from_ids(struct textset *out, struct tok_ids *ids,
                                enum text_convention conv, int32_t first, int64_t ctx,
                                int64_t max_windows, struct b2_err *err) NODISCARD;

void textset_free(struct textset *t); /* zeroed is fine */

#endif

/*
 * loops.h - does an answer repeat itself, and how much?
 *
 *   cycle        the longest stretch of tokens that is one piece three times or more in a
 *                row; its length in tokens; 0: no such stretch of 16 tokens
 *   loop         a cycle reaches the answer's end, or covers half of it
 *   distinct4    different 4-grams of tokens / all 4-grams; 1 below four tokens
 *   compression  bytes of the text / bytes after zlib at its default level: prose of a few
 *                hundred tokens has 1.5 to 2.5, a loop far more
 */
#ifndef EVAL_LOOPS_H
#define EVAL_LOOPS_H

#include "base/error.h"

enum { LOOPS_MIN_CYCLE = 16, LOOPS_REPEATS = 3 };

struct loops_answer {
    int64_t n_tokens, cycle;
    bool loop, limit; /* limit: it did not end by itself */
    double distinct4, compression;
};

/* ids [n] without the end token; text [n_bytes]. limit is copied. B2_ENOMEM. */
enum b2_status loops_measure(struct loops_answer *out, const int32_t *ids, int64_t n,
                             const char *text, size_t n_bytes, bool limit,
                             struct b2_err *err) NODISCARD;

/* The prompts that come with the program, in the order of their slices. */
struct loops_prompt {
    const char *slice, *text;
};
const struct loops_prompt *loops_prompts(int64_t *n);

#endif

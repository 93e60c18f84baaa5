/*
 * ifeval.h - does an answer follow its instructions? IFEval and M-IFEval, written anew.
 *
 * "Instruction-Following Evaluation for Large Language Models" (arXiv:2311.07911): each
 * prompt carries instructions that a program can check. Strict: the answer as it is.
 * Loose: one of eight variants follows (without the first line, the last, both; each
 * also without asterisks).
 *
 * Differences from the original programs: sentences are cut by our own rule instead of
 * NLTK's trained model, and the language of an answer is told by script, letters and
 * frequent words instead of langdetect; docs/EVAL.md says how often they agree.
 */
#ifndef EVAL_IFEVAL_H
#define EVAL_IFEVAL_H

#include "format/json.h"

enum { IFEVAL_MAX = 16 };

struct ifeval_result {
    int n;                     /* instructions of the prompt, >= 1 */
    int strict, loose;         /* how many are followed */
    bool followed[IFEVAL_MAX]; /* [n] strictly */
};

/* row: instruction_id_list, kwargs, prompt, as the data have them. B2_EARG: an
 * instruction that is not known, or arguments that do not fit it (both named). */
enum b2_status ifeval_judge(struct ifeval_result *out, const cJSON *row,
                            const char *answer, struct b2_err *err) NODISCARD;

/* Does text follow one instruction ("en:punctuation:no_comma")? */
enum b2_status ifeval_follows(bool *out, const char *id, const cJSON *args,
                              const char *text, struct b2_err *err) NODISCARD;

/* The language of a text as its two-letter code ("en", "zh"), "" when it cannot be told. */
const char *ifeval_language(const char *text, size_t n);

/* Sentences of a text; see ifeval_text.c for the rule. */
int64_t ifeval_sentences(const char *text, size_t n, bool japanese);

#endif

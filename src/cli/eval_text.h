/*
 * eval_text.h - texts that the words of a command name, cut for a model.
 */
#ifndef CLI_EVAL_TEXT_H
#define CLI_EVAL_TEXT_H

#include "cli/eval_cmd.h"
#include "eval/fidelity.h"

/* Options of how a text is cut; p has ctx, chunks, convention. */
/* clang-format off */
#define EVAL_WINDOW_OPTS(p, n_chunks)                                                  \
    {OPT_INT, 'c', "ctx", "N", &(p)->ctx, TEXTSET_MIN_CTX, 1 << 20,                    \
     "Tokens in a window. [512]"},                                                     \
    {OPT_INT, 0, "chunks", "N", &(p)->chunks, 0, 1e9,                                  \
     "Windows to score, from the start of a text; 0: all. [" n_chunks "]"},            \
    {OPT_ENUM, 0, "convention", "llama.cpp|rolling", &(p)->convention, 0, 0,           \
     "llama.cpp: disjoint windows, their second half is scored; rolling: each token "  \
     "once, as lm-evaluation-harness does. [llama.cpp]"}
/* clang-format on */

/* Reads and cuts one text. */
enum b2_status eval_cut_text(struct textset *out, const struct tokenizer *tok,
                             const char *path, const char *convention, int64_t ctx,
                             int64_t chunks, struct b2_err *err) NODISCARD;

/* The texts of a command: words are FILE or NAME=FILE; regions is a folder whose
 * region_NAME.txt are added. Paths live in owned, which outlives the fidelity. */
struct eval_texts {
    struct opt_list words;
    const char *regions;
    const char *convention;
    int64_t ctx, chunks;
    char **owned;
    int64_t n_owned;
};
enum b2_status eval_texts_cut(struct fidelity *out, struct eval_texts *t,
                              const struct tokenizer *tok,
                              struct b2_err *err) NODISCARD;
/* Whether another tokenizer cuts the same texts into the same ids. B2_EARG: no. */
enum b2_status eval_texts_same(const struct fidelity *f, const struct eval_texts *t,
                               const struct tokenizer *tok,
                               struct b2_err *err) NODISCARD;
void eval_texts_free(struct eval_texts *t);

/* B2_ENOMEM: model and baseline (may be NULL) need more than --mem-limit. */
enum b2_status eval_check_memory(const struct eval_env *env, const struct eval_side *a,
                                 const struct eval_side *b,
                                 struct b2_err *err) NODISCARD;

#endif

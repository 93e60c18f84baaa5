/*
 * eval_answers.h - what a model writes to a list of prompts.
 */
#ifndef CLI_EVAL_ANSWERS_H
#define CLI_EVAL_ANSWERS_H

#include "cli/eval_cmd.h"
#include "eval/loops.h"
#include "format/hash.h"
#include "model/generate.h"

/* Prompts of the program, or of a file: one a line, "SLICE<tab>PROMPT" or PROMPT alone
 * (slice "prompts"); \n in a line is a line end, lines that begin with # are left out. */
struct eval_prompts {
    struct loops_prompt *p;
    int64_t n;
    char sha256[HASH_HEX]; /* of slices and texts */
    char *text;            /* owned, of the file */
};

/* file NULL: the program's own; limit > 0: that many of each slice. */
enum b2_status eval_prompts_open(struct eval_prompts *out, const char *file,
                                 int64_t limit, struct b2_err *err) NODISCARD;
void eval_prompts_free(struct eval_prompts *p);

struct eval_answering {
    bool raw; /* no chat template */
    int64_t max_tokens;
    double temperature;
    uint64_t seed;
};

/* Can this model be asked in a template? */
bool eval_has_template(const struct eval_side *s);

/* Answers one prompt; *out must be freed also after a failure. Without a template, or
 * with raw, the model continues the bare text. */
enum b2_status eval_answer(struct generate_result *out, const struct eval_side *s,
                           const struct eval_answering *how, const char *prompt,
                           struct b2_err *err) NODISCARD;

/* Its measures; the end token does not count. */
enum b2_status eval_answer_loops(struct loops_answer *out,
                                 const struct generate_result *g,
                                 struct b2_err *err) NODISCARD;

/* Context for prompts of a few hundred tokens and an answer. */
int64_t eval_answer_ctx(const struct model *m, int64_t max_tokens);

#endif

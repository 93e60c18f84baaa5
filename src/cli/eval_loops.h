/*
 * eval_loops.h - a model's answers to all prompts, measured and kept.
 */
#ifndef CLI_EVAL_LOOPS_H
#define CLI_EVAL_LOOPS_H

#include "cli/eval_answers.h"

struct eval_loops_params {
    const struct eval_prompts *prompts;
    struct eval_answering how;
    int64_t samples;    /* answers to each prompt, seeds how.seed, +1, … */
    const char *scores; /* folder that keeps loops-MODEL.ndjson; NULL: none */
    const char *cache;  /* word of --cache; NULL: f16 */
    bool exact, anew;
};

/* Answers in the order of prompts, samples of one prompt together; [prompts->n samples]. */
enum b2_status eval_loops_run(struct loops_answer *out, struct eval_side *side,
                              const struct eval_env *env, const char *path,
                              const struct eval_loops_params *p,
                              struct b2_err *err) NODISCARD;

#endif

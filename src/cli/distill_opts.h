/*
 * distill_opts.h - what `distill` and `compress --effort best` share: options of the
 * training, and what it did as JSON and as text.
 */
#ifndef CLI_DISTILL_OPTS_H
#define CLI_DISTILL_OPTS_H

#include "base/str.h"
#include "cli/cli.h"
#include "compress/distill.h"

struct cJSON;

struct distill_words {
    const char *schedule;
    struct opt_list held;
    int64_t tokens, steps; /* steps 0: as many as the tokens give */
    struct distill_params p;
};

/* With every default. */
struct distill_words distill_words_make(void);

/* Rows for a command's option table. n, b: letters of --tokens and --batch, or 0. */
/* clang-format off */
#define DISTILL_STEP_OPTS(w, n, b) \
    {OPT_INT, n, "tokens", "N", &(w)->tokens, 1, 1e12, \
     "Tokens to learn from. [300000]"}, \
    {OPT_INT, 0, "steps", "N", &(w)->steps, 1, 1e9, "The same in steps."}, \
    {OPT_INT, b, "batch", "N", &(w)->p.batch, 1, 4096, "Sequences of a step. [4]"}, \
    {OPT_INT, 0, "micro", "N", &(w)->p.micro, 1, 4096, \
     "Sequences at a time: fewer need less memory. [batch]"}, \
    {OPT_INT, 0, "ctx", "N", &(w)->p.ctx, 8, 65536, \
     "Tokens of a sequence that is learnt from. [512]"}, \
    {OPT_LIST, 0, "held", "FILE", &(w)->held, 0, 0, \
     "Text that is scored and never learnt from, a region of its own. [every 16th " \
     "sequence of each --calib]"}, \
    {OPT_INT, 0, "held-tokens", "N", &(w)->p.held_tokens, 8, 1e9, \
     "Tokens of each --held. [8192]"}, \
    {OPT_INT, 0, "eval-every", "N", &(w)->p.eval_every, 1, 1e9, \
     "Steps between evaluations, which are also the points from which a stopped " \
     "run goes on. [a tenth of all]"}, \
    {OPT_INT, 0, "patience", "N", &(w)->p.patience, 0, 1e6, \
     "Evaluations without a better one before it stops; 0: never. [5]"}
#define DISTILL_RATE_OPTS(w) \
    {OPT_NUM, 0, "rate", "R", &(w)->p.rates.latent, 0.0, 1.0, \
     "Rate of the latents, in units of their scale; 0: they rest. [0.001]"}, \
    {OPT_NUM, 0, "scale-rate", "R", &(w)->p.rates.scale, 0.0, 1.0, \
     "Rate of the logarithms of the scales. [0.001]"}, \
    {OPT_NUM, 0, "norm-rate", "R", &(w)->p.rates.norm, 0.0, 1.0, \
     "Rate of the norms' gains. [0.0001]"}, \
    {OPT_STR, 0, "schedule", "cosine|wsd", &(w)->schedule, 0, 0, \
     "How rates fall after the warm-up. [cosine]"}, \
    {OPT_INT, 0, "warmup", "N", &(w)->p.schedule.warmup, 0, 1e9, \
     "Steps in which rates rise. [10]"}, \
    {OPT_NUM, 0, "clip", "L", &(w)->p.clip, 0.0, 1e9, \
     "Longest gradient; 0: any. [1]"}, \
    {OPT_NUM, 0, "temperature", "T", &(w)->p.temperature, 0.01, 100.0, \
     "Of both distributions in the loss. [1]"}
/* clang-format on */

/* From words to w->p. OPT_RUN, or the exit code. */
int distill_words_read(struct distill_words *w, const struct cmd *cmd);

/* Adds the numbers of a run, its regions and its curve to an object. */
void distill_json(struct cJSON *json, const struct distill_report *r);

/* Held-out divergence before and after, and what was written. */
void distill_text(struct str *out, const struct distill_report *r);

#endif

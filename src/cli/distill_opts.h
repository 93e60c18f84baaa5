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
    const char *schedule, *train, *preset, *gemm;
    const char *hidden_layers; /* N, or a list with a comma in it */
    struct opt_list held, free, freeze, freeze_scales;
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
    {OPT_INT, 0, "steps", "N", &(w)->steps, 1, 1e9, "The same in steps, which count instead."}, \
    {OPT_INT, b, "batch", "N", &(w)->p.batch, 1, 4096, "Sequences of a step. [4]"}, \
    {OPT_INT, 0, "micro", "N", &(w)->p.micro, 1, 4096, \
     "Sequences at a time: fewer need less memory. [batch]"}, \
    {OPT_INT, 0, "ctx", "N", &(w)->p.ctx, 8, 65536, \
     "Tokens of a sequence that is learnt from. [512]"}, \
    {OPT_LIST, 0, "held", "FILE", &(w)->held, 0, 0, \
     "Text that is scored and never learnt from, a region of its own. [a " \
     "sixteenth of each --calib, at most --held-tokens]"}, \
    {OPT_INT, 0, "held-tokens", "N", &(w)->p.held_tokens, 8, 1e9, \
     "Tokens of each --held. [8192]"}, \
    {OPT_INT, 0, "eval-every", "N", &(w)->p.eval_every, 1, 1e9, \
     "Steps between evaluations, which are also the points from which a stopped " \
     "run goes on. [a tenth of all]"}, \
    {OPT_INT, 0, "patience", "N", &(w)->p.patience, 0, 1e6, \
     "Evaluations without a better one before it stops; 0: never. [5]"}, \
    {OPT_STR, 0, "gemm", "auto|f32|bf16", &(w)->gemm, 0, 0, \
     "Numbers that a step multiplies: bf16 takes half the time where the processor has " \
     "AVX512_BF16 and oneDNN is installed, and auto takes it there. Scores are always " \
     "in f32. [auto]"}
#define DISTILL_TEACHER_OPTS(w) \
    {OPT_STR, 0, "teacher-cache", "FILE", &(w)->p.teacher_cache, 0, 0, \
     "Run the teacher once, keep its --teacher-k most likely tokens after each one there, " \
     "and learn from that, now and in later runs. [the teacher runs along]"}, \
    {OPT_INT, 0, "teacher-k", "K", &(w)->p.teacher_k, 1, 65536, \
     "Tokens kept; the others count as one. [128]"}
#define DISTILL_RATE_OPTS(w) \
    {OPT_STR, 0, "recipe", "ours|brief", &(w)->preset, 0, 0, \
     "brief: a change of rank 32 at rate 0.00002, hidden states at 0.5, scales held near " \
     "their start at 0.1, those of sensitive matrices frozen for 200 steps. What is " \
     "given beside it counts. [ours]"}, \
    {OPT_NUM, 0, "rate", "R", &(w)->p.rates.latent, 0.0, 1.0, \
     "Rate of the latents, in units of their scale; 0: they rest. [0.001]"}, \
    {OPT_NUM, 0, "scale-rate", "R", &(w)->p.rates.scale, 0.0, 1.0, \
     "Rate of the logarithms of the scales. [0.001]"}, \
    {OPT_NUM, 0, "norm-rate", "R", &(w)->p.rates.norm, 0.0, 1.0, \
     "Rate of the norms' gains. [0.0001]"}, \
    {OPT_STR, 0, "schedule", "cosine|wsd", &(w)->schedule, 0, 0, \
     "How rates fall after the warm-up. [cosine]"}, \
    {OPT_INT, 0, "warmup", "N", &(w)->p.schedule.warmup, 0, 1e9, \
     "Steps in which rates rise. [10, at most a quarter of all]"}, \
    {OPT_NUM, 0, "clip", "L", &(w)->p.clip, 0.0, 1e9, \
     "Longest gradient; 0: any. [1]"}, \
    {OPT_NUM, 0, "temperature", "T", &(w)->p.temperature, 0.01, 100.0, \
     "Of both distributions in the loss. [1]"}
#define DISTILL_LOSS_OPTS(w) \
    {OPT_NUM, 0, "kl", "W", &(w)->p.loss.kl, 0.0, 1e6, \
     "Weight of the divergence in the loss. [1]"}, \
    {OPT_NUM, 0, "ce", "W", &(w)->p.loss.ce, 0.0, 1e6, \
     "Weight of the cross entropy of the text itself. [0]"}, \
    {OPT_NUM, 0, "hidden", "W", &(w)->p.loss.hidden, 0.0, 1e6, \
     "Weight of the distance between hidden states, relative to the teacher's. [0]"}, \
    {OPT_STR, 0, "hidden-layers", "N|L,L...", &(w)->hidden_layers, 0, 0, \
     "Of the outputs of N layers, at even distances, or of those named, from 0: 7,15,29; " \
     "of one alone: 29, with the comma. [4]"}, \
    {OPT_NUM, 0, "hidden-until", "SHARE", &(w)->p.loss.hidden_until, 0.0, 1.0, \
     "Share of the steps over which that weight falls to 0; 0: it stays. [0.3]"}, \
    {OPT_NUM, 0, "scale-weight", "W", &(w)->p.loss.scale, 0.0, 1e6, \
     "Weight of what holds scales near their start. [0]"}
#define DISTILL_MODE_OPTS(w) \
    {OPT_STR, 0, "train", "all|scales|lora", &(w)->train, 0, 0, \
     "all: what lies behind every code. scales: scales and norms; the codes stay. lora: a " \
     "change of rank --rank, rounded with the weight and merged exactly. [all]"}, \
    {OPT_INT, 0, "rank", "N", &(w)->p.mode.rank, 1, 1024, "Of that change. [32]"}, \
    {OPT_NUM, 0, "soft", "SHARE", &(w)->p.mode.soft, 0.0, 1.0, \
     "Share of the steps with smooth codes that harden. [0]"}, \
    {OPT_LIST, 0, "free", "GLOB[=TYPE]", &(w)->free, 0, 0, \
     "Matrices that become plain weights of TYPE (Q8_0, F16, BF16, F32), from the " \
     "teacher's, and are trained as such. The file grows. [TYPE: Q8_0]"}, \
    {OPT_LIST, 0, "freeze", "GLOB[=STEPS]", &(w)->freeze, 0, 0, \
     "Tensors that rest, for the first STEPS or always."}, \
    {OPT_LIST, 0, "freeze-scales", "GLOB[=STEPS]", &(w)->freeze_scales, 0, 0, \
     "Matrices whose scales rest, for the first STEPS or always."}
/* clang-format on */

/* From words to w->p. OPT_RUN, or the exit code. */
int distill_words_read(struct distill_words *w, const struct cmd *cmd);

/* Adds the numbers of a run, its regions and its curve to an object. */
void distill_json(struct cJSON *json, const struct distill_report *r);

/* The curve of a run as a stand-alone SVG. B2_ENOMEM, errors of files. */
enum b2_status distill_write_curve(const char *path, const struct distill_report *r,
                                   bool force, struct b2_err *err) NODISCARD;

/* Held-out divergence before and after, and what was written. */
void distill_text(struct str *out, const struct distill_report *r);

#endif

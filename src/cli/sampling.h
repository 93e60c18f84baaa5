/*
 * sampling.h - the sampling options of run and chat, and the model's own advice.
 */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "cli/cli.h"
#include "format/meta.h"
#include "model/sampler.h"

/* What the words say; SAMPLING_UNSET where they say nothing. */
struct sampling {
    double temp, top_p, min_p, repeat, presence, frequency;
    int64_t top_k, last_n;
};

#define SAMPLING_UNSET (-1e9)
#define SAMPLING_INIT                                                                  \
    {                                                                                  \
        SAMPLING_UNSET, SAMPLING_UNSET, SAMPLING_UNSET, SAMPLING_UNSET,                \
            SAMPLING_UNSET, SAMPLING_UNSET, INT64_MIN, INT64_MIN                       \
    }

/* Rows of the option table. */
/* clang-format off */
#define SAMPLING_OPTS(s, temp_default)                                                 \
    {OPT_NUM, 0, "temp", "T", &(s)->temp, 0, 1000,                                     \
     "Temperature; 0 always takes the most likely token. [" temp_default "]"},         \
    {OPT_INT, 0, "top-k", "K", &(s)->top_k, 0, INT32_MAX,                              \
     "Sample among the K most likely; 0: all. [0]"},                                   \
    {OPT_NUM, 0, "top-p", "P", &(s)->top_p, 0, 1,                                      \
     "Sample among the most likely that add up to P. [1]"},                            \
    {OPT_NUM, 0, "min-p", "P", &(s)->min_p, 0, 1,                                      \
     "Leave out tokens less likely than P times the best. [0]"},                       \
    {OPT_NUM, 0, "repeat-penalty", "X", &(s)->repeat, 0.001, 1000,                     \
     "Divides the logits of recent tokens; 1: off. [1]"},                              \
    {OPT_NUM, 0, "presence-penalty", "X", &(s)->presence, -1000, 1000,                 \
     "Subtracted from the logit of each recent token. [0]"},                           \
    {OPT_NUM, 0, "frequency-penalty", "X", &(s)->frequency, -1000, 1000,               \
     "Subtracted as often as the token came. [0]"},                                    \
    {OPT_INT, 0, "penalty-last-n", "N", &(s)->last_n, -1, 1 << 24,                     \
     "Recent tokens that penalties look at; -1: all. [64]"}
/* clang-format on */

/* The settings to use: the words first; then, in a conversation (chat), the keys
 * general.sampling.* of the file; then our own: greedy, or in a conversation without any
 * advice temperature 0.7 and top-p 0.95. --verbose tells them and where they are from. */
struct sampler_params sampling_resolve(const struct sampling *s, const struct meta *m,
                                       bool chat, const struct cli_common *c);

#endif

/*
 * cache_opts.h - the options about the cache that run, chat, bench, eval and plan share.
 */
#ifndef CLI_CACHE_OPTS_H
#define CLI_CACHE_OPTS_H

#include "cli/cli.h"
#include "model/repack.h"

/* What the words say. Zero with sinks = CACHE_SINKS is the default. */
struct cache_words {
    const char *type; /* NULL: auto */
    int64_t window, sinks;
    const char *repack; /* NULL: off */
};

#define CACHE_WORDS_INIT                                                               \
    {                                                                                  \
        NULL, 0, CACHE_SINKS, NULL                                                     \
    }

/* clang-format off */
#define CACHE_TYPES "auto|f16|q8_0|q4_0"
#define CACHE_OPTS(c)                                                                  \
    {OPT_ENUM, 0, "cache", CACHE_TYPES, &(c)->type, 0, 0,                              \
     "How keys and values are kept; auto: f16, or q8_0 (half of it) when only that "   \
     "fits into memory, with a note. [auto]"},                                         \
    CACHE_WINDOW_OPTS(c)
#define CACHE_WINDOW_OPTS(c)                                                           \
    {OPT_INT, 0, "window", "N", &(c)->window, 0, 1 << 28,                              \
     "Every layer sees at most the last N positions and the sinks, so that memory no " \
     "longer grows and the context may pass what the model was trained for. [all]"},   \
    {OPT_INT, 0, "sinks", "N", &(c)->sinks, 0, CACHE_MAX_SINKS,                        \
     "First positions that stay visible with --window. [4]"},                          \
    {OPT_ENUM, 0, "repack", "off|same|fast", &(c)->repack, 0, 0,                       \
     "Ternary weights in an order that is read faster, made at load in memory of "     \
     "their own instead of the file's pages: same, as many bytes as in the file; "     \
     "fast, 2 bits each where memory has room. [off]"}
/* clang-format on */

/* 0 for auto or NULL. */
enum dtype cache_word_type(const char *word);

/* Puts them into sp. */
void cache_words_apply(const struct cache_words *c, struct session_params *sp);

/* Repacks m's weights as the words say, before its first session, with a progress line. */
enum b2_status cache_words_repack(const struct cache_words *c, struct model *m,
                                  struct backend *be, const struct session_params *sp,
                                  bool quiet, bool plan_only,
                                  struct b2_err *err) NODISCARD;

/* "f16", "q8_0": as the option is written. */
const char *cache_type_word(enum dtype t);

#endif

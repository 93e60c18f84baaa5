/*
 * calib_cmd.h - what analyze, prune, compress and distill share: options of calibration
 * texts, and what long work needs around it (memory limit, notes, threads, progress,
 * Ctrl-C).
 *
 * Between calib_cmd_begin() and calib_cmd_end() the first Ctrl-C lets the work stop where
 * it can go on later.
 */
#ifndef CLI_CALIB_CMD_H
#define CLI_CALIB_CMD_H

#include "base/str.h"
#include "cli/cli.h"
#include "compress/answers.h"
#include "compress/calib_mix.h"

struct calib_cmd {
    struct opt_list calib, avoid;
    const char *data; /* folder of mixes, or NULL */
    int64_t tokens, ctx;
    struct answers_how self; /* n > 0: the model's own answers are a text too */
    /* The work keeps to --mem-limit by itself, by a plan that leaves out what a limit of
     * the process would count (stacks, libraries). */
    bool plans;
    /* from here on by calib_cmd_begin() */
    const struct cli_common *common;
    struct calib_words texts;
    struct calib_params params; /* for the work */
    struct log log;
    struct pool *pool;
    struct progress progress;
};

/* Rows for a command's option table. use: what the texts are for, as in "to calibrate on".
 * n: the default of --calib-tokens. Both are string literals. */
/* clang-format off */
#define CALIB_TEXT_OPTS(c, use) \
    {OPT_LIST, 'c', "calib", "FILE[=SHARE]", &(c)->calib, 0, 0, \
     "Text to " use ", or a .jsonl with \"text\" or \"question\" and " \
     "\"answer\"; several are mixed by their shares. mix:default stands for prose, " \
     "code, maths and Chinese of the data folder; mix:? lists the others."}, \
    {OPT_STR, 0, "data", "DIR", &(c)->data, 0, 0, \
     "Folder that mixes are taken from. [B2_DATA, else ../shared/data]"}, \
    {OPT_LIST, 0, "avoid", "FILE", &(c)->avoid, 0, 0, \
     "Evaluation text: what shares 13 words in a row with it is left out."}, \
    {OPT_INT, 0, "self", "N", &(c)->self.n, 0, 1e7, \
     "Also N answers of the original's own, to questions and openings from --calib, " \
     "through its chat template; a text of share 1. [0]"}, \
    {OPT_INT, 0, "self-tokens", "N", &(c)->self.max_tokens, 1, 65536, \
     "Longest answer. [256]"}, \
    {OPT_NUM, 0, "self-temperature", "T", &(c)->self.temperature, 0.0, 10.0, \
     "Of the answers; 0: greedy. [0.7]"}, \
    {OPT_STR, 0, "self-file", "FILE", &(c)->self.path, 0, 0, \
     "A .jsonl where they are kept and used again. [OUTPUT.answers.jsonl]"}
/* Goes with them. */
#define CALIB_SELF {.max_tokens = 256, .temperature = 0.7}
#define CALIB_CMD_OPTS(c, n) \
    CALIB_TEXT_OPTS(c, "calibrate on"), \
    {OPT_INT, 0, "calib-tokens", "N", &(c)->tokens, 64, 1e8, \
     "Tokens of calibration. [" n "]"}, \
    {OPT_INT, 0, "calib-ctx", "N", &(c)->ctx, 16, 65536, \
     "Tokens of a sequence. [512]"}
/* clang-format on */

/* Takes `common` until the end. What failed is set, and calib_cmd_end() is due all the
 * same. */
enum b2_status calib_cmd_begin(struct calib_cmd *c, const struct cli_common *common,
                               struct b2_err *err) NODISCARD;
enum calib_answers {
    ANSWERS_MADE,     /* those that are missing are made */
    ANSWERS_OPTIONAL, /* a dry run: used if all are there, else that is said */
    ANSWERS_NEEDED    /* a dry run that is worth nothing without them */
};

struct calib_self {
    const char *source; /* the model that answers */
    const char *output; /* what the file lies beside unless --self-file says; or NULL */
    bool force, folder; /* of the output */
    const char *beside[2]; /* other files that the command writes, or NULL */
    enum calib_answers want;
};

/* With --self: the source's answers become a text among the others. B2_EARG: no text to
 * ask from, too many texts, a file that the command uses otherwise; answers are missing.
 * An output that could not be written is refused before anything is asked. Errors of answers_make(). */
enum b2_status calib_cmd_self(struct calib_cmd *c, const struct calib_self *self,
                              struct b2_err *err) NODISCARD;
void calib_cmd_end(struct calib_cmd *c);

/* Callbacks of the work, ctx a struct calib_cmd: has there been a Ctrl-C; a new stage,
 * whose progress is in c->progress. */
bool calib_cmd_cancelled(void *ctx);
void calib_cmd_stage(void *ctx, const char *name, uint64_t total);

/* Whether the file of an option ("--report") can be written beside the output (NULL:
 * none), asked before the work and not after it. B2_EARG: it is the output or the source;
 * errors of files. */
enum b2_status calib_cmd_check_beside(const char *option, const char *path,
                                      const char *output, const char *source,
                                      struct b2_err *err) NODISCARD;

/* The end of such a command: json (owned; NULL: out of memory) with peak_rss_bytes, when
 * --json asks for it, else the text. Both are freed. Returns the exit code. */
int calib_cmd_print(const struct cli_common *common, struct cJSON *json,
                    struct str *text);

#endif

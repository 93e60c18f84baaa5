/*
 * cli.h - what the commands share: common options, messages, exit codes.
 *
 * A command is int cmd_NAME(int argc, char **argv), argv[0] being its name; it returns
 * the exit code: 0 done, 1 failed, 2 usage, 130 interrupted. Results go to stdout,
 * everything else to stderr. Only cli/ prints; main() checks at the end that stdout
 * took everything.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/error.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/pool.h"
#include "base/progress.h"

struct cJSON;

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* The commands, one per file cmd_NAME.c. */
int cmd_analyze(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_compress(int argc, char **argv);
int cmd_distill(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_eval_task(int argc, char **argv); /* argv[0] is "task" */
int cmd_export(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_prune(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_selftest(int argc, char **argv);
int cmd_synth(int argc, char **argv);
int cmd_template(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);

/* Options of every command. Zero is the default of all. */
struct cli_common {
    bool json, strict, quiet, verbose;
    int64_t threads; /* 0: cli_pool() chooses */
    int64_t seed;
    uint64_t mem_limit; /* bytes; 0: none */
};

/* Rows for the end of a command's option table, before OPT_END:
 *     const struct opt opts[] = {
 *         {OPT_STR, 'm', "model", "FILE", &model, 0, 0, "Model to run."},
 *         CLI_COMMON_OPTS(&common),
 *         {.kind = OPT_END},
 *     };
 */
/* clang-format off */
#define CLI_COMMON_OPTS(c)                                                             \
    {OPT_FLAG, 0, "json", NULL, &(c)->json, 0, 0,                                      \
     "One JSON object on stdout."},                                                    \
    {OPT_INT, 't', "threads", "N", &(c)->threads, 0, 1024,                             \
     "Threads; 0: as many as the processor and its quota give. [0]"},                  \
    CLI_OPTS_AFTER_THREADS(c)
/* The rest, for a command whose --threads is something else. */
#define CLI_OPTS_AFTER_THREADS(c)                                                      \
    {OPT_INT, 0, "seed", "N", &(c)->seed, 0, 9.2e18,                                   \
     "Start of all random numbers. [0]"},                                              \
    {OPT_BYTES, 0, "mem-limit", "BYTES", &(c)->mem_limit, 0, 0,                        \
     "Refuse to plan more memory than this (2GB, 512MiB). [no limit]"},                \
    {OPT_FLAG, 0, "strict", NULL, &(c)->strict, 0, 0,                                  \
     "Fail where a slower or different path would be taken."},                         \
    {OPT_FLAG, 'q', "quiet", NULL, &(c)->quiet, 0, 0,                                  \
     "Only errors on stderr."},                                                        \
    {OPT_FLAG, 'v', "verbose", NULL, &(c)->verbose, 0, 0,                              \
     "More notes on stderr."}
/* clang-format on */

/* opt_parse() on stdout and stderr. OPT_RUN: go on; else the exit code to return. */
int cli_parse(const struct cmd *cmd, const struct opt *opts, int argc, char **argv,
              int *n_operands);

/* "bonsai2 run: MESSAGE" and a pointer to --help. Returns 2. For options that are each
 * fine but do not go together, or that are missing. */
int cli_usage_error(const struct cmd *cmd, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* "bonsai2: MESSAGE" on stderr. Returns the exit code: 130 for B2_ECANCEL, else 1. */
int cli_report_error(const struct b2_err *err);

/* Makes --mem-limit hold in a command that plans no memory: allocations above it fail. */
void cli_limit_memory(const struct cli_common *c);

/* Notes of the library on stderr: warnings and infos; --quiet only errors, --verbose
 * all. */
struct log cli_log(const struct cli_common *c);

/* Progress on stderr, one moving line on a terminal; silent with --quiet. */
struct progress cli_progress(const struct cli_common *c, const char *what,
                             const char *quality, uint64_t total);

/* The pool for --threads; --verbose tells its size and the reason. NULL: err is set. */
struct pool *cli_pool(const struct cli_common *c, struct b2_err *err);

/* The processor's features, limited by B2_CPU of the environment. --verbose tells. */
enum b2_status cli_cpu(unsigned *features, const struct cli_common *c,
                       struct b2_err *err) NODISCARD;

/* Prints json, indented, and a newline on stdout, and deletes it. NULL (building it ran
 * out of memory) is reported. Returns the exit code. Numbers that JSON lacks (NaN,
 * infinity) come out as null. */
int cli_print_json(struct cJSON *json);

/* Writes result text to stdout at once (streaming). False: nobody reads it any more, or
 * the disk is full; main() reports it, the caller should stop working. */
bool cli_write(const char *text, size_t n);

/* The folder of data that mixes of texts are taken from, as for the tasks of eval: given,
 * else B2_DATA of the environment, else ../shared/data. NULL: none. */
const char *cli_data_dir(const char *given);

/* Seconds since 1970 of the local clock, as templates tell the time. */
int64_t cli_local_now(void);

/* First Ctrl-C (or SIGTERM) calls fn(ctx) in the signal handler, where only setting a
 * flag is safe; a second one kills. NULL: no handler any more. */
void cli_on_interrupt(void (*fn)(void *ctx), void *ctx);
bool cli_interrupted(void); /* has there been one since? */

#endif

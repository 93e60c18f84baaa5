/*
 * eval_cmd.h - the measures of bonsai2 eval, and what they share.
 *
 * Each measure is a command of its own, int cmd_eval_NAME(int argc, char **argv) with
 * argv[0] the measure's name, in a file of that name; cmd_eval.c only finds it.
 */
#ifndef CLI_EVAL_CMD_H
#define CLI_EVAL_CMD_H

#include "base/str.h"
#include "cli/cli.h"
#include "model/session.h"

int cmd_eval_blind(int argc, char **argv);
int cmd_eval_kld(int argc, char **argv);
int cmd_eval_loops(int argc, char **argv);
int cmd_eval_ppl(int argc, char **argv);
int cmd_eval_report(int argc, char **argv);
int cmd_eval_retention(int argc, char **argv);
int cmd_eval_rollback(int argc, char **argv);
int cmd_eval_speed(int argc, char **argv);

/* What every model of one run is opened with. */
struct eval_env {
    struct cli_common common;
    struct log log;
    struct pool *pool;
    unsigned cpu;
};

/* Starts log, threads and kernel level from env->common. */
enum b2_status eval_env_open(struct eval_env *env, struct b2_err *err) NODISCARD;
void eval_env_close(struct eval_env *env); /* zeroed is fine */

/* One model with what it takes to run it. */
struct eval_side {
    const char *path;
    const char *cache; /* word of --cache, set before opening; NULL: f16 */
    struct model *model;
    struct backend *be;
    struct session *s;
    char weights[65]; /* modelfile_sample: kept scores are of these weights alone */
};

/* Both halves below, without --mem-limit: the caller adds up what all its models take
 * (eval_check_memory). ctx 0: as session_new decides. Closed by eval_side_close() also after a failure. */
enum b2_status eval_side_open(struct eval_side *s, const struct eval_env *env,
                              const char *path, bool exact, int64_t ctx,
                              struct b2_err *err) NODISCARD;
/* The two halves of it: a session's length may depend on the model. */
enum b2_status eval_side_model(struct eval_side *s, const struct eval_env *env,
                               const char *path, bool exact,
                               struct b2_err *err) NODISCARD;
enum b2_status eval_side_session(struct eval_side *s, const struct eval_env *env,
                                 int64_t ctx, struct b2_err *err) NODISCARD;
void eval_side_close(struct eval_side *s);

/* "model.gguf" of "dir/model.gguf": how tables and pages name a candidate. */
const char *eval_name(const char *path);
/* Columns that text takes in a terminal. */
int eval_width(const char *text);
/* Prints text in exactly width columns: filled up, or cut between characters with "…". */
void eval_cell(const char *text, int width);
/* Kept scores are filed by that name: B2_EARG when two of the models share it. baseline:
 * NULL, or a model that is asked too. The same file twice is the same scores. */
enum b2_status eval_names_differ(const char *baseline, const struct opt_list *models,
                                 struct b2_err *err) NODISCARD;

/* Ctrl-C ends the call that runs on either session. b may be NULL. */
struct eval_cancel {
    struct session *a, *b;
};
void eval_cancel_both(void *cancel); /* for cli_on_interrupt */

/* Adds what every result carries of its conditions: threads, kernel, seed, version. */
void eval_json_env(struct cJSON *j, const struct eval_env *env,
                   const struct eval_side *s);

/* Adds the candidate: model, fingerprint, bytes of its file. */
void eval_json_model(struct cJSON *j, const struct eval_side *s);
/* The same of kept answers: what their settings (JSON text) know of the weights. */
void eval_json_weights(struct cJSON *j, const char *key, const char *settings);
const char *eval_activations(bool exact); /* in words */
/* The word of --cache for the settings of kept answers, which are others with another
 * cache. NULL for the usual one, so that answers kept before there was a choice stay of
 * use; the second adds it where it is not NULL. */
const char *eval_cache_kept(const char *cache);
void eval_json_cache(struct cJSON *j, const char *cache);

/* Before the work begins: refuses a page that would replace a file or cannot be written
 * where it is to be, and earlier results (more) that are none. NULL is fine. */
enum b2_status eval_check_report(const char *report, const struct opt_list *more,
                                 bool force, struct b2_err *err) NODISCARD;

/* One candidate's result is its object; several are {"measure": …, "candidates": […]}.
 * Takes *results and sets it NULL. */
struct cJSON *eval_join(const char *measure, struct cJSON **results);

/* Prints a result: as JSON with --json (takes j), else nothing; and where report is not
 * NULL writes the page of it and of the result files in more. Returns the exit code. */
int eval_finish(const struct cli_common *c, struct cJSON *j, const char *report,
                const struct opt_list *more, bool force);

/* Writes the page of the results in list and of the files in more, which join them. */
enum b2_status eval_write_report(const char *path, struct cJSON *list,
                                 const struct opt_list *more, bool force,
                                 struct b2_err *err) NODISCARD;

/* Rows of the option table for the page. */
/* clang-format off */
#define EVAL_REPORT_OPTS(file, more, force)                                            \
    {OPT_STR, 0, "report", "FILE", file, 0, 0,                                         \
     "Write a page about the result too: one HTML file."},                             \
    {OPT_LIST, 0, "include", "FILE", more, 0, 0,                                       \
     "Put this earlier result (--json), or a sensitivity file of analyze, on the page "\
     "too; may be repeated."},                                                         \
    {OPT_FLAG, 'f', "force", NULL, force, 0, 0,                                        \
     "Replace existing output files."}
#define EVAL_CACHE_OPT(word)                                                           \
    {OPT_ENUM, 0, "cache", "f16|q8_0|q4_0", word, 0, 0,                                \
     "How keys and values are kept. [f16]"}
/* For measures that keep scores and go on with them. */
#define EVAL_ANEW_OPT(flag)                                                            \
    {OPT_FLAG, 0, "anew", NULL, flag, 0, 0,                                            \
     "Begin kept scores anew instead of going on with them."}
/* clang-format on */

#endif

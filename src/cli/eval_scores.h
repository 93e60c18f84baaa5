/*
 * eval_scores.h - the answers of a model to some tasks: kept in a folder, or made now.
 */
#ifndef CLI_EVAL_SCORES_H
#define CLI_EVAL_SCORES_H

#include "cli/eval_cmd.h"
#include "eval/items.h"

struct eval_scores {
    struct item_set *set; /* [n], one of each task, sorted by its name */
    int n;
    uint64_t model_bytes; /* of the file; 0: not known */
};

/* A folder of kept scores: it has *.jsonl and no config.json (that is a model). */
bool eval_scores_is_folder(const char *path);

/* Reads every *.jsonl of a folder; tasks "a,b" or NULL: all there are. Notes what an
 * interrupted run left out. B2_ENOTFOUND: a task that is not there (named). */
enum b2_status eval_scores_read(struct eval_scores *out, const char *folder,
                                const char *tasks, const struct log *log,
                                struct b2_err *err) NODISCARD;
void eval_scores_free(struct eval_scores *s); /* zeroed is fine */

/* Into the order of the tasks' names, which everything else expects. */
void eval_scores_sort(struct eval_scores *s);

/* The set of that task, or NULL. */
const struct item_set *eval_scores_find(const struct eval_scores *s, const char *task);

/* Word i of a list "a,b,c", cut to the buffer. False: there is none. */
bool eval_word(char *out, size_t size, const char *list, int i);

#endif

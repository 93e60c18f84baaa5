/*
 * task.h - a task: its items and how a model is asked about them. Data, not code.
 *
 * A description (tasks/NAME.json, docs/EVAL.md) says where the rows of data lie and how
 * a row becomes a prompt, choices or a generated answer, and a score. Opening a task
 * reads its data and draws the subset; task_run (task_run.h) asks a model.
 * Immutable after opening; several threads may share one.
 */
#ifndef EVAL_TASK_H
#define EVAL_TASK_H

#include "base/str.h"
#include "format/json.h"
#include "model/chat.h"

enum task_kind {
    TASK_CHOICE,   /* the likeliest of some continuations */
    TASK_CLOZE,    /* is the continuation what greedy decoding would say? */
    TASK_GENERATE, /* the model writes; a check judges */
};

enum task_check { TASK_MATCH, TASK_IFEVAL, TASK_CODE }; /* of generated answers */

/* Where things lie. Each may be NULL: the ones that come with the program. */
struct task_place {
    const char *task_dir; /* descriptions, before those installed */
    const char *data_dir; /* data: else B2_DATA of the environment, ../shared/data */
};

struct task_options {
    int64_t limit; /* items, drawn with seed; 0: all */
    int64_t shots; /* examples before each question; -1: as the task says */
    uint64_t seed;
    bool chat; /* the questions are turns of a conversation */
};

enum { TASK_MAX_CHOICES = 26 };

struct task;

/* Opens a task. name: of a description ("arc_easy"), or a file: a description (.json), a
 * user's own questions (.csv, .tsv, .jsonl: columns question, answer, or choices too), or a
 * text whose passages lose their last word (.txt). B2_ENOTFOUND: no such task (names
 * those there are), or its data are missing (says where they were looked for). */
enum b2_status task_open(struct task **out, const char *name,
                         const struct task_place *place, const struct task_options *o,
                         struct b2_err *err) NODISCARD;
void task_free(struct task *t); /* NULL is fine */

/* Names of the descriptions there are, sorted; freed by file_match_free. */
enum b2_status task_names(char ***names, int64_t *n, const struct task_place *place,
                          struct b2_err *err) NODISCARD;
/* Appends the folder of data that would be used for place; nothing when there is none. */
void task_data_dir(struct str *out, const struct task_place *place);
/* Appends the folder of the texts that come with the program, region_NAME.txt. */
void task_regions_dir(struct str *out);

const char *task_name(const struct task *t);
enum task_kind task_kind(const struct task *t);
enum task_check task_check(const struct task *t);
int64_t task_items(const struct task *t);
int64_t task_total(const struct task *t); /* items before --limit */
int64_t task_shots(const struct task *t);
const char *task_id(const struct task *t, int64_t i);   /* of item i */
const cJSON *task_row(const struct task *t, int64_t i); /* its row of data */
int task_metrics(const struct task *t,
                 const char *names[4]); /* their number; main first */
double task_chance(const struct task *t);
int64_t task_max_tokens(const struct task *t);               /* of an answer */
const char *const *task_stops(const struct task *t, int *n); /* borrowed */
const cJSON *task_description(const struct task *t);

/* An item ready to be asked: all strings owned. Without chat the prompt is plain text;
 * with it the rendered template, control tokens as text. */
struct task_ask {
    char *prompt[TASK_MAX_CHOICES]; /* [n_prompts]: 1, or one per choice (WinoGrande) */
    char *choice[TASK_MAX_CHOICES]; /* [n_choices] continuations, delimiter included */
    int64_t n_chars[TASK_MAX_CHOICES]; /* of the choice without delimiter: acc_norm */
    int64_t n_bytes[TASK_MAX_CHOICES]; /* the same in bytes: acc_bytes */
    int n_prompts, n_choices;
    int gold;     /* right choice; -1: none, as for generated answers */
    char *answer; /* right answer of a generated one; may be empty */
};

/* chat: NULL without options.chat. B2_EARG: the row does not fit the description (says
 * which item and why). */
enum b2_status task_ask_make(struct task_ask *out, const struct task *t, int64_t i,
                             const struct chat *chat, struct b2_err *err) NODISCARD;
void task_ask_free(struct task_ask *a); /* zeroed is fine */

#endif

/*
 * task_judge.h - is a generated answer right? For task_run.c.
 */
#ifndef EVAL_TASK_JUDGE_H
#define EVAL_TASK_JUDGE_H

#include "eval/task_int.h"

struct verdict {
    double score[ITEM_SCORES], weight[ITEM_SCORES]; /* weight: 1, but for IFEval */
    struct str details; /* further keys of the item's line: ,"key":value…; owned */
};

/* Judges one answer of item i. Thoughts (up to </think>) are not part of it. B2_EARG: the
 * row cannot be judged. B2_EUNSUP: code, and this machine has no sandbox. */
enum b2_status judge_answer(struct verdict *out, const struct task *t, int64_t i,
                            const char *right, const char *answer,
                            struct b2_err *err) NODISCARD;
void verdict_free(struct verdict *v); /* zeroed is fine */

/* Checks of answers against text, also for tests: the part that m looks at, compared
 * after d's rules. */
bool judge_match(const struct task_desc *d, const struct task_metric *m,
                 const char *right, const char *answer);

/* Judges by running: a program from the row's prompt, test, entry_point and the answer.
 * *passed; details says how it ended. */
enum b2_status judge_code(bool *passed, struct str *details, const cJSON *row,
                          const char *answer, struct b2_err *err) NODISCARD;

/* Appends the program that judge_code runs. */
void judge_code_program(struct str *out, const cJSON *row, const char *answer);

#endif

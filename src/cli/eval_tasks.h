/*
 * eval_tasks.h - asking a model several tasks, for measures that compare answers.
 */
#ifndef CLI_EVAL_TASKS_H
#define CLI_EVAL_TASKS_H

#include "cli/eval_scores.h"

struct eval_tasks {
    struct eval_env env;
    const char *names; /* "a,b,c" */
    const char *data_dir, *task_dir, *scores, *cache;
    int64_t limit, shots, samples, max_tokens;
    double temperature;
    bool chat, exact, allow_code;
    bool anew;  /* kept scores */
    bool force; /* an existing page is replaced */
};

#define EVAL_TASKS_DEFAULT                                                             \
    {                                                                                  \
        .shots = -1, .samples = 1                                                      \
    }

/* Rows of the option table. */
/* clang-format off */
#define EVAL_TASK_OPTS(t)                                                              \
    {OPT_STR, 0, "tasks", "NAME,...", &(t)->names, 0, 0,                               \
     "Tasks to ask, or files of questions."},                                          \
    {OPT_INT, 0, "limit", "N", &(t)->limit, 0, 1e9,                                    \
     "Items of each task, drawn with --seed; 0: all. [0]"},                            \
    {OPT_INT, 0, "shots", "K", &(t)->shots, 0, 100,                                    \
     "Examples before each question. [what the task says]"},                           \
    {OPT_FLAG, 0, "chat", NULL, &(t)->chat, 0, 0,                                      \
     "Ask in the model's chat template."},                                             \
    {OPT_INT, 0, "samples", "N", &(t)->samples, 1, 1000,                               \
     "Answers to each question that wants a written one. [1]"},                        \
    {OPT_NUM, 0, "temp", "T", &(t)->temperature, 0, 100,                               \
     "Temperature of written answers; 0 always takes the likeliest token. [0]"},       \
    {OPT_FLAG, 0, "allow-code", NULL, &(t)->allow_code, 0, 0,                          \
     "Run code that a model writes, in a sandbox."},                                   \
    {OPT_STR, 0, "data", "DIR", &(t)->data_dir, 0, 0,                                  \
     "Folder of the tasks' data. [B2_DATA, else ../shared/data]"},                     \
    {OPT_STR, 0, "task-dir", "DIR", &(t)->task_dir, 0, 0,                              \
     "Folder of further task descriptions."},                                          \
    {OPT_INT, 0, "max-tokens", "N", &(t)->max_tokens, 1, 1 << 20,                      \
     "Longest written answer. [what the task says]"},                                  \
    {OPT_STR, 0, "scores", "DIR", &(t)->scores, 0, 0,                                  \
     "Keep every item's score there, DIR/MODEL/TASK.jsonl; goes on with it."},         \
    EVAL_ANEW_OPT(&(t)->anew), EVAL_CACHE_OPT(&(t)->cache),                            \
    {OPT_FLAG, 0, "exact", NULL, &(t)->exact, 0, 0,                                    \
     "Activations and sums in F32; slow."}
/* clang-format on */

/* Asks the model at path all tasks; *out as from eval_scores_read. */
enum b2_status eval_tasks_run(struct eval_scores *out, struct eval_tasks *t,
                              const char *path, struct b2_err *err) NODISCARD;

#endif

/*
 * task_int.h - the parts of a task; for task*.c only.
 */
#ifndef EVAL_TASK_INT_H
#define EVAL_TASK_INT_H

#include "eval/items.h"
#include "eval/table.h"
#include "eval/task.h"
#include "text/pattern.h"

enum { TASK_MAX_STOPS = 16, TASK_MAX_IGNORE = 8, TASK_MAX_TEXT = 1 << 20 };

/* How a metric looks at a generated answer. */
struct task_metric {
    const char *name;
    struct pattern *find; /* the part to compare; NULL: the whole answer */
    bool last;            /* the last match, not the first */
    bool contains;        /* right when the right answer stands in it as words */
};

/* A description. Strings point into json. */
struct task_desc {
    cJSON *json;
    char *name;
    enum task_kind kind;
    enum task_check check;
    const char *data, *fewshot; /* paths with at most one '*'; fewshot may be NULL */
    bool fewshot_first;         /* the first rows, not drawn ones */
    int64_t shots;
    struct chat *id, *system, *prompt, *gold, *target, *choice;
    struct chat *choices[TASK_MAX_CHOICES]; /* [n_choices]; 0: the column's elements */
    int n_choices;
    const char *choices_column;
    bool vary_prompt; /* a prompt per choice, one target */
    const char *delimiter, *separator;
    struct task_metric metric[ITEM_SCORES]; /* main one first */
    int n_metrics;
    double chance;
    const char *stop[TASK_MAX_STOPS + 1];
    int n_stops;
    int64_t max_tokens;
    struct pattern *ignore[TASK_MAX_IGNORE]; /* taken out before comparing */
    int n_ignore;
    bool ignore_case, ignore_punctuation, gold_lines;
};

/* Reads a description of n bytes. chat: with its "chat" part in force. B2_EFORMAT names
 * the key. */
enum b2_status task_desc_parse(struct task_desc *d, const char *name, const char *text,
                               size_t n, bool chat, struct b2_err *err) NODISCARD;
void task_desc_free(struct task_desc *d); /* zeroed is fine */

/* Rows of one file of data; the name is what '*' stood for. */
struct task_group {
    char *name;
    struct table rows, more; /* more: of the few-shot file, empty when there is none */
    const cJSON **shot;      /* [n_shots] */
    int64_t n_shots;
};

/* A user's file of questions: every row has question and answer, some have choices.
 * B2_EFORMAT names the row. */
enum b2_status task_own_read(struct table *out, const char *path,
                             struct b2_err *err) NODISCARD;

struct task_place_item {
    char *id;
    int64_t group, row;
};

struct task {
    struct task_desc d;
    struct task_options o;
    struct task_group *group;
    int64_t n_groups;
    struct task_place_item *item;
    int64_t n_items, n_total;
};

/* Reads the files that pattern (as in a description) means; paths in folder, which may
 * be NULL for a path as it is. */
enum b2_status task_groups_read(struct task *t, const char *folder,
                                struct b2_err *err) NODISCARD;
/* One group whose rows are the passages of a text. */
enum b2_status task_groups_from_text(struct task *t, const char *path,
                                     struct b2_err *err) NODISCARD;
/* Draws examples and items. */
enum b2_status task_draw(struct task *t, struct b2_err *err) NODISCARD;

/* Appends a template's text for a row; group and choice (NULL: none) are its further
 * variables, i the number of the choice. */
enum b2_status task_render(struct str *out, const struct chat *tmpl, const cJSON *row,
                           const char *group, const char *choice, int i,
                           struct b2_err *err) NODISCARD;

#endif

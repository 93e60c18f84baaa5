/*
 * items.h - what one model did on each item of a task: the raw material of every figure.
 *
 * Kept as JSON lines, so that a script of a few lines recomputes a report. The first
 * line of a file describes the run of one task, each other line one item:
 *   {"task":"arc_easy","metric":"acc_norm","chance":0.25,"n":200,"model":"F","fingerprint":"…",
 *    "settings":{…},"prompt_sha256":"…"}
 *   {"id":"Mercury_7175875","score":1,"scores":{"acc":1,"acc_norm":1},"loglik":[…],"answer":"…"}
 * An item may have "weights" beside its "scores", of those that are not 1.
 * A file without its last lines is that of an interrupted run and can be gone on with.
 */
#ifndef EVAL_ITEMS_H
#define EVAL_ITEMS_H

#include "base/error.h"
#include "base/str.h"

enum { ITEM_SCORES = 4 };

struct item {
    char *id;                   /* as the task's data names it, else its number */
    double score;               /* of the task's main metric, 0..1 */
    double scores[ITEM_SCORES]; /* of every metric, in the order of item_set.metrics */
    double
        weight[ITEM_SCORES]; /* of a score in the mean: 1, or IFEval's instructions */
    char *rest;              /* the item's whole JSON line, without a line end */
};

struct item_set {
    char *task, *metric;        /* metric: the main one */
    char *metrics[ITEM_SCORES]; /* names, n_metrics of them */
    int n_metrics;
    double chance;             /* of a guess; 0 where there is none to speak of */
    char *model, *fingerprint; /* file as given; SHA-256 of header and tensor table */
    char *settings;            /* JSON object: shots, template, seed, limit, … */
    char *prompt_sha256;       /* of all prompts of the run, in order */
    struct item *item;         /* [n], in the order they were asked */
    int64_t n;
};

/* Reads a file of items. B2_EFORMAT names the line. *whole says whether all items that
 * the first line promises are there. */
enum b2_status item_set_read(struct item_set *out, const char *path, bool *whole,
                             struct b2_err *err) NODISCARD;
void item_set_free(struct item_set *s); /* zeroed is fine */

/* Mean of metric number `metric` over all items, by weight. 0 without items. */
double item_set_mean(const struct item_set *s, int metric);
int item_set_metric(const struct item_set *s, const char *name); /* -1: none such */

/* The first line of a file, without line end: what item_set_read makes of s. out is
 * appended to. n_planned: items that the whole run will have. */
void item_set_header(struct str *out, const struct item_set *s, int64_t n_planned);

/* Adds the item that a JSON line of n bytes describes. B2_EFORMAT: not one of this set. */
enum b2_status item_set_add(struct item_set *s, const char *line, size_t n,
                            struct b2_err *err) NODISCARD;

/* The file of a run that may be interrupted and gone on with. */
struct item_file;

/* s: the run's description, without items; path NULL: nothing is kept. Where path holds
 * an earlier part of the same run its items are added to s; B2_EEXIST: of another run
 * (says what differs), unless force, which begins anew. */
enum b2_status item_file_open(struct item_file **out, struct item_set *s,
                              const char *path, int64_t n_planned, bool force,
                              struct b2_err *err) NODISCARD;
/* Adds an item to the set and writes its line (no line end in it). */
enum b2_status item_file_add(struct item_file *f, struct item_set *s, const char *line,
                             size_t n, struct b2_err *err) NODISCARD;
/* Closes; frees f also on failure. NULL is fine. */
enum b2_status item_file_close(struct item_file *f, struct b2_err *err) NODISCARD;

#endif

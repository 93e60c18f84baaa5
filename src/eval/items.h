/*
 * items.h - what one model did on each item of a task: the raw material of every figure.
 *
 * Kept as JSON lines, so that a script of a few lines recomputes a report. The first
 * line of a file describes the run of one task, each other line one item:
 *   {"task":"arc_easy","metric":"acc_norm","chance":0.25,"n":200,"model":"F","fingerprint":"…",
 *    "settings":{…},"prompt_sha256":"…"}
 *   {"id":"Mercury_7175875","score":1,"scores":{"acc":1,"acc_norm":1},"loglik":[…],"answer":"…"}
 * A file without its last lines is that of an interrupted run and can be gone on with.
 */
#ifndef EVAL_ITEMS_H
#define EVAL_ITEMS_H

#include "base/error.h"

enum { ITEM_SCORES = 4 };

struct item {
    char *id;                   /* as the task's data names it, else its number */
    double score;               /* of the task's main metric, 0..1 */
    double scores[ITEM_SCORES]; /* of every metric, in the order of item_set.metrics */
    char *rest;                 /* the item's whole JSON line */
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

#endif

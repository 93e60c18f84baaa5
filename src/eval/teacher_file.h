/*
 * teacher_file.h - a baseline's rows (teacher.h) in a file: written, gone on with, read.
 *
 * The head names the texts by region and by the SHA-256 of their token ids, with
 * context, convention, model, fingerprint and k, so that a file is only ever used for the
 * windows that it was made for.
 */
#ifndef EVAL_TEACHER_FILE_H
#define EVAL_TEACHER_FILE_H

#include "eval/fidelity.h"
#include "eval/teacher.h"

struct teacher_params {
    const char *path;
    int64_t k; /* cut to the vocabulary */
    const char *model;
    bool exact;
    const char *convention;
    bool force; /* an existing file may be replaced */
    const struct log *log;
};

/* Runs the baseline over all windows and writes its rows. An interrupted PATH.part of the
 * same head is gone on with behind its last whole block; another one is thrown away and
 * said. pr counts scored tokens. Errors of divergence_run; B2_EEXIST. */
enum b2_status teacher_file_save(const struct teacher_params *p,
                                 const struct fidelity *f, struct session *base,
                                 struct progress *pr, struct b2_err *err) NODISCARD;

/* Opens a file for the texts of f, cut by a model of that vocabulary. B2_EARG: it was
 * made for other texts, windows or tokens (says which). B2_EFORMAT, B2_ETRUNC. */
enum b2_status teacher_file_open(struct teacher_file **out, const char *path,
                                 const struct fidelity *f, const char *convention,
                                 int64_t vocab, struct b2_err *err) NODISCARD;
void teacher_file_close(struct teacher_file *t); /* NULL is fine */

/* Row `row` of window `window`, counted over all texts; checks a block when it is first
 * asked for. B2_EFORMAT: damaged. */
enum b2_status teacher_file_row(struct teacher_file *t, struct teacher_row *out,
                                int64_t window, int64_t row,
                                struct b2_err *err) NODISCARD;

int64_t teacher_file_k(const struct teacher_file *t);
const char *teacher_file_model(const struct teacher_file *t); /* as the head has it */
const char *teacher_file_fingerprint(const struct teacher_file *t);
bool teacher_file_exact(const struct teacher_file *t);
/* Mean probability of what is not among the k, over the rows read so far. */
double teacher_file_mean_tail(const struct teacher_file *t);

#endif

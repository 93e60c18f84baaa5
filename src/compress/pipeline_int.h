/*
 * pipeline_int.h - what pipeline.c and pipe_normal.c share.
 */
#ifndef COMPRESS_PIPELINE_INT_H
#define COMPRESS_PIPELINE_INT_H

#include "compress/normal.h"
#include "compress/pipeline.h"
#include "compress/table.h"
#include "compress/work.h"
#include "format/gguf.h"

/* Tensors [begin, end) that share a piece: consecutive ones of one layer. */
struct piece {
    int64_t begin, end;
    uint64_t payload;
    bool done;
};

struct pipeline {
    const struct pipeline_params *p;
    struct recipe recipe; /* with what the calibration was */
    struct calib calib;
    struct str calib_text;
    struct normal *normal;      /* while layers are compensated */
    struct blas *blas;          /* while tables are rounded */
    struct table_metric metric; /* of the head's inputs */
    double kld;                 /* on the probe, after the last layer; NaN: unknown */
    struct modelfile *mf;
    struct choose c;
    struct meta *meta;
    struct work *work;
    struct piece *piece;
    int64_t n_pieces, n_resumed;
    struct fit_stat *stat; /* [c.n] */
    uint8_t *marks;        /* while the file is written: of what it leaves out */
    uint64_t marks_at;     /* behind those of matrices that are written */
    uint64_t file_bytes;
    char sha256[65];
};

/* Rounds a piece and adds its values to n_done. */
enum b2_status pipeline_round_piece(struct pipeline *pl, int64_t i, uint64_t *n_done,
                                    struct b2_err *err) NODISCARD;

/* pipe_normal.c: all pieces of layers, in the order of layers, with compensation. Those
 * that are there are taken over. */
enum b2_status pipeline_compensate(struct pipeline *pl, uint64_t *n_done,
                                   struct b2_err *err) NODISCARD;

/* pipe_table.c: rounds item k, a table that table_compensable() names, into the open
 * piece. n_done: values that the stage counted before it. The metric stays for the next
 * one until it is dropped. */
enum b2_status pipeline_round_table(struct pipeline *pl, int64_t k, uint64_t n_done,
                                    struct b2_err *err) NODISCARD;
void pipeline_drop_metric(struct pipeline *pl);

/* pipe_zeros.c, of matrices that leave out groups of zeros: what is stored of each of
 * their rows, from the pieces to the keys; and such a matrix from its whole bytes. */
enum b2_status pipeline_mark_zeros(struct pipeline *pl, struct b2_err *err) NODISCARD;
enum b2_status pipeline_write_packed(struct pipeline *pl, struct gguf_out *out,
                                     const struct choose_item *it, const uint8_t *bytes,
                                     struct b2_err *err) NODISCARD;

/* pipe_best.c, of effort best. Refuses what could not be distilled later on. */
enum b2_status pipeline_best_check(const struct pipeline *pl,
                                   struct b2_err *err) NODISCARD;
/* The most that keys about the training add to the file. */
uint64_t pipeline_best_reserve(const struct pipeline *pl);
/* Whether an earlier run wrote the student; else what was written becomes it. */
bool pipeline_best_has_student(const struct pipeline *pl);
enum b2_status pipeline_best_take(const struct pipeline *pl,
                                  struct b2_err *err) NODISCARD;
/* From the student to the file at work_output_path(); adds its stage to r. */
enum b2_status pipeline_best_train(struct pipeline *pl, struct report *r,
                                   struct b2_err *err) NODISCARD;

#endif

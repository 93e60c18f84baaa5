/*
 * teacher.h - what a baseline predicted, stored once and used for every candidate.
 *
 * A row is the baseline's distribution after one scored position: the k most likely
 * tokens with their log-probabilities, the log of what all others share (the tail), and
 * the log-probability of the token that came. The first of the k is the argmax.
 *
 * The file, little-endian:
 *   "B2TEACH1", u32 length of the head, the head (a JSON object, see teacher_head)
 *   one block for each window: u32 rows, then rows times
 *     f32 target, f32 tail, k times u32 token (most likely first), k times f32 log p
 *   and the SHA-256 of the block so far in 64 hex digits.
 * Blocks lie in the order of the windows and their lengths follow from the windows, so
 * an interrupted file is gone on with behind its last whole block.
 */
#ifndef EVAL_TEACHER_H
#define EVAL_TEACHER_H

#include "base/error.h"
#include "eval/logprob.h"

enum { TEACHER_K = 256, TEACHER_MAX_K = 1 << 16 };

struct teacher_row {
    const uint8_t *data; /* of the row; teacher_token() and teacher_logp() read it */
    int64_t k;
    double target, tail; /* log-probabilities; tail is -inf when k is the vocabulary */
};

uint32_t teacher_token(const struct teacher_row *r, int64_t i);
double teacher_logp(const struct teacher_row *r, int64_t i);

/* Bytes of a row, of a block of n_rows. */
size_t teacher_row_bytes(int64_t k);
size_t teacher_block_bytes(int64_t k, int64_t n_rows);

/* Where row i of a block lies. */
uint8_t *teacher_block_row(uint8_t *block, int64_t k, int64_t i);

/* Writes the row that logits x [vocab], described by b and expo (logprob_row), make.
 * scratch [k] int32. k <= vocab. */
void teacher_put_row(uint8_t *out, const float *x, int64_t vocab,
                     const struct logprob *b, int32_t target, int64_t k,
                     int32_t *scratch);
/* Ends a block whose n_rows rows stand in it: number and checksum. */
enum b2_status teacher_seal(uint8_t *block, int64_t k, int64_t n_rows,
                            struct b2_err *err) NODISCARD;
/* B2_EFORMAT: another number of rows, or another checksum. */
enum b2_status teacher_check(const uint8_t *block, int64_t k, int64_t n_rows,
                             struct b2_err *err) NODISCARD;
/* B2_EFORMAT: a token outside the vocabulary, a log-probability that is none. */
enum b2_status teacher_get_row(struct teacher_row *out, const uint8_t *block, int64_t k,
                               int64_t i, int64_t vocab, struct b2_err *err) NODISCARD;

/* KL(b, c) with the tail as one token: never above the full divergence, and below it by
 * what candidate and baseline disagree inside the tail. c describes logits xc [vocab]. */
double teacher_kld(const struct teacher_row *r, const struct logprob *c,
                   const float *xc);

/* The head of a file: what was run, as JSON text. */
struct teacher_head {
    const char *text; /* [n], borrowed from the file */
    size_t n;
    size_t end; /* where the first block begins */
};
/* Appends "B2TEACH1", length and text. text below 16 MiB. */
struct str;
void teacher_put_head(struct str *out, const char *text);
/* B2_EFORMAT: no such file; B2_ETRUNC: its head is cut short. */
enum b2_status teacher_get_head(struct teacher_head *out, const uint8_t *data,
                                size_t size, struct b2_err *err) NODISCARD;

#endif

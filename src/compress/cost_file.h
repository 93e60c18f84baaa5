/*
 * cost_file.h - measured costs on disk, so that several budgets share one measurement.
 *
 *   {"bonsai2_costs": 1, "of": {...},
 *    "tensors": [["blk.0.attn_q.weight", [["B2_T64", 0.0016], ["Q4_0", 0.00002]]], ...]}
 *
 * "of" says what was measured: source, calibration and everything of the recipe that a
 * cost depends on. Costs of something else are refused, not used.
 */
#ifndef COMPRESS_COST_FILE_H
#define COMPRESS_COST_FILE_H

#include "compress/choose.h"

/* The value of "of", as JSON text. */
void cost_file_key(const struct recipe *r, const char *source_sha256, struct str *out);

/* Fills the damage of every candidate of c. *found: the file is there. B2_EFORMAT: it is
 * no such file, or lacks a tensor or a type. B2_EARG: costs of something else. */
enum b2_status cost_file_read(struct choose *c, const char *path, const char *key,
                              bool *found, struct b2_err *err) NODISCARD;
enum b2_status cost_file_write(const struct choose *c, const char *path,
                               const char *key, struct b2_err *err) NODISCARD;

/* The same from text; for tests and fuzzing. */
enum b2_status cost_file_parse(struct choose *c, const char *text, size_t n,
                               const char *key, struct b2_err *err) NODISCARD;

#endif

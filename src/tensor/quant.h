/*
 * quant.h - rows of any type to F32 and back: the byte layouts of FORMATS.md.
 *
 * The readers define what the bytes mean (w = scale * code, F32 arithmetic in the
 * order of the ggml reference, so that values agree bit for bit with gguf-py). The
 * writers are container writers: rounding without any importance, byte-exact with the
 * ggml reference encoders, lossless on values that the type can hold. Fitted rounding
 * lives in compress/.
 */
#ifndef TENSOR_QUANT_H
#define TENSOR_QUANT_H

#include "tensor/dtype.h"

/* Decodes n weights (a multiple of the block; plain types any n). All types of dtype.h.
 * src needs no alignment. */
void quant_decode_row(enum dtype t, float *dst, const void *src, int64_t n);

/* Encodes n weights. Types with DTF_WRITE only (a program error else). Values must be
 * finite; check with quant_check_row first. */
void quant_encode_row(enum dtype t, void *dst, const float *src, int64_t n);

/* Finds the first NaN or infinity. B2_EFORMAT with the column; *col may be NULL. */
enum b2_status quant_check_row(const float *src, int64_t n, int64_t *col,
                               struct b2_err *err) NODISCARD;

/* Ternary blocks: codes and scales apart. t has DTF_TERNARY.
 *   codes  [n] int8: -1, 0, +1 (2-bit types may decode +2)
 *   scales [n / block] F32, exact values of the stored FP16 */
void quant_ternary_split(enum dtype t, int8_t *codes, float *scales, const void *src,
                         int64_t n);
/* The reverse; scales are rounded to FP16. codes in -1..+1 (2-bit types: also +2). */
void quant_ternary_join(enum dtype t, void *dst, const int8_t *codes,
                        const float *scales, int64_t n);

/* Looks for what no encoder writes: code 3 in 2-bit types, byte values that base-3
 * never yields, NaN or infinite scales. Returns the index of the first such block of the
 * row, -1 if none; *what (may be NULL) gets a static description. Any type. */
int64_t quant_verify_row(enum dtype t, const void *src, int64_t n, const char **what);

#endif

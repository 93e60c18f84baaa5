/*
 * quant.h - rows of any type to F32 and back: the byte layouts of FORMATS.md.
 *
 * The readers define what the bytes mean (w = scale * code, F32 arithmetic in the
 * order of the ggml reference, so that values agree bit for bit with gguf-py). The
 * writers are container writers: rounding without any importance, byte-exact with the
 * ggml reference encoders, lossless on values that the type can hold. Fitted rounding
 * lives in compress/.
 *
 * Groups at the ends of FP16's range are defined. A scale that underflows (below 2^-25)
 * is stored as 0 and its group decodes to exact zeros. A scale above 65504 is stored as
 * 65504, so that the group stays finite but is wrong: whoever must not lose it compares
 * before and after, or asks quant_scale_fits() first. (ggml stores infinity there, the
 * one case where bytes differ.)
 */
#ifndef TENSOR_QUANT_H
#define TENSOR_QUANT_H

#include "tensor/dtype.h"

/* Decodes n weights (a multiple of the block; plain types any n). All types of dtype.h;
 * those with DTF_APART give their codes, to be multiplied with tensor_scale(). src needs
 * no alignment. */
void quant_decode_row(enum dtype t, float *dst, const void *src, int64_t n);

/* Decodes one stored row of t, all ne[0] values, with its scale. */
struct tensor;
void quant_decode_tensor_row(const struct tensor *t, float *dst, const void *src);

/* Encodes n weights. Types with DTF_WRITE only (a program error else). Values must be
 * finite; check with quant_check_row first. */
void quant_encode_row(enum dtype t, void *dst, const float *src, int64_t n);

/* Finds the first NaN or infinity. B2_EFORMAT with the column; *col may be NULL. */
enum b2_status quant_check_row(const float *src, int64_t n, int64_t *col,
                               struct b2_err *err) NODISCARD;

/* Whether every group of n finite weights has scales within FP16's range when encoded as
 * t (writable). *col (may be NULL) gets the first column of the first group that has not. */
bool quant_scale_fits(enum dtype t, const float *src, int64_t n, int64_t *col);

/* Ternary blocks: codes and scales apart. t has DTF_TERNARY, or is Q1_0.
 *   codes  [n] int8: -1, 0, +1 (2-bit types may decode +2; Q1_0 has no 0)
 *   scales [n / block] F32, exact values of the stored FP16; 1 for types with DTF_APART */
void quant_ternary_split(enum dtype t, int8_t *codes, float *scales, const void *src,
                         int64_t n);
/* The reverse; scales are rounded to FP16. codes in -1..+1 (2-bit types: also +2; Q1_0
 * takes 0 as -1; in types with DTF_QUADS what is no word loses its last code). */
void quant_ternary_join(enum dtype t, void *dst, const int8_t *codes,
                        const float *scales, int64_t n);

/* What a scale d >= 0 becomes in a block of ternary type t (or Q1_0); infinity: it is
 * beyond the type. */
float quant_ternary_scale(enum dtype t, float d);

/* One block of B2_Q2 or B2_Q3 from odd codes [64], -3 to 3 or -7 to 7, and a scale that a
 * byte can say. */
void quant_odd_join(enum dtype t, uint8_t *dst, const int8_t *code, float d);

/* Looks for what no encoder writes: code 3 in 2-bit types, byte values that base-3
 * never yields, NaN or infinite scales (plain floats: values). Returns the index of the first such block of the
 * row, -1 if none; *what (may be NULL) gets a static description. Any type. */
int64_t quant_verify_row(enum dtype t, const void *src, int64_t n, const char **what);

#endif

/*
 * quad.h - four ternary codes in six bits: the words of B2_C128 and B2_C64.
 *
 * A word is four neighbouring codes of which at most three are not 0; its value is the sum
 * of code k times 4^k. 65 words are such, 64 have an index. The 32 of positive value stand
 * from the largest (84: 0 + + +) to the smallest (1: + 0 0 0); number c of them has the
 * index c, its opposite the index 32 + c. The zero word takes index 0, so that 0 + + +
 * alone has none. (A scale of 0 would not do: one word in seventeen is zero.)
 *
 * n words in a block, n a multiple of 4: n / 2 bytes, of which byte j has the low four bits
 * of words j and n / 2 + j; then n / 4 bytes, of which byte j has the high two bits of
 * words j, n / 4 + j, n / 2 + j and 3 n / 4 + j, from the low bits up. Every byte is one
 * that an encoder may write.
 */
#ifndef TENSOR_QUAD_H
#define TENSOR_QUAD_H

#include "base/util.h"

enum { QUAD = 4, QUAD_WORDS = 64, QUAD_MAX = 32 /* words of a block */ };

/* Values of the words by index: what a kernel looks up; the four codes less one are the
 * 2-bit fields of value + 85. */
extern const int8_t quad_value[QUAD_WORDS];

/* The index of a word, or -1 for codes (-1, 0, +1) that are none. */
int quad_index(const int8_t *code);

void quad_unpack(int8_t *code, const uint8_t *src, int n_words);
/* Codes that are no word lose their last one. */
void quad_pack(uint8_t *dst, const int8_t *code, int n_words);

/* Makes words of n codes (a multiple of QUAD): where there is none, the code of the
 * smallest |x| becomes 0, the last of equals, until there is one. */
void quad_drop_smallest(int8_t *code, const float *x, int n);

#endif

/*
 * hadamard.h - the block-Hadamard transform: what a rotation multiplies with.
 *
 * A block has 2^k · (4·3)^a · (4·5)^b · (4·7)^c values. Its matrix is the Kronecker product
 * of Sylvester's of order 2^k with Paley's of orders 12, 20 and 28, over sqrt(block): all
 * are symmetric here, so the transform is its own inverse. A power of two is the plain
 * Walsh-Hadamard transform of the vendor's contract (FORMATS.md §1.5).
 */
#ifndef TENSOR_HADAMARD_H
#define TENSOR_HADAMARD_H

#include <stdbool.h>
#include <stdint.h>

/* Whether there is a matrix of this order here, 1 included. */
bool hadamard_exists(int64_t block);

/* The power of two among the factors of a block that exists: 48 = 4 * 12, so 4. */
int64_t hadamard_pow2(int64_t block);

/* The largest block that divides n; n is positive. */
int64_t hadamard_largest(int64_t n);

/* In place, each block of x [n]: multiplied by 1 / sqrt(block) in F32, then butterflies of
 * distance 1, 2, 4, …, then hadamard_rest(). This defines the bits. */
void hadamard_apply(float *x, int64_t n, int64_t block);

/* The matrices of order 12, then 20, then 28, of neighbours hadamard_pow2(block) apart and
 * further: each sum adds its terms in order, one after the other. */
void hadamard_rest(float *x, int64_t n, int64_t block);

#endif

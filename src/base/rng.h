/*
 * rng.h - random numbers from a seed, the same on every machine.
 *
 * xoshiro256** seeded by splitmix64 (Blackman and Vigna, "Scrambled linear
 * pseudorandom number generators", 2018). Not for cryptography.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

struct rng rng_make(uint64_t seed);
uint64_t rng_u64(struct rng *r);
double rng_f64(struct rng *r);                 /* uniform in [0, 1), 53 bits */
uint64_t rng_below(struct rng *r, uint64_t n); /* uniform in [0, n), n > 0, unbiased */
double rng_normal(struct rng *r);              /* mean 0, variance 1 (Box-Muller) */

#endif

/*
 * rng.c - xoshiro256** and what is drawn from it.
 *
 * rng_normal() computes ln and cos itself, from +, -, *, / and sqrt, which IEEE 754
 * rounds the same everywhere; the C library's own differ in the last bit between
 * systems, and a seed must give the same numbers on all of them.
 */
#include "base/rng.h"

#include <math.h>

static uint64_t rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

/* The generator that the authors name for filling the state from one word. */
static uint64_t splitmix64(uint64_t *x)
{
    uint64_t z = *x += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

struct rng rng_make(uint64_t seed)
{
    struct rng r;

    for (int i = 0; i < 4; i++)
        r.s[i] = splitmix64(&seed);
    return r;
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

double rng_f64(struct rng *r)
{
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    /* Below 2^64 mod n every residue would have one draw more: those are drawn again. */
    uint64_t skip = (0 - n) % n, x;

    do
        x = rng_u64(r);
    while (x < skip);
    return x % n;
}

/* ln x for x in (0, 1]: x = 2^e * m with m in [1/sqrt 2, sqrt 2), and
 * ln m = 2 atanh z = 2 (z + z^3/3 + z^5/5 + ...) with z = (m-1)/(m+1), |z| < 0.172.
 * Eleven terms leave under 1e-18. */
static double ln(double x)
{
    int e;
    double m = frexp(x, &e);

    if (m < 0.70710678118654752) {
        m *= 2.0;
        e--;
    }
    double z = (m - 1.0) / (m + 1.0), z2 = z * z, sum = 0.0;
    for (int k = 21; k >= 1; k -= 2)
        sum = sum * z2 + 1.0 / k;
    return 2.0 * z * sum + e * 0.69314718055994531;
}

/* cos(2 pi u) for u in [0, 1): folded to an angle of at most pi / 2, then the Taylor
 * series; the first term left out, x^22 / 22!, is below 2e-17. */
static double cos_turn(double u)
{
    double sign = 1.0, sum = 1.0;

    if (u > 0.5)
        u = 1.0 - u;
    if (u > 0.25) {
        u = 0.5 - u;
        sign = -1.0;
    }
    double x = 6.2831853071795865 * u, x2 = x * x;
    for (int k = 20; k >= 2; k -= 2)
        sum = 1.0 - sum * x2 / (k * (k - 1));
    return sign * sum;
}

double rng_normal(struct rng *r)
{
    double u = 1.0 - rng_f64(r); /* (0, 1]: ln needs it above zero */
    double v = rng_f64(r);

    return sqrt(-2.0 * ln(u)) * cos_turn(v);
}

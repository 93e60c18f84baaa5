/*
 * util.h - the few macros and checked operations that every file may use.
 */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define NODISCARD __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define NODISCARD
#define PRINTF_LIKE(fmt, args)
#endif

#define countof(a) (sizeof(a) / sizeof((a)[0]))

/* *out = a * b; false (and *out unspecified) when the product leaves 64 bits. */
static inline bool mul_u64(uint64_t *out, uint64_t a, uint64_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* *out = a + b; false (and *out unspecified) when the sum leaves 64 bits. */
static inline bool add_u64(uint64_t *out, uint64_t a, uint64_t b)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Rounds n up to a multiple of align, a power of two. */
static inline uint64_t align_up_u64(uint64_t n, uint64_t align)
{
    return (n + align - 1) & ~(align - 1);
}

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif

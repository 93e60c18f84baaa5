/*
 * kt.h - harness for kernel tests: guarded buffers, fills, comparison of bits.
 *
 * A check takes a table of kernels and compares it with the scalar reference. The test
 * program runs every check at every CPU level of the machine; the self-test runs them on
 * tables with one broken kernel and expects complaints.
 */
#ifndef TESTS_KT_H
#define TESTS_KT_H

#include "base/rng.h"
#include "kernel/kernel.h"

#include <stddef.h>

enum { KT_MAX_BUFFERS = 32 };

enum kt_fill {
    KT_ZERO,
    KT_NORMAL,
    KT_LARGE,
    KT_TINY,
    KT_MIXED,
    KT_SPECIAL,
    KT_N_FILLS
};

struct kt {
    const char *level;     /* for messages */
    struct kernels k, ref; /* under test; scalar */
    struct rng rng;
    bool quiet; /* self-test: count, do not print */
    bool front; /* buffers begin after a guard page instead of ending before one */
    int n_failed;
    int n_buffers;
    uint8_t *buffer[KT_MAX_BUFFERS]; /* mapped at first use, kept */
};

struct kt_check {
    const char *name;
    void (*run)(struct kt *t);
};

/* All checks, ended by a NULL name. */
extern const struct kt_check kt_dot_checks[], kt_unpack_checks[], kt_float_checks[];

/* n_bytes that touch a guard page, not zeroed; kt_reset() takes all of them back. */
void *kt_guarded(struct kt *t, size_t n_bytes);
void kt_reset(struct kt *t);

/* Counts a failure and, for the first few, prints where and what. */
void kt_fail(struct kt *t, const char *check, const char *fmt, ...) PRINTF_LIKE(3, 4);

void kt_fill_floats(struct kt *t, float *x, int64_t n, enum kt_fill fill);
void kt_fill_bytes(struct kt *t, void *p, size_t n);

/* Index of the first float that differs in bits (two NaNs are the same), or -1. */
int64_t kt_diff(const float *a, const float *b, int64_t n);

/* Runs the checks of all three lists with buffers at both ends; returns failures. A
 * quiet harness stops at the first check that fails. */
int kt_run_all(struct kt *t);

#endif

/*
 * check.h - checks of a kernel table against the scalar reference.
 *
 * Shared by `bonsai2 selftest`, which runs them on the user's machine, and by the kernel
 * tests, which run them between guard pages and on deliberately broken tables. A check
 * feeds random and extreme inputs to kernels of k and to the same kernels of ref and
 * compares bits; some also compare the reference with a definition in double.
 */
#ifndef KERNEL_CHECK_H
#define KERNEL_CHECK_H

#include "base/error.h"
#include "base/rng.h"
#include "kernel/kernel.h"

#include <stddef.h>

enum {
    KCHECK_BUFFERS = 32,             /* buffers that one check may hold at a time */
    KCHECK_BUFFER_BYTES = 256 * 1024 /* the largest of them */
};

enum kcheck_fill {
    KC_ZERO,
    KC_NORMAL,
    KC_LARGE,
    KC_TINY,
    KC_MIXED,
    KC_SPECIAL,
    KC_N_FILLS
};

/* Zero, then set k, ref, rng and buffer[]; kcheck_level() does all of it. */
struct kcheck {
    struct kernels k, ref; /* under test; scalar */
    struct rng rng;
    uint8_t *buffer[KCHECK_BUFFERS]; /* KCHECK_BUFFER_BYTES each, owned by the caller */
    int n_buffers;                   /* in use */
    bool
        front; /* buffers begin at the start of the areas instead of ending at the end */
    bool stop;    /* kcheck_run() ends with the first check that fails */
    int n_checks; /* run so far, each end of the buffers counted once */
    int n_failed; /* comparisons that failed */
    /* Gets each failure; may be NULL. what is the kernel's name. */
    void (*report)(void *ctx, const char *what, const char *text);
    void *ctx;
};

struct kcheck_item {
    const char *name;
    void (*run)(struct kcheck *t);
};

/* All checks, ended by a NULL name. */
extern const struct kcheck_item kcheck_dot[], kcheck_unpack[], kcheck_float[],
    kcheck_attn[], kcheck_delta[], kcheck_sets[];

/* n_bytes that touch an end of their area, not zeroed; kcheck_reset() takes all of them
 * back. */
void *kcheck_buffer(struct kcheck *t, size_t n_bytes);
void kcheck_reset(struct kcheck *t);

/* Room for rows x n activations; their parts touch the ends of their areas. */
struct kq_act kcheck_act(struct kcheck *t, int64_t rows, int64_t n,
                         enum kq_order order);

/* Counts a failure and reports it. */
void kcheck_fail(struct kcheck *t, const char *what, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

void kcheck_floats(struct kcheck *t, float *x, int64_t n, enum kcheck_fill fill);
void kcheck_bytes(struct kcheck *t, void *p, size_t n);

/* Index of the first float that differs in bits (two NaNs are the same), or -1. */
int64_t kcheck_diff(const float *a, const float *b, int64_t n);

/* Runs the checks of all lists with buffers at both ends; returns n_failed. */
int kcheck_run(struct kcheck *t);

/* What kcheck_level() found. */
struct kcheck_result {
    int n_checks, n_failed;
    char what[48], text[256]; /* the first failure: kernel, and where; "" if none */
};

/* Runs all checks on the table for these features, in buffers of its own with margins
 * that no kernel may change. Each failure also goes to report (may be NULL). B2_ENOMEM;
 * a failed check is no error. Takes a second or so per level. */
enum b2_status kcheck_level(struct kcheck_result *out, unsigned cpu,
                            void (*report)(void *ctx, const char *what,
                                           const char *text),
                            void *ctx, struct b2_err *err) NODISCARD;

#endif

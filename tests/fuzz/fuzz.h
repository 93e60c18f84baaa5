/*
 * fuzz.h - what the fuzz targets share.
 *
 * A target is one file fuzz_NAME.c with LLVMFuzzerTestOneInput(), built twice: with
 * libFuzzer (CMakeLists.txt) to search, and with replay_main.c (replay.cmake) to go
 * through corpus/NAME in every test run.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of exactly size bytes, so that reading past the end trips the sanitizer.
 * Freed with free(); NULL: no memory, return 0 then. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);

    if (copy && size)
        memcpy(copy, data, size);
    return copy;
}

/* The same with a terminating zero. */
static inline char *fuzz_string(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);

    if (!copy)
        return NULL;
    if (size)
        memcpy(copy, data, size);
    copy[size] = '\0';
    return copy;
}

/* Reads every byte, so that memory that is promised but not there is noticed. */
static inline void fuzz_touch(const void *p, size_t n)
{
    const uint8_t *byte = p;
    uint8_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum ^= byte[i];
    __asm__ volatile("" : : "r"(sum)); /* the compiler may not drop the loop */
}

/* A failure that does not say why, or whose status does not match, is a bug too. */
static inline void fuzz_check_error(enum b2_status rc, const struct b2_err *err)
{
    if (rc == B2_OK || (rc == err->status && err->msg[0] != '\0'))
        return;
    fprintf(stderr, "status %d, error %d \"%s\"\n", rc, err->status, err->msg);
    abort();
}

/* Stops on a broken promise of the code under test. */
static inline void fuzz_require(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

#endif

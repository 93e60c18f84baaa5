/*
 * kt.c - guard pages around the buffers of kernel checks, and failures in words.
 */
#define _DEFAULT_SOURCE
#include "kernels/kt.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_MESSAGES = 10 };

static void print_failure(void *ctx, const char *what, const char *text)
{
    static int n_printed;

    if (n_printed++ < MAX_MESSAGES)
        fprintf(stderr, "%s at level %s: %s\n", what, (const char *)ctx, text);
}

static uint8_t *guarded(size_t page)
{
    uint8_t *p = mmap(NULL, KCHECK_BUFFER_BYTES + 2 * page, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED ||
        mprotect(p + page, KCHECK_BUFFER_BYTES, PROT_READ | PROT_WRITE)) {
        fputs("kernel harness: no memory\n", stderr);
        abort();
    }
    return p + page;
}

struct kcheck kt_make(unsigned cpu, bool quiet)
{
    struct kcheck t = {.rng = rng_make(1), .stop = quiet};

    kernels_init(&t.k, cpu);
    kernels_init(&t.ref, 0);
    for (int i = 0; i < KCHECK_BUFFERS; i++)
        t.buffer[i] = guarded((size_t)sysconf(_SC_PAGESIZE));
    if (!quiet) {
        t.report = print_failure;
        t.ctx = (void *)(uintptr_t)t.k.name;
    }
    return t;
}

void kt_free(struct kcheck *t)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (int i = 0; i < KCHECK_BUFFERS; i++)
        munmap(t->buffer[i] - page, KCHECK_BUFFER_BYTES + 2 * page);
}

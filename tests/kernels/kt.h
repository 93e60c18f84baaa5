/*
 * kt.h - the checks of kernel/check.h between guard pages.
 */
#ifndef TESTS_KT_H
#define TESTS_KT_H

#include "kernel/check.h"

/* A harness of two tables, for features cpu and scalar, whose buffers lie between pages
 * that may not be touched. Failures are printed with the level, the first few of them,
 * unless quiet. Aborts when the system gives no memory. */
struct kcheck kt_make(unsigned cpu, bool quiet);
void kt_free(struct kcheck *t);

#endif

/*
 * clock.c - the system's clocks in seconds.
 */
#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"

#include <time.h>

double clock_s(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_MONOTONIC, &t))
        return 0.0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

long long clock_unix_s(void)
{
    return (long long)time(NULL);
}

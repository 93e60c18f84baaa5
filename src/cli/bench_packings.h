/*
 * bench_packings.h - bonsai2 bench --compare-packings.
 */
#ifndef CLI_BENCH_PACKINGS_H
#define CLI_BENCH_PACKINGS_H

#include "cli/cli.h"

struct bench_packings {
    const struct cli_common *common;
    const struct log *log;
    const char *model_path, *processor;
    const int64_t *threads; /* [n_threads] */
    int n_threads, runs;
    unsigned cpu;
};

/* Measures every ternary type with each number of threads, prints a table or JSON and
 * returns the exit code. */
int bench_packings(const struct bench_packings *b);

#endif

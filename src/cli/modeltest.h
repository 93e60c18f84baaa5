/*
 * modeltest.h - checks of one model file: its bytes, its tokens, its arithmetic.
 */
#ifndef CLI_MODELTEST_H
#define CLI_MODELTEST_H

#include "cli/cli.h"

enum modeltest_state { MODELTEST_OK, MODELTEST_FAILED, MODELTEST_SKIPPED };

struct modeltest_check {
    const char *name; /* static: "requantise" */
    enum modeltest_state state;
    char detail[200]; /* what was compared, or what is wrong */
};

enum { MODELTEST_MAX = 8 };

struct modeltest {
    struct modeltest_check check[MODELTEST_MAX];
    int n, n_failed;
    char fingerprint[65];
};

/* Runs all checks on the model at path. Those that do not apply to it are skipped with
 * the reason. Errors are of opening the model, of memory, and B2_ECANCEL; a failed check
 * is none. */
enum b2_status modeltest_run(struct modeltest *t, const char *path,
                             const struct cli_common *common,
                             struct b2_err *err) NODISCARD;

#endif

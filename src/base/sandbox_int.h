/*
 * sandbox_int.h - the part of the sandbox that runs inside; for sandbox*.c only.
 */
#ifndef BASE_SANDBOX_INT_H
#define BASE_SANDBOX_INT_H

#include "base/util.h"

/* Inner steps, in order; the one that failed is told through the pipe. */
enum sandbox_step {
    STEP_NONE,
    STEP_USER,
    STEP_MOUNT,
    STEP_ROOT,
    STEP_FORK,
    STEP_LIMITS,
    STEP_FILTER,
    STEP_EXEC,
};

/* Installs the filter for this process. False: errno says why. */
bool sandbox_filter(void);

#endif

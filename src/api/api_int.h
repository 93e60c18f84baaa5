/*
 * api_int.h - what the opaque structs of the public API hold.
 */
#ifndef API_API_INT_H
#define API_API_INT_H

#include "base/log.h"
#include "bonsai2.h"
#include "model/model.h"

struct b2_model {
    struct model *model;
    struct log log; /* sink NULL: silent */
    void (*log_fn)(void *ctx, enum b2_log_level level, const char *line);
    void *log_ctx;
};

#endif

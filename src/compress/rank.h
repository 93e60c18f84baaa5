/*
 * rank.h - numbers in falling order, equal ones in the order in which they stand.
 */
#ifndef COMPRESS_RANK_H
#define COMPRESS_RANK_H

#include "base/util.h"

struct ranked {
    double key;
    int32_t at;
};

void rank_falling(struct ranked *r, int64_t n);

#endif

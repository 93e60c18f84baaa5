/*
 * rank.c - sorting with places.
 */
#include "compress/rank.h"

#include <stdlib.h>

static int by_falling_key(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;

    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

void rank_falling(struct ranked *r, int64_t n)
{
    qsort(r, (size_t)n, sizeof *r, by_falling_key);
}

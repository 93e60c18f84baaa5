/*
 * heads.c - tiled to grouped, in place.
 */
#include "compress/heads.h"

#include <stdio.h>
#include <string.h>

enum { MAX_HEADS = 4096 };

struct heads heads_read(const struct meta *m)
{
    const char *arch = NULL;
    char key[128];
    uint64_t k = 0, v = 0;

    if (meta_get_str(m, "general.architecture", &arch, NULL))
        return (struct heads){0};
    (void)snprintf(key, sizeof key, "%.60s.ssm.group_count", arch);
    if (meta_get_u64(m, key, &k, NULL))
        return (struct heads){0};
    (void)snprintf(key, sizeof key, "%.60s.ssm.time_step_rank", arch);
    if (meta_get_u64(m, key, &v, NULL))
        return (struct heads){0};
    if (k < 2 || v <= k || v > MAX_HEADS || v % k != 0)
        return (struct heads){0};
    return (struct heads){(int64_t)k, (int64_t)v};
}

static void swap(float *a, float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float keep = a[i];
        a[i] = b[i];
        b[i] = keep;
    }
}

/* Place p wants the head that began at s(p) = p % reps * k + p / reps. Going up, that head
 * has been swapped away if s(p) < p: then it is where s(p) was sent, and so on. */
void heads_group(const struct heads *h, float *row, int64_t width)
{
    if (h->k < 1 || h->v < h->k)
        return;
    const int64_t reps = h->v / h->k, dim = width / h->v;
    for (int64_t p = 0; p < h->v; p++) {
        int64_t from = p % reps * h->k + p / reps;
        while (from < p)
            from = from % reps * h->k + from / reps;
        if (from != p)
            swap(row + p * dim, row + from * dim, dim);
    }
}

/*
 * slab.c - columns out of a matrix and back.
 */
#include "compress/slab.h"

#include "base/mem.h"

#include <string.h>

int64_t slabs_unit(int64_t unit, int64_t n)
{
    int64_t a = unit, b = n;

    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return unit / a * n;
}

struct slabs slabs_cut(int64_t d, int64_t unit, int64_t limit)
{
    struct slabs s = {.n = 1, .d = d};
    int64_t units = d / unit;

    if (limit > 0 && d > limit) {
        int64_t per = max_i64(1, limit / unit); /* units of the widest slab */
        s.n = (int)min_i64((units + per - 1) / per, SLAB_MAX);
    }
    for (int i = 0; i <= s.n; i++)
        s.from[i] = units * i / s.n * unit;
    return s;
}

struct rotate *slab_rotate(const struct rotate *r, const struct slabs *s, int i)
{
    return r ? rotate_slice(r, s->d, s->from[i], slab_width(s, i)) : NULL;
}

/* The slab's bytes of every row to their place, or values. */
static void put_columns(void *dst, const void *src, int64_t rows, int64_t dst_row,
                        int64_t at, int64_t src_row)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy((uint8_t *)dst + r * dst_row + at, (const uint8_t *)src + r * src_row,
               (size_t)src_row);
}

static enum b2_status compensate_slab(struct compensate_out *part,
                                      const struct slab_job *j, const float *w,
                                      struct b2_err *err)
{
    const struct slabs *s = j->slabs;
    struct compensate_how how = *j->how;

    /* The slab's part of the row's zeros: parts add up. */
    how.zeros =
        j->how->zeros * s->from[j->i + 1] / s->d - j->how->zeros * s->from[j->i] / s->d;
    return compensate_rows(part, j->codes, w, j->rows, j->m, j->target, j->rotate, &how,
                           j->b, j->pool, err);
}

/* Several slabs: through copies of the columns. */
static enum b2_status through_copies(struct compensate_out *out,
                                     struct compensate_out *part,
                                     const struct slab_job *j, struct b2_err *err)
{
    const struct slabs *s = j->slabs;
    const struct dtype_info *info = dtype_info(j->codes->type);
    int64_t n = slab_width(s, j->i), from = s->from[j->i], rows = j->rows;
    int64_t bytes = n / info->block * info->bytes;
    float *w = mem_calloc((size_t)(rows * n), sizeof *w);
    enum b2_status rc = B2_ENOMEM;

    part->bytes = mem_calloc((size_t)rows, (size_t)bytes);
    part->values = out->values ? mem_calloc((size_t)(rows * n), sizeof *w) : NULL;
    bool have = w && part->bytes && (!out->values || part->values);
    if (!have)
        (void)err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t r = 0; have && r < rows; r++)
        memcpy(w + r * n, j->w + r * s->d + from, (size_t)n * sizeof *w);
    if (have)
        rc = compensate_slab(part, j, w, err);
    if (!rc)
        put_columns(out->bytes, part->bytes, rows, s->d / info->block * info->bytes,
                    from / info->block * info->bytes, bytes);
    if (!rc && out->values && part->values)
        put_columns(out->values, part->values, rows, s->d * (int64_t)sizeof *w,
                    from * (int64_t)sizeof *w, n * (int64_t)sizeof *w);
    mem_free(w);
    mem_free(part->bytes);
    mem_free(part->values);
    return rc;
}

enum b2_status slab_compensate(struct compensate_out *out, const struct slab_job *j,
                               struct b2_err *err)
{
    struct compensate_out part = {.bytes = out->bytes, .values = out->values};
    enum b2_status rc = j->slabs->n == 1 ? compensate_slab(&part, j, j->w, err)
                                         : through_copies(out, &part, j, err);

    if (rc)
        return rc;
    fit_stat_add(&out->stat, &part.stat);
    out->loss += part.loss;
    out->energy += part.energy;
    out->uncorrected += part.uncorrected;
    return B2_OK;
}

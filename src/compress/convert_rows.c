/*
 * convert_rows.c - one row at a time: carry, or decode, encode and compare.
 */
#include "compress/convert_rows.h"

#include "tensor/hadamard.h"
#include "tensor/quant.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct convert_rows {
    enum dtype from, to;
    int64_t n_src, n; /* values of a row of the source, and of them in the output */
    uint64_t src_bytes, dst_bytes;
    float scale, add; /* of all values of the source */
    bool log_of_minus;
    const struct heads *group;
    const struct rotation *unfold;
    bool carry;                 /* ternary to ternary with groups that nest */
    float *x, *y;               /* [n_src], [n] values before and after */
    int8_t *codes;              /* [n_src], carry only */
    float *scales, *dst_scales; /* one per group */
};

/* Whether scales and codes of f are scales and codes of t: private types have scales of
 * their own, and some of them do not have all codes. */
static bool carries(const struct dtype_info *f, const struct dtype_info *t)
{
    return (f->flags & DTF_PRIVATE) == (t->flags & DTF_PRIVATE) &&
           (f->flags & DTF_QUADS || !(t->flags & DTF_QUADS));
}

enum b2_status convert_rows_new(struct convert_rows **out,
                                const struct convert_rows_shape *shape, struct arena *a,
                                struct b2_err *err)
{
    enum dtype from = shape->from, to = shape->to;
    const struct dtype_info *f = dtype_info(from), *t = dtype_info(to);
    int64_t n_src = shape->n_src, n = shape->n_dst;
    struct convert_rows *c = arena_calloc(a, 1, sizeof *c);
    enum b2_status rc;

    if (!c)
        return err_set(err, B2_ENOMEM, "out of memory");
    *c = (struct convert_rows){.from = from,
                               .to = to,
                               .n_src = n_src,
                               .n = n,
                               .scale = f->flags & DTF_APART ? shape->scale : 1.0f,
                               .add = shape->add,
                               .log_of_minus = shape->log_of_minus,
                               .group = shape->group,
                               .unfold = shape->unfold};
    rc = dtype_row_bytes(&c->src_bytes, from, (uint64_t)n_src, err);
    if (!rc)
        rc = dtype_row_bytes(&c->dst_bytes, to, (uint64_t)n, err);
    if (rc)
        return rc;
    c->carry = f->flags & t->flags & DTF_TERNARY && f->block % t->block == 0 &&
               !(f->flags & DTF_APART) && !shape->unfold && carries(f, t);
    c->x = arena_calloc(a, (size_t)n_src, sizeof *c->x);
    c->y = arena_calloc(a, (size_t)n, sizeof *c->y);
    if (!c->x || !c->y)
        return err_set(err, B2_ENOMEM, "out of memory for rows of %" PRId64, n);
    if (c->carry) {
        c->codes = arena_calloc(a, (size_t)n_src, sizeof *c->codes);
        c->scales = arena_calloc(a, (size_t)(n_src / f->block), sizeof *c->scales);
        c->dst_scales = arena_calloc(a, (size_t)(n / t->block), sizeof *c->dst_scales);
        if (!c->codes || !c->scales || !c->dst_scales)
            return err_set(err, B2_ENOMEM, "out of memory for rows of %" PRId64, n);
    }
    *out = c;
    return B2_OK;
}

uint64_t convert_rows_src_bytes(const struct convert_rows *c)
{
    return c->src_bytes;
}

uint64_t convert_rows_dst_bytes(const struct convert_rows *c)
{
    return c->dst_bytes;
}

/* Same codes, each scale for all smaller groups of its group: exact. */
static void carry_row(struct convert_rows *c, uint8_t *dst, const uint8_t *src)
{
    int from = dtype_info(c->from)->block, to = dtype_info(c->to)->block;

    quant_ternary_split(c->from, c->codes, c->scales, src, c->n_src);
    for (int64_t g = 0; g < c->n / to; g++)
        c->dst_scales[g] = c->scales[g * to / from];
    quant_ternary_join(c->to, dst, c->codes, c->dst_scales, c->n);
}

/* Heads of a row from the order of the fold (g * reps + r) to the activation's. */
static void restore_heads(const struct rotation *rot, float *x, float *copy)
{
    int64_t groups = rot->width / rot->head / rot->reps;

    memcpy(copy, x, (size_t)rot->width * sizeof *x);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t r = 0; r < rot->reps; r++)
            memcpy(x + (r * groups + g) * rot->head,
                   copy + (g * rot->reps + r) * rot->head,
                   (size_t)rot->head * sizeof *x);
}

/* x := (x H) diag(s), block by block, then the order of heads. copy: as long as x. */
static void unfold_row(const struct rotation *rot, float *x, float *copy)
{
    hadamard_apply(x, rot->width, rot->block);
    for (int64_t i = 0; rot->signs && i < rot->width; i++)
        x[i] *= rot->signs[i];
    if (rot->head)
        restore_heads(rot, x, copy);
}

/* What the target type asks of values: finite ones, and scales that FP16 can hold. */
static enum b2_status check_values(const struct convert_rows *c, struct b2_err *err)
{
    enum b2_status rc;
    int64_t col = 0;

    if (dtype_info(c->to)->block == 1)
        return B2_OK; /* plain numbers hold NaN and infinity */
    rc = quant_check_row(c->x, c->n, &col, err);
    if (!rc && !quant_scale_fits(c->to, c->x, c->n, &col))
        rc = err_set(err, B2_EUNSUP,
                     "column %" PRId64 ": %s's scale of its group would pass FP16's "
                     "largest value, 65504",
                     col, dtype_info(c->to)->name);
    return rc;
}

static void compare(const struct convert_rows *c, struct convert_error *e)
{
    e->n_values += (double)c->n;
    for (int64_t i = 0; i < c->n; i++) {
        if (c->x[i] == c->y[i] || (isnan(c->x[i]) && isnan(c->y[i])))
            continue;
        double diff = fabs((double)c->x[i] - (double)c->y[i]);
        e->max = diff > e->max ? diff : e->max;
        e->sum_sq += diff * diff;
    }
}

enum b2_status convert_rows_row(struct convert_rows *c, uint8_t *dst,
                                const uint8_t *src, struct convert_error *e,
                                struct b2_err *err)
{
    const char *what;
    enum b2_status rc;

    if (c->from == c->to && c->n_src == c->n && !c->unfold && c->add == 0.0f &&
        !c->log_of_minus && !c->group) {
        memcpy(dst, src, (size_t)c->src_bytes);
        e->n_values += (double)c->n;
        return B2_OK;
    }
    if (dtype_info(c->from)->flags & dtype_info(c->to)->flags & DTF_TERNARY) {
        int64_t block = quant_verify_row(c->from, src, c->n_src, &what);
        if (block >= 0)
            return err_set(err, B2_EFORMAT, "block %" PRId64 " holds %s", block, what);
    }
    if (c->carry) {
        carry_row(c, dst, src);
        e->n_values += (double)c->n;
        return B2_OK;
    }
    quant_decode_row(c->from, c->x, src, c->n_src);
    for (int64_t i = 0; c->scale != 1.0f && i < c->n_src; i++)
        c->x[i] *= c->scale;
    for (int64_t i = 0; c->add != 0.0f && i < c->n_src; i++)
        c->x[i] += c->add;
    for (int64_t i = 0; c->log_of_minus && i < c->n_src; i++)
        c->x[i] = (float)log(-(double)c->x[i]);
    if (c->unfold)
        unfold_row(c->unfold, c->x, c->y);
    if (c->group)
        heads_group(c->group, c->x, c->n);
    rc = check_values(c, err);
    if (rc)
        return rc;
    quant_encode_row(c->to, dst, c->x, c->n);
    quant_decode_row(c->to, c->y, dst, c->n);
    compare(c, e);
    return B2_OK;
}

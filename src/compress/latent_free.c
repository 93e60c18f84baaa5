/*
 * latent_free.c - plain weights in 8 bits or more.
 */
#include "compress/latent_int.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

enum { PIECE = 256 }; /* weights at a time; whole blocks of every type */

static const float largest_f16 = 65504.0f;

enum b2_status latent_free_check(struct latent *l, const struct weight *w,
                                 const struct latent_how *how, struct b2_err *err)
{
    const struct dtype_info *info = dtype_info(how->type);

    if (how->type != DT_Q8_0 && how->type != DT_F16 && how->type != DT_BF16 &&
        how->type != DT_F32)
        return err_set(err, B2_EARG,
                       "%s: free weights are Q8_0, F16, BF16 or F32, not %s", w->name,
                       info->name);
    if (l->stored % info->block != 0)
        return err_set(err, B2_EUNSUP,
                       "%s: rows of %lld have no whole blocks of %d for %s: take F16",
                       w->name, (long long)l->stored, info->block, info->name);
    l->type = how->type;
    l->groups = 0;
    return B2_OK;
}

/* The unit is the mean size of the weights. */
bool latent_free_start(struct latent *l, const struct latent_how *how)
{
    const float *t = how->teacher;
    double sum = 0;

    for (int64_t i = 0; i < l->rows * l->cols; i++)
        sum += fabs((double)t[i]);
    if (!isfinite(sum))
        return false;
    l->a0[0] = sum > 0 ? (float)(sum / (double)(l->rows * l->cols)) : 1.0f;
    for (int64_t r = 0; r < l->rows; r++) {
        float *u = l->u + r * l->stored;
        memcpy(u, t + r * l->cols, (size_t)l->cols * sizeof *u);
        latent_fold(l->rot, u);
        for (int64_t i = 0; i < l->cols; i++)
            u[i] /= l->a0[0];
    }
    return true;
}

/* Weights [from, from + n) of row r in their type; what leaves the range of 16 bits stays
 * at its end. */
static void encode(const struct latent *l, int64_t r, int64_t from, int64_t n,
                   uint8_t *dst)
{
    const float *u = l->u + r * l->stored + from;
    float w[PIECE];

    for (int64_t i = 0; i < n; i++) {
        const float x = u[i] * l->a0[0];
        w[i] = x > largest_f16 ? largest_f16 : x < -largest_f16 ? -largest_f16 : x;
    }
    quant_encode_row(l->type, dst, w, n);
}

void latent_free_weights(void *job, int64_t begin, int64_t end, int thread)
{
    const struct latent_job *j = job;
    const struct latent *l = j->cl;
    uint8_t bytes[PIECE * sizeof(float)];
    float w[PIECE];

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        float *row = j->w + r * l->cols;
        for (int64_t at = 0; at < l->cols; at += PIECE) {
            const int64_t n = min_i64(PIECE, l->stored - at);
            encode(l, r, at, n, bytes);
            quant_decode_row(l->type, w, bytes, n);
            memcpy(row + at, w, (size_t)min_i64(n, l->cols - at) * sizeof *w);
        }
        latent_unfold(l->rot, row);
    }
}

void latent_free_collect(void *job, int64_t begin, int64_t end, int thread)
{
    const struct latent_job *j = job;
    const struct latent *l = j->cl;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        float *dw = j->w + r * l->cols, *g = l->gu + r * l->stored;
        latent_fold(l->rot, dw);
        for (int64_t i = 0; i < l->cols; i++)
            g[i] += dw[i] * l->a0[0];
    }
}

void latent_free_pack(void *job, int64_t begin, int64_t end, int thread)
{
    const struct latent_job *j = job;
    const struct latent *l = j->cl;
    const struct dtype_info *info = dtype_info(l->type);

    (void)thread;
    for (int64_t r = begin; r < end; r++)
        for (int64_t at = 0; at < l->stored; at += PIECE)
            encode(l, r, at, min_i64(PIECE, l->stored - at),
                   j->bytes + (uint64_t)r * j->row_bytes +
                       (uint64_t)(at / info->block * info->bytes));
}

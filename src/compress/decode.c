/*
 * decode.c - rows of weights as F32.
 */
#include "compress/decode.h"
#include "format/modelfile.h"
#include "tensor/quant.h"

enum { CHUNK_ROWS = 16 };

struct decoding {
    const struct weight *w;
    float *dst;
    int64_t first;
};

static void decode_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct decoding *d = ctx;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        int64_t at = d->first + r;
        const struct weight *w = weight_of_row(d->w, &at);
        float *row = d->dst + r * w->cols;
        quant_decode_row(w->type, row, w->data + (uint64_t)at * w->row_bytes, w->cols);
        for (int64_t i = 0; (dtype_info(w->type)->flags & DTF_APART) && i < w->cols;
             i++)
            row[i] *= w->scale;
    }
}

void decode_weight(struct pool *pool, const struct model *m, float *dst,
                   const struct weight *w, int64_t first, int64_t n)
{
    struct decoding d = {w, dst, first};

    pool_run(pool, decode_rows, &d, n, CHUNK_ROWS);
    if (w->tiers)
        decode_drop(m, w);
    else
        modelfile_drop(m->mf, w->data + (uint64_t)first * w->row_bytes,
                       (uint64_t)n * w->row_bytes);
}

void decode_drop(const struct model *m, const struct weight *w)
{
    if (w->tiers) {
        decode_drop(m, &w->tiers->hot);
        decode_drop(m, &w->tiers->rare);
    } else {
        modelfile_drop(m->mf, w->data, weight_bytes(w));
    }
}

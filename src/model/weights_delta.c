/*
 * weights_delta.c - binds the tensors of a gated delta net layer.
 */
#include "model/weights_int.h"
#include "tensor/quant.h"

#include <stdio.h>

/* ssm_conv1d has the taps of one channel in a row; products over channels want the
 * channels of one tap in a row: a copy of it in F32. */
static enum b2_status take_conv(struct weights_binder *b, const float **out,
                                const char *name, struct b2_err *err)
{
    const int64_t taps = b->m->hp.conv_taps, n = hparams_conv_channels(&b->m->hp);
    enum b2_status rc;
    const struct tensor *t = weights_tensor(b, name, taps, n, &rc, err);
    float row[CONV_MAX_TAPS];

    if (!t)
        return rc;
    /* Read here, so it must be there also when weights are only checked. */
    rc = modelfile_load(b->m->mf, modelfile_find(b->m->mf, name), err);
    if (rc)
        return rc;
    if (!(dtype_info(t->type)->flags & DTF_FLOAT) || dtype_info(t->type)->block != 1)
        return err_set(err, B2_EUNSUP, "tensor %s: expected F32, F16 or BF16, found %s",
                       name, dtype_info(t->type)->name);
    float *copy = arena_calloc(b->m->arena, (size_t)(taps * n), sizeof *copy);
    if (!copy)
        return err_set(err, B2_ENOMEM, "tensor %s: out of memory", name);
    for (int64_t c = 0; c < n; c++) {
        quant_decode_row(t->type, row,
                         t->data + (uint64_t)(c * taps) *
                                       (uint64_t)dtype_info(t->type)->bytes,
                         taps);
        rc = quant_check_row(row, taps, NULL, err);
        if (rc) {
            err_wrap(err, "tensor %s: channel %lld", name, (long long)c);
            return rc;
        }
        for (int64_t i = 0; i < taps; i++)
            copy[i * n + c] = row[i];
    }
    b->m->weights_bytes += (uint64_t)(taps * n) * sizeof *copy;
    b->m->copy_bytes += (uint64_t)(taps * n) * sizeof *copy;
    *out = copy;
    return B2_OK;
}

enum b2_status weights_take_delta(struct weights_binder *b, int64_t layer,
                                  struct b2_err *err)
{
    const struct hparams *hp = &b->m->hp;
    struct delta_weights *w = arena_calloc(b->m->arena, 1, sizeof *w);
    const int64_t values = hp->v_heads * hp->v_dim;
    char name[WEIGHTS_NAME_MAX];
    enum b2_status rc = B2_OK;

    if (!w)
        return err_set(err, B2_ENOMEM, "out of memory for the tensor table");
    const struct {
        const char *kind;
        struct weight *w;
        int64_t cols, rows;
    } matrices[] = {
        {"attn_qkv.weight", &w->qkv, hp->d, hparams_conv_channels(hp)},
        {"attn_gate.weight", &w->z, hp->d, values},
        {"ssm_alpha.weight", &w->alpha, hp->d, hp->v_heads},
        {"ssm_beta.weight", &w->beta, hp->d, hp->v_heads},
        {"ssm_out.weight", &w->out, values, hp->d},
    };
    const struct {
        const char *kind;
        const float **v;
        int64_t n;
    } vectors[] = {
        {"ssm_a", &w->rate, hp->v_heads},
        {"ssm_dt.bias", &w->bias, hp->v_heads},
        {"ssm_norm.weight", &w->norm, hp->v_dim},
    };
    for (size_t i = 0; i < countof(matrices) && rc == B2_OK; i++) {
        (void)snprintf(name, sizeof name, "blk.%lld.%s", (long long)layer,
                       matrices[i].kind);
        rc = weights_matrix(b, matrices[i].w, name, matrices[i].cols, matrices[i].rows,
                            err);
    }
    for (size_t i = 0; i < countof(vectors) && rc == B2_OK; i++) {
        (void)snprintf(name, sizeof name, "blk.%lld.%s", (long long)layer,
                       vectors[i].kind);
        rc = weights_vector(b, vectors[i].v, name, vectors[i].n, err);
    }
    if (rc == B2_OK) {
        (void)snprintf(name, sizeof name, "blk.%lld.ssm_conv1d.weight",
                       (long long)layer);
        rc = take_conv(b, &w->conv, name, err);
    }
    b->m->layers[layer].delta = w;
    return rc;
}

/*
 * netmodel_rows.c - a model's tensors by number, and their rows in F32.
 */
#include "compress/latent_int.h"
#include "compress/netmodel_int.h"

#include "base/pool.h"
#include "tensor/quant.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 16, MAX_BLOCK = 256 /* weights of any type's block */ };

static const char *const linear_names[] = {
    "attn_q",   "attn_k",   "attn_v",    "attn_output", "ffn_gate", "ffn_up",
    "ffn_down", "attn_qkv", "attn_gate", "ssm_alpha",   "ssm_beta", "ssm_out"};
static const char *const norm_names[] = {
    "attn_norm", "attn_q_norm",   "attn_k_norm", "post_attention_norm",
    "ffn_norm",  "post_ffw_norm", "ssm_norm"};

const char *netmodel_linear_name(char *buf, int64_t layer, int which)
{
    snprintf(buf, 64, "blk.%lld.%s.weight", (long long)layer, linear_names[which]);
    return buf;
}

const char *netmodel_norm_name(char *buf, const struct model *m, int64_t layer,
                               int which)
{
    const char *ffn = m->hp.arch->ffn_norm; /* the whole of it */

    if (which == NORM_FFN && ffn)
        snprintf(buf, 64, "blk.%lld.%s", (long long)layer, ffn);
    else
        snprintf(buf, 64, "blk.%lld.%s.weight", (long long)layer, norm_names[which]);
    return buf;
}

const struct weight *netmodel_weight(const struct model *m, int64_t layer, int which)
{
    static const struct weight none = {0};
    const struct layer_weights *l = &m->layers[layer];
    const struct delta_weights *d = l->delta;
    const struct weight *const attn[] = {&l->q, &l->k, &l->v, &l->o};
    const struct weight *const ffn[] = {&l->gate, &l->up, &l->down};

    if (which >= LIN_GATE && which <= LIN_DOWN)
        return ffn[which - LIN_GATE];
    if (which < LIN_GATE)
        return d ? &none : attn[which];
    if (!d)
        return &none;
    const struct weight *const delta[] = {&d->qkv, &d->z, &d->alpha, &d->beta, &d->out};
    return delta[which - LIN_QKV];
}

const float *netmodel_bias(const struct model *m, int64_t layer, int which)
{
    const struct layer_weights *l = &m->layers[layer];
    const float *const all[N_LINEARS] = {l->q_bias, l->k_bias, l->v_bias};

    return all[which];
}

const float *netmodel_norm(const struct model *m, int64_t layer, int which)
{
    const struct layer_weights *l = &m->layers[layer];
    const float *const all[] = {l->attn_norm,
                                l->q_norm,
                                l->k_norm,
                                l->attn_post_norm,
                                l->ffn_norm,
                                l->ffn_post_norm,
                                l->delta ? l->delta->norm : NULL};

    return all[which];
}

int64_t netmodel_norm_len(const struct hparams *hp, int which)
{
    if (which == NORM_DELTA)
        return hp->v_dim;
    return which == NORM_Q || which == NORM_K ? hp->head_dim : hp->d;
}

int64_t netmodel_linear_values(const struct model *m)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < m->hp.n_layers; i++)
        for (int k = 0; k < N_LINEARS; k++)
            sum += netmodel_weight(m, i, k)->rows * netmodel_weight(m, i, k)->cols;
    return sum;
}

/* ---- decoding ---- */

/* Values of a stored row without its padding: whole blocks, then one that padding ends. */
static void stored_row(const struct weight *w, float *row, int64_t r)
{
    float last[MAX_BLOCK];
    const struct dtype_info *info = dtype_info(w->type);
    const int64_t whole = w->pad ? w->cols / info->block * info->block : w->cols;
    const uint8_t *src = w->data + (uint64_t)r * w->row_bytes;

    quant_decode_row(w->type, row, src, whole);
    if (whole < w->cols) {
        quant_decode_row(w->type, last,
                         src + (uint64_t)(whole / info->block) * (uint64_t)info->bytes,
                         info->block);
        memcpy(row + whole, last, (size_t)(w->cols - whole) * sizeof *row);
    }
    for (int64_t i = 0; (info->flags & DTF_APART) && i < w->cols; i++)
        row[i] *= w->scale;
}

void netmodel_rows(const struct weight *w, float *dst, int64_t begin, int64_t end)
{
    for (int64_t r = begin; r < end; r++) {
        float *row = dst + (r - begin) * w->cols;
        int64_t at = r;
        const struct weight *tier = weight_of_row(w, &at);
        stored_row(tier, row, at);
        latent_unfold(w->rot, row);
    }
}

struct decode {
    const struct weight *w;
    float *dst;
};

static void decode_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct decode *d = ctx;

    (void)thread;
    netmodel_rows(d->w, d->dst + begin * d->w->cols, begin, end);
}

void netmodel_decode(const struct weight *w, float *dst, struct pool *pool)
{
    pool_run(pool, decode_part, &(struct decode){w, dst}, w->rows, ROWS);
}

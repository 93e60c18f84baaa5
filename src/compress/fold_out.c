/*
 * fold_out.c - the source with its columns scaled and in another order, as a file.
 *
 * Powers of two round nothing in F32 and BF16. What is scaled in F16 becomes F32 (its
 * smallest values would lose bits), and so do types with blocks whose columns change.
 */
#include "compress/fold_int.h"

#include "base/file.h"
#include "base/mem.h"
#include "compress/outmeta.h"
#include "compress/role.h"
#include "format/gguf.h"
#include "tensor/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What a side of a tensor is made of. The last three are scaled, too; UNDO: by the
 * inverse. */
enum side { SAME, STREAM, ORDERED, ATTN, FFN, HIDDEN };

struct known {
    const char *name;
    enum side rows, cols;
    bool undo_rows, undo_cols;
};

/* Of a layer. The hidden values are scaled by the norm before down where there is one,
 * else by up. */
static const struct known PARTS[] = {
    {"attn_norm.weight", SAME, ATTN, false, true},
    {"ffn_norm.weight", SAME, FFN, false, true},
    {"post_attention_norm.weight", SAME, STREAM, false, false},
    {"post_ffw_norm.weight", SAME, STREAM, false, false},
    {"attn_q.weight", SAME, ATTN, false, false},
    {"attn_k.weight", SAME, ATTN, false, false},
    {"attn_v.weight", SAME, ATTN, false, false},
    {"attn_q.bias", SAME, SAME, false, false},
    {"attn_k.bias", SAME, SAME, false, false},
    {"attn_v.bias", SAME, SAME, false, false},
    {"attn_q_norm.weight", SAME, SAME, false, false},
    {"attn_k_norm.weight", SAME, SAME, false, false},
    {"attn_sub_norm.weight", SAME, SAME, false, false},
    {"attn_output.weight", STREAM, SAME, false, false},
    {"attn_output.bias", SAME, STREAM, false, false},
    {"ffn_gate.weight", ORDERED, FFN, false, false},
    {"ffn_gate.bias", SAME, ORDERED, false, false},
    {"ffn_up.weight", HIDDEN, FFN, true, false},
    {"ffn_up.bias", SAME, HIDDEN, false, true},
    {"ffn_sub_norm.weight", SAME, HIDDEN, false, true},
    {"ffn_down.weight", STREAM, HIDDEN, false, false},
    {"ffn_down.bias", SAME, STREAM, false, false},
};

static const struct known OTHERS[] = {
    {"token_embd.weight", SAME, STREAM, false, false},
    {"output.weight", SAME, STREAM, false, false},
    {"output_norm.weight", SAME, STREAM, false, false},
    {"rope_freqs.weight", SAME, SAME, false, false},
};

/* How one tensor changes: value i of a side is order[i], times 2^(sign * power of that). */
struct axis {
    const int32_t *order; /* NULL: as they are */
    const int8_t *power;  /* NULL: not scaled */
    int sign;
};

struct change {
    struct axis rows, cols;
    enum dtype type; /* of the output */
};

struct folding {
    const struct fold_plan *plan;
    const struct model *m;
    const struct pipeline_params *p;
    struct gguf_out *out;
    uint64_t done;
};

/* layer: any one where the side is of none. */
static struct axis axis_of(const struct fold_plan *plan, int64_t layer, enum side side,
                           bool undo)
{
    const struct fold_plan_layer *l = &plan->layer[layer];
    const int sign = undo ? -1 : 1;
    const bool scaled = plan->exponent != 0.0;

    switch (side) {
    case STREAM:
        return (struct axis){plan->stream, NULL, 1};
    case ATTN:
        return (struct axis){plan->stream, scaled ? l->attn : NULL, sign};
    case FFN:
        return (struct axis){plan->stream, scaled ? l->ffn : NULL, sign};
    case HIDDEN:
        return (struct axis){l->order, scaled ? l->hidden : NULL, sign};
    case ORDERED:
        return (struct axis){l->order, NULL, 1};
    case SAME:
    default:
        return (struct axis){NULL, NULL, 1};
    }
}

static const struct known *find_known(const struct known *list, size_t n,
                                      const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

static bool changes(const struct axis *a)
{
    return a->order || a->power;
}

/* The type that loses nothing. */
static enum dtype type_of(const struct tensor *t, const struct change *c)
{
    const unsigned flags = dtype_info(t->type)->flags;
    const bool scaled = c->rows.power || c->cols.power;

    if (t->rank == 1 && (flags & DTF_FLOAT))
        return DT_F32; /* as every GGUF has them */
    if (t->type == DT_BF16 || (t->type == DT_F16 && !scaled))
        return t->type;
    const bool moved = changes(&c->cols) || (c->rows.order && (flags & DTF_APART));
    return scaled || moved ? DT_F32 : t->type;
}

static enum b2_status change_of(struct change *c, const struct folding *k,
                                const struct tensor *t, struct b2_err *err)
{
    int layer = -1;

    (void)role_of(t->name, &layer);
    /* "blk.N." is there where role_of() read an N. */
    const struct known *known =
        layer < 0 ? find_known(OTHERS, countof(OTHERS), t->name)
        : layer < k->plan->n_layers
            ? find_known(PARTS, countof(PARTS), strchr(t->name + 4, '.') + 1)
            : NULL;
    if (!known || t->pad)
        return err_set(err, B2_EUNSUP,
                       "tensor %s: --fold and --sort do not know what its columns are",
                       t->name);
    const int64_t of = layer < 0 ? 0 : layer;
    c->rows = axis_of(k->plan, of, known->rows, known->undo_rows);
    c->cols = axis_of(k->plan, of, known->cols, known->undo_cols);
    if (k->m->hp.arch->sub_norms && strncmp(known->name, "ffn_up.", 7) == 0) {
        if (known->rows == HIDDEN) /* the norm behind them is scaled instead */
            c->rows.power = NULL;
        else
            c->cols.power = NULL;
    }
    c->type = type_of(t, c);
    return B2_OK;
}

/* ---- keys ---- */

static enum b2_status set_powers(struct meta *meta, const struct fold_plan *plan,
                                 const char *name, enum side side, struct b2_err *err)
{
    char key[64];
    size_t n = 0;

    for (int64_t i = 0; i < plan->n_layers; i++)
        n += (size_t)(side == HIDDEN ? plan->layer[i].f : plan->d);
    int8_t *all = mem_calloc(n, 1), *to = all;
    if (!all)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < plan->n_layers; i++) {
        const struct fold_plan_layer *l = &plan->layer[i];
        const int8_t *from = side == ATTN ? l->attn : side == FFN ? l->ffn : l->hidden;
        const size_t width = (size_t)(side == HIDDEN ? plan->layer[i].f : plan->d);
        memcpy(to, from, width);
        to += width;
    }
    snprintf(key, sizeof key, OUTMETA_FOLD "%s", name);
    enum b2_status rc = meta_set_arr(meta, key, MT_I8, all, n, err);
    mem_free(all);
    return rc;
}

/* Orders as 16-bit numbers. */
static enum b2_status set_order(struct meta *meta, const struct fold_plan *plan,
                                const char *name, bool hidden, struct b2_err *err)
{
    char key[64];
    size_t n = hidden ? 0 : (size_t)plan->d, at = 0;

    for (int64_t i = 0; hidden && i < plan->n_layers; i++)
        n += (size_t)plan->layer[i].f;
    uint16_t *all = mem_calloc(n, sizeof *all);
    if (!all)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t j = 0; !hidden && j < plan->d; j++)
        all[at++] = (uint16_t)plan->stream[j];
    for (int64_t i = 0; hidden && i < plan->n_layers; i++)
        for (int64_t j = 0; j < plan->layer[i].f; j++)
            all[at++] = (uint16_t)plan->layer[i].order[j];
    snprintf(key, sizeof key, OUTMETA_FOLD "%s", name);
    enum b2_status rc = meta_set_arr(meta, key, MT_U16, all, n, err);
    mem_free(all);
    return rc;
}

static enum b2_status set_fold_keys(struct meta *meta, const struct fold_plan *plan,
                                    const char *source_sha256, struct b2_err *err)
{
    enum b2_status rc =
        meta_set_str(meta, OUTMETA_FOLD "source_sha256", source_sha256, err);

    if (!rc)
        rc = meta_set_f32(meta, OUTMETA_FOLD "exponent", (float)plan->exponent, err);
    if (!rc && plan->exponent != 0.0)
        rc = set_powers(meta, plan, "attn", ATTN, err);
    if (!rc && plan->exponent != 0.0)
        rc = set_powers(meta, plan, "ffn", FFN, err);
    if (!rc && plan->exponent != 0.0)
        rc = set_powers(meta, plan, "hidden", HIDDEN, err);
    if (!rc && plan->layer[0].order)
        rc = set_order(meta, plan, "hidden_order", true, err);
    if (!rc && plan->stream)
        rc = set_order(meta, plan, "stream_order", false, err);
    return rc;
}

static enum b2_status make_meta(struct meta **out, const struct folding *k,
                                const char *source_sha256, struct b2_err *err)
{
    const struct meta *from = modelfile_meta(k->m->mf);
    struct meta *meta = meta_new(SIZE_MAX / 2);
    enum b2_status rc = meta ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");

    for (int64_t i = 0; i < meta_count(from) && !rc; i++) {
        const struct meta_kv *kv = meta_at(from, i);
        if (strncmp(kv->key, "split.", 6) != 0 &&
            strcmp(kv->key, "general.alignment") != 0 && !outmeta_is_fold(kv->key))
            rc = meta_copy(meta, kv, err);
    }
    if (!rc)
        rc = set_fold_keys(meta, k->plan, source_sha256, err);
    if (rc)
        meta_free(meta);
    else
        *out = meta;
    return rc;
}

/* ---- values ---- */

/* 2^(sign * power) of each value that comes out; NULL: out of memory. */
static float *factors(const struct axis *a, int64_t n)
{
    float *f = mem_calloc((size_t)n, sizeof *f);

    for (int64_t i = 0; f && i < n; i++) {
        const int64_t from = a->order ? a->order[i] : i;
        f[i] = a->power ? ldexpf(1.0f, a->sign * a->power[from]) : 1.0f;
    }
    return f;
}

/* A row as bytes of the output's type. */
struct row {
    float *in, *out; /* [width] */
    uint8_t *bytes;
    float *scale; /* [width] */
};

static enum b2_status make_row(struct row *r, const struct tensor *t,
                               const struct change *c, struct b2_err *err)
{
    const size_t n = (size_t)t->ne[0];

    *r = (struct row){.in = mem_calloc(n, sizeof(float)),
                      .out = mem_calloc(n, sizeof(float)),
                      .bytes = mem_calloc(n, sizeof(float)),
                      .scale = factors(&c->cols, t->ne[0])};
    return r->in && r->out && r->bytes && r->scale
               ? B2_OK
               : err_set(err, B2_ENOMEM, "out of memory");
}

static void free_row(struct row *r)
{
    mem_free(r->in);
    mem_free(r->out);
    mem_free(r->bytes);
    mem_free(r->scale);
}

static enum b2_status put_row(struct folding *k, struct row *r, const struct tensor *t,
                              const struct change *c, int64_t row, float scale,
                              struct b2_err *err)
{
    const int64_t n = t->ne[0];
    const struct dtype_info *to = dtype_info(c->type);
    const uint8_t *src = t->data + (uint64_t)row *
                                       (uint64_t)(n / dtype_info(t->type)->block) *
                                       (uint64_t)dtype_info(t->type)->bytes;

    quant_decode_tensor_row(t, r->in, src);
    for (int64_t i = 0; i < n; i++)
        r->out[i] = r->in[c->cols.order ? c->cols.order[i] : i] * r->scale[i] * scale;
    if (quant_check_row(r->out, n, NULL, NULL))
        return err_set(err, B2_EFORMAT,
                       "tensor %s, row %lld: NaN, infinity, or too "
                       "large to be scaled",
                       t->name, (long long)row);
    quant_encode_row(c->type, r->bytes, r->out, n);
    return gguf_out_data(k->out, r->bytes, (size_t)(n / to->block * to->bytes), err);
}

static enum b2_status put_changed(struct folding *k, const struct tensor *t,
                                  const struct change *c, struct b2_err *err)
{
    struct row r;
    float *scale = factors(&c->rows, tensor_rows(t));

    if (!scale)
        return err_set(err, B2_ENOMEM, "out of memory");
    enum b2_status rc = make_row(&r, t, c, err);
    for (int64_t i = 0; i < tensor_rows(t) && !rc; i++)
        rc = put_row(k, &r, t, c, c->rows.order ? c->rows.order[i] : i, scale[i], err);
    mem_free(scale);
    free_row(&r);
    return rc;
}

/* Rows as they are stored, in their new order. */
static enum b2_status put_rows(struct folding *k, const struct tensor *t,
                               const int32_t *order, struct b2_err *err)
{
    const uint64_t bytes = t->n_bytes / (uint64_t)tensor_rows(t);
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < tensor_rows(t) && !rc; i++)
        rc = gguf_out_data(k->out, t->data + (uint64_t)order[i] * bytes, (size_t)bytes,
                           err);
    return rc;
}

static enum b2_status put_tensor(struct folding *k, int64_t i, struct b2_err *err)
{
    struct modelfile *mf = k->m->mf;
    const struct tensor *t = modelfile_tensor(mf, i);
    struct change c = {0};
    enum b2_status rc = change_of(&c, k, t, err);

    if (!rc && k->p->env.cancelled && k->p->env.cancelled(k->p->env.ctx))
        rc = err_set(err, B2_ECANCEL, "interrupted; the same command begins again");
    if (!rc)
        rc = modelfile_load(mf, i, err);
    if (rc)
        return rc;
    if (c.type != t->type || changes(&c.cols) || c.rows.power)
        rc = put_changed(k, t, &c, err);
    else if (c.rows.order)
        rc = put_rows(k, t, c.rows.order, err);
    else
        rc = gguf_out_data(k->out, t->data, (size_t)t->n_bytes, err);
    modelfile_unload(mf, i);
    k->done += (uint64_t)tensor_count(t);
    progress_update(k->p->env.progress, k->done, 0.0);
    return rc;
}

static enum b2_status put_all(struct folding *k, struct b2_err *err)
{
    struct modelfile *mf = k->m->mf;
    enum b2_status rc = B2_OK;
    uint64_t values = 0;

    for (int64_t i = 0; i < modelfile_n_tensors(mf) && !rc; i++) {
        const struct tensor *t = modelfile_tensor(mf, i);
        struct change c = {0};
        rc = change_of(&c, k, t, err);
        if (!rc)
            rc = gguf_out_tensor(k->out, t->name, c.type, t->rank, t->ne, err);
        values += (uint64_t)tensor_count(t);
    }
    if (!rc)
        rc = gguf_out_header(k->out, err);
    if (!rc && k->p->on_stage)
        k->p->on_stage(k->p->env.ctx, "fold", values);
    for (int64_t i = 0; i < modelfile_n_tensors(mf) && !rc; i++)
        rc = put_tensor(k, i, err);
    return rc;
}

enum b2_status fold_write(const struct fold_plan *plan, const struct model *m,
                          const char *path, const char *source_sha256,
                          const struct pipeline_params *p, struct b2_err *err)
{
    struct folding k = {.plan = plan, .m = m, .p = p};
    struct meta *meta = NULL;
    enum b2_status rc = make_meta(&meta, &k, source_sha256, err);

    if (!rc)
        rc = gguf_out_open(&k.out, path, true, meta, err);
    if (!rc)
        rc = put_all(&k, err);
    if (rc)
        gguf_out_abort(k.out);
    else
        rc = gguf_out_finish(k.out, err);
    meta_free(meta);
    return rc;
}

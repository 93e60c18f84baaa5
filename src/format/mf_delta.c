/*
 * mf_delta.c - tensors of gated delta nets: heads of values in GGUF's order.
 *
 * A folder has the value heads that share key head g side by side (head g * reps + r),
 * GGUF has them apart (head r * groups + g), so that head j reads key head j mod groups.
 * All that has a value head for an axis changes order: rows of the projections, decay
 * rates and biases, channels of the convolution, columns of the output.
 */
#include "format/hf.h"
#include "format/modelfile_int.h"
#include "tensor/quant.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Unit, skip and run of a change; unit 0: the shape is not what the heads give. */
static struct mf_regroup regroup_of(const struct hf_model *model, int change,
                                    const struct tensor *t)
{
    const int64_t groups = model->k_heads, reps = model->v_heads / model->k_heads;
    const int64_t keys = 2 * (int64_t)model->k_heads * model->k_dim, dim = model->v_dim;
    struct mf_regroup g = {groups, reps, 0, 0, tensor_count(t), false};

    switch (change) {
    case HF_V_BEHIND_QK:
    case HF_V_CONV:
        g.skip = keys * t->ne[0];
        g.unit = dim * t->ne[0];
        break;
    case HF_V_ROWS:
        g.unit = dim * t->ne[0];
        break;
    case HF_V_ONES:
        g.unit = t->rank > 1 ? t->ne[0] : 1;
        break;
    case HF_V_COLS:
        g.run = t->ne[0];
        g.unit = dim;
        break;
    default:
        g.unit = 1;
        g.minus_exp = true;
        break;
    }
    if (g.skip + groups * reps * g.unit != g.run)
        g.unit = 0;
    return g;
}

enum b2_status mf_delta_entry(struct mf_entry *e, const struct hf_model *model,
                              int change, struct b2_err *err)
{
    struct tensor *t = &e->t;

    if (!(dtype_info(t->type)->flags & DTF_FLOAT) || dtype_info(t->type)->block != 1)
        return err_set(err, B2_EUNSUP, "%s, expected a float type",
                       dtype_info(t->type)->name);
    if (change == HF_V_CONV) { /* [channels, 1, taps] */
        if (t->rank != 3 || t->ne[1] != 1)
            return err_set(err, B2_EFORMAT, "not a convolution channel by channel");
        t->rank = 2;
        t->ne[1] = t->ne[2];
        t->ne[2] = 1;
    }
    e->regroup = regroup_of(model, change, t);
    if (e->regroup.unit == 0)
        return err_set(err, B2_EFORMAT,
                       "[%" PRId64 ", %" PRId64 "] does not hold %" PRIu32
                       " value heads of %" PRIu32 " (config.json)",
                       t->ne[0], t->ne[1], model->v_heads, model->v_dim);
    e->src_type = t->type;
    if (change == HF_V_RATE || change == HF_V_CONV) { /* as llama.cpp wants them */
        t->type = DT_F32;
        t->n_bytes = (uint64_t)tensor_count(t) * sizeof(float);
    } else if (e->regroup.reps == 1) {
        return B2_OK; /* both orders are the same */
    }
    e->how = MF_REGROUP;
    return B2_OK;
}

/* n elements from one place to another. */
static void copy_elements(uint8_t *dst, const struct mf_entry *e, int64_t to,
                          int64_t from, int64_t n)
{
    const int64_t bytes = dtype_info(e->src_type)->bytes;
    const uint8_t *src = e->src + from * bytes;

    if (e->t.type == e->src_type && !e->regroup.minus_exp) {
        memcpy(dst + to * bytes, src, (size_t)(n * bytes));
        return;
    }
    float *y = (float *)(void *)dst + to; /* aligned to 64 */
    quant_decode_row(e->src_type, y, src, n);
    for (int64_t i = 0; e->regroup.minus_exp && i < n; i++)
        y[i] = -(float)exp((double)y[i]);
}

void mf_delta_load(uint8_t *dst, const struct mf_entry *e)
{
    const struct mf_regroup *g = &e->regroup;

    for (int64_t at = 0; at < tensor_count(&e->t); at += g->run) {
        const int64_t values = at + g->skip;
        if (g->skip > 0)
            copy_elements(dst, e, at, at, g->skip);
        for (int64_t i = 0; i < g->groups; i++)
            for (int64_t r = 0; r < g->reps; r++)
                copy_elements(dst, e, values + (r * g->groups + i) * g->unit,
                              values + (i * g->reps + r) * g->unit, g->unit);
    }
}

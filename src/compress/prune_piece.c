/*
 * prune_piece.c - shapes of a pruned layer, and how its piece is laid out.
 */
#include "compress/prune_int.h"

#include <string.h>

int64_t prune_width(const struct prune *k, int round, int64_t layer,
                    enum stream_part part)
{
    const struct prune_plan to = prune_plan_of(k, round, layer);
    const struct hparams *hp = &k->m->hp;
    const int64_t kv = hparams_kv_heads(hp, layer), per = hparams_heads(hp, layer) / kv;

    if (part == PART_DOWN)
        return hparams_f(hp, layer) - to.ffn;
    return (kv - to.kv) * (per - to.per_group) * hp->head_dim;
}

enum dtype prune_type(const struct prune *k, int64_t layer, enum stream_part part,
                      int64_t width)
{
    const struct weight *w = walk_weight(k->m, layer, part);
    const enum dtype t = k->p->type == N_DTYPES ? w->type : k->p->type;
    const struct dtype_info *info = dtype_info(t);

    if (width == w->cols)
        return w->type;
    return (info->flags & DTF_WRITE) && width % info->block == 0 ? t : DT_F16;
}

int64_t prune_piece_number(const struct prune *k, int round, int64_t layer)
{
    return (int64_t)round * k->m->hp.n_layers + layer;
}

static uint64_t matrix_bytes(const struct prune *k, int round, int64_t layer,
                             enum stream_part part)
{
    const struct weight *w = walk_weight(k->m, layer, part);
    const int64_t width = prune_width(k, round, layer, part);
    const struct dtype_info *info = dtype_info(prune_type(k, layer, part, width));

    return width == w->cols
               ? 0
               : (uint64_t)(w->rows * (width / info->block)) * (uint64_t)info->bytes;
}

uint64_t prune_payload(const struct prune *k, int round, int64_t layer)
{
    const uint64_t f = (uint64_t)hparams_f(&k->m->hp, layer);
    const uint64_t heads = (uint64_t)hparams_heads(&k->m->hp, layer);

    return sizeof(struct prune_found) + (f + heads) * (1 + sizeof(float)) +
           matrix_bytes(k, round, layer, PART_O) +
           matrix_bytes(k, round, layer, PART_DOWN);
}

enum b2_status prune_piece_open(struct prune_piece *out, struct file_map *map,
                                const struct prune *k, int round, int64_t layer,
                                struct b2_err *err)
{
    const uint64_t f = (uint64_t)hparams_f(&k->m->hp, layer);
    const uint64_t heads = (uint64_t)hparams_heads(&k->m->hp, layer);
    enum b2_status rc = work_piece_map(k->work, prune_piece_number(k, round, layer),
                                       prune_payload(k, round, layer), map, err);

    if (rc)
        return rc;
    memcpy(&out->found, map->data, sizeof out->found);
    out->ffn = map->data + sizeof out->found;
    out->head = out->ffn + f;
    out->ffn_cost = out->head + heads;
    out->head_cost = out->ffn_cost + f * sizeof(float);
    out->o = out->head_cost + heads * sizeof(float);
    out->down = out->o + matrix_bytes(k, round, layer, PART_O);
    return B2_OK;
}

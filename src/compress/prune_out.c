/*
 * prune_out.c - the tensors and keys of the smaller model.
 */
#include "compress/prune_int.h"

#include "base/file.h"
#include "base/mem.h"
#include "compress/outmeta.h"
#include "compress/role.h"
#include "format/gguf.h"
#include "tensor/quant.h"

#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 128 };

/* What a tensor of a layer is cut by. */
enum cut { CUT_NONE, CUT_FFN, CUT_HEADS, CUT_KV, CUT_O, CUT_DOWN };

struct writing {
    struct prune *k;
    int round;
    struct meta *meta;
    int64_t *number;           /* [n_layers] in the output; -1: gone */
    struct file_map *map;      /* [n_layers] */
    struct prune_piece *piece; /* [n_layers] */
    uint8_t **kv;              /* [n_layers] masks of kv groups */
    int64_t n_left;
};

/* One tensor of the output. */
struct out_tensor {
    char name[NAME_MAX_LEN];
    enum dtype type;
    int rank;
    int64_t ne[TENSOR_MAX_RANK];
    enum cut cut;
    int64_t layer; /* -1: of none */
};

/* ---- names ---- */

static enum cut cut_of(const char *part)
{
    static const struct {
        const char *name;
        enum cut cut;
    } parts[] = {
        {"ffn_gate.weight", CUT_FFN},  {"ffn_up.weight", CUT_FFN},
        {"ffn_down.weight", CUT_DOWN}, {"attn_output.weight", CUT_O},
        {"attn_q.weight", CUT_HEADS},  {"attn_q.bias", CUT_HEADS},
        {"attn_k.weight", CUT_KV},     {"attn_k.bias", CUT_KV},
        {"attn_v.weight", CUT_KV},     {"attn_v.bias", CUT_KV},
    };

    for (size_t i = 0; i < countof(parts); i++)
        if (strcmp(parts[i].name, part) == 0)
            return parts[i].cut;
    return CUT_NONE;
}

static int64_t units_left(const uint8_t *gone, int64_t n)
{
    int64_t left = n;

    for (int64_t i = 0; i < n; i++)
        left -= gone[i];
    return left;
}

/* The rows that a tensor keeps: a mask of units of so many rows; NULL: all. */
static const uint8_t *rows_mask(const struct writing *w, const struct out_tensor *t,
                                int64_t *units, int64_t *size)
{
    const struct hparams *hp = &w->k->m->hp;

    *size = hp->head_dim;
    if (t->cut == CUT_FFN) {
        *units = hparams_f(hp, t->layer);
        *size = 1;
        return w->piece[t->layer].ffn;
    }
    *units = t->cut == CUT_HEADS ? hparams_heads(hp, t->layer)
                                 : hparams_kv_heads(hp, t->layer);
    return t->cut == CUT_HEADS ? w->piece[t->layer].head
           : t->cut == CUT_KV  ? w->kv[t->layer]
                               : NULL;
}

/* False: the tensor goes with its layer. */
static bool shape_of(struct out_tensor *out, const struct writing *w,
                     const struct tensor *t)
{
    int layer = -1;

    *out = (struct out_tensor){.type = t->type, .rank = t->rank, .layer = -1};
    snprintf(out->name, sizeof out->name, "%s", t->name);
    memcpy(out->ne, t->ne, sizeof out->ne);
    /* Vectors are F32 in every GGUF, whatever a folder had. */
    if (t->rank == 1 && (dtype_info(t->type)->flags & DTF_FLOAT))
        out->type = DT_F32;
    (void)role_of(t->name, &layer);
    if (layer < 0 || layer >= w->k->m->hp.n_layers)
        return true;
    if (w->number[layer] < 0)
        return false;
    /* "blk.N." is there: role_of() read N. */
    const char *part_name = strchr(t->name + 4, '.') + 1;
    out->layer = layer;
    out->cut = cut_of(part_name);
    snprintf(out->name, sizeof out->name, "blk.%lld.%s", (long long)w->number[layer],
             part_name);
    if (out->cut == CUT_O || out->cut == CUT_DOWN) {
        const enum stream_part part = out->cut == CUT_O ? PART_O : PART_DOWN;
        out->ne[0] = prune_width(w->k, w->round, layer, part);
        out->type = prune_type(w->k, layer, part, out->ne[0]);
        if (out->ne[0] == t->ne[0])
            out->cut = CUT_NONE;
    } else if (out->cut != CUT_NONE) {
        int64_t units, size;
        const uint8_t *mask = rows_mask(w, out, &units, &size);
        out->ne[t->rank == 1 ? 0 : 1] = units_left(mask, units) * size;
    }
    return true;
}

/* ---- keys ---- */

static const char *arch_of(const struct writing *w)
{
    const char *own = w->k->m->hp.arch->name;

    return w->k->r->uneven && strcmp(own, "llama") == 0 ? "deci" : own;
}

/* A count as one number, or as one for each layer that is left. */
static enum b2_status set_counts(struct writing *w, const char *name,
                                 const int32_t *values, struct b2_err *err)
{
    char key[NAME_MAX_LEN];
    bool alike = true;

    for (int64_t i = 1; i < w->n_left; i++)
        alike = alike && values[i] == values[0];
    snprintf(key, sizeof key, "%s.%s", arch_of(w), name);
    if (alike)
        return meta_set_u32(w->meta, key, (uint32_t)values[0], err);
    return meta_set_arr(w->meta, key, MT_I32, values, (uint64_t)w->n_left, err);
}

/* Heads no longer tell their size: width over heads is another number now. */
static enum b2_status set_head_size(struct writing *w, struct b2_err *err)
{
    static const char *const names[] = {
        "attention.key_length", "attention.value_length", "rope.dimension_count"};
    const struct hparams *hp = &w->k->m->hp;
    const int64_t size[] = {hp->head_dim, hp->head_dim, hp->n_rot};
    enum b2_status rc = B2_OK;

    for (size_t i = 0; i < countof(names) && !rc; i++) {
        char key[NAME_MAX_LEN];
        snprintf(key, sizeof key, "%s.%s", arch_of(w), names[i]);
        rc = meta_set_u32(w->meta, key, (uint32_t)size[i], err);
    }
    return rc;
}

static enum b2_status set_shapes(struct writing *w, struct b2_err *err)
{
    const struct hparams *hp = &w->k->m->hp;
    const size_t n = (size_t)hp->n_layers;
    int32_t *f = mem_calloc(n, sizeof *f), *heads = mem_calloc(n, sizeof *heads);
    int32_t *kv = mem_calloc(n, sizeof *kv), layers = (int32_t)w->n_left;
    enum b2_status rc = f && heads && kv ? B2_OK : B2_ENOMEM;
    bool heads_change = false;

    if (rc)
        (void)err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0, at = 0; i < hp->n_layers && !rc; i++) {
        if (w->number[i] < 0)
            continue;
        f[at] = (int32_t)prune_width(w->k, w->round, i, PART_DOWN);
        heads[at] = (int32_t)(prune_width(w->k, w->round, i, PART_O) / hp->head_dim);
        kv[at] = (int32_t)units_left(w->kv[i], hparams_kv_heads(hp, i));
        heads_change = heads_change || heads[at] != hparams_heads(hp, i);
        at++;
    }
    char key[NAME_MAX_LEN];
    snprintf(key, sizeof key, "%s.block_count", arch_of(w));
    if (!rc)
        rc = meta_set_u32(w->meta, key, (uint32_t)layers, err);
    if (!rc)
        rc = set_counts(w, "feed_forward_length", f, err);
    if (!rc)
        rc = set_counts(w, "attention.head_count", heads, err);
    if (!rc)
        rc = set_counts(w, "attention.head_count_kv", kv, err);
    if (!rc && heads_change)
        rc = set_head_size(w, err);
    mem_free(f);
    mem_free(heads);
    mem_free(kv);
    return rc;
}

/* A key under the output's architecture. */
static enum b2_status copy_key(struct writing *w, const struct meta_kv *kv,
                               struct b2_err *err)
{
    const char *own = w->k->m->hp.arch->name, *to = arch_of(w);
    const size_t n = strlen(own);
    struct meta_kv renamed = *kv;
    char key[NAME_MAX_LEN * 2];

    if (own != to && strncmp(kv->key, own, n) == 0 && kv->key[n] == '.') {
        snprintf(key, sizeof key, "%s%s", to, kv->key + n);
        renamed.key = key;
    }
    return meta_copy(w->meta, &renamed, err);
}

static enum b2_status make_meta(struct writing *w, struct b2_err *err)
{
    const struct meta *from = modelfile_meta(w->k->m->mf);
    enum b2_status rc = B2_OK;
    struct str recipe = {0};

    w->meta = meta_new(SIZE_MAX / 2);
    if (!w->meta)
        return err_set(err, B2_ENOMEM, "out of memory for the keys");
    for (int64_t i = 0; i < meta_count(from) && !rc; i++) {
        const struct meta_kv *kv = meta_at(from, i);
        if (strncmp(kv->key, "split.", 6) != 0 &&
            strcmp(kv->key, "general.alignment") != 0 &&
            strcmp(kv->key, "general.parameter_count") != 0 &&
            !outmeta_is_fold(kv->key))
            rc = copy_key(w, kv, err);
    }
    if (!rc)
        rc = meta_set_str(w->meta, "general.architecture", arch_of(w), err);
    if (!rc)
        rc = set_shapes(w, err);
    str_printf(&recipe, "{\"source_sha256\": \"%s\", \"kld\": ", w->k->sha256);
    if (w->k->calib.n_seqs > 0)
        str_printf(&recipe, "%.5f, \"calibration\": %s}", w->k->r->kld[w->round],
                   w->k->calib_text);
    else
        str_put(&recipe, "null}");
    if (!rc && !str_ok(&recipe))
        rc = err_set(err, B2_ENOMEM, "out of memory");
    if (!rc)
        rc = meta_set_str(w->meta, "bonsai2.prune", recipe.data, err);
    if (!rc)
        rc = meta_set_str(w->meta, "bonsai2.version", B2_VERSION, err);
    str_free(&recipe);
    return rc;
}

/* ---- values ---- */

static enum b2_status put_vector(struct gguf_out *o, const struct tensor *t,
                                 const uint8_t *mask, int64_t units, int64_t size,
                                 struct b2_err *err)
{
    float *v = mem_calloc((size_t)t->ne[0], sizeof *v);
    enum b2_status rc = v ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");

    if (!rc)
        quant_decode_row(t->type, v, t->data, t->ne[0]);
    if (!rc && !mask)
        rc = gguf_out_data(o, v, (size_t)t->ne[0] * sizeof *v, err);
    for (int64_t i = 0; mask && i < units && !rc; i++)
        if (!mask[i])
            rc = gguf_out_data(o, v + i * size, (size_t)size * sizeof *v, err);
    mem_free(v);
    return rc;
}

static enum b2_status put_rows(struct gguf_out *o, const struct tensor *t,
                               const uint8_t *mask, int64_t units, int64_t size,
                               struct b2_err *err)
{
    const uint64_t bytes = t->n_bytes / (uint64_t)tensor_rows(t) * (uint64_t)size;
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < units && !rc; i++)
        if (!mask[i])
            rc = gguf_out_data(o, t->data + (uint64_t)i * bytes, (size_t)bytes, err);
    return rc;
}

static enum b2_status put_tensor(const struct writing *w, struct gguf_out *o, int64_t i,
                                 struct b2_err *err)
{
    struct modelfile *mf = w->k->m->mf;
    const struct tensor *t = modelfile_tensor(mf, i);
    struct out_tensor to;
    int64_t units = 0, size = 0;

    if (!shape_of(&to, w, t))
        return B2_OK;
    if (to.cut == CUT_O || to.cut == CUT_DOWN) {
        const struct prune_piece *p = &w->piece[to.layer];
        const struct dtype_info *info = dtype_info(to.type);
        const uint64_t n =
            (uint64_t)(to.ne[1] * (to.ne[0] / info->block)) * (uint64_t)info->bytes;
        return gguf_out_data(o, to.cut == CUT_O ? p->o : p->down, (size_t)n, err);
    }
    enum b2_status rc = modelfile_load(mf, i, err);
    const uint8_t *mask = NULL;
    if (rc)
        return rc;
    if (to.cut != CUT_NONE)
        mask = rows_mask(w, &to, &units, &size);
    if (t->rank == 1 && (dtype_info(t->type)->flags & DTF_FLOAT))
        rc = put_vector(o, t, mask, units, size, err);
    else if (mask)
        rc = put_rows(o, t, mask, units, size, err);
    else
        rc = gguf_out_data(o, t->data, (size_t)t->n_bytes, err);
    return rc;
}

/* ---- all ---- */

static enum b2_status open_layers(struct writing *w, struct b2_err *err)
{
    struct prune *k = w->k;
    const size_t n = (size_t)k->m->hp.n_layers;
    enum b2_status rc = B2_OK;

    w->number = mem_calloc(n, sizeof *w->number);
    w->map = mem_calloc(n, sizeof *w->map);
    w->piece = mem_calloc(n, sizeof *w->piece);
    w->kv = mem_calloc(n, sizeof *w->kv);
    if (!w->number || !w->map || !w->piece || !w->kv)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < k->m->hp.n_layers && !rc; i++) {
        const int64_t kv = hparams_kv_heads(&k->m->hp, i);
        const int64_t per = hparams_heads(&k->m->hp, i) / kv;
        w->number[i] = k->plan[i].gone ? -1 : w->n_left++;
        if (k->plan[i].gone)
            continue;
        rc = prune_piece_open(&w->piece[i], &w->map[i], k, w->round, i, err);
        w->kv[i] = mem_calloc((size_t)kv, 1);
        if (!rc && !w->kv[i])
            return err_set(err, B2_ENOMEM, "out of memory");
        for (int64_t g = 0; g < kv && !rc; g++)
            w->kv[i][g] = units_left(w->piece[i].head + g * per, per) == 0;
    }
    return rc;
}

static void close_layers(struct writing *w)
{
    for (int64_t i = 0; i < w->k->m->hp.n_layers; i++) {
        if (w->map)
            file_unmap(&w->map[i]);
        if (w->kv)
            mem_free(w->kv[i]);
    }
    mem_free(w->number);
    mem_free(w->map);
    mem_free(w->piece);
    mem_free(w->kv);
    meta_free(w->meta);
}

/* Layers of the result that have not all the same sizes. */
static bool uneven(const struct prune *k, int round)
{
    int64_t first = -1;

    for (int64_t i = 0; i < k->m->hp.n_layers; i++) {
        if (k->plan[i].gone)
            continue;
        if (first < 0)
            first = i;
        const struct prune_plan a = prune_plan_of(k, round, first);
        const struct prune_plan b = prune_plan_of(k, round, i);
        const struct hparams *hp = &k->m->hp;
        if (prune_width(k, round, i, PART_DOWN) !=
                prune_width(k, round, first, PART_DOWN) ||
            prune_width(k, round, i, PART_O) != prune_width(k, round, first, PART_O) ||
            hparams_kv_heads(hp, i) - b.kv != hparams_kv_heads(hp, first) - a.kv)
            return true;
    }
    return false;
}

static enum b2_status put_all(struct writing *w, struct gguf_out *o, struct b2_err *err)
{
    struct modelfile *mf = w->k->m->mf;
    struct prune_report *r = w->k->r;
    enum b2_status rc = B2_OK;

    r->params_before = r->params_after = r->retyped = 0;
    for (int64_t i = 0; i < modelfile_n_tensors(mf) && !rc; i++) {
        const struct tensor *t = modelfile_tensor(mf, i);
        struct out_tensor to;
        r->params_before += tensor_count(t);
        if (!shape_of(&to, w, t))
            continue;
        r->params_after += to.ne[0] * to.ne[1] * to.ne[2] * to.ne[3];
        r->retyped += t->rank > 1 && to.type != t->type;
        rc = gguf_out_tensor(o, to.name, to.type, to.rank, to.ne, err);
    }
    if (!rc)
        rc = gguf_out_header(o, err);
    for (int64_t i = 0; i < modelfile_n_tensors(mf) && !rc; i++) {
        rc = put_tensor(w, o, i, err);
        modelfile_unload(mf, i);
    }
    return rc;
}

enum b2_status prune_write(struct prune *k, int round, const char *path,
                           struct b2_err *err)
{
    struct writing w = {.k = k, .round = round};
    struct gguf_out *o = NULL;

    k->r->uneven = uneven(k, round);
    snprintf(k->r->arch, sizeof k->r->arch, "%s", arch_of(&w));
    enum b2_status rc = open_layers(&w, err);
    if (!rc)
        rc = make_meta(&w, err);
    if (!rc)
        rc = gguf_out_open(&o, path, true, w.meta, err);
    if (!rc)
        rc = put_all(&w, o, err);
    if (!rc)
        rc = gguf_out_size(o, &k->r->bytes_after, err);
    if (rc)
        gguf_out_abort(o);
    else
        rc = gguf_out_finish(o, err);
    close_layers(&w);
    return rc;
}

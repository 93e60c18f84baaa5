/*
 * weights.c - finds, checks and binds the tensors of an architecture.
 */
#include "model/weights.h"

#include "format/tiers.h"
#include "model/weights_int.h"
#include "tensor/quant.h"

#include <stdio.h>
#include <string.h>

/* Checks shape and layout, and makes the bytes available. */
static enum b2_status check_tensor(struct weights_binder *b, int64_t i, int64_t cols,
                                   int64_t rows, struct b2_err *err)
{
    struct modelfile *mf = b->m->mf;
    const struct tensor *t = modelfile_tensor(mf, i);

    if (t->pad && tensor_width(t) != cols)
        return err_set(err, B2_EFORMAT,
                       "tensor %s: expected rows of %lld, but %lld of the %lld stored "
                       "values count (bonsai2.tail.widths)",
                       t->name, (long long)cols, (long long)tensor_width(t),
                       (long long)t->ne[0]);
    if (tensor_width(t) != cols || t->ne[1] != rows || t->ne[2] != 1 || t->ne[3] != 1)
        return err_set(
            err, B2_EFORMAT,
            "tensor %s: expected [%lld, %lld], found [%lld, %lld, %lld, %lld]", t->name,
            (long long)cols, (long long)rows, (long long)t->ne[0], (long long)t->ne[1],
            (long long)t->ne[2], (long long)t->ne[3]);
    if (t->type == DT_Q2_0_G128)
        return err_set(err, B2_ELAYOUT,
                       "tensor %s: type 42 in the legacy layout with groups of 128; "
                       "convert the file first: bonsai2 export FILE --format "
                       "gguf-pq2_0 -o NEW.gguf",
                       t->name);
    if (!b->used[i]) {
        /* Of a matrix without its groups of zeros only the whole copy is ever used. */
        const uint64_t mapped = modelfile_left_out(mf, i) > 0 ? 0 : t->n_bytes;
        b->m->weights_bytes += mapped + modelfile_load_bytes(mf, i);
        b->m->copy_bytes += modelfile_load_bytes(mf, i);
        b->m->type_bytes[t->type] += mapped;
        b->used[i] = true;
    }
    if (b->no_data && rows > 1)
        return B2_OK;
    enum b2_status rc = modelfile_load(mf, i, err);
    if (rc)
        err_wrap(err, "tensor %s", t->name);
    return rc;
}

const struct tensor *weights_tensor(struct weights_binder *b, const char *name,
                                    int64_t cols, int64_t rows, enum b2_status *rc,
                                    struct b2_err *err)
{
    int64_t i = modelfile_find(b->m->mf, name);

    if (i < 0) {
        *rc = err_set(err, B2_ENOTFOUND,
                      "tensor %s is missing: expected [%lld, %lld] for a `%s` of %lld "
                      "layers",
                      name, (long long)cols, (long long)rows, b->m->hp.arch->name,
                      (long long)b->m->hp.n_layers);
        return NULL;
    }
    *rc = check_tensor(b, i, cols, rows, err);
    return *rc ? NULL : modelfile_tensor(b->m->mf, i);
}

enum b2_status weights_matrix(struct weights_binder *b, struct weight *w,
                              const char *name, int64_t cols, int64_t rows,
                              struct b2_err *err)
{
    enum b2_status rc;
    const struct tensor *t = weights_tensor(b, name, cols, rows, &rc, err);
    uint64_t row_bytes = 0;

    if (!t)
        return rc;
    const struct dtype_info *info = dtype_info(t->type);
    if (!(info->flags & DTF_WEIGHT))
        return err_set(err, B2_EUNSUP,
                       "tensor %s: type %s cannot be used as a weight (usable: floats "
                       "and block types; convert it with bonsai2 export)",
                       name, info->name);
    rc = dtype_row_bytes(&row_bytes, t->type, (uint64_t)t->ne[0], err);
    if (rc) {
        err_wrap(err, "tensor %s", name);
        return rc;
    }
    *w = (struct weight){
        .name = t->name,
        .type = t->type,
        .cols = cols,
        .rows = rows,
        .pad = t->pad,
        .data = t->data,
        .row_bytes = row_bytes,
        .scale = tensor_scale(t),
        .rot = b->m->rots.forward[modelfile_find(b->m->mf, name)],
    };
    return B2_OK;
}

/* Norm gains, biases and rope factors: copied to F32, whatever float they are stored as, since
 * they are few and the file need not align them. */
enum b2_status weights_vector(struct weights_binder *b, const float **out,
                              const char *name, int64_t n, struct b2_err *err)
{
    enum b2_status rc;
    const struct tensor *t = weights_tensor(b, name, n, 1, &rc, err);

    if (!t)
        return rc;
    if (!(dtype_info(t->type)->flags & DTF_FLOAT))
        return err_set(err, B2_EUNSUP, "tensor %s: expected F32, F16 or BF16, found %s",
                       name, dtype_info(t->type)->name);
    float *copy = arena_calloc(b->m->arena, (size_t)n, sizeof *copy);
    if (!copy)
        return err_set(err, B2_ENOMEM, "tensor %s: out of memory", name);
    quant_decode_row(t->type, copy, t->data, n);
    rc = quant_check_row(copy, n, NULL, err);
    if (rc) {
        err_wrap(err, "tensor %s", name);
        return rc;
    }
    b->m->weights_bytes += (uint64_t)n * sizeof *copy;
    b->m->copy_bytes += (uint64_t)n * sizeof *copy;
    *out = copy;
    return B2_OK;
}

/* Rows [first, first + rows) of a matrix as a matrix of their own. */
static struct weight slice(const struct weight *w, int64_t first, int64_t rows)
{
    struct weight s = *w;

    s.data += (uint64_t)first * w->row_bytes;
    s.rows = rows;
    return s;
}

/* One tensor for q, k and v, another for gate and up. */
static enum b2_status take_fused(struct weights_binder *b, int64_t layer,
                                 struct b2_err *err)
{
    const struct hparams *hp = &b->m->hp;
    struct layer_weights *l = &b->m->layers[layer];
    const int64_t q = hp->n_heads * hp->head_dim, kv = hp->n_kv_heads * hp->head_dim;
    struct weight w = {0};
    char name[WEIGHTS_NAME_MAX];
    enum b2_status rc;

    snprintf(name, sizeof name, "blk.%lld.attn_qkv.weight", (long long)layer);
    rc = weights_matrix(b, &w, name, hp->d, q + 2 * kv, err);
    if (rc)
        return rc;
    l->q = slice(&w, 0, q);
    l->k = slice(&w, q, kv);
    l->v = slice(&w, q + kv, kv);
    snprintf(name, sizeof name, "blk.%lld.ffn_up.weight", (long long)layer);
    rc = weights_matrix(b, &w, name, hp->d, 2 * hp->f, err);
    if (rc)
        return rc;
    l->gate = slice(&w, 0, hp->f);
    l->up = slice(&w, hp->f, hp->f);
    return B2_OK;
}

static enum b2_status take_layer(struct weights_binder *b, int64_t layer,
                                 struct b2_err *err)
{
    const struct hparams *hp = &b->m->hp;
    struct layer_weights *l = &b->m->layers[layer];
    const int64_t q = hparams_heads(hp, layer) * hp->head_dim;
    const int64_t kv = hparams_kv_heads(hp, layer) * hp->head_dim;
    const int64_t hidden = hparams_f(hp, layer);
    const struct arch *a = hp->arch;
    const bool attn = !hparams_recurrent(hp, layer);
    const struct {
        const char *kind;
        struct weight *w;
        int64_t cols, rows;
        bool wanted;
    } matrices[] = {
        {"attn_q", &l->q, hp->d, a->attn_gate ? 2 * q : q, attn && !a->fused},
        {"attn_k", &l->k, hp->d, kv, attn && !a->fused},
        {"attn_v", &l->v, hp->d, kv, attn && !a->fused},
        {"attn_output", &l->o, q, hp->d, attn},
        {"ffn_gate", &l->gate, hp->d, hidden, !a->fused},
        {"ffn_up", &l->up, hp->d, hidden, !a->fused},
        {"ffn_down", &l->down, hidden, hp->d, true},
    };
    const struct {
        const char *kind;
        const float **v;
        int64_t n;
        bool wanted;
    } vectors[] = {
        {"attn_norm.weight", &l->attn_norm, hp->d, true},
        {a->ffn_norm ? a->ffn_norm : "ffn_norm.weight", &l->ffn_norm, hp->d, true},
        {"attn_q.bias", &l->q_bias, q, a->qkv_bias},
        {"attn_k.bias", &l->k_bias, kv, a->qkv_bias},
        {"attn_v.bias", &l->v_bias, kv, a->qkv_bias},
        {"attn_q_norm.weight", &l->q_norm, hp->head_dim, a->qk_norm && attn},
        {"attn_k_norm.weight", &l->k_norm, hp->head_dim, a->qk_norm && attn},
        {"post_attention_norm.weight", &l->attn_post_norm, hp->d, a->post_norms},
        {"post_ffw_norm.weight", &l->ffn_post_norm, hp->d, a->post_norms},
        {"attn_sub_norm.weight", &l->attn_sub_norm, q, a->sub_norms},
        {"ffn_sub_norm.weight", &l->ffn_sub_norm, hidden, a->sub_norms},
    };
    char name[WEIGHTS_NAME_MAX];
    enum b2_status rc = B2_OK;

    for (size_t i = 0; i < countof(matrices) && rc == B2_OK; i++) {
        snprintf(name, sizeof name, "blk.%lld.%s.weight", (long long)layer,
                 matrices[i].kind);
        if (matrices[i].wanted)
            rc = weights_matrix(b, matrices[i].w, name, matrices[i].cols,
                                matrices[i].rows, err);
    }
    for (size_t i = 0; i < countof(vectors) && rc == B2_OK; i++) {
        snprintf(name, sizeof name, "blk.%lld.%s", (long long)layer, vectors[i].kind);
        if (vectors[i].wanted)
            rc = weights_vector(b, vectors[i].v, name, vectors[i].n, err);
    }
    if (rc == B2_OK && !attn)
        rc = weights_take_delta(b, layer, err);
    return rc == B2_OK && a->fused ? take_fused(b, layer, err) : rc;
}

/* A table whose frequent rows lie in a tensor of their own. */
static enum b2_status take_tiers(struct weights_binder *b, struct weight *w,
                                 struct b2_err *err)
{
    struct model *m = b->m;
    struct weight_tiers *t = arena_calloc(m->arena, 1, sizeof *t);
    int64_t n_hot = 0;

    if (!t)
        return err_set(err, B2_ENOMEM, "out of memory for the tensor table");
    if (modelfile_find(m->mf, TIERS_TABLE) >= 0)
        return err_set(err, B2_EFORMAT,
                       "key " TIERS_KEY ": the file has " TIERS_TABLE
                       " too, whose place the key's two tensors take");
    enum b2_status rc =
        tiers_read(&t->row, &n_hot, modelfile_meta(m->mf), m->hp.vocab, m->arena, err);
    if (!rc && n_hot > TIERS_MAX_HOT)
        rc = err_set(err, B2_EUNSUP, "key %s: %lld rows; at most %d can be used",
                     TIERS_KEY, (long long)n_hot, TIERS_MAX_HOT);
    if (!rc)
        rc = weights_matrix(b, &t->hot, TIERS_HOT, m->hp.d, n_hot, err);
    if (!rc)
        rc = weights_matrix(b, &t->rare, TIERS_RARE, m->hp.d, m->hp.vocab - n_hot, err);
    if (!rc && (t->hot.rot || t->rare.rot))
        rc = err_set(err, B2_EUNSUP, "%s and %s: rotated rows of two types", TIERS_HOT,
                     TIERS_RARE);
    if (rc)
        return rc;
    *w = t->rare;
    w->name = TIERS_TABLE;
    w->rows = m->hp.vocab;
    w->tiers = t;
    return B2_OK;
}

/* A mapped table that is no head is read row by row: it is counted apart. */
static void leave_out(struct model *m, const struct weight *table)
{
    const uint64_t n = weight_bytes(table);

    if (modelfile_load_bytes(m->mf, modelfile_find(m->mf, table->name)) != 0)
        return;
    m->table_bytes += n;
    m->type_bytes[table->type] -= n;
}

/* The embedding table and the head, which may be the same bytes. A folded table is
 * looked up with the inverse transform; as a head it then wants rotated inputs, which
 * only version 2 of the declaration says. */
static enum b2_status take_ends(struct weights_binder *b, struct b2_err *err)
{
    static const char embd[] = TIERS_TABLE, head[] = "output.weight";
    struct model *m = b->m;
    const bool tiers = tiers_declared(modelfile_meta(m->mf));
    enum b2_status rc =
        tiers ? take_tiers(b, &m->embd, err)
              : weights_matrix(b, &m->embd, embd, m->hp.d, m->hp.vocab, err);

    if (rc)
        return rc;
    if (!tiers)
        m->embd.rot = m->rots.inverse[modelfile_find(m->mf, embd)];
    m->tied = modelfile_find(m->mf, head) < 0;
    if (m->tied) {
        m->head = m->embd;
        if (m->embd.rot && !m->rotation.tied_output)
            return err_set(err, B2_EFORMAT,
                           "%s is folded and the file has no %s, but the rotation of "
                           "version %u does not say how the head uses it",
                           embd, head, m->rotation.version);
    } else {
        rc = weights_matrix(b, &m->head, head, m->hp.d, m->hp.vocab, err);
        leave_out(m, tiers ? &m->embd.tiers->hot : &m->embd);
        if (tiers)
            leave_out(m, &m->embd.tiers->rare);
    }
    if (rc == B2_OK)
        rc = weights_vector(b, &m->out_norm, "output_norm.weight", m->hp.d, err);
    return rc;
}

static enum b2_status take_factors(struct weights_binder *b, const float **out,
                                   const char *name, struct b2_err *err)
{
    const int64_t n = b->m->hp.n_rot / 2;
    enum b2_status rc = weights_vector(b, out, name, n, err);

    for (int64_t i = 0; rc == B2_OK && i < n; i++)
        if (!((*out)[i] > 0.0f))
            return err_set(err, B2_EFORMAT, "tensor %s: factor %lld is %g, not above 0",
                           name, (long long)i, (double)(*out)[i]);
    return rc;
}

/* Divisors of frequencies: one set, or one for short and one for long contexts. */
static enum b2_status take_rope_factors(struct weights_binder *b, struct b2_err *err)
{
    static const char one[] = "rope_freqs.weight";
    static const char longer[] = "rope_factors_long.weight";
    struct model *m = b->m;

    if (m->hp.arch->longrope && modelfile_find(m->mf, longer) >= 0) {
        enum b2_status rc = take_factors(b, &m->rope_long_factors, longer, err);
        return rc ? rc
                  : take_factors(b, &m->rope_freq_factors, "rope_factors_short.weight",
                                 err);
    }
    return modelfile_find(m->mf, one) < 0
               ? B2_OK
               : take_factors(b, &m->rope_freq_factors, one, err);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), e = strlen(end);

    return n >= e && memcmp(s + n - e, end, e) == 0;
}

/* N of a name "blk.N.…", -1 for others. */
static int64_t layer_of(const char *name)
{
    int64_t n = 0;

    if (strncmp(name, "blk.", 4) != 0)
        return -1;
    for (name += 4; *name >= '0' && *name <= '9' && n < INT32_MAX; name++)
        n = 10 * n + (*name - '0');
    return *name == '.' ? n : -1;
}

/* What an unused tensor means when leaving it out would change the result, or NULL.
 * Layers above n_layers change nothing. */
static const char *meaning_of_extra(const char *name, int64_t n_layers)
{
    int64_t layer = layer_of(name);

    if (layer >= n_layers)
        return NULL;
    if (ends_with(name, ".bias"))
        return "biases are not supported here";
    if (ends_with(name, ".scale") || ends_with(name, ".input_scale"))
        return "per-tensor scales are not supported";
    if (layer >= 0 && ends_with(name, "_norm.weight"))
        return "this further normalisation is not supported here";
    if (strncmp(name, "rope_factors_", 13) == 0)
        return "long-context rope factors (longrope) are not supported here";
    if (ends_with(name, ".lora_a") || ends_with(name, ".lora_b"))
        return "an adapter must be merged into its model first";
    return NULL;
}

static enum b2_status check_extra(const struct weights_binder *b, struct b2_err *err)
{
    const struct modelfile *mf = b->m->mf;
    const int64_t n_layers = b->m->hp.n_layers;
    int64_t n_mtp = 0;

    for (int64_t i = 0; i < modelfile_n_tensors(mf); i++) {
        const char *name = modelfile_tensor(mf, i)->name, *meaning;
        if (b->used[i])
            continue;
        if (layer_of(name) >= n_layers && layer_of(name) < n_layers + b->m->hp.n_mtp) {
            n_mtp++;
            continue;
        }
        meaning = meaning_of_extra(name, n_layers);
        if (meaning)
            return err_set(err, B2_EUNSUP, "tensor %s of a `%s`: %s", name,
                           b->m->hp.arch->name, meaning);
        if (b->log && b->log->strict)
            return err_set(err, B2_EUNSUP, "tensor %s: not part of a `%s` (--strict)",
                           name, b->m->hp.arch->name);
        log_line(b->log, LOG_WARN, "tensor %s is not part of a `%s`: ignored", name,
                 b->m->hp.arch->name);
    }
    if (n_mtp > 0)
        log_line(b->log, LOG_INFO,
                 "%lld tensors that predict further tokens (MTP) are not used",
                 (long long)n_mtp);
    return B2_OK;
}

enum b2_status weights_bind(struct model *m, const struct log *log, bool no_data,
                            struct b2_err *err)
{
    struct weights_binder b = {
        .m = m,
        .log = log,
        .no_data = no_data,
        .used = arena_calloc(m->arena, (size_t)modelfile_n_tensors(m->mf), 1),
    };
    enum b2_status rc;

    m->layers = arena_calloc(m->arena, (size_t)m->hp.n_layers, sizeof *m->layers);
    if (!b.used || !m->layers)
        return err_set(err, B2_ENOMEM, "out of memory for the tensor table");
    rc = take_ends(&b, err);
    for (int64_t i = 0; i < m->hp.n_layers && rc == B2_OK; i++)
        rc = take_layer(&b, i, err);
    if (rc == B2_OK)
        rc = take_rope_factors(&b, err);
    if (rc == B2_OK)
        rc = check_extra(&b, err);
    return rc;
}

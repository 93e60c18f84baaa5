/*
 * model.c - opens a model: file, keys, rotation, weights, tokenizer.
 */
#include "model/model.h"

#include "base/arena.h"
#include "base/mem.h"
#include "model/rope.h"
#include "model/vocab.h"
#include "model/weights.h"

/* Layer tables, norms and signs; a bound that no real model comes near. */
static const size_t arena_max = (size_t)1 << 30;

/* Keys of the architecture that nobody here has heard of may matter. */
static enum b2_status note_unknown_keys(const struct model *m, const struct log *log,
                                        struct b2_err *err)
{
    const struct meta *meta = modelfile_meta(m->mf);
    const char *key;
    int64_t i = 0;

    while ((key = hparams_unknown_key(meta, &i)) != NULL) {
        if (log && log->strict)
            return err_set(err, B2_EUNSUP, "key %.100s is not known here (--strict)",
                           key);
        log_line(log, LOG_WARN, "key %s is not known here: ignored", key);
    }
    return B2_OK;
}

/* Types 142 and 143 come from files that are usually rotated; without the declaration
 * they run as they are, and a line says so. */
static void note_no_rotation(const struct model *m, const struct log *log)
{
    if (m->rotation.version != 0)
        return;
    for (int64_t i = 0; i < modelfile_n_tensors(m->mf); i++) {
        const struct tensor *t = modelfile_tensor(m->mf, i);
        if (t->type == DT_PQ2_0 || t->type == DT_PTQ1_0) {
            log_line(log, LOG_WARN,
                     "%s weights without a declared rotation: they run as they stand",
                     dtype_info(t->type)->name);
            return;
        }
    }
}

static enum b2_status make_table(struct rope_table *t, struct model *m,
                                 const struct hparams *hp, const float *factors,
                                 struct b2_err *err)
{
    float *freq = arena_calloc(m->arena, (size_t)(hp->n_rot / 2), sizeof *freq);

    if (!freq)
        return err_set(err, B2_ENOMEM, "out of memory");
    rope_angles(hp, factors, freq, &t->mscale);
    t->freq = freq;
    return B2_OK;
}

/* Sliding layers with a base of their own look back a short way: nothing is stretched
 * for them. */
static enum b2_status make_rope(struct model *m, struct b2_err *err)
{
    struct hparams local = m->hp;
    enum b2_status rc = make_table(&m->rope, m, &m->hp, m->rope_freq_factors, err);

    m->rope_local = m->rope;
    if (!rc && m->rope_long_factors)
        rc = make_table(&m->rope_long, m, &m->hp, m->rope_long_factors, err);
    if (rc || m->hp.rope_base_local == 0.0f)
        return rc;
    local.rope_base = m->hp.rope_base_local;
    local.rope_scaling = ROPE_SCALE_NONE;
    local.rope_attn_factor = 1.0f;
    return make_table(&m->rope_local, m, &local, NULL, err);
}

const struct rope_table *model_rope(const struct model *m, bool slides, int64_t ctx)
{
    if (m->rope_long.freq && (float)ctx > m->hp.rope_orig_ctx)
        return &m->rope_long;
    return slides ? &m->rope_local : &m->rope;
}

static enum b2_status open_parts(struct model *m, const char *path,
                                 const struct model_params *p, struct b2_err *err)
{
    const struct meta *meta;
    enum b2_status rc = modelfile_open(&m->mf, path, p->log, err);

    if (rc)
        return rc; /* names the path itself */
    if (p->warm)
        modelfile_warm(m->mf);
    meta = modelfile_meta(m->mf);
    if ((rc = hparams_read(&m->hp, meta, err)) ||
        (rc = note_unknown_keys(m, p->log, err)) ||
        (rc = rotation_read(&m->rotation, meta, err)) ||
        (rc = rotation_bind(&m->rots, &m->rotation, m->mf, m->arena, err)) ||
        (rc = weights_bind(m, p->log, p->no_data, err)) || (rc = make_rope(m, err)) ||
        (rc = modelfile_fingerprint(m->mf, m->fingerprint, err)))
        goto fail;
    if (!p->no_tokenizer) {
        rc = vocab_tokenizer(&m->tok, meta, err);
        if (rc)
            goto fail;
    }
    note_no_rotation(m, p->log);
    return B2_OK;

fail:
    err_wrap(err, "%s", path);
    return rc;
}

enum b2_status model_open(struct model **out, const char *path,
                          const struct model_params *p, struct b2_err *err)
{
    static const struct model_params defaults = {0};
    struct model *m = mem_calloc(1, sizeof *m);
    enum b2_status rc;

    if (m)
        m->arena = arena_new(arena_max);
    if (!m || !m->arena) {
        model_close(m);
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    }
    rc = open_parts(m, path, p ? p : &defaults, err);
    if (rc) {
        model_close(m);
        return rc;
    }
    *out = m;
    return B2_OK;
}

void model_close(struct model *m)
{
    if (!m)
        return;
    tok_free(m->tok);
    mem_free(m->repacked);
    modelfile_close(m->mf);
    arena_free(m->arena);
    mem_free(m);
}

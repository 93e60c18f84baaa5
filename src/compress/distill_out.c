/*
 * distill_out.c - the trained numbers as bytes, and the student's file with them.
 */
#include "base/file_space.h"
#include "base/mem.h"
#include "compress/distill_int.h"
#include "compress/recipe.h"
#include "format/gguf.h"

#include <string.h>

/* Where matrix i lies in the best state; the norms lie behind all. */
static uint8_t *packed_at(const struct distill *d, int64_t i)
{
    uint8_t *p = d->best;

    for (int64_t k = 0; k < i; k++)
        if (d->s.latent[k].all)
            p += latent_packed_bytes(&d->s.latent[k]);
    return p;
}

/* Norms are few: they stay where they are. */
void distill_rest_best(const struct distill *d, uint64_t n_bytes)
{
    if (d->space)
        file_space_drop(d->space, d->best, n_bytes);
}

void distill_keep(struct distill *d)
{
    const int64_t n = d->s.net.n_layers * N_LINEARS;

    for (int64_t i = 0; i < n; i++)
        if (d->s.latent[i].all) {
            latent_pack(&d->s.latent[i], &d->env, packed_at(d, i),
                        d->s.w[i % N_LINEARS]);
            netmodel_rest(&d->s, i);
            distill_rest_best(d, (uint64_t)(packed_at(d, i + 1) - d->best));
        }
    netmodel_moved(&d->s); /* its weights were scratch */
    if (d->s.norms.n > 0)
        memcpy(packed_at(d, n), d->s.norms.p, (size_t)d->s.norms.n * sizeof(float));
}

/* Tensors of the file that get other bytes. */
struct patch {
    const struct distill *d;
    const uint8_t **bytes; /* [tensors]; NULL: as they are */
    uint64_t *n_bytes;     /* [tensors] */
    enum dtype *type;      /* [tensors] */
};

static void patch_norm(void *ctx, const char *name, int64_t at, int64_t len)
{
    struct patch *p = ctx;
    const int64_t i = modelfile_find(p->d->sm->mf, name);
    const uint8_t *norms = packed_at(p->d, p->d->s.net.n_layers * N_LINEARS);

    if (i >= 0 && p->d->s.norms.n > 0) {
        p->bytes[i] = norms + (uint64_t)at * sizeof(float);
        p->n_bytes[i] = (uint64_t)len * sizeof(float);
    }
}

static int64_t find_patches(struct patch *p)
{
    const struct distill *d = p->d;
    int64_t changed = 0;
    char name[64];

    for (int64_t l = 0; l < d->s.net.n_layers; l++) {
        for (int k = 0; k < N_LINEARS; k++) {
            const int64_t item = l * N_LINEARS + k;
            const int64_t i =
                modelfile_find(d->sm->mf, netmodel_linear_name(name, l, k));
            if (i < 0 || !d->s.latent[item].all)
                continue;
            p->bytes[i] = packed_at(d, item);
            p->n_bytes[i] = latent_packed_bytes(&d->s.latent[item]);
            p->type[i] = d->s.latent[item].type;
            changed += latent_changed(
                &d->s.latent[item], modelfile_tensor(d->sm->mf, i)->data, p->bytes[i]);
            distill_rest_best(d, (uint64_t)(packed_at(d, item + 1) - d->best));
        }
    }
    netmodel_each_norm(&d->s, patch_norm, p);
    return changed;
}

/* All keys of the student, and what was done to it. */
static enum b2_status make_meta(struct meta **out, const struct distill *d,
                                struct b2_err *err)
{
    const struct meta *from = modelfile_meta(d->sm->mf);
    struct meta *m = meta_new(SIZE_MAX);
    enum b2_status rc = m ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");

    for (int64_t i = 0; i < meta_count(from) && !rc; i++)
        rc = meta_copy(m, meta_at(from, i), err);
    if (!rc)
        rc = meta_set_str(m, "bonsai2.version", B2_VERSION, err);
    if (!rc)
        rc = meta_set_str(m, "bonsai2.distill.recipe", d->recipe.data, err);
    if (!rc)
        rc = meta_set_u64(m, "bonsai2.distill.best_step", (uint64_t)d->st.best_step,
                          err);
    if (rc)
        meta_free(m);
    else
        *out = m;
    return rc;
}

static enum b2_status put_tensors(const struct distill *d, struct gguf_out *o,
                                  const struct patch *p, struct b2_err *err)
{
    const struct modelfile *mf = d->sm->mf;
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < modelfile_n_tensors(mf) && !rc; i++) {
        const struct tensor *t = modelfile_tensor(mf, i);
        rc = gguf_out_tensor(o, t->name, p->type[i], t->rank, t->ne, err);
    }
    if (!rc)
        rc = gguf_out_header(o, err);
    for (int64_t i = 0; i < modelfile_n_tensors(mf) && !rc; i++) {
        const struct tensor *t = modelfile_tensor(mf, i);
        const uint64_t n = p->bytes[i] ? p->n_bytes[i] : t->n_bytes;
        rc = gguf_out_data(o, p->bytes[i] ? p->bytes[i] : t->data, (size_t)n, err);
        if (p->bytes[i])
            distill_rest_best(d, d->best_bytes);
    }
    return rc;
}

static enum b2_status make_patch(struct patch *p, struct b2_err *err)
{
    const struct modelfile *mf = p->d->sm->mf;
    const size_t n = (size_t)modelfile_n_tensors(mf);

    p->bytes = mem_calloc(n, sizeof *p->bytes);
    p->n_bytes = mem_calloc(n, sizeof *p->n_bytes);
    p->type = mem_calloc(n, sizeof *p->type);
    if (!p->bytes || !p->n_bytes || !p->type)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        p->type[i] = modelfile_tensor(mf, (int64_t)i)->type;
    return B2_OK;
}

enum b2_status distill_write(struct distill *d, struct b2_err *err)
{
    struct patch patch = {.d = d};
    struct meta *m = NULL;
    struct gguf_out *o = NULL;
    enum b2_status rc = make_meta(&m, d, err);

    if (rc)
        return rc;
    rc = make_patch(&patch, err);
    if (!rc && d->st.improved)
        d->r->changed = find_patches(&patch);
    if (!rc)
        rc = gguf_out_open(&o, d->p->output, true, m, err);
    if (!rc)
        rc = put_tensors(d, o, &patch, err);
    if (rc)
        gguf_out_abort(o);
    else
        rc = gguf_out_finish(o, err);
    mem_free(patch.bytes);
    mem_free(patch.n_bytes);
    mem_free(patch.type);
    meta_free(m);
    return rc;
}

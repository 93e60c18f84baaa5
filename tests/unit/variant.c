/*
 * variant.c - reads the base, writes the changed copy.
 */
#include "unit/variant.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "format/gguf.h"
#include "tensor/quant.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct copy {
    const struct variant *v;
    struct modelfile *mf;
    struct gguf_out *out;
};

static bool is(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

/* Type and shape that tensor t has in the variant. */
static void shape_of(const struct variant *v, const struct tensor *t, enum dtype *type,
                     int64_t ne[TENSOR_MAX_RANK])
{
    memcpy(ne, t->ne, sizeof t->ne);
    *type = is(v->retype, t->name) ? v->type : t->type;
    if (is(v->resize, t->name))
        ne[1] /= 2;
}

static enum b2_status declare(struct copy *c, struct b2_err *err)
{
    const struct variant *v = c->v;
    int64_t ne[TENSOR_MAX_RANK];
    enum dtype type;
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < modelfile_n_tensors(c->mf) && rc == B2_OK; i++) {
        const struct tensor *t = modelfile_tensor(c->mf, i);
        shape_of(v, t, &type, ne);
        if (!is(v->skip, t->name))
            rc = gguf_out_tensor(c->out, t->name, type, t->rank, ne, err);
    }
    if (rc == B2_OK && v->add)
        rc = gguf_out_tensor(c->out, v->add, v->type, v->add_rows > 1 ? 2 : 1,
                             (const int64_t[]){v->add_cols, v->add_rows, 1, 1}, err);
    return rc;
}

static enum b2_status put_tensor(struct copy *c, const struct tensor *t,
                                 struct b2_err *err)
{
    int64_t ne[TENSOR_MAX_RANK];
    enum dtype type;
    uint64_t row_bytes;

    shape_of(c->v, t, &type, ne);
    enum b2_status rc = dtype_row_bytes(&row_bytes, type, (uint64_t)ne[0], err);
    if (rc)
        return rc;
    float *w = mem_calloc((size_t)tensor_count(t), sizeof *w);
    uint8_t *row = mem_calloc((size_t)row_bytes, 1);
    if (!w || !row)
        rc = err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t r = 0; rc == B2_OK && r < ne[1]; r++)
        quant_decode_row(t->type, w + r * ne[0],
                         t->data + (uint64_t)r * (t->n_bytes / (uint64_t)t->ne[1]),
                         ne[0]);
    if (rc == B2_OK && c->v->values)
        c->v->values(t->name, w, ne[1], ne[0]);
    for (int64_t r = 0; rc == B2_OK && r < ne[1]; r++) {
        quant_encode_row(type, row, w + r * ne[0], ne[0]);
        rc = gguf_out_data(c->out, row, (size_t)row_bytes, err);
    }
    mem_free(w);
    mem_free(row);
    return rc;
}

static enum b2_status put_added(struct copy *c, struct b2_err *err)
{
    const struct variant *v = c->v;
    uint64_t row_bytes;
    enum b2_status rc =
        dtype_row_bytes(&row_bytes, v->type, (uint64_t)v->add_cols, err);

    if (rc)
        return rc;
    size_t n = (size_t)row_bytes * (size_t)v->add_rows;
    void *zeros = mem_calloc(n, 1);
    if (!zeros)
        return err_set(err, B2_ENOMEM, "out of memory");
    rc = gguf_out_data(c->out, v->add_data ? (const void *)v->add_data : zeros, n, err);
    mem_free(zeros);
    return rc;
}

static enum b2_status put_all(struct copy *c, struct b2_err *err)
{
    enum b2_status rc = gguf_out_header(c->out, err);

    for (int64_t i = 0; i < modelfile_n_tensors(c->mf) && rc == B2_OK; i++) {
        rc = modelfile_load(c->mf, i, err);
        const struct tensor *t = modelfile_tensor(c->mf, i);
        if (rc == B2_OK && !is(c->v->skip, t->name))
            rc = put_tensor(c, t, err);
    }
    if (rc == B2_OK && c->v->add)
        rc = put_added(c, err);
    return rc;
}

enum b2_status variant_write(const char *path, const struct variant *v,
                             struct b2_err *err)
{
    struct copy c = {.v = v};
    struct meta *meta = meta_new((size_t)1 << 24);
    enum b2_status rc = meta ? modelfile_open(&c.mf, B2_STORIES, NULL, err)
                             : err_set(err, B2_ENOMEM, "out of memory");

    for (int64_t i = 0; rc == B2_OK && i < meta_count(modelfile_meta(c.mf)); i++)
        rc = meta_copy(meta, meta_at(modelfile_meta(c.mf), i), err);
    if (rc == B2_OK && v->keys)
        rc = v->keys(meta, err);
    if (rc == B2_OK)
        rc = gguf_out_open(&c.out, path, true, meta, err);
    if (rc == B2_OK)
        rc = declare(&c, err);
    if (rc == B2_OK)
        rc = put_all(&c, err);
    if (rc == B2_OK)
        rc = gguf_out_finish(c.out, err);
    else
        gguf_out_abort(c.out);
    meta_free(meta);
    modelfile_close(c.mf);
    return rc;
}

enum b2_status variant_open(struct model **out, const struct variant *v,
                            const struct model_params *p, struct b2_err *err)
{
    char path[64];

    snprintf(path, sizeof path, "variant-%ld.gguf", (long)getpid());
    enum b2_status rc = variant_write(path, v, err);
    if (rc)
        return rc;
    rc = model_open(out, path, p, err);
    remove(path);
    return rc;
}

enum b2_status rig_open(struct rig *r, const struct model *m, int n_threads, bool exact,
                        const struct session_params *sp, struct b2_err *err)
{
    struct backend_config cfg = {.cpu = cpu_features(), .exact = exact};
    enum b2_status rc;

    *r = (struct rig){.pool = pool_new(n_threads)};
    if (!r->pool)
        return err_set(err, B2_ENOMEM, "no threads");
    cfg.pool = r->pool;
    rc = backend_cpu_new(&r->be, &cfg, err);
    if (rc == B2_OK)
        rc = session_new(&r->s, m, r->be, sp, err);
    if (rc)
        rig_close(r);
    return rc;
}

void rig_close(struct rig *r)
{
    session_free(r->s);
    backend_free(r->be);
    pool_free(r->pool);
    *r = (struct rig){0};
}

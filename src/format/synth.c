/*
 * synth.c - declares, sizes and streams a made-up model.
 */
#include "format/synth.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "format/synth_int.h"
#include "tensor/quant.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Weights are drawn and written in pieces, counted in groups so that the generator's
 * draws fall the same in every type. */
enum { PIECE_GROUPS = 2048, PIECE = PIECE_GROUPS * SYNTH_GROUP * (int)sizeof(float) };

struct synth {
    const struct synth_params *p;
    const struct synth_model *model;
    struct synth_list list;
    struct meta *meta;
    struct arena *arena;
    struct gguf_out *out;
    struct synth_groups *groups;
    uint8_t *piece;
    uint64_t done;
};

static enum b2_status unknown_name(const char *name, struct b2_err *err)
{
    struct str s = {0};
    const char *known;

    for (int i = 0; (known = synth_name_at(i)); i++)
        str_printf(&s, "%s%s", i ? ", " : "", known);
    enum b2_status rc = err_set(err, B2_EARG, "no model is called \"%.40s\"; known: %s",
                                name, str_ok(&s) ? s.data : "?");
    str_free(&s);
    return rc;
}

static enum b2_status check_params(struct synth *s, const struct synth_params *p,
                                   struct b2_err *err)
{
    s->p = p;
    s->model = synth_model_find(p->like);
    if (!s->model)
        return unknown_name(p->like, err);
    if (!synth_has_type(p->type))
        return err_set(err, B2_EARG,
                       "type %s is not made; known: F32, F16, BF16, Q4_0, Q4_1, Q5_0, "
                       "Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, TQ1_0, TQ2_0, Q2_0, PQ2_0, "
                       "PTQ1_0",
                       dtype_info(p->type)->name);
    if (p->layers < 0 || p->layers > s->model->layers)
        return err_set(err, B2_EARG, "%s has %" PRId64 " layers, not %" PRId64,
                       s->model->name, s->model->layers, p->layers);
    return B2_OK;
}

static enum dtype type_of(const struct synth *s, const struct synth_tensor *t)
{
    switch (t->kind) {
    case SYNTH_MATRIX:
        return s->p->type;
    case SYNTH_SMALL:
        return DT_BF16;
    default:
        return DT_F32;
    }
}

/* Everything up to the bytes. path NULL: only to measure. */
static enum b2_status start(struct synth *s, const char *path, struct synth_report *r,
                            struct b2_err *err)
{
    int64_t layers = s->p->layers ? s->p->layers : s->model->layers;
    enum b2_status rc;

    *r = (struct synth_report){.arch = s->model->arch,
                               .summary = s->model->summary,
                               .n_layers = layers,
                               .vocab = s->model->vocab};
    s->arena = arena_new(SIZE_MAX / 2);
    if (!s->arena)
        return err_set(err, B2_ENOMEM, "out of memory");
    rc = synth_list_make(&s->list, s->model, layers, s->arena, err);
    if (!rc)
        rc = synth_meta_make(&s->meta, s->model, &s->list, s->p, err);
    if (!rc)
        rc = gguf_out_open(&s->out, path, s->p->force, s->meta, err);
    for (int64_t i = 0; !rc && i < s->list.n; i++) {
        const struct synth_tensor *t = &s->list.t[i];
        uint64_t row = 0;
        rc = gguf_out_tensor(s->out, t->name, type_of(s, t), t->rank, t->ne, err);
        if (!rc)
            rc = dtype_row_bytes(&row, type_of(s, t), (uint64_t)t->ne[0], err);
        r->tensor_bytes += row * (uint64_t)t->ne[1];
        r->n_params += (uint64_t)(t->ne[0] * t->ne[1]);
    }
    if (rc)
        return rc;
    r->n_tensors = s->list.n;
    r->n_keys = meta_count(s->meta);
    return gguf_out_size(s->out, &r->file_bytes, err);
}

static void stop(struct synth *s)
{
    gguf_out_abort(s->out);
    synth_groups_free(s->groups);
    meta_free(s->meta);
    arena_free(s->arena);
    mem_free(s->piece);
}

enum b2_status synth_size(struct synth_report *out, const struct synth_params *p,
                          struct b2_err *err)
{
    struct synth s = {0};
    enum b2_status rc = check_params(&s, p, err);

    if (!rc)
        rc = start(&s, NULL, out, err);
    stop(&s);
    return rc;
}

/* ---- bytes ---- */

static enum b2_status put(struct synth *s, const void *data, size_t n,
                          struct b2_err *err)
{
    if (s->p->cancelled && s->p->cancelled())
        return err_set(err, B2_ECANCEL, "interrupted; nothing was written");
    s->done += n;
    progress_update(s->p->progress, s->done, 0);
    return gguf_out_data(s->out, data, n, err);
}

/* A generator of the tensor's own: its values depend on the seed and its name alone. */
static struct rng rng_of(const struct synth *s, const struct synth_tensor *t)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */

    for (const char *c = t->name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
    return rng_make(s->p->seed ^ hash);
}

static enum b2_status put_matrix(struct synth *s, const struct synth_tensor *t,
                                 struct b2_err *err)
{
    const size_t bytes = synth_groups_bytes(s->groups);
    struct rng r = rng_of(s, t);
    enum b2_status rc;

    if (t->ne[0] % SYNTH_GROUP != 0)
        return err_set(err, B2_EARG, "rows of %" PRId64 " are not groups of %d",
                       t->ne[0], SYNTH_GROUP);
    rc = synth_groups_scale(s->groups, t->scale, err);
    int64_t left = t->ne[0] / SYNTH_GROUP * t->ne[1];
    for (int64_t n; !rc && left > 0; left -= n) {
        n = min_i64(left, PIECE_GROUPS);
        synth_groups_draw(s->groups, &r, s->piece, n);
        rc = put(s, s->piece, (size_t)n * bytes, err);
    }
    return rc;
}

static float draw(const struct synth_tensor *t, struct rng *r)
{
    double step;

    switch (t->kind) {
    case SYNTH_GAIN:
        return t->scale * (1.0f + 0.1f * (float)rng_normal(r));
    case SYNTH_DECAY:
        return -(1.0f + 15.0f * (float)rng_f64(r));
    case SYNTH_STEP: /* log(e^x - 1) of x between 0.001 and 0.1, evenly in its logarithm */
        step = 0.001 * pow(100.0, rng_f64(r));
        return (float)log(expm1(step));
    default:
        return t->scale * (float)rng_normal(r);
    }
}

static enum b2_status put_floats(struct synth *s, const struct synth_tensor *t,
                                 struct b2_err *err)
{
    const enum dtype type = type_of(s, t);
    const int64_t most = PIECE / 4;
    struct rng r = rng_of(s, t);
    enum b2_status rc = B2_OK;
    float *v = mem_calloc((size_t)most, sizeof *v);

    if (!v)
        return err_set(err, B2_ENOMEM, "out of memory");
    int64_t left = t->ne[0] * t->ne[1];
    for (int64_t n; !rc && left > 0; left -= n) {
        n = min_i64(left, most);
        for (int64_t i = 0; i < n; i++)
            v[i] = draw(t, &r);
        quant_encode_row(type, s->piece, v, n);
        rc = put(s, s->piece, (size_t)n * (size_t)dtype_info(type)->bytes, err);
    }
    mem_free(v);
    return rc;
}

static enum b2_status check_disk(const char *path, uint64_t need, struct b2_err *err)
{
    uint64_t left;
    enum b2_status rc = file_disk_free(&left, path, err);

    if (!rc && need > left)
        rc = err_set(err, B2_EIO,
                     "%s needs %" PRIu64 " bytes, the disk has %" PRIu64 " left", path,
                     need, left);
    return rc;
}

static enum b2_status put_all(struct synth *s, struct b2_err *err)
{
    enum b2_status rc = gguf_out_header(s->out, err);

    for (int64_t i = 0; !rc && i < s->list.n; i++) {
        const struct synth_tensor *t = &s->list.t[i];
        rc = t->kind == SYNTH_MATRIX ? put_matrix(s, t, err) : put_floats(s, t, err);
        if (rc && rc != B2_ECANCEL)
            err_wrap(err, "tensor %s", t->name);
    }
    return rc;
}

enum b2_status synth_write(const char *path, struct synth_report *out,
                           const struct synth_params *p, struct b2_err *err)
{
    struct synth s = {0};
    enum b2_status rc = check_params(&s, p, err);

    if (!rc)
        rc = start(&s, path, out, err);
    if (!rc)
        rc = check_disk(path, out->file_bytes, err);
    if (!rc)
        rc = synth_groups_new(&s.groups, p->type, p->seed, err);
    if (!rc && !(s.piece = mem_calloc(PIECE, 1)))
        rc = err_set(err, B2_ENOMEM, "out of memory");
    if (!rc)
        rc = put_all(&s, err);
    if (!rc) {
        struct gguf_out *done = s.out;
        s.out = NULL; /* finish frees it in every case */
        rc = gguf_out_finish(done, err);
    }
    stop(&s);
    return rc;
}

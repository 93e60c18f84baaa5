/*
 * analyze_measure.c - a probe goes on from each layer to the end, many times at once, each
 * time with something else changed in that layer.
 */
#include "compress/analyze_int.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Changed models of a layer besides those without a head. */
enum {
    V_PART = 0,
    V_ALL = N_PARTS,
    V_SKIP,
    V_NO_ATTN,
    V_NO_FFN,
    V_PRUNE,
    V_HEAD = V_PRUNE + SENS_SHARES
};

struct measuring {
    struct analyze *a;
    int64_t n; /* tokens of the probe */
    struct probe probe;
    float *teacher, *student;   /* [n, D] streams at the layer at hand */
    float *changed;             /* [variants, n, D] */
    struct walk_edit *edit;     /* [variants] */
    double *kld;                /* [variants] */
    float *pruned[SENS_SHARES]; /* down without some columns */
    struct walk_weights other;  /* of the layers behind */
    double kld_all;
};

static int64_t most_variants(const struct analyze *a)
{
    return V_HEAD + a->m->hp.n_heads;
}

static int64_t scored(const struct analyze *a)
{
    return max_i64(1, a->p->probe_tokens / 2);
}

uint64_t analyze_measure_bytes(const struct analyze *a)
{
    const int threads = a->p->pool ? pool_threads(a->p->pool) : 1;
    const uint64_t v = (uint64_t)most_variants(a);
    const uint64_t stream = (uint64_t)(a->p->probe_tokens * a->m->hp.d) * 4;

    return (v + 2) * stream + walk_weights_bytes(a->m) +
           (uint64_t)(SENS_SHARES * a->m->hp.d * a->m->hp.f) * 4 +
           probe_bytes(a->m, scored(a), (int64_t)v, threads);
}

/* ---- what is changed ---- */

struct ranked {
    float cost;
    int32_t at;
};

static int by_cost(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;

    if (a->cost != b->cost)
        return a->cost < b->cost ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

/* Copies of down without its cheapest columns. */
static enum b2_status make_pruned(struct measuring *k, int64_t layer,
                                  struct b2_err *err)
{
    const struct sens_layer *l = &k->a->s->layer[layer];
    const int64_t d = k->a->m->hp.d, f = l->f;
    struct ranked *order = mem_calloc((size_t)f, sizeof *order);

    if (!order)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < f; i++)
        order[i] = (struct ranked){l->neuron[i], (int32_t)i};
    qsort(order, (size_t)f, sizeof *order, by_cost);
    for (int s = 0; s < SENS_SHARES; s++) {
        float *w = k->pruned[s];
        const int64_t gone = (int64_t)(sens_share[s] * (double)f);
        memcpy(w, k->a->teacher.w[PART_DOWN], (size_t)(d * f) * sizeof *w);
        for (int64_t i = 0; i < gone; i++)
            for (int64_t r = 0; r < d; r++)
                w[r * f + order[i].at] = 0.0f;
    }
    mem_free(order);
    return B2_OK;
}

/* The edits of a layer; returns how many there are. */
static int64_t make_edits(struct measuring *k, int64_t layer)
{
    struct analyze *a = k->a;
    const int64_t heads = hparams_heads(&a->m->hp, layer);
    struct walk_edit *e = k->edit;

    memset(e, 0, (size_t)(V_HEAD + heads) * sizeof *e);
    for (int part = 0; part < N_PARTS; part++)
        e[V_PART + part].w[part] = e[V_ALL].w[part] = a->student.w[part];
    e[V_SKIP].no_attn = e[V_SKIP].no_ffn = true;
    e[V_NO_ATTN].no_attn = true;
    e[V_NO_FFN].no_ffn = true;
    for (int s = 0; s < SENS_SHARES; s++)
        e[V_PRUNE + s].w[PART_DOWN] = k->pruned[s];
    for (int64_t h = 0; h < heads; h++) {
        e[V_HEAD + h].head_begin = h;
        e[V_HEAD + h].head_end = h + 1;
    }
    return V_HEAD + heads;
}

/* n_variants copies of a stream through the layer as the edits have it, and on to the
 * end: through the model's own layers, or the compressed ones. */
static enum b2_status go_to_end(struct measuring *k, int64_t layer, const float *from,
                                int64_t n_variants, bool compressed, struct b2_err *err)
{
    struct analyze *a = k->a;
    const int64_t size = k->n * a->m->hp.d;
    struct walk_pass pass = {.layer = layer,
                             .weights = compressed ? &a->student : &a->teacher,
                             .x = k->changed,
                             .n_seqs = n_variants,
                             .n = k->n,
                             .edit = k->edit};
    enum b2_status rc = B2_OK;

    for (int64_t v = 0; v < n_variants; v++)
        memcpy(k->changed + v * size, from, (size_t)size * sizeof *from);
    walk_layer(a->walk, &pass);
    /* analyze_student() decodes into a->student: the layer's own weights, which the
     * edits point to, are not needed any more. */
    struct walk_weights own = a->student;
    a->student = k->other;
    pass.edit = NULL;
    pass.weights = &a->student;
    for (int64_t i = layer + 1; i < a->s->n_layers && !rc; i++) {
        rc = analyze_go_on(a, err);
        if (!rc)
            rc = compressed ? analyze_student(a, i, err)
                            : walk_decode(a->walk, &a->student, i, err);
        pass.layer = i;
        if (!rc)
            walk_layer(a->walk, &pass);
    }
    a->student = own;
    if (!rc)
        probe_kld(&k->probe, k->kld, k->changed, n_variants);
    return rc;
}

/* The tensors of the compressed model, one at a time the model's own. */
static enum b2_status restore_each(struct measuring *k, int64_t layer,
                                   struct analyze_measured *found, struct b2_err *err)
{
    struct analyze *a = k->a;

    memset(k->edit, 0, N_PARTS * sizeof *k->edit);
    for (int part = 0; part < N_PARTS; part++)
        k->edit[part].w[part] = a->teacher.w[part];
    enum b2_status rc = go_to_end(k, layer, k->student, N_PARTS, true, err);
    for (int part = 0; part < N_PARTS && !rc; part++)
        found->restore[part] = k->kld_all - k->kld[part];
    return rc;
}

static enum b2_status measure_layer(struct measuring *k, int64_t layer,
                                    struct analyze_measured *found, double *head,
                                    struct b2_err *err)
{
    struct analyze *a = k->a;
    enum b2_status rc = make_pruned(k, layer, err);

    if (!rc)
        rc = go_to_end(k, layer, k->teacher, make_edits(k, layer), false, err);
    if (rc)
        return rc;
    *found = (struct analyze_measured){.skip = k->kld[V_SKIP],
                                       .no_attn = k->kld[V_NO_ATTN],
                                       .no_ffn = k->kld[V_NO_FFN],
                                       .damage = k->kld[V_ALL],
                                       .kld_all = k->kld_all};
    memcpy(found->tensor, k->kld + V_PART, sizeof found->tensor);
    memcpy(found->prune_kld, k->kld + V_PRUNE, sizeof found->prune_kld);
    memcpy(head, k->kld + V_HEAD,
           (size_t)hparams_heads(&a->m->hp, layer) * sizeof *head);
    rc = restore_each(k, layer, found, err);
    for (int part = 0; part < N_PARTS; part++)
        if (!analyze_fits(a, layer, (enum stream_part)part))
            found->tensor[part] = found->restore[part] = (double)NAN;
    return rc;
}

/* ---- pieces ---- */

static uint64_t payload_of(const struct analyze *a, int64_t layer)
{
    return sizeof(struct analyze_measured) +
           (uint64_t)hparams_heads(&a->m->hp, layer) * sizeof(double);
}

static enum b2_status save(const struct analyze *a, int64_t layer,
                           const struct analyze_measured *found, const double *head,
                           struct b2_err *err)
{
    const int64_t heads = hparams_heads(&a->m->hp, layer);
    enum b2_status rc = work_piece_begin(a->work, a->s->n_layers + layer, err);

    if (!rc)
        rc = work_piece_data(a->work, found, sizeof *found, err);
    if (!rc)
        rc = work_piece_data(a->work, head, (size_t)heads * sizeof *head, err);
    return rc ? rc : work_piece_end(a->work, NULL, 0, err);
}

static enum b2_status take(struct analyze *a, int64_t layer, struct b2_err *err)
{
    struct sens_layer *to = &a->s->layer[layer];
    struct file_map map = {0};
    struct analyze_measured found;
    enum b2_status rc = work_piece_map(a->work, a->s->n_layers + layer,
                                       payload_of(a, layer), &map, err);

    if (rc)
        return rc;
    memcpy(&found, map.data, sizeof found);
    memcpy(to->head, map.data + sizeof found, (size_t)to->heads * sizeof *to->head);
    file_unmap(&map);
    to->skip = found.skip;
    to->no_attn = found.no_attn;
    to->no_ffn = found.no_ffn;
    to->damage = found.damage;
    memcpy(to->prune_kld, found.prune_kld, sizeof to->prune_kld);
    for (int part = 0; part < N_PARTS; part++) {
        to->tensor[part].damage = found.tensor[part];
        to->tensor[part].restore = found.restore[part];
    }
    a->s->kld_all = found.kld_all;
    return B2_OK;
}

/* ---- all layers ---- */

static enum b2_status make_measuring(struct measuring *k, struct b2_err *err)
{
    struct analyze *a = k->a;
    const size_t v = (size_t)most_variants(a);
    const size_t stream = (size_t)(k->n * a->m->hp.d);
    bool have = walk_weights_new(&k->other, a->m);

    k->teacher = mem_calloc(stream, sizeof(float));
    k->student = mem_calloc(stream, sizeof(float));
    k->changed = mem_calloc(stream * v, sizeof(float));
    k->edit = mem_calloc(v, sizeof *k->edit);
    k->kld = mem_calloc(v, sizeof *k->kld);
    have = have && k->teacher && k->student && k->changed && k->edit && k->kld;
    for (int s = 0; s < SENS_SHARES; s++) {
        k->pruned[s] = mem_calloc((size_t)(a->m->hp.d * a->m->hp.f), sizeof(float));
        have = have && k->pruned[s];
    }
    if (!have)
        return err_set(err, B2_ENOMEM, "out of memory for the probe");
    return probe_new(&k->probe, a->m, a->blas, a->p->pool, k->n, scored(a), (int64_t)v,
                     err);
}

static void free_measuring(struct measuring *k)
{
    walk_weights_free(&k->other);
    probe_free(&k->probe);
    mem_free(k->teacher);
    mem_free(k->student);
    mem_free(k->changed);
    mem_free(k->edit);
    mem_free(k->kld);
    for (int s = 0; s < SENS_SHARES; s++)
        mem_free(k->pruned[s]);
}

static void embed_probe(struct measuring *k)
{
    const struct calib *c = &k->a->calib;
    const int32_t *ids = c->ids + k->a->n_calib * c->ctx;

    walk_embed(k->a->walk, k->teacher, ids, 1, k->n);
    memcpy(k->student, k->teacher, (size_t)(k->n * k->a->m->hp.d) * sizeof *k->teacher);
}

/* Both streams past the layer whose weights are at hand. */
static void walk_both(struct measuring *k, int64_t layer)
{
    struct analyze *a = k->a;
    struct walk_pass pass = {.layer = layer,
                             .weights = &a->teacher,
                             .x = k->teacher,
                             .n_seqs = 1,
                             .n = k->n};

    walk_layer(a->walk, &pass);
    pass.weights = &a->student;
    pass.x = k->student;
    walk_layer(a->walk, &pass);
}

static enum b2_status both_weights(struct analyze *a, int64_t layer, struct b2_err *err)
{
    enum b2_status rc = walk_decode(a->walk, &a->teacher, layer, err);

    return rc ? rc : analyze_student(a, layer, err);
}

/* What the teacher and the wholly compressed model say in the end. */
static enum b2_status measure_ends(struct measuring *k, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    embed_probe(k);
    for (int64_t i = 0; i < k->a->s->n_layers && !rc; i++) {
        rc = both_weights(k->a, i, err);
        if (!rc)
            walk_both(k, i);
    }
    if (rc)
        return rc;
    probe_teacher(&k->probe, k->teacher);
    probe_kld(&k->probe, &k->kld_all, k->student, 1);
    embed_probe(k);
    return B2_OK;
}

static enum b2_status measure_one(struct measuring *k, int64_t layer, bool have,
                                  struct b2_err *err)
{
    struct analyze *a = k->a;
    struct analyze_measured found;
    double *head = mem_calloc((size_t)a->m->hp.n_heads, sizeof *head);

    if (!head)
        return err_set(err, B2_ENOMEM, "out of memory");
    enum b2_status rc = both_weights(a, layer, err);
    if (!rc && !have)
        rc = measure_layer(k, layer, &found, head, err);
    if (!rc && !have)
        rc = save(a, layer, &found, head, err);
    if (!rc)
        walk_both(k, layer);
    mem_free(head);
    return rc;
}

/* A layer costs as many steps as there are layers from it to the end. */
static uint64_t steps_until(const struct analyze *a, int64_t layer)
{
    const uint64_t n = (uint64_t)a->s->n_layers, i = (uint64_t)layer;

    return i * n - i * (i - 1) / 2;
}

enum b2_status analyze_measure_all(struct analyze *a, struct b2_err *err)
{
    struct measuring k = {.a = a, .n = a->p->probe_tokens};
    const int64_t n = a->s->n_layers;
    int64_t last = -1;
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < n; i++)
        if (!work_have_piece(a->work, n + i, NULL, 0, payload_of(a, i)))
            last = i;
    if (last >= 0)
        rc = make_measuring(&k, err);
    if (!rc && last >= 0)
        rc = measure_ends(&k, err);
    double start_s = clock_s();
    uint64_t made = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        const bool have = work_have_piece(a->work, n + i, NULL, 0, payload_of(a, i));
        if (i <= last)
            rc = measure_one(&k, i, have, err);
        if (!rc)
            rc = take(a, i, err);
        if (!rc && !have) {
            made += steps_until(a, i + 1) - steps_until(a, i);
            const double left = (clock_s() - start_s) / (double)made *
                                (double)(steps_until(a, n) - steps_until(a, i + 1));
            log_line(a->p->log, LOG_INFO,
                     "layer %lld of %lld: kld %.4f without it, %.4f with all of it "
                     "compressed; %.0f s left",
                     (long long)i + 1, (long long)n, a->s->layer[i].skip,
                     a->s->layer[i].damage, left);
        }
        progress_update(a->p->progress, steps_until(a, i + 1), 0.0);
    }
    free_measuring(&k);
    return rc;
}
